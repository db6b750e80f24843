//! Objects as they are stored: canonical JSON (keys sorted) with a gap for the revision.

use bytes::Bytes;
use serde_json::{Map, Value};

/// Encodes an object for the store. The number is where the store writes the revision: inside the quotes of
/// `metadata.resourceVersion`, so that stored bytes go to clients as they are.
pub fn encode(object: &Value) -> (Bytes, u32) {
    let mut out = Vec::with_capacity(1_024);
    let mut stamp_at = 0;
    let empty = Map::new();
    write_map(&mut out, object.as_object().unwrap_or(&empty), |out, key, value| {
        if key != "metadata" {
            return write_value(out, value);
        }
        let mut metadata = value.as_object().cloned().unwrap_or_default();
        metadata.insert("resourceVersion".to_owned(), Value::Null);
        write_map(out, &metadata, |out, key, value| {
            if key != "resourceVersion" {
                return write_value(out, value);
            }
            out.push(b'"');
            stamp_at = u32::try_from(out.len()).unwrap_or(u32::MAX);
            out.push(b'"');
        });
    });
    (out.into(), stamp_at)
}

fn write_map(out: &mut Vec<u8>, map: &Map<String, Value>, mut write: impl FnMut(&mut Vec<u8>, &str, &Value)) {
    out.push(b'{');
    for (at, (key, value)) in map.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write_value(out, &Value::String(key.clone()));
        out.push(b':');
        write(out, key, value);
    }
    out.push(b'}');
}

fn write_value(out: &mut Vec<u8>, value: &Value) {
    // Writing JSON values to memory cannot fail: keys are text and there is no I/O.
    let _ = serde_json::to_writer(out, value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_gap_is_inside_the_quotes() {
        let object = json!({"kind": "ConfigMap", "metadata": {"name": "a", "uid": "u", "resourceVersion": "old"}});
        let (bytes, at) = encode(&object);
        let text = String::from_utf8(bytes.to_vec()).expect("text");
        let stamped = format!("{}{}{}", &text[..at as usize], 42, &text[at as usize..]);
        assert_eq!(stamped, r#"{"kind":"ConfigMap","metadata":{"name":"a","resourceVersion":"42","uid":"u"}}"#);
    }
}
