//! The rules as they are written, over lists of objects: slow, plain, and without any of the scheduler's indexes.

use std::collections::{BTreeMap, BTreeSet};

use brain::Object;
use brain::facts::{Node, PodAffinityTerm, Seen, Taint, TopologySpreadConstraint, first_untolerated};
use meta::labels::{Operator, Requirement, Selector};
use store::Key;

use crate::ask::Ask;
use crate::decide::{Diagnosis, Verdict};

const HARD_TAINTS: &[&str] = &["NoSchedule", "NoExecute"];

/// All there is.
#[derive(Default)]
pub struct World {
    pub nodes: BTreeMap<String, Seen<Node>>,
    pub pods: BTreeMap<Key, (Ask, String)>,
    namespaces: BTreeMap<String, meta::labels::LabelMap>,
}

impl World {
    pub fn put_node(&mut self, object: &Object) {
        self.nodes.insert(object.meta().name.to_string(), Seen::from(object.clone()));
    }

    pub fn put_namespace(&mut self, object: &Object) {
        self.namespaces.insert(object.meta().name.to_string(), object.meta().labels.clone());
    }

    /// Whether the verdict is one that the rules allow.
    pub fn judge(&self, ask: &Ask, verdict: &Verdict) -> Result<(), String> {
        let reasons: BTreeMap<&String, Vec<String>> =
            self.nodes.iter().map(|(name, node)| (name, self.reasons(ask, node, &[]))).collect();
        let feasible: BTreeSet<&String> =
            reasons.iter().filter(|(_, why)| why.is_empty()).map(|(name, _)| *name).collect();
        match verdict {
            Verdict::Gated => Err("it is not gated".to_owned()),
            Verdict::Bind { node, .. } if feasible.contains(&node.to_string()) => Ok(()),
            Verdict::Bind { .. } => Err(format!("only {feasible:?} will do, for {reasons:?}")),
            _ if !feasible.is_empty() => Err(format!("{feasible:?} would do")),
            Verdict::Unschedulable(diagnosis) => {
                self.judge_diagnosis(ask, diagnosis, &reasons)?;
                let room = self.nodes.keys().find(|node| self.could_make_room(ask, node));
                room.map_or(Ok(()), |node| Err(format!("room could be made on {node}")))
            }
            Verdict::Preempt { node, victims, diagnosis } => {
                self.judge_diagnosis(ask, diagnosis, &reasons)?;
                self.judge_victims(ask, node, victims)
            }
        }
    }

    fn judge_diagnosis(
        &self,
        ask: &Ask,
        diagnosis: &Diagnosis,
        reasons: &BTreeMap<&String, Vec<String>>,
    ) -> Result<(), String> {
        let mut expected: BTreeMap<String, usize> = BTreeMap::new();
        for (name, why) in reasons {
            let named = named(ask).is_none_or(|names| names.contains(*name));
            let skipped = vec!["node(s) didn't satisfy plugin(s) [NodeAffinity]".to_owned()];
            for reason in if named { why } else { &skipped } {
                *expected.entry(reason.clone()).or_default() += 1;
            }
        }
        if self.nodes.is_empty() || expected == diagnosis.by_reason {
            Ok(())
        } else {
            Err(format!("expected {expected:?}"))
        }
    }

    /// The victims are less important, the pod fits without them, and each one is needed.
    fn judge_victims(&self, ask: &Ask, node: &str, victims: &[Key]) -> Result<(), String> {
        let there = self.nodes.get(node).ok_or("no such node")?;
        for victim in victims {
            let (pod, place) = self.pods.get(victim).ok_or("no such victim")?;
            if place != node || pod.priority() >= ask.priority() {
                return Err(format!("{victim} is no victim"));
            }
            let others: Vec<&Key> = victims.iter().filter(|other| *other != victim).collect();
            // Coming back one by one in order is what makes a victim, so only the last to stay away is surely needed.
            if victims.len() == 1 && self.reasons(ask, there, &others).is_empty() {
                return Err(format!("{victim} need not go"));
            }
        }
        let all: Vec<&Key> = victims.iter().collect();
        let still = self.reasons(ask, there, &all);
        if still.is_empty() && !victims.is_empty() { Ok(()) } else { Err(format!("still {still:?}")) }
    }

