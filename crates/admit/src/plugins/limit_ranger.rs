//! LimitRanger: defaults and bounds for what containers, pods and claims of a namespace ask for.

use meta::{ApiError, ObjectExt, Quantity};
use serde_json::{Value, json};

use crate::admission::{Case, Effects, Operation};
use crate::rbac::joined;
use crate::resources::{self, ResourceList};

const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// The mutating half.
pub fn mutate(case: &Case<'_>, new: &mut Value, _effects: &mut Effects) -> Result<(), ApiError> {
    if supports(case) && case.request.attributes.resource == "pods" {
        ranges(case).iter().for_each(|range| fill(range, new));
    }
    Ok(())
}

/// The validating half.
pub fn validate(case: &Case<'_>, new: Option<&Value>, _effects: &mut Effects) -> Result<(), ApiError> {
    let Some(new) = new.filter(|_| supports(case)) else { return Ok(()) };
    for range in ranges(case) {
        let mut errors = Vec::new();
        for limit in range.items(&["spec", "limits"]) {
            check_limit(limit, &case.request.attributes.resource, new, &mut errors);
        }
        if !errors.is_empty() {
            return Err(case.forbids(Some(new), joined(&errors)));
        }
    }
    Ok(())
}

/// New pods and claims, changed claims, resized pods; nothing that is being deleted.
fn supports(case: &Case<'_>) -> bool {
    let creates = case.request.operation == Operation::Create;
    let resizes = case.request.operation == Operation::Update && case.is_for("", "pods", "resize");
    let wanted = case.is_for("", "persistentvolumeclaims", "") || (creates && case.is_for_pods()) || resizes;
    wanted && !case.old.is_some_and(ObjectExt::is_deleting)
}

fn ranges(case: &Case<'_>) -> Vec<Value> {
    case.world.list("core/limitranges", case.namespace())
}

fn fill(range: &Value, pod: &mut Value) {
    let containers = range.items(&["spec", "limits"]).iter().filter(|limit| limit.text(&["type"]) == "Container");
    let (mut requests, mut limits) = (ResourceList::new(), ResourceList::new());
    for limit in containers {
        requests.extend(resources::read(limit.at(&["defaultRequest"])));
        limits.extend(resources::read(limit.at(&["default"])));
    }
    let mut notes = Vec::new();
    for (list, word) in [("containers", "container"), ("initContainers", "init container")] {
        let Some(Value::Array(containers)) = pod.get_mut("spec").and_then(|spec| spec.get_mut(list)) else { continue };
        for container in containers {
            let name = container.text(&["name"]).to_owned();
            for (which, defaults) in [("requests", &requests), ("limits", &limits)] {
                let set = fill_list(container, which, defaults);
                if !set.is_empty() {
                    notes.push(format!("{} {} for {word} {name}", set.join(", "), which.trim_end_matches('s')));
                }
            }
        }
    }
    if !notes.is_empty() {
        let note = format!("LimitRanger plugin set: {}", notes.join("; "));
        pod.put(&["metadata", "annotations", ANNOTATION], note);
    }
}

/// The names that were filled in, in order.
fn fill_list(container: &mut Value, which: &str, defaults: &ResourceList) -> Vec<String> {
    let known = resources::read(container.at(&["resources", which]));
    let missing: Vec<_> = defaults.iter().filter(|(name, _)| !known.contains_key(*name)).collect();
    for (name, amount) in &missing {
        container.put(&["resources", which, name], json!(amount.to_string()));
    }
    missing.into_iter().map(|(name, _)| name.clone()).collect()
}

fn check_limit(limit: &Value, resource: &str, new: &Value, errors: &mut Vec<String>) {
    let kind = limit.text(&["type"]);
    let bounds = Bounds::read(kind, limit);
    match (kind, resource) {
        ("Container", "pods") => {
            let lists = ["containers", "initContainers"];
            for container in lists.iter().flat_map(|list| new.items(&["spec", list])) {
                let of = |which: &str| resources::read(container.at(&["resources", which]));
                bounds.check(&of("requests"), &of("limits"), errors);
            }
        }
        ("Pod", "pods") => {
            let spec = new.at(&["spec"]).unwrap_or(&Value::Null);
            let of = |which: &str| resources::containers(spec, which);
            bounds.check(&of("requests"), &of("limits"), errors);
        }
        ("PersistentVolumeClaim", "persistentvolumeclaims") => {
            bounds.check_claim(&resources::read(new.at(&["spec", "resources", "requests"])), errors);
        }
        _ => {}
    }
}

struct Bounds<'b> {
    kind: &'b str,
    min: ResourceList,
    max: ResourceList,
    ratio: ResourceList,
}

impl<'b> Bounds<'b> {
    fn read(kind: &'b str, limit: &Value) -> Self {
        let list = |field: &str| resources::read(limit.at(&[field]));
        Self { kind, min: list("min"), max: list("max"), ratio: list("maxLimitRequestRatio") }
    }

    fn check(&self, requests: &ResourceList, limits: &ResourceList, errors: &mut Vec<String>) {
        let both = |name: &String| (requests.get(name), limits.get(name));
        for (name, bound) in &self.min {
            let (request, limit) = both(name);
            errors.extend(self.below(name, bound, request, limit));
        }
        for (name, bound) in &self.max {
            let (request, limit) = both(name);
            errors.extend(self.above(name, bound, request, limit));
        }
        for (name, bound) in &self.ratio {
            let (request, limit) = both(name);
            errors.extend(self.ratio_of(name, bound, request, limit));
        }
    }

