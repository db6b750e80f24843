//! The two halves of an object: what users desire and what is observed. Each address writes only its own half.

use meta::ObjectExt;
use serde_json::Value;

use crate::UpdateOf;

/// Clients cannot create an object with a status.
pub fn drop_status(new: &mut Value) {
    new.remove(&["status"]);
}

/// On the object's own address the status stays what it was; on `status` everything but status and metadata does.
pub fn keep_other_half(new: &mut Value, old: &Value, what: UpdateOf) {
    match what {
        UpdateOf::Main => restore(new, old, "status"),
        UpdateOf::Status => keep_all_but(new, old, "status"),
        UpdateOf::Other(_) => {}
    }
}

/// Every top-level field but `half` and the metadata becomes what it was.
pub fn keep_all_but(new: &mut Value, old: &Value, half: &str) {
    let Some(fields) = new.as_object_mut() else { return };
    fields.retain(|name, _| is_written(name, half));
    for (name, value) in old.as_object().into_iter().flatten() {
        if !is_written(name, half) {
            fields.insert(name.clone(), value.clone());
        }
    }
}

/// One top-level field becomes what it was, absent included.
pub fn restore(new: &mut Value, old: &Value, field: &str) {
    match old.get(field) {
        Some(value) => new.put(&[field], value.clone()),
        None => {
            new.remove(&[field]);
        }
    }
}

/// Fields of the metadata become what they were, absent included.
pub fn restore_metadata(new: &mut Value, old: &Value, fields: &[&str]) {
    for field in fields {
        match old.at(&["metadata", field]) {
            Some(value) => new.put(&["metadata", field], value.clone()),
            None => {
                new.remove(&["metadata", field]);
            }
        }
    }
}

fn is_written(name: &str, half: &str) -> bool {
    name == half || matches!(name, "apiVersion" | "kind" | "metadata")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_address_writes_its_half() {
        let old = json!({"metadata": {"name": "a"}, "spec": 1, "status": 1});
        let check = |what, expected: Value| {
            let mut new = json!({"metadata": {"name": "b"}, "spec": 2, "status": 2, "extra": 2});
            keep_other_half(&mut new, &old, what);
            assert_eq!(new, expected);
        };
        check(UpdateOf::Main, json!({"metadata": {"name": "b"}, "spec": 2, "status": 1, "extra": 2}));
        check(UpdateOf::Status, json!({"metadata": {"name": "b"}, "spec": 1, "status": 2}));
    }
}
