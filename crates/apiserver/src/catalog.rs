//! The kinds served follow the CustomResourceDefinitions stored.

use api::DEFINITIONS;
use kinds::Catalog;
use store::Snapshot;

/// The definitions that a catalog was read from.
pub struct Source(Snapshot);

impl Source {
    /// The definitions of a state. The rest of the state is not kept.
    pub fn of(snapshot: &Snapshot) -> Source {
        Source(snapshot.only(DEFINITIONS))
    }

    /// Whether a catalog read from this is still what `snapshot` declares. O(1): every request asks, so that whoever
    /// has seen that a definition is established finds it served.
    pub fn is_current(&self, snapshot: &Snapshot) -> bool {
        self.0.is_same_collection(snapshot, DEFINITIONS)
    }

    /// The built-in kinds and those that established definitions declare.
    pub fn read(&self) -> Catalog {
        api::served(&Catalog::built_in(), &self.0)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use store::{Mem, Op, Store, Txn};

    use super::*;

    fn put(store: &Mem, collection: &str, item: &str, value: &serde_json::Value) {
        let value = value.to_string().into();
        let key = store::Key::new(collection, item);
        let op = Op::Put { key, value, annex: Default::default(), stamp_at: None, keyspace: store::Keyspace::Durable };
        store.submit(Txn { preconditions: Vec::new(), ops: vec![op] }, Box::new(|done| drop(done.expect("commits"))));
    }

    #[test]
    fn a_catalog_is_current_until_definitions_change() {
        let store = Mem::default();
        put(&store, "configmaps", "a/b", &json!({}));
        let before = Source::of(&store.snapshot());
        put(&store, "configmaps", "a/c", &json!({}));
        assert!(before.is_current(&store.snapshot()), "other collections do not matter");
        put(&store, DEFINITIONS, "foos.example.com", &definition());
        assert!(!before.is_current(&store.snapshot()));
        let after = Source::of(&store.snapshot());
        assert!(after.is_current(&store.snapshot()));
        assert!(before.read().find("foos.example.com").is_none());
        assert!(after.read().find("foos.example.com").is_some());
    }

    fn definition() -> serde_json::Value {
        json!({
            "metadata": {"name": "foos.example.com", "uid": "u"},
            "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": {"plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
            },
            "status": {
                "acceptedNames": {"plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList"},
                "conditions": [{"type": "Established", "status": "True"}],
            },
        })
    }
}
