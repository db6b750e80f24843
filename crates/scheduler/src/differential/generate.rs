//! Random nodes and pods from few words, so that they meet.

use brain::Object;
use serde_json::{Value, json};

use crate::ask::Ask;
use crate::testing::object;

/// Nodes at most.
pub const NODES: usize = 6;
/// Pods of one cluster: those that are placed and those that ask come from the same ones.
pub const PODS: usize = 10;

/// A sequence of numbers that follows from a seed.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// A number below `bound` (not zero).
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn pick<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }
}

/// Three namespaces, two of one team.
pub fn namespaces() -> Vec<Object> {
    let namespace = |name: &str, team: &str| {
        object("core/namespaces", &json!({"metadata": {"name": name, "labels": {"team": team}}}))
    };
    vec![namespace("one", "red"), namespace("two", "red"), namespace("three", "blue")]
}

pub fn node_name(at: usize) -> String {
    format!("n{at}")
}

pub fn node(dice: &mut Dice, at: usize) -> Object {
    let name = node_name(at);
    let mut labels = json!({"kubernetes.io/hostname": name});
    if !dice.one_in(6) {
        labels["zone"] = json!(dice.pick(&["a", "b", "c"]));
    }
    if dice.one_in(2) {
        labels["disk"] = json!(dice.pick(&["ssd", "hdd"]));
    }
    let mut spec = json!({});
    if dice.one_in(8) {
        spec["unschedulable"] = json!(true);
    }
    if dice.one_in(4) {
        let effect = dice.pick(&["NoSchedule", "NoExecute", "PreferNoSchedule"]);
        spec["taints"] = json!([{"key": dice.pick(&["gpu", "old"]), "value": "yes", "effect": effect}]);
    }
    let allocatable = json!({"cpu": (1 + dice.below(4)).to_string(), "memory": "4Gi",
        "pods": (1 + dice.below(5)).to_string(), "example.com/gpu": dice.below(2).to_string()});
    let tree = json!({"metadata": {"name": name, "uid": name, "labels": labels}, "spec": spec,
        "status": {"allocatable": allocatable}});
    object("core/nodes", &tree)
}

pub fn pod(dice: &mut Dice, at: usize) -> Ask {
    let name = format!("p{at}-{}", dice.below(1_000_000));
    let mut requests = json!({});
    if !dice.one_in(4) {
        requests["cpu"] = json!(format!("{}m", 500 * (1 + dice.below(4))));
    }
    if dice.one_in(6) {
        requests["memory"] = json!(format!("{}Gi", 1 + dice.below(4)));
    }
    if dice.one_in(12) {
        requests["example.com/gpu"] = json!("1");
    }
    let mut container = json!({"name": "c", "image": "web", "resources": {"requests": requests}});
    if dice.one_in(6) {
        let port = json!({"containerPort": 80, "hostPort": 80 + dice.below(2), "hostIP": dice.pick(&["", "10.0.0.1", "10.0.0.2"])});
        container["ports"] = json!([port]);
    }
    let mut spec = json!({"containers": [container], "priority": dice.below(4), "schedulerName": "default-scheduler"});
    wishes(dice, &mut spec);
    let mut metadata = json!({"name": name, "uid": name, "namespace": dice.pick(&["one", "two", "three"]),
        "labels": {"app": dice.pick(&["web", "db"]), "tier": dice.pick(&["1", "2"])}});
    if dice.one_in(8) {
        metadata["deletionTimestamp"] = json!("2026-11-30T00:00:00Z");
    }
    if dice.one_in(2) {
        metadata["ownerReferences"] = json!([{"uid": dice.pick(&["rs1", "rs2"]), "name": "rs", "kind": "ReplicaSet",
            "apiVersion": "apps/v1", "controller": true}]);
    }
    let status = json!({"phase": "Pending", "startTime": format!("2026-11-30T00:00:0{}Z", dice.below(5))});
    Ask::of(object("core/pods", &json!({"metadata": metadata, "spec": spec, "status": status})))
}

fn wishes(dice: &mut Dice, spec: &mut Value) {
    if dice.one_in(8) {
        spec["nodeSelector"] = json!({"disk": dice.pick(&["ssd", "hdd"])});
    }
    if dice.one_in(3) {
        spec["tolerations"] = json!([{"key": dice.pick(&["gpu", "old"]), "operator": "Exists"}]);
    }
    if dice.one_in(12) {
        spec["preemptionPolicy"] = json!("Never");
    }
    if dice.one_in(12) {
        let names = [node_name(dice.below(NODES)), node_name(dice.below(NODES))];
        let term = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": names}]});
        spec["affinity"]["nodeAffinity"] =
            json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}});
    }
    for (field, odds) in [("podAffinity", 4), ("podAntiAffinity", 4)] {
        if dice.one_in(odds) {
            let terms: Vec<Value> = (0..1 + dice.below(2)).map(|_| term(dice)).collect();
            spec["affinity"][field]["requiredDuringSchedulingIgnoredDuringExecution"] = json!(terms);
        }
        if dice.one_in(odds) {
            let preferred = json!([{"weight": 1 + dice.below(100), "podAffinityTerm": term(dice)}]);
            spec["affinity"][field]["preferredDuringSchedulingIgnoredDuringExecution"] = preferred;
        }
    }
    if dice.one_in(2) {
        let constraints: Vec<Value> = (0..1 + dice.below(2)).map(|_| constraint(dice)).collect();
        spec["topologySpreadConstraints"] = json!(constraints);
    }
}

fn selector(dice: &mut Dice) -> Value {
    match dice.below(4) {
        0 => json!({}),
        1 => json!({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["1"]}]}),
        _ => json!({"matchLabels": {"app": dice.pick(&["web", "db"])}}),
    }
}

fn topology(dice: &mut Dice) -> &'static str {
    dice.pick(&["zone", "kubernetes.io/hostname", "disk"])
}

fn term(dice: &mut Dice) -> Value {
    let mut term = json!({"labelSelector": selector(dice), "topologyKey": topology(dice)});
    match dice.below(6) {
        0 => term["namespaces"] = json!([dice.pick(&["one", "two"])]),
        1 => term["namespaceSelector"] = json!({"matchLabels": {"team": "red"}}),
        2 => term["namespaceSelector"] = json!({}),
        3 => term["matchLabelKeys"] = json!(["tier"]),
        _ => {}
    }
    term
}

fn constraint(dice: &mut Dice) -> Value {
    let hardness = dice.pick(&["DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"]);
    let mut constraint = json!({"maxSkew": 1 + dice.below(2), "topologyKey": topology(dice),
        "whenUnsatisfiable": hardness, "labelSelector": selector(dice)});
    match dice.below(6) {
        0 => constraint["nodeAffinityPolicy"] = json!("Ignore"),
        1 => constraint["nodeTaintsPolicy"] = json!("Honor"),
        2 => constraint["matchLabelKeys"] = json!(["app"]),
        3 if hardness == "DoNotSchedule" => constraint["minDomains"] = json!(1 + dice.below(4)),
        _ => {}
    }
    constraint
}
