//! What holds for the metadata of every object, whatever its kind.
//!
//! Left to the API machine: whether an update without `resourceVersion` is allowed, and the server-owned fields
//! themselves (uid, timestamps, generation), which it writes before these checks run.

use meta::{FieldError, GroupVersion, name};
use serde_json::Value;

use crate::check::{At, Faults, named, non_negative, same};
use crate::{KindDef, Rules};

/// All annotations of an object together, keys and values, in bytes: upstream's limit, which keeps objects far below
/// the size of a request.
pub const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;
/// Longest name of a field manager, in bytes (upstream's limit).
pub const FIELD_MANAGER_MAX: usize = 128;
/// Longest name of a subresource in `managedFields`, in bytes (upstream's limit).
const SUBRESOURCE_MAX: usize = 256;
/// Finalizers without a domain that mean something to the server.
const STANDARD_FINALIZERS: &[&str] = &["kubernetes", "orphan", "foregroundDeletion"];

/// Checks the metadata of a new object.
pub fn validate_object_meta(def: &KindDef, object: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(object);
    let meta = root.field("metadata");
    check_name(&meta, name_rule(def), &mut faults);
    check_namespace(&meta, def.is_namespaced(), &mut faults);
    non_negative(&meta.field("generation"), &mut faults);
    check_labels(&meta.field("labels"), &mut faults);
    check_annotations(&meta.field("annotations"), &mut faults);
    check_owners(&meta.field("ownerReferences"), &mut faults);
    check_finalizers(&meta.field("finalizers"), &mut faults);
    check_managed_fields(&meta.field("managedFields"), &mut faults);
    check_standard_finalizers(def, &meta, &mut faults);
    faults
}

/// Checks a change of an object's metadata.
pub fn validate_object_meta_update(def: &KindDef, new: &Value, old: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let (root, old_root) = (At::root(new), At::root(old));
    let (meta, old_meta) = (root.field("metadata"), old_root.field("metadata"));
    if old_meta.has("deletionTimestamp") {
        check_no_new_finalizers(&meta.field("finalizers"), &old_meta.field("finalizers"), &mut faults);
    }
    let generation = meta.field("generation");
    if generation.number() < old_meta.field("generation").number() {
        faults.push(generation.invalid_as(generation.number(), "must not be decremented"));
    }
    check_immutables(&meta, &old_meta, &mut faults);
    check_labels(&meta.field("labels"), &mut faults);
    check_annotations(&meta.field("annotations"), &mut faults);
    check_owners(&meta.field("ownerReferences"), &mut faults);
    check_managed_fields(&meta.field("managedFields"), &mut faults);
    check_standard_finalizers(def, &meta, &mut faults);
    faults
}

/// Checks the name of a field manager, as requests give it; `at` is where it stands.
pub(crate) fn check_field_manager(at: &At, faults: &mut Faults) {
    if at.text().len() > FIELD_MANAGER_MAX {
        faults.push(FieldError::too_long(at.path, FIELD_MANAGER_MAX));
    }
    if let Some((position, bad)) = at.text().char_indices().find(|(_, c)| c.is_control()) {
        let code = format!("U+{:04X}", u32::from(bad));
        faults.push(at.invalid(format!("invalid character {code} (at position {position})")));
    }
}

/// Labels (also selectors that are plain maps) at a path.
pub(crate) fn check_labels(labels: &At, faults: &mut Faults) {
    for (key, value) in labels.entries() {
        faults.extend(name::qualified_name(key).into_iter().map(|fault| labels.invalid_as(key, fault)));
        let text = value.text();
        faults.extend(name::label_value(text).into_iter().map(|fault| labels.invalid_as(text, fault)));
    }
}

/// Annotations at a path. Keys are compared with the rule of label keys in lower case.
pub(crate) fn check_annotations(annotations: &At, faults: &mut Faults) {
    let mut bytes = 0;
    for (key, value) in annotations.entries() {
        let rule = name::qualified_name(&key.to_ascii_lowercase());
        faults.extend(rule.into_iter().map(|fault| annotations.invalid_as(key, fault)));
        bytes += key.len() + value.text().len();
    }
    if bytes > ANNOTATIONS_BYTES_MAX {
        faults.push(FieldError::too_long(annotations.path, ANNOTATIONS_BYTES_MAX));
    }
}

fn name_rule(def: &KindDef) -> fn(&str) -> Vec<String> {
    match &def.rules {
        Rules::BuiltIn(rules) => rules.name_rule,
        Rules::Custom => name::dns1123_subdomain,
    }
}

