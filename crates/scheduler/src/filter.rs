//! Whether a pod may go to a node: what depends on the node alone comes from [`crate::statics`]; here is what
//! depends on the pods that are there.

mod affinity;
mod fit;
mod spread;

use std::collections::BTreeSet;

use crate::ask::Ask;
use crate::cache::Cache;
use crate::node_info::NodeInfo;
use crate::reason::{Plugin, Reason};
use crate::statics::Liking;
use crate::topology::NodeIx;
use crate::volumes::{Need, meet};

pub use affinity::term_tally;
pub use fit::fits_alone;
pub use spread::tally as spread_tally;

/// A pod's questions, answered for the whole cluster as it is now (upstream's PreFilter).
pub struct Prepared {
    /// The class in the cache's statics; `None` for pods that look at named nodes only.
    class: Option<usize>,
    spread: Vec<spread::Hard>,
    near: affinity::Near,
    needs: Vec<Need>,
    /// Claims that only one pod may use, `namespace/name`.
    exclusive: Vec<Box<str>>,
}

/// A pod that can go nowhere, whatever the nodes.
pub struct Hopeless {
    /// Upstream's sentence.
    pub message: String,
    /// Who says so.
    pub plugin: Plugin,
}

impl Prepared {
    /// Answers the pod's questions.
    pub fn new(cache: &mut Cache, ask: &Ask) -> Result<Prepared, Hopeless> {
        let hopeless = |message| Hopeless { message, plugin: Plugin::VolumeBinding };
        let needs = ask.wants.claims.iter().map(|c| cache.volumes.need(ask.namespace(), &c.name, c.ephemeral));
        let needs = needs.collect::<Result<Vec<_>, _>>().map_err(hopeless)?;
        let is_exclusive = |key: &str| cache.volumes.claim(key).is_some_and(|claim| claim.facts.is_for_one_pod());
        let exclusive = crate::cache::claim_keys(ask).filter(|key| is_exclusive(key)).collect();
        let class = ask.wants.named_nodes.is_none().then(|| cache.statics.class(&ask.wants.class));
        Ok(Prepared {
            class,
            spread: spread::prepare(cache, ask),
            near: affinity::prepare(cache, ask),
            needs,
            exclusive,
        })
    }

    /// What has to be done about volumes before the pod can start on a node that passed.
    pub fn volumes_on(&self, node: &NodeInfo) -> Vec<crate::volumes::Prepare> {
        meet(&self.needs, node.labels(), node.name()).unwrap_or_default()
    }

    /// Whether any volume is to be waited for wherever the pod goes.
    pub fn has_needs(&self) -> bool {
        !self.needs.is_empty()
    }
}

/// Whether the pod may go to the node; `None` when not, and `reasons` then has why (as upstream, those of the first
/// plugin that objects).
pub fn filter(
    cache: &mut Cache,
    prepared: &Prepared,
    ask: &Ask,
    at: NodeIx,
    reasons: &mut Vec<Reason>,
) -> Option<Liking> {
    reasons.clear();
    let liking = cache.liking(prepared.class, at, ask).map_err(|reason| reasons.push(reason)).ok()?;
    let node = cache.node(at)?;
    reasons.extend(ports(ask, node));
    if reasons.is_empty() {
        fit::filter(ask, node, reasons);
    }
    if reasons.is_empty() {
        let objection = volumes(cache, prepared, node)
            .or_else(|| spread::filter(cache, &prepared.spread, at))
            .or_else(|| affinity::filter(cache, &prepared.near, at));
        reasons.extend(objection);
    }
    reasons.is_empty().then_some(liking)
}

/// The same, also with the pods added that room is being made for there and that are at least as important: a node
/// that is only free because they have not arrived yet is not free (and one that is only good because they will
/// arrive is not good yet).
pub fn filter_with_nominated(
    cache: &mut Cache,
    prepared: &Prepared,
    ask: &Ask,
    at: NodeIx,
    reasons: &mut Vec<Reason>,
) -> Option<Liking> {
    let coming = nominated(cache, ask, at);
    if !coming.is_empty() {
        coming.iter().for_each(|pod| cache.attach(pod, at));
        let again = Prepared::new(cache, ask);
        let passed = again.ok().and_then(|prepared| filter(cache, &prepared, ask, at, reasons));
        coming.iter().for_each(|pod| cache.detach(pod, at));
        passed?;
    }
    filter(cache, prepared, ask, at, reasons)
}

/// The pods that room is being made for on a node, that this one does not go before.
fn nominated(cache: &Cache, ask: &Ask, at: NodeIx) -> Vec<Ask> {
    let Some(pods) = cache.node(at).and_then(|node| cache.nominated_on(node.name())) else { return Vec::new() };
    let counts =
        |pod: &&Ask| pod.priority() >= ask.priority() && pod.key() != ask.key() && cache.pod(pod.key()).is_none();
    pods.values().filter(counts).cloned().collect()
}

fn ports(ask: &Ask, node: &NodeInfo) -> Option<Reason> {
    let is_taken = |port: &crate::ask::Port| node.ports.iter().any(|taken| taken.conflicts(port));
    ask.wants.ports.iter().any(is_taken).then_some(Reason::Ports)
}

fn volumes(cache: &Cache, prepared: &Prepared, node: &NodeInfo) -> Option<Reason> {
    let is_used =
        |claim: &str| cache.users_of(claim).any(|pod| node.pods.contains(pod) || is_elsewhere(cache, pod, node));
    if prepared.exclusive.iter().any(|claim| is_used(claim)) {
        return Some(Reason::ReadWriteOncePod);
    }
    meet(&prepared.needs, node.labels(), node.name()).err()
}

/// Whether a placed pod is on another node.
fn is_elsewhere(cache: &Cache, pod: &store::Key, node: &NodeInfo) -> bool {
    cache.pod(pod).is_some_and(|placed| *placed.node != *node.name())
}

/// The nodes to look at when the affinity names them.
pub fn named_nodes(cache: &Cache, names: &BTreeSet<Box<str>>) -> Vec<NodeIx> {
    names.iter().filter_map(|name| cache.find_node(name)).collect()
}
