//! CustomResourceDefinition: declares a kind that is then served like any other.

mod conversion;
mod names;
mod version;

use meta::{FieldError, ObjectExt, name};
use serde_json::{Value, json};

use crate::check::{At, Faults, immutable, one_of};
use crate::halves::{keep_all_but, restore};
use crate::{Converged, KindDef, UpdateOf, apply_order, column, fill};

const EXAMPLE: &str = r#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": {"name": "boats.example.com"},
    "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "boats", "kind": "Boat"},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object",
                "properties": {"length": {"type": "integer"}}}}}}}]}}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions")
        .cluster_scoped()
        .short("crd")
        .short("crds")
        .category("api-extensions")
        .schema("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition")
        .with_status()
        .counts_generation()
        .columns(vec![column::name(), column::created_at()])
        .apply_order(apply_order::DEFINITION)
        .health(health)
        .defaults(default)
        .prepares_create(prepare_create)
        .prepares_update(prepare_update)
        .validates(validate)
        .validates_update(validate_update)
        .example(EXAMPLE)
}

fn condition<'v>(crd: &'v Value, kind: &str) -> Option<&'v Value> {
    crd.items(&["status", "conditions"]).iter().find(|condition| condition.text(&["type"]) == kind)
}

fn is_true(crd: &Value, kind: &str) -> bool {
    condition(crd, kind).is_some_and(|condition| condition.text(&["status"]) == "True")
}

fn health(crd: &Value) -> Converged {
    if let Some(refused) = condition(crd, "NamesAccepted").filter(|c| c.text(&["status"]) == "False") {
        return Converged::Failed(refused.text(&["message"]).to_owned());
    }
    match is_true(crd, "Established") {
        true => Converged::Yes,
        false => Converged::Progressing("is not served yet".to_owned()),
    }
}

fn default(crd: &mut Value) {
    let Some(spec) = fill::child(crd, "spec") else { return };
    if let Some(names) = fill::child(spec, "names") {
        let kind = names.text(&["kind"]).to_owned();
        if !kind.is_empty() {
            fill::zero(names, "singular", kind.to_lowercase());
            fill::zero(names, "listKind", format!("{kind}List"));
        }
    }
    fill::absent(spec, "conversion", json!({"strategy": "None"}));
    if let Some(service) = fill::descend(spec, &["conversion", "webhook", "clientConfig", "service"]) {
        fill::absent(service, "port", 443);
    }
}

/// The version in whose form objects are stored.
fn storage_version(crd: &Value) -> Option<&str> {
    let versions = crd.items(&["spec", "versions"]);
    versions.iter().find(|version| version.flag(&["storage"])).map(|version| version.text(&["name"]))
}

fn prepare_create(crd: &mut Value) {
    crd.remove(&["status"]);
    record_storage_version(crd);
}

fn prepare_update(new: &mut Value, old: &Value, what: UpdateOf) {
    match what {
        UpdateOf::Main => {
            restore(new, old, "status");
            record_storage_version(new);
        }
        UpdateOf::Status => keep_all_but(new, old, "status"),
        UpdateOf::Other(_) => {}
    }
}

/// Every version that ever was the stored one is remembered until a migration says that nothing is left of it.
fn record_storage_version(crd: &mut Value) {
    let Some(version) = storage_version(crd).map(Value::from) else { return };
    let mut stored = crd.items(&["status", "storedVersions"]).to_vec();
    if !stored.contains(&version) {
        stored.push(version);
        crd.put(&["status", "storedVersions"], stored);
    }
}

fn validate(crd: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(crd);
    let spec = root.field("spec");
    check_own_name(&root, &spec, &mut faults);
    check_group(&spec.field("group"), &mut faults);
    one_of(&spec.field("scope"), &["Cluster", "Namespaced"], &mut faults);
    let preserve = spec.field("preserveUnknownFields");
    if preserve.is_true() {
        faults.push(preserve.invalid(
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        ));
    }
    version::check_all(&spec.field("versions"), &mut faults);
    names::check(&spec.field("names"), &mut faults);
    conversion::check(&spec.field("conversion"), &mut faults);
    check_stored_versions(&root, &mut faults);
    faults
}

fn check_own_name(root: &At, spec: &At, faults: &mut Faults) {
    let meta = root.field("metadata");
    let (own, names) = (meta.field("name"), spec.field("names"));
    let wanted = format!("{}.{}", names.field("plural").text(), spec.field("group").text());
    if own.text() != wanted {
        faults.push(own.invalid_as(own.text(), "must be spec.names.plural+\".\"+spec.group"));
    }
}

