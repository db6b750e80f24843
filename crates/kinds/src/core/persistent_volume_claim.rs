//! PersistentVolumeClaim: asks for a volume.

use meta::labels::Selector;
use meta::{FieldError, ObjectExt, Quantity, name};
use serde_json::{Value, json};

use super::pod::resources::quantity;
use crate::check::{At, Faults, immutable, optional_name, optional_one_of, required, same, supported_text};
use crate::difference::difference;
use crate::halves::{keep_all_but, restore};
use crate::{Column, Converged, KindDef, UpdateOf, apply_order, column, fill};

/// How a volume may be mounted, and how tables shorten it.
pub(crate) const ACCESS_MODES: &[(&str, &str)] =
    &[("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOnce", "RWO"), ("ReadWriteOncePod", "RWOP")];
pub(crate) const VOLUME_MODES: &[&str] = &["Block", "Filesystem"];
/// Older clients name the class of storage here.
pub(crate) const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
const STAYS: &str =
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
const EXAMPLE: &str = r#"{"apiVersion": "v1", "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data", "namespace": "default"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
        .short("pvc")
        .schema("io.k8s.api.core.v1.PersistentVolumeClaim")
        .with_status()
        .columns(columns())
        .apply_order(apply_order::STORAGE)
        .health(health)
        .defaults(default)
        .prepares_create(prepare_create)
        .prepares_update(prepare_update)
        .validates(validate)
        .validates_update(validate_update)
        .warns(warnings)
        .example(EXAMPLE)
}

fn columns() -> Vec<Column> {
    vec![
        column::name(),
        Column::new("Status", "string", "Pending, Bound, Lost or Terminating.", |claim, _| phase(claim).into()),
        Column::new("Volume", "string", "The volume it got.", |claim, _| claim.text(&["spec", "volumeName"]).into()),
        Column::new("Capacity", "string", "The size of that volume.", |claim, _| {
            if_bound(claim, claim.text(&["status", "capacity", "storage"]).to_owned())
        }),
        Column::new("Access Modes", "string", "How it may be mounted.", |claim, _| {
            if_bound(claim, short_modes(claim.items(&["status", "accessModes"])))
        }),
        Column::new("StorageClass", "string", "The class of storage it asks for.", |claim, _| {
            storage_class(claim).into()
        }),
        Column::new("VolumeAttributesClass", "string", "The class of attributes it asks for.", |claim, _| {
            or_unset(claim.text(&["spec", "volumeAttributesClassName"])).into()
        }),
        column::age(),
        Column::new("VolumeMode", "string", "Block or Filesystem.", |claim, _| {
            or_unset(claim.text(&["spec", "volumeMode"])).into()
        })
        .wide(),
    ]
}

pub(crate) fn or_unset(text: &str) -> &str {
    if text.is_empty() { "<unset>" } else { text }
}

/// The phase, or that it is going.
pub(crate) fn phase(object: &Value) -> &str {
    if object.is_deleting() { "Terminating" } else { object.text(&["status", "phase"]) }
}

fn if_bound(claim: &Value, text: String) -> Value {
    if claim.text(&["spec", "volumeName"]).is_empty() { "".into() } else { text.into() }
}

/// The class of storage of a claim or volume, wherever it stands.
pub(crate) fn storage_class(object: &Value) -> &str {
    object.annotation(CLASS_ANNOTATION).unwrap_or_else(|| object.text(&["spec", "storageClassName"]))
}

/// Access modes as tables show them: `RWO,ROX`, in upstream's order.
pub(crate) fn short_modes(modes: &[Value]) -> String {
    let has = |long: &&str| modes.iter().any(|mode| mode == long);
    let order = ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"];
    let short = |long: &str| ACCESS_MODES.iter().find(|(name, _)| *name == long).map_or("", |(_, short)| short);
    order.iter().filter(|long| has(long)).map(|long| short(long)).collect::<Vec<_>>().join(",")
}

fn health(claim: &Value) -> Converged {
    match claim.text(&["status", "phase"]) {
        "Bound" => Converged::Yes,
        "Lost" => Converged::Failed("its volume is lost".to_owned()),
        _ => Converged::Progressing("waits for a volume".to_owned()),
    }
}

