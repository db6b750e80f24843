//! Requests and limits: names of resources, quantities, sums over containers, quality of service.

use std::collections::{BTreeMap, BTreeSet};

use meta::{FieldError, ObjectExt, Quantity, name};
use serde_json::{Value, json};

use super::defaults::CONTAINER_LISTS;
use crate::check::{At, Faults, named};

/// Resources that Kubernetes itself knows.
const STANDARD: &[&str] = &[
    "configmaps",
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
    "storage",
];
/// Resources counted in whole objects.
const COUNTED: &[&str] = &[
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];
const HUGE_PAGES: &str = "hugepages-";
const REQUESTS_HUGE_PAGES: &str = "requests.hugepages-";

/// Whether the resource is a size of huge pages.
pub fn is_huge_pages(resource: &str) -> bool {
    resource.starts_with(HUGE_PAGES)
}

/// Whether the resource belongs to Kubernetes rather than to a device vendor.
pub fn is_native(resource: &str) -> bool {
    !resource.contains('/') || resource.contains("kubernetes.io/")
}

/// Whether the resource is a vendor's, requested as such.
pub fn is_extended(resource: &str) -> bool {
    !is_native(resource)
        && !resource.starts_with("requests.")
        && name::qualified_name(&format!("requests.{resource}")).is_empty()
}

/// Whether a request may be lower than the limit.
pub fn allows_overcommit(resource: &str) -> bool {
    is_native(resource) && !is_huge_pages(resource)
}

/// Whether only whole numbers make sense.
pub fn is_integer(resource: &str) -> bool {
    COUNTED.contains(&resource) || is_extended(resource)
}

/// Whether a pod as a whole may request the resource.
pub fn is_pod_level(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory") || is_huge_pages(resource)
}

/// Checks a resource's name as such.
pub(crate) fn resource_name(at: &At, resource: &str, faults: &mut Faults) -> bool {
    let before = faults.len();
    named(&at.with(&json!(resource)), name::qualified_name, faults);
    let standard = STANDARD.contains(&resource) || is_huge_pages(resource) || resource.starts_with(REQUESTS_HUGE_PAGES);
    if faults.len() == before && !resource.contains('/') && !standard {
        faults.push(at.invalid_as(resource, "must be a standard resource type or fully qualified"));
    }
    faults.len() == before
}

/// Checks the name of a resource that a container uses.
pub(crate) fn container_resource_name(at: &At, resource: &str, faults: &mut Faults) {
    resource_name(at, resource, faults);
    if !resource.contains('/') {
        let standard = matches!(resource, "cpu" | "memory" | "ephemeral-storage") || is_huge_pages(resource);
        if !standard {
            faults.push(at.invalid_as(resource, "must be a standard resource for containers"));
        }
    } else if !is_native(resource) && !is_extended(resource) {
        faults.push(at.invalid_as(resource, "doesn't follow extended resource name standard"));
    }
}

fn pod_resource_name(at: &At, resource: &str, faults: &mut Faults) {
    if resource_name(at, resource, faults) && !is_pod_level(resource) {
        faults.push(FieldError::not_supported(at.path, resource, &["cpu", "hugepages-", "memory"]));
    }
}

/// Checks one amount: not negative, whole where only whole numbers make sense.
pub(crate) fn quantity(at: &At, resource: &str, faults: &mut Faults) -> Option<Quantity> {
    let quantity = match Quantity::parse(at.text()) {
        Ok(quantity) => quantity,
        Err(fault) => {
            faults.push(at.invalid(fault));
            return None;
        }
    };
    if quantity.is_negative() {
        faults.push(at.invalid_as(quantity.to_string(), "must be greater than or equal to 0"));
    }
    if is_integer(resource) && quantity.milli() % 1000 != 0 {
        faults.push(at.invalid_as(quantity.to_string(), "must be an integer"));
    }
    Some(quantity)
}

/// Checks the `resources` of a container.
pub(crate) fn container(at: &At, claims: &BTreeSet<&str>, faults: &mut Faults) {
    requirements(at, container_resource_name, claims, faults);
}

