//! Environment variables of containers and the selectors of pod fields that they share with volumes.

use meta::{ObjectExt, Quantity, name};
use serde_json::Value;

use super::path::no_backsteps;
use crate::check::{At, Faults, named, required_name};

/// Fields of a pod that a variable may show.
pub(crate) const ENV_FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// Fields of a pod that exist at all under this selector, subscripts aside.
const POD_FIELDS: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.phase",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
const CONTAINER_RESOURCES: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const BYTE_DIVISORS: &[&str] = &["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
const SOURCES: &[&str] = &["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];

/// Checks `env`.
pub(crate) fn variables(list: &At, faults: &mut Faults) {
    for variable in list.each() {
        required_name(&variable.field("name"), name::env_var_name, faults);
        let from = variable.field("valueFrom");
        if from.is_set() {
            value_from(&from, variable.field("value").text(), faults);
        }
    }
}

fn value_from(at: &At, value: &str, faults: &mut Faults) {
    let count = SOURCES.iter().filter(|source| at.has(source)).count();
    if at.has("fieldRef") {
        field_ref(&at.field("fieldRef"), ENV_FIELDS, faults);
    }
    if at.has("resourceFieldRef") {
        resource_ref(&at.field("resourceFieldRef"), false, faults);
    }
    for source in ["configMapKeyRef", "secretKeyRef"] {
        if at.has(source) {
            key_ref(&at.field(source), faults);
        }
    }
    if at.has("fileKeyRef") {
        file_ref(&at.field("fileKeyRef"), faults);
    }
    let detail = match count {
        0 => "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        _ if !value.is_empty() => "may not be specified when `value` is not empty",
        1 => return,
        _ => "may not have more than one field specified at a time",
    };
    faults.push(at.invalid_as("", detail));
}

fn key_ref(at: &At, faults: &mut Faults) {
    named(&at.field("name"), name::dns1123_subdomain, faults);
    required_name(&at.field("key"), name::config_map_key, faults);
}

fn file_ref(at: &At, faults: &mut Faults) {
    required_name(&at.field("key"), name::env_var_name, faults);
    required_name(&at.field("volumeName"), name::dns1123_label, faults);
    let path = at.field("path");
    if path.text().is_empty() { faults.push(path.required("")) } else { no_backsteps(&path, faults) }
}

/// Checks `envFrom`.
pub(crate) fn sources(list: &At, faults: &mut Faults) {
    for source in list.each() {
        let prefix = source.field("prefix");
        if !prefix.text().is_empty() {
            named(&prefix, name::env_var_name, faults);
        }
        let mut count = 0;
        for kind in ["configMapRef", "secretRef"] {
            if source.has(kind) {
                count += 1;
                let masked = |text: &str| name::dns1123_subdomain(&name::mask_trailing_dash(text));
                required_name(&source.field(kind).field("name"), masked, faults);
            }
        }
        match count {
            0 => faults.push(list.invalid_as("", "must specify one of: `configMapRef` or `secretRef`")),
            1 => {}
            _ => faults.push(list.invalid_as("", "may not have more than one field specified at a time")),
        }
    }
}

/// Splits `metadata.labels['key']`; `None` when there is no subscript.
pub(crate) fn split_subscript(path: &str) -> Option<(&str, &str)> {
    path.strip_suffix("']")?.split_once("['").filter(|(field, _)| !field.is_empty())
}

/// Checks an `ObjectFieldSelector` that may name one of `fields`.
pub(crate) fn field_ref(at: &At, fields: &[&str], faults: &mut Faults) {
    let (version, path) = (at.field("apiVersion"), at.field("fieldPath"));
    if version.text().is_empty() {
        faults.push(version.required(""));
    } else if path.text().is_empty() {
        faults.push(path.required(""));
    } else {
        match pod_field(version.text(), path.text()) {
            Ok(field) => selected(at, field, fields, faults),
            Err(fault) => faults.push(path.invalid(format!("error converting fieldPath: {fault}"))),
        }
    }
}

/// The pod field that a label of the downward API means.
fn pod_field<'t>(version: &str, label: &'t str) -> Result<&'t str, String> {
    if version != "v1" {
        return Err(format!("unsupported pod version: {version}"));
    }
    match split_subscript(label) {
        Some(("metadata.annotations" | "metadata.labels", _)) => Ok(label),
        Some(_) => Err(format!("field label does not support subscript: {label}")),
        None if label == "spec.host" => Ok("spec.nodeName"),
        None if POD_FIELDS.contains(&label) => Ok(label),
        None => Err(format!("field label not supported: {label}")),
    }
}

fn selected(at: &At, field: &str, fields: &[&str], faults: &mut Faults) {
    match split_subscript(field) {
        Some((path, key)) => {
            // Keys of annotations are compared without regard to case.
            let key = if path == "metadata.annotations" { key.to_lowercase() } else { key.to_owned() };
            named(&at.with(&Value::String(key)), name::qualified_name, faults);
        }
        None if fields.contains(&field) => {}
        None => {
            faults.push(meta::FieldError::not_supported(at.field("fieldPath").path, field, fields));
        }
    }
}