fn check_group(group: &At, faults: &mut Faults) {
    let broken = name::dns1123_subdomain(group.text());
    if group.text().is_empty() {
        faults.push(group.required(""));
    } else if !broken.is_empty() {
        faults.push(group.invalid(broken.join(",")));
    } else if !group.text().contains('.') {
        faults.push(group.invalid("should be a domain with at least one dot"));
    }
}

fn check_stored_versions(root: &At, faults: &mut Faults) {
    let status = root.field("status");
    let stored = status.field("storedVersions");
    if stored.items().is_empty() {
        faults.push(stored.invalid("must have at least one stored version"));
        return;
    }
    let names: Vec<&str> = root.value.items(&["spec", "versions"]).iter().map(|v| v.text(&["name"])).collect();
    for version in stored.each().filter(|version| !names.contains(&version.text())) {
        let name = version.text();
        faults.push(version.invalid(format!(
            "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions \
             until a storage migration ensures no data remains persisted in {name} and removes {name} from \
             status.storedVersions"
        )));
    }
    let storage = storage_version(root.value).unwrap_or("");
    if !storage.is_empty() && !stored.items().iter().any(|version| version == storage) {
        faults.push(stored.invalid(format!("must have the storage version {storage}")));
    }
}

fn validate_update(new: &Value, old: &Value, what: UpdateOf) -> Vec<FieldError> {
    let (root, old_root) = (At::root(new), At::root(old));
    if what == UpdateOf::Status {
        let mut faults = Faults::new();
        check_stored_versions(&root, &mut faults);
        return faults;
    }
    let mut faults = validate(new);
    let (spec, old_spec) = (root.field("spec"), old_root.field("spec"));
    let (names, old_names) = (spec.field("names"), old_spec.field("names"));
    // Once objects exist these would strand them.
    if is_true(old, "Established") {
        immutable(&spec.field("scope"), &old_spec.field("scope"), &mut faults);
        immutable(&names.field("kind"), &old_names.field("kind"), &mut faults);
    }
    immutable(&spec.field("group"), &old_spec.field("group"), &mut faults);
    immutable(&names.field("plural"), &old_names.field("plural"), &mut faults);
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn example() -> Value {
        let mut crd: Value = serde_json::from_str(EXAMPLE).expect("JSON");
        default(&mut crd);
        prepare_create(&mut crd);
        crd
    }

    pub(super) fn check(path: &[&str], value: Value, expected: &[&str]) {
        let mut crd = example();
        match value {
            Value::Null => drop(crd.remove(path)),
            value => crd.put(path, value),
        }
        let texts: Vec<String> = validate(&crd).iter().map(ToString::to_string).collect();
        assert_eq!(texts.len(), expected.len(), "{texts:?}");
        for (text, start) in texts.iter().zip(expected) {
            assert!(text.starts_with(start), "{text}\n{start}");
        }
    }

    #[test]
    fn defaults() {
        let crd = example();
        assert_eq!(crd["spec"]["names"]["singular"], "boat");
        assert_eq!(crd["spec"]["names"]["listKind"], "BoatList");
        assert_eq!(crd["spec"]["conversion"], json!({"strategy": "None"}));
        assert_eq!(crd["status"]["storedVersions"], json!(["v1"]));
    }

    #[test]
    fn faults() {
        check(&["spec", "scope"], json!("Namespaced"), &[]);
        check(
            &["spec", "scope"],
            json!("World"),
            &["spec.scope: Unsupported value: \"World\": supported values: \"Cluster\", \"Namespaced\""],
        );
        check(
            &["metadata", "name"],
            json!("boats"),
            &["metadata.name: Invalid value: \"boats\": must be spec.names.plural+\".\"+spec.group"],
        );
        check(
            &["spec", "group"],
            json!("example"),
            &["metadata.name: Invalid value", "spec.group: Invalid value: \"example\": should be a domain"],
        );
    }

    #[test]
    fn stored_versions_stay_declared() {
        let old = example();
        let mut new = old.clone();
        new["spec"]["versions"][0]["name"] = json!("v2");
        prepare_update(&mut new, &old, UpdateOf::Main);
        assert_eq!(new["status"]["storedVersions"], json!(["v1", "v2"]));
        let faults = validate_update(&new, &old, UpdateOf::Main);
        assert_eq!(faults.len(), 1);
        assert!(
            faults[0].to_string().starts_with("status.storedVersions[0]: Invalid value: \"v1\": missing from spec")
        );
    }
}
