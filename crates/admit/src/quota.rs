//! How objects use quota: shared by admission, which charges, and by the controller that counts anew.

use std::collections::{BTreeMap, BTreeSet};

use meta::labels::{Operator, Requirement};
use meta::{ObjectExt, Quantity, Time};
use serde_json::Value;

use crate::admission::Operation;
use crate::resources::{self, ResourceList};

/// Resources of pods that quotas name.
const POD_RESOURCES: [&str; 11] = [
    "count/pods",
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
];
/// Those that every container must state once a quota limits them.
const POD_MUST_STATE: [&str; 6] = ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];
const CLASS_SUFFIX: &str = ".storageclass.storage.k8s.io/";
/// Objects that never count: events come and go by themselves.
const IGNORED: [(&str, &str); 2] = [("", "events"), ("events.k8s.io", "events")];
/// Names from the time before `count/`.
const ALIASES: [&str; 4] = ["configmaps", "resourcequotas", "replicationcontrollers", "secrets"];

/// How objects of one resource are counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluator {
    kind: Kind,
    count_name: String,
    alias: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Pods,
    Services,
    Claims,
    Objects,
}

/// An evaluator at a moment (pods past their grace no longer count).
#[derive(Clone, Copy)]
pub struct Counted<'e> {
    /// How.
    pub evaluator: &'e Evaluator,
    /// When.
    pub now: Time,
}

impl Evaluator {
    /// For a resource; `None` for those that never count.
    pub fn of(group: &str, resource: &str) -> Option<Self> {
        if IGNORED.contains(&(group, resource)) {
            return None;
        }
        let kind = match (group, resource) {
            ("", "pods") => Kind::Pods,
            ("", "services") => Kind::Services,
            ("", "persistentvolumeclaims") => Kind::Claims,
            _ => Kind::Objects,
        };
        let count_name =
            if group.is_empty() { format!("count/{resource}") } else { format!("count/{resource}.{group}") };
        let alias = (group.is_empty() && ALIASES.contains(&resource)).then(|| resource.to_owned());
        Some(Self { kind, count_name, alias })
    }

    /// Whether the operation can change usage.
    pub fn handles(&self, subresource: &str, operation: Operation, old: Option<&Value>, new: &Value) -> bool {
        let (creates, updates) = (operation == Operation::Create, operation == Operation::Update);
        match (self.kind, subresource) {
            (Kind::Pods, "") => creates || (updates && old.is_some_and(|old| ends_itself(old) != ends_itself(new))),
            (Kind::Pods, "resize") => updates,
            (Kind::Services | Kind::Claims, "") => creates || updates,
            (Kind::Claims, "status") => {
                let allocated = |claim: &Value| claim.at(&["status", "allocatedResources"]).cloned();
                old.is_some_and(|old| allocated(old) != allocated(new))
            }
            (Kind::Objects, "") => creates,
            _ => false,
        }
    }

    /// Whether the quota resource `name` is about objects of this kind.
    pub fn counts(&self, name: &str) -> bool {
        match self.kind {
            Kind::Pods => {
                POD_RESOURCES.contains(&name)
                    || name.starts_with("hugepages-")
                    || name.starts_with("requests.hugepages-")
                    || is_extended_request(name)
            }
            Kind::Services => {
                name == self.count_name || matches!(name, "services" | "services.nodeports" | "services.loadbalancers")
            }
            Kind::Claims => {
                let own = |name: &str| matches!(name, "persistentvolumeclaims" | "requests.storage");
                name == self.count_name
                    || own(name)
                    || name.split_once(CLASS_SUFFIX).is_some_and(|(_, resource)| own(resource))
            }
            Kind::Objects => name == self.count_name || self.alias.as_deref() == Some(name),
        }
    }

