//! What the scheduler knows of the cluster, kept up to date one event at a time.
//!
//! Every index follows from the nodes and from which pod is where; a test rebuilds them and compares. A pod is
//! placed when it is bound, or assumed to be because the request is under way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use brain::facts::Pod;
use brain::{Object, View};
use store::{Change, Event, Key};

use crate::ask::{Ask, Namespaces, PODS_COLLECTION, Scope};
use crate::budgets::{BUDGETS_COLLECTION, Budgets};
use crate::counts::Counts;
use crate::held::Held;
use crate::images::Images;
use crate::node_info::NodeInfo;
use crate::owners::Owners;
use crate::reason::Reason;
use crate::slab::Slab;
use crate::statics::{self, Liking, Statics};
use crate::tally::{Include, Select, Tallies};
use crate::topology::{NodeIx, Topologies, TopologyIx};
use crate::volumes::Volumes;

/// The store's collection of nodes.
pub const NODES_COLLECTION: &str = "core/nodes";
const NAMESPACES_COLLECTION: &str = "core/namespaces";

/// What changed, as far as it can help a pod that waits.
#[derive(Clone)]
pub enum Happened {
    /// A node came or changed.
    Node {
        /// Which.
        node: NodeIx,
        /// It is new.
        is_new: bool,
        /// Its labels changed.
        labels: bool,
        /// Its taints or its cordon changed.
        taints: bool,
        /// It has more room.
        room: bool,
    },
    /// A node went.
    NodeGone,
    /// A pod was placed, or changed where it is.
    PodPlaced(Ask),
    /// A pod left its node.
    PodLeft {
        /// The pod.
        pod: Ask,
        /// Where it was; `None` when that node is not there.
        node: Option<NodeIx>,
    },
    /// Claims, volumes or classes changed; the claim's key if it was a claim.
    Volumes(Option<Arc<str>>),
    /// A namespace's labels changed.
    Namespace,
}

/// A pod with its place.
pub struct Placed {
    /// The pod.
    pub ask: Ask,
    /// The node's name.
    pub node: Box<str>,
    /// The node, when it is there.
    pub at: Option<NodeIx>,
    /// Whether the bind is still under way.
    pub assumed: bool,
}

/// The cluster.
#[derive(Default)]
pub struct Cache {
    nodes: Slab<NodeInfo>,
    by_name: BTreeMap<Box<str>, NodeIx>,
    pods: BTreeMap<Key, Placed>,
    /// Pods on nodes that are not there, by node.
    homeless: BTreeMap<Box<str>, BTreeSet<Key>>,
    pub(crate) topologies: Topologies,
    tallies: Tallies,
    pub(crate) held: Held,
    pub(crate) owners: Owners,
    pub(crate) images: Images,
    pub(crate) statics: Statics,
    pub(crate) namespaces: Namespaces,
    /// Claims, volumes, classes.
    pub volumes: Volumes,
    pub(crate) budgets: Budgets,
    claim_users: BTreeMap<Box<str>, BTreeSet<Key>>,
    nominated: BTreeMap<Box<str>, BTreeMap<Key, Ask>>,
    nominations: BTreeMap<Key, Box<str>>,
    versions: u64,
    /// Where the next search for nodes begins.
    pub(crate) next_start: usize,
}

impl Cache {
    /// An empty cluster.
    pub fn new() -> Cache {
        Cache::default()
    }

    /// The cluster of a view, worked out from scratch.
    pub fn of(view: &View) -> Cache {
        let mut cache = Cache::new();
        for collection in [
            NAMESPACES_COLLECTION,
            "storage.k8s.io/storageclasses",
            "core/persistentvolumes",
            "core/persistentvolumeclaims",
            BUDGETS_COLLECTION,
            NODES_COLLECTION,
            PODS_COLLECTION,
        ] {
            for object in view.list(collection, "") {
                cache.put(object);
            }
        }
        cache
    }

