//! When a Job has failed or succeeded before all its pods have.

use std::collections::BTreeSet;

use meta::{FieldError, ObjectExt, name};
use serde_json::Value;

use super::indexes;
use crate::check::{At, Faults, named, non_negative};

/// Rules and patterns, as upstream limits them.
const FAILURE_RULES_MAX: usize = 20;
const CONDITIONS_MAX: usize = 20;
const EXIT_CODES_MAX: usize = 255;
const SUCCESS_RULES_MAX: usize = 20;
/// 64 KiB.
const INDEXES_BYTES_MAX: usize = 64 * 1024;
const ACTIONS: &[&str] = &["Count", "FailIndex", "FailJob", "Ignore"];
const OPERATORS: &[&str] = &["In", "NotIn"];
const BOTH: &str = "specifying both OnExitCodes and OnPodConditions is not supported";
const NEITHER: &str = "specifying one of OnExitCodes and OnPodConditions is required";
const STATUSES: &[&str] = &["False", "True", "Unknown"];

/// A value is there and among the supported ones; the fault lists them as Go prints a list.
fn listed(at: &At, supported: &[&str], faults: &mut Faults) {
    if at.text().is_empty() {
        let list = supported.iter().map(|value| format!("{value:?}")).collect::<Vec<_>>().join(" ");
        faults.push(at.required(format!("valid values: [{list}]")));
    } else if !supported.contains(&at.text()) {
        faults.push(at.unsupported(supported));
    }
}

fn at_most(at: &At, max: usize, faults: &mut Faults) {
    if at.items().len() > max {
        faults.push(FieldError::too_many(at.path, at.items().len(), max));
    }
}

/// Checks `podFailurePolicy`.
pub(crate) fn failure(spec: &At, faults: &mut Faults) {
    let policy = spec.field("podFailurePolicy");
    let rules = policy.field("rules");
    at_most(&rules, FAILURE_RULES_MAX, faults);
    let pods = &spec.value["template"]["spec"];
    let containers = pods.items(&["containers"]).iter().chain(pods.items(&["initContainers"]));
    let names: BTreeSet<&str> = containers.map(|container| container.text(&["name"])).collect();
    rules.each().for_each(|rule| failure_rule(&rule, spec.value, &names, faults));
}

fn failure_rule(rule: &At, spec: &Value, containers: &BTreeSet<&str>, faults: &mut Faults) {
    let (action, codes, conditions) = (rule.field("action"), rule.field("onExitCodes"), rule.field("onPodConditions"));
    if action.text() != "FailIndex" {
        listed(&action, ACTIONS, faults);
    } else if spec.get("backoffLimitPerIndex").is_none() {
        faults.push(action.invalid("requires the backoffLimitPerIndex to be set"));
    }
    if codes.is_set() {
        exit_codes(&codes, containers, faults);
    }
    at_most(&conditions, CONDITIONS_MAX, faults);
    for condition in conditions.each() {
        named(&condition.field("type"), name::qualified_name, faults);
        listed(&condition.field("status"), STATUSES, faults);
    }
    match (codes.is_set(), conditions.items().is_empty()) {
        (true, false) => faults.push(FieldError::invalid_whole(rule.path, BOTH)),
        (false, true) => faults.push(FieldError::invalid_whole(rule.path, NEITHER)),
        _ => {}
    }
}

fn exit_codes(at: &At, containers: &BTreeSet<&str>, faults: &mut Faults) {
    let (operator, container, values) = (at.field("operator"), at.field("containerName"), at.field("values"));
    listed(&operator, OPERATORS, faults);
    if container.is_set() && !containers.contains(container.text()) {
        faults.push(container.invalid("must be one of the container or initContainer names in the pod template"));
    }
    if values.items().is_empty() {
        faults.push(values.invalid("at least one value is required"));
    }
    at_most(&values, EXIT_CODES_MAX, faults);
    let mut seen = BTreeSet::new();
    for value in values.each() {
        if operator.text() == "In" && value.number() == 0 {
            faults.push(value.invalid("must not be 0 for the In operator"));
        }
        if !seen.insert(value.number()) {
            faults.push(value.duplicate());
        }
    }
    if !values.items().iter().map(|value| value.as_i64().unwrap_or(0)).is_sorted() {
        faults.push(values.invalid("must be ordered"));
    }
}

/// Checks `successPolicy`.
pub(crate) fn success(spec: &At, faults: &mut Faults) {
    let policy = spec.field("successPolicy");
    let rules = policy.field("rules");
    if rules.items().is_empty() {
        let detail = "at least one rules must be specified when the successPolicy is specified";
        faults.push(rules.required(detail));
    }
    at_most(&rules, SUCCESS_RULES_MAX, faults);
    let completions = spec.field("completions").number();
    rules.each().for_each(|rule| success_rule(&rule, completions, faults));
}

fn success_rule(rule: &At, completions: i64, faults: &mut Faults) {
    let (count, set) = (rule.field("succeededCount"), rule.field("succeededIndexes"));
    if !count.is_set() && !set.is_set() {
        faults.push(rule.required("at least one of succeededCount or succeededIndexes must be specified"));
    }
    if set.text().len() > INDEXES_BYTES_MAX {
        faults.push(FieldError::too_long(set.path, INDEXES_BYTES_MAX));
    }
    let total = indexes::count(set.text(), completions).unwrap_or_else(|fault| {
        faults.push(set.invalid(format!("error parsing succeededIndexes: {fault}")));
        0
    });
    if !count.is_set() {
        return;
    }
    non_negative(&count, faults);
    let mut bounded = |max: i64, noun: &str| {
        if count.number() > max {
            faults.push(count.invalid(format!("must be less than or equal to {max} ({noun})")));
        }
    };
    bounded(completions, "the number of specified completions");
    if set.is_set() {
        bounded(total, "the number of indexes in the specified succeededIndexes field");
    }
}
