//! The addresses of a kind, with the operations at each.

use kinds::{Catalog, KindDef};
use serde_json::{Value, json};

use super::definitions::Version;
use super::operation::{Operation, Place, path_parameter, query_parameter};
use crate::discovery::version_path;

/// The verbs of a collection and of one object, in the order of an ordinary resource.
const OF_COLLECTION: [&str; 3] = ["list", "create", "deletecollection"];
const OF_OBJECT: [&str; 4] = ["get", "update", "patch", "delete"];

/// Calls `put` with every path of the kind and what stands there.
pub fn each(catalog: &Catalog, kind: &KindDef, version: Version, mut put: impl FnMut(&str, Value)) {
    let root = version_path(&kind.group_version());
    let everywhere = format!("{root}/{}", kind.plural);
    let collection = match kind.is_namespaced() {
        true => format!("{root}/namespaces/{{namespace}}/{}", kind.plural),
        false => everywhere.clone(),
    };
    let object = format!("{collection}/{{name}}");
    let mut add = |path: &str, item: Option<Value>| item.into_iter().for_each(|item| put(path, item));
    let place = Place { kind, spoken: None, subresource: "", all_namespaces: false };
    if kind.is_namespaced() {
        let place = Place { all_namespaces: true, ..place };
        add(&everywhere, item(version, &everywhere, place, &["list"]));
    }
    add(&collection, item(version, &collection, place, &OF_COLLECTION));
    add(&object, item(version, &object, place, &OF_OBJECT));
    for subresource in &kind.subresources {
        let spoken = subresource.kind.as_ref().and_then(|gvk| catalog.kind(gvk)).map(|kind| &**kind);
        let place = Place { spoken, subresource: &subresource.name, ..place };
        let path = format!("{object}/{}", subresource.name);
        add(&path, item(version, &path, place, &["get", "create", "update", "patch", "delete"]));
    }
}

/// What stands at one path: the operations of `verbs` that are served there. `None` when none is.
fn item(version: Version, path: &str, place: Place<'_>, verbs: &[&'static str]) -> Option<Value> {
    let mut item = serde_json::Map::new();
    for verb in verbs.iter().copied().filter(|verb| place.serves(verb)) {
        let operation = Operation { version, place: &place, verb };
        item.insert(operation.method().to_owned(), operation.to_value());
    }
    if item.is_empty() {
        return None;
    }
    let mut parameters: Vec<Value> = ["name", "namespace"]
        .iter()
        .filter(|name| path.contains(&format!("{{{name}}}")))
        .map(|name| path_parameter(version, name))
        .collect();
    parameters.push(query_parameter(version, "pretty", "string"));
    item.insert("parameters".to_owned(), json!(parameters));
    Some(Value::Object(item))
}