fn default(claim: &mut Value) {
    if let Some(status) = fill::made(claim, "status") {
        fill::zero(status, "phase", "Pending");
    }
    if let Some(spec) = fill::made(claim, "spec") {
        fill::absent(spec, "volumeMode", "Filesystem");
    }
}

fn prepare_create(claim: &mut Value) {
    claim.put(&["status"], json!({"phase": "Pending"}));
    align_sources(claim);
}

fn prepare_update(new: &mut Value, old: &Value, what: UpdateOf) {
    match what {
        UpdateOf::Main => {
            restore(new, old, "status");
            align_sources(new);
        }
        UpdateOf::Status => keep_all_but(new, old, "status"),
        UpdateOf::Other(_) => {}
    }
}

/// `dataSource` is the older name of `dataSourceRef`; whoever writes one means both.
fn align_sources(claim: &mut Value) {
    let of = |name: &str| claim.at(&["spec", name]).filter(|source| source.is_object()).cloned();
    match (of("dataSource"), of("dataSourceRef")) {
        (Some(source), None) => claim.put(&["spec", "dataSourceRef"], source),
        (None, Some(mut reference)) if reference.text(&["namespace"]).is_empty() => {
            reference.remove(&["namespace"]);
            claim.put(&["spec", "dataSource"], reference);
        }
        _ => {}
    }
}

fn validate(claim: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(claim);
    check_spec(&root.field("spec"), &mut faults);
    faults
}

/// Checks the spec of a claim, or of a template of claims.
pub(crate) fn check_spec(spec: &At, faults: &mut Faults) {
    check_modes(&spec.field("accessModes"), "at least 1 access mode is required", faults);
    let selector = spec.field("selector");
    if selector.is_set() {
        faults.extend(Selector::validate(selector.value, &selector.path));
    }
    check_size(spec, faults);
    optional_name(&spec.field("storageClassName"), name::dns1123_subdomain, faults);
    optional_one_of(&spec.field("volumeMode"), VOLUME_MODES, faults);
    check_sources(spec, faults);
    optional_name(&spec.field("volumeAttributesClassName"), name::dns1123_subdomain, faults);
}

/// Access modes of a claim or volume.
pub(crate) fn check_modes(modes: &At, missing: &str, faults: &mut Faults) {
    let known: Vec<&str> = ACCESS_MODES.iter().map(|(name, _)| *name).collect();
    if modes.items().is_empty() {
        faults.push(modes.required(missing));
    }
    for mode in modes.each() {
        supported_text(&modes.with(mode.value), &known, faults);
    }
    let (pod_only, others): (Vec<&Value>, Vec<&Value>) = modes
        .items()
        .iter()
        .filter(|mode| known.iter().any(|k| mode == k))
        .partition(|mode| *mode == "ReadWriteOncePod");
    if !pod_only.is_empty() && !others.is_empty() {
        faults.push(modes.forbidden("may not use ReadWriteOncePod with other access modes"));
    }
}

fn check_size(spec: &At, faults: &mut Faults) {
    let resources = spec.field("resources");
    // Upstream's path leaves out `requests`.
    let shown = resources.entry("storage");
    let requests = resources.field("requests");
    let size = requests.field("storage");
    if !size.is_set() {
        faults.push(shown.required(""));
        return;
    }
    let at = shown.with(size.value);
    match Quantity::parse(size.text()) {
        Ok(amount) if amount.is_zero() || amount.is_negative() => faults.push(at.invalid("must be greater than zero")),
        _ => drop(quantity(&at, "storage", faults)),
    }
}

fn check_sources(spec: &At, faults: &mut Faults) {
    let (source, reference) = (spec.field("dataSource"), spec.field("dataSourceRef"));
    for at in [&source, &reference] {
        if at.is_set() {
            check_source(at, faults);
        }
    }
    if !source.is_set() || !reference.is_set() {
        return;
    }
    let shown = source.path.to_string();
    if !reference.field("namespace").text().is_empty() {
        faults.push(spec.invalid_as(shown, "may not be specified when dataSourceRef.namespace is specified"));
    } else if ["apiGroup", "kind", "name"].iter().any(|f| !same(source.field(f).value, reference.field(f).value)) {
        faults.push(spec.invalid_as(shown, "must match dataSourceRef"));
    }
}