/// Checks the `overhead` of a pod: amounts without limits beside them.
pub(crate) fn overhead(at: &At, faults: &mut Faults) {
    let wrapped = json!({ "limits": at.value });
    container(&at.with(&wrapped), &BTreeSet::new(), faults);
}

/// Checks the `resources` of a pod as a whole.
pub(crate) fn pod_level(spec: &At, claims: &BTreeSet<&str>, faults: &mut Faults) {
    let at = spec.field("resources");
    if !at.is_set() {
        return;
    }
    if spec.value.text(&["os", "name"]) == "windows" {
        faults.push(at.forbidden("may not be set for a windows pod"));
        return;
    }
    if at.has("claims") {
        faults.push(at.field("claims").forbidden("claims may not be set for Resources at pod-level"));
    }
    requirements(&at, pod_resource_name, claims, faults);
    consistency(spec, &at, faults);
}

type NameRule = fn(&At, &str, &mut Faults);

fn requirements(at: &At, rule: NameRule, claims: &BTreeSet<&str>, faults: &mut Faults) {
    let limits = amounts(&at.field("limits"), rule, faults);
    let requests = amounts(&at.field("requests"), rule, faults);
    for (resource, request) in &requests {
        within_limit(at, resource, request, limits.get(resource), faults);
    }
    let any = |wanted: fn(&str) -> bool| limits.keys().chain(requests.keys()).any(|resource| wanted(resource));
    if any(is_huge_pages) && !any(|resource| matches!(resource, "cpu" | "memory")) {
        faults.push(at.forbidden("HugePages require cpu or memory"));
    }
    claim_names(&at.field("claims"), claims, faults);
}

fn amounts<'v>(at: &At<'v, '_>, rule: NameRule, faults: &mut Faults) -> BTreeMap<&'v str, Quantity> {
    let mut amounts = BTreeMap::new();
    for (resource, entry) in at.entries() {
        rule(&entry, resource, faults);
        let Some(amount) = quantity(&entry, resource, faults) else { continue };
        if is_huge_pages(resource) && !is_whole_pages(resource, &amount) {
            let detail = format!("{amount} is not positive integer multiple of {resource}");
            faults.push(entry.invalid_as(amount.to_string(), detail));
        }
        amounts.insert(resource, amount);
    }
    amounts
}

fn is_whole_pages(resource: &str, amount: &Quantity) -> bool {
    let size = resource.strip_prefix(HUGE_PAGES).and_then(|size| Quantity::parse(size).ok());
    let Some(size) = size.filter(|size| !size.is_negative() && !size.is_zero()) else { return false };
    size.milli() % 1000 == 0 && size.units() != 0 && amount.units() % size.units() == 0
}

fn within_limit(at: &At, resource: &str, request: &Quantity, limit: Option<&Quantity>, faults: &mut Faults) {
    let fault = |detail: String| at.field("requests").invalid_as(request.to_string(), detail);
    match limit {
        Some(limit) if request != limit && !allows_overcommit(resource) => {
            faults.push(fault(format!("must be equal to {resource} limit of {limit}")));
        }
        Some(limit) if request > limit => {
            faults.push(fault(format!("must be less than or equal to {resource} limit of {limit}")));
        }
        None if !allows_overcommit(resource) => {
            faults.push(at.field("limits").required("Limit must be set for non overcommitable resources"));
        }
        _ => {}
    }
}

/// Claims of devices that a container names: each once, each among the pod's.
fn claim_names(at: &At, pod_claims: &BTreeSet<&str>, faults: &mut Faults) {
    let mut seen = BTreeSet::new();
    for claim in at.each() {
        let (name, request) = (claim.field("name").text(), claim.field("request").text());
        if name.is_empty() {
            faults.push(claim.required(""));
            continue;
        }
        one_claim(&claim, name, request, &mut seen, faults);
        if !pod_claims.contains(name) {
            faults.push(unknown_claim(&claim, name, pod_claims));
        }
    }
}

