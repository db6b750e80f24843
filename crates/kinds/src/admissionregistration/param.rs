//! Parameters of admission policies, and what both kinds of policy and of binding have in common.

use std::collections::BTreeSet;

use meta::{FieldError, GroupVersion, name};
use serde_json::Value;

use super::match_resources;
use super::webhook::{check_conditions, check_selector};
use crate::check::{At, Faults, one_of, optional_name, optional_one_of, required_name};
use crate::{KindDef, apply_order, fill};

/// A policy or a binding.
pub(super) fn interceptor(def: KindDef) -> KindDef {
    def.cluster_scoped().category("api-extensions").counts_generation().apply_order(apply_order::INTERCEPTOR)
}

pub(super) fn default_policy(policy: &mut Value) {
    let Some(spec) = fill::child(policy, "spec") else { return };
    fill::absent(spec, "failurePolicy", "Fail");
    if let Some(constraints) = fill::child(spec, "matchConstraints") {
        match_resources::default(constraints);
    }
}

pub(super) fn default_binding(binding: &mut Value) {
    if let Some(matching) = fill::descend(binding, &["spec", "matchResources"]) {
        match_resources::default(matching);
    }
}

pub(super) fn check_policy(spec: &At, faults: &mut Faults) {
    optional_one_of(&spec.field("failurePolicy"), &["Fail", "Ignore"], faults);
    check_kind(&spec.field("paramKind"), faults);
    match_resources::check_constraints(spec, faults);
    check_variables(&spec.field("variables"), faults);
    check_conditions(&spec.field("matchConditions"), faults);
}

pub(super) fn check_binding(spec: &At, faults: &mut Faults) {
    required_name(&spec.field("policyName"), name::dns1123_subdomain, faults);
    check_ref(&spec.field("paramRef"), faults);
    let matching = spec.field("matchResources");
    if matching.is_set() {
        match_resources::check(&matching, faults);
    }
}

fn check_kind(kind: &At, faults: &mut Faults) {
    if !kind.is_set() {
        return;
    }
    let (version, own) = (kind.field("apiVersion"), kind.field("kind"));
    if version.text().is_empty() {
        faults.push(version.required(""));
    } else if GroupVersion::parse(version.text()).is_none() {
        faults.push(version.invalid(format!("unexpected GroupVersion string: {}", version.text())));
    }
    let broken = name::dns1035_label(&own.text().to_lowercase());
    if own.text().is_empty() {
        faults.push(own.required(""));
    } else if !broken.is_empty() {
        let detail = format!("may have mixed case, but should otherwise match: {}", broken.join(","));
        faults.push(own.invalid(detail));
    }
}

fn check_variables(variables: &At, faults: &mut Faults) {
    let mut names = BTreeSet::new();
    for variable in variables.each() {
        let (own, expression) = (variable.field("name"), variable.field("expression"));
        if own.text().is_empty() {
            faults.push(own.required("name is not specified"));
        } else if !name::c_identifier(own.text()).is_empty() {
            faults.push(own.invalid("name is not a valid CEL identifier"));
        }
        if !names.insert(own.text()) {
            faults.push(FieldError::duplicate(own.path, own.text()));
        }
        check_expression(&expression, faults);
    }
}

/// Some CEL; what it means is checked by who evaluates it.
pub(super) fn check_expression(expression: &At, faults: &mut Faults) {
    if expression.text().trim().is_empty() {
        faults.push(expression.required("expression is not specified"));
    }
}

fn check_ref(param: &At, faults: &mut Faults) {
    if !param.is_set() {
        return;
    }
    let (own, selector) = (param.field("name"), param.field("selector"));
    match (own.text().is_empty(), selector.is_set()) {
        (true, false) => faults.push(own.required("one of name or selector must be specified")),
        (false, true) => {
            faults.extend([&own, &selector].map(|at| at.forbidden("name and selector are mutually exclusive")));
        }
        _ => {}
    }
    optional_name(&own, name::path_segment, faults);
    check_selector(&selector, faults);
    one_of(&param.field("parameterNotFoundAction"), &["Allow", "Deny"], faults);
}
