//! As which resource a kind or a collection is served: the built-in kinds, and the custom ones that the view's
//! CustomResourceDefinitions declare. For controllers that meet objects of every kind.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use brain::{Object, Resource, View};
use serde::Deserialize;

const DEFINITIONS: &str = "apiextensions.k8s.io/customresourcedefinitions";

/// One kind as it is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Served {
    /// Its address.
    pub resource: Resource,
    /// Where its objects are stored.
    pub collection: Arc<str>,
    /// Whether they live in namespaces.
    pub namespaced: bool,
}

/// The kind that an owner reference or another object names.
pub(crate) fn by_kind(view: &View, api_version: &str, kind: &str) -> Option<Served> {
    let built_in = built_in().by_kind.get(api_version).and_then(|kinds| kinds.get(kind));
    built_in.cloned().or_else(|| {
        let (group, version) = api_version.split_once('/')?;
        let names = |d: &Definition| *d.spec.group == *group && *d.spec.names.kind == *kind;
        let definition = definitions(view).find(|definition| names(definition))?;
        definition.spec.versions.iter().find(|v| v.served && *v.name == *version)?;
        Some(definition.served_as(version))
    })
}

/// The kind whose objects a collection holds, at the version that is stored.
pub(crate) fn by_collection(view: &View, collection: &str) -> Option<Served> {
    built_in().by_collection.get(collection).cloned().or_else(|| {
        let (group, plural) = collection.split_once('/')?;
        let definition = read(&view.get(DEFINITIONS, "", &format!("{plural}.{group}"))?);
        let mut served = definition.spec.versions.iter().filter(|v| v.served);
        let version = served.clone().find(|v| v.storage).or_else(|| served.next())?;
        Some(definition.served_as(&version.name))
    })
}

#[derive(Default)]
struct BuiltIn {
    by_kind: BTreeMap<String, BTreeMap<String, Served>>,
    by_collection: BTreeMap<Arc<str>, Served>,
}

fn built_in() -> &'static BuiltIn {
    static TABLE: OnceLock<BuiltIn> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut table = BuiltIn::default();
        for def in kinds::built_in().iter().filter(|def| def.is_stored()) {
            let resource = Resource {
                group: def.group.to_string().into(),
                version: def.version.to_string().into(),
                plural: def.plural.to_string().into(),
            };
            let served = Served { resource, collection: def.collection(), namespaced: def.is_namespaced() };
            if def.conversion.is_none() {
                table.by_collection.entry(def.collection()).or_insert_with(|| served.clone());
            }
            table.by_kind.entry(def.group_version().to_string()).or_default().insert(def.kind.to_string(), served);
        }
        table
    })
}

/// A CustomResourceDefinition, as far as addresses go.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Definition {
    spec: Spec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Spec {
    group: Box<str>,
    names: Names,
    scope: Box<str>,
    versions: Vec<Version>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Names {
    kind: Box<str>,
    plural: Box<str>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Version {
    name: Box<str>,
    served: bool,
    storage: bool,
}

impl Definition {
    fn served_as(&self, version: &str) -> Served {
        let (group, plural) = (self.spec.group.to_string(), self.spec.names.plural.to_string());
        Served {
            collection: format!("{group}/{plural}").into(),
            resource: Resource { group: group.into(), version: version.to_owned().into(), plural: plural.into() },
            namespaced: &*self.spec.scope == "Namespaced",
        }
    }
}

fn read(definition: &Object) -> Arc<Definition> {
    definition.project(|bytes| meta::stored::read(bytes).unwrap_or_default())
}

fn definitions(view: &View) -> impl Iterator<Item = Arc<Definition>> {
    view.list(DEFINITIONS, "").into_iter().map(|object| read(&object))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::World;
    use serde_json::json;

    #[test]
    fn built_in_and_custom_kinds_are_found() {
        let mut world = World::new([]);
        world.put(
            DEFINITIONS,
            json!({"metadata": {"name": "boats.sea.io"}, "spec": {"group": "sea.io", "scope": "Namespaced",
                "names": {"kind": "Boat", "plural": "boats"}, "versions": [
                    {"name": "v2", "served": true, "storage": false}, {"name": "v1", "served": true, "storage": true},
                    {"name": "v0", "served": false, "storage": false}]}}),
        );
        let view = world.view();
        let check = |served: Option<Served>, expected: Option<(&str, bool)>| {
            let found = served.map(|s| (format!("{} {}", s.collection, s.resource.version), s.namespaced));
            assert_eq!(found, expected.map(|(text, namespaced)| (text.to_owned(), namespaced)));
        };
        check(by_kind(&view, "v1", "Pod"), Some(("core/pods v1", true)));
        check(by_kind(&view, "v1", "Node"), Some(("core/nodes v1", false)));
        check(by_kind(&view, "v9", "Pod"), None);
        check(by_kind(&view, "sea.io/v2", "Boat"), Some(("sea.io/boats v2", true)));
        check(by_kind(&view, "sea.io/v0", "Boat"), None);
        check(by_collection(&view, "sea.io/boats"), Some(("sea.io/boats v1", true)));
        check(by_collection(&view, "core/namespaces"), Some(("core/namespaces v1", false)));
        check(by_collection(&view, "sea.io/fish"), None);
    }
}
