//! StatefulSets: pods with names and volumes of their own.

use meta::labels::Selector;
use meta::{FieldError, ObjectExt, name as names};
use serde_json::{Value, json};

use super::percent;
use super::replica_set::{prepare_create, prepare_update};
use crate::check::{At, Faults, immutable, non_negative, optional_name, supported_text};
use crate::column::{age, name};
use crate::core::persistent_volume_claim;
use crate::core::pod::{defaults, template, warnings};
use crate::workload::{available_is_ready, collisions, counters, progress, template_columns, unobserved};
use crate::{Column, Converged, KindDef, SelectorAt, UpdateOf, fill};

const COUNTERS: &[&str] = &[
    "replicas",
    "readyReplicas",
    "currentReplicas",
    "updatedReplicas",
    "availableReplicas",
    "observedGeneration",
    "collisionCount",
];
const RETENTION: &[&str] = &["Retain", "Delete"];

/// The declaration.
pub fn def() -> KindDef {
    KindDef::new("apps", "v1", "StatefulSet", "statefulsets")
        .short("sts")
        .category("all")
        .schema("io.k8s.api.apps.v1.StatefulSet")
        .counts_generation()
        .with_status()
        .with_scale("spec.replicas", "status.replicas", SelectorAt::LabelSelector("spec.selector".into()))
        .columns(columns())
        .health(health)
        .defaults(default)
        .prepares_create(prepare_create)
        .prepares_update(prepare_update)
        .validates(validate)
        .validates_update(validate_update)
        .warns(warn)
        .named_by(names::dns1123_label)
        .example(
            r#"{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"db","namespace":"default"},"spec":{
                "serviceName":"db","selector":{"matchLabels":{"app":"db"}},
                "template":{"metadata":{"labels":{"app":"db"}},
                    "spec":{"containers":[{"name":"db","image":"db:1"}]}}}}"#,
        )
}

fn columns() -> Vec<Column> {
    let mut columns = vec![
        name(),
        Column::new("Ready", "string", "Pods that are ready, of those wanted.", |object, _| {
            let of = |path: &[&str]| object.int(path).unwrap_or(0);
            format!("{}/{}", of(&["status", "readyReplicas"]), of(&["spec", "replicas"])).into()
        }),
        age(),
    ];
    columns.extend(template_columns());
    columns
}

fn default(object: &mut Value) {
    let Some(spec) = fill::made(object, "spec") else { return };
    fill::zero(spec, "podManagementPolicy", "OrderedReady");
    strategy_defaults(spec);
    if let Some(policy) = fill::made(spec, "persistentVolumeClaimRetentionPolicy") {
        fill::zero(policy, "whenDeleted", "Retain");
        fill::zero(policy, "whenScaled", "Retain");
    }
    fill::absent(spec, "replicas", 1);
    fill::absent(spec, "revisionHistoryLimit", 10);
    fill::items(spec, "volumeClaimTemplates").for_each(claim_defaults);
    if let Some(template) = fill::made(spec, "template") {
        defaults::template(template);
    }
}

/// Details of a rolling update are filled in only where the strategy was left open or details were given.
fn strategy_defaults(spec: &mut Value) {
    let Some(strategy) = fill::made(spec, "updateStrategy") else { return };
    if strategy.text(&["type"]).is_empty() {
        fill::zero(strategy, "type", "RollingUpdate");
        fill::absent(strategy, "rollingUpdate", serde_json::Map::new());
    }
    if strategy.text(&["type"]) == "RollingUpdate"
        && let Some(rolling) = fill::child(strategy, "rollingUpdate")
    {
        fill::absent(rolling, "partition", 0);
        fill::absent(rolling, "maxUnavailable", 1);
    }
}

/// Templates of claims read as claims of their own.
fn claim_defaults(claim: &mut Value) {
    fill::zero(claim, "apiVersion", "v1");
    fill::zero(claim, "kind", "PersistentVolumeClaim");
    if let Some(spec) = fill::made(claim, "spec") {
        defaults::claim_spec(spec);
    }
    if let Some(status) = fill::made(claim, "status") {
        fill::zero(status, "phase", "Pending");
    }
}

fn validate(object: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(object);
    let spec = root.field("spec");
    check_spec(&spec, true, &mut faults);
    optional_name(&spec.field("serviceName"), names::dns1123_label, &mut faults);
    for claim in spec.field("volumeClaimTemplates").each() {
        persistent_volume_claim::check_spec(&claim.field("spec"), &mut faults);
    }
    faults
}

