//! What a DaemonSet's decision is made of.

use std::collections::{BTreeMap, BTreeSet};

use brain::facts::{Node, Pod, PodSpec, Seen};
use brain::{Object, Refusal, View};
use meta::ObjectExt;
use meta::labels::Selector;
use serde_json::Value;
use store::Key;

use super::nodes::{Verdict, verdict};
use super::{NODES_COLLECTION, node_of};
use crate::claim::{Owner, Transfer, claim, selector};
use crate::pods;
use crate::revisions::{self, History, POD_LABEL};
use crate::target::Target;

/// Upstream's default where the API server has not filled it in.
const HISTORY_DEFAULT: i64 = 10;
/// Counts the changes of the template; pods carry it as a label.
const GENERATION: &str = "deprecated.daemonset.template.generation";

/// What should be.
#[derive(Clone, Debug)]
pub struct Desired {
    pub(crate) owner: Owner,
    pub(crate) generation: i64,
    pub(crate) annotations: Value,
    pub(crate) template_generation: Option<String>,
    pub(crate) selector: Selector,
    pub(crate) template: Value,
    pub(crate) host_network: bool,
    pub(crate) min_ready_seconds: i64,
    pub(crate) history_limit: usize,
    pub(crate) strategy: Strategy,
}

/// How pods of an older template are replaced. The limits are counts or percentages of the nodes, as written.
#[derive(Clone, Debug, PartialEq)]
pub enum Strategy {
    /// When a user deletes them.
    OnDelete,
    /// A few nodes at a time.
    Rolling {
        /// On how many nodes the old pod may still run beside the new one.
        max_surge: Value,
        /// On how many nodes no pod may be available.
        max_unavailable: Value,
    },
}

/// What is.
#[derive(Clone)]
pub struct Observed {
    /// All nodes, ordered by name.
    pub(crate) nodes: Vec<NodeSeen>,
    /// Its pods.
    pub(crate) pods: Vec<Seen<Pod>>,
    pub(crate) transfers: Vec<Transfer>,
    pub(crate) history: History,
    /// Names that a new pod must not have.
    pub(crate) taken: BTreeSet<String>,
    pub(crate) status: Value,
    pub(crate) refusal: Option<Refusal>,
}

/// One node and what it means for the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeSeen {
    pub name: String,
    pub verdict: Verdict,
}

impl Desired {
    fn read(object: &Object, tree: &Value) -> Option<Desired> {
        let spec = tree.get("spec")?;
        let limit = |name: &str, default: i64| {
            spec.at(&["updateStrategy", "rollingUpdate", name]).cloned().unwrap_or_else(|| default.into())
        };
        let strategy = match spec.text(&["updateStrategy", "type"]) {
            "OnDelete" => Strategy::OnDelete,
            _ => Strategy::Rolling { max_surge: limit("maxSurge", 0), max_unavailable: limit("maxUnavailable", 1) },
        };
        Some(Desired {
            owner: Owner {
                api_version: "apps/v1",
                kind: "DaemonSet",
                target: Target::of(object),
                deleting: object.meta().is_deleting(),
                holds: None,
            },
            generation: tree.generation(),
            annotations: tree.at(&["metadata", "annotations"]).cloned().unwrap_or_default(),
            template_generation: tree.annotation(GENERATION).map(str::to_owned),
            selector: selector(spec.get("selector")),
            template: spec.get("template").cloned().unwrap_or_default(),
            host_network: spec.flag(&["template", "spec", "hostNetwork"]),
            min_ready_seconds: spec.int(&["minReadySeconds"]).unwrap_or(0),
            history_limit: usize::try_from(spec.int(&["revisionHistoryLimit"]).unwrap_or(HISTORY_DEFAULT)).unwrap_or(0),
            strategy,
        })
    }
}

impl Observed {
    /// Its pods by node; ones of which the node cannot be told are left out.
    pub(super) fn by_node(&self) -> BTreeMap<&str, Vec<&Seen<Pod>>> {
        let mut by_node: BTreeMap<&str, Vec<&Seen<Pod>>> = BTreeMap::new();
        for pod in &self.pods {
            if let Some(node) = node_of(&pod.facts) {
                by_node.entry(node).or_default().push(pod);
            }
        }
        by_node
    }
}

/// The pod spec in a stored DaemonSet's template: every change of a node asks for it.
pub(super) fn read_template_spec(bytes: &[u8]) -> PodSpec {
    template_spec(&serde_json::from_slice(bytes).unwrap_or_default())
}

/// The pod spec in a DaemonSet's template.
fn template_spec(tree: &Value) -> PodSpec {
    let spec = tree.at(&["spec", "template", "spec"]).cloned().unwrap_or_default();
    serde_json::from_value(spec).unwrap_or_default()
}

/// Takes the facts of one DaemonSet from the world.
pub(super) fn observe(view: &View, key: &Key) -> Option<(Desired, Observed)> {
    let object = view.get_key(key)?;
    let tree = object.tree();
    let desired = Desired::read(&object, &tree)?;
    let status = tree.get("status").cloned().unwrap_or_default();
    let collisions = status.int(&["collisionCount"]).unwrap_or(0);
    let spec = object.project(read_template_spec);
    let node = |object: Object| {
        let verdict = verdict(&spec, object.meta(), &Node::of(&object));
        NodeSeen { name: object.meta().name.to_string(), verdict }
    };
    let claimed = claim(view, pods::COLLECTION, &desired.owner, &desired.selector, |_| true);
    let (_, new_name) = revisions::name(&desired.owner, &revisions::data(&desired.template), collisions);
    let observed = Observed {
        nodes: view.list(NODES_COLLECTION, "").into_iter().map(node).collect(),
        pods: claimed.mine.into_iter().map(Seen::from).collect(),
        transfers: claimed.transfers,
        history: History::observe(view, &desired.owner, &desired.selector, POD_LABEL, &new_name),
        taken: pods::taken_names(view, &desired.owner),
        status,
        refusal: None,
    };
    Some((desired, observed))
}
