//! Which objects an admission policy or its binding looks at.

use serde_json::{Map, Value};

use super::rule;
use super::webhook::check_selector;
use crate::check::{At, Faults, optional_one_of};
use crate::fill;

const RULE_LISTS: [&str; 2] = ["resourceRules", "excludeResourceRules"];

pub(super) fn default(matching: &mut Value) {
    fill::absent(matching, "matchPolicy", "Equivalent");
    fill::absent(matching, "namespaceSelector", Map::new());
    fill::absent(matching, "objectSelector", Map::new());
    for list in RULE_LISTS {
        fill::items(matching, list).for_each(rule::default);
    }
}

pub(super) fn check(matching: &At, faults: &mut Faults) {
    optional_one_of(&matching.field("matchPolicy"), &["Equivalent", "Exact"], faults);
    for field in ["namespaceSelector", "objectSelector"] {
        check_selector(&matching.field(field), faults);
    }
    for list in RULE_LISTS {
        matching.field(list).each().for_each(|rule| rule::check(&rule, faults));
    }
}

/// The constraints of a policy: there must be some.
pub(super) fn check_constraints(spec: &At, faults: &mut Faults) {
    let constraints = spec.field("matchConstraints");
    if !constraints.is_set() {
        faults.push(constraints.required(""));
        return;
    }
    check(&constraints, faults);
    let rules = constraints.field("resourceRules");
    if rules.items().is_empty() {
        faults.push(rules.required(""));
    }
}
