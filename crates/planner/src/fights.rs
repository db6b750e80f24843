//! Fields that managers keep taking from one another, read from the change logs: a value that goes away and comes back,
//! each time by the hand of the other. A rollout, a ramp of an autoscaler or a change of leader does not do that.

use std::collections::BTreeMap;

use api::FieldChange;
use kinds::KindDef;
use merge::managed::{Ledger, Operation};
use meta::{ObjectExt, Time};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use view::{Object, View};

use crate::change::Reference;
use crate::fork::World;

const AUTOSCALERS: &str = "autoscaling/horizontalpodautoscalers";
/// How often the other must take back what one took: A, B, A, B is the third round.
const REVERSALS_MIN: usize = 2;
/// When values are too long or too secret to be kept, only hands can be counted.
const HANDS_MIN: usize = 5;
/// Fights told; more are counted.
const FIGHTS_MAX: usize = 1_000;

/// Who fights over what.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FightReport {
    /// Fights that go on.
    pub fights: Vec<Fight>,
    /// Fights that will begin.
    pub risks: Vec<Risk>,
}

/// One fight.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fight {
    /// Over which object.
    pub object: Reference,
    /// Over which field.
    pub path: String,
    /// The managers, the last winner first, each with its user, verb and value.
    pub sides: Vec<Side>,
    /// How often the field changed hands, as far as the log goes back.
    pub rounds: usize,
    /// Seconds between two changes, on average.
    pub period_seconds: f64,
    /// When the log first shows it.
    pub since: String,
    /// The newest change.
    pub last: String,
}

/// One of the sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Side {
    /// Field manager.
    pub manager: String,
    /// User.
    pub user: String,
    /// How it writes.
    pub verb: String,
    /// What it writes; absent when it is secret or long, or when it removes the field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
}

/// Two that will fight.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Risk {
    /// Over which object.
    pub object: Reference,
    /// Over which field.
    pub path: String,
    /// Who.
    pub parties: Vec<String>,
    /// Why, in one sentence.
    pub message: String,
}

/// Looks for fights in a namespace, or everywhere when it is empty, among what may be read.
pub fn fights(world: &World, namespace: &str, may_read: &dyn Fn(&KindDef, &str) -> bool) -> FightReport {
    let snapshot = world.view.snapshot();
    let mut report = FightReport::default();
    for collection in snapshot.collections() {
        let Some(kind) = world.catalog.collection(collection).filter(|kind| !kind.volatile) else { continue };
        for (item, entry) in snapshot.items(collection) {
            let place = if kind.is_namespaced() { item.split('/').next().unwrap_or("") } else { "" };
            let is_meant = namespace.is_empty() || place == namespace;
            // A log of one entry is the object's creation: nobody fights.
            if !is_meant || entry.annex.len() < 2 || report.fights.len() >= FIGHTS_MAX {
                continue;
            }
            let found = fights_in(&api::change_log(entry));
            if found.is_empty() || !may_read(kind, place) {
                continue;
            }
            let object = Object::new(store::Key::new(collection.clone(), item.clone()), entry.clone());
            let about = Reference::of(&object.tree());
            report.fights.extend(found.into_iter().map(|fight| Fight { object: about.clone(), ..fight }));
        }
    }
    report.risks = risks(&world.view, namespace)
        .into_iter()
        .filter(|(kind, place, _)| world.catalog.collection(kind).is_some_and(|kind| may_read(kind, place)))
        .map(|(_, _, risk)| risk)
        .collect();
    report
}

/// The fights that a log shows.
fn fights_in(log: &[FieldChange]) -> Vec<Fight> {
    let mut by_field: BTreeMap<&str, Vec<&FieldChange>> = BTreeMap::new();
    for change in log.iter().filter(|change| !change.field.is_empty()) {
        by_field.entry(&change.field).or_default().push(change);
    }
    by_field.into_iter().filter_map(|(path, changes)| fight(path, &changes)).collect()
}

fn fight(path: &str, changes: &[&FieldChange]) -> Option<Fight> {
    // The fight is what goes on: the newest run of changes that each take back the one before.
    let run = changes.windows(3).rev().take_while(|three| takes_back(three[0], three[1], three[2])).count();
    let fought = &changes[changes.len().saturating_sub(run + 2)..];
    let is_told = fought.iter().all(|change| !change.left_out);
    if run < if is_told { REVERSALS_MIN } else { HANDS_MIN } {
        return None;
    }
    let (first, last) = (fought.first()?, fought.last()?);
    let side = |change: &FieldChange| Side {
        manager: change.manager.clone(),
        user: change.user.clone(),
        verb: change.verb.clone(),
        value: change.new.clone(),
    };
    let sides = fought.iter().rev().take(2).map(|change| side(change)).collect();
    #[allow(clippy::cast_precision_loss)]
    let period_seconds = (last.time - first.time) as f64 / (fought.len() - 1) as f64;
    Some(Fight {
        object: Reference::default(),
        path: path.to_owned(),
        sides,
        rounds: fought.len(),
        period_seconds,
        since: Time::from_secs(first.time).to_rfc3339(),
        last: Time::from_secs(last.time).to_rfc3339(),
    })
}

