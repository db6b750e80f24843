//! A snapshot with its indexes, kept up to date by folding events.

use std::sync::Arc;

use store::{Change, Collection, Event, Key, Revision, Snapshot, Store};

use crate::{Object, Reads};

/// Who depends on whom: `(owner uid, dependent)`; an object without a managing controller is filed under the empty
/// uid too. A persistent set, so that a view of it is O(1).
type ByOwner = imbl::OrdSet<(Arc<str>, Key)>;

/// Which pods have which label: `(namespace/key=value, pod)`. Services and budgets choose among all pods of a namespace,
/// and looking at each of them for each of those grows with the square.
type ByLabel = imbl::OrdSet<(Arc<str>, Key)>;

/// What is filed by its labels.
const LABELLED: &str = "core/pods";

/// How many events are folded in one bite.
const EVENTS_MAX: usize = 4_096;

/// One consistent state of the world.
#[derive(Clone, Default)]
pub struct View {
    snapshot: Snapshot,
    by_owner: ByOwner,
    by_label: ByLabel,
    reads: Option<Arc<Reads>>,
}

impl View {
    /// A view of a snapshot, with its indexes computed from scratch (O(objects): for tests and plans' starts).
    pub fn of(snapshot: Snapshot) -> View {
        let mut view = View::default();
        for collection in snapshot.collections() {
            for (item, entry) in snapshot.range(collection, "", "") {
                let key = Key { collection: Arc::clone(collection), item: Arc::clone(item) };
                view.file(&Object::new(key, Arc::clone(entry)));
            }
        }
        View { snapshot, ..view }
    }

    /// The same state, which remembers what is asked of it. O(1).
    pub fn recording(&self) -> View {
        View { reads: Some(Arc::default()), ..self.clone() }
    }

    /// What was asked of it, when it remembers.
    pub fn reads(&self) -> Option<&Reads> {
        self.reads.as_deref()
    }

    /// The revision this is the state of.
    pub fn revision(&self) -> Revision {
        self.snapshot.revision()
    }

    /// The state underneath.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// One object; `namespace` is empty for cluster-scoped kinds. `collection` is e.g. `core/pods`.
    pub fn get(&self, collection: &str, namespace: &str, name: &str) -> Option<Object> {
        let found = if namespace.is_empty() {
            self.get_item(collection, name)
        } else {
            self.get_item(collection, &format!("{namespace}/{name}"))
        };
        if let Some(reads) = &self.reads {
            reads.got(collection, namespace, name, found.as_ref());
        }
        found
    }

    /// One object by its key.
    pub fn get_key(&self, key: &Key) -> Option<Object> {
        self.snapshot.get_key(key).map(|entry| Object::new(key.clone(), Arc::clone(entry)))
    }

    fn get_item(&self, collection: &str, item: &str) -> Option<Object> {
        let entry = self.snapshot.get(collection, item)?;
        Some(Object::new(Key::new(collection, item), Arc::clone(entry)))
    }

    /// The objects of a collection, in a namespace or (empty) in all, ordered by namespace and name.
    pub fn list(&self, collection: &str, namespace: &str) -> Vec<Object> {
        if let Some(reads) = &self.reads {
            reads.listed(collection, namespace);
        }
        let name: Collection = collection.into();
        let prefix = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
        self.snapshot
            .range(collection, &prefix, "")
            .map(|(item, entry)| {
                Object::new(Key { collection: Arc::clone(&name), item: Arc::clone(item) }, Arc::clone(entry))
            })
            .collect()
    }

    /// The objects that name `uid` among their owners, ordered by key.
    pub fn dependents(&self, uid: &str) -> Vec<Object> {
        self.each_dependent(uid).collect()
    }

