//! A ResourceQuota's status says how much of what it limits is in use.
//!
//! Owns: `status.hard` and `status.used`. Admission adds to `used` as objects are made; here it is counted anew from
//! what there is, so that what is deleted comes back. At rest: the status says what the namespace holds.

use std::collections::BTreeMap;

use brain::{Action, Brain, Def, Note, Object, Outcome, Resource, View, Watch};
use meta::{ObjectExt, Quantity, Time};
use serde_json::{Map, Value};
use store::{Event, Key};

const QUOTAS: Resource = Resource::new("", "v1", "resourcequotas");
const COLLECTION: &str = "core/resourcequotas";
const PODS: &str = "core/pods";
const SERVICES: &str = "core/services";
const CLAIMS: &str = "core/persistentvolumeclaims";

/// The controller.
pub struct ResourceQuotaController;

/// The quota as seen.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    object: Value,
}

/// What is in use of what it limits.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    used: Map<String, Value>,
}

/// Every effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Writes the status.
    Tell(Value),
}

/// Every reason: none, the objects say it all.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {}

impl Brain for ResourceQuotaController {
    const DEF: Def = Def {
        name: "resourcequota",
        root: QUOTAS,
        root_kind: "ResourceQuota",
        watches: &[
            Watch { collection: COLLECTION, roots: |_, event| vec![event.key.clone()] },
            Watch::every(content_roots),
        ],
        resync: None,
    };
    type Desired = Desired;
    type Observed = Observed;
    type Step = Step;
    type Why = Why;

    fn observe(view: &View, key: &Key, _: Time) -> Option<(Desired, Observed)> {
        let quota = view.get_key(key).filter(|quota| !quota.meta().is_deleting())?;
        let object = quota.tree();
        let used = used(view, &object);
        Some((Desired { object }, Observed { used }))
    }

    fn reconcile(desired: &Desired, observed: &Observed, _: Time) -> Outcome<Step, Why> {
        let mut told = desired.object.clone();
        let hard = desired.object.map(&["spec", "hard"]).cloned().unwrap_or_default();
        let stands = |field: &str| desired.object.map(&["status", field]);
        if !is_same(stands("hard"), &hard) {
            told.put(&["status", "hard"], hard);
        }
        if !is_same(stands("used"), &observed.used) {
            told.put(&["status", "used"], observed.used.clone());
        }
        if told == desired.object { Outcome::rest() } else { Outcome::rest().step(Step::Tell(told)) }
    }

    fn check(desired: &Desired, observed: &Observed, _: &Outcome<Step, Why>) -> Result<(), String> {
        let hard = desired.object.map(&["spec", "hard"]);
        match observed.used.keys().find(|name| hard.is_none_or(|hard| !hard.contains_key(*name))) {
            Some(name) => Err(format!("{name} is counted but not limited")),
            None => Ok(()),
        }
    }

    fn perform(Step::Tell(object): Step, _: &Desired, _: &Observed) -> Action {
        Action::Update { resource: QUOTAS, subresource: "status", object }
    }

    fn explain(why: Why) -> Note {
        match why {}
    }
}

/// Quantities are compared by value: `1` and `1000m` are the same.
fn is_same(stands: Option<&Map<String, Value>>, wanted: &Map<String, Value>) -> bool {
    let Some(stands) = stands else { return wanted.is_empty() };
    let value = |value: &Value| Quantity::from_value(value).ok().map(|quantity| quantity.plus(&Quantity::ZERO));
    let equal = |(name, wanted): (&String, &Value)| {
        stands.get(name).is_some_and(|stands| match (value(stands), value(wanted)) {
            (Some(a), Some(b)) => a.minus(&b).is_zero(),
            _ => stands == wanted,
        })
    };
    stands.len() == wanted.len() && wanted.iter().all(equal)
}

