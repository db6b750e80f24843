//! What a StatefulSet's decision is made of.

use std::collections::{BTreeMap, BTreeSet};

use brain::facts::{Pod, Seen};
use brain::{Object, Refusal, View};
use meta::int_or_string::scaled_value;
use meta::labels::Selector;
use meta::{ObjectExt, Time};
use serde_json::Value;
use store::Key;

use super::CLAIMS_COLLECTION;
use crate::claim::{Owner, Transfer, claim, selector};
use crate::pods;
use crate::revisions::{self, History};
use crate::target::Target;

/// The label of a revision that holds its hash.
const REVISION_HASH_LABEL: &str = "controller.kubernetes.io/hash";
/// Upstream's default where the API server has not filled it in.
const HISTORY_DEFAULT: i64 = 10;

/// What should be.
#[derive(Clone, Debug)]
pub struct Desired {
    pub(crate) owner: Owner,
    pub(crate) generation: i64,
    pub(crate) annotations: Value,
    pub(crate) replicas: i64,
    /// The first ordinal.
    pub(crate) start: i64,
    pub(crate) selector: Selector,
    /// `spec.selector.matchLabels`: claims get them.
    pub(crate) match_labels: Value,
    pub(crate) template: Value,
    pub(crate) claim_templates: Vec<Value>,
    pub(crate) service_name: String,
    /// One pod at a time, in order.
    pub(crate) monotonic: bool,
    pub(crate) update: Update,
    pub(crate) min_ready_seconds: i64,
    pub(crate) history_limit: Option<usize>,
    pub(crate) retention: Retention,
}

/// How pods of an older revision are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// When a user deletes them.
    OnDelete,
    /// From the highest ordinal down.
    Rolling {
        /// Ordinals (from the start) below it keep the current revision; `None` when not said at all.
        partition: Option<i64>,
        /// How many pods may be unavailable for the update's sake.
        max_unavailable: i64,
    },
}

/// When claims go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// With the set.
    pub(crate) delete_with_set: bool,
    /// With a pod that scaling down takes.
    pub(crate) delete_with_pod: bool,
}

/// What is.
#[derive(Clone)]
pub struct Observed {
    /// Its pods.
    pub(crate) pods: Vec<Seen<Pod>>,
    /// Pods of others whose names look like its own.
    pub(crate) foreign: BTreeSet<String>,
    pub(crate) transfers: Vec<Transfer>,
    pub(crate) history: History,
    /// Claims whose names it uses.
    pub(crate) claims: BTreeMap<String, ClaimSeen>,
    pub(crate) status: Value,
    pub(crate) refusal: Option<Refusal>,
}

/// One claim.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ClaimSeen {
    pub target: Target,
    pub owners: Vec<Value>,
    pub deleting: bool,
}

impl Desired {
    fn read(object: &Object, tree: &Value) -> Option<Desired> {
        let spec = tree.get("spec")?;
        let replicas = spec.int(&["replicas"]).unwrap_or(1).max(0);
        let delete = |when: &str| spec.text(&["persistentVolumeClaimRetentionPolicy", when]) == "Delete";
        Some(Desired {
            owner: Owner {
                api_version: "apps/v1",
                kind: "StatefulSet",
                target: Target::of(object),
                deleting: object.meta().is_deleting(),
                holds: None,
            },
            generation: tree.generation(),
            annotations: tree.at(&["metadata", "annotations"]).cloned().unwrap_or_default(),
            replicas,
            start: spec.int(&["ordinals", "start"]).unwrap_or(0).max(0),
            selector: selector(spec.get("selector")),
            match_labels: spec.at(&["selector", "matchLabels"]).cloned().unwrap_or_default(),
            template: spec.get("template").cloned().unwrap_or_default(),
            claim_templates: spec.items(&["volumeClaimTemplates"]).to_vec(),
            service_name: spec.text(&["serviceName"]).to_owned(),
            monotonic: spec.text(&["podManagementPolicy"]) != "Parallel",
            update: Update::read(spec, replicas),
            min_ready_seconds: spec.int(&["minReadySeconds"]).unwrap_or(0),
            history_limit: usize::try_from(spec.int(&["revisionHistoryLimit"]).unwrap_or(HISTORY_DEFAULT)).ok(),
            retention: Retention { delete_with_set: delete("whenDeleted"), delete_with_pod: delete("whenScaled") },
        })
    }

