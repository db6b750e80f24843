//! What an access review asks.

use meta::FieldError;
use serde_json::Value;

use crate::check::{At, Faults};

const BOTH: &str = "cannot be specified in combination with resourceAttributes";
const NEITHER: &str = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
const NOBODY: &str = "at least one of user or group must be specified";

/// Exactly one of the two forms of the question.
pub(super) fn check(spec: &At, faults: &mut Faults) {
    let (resource, other) = (spec.field("resourceAttributes"), spec.field("nonResourceAttributes"));
    match (resource.is_set(), other.is_set()) {
        (true, true) => faults.push(other.invalid(BOTH)),
        (false, false) => faults.push(resource.invalid_as(Value::Null, NEITHER)),
        _ => {}
    }
    check_selectors(&resource, faults);
}

fn check_selectors(resource: &At, faults: &mut Faults) {
    for field in ["fieldSelector", "labelSelector"] {
        let selector = resource.field(field);
        if !selector.field("rawSelector").text().is_empty() && !selector.field("requirements").items().is_empty() {
            faults.push(selector.field("rawSelector").invalid("may not specified at the same time as requirements"));
        }
    }
}

/// Somebody is asked about.
pub(super) fn check_subject(spec: &At, faults: &mut Faults) {
    let user = spec.field("user");
    if user.text().is_empty() && spec.field("groups").items().is_empty() {
        faults.push(user.invalid_as("", NOBODY));
    }
}

/// A question about anybody.
pub(super) fn validate_review(review: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(review);
    let spec = root.field("spec");
    check(&spec, &mut faults);
    check_subject(&spec, &mut faults);
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn faults() {
        let texts: Vec<String> = validate_review(&json!({"spec": {}})).iter().map(ToString::to_string).collect();
        let expected = [
            "spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes \
             must be specified",
            "spec.user: Invalid value: \"\": at least one of user or group must be specified",
        ];
        assert_eq!(texts, expected);
    }
}
