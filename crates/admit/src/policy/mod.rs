//! ValidatingAdmissionPolicy and MutatingAdmissionPolicy: expressions that decide on requests and change objects, bound
//! to where they apply.

mod evaluate;
mod mutate;
mod params;

pub use mutate::{Round, mutate};

use meta::{ApiError, ObjectExt, Reason};
use serde_json::{Value, json};

use crate::admission::{Case, Effects, World};
use crate::matching::{self, Matched};
use crate::request_facts::variables;
use crate::webhook::reason_of;
use evaluate::{Decision, Evaluation, Note};

const POLICIES: &str = "admissionregistration.k8s.io/validatingadmissionpolicies";
const BINDINGS: &str = "admissionregistration.k8s.io/validatingadmissionpolicybindings";
/// Failures noted in one audit event.
const FAILURES_MAX: usize = 50;
/// Longest audit annotation, as upstream cuts it.
const ANNOTATION_BYTES_MAX: usize = 10 * 1024;

/// A refusal, with whose it is.
struct Denial {
    message: String,
    reason: String,
}

/// Runs every policy that is bound and matches; `new` is absent for deletes.
pub fn validate(case: &Case<'_>, new: Option<&Value>, effects: &mut Effects) -> Result<(), ApiError> {
    if matching::is_exempt(case) {
        return Ok(());
    }
    let policies = case.world.list(POLICIES, "");
    if policies.is_empty() {
        return Ok(());
    }
    let bindings = case.world.list(BINDINGS, "");
    let mut run = Run { case, new, denials: Vec::new(), failures: Vec::new() };
    for policy in &policies {
        let own = bindings.iter().filter(|binding| binding.text(&["spec", "policyName"]) == policy.name());
        let own: Vec<&Value> = own.collect();
        if !own.is_empty() {
            run.policy(policy, &own, effects);
        }
    }
    if !run.failures.is_empty() {
        let failures: Vec<Value> = run.failures.drain(..).take(FAILURES_MAX).collect();
        let key = "validation.policy.admission.k8s.io/validation_failure".to_owned();
        effects.audit.insert(key, Value::Array(failures).to_string());
    }
    match run.denials.first() {
        Some(denial) => Err(denial.to_error(case, new)),
        None => Ok(()),
    }
}

impl Denial {
    fn to_error(&self, case: &Case<'_>, new: Option<&Value>) -> ApiError {
        let mut error = case.forbids(new, &self.message);
        let reason =
            if self.reason.is_empty() { Reason::Invalid } else { reason_of(&self.reason).unwrap_or(Reason::Invalid) };
        error.code = match reason {
            Reason::Forbidden => 403,
            Reason::Unauthorized => 401,
            Reason::RequestEntityTooLarge => 413,
            _ => 422,
        };
        error.reason = Some(reason);
        error.with_cause("", self.message.clone(), "")
    }
}

struct Run<'c> {
    case: &'c Case<'c>,
    new: Option<&'c Value>,
    denials: Vec<Denial>,
    failures: Vec<Value>,
}

