//! The decision: first the revisions, then the status, then the pods.

use std::collections::BTreeSet;

use brain::Outcome;
use meta::{ObjectExt, Time};
use serde_json::{Map, Value, json};

use super::facts::{Desired, Observed, is_running_and_ready};
use super::order::Order;
use super::status::{Names, status};
use super::{Step, Why};
use crate::pods::{PODS, Readiness};
use crate::revisions::{self, Current, POD_LABEL, REVISIONS};

/// A revision that pods are made of.
pub(super) struct Made {
    pub name: String,
    pub template: Value,
}

/// Decides.
pub(super) fn decide(desired: &Desired, observed: &Observed, now: Time) -> Outcome<Step, Why> {
    if !matches_itself(desired) {
        return bad_selector(desired, observed);
    }
    let data = revisions::data(&desired.template);
    let collisions = observed.status.int(&["collisionCount"]).unwrap_or(0);
    let mut outcome = Outcome::rest();
    let update_name = match observed.history.current(&desired.owner, &data, &desired.annotations, collisions) {
        Current::Over => return outcome,
        Current::NameTaken(name) => {
            let patch = json!({"status": {"collisionCount": collisions + 1}});
            return outcome.note(Why::RevisionNameTaken(name)).step(Step::Status(patch));
        }
        Current::Stands { name, step, .. } => {
            outcome.steps.extend(step.map(Step::Revision));
            name
        }
    };
    let update = Made { name: update_name, template: desired.template.clone() };
    let current =
        current(observed).unwrap_or_else(|| Made { name: update.name.clone(), template: update.template.clone() });
    let names = Names { current: &current.name, update: &update.name, collisions };
    outcome.steps.extend(status(desired, observed, &names, now).map(Step::Status));
    outcome.notes.extend(refused(desired, observed));
    if !desired.owner.deleting {
        Order::new(desired, observed, &current, &update, now).run(&mut outcome);
        outcome.steps.extend(forgotten(desired, observed, &current.name, &update.name));
    }
    let running = observed.pods.iter().filter(|pod| is_running_and_ready(pod));
    let next = Readiness::of(running, desired.min_ready_seconds, now).next;
    next.into_iter().fold(outcome, Outcome::wake_at)
}

/// The revision that the status calls current, if it is still there.
fn current(observed: &Observed) -> Option<Made> {
    let name = observed.status.text(&["currentRevision"]);
    let revision = observed.history.revisions.iter().find(|revision| revision.target.name == name)?;
    Some(Made { name: name.to_owned(), template: revisions::template(&revision.data) })
}

/// Revisions beyond the limit that neither status nor pods name.
fn forgotten(desired: &Desired, observed: &Observed, current: &str, update: &str) -> Vec<Step> {
    let Some(limit) = desired.history_limit else { return Vec::new() };
    let stored = observed.status.text(&["currentRevision"]);
    let mut in_use = BTreeSet::from([current, update, stored]);
    in_use.extend(observed.pods.iter().filter_map(|pod| pod.label(POD_LABEL)));
    observed
        .history
        .surplus(&in_use, limit)
        .into_iter()
        .map(|surplus| Step::Revision(revisions::Step::Delete(surplus)))
        .collect()
}

fn matches_itself(desired: &Desired) -> bool {
    let none = Map::new();
    let labels = desired.template.map(&["metadata", "labels"]).unwrap_or(&none);
    desired.selector.matches(labels) && !desired.selector.is_everything()
}

/// Seen, and nothing done; said once a generation.
fn bad_selector(desired: &Desired, observed: &Observed) -> Outcome<Step, Why> {
    let generation = [("observedGeneration", desired.generation.into())];
    match crate::status::difference(&observed.status, generation) {
        Some(patch) => Outcome::rest().note(Why::BadSelector).step(Step::Status(patch)),
        None => Outcome::rest(),
    }
}

fn refused(desired: &Desired, observed: &Observed) -> Option<Why> {
    let refusal = observed.refusal.as_ref()?;
    let set = &desired.owner.target.name;
    let (name, error) = (&refusal.name, &refusal.message);
    if refusal.is("create", &PODS) {
        let message = format!("create Pod {name} in StatefulSet {set} failed error: {error}");
        Some(Why::Refused("FailedCreate", message))
    } else if refusal.is("delete", &PODS) {
        Some(Why::Refused("FailedDelete", format!("delete Pod {name} in StatefulSet {set} failed error: {error}")))
    } else if refusal.is("create", &super::CLAIMS) {
        let message = format!("create Claim {name} in StatefulSet {set} failed error: {error}");
        Some(Why::Refused("FailedCreate", message))
    } else if refusal.is("create", &REVISIONS) {
        Some(Why::Refused("FailedCreate", format!("create ControllerRevision {name} failed error: {error}")))
    } else {
        None
    }
}
