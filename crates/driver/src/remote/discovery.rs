//! What a server has: its collections, each at the version that brains know it in.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use client::{CallError, Transport};
use kinds::Catalog;
use meta::{Gvr, ObjectExt};
use serde_json::Value;
use store::Collection;
use tokio::task::JoinSet;

use super::ask::{self, Form};

/// Brains know only that such objects are there and whom they belong to; what stands in them stays with the server.
const METADATA_ONLY: [&str; 2] = ["core/events", "core/secrets"];

/// A collection as the server has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// Where the whole of it stands: `/apis/apps/v1/deployments`.
    pub path: String,
    /// `apps/v1`.
    pub api_version: String,
    /// `Deployment`.
    pub kind: String,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// In what form it is copied.
    pub form: Form,
    /// Which of its objects are copied: a part of the query, `fieldSelector=spec.nodeName%3Da`; empty for all.
    pub selector: String,
}

impl Served {
    /// The whole address of a question.
    pub fn asked(&self, query: &str) -> String {
        match self.selector.as_str() {
            "" => format!("{}?{query}", self.path),
            selector => format!("{}?{query}&{selector}", self.path),
        }
    }

    /// Where the objects of one namespace, or of a cluster-scoped kind, stand.
    pub fn within(&self, namespace: &str) -> String {
        match self.path.rsplit_once('/') {
            Some((root, plural)) if self.namespaced && !namespace.is_empty() => {
                format!("{root}/namespaces/{namespace}/{plural}")
            }
            _ => self.path.clone(),
        }
    }
}

/// What a server said it has.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The collections that can be listed and watched.
    pub collections: BTreeMap<Collection, Served>,
    /// Groups that exist but did not answer: nothing is known of their collections.
    pub silent: BTreeSet<String>,
}

/// One group and version with its resources, in the order of preference.
#[derive(Clone, Debug)]
struct Version {
    group: String,
    version: String,
    resources: Vec<Value>,
}

/// Asks a server what it has.
pub async fn discover(transport: &Arc<dyn Transport>) -> Result<Found, CallError> {
    let groups = ask::get(transport, "/apis", Form::Whole).await?;
    let mut wanted = vec![(String::new(), "v1".to_owned())];
    for group in groups.items(&["groups"]) {
        let preferred = group.text(&["preferredVersion", "version"]);
        let mut versions: Vec<&str> = group.items(&["versions"]).iter().map(|v| v.text(&["version"])).collect();
        versions.sort_by_key(|version| *version != preferred);
        wanted.extend(versions.into_iter().map(|version| (group.text(&["name"]).to_owned(), version.to_owned())));
    }
    let mut asked = JoinSet::new();
    for (at, (group, version)) in wanted.into_iter().enumerate() {
        let transport = Arc::clone(transport);
        asked.spawn(async move {
            let path = if group.is_empty() { "/api/v1".to_owned() } else { format!("/apis/{group}/{version}") };
            (at, group, version, ask::get(&transport, &path, Form::Whole).await)
        });
    }
    let (mut answers, mut silent) = (Vec::new(), BTreeSet::new());
    while let Some(answer) = asked.join_next().await {
        let (at, group, version, list) = answer.map_err(|error| CallError { message: error.to_string() })?;
        match list {
            Ok(list) => answers.push((at, Version { group, version, resources: list.items(&["resources"]).to_vec() })),
            // Without the legacy group there is nothing to go on.
            Err(error) if group.is_empty() => return Err(error),
            Err(_) => {
                silent.insert(group);
            }
        }
    }
    answers.sort_by_key(|(at, _)| *at);
    let versions: Vec<Version> = answers.into_iter().map(|(_, version)| version).collect();
    Ok(Found { collections: choose(&versions), silent })
}

