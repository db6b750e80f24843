//! Reading and writing an object's metadata in its JSON tree.

use serde_json::{Map, Value};

use crate::{GroupVersion, Gvk, Time};

/// Accessors on an object's tree. Absent or mistyped fields read as empty: decoding against the schema has
/// already refused wrong types, so an accessor needs no error.
pub trait ObjectExt {
    /// The value under a chain of field names.
    fn at(&self, path: &[&str]) -> Option<&Value>;
    /// Text under a chain of field names; empty when absent.
    fn text(&self, path: &[&str]) -> &str;
    /// A whole number under a chain of field names.
    fn int(&self, path: &[&str]) -> Option<i64>;
    /// A boolean under a chain of field names; false when absent.
    fn flag(&self, path: &[&str]) -> bool;
    /// The items of a list under a chain of field names; empty when absent.
    fn items(&self, path: &[&str]) -> &[Value];
    /// The entries of a map under a chain of field names.
    fn map(&self, path: &[&str]) -> Option<&Map<String, Value>>;
    /// The map under a chain of field names, made where absent (what stands in the way is replaced).
    fn map_mut(&mut self, path: &[&str]) -> &mut Map<String, Value>;
    /// Removes and returns the value under a chain of field names; the maps around it stay.
    fn remove(&mut self, path: &[&str]) -> Option<Value>;
    /// Sets the value under a chain of field names, making the maps on the way.
    fn put(&mut self, path: &[&str], value: impl Into<Value>);

    /// `apiVersion` and `kind`; `None` when either is missing or malformed.
    fn gvk(&self) -> Option<Gvk> {
        let GroupVersion { group, version } = GroupVersion::parse(self.text(&["apiVersion"]))?;
        let kind = self.text(&["kind"]);
        if kind.is_empty() { None } else { Some(Gvk::new(group, version, kind)) }
    }
    /// `metadata.name`.
    fn name(&self) -> &str {
        self.text(&["metadata", "name"])
    }
    /// `metadata.namespace`; empty for cluster-scoped objects.
    fn namespace(&self) -> &str {
        self.text(&["metadata", "namespace"])
    }
    /// `metadata.uid`.
    fn uid(&self) -> &str {
        self.text(&["metadata", "uid"])
    }
    /// `metadata.generation`; 0 when absent.
    fn generation(&self) -> i64 {
        self.int(&["metadata", "generation"]).unwrap_or(0)
    }
    /// One label.
    fn label(&self, key: &str) -> Option<&str> {
        self.at(&["metadata", "labels", key]).and_then(Value::as_str)
    }
    /// One annotation.
    fn annotation(&self, key: &str) -> Option<&str> {
        self.at(&["metadata", "annotations", key]).and_then(Value::as_str)
    }
    /// `metadata.deletionTimestamp`.
    fn deletion_timestamp(&self) -> Option<Time> {
        Time::parse(self.text(&["metadata", "deletionTimestamp"]))
    }
    /// Whether deletion has begun.
    fn is_deleting(&self) -> bool {
        self.at(&["metadata", "deletionTimestamp"]).is_some_and(|v| !v.is_null())
    }
    /// `metadata.finalizers`.
    fn finalizers(&self) -> impl Iterator<Item = &str> {
        self.items(&["metadata", "finalizers"]).iter().filter_map(Value::as_str)
    }
    /// `metadata.ownerReferences`.
    fn owner_references(&self) -> &[Value] {
        self.items(&["metadata", "ownerReferences"])
    }
    /// The owner reference with `controller: true`.
    fn controller_ref(&self) -> Option<&Value> {
        self.owner_references().iter().find(|r| r.flag(&["controller"]))
    }
}

impl ObjectExt for Value {
    fn at(&self, path: &[&str]) -> Option<&Value> {
        path.iter().try_fold(self, |value, step| value.get(*step))
    }

    fn text(&self, path: &[&str]) -> &str {
        self.at(path).and_then(Value::as_str).unwrap_or("")
    }

    fn int(&self, path: &[&str]) -> Option<i64> {
        self.at(path).and_then(Value::as_i64)
    }

    fn flag(&self, path: &[&str]) -> bool {
        self.at(path).and_then(Value::as_bool).unwrap_or(false)
    }

    fn items(&self, path: &[&str]) -> &[Value] {
        self.at(path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    fn map(&self, path: &[&str]) -> Option<&Map<String, Value>> {
        self.at(path).and_then(Value::as_object)
    }

    fn map_mut(&mut self, path: &[&str]) -> &mut Map<String, Value> {
        let mut map = as_map(self);
        for step in path {
            map = as_map(map.entry(*step).or_insert(Value::Null));
        }
        map
    }

    fn remove(&mut self, path: &[&str]) -> Option<Value> {
        let (last, parents) = path.split_last()?;
        let parent = parents.iter().try_fold(self, |value, step| value.get_mut(*step))?;
        parent.as_object_mut()?.remove(*last)
    }

    fn put(&mut self, path: &[&str], value: impl Into<Value>) {
        if let Some((last, parents)) = path.split_last() {
            self.map_mut(parents).insert((*last).to_owned(), value.into());
        }
    }
}

fn as_map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("made an object above"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reads_and_writes_chains() {
        let mut object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}});
        assert_eq!(object.gvk(), Some(Gvk::new("apps", "v1", "Deployment")));
        object.put(&["spec", "replicas"], 3);
        assert_eq!(object.int(&["spec", "replicas"]), Some(3));
        assert_eq!(object.remove(&["spec", "replicas"]), Some(json!(3)));
        assert_eq!(object.at(&["spec"]), Some(&json!({})));
        assert_eq!(object.text(&["spec", "absent"]), "");
    }
}
