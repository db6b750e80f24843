//! Fields that managers keep taking from one another, read from the change log: a value that goes away and comes back,
//! each time by the hand of the other. A rollout, a ramp of an autoscaler or a change of leader does not do that.
//!
//! A write that goes on with a fight is told by an event. What else is done about it is the user's choice, by the
//! annotation [`POLICY`] on the object or its namespace: nothing, make whoever lost wait longer and longer before it may
//! take the field back (`slow`), or leave the field as it is until somebody decides (`freeze`).

use kinds::KindDef;
use meta::{ApiError, FieldError, ObjectExt, Time};
use serde_json::{Value, json};
use store::{Key, Keyspace, Op};

use crate::changes::{FieldChange, Logged};
use crate::{World, encode};

/// The annotation that says what is done about fights over an object's fields, or over those of a namespace's objects.
pub const POLICY: &str = "setpoint.dev/fights";
/// How often the other must take back what one took: A, B, A, B is the third round.
const REVERSALS_MIN: usize = 2;
/// When values are too long or too secret to be kept, only hands can be counted.
const HANDS_MIN: usize = 5;
/// The longest that a slowed manager waits, in seconds: twice an hour is no load, and still heals what only seemed a fight.
const WAIT_MAX: i64 = 1_800;
/// A fight of five rounds a second is told once a minute, in seconds.
const TOLD_EVERY: i64 = 60;

/// A fight over one field, as far as the log goes back.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldFight {
    /// Its changes, oldest first; never empty.
    changes: Vec<FieldChange>,
}

impl FieldFight {
    /// The field's path.
    pub fn path(&self) -> &str {
        &self.last().field
    }

    /// How often the field changed hands.
    pub fn rounds(&self) -> usize {
        self.changes.len()
    }

    /// The change that the log shows first.
    pub fn first(&self) -> &FieldChange {
        &self.changes[0]
    }

    /// The newest change: who made it has won, for now.
    pub fn last(&self) -> &FieldChange {
        &self.changes[self.changes.len() - 1]
    }

    /// The newest change of the other side: who made it has lost, for now.
    pub fn lost(&self) -> &FieldChange {
        &self.changes[self.changes.len().saturating_sub(2)]
    }

    /// Seconds between two changes, on average.
    pub fn period_seconds(&self) -> f64 {
        #[allow(clippy::cast_precision_loss)]
        let (span, steps) = ((self.last().time - self.first().time) as f64, self.rounds().saturating_sub(1) as f64);
        span / steps.max(1.0)
    }

    fn is_between(&self, manager: &str) -> bool {
        self.last().manager == manager || self.lost().manager == manager
    }
}

/// What is done about fights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Policy {
    #[default]
    Report,
    Slow,
    Freeze,
}

impl Policy {
    fn parse(text: &str) -> Option<Policy> {
        match text {
            "report" => Some(Policy::Report),
            "slow" => Some(Policy::Slow),
            "freeze" => Some(Policy::Freeze),
            _ => None,
        }
    }

    /// What stands on the object before the write (a manager cannot lift it by the way), or on its namespace.
    fn of(world: World<'_>, old: &Value) -> Policy {
        let said = |object: &Value| object.annotation(POLICY).and_then(Policy::parse);
        said(old).or_else(|| said(&namespace_of(world, old)?)).unwrap_or_default()
    }
}

fn namespace_of(world: World<'_>, object: &Value) -> Option<Value> {
    let entry = world.snapshot.get_key(&Key::new("core/namespaces", object.namespace()))?;
    meta::stored::read(&entry.value).ok()
}

/// What is wrong with an object's policy.
pub(crate) fn faults(object: &Value) -> Option<FieldError> {
    let text = object.annotation(POLICY).filter(|text| Policy::parse(text).is_none())?;
    let path = format!("metadata.annotations[{POLICY}]");
    Some(FieldError::not_supported(path, json!(text), &["freeze", "report", "slow"]))
}