/// One version of each collection: the one that is known here and stored, else the first that the server prefers.
fn choose(versions: &[Version]) -> BTreeMap<Collection, Served> {
    let catalog = Catalog::built_in();
    let mut found = BTreeMap::new();
    for wants_known in [true, false] {
        for Version { group, version, resources } in versions {
            for resource in resources.iter().filter(|resource| is_watched(resource)) {
                let plural = resource.text(&["name"]);
                let known = catalog.resource(&Gvr::new(group, version, plural));
                if wants_known != known.is_some_and(|def| def.conversion.is_none()) {
                    continue;
                }
                let collection = known.map_or_else(|| collection(group, plural), |def| def.collection());
                let served = served(group, version, resource, &collection);
                found.entry(collection).or_insert(served);
            }
        }
    }
    found
}

fn is_watched(resource: &Value) -> bool {
    let has = |verb: &str| resource.items(&["verbs"]).iter().any(|v| v == verb);
    !resource.text(&["name"]).contains('/') && has("list") && has("watch")
}

fn collection(group: &str, plural: &str) -> Collection {
    let group = if group.is_empty() { "core" } else { group };
    format!("{group}/{plural}").into()
}

fn served(group: &str, version: &str, resource: &Value, collection: &str) -> Served {
    let (root, api_version) = match group {
        "" => (format!("/api/{version}"), version.to_owned()),
        group => (format!("/apis/{group}/{version}"), format!("{group}/{version}")),
    };
    Served {
        path: format!("{root}/{}", resource.text(&["name"])),
        api_version,
        kind: resource.text(&["kind"]).to_owned(),
        namespaced: resource.flag(&["namespaced"]),
        form: if METADATA_ONLY.contains(&collection) { Form::Metadata } else { Form::Whole },
        selector: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn version(group: &str, version: &str, resources: &[(&str, &str, bool, &[&str])]) -> Version {
        let resource = |(name, kind, namespaced, verbs): &(&str, &str, bool, &[&str])| json!({"name": name, "kind": kind, "namespaced": namespaced, "verbs": verbs});
        Version {
            group: group.to_owned(),
            version: version.to_owned(),
            resources: resources.iter().map(resource).collect(),
        }
    }

    #[test]
    fn one_version_of_each_collection_is_copied() {
        const ALL: &[&str] = &["get", "list", "watch"];
        let found = choose(&[
            version(
                "",
                "v1",
                &[
                    ("pods", "Pod", true, ALL),
                    ("pods/status", "Pod", true, ALL),
                    ("bindings", "Binding", true, &["create"]),
                    ("events", "Event", true, ALL),
                ],
            ),
            version("events.k8s.io", "v1", &[("events", "Event", true, ALL)]),
            version("autoscaling", "v1", &[("horizontalpodautoscalers", "HorizontalPodAutoscaler", true, ALL)]),
            version("autoscaling", "v2", &[("horizontalpodautoscalers", "HorizontalPodAutoscaler", true, ALL)]),
            version("example.com", "v2", &[("widgets", "Widget", false, ALL)]),
            version("example.com", "v1", &[("widgets", "Widget", false, ALL), ("gadgets", "Gadget", true, ALL)]),
        ]);
        let told: Vec<(&str, &str)> = found.iter().map(|(name, served)| (&**name, served.path.as_str())).collect();
        assert_eq!(
            told,
            [
                ("autoscaling/horizontalpodautoscalers", "/apis/autoscaling/v2/horizontalpodautoscalers"),
                ("core/events", "/api/v1/events"),
                ("core/pods", "/api/v1/pods"),
                ("example.com/gadgets", "/apis/example.com/v1/gadgets"),
                ("example.com/widgets", "/apis/example.com/v2/widgets"),
            ]
        );
        assert_eq!(found["core/events"].form, Form::Metadata);
        assert_eq!(found["core/pods"].within("a"), "/api/v1/namespaces/a/pods");
        assert_eq!(found["example.com/widgets"].within(""), "/apis/example.com/v2/widgets");
    }
}
