//! What a pod asks of the scheduler, worked out once when its spec is first seen.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use brain::facts::{Pod, PodAffinityTerm, PodSpec, Requests, Seen, TopologySpreadConstraint};
use brain::{Object, Resource};
use meta::labels::{Operator, Requirement, Selector};
use store::Key;

use crate::topology::Labels;

/// Pods.
pub const PODS: Resource = Resource::new("", "v1", "pods");
/// The store's collection of pods.
pub const PODS_COLLECTION: &str = "core/pods";
/// The scheduler's name in `spec.schedulerName`.
pub const SCHEDULER_NAME: &str = "default-scheduler";
/// What a container without a request for cpu is taken to use when nodes are scored (thousandths).
const CPU_MILLI_GUESSED: i64 = 100;
/// What a container without a request for memory is taken to use when nodes are scored (bytes).
const MEMORY_GUESSED: i64 = 200 * 1024 * 1024;

/// A pod with what it asks for. Cheap to clone.
#[derive(Clone)]
pub struct Ask {
    /// The pod.
    pub pod: Seen<Pod>,
    /// What it wants.
    pub wants: Arc<Wants>,
}

/// The wants that follow from a pod's spec and labels.
#[derive(Debug, Default)]
pub struct Wants {
    /// Resources.
    pub requests: Requests,
    /// Cpu (thousandths) and memory (bytes) for scoring: something even where nothing is requested.
    pub scored: [i64; 2],
    /// Host ports.
    pub ports: Vec<Port>,
    /// Pods with the same text are treated alike by everything that looks at a node alone.
    pub class: Arc<str>,
    /// The nodes that the affinity names; `None` when any may do.
    pub named_nodes: Option<BTreeSet<Box<str>>>,
    /// Pods that must be near.
    pub affinity: Vec<Term>,
    /// Pods that must not be near.
    pub anti_affinity: Vec<Term>,
    /// Pods that had better be (or, with a negative weight, not be) near.
    pub preferred: Vec<(i64, Term)>,
    /// Spreading.
    pub spread: Vec<Spread>,
    /// Names of claims.
    pub claims: Vec<Claimed>,
    /// The managing controller's uid.
    pub owner: Option<Box<str>>,
    /// Images, by full name.
    pub images: Vec<Box<str>>,
}

/// A host port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Port {
    /// Its number.
    pub number: i32,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: Box<str>,
    /// The address; `0.0.0.0` for all.
    pub address: Box<str>,
}

impl Port {
    /// Whether both cannot be had on one node.
    pub fn conflicts(&self, other: &Port) -> bool {
        const ANY: &str = "0.0.0.0";
        self.number == other.number
            && self.protocol == other.protocol
            && (self.address == other.address || &*self.address == ANY || &*other.address == ANY)
    }
}

/// A claim that a pod mounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// The claim's name.
    pub name: Box<str>,
    /// Whether it is made for this pod.
    pub ephemeral: bool,
}

/// Namespaces whose pods a term is about.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// By name.
    pub names: BTreeSet<Box<str>>,
    /// By label.
    pub selector: Option<Selector>,
}

impl Scope {
    /// Whether it covers a namespace with these labels.
    pub fn covers(&self, namespace: &str, labels: Option<&Labels>) -> bool {
        self.names.contains(namespace) || self.selector.as_ref().is_some_and(|selector| selector.matches(&labels))
    }
}

/// Pods, and how near.
#[derive(Clone, Debug)]
pub struct Term {
    /// In which namespaces.
    pub scope: Scope,
    /// Which pods.
    pub selector: Selector,
    /// What is near.
    pub topology_key: Box<str>,
    /// Equal texts, equal terms.
    pub text: Arc<str>,
}

