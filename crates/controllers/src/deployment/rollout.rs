//! One decision in the making: working copies of the ReplicaSets, whose differences become the steps.

use brain::Outcome;
use meta::{ObjectExt, Time};
use serde_json::{Map, Value, json};

use super::facts::{Desired, HASH_LABEL, Observed, Set};
use super::progress::{self, Numbers};
use super::{Step, Why, history};
use crate::condition_list::ConditionList;
use crate::status::difference;

/// The revision that a template has in the Deployment's history.
pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
/// How many replicas the Deployment wanted when the ReplicaSet was last scaled.
pub(super) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
/// How many there might have been at most.
const MAX: &str = "deployment.kubernetes.io/max-replicas";

/// A ReplicaSet as it is and as it shall be.
pub(super) struct Draft {
    /// As it is; `None` when it is to be created.
    pub was: Option<Set>,
    /// As it shall be.
    pub set: Set,
}

/// One decision.
pub(super) struct Rollout<'a> {
    pub desired: &'a Desired,
    pub observed: &'a Observed,
    pub now: Time,
    /// All ReplicaSets, the oldest first.
    pub drafts: Vec<Draft>,
    /// Which of them has the current template.
    pub new: Option<usize>,
    pub conditions: ConditionList,
    /// The Deployment's own revision, when it changes.
    revision: Option<String>,
    collisions: i64,
    deletions: Vec<Step>,
    notes: Vec<Why>,
}

