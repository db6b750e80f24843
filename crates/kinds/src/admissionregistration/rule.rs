//! Which requests a webhook or policy looks at.

use serde_json::Value;

use crate::check::{At, Faults, optional_one_of, supported_text};
use crate::fill;

const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const SCOPES: &[&str] = &["*", "Cluster", "Namespaced"];

pub(super) fn default(rule: &mut Value) {
    fill::absent(rule, "scope", "*");
}

pub(super) fn check(rule: &At, faults: &mut Faults) {
    let operations = rule.field("operations");
    check_list(&operations, "operations", faults);
    operations.each().for_each(|operation| supported_text(&operation, OPERATIONS, faults));
    check_list(&rule.field("apiGroups"), "API groups", faults);
    let versions = rule.field("apiVersions");
    check_list(&versions, "API versions", faults);
    check_given(&versions, faults);
    check_resources(&rule.field("resources"), faults);
    optional_one_of(&rule.field("scope"), SCOPES, faults);
}

fn has(list: &At, text: &str) -> bool {
    list.items().iter().any(|item| item == text)
}

/// Not empty, and `*` only alone.
fn check_list(list: &At, what: &str, faults: &mut Faults) {
    if list.items().is_empty() {
        faults.push(list.required(""));
    }
    if has(list, "*") && list.items().len() > 1 {
        faults.push(list.invalid(format!("if '*' is present, must not specify other {what}")));
    }
}

fn check_given(list: &At, faults: &mut Faults) {
    faults.extend(list.each().filter(|item| item.text().is_empty()).map(|item| item.required("")));
}

fn check_resources(list: &At, faults: &mut Faults) {
    if list.items().is_empty() {
        faults.push(list.required(""));
    }
    check_given(list, faults);
    let plain = list.items().iter().filter_map(Value::as_str).filter(|text| !text.contains('/')).count();
    if has(list, "*/*") && list.items().len() > 1 {
        faults.push(list.invalid("if '*/*' is present, must not specify other resources"));
    }
    if has(list, "*") && plain > 1 {
        faults.push(list.invalid("if '*' is present, must not specify other resources without subresources"));
    }
    for item in list.each() {
        let Some((resource, subresource)) = item.text().split_once('/') else { continue };
        let all_parts = format!("{resource}/*");
        if subresource != "*" && has(list, &all_parts) {
            faults.push(item.invalid(format!("if '{all_parts}' is present, must not specify {}", item.text())));
        }
        let of_all = format!("*/{subresource}");
        if resource != "*" && has(list, &of_all) {
            faults.push(item.invalid(format!("if '{of_all}' is present, must not specify {}", item.text())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rules() {
        let check = |rule: Value, expected: &[&str]| {
            let mut faults = Faults::new();
            check(&At::root(&rule), &mut faults);
            assert_eq!(faults.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
        };
        check(json!({"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}), &[]);
        check(
            json!({"operations": ["*", "READ"], "apiVersions": [""], "apiGroups": [""], "resources": ["a/*", "a/b"]}),
            &[
                "operations: Invalid value: [\"*\",\"READ\"]: if '*' is present, must not specify other operations",
                "operations[1]: Unsupported value: \"READ\": supported values: \"*\", \"CONNECT\", \"CREATE\", \
                 \"DELETE\", \"UPDATE\"",
                "apiVersions[0]: Required value",
                "resources[1]: Invalid value: \"a/b\": if 'a/*' is present, must not specify a/b",
            ],
        );
    }
}