/// One constraint on spreading.
#[derive(Debug)]
pub struct Spread {
    /// The most that domains may differ.
    pub skew_max: i64,
    /// Whether it must hold.
    pub hard: bool,
    /// The node label whose values are the domains.
    pub topology_key: Box<str>,
    /// The least number of domains.
    pub domains_min: usize,
    /// Which pods are counted.
    pub selector: Selector,
    /// Whether nodes that the pod's selector and affinity exclude do not count.
    pub honor_affinity: bool,
    /// Whether nodes whose taints the pod does not tolerate do not count.
    pub honor_taints: bool,
    /// Whether the pod itself is counted.
    pub counts_itself: bool,
    /// Labels that nodes need to count at all: those of all the pod's constraints of the same hardness.
    pub keys: Vec<Box<str>>,
    /// Equal texts, equal counts.
    pub text: Arc<str>,
}

impl Ask {
    /// What the pod asks for.
    pub fn of(object: Object) -> Ask {
        let pod = Seen::<Pod>::from(object);
        let wants = Arc::new(Wants::of(&pod));
        Ask { pod, wants }
    }

    /// The same wants of a newer state of the pod.
    pub fn with_pod(&self, object: Object) -> Ask {
        Ask { pod: Seen::from(object), wants: Arc::clone(&self.wants) }
    }

    /// The pod's key.
    pub fn key(&self) -> &Key {
        &self.pod.object.key
    }

    /// Its namespace.
    pub fn namespace(&self) -> &str {
        &self.pod.meta().namespace
    }

    /// Its labels.
    pub fn labels(&self) -> &Labels {
        &self.pod.meta().labels
    }

    /// Its spec.
    pub fn spec(&self) -> &PodSpec {
        &self.pod.facts.spec
    }

    /// Its priority.
    pub fn priority(&self) -> i32 {
        self.spec().priority
    }

    /// Whether the pod may be on a node with these labels and this name.
    pub fn selects_node(&self, labels: &Labels, name: &str) -> bool {
        self.spec().selects_node(labels, name)
    }
}

impl Wants {
    fn of(pod: &Seen<Pod>) -> Wants {
        let (spec, labels, namespace) = (&pod.facts.spec, &pod.meta().labels, &*pod.meta().namespace);
        let requests = pod.facts.requests();
        let class = class_of(spec);
        let affinity = spec.affinity.as_deref();
        let term = |term: &PodAffinityTerm| Term::of(term, namespace, labels);
        let near = affinity.map(|affinity| &affinity.pod_affinity);
        let far = affinity.map(|affinity| &affinity.pod_anti_affinity);
        let required = |terms: Option<&brain::facts::PodAffinity>| -> Vec<Term> {
            terms.into_iter().flat_map(|terms| &terms.required).map(term).collect()
        };
        let preferred = |terms: Option<&brain::facts::PodAffinity>, sign: i64| -> Vec<(i64, Term)> {
            let terms = terms.into_iter().flat_map(|terms| &terms.preferred);
            terms.map(|t| (sign * i64::from(t.weight), term(&t.pod_affinity_term))).collect()
        };
        Wants {
            scored: scored(spec, &requests),
            ports: spec.host_ports().map(port).collect(),
            named_nodes: named_nodes(spec),
            affinity: required(near),
            anti_affinity: required(far),
            preferred: preferred(near, 1).into_iter().chain(preferred(far, -1)).collect(),
            spread: spread(spec, labels, namespace, &class),
            claims: claims(pod),
            owner: pod.meta().controller().map(|owner| owner.uid.clone()),
            images: spec.init_containers.iter().chain(&spec.containers).map(|c| full_image_name(&c.image)).collect(),
            requests,
            class,
        }
    }

    /// Whether anything is said about other pods.
    pub fn has_terms(&self) -> bool {
        !(self.affinity.is_empty() && self.anti_affinity.is_empty() && self.preferred.is_empty())
    }
}

fn port((address, protocol, number): (&str, &str, i32)) -> Port {
    Port { number, protocol: protocol.into(), address: address.into() }
}

