//! What a Deployment's decision is made of.

use std::collections::BTreeMap;

use brain::facts::{Fact, Pod};
use brain::{Object, Refusal, View};
use meta::int_or_string::scaled_value;
use meta::labels::Selector;
use meta::{ObjectExt, Time};
use serde_json::Value;
use store::Key;

use crate::claim::{Owner, Transfer, claim, selector};
use crate::target::Target;
use crate::{pods, replica_set, template_hash};

/// The label that keeps the pods of different templates apart.
pub(super) const HASH_LABEL: &str = "pod-template-hash";
/// A deadline or limit of this size means none.
const NONE: i64 = i32::MAX as i64;

/// What should be.
#[derive(Clone, Debug)]
pub struct Desired {
    pub(crate) owner: Owner,
    pub(crate) generation: i64,
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) replicas: i64,
    pub(crate) strategy: Strategy,
    pub(crate) selector: Selector,
    /// `spec.selector`, as written.
    pub(crate) selector_tree: Value,
    pub(crate) template: Value,
    pub(crate) min_ready_seconds: i64,
    pub(crate) paused: bool,
    /// In seconds.
    pub(crate) progress_deadline: Option<i64>,
    pub(crate) history_limit: Option<usize>,
}

/// How pods are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// All old ones first.
    Recreate,
    /// A few at a time.
    Rolling {
        /// How many more than wanted there may be.
        max_surge: i64,
        /// How many fewer than wanted may be available.
        max_unavailable: i64,
    },
}

/// What is.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The ReplicaSets it owns, ordered by creation and name.
    pub(crate) sets: Vec<Set>,
    pub(crate) transfers: Vec<Transfer>,
    /// Uids of the ReplicaSets that have pods which have not ended.
    pub(crate) running: Vec<String>,
    /// The name that a new ReplicaSet would get belongs to something else.
    pub(crate) name_taken: bool,
    pub(crate) status: Value,
    pub(crate) refusal: Option<Refusal>,
}

/// One ReplicaSet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Set {
    pub(crate) target: Target,
    pub(crate) created: Time,
    pub(crate) deleting: bool,
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) template: Value,
    pub(crate) replicas: i64,
    pub(crate) min_ready_seconds: i64,
    pub(crate) generation: i64,
    pub(crate) observed_generation: i64,
    pub(crate) status_replicas: i64,
    pub(crate) ready: i64,
    pub(crate) available: i64,
    pub(crate) terminating: Option<i64>,
    /// Its condition `ReplicaFailure`.
    pub(crate) failure: Option<Value>,
}

impl Strategy {
    /// Reads `spec.strategy` for this many replicas. Both limits zero would stand still: then one may be missing.
    fn read(spec: &Value, replicas: i64) -> Strategy {
        if spec.text(&["strategy", "type"]) == "Recreate" {
            return Strategy::Recreate;
        }
        let limit = |name: &str, round_up| match spec.at(&["strategy", "rollingUpdate", name]) {
            Some(value) => scaled_value(value, replicas, round_up).unwrap_or(0).max(0),
            None => 0,
        };
        let (max_surge, max_unavailable) = (limit("maxSurge", true), limit("maxUnavailable", false));
        let max_unavailable = if max_surge == 0 && max_unavailable == 0 { 1 } else { max_unavailable };
        Strategy::Rolling { max_surge, max_unavailable: max_unavailable.min(replicas) }
    }

    /// How many more than wanted there may be.
    pub(crate) fn max_surge(self) -> i64 {
        match self {
            Strategy::Recreate => 0,
            Strategy::Rolling { max_surge, .. } => max_surge,
        }
    }

    /// How many fewer than wanted may be available.
    pub(crate) fn max_unavailable(self) -> i64 {
        match self {
            Strategy::Recreate => 0,
            Strategy::Rolling { max_unavailable, .. } => max_unavailable,
        }
    }
}

