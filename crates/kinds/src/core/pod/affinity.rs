//! Where a pod may run: affinity, tolerations, spreading.

use std::collections::BTreeSet;

use meta::labels::{Selector, validate_label_name};
use meta::{FieldError, ObjectExt, name};
use serde_json::Value;

use crate::check::{At, Faults, named, optional_one_of, positive, supported_text};

/// What a taint does to pods that do not tolerate it.
pub const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const NO_OPERATOR: &str = "not a valid selector operator";
const NO_SELECTOR: &str = "must not be specified when labelSelector is not set";

/// Checks `affinity`.
pub(crate) fn check(at: &At, faults: &mut Faults) {
    node_affinity(&at.field("nodeAffinity"), faults);
    for kind in ["podAffinity", "podAntiAffinity"] {
        let affinity = at.field(kind);
        affinity.field(REQUIRED).each().for_each(|term| pod_term(&term, faults));
        for weighted in affinity.field(PREFERRED).each() {
            weight(&weighted, faults);
            pod_term(&weighted.field("podAffinityTerm"), faults);
        }
    }
}

fn node_affinity(at: &At, faults: &mut Faults) {
    let required = at.field(REQUIRED);
    if required.is_set() {
        node_selector(&required, faults);
    }
    for preferred in at.field(PREFERRED).each() {
        weight(&preferred, faults);
        node_term(&preferred.field("preference"), false, faults);
    }
}

fn weight(at: &At, faults: &mut Faults) {
    let weight = at.field("weight");
    if !(1..=100).contains(&weight.number()) {
        faults.push(weight.invalid_as(weight.number(), "must be in the range 1-100"));
    }
}

/// Checks a `NodeSelector`.
pub(crate) fn node_selector(at: &At, faults: &mut Faults) {
    let terms = at.field("nodeSelectorTerms");
    if terms.items().is_empty() {
        faults.push(terms.required("must have at least one node selector term"));
    }
    terms.each().for_each(|term| node_term(&term, true, faults));
}

/// Checks one term; values of labels are looked at only where the term decides.
pub(crate) fn node_term(at: &At, check_values: bool, faults: &mut Faults) {
    for requirement in at.field("matchExpressions").each() {
        node_label(&requirement, check_values, faults);
    }
    at.field("matchFields").each().for_each(|requirement| node_field(&requirement, faults));
}

