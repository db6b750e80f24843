//! APIService: a group and version, and who serves it.

use meta::{FieldError, ObjectExt, name};
use serde_json::Value;

use crate::check::{At, Faults, named, required};
use crate::{Column, Converged, KindDef, UpdateOf, apply_order, column, fill};

/// Upstream's bounds of the priorities.
const GROUP_PRIORITY_MAX: i64 = 20_000;
const VERSION_PRIORITY_MAX: i64 = 1000;
const EXAMPLE: &str = r#"{"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
    "metadata": {"name": "v1.metrics.example.com"}, "spec": {"group": "metrics.example.com", "version": "v1",
        "service": {"name": "metrics", "namespace": "monitoring"}, "groupPriorityMinimum": 100, "versionPriority": 100}}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new("apiregistration.k8s.io", "v1", "APIService", "apiservices")
        .cluster_scoped()
        .category("api-extensions")
        .schema("io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIService")
        .with_status()
        .columns(columns())
        .apply_order(apply_order::INTERCEPTOR)
        .health(health)
        .defaults(|object| {
            if let Some(service) = fill::descend(object, &["spec", "service"]) {
                fill::absent(service, "port", 443);
            }
        })
        .validates(validate)
        .validates_update(|new, _, what| if what == UpdateOf::Main { validate(new) } else { Vec::new() })
        .example(EXAMPLE)
}

fn columns() -> Vec<Column> {
    vec![
        column::name(),
        Column::new("Service", "string", "Who serves it.", |object, _| {
            let service = &object["spec"]["service"];
            if !service.is_object() {
                return "Local".into();
            }
            format!("{}/{}", service.text(&["namespace"]), service.text(&["name"])).into()
        }),
        Column::new("Available", "string", "Whether it answers.", |object, _| available(object).into()),
        column::age(),
    ]
}

fn condition(object: &Value) -> Option<&Value> {
    object.items(&["status", "conditions"]).iter().find(|condition| condition.text(&["type"]) == "Available")
}

fn available(object: &Value) -> String {
    match condition(object) {
        Some(condition) if condition.text(&["status"]) != "True" => {
            format!("{} ({})", condition.text(&["status"]), condition.text(&["reason"]))
        }
        Some(condition) => condition.text(&["status"]).to_owned(),
        None => "Unknown".to_owned(),
    }
}

fn health(object: &Value) -> Converged {
    match condition(object) {
        Some(condition) if condition.text(&["status"]) == "True" => Converged::Yes,
        Some(condition) => Converged::Progressing(condition.text(&["message"]).to_owned()),
        None => Converged::Progressing("was not tried yet".to_owned()),
    }
}

fn validate(object: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(object);
    let (meta, spec) = (root.field("metadata"), root.field("spec"));
    let (own, group, version) = (meta.field("name"), spec.field("group"), spec.field("version"));
    let wanted = format!("{}.{}", version.text(), group.text());
    if own.text() != wanted {
        faults.push(own.invalid_as(own.text(), format!("must be `spec.version+\".\"+spec.group`: {wanted:?}")));
    }
    if !group.text().is_empty() {
        named(&group, name::dns1123_subdomain, &mut faults);
    }
    named(&version, name::dns1035_label, &mut faults);
    check_priority(&spec.field("groupPriorityMinimum"), GROUP_PRIORITY_MAX, &mut faults);
    check_priority(&spec.field("versionPriority"), VERSION_PRIORITY_MAX, &mut faults);
    check_service(&spec, &mut faults);
    faults
}

fn check_priority(at: &At, max: i64, faults: &mut Faults) {
    if !(1..=max).contains(&at.number()) {
        faults.push(at.invalid_as(at.number(), format!("must be positive and less than {max}")));
    }
}

fn check_service(spec: &At, faults: &mut Faults) {
    let (service, bundle, insecure) =
        (spec.field("service"), spec.field("caBundle"), spec.field("insecureSkipTLSVerify"));
    if service.is_set() {
        required(&service.field("namespace"), faults);
        required(&service.field("name"), faults);
        if insecure.is_true() && !bundle.text().is_empty() {
            faults.push(insecure.invalid("may not be true if caBundle is present"));
        }
        return;
    }
    if !bundle.text().is_empty() {
        faults.push(bundle.invalid_as("<bytes>", "local APIServices may not have a caBundle"));
    }
    if insecure.is_true() {
        faults.push(insecure.invalid("local APIServices may not have insecureSkipTLSVerify"));
    }
}