    /// Takes in a change, and says what it may help.
    pub fn apply(&mut self, event: &Event) -> Vec<Happened> {
        if event.change == Change::Deleted {
            self.remove(&event.key)
        } else {
            self.put(Object::new(event.key.clone(), Arc::clone(&event.entry)))
        }
    }

    pub(crate) fn put(&mut self, object: Object) -> Vec<Happened> {
        match &*object.key.collection {
            PODS_COLLECTION => self.put_pod(object),
            NODES_COLLECTION => self.put_node(object),
            NAMESPACES_COLLECTION => self.put_namespace(object),
            BUDGETS_COLLECTION => {
                self.budgets.put(Arc::clone(&object.key.item), Some(object));
                Vec::new()
            }
            _ => {
                let item = Arc::clone(&object.key.item);
                let collection = Arc::clone(&object.key.collection);
                self.put_volumes(&collection, &item, Some(object))
            }
        }
    }

    pub(crate) fn remove(&mut self, key: &Key) -> Vec<Happened> {
        match &*key.collection {
            PODS_COLLECTION => self.unplace(key),
            NODES_COLLECTION => self.remove_node(&key.item),
            NAMESPACES_COLLECTION => {
                self.namespaces.remove(&*key.item);
                self.tallies.forget_open();
                Vec::new()
            }
            BUDGETS_COLLECTION => {
                self.budgets.put(Arc::clone(&key.item), None);
                Vec::new()
            }
            collection => self.put_volumes(collection, &key.item, None),
        }
    }

    fn put_volumes(&mut self, collection: &str, item: &Arc<str>, object: Option<Object>) -> Vec<Happened> {
        if !self.volumes.put(collection, item, object) {
            return Vec::new();
        }
        let claim = (collection == "core/persistentvolumeclaims").then(|| Arc::clone(item));
        vec![Happened::Volumes(claim)]
    }

    fn put_namespace(&mut self, object: Object) -> Vec<Happened> {
        let labels = object.meta().labels.clone();
        if self.namespaces.get(&*object.meta().name) == Some(&labels) {
            return Vec::new();
        }
        self.namespaces.insert(object.meta().name.clone(), labels);
        self.tallies.forget_open();
        vec![Happened::Namespace]
    }

    // Pods.

    fn put_pod(&mut self, object: Object) -> Vec<Happened> {
        let facts = Pod::of(&object);
        if !facts.is_bound() {
            // Assumed ones stay: the bind is under way.
            return match self.pods.get(&object.key) {
                Some(placed) if placed.assumed && *placed.ask.pod.uid() == *object.meta().uid => Vec::new(),
                Some(_) => self.unplace(&object.key),
                None => Vec::new(),
            };
        }
        if facts.is_finished() {
            return self.unplace(&object.key);
        }
        let node = facts.spec.node_name.clone();
        match self.pods.get_mut(&object.key) {
            Some(placed) if placed.node == node && is_counted_alike(&placed.ask, &object) => {
                placed.ask = placed.ask.with_pod(object);
                placed.assumed = false;
                Vec::new()
            }
            _ => self.replace_pod(object, node),
        }
    }

    fn replace_pod(&mut self, object: Object, node: Box<str>) -> Vec<Happened> {
        let mut happened = self.unplace(&object.key);
        let ask = Ask::of(object);
        happened.push(Happened::PodPlaced(ask.clone()));
        self.place(ask, node, false);
        happened
    }

    /// A pod is being bound to a node.
    pub fn assume(&mut self, ask: Ask, node: &str) {
        self.unplace(&ask.key().clone());
        self.place(ask, node.into(), true);
    }

    /// A bind that was under way came to nothing; what was really bound stays.
    pub fn forget(&mut self, key: &Key) -> Vec<Happened> {
        if self.pods.get(key).is_some_and(|placed| placed.assumed) { self.unplace(key) } else { Vec::new() }
    }

    fn place(&mut self, ask: Ask, node: Box<str>, assumed: bool) {
        let key = ask.key().clone();
        let at = self.by_name.get(&node).copied();
        match at {
            Some(at) => self.attach(&ask, at),
            None => {
                self.homeless.entry(node.clone()).or_default().insert(key.clone());
            }
        }
        for claim in claim_keys(&ask) {
            self.claim_users.entry(claim).or_default().insert(key.clone());
        }
        self.pods.insert(key, Placed { ask, node, at, assumed });
    }