    /// The same one by one: whoever looks for the first that matters need not pay for ten thousand.
    pub fn each_dependent(&self, uid: &str) -> impl Iterator<Item = Object> + use<'_> {
        let uid: Arc<str> = Arc::from(uid);
        let start = (Arc::clone(&uid), Key::new("", ""));
        self.by_owner
            .range(start..)
            .take_while(move |(owner, _)| *owner == uid)
            .filter_map(|(_, key)| self.get_key(key))
    }

    /// The objects of a collection in a namespace (not empty) that no controller manages, ordered by name: what
    /// controllers may adopt.
    pub fn orphans(&self, collection: &str, namespace: &str) -> Vec<Object> {
        let prefix = format!("{namespace}/");
        let start = (Arc::from(""), Key::new(collection, &*prefix));
        self.by_owner
            .range(start..)
            .take_while(|(owner, key)| {
                owner.is_empty() && *key.collection == *collection && key.item.starts_with(&prefix)
            })
            .filter_map(|(_, key)| self.get_key(key))
            .collect()
    }

    /// The pods in a namespace with this label, ordered by name.
    pub fn pods_labelled(&self, namespace: &str, key: &str, value: &str) -> Vec<Object> {
        if let Some(reads) = &self.reads {
            reads.listed(LABELLED, namespace);
        }
        let label = label(namespace, key, value);
        let start = (Arc::clone(&label), Key::new("", ""));
        let found = self.by_label.range(start..).take_while(|(other, _)| *other == label);
        found.filter_map(|(_, key)| self.get_key(key)).collect()
    }

    fn fold(&mut self, event: &Event) {
        let previous = event.previous.as_ref().map(|entry| Object::new(event.key.clone(), Arc::clone(entry)));
        if let Some(previous) = previous {
            for owner in owners(&previous) {
                self.by_owner.remove(&(owner, event.key.clone()));
            }
            for label in labels(&previous) {
                self.by_label.remove(&(label, event.key.clone()));
            }
        }
        if event.change != Change::Deleted {
            self.file(&Object::new(event.key.clone(), Arc::clone(&event.entry)));
        }
    }

    fn file(&mut self, object: &Object) {
        self.by_owner.extend(owners(object).into_iter().map(|owner| (owner, object.key.clone())));
        self.by_label.extend(labels(object).into_iter().map(|label| (label, object.key.clone())));
    }
}

/// What a label is filed under. Keys of labels hold no `=`, namespaces no `/`, so no two are the same.
fn label(namespace: &str, key: &str, value: &str) -> Arc<str> {
    Arc::from(format!("{namespace}/{key}={value}"))
}

/// The labels that an object is filed under.
fn labels(object: &Object) -> Vec<Arc<str>> {
    if *object.key.collection != *LABELLED {
        return Vec::new();
    }
    let namespace = object.key.item.split_once('/').map_or("", |(namespace, _)| namespace);
    object.meta().labels.iter().map(|(key, value)| label(namespace, key, value)).collect()
}

/// The uids that an object is filed under.
fn owners(object: &Object) -> Vec<Arc<str>> {
    let meta = object.meta();
    let orphan = meta.controller().is_none().then(|| Arc::from(""));
    meta.owner_references.iter().map(|owner| Arc::from(&*owner.uid)).chain(orphan).collect()
}

/// Keeps a [`View`] at the newest revision of a store.
#[derive(Default)]
pub struct Mirror {
    view: View,
}

impl Mirror {
    /// A mirror of the store's newest state.
    pub fn of(store: &dyn Store) -> Mirror {
        Mirror { view: View::of(store.snapshot()) }
    }

    /// A mirror that goes on from a view.
    pub fn at(view: View) -> Mirror {
        Mirror { view }
    }