/// Checks the spec; `with_template` is off where the template was already unsound before the change.
fn check_spec(spec: &At, with_template: bool, faults: &mut Faults) {
    let policy = spec.field("podManagementPolicy");
    match policy.text() {
        "" => faults.push(policy.required("")),
        "OrderedReady" | "Parallel" => {}
        _ => faults.push(policy.invalid("must be 'OrderedReady' or 'Parallel'")),
    }
    strategy(&spec.field("updateStrategy"), faults);
    let retention = spec.field("persistentVolumeClaimRetentionPolicy");
    for field in ["whenDeleted", "whenScaled"] {
        if retention.is_set() {
            supported_text(&retention.field(field), RETENTION, faults);
        }
    }
    non_negative(&spec.field("replicas"), faults);
    non_negative(&spec.field("minReadySeconds"), faults);
    let ordinals = spec.field("ordinals");
    non_negative(&spec.field("ordinals.start").with(ordinals.field("start").value), faults);
    let selector = spec.field("selector");
    template::selector(&selector, "statefulset", faults);
    match Selector::from_label_selector(Some(selector.value)) {
        Err(_) => faults.push(selector.invalid("")),
        Ok(parsed) => check_template(spec, &parsed, with_template, faults),
    }
    template::runs_for_ever(&spec.field("template"), "StatefulSet", faults);
}

fn strategy(at: &At, faults: &mut Faults) {
    let rolling = at.field("rollingUpdate");
    match at.field("type").text() {
        "" => faults.push(at.required("")),
        "OnDelete" if rolling.is_set() => {
            faults.push(rolling.invalid("only allowed for updateStrategy 'RollingUpdate'"));
        }
        "OnDelete" => {}
        "RollingUpdate" => rolling_update(&rolling, faults),
        _ => faults.push(at.invalid("must be 'RollingUpdate' or 'OnDelete'")),
    }
}

fn rolling_update(at: &At, faults: &mut Faults) {
    non_negative(&at.field("partition"), faults);
    let unavailable = at.field("maxUnavailable");
    if unavailable.is_set() {
        percent::check(&unavailable, faults);
        if percent::is_zero(&unavailable) {
            faults.push(unavailable.invalid("cannot be 0"));
        }
        percent::at_most_whole(&unavailable, faults);
    }
}

/// Checks the template as its pods will be: with the volumes of the claims, and with names that the set gives.
fn check_template(spec: &At, selector: &Selector, with_template: bool, faults: &mut Faults) {
    let at = spec.field("template");
    template::matches(&at, selector, faults);
    if !with_template {
        return;
    }
    let mut as_made = at.value.clone();
    for field in ["subdomain", "hostname"] {
        as_made.remove(&["spec", field]);
    }
    let claims = spec.value.items(&["volumeClaimTemplates"]);
    if !claims.is_empty() {
        as_made.put(&["spec", "volumes"], volumes(claims, at.value));
    }
    template::check(&at.with(&as_made), faults);
}

fn volumes(claims: &[Value], template: &Value) -> Vec<Value> {
    let claimed: std::collections::BTreeSet<&str> = claims.iter().map(ObjectExt::name).collect();
    let volume = |name: &str| json!({"name": name, "persistentVolumeClaim": {"claimName": name}});
    let others = template.items(&["spec", "volumes"]).iter().filter(|v| !claimed.contains(v.text(&["name"])));
    claimed.iter().copied().map(volume).chain(others.cloned()).collect()
}

fn validate_update(new: &Value, old: &Value, what: UpdateOf) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let (root, old_root) = (At::root(new), At::root(old));
    if what == UpdateOf::Status {
        check_status(&root.field("status"), &mut faults);
        collisions(&root.field("status"), &old_root.field("status"), &mut faults);
        return faults;
    }
    let (spec, old_spec) = (root.field("spec"), old_root.field("spec"));
    let mut before = Faults::new();
    check_spec(&old_spec, true, &mut before);
    check_spec(&spec, before.is_empty(), &mut faults);
    for field in ["selector", "volumeClaimTemplates", "serviceName", "podManagementPolicy"] {
        immutable(&spec.field(field), &old_spec.field(field), &mut faults);
    }
    faults
}

fn check_status(status: &At, faults: &mut Faults) {
    let parts = ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
    counters(status, COUNTERS, &parts, faults);
    available_is_ready(status, "status.readyReplicas", faults);
}

fn warn(new: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = warnings::of_workload(new, old, false);
    if new.int(&["spec", "revisionHistoryLimit"]).is_some_and(|limit| limit < 0) {
        let advice = "a negative value retains all historical revisions; a value >= 0 is recommended";
        warnings.push(format!("spec.revisionHistoryLimit: {advice}"));
    }
    warnings
}