/// Whether the third change brings back what the second one took away, by the same hand as the first.
fn takes_back(first: &FieldChange, second: &FieldChange, third: &FieldChange) -> bool {
    first.manager != second.manager && first.manager == third.manager && first.new == third.new
}

type Found = (String, String, Risk);

/// Autoscalers that share a target, or whose target's replicas an applied manifest sets.
fn risks(view: &View, namespace: &str) -> Vec<Found> {
    let mut by_target: BTreeMap<(String, String, String, String), Vec<String>> = BTreeMap::new();
    for autoscaler in view.list(AUTOSCALERS, namespace) {
        let tree = autoscaler.tree();
        let target = |field: &str| tree.text(&["spec", "scaleTargetRef", field]).to_owned();
        let key = (tree.namespace().to_owned(), target("apiVersion"), target("kind"), target("name"));
        by_target.entry(key).or_default().push(tree.name().to_owned());
    }
    let mut found = Vec::new();
    for ((namespace, api_version, kind, name), autoscalers) in by_target {
        let about = || Reference {
            api_version: api_version.clone(),
            kind: kind.clone(),
            namespace: namespace.clone(),
            name: name.clone(),
        };
        let mut parties: Vec<String> =
            autoscalers.iter().map(|name| format!("HorizontalPodAutoscaler/{name}")).collect();
        let mut tell = |parties: Vec<String>, message: String| {
            let risk = Risk { object: about(), path: "spec.replicas".to_owned(), parties, message };
            found.push((AUTOSCALERS.to_owned(), namespace.clone(), risk));
        };
        if autoscalers.len() > 1 {
            let message = format!("{} autoscalers have the same target", autoscalers.len());
            tell(parties.clone(), message);
        }
        let appliers = appliers_of_replicas(view, &kind, &namespace, &name);
        if !appliers.is_empty() {
            let message = "a manifest sets replicas that an autoscaler chooses; leave them out of it".to_owned();
            parties.extend(appliers);
            tell(parties, message);
        }
    }
    found
}

/// The managers that apply `spec.replicas` of a workload.
fn appliers_of_replicas(view: &View, kind: &str, namespace: &str, name: &str) -> Vec<String> {
    let collection = format!("apps/{}s", kind.to_lowercase());
    let Some(workload) = view.get(&collection, namespace, name) else { return Vec::new() };
    let ledger = Ledger::of(&workload.tree()).unwrap_or_default();
    let replicas = ["spec", "replicas"].map(merge::fields::PathElement::field);
    let applies =
        ledger.owners.iter().filter(|(id, owned)| id.operation == Operation::Apply && owned.set.has(&replicas));
    applies.map(|(id, _)| id.manager.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn change(manager: &str, value: Value, time: i64) -> FieldChange {
        FieldChange {
            field: "spec.replicas".to_owned(),
            manager: manager.to_owned(),
            user: manager.to_owned(),
            verb: "update".to_owned(),
            old: None,
            new: Some(value),
            time,
            left_out: false,
        }
    }

    fn found(changes: &[(&str, i64, i64)]) -> Vec<(usize, f64)> {
        let log: Vec<FieldChange> = changes.iter().map(|(m, value, time)| change(m, json!(value), *time)).collect();
        fights_in(&log).into_iter().map(|fight| (fight.rounds, fight.period_seconds)).collect()
    }

    #[test]
    fn fights_are_named_within_three_rounds() {
        // One in thirty minutes, and five a second.
        assert_eq!(found(&[("a", 1, 0), ("b", 2, 1_800), ("a", 1, 3_600), ("b", 2, 5_400)]), [(4, 1_800.0)]);
        assert_eq!(found(&[("a", 1, 7), ("b", 2, 7), ("a", 1, 7), ("b", 2, 7)]), [(4, 0.0)]);
    }

    #[test]
    fn what_only_moves_is_no_fight() {
        // A ramp, somebody who changes their mind, two who take turns once, a leader that changes.
        assert_eq!(found(&[("hpa", 1, 0), ("hpa", 2, 15), ("hpa", 4, 30), ("hpa", 2, 45), ("hpa", 4, 60)]), []);
        assert_eq!(found(&[("a", 1, 0), ("a", 2, 1), ("a", 1, 2), ("a", 2, 3)]), []);
        assert_eq!(found(&[("a", 1, 0), ("b", 2, 1), ("a", 3, 2), ("b", 4, 3)]), []);
        assert_eq!(found(&[("a", 1, 0), ("b", 2, 1), ("a", 1, 2)]), []);
    }

    #[test]
    fn a_fight_that_is_over_is_over() {
        assert_eq!(found(&[("a", 1, 0), ("b", 2, 1), ("a", 1, 2), ("b", 2, 3), ("c", 9, 4)]), []);
    }
}