    fn unplace(&mut self, key: &Key) -> Vec<Happened> {
        let Some(placed) = self.pods.remove(key) else { return Vec::new() };
        match placed.at {
            Some(at) => self.detach(&placed.ask, at),
            None => take_from(&mut self.homeless, &placed.node, key),
        }
        for claim in claim_keys(&placed.ask) {
            take_from(&mut self.claim_users, &claim, key);
        }
        vec![Happened::PodLeft { pod: placed.ask, node: placed.at }]
    }

    /// Counts a pod on a node. Together with [`Cache::detach`] also for trying things out: the two cancel out.
    pub(crate) fn attach(&mut self, ask: &Ask, at: NodeIx) {
        if let Some(node) = self.nodes.get_mut(at as usize) {
            node.add(ask);
        }
        self.count(ask, at, 1);
    }

    /// Takes a pod off a node.
    pub(crate) fn detach(&mut self, ask: &Ask, at: NodeIx) {
        if let Some(node) = self.nodes.get_mut(at as usize) {
            node.remove(ask);
        }
        self.count(ask, at, -1);
    }

    fn count(&mut self, ask: &Ask, at: NodeIx, by: i64) {
        self.tallies.count(ask, at, by, &self.topologies, &self.namespaces);
        let zone = self.topology(crate::owners::ZONE);
        self.owners.count(ask, at, by, zone, &self.topologies);
        if ask.wants.has_terms() {
            let wants = &ask.wants;
            let preferred = wants.preferred.iter().map(|(_, term)| term);
            for term in wants.affinity.iter().chain(&wants.anti_affinity).chain(preferred) {
                self.topologies.ensure(&term.topology_key, labels_of(&self.nodes));
            }
            self.held.count(ask, at, by, &self.topologies);
        }
    }

    /// One placed pod.
    pub fn pod(&self, key: &Key) -> Option<&Placed> {
        self.pods.get(key)
    }

    /// Every placed pod, by key.
    pub fn pods(&self) -> impl Iterator<Item = (&Key, &Placed)> {
        self.pods.iter()
    }

    /// The placed pods that use a claim (`namespace/name`).
    pub fn users_of(&self, claim: &str) -> impl Iterator<Item = &Key> {
        self.claim_users.get(claim).into_iter().flatten()
    }

    // Nodes.

    fn put_node(&mut self, object: Object) -> Vec<Happened> {
        let Some(at) = self.by_name.get(&*object.meta().name).copied() else { return self.add_node(object) };
        let Some(info) = self.nodes.get(at as usize) else { return Vec::new() };
        let facts = brain::facts::Node::of(&object);
        let labels = info.labels() != &object.meta().labels;
        let taints =
            info.taints() != &*facts.spec.taints || info.node.facts.spec.unschedulable != facts.spec.unschedulable;
        let images =
            info.node.facts.status.images.iter().map(|i| &i.names).ne(facts.status.images.iter().map(|i| &i.names));
        if labels || taints {
            self.node_leaves(at);
        }
        if images {
            self.images.place(at, Some(&facts.status.images));
        }
        let room = self.update_node(at, object, labels || taints);
        if labels || taints {
            self.node_enters(at);
        }
        if !(labels || taints || room) {
            return Vec::new();
        }
        vec![Happened::Node { node: at, is_new: false, labels, taints, room }]
    }

    /// Whether it has more room now.
    fn update_node(&mut self, at: NodeIx, object: Object, decides_anew: bool) -> bool {
        self.versions += 1;
        let Some(info) = self.nodes.get_mut(at as usize) else { return false };
        let (before, pods) = (info.allocatable.clone(), info.pods_max);
        info.update(object);
        if decides_anew {
            info.version = self.versions;
        }
        let mut room = info.pods_max > pods;
        info.allocatable.each(|name, amount| room |= amount > before.get(name));
        room
    }