fn used(view: &View, quota: &Value) -> Map<String, Value> {
    let namespace = quota.namespace();
    let limited: Vec<&String> = quota.map(&["spec", "hard"]).into_iter().flat_map(|hard| hard.keys()).collect();
    let mut sums: BTreeMap<String, Quantity> = BTreeMap::new();
    let scopes = Scopes::of(quota);
    let counts = |wanted: fn(&str) -> bool| limited.iter().any(|name| wanted(name));
    if counts(is_of_pods) {
        for pod in view.list(PODS, namespace).iter().map(measured).filter(|pod| scopes.cover(pod)) {
            add(&mut sums, &pod.usage);
        }
    }
    if scopes.is_empty() && counts(|name| name.starts_with("services") || name == "count/services") {
        view.list(SERVICES, namespace).iter().for_each(|service| add(&mut sums, &service_usage(&service.tree())));
    }
    if scopes.is_empty() && counts(|name| name.contains("storage") || name.contains("persistentvolumeclaims")) {
        view.list(CLAIMS, namespace).iter().for_each(|claim| add(&mut sums, &claim_usage(&claim.tree())));
    }
    let total = |name: &String| {
        let counted = if scopes.is_empty() { object_count(view, namespace, name) } else { None };
        let sum = counted.or_else(|| sums.get(name).copied()).unwrap_or(Quantity::ZERO);
        (name.clone(), Value::from(sum.to_string()))
    };
    limited.into_iter().map(total).collect()
}

fn add(sums: &mut BTreeMap<String, Quantity>, usage: &[(String, Quantity)]) {
    for (name, quantity) in usage {
        match sums.get_mut(name) {
            Some(sum) => *sum = sum.plus(quantity),
            None => drop(sums.insert(name.clone(), *quantity)),
        }
    }
}

/// What a quota needs of a pod, measured once per revision.
struct Measured {
    usage: Vec<(String, Quantity)>,
    is_terminating: bool,
    is_best_effort: bool,
    crosses_namespaces: bool,
    priority_class: String,
}

fn measured(pod: &Object) -> std::sync::Arc<Measured> {
    pod.project(|bytes| {
        let pod: Value = serde_json::from_slice(bytes).unwrap_or_default();
        Measured {
            usage: pod_usage(&pod),
            is_terminating: pod.int(&["spec", "activeDeadlineSeconds"]).is_some_and(|seconds| seconds >= 0),
            is_best_effort: is_best_effort(&pod),
            crosses_namespaces: crosses_namespaces(&pod),
            priority_class: pod.text(&["spec", "priorityClassName"]).to_owned(),
        }
    })
}

fn is_of_pods(name: &str) -> bool {
    const PLAIN: [&str; 5] = ["pods", "count/pods", "cpu", "memory", "ephemeral-storage"];
    let is_request = |rest: &str| !rest.contains("storage") || rest == "ephemeral-storage";
    PLAIN.contains(&name)
        || name.starts_with("limits.")
        || name.starts_with("hugepages-")
        || name.strip_prefix("requests.").is_some_and(is_request)
}

/// How many objects of a kind there are, for the names that count objects.
fn object_count(view: &View, namespace: &str, name: &str) -> Option<Quantity> {
    let collection = match name {
        "services" | "secrets" | "configmaps" | "replicationcontrollers" | "resourcequotas" => format!("core/{name}"),
        "persistentvolumeclaims" => CLAIMS.to_owned(),
        "count/pods" => PODS.to_owned(),
        _ => {
            let resource = name.strip_prefix("count/")?;
            let (plural, group) = resource.split_once('.').unwrap_or((resource, "core"));
            format!("{group}/{plural}")
        }
    };
    let count = view.snapshot().range_owned(&collection, format!("{namespace}/"), String::new()).count();
    Some(Quantity::from_units(i64::try_from(count).unwrap_or(i64::MAX)))
}

/// What a pod uses; ended ones use nothing.
fn pod_usage(pod: &Value) -> Vec<(String, Quantity)> {
    if matches!(pod.text(&["status", "phase"]), "Succeeded" | "Failed") {
        return Vec::new();
    }
    let mut usage = vec![("pods".to_owned(), Quantity::from_units(1))];
    for (name, quantity) in pod_resources(pod, "requests") {
        if matches!(&*name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-") {
            usage.push((name.clone(), quantity));
        }
        usage.push((format!("requests.{name}"), quantity));
    }
    usage.extend(pod_resources(pod, "limits").into_iter().map(|(name, quantity)| (format!("limits.{name}"), quantity)));
    usage
}

