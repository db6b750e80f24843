//! Asks the server itself before something is done that cannot be taken back.
//!
//! Collections arrive independently: a pod may be seen before the ReplicaSet that it belongs to. A decision that rests
//! on an owner not being there would be wrong then; so what the turn asked its view for is asked again.

use std::collections::BTreeSet;

use brain::{Action, Patch, View};
use meta::ObjectExt;
use serde_json::Value;
use store::Key;
use view::Asked;

use super::Remote;
use super::ask::{self, Form};
use super::discovery::Served;

/// Objects of a page; only names and uids matter here.
const PAGE_OBJECTS: usize = 500;
const DEFINITIONS: &str = "apiextensions.k8s.io/customresourcedefinitions";

/// What an action rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grounds {
    /// On nothing that its preconditions do not guard.
    Guarded,
    /// On single objects being there or not.
    Objects,
    /// On whole lists too.
    Lists,
    /// On a namespace being empty.
    EmptyNamespace,
}

fn grounds(action: &Action) -> Grounds {
    let writes_finalizers = |body: &Value| body.at(&["metadata", "finalizers"]).is_some();
    match action {
        Action::Delete { .. } => Grounds::Objects,
        Action::Patch { patch: Patch::Merge(body) | Patch::Strategic(body), .. } if writes_finalizers(body) => {
            Grounds::Lists
        }
        Action::Update { resource, subresource: "finalize", .. } if *resource.plural == *"namespaces" => {
            Grounds::EmptyNamespace
        }
        _ => Grounds::Guarded,
    }
}

impl Remote {
    /// Whether what `view` was asked for is so at the server.
    pub(crate) async fn confirms(&self, action: &Action, view: &View, root: &Key) -> bool {
        let grounds = grounds(action);
        match grounds {
            Grounds::Guarded => return true,
            Grounds::EmptyNamespace => return self.is_empty(&root.item).await,
            Grounds::Objects | Grounds::Lists => {}
        }
        let Some(reads) = view.reads() else { return true };
        let namespace = root.item.split_once('/').map_or("", |(namespace, _)| namespace);
        for (asked, found) in reads.gets() {
            // What other namespaces have only changes what is said about it.
            let matters = asked.namespace.is_empty() || asked.namespace == namespace || namespace.is_empty();
            if matters && !self.is_so(view, &asked, found.as_deref()).await {
                tracing::debug!(key = %root, ?asked, "the copy is behind; the decision is made again");
                return false;
            }
        }
        for (collection, namespace) in reads.lists().iter().filter(|_| grounds == Grounds::Lists) {
            if !self.is_list(view, collection, namespace).await {
                tracing::debug!(key = %root, collection, "the copy is behind; the decision is made again");
                return false;
            }
        }
        true
    }

    async fn is_so(&self, view: &View, asked: &Asked, found: Option<&str>) -> bool {
        let Some((served, is_absent)) = self.served(&asked.collection) else {
            return found.is_none() && !is_defined(view, &asked.collection);
        };
        let path = format!("{}/{}", served.within(&asked.namespace), asked.name);
        match ask::metadata(&self.transport, &path).await {
            Ok((200, object)) => found == Some(object.uid()),
            // The object is not there, or else its whole kind is not.
            Ok((404, status)) => found.is_none() && (status.text(&["details", "name"]) == asked.name || is_absent),
            _ => false,
        }
    }

    async fn is_list(&self, view: &View, collection: &str, namespace: &str) -> bool {
        let seen: BTreeSet<(String, String)> = view
            .list(collection, namespace)
            .iter()
            .map(|object| (object.key.item.to_string(), object.meta().uid.to_string()))
            .collect();
        let Some((served, _)) = self.served(collection) else {
            return seen.is_empty() && !is_defined(view, collection);
        };
        self.live(&served, namespace).await.is_some_and(|live| live == seen)
    }

    /// The objects that the server has: names and uids.
    async fn live(&self, served: &Served, namespace: &str) -> Option<BTreeSet<(String, String)>> {
        let (mut live, mut more) = (BTreeSet::new(), String::new());
        loop {
            let path = format!("{}?limit={PAGE_OBJECTS}{more}", served.within(namespace));
            let (code, page) = ask::list(&self.transport, &path, Form::Metadata).await.ok()?;
            if code == 404 {
                return Some(BTreeSet::new());
            }
            if code != 200 {
                return None;
            }
            live.extend(page.items(&["items"]).iter().map(|object| {
                let item = match object.namespace() {
                    "" => object.name().to_owned(),
                    namespace => format!("{namespace}/{}", object.name()),
                };
                (item, object.uid().to_owned())
            }));
            match page.text(&["metadata", "continue"]) {
                "" => return Some(live),
                token => more = format!("&continue={}", super::reflector::escaped(token)),
            }
        }
    }

    /// Whether the server has nothing in a namespace.
    async fn is_empty(&self, namespace: &str) -> bool {
        for served in self.all_served().into_iter().filter(|served| served.namespaced) {
            match self.live(&served, namespace).await {
                Some(live) if live.is_empty() => {}
                _ => return false,
            }
        }
        true
    }
}

/// Whether a definition says that such a collection exists, though the server's discovery did not name it yet.
fn is_defined(view: &View, collection: &str) -> bool {
    let Some((group, plural)) = collection.split_once('/') else { return false };
    view.snapshot().get(DEFINITIONS, &format!("{plural}.{group}")).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use brain::Resource;
    use serde_json::json;

    #[test]
    fn what_cannot_be_taken_back_has_grounds() {
        let pods = Resource::new("", "v1", "pods");
        let patch = |body: Value| Action::Patch {
            resource: pods.clone(),
            subresource: "",
            namespace: "a".to_owned(),
            name: "b".to_owned(),
            uid: String::new(),
            patch: Patch::Merge(body),
        };
        let update = |plural: &'static str, subresource| Action::Update {
            resource: Resource::new("", "v1", plural),
            subresource,
            object: Value::Null,
        };
        for (action, expected) in [
            (patch(json!({"metadata": {"finalizers": null}})), Grounds::Lists),
            (patch(json!({"spec": {}})), Grounds::Guarded),
            (update("namespaces", "finalize"), Grounds::EmptyNamespace),
            (update("namespaces", "status"), Grounds::Guarded),
            (
                Action::Delete {
                    resource: pods.clone(),
                    namespace: String::new(),
                    name: String::new(),
                    uid: String::new(),
                    revision: None,
                    propagation: None,
                    grace_seconds: None,
                },
                Grounds::Objects,
            ),
        ] {
            assert_eq!(grounds(&action), expected, "{action:?}");
        }
    }
}