    /// What an object must state because a quota limits it.
    pub fn constraints(&self, restricted: &BTreeSet<&str>, object: &Value) -> Result<(), String> {
        let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
        if self.kind != Kind::Pods || resources::has_pod_level(spec) {
            return Ok(());
        }
        let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let lists = ["containers", "initContainers"];
        for container in lists.iter().flat_map(|list| spec.items(&[list])) {
            let of = |which: &str| resources::read(container.at(&["resources", which]));
            let stated = pod_amounts(&of("requests"), &of("limits"));
            for name in POD_MUST_STATE.iter().filter(|name| restricted.contains(**name) && !stated.contains_key(**name))
            {
                missing.entry(name).or_default().insert(container.text(&["name"]));
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let listed = |names: BTreeSet<&str>| names.into_iter().collect::<Vec<_>>().join(",");
        let parts: Vec<String> = missing.into_iter().map(|(name, of)| format!("{name} for: {}", listed(of))).collect();
        Err(format!("must specify {}", parts.join("; ")))
    }
}

impl Counted<'_> {
    /// What one object uses.
    pub fn usage(&self, object: &Value) -> ResourceList {
        let one = Quantity::from_units(1);
        let mut usage = ResourceList::from([(self.evaluator.count_name.clone(), one)]);
        usage.extend(self.evaluator.alias.iter().map(|alias| (alias.clone(), one)));
        match self.evaluator.kind {
            Kind::Pods if is_running(object, self.now) => {
                let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
                usage.extend(pod_amounts(&resources::pod_requests(spec), &resources::pod_limits(spec)));
            }
            Kind::Services => usage.extend(service_amounts(object)),
            Kind::Claims => usage.extend(claim_amounts(object)),
            Kind::Pods | Kind::Objects => {}
        }
        usage
    }
}

fn pod_amounts(requests: &ResourceList, limits: &ResourceList) -> ResourceList {
    let mut out = ResourceList::from([("pods".to_owned(), Quantity::from_units(1))]);
    for (name, amount) in requests {
        match name.as_str() {
            "cpu" | "memory" | "ephemeral-storage" => {
                out.insert(name.clone(), *amount);
                out.insert(format!("requests.{name}"), *amount);
            }
            _ if name.starts_with("hugepages-") => {
                out.insert(name.clone(), *amount);
                out.insert(format!("requests.{name}"), *amount);
            }
            _ if is_extended(name) => {
                out.insert(format!("requests.{name}"), *amount);
            }
            _ => {}
        }
    }
    let limited = limits.iter().filter(|(name, _)| matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage"));
    out.extend(limited.map(|(name, amount)| (format!("limits.{name}"), *amount)));
    out
}

/// A resource with a domain that is not Kubernetes' own.
fn is_extended(name: &str) -> bool {
    name.split_once('/').is_some_and(|(domain, _)| domain != "kubernetes.io" && !domain.ends_with(".kubernetes.io"))
}

fn is_extended_request(name: &str) -> bool {
    name.strip_prefix("requests.").is_some_and(|rest| is_extended(rest) && !rest.contains(CLASS_SUFFIX))
}

fn service_amounts(service: &Value) -> ResourceList {
    let ports = service.items(&["spec", "ports"]);
    let allocates = service.at(&["spec", "allocateLoadBalancerNodePorts"]).and_then(Value::as_bool).unwrap_or(true);
    let fixed = ports.iter().filter(|port| port.int(&["nodePort"]).unwrap_or(0) != 0).count();
    let (node_ports, balancers) = match service.text(&["spec", "type"]) {
        "NodePort" => (ports.len(), 0),
        "LoadBalancer" if allocates => (ports.len(), 1),
        "LoadBalancer" => (fixed, 1),
        _ => (0, 0),
    };
    let amount = |count: usize| Quantity::from_units(i64::try_from(count).unwrap_or(i64::MAX));
    let pairs = [("services", 1), ("services.nodeports", node_ports), ("services.loadbalancers", balancers)];
    pairs.into_iter().map(|(name, count)| (name.to_owned(), amount(count))).collect()
}

fn claim_amounts(claim: &Value) -> ResourceList {
    let mut out = ResourceList::from([("persistentvolumeclaims".to_owned(), Quantity::from_units(1))]);
    let requested = resources::read(claim.at(&["spec", "resources", "requests"])).remove("storage");
    let allocated = resources::read(claim.at(&["status", "allocatedResources"])).remove("storage");
    if let Some(storage) = requested.map(|requested| allocated.map_or(requested, |other| requested.max(other))) {
        out.insert("requests.storage".to_owned(), storage);
    }
    let class = match claim.annotation("volume.beta.kubernetes.io/storage-class") {
        Some(class) => class,
        None => claim.text(&["spec", "storageClassName"]),
    };
    if !class.is_empty() {
        let own: Vec<(String, Quantity)> =
            out.iter().map(|(name, amount)| (format!("{class}{CLASS_SUFFIX}{name}"), *amount)).collect();
        out.extend(own);
    }
    out
}

/// Neither ended nor past the grace of its deletion.
fn is_running(pod: &Value, now: Time) -> bool {
    if matches!(pod.text(&["status", "phase"]), "Succeeded" | "Failed") {
        return false;
    }
    match (pod.deletion_timestamp(), pod.int(&["metadata", "deletionGracePeriodSeconds"])) {
        (Some(begun), Some(grace)) => now.as_secs() <= begun.as_secs().saturating_add(grace),
        _ => true,
    }
}

fn ends_itself(pod: &Value) -> bool {
    pod.int(&["spec", "activeDeadlineSeconds"]).is_some_and(|seconds| seconds >= 0)
}

/// Whether the object is in every scope of the quota.
pub fn matches_scopes(evaluator: &Evaluator, quota: &Value, object: &Value) -> bool {
    let mut plain = quota.items(&["spec", "scopes"]).iter().filter_map(Value::as_str);
    let mut expressions = quota.items(&["spec", "scopeSelector", "matchExpressions"]).iter();
    let fits = |scope: &str, expression| in_scope(evaluator.kind, scope, expression, object);
    plain.all(|scope| fits(scope, None)) && expressions.all(|e| fits(e.text(&["scopeName"]), Some(e)))
}

fn in_scope(kind: Kind, scope: &str, expression: Option<&Value>, object: &Value) -> bool {
    let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
    match (kind, scope) {
        (Kind::Pods, "Terminating") => ends_itself(object),
        (Kind::Pods, "NotTerminating") => !ends_itself(object),
        (Kind::Pods, "BestEffort") => resources::is_best_effort(spec),
        (Kind::Pods, "NotBestEffort") => !resources::is_best_effort(spec),
        (Kind::Pods, "PriorityClass") => selects(expression, spec.text(&["priorityClassName"])),
        (Kind::Pods, "CrossNamespacePodAffinity") => reaches_over(spec),
        (Kind::Claims, "VolumeAttributesClass") => selects(expression, spec.text(&["volumeAttributesClassName"])),
        _ => false,
    }
}

/// Whether a scope's expression fits the one value; a plain scope asks that there is one.
fn selects(expression: Option<&Value>, value: &str) -> bool {
    let Some(expression) = expression else { return !value.is_empty() };
    let values: Vec<String> =
        expression.items(&["values"]).iter().filter_map(Value::as_str).map(str::to_owned).collect();
    let operator = match expression.text(&["operator"]) {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "DoesNotExist" => Operator::DoesNotExist,
        _ => Operator::Exists,
    };
    let labels: BTreeMap<String, String> =
        if value.is_empty() { BTreeMap::new() } else { BTreeMap::from([("scope".to_owned(), value.to_owned())]) };
    Requirement::new("scope", operator, values).is_ok_and(|requirement| requirement.matches(&labels))
}

fn reaches_over(spec: &Value) -> bool {
    ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
        let required = spec.items(&["affinity", kind, "requiredDuringSchedulingIgnoredDuringExecution"]).iter();
        let preferred = spec.items(&["affinity", kind, "preferredDuringSchedulingIgnoredDuringExecution"]).iter();
        let terms = required.chain(preferred.filter_map(|weighted| weighted.get("podAffinityTerm")));
        terms.into_iter().any(|term| {
            !term.items(&["namespaces"]).is_empty() || term.get("namespaceSelector").is_some_and(|s| !s.is_null())
        })
    })
}
