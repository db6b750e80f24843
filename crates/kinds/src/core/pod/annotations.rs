//! Annotations that mean something to pods, and how they agree with the fields that replaced them.

use meta::{FieldError, ObjectExt};
use serde_json::{Map, Value, json};

use super::affinity::tolerations;
use super::path::descending;
use crate::check::{At, Faults};

/// Marks the API's image of a pod that a node runs by itself.
pub const MIRROR: &str = "kubernetes.io/config.mirror";
/// Replaced by `seccompProfile`.
pub(crate) const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
/// Followed by a container's name.
pub(crate) const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
/// Followed by a container's name; replaced by `appArmorProfile`.
pub(crate) const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";

/// Checks the annotations of a pod or of a template; `at` is the map.
pub(crate) fn check(at: &At, spec: &Value, faults: &mut Faults) {
    for (key, entry) in at.entries() {
        let value = entry.text();
        match key {
            MIRROR if spec.text(&["nodeName"]).is_empty() => {
                faults.push(entry.invalid("must set spec.nodeName if mirror pod annotation is set"));
            }
            TOLERATIONS if !value.is_empty() => old_tolerations(at, value, faults),
            DELETION_COST if !is_cost(value) => faults.push(entry.invalid("must be a 32bit integer")),
            _ => {}
        }
    }
    for (key, entry) in at.entries() {
        if key == SECCOMP_POD || key.starts_with(SECCOMP_CONTAINER) {
            seccomp(&at.field(key).with(entry.value), faults);
        }
    }
    for (key, entry) in at.entries() {
        if let Some(container) = key.strip_prefix(APP_ARMOR) {
            app_armor(&entry, container, spec, faults);
        }
    }
}

fn old_tolerations(at: &At, value: &str, faults: &mut Faults) {
    match serde_json::from_str::<Value>(value) {
        Ok(list) => tolerations(&at.field(TOLERATIONS).with(&list), faults),
        Err(fault) => faults.push(at.invalid_as(TOLERATIONS, fault.to_string())),
    }
}

/// A plain 32-bit number: no plus, no leading zeros.
fn is_cost(value: &str) -> bool {
    let padded = value.starts_with('+') || (value.len() > 1 && value.starts_with('0'));
    value.is_empty() || (!padded && value.parse::<i32>().is_ok())
}

fn seccomp(at: &At, faults: &mut Faults) {
    match at.text() {
        "runtime/default" | "docker/default" | "unconfined" => {}
        text => match text.strip_prefix("localhost/") {
            Some(path) => descending(&at.with(&json!(path)), faults),
            None => faults.push(at.invalid("must be a valid seccomp profile")),
        },
    }
}

fn app_armor(at: &At, container: &str, spec: &Value, faults: &mut Faults) {
    let mut found = false;
    super::each_container(&At::root(spec), |c| found |= c.field("name").text() == container);
    if !found {
        faults.push(at.invalid_as(container, "container not found"));
    }
    let value = at.text();
    if !matches!(value, "" | "runtime/default" | "unconfined") && !value.starts_with("localhost/") {
        faults.push(at.invalid(format!("invalid AppArmor profile name: {value:?}")));
    }
}

/// What an AppArmor annotation says, as a field.
pub(crate) fn app_armor_field(annotation: &str) -> Option<Value> {
    match annotation {
        "unconfined" => Some(json!({"type": "Unconfined"})),
        "runtime/default" => Some(json!({"type": "RuntimeDefault"})),
        other => {
            let path = other.strip_prefix("localhost/").filter(|path| !path.is_empty())?;
            Some(json!({"type": "Localhost", "localhostProfile": path}))
        }
    }
}

/// Checks that old annotations and new fields say the same.
pub(crate) fn agree(annotations: Option<&Map<String, Value>>, spec: &At, faults: &mut Faults) {
    let annotation = |key: &str| annotations.and_then(|map| map.get(key)).and_then(Value::as_str);
    let pod = spec.field("securityContext");
    if let Some(text) = annotation(SECCOMP_POD) {
        seccomp_agrees(text, &pod.field("seccompProfile"), faults);
    }
    super::each_container(spec, |container| {
        if let Some(text) = annotation(&format!("{SECCOMP_CONTAINER}{}", container.field("name").text())) {
            seccomp_agrees(text, &container.field("securityContext").field("seccompProfile"), faults);
        }
    });
    if spec.value.text(&["os", "name"]) == "windows" {
        return;
    }
    super::each_container(spec, |container| {
        if let Some(text) = annotation(&format!("{APP_ARMOR}{}", container.field("name").text())) {
            let own = container.field("securityContext");
            let own = own.field("appArmorProfile");
            let profile = if own.is_set() { own.value } else { pod.field("appArmorProfile").value };
            profile_agrees(text, &own.with(profile), "apparmor", faults);
        }
    });
}