fn one_claim(claim: &At, name: &str, request: &str, seen: &mut BTreeSet<String>, faults: &mut Faults) {
    if seen.contains(name) {
        faults.push(FieldError::duplicate(claim.path, name));
        return;
    }
    if !request.is_empty() {
        named(&claim.field("request"), name::dns1123_label, faults);
    }
    let key = if request.is_empty() { name.to_owned() } else { format!("{name}/{request}") };
    if seen.contains(&key) {
        faults.push(FieldError::duplicate(claim.path, key.as_str()));
    } else if request.is_empty() {
        let parts = seen.iter().filter(|key| key.split_once('/').is_some_and(|(claimed, _)| claimed == name));
        faults.extend(parts.map(|_| FieldError::duplicate(claim.path, name)));
    }
    seen.insert(key);
}

fn unknown_claim(claim: &At, name: &str, pod_claims: &BTreeSet<&str>) -> FieldError {
    let mut fault = FieldError::not_found(claim.path, name);
    let known = pod_claims.iter().copied().collect::<Vec<_>>().join(", ");
    let list = if known.is_empty() { " which is empty".to_owned() } else { format!(": {known}") };
    fault.detail = format!("must be one of the names in pod.spec.resourceClaims{list}");
    fault
}

/// What the pod as a whole has must hold what its containers have.
fn consistency(spec: &At, at: &At, faults: &mut Faults) {
    let (requests, limits) = (list(at.value, "requests"), list(at.value, "limits"));
    for (resource, sum) in aggregate(spec.value, "requests") {
        let Some(own) = requests.get(&resource).filter(|own| sum > **own) else { continue };
        let detail = format!("must be greater than or equal to aggregate container requests of {sum}");
        faults.push(at.field("requests").entry(&resource).invalid_as(own.to_string(), detail));
    }
    for (resource, sum) in aggregate(spec.value, "limits").into_iter().filter(|(name, _)| is_huge_pages(name)) {
        let Some(own) = limits.get(&resource).filter(|own| sum > **own) else { continue };
        let detail = format!("must be greater than or equal to aggregate container limits of {sum}");
        faults.push(at.field("limits").entry(&resource).invalid_as(own.to_string(), detail));
    }
    let containers = at.field("containers");
    for (index, container) in spec.value.items(&["containers"]).iter().enumerate() {
        for (resource, limit) in list(&container["resources"], "limits") {
            let Some(own) = limits.get(&resource).filter(|own| limit > **own) else { continue };
            let (item, detail) =
                (containers.path.index(index), format!("must be less than or equal to pod limits of {own}"));
            faults.push(FieldError::invalid(item.key(&resource).field("limits"), limit.to_string(), detail));
        }
    }
}

/// One list (`requests` or `limits`) of a `resources` object; malformed amounts are left out.
pub fn list(resources: &Value, which: &str) -> BTreeMap<String, Quantity> {
    let entries = resources.map(&[which]).into_iter().flatten();
    entries.filter_map(|(name, value)| Some((name.clone(), Quantity::parse(value.as_str()?).ok()?))).collect()
}

/// Whether the init container keeps running beside the others.
pub fn is_sidecar(container: &Value) -> bool {
    container.text(&["restartPolicy"]) == "Always"
}

/// What all containers of a pod spec need together: the sum of those that run at once, or what the hungriest init
/// container needs beside the sidecars started before it, whichever is more.
pub fn aggregate(spec: &Value, which: &str) -> BTreeMap<String, Quantity> {
    let mut sum = BTreeMap::new();
    for container in spec.items(&["containers"]) {
        add(&mut sum, &list(&container["resources"], which));
    }
    let (mut sidecars, mut peak) = (BTreeMap::new(), BTreeMap::new());
    for container in spec.items(&["initContainers"]) {
        let mut needed = list(&container["resources"], which);
        if is_sidecar(container) {
            add(&mut sum, &needed);
            add(&mut sidecars, &needed);
            needed = sidecars.clone();
        } else {
            add(&mut needed, &sidecars);
        }
        raise(&mut peak, needed);
    }
    raise(&mut sum, peak);
    sum
}

