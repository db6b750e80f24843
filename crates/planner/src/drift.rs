//! Where the world differs from what is declared, and who made it so. The fields are those that apply would change (the
//! same fork, the same request), the names come from the change log of each object.

use meta::{ObjectExt, Time};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use api::FieldChange;

use crate::blame::last_change;
use crate::change::{Action, Change, Reference};
use crate::declared::{self, Wish};
use crate::fork::{Fork, World};
use crate::settle::{Limits, Troupe};

/// What differs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DriftReport {
    /// Every declared object that is not as declared.
    pub objects: Vec<Drifted>,
    /// How many were compared.
    pub compared: usize,
}

/// One object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Drifted {
    /// Which.
    pub object: Reference,
    /// It is not there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub missing: bool,
    /// Why it cannot be compared.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub refused: String,
    /// Its fields that differ.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<DriftedField>,
}

/// One field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DriftedField {
    /// Where.
    pub path: String,
    /// As declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declared: Option<Value>,
    /// As it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<Value>,
    /// What sort of difference it is.
    pub class: Class,
    /// Field manager that wrote what is there.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub manager: String,
    /// Its user.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub user: String,
    /// By which verb.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub verb: String,
    /// When.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub time: String,
}

/// Sorts of differences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Class {
    /// A person changed it.
    EditedByHand,
    /// A program that is not the declarer changed it.
    AnotherManager,
    /// An autoscaler chooses it: no drift.
    Autoscaler,
    /// The server fills it in, or nobody is known to have written it.
    Defaulting,
    /// The declaration is newer than the last apply: to be applied, not drift.
    NotYetApplied,
    /// Somebody said that it is known and will be dealt with.
    Acknowledged,
}

/// On a live object: drift of fields that is known, as a JSON map from path to the time until when.
pub const ACKNOWLEDGED: &str = "setpoint.dev/drift-acknowledged";

impl DriftReport {
    /// Whether somebody else changed something that is declared.
    pub fn has_drifted(&self) -> bool {
        let is_drift = |field: &DriftedField| matches!(field.class, Class::EditedByHand | Class::AnotherManager);
        self.objects.iter().any(|object| object.missing || object.fields.iter().any(is_drift))
    }
}

/// Compares what is declared with the world.
pub fn drift(world: &World, wish: &Wish) -> DriftReport {
    let wish = Wish { force: true, replace: false, deletions: Vec::new(), updates: Vec::new(), ..wish.clone() };
    let mut troupe = Troupe::new(Fork::of(world), world.view.clone(), Limits::default());
    let told = declared::perform(&mut troupe, &wish);
    let compared = told.len();
    let objects = told.into_iter().filter_map(|(key, change)| {
        let live = key.and_then(|key| world.view.get_key(&key));
        let log = live.as_ref().map(|object| api::change_log(object.entry())).unwrap_or_default();
        let known = live.map(|object| acknowledged(&object.tree(), world.now)).unwrap_or_default();
        drifted(change, &log, &wish.manager, &known)
    });
    DriftReport { objects: objects.collect(), compared }
}

/// The fields of an object whose drift is known now.
fn acknowledged(object: &Value, now: Time) -> Vec<String> {
    let told =
        object.annotation(ACKNOWLEDGED).and_then(|text| serde_json::from_str::<Value>(text).ok()).unwrap_or_default();
    let is_open = |until: &Value| until.as_str().and_then(Time::parse).is_some_and(|until| now < until);
    let fields = told.as_object().into_iter().flatten().filter(|(_, until)| is_open(until));
    fields.map(|(path, _)| path.clone()).collect()
}

fn drifted(change: Change, log: &[FieldChange], manager: &str, known: &[String]) -> Option<Drifted> {
    let kept = change.kept.iter().map(|kept| DriftedField {
        path: kept.path.clone(),
        declared: Some(kept.declared.clone()),
        live: Some(kept.value.clone()),
        class: Class::Autoscaler,
        manager: kept.by.clone(),
        user: String::new(),
        verb: String::new(),
        time: String::new(),
    });
    let differing = change.fields.iter().filter(|_| change.action == Action::Update);
    let fields: Vec<DriftedField> = differing
        .map(|field| {
            let last = last_change(log, &field.path).filter(|last| !last.field.is_empty());
            let told = DriftedField {
                path: field.path.clone(),
                declared: field.new.clone(),
                live: field.old.clone(),
                class: if known.contains(&field.path) { Class::Acknowledged } else { class_of(last, manager) },
                manager: String::new(),
                user: String::new(),
                verb: String::new(),
                time: String::new(),
            };
            match last {
                None => told,
                Some(last) => DriftedField {
                    manager: last.manager.clone(),
                    user: last.user.clone(),
                    verb: last.verb.clone(),
                    time: Time::from_secs(last.time).to_rfc3339(),
                    ..told
                },
            }
        })
        .chain(kept)
        .collect();
    let found = Drifted {
        object: change.object,
        missing: change.action == Action::Create,
        refused: if change.action == Action::Refuse { change.reason } else { String::new() },
        fields,
    };
    (found.missing || !found.refused.is_empty() || !found.fields.is_empty()).then_some(found)
}

fn class_of(last: Option<&FieldChange>, manager: &str) -> Class {
    match last {
        // The object is as it was made, so the declaration has changed since; or the log does not go back so far.
        None => Class::NotYetApplied,
        Some(last) if last.manager == manager => Class::NotYetApplied,
        Some(last) if last.manager == "horizontal-pod-autoscaler-controller" => Class::Autoscaler,
        Some(last) if is_program(&last.user) => Class::AnotherManager,
        Some(_) => Class::EditedByHand,
    }
}

fn is_program(user: &str) -> bool {
    user.starts_with("system:")
}