/// The pod's requests or limits: containers together, or what starting needs where that is more.
fn pod_resources(pod: &Value, kind: &str) -> BTreeMap<String, Quantity> {
    let mut total: BTreeMap<String, Quantity> = BTreeMap::new();
    for container in pod.items(&["spec", "containers"]) {
        sum_into(&mut total, container.map(&["resources", kind]));
    }
    let (mut sidecars, mut starting) = (BTreeMap::new(), BTreeMap::new());
    for container in pod.items(&["spec", "initContainers"]) {
        let own = container.map(&["resources", kind]);
        if container.text(&["restartPolicy"]) == "Always" {
            sum_into(&mut sidecars, own);
            sum_into(&mut total, own);
            raise_to(&mut starting, &sidecars);
        } else {
            let mut step = sidecars.clone();
            sum_into(&mut step, own);
            raise_to(&mut starting, &step);
        }
    }
    raise_to(&mut total, &starting);
    for (name, value) in pod.map(&["spec", "resources", kind]).into_iter().flatten() {
        if let Ok(quantity) = Quantity::from_value(value) {
            total.insert(name.clone(), quantity);
        }
    }
    let overhead = pod.map(&["spec", "overhead"]);
    if kind == "requests" || overhead.is_some_and(|o| o.keys().all(|name| total.contains_key(name))) {
        sum_into(&mut total, overhead);
    }
    total
}

fn sum_into(total: &mut BTreeMap<String, Quantity>, more: Option<&Map<String, Value>>) {
    for (name, value) in more.into_iter().flatten() {
        let Ok(quantity) = Quantity::from_value(value) else { continue };
        total.entry(name.clone()).and_modify(|sum| *sum = sum.plus(&quantity)).or_insert(quantity);
    }
}

fn raise_to(total: &mut BTreeMap<String, Quantity>, floor: &BTreeMap<String, Quantity>) {
    for (name, quantity) in floor {
        let raise = |sum: &mut Quantity| {
            if sum.minus(quantity).is_negative() {
                *sum = *quantity;
            }
        };
        total.entry(name.clone()).and_modify(raise).or_insert(*quantity);
    }
}

fn service_usage(service: &Value) -> Vec<(String, Quantity)> {
    let ports = i64::try_from(service.items(&["spec", "ports"]).len()).unwrap_or(i64::MAX);
    let of = |name: &str, count: i64| (name.to_owned(), Quantity::from_units(count));
    match service.text(&["spec", "type"]) {
        "NodePort" => vec![of("services.nodeports", ports)],
        "LoadBalancer" => {
            let has_node_ports = service.at(&["spec", "allocateLoadBalancerNodePorts"]) != Some(&Value::Bool(false));
            let node_ports = if has_node_ports {
                ports
            } else {
                let ports = service.items(&["spec", "ports"]).iter();
                i64::try_from(ports.filter(|port| port.int(&["nodePort"]).unwrap_or(0) != 0).count())
                    .unwrap_or(i64::MAX)
            };
            vec![of("services.loadbalancers", 1), of("services.nodeports", node_ports)]
        }
        _ => Vec::new(),
    }
}

fn claim_usage(claim: &Value) -> Vec<(String, Quantity)> {
    let size = claim.at(&["spec", "resources", "requests", "storage"]);
    let size = size.and_then(|size| Quantity::from_value(size).ok()).unwrap_or(Quantity::ZERO);
    let mut usage = vec![("requests.storage".to_owned(), size)];
    let class = claim.text(&["spec", "storageClassName"]);
    if !class.is_empty() {
        let prefix = format!("{class}.storageclass.storage.k8s.io");
        usage.push((format!("{prefix}/requests.storage"), size));
        usage.push((format!("{prefix}/persistentvolumeclaims"), Quantity::from_units(1)));
    }
    usage
}

