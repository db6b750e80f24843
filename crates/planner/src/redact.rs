//! Keeps secrets out of everything that a plan says, whatever the path they take.

use kinds::KindDef;
use meta::ObjectExt;
use serde_json::Value;

/// What stands in the place of a secret.
pub(crate) const SENSITIVE: &str = "(sensitive value)";
/// Shorter values are not looked for in sentences: they would be found everywhere.
const VALUE_BYTES_MIN: usize = 4;
/// The last applied manifest repeats the object, secrets included.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Whether a field may be shown.
pub(crate) fn is_secret(kind: &KindDef, path: &str) -> bool {
    let is_below = |secret: &&str| path == *secret || path.strip_prefix(*secret).is_some_and(is_step);
    kind.secret_fields.iter().any(is_below) || path.contains(LAST_APPLIED)
}

fn is_step(rest: &str) -> bool {
    rest.starts_with(['.', '['])
}

/// An object that holds nothing to be shown to nobody.
pub(crate) fn object(kind: &KindDef, mut object: Value) -> Value {
    for path in &kind.secret_fields {
        let path: Vec<&str> = path.split('.').collect();
        match object.at(&path) {
            None => {}
            Some(Value::Object(map)) => {
                let hidden: serde_json::Map<String, Value> =
                    map.keys().map(|key| (key.clone(), SENSITIVE.into())).collect();
                object.put(&path, hidden);
            }
            Some(_) => object.put(&path, SENSITIVE),
        }
    }
    if object.annotation(LAST_APPLIED).is_some() {
        object.put(&["metadata", "annotations", LAST_APPLIED], SENSITIVE);
    }
    object
}

/// A sentence about an object, without the secrets that the object holds.
pub(crate) fn sentence(kind: &KindDef, object: &Value, mut text: String) -> String {
    for path in &kind.secret_fields {
        let path: Vec<&str> = path.split('.').collect();
        for value in object.map(&path).into_iter().flatten().filter_map(|(_, value)| value.as_str()) {
            if value.len() >= VALUE_BYTES_MIN && text.contains(value) {
                text = text.replace(value, SENSITIVE);
            }
        }
    }
    text
}