impl Run<'_> {
    fn policy(&mut self, policy: &Value, bindings: &[&Value], effects: &mut Effects) {
        let constraints = policy.at(&["spec", "matchConstraints"]).unwrap_or(&Value::Null);
        let matched = match constrained(self.case, constraints, self.new) {
            Ok(Some(matched)) => matched,
            Ok(None) => return,
            Err(why) => return self.misconfigured(policy, None, &why),
        };
        let shared = variables(self.case, &matched, self.new);
        for binding in bindings {
            let narrowed = match binding.at(&["spec", "matchResources"]).filter(|m| !m.is_null()) {
                Some(resources) => constrained(self.case, resources, self.new).map(|found| found.is_some()),
                None => Ok(true),
            };
            match narrowed {
                Ok(false) => continue,
                Err(why) => return self.misconfigured(policy, Some(binding), &why),
                Ok(true) => {}
            }
            let params = match params::of_binding(&self.case.world, self.case.namespace(), policy, binding) {
                Ok(params) => params,
                Err(why) => {
                    self.misconfigured(policy, Some(binding), &why);
                    continue;
                }
            };
            for param in params {
                let mut known = shared.clone();
                known.push(("params", param.as_ref().map_or(crate::cel::CelValue::Null, crate::cel::from_json)));
                self.settle(policy, binding, Evaluation::of(policy, known, self.case.world.may), effects);
            }
        }
    }

    /// A policy that cannot be applied refuses, unless it may fail.
    fn misconfigured(&mut self, policy: &Value, binding: Option<&Value>, why: &str) {
        if policy.text(&["spec", "failurePolicy"]) == "Ignore" {
            return;
        }
        let name = policy.name();
        let message = match binding {
            Some(binding) => format!(
                "ValidatingAdmissionPolicy '{name}' with binding '{}' denied request: failed to configure \
                 binding: {why}",
                binding.name()
            ),
            None => format!("ValidatingAdmissionPolicy '{name}' denied request: failed to configure policy: {why}"),
        };
        self.denials.push(Denial { message, reason: String::new() });
    }

    fn settle(&mut self, policy: &Value, binding: &Value, evaluation: Evaluation, effects: &mut Effects) {
        let (name, bound) = (policy.name(), binding.name());
        let denied =
            |why: &str| format!("ValidatingAdmissionPolicy '{name}' with binding '{bound}' denied request: {why}");
        let actions = binding.items(&["spec", "validationActions"]);
        for Decision { index, message, reason } in evaluation.refused {
            for action in actions.iter().filter_map(Value::as_str) {
                match action {
                    "Deny" => self.denials.push(Denial { message: denied(&message), reason: reason.clone() }),
                    "Warn" => effects.warn(format!(
                        "Validation failed for ValidatingAdmissionPolicy '{name}' with binding '{bound}': {message}"
                    )),
                    "Audit" => self.failures.push(json!({
                        "message": message, "policy": name, "binding": bound, "expressionIndex": index,
                        "validationActions": actions,
                    })),
                    _ => {}
                }
            }
        }
        for note in evaluation.notes {
            match note {
                Note::Publish(key, value) => add_annotation(effects, format!("{name}/{key}"), value),
                Note::Broken(why) => self.denials.push(Denial { message: denied(&why), reason: String::new() }),
            }
        }
    }
}

/// Several bindings of a policy write into one annotation.
fn add_annotation(effects: &mut Effects, key: String, mut value: String) {
    let end = (0..=value.len().min(ANNOTATION_BYTES_MAX)).rev().find(|end| value.is_char_boundary(*end)).unwrap_or(0);
    value.truncate(end);
    match effects.audit.get_mut(&key) {
        Some(known) if known.split(", ").any(|part| part == value) => {}
        Some(known) => known.push_str(&format!(", {value}")),
        None => drop(effects.audit.insert(key, value)),
    }
}

/// Whether constraints (rules, exclusions and selectors) fit; where no rules are given, all requests do.
fn constrained(case: &Case<'_>, constraints: &Value, new: Option<&Value>) -> Result<Option<Matched>, String> {
    if !matching::selects(case, constraints, new)? {
        return Ok(None);
    }
    let equivalent = constraints.text(&["matchPolicy"]) != "Exact";
    if matching::matches_rules(case, constraints.items(&["excludeResourceRules"]), equivalent).is_some() {
        return Ok(None);
    }
    let rules = constraints.items(&["resourceRules"]);
    if rules.is_empty() {
        let all = json!({"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]});
        return Ok(matching::matches_rules(case, &[all], false));
    }
    Ok(matching::matches_rules(case, rules, equivalent))
}

/// Whether any policy exists: a cheap question for the common case that none does.
pub fn any(world: &World<'_>) -> bool {
    world.snapshot.count(POLICIES) > 0
}

#[cfg(test)]
mod tests;