    /// The state last advanced to.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Moves to the store's newest state and hands every event on the way, collection by collection, to `each`.
    /// When history was compacted past the last state the view is rebuilt and `false` is returned: then every key
    /// must be looked at again.
    pub fn advance(&mut self, store: &dyn Store, mut each: impl FnMut(&View, &Event)) -> bool {
        let target = store.snapshot();
        let mut events = Vec::new();
        for collection in target.collections_changed(&self.view.snapshot) {
            let mut after = self.view.revision();
            while after < target.revision() {
                match store.events(&collection, after, EVENTS_MAX) {
                    Ok((batch, through)) if through > after => {
                        events.extend(batch.into_iter().filter(|e| e.revision <= target.revision()));
                        after = through;
                    }
                    Ok(_) => break,
                    Err(_) => {
                        self.view = View::of(target);
                        return false;
                    }
                }
            }
        }
        events.sort_by_key(|event| event.revision);
        self.view.snapshot = target;
        for event in &events {
            self.view.fold(event);
        }
        for event in &events {
            each(&self.view, event);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::{Keyspace, Mem, Op, Txn};

    fn put(store: &Mem, item: &str, owners: &str) {
        let value = format!(r#"{{"metadata":{{"name":"{item}","ownerReferences":{owners}}}}}"#).into();
        let key = Key::new("core/pods", item);
        let op = Op::Put { key, value, annex: "".into(), stamp_at: None, keyspace: Keyspace::Durable };
        store.submit(Txn { preconditions: Vec::new(), ops: vec![op] }, Box::new(|done| drop(done.expect("committed"))));
    }

    #[test]
    fn orphans_and_dependents_follow_the_events() {
        let store = Mem::new();
        let mut mirror = Mirror::of(&store);
        let mut check = |orphans: &[&str], dependents: &[&str]| {
            assert!(mirror.advance(&store, |_, _| {}));
            for view in [mirror.view(), &View::of(store.snapshot())] {
                let items = |objects: Vec<Object>| objects.iter().map(|o| o.key.item.to_string()).collect::<Vec<_>>();
                assert_eq!(items(view.orphans("core/pods", "a")), orphans);
                assert_eq!(items(view.dependents("rs")), dependents);
            }
        };
        put(&store, "a/bare", "[]");
        put(&store, "a/owned", r#"[{"uid":"rs","controller":true}]"#);
        put(&store, "a/linked", r#"[{"uid":"rs"}]"#);
        put(&store, "ab/bare", "[]");
        check(&["a/bare", "a/linked"], &["a/linked", "a/owned"]);
        put(&store, "a/bare", r#"[{"uid":"rs","controller":true}]"#);
        put(&store, "a/owned", "[]");
        check(&["a/linked", "a/owned"], &["a/bare", "a/linked"]);
        put(&store, "a/linked", r#"[{"uid":"rs","controller":true}]"#);
        check(&["a/owned"], &["a/bare", "a/linked"]);
    }

    #[test]
    fn labels_follow_the_events() {
        let store = Mem::new();
        let mut mirror = Mirror::of(&store);
        let change = |item: &str, labels: Option<&str>| {
            let key = Key::new("core/pods", item);
            let value = labels.map(|labels| format!(r#"{{"metadata":{{"name":"{item}","labels":{labels}}}}}"#));
            let op = match value {
                Some(value) => {
                    Op::Put { key, value: value.into(), annex: "".into(), stamp_at: None, keyspace: Keyspace::Durable }
                }
                None => Op::Delete { key, last: None },
            };
            let txn = Txn { preconditions: Vec::new(), ops: vec![op] };
            store.submit(txn, Box::new(|done| drop(done.expect("committed"))));
        };
        let mut check = |expected: &[&str]| {
            assert!(mirror.advance(&store, |_, _| {}));
            for view in [mirror.view(), &View::of(store.snapshot())] {
                let found = view.pods_labelled("a", "app", "x");
                assert_eq!(found.iter().map(|o| o.key.item.to_string()).collect::<Vec<_>>(), expected);
            }
        };
        change("a/one", Some(r#"{"app":"x","b":"c"}"#));
        change("a/two", Some(r#"{"app":"x"}"#));
        change("a/other", Some(r#"{"app":"xx"}"#));
        change("ab/one", Some(r#"{"app":"x"}"#));
        check(&["a/one", "a/two"]);
        change("a/one", Some(r#"{"app":"y"}"#));
        change("a/other", Some(r#"{"app":"x"}"#));
        check(&["a/other", "a/two"]);
        change("a/two", None);
        check(&["a/other"]);
    }
}
