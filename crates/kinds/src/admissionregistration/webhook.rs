//! One webhook of a configuration.

use std::collections::BTreeSet;

use meta::labels::Selector;
use meta::{FieldError, ObjectExt, name};
use serde_json::{Map, Value};

use super::{client_config, rule};
use crate::check::{At, Faults, optional_one_of};
use crate::{Column, KindDef, apply_order, column, fill};

const REVIEWS: &[&str] = &["v1", "v1beta1"];
/// Upstream's limit: each is evaluated for every request.
const CONDITIONS_MAX: usize = 64;

/// What both kinds of configuration have in common.
pub(super) fn configuration(def: KindDef) -> KindDef {
    def.cluster_scoped().category("api-extensions").counts_generation().apply_order(apply_order::INTERCEPTOR).columns(
        vec![
            column::name(),
            Column::new("Webhooks", "integer", "Number of webhooks.", |configuration, _| {
                configuration.items(&["webhooks"]).len().into()
            }),
            column::age(),
        ],
    )
}

pub(super) fn default(webhook: &mut Value) {
    fill::absent(webhook, "failurePolicy", "Fail");
    fill::absent(webhook, "matchPolicy", "Equivalent");
    fill::absent(webhook, "namespaceSelector", Map::new());
    fill::absent(webhook, "objectSelector", Map::new());
    fill::absent(webhook, "timeoutSeconds", 10);
    if let Some(service) = fill::descend(webhook, &["clientConfig", "service"]) {
        fill::absent(service, "port", 443);
    }
    fill::items(webhook, "rules").for_each(rule::default);
}

pub(super) fn check_all(configuration: &At, faults: &mut Faults) {
    let mut names = BTreeSet::new();
    for webhook in configuration.field("webhooks").each() {
        check(&webhook, faults);
        let own = webhook.field("name");
        if !own.text().is_empty() && !names.insert(own.text()) {
            faults.push(own.duplicate());
        }
    }
}

fn check(webhook: &At, faults: &mut Faults) {
    check_name(&webhook.field("name"), faults);
    webhook.field("rules").each().for_each(|rule| rule::check(&rule, faults));
    optional_one_of(&webhook.field("failurePolicy"), &["Fail", "Ignore"], faults);
    optional_one_of(&webhook.field("matchPolicy"), &["Equivalent", "Exact"], faults);
    check_side_effects(&webhook.field("sideEffects"), faults);
    let timeout = webhook.field("timeoutSeconds");
    if timeout.int().is_some_and(|seconds| !(1..=30).contains(&seconds)) {
        faults.push(timeout.invalid("the timeout value must be between 1 and 30 seconds"));
    }
    for field in ["namespaceSelector", "objectSelector"] {
        check_selector(&webhook.field(field), faults);
    }
    client_config::check(&webhook.field("clientConfig"), faults);
    check_reviews(&webhook.field("admissionReviewVersions"), faults);
    check_conditions(&webhook.field("matchConditions"), faults);
}

/// A label selector that may be absent.
pub(super) fn check_selector(selector: &At, faults: &mut Faults) {
    if selector.is_set() {
        faults.extend(Selector::validate(selector.value, &selector.path));
    }
}

fn check_name(own: &At, faults: &mut Faults) {
    let broken = name::dns1123_subdomain(own.text());
    if own.text().is_empty() {
        faults.push(own.required(""));
    } else if !broken.is_empty() {
        faults.push(own.invalid(broken.join(",")));
    } else if own.text().split('.').count() < 3 {
        faults.push(own.invalid("should be a domain with at least three segments separated by dots"));
    }
}

fn check_side_effects(effects: &At, faults: &mut Faults) {
    if effects.is_set() {
        optional_one_of(effects, &["None", "NoneOnDryRun"], faults);
    } else {
        faults.push(effects.required("must specify one of None, NoneOnDryRun"));
    }
}

fn check_reviews(versions: &At, faults: &mut Faults) {
    if versions.items().is_empty() {
        faults.push(versions.required("must specify one of v1, v1beta1"));
        return;
    }
    let mut seen = BTreeSet::new();
    for version in versions.each() {
        if !seen.insert(version.text()) {
            faults.push(version.duplicate());
        }
        let broken = name::dns1035_label(version.text());
        faults.extend(broken.into_iter().map(|fault| version.invalid_as(version.text(), fault)));
    }
    if !REVIEWS.iter().any(|known| seen.contains(known)) {
        faults.push(versions.invalid("must include at least one of v1, v1beta1"));
    }
}

/// Named CEL conditions; what they mean is checked by who evaluates them.
pub(super) fn check_conditions(conditions: &At, faults: &mut Faults) {
    let count = conditions.items().len();
    if count > CONDITIONS_MAX {
        faults.push(FieldError::too_many(conditions.path, count, CONDITIONS_MAX));
    }
    let mut names = BTreeSet::new();
    for condition in conditions.each() {
        let (own, expression) = (condition.field("name"), condition.field("expression"));
        if expression.text().trim().is_empty() {
            faults.push(expression.required(""));
        }
        if own.text().is_empty() {
            faults.push(own.required(""));
            continue;
        }
        faults.extend(name::qualified_name(own.text()).into_iter().map(|fault| own.invalid(fault)));
        if !names.insert(own.text()) {
            faults.push(own.duplicate());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn webhooks() {
        let check = |extra: Value, expected: &[&str]| {
            let mut webhook = json!({"name": "a.b.c", "sideEffects": "None", "admissionReviewVersions": ["v1"],
                "clientConfig": {"url": "https://a.b"}});
            webhook.as_object_mut().expect("map").extend(extra.as_object().expect("map").clone());
            default(&mut webhook);
            let mut faults = Faults::new();
            check_all(&At::root(&json!({"webhooks": [webhook]})), &mut faults);
            assert_eq!(faults.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
        };
        check(json!({}), &[]);
        check(
            json!({"name": "a.b", "sideEffects": "Some", "timeoutSeconds": 31, "admissionReviewVersions": ["v2"]}),
            &[
                "webhooks[0].name: Invalid value: \"a.b\": should be a domain with at least three segments separated \
                 by dots",
                "webhooks[0].sideEffects: Unsupported value: \"Some\": supported values: \"None\", \"NoneOnDryRun\"",
                "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds",
                "webhooks[0].admissionReviewVersions: Invalid value: [\"v2\"]: must include at least one of v1, v1beta1",
            ],
        );
        check(
            json!({"matchConditions": [{"name": "a", "expression": "true"}, {"name": "a"}]}),
            &[
                "webhooks[0].matchConditions[1].expression: Required value",
                "webhooks[0].matchConditions[1].name: Duplicate value: \"a\"",
            ],
        );
    }
}