fn add(sum: &mut BTreeMap<String, Quantity>, more: &BTreeMap<String, Quantity>) {
    for (name, amount) in more {
        sum.entry(name.clone()).and_modify(|own| *own = own.plus(amount)).or_insert(*amount);
    }
}

fn raise(sum: &mut BTreeMap<String, Quantity>, other: BTreeMap<String, Quantity>) {
    for (name, amount) in other {
        let own = sum.entry(name).or_insert(amount);
        *own = (*own).max(amount);
    }
}

/// `Guaranteed`, `Burstable` or `BestEffort`.
pub fn qos_class(spec: &Value) -> &'static str {
    if is_pod_level_set(spec) {
        return requirements_class(&spec["resources"]);
    }
    let containers = CONTAINER_LISTS.iter().take(2).flat_map(|list| spec.items(&[list]));
    let mut classes = containers.map(|container| requirements_class(&container["resources"]));
    let first = classes.next().unwrap_or("BestEffort");
    if classes.all(|class| class == first) { first } else { "Burstable" }
}

/// Whether the pod as a whole requests or limits something.
pub fn is_pod_level_set(spec: &Value) -> bool {
    let lists = ["requests", "limits"].into_iter().filter_map(|list| spec.map(&["resources", list]));
    lists.flatten().any(|(name, _)| is_pod_level(name))
}

fn requirements_class(resources: &Value) -> &'static str {
    let (requests, limits) = (list(resources, "requests"), list(resources, "limits"));
    if requests.is_empty() && limits.is_empty() {
        return "BestEffort";
    }
    let (cpu, memory) = (resource_class(&requests, &limits, "cpu"), resource_class(&requests, &limits, "memory"));
    if cpu == memory { cpu } else { "Burstable" }
}

fn resource_class(
    requests: &BTreeMap<String, Quantity>,
    limits: &BTreeMap<String, Quantity>,
    name: &str,
) -> &'static str {
    let zero = Quantity::from_units(0);
    let (request, limit) = (requests.get(name).unwrap_or(&zero), limits.get(name).unwrap_or(&zero));
    match (request == limit, request.is_zero()) {
        (false, _) => "Burstable",
        (true, true) => "BestEffort",
        (true, false) => "Guaranteed",
    }
}

/// Fills in what the pod as a whole requests and may use, once it states a part of it.
pub(crate) fn default_pod_level(spec: &mut Value) {
    let given = ["requests", "limits"].iter().any(|l| spec.map(&["resources", l]).is_some_and(|map| !map.is_empty()));
    if !given {
        return;
    }
    for (name, sum) in aggregate(spec, "limits").into_iter().filter(|(name, _)| is_huge_pages(name)) {
        if spec.at(&["resources", "requests", &name]).is_none() {
            put_if_absent(spec, "limits", &name, sum);
        }
    }
    for (name, sum) in aggregate(spec, "requests") {
        if is_pod_level(&name) && allows_overcommit(&name) {
            put_if_absent(spec, "requests", &name, sum);
        }
    }
    for (name, limit) in list(&spec["resources"], "limits").into_iter().filter(|(name, _)| is_pod_level(name)) {
        put_if_absent(spec, "requests", &name, limit);
    }
    default_pod_limits(spec);
}

/// A limit follows for the pod where every container has one.
fn default_pod_limits(spec: &mut Value) {
    let sums = aggregate(spec, "limits");
    for (name, request) in list(&spec["resources"], "requests").into_iter().filter(|(name, _)| is_pod_level(name)) {
        let limited = |list: &str| {
            spec.items(&[list]).iter().all(|c| c.at(&["resources", "limits", &name]).is_some_and(|v| !v.is_null()))
        };
        if limited("containers") && limited("initContainers") {
            let Some(sum) = sums.get(&name) else { continue };
            put_if_absent(spec, "limits", &name, request.max(*sum));
        }
    }
}