/// The fights that a log shows, by the fields' paths.
pub fn fights_in(log: &[FieldChange]) -> Vec<FieldFight> {
    let mut fields: Vec<&str> = log.iter().map(|change| &*change.field).filter(|field| !field.is_empty()).collect();
    fields.sort_unstable();
    fields.dedup();
    fields.into_iter().filter_map(|field| fight_at_end(&of_field(field, log))).collect()
}

fn of_field<'l>(field: &str, log: &'l [FieldChange]) -> Vec<&'l FieldChange> {
    log.iter().filter(|change| change.field == field).collect()
}

/// The fight that the changes of one field end with: the newest run of them that each take back the one before.
fn fight_at_end(changes: &[&FieldChange]) -> Option<FieldFight> {
    let run = changes.windows(3).rev().take_while(|three| takes_back(three[0], three[1], three[2])).count();
    let fought = &changes[changes.len().saturating_sub(run + 2)..];
    let is_told = fought.iter().all(|change| !change.left_out);
    let is_fight = run >= if is_told { REVERSALS_MIN } else { HANDS_MIN };
    is_fight.then(|| FieldFight { changes: fought.iter().map(|change| (*change).clone()).collect() })
}

/// Whether the third change brings back what the second one took away, by the same hand as the first.
fn takes_back(first: &FieldChange, second: &FieldChange, third: &FieldChange) -> bool {
    first.manager != second.manager && first.manager == third.manager && first.new == third.new
}

/// The fights that a write goes on with; an error when the policy does not let it.
pub(crate) fn guard(
    world: World<'_>,
    kind: &KindDef,
    old: &Value,
    logged: &Logged,
) -> Result<Vec<FieldFight>, ApiError> {
    let mut policy = None;
    let mut fights = Vec::new();
    for change in &logged.added {
        let mut changes = of_field(&change.field, &logged.before);
        // Whose last two changes are of one hand is no fight, with this change or without it: nearly every write ends here.
        if !matches!(changes[..], [.., one, other] if one.manager != other.manager) {
            continue;
        }
        let before = fight_at_end(&changes);
        changes.push(change);
        let after = fight_at_end(&changes);
        if before.is_none() && after.is_none() {
            continue;
        }
        let refusal = match *policy.get_or_insert_with(|| Policy::of(world, old)) {
            Policy::Report => None,
            Policy::Slow => after.as_ref().and_then(|fight| slowed(fight, change)),
            Policy::Freeze => before.as_ref().and_then(|fight| frozen(kind, old, fight, change)),
        };
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
        fights.extend(after);
    }
    Ok(fights)
}

/// Whoever lost waits twice as long each time, from one second.
fn slowed(fight: &FieldFight, change: &FieldChange) -> Option<ApiError> {
    let doublings = u32::try_from(fight.rounds() - REVERSALS_MIN - 2).unwrap_or(u32::MAX).min(16);
    let wait = (1_i64 << doublings).min(WAIT_MAX);
    let left = fight.lost().time + wait - change.time;
    let message = format!(
        "{} and {} fight over {}: {} lost it and may take it back in {left} s (annotation {POLICY}: slow)",
        change.manager,
        fight.lost().manager,
        fight.path(),
        change.manager
    );
    (left > 0).then(|| ApiError::too_many_requests(message, u32::try_from(left).unwrap_or(1)))
}

/// Nobody of the two writes the field any more; others decide.
fn frozen(kind: &KindDef, old: &Value, fight: &FieldFight, change: &FieldChange) -> Option<ApiError> {
    let why = format!(
        "{} and {} fight over {}, which is frozen (annotation {POLICY}: freeze): remove the field from one of them, or \
         the annotation",
        fight.lost().manager,
        fight.last().manager,
        fight.path()
    );
    fight.is_between(&change.manager).then(|| ApiError::forbidden(&kind.group_resource(), old.name(), why))
}

/// The events of fights that a write goes on with, as parts of its transaction. They name fields and managers, no values:
/// who may read events may not be who may read the object.
pub(crate) fn events<'f>(
    world: World<'f>,
    object: &'f Value,
    fights: &'f [FieldFight],
) -> impl Iterator<Item = Op> + use<'f> {
    fights.iter().filter_map(move |fight| event(world, object, fight))
}