    fn add_node(&mut self, object: Object) -> Vec<Happened> {
        self.versions += 1;
        let info = NodeInfo::new(object, self.versions);
        let (name, facts): (Box<str>, _) = (info.name().into(), Arc::clone(&info.node.facts));
        let at = self.nodes.insert(info) as NodeIx;
        self.by_name.insert(name.clone(), at);
        self.images.place(at, Some(&facts.status.images));
        self.node_enters(at);
        for key in self.homeless.remove(&name).unwrap_or_default() {
            let Some(placed) = self.pods.get_mut(&key) else { continue };
            placed.at = Some(at);
            let ask = placed.ask.clone();
            self.attach(&ask, at);
        }
        vec![Happened::Node { node: at, is_new: true, labels: true, taints: true, room: true }]
    }

    fn remove_node(&mut self, name: &str) -> Vec<Happened> {
        let Some(at) = self.by_name.remove(name) else { return Vec::new() };
        let pods = self.nodes.get(at as usize).map(|info| info.pods.clone()).unwrap_or_default();
        for key in &pods {
            let Some(placed) = self.pods.get_mut(key) else { continue };
            placed.at = None;
            let ask = placed.ask.clone();
            self.detach(&ask, at);
        }
        if !pods.is_empty() {
            self.homeless.insert(name.into(), pods);
        }
        self.node_leaves(at);
        self.topologies.place(at, None);
        self.images.place(at, None);
        self.nodes.remove(at as usize);
        vec![Happened::NodeGone]
    }

    fn node_leaves(&mut self, at: NodeIx) {
        self.tallies.node_leaves(at, &self.topologies);
        self.held.node_leaves(at, &self.topologies);
        self.owners.node_leaves(at, &self.topologies);
    }

    fn node_enters(&mut self, at: NodeIx) {
        let Some(info) = self.nodes.get(at as usize) else { return };
        self.topologies.place(at, Some(info.labels()));
        self.tallies.node_enters(at, info, &self.topologies);
        self.held.node_enters(at, &self.topologies);
        self.owners.node_enters(at, &self.topologies);
    }

    /// One node.
    pub fn node(&self, at: NodeIx) -> Option<&NodeInfo> {
        self.nodes.get(at as usize)
    }

    /// A node's place.
    pub fn find_node(&self, name: &str) -> Option<NodeIx> {
        self.by_name.get(name).copied()
    }

    /// How many nodes there are.
    pub fn node_count(&self) -> usize {
        self.by_name.len()
    }

    /// One more than the largest place of a node.
    pub fn node_bound(&self) -> usize {
        self.nodes.bound()
    }

