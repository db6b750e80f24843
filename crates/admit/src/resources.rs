//! Resource lists, and what a pod asks for in all.

use std::collections::BTreeMap;

use meta::{ObjectExt, Quantity};
use serde_json::Value;

/// Amounts by resource name.
pub type ResourceList = BTreeMap<String, Quantity>;

/// Resources that may be set for the pod as a whole.
fn is_pod_level(name: &str) -> bool {
    name == "cpu" || name == "memory" || name.starts_with("hugepages-")
}

/// Reads a resource list; what is no quantity is left out (validation has refused it).
pub fn read(value: Option<&Value>) -> ResourceList {
    let entries = value.and_then(Value::as_object).into_iter().flatten();
    entries.filter_map(|(name, amount)| Some((name.clone(), Quantity::from_value(amount).ok()?))).collect()
}

/// The list's tree.
pub fn to_value(list: &ResourceList) -> Value {
    Value::Object(list.iter().map(|(name, amount)| (name.clone(), Value::String(amount.to_string()))).collect())
}

/// Adds `more` to `list`.
pub fn add(list: &mut ResourceList, more: &ResourceList) {
    for (name, amount) in more {
        let sum = list.get(name).map_or(*amount, |known| known.plus(amount));
        list.insert(name.clone(), sum);
    }
}

/// Raises `list` to at least `other`, name by name.
fn raise(list: &mut ResourceList, other: &ResourceList) {
    for (name, amount) in other {
        if list.get(name).is_none_or(|known| known < amount) {
            list.insert(name.clone(), *amount);
        }
    }
}

/// What a pod spec requests: the sum of its containers, at least what its start needs, with overhead.
pub fn pod_requests(spec: &Value) -> ResourceList {
    let mut total = containers(spec, "requests");
    add(&mut total, &read(spec.at(&["overhead"])));
    total
}

/// What a pod spec is limited to. Overhead counts only where there is a limit.
pub fn pod_limits(spec: &Value) -> ResourceList {
    let mut total = containers(spec, "limits");
    let overhead = read(spec.at(&["overhead"]));
    let limited = overhead.into_iter().filter(|(name, _)| total.contains_key(name)).collect();
    add(&mut total, &limited);
    total
}

/// Without overhead. Containers run together; init containers one after another, each beside the sidecars that
/// started before it.
pub fn containers(spec: &Value, which: &str) -> ResourceList {
    let of = |container: &Value| read(container.at(&["resources", which]));
    let mut total = ResourceList::new();
    spec.items(&["containers"]).iter().for_each(|container| add(&mut total, &of(container)));
    let (mut sidecars, mut start) = (ResourceList::new(), ResourceList::new());
    for container in spec.items(&["initContainers"]) {
        let own = of(container);
        if container.text(&["restartPolicy"]) == "Always" {
            add(&mut total, &own);
            add(&mut sidecars, &own);
            raise(&mut start, &sidecars);
        } else {
            let mut together = sidecars.clone();
            add(&mut together, &own);
            raise(&mut start, &together);
        }
    }
    raise(&mut total, &start);
    let whole = read(spec.at(&["resources", which]));
    total.extend(whole.into_iter().filter(|(name, _)| is_pod_level(name)));
    total
}

/// Whether the pod is limited or requests as a whole.
pub fn has_pod_level(spec: &Value) -> bool {
    let any = |which: &str| read(spec.at(&["resources", which])).keys().any(|name| is_pod_level(name));
    any("requests") || any("limits")
}

/// Whether no container asks for processor or memory.
pub fn is_best_effort(spec: &Value) -> bool {
    let lists = ["containers", "initContainers"];
    let containers = lists.iter().flat_map(|list| spec.items(&[list])).chain([spec]);
    let asks = |holder: &Value, which: &str| {
        let list = read(holder.at(&["resources", which]));
        ["cpu", "memory"].iter().any(|name| list.get(*name).is_some_and(|amount| !amount.is_zero()))
    };
    !containers.into_iter().any(|holder| asks(holder, "requests") || asks(holder, "limits"))
}

/// `cpu=1,pods=2`, as messages show amounts.
pub fn shown(list: &ResourceList) -> String {
    list.iter().map(|(name, amount)| format!("{name}={amount}")).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod_asks_for_its_containers_or_its_start() {
        let check = |spec: Value, expected: &str| assert_eq!(shown(&pod_requests(&spec)), expected);
        let cpu = |amount: &str| json!({"resources": {"requests": {"cpu": amount}}});
        let sidecar = |amount: &str| json!({"restartPolicy": "Always", "resources": {"requests": {"cpu": amount}}});
        check(json!({"containers": [cpu("100m"), cpu("200m")]}), "cpu=300m");
        check(json!({"containers": [cpu("100m")], "initContainers": [cpu("1")]}), "cpu=1");
        check(json!({"containers": [cpu("1")], "initContainers": [sidecar("1"), cpu("500m")]}), "cpu=2");
        check(json!({"containers": [cpu("1")], "initContainers": [sidecar("1"), cpu("3")]}), "cpu=4");
        check(json!({"containers": [cpu("1")], "overhead": {"cpu": "250m"}}), "cpu=1250m");
        check(json!({"containers": [cpu("1")], "resources": {"requests": {"cpu": "2"}}}), "cpu=2");
    }
}
