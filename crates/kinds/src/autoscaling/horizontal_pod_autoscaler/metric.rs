//! What an autoscaler measures.

use meta::labels::Selector;
use meta::{Quantity, name};

use super::check_reference;
use crate::check::{At, Faults};

/// The kinds of metric, and the field that holds each.
pub(super) const SOURCES: &[(&str, &str)] = &[
    ("ContainerResource", "containerResource"),
    ("External", "external"),
    ("Object", "object"),
    ("Pods", "pods"),
    ("Resource", "resource"),
];
const NO_ZERO: &str = "must specify at least one Object or External metric to support scaling to zero replicas";

/// `to_zero`: the autoscaler may go down to no pods, which then cannot be measured themselves.
pub(super) fn check_all(metrics: &At, to_zero: bool, faults: &mut Faults) {
    metrics.each().for_each(|metric| check(&metric, faults));
    let seen_from_outside = metrics.each().any(|metric| matches!(metric.field("type").text(), "Object" | "External"));
    if to_zero && !seen_from_outside {
        faults.push(metrics.forbidden(NO_ZERO));
    }
}

fn check(metric: &At, faults: &mut Faults) {
    let kind = metric.field("type");
    let names: Vec<&str> = SOURCES.iter().map(|(name, _)| *name).collect();
    if kind.text().is_empty() {
        faults.push(kind.required("must specify a metric source type"));
    } else if !names.contains(&kind.text()) {
        faults.push(kind.unsupported(&names));
    }
    let present: Vec<&str> = SOURCES.iter().map(|(_, field)| *field).filter(|field| metric.has(field)).collect();
    present.iter().for_each(|field| check_source(&metric.field(field), field, faults));
    let Some((_, wanted)) = SOURCES.iter().find(|(name, _)| *name == kind.text()) else { return };
    if !present.contains(wanted) {
        faults.push(metric.field(wanted).required("must populate information for the given metric source"));
    }
    let surplus = present.iter().filter(|field| *field != wanted);
    faults.extend(surplus.map(|field| metric.field(field).forbidden("must populate the given metric source only")));
}

fn check_source(source: &At, field: &str, faults: &mut Faults) {
    let target = source.field("target");
    match field {
        "object" => {
            check_reference(&source.field("describedObject"), true, faults);
            check_identifier(&source.field("metric"), faults);
            check_target(&target, faults);
            if !target.has("value") && !target.has("averageValue") {
                faults.push(target.field("averageValue").required("must set either a target value or averageValue"));
            }
        }
        "external" => {
            check_identifier(&source.field("metric"), faults);
            check_target(&target, faults);
            check_external(&target, faults);
        }
        "pods" => {
            check_identifier(&source.field("metric"), faults);
            check_target(&target, faults);
            if !is_positive(&target.field("averageValue")) {
                faults.push(target.field("averageValue").required("must specify a positive target averageValue"));
            }
        }
        _ => check_resource(source, &target, field == "containerResource", faults),
    }
}

fn check_external(target: &At, faults: &mut Faults) {
    match (target.has("value"), target.has("averageValue")) {
        (true, true) => faults
            .push(target.field("value").forbidden("may not set both a target value for metric and a per-pod target")),
        (false, false) => faults.push(
            target.field("averageValue").required("must set either a target value for metric or a per-pod target"),
        ),
        _ => {}
    }
}

fn check_resource(source: &At, target: &At, of_container: bool, faults: &mut Faults) {
    if source.field("name").text().is_empty() {
        faults.push(source.field("name").required("must specify a resource name"));
    }
    if of_container && source.field("container").text().is_empty() {
        faults.push(source.field("container").required("must specify a container"));
    }
    check_target(target, faults);
    match (target.has("averageUtilization"), target.has("averageValue")) {
        (true, true) => faults.push(
            target.field("averageValue").forbidden("may not set both a target raw value and a target utilization"),
        ),
        (false, false) => faults.push(
            target.field("averageUtilization").required("must set either a target raw value or a target utilization"),
        ),
        _ => {}
    }
}

fn check_identifier(metric: &At, faults: &mut Faults) {
    let own = metric.field("name");
    if own.text().is_empty() {
        faults.push(own.required("must specify a metric name"));
    } else {
        faults.extend(name::path_segment(own.text()).into_iter().map(|fault| own.invalid(fault)));
    }
    let selector = metric.field("selector");
    if selector.is_set() {
        faults.extend(Selector::validate(selector.value, &selector.path));
    }
}

fn check_target(target: &At, faults: &mut Faults) {
    let kind = target.field("type");
    match kind.text() {
        "" => faults.push(kind.required("must specify a metric target type")),
        "Utilization" | "Value" | "AverageValue" => {}
        _ => faults.push(kind.invalid("must be either Utilization, Value, or AverageValue")),
    }
    for field in ["value", "averageValue"] {
        let at = target.field(field);
        if at.is_set() && !is_positive(&at) {
            faults.push(at.invalid("must be positive"));
        }
    }
    let share = target.field("averageUtilization");
    if share.int().is_some_and(|share| share < 1) {
        faults.push(share.invalid("must be greater than 0"));
    }
}

fn is_positive(at: &At) -> bool {
    Quantity::parse(at.text()).is_ok_and(|amount| !amount.is_zero() && !amount.is_negative())
}

#[cfg(test)]
mod tests {
    use super::super::v2::tests::check;
    use serde_json::{Value, json};

    #[test]
    fn faults() {
        let check = |metric: Value, expected: &[&str]| check(&["spec", "metrics"], json!([metric]), expected);
        let share = json!({"type": "Utilization", "averageUtilization": 50});
        check(json!({"type": "Resource", "resource": {"name": "cpu", "target": share}}), &[]);
        check(
            json!({"type": "ContainerResource", "resource": {"name": "cpu", "target": share}}),
            &[
                "spec.metrics[0].containerResource: Required value: must populate information for the given metric source",
                "spec.metrics[0].resource: Forbidden: must populate the given metric source only",
            ],
        );
        check(
            json!({"type": "Pods", "pods": {"metric": {"name": "a/b"}, "target": {"type": "Much", "averageValue": "0"}}}),
            &[
                "spec.metrics[0].pods.metric.name: Invalid value: \"a/b\": may not contain '/'",
                "spec.metrics[0].pods.target.type: Invalid value: \"Much\": must be either Utilization, Value, or AverageValue",
                "spec.metrics[0].pods.target.averageValue: Invalid value: \"0\": must be positive",
                "spec.metrics[0].pods.target.averageValue: Required value: must specify a positive target averageValue",
            ],
        );
    }
}