fn check_name(meta: &At, rule: fn(&str) -> Vec<String>, faults: &mut Faults) {
    let prefix = meta.field("generateName");
    if !prefix.text().is_empty() {
        named(&prefix, |text| rule(&name::mask_trailing_dash(text)), faults);
    }
    let given = meta.field("name");
    if given.text().is_empty() {
        faults.push(given.required("name or generateName is required"));
    } else {
        named(&given, rule, faults);
    }
}

fn check_namespace(meta: &At, namespaced: bool, faults: &mut Faults) {
    let namespace = meta.field("namespace");
    match (namespaced, namespace.text().is_empty()) {
        (true, true) => faults.push(namespace.required("")),
        (true, false) => named(&namespace, name::dns1123_label, faults),
        (false, false) => faults.push(namespace.forbidden("not allowed on this type")),
        (false, true) => {}
    }
}

fn check_owners(owners: &At, faults: &mut Faults) {
    let mut controller: Option<String> = None;
    for item in owners.each() {
        // Upstream names the list, not the item.
        let owner = owners.with(item.value);
        check_owner(&owner, faults);
        if !owner.field("controller").is_true() {
            continue;
        }
        let this = format!("{}/{}", owner.field("kind").text(), owner.field("name").text());
        match &controller {
            Some(first) => faults.push(owners.invalid_as(
                this.as_str(),
                format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} \
                     and {this}"
                ),
            )),
            None => controller = Some(this),
        }
    }
}

fn check_owner(owner: &At, faults: &mut Faults) {
    let api_version = owner.field("apiVersion");
    if GroupVersion::parse(api_version.text()).is_none() {
        faults.push(api_version.invalid_as(api_version.text(), "version must not be empty"));
    }
    for field in ["kind", "name", "uid"] {
        let at = owner.field(field);
        if at.text().is_empty() {
            faults.push(at.invalid_as("", "must not be empty"));
        }
    }
    // Events are many and short-lived; an owner must outlive what it owns.
    if api_version.text() == "v1" && owner.field("kind").text() == "Event" {
        faults.push(owner.invalid("/v1, Kind=Event is disallowed from being an owner"));
    }
}

fn check_finalizers(finalizers: &At, faults: &mut Faults) {
    for item in finalizers.each() {
        named(&finalizers.with(item.value), name::qualified_name, faults);
    }
    let has = |finalizer: &str| finalizers.items().iter().any(|item| item == finalizer);
    if has("orphan") && has("foregroundDeletion") {
        faults.push(finalizers.invalid("finalizer orphan and foregroundDeletion cannot be both set"));
    }
}

/// Groups whose objects may have any finalizer, as custom objects may: those that upstream checks outside its core.
const GENERIC_GROUPS: &[&str] =
    &["admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "coordination.k8s.io"];

/// Built-in kinds know the finalizers without a domain.
fn check_standard_finalizers(def: &KindDef, meta: &At, faults: &mut Faults) {
    if def.custom.is_none() && !GENERIC_GROUPS.contains(&&*def.group) {
        meta.field("finalizers").each().for_each(|item| check_standard_finalizer(&item, faults));
    }
}

/// A finalizer without a domain is one that the server knows.
pub(crate) fn check_standard_finalizer(at: &At, faults: &mut Faults) {
    if !at.text().contains('/') && !STANDARD_FINALIZERS.contains(&at.text()) {
        faults.push(at.invalid("name is neither a standard finalizer name nor is it fully qualified"));
    }
}

fn check_no_new_finalizers(new: &At, old: &At, faults: &mut Faults) {
    let mut extra: Vec<&str> =
        new.items().iter().filter(|item| !old.items().contains(item)).filter_map(Value::as_str).collect();
    if extra.is_empty() {
        return;
    }
    extra.sort_unstable();
    extra.dedup();
    let list = extra.iter().map(|finalizer| format!("{finalizer:?}")).collect::<Vec<_>>().join(", ");
    faults.push(new.forbidden(format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{list}}}"
    )));
}

fn check_immutables(meta: &At, old: &At, faults: &mut Faults) {
    const FIELDS: [&str; 6] =
        ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"];
    for field in FIELDS {
        let new = meta.field(field);
        if !same(new.value, old.field(field).value) {
            faults.push(new.invalid("field is immutable"));
        }
    }
}

