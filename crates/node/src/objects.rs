//! Config maps and secrets that running pods' volumes are made of, on a node that has no store of its own: each is
//! watched by itself, for a node may look at no others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use client::Transport;
use clock::Ids;
use driver::remote::watch_one;
use meta::ObjectExt;
use serde_json::Value;
use tokio::task::AbortHandle;

/// Objects watched at a time; the volumes of further ones are brought up to date from time to time. The transport has
/// twice as many places.
const WATCHES_MAX: usize = 512;

/// An object: plural, namespace, name.
type Reference = (&'static str, String, String);

/// The watches.
pub(crate) struct Objects {
    transport: Arc<dyn Transport>,
    ids: Arc<dyn Ids>,
    watched: BTreeMap<Reference, AbortHandle>,
}

impl Objects {
    pub fn new(transport: Arc<dyn Transport>, ids: Arc<dyn Ids>) -> Objects {
        Objects { transport, ids, watched: BTreeMap::new() }
    }

    /// Watches what these pods refer to, and nothing else. `told` hears `namespace/name` of what may have changed.
    pub fn watch<'p>(
        &mut self,
        pods: impl Iterator<Item = &'p Value>,
        told: &(impl Fn(String) + Clone + Send + Sync + 'static),
    ) {
        let wanted: BTreeSet<Reference> = pods.flat_map(references).collect();
        self.watched.retain(|reference, watching| {
            let is_wanted = wanted.contains(reference);
            if !is_wanted {
                watching.abort();
            }
            is_wanted
        });
        for reference in wanted {
            if self.watched.len() >= WATCHES_MAX || self.watched.contains_key(&reference) {
                continue;
            }
            let (plural, namespace, name) = reference.clone();
            let (told, item) = (told.clone(), format!("{namespace}/{name}"));
            let path = format!("/api/v1/namespaces/{namespace}/{plural}");
            let watching =
                watch_one(Arc::clone(&self.transport), Arc::clone(&self.ids), path, name, move || told(item.clone()));
            self.watched.insert(reference, tokio::spawn(watching).abort_handle());
        }
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        self.watched.values().for_each(AbortHandle::abort);
    }
}

fn references(pod: &Value) -> Vec<Reference> {
    let of = |plural: &'static str, names: Vec<&str>| -> Vec<Reference> {
        names.into_iter().map(|name| (plural, pod.namespace().to_owned(), name.to_owned())).collect()
    };
    let maps = of("configmaps", admit::pod_refs::config_map_names(pod));
    maps.into_iter().chain(of("secrets", admit::pod_refs::secret_names(pod))).collect()
}