fn node_label(at: &At, check_values: bool, faults: &mut Faults) {
    let (operator, values) = (at.field("operator"), at.field("values"));
    match (operator.text(), values.items().len()) {
        ("In" | "NotIn", 0) => {
            faults.push(values.required("must be specified when `operator` is 'In' or 'NotIn'"));
        }
        ("Exists" | "DoesNotExist", 1..) => {
            faults.push(values.forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'"));
        }
        ("Gt" | "Lt", 0 | 2..) => {
            faults.push(values.required("must be specified single value when `operator` is 'Lt' or 'Gt'"));
        }
        ("In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt", _) => {}
        _ => faults.push(operator.invalid_as(operator.text(), NO_OPERATOR)),
    }
    faults.extend(validate_label_name(at.value.text(&["key"]), &at.field("key").path));
    if check_values {
        values.each().for_each(|value| named(&value, name::label_value, faults));
    }
}

fn node_field(at: &At, faults: &mut Faults) {
    let (operator, values, key) = (at.field("operator"), at.field("values"), at.field("key"));
    match operator.text() {
        "In" | "NotIn" if values.items().len() == 1 => {}
        "In" | "NotIn" => {
            let detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            faults.push(values.required(detail));
        }
        other => faults.push(operator.invalid_as(other, NO_OPERATOR)),
    }
    if key.text() == "metadata.name" {
        values.each().for_each(|value| named(&value, name::dns1123_subdomain, faults));
    } else {
        faults.push(key.invalid_as(key.text(), "not a valid field selector key"));
    }
}

fn pod_term(at: &At, faults: &mut Faults) {
    for selector in ["labelSelector", "namespaceSelector"] {
        faults.extend(Selector::validate(at.field(selector).value, &at.field(selector).path));
    }
    for namespace in at.field("namespaces").items() {
        named(&at.field("namespace").with(namespace), name::dns1123_label, faults);
    }
    label_keys(at, faults);
    let key = at.field("topologyKey");
    if key.text().is_empty() {
        faults.push(key.required("can not be empty"));
    }
    faults.extend(validate_label_name(key.text(), &key.path));
}

/// Checks `matchLabelKeys` and `mismatchLabelKeys` beside a selector.
fn label_keys(at: &At, faults: &mut Faults) {
    let (wanted, unwanted) = (at.field("matchLabelKeys"), at.field("mismatchLabelKeys"));
    for keys in [&wanted, &unwanted] {
        if keys.items().is_empty() {
            continue;
        }
        if !at.has("labelSelector") {
            faults.push(keys.forbidden(NO_SELECTOR));
            continue;
        }
        keys.each().for_each(|key| faults.extend(validate_label_name(key.text(), &key.path)));
    }
    in_both(at, &wanted, faults);
    let unwanted: BTreeSet<&str> = unwanted.each().map(|key| key.text()).collect();
    for key in wanted.each().filter(|key| unwanted.contains(key.text())) {
        faults.push(key.invalid("exists in both matchLabelKeys and mismatchLabelKeys"));
    }
}

/// A key that the selector states twice over is contradicted by one that is merged in; upstream reports the place as
/// if the term were the list.
fn in_both(at: &At, wanted: &At, faults: &mut Faults) {
    let selector = at.field("labelSelector");
    let labels = selector.value.map(&["matchLabels"]).into_iter().flatten().map(|(key, _)| key.as_str());
    let mut stated: BTreeSet<&str> = labels.collect();
    for expression in selector.value.items(&["matchExpressions"]) {
        let key = expression.text(&["key"]);
        let index = wanted.items().iter().rposition(|wanted| wanted == key);
        if let Some(index) = index.filter(|_| stated.contains(key)) {
            let detail = "exists in both matchLabelKeys and labelSelector";
            faults.push(FieldError::invalid(at.path.index(index), key, detail));
        }
        stated.insert(key);
    }
}

/// Checks `topologySpreadConstraints`.
pub(crate) fn spread(list: &At, faults: &mut Faults) {
    for (index, constraint) in list.each().enumerate() {
        positive(&constraint.field("maxSkew"), faults);
        let (key, action) = (constraint.field("topologyKey"), constraint.field("whenUnsatisfiable"));
        if key.text().is_empty() {
            faults.push(key.required("can not be empty"));
        }
        supported_text(&action, &["DoNotSchedule", "ScheduleAnyway"], faults);
        let again = list.items().iter().skip(index + 1).any(|later| {
            later.text(&["topologyKey"]) == key.text() && later.text(&["whenUnsatisfiable"]) == action.text()
        });
        if again {
            let pair = format!("{{{}, {}}}", key.text(), action.text());
            faults.push(FieldError::duplicate(constraint.field("{topologyKey, whenUnsatisfiable}").path, pair));
        }
        spread_details(&constraint, faults);
    }
}

fn spread_details(at: &At, faults: &mut Faults) {
    let (domains, action) = (at.field("minDomains"), at.field("whenUnsatisfiable"));
    if domains.is_set() {
        positive(&domains, faults);
        if action.text() != "DoNotSchedule" {
            let shown = action.text();
            let detail = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {shown}");
            faults.push(domains.invalid(detail));
        }
    }
    for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
        optional_one_of(&at.field(policy), &["Honor", "Ignore"], faults);
    }
    label_keys(at, faults);
    faults.extend(Selector::validate(at.field("labelSelector").value, &at.field("labelSelector").path));
}

/// Checks `tolerations`.
pub(crate) fn tolerations(list: &At, faults: &mut Faults) {
    for toleration in list.each() {
        let (key, operator, effect) =
            (toleration.field("key"), toleration.field("operator"), toleration.field("effect"));
        if !key.text().is_empty() {
            faults.extend(validate_label_name(key.text(), &key.path));
        } else if operator.text() != "Exists" {
            let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            faults.push(operator.invalid_as(operator.text(), detail));
        }
        if toleration.has("tolerationSeconds") && effect.text() != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            faults.push(effect.invalid_as(effect.text(), detail));
        }
        toleration_operator(&operator, toleration.value.text(&["value"]), faults);
        if !effect.text().is_empty() {
            supported_text(&effect, EFFECTS, faults);
        }
    }
}