fn check_source(source: &At, faults: &mut Faults) {
    required(&source.field("name"), faults);
    let (group, kind) = (source.field("apiGroup"), source.field("kind"));
    required(&kind, faults);
    if group.text().is_empty() && kind.text() != "PersistentVolumeClaim" {
        let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        faults.push(source.invalid_as(kind.text(), detail));
    }
    optional_name(&group, name::dns1123_subdomain, faults);
    optional_name(&source.field("namespace"), name::dns1123_label, faults);
}

fn validate_update(new: &Value, old: &Value, what: UpdateOf) -> Vec<FieldError> {
    if what == UpdateOf::Status {
        return validate_status(new);
    }
    let mut faults = validate(new);
    let (root, old_root) = (At::root(new), At::root(old));
    check_fixed(&root, &old_root, &mut faults);
    check_shrinking(&root, old, &mut faults);
    let (spec, old_spec) = (root.field("spec"), old_root.field("spec"));
    immutable(
        &At { value: spec.field("volumeMode").value, path: root.path.field("volumeMode") },
        &old_spec.field("volumeMode"),
        &mut faults,
    );
    check_attributes_class(&spec, &old_spec, &mut faults);
    faults
}

/// What must not change, once everything is put aside that may.
fn check_fixed(root: &At, old_root: &At, faults: &mut Faults) {
    let (mut new, mut old) = (root.value.clone(), old_root.value.clone());
    if old.text(&["spec", "volumeName"]).is_empty() {
        old.put(&["spec", "volumeName"], new.text(&["spec", "volumeName"]));
    }
    if gains_class(&new, &old) {
        old.put(&["spec", "storageClassName"], new.text(&["spec", "storageClassName"]));
    }
    if new.text(&["status", "phase"]) == "Bound" {
        old.put(&["spec", "resources", "requests", "storage"], new["spec"]["resources"]["requests"]["storage"].clone());
    }
    old.put(&["spec", "volumeAttributesClassName"], new["spec"]["volumeAttributesClassName"].clone());
    for object in [&mut new, &mut old] {
        align_sources(object);
    }
    if !same(&new["spec"], &old["spec"]) {
        let detail = format!("{STAYS}\n{}", difference(&old["spec"], &new["spec"]));
        faults.push(root.field("spec").forbidden(detail));
    }
}

/// A claim without a class may be given one, the one its annotation named if there is such.
fn gains_class(new: &Value, old: &Value) -> bool {
    let absent = |claim: &Value| claim.at(&["spec", "storageClassName"]).is_none_or(Value::is_null);
    let class = new.text(&["spec", "storageClassName"]);
    absent(old) && !absent(new) && old.annotation(CLASS_ANNOTATION).is_none_or(|named| named == class)
}

fn check_shrinking(root: &At, old: &Value, faults: &mut Faults) {
    let size = |claim: &Value, path: &[&str]| Quantity::parse(claim.text(path)).unwrap_or(Quantity::from_units(0));
    let request = ["spec", "resources", "requests", "storage"];
    let (wanted, before) = (size(root.value, &request), size(old, &request));
    if wanted < before && wanted <= size(old, &["status", "capacity", "storage"]) {
        faults.push(FieldError::forbidden(request.join("."), "field can not be less than status.capacity"));
    }
}

fn check_attributes_class(spec: &At, old_spec: &At, faults: &mut Faults) {
    let (class, before) = (spec.field("volumeAttributesClassName"), old_spec.field("volumeAttributesClassName"));
    if !before.is_set() {
        return;
    }
    if !class.is_set() {
        faults.push(class.forbidden("update from non-nil value to nil is forbidden"));
    } else if class.text().is_empty() && !before.text().is_empty() {
        faults.push(class.forbidden("update from non-nil value to an empty string is forbidden"));
    }
}

