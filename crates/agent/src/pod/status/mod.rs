//! The pod's status: what it should say, and the patch that makes it say so.

mod condition;
mod container;
mod phase;

use meta::ObjectExt;
use serde_json::{Map, Value, json};

use super::memory::Verdict;
use super::scene::{Ending, Here, Past, Scene};
use super::spec::LISTS;
use super::step::Step;
use super::{Turn, backoff};
use crate::resize;

/// A container's id as a status shows it: behind the name of the runtime.
pub(super) fn container_id(here: &Here, id: &str) -> String {
    format!("{}://{id}", here.runtime)
}

/// Fields that are taken out again when they do not hold any more.
const PASSING: [&str; 2] = ["reason", "message"];
/// Conditions that are there only while they hold. All others are others' or say `False`.
const PASSING_CONDITIONS: [&str; 2] = [resize::PENDING, resize::IN_PROGRESS];
/// Lists that the API merges by address.
const BY_ADDRESS: [&str; 2] = ["podIPs", "hostIPs"];

/// Reports the status where the API shows another one. Whether it shows this one.
pub(super) fn report(scene: &Scene<'_>, ending: Option<&Ending>, turn: &mut Turn) -> bool {
    let old = &scene.pod.object["status"];
    let new = status(scene, ending);
    match difference(old, &new) {
        None => true,
        Some(patch) => {
            let patch = json!({ "status": patch });
            match scene.memory.same_report(&patch).filter(|again| *again > scene.now) {
                Some(again) => turn.wake_at(again),
                None => {
                    turn.attempt(scene, Step::Report { patch }, backoff::LOOK);
                }
            }
            false
        }
    }
}

/// What the status should be.
fn status(scene: &Scene<'_>, ending: Option<&Ending>) -> Value {
    let verdict = ending.and_then(|ending| ending.verdict.as_ref());
    let object = scene.pod.object;
    let mut next = json!({ "status": object["status"] });
    if object.text(&["status", "startTime"]).is_empty() {
        next.put(&["status", "startTime"], scene.now.to_rfc3339());
    }
    addresses(scene, &mut next);
    if object.generation() > 0 {
        next.put(&["status", "observedGeneration"], object.generation());
    }
    // What the API says of a pod that has ended stays when its containers are gone.
    let is_settled = scene.pod.is_finished() && scene.shown.containers.is_empty();
    if ((verdict.is_none() && !scene.pod.is_finished()) || has_begun(scene)) && !is_settled {
        for (list, statuses) in LISTS {
            let all: Vec<Value> = scene.pod.list(list).map(|c| container::status(scene, ending, &c)).collect();
            if !all.is_empty() {
                next.put(&["status", statuses], all);
            }
        }
    }
    settle_phase(scene, ending, verdict, &mut next);
    condition::set_all(scene, verdict, &mut next);
    next["status"].take()
}

/// Whether anything of the pod was ever started here.
fn has_begun(scene: &Scene<'_>) -> bool {
    scene.pod.containers().any(|container| !matches!(scene.past(&container), Past::Never))
}

/// A phase that is an end is shown only when nothing runs any more: others rely on that.
fn settle_phase(scene: &Scene<'_>, ending: Option<&Ending>, verdict: Option<&Verdict>, next: &mut Value) {
    if scene.pod.is_finished() {
        return;
    }
    let is_alive = scene.shown.alive().next().is_some();
    let (phase, reason, message) = match verdict {
        Some(verdict) => ("Failed", verdict.reason.as_str(), verdict.message.as_str()),
        None => (phase::phase(scene, ending, &next["status"]), "", ""),
    };
    if matches!(phase, "Succeeded" | "Failed") && is_alive {
        return;
    }
    next.put(&["status", "phase"], phase);
    for (field, text) in [("reason", reason), ("message", message)] {
        match text {
            "" => {
                next.remove(&["status", field]);
            }
            text => next.put(&["status", field], text),
        }
    }
}

