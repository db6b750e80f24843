//! What a pod may be told of itself: its fields, and the resources of its containers.

use std::collections::BTreeMap;

use meta::{ObjectExt, Quantity};
use serde_json::Value;

/// The value of a `fieldRef`; `None` for a path that there is not, or that has no value yet.
pub fn field(pod: &Value, path: &str) -> Option<String> {
    let text = |path: &[&str]| Some(pod.text(path).to_owned());
    let ips = |list: &str| {
        let all: Vec<&str> = pod.items(&["status", list]).iter().map(|ip| ip.text(&["ip"])).collect();
        (!all.is_empty()).then(|| all.join(","))
    };
    let shown = |path: &[&str]| text(path).filter(|ip| !ip.is_empty());
    match path {
        "metadata.name" => text(&["metadata", "name"]),
        "metadata.namespace" => text(&["metadata", "namespace"]),
        "metadata.uid" => text(&["metadata", "uid"]),
        "metadata.labels" => Some(listed(pod, "labels")),
        "metadata.annotations" => Some(listed(pod, "annotations")),
        "spec.nodeName" => text(&["spec", "nodeName"]),
        "spec.serviceAccountName" => text(&["spec", "serviceAccountName"]),
        "spec.restartPolicy" => text(&["spec", "restartPolicy"]),
        "status.phase" => text(&["status", "phase"]),
        "status.hostIP" => shown(&["status", "hostIP"]),
        "status.hostIPs" => ips("hostIPs"),
        "status.podIP" => shown(&["status", "podIP"]),
        "status.podIPs" => ips("podIPs"),
        _ => subscript(pod, path),
    }
}

/// `metadata.labels['key']`.
fn subscript(pod: &Value, path: &str) -> Option<String> {
    let (map, key) = path.strip_prefix("metadata.")?.strip_suffix("']")?.split_once("['")?;
    matches!(map, "labels" | "annotations").then(|| pod.text(&["metadata", map, key]).to_owned())
}

/// `key="value"` a line, in order.
fn listed(pod: &Value, map: &str) -> String {
    let entries: BTreeMap<&str, &str> = pod
        .map(&["metadata", map])
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
        .collect();
    let lines: Vec<String> = entries.iter().map(|(key, value)| format!("{key}={}", quoted(value))).collect();
    lines.join("\n")
}

/// As Go quotes a string.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if (c as u32) < 0x20 || c as u32 == 0x7f => out.push_str(&format!("\\x{:02x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// The value of a `resourceFieldRef` of a container of `pod`; `allocatable` stands in for limits that are not set.
pub fn resource(pod: &Value, container: &str, reference: &Value, allocatable: &Value) -> Result<String, String> {
    let name = match reference.text(&["containerName"]) {
        "" => container,
        name => name,
    };
    let lists = ["containers", "initContainers"].iter().flat_map(|list| pod.items(&["spec", list]));
    let mut all = lists.into_iter();
    let found = all.find(|c| c.text(&["name"]) == name).ok_or_else(|| format!("container {name} not found"))?;
    let path = reference.text(&["resource"]);
    let (list, resource) = path.split_once('.').ok_or_else(|| format!("unsupported container resource : {path}"))?;
    let read = |value: Option<&Value>| value.and_then(|value| Quantity::from_value(value).ok());
    let set = |list: &str| read(found.at(&["resources", list, resource])).filter(|amount| !amount.is_zero());
    let amount = match list {
        "limits" => set("limits").or_else(|| read(allocatable.get(resource))),
        "requests" => set("requests"),
        _ => return Err(format!("unsupported container resource : {path}")),
    };
    let amount = amount.unwrap_or_else(|| Quantity::from_units(0));
    let divisor = read(reference.get("divisor")).filter(|divisor| !divisor.is_zero());
    Ok(divided(resource, &amount, &divisor.unwrap_or_else(|| Quantity::from_units(1))).to_string())
}

/// Rounded up, as upstream rounds.
fn divided(resource: &str, amount: &Quantity, divisor: &Quantity) -> i64 {
    let (amount, divisor) = match resource {
        "cpu" => (amount.milli(), divisor.milli()),
        _ => (amount.units(), divisor.units()),
    };
    let divisor = divisor.max(1);
    amount.saturating_add(divisor - 1).div_euclid(divisor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields() {
        let pod = json!({
            "metadata": {"name": "p", "labels": {"b": "2", "a": "x\"y\n"}},
            "spec": {"nodeName": "n"}, "status": {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd::1"}]},
        });
        let check = |path: &str, expected: Option<&str>| assert_eq!(field(&pod, path).as_deref(), expected, "{path}");
        check("metadata.name", Some("p"));
        check("metadata.labels", Some("a=\"x\\\"y\\n\"\nb=\"2\""));
        check("metadata.labels['b']", Some("2"));
        check("metadata.annotations['b']", Some(""));
        check("status.podIPs", Some("10.0.0.1,fd::1"));
        check("status.hostIP", None);
        check("spec.containers", None);
    }

    #[test]
    fn resources_are_divided_and_rounded_up() {
        let pod = json!({"spec": {"containers": [
            {"name": "c", "resources": {"requests": {"cpu": "250m", "memory": "64Mi"}, "limits": {"memory": "100M"}}}]}});
        let allocatable = json!({"cpu": "4", "memory": "8Gi"});
        let check = |path: &str, divisor: &str, expected: &str| {
            let reference = json!({"resource": path, "divisor": divisor});
            assert_eq!(resource(&pod, "c", &reference, &allocatable).as_deref(), Ok(expected), "{path} {divisor}");
        };
        check("requests.cpu", "0", "1");
        check("requests.cpu", "1m", "250");
        check("limits.cpu", "1", "4");
        check("requests.memory", "1Mi", "64");
        check("limits.memory", "1Mi", "96");
        check("limits.memory", "", "100000000");
        assert!(resource(&pod, "other", &json!({"resource": "limits.cpu"}), &allocatable).is_err());
    }
}