fn class_of(spec: &PodSpec) -> Arc<str> {
    let affinity = spec.affinity.as_deref().map(|affinity| &affinity.node_affinity);
    let affinity = affinity.filter(|affinity| affinity.required.is_some() || !affinity.preferred.is_empty());
    format!("{:?} {affinity:?} {:?}", spec.node_selector, spec.tolerations).into()
}

fn scored(spec: &PodSpec, requests: &Requests) -> [i64; 2] {
    let running = spec.init_containers.iter().filter(|c| c.is_sidecar()).chain(&spec.containers);
    let mut scored = [requests.cpu_milli, requests.memory];
    for container in running {
        for (at, (name, guess)) in [("cpu", CPU_MILLI_GUESSED), ("memory", MEMORY_GUESSED)].into_iter().enumerate() {
            let of_pod = spec.resources.as_deref().is_some_and(|pod| pod.requests.get(name).is_some());
            if !of_pod && container.resources.requests.get(name).is_none() {
                scored[at] = scored[at].saturating_add(guess);
            }
        }
    }
    scored
}

/// The names that every term of the required affinity insists on; `None` when some term leaves it open.
fn named_nodes(spec: &PodSpec) -> Option<BTreeSet<Box<str>>> {
    let required = spec.affinity.as_deref()?.node_affinity.required.as_ref()?;
    let mut all = BTreeSet::new();
    for term in &required.node_selector_terms {
        let fields = term.match_fields.iter().filter(|r| &*r.key == "metadata.name" && &*r.operator == "In");
        let sets = fields.map(|r| r.values.iter().cloned().collect::<BTreeSet<Box<str>>>());
        all.extend(sets.reduce(|a, b| a.intersection(&b).cloned().collect())?);
    }
    (!required.node_selector_terms.is_empty()).then_some(all)
}

fn claims(pod: &Seen<Pod>) -> Vec<Claimed> {
    let claim = |volume: &brain::facts::Volume| match &volume.persistent_volume_claim {
        Some(source) => Some(Claimed { name: source.claim_name.clone(), ephemeral: false }),
        None if volume.ephemeral => {
            Some(Claimed { name: format!("{}-{}", pod.name(), volume.name).into(), ephemeral: true })
        }
        None => None,
    };
    pod.facts.spec.volumes.iter().filter_map(claim).collect()
}

/// The image's name with a tag: what nodes report.
pub(crate) fn full_image_name(image: &str) -> Box<str> {
    let tagged = image.rfind(':').is_some_and(|colon| image.rfind('/').is_none_or(|slash| slash < colon));
    if tagged { image.into() } else { format!("{image}:latest").into() }
}

impl Term {
    fn of(term: &PodAffinityTerm, namespace: &str, labels: &Labels) -> Term {
        let mut names: BTreeSet<Box<str>> = term.namespaces.iter().cloned().collect();
        let by_label = term.namespace_selector.as_ref().map(|selector| selector.0.clone());
        if names.is_empty() && by_label.is_none() {
            names.insert(namespace.into());
        }
        let own = |keys: &[Box<str>], operator| with_own(&term.label_selector.0, keys, operator, labels);
        let selector =
            with_own(&own(&term.match_label_keys, Operator::In), &term.mismatch_label_keys, Operator::NotIn, labels);
        let scope = Scope { names, selector: by_label };
        let text = format!("{scope:?} {selector:?} {}", term.topology_key).into();
        Term { scope, selector, topology_key: term.topology_key.clone(), text }
    }
}

/// The selector with the pod's own labels of these keys added.
fn with_own(selector: &Selector, keys: &[Box<str>], operator: Operator, labels: &Labels) -> Selector {
    if keys.is_empty() || selector.is_nothing() {
        return selector.clone();
    }
    let own = |key: &str| Requirement::new(key, operator, vec![labels.get(key)?.to_string()]).ok();
    let mut requirements = selector.requirements().to_vec();
    for requirement in keys.iter().filter_map(|key| own(key)) {
        // The API server adds them too: once is enough.
        if !requirements.contains(&requirement) {
            requirements.push(requirement);
        }
    }
    Selector::from_requirements(requirements)
}

