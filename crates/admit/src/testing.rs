//! Snapshots from literals, for the tests of this crate.

use bytes::Bytes;
use meta::ObjectExt;
use serde_json::Value;
use store::{Key, Keyspace, Mem, Op, Snapshot, Store, Txn};

/// The collection that a kind is stored in; enough of a rule for the kinds that tests use.
pub fn collection(object: &Value) -> String {
    let gvk = object.gvk().expect("has a kind");
    let group = if gvk.group.is_empty() { "core" } else { &gvk.group };
    let kind = gvk.kind.to_lowercase();
    let plural = match kind.as_str() {
        "ingressclass" | "storageclass" | "priorityclass" | "runtimeclass" => format!("{kind}es"),
        "validatingadmissionpolicy" | "mutatingadmissionpolicy" | "networkpolicy" => {
            format!("{}ies", &kind[..kind.len() - 1])
        }
        "endpoints" => kind,
        _ => format!("{kind}s"),
    };
    format!("{group}/{plural}")
}

/// `namespace/name` or `name`.
pub fn item(object: &Value) -> String {
    match object.namespace() {
        "" => object.name().to_owned(),
        namespace => format!("{namespace}/{}", object.name()),
    }
}

/// Writes the objects into `store`, one transaction each.
pub fn put(store: &Mem, objects: &[Value]) {
    for object in objects {
        let put = Op::Put {
            key: Key::new(collection(object), item(object)),
            value: Bytes::from(serde_json::to_vec(object).expect("encodes")),
            annex: Bytes::new(),
            stamp_at: None,
            keyspace: Keyspace::Durable,
        };
        let txn = Txn { preconditions: Vec::new(), ops: vec![put] };
        store.submit(txn, Box::new(|outcome| assert!(outcome.is_ok())));
    }
}

/// A state that holds the objects.
pub fn snapshot(objects: &[Value]) -> Snapshot {
    let store = Mem::new();
    put(&store, objects);
    store.snapshot()
}
