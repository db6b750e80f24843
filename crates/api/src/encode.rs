//! Objects as they are stored: canonical JSON (keys sorted) with a gap for the revision.

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value};

/// Encodes an object for the store. The number is where the store writes the revision: inside the quotes of
/// `metadata.resourceVersion`, so that stored bytes go to clients as they are.
pub fn encode(object: &Value) -> (Bytes, u32) {
    let mut out = Vec::with_capacity(2_048);
    let mut stamp_at = 0;
    let empty = Map::new();
    out.push(b'{');
    for (key, value) in object.as_object().unwrap_or(&empty) {
        write_key(&mut out, key);
        match (key.as_str(), value) {
            ("metadata", Value::Object(metadata)) => stamp_at = write_metadata(&mut out, metadata),
            _ => write_json(&mut out, value),
        }
    }
    out.push(b'}');
    (out.into(), u32::try_from(stamp_at).unwrap_or(u32::MAX))
}

/// Writes the metadata with the gap in the place that sorting gives it, and returns where the gap is.
fn write_metadata(out: &mut Vec<u8>, metadata: &Map<String, Value>) -> usize {
    const STAMPED: &str = "resourceVersion";
    let mut stamp_at = None;
    out.push(b'{');
    for (key, value) in metadata.iter().filter(|(key, _)| *key != STAMPED) {
        if stamp_at.is_none() && key.as_str() > STAMPED {
            stamp_at = Some(write_gap(out, STAMPED));
        }
        write_key(out, key);
        write_json(out, value);
    }
    let stamp_at = stamp_at.unwrap_or_else(|| write_gap(out, STAMPED));
    out.push(b'}');
    stamp_at
}

fn write_gap(out: &mut Vec<u8>, key: &str) -> usize {
    write_key(out, key);
    out.extend_from_slice(b"\"\"");
    out.len() - 1
}

/// Writes a key with its colon, behind a comma unless the map has just begun.
fn write_key(out: &mut Vec<u8>, key: &str) {
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
    write_json(out, key);
    out.push(b':');
}

fn write_json<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
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

    #[test]
    fn the_gap_is_where_sorting_puts_it() {
        let check = |metadata: Value, expected: &str| {
            let (bytes, at) = encode(&json!({"metadata": metadata}));
            assert_eq!((&bytes[..], &bytes[at as usize..=at as usize]), (expected.as_bytes(), &b"\""[..]));
        };
        check(json!({}), r#"{"metadata":{"resourceVersion":""}}"#);
        check(json!({"uid": "u"}), r#"{"metadata":{"resourceVersion":"","uid":"u"}}"#);
        check(json!({"labels": {"{": "}"}}), r#"{"metadata":{"labels":{"{":"}"},"resourceVersion":""}}"#);
    }
}