    /// The name of the pod with this ordinal.
    pub(crate) fn pod_name(&self, ordinal: i64) -> String {
        format!("{}-{ordinal}", self.owner.target.name)
    }

    /// The ordinal in a pod's name, if the name is the set's own.
    pub(crate) fn ordinal(&self, name: &str) -> Option<i64> {
        let ordinal: i64 = name.strip_prefix(&*self.owner.target.name)?.strip_prefix('-')?.parse().ok()?;
        // "web-01" and "web-+1" are nobody's.
        (ordinal >= 0 && self.pod_name(ordinal) == name).then_some(ordinal)
    }

    /// Whether a pod with this ordinal is wanted.
    pub(crate) fn wants(&self, ordinal: i64) -> bool {
        ordinal >= self.start && ordinal - self.start < self.replicas
    }

    /// How many pods may be unavailable for an update's sake.
    pub(crate) fn max_unavailable(&self) -> i64 {
        match self.update {
            Update::OnDelete => 1,
            Update::Rolling { max_unavailable, .. } => max_unavailable,
        }
    }
}

impl Update {
    fn read(spec: &Value, replicas: i64) -> Update {
        if spec.text(&["updateStrategy", "type"]) == "OnDelete" {
            return Update::OnDelete;
        }
        let rolling = spec.at(&["updateStrategy", "rollingUpdate"]);
        let most = rolling.and_then(|rolling| rolling.get("maxUnavailable"));
        let most = most.and_then(|value| scaled_value(value, replicas, true).ok()).unwrap_or(1);
        let partition = rolling.map(|rolling| rolling.int(&["partition"]).unwrap_or(0));
        Update::Rolling { partition, max_unavailable: most.max(1) }
    }
}

/// Takes the facts of one StatefulSet from the world.
pub(super) fn observe(view: &View, key: &Key) -> Option<(Desired, Observed)> {
    let object = view.get_key(key)?;
    let tree = object.tree();
    let desired = Desired::read(&object, &tree)?;
    let status = tree.get("status").cloned().unwrap_or_default();
    let collisions = status.int(&["collisionCount"]).unwrap_or(0);
    let is_member = |pod: &Object| desired.ordinal(&pod.meta().name).is_some();
    let claimed = claim(view, pods::COLLECTION, &desired.owner, &desired.selector, is_member);
    let pods: Vec<Seen<Pod>> = claimed.mine.into_iter().map(Seen::from).collect();
    let mut foreign = pods::taken_names(view, &desired.owner);
    for pod in &pods {
        foreign.remove(pod.name());
    }
    let (_, new_name) = revisions::name(&desired.owner, &revisions::data(&desired.template), collisions);
    let history = History::observe(view, &desired.owner, &desired.selector, REVISION_HASH_LABEL, &new_name);
    let claims = claims(view, &desired);
    Some((desired, Observed { pods, foreign, transfers: claimed.transfers, history, claims, status, refusal: None }))
}

/// The claims that are there for any ordinal.
fn claims(view: &View, desired: &Desired) -> BTreeMap<String, ClaimSeen> {
    let mut claims = BTreeMap::new();
    let target = &desired.owner.target;
    for template in &desired.claim_templates {
        let prefix = format!("{}/{}-{}-", target.namespace, template.name(), target.name);
        for (item, _) in view.snapshot().range(CLAIMS_COLLECTION, &prefix, "") {
            let Some(object) = view.get_key(&Key::new(CLAIMS_COLLECTION, item.clone())) else { continue };
            let seen = ClaimSeen {
                target: Target::of(&object),
                owners: if object.meta().owner_references.is_empty() {
                    Vec::new()
                } else {
                    object.tree().owner_references().to_vec()
                },
                deleting: object.meta().is_deleting(),
            };
            claims.insert(seen.target.name.clone(), seen);
        }
    }
    claims
}

/// How one pod does.
pub(super) fn is_running_and_ready(pod: &Seen<Pod>) -> bool {
    &*pod.facts.status.phase == "Running" && pod.facts.is_ready()
}

/// Whether it has run and been ready for long enough.
pub(super) fn is_available(pod: &Seen<Pod>, min_ready_seconds: i64, now: Time) -> bool {
    is_running_and_ready(pod) && pod.facts.is_available(min_ready_seconds, now)
}
