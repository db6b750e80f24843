//! The fights over fields that the change logs show (`api::fights_in`), and those that will begin.

use std::collections::BTreeMap;

use api::{FieldChange, FieldFight};
use kinds::KindDef;
use merge::managed::{Ledger, Operation};
use meta::{ObjectExt, Time};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use view::{Object, View};

use crate::change::Reference;
use crate::fork::World;

const AUTOSCALERS: &str = "autoscaling/horizontalpodautoscalers";
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
            let found = api::fights_in(&api::change_log(entry));
            if found.is_empty() || !may_read(kind, place) {
                continue;
            }
            let object = Object::new(store::Key::new(collection.clone(), item.clone()), entry.clone());
            let about = Reference::of(&object.tree());
            report.fights.extend(found.iter().map(|fight| told(&about, fight)));
        }
    }
    report.risks = risks(&world.view, namespace)
        .into_iter()
        .filter(|(kind, place, _)| world.catalog.collection(kind).is_some_and(|kind| may_read(kind, place)))
        .map(|(_, _, risk)| risk)
        .collect();
    report
}

fn told(object: &Reference, fight: &FieldFight) -> Fight {
    let side = |change: &FieldChange| Side {
        manager: change.manager.clone(),
        user: change.user.clone(),
        verb: change.verb.clone(),
        value: change.new.clone(),
    };
    Fight {
        object: object.clone(),
        path: fight.path().to_owned(),
        sides: vec![side(fight.last()), side(fight.lost())],
        rounds: fight.rounds(),
        period_seconds: fight.period_seconds(),
        since: Time::from_secs(fight.first().time).to_rfc3339(),
        last: Time::from_secs(fight.last().time).to_rfc3339(),
    }
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