fn validate_status(claim: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(claim);
    let status = root.field("status");
    for list in ["capacity", "allocatedResources"] {
        for (resource, entry) in status.field(list).entries() {
            quantity(&entry, resource, &mut faults);
        }
    }
    faults
}

fn warnings(claim: &Value, _: Option<&Value>) -> Vec<String> {
    let size = claim.text(&["spec", "resources", "requests", "storage"]);
    let fraction = Quantity::parse(size).is_ok_and(|amount| amount.milli() % 1000 != 0);
    let fraction = fraction.then(|| {
        format!("spec.resources.requests[storage]: fractional byte value {size:?} is invalid, must be an integer")
    });
    class_warning(claim).into_iter().chain(fraction).collect()
}

/// Whoever still names the class of storage in an annotation is told of the field.
pub(crate) fn class_warning(object: &Value) -> Option<String> {
    object.annotation(CLASS_ANNOTATION).map(|_| {
        format!(
            "metadata.annotations[{CLASS_ANNOTATION}]: deprecated since v1.8; use \"storageClassName\" attribute instead"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(extra: Value) -> Value {
        let mut claim: Value = serde_json::from_str(EXAMPLE).expect("JSON");
        default(&mut claim);
        claim["spec"].as_object_mut().expect("map").extend(extra.as_object().expect("map").clone());
        claim
    }

    fn texts(faults: Vec<FieldError>) -> Vec<String> {
        faults.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn faults() {
        let check = |extra: Value, expected: &[&str]| assert_eq!(texts(validate(&claim(extra))), expected);
        check(json!({}), &[]);
        check(
            json!({"accessModes": [], "resources": {}}),
            &[
                "spec.accessModes: Required value: at least 1 access mode is required",
                "spec.resources[storage]: Required value",
            ],
        );
        check(
            json!({"accessModes": ["ReadWriteOncePod", "ReadOnlyMany"], "resources": {"requests": {"storage": "0"}}}),
            &[
                "spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
                "spec.resources[storage]: Invalid value: \"0\": must be greater than zero",
            ],
        );
        check(
            json!({"dataSource": {"kind": "Snapshot", "name": "a"}}),
            &["spec.dataSource: Invalid value: \"Snapshot\": must be 'PersistentVolumeClaim' when referencing the \
               default apiGroup"],
        );
    }

    #[test]
    fn what_may_change() {
        let mut old = claim(json!({}));
        old["status"] = json!({"phase": "Bound", "capacity": {"storage": "1Gi"}});
        let check = |path: &[&str], value: Value, starts: &[&str]| {
            let mut new = old.clone();
            new.put(path, value);
            let texts = texts(validate_update(&new, &old, UpdateOf::Main));
            assert_eq!(texts.len(), starts.len(), "{texts:?}");
            assert!(texts.iter().zip(starts).all(|(text, start)| text.starts_with(start)), "{texts:?}");
        };
        let request = ["spec", "resources", "requests", "storage"];
        check(&request, json!("2Gi"), &[]);
        check(&request, json!("1024Mi"), &[]);
        check(
            &request,
            json!("512Mi"),
            &["spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"],
        );
        check(&["spec", "volumeName"], json!("pv"), &[]);
        check(&["spec", "storageClassName"], json!("fast"), &[]);
        check(
            &["spec", "accessModes"],
            json!(["ReadOnlyMany"]),
            &["spec: Forbidden: spec is immutable after creation except resources.requests"],
        );
    }

    #[test]
    fn warns_of_fractions_and_old_names() {
        let mut claim = claim(json!({"resources": {"requests": {"storage": "1500m"}}}));
        claim.put(&["metadata", "annotations", CLASS_ANNOTATION], "fast");
        let warnings = warnings(&claim, None);
        assert_eq!(warnings.len(), 2);
        assert!(warnings[1].ends_with("fractional byte value \"1500m\" is invalid, must be an integer"));
    }

    #[test]
    fn cells() {
        assert_eq!(short_modes(&[json!("ReadOnlyMany"), json!("ReadWriteOnce")]), "RWO,ROX");
    }
}