/// Which pods a quota is about.
struct Scopes(Vec<(String, String, Vec<String>)>);

impl Scopes {
    fn of(quota: &Value) -> Scopes {
        let plain = quota.items(&["spec", "scopes"]).iter().filter_map(Value::as_str);
        let plain = plain.map(|scope| (scope.to_owned(), "Exists".to_owned(), Vec::new()));
        let expressions = quota.items(&["spec", "scopeSelector", "matchExpressions"]).iter().map(|e| {
            let values = e.items(&["values"]).iter().filter_map(Value::as_str).map(str::to_owned).collect();
            (e.text(&["scopeName"]).to_owned(), e.text(&["operator"]).to_owned(), values)
        });
        Scopes(plain.chain(expressions).collect())
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn cover(&self, pod: &Measured) -> bool {
        self.0.iter().all(|(scope, operator, values)| covers(scope, operator, values, pod))
    }
}

fn covers(scope: &str, operator: &str, values: &[String], pod: &Measured) -> bool {
    match scope {
        "Terminating" => pod.is_terminating,
        "NotTerminating" => !pod.is_terminating,
        "BestEffort" => pod.is_best_effort,
        "NotBestEffort" => !pod.is_best_effort,
        "CrossNamespacePodAffinity" => pod.crosses_namespaces,
        "PriorityClass" => {
            let class = &pod.priority_class;
            let is_listed = values.contains(class);
            match operator {
                "In" => is_listed,
                "NotIn" => !is_listed,
                "DoesNotExist" => class.is_empty(),
                _ => !class.is_empty(),
            }
        }
        _ => false,
    }
}

fn is_best_effort(pod: &Value) -> bool {
    let lists = ["containers", "initContainers"];
    let mut containers = lists.iter().flat_map(|list| pod.items(&["spec", list]));
    let counts = |name: &String| name == "cpu" || name == "memory";
    !containers.any(|container| {
        let kinds = ["requests", "limits"];
        kinds
            .iter()
            .any(|kind| container.map(&["resources", kind]).is_some_and(|resources| resources.keys().any(counts)))
    })
}

fn crosses_namespaces(pod: &Value) -> bool {
    let is_crossing =
        |term: &Value| !term.items(&["namespaces"]).is_empty() || term.at(&["namespaceSelector"]).is_some();
    ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
        let at = |list: &str| pod.items(&["spec", "affinity", kind, list]);
        let required = at("requiredDuringSchedulingIgnoredDuringExecution").iter();
        let preferred = at("preferredDuringSchedulingIgnoredDuringExecution").iter();
        let preferred = preferred.filter_map(|preference| preference.at(&["podAffinityTerm"]));
        required.chain(preferred).any(is_crossing)
    })
}