fn event(world: World<'_>, object: &Value, fight: &FieldFight) -> Option<Op> {
    const COMPONENT: &str = "setpoint-fights";
    let namespace = if object.namespace().is_empty() { "default" } else { object.namespace() };
    let name = brain::child_name(&format!("{}.", object.name()), [object.uid(), fight.path()]);
    let key = Key::new("core/events", format!("{namespace}/{name}"));
    let told = world.snapshot.get_key(&key).and_then(|entry| meta::stored::read(&entry.value).ok());
    let told_at = told.as_ref().and_then(|told: &Value| Time::parse(told.text(&["lastTimestamp"])));
    if told_at.is_some_and(|at| world.now.as_secs() - at.as_secs() < TOLD_EVERY) {
        return None;
    }
    let now = world.now.to_rfc3339();
    let mut event: Value = told.unwrap_or_else(|| {
        json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": name, "namespace": namespace, "uid": world.ids.uid(), "creationTimestamp": now},
            "involvedObject": {
                "apiVersion": object.text(&["apiVersion"]), "kind": object.text(&["kind"]), "name": object.name(),
                "namespace": object.namespace(), "uid": object.uid(), "fieldPath": fight.path(),
            },
            "reason": "FieldFight", "type": "Warning", "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT, "reportingInstance": "", "firstTimestamp": now,
        })
    });
    event.put(&["message"], message(fight));
    event.put(&["lastTimestamp"], now);
    event.put(&["count"], event.int(&["count"]).unwrap_or(0) + 1);
    let (value, stamp_at) = encode(&event);
    let annex = bytes::Bytes::new();
    Some(Op::Put { key, value, annex, stamp_at: Some(stamp_at), keyspace: Keyspace::Volatile })
}

fn message(fight: &FieldFight) -> String {
    let (won, lost) = (fight.last(), fight.lost());
    format!(
        "{} ({}) and {} ({}) fight over {}: {} rounds since {}, one every {:.1} s; see setpoint fights",
        won.manager,
        won.verb,
        lost.manager,
        lost.verb,
        fight.path(),
        fight.rounds(),
        Time::from_secs(fight.first().time).to_rfc3339(),
        fight.period_seconds()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(manager: &str, value: i64, time: i64) -> FieldChange {
        FieldChange {
            field: "spec.replicas".to_owned(),
            manager: manager.to_owned(),
            user: manager.to_owned(),
            verb: "update".to_owned(),
            old: None,
            new: Some(json!(value)),
            time,
            left_out: false,
        }
    }

    fn log(changes: &[(&str, i64, i64)]) -> Vec<FieldChange> {
        changes.iter().map(|(manager, value, time)| change(manager, *value, *time)).collect()
    }

    fn found(changes: &[(&str, i64, i64)]) -> Vec<(usize, f64)> {
        fights_in(&log(changes)).iter().map(|fight| (fight.rounds(), fight.period_seconds())).collect()
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

    /// After how many seconds the loser of a fight with this many rounds may take the field back.
    fn wait(rounds: usize) -> i64 {
        let turns = |n: usize| if n.is_multiple_of(2) { ("a", 1) } else { ("b", 2) };
        let changes: Vec<_> = (0..rounds).map(|n| (turns(n).0, turns(n).1, 100)).collect();
        let mut left = 0;
        loop {
            let mut all = log(&changes);
            let next = change(turns(rounds).0, turns(rounds).1, 100 + left);
            all.push(next.clone());
            let fight = fight_at_end(&of_field("spec.replicas", &all)).expect("a fight");
            if slowed(&fight, &next).is_none() {
                return left;
            }
            left += 1;
        }
    }

    #[test]
    fn the_loser_waits_longer_and_longer() {
        assert_eq!([3, 4, 5, 10].map(wait), [1, 2, 4, 128]);
        assert_eq!(wait(30), WAIT_MAX);
    }
}