fn toleration_operator(operator: &At, value: &str, faults: &mut Faults) {
    match operator.text() {
        "Equal" | "" => {
            let wrong = name::label_value(value);
            if !wrong.is_empty() {
                faults.push(operator.invalid_as(value, wrong.join(";")));
            }
        }
        "Exists" if value.is_empty() => {}
        "Exists" => faults.push(operator.invalid_as(value, "value must be empty when `operator` is 'Exists'")),
        "Lt" | "Gt" => faults.push(operator.unsupported(&["Equal", "Exists", "Lt", "Gt"])),
        _ => faults.push(operator.unsupported(&["Equal", "Exists"])),
    }
}

/// Whether every toleration of `old` is still there, but for its seconds.
pub(crate) fn only_added(new: &[Value], old: &[Value]) -> bool {
    let without_seconds = |toleration: &Value| {
        let mut copy = toleration.clone();
        copy.remove(&["tolerationSeconds"]);
        copy
    };
    let new: Vec<Value> = new.iter().map(without_seconds).collect();
    old.iter().map(without_seconds).all(|old| new.iter().any(|new| crate::check::same(new, &old)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn run(value: Value, check: fn(&At, &mut Faults), expected: &[&str]) {
        let object = json!({ "x": value });
        let mut faults = Faults::new();
        check(&At::root(&object).field("x"), &mut faults);
        assert_eq!(faults.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn tolerations_read_like_upstream() {
        let check = |value: Value, expected: &[&str]| run(json!([value]), tolerations, expected);
        check(json!({"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}), &[]);
        check(json!({"operator": "Exists"}), &[]);
        check(
            json!({}),
            &["x[0].operator: Invalid value: \"\": operator must be Exists when `key` is empty, which means \"match \
               all values and all keys\""],
        );
        check(
            json!({"key": "k", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 5}),
            &["x[0].effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' when `tolerationSeconds` is set"],
        );
        check(
            json!({"key": "k", "operator": "In"}),
            &["x[0].operator: Unsupported value: \"In\": supported values: \"Equal\", \"Exists\""],
        );
        check(
            json!({"key": "k", "effect": "Never"}),
            &["x[0].effect: Unsupported value: \"Never\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \
               \"NoExecute\""],
        );
    }

    #[test]
    fn affinity_reads_like_upstream() {
        let node = |requirement: Value| json!({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}}});
        let path = "x.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
        run(node(json!({"key": "k", "operator": "In", "values": ["v"]})), check, &[]);
        run(
            node(json!({"key": "k", "operator": "In"})),
            check,
            &[&format!(
                "{path}[0].matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or \
                 'NotIn'"
            )],
        );
        run(
            json!({"nodeAffinity": {REQUIRED: {}}}),
            check,
            &[&format!("{path}: Required value: must have at least one node selector term")],
        );
        run(
            json!({"podAffinity": {PREFERRED: [{"weight": 101, "podAffinityTerm": {"topologyKey": "zone"}}]}}),
            check,
            &["x.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 101: must be \
               in the range 1-100"],
        );
    }

    #[test]
    fn spreading_reads_like_upstream() {
        let check = |value: Value, expected: &[&str]| run(value, spread, expected);
        let fine = json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"});
        check(json!([fine]), &[]);
        check(
            json!([fine, fine]),
            &["x[0].{topologyKey, whenUnsatisfiable}: Duplicate value: \"{zone, DoNotSchedule}\""],
        );
        check(
            json!([{"topologyKey": "zone", "whenUnsatisfiable": "N"}]),
            &[
                "x[0].maxSkew: Invalid value: 0: must be greater than zero",
                "x[0].whenUnsatisfiable: Unsupported value: \"N\": supported values: \"DoNotSchedule\", \
                 \"ScheduleAnyway\"",
            ],
        );
        check(
            json!([{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 0,
                "matchLabelKeys": ["a"]}]),
            &[
                "x[0].minDomains: Invalid value: 0: must be greater than zero",
                "x[0].minDomains: Invalid value: 0: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not \
                 ScheduleAnyway",
                "x[0].matchLabelKeys: Forbidden: must not be specified when labelSelector is not set",
            ],
        );
    }
}