/// What appears, vanishes or changes in its namespace concerns a quota. Status changes of most kinds concern none.
fn content_roots(view: &View, event: &Event) -> Vec<Key> {
    let Some((namespace, _)) = event.key.item.split_once('/') else { return Vec::new() };
    let collection = &*event.key.collection;
    let is_measured = matches!(collection, PODS | SERVICES | CLAIMS);
    if collection == "core/events"
        || (event.previous.is_some() && event.change == store::Change::Modified && !is_measured)
    {
        return Vec::new();
    }
    view.list(COLLECTION, namespace).into_iter().map(|quota| quota.key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::World;
    use brain::Controller;
    use serde_json::json;

    fn world(spec: Value) -> World {
        let mut world = World::new([Controller::of::<ResourceQuotaController>()]);
        world.put(COLLECTION, json!({"metadata": {"name": "q", "namespace": "a"}, "spec": spec}));
        world
    }

    fn pod(world: &mut World, name: &str, requests: Value, more: Value) {
        let mut pod = json!({"metadata": {"name": name, "namespace": "a"},
            "spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]}});
        for (field, value) in more.as_object().unwrap() {
            pod.put(&["spec", field], value.clone());
        }
        world.put(PODS, pod);
    }

    fn used(world: &World) -> Value {
        world.get(COLLECTION, "a", "q").unwrap().at(&["status", "used"]).cloned().unwrap_or_default()
    }

    #[test]
    fn usage_goes_up_and_comes_back() {
        for mut world in [world(json!({"hard": {"pods": "5", "requests.cpu": "2", "cpu": "2", "configmaps": "3", "count/jobs.batch": "1"}})),
            world(json!({"hard": {"pods": "5", "requests.cpu": "2", "cpu": "2", "configmaps": "3", "count/jobs.batch": "1"}})).crashing()] {
            world.settle();
            let nothing = json!({"pods": "0", "requests.cpu": "0", "cpu": "0", "configmaps": "0", "count/jobs.batch": "0"});
            assert_eq!(used(&world), nothing);
            pod(&mut world, "one", json!({"cpu": "500m"}), json!({}));
            pod(&mut world, "two", json!({"cpu": "250m"}), json!({"initContainers": [{"resources": {"requests": {"cpu": "1"}}}]}));
            world.put("core/configmaps", json!({"metadata": {"name": "c", "namespace": "a"}}));
            world.put("batch/jobs", json!({"metadata": {"name": "j", "namespace": "a"}}));
            world.put("core/configmaps", json!({"metadata": {"name": "c", "namespace": "b"}}));
            world.follow();
            let some = json!({"pods": "2", "requests.cpu": "1500m", "cpu": "1500m", "configmaps": "1", "count/jobs.batch": "1"});
            assert_eq!(used(&world), some);
            world.edit(PODS, "a", "two", |pod| pod.put(&["status", "phase"], "Succeeded"));
            world.remove("core/configmaps", "a", "c");
            world.remove("batch/jobs", "a", "j");
            world.follow();
            let less = json!({"pods": "1", "requests.cpu": "500m", "cpu": "500m", "configmaps": "0", "count/jobs.batch": "0"});
            assert_eq!(used(&world), less);
        }
    }

    #[test]
    fn scopes_select_pods() {
        let check = |spec: Value, expected: &str| {
            let mut spec = spec;
            spec.put(&["hard"], json!({"pods": "9"}));
            let mut world = world(spec.clone());
            pod(&mut world, "plain", json!({}), json!({}));
            pod(&mut world, "sized", json!({"cpu": "1"}), json!({"priorityClassName": "high"}));
            pod(&mut world, "timed", json!({}), json!({"activeDeadlineSeconds": 5}));
            world.settle();
            assert_eq!(used(&world), json!({"pods": expected}), "{spec}");
        };
        check(json!({}), "3");
        check(json!({"scopes": ["BestEffort"]}), "2");
        check(json!({"scopes": ["NotBestEffort"]}), "1");
        check(json!({"scopes": ["Terminating"]}), "1");
        check(json!({"scopes": ["BestEffort", "NotTerminating"]}), "1");
        check(
            json!({"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}}),
            "1",
        );
        check(
            json!({"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]}}),
            "1",
        );
    }

    #[test]
    fn claims_and_services_count_by_size_and_kind() {
        let mut world = world(
            json!({"hard": {"requests.storage": "10Gi", "persistentvolumeclaims": "2", "services.nodeports": "3",
            "fast.storageclass.storage.k8s.io/requests.storage": "5Gi"}}),
        );
        world.put(
            CLAIMS,
            json!({"metadata": {"name": "c", "namespace": "a"},
            "spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "2Gi"}}}}),
        );
        world.put(
            SERVICES,
            json!({"metadata": {"name": "s", "namespace": "a"}, "spec": {"type": "NodePort", "ports": [{}, {}]}}),
        );
        world.settle();
        assert_eq!(
            used(&world),
            json!({"requests.storage": "2Gi", "persistentvolumeclaims": "1", "services.nodeports": "2",
            "fast.storageclass.storage.k8s.io/requests.storage": "2Gi"})
        );
    }
}