fn put_if_absent(spec: &mut Value, which: &str, name: &str, amount: Quantity) {
    if spec.at(&["resources", which, name]).is_none_or(Value::is_null) {
        spec.put(&["resources", which, name], amount.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(resources: Value) -> Vec<String> {
        let mut faults = Faults::new();
        container(&At::root(&json!({ "r": resources })).field("r"), &BTreeSet::from(["gpu"]), &mut faults);
        faults.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn requirements_read_like_upstream() {
        let check = |resources: Value, expected: &[&str]| assert_eq!(faults(resources), expected);
        check(json!({"limits": {"cpu": "1"}, "requests": {"cpu": "500m"}}), &[]);
        check(
            json!({"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}),
            &["r.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1"],
        );
        check(
            json!({"limits": {"cpu": "-1"}}),
            &["r.limits[cpu]: Invalid value: \"-1\": must be greater than or equal to 0"],
        );
        check(
            json!({"requests": {"example.com/gpu": "1"}}),
            &["r.limits: Required value: Limit must be set for non overcommitable resources"],
        );
        check(
            json!({"requests": {"example.com/gpu": "1500m"}, "limits": {"example.com/gpu": "2"}}),
            &[
                "r.requests[example.com/gpu]: Invalid value: \"1500m\": must be an integer",
                "r.requests: Invalid value: \"1500m\": must be equal to example.com/gpu limit of 2",
            ],
        );
        check(
            json!({"limits": {"hugepages-2Mi": "3Mi"}, "requests": {"hugepages-2Mi": "3Mi"}}),
            &[
                "r.limits[hugepages-2Mi]: Invalid value: \"3Mi\": 3Mi is not positive integer multiple of hugepages-2Mi",
                "r.requests[hugepages-2Mi]: Invalid value: \"3Mi\": 3Mi is not positive integer multiple of hugepages-2Mi",
                "r: Forbidden: HugePages require cpu or memory",
            ],
        );
        check(
            json!({"limits": {"disk": "1"}}),
            &[
                "r.limits[disk]: Invalid value: \"disk\": must be a standard resource type or fully qualified",
                "r.limits[disk]: Invalid value: \"disk\": must be a standard resource for containers",
            ],
        );
        check(json!({"claims": [{"name": "gpu"}]}), &[]);
        check(
            json!({"claims": [{"name": "x"}, {"name": "gpu"}, {"name": "gpu"}]}),
            &[
                "r.claims[0]: Not found: \"x\": must be one of the names in pod.spec.resourceClaims: gpu",
                "r.claims[2]: Duplicate value: \"gpu\"",
            ],
        );
    }

    #[test]
    fn quality_of_service() {
        let check = |spec: Value, expected: &str| assert_eq!(qos_class(&spec), expected, "{spec}");
        let with = |resources: Value| json!({"containers": [{ "resources": resources }]});
        check(with(json!({})), "BestEffort");
        check(with(json!({"requests": {"cpu": "1"}})), "Burstable");
        check(with(json!({"requests": {"cpu": "1"}, "limits": {"cpu": "1000m"}})), "Burstable");
        let full = json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1000m", "memory": "1Gi"}});
        check(with(full.clone()), "Guaranteed");
        check(json!({"containers": [{ "resources": full }, {}]}), "Burstable");
        check(with(json!({"requests": {"ephemeral-storage": "1Gi"}})), "BestEffort");
    }

    #[test]
    fn sums_count_sidecars_and_the_hungriest_init_container() {
        let cpu = |amount: &str| json!({"requests": {"cpu": amount}});
        let spec = json!({
            "containers": [{"resources": cpu("1")}, {"resources": cpu("500m")}],
            "initContainers": [
                {"restartPolicy": "Always", "resources": cpu("200m")},
                {"resources": cpu("1")},
                {"resources": cpu("3")},
            ],
        });
        assert_eq!(aggregate(&spec, "requests")["cpu"].to_string(), "3200m");
    }

    #[test]
    fn pod_level_defaults() {
        let mut spec = json!({
            "resources": {"limits": {"cpu": "2", "memory": "1Gi"}},
            "containers": [{"resources": {"requests": {"cpu": "1"}}}],
        });
        default_pod_level(&mut spec);
        assert_eq!(spec["resources"]["requests"], json!({"cpu": "1", "memory": "1Gi"}));
    }
}