    /// Every node, by place.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeIx, &NodeInfo)> {
        self.nodes.iter().map(|(at, info)| (at as NodeIx, info))
    }

    // Questions.

    /// The place of a topology key.
    pub(crate) fn topology(&mut self, key: &str) -> TopologyIx {
        self.topologies.ensure(key, labels_of(&self.nodes))
    }

    /// The answer with this number.
    pub(crate) fn tally(&self, at: usize) -> Option<&Counts> {
        self.tallies.get(at)
    }

    /// How many of the selected pods there are by domain of `key`: counted the first time, then kept up to date.
    pub(crate) fn ensure_tally(
        &mut self,
        text: &Arc<str>,
        key: &str,
        question: impl FnOnce() -> (Select, Option<Include>),
    ) -> usize {
        if let Some(at) = self.tallies.find(text) {
            return at;
        }
        let (select, include) = question();
        let topology = self.topology(key);
        let counts = self.count_anew(topology, &select, include.as_ref());
        self.tallies.insert(text, select, include, counts)
    }

    fn count_anew(&self, topology: TopologyIx, select: &Select, include: Option<&Include>) -> Counts {
        let mut counts = match include {
            Some(_) => Counts::over_included(topology),
            None => Counts::everywhere(topology),
        };
        for (at, _) in self.nodes().filter(|(_, info)| include.is_some_and(|include| include.covers(info))) {
            if let Some(domain) = self.topologies.domain(topology, at) {
                counts.include(at, domain);
            }
        }
        let mut look = |placed: &Placed| {
            if let Some(at) = placed.at.filter(|_| select.matches(&placed.ask, &self.namespaces)) {
                counts.add(at, self.topologies.domain(topology, at), 1);
            }
        };
        match select.scope() {
            Some(Scope { names, selector: None }) => {
                names.iter().for_each(|name| self.pods_in(name).for_each(&mut look));
            }
            _ => self.pods.values().for_each(look),
        }
        counts
    }

    fn pods_in(&self, namespace: &str) -> impl Iterator<Item = &Placed> {
        let prefix = format!("{namespace}/");
        let start = Key::new(PODS_COLLECTION, &*prefix);
        self.pods.range(start..).take_while(move |(key, _)| key.item.starts_with(&prefix)).map(|(_, placed)| placed)
    }

    /// Every index compared with one worked out from scratch; the error names the first that differs. For tests
    /// and debug builds: costs as much as a start.
    pub fn verify(&self) -> Result<(), String> {
        for (text, select, include, counts) in self.tallies.each() {
            if *counts != self.count_anew(counts.topology, select, include) {
                return Err(format!("tally {text}"));
            }
        }
        crate::verify::verify(self)
    }

    /// What a class thinks of a node: see [`Statics::look`].
    pub(crate) fn liking(&mut self, class: Option<usize>, at: NodeIx, ask: &Ask) -> Result<Liking, Reason> {
        let Some(info) = self.nodes.get(at as usize) else { return Err(Reason::NodeName) };
        match class {
            Some(class) => self.statics.look(class, at, info, ask),
            None => statics::judge(ask, info),
        }
    }

    // Nominations.

    /// Room is being made for a pod on a node; an empty name takes the nomination back.
    pub fn nominate(&mut self, ask: &Ask, node: &str) {
        self.unnominate(ask.key());
        if !node.is_empty() {
            self.nominations.insert(ask.key().clone(), node.into());
            self.nominated.entry(node.into()).or_default().insert(ask.key().clone(), ask.clone());
        }
    }

    /// The pod is bound, gone, or nominated no more.
    pub fn unnominate(&mut self, key: &Key) {
        let Some(node) = self.nominations.remove(key) else { return };
        if let Some(pods) = self.nominated.get_mut(&node) {
            pods.remove(key);
            if pods.is_empty() {
                self.nominated.remove(&node);
            }
        }
    }

    /// The node that room is being made on for a pod.
    pub fn nomination(&self, key: &Key) -> Option<&str> {
        self.nominations.get(key).map(|node| &**node)
    }

    /// The pods that room is being made for on a node.
    pub fn nominated_on(&self, node: &str) -> Option<&BTreeMap<Key, Ask>> {
        if self.nominated.is_empty() { None } else { self.nominated.get(node) }
    }
}

pub(crate) fn labels_of(nodes: &Slab<NodeInfo>) -> impl Iterator<Item = (NodeIx, &crate::topology::Labels)> {
    nodes.iter().map(|(at, info)| (at as NodeIx, info.labels()))
}

/// `namespace/name` of the claims that a pod uses.
pub(crate) fn claim_keys(ask: &Ask) -> impl Iterator<Item = Box<str>> + '_ {
    ask.wants.claims.iter().map(|claim| format!("{}/{}", ask.namespace(), claim.name).into())
}

fn take_from(sets: &mut BTreeMap<Box<str>, BTreeSet<Key>>, name: &str, key: &Key) {
    if let Some(set) = sets.get_mut(name) {
        set.remove(key);
        if set.is_empty() {
            sets.remove(name);
        }
    }
}

/// Whether a newer state of a placed pod counts as the old one did.
fn is_counted_alike(old: &Ask, new: &Object) -> bool {
    let before = &old.pod.object;
    *before.meta().uid == *new.meta().uid
        && before.meta().is_deleting() == new.meta().is_deleting()
        && before.meta().labels == new.meta().labels
        && old.wants.requests == Pod::of(new).requests()
}