fn spread(spec: &PodSpec, labels: &Labels, namespace: &str, class: &str) -> Vec<Spread> {
    let is_hard = |constraint: &TopologySpreadConstraint| &*constraint.when_unsatisfiable != "ScheduleAnyway";
    let keys = |hard: bool| -> Vec<Box<str>> {
        let same = spec.topology_spread_constraints.iter().filter(|c| is_hard(c) == hard);
        same.map(|constraint| constraint.topology_key.clone()).collect::<BTreeSet<_>>().into_iter().collect()
    };
    let read = |constraint: &TopologySpreadConstraint| {
        let (hard, key) = (is_hard(constraint), &constraint.topology_key);
        let selector = with_own(&constraint.label_selector.0, &constraint.match_label_keys, Operator::In, labels);
        let honor_affinity = &*constraint.node_affinity_policy != "Ignore";
        let honor_taints = &*constraint.node_taints_policy == "Honor";
        let keys = keys(hard);
        let nodes = if honor_affinity || honor_taints { class } else { "" };
        let text = format!("{namespace} {selector:?} {key} {honor_affinity} {honor_taints} {nodes} {keys:?}");
        Spread {
            skew_max: i64::from(constraint.max_skew),
            hard,
            topology_key: key.clone(),
            domains_min: constraint.min_domains.and_then(|min| usize::try_from(min).ok()).unwrap_or(1),
            counts_itself: selector.matches(labels),
            selector,
            honor_affinity,
            honor_taints,
            keys,
            text: text.into(),
        }
    };
    spec.topology_spread_constraints.iter().map(read).collect()
}

/// Labels of namespaces, for scopes.
pub type Namespaces = BTreeMap<Box<str>, Labels>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ask;
    use serde_json::json;

    #[test]
    fn equal_specs_are_one_class() {
        let check = |a: serde_json::Value, b: serde_json::Value, same: bool| {
            let (a, b) = (ask("a", a), ask("b", b));
            assert_eq!(a.wants.class == b.wants.class, same);
        };
        check(json!({"priority": 1}), json!({"hostNetwork": true}), true);
        check(json!({"nodeSelector": {"a": "b"}}), json!({}), false);
        check(json!({"tolerations": [{"operator": "Exists"}]}), json!({}), false);
    }

    #[test]
    fn own_labels_are_added_once() {
        let constraint = |selector: serde_json::Value| {
            json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": selector, "matchLabelKeys": ["app"]}]})
        };
        let plain = ask("a", constraint(json!({})));
        let merged =
            ask("a", constraint(json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]})));
        assert_eq!(plain.wants.spread[0].selector, merged.wants.spread[0].selector);
        assert!(plain.wants.spread[0].counts_itself);
    }

    #[test]
    fn images_have_tags() {
        for (image, expected) in
            [("nginx", "nginx:latest"), ("nginx:1", "nginx:1"), ("host:5000/a", "host:5000/a:latest")]
        {
            assert_eq!(&*full_image_name(image), expected);
        }
    }

    #[test]
    fn nodes_named_by_every_term() {
        let names = |terms: serde_json::Value| {
            let spec = json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}});
            ask("a", spec).wants.named_nodes.clone().map(|names| names.into_iter().collect::<Vec<_>>())
        };
        let named =
            |names: &[&str]| json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": names}]});
        assert_eq!(names(json!([named(&["n1"]), named(&["n2"])])), Some(vec!["n1".into(), "n2".into()]));
        assert_eq!(names(json!([named(&["n1"]), {"matchExpressions": [{"key": "a", "operator": "Exists"}]}])), None);
    }
}