    fn could_make_room(&self, ask: &Ask, node: &str) -> bool {
        let lower = self.pods.iter().filter(|(_, (pod, place))| place == node && pod.priority() < ask.priority());
        let lower: Vec<&Key> = lower.map(|(key, _)| key).collect();
        let Some(there) = self.nodes.get(node) else { return false };
        let hopeless =
            ["node(s) didn't match pod affinity rules", "unschedulable", "taint", "node affinity", "missing"];
        let now = self.reasons(ask, there, &[]);
        let is_hopeless = |reason: &String| hopeless.iter().any(|word| reason.contains(word));
        ask.spec().preemption_policy.as_ref() != "Never"
            && !lower.is_empty()
            && !now.iter().any(is_hopeless)
            && self.reasons(ask, there, &lower).is_empty()
    }

    /// Why the pod may not go to the node, once the pods `without` have left.
    fn reasons(&self, ask: &Ask, node: &Seen<Node>, without: &[&Key]) -> Vec<String> {
        let pods: Vec<(&Ask, &str)> = self
            .pods
            .iter()
            .filter(|(key, (_, place))| !without.contains(key) && self.nodes.contains_key(place))
            .map(|(_, (pod, place))| (pod, place.as_str()))
            .collect();
        let alone = alone(ask, node);
        if !alone.is_empty() {
            return alone;
        }
        let there: Vec<&Ask> = pods.iter().filter(|(_, place)| *place == node.name()).map(|(pod, _)| *pod).collect();
        let fit = fit(ask, node, &there);
        if !fit.is_empty() {
            return fit;
        }
        self.spread(ask, node, &pods).or_else(|| self.near(ask, node, &pods)).into_iter().map(str::to_owned).collect()
    }

    fn spread(&self, ask: &Ask, node: &Seen<Node>, pods: &[(&Ask, &str)]) -> Option<&'static str> {
        let hard: Vec<&TopologySpreadConstraint> = ask
            .spec()
            .topology_spread_constraints
            .iter()
            .filter(|c| &*c.when_unsatisfiable == "DoNotSchedule")
            .collect();
        for constraint in &hard {
            let Some(own) = node.label(&constraint.topology_key) else {
                return Some("node(s) didn't match pod topology spread constraints (missing required label)");
            };
            let selector = narrowed(&constraint.label_selector.0, &constraint.match_label_keys, ask);
            let mut domains: BTreeMap<&str, i64> = BTreeMap::new();
            for (name, other) in &self.nodes {
                let complete = hard.iter().all(|c| other.label(&c.topology_key).is_some());
                let wanted = &*constraint.node_affinity_policy == "Ignore"
                    || ask.spec().selects_node(&other.meta().labels, name);
                let tolerated = &*constraint.node_taints_policy != "Honor"
                    || first_untolerated(&other.facts.spec.taints, &ask.spec().tolerations, HARD_TAINTS).is_none();
                if !(complete && wanted && tolerated) {
                    continue;
                }
                let is_counted = |(pod, place): &&(&Ask, &str)| {
                    place == name
                        && pod.namespace() == ask.namespace()
                        && !pod.pod.is_deleting()
                        && selector.matches(pod.labels())
                };
                let count = pods.iter().filter(is_counted).count() as i64;
                *domains.entry(other.label(&constraint.topology_key).unwrap_or("")).or_default() += count;
            }
            let too_few = (domains.len() as i64) < i64::from(constraint.min_domains.unwrap_or(1));
            let fewest = if too_few { 0 } else { domains.values().copied().min().unwrap_or(i64::MAX / 2) };
            let itself = i64::from(selector.matches(ask.labels()));
            if domains.get(own).copied().unwrap_or(0) + itself - fewest > i64::from(constraint.max_skew) {
                return Some("node(s) didn't match pod topology spread constraints");
            }
        }
        None
    }

    fn near(&self, ask: &Ask, node: &Seen<Node>, pods: &[(&Ask, &str)]) -> Option<&'static str> {
        let affinity = ask.spec().affinity.as_deref();
        let required = affinity.map(|a| &*a.pod_affinity.required).unwrap_or_default();
        let forbidden = affinity.map(|a| &*a.pod_anti_affinity.required).unwrap_or_default();
        let label_at = |place: &str, key: &str| self.nodes.get(place).and_then(|other| other.label(key));
        let is_near = |place: &str, key: &str| label_at(place, key).is_some_and(|value| node.label(key) == Some(value));
        let matches_all = |pod: &Ask| required.iter().all(|term| self.is_about(term, ask, pod));
        let meets = |term: &PodAffinityTerm| {
            pods.iter().any(|(pod, place)| matches_all(pod) && is_near(place, &term.topology_key))
        };
        let has_labels = required.iter().all(|term| node.label(&term.topology_key).is_some());
        let anywhere = pods.iter().any(|(pod, place)| {
            matches_all(pod) && required.iter().any(|term| label_at(place, &term.topology_key).is_some())
        });
        let is_first = !anywhere && matches_all(ask);
        if !required.is_empty() && !(has_labels && (required.iter().all(meets) || is_first)) {
            return Some("node(s) didn't match pod affinity rules");
        }
        let clashes = |term: &PodAffinityTerm, holder: &Ask, other: &Ask, place: &str| {
            self.is_about(term, holder, other) && is_near(place, &term.topology_key)
        };
        if forbidden.iter().any(|term| pods.iter().any(|(pod, place)| clashes(term, ask, pod, place))) {
            return Some("node(s) didn't match pod anti-affinity rules");
        }
        let is_kept_away = pods.iter().any(|(pod, place)| {
            let terms = pod.spec().affinity.as_deref().map(|a| &*a.pod_anti_affinity.required).unwrap_or_default();
            terms.iter().any(|term| clashes(term, pod, ask, place))
        });
        is_kept_away.then_some("node(s) didn't satisfy existing pods anti-affinity rules")
    }

    fn is_about(&self, term: &PodAffinityTerm, holder: &Ask, other: &Ask) -> bool {
        let by_label = term.namespace_selector.as_ref().is_some_and(|selector| {
            self.namespaces.get(other.namespace()).is_some_and(|labels| selector.0.matches(labels))
        });
        let own =
            term.namespaces.is_empty() && term.namespace_selector.is_none() && holder.namespace() == other.namespace();
        let named = term.namespaces.iter().any(|name| **name == *other.namespace());
        (own || named || by_label)
            && narrowed(&term.label_selector.0, &term.match_label_keys, holder).matches(other.labels())
    }
}

