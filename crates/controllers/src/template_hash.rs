//! The hash that tells pod templates apart by name: eight to ten letters, as users know them from
//! `web-7c5ddbdf54`.
//!
//! It names, it does not compare: whether two templates are the same is asked of the templates. So it need not agree
//! with upstream's (a hash of Go's memory layout), only look like it and never change for the same JSON.

use serde_json::Value;

/// Upstream's alphabet of names: no vowels, no look-alikes.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The hash of a template (or of any JSON), salted with the count of collisions so far.
pub(crate) fn template_hash(template: &Value, collisions: i64) -> String {
    let mut hash = Fnv(0x811c_9dc5);
    hash.value(template);
    if collisions != 0 {
        hash.bytes(&collisions.to_le_bytes());
    }
    hash.0.to_string().bytes().map(|digit| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()])).collect()
}

/// FNV-1a, 32 bits, of JSON whose keys are taken in order and whose nulls count as absent.
struct Fnv(u32);

impl Fnv {
    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        }
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Object(map) => {
                let mut fields: Vec<_> = map.iter().filter(|(_, value)| !value.is_null()).collect();
                fields.sort_by_key(|(name, _)| *name);
                self.bytes(b"{");
                for (name, value) in fields {
                    self.bytes(name.as_bytes());
                    self.bytes(b":");
                    self.value(value);
                }
                self.bytes(b"}");
            }
            Value::Array(items) => {
                self.bytes(b"[");
                items.iter().for_each(|item| self.value(item));
                self.bytes(b"]");
            }
            // The quotes keep "1" and 1 apart.
            scalar => self.bytes(scalar.to_string().as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_same_template_has_the_same_hash_for_ever() {
        // Names in users' clusters depend on it: this literal never changes.
        let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "a"}]}});
        assert_eq!(template_hash(&template, 0), "6c545c848c");
        let with_null =
            json!({"spec": {"containers": [{"name": "a", "x": null}]}, "metadata": {"labels": {"app": "web"}}});
        assert_eq!(template_hash(&with_null, 0), template_hash(&template, 0));
    }

    #[test]
    fn other_templates_and_counts_have_other_hashes() {
        let a = json!({"spec": {"a": "1"}});
        assert_ne!(template_hash(&a, 0), template_hash(&json!({"spec": {"a": 1}}), 0));
        assert_ne!(template_hash(&a, 0), template_hash(&a, 1));
    }
}