fn check_managed_fields(list: &At, faults: &mut Faults) {
    for entry in list.each() {
        let operation = entry.field("operation");
        if !matches!(operation.text(), "Apply" | "Update") {
            faults.push(operation.invalid_as(operation.text(), "must be `Apply` or `Update`"));
        }
        let kind = entry.field("fieldsType");
        if !matches!(kind.text(), "" | "FieldsV1") {
            faults.push(kind.invalid("must be `FieldsV1`"));
        }
        check_field_manager(&entry.field("manager"), faults);
        let subresource = entry.field("subresource");
        if subresource.text().len() > SUBRESOURCE_MAX {
            faults.push(FieldError::too_long(subresource.path, SUBRESOURCE_MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn namespaced() -> KindDef {
        KindDef::new("", "v1", "ConfigMap", "configmaps")
    }

    fn check_new(def: &KindDef, meta: Value, expected: &[&str]) {
        let faults = validate_object_meta(def, &json!({"metadata": meta}));
        let texts: Vec<String> = faults.iter().map(ToString::to_string).collect();
        assert_eq!(texts.len(), expected.len(), "{texts:?}");
        for (text, start) in texts.iter().zip(expected) {
            assert!(text.starts_with(start), "{text}\n{start}");
        }
    }

    #[test]
    fn names_and_namespaces() {
        check_new(&namespaced(), json!({"name": "a", "namespace": "b"}), &[]);
        check_new(&namespaced(), json!({"name": "a", "generateName": "a-", "namespace": "b"}), &[]);
        check_new(
            &namespaced(),
            json!({}),
            &["metadata.name: Required value: name or generateName", "metadata.namespace: Required value"],
        );
        check_new(
            &namespaced().cluster_scoped(),
            json!({"name": "A", "namespace": "b"}),
            &["metadata.name: Invalid value: \"A\"", "metadata.namespace: Forbidden: not allowed on this type"],
        );
    }

    #[test]
    fn owners() {
        let owner = |kind: &str, controller: bool| json!({"apiVersion": "v1", "kind": kind, "name": "n", "uid": "u", "controller": controller});
        let meta = |owners: Value| json!({"name": "a", "namespace": "b", "ownerReferences": owners});
        check_new(&namespaced(), meta(json!([owner("Pod", true), owner("Pod", false)])), &[]);
        check_new(
            &namespaced(),
            meta(json!([owner("Pod", true), owner("Node", true)])),
            &["metadata.ownerReferences: Invalid value: \"Node/n\": Only one reference can have Controller"],
        );
        check_new(
            &namespaced(),
            meta(json!([{"apiVersion": "v1", "kind": "Event", "name": "n"}])),
            &[
                "metadata.ownerReferences.uid: Invalid value: \"\": must not be empty",
                "metadata.ownerReferences: Invalid value: {",
            ],
        );
    }

    #[test]
    fn sizes_and_finalizers() {
        let meta = |extra: Value| {
            let mut meta = json!({"name": "a", "namespace": "b"});
            meta.as_object_mut().expect("map").extend(extra.as_object().expect("map").clone());
            meta
        };
        let exact = "x".repeat(ANNOTATIONS_BYTES_MAX - 1);
        check_new(&namespaced(), meta(json!({"annotations": {"a": exact}})), &[]);
        check_new(
            &namespaced(),
            meta(json!({"annotations": {"ab": exact}})),
            &["metadata.annotations: Too long: may not be more than 262144 bytes"],
        );
        check_new(&namespaced(), meta(json!({"finalizers": ["kubernetes", "a.b/c"]})), &[]);
        check_new(
            &namespaced(),
            meta(json!({"finalizers": ["mine"]})),
            &["metadata.finalizers[0]: Invalid value: \"mine\": name is neither"],
        );
        check_new(
            &namespaced(),
            meta(json!({"labels": {"a": "b c"}})),
            &["metadata.labels: Invalid value: \"b c\": a valid label must be"],
        );
    }

    #[test]
    fn updates_keep_identity() {
        let old = json!({"metadata": {"name": "a", "namespace": "b", "uid": "u", "generation": 2,
            "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"]}});
        let check = |path: &[&str], value: Value, expected: &[&str]| {
            let mut new = old.clone();
            meta::ObjectExt::put(&mut new, path, value);
            let faults = validate_object_meta_update(&namespaced(), &new, &old);
            let texts: Vec<String> = faults.iter().map(ToString::to_string).collect();
            assert_eq!(texts, expected);
        };
        check(&["metadata", "labels"], json!({"a": "b"}), &[]);
        check(&["metadata", "uid"], json!("x"), &["metadata.uid: Invalid value: \"x\": field is immutable"]);
        check(
            &["metadata", "generation"],
            json!(1),
            &["metadata.generation: Invalid value: 1: must not be decremented"],
        );
        check(
            &["metadata", "finalizers"],
            json!(["a/b", "c/d"]),
            &["metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found \
               new finalizers []string{\"c/d\"}"],
        );
    }
}