fn health(object: &Value) -> Converged {
    if let Some(waiting) = unobserved(object) {
        return waiting;
    }
    let of = |field: &str| object.int(&["status", field]).unwrap_or(0);
    let wanted = object.int(&["spec", "replicas"]).unwrap_or(1);
    let strategy = object.at(&["spec", "updateStrategy"]).cloned().unwrap_or_default();
    let ready = (of("readyReplicas"), wanted, "pods are ready");
    if of("replicas") > wanted {
        return Converged::Progressing(format!("{} pods are to go", of("replicas").saturating_sub(wanted)));
    }
    if strategy.text(&["type"]) == "OnDelete" {
        return progress(&[ready]);
    }
    // Pods below the partition keep the old template on purpose.
    let updatable = wanted.saturating_sub(strategy.int(&["rollingUpdate", "partition"]).unwrap_or(0)).max(0);
    let updated = if object.text(&["status", "updateRevision"]) == object.text(&["status", "currentRevision"]) {
        updatable.max(of("updatedReplicas"))
    } else {
        of("updatedReplicas")
    };
    progress(&[(updated, updatable, "pods are updated"), ready])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Value {
        let mut object: Value = serde_json::from_str(def().example).expect("example is JSON");
        object["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]);
        object["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] =
            json!([{"name": "data", "mountPath": "/data"}]);
        default(&mut object);
        object
    }

    fn texts(faults: &[FieldError]) -> Vec<String> {
        faults.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn defaults() {
        let object = example();
        let spec = &object["spec"];
        let rolling = json!({"partition": 0, "maxUnavailable": 1});
        assert_eq!(spec["updateStrategy"], json!({"type": "RollingUpdate", "rollingUpdate": rolling}));
        assert_eq!(
            spec["persistentVolumeClaimRetentionPolicy"],
            json!({"whenDeleted": "Retain", "whenScaled": "Retain"})
        );
        let claim = &spec["volumeClaimTemplates"][0];
        assert_eq!(
            (&claim["kind"], &claim["spec"]["volumeMode"]),
            (&json!("PersistentVolumeClaim"), &json!("Filesystem"))
        );
        let mut again = object.clone();
        default(&mut again);
        assert_eq!(again, object);
        assert_eq!(validate(&object), []);
    }

    #[test]
    fn checks_read_like_upstream() {
        let check = |change: fn(&mut Value), expected: &[&str]| {
            let mut object = example();
            change(&mut object["spec"]);
            assert_eq!(texts(&validate(&object)), expected);
        };
        check(
            |spec| spec["podManagementPolicy"] = json!("Any"),
            &["spec.podManagementPolicy: Invalid value: \"Any\": must be 'OrderedReady' or 'Parallel'"],
        );
        check(
            |spec| spec["updateStrategy"] = json!({"type": "OnDelete", "rollingUpdate": {}}),
            &["spec.updateStrategy.rollingUpdate: Invalid value: {}: only allowed for updateStrategy 'RollingUpdate'"],
        );
        check(
            |spec| spec["ordinals"] = json!({"start": -2}),
            &["spec.ordinals.start: Invalid value: -2: must be greater than or equal to 0"],
        );
        check(
            |spec| spec["persistentVolumeClaimRetentionPolicy"]["whenScaled"] = json!("Keep"),
            &["spec.persistentVolumeClaimRetentionPolicy.whenScaled: Unsupported value: \"Keep\": supported values: \
               \"Retain\", \"Delete\""],
        );
        check(
            |spec| spec["volumeClaimTemplates"][0]["spec"]["accessModes"] = json!([]),
            &["spec.volumeClaimTemplates[0].spec.accessModes: Required value: at least 1 access mode is required"],
        );
        check(
            |spec| spec["updateStrategy"]["rollingUpdate"]["maxUnavailable"] = json!(0),
            &["spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: 0: cannot be 0"],
        );
    }

    #[test]
    fn identity_stays() {
        let old = example();
        let mut new = old.clone();
        new["spec"]["serviceName"] = json!("other");
        new["spec"]["podManagementPolicy"] = json!("Parallel");
        new["spec"]["replicas"] = json!(5);
        assert_eq!(
            texts(&validate_update(&new, &old, UpdateOf::Main)),
            [
                "spec.serviceName: Invalid value: \"other\": field is immutable",
                "spec.podManagementPolicy: Invalid value: \"Parallel\": field is immutable",
            ]
        );
    }

    #[test]
    fn convergence() {
        let check = |partition: i64, status: Value, expected: Converged| {
            let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": partition}});
            let object = json!({"metadata": {"generation": 1}, "status": status,
                "spec": {"replicas": 3, "updateStrategy": strategy}});
            assert_eq!(health(&object), expected);
        };
        let status = |updated: i64, ready: i64| {
            json!({"observedGeneration": 1, "replicas": 3, "updatedReplicas": updated, "readyReplicas": ready,
                "currentRevision": "a", "updateRevision": "b"})
        };
        let progressing = |text: &str| Converged::Progressing(text.to_owned());
        check(0, status(3, 3), Converged::Yes);
        check(2, status(1, 3), Converged::Yes);
        check(0, status(1, 3), progressing("1 of 3 pods are updated"));
        check(0, status(3, 2), progressing("2 of 3 pods are ready"));
    }
}
