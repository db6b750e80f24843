//! What followed from the declared changes: objects that controllers made, changed and removed, how far availability
//! went down on the way, what found no place, and whether it all came to be.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kinds::{Catalog, Converged, KindDef};
use meta::labels::Selector;
use meta::{GroupVersion, Gvk, ObjectExt};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::{Entry, Key, Snapshot};
use view::{Object, View};

use crate::change::{Action, Field, Reference, differences, fields_of};
use crate::settle::{Troupe, available};

const PODS: &str = "core/pods";
const BUDGETS: &str = "policy/poddisruptionbudgets";
/// Names told of a group; the count tells the rest.
const NAMES_MAX: usize = 10;
/// Owners walked up: deployment, replica set, pod, and some room.
const OWNERS_MAX: usize = 8;

/// Objects of one kind and owner to which the same happens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Consequence {
    /// Create, update or delete.
    pub action: Action,
    /// Group and version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Empty for cluster-scoped kinds.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// How many.
    pub count: usize,
    /// The first of their names.
    pub names: Vec<String>,
    /// The object that they are there for, at the top.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Reference>,
    /// Who does it.
    pub by: String,
    /// What changes, for updates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<Field>,
}

/// A workload that has fewer available replicas for a while.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Dip {
    /// The workload.
    pub object: Reference,
    /// Available before.
    pub before: i64,
    /// The fewest on the way.
    pub lowest: i64,
    /// A disruption budget that asks for more, and how many it asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<(String, i64)>,
}

/// Pods that find no node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Unplaced {
    /// The object that they are there for, at the top.
    pub owner: Reference,
    /// How many.
    pub count: usize,
    /// The scheduler's verdict, with numbers per class of node.
    pub message: String,
}

/// Whether an object comes to be as declared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outlook {
    /// Which.
    pub object: Reference,
    /// `converged`, `progressing` or `failed`.
    pub state: String,
    /// What is missing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// Two states of the world and what happened between.
pub(crate) struct Aftermath<'a> {
    pub before: &'a View,
    pub troupe: &'a Troupe,
    pub catalog: &'a Catalog,
    /// Objects that the declared changes themselves are about.
    pub direct: &'a BTreeSet<Key>,
    /// Whether the asking user may read objects of a kind in a namespace.
    pub may_read: &'a dyn Fn(&KindDef, &str) -> bool,
}

type Group = (Action, String, String, String, Option<Reference>, String, String);

