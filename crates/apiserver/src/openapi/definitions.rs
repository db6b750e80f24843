//! Definitions: the schemas of kinds, of their lists and of everything they refer to, by published name.

use std::collections::{BTreeMap, BTreeSet};

use kinds::{Catalog, KindDef};
use meta::Gvk;
use schema::Link;
use serde_json::{Value, json};

/// Which OpenAPI.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Version {
    V2,
    V3,
}

pub const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
pub const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
pub const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
pub const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";

impl Version {
    /// A reference to a definition.
    pub fn reference(self, name: &str) -> Value {
        match self {
            Version::V2 => json!({"$ref": format!("#/definitions/{name}")}),
            Version::V3 => json!({"$ref": format!("#/components/schemas/{name}")}),
        }
    }

    fn of_built_in(self, name: &str) -> Option<Value> {
        match self {
            Version::V2 => schema::openapi::v2_definition(name),
            Version::V3 => schema::openapi::v3_definition(name),
        }
    }

    fn of_schema(self, schema: &schema::Schema) -> Value {
        match self {
            Version::V2 => schema::openapi::v2_schema(schema),
            Version::V3 => schema::openapi::v3_schema(schema),
        }
    }
}

/// The published name of a kind's type.
pub fn name_of(kind: &KindDef) -> String {
    match &kind.schema {
        Link::Named(name) => (*name).to_owned(),
        Link::Inline(_) => custom_name(kind, &kind.kind),
    }
}

/// The published name of the type of a kind's list.
pub fn list_name_of(kind: &KindDef) -> String {
    match &kind.schema {
        // Built-in lists stand beside their items.
        Link::Named(name) => match name.rsplit_once('.') {
            Some((package, _)) => format!("{package}.{}", kind.list_kind),
            None => kind.list_kind.to_string(),
        },
        Link::Inline(_) => custom_name(kind, &kind.list_kind),
    }
}

/// `io.k8s.api.core.v1.Pod` is the pattern: the group's domain backwards, the version, the kind.
fn custom_name(kind: &KindDef, name: &str) -> String {
    let mut domain: Vec<&str> = kind.group.split('.').collect();
    domain.reverse();
    format!("{}.{}.{name}", domain.join("."), kind.version)
}

/// Calls `put` with the name and the definition of every type that these kinds need, sorted by name.
pub fn each<'k>(
    catalog: &Catalog,
    kinds: impl Iterator<Item = &'k KindDef>,
    version: Version,
    mut put: impl FnMut(&str, Value),
) {
    let mut built_in: BTreeSet<&'static str> = BTreeSet::new();
    let mut gvks: BTreeMap<String, Vec<Gvk>> = BTreeMap::new();
    let mut own: BTreeMap<String, &KindDef> = BTreeMap::new();
    [DELETE_OPTIONS, LIST_META, STATUS].iter().for_each(|name| built_in.extend(schema::openapi::refs(name)));
    gvks.insert(STATUS.to_owned(), vec![Gvk::new("", "v1", "Status")]);
    gvks.insert(DELETE_OPTIONS.to_owned(), vec![Gvk::new("", "v1", "DeleteOptions")]);
    for kind in kinds {
        gvks.entry(name_of(kind)).or_default().push(kind.gvk());
        gvks.entry(list_name_of(kind)).or_default().push(list_gvk(kind));
        match &kind.schema {
            Link::Named(name) => {
                built_in.extend(schema::openapi::refs(name));
                built_in.extend(schema::openapi::refs(&list_name_of(kind)));
            }
            Link::Inline(schema) => {
                built_in.extend(schema::openapi::refs_of(schema));
                own.insert(name_of(kind), kind);
            }
        }
        for spoken in kind.subresources.iter().filter_map(|subresource| subresource.kind.as_ref()) {
            if let Some(Link::Named(name)) = catalog.kind(spoken).map(|kind| &kind.schema) {
                built_in.extend(schema::openapi::refs(name));
                let known = gvks.entry((*name).to_owned()).or_default();
                if !known.contains(spoken) {
                    known.push(spoken.clone());
                }
            }
        }
    }
    let mut put = |name: &str, mut definition: Value| {
        if name == OBJECT_META {
            describe(&mut definition, OF_OBJECT_META);
        }
        if let Some(gvks) = gvks.get(name) {
            definition["x-kubernetes-group-version-kind"] = gvks.iter().map(gvk_value).collect();
        }
        put(name, definition);
    };
    put(PATCH, json!({"type": "object"}));
    built_in.into_iter().for_each(|name| put(name, version.of_built_in(name).unwrap_or_default()));
    for (name, kind) in own {
        let mut definition = version.of_schema(kind.schema.get());
        describe(&mut definition, OF_EVERY_KIND);
        put(&name, definition);
        put(&list_name_of(kind), list(kind, version));
    }
}

/// Custom kinds seldom describe the fields that all kinds have; `kubectl explain` shows these words.
const OF_EVERY_KIND: &[(&str, &str)] = &[
    ("apiVersion", "APIVersion defines in which version of its schema this object is written."),
    ("kind", "Kind is the type of this object, as its group and version name it."),
    ("metadata", "Standard object's metadata: name, labels, owners and what else all kinds have."),
];
const OF_OBJECT_META: &[(&str, &str)] = &[
    ("annotations", "Annotations are notes of any form that tools attach; nothing selects by them."),
    ("creationTimestamp", "CreationTimestamp is a timestamp of when the server made this object. Read-only."),
    ("deletionGracePeriodSeconds", "Seconds that the object had to end when its deletion began. Read-only."),
    ("deletionTimestamp", "When the object is to be gone; set once somebody has deleted it. Read-only."),
    ("finalizers", "Names of those who must finish their work before a deleted object is removed."),
    ("generateName", "A prefix from which the server makes a unique name where none is given."),
    ("generation", "Counts the changes of what is desired. Read-only."),
    ("labels", "Labels are names and values by which objects are grouped and selected."),
    ("managedFields", "Which manager set which fields, and when; server-side apply keeps this record."),
    ("name", "Name of the object, unique among those of its kind in its namespace. It never changes."),
    ("namespace", "The space within which the name is unique; empty for kinds of the cluster. It never changes."),
    ("ownerReferences", "The objects that this one belongs to; it is collected when all of them are gone."),
    ("resourceVersion", "The revision of the last write; clients compare it only as a number. Read-only."),
    ("uid", "Distinguishes this object from earlier and later ones of the same name. Read-only."),
];

/// Describes the fields of a definition that have no description of their own.
fn describe(definition: &mut Value, words: &[(&str, &str)]) {
    for (field, words) in words {
        let field = definition.get_mut("properties").and_then(|properties| properties.get_mut(field));
        if let Some(Value::Object(field)) = field {
            field.entry("description").or_insert_with(|| (*words).into());
        }
    }
}

fn list_gvk(kind: &KindDef) -> Gvk {
    Gvk::new(&*kind.group, &*kind.version, &*kind.list_kind)
}

/// As extensions write it.
pub fn gvk_value(gvk: &Gvk) -> Value {
    json!({"group": gvk.group, "kind": gvk.kind, "version": gvk.version})
}

/// The list of a custom kind.
fn list(kind: &KindDef, version: Version) -> Value {
    let in_place = |name: &str| match version {
        Version::V2 => version.reference(name),
        Version::V3 => json!({"allOf": [version.reference(name)]}),
    };
    json!({
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": in_place(LIST_META),
            "items": {"type": "array", "items": in_place(&name_of(kind))},
        },
    })
}
