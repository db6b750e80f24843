//! The parameters that a binding gives to its policy.

use meta::labels::Selector;
use meta::{GroupVersion, Gvk, ObjectExt};
use serde_json::Value;

use crate::admission::World;

/// The parameter objects to evaluate with, one after another; a single `None` for a policy without parameters.
pub(super) fn of_binding(
    world: &World<'_>,
    request_namespace: &str,
    policy: &Value,
    binding: &Value,
) -> Result<Vec<Option<Value>>, String> {
    let Some(kind) = policy.at(&["spec", "paramKind"]).filter(|kind| !kind.is_null()) else { return Ok(vec![None]) };
    let Some(reference) = binding.at(&["spec", "paramRef"]).filter(|reference| !reference.is_null()) else {
        return Ok(vec![None]);
    };
    let unknown = || {
        let (version, kind) = (kind.text(&["apiVersion"]), kind.text(&["kind"]));
        format!("failed to find resource referenced by paramKind: '{version}, Kind={kind}'")
    };
    let version = GroupVersion::parse(kind.text(&["apiVersion"])).ok_or_else(unknown)?;
    let def = world.catalog.kind(&Gvk::new(version.group, version.version, kind.text(&["kind"])));
    let def = def.ok_or_else(unknown)?;
    let namespace = namespace_of(def.is_namespaced(), reference, request_namespace)?;
    let found = find(world, &def.collection(), &namespace, reference)?;
    if !found.is_empty() {
        return Ok(found.into_iter().map(Some).collect());
    }
    match reference.text(&["parameterNotFoundAction"]) {
        "Deny" => Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned()),
        // Without parameters there is nothing to evaluate.
        _ => Ok(Vec::new()),
    }
}

fn namespace_of(namespaced: bool, reference: &Value, request_namespace: &str) -> Result<String, String> {
    let own = reference.text(&["namespace"]);
    match (namespaced, own, request_namespace) {
        (false, "", _) => Ok(String::new()),
        (false, _, _) => Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned()),
        (true, "", "") => {
            Err("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources".to_owned())
        }
        (true, "", namespace) | (true, namespace, _) => Ok(namespace.to_owned()),
    }
}

fn find(world: &World<'_>, collection: &str, namespace: &str, reference: &Value) -> Result<Vec<Value>, String> {
    let name = reference.text(&["name"]);
    if !name.is_empty() {
        let item = if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") };
        return Ok(world.read(collection, &item).into_iter().collect());
    }
    let selector = Selector::from_label_selector(reference.get("selector"))?;
    let fits = |object: &Value| selector.matches(&object.map(&["metadata", "labels"]));
    Ok(world.list(collection, namespace).into_iter().filter(fits).collect())
}