fn seccomp_agrees(text: &str, at: &At, faults: &mut Faults) {
    let text = if text == "docker/default" { "runtime/default" } else { text };
    profile_agrees(text, at, "seccomp", faults);
}

fn profile_agrees(text: &str, at: &At, noun: &str, faults: &mut Faults) {
    let by_type = |expected: bool, faults: &mut Faults| {
        if !expected {
            faults.push(at.field("type").forbidden(format!("{noun} type in annotation and field must match")));
        }
    };
    match at.value.text(&["type"]) {
        "Unconfined" => by_type(text == "unconfined", faults),
        "RuntimeDefault" => by_type(text == "runtime/default", faults),
        "Localhost" => match text.strip_prefix("localhost/") {
            None => by_type(false, faults),
            Some(path) if at.field("localhostProfile").value != path => {
                let detail = format!("{noun} profile in annotation and field must match");
                faults.push(at.field("localhostProfile").forbidden(detail));
            }
            Some(_) => {}
        },
        _ => {}
    }
}

/// Checks a change of the annotations of a pod; `new` is the map.
pub(crate) fn check_update(new: &At, old: Option<&Map<String, Value>>, spec: &Value, faults: &mut Faults) {
    let watched = |key: &str| key.starts_with(APP_ARMOR) || key == MIRROR;
    let noun = |key: &str| if key == MIRROR { "mirror pod annotation" } else { "AppArmor annotations" };
    for (key, value) in old.into_iter().flatten().filter(|(key, _)| watched(key)) {
        if new.value.get(key) != Some(value) {
            let at = new.path.key(key);
            faults.push(FieldError::forbidden(at, format!("may not remove or update {}", noun(key))));
        }
    }
    for (key, entry) in new.entries().filter(|(key, _)| watched(key)) {
        if old.is_none_or(|old| !old.contains_key(key)) {
            faults.push(entry.forbidden(format!("may not add {}", noun(key))));
        }
    }
    check(new, spec, faults);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(faults: &Faults) -> Vec<String> {
        faults.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn annotations_read_like_upstream() {
        let spec = json!({"containers": [{"name": "c"}]});
        let run = |key: &str, value: &str, expected: &[&str]| {
            let object = json!({"a": {key: value}});
            let mut faults = Faults::new();
            check(&At::root(&object).field("a"), &spec, &mut faults);
            assert_eq!(texts(&faults), expected);
        };
        run(DELETION_COST, "-5", &[]);
        run(DELETION_COST, "05", &[&format!("a[{DELETION_COST}]: Invalid value: \"05\": must be a 32bit integer")]);
        run(&format!("{APP_ARMOR}c"), "runtime/default", &[]);
        run(
            &format!("{APP_ARMOR}x"),
            "bad",
            &[
                &format!("a[{APP_ARMOR}x]: Invalid value: \"x\": container not found"),
                &format!("a[{APP_ARMOR}x]: Invalid value: \"bad\": invalid AppArmor profile name: \"bad\""),
            ],
        );
        run(SECCOMP_POD, "x", &[&format!("a.{SECCOMP_POD}: Invalid value: \"x\": must be a valid seccomp profile")]);
    }

    #[test]
    fn fields_must_agree() {
        let annotations = json!({ SECCOMP_POD: "unconfined" });
        let check = |profile: Value, expected: &[&str]| {
            let spec = json!({"securityContext": {"seccompProfile": profile}});
            let mut faults = Faults::new();
            agree(annotations.as_object(), &At::root(&spec), &mut faults);
            assert_eq!(texts(&faults), expected);
        };
        check(json!({"type": "Unconfined"}), &[]);
        check(
            json!({"type": "RuntimeDefault"}),
            &["securityContext.seccompProfile.type: Forbidden: seccomp type in annotation and field must match"],
        );
    }
}