fn named(ask: &Ask) -> Option<Vec<String>> {
    let required = ask.spec().affinity.as_deref()?.node_affinity.required.as_ref()?;
    let fields = &required.node_selector_terms.first()?.match_fields;
    Some(fields.first()?.values.iter().map(|name| name.to_string()).collect())
}

fn narrowed(selector: &Selector, keys: &[Box<str>], ask: &Ask) -> Selector {
    let own = |key: &str| Requirement::new(key, Operator::In, vec![ask.labels().get(key)?.to_string()]).ok();
    let more = keys.iter().filter_map(|key| own(key));
    Selector::from_requirements(selector.requirements().iter().cloned().chain(more).collect())
}

fn alone(ask: &Ask, node: &Seen<Node>) -> Vec<String> {
    let spec = ask.spec();
    let cordon =
        Taint { key: "node.kubernetes.io/unschedulable".into(), value: "".into(), effect: "NoSchedule".into() };
    if node.facts.spec.unschedulable && !spec.tolerations.iter().any(|t| t.tolerates(&cordon)) {
        return vec!["node(s) were unschedulable".to_owned()];
    }
    if let Some(taint) = first_untolerated(&node.facts.spec.taints, &spec.tolerations, HARD_TAINTS) {
        return vec![format!("node(s) had untolerated taint {{{}: {}}}", taint.key, taint.value)];
    }
    if !spec.selects_node(&node.meta().labels, node.name()) {
        return vec!["node(s) didn't match Pod's node affinity/selector".to_owned()];
    }
    Vec::new()
}

fn fit(ask: &Ask, node: &Seen<Node>, there: &[&Ask]) -> Vec<String> {
    let clash = |a: (&str, &str, i32), b: (&str, &str, i32)| {
        a.1 == b.1 && a.2 == b.2 && (a.0 == b.0 || a.0 == "0.0.0.0" || b.0 == "0.0.0.0")
    };
    if there.iter().any(|pod| pod.spec().host_ports().any(|a| ask.spec().host_ports().any(|b| clash(a, b)))) {
        return vec!["node(s) didn't have free ports for the requested pod ports".to_owned()];
    }
    let all = node.facts.status.allocatable.whole();
    let mut reasons = Vec::new();
    if there.len() as i64 + 1 > all.get("pods") {
        reasons.push("Too many pods".to_owned());
    }
    let want = ask.pod.facts.requests();
    want.each(|name, amount| {
        let used: i64 = there.iter().map(|pod| pod.pod.facts.requests().get(name)).sum();
        if amount > 0 && used + amount > all.get(name) {
            reasons.push(format!("Insufficient {name}"));
        }
    });
    reasons
}