    fn check_claim(&self, requests: &ResourceList, errors: &mut Vec<String>) {
        for (name, bound) in &self.min {
            errors.extend(self.below(name, bound, requests.get(name), None));
        }
        for (name, bound) in &self.max {
            let start = format!("maximum {name} usage per {} is {bound}", self.kind);
            errors.extend(match requests.get(name) {
                None => Some(format!("{start}.  No request is specified")),
                Some(request) if request > bound => Some(format!("{start}, but request is {request}")),
                Some(_) => None,
            });
        }
    }

    fn below(
        &self,
        name: &str,
        bound: &Quantity,
        request: Option<&Quantity>,
        limit: Option<&Quantity>,
    ) -> Option<String> {
        let start = format!("minimum {name} usage per {} is {bound}", self.kind);
        match (request, limit) {
            (None, _) => Some(format!("{start}.  No request is specified")),
            (Some(request), _) if request < bound => Some(format!("{start}, but request is {request}")),
            (_, Some(limit)) if limit < bound => Some(format!("{start}, but limit is {limit}")),
            _ => None,
        }
    }

    fn above(
        &self,
        name: &str,
        bound: &Quantity,
        request: Option<&Quantity>,
        limit: Option<&Quantity>,
    ) -> Option<String> {
        let start = format!("maximum {name} usage per {} is {bound}", self.kind);
        match (request, limit) {
            (_, None) => Some(format!("{start}.  No limit is specified")),
            (_, Some(limit)) if limit > bound => Some(format!("{start}, but limit is {limit}")),
            (Some(request), _) if request > bound => Some(format!("{start}, but request is {request}")),
            _ => None,
        }
    }

    fn ratio_of(
        &self,
        name: &str,
        bound: &Quantity,
        request: Option<&Quantity>,
        limit: Option<&Quantity>,
    ) -> Option<String> {
        let start = format!("{name} max limit to request ratio per {} is {bound}", self.kind);
        let given = |amount: Option<&Quantity>| amount.map(Quantity::as_f64).filter(|amount| *amount != 0.0);
        let Some(request) = given(request) else {
            return Some(format!("{start}, but no request is specified or request is 0"));
        };
        let Some(limit) = given(limit) else {
            return Some(format!("{start}, but no limit is specified or limit is 0"));
        };
        let ratio = limit / request;
        (ratio > bound.as_f64()).then(|| format!("{start}, but provided ratio is {ratio:.6}"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Scene, create};
    use super::*;

    fn scene(limit: Value) -> Scene {
        Scene::new(&[json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l", "namespace": "d"},
                            "spec": {"limits": [limit]}})])
    }

    fn pod(resources: Value) -> Value {
        json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "resources": resources}]}})
    }

    #[test]
    fn defaults_are_filled_and_noted() {
        let scene = scene(json!({"type": "Container", "default": {"cpu": "1", "memory": "1Gi"},
                                 "defaultRequest": {"cpu": "500m"}}));
        let asked = create("", "pods", "d", "p");
        let mut new = pod(json!({"limits": {"memory": "2Gi"}}));
        mutate(&scene.case(&asked, None), &mut new, &mut Effects::default()).expect("admitted");
        let wanted = json!({"limits": {"cpu": "1", "memory": "2Gi"}, "requests": {"cpu": "500m"}});
        assert_eq!(new["spec"]["containers"][0]["resources"], wanted);
        let note = "LimitRanger plugin set: cpu request for container c; cpu limit for container c";
        assert_eq!(new.annotation(ANNOTATION), Some(note));
    }

    #[test]
    fn bounds_are_told_in_upstreams_words() {
        let check = |limit: Value, resources: Value, expected: Option<&str>| {
            let (scene, asked) = (scene(limit), create("", "pods", "d", "p"));
            let outcome = validate(&scene.case(&asked, None), Some(&pod(resources)), &mut Effects::default());
            let expected = expected.map(|why| format!("pods \"p\" is forbidden: {why}"));
            assert_eq!(outcome.err().map(|e| e.message), expected);
        };
        let container = |key: &str, amount: &str| json!({"type": "Container", key: {"cpu": amount}});
        let asks = |request: &str, limit: &str| json!({"requests": {"cpu": request}, "limits": {"cpu": limit}});
        check(container("max", "1"), asks("1", "2"), Some("maximum cpu usage per Container is 1, but limit is 2"));
        check(container("max", "1"), json!({}), Some("maximum cpu usage per Container is 1.  No limit is specified"));
        check(
            container("min", "1"),
            asks("100m", "2"),
            Some("minimum cpu usage per Container is 1, but request is 100m"),
        );
        check(
            container("maxLimitRequestRatio", "2"),
            asks("1", "3"),
            Some("cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000"),
        );
        check(container("max", "2"), asks("1", "2"), None);
        check(
            json!({"type": "Pod", "max": {"cpu": "1"}}),
            asks("1", "2"),
            Some("maximum cpu usage per Pod is 1, but limit is 2"),
        );
    }
}