/// Checks a `ResourceFieldSelector`; in a volume it must say whose resource it means.
pub(crate) fn resource_ref(at: &At, in_volume: bool, faults: &mut Faults) {
    let (container, resource) = (at.field("containerName"), at.field("resource"));
    let huge = |text: &str| text.starts_with("requests.hugepages-") || text.starts_with("limits.hugepages-");
    if in_volume && container.text().is_empty() {
        faults.push(container.required(""));
    } else if resource.text().is_empty() {
        faults.push(resource.required(""));
    } else if !CONTAINER_RESOURCES.contains(&resource.text()) && !huge(resource.text()) {
        faults.push(resource.unsupported(CONTAINER_RESOURCES));
    }
    divisor(at, resource.text(), huge(resource.text()), faults);
}

fn divisor(at: &At, resource: &str, huge: bool, faults: &mut Faults) {
    let written = at.value.text(&["divisor"]);
    let Some(divisor) = Quantity::parse(written).ok().filter(|quantity| !quantity.is_zero()) else { return };
    let divisor = divisor.to_string();
    let noun = match resource.split_once('.').map_or("", |(_, noun)| noun) {
        "cpu" if matches!(divisor.as_str(), "1" | "1m") => return,
        "cpu" => {
            let detail = "only divisor's values 1m and 1 are supported with the cpu resource";
            faults.push(at.field("divisor").invalid_as(resource, detail));
            return;
        }
        "memory" => "memory",
        "ephemeral-storage" => "local ephemeral storage",
        _ if huge => "hugepages",
        _ => return,
    };
    if !BYTE_DIVISORS.contains(&divisor.as_str()) {
        let list = BYTE_DIVISORS.join(", ");
        let detail = format!("only divisor's values {list} are supported with the {noun} resource");
        faults.push(at.field("divisor").invalid_as(resource, detail));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(env: Value, expected: &[&str]) {
        let mut faults = Faults::new();
        let object = json!({ "env": env });
        variables(&At::root(&object).field("env"), &mut faults);
        assert_eq!(faults.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn variables_read_like_upstream() {
        let field = |path: &str| json!({"fieldRef": {"apiVersion": "v1", "fieldPath": path}});
        check(
            json!([{"name": "abc", "value": "v"}, {"name": "A-B.c", "value": ""},
                {"name": "f", "valueFrom": field("metadata.labels['k']")},
                {"name": "f", "valueFrom": field("status.podIPs")},
                {"name": "r", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
                {"name": "r", "valueFrom": {"resourceFieldRef": {"resource": "requests.hugepages-2Mi"}}}]),
            &[],
        );
        check(json!([{"name": ""}]), &["env[0].name: Required value"]);
        check(
            json!([{"name": "a=b"}]),
            &["env[0].name: Invalid value: \"a=b\": a valid environment variable name must consist only of printable \
               ASCII characters other than '='"],
        );
        check(
            json!([{"name": "a", "valueFrom": {}}]),
            &["env[0].valueFrom: Invalid value: \"\": must specify one of: `fieldRef`, `resourceFieldRef`, \
               `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"],
        );
        check(
            json!([{"name": "a", "value": "x", "valueFrom": field("metadata.name")}]),
            &["env[0].valueFrom: Invalid value: \"\": may not be specified when `value` is not empty"],
        );
        check(
            json!([{"name": "a", "valueFrom": {"configMapKeyRef": {"name": "Some", "key": "a/b"},
                "secretKeyRef": {"name": "s", "key": "k"}}}]),
            &[
                "env[0].valueFrom.configMapKeyRef.name: Invalid value: \"Some\": a lowercase RFC 1123 subdomain must \
                 consist of lower case alphanumeric characters, '-' or '.', and must start and end with an \
                 alphanumeric character (e.g. 'example.com', regex used for validation is \
                 '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
                "env[0].valueFrom.configMapKeyRef.key: Invalid value: \"a/b\": a valid config key must consist of \
                 alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used \
                 for validation is '[-._a-zA-Z0-9]+')",
                "env[0].valueFrom: Invalid value: \"\": may not have more than one field specified at a time",
            ],
        );
        check(
            json!([{"name": "a", "valueFrom": field("metadata.whoops")}]),
            &["env[0].valueFrom.fieldRef.fieldPath: Invalid value: \"metadata.whoops\": error converting fieldPath: \
               field label not supported: metadata.whoops"],
        );
        check(
            json!([{"name": "a", "valueFrom": field("metadata.labels")}]),
            &["env[0].valueFrom.fieldRef.fieldPath: Unsupported value: \"metadata.labels\": supported values: \
               \"metadata.name\", \"metadata.namespace\", \"metadata.uid\", \"spec.nodeName\", \
               \"spec.serviceAccountName\", \"status.hostIP\", \"status.hostIPs\", \"status.podIP\", \"status.podIPs\""],
        );
        check(
            json!([{"name": "a", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "2"}}}]),
            &[
                "env[0].valueFrom.resourceFieldRef.divisor: Invalid value: \"limits.cpu\": only divisor's values 1m and \
               1 are supported with the cpu resource",
            ],
        );
    }
}