fn addresses(scene: &Scene<'_>, next: &mut Value) {
    let host = &scene.here.ips;
    put_addresses(next, "hostIP", "hostIPs", host);
    let own = match scene.pod.is_on_host_network() {
        true => host.as_slice(),
        false => scene.sandbox().map_or(&[][..], |sandbox| &sandbox.ips),
    };
    put_addresses(next, "podIP", "podIPs", own);
}

fn put_addresses(next: &mut Value, one: &str, all: &str, ips: &[String]) {
    if let Some(first) = ips.first() {
        next.put(&["status", one], first.as_str());
        next.put(&["status", all], ips.iter().map(|ip| json!({ "ip": ip })).collect::<Vec<_>>());
    }
}

/// The strategic merge patch from one status to another; `None` when they are the same.
pub(crate) fn difference(old: &Value, new: &Value) -> Option<Value> {
    let empty = Map::new();
    let (old, new) = (old.as_object().unwrap_or(&empty), new.as_object().unwrap_or(&empty));
    let mut patch = Map::new();
    for (field, value) in new.iter().filter(|(field, value)| old.get(*field) != Some(value)) {
        let change = match field.as_str() {
            "conditions" => changed_conditions(old.get(field), value),
            name if BY_ADDRESS.contains(&name) => replaced(value),
            _ => value.clone(),
        };
        patch.insert(field.clone(), change);
    }
    for field in PASSING.iter().filter(|field| old.contains_key(**field) && !new.contains_key(**field)) {
        patch.insert((*field).to_owned(), Value::Null);
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// Conditions are merged by type: others may have written theirs meanwhile.
fn changed_conditions(old: Option<&Value>, new: &Value) -> Value {
    let before = old.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let all = new.as_array().map_or(&[][..], Vec::as_slice);
    let change = |condition: &Value| {
        let mut change = condition.clone();
        let old = before.iter().find(|old| old["type"] == condition["type"]);
        // What is not said any more has to be taken back: the merge keeps what it is not told of.
        for field in old.and_then(Value::as_object).into_iter().flat_map(Map::keys) {
            if condition.get(field).is_none() {
                change.put(&[field], Value::Null);
            }
        }
        change
    };
    let is_gone =
        |type_: &&&str| before.iter().any(|c| c["type"] == ***type_) && !all.iter().any(|c| c["type"] == ***type_);
    let gone = PASSING_CONDITIONS.iter().filter(is_gone).map(|type_| json!({"type": type_, "$patch": "delete"}));
    all.iter().filter(|condition| !before.contains(condition)).map(change).chain(gone).collect()
}

fn replaced(list: &Value) -> Value {
    let directive = std::iter::once(json!({"$patch": "replace"}));
    directive.chain(list.as_array().into_iter().flatten().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_holds_what_changed() {
        let check = |old: Value, new: Value, expected: Option<Value>| {
            assert_eq!(difference(&old, &new), expected, "{old} {new}");
        };
        check(json!({"phase": "Running"}), json!({"phase": "Running"}), None);
        check(
            json!({"phase": "Pending", "reason": "x"}),
            json!({"phase": "Running"}),
            Some(json!({"phase": "Running", "reason": null})),
        );
        check(
            json!({"conditions": [{"type": "A", "status": "True"}]}),
            json!({"conditions": [{"type": "A", "status": "True"}, {"type": "B", "status": "True"}]}),
            Some(json!({"conditions": [{"type": "B", "status": "True"}]})),
        );
        check(
            json!({"conditions": [{"type": "A", "status": "False", "message": "why"}]}),
            json!({"conditions": [{"type": "A", "status": "True"}]}),
            Some(json!({"conditions": [{"type": "A", "status": "True", "message": null}]})),
        );
        check(
            json!({"conditions": [{"type": "PodResizePending", "status": "True"}, {"type": "A", "status": "True"}]}),
            json!({"conditions": [{"type": "A", "status": "True"}]}),
            Some(json!({"conditions": [{"type": "PodResizePending", "$patch": "delete"}]})),
        );
        check(
            json!({"podIPs": [{"ip": "1"}]}),
            json!({"podIPs": [{"ip": "2"}]}),
            Some(json!({"podIPs": [{"$patch": "replace"}, {"ip": "2"}]})),
        );
    }
}