impl<'a> Rollout<'a> {
    pub fn new(desired: &'a Desired, observed: &'a Observed, now: Time) -> Rollout<'a> {
        let drafts: Vec<Draft> =
            observed.sets.iter().map(|set| Draft { was: Some(set.clone()), set: set.clone() }).collect();
        Rollout {
            new: drafts.iter().position(|draft| draft.set.has_template(&desired.template)),
            drafts,
            desired,
            observed,
            now,
            conditions: ConditionList::of(&observed.status),
            revision: None,
            collisions: observed.status.int(&["collisionCount"]).unwrap_or(0),
            deletions: Vec::new(),
            notes: Vec::new(),
        }
    }

    pub fn note(mut self, why: Why) -> Self {
        self.notes.push(why);
        self
    }

    /// Indexes of the ReplicaSets of other templates, the oldest first.
    pub fn olds(&self) -> Vec<usize> {
        (0..self.drafts.len()).filter(|index| Some(*index) != self.new).collect()
    }

    /// Indexes of the ReplicaSets that shall have pods.
    pub fn active(&self) -> Vec<usize> {
        (0..self.drafts.len()).filter(|index| self.drafts[*index].set.replicas > 0).collect()
    }

    /// Replicas of all ReplicaSets together.
    pub fn total(&self) -> i64 {
        self.drafts.iter().map(|draft| draft.set.replicas).sum()
    }

    /// The ReplicaSet of the current template.
    pub fn new_set(&self) -> Option<&Set> {
        self.new.map(|index| &self.drafts[index].set)
    }

    /// Sets the size of a ReplicaSet and notes in its annotations what was wanted; whether the size changes.
    pub fn resize(&mut self, index: usize, replicas: i64) -> bool {
        let most = self.desired.replicas.saturating_add(self.desired.strategy.max_surge());
        let set = &mut self.drafts[index].set;
        set.annotations.insert(DESIRED.to_owned(), self.desired.replicas.to_string());
        set.annotations.insert(MAX.to_owned(), most.to_string());
        let changes = set.replicas != replicas;
        set.replicas = replicas;
        changes
    }

    /// The number in a ReplicaSet's annotation that says how many there might have been at most.
    pub fn max_before(&self, index: usize) -> Option<i64> {
        self.drafts[index].set.number(MAX)
    }

    /// Brings the annotations of the current ReplicaSet, its place in the history and the Deployment's revision up
    /// to date, if there is one.
    pub fn sync_new_set(&mut self) {
        let Some(index) = self.new else { return };
        let next = self.next_revision();
        let set = &mut self.drafts[index].set;
        history::copy_annotations(self.desired, set);
        history::raise_revision(set, next);
        set.min_ready_seconds = self.desired.min_ready_seconds;
        let (revision, name) = (set.annotations.get(REVISION).cloned(), set.target.name.clone());
        self.revision = revision;
        if self.desired.progress_deadline.is_some() && !self.conditions.has(progress::PROGRESSING) {
            let message = format!("Found new replica set {name:?}");
            self.conditions.update(progress::PROGRESSING, "True", "FoundNewReplicaSet", &message, self.now);
        }
    }

    /// The same, and creates the ReplicaSet where there is none. `Some` ends the decision: it cannot be created.
    pub fn ensure_new_set(&mut self) -> Option<Outcome<Step, Why>> {
        self.sync_new_set();
        if self.new.is_some() {
            return None;
        }
        if !self.matches_itself() {
            // Said once, for as long as the generation stays the same.
            if self.observed.status.int(&["observedGeneration"]) != Some(self.desired.generation) {
                self.notes.push(Why::SelectorMismatch);
            }
            return Some(self.end());
        }
        let (hash, name) = self.desired.new_set_name(self.collisions);
        if self.observed.name_taken {
            self.notes.push(Why::NameTaken(name));
            self.collisions += 1;
            return Some(self.end());
        }
        self.create(&hash, name);
        None
    }

    fn create(&mut self, hash: &str, name: String) {
        let desired = self.desired;
        let mut template = desired.template.clone();
        template.put(&["metadata", "labels", HASH_LABEL], hash);
        let mut set = Set { template, min_ready_seconds: desired.min_ready_seconds, ..Set::default() };
        set.target.name.clone_from(&name);
        history::copy_annotations(desired, &mut set);
        history::raise_revision(&mut set, self.next_revision());
        self.revision = set.annotations.get(REVISION).cloned();
        self.drafts.push(Draft { was: None, set });
        let index = self.drafts.len() - 1;
        self.new = Some(index);
        let replicas = self.new_replicas();
        self.resize(index, replicas);
        self.say_created(&name);
    }

    fn say_created(&mut self, name: &str) {
        let failed = self.observed.refusal.as_ref().filter(|r| r.is("create", &crate::replica_set::REPLICA_SETS));
        let (status, reason, message) = match failed {
            Some(refusal) => {
                let message = format!("Failed to create new replica set {name:?}: {}", refusal.message);
                self.notes.push(Why::CreateRefused(message.clone()));
                ("False", progress::FAILED_CREATE, message)
            }
            None => ("True", "NewReplicaSetCreated", format!("Created new replica set {name:?}")),
        };
        if self.desired.progress_deadline.is_some() {
            self.conditions.update(progress::PROGRESSING, status, reason, &message, self.now);
        }
    }

    fn matches_itself(&self) -> bool {
        let none = Map::new();
        self.desired.selector.matches(self.desired.template.map(&["metadata", "labels"]).unwrap_or(&none))
    }

    /// One more than the newest revision of the other templates.
    fn next_revision(&self) -> i64 {
        let newest = self.olds().iter().filter_map(|index| self.drafts[*index].set.number(REVISION)).max();
        newest.unwrap_or(0).saturating_add(1)
    }

    /// Deletes ReplicaSets beyond the history limit, the oldest revisions first, that have and want no pods.
    pub fn clean_history(&mut self) {
        let Some(limit) = self.desired.history_limit else { return };
        let mut olds: Vec<&Set> =
            self.olds().iter().map(|index| &self.drafts[*index].set).filter(|s| !s.deleting).collect();
        olds.sort_by_key(|set| (set.number(REVISION).unwrap_or(0), set.created));
        let surplus = olds.len().saturating_sub(limit);
        // As they are, not as this turn would make them: one that is scaled down now goes when it is empty.
        let was_empty = |set: &Set| {
            let before = self.observed.sets.iter().find(|before| before.target == set.target);
            before.is_some_and(|before| before.replicas == 0)
        };
        let empty = |set: &&&Set| {
            was_empty(set) && set.replicas == 0 && set.status_replicas == 0 && set.generation <= set.observed_generation
        };
        self.deletions =
            olds.iter().take(surplus).filter(empty).map(|set| Step::DeleteSet(set.target.clone())).collect();
    }

    /// The end for a selector that matches everything: seen, and nothing done.
    pub fn selects_all(self) -> Outcome<Step, Why> {
        let generation = self.desired.generation;
        let patch = difference(&self.observed.status, [("observedGeneration", generation.into())]);
        let mut outcome = Outcome::rest();
        if let Some(patch) = patch {
            // Said when a new generation is seen, not at every look.
            outcome = outcome.note(Why::SelectsAll).step(Step::Status(patch));
        }
        outcome
    }

    /// The end that estimates no progress.
    pub fn finish_plainly(mut self) -> Outcome<Step, Why> {
        self.end()
    }

    fn end(&mut self) -> Outcome<Step, Why> {
        let numbers = Numbers::of(self);
        let status = self.status(&numbers);
        self.outcome_with(status)
    }

    /// The end of a step of a rollout.
    pub fn finish_rollout(mut self) -> Outcome<Step, Why> {
        let numbers = Numbers::of(&self);
        progress::estimate(&mut self, &numbers);
        let wake = progress::next_check(&self, &numbers);
        let status = self.status(&numbers);
        let outcome = self.outcome_with(status);
        wake.into_iter().fold(outcome, Outcome::wake_at)
    }

    fn status(&mut self, numbers: &Numbers) -> Option<Value> {
        progress::say_available(self, numbers);
        let conditions = self.conditions.clone();
        let mut patch =
            difference(&self.observed.status, numbers.fields(self.desired.generation, self.collisions, conditions));
        let revision = self.revision.as_ref().filter(|new| self.desired.annotations.get(REVISION) != Some(*new));
        if let Some(revision) = revision {
            let annotations = json!({"annotations": {REVISION: revision}});
            patch.get_or_insert_with(|| json!({}))["metadata"] = annotations;
        }
        patch
    }

    fn outcome_with(&mut self, status: Option<Value>) -> Outcome<Step, Why> {
        let mut steps: Vec<Step> = self.drafts.iter().filter_map(|draft| self.step_of(draft)).collect();
        steps.append(&mut self.deletions);
        let status = status.map(Step::Status);
        // What was refused once may be again: then the status that says so must not wait behind it.
        if self.observed.refusal.is_some() {
            steps.splice(0..0, status);
        } else {
            steps.extend(status);
        }
        Outcome { steps, notes: std::mem::take(&mut self.notes), ..Outcome::rest() }
    }

    fn step_of(&self, draft: &Draft) -> Option<Step> {
        let set = &draft.set;
        let Some(was) = &draft.was else {
            return Some(Step::CreateSet { object: self.new_object(set), replicas: set.replicas });
        };
        let mut patch = json!({});
        let changed: Map<String, Value> = set
            .annotations
            .iter()
            .filter(|(key, value)| was.annotations.get(*key) != Some(*value))
            .map(|(key, value)| (key.clone(), value.as_str().into()))
            .collect();
        if !changed.is_empty() {
            patch["metadata"] = json!({"annotations": changed});
        }
        if set.min_ready_seconds != was.min_ready_seconds {
            patch["spec"]["minReadySeconds"] = set.min_ready_seconds.into();
        }
        let scaled = (set.replicas != was.replicas).then_some((was.replicas, set.replicas));
        if scaled.is_some() {
            patch["spec"]["replicas"] = set.replicas.into();
        }
        let differs = patch.as_object().is_some_and(|fields| !fields.is_empty());
        differs.then(|| Step::PatchSet { target: set.target.clone(), patch, scaled })
    }

    fn new_object(&self, set: &Set) -> Value {
        let desired = self.desired;
        let labels = set.template.at(&["metadata", "labels"]).cloned().unwrap_or_default();
        let mut selector = desired.selector_tree.clone();
        if let Some(hash) = labels.get(HASH_LABEL) {
            selector.put(&["matchLabels", HASH_LABEL], hash.clone());
        }
        let mut object = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {
                "name": set.target.name, "namespace": desired.owner.target.namespace, "labels": labels,
                "annotations": set.annotations, "ownerReferences": [desired.owner.reference()],
            },
            "spec": {"replicas": set.replicas, "selector": selector, "template": set.template},
        });
        if set.min_ready_seconds != 0 {
            object.put(&["spec", "minReadySeconds"], set.min_ready_seconds);
        }
        object
    }
}
