//! Reading what is stored: objects that were accepted once are readable ever after, however deep they are nested.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// Deepest nesting of an object, its owners' sets included: what is stored can be sent back. Upstream accepts 10,000,
/// but objects are walked, cloned, printed and dropped by recursion; 500 levels of the fattest of these walks fit a
/// thread's 2 MiB ten times over, and no object of any known kind is nested a fifth as deep.
pub const DEPTH_MAX: usize = 500;

/// Reads an object, or a projection of one, from stored bytes. `serde_json` alone stops at 128 levels; here the limit
/// was applied when the bytes were written.
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> serde_json::Result<T> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    reader.disable_recursion_limit();
    let read = T::deserialize(&mut reader)?;
    reader.end()?;
    Ok(read)
}

/// Whether a tree is nested at most `levels` deep.
pub fn is_within(tree: &Value, levels: usize) -> bool {
    let below = |item: &Value| levels > 0 && is_within(item, levels - 1);
    match tree {
        Value::Array(items) => levels > 0 && items.iter().all(below),
        Value::Object(map) => levels > 0 && map.values().all(below),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_deep_is_read_whole() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        let tree: Value = read(nested(DEPTH_MAX).as_bytes()).expect("readable");
        assert!(is_within(&tree, DEPTH_MAX) && !is_within(&tree, DEPTH_MAX - 1));
        assert!(read::<Value>(b"{} {}").is_err(), "one document");
        assert!(is_within(&Value::Null, 0));
    }
}