impl Aftermath<'_> {
    fn after(&self) -> &View {
        self.troupe.view()
    }

    /// Whether the asking user may read the object at a key.
    pub fn is_readable(&self, key: &Key) -> bool {
        let namespace = key.item.split_once('/').map_or("", |(namespace, _)| namespace);
        self.catalog.collection(&key.collection).is_some_and(|kind| (self.may_read)(kind, namespace))
    }

    /// What others did, grouped; and how many changes the user may not know of.
    pub fn consequences(&self) -> (Vec<Consequence>, usize) {
        let mut groups: BTreeMap<Group, Consequence> = BTreeMap::new();
        let mut hidden = 0;
        let (old, new) = (self.before.snapshot(), self.after().snapshot());
        for collection in new.collections_changed(old) {
            let Some(kind) = self.catalog.collection(&collection).filter(|kind| !kind.volatile) else { continue };
            for (item, before, after) in new.changes_since(old, &collection) {
                let key = Key::new(collection.clone(), item.clone());
                let Some(found) = self.consequence(kind, &key, before, after) else { continue };
                if !(self.may_read)(kind, &found.namespace) {
                    hidden += 1;
                    continue;
                }
                add(&mut groups, found);
            }
        }
        (groups.into_values().collect(), hidden)
    }

    fn consequence(
        &self,
        kind: &KindDef,
        key: &Key,
        before: Option<&Arc<Entry>>,
        after: Option<&Arc<Entry>>,
    ) -> Option<Consequence> {
        if self.direct.contains(key) {
            return None;
        }
        let object = |entry: &Arc<Entry>| Object::new(key.clone(), Arc::clone(entry));
        let newest = object(after.or(before)?);
        let (action, fields) = match (before, after) {
            (None, _) => (Action::Create, Vec::new()),
            (_, None) => (Action::Delete, Vec::new()),
            (Some(before), Some(after)) => {
                let changed = fields_of(kind, differences(kind, &object(before).tree(), &object(after).tree()));
                if changed.is_empty() {
                    return None;
                }
                (Action::Update, changed)
            }
        };
        let tree = newest.tree();
        let top = self.top(&newest).filter(|top| top.name != tree.name() || top.kind != tree.text(&["kind"]));
        Some(Consequence {
            action,
            api_version: tree.text(&["apiVersion"]).to_owned(),
            kind: tree.text(&["kind"]).to_owned(),
            namespace: tree.namespace().to_owned(),
            count: 1,
            names: vec![tree.name().to_owned()],
            owner: top,
            by: self.troupe.fork.hand(key, action).to_owned(),
            fields,
        })
    }

    /// The object at the top of the owners: what somebody declared.
    fn top(&self, object: &Object) -> Option<Reference> {
        let mut current = object.clone();
        for _ in 0..OWNERS_MAX {
            let Some(owner) = current.meta().controller() else { break };
            let version = GroupVersion::parse(&owner.api_version)?;
            let kind = self.catalog.kind(&Gvk::new(version.group, version.version, &*owner.kind))?;
            let key = brain::key(&kind.collection(), &current.meta().namespace, &owner.name);
            let found = self.after().get_key(&key).or_else(|| self.before.get_key(&key))?;
            current = found;
        }
        Some(Reference::of(&current.tree()))
    }

    /// Workloads at the top that lose available replicas on the way.
    pub fn dips(&self) -> Vec<Dip> {
        let mut dips = Vec::new();
        for (key, lowest) in self.troupe.lowest.iter().filter(|(key, _)| self.is_readable(key)) {
            let Some(old) = self.before.get_key(key).filter(|object| object.meta().controller().is_none()) else {
                continue;
            };
            let tree = old.tree();
            let before = available(&tree);
            let is_deleted = self.after().get_key(key).is_none();
            if *lowest < before && !is_deleted {
                let budget = self.budget(&tree).filter(|(_, healthy)| lowest < healthy);
                dips.push(Dip { object: Reference::of(&tree), before, lowest: *lowest, budget });
            }
        }
        dips
    }

    /// The disruption budget over a workload's pods that asks for most.
    fn budget(&self, workload: &Value) -> Option<(String, i64)> {
        let labels = workload.map(&["spec", "template", "metadata", "labels"])?;
        let covers = |budget: &Value| {
            let selector = Selector::from_label_selector(budget.at(&["spec", "selector"]));
            selector.is_ok_and(|selector| selector.matches(labels))
        };
        let budgets = self.before.list(BUDGETS, workload.namespace()).into_iter().map(|object| object.tree());
        let healthy =
            |budget: Value| (budget.name().to_owned(), budget.int(&["status", "desiredHealthy"]).unwrap_or(0));
        budgets.filter(covers).map(healthy).max_by_key(|(_, healthy)| *healthy)
    }

    /// Pods made on the way that no node takes.
    pub fn unplaced(&self) -> Vec<Unplaced> {
        let mut groups: BTreeMap<(Reference, String), usize> = BTreeMap::new();
        let (old, new) = (self.before.snapshot(), self.after().snapshot());
        for (item, _, after) in new.changes_since(old, PODS) {
            let Some(entry) = after else { continue };
            let pod = Object::new(Key::new(PODS, item.clone()), Arc::clone(entry));
            if !self.is_readable(&pod.key) {
                continue;
            }
            let tree = pod.tree();
            let why = meta::condition::find(&tree, "PodScheduled").filter(|c| c.text(&["status"]) == "False");
            if let (Some(why), "", Some(top)) = (why, tree.text(&["spec", "nodeName"]), self.top(&pod)) {
                *groups.entry((top, why.text(&["message"]).to_owned())).or_default() += 1;
            }
        }
        groups.into_iter().map(|((owner, message), count)| Unplaced { owner, count, message }).collect()
    }

    /// Whether what was declared, and what stands at the top of what changed, comes to be.
    pub fn outlook(&self) -> Vec<Outlook> {
        let tops = self
            .troupe
            .lowest
            .keys()
            .filter(|key| self.is_readable(key))
            .filter(|key| self.after().get_key(key).is_some_and(|object| object.meta().controller().is_none()));
        let keys: BTreeSet<&Key> = self.direct.iter().chain(tops).collect();
        let judged = keys.into_iter().filter_map(|key| {
            let kind = self.catalog.collection(&key.collection)?;
            let tree = self.after().get_key(key)?.tree();
            let (state, message) = match kind.health.judge(&tree) {
                Converged::Yes => ("converged", String::new()),
                Converged::Progressing(why) => ("progressing", why),
                Converged::Failed(why) => ("failed", why),
            };
            Some(Outlook { object: Reference::of(&tree), state: state.to_owned(), message })
        });
        judged.collect()
    }
}

fn add(groups: &mut BTreeMap<Group, Consequence>, found: Consequence) {
    let fields = serde_json::to_string(&found.fields).unwrap_or_default();
    let Consequence { action, api_version, kind, namespace, owner, by, .. } = found.clone();
    let group = groups.entry((action, api_version, kind, namespace, owner, by, fields));
    group
        .and_modify(|known| {
            known.count += 1;
            if known.names.len() < NAMES_MAX {
                known.names.extend(found.names.iter().cloned());
            }
        })
        .or_insert(found);
}

/// Whether the objects of a plan have come to be as far as they will: what decides that a plan's time may end.
pub(crate) fn is_settled(view: &View, catalog: &Catalog, base: &Snapshot, direct: &BTreeSet<Key>) -> bool {
    let is_still =
        |kind: &KindDef, object: &Object| !matches!(kind.health.judge(&object.tree()), Converged::Progressing(_));
    let kind = |key: &Key| catalog.collection(&key.collection);
    let declared = direct.iter().all(|key| match (kind(key), view.get_key(key)) {
        (Some(kind), Some(object)) => is_still(kind, &object),
        _ => true,
    });
    declared
        && view.snapshot().changes_since(base, PODS).into_iter().all(|(item, _, after)| {
            let Some(entry) = after else { return true };
            let key = Key::new(PODS, item.clone());
            kind(&key).is_none_or(|kind| is_still(kind, &Object::new(key.clone(), Arc::clone(entry))))
        })
}
