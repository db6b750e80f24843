//! What follows from a pod and a node alone: cordon, taints, selector and affinity. Pods of one class share it, and
//! it is worked out once per node until that node changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use brain::facts::{Taint, Toleration, first_untolerated};

use crate::ask::Ask;
use crate::node_info::NodeInfo;
use crate::reason::Reason;
use crate::slab::Slab;
use crate::topology::NodeIx;

/// How many classes are kept: each costs up to some 200 KB at 5,000 nodes, and pods under way at one time are of
/// few classes (one workload, one class; most share the class of those without wishes).
const CLASSES_MAX: usize = 128;
/// The taint of a cordoned node.
const CORDON: &str = "node.kubernetes.io/unschedulable";

/// How much a pod likes a node that it may go to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Liking {
    /// The weights of the preferred node affinities that hold.
    pub affinity: i64,
    /// Taints of effect PreferNoSchedule that nothing tolerates.
    pub intolerable: i64,
}

struct Class {
    text: Arc<str>,
    by_node: Vec<Option<(u64, Result<Liking, Reason>)>>,
    used: u64,
}

/// All classes.
#[derive(Default)]
pub struct Statics {
    classes: Slab<Class>,
    by_text: BTreeMap<Arc<str>, usize>,
    clock: u64,
}

impl Statics {
    /// The number of a class.
    pub fn class(&mut self, text: &Arc<str>) -> usize {
        self.clock += 1;
        if let Some(at) = self.by_text.get(text).copied() {
            if let Some(class) = self.classes.get_mut(at) {
                class.used = self.clock;
            }
            return at;
        }
        if self.classes.len() >= CLASSES_MAX {
            self.forget_oldest();
        }
        let at = self.classes.insert(Class { text: Arc::clone(text), by_node: Vec::new(), used: self.clock });
        self.by_text.insert(Arc::clone(text), at);
        at
    }

    fn forget_oldest(&mut self) {
        let oldest = self.classes.iter().min_by_key(|(_, class)| class.used).map(|(at, _)| at);
        if let Some(class) = oldest.and_then(|at| self.classes.remove(at)) {
            self.by_text.remove(&class.text);
        }
    }

    /// Whether a pod of the class may go to the node, and how much it likes it.
    pub fn look(&mut self, class: usize, at: NodeIx, node: &NodeInfo, ask: &Ask) -> Result<Liking, Reason> {
        let Some(class) = self.classes.get_mut(class) else { return judge(ask, node) };
        let place = at as usize;
        if class.by_node.len() <= place {
            class.by_node.resize(place + 1, None);
        }
        match &class.by_node[place] {
            Some((version, judged)) if *version == node.version => judged.clone(),
            _ => {
                let judged = judge(ask, node);
                class.by_node[place] = Some((node.version, judged.clone()));
                judged
            }
        }
    }
}

/// Whether a pod may go to a node as far as the two alone decide, and how much it likes it.
pub fn judge(ask: &Ask, node: &NodeInfo) -> Result<Liking, Reason> {
    let spec = ask.spec();
    is_open(node, &spec.tolerations)?;
    is_tolerated(node.taints(), &spec.tolerations)?;
    if !ask.selects_node(node.labels(), node.name()) {
        return Err(Reason::NodeAffinity);
    }
    Ok(Liking { affinity: affinity(ask, node), intolerable: intolerable(node.taints(), &spec.tolerations) })
}

fn is_open(node: &NodeInfo, tolerations: &[Toleration]) -> Result<(), Reason> {
    let cordon = Taint { key: CORDON.into(), value: "".into(), effect: "NoSchedule".into() };
    let is_cordoned = node.node.facts.spec.unschedulable && !tolerations.iter().any(|t| t.tolerates(&cordon));
    if is_cordoned { Err(Reason::Cordoned) } else { Ok(()) }
}

fn is_tolerated(taints: &[Taint], tolerations: &[Toleration]) -> Result<(), Reason> {
    match first_untolerated(taints, tolerations, &["NoSchedule", "NoExecute"]) {
        Some(taint) => Err(Reason::Taint { key: taint.key.clone(), value: taint.value.clone() }),
        None => Ok(()),
    }
}

fn affinity(ask: &Ask, node: &NodeInfo) -> i64 {
    let preferred = ask.spec().affinity.as_deref().map(|affinity| &affinity.node_affinity.preferred);
    let terms = preferred.into_iter().flatten();
    // A preferred term without any requirement is about every node, unlike a required one.
    let holds = |term: &&brain::facts::PreferredNodeTerm| {
        let preference = &term.preference;
        (preference.match_expressions.is_empty() && preference.match_fields.is_empty())
            || preference.matches(node.labels(), node.name())
    };
    terms.filter(holds).map(|term| i64::from(term.weight)).sum()
}

fn intolerable(taints: &[Taint], tolerations: &[Toleration]) -> i64 {
    let soft = taints.iter().filter(|taint| &*taint.effect == "PreferNoSchedule");
    soft.filter(|taint| !tolerations.iter().any(|t| t.tolerates(taint))).count() as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ask, node, object};
    use serde_json::{Value, json};

    fn check(spec: Value, change: impl FnOnce(&mut Value), expected: Result<(i64, i64), &str>) {
        let mut tree = node("n1", "a");
        change(&mut tree);
        let judged = judge(&ask("p", spec), &NodeInfo::new(object("core/nodes", &tree), 1));
        let judged = judged.map(|liking| (liking.affinity, liking.intolerable)).map_err(|reason| reason.to_string());
        assert_eq!(judged, expected.map_err(str::to_owned));
    }

    fn tainted(effect: &'static str) -> impl FnOnce(&mut Value) {
        move |node| node["spec"]["taints"] = json!([{"key": "gpu", "value": "yes", "effect": effect}])
    }

    #[test]
    fn each_plugin_says_why() {
        let cordon = |node: &mut Value| node["spec"]["unschedulable"] = json!(true);
        check(json!({}), |_| {}, Ok((0, 0)));
        check(json!({}), cordon, Err("node(s) were unschedulable"));
        check(json!({"tolerations": [{"key": CORDON, "operator": "Exists"}]}), cordon, Ok((0, 0)));
        check(json!({}), tainted("NoSchedule"), Err("node(s) had untolerated taint {gpu: yes}"));
        check(json!({}), tainted("PreferNoSchedule"), Ok((0, 1)));
        check(json!({"tolerations": [{"key": "gpu", "operator": "Exists"}]}), tainted("NoExecute"), Ok((0, 0)));
        let affinity = "node(s) didn't match Pod's node affinity/selector";
        check(json!({"nodeSelector": {"disk": "ssd"}}), |_| {}, Err(affinity));
        check(json!({"nodeSelector": {"topology.kubernetes.io/zone": "a"}}), |_| {}, Ok((0, 0)));
        let preferred = json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 7, "preference": {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}]}},
            {"weight": 9, "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}}]}}});
        check(preferred, |_| {}, Ok((7, 0)));
    }
}