impl Desired {
    fn read(object: &Object, tree: &Value) -> Option<Desired> {
        let spec = tree.get("spec")?;
        let replicas = spec.int(&["replicas"]).unwrap_or(1).max(0);
        let annotations = tree.map(&["metadata", "annotations"]).into_iter().flatten();
        Some(Desired {
            owner: Owner {
                api_version: "apps/v1",
                kind: "Deployment",
                target: Target::of(object),
                deleting: object.meta().is_deleting(),
                holds: None,
            },
            generation: tree.generation(),
            annotations: annotations.filter_map(text_entry).collect(),
            replicas,
            strategy: Strategy::read(spec, replicas),
            selector: selector(spec.get("selector")),
            selector_tree: spec.get("selector").cloned().unwrap_or_default(),
            template: spec.get("template").cloned().unwrap_or_default(),
            min_ready_seconds: spec.int(&["minReadySeconds"]).unwrap_or(0),
            paused: spec.flag(&["paused"]),
            progress_deadline: spec.int(&["progressDeadlineSeconds"]).filter(|seconds| *seconds != NONE),
            history_limit: spec
                .int(&["revisionHistoryLimit"])
                .filter(|limit| *limit != NONE)
                .and_then(|limit| usize::try_from(limit).ok()),
        })
    }

    /// The hash and name of the ReplicaSet of the current template.
    pub(crate) fn new_set_name(&self, collisions: i64) -> (String, String) {
        let hash = template_hash::template_hash(&self.template, collisions);
        let name = format!("{}-{hash}", self.owner.target.name);
        (hash, name)
    }
}

impl Set {
    fn read(object: &Object) -> Set {
        let tree = object.tree();
        let number = |path: &[&str]| tree.int(path).unwrap_or(0);
        let annotations = tree.map(&["metadata", "annotations"]).into_iter().flatten();
        Set {
            target: Target::of(object),
            created: object.meta().creation_timestamp,
            deleting: object.meta().is_deleting(),
            annotations: annotations.filter_map(text_entry).collect(),
            template: tree.at(&["spec", "template"]).cloned().unwrap_or_default(),
            replicas: tree.int(&["spec", "replicas"]).unwrap_or(1),
            min_ready_seconds: number(&["spec", "minReadySeconds"]),
            generation: tree.generation(),
            observed_generation: number(&["status", "observedGeneration"]),
            status_replicas: number(&["status", "replicas"]),
            ready: number(&["status", "readyReplicas"]),
            available: number(&["status", "availableReplicas"]),
            terminating: tree.int(&["status", "terminatingReplicas"]),
            failure: meta::condition::find(&tree, "ReplicaFailure").cloned(),
        }
    }

    /// Whether it has this template, the hash label aside.
    pub(crate) fn has_template(&self, template: &Value) -> bool {
        without_hash(&self.template) == without_hash(template)
    }

    /// A number in one of its annotations.
    pub(crate) fn number(&self, annotation: &str) -> Option<i64> {
        self.annotations.get(annotation)?.parse().ok()
    }
}

fn without_hash(template: &Value) -> Value {
    let mut template = template.clone();
    template.remove(&["metadata", "labels", HASH_LABEL]);
    template
}

fn text_entry((key, value): (&String, &Value)) -> Option<(String, String)> {
    Some((key.clone(), value.as_str()?.to_owned()))
}

/// Takes the facts of one Deployment from the world.
pub(super) fn observe(view: &View, key: &Key) -> Option<(Desired, Observed)> {
    let object = view.get_key(key)?;
    let tree = object.tree();
    let desired = Desired::read(&object, &tree)?;
    let claimed = claim(view, replica_set::COLLECTION, &desired.owner, &desired.selector, |_| true);
    let mut sets: Vec<Set> = claimed.mine.iter().map(Set::read).collect();
    sets.sort_by(|a, b| (a.created, &a.target.name).cmp(&(b.created, &b.target.name)));
    let status = tree.get("status").cloned().unwrap_or_default();
    let (_, name) = desired.new_set_name(status.int(&["collisionCount"]).unwrap_or(0));
    let observed = Observed {
        running: match desired.strategy {
            Strategy::Recreate => {
                sets.iter().filter(|set| has_running(view, set)).map(|s| s.target.uid.clone()).collect()
            }
            Strategy::Rolling { .. } => Vec::new(),
        },
        name_taken: view.get(replica_set::COLLECTION, &desired.owner.target.namespace, &name).is_some(),
        sets,
        transfers: claimed.transfers,
        status,
        refusal: None,
    };
    Some((desired, observed))
}

fn has_running(view: &View, set: &Set) -> bool {
    let pods = view.dependents(&set.target.uid).into_iter().filter(|child| &*child.key.collection == pods::COLLECTION);
    pods.into_iter().any(|pod| !<Pod as Fact>::of(&pod).is_finished())
}
