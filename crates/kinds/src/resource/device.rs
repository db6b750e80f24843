//! What claims and classes say about devices.

use std::collections::BTreeSet;

use meta::{FieldError, ObjectExt, name};
use serde_json::Value;

use crate::check::{At, Faults, one_of, optional_one_of, required, required_name, supported_text};
use crate::core::pod::volume::csi_driver_name;
use crate::fill;

/// Upstream's limits.
const REQUESTS_MAX: usize = 32;
const SELECTORS_MAX: usize = 32;
const CONFIGS_MAX: usize = 32;
const MODES: &[&str] = &["All", "ExactCount"];
/// What a taint of a device does.
pub(super) const EFFECTS: &[&str] = &["NoExecute", "NoSchedule", "None"];

pub(super) fn default_claim(spec: &mut Value) {
    let Some(devices) = fill::child(spec, "devices") else { return };
    for request in fill::items(devices, "requests") {
        if let Some(exact) = fill::child(request, "exactly") {
            default_request(exact);
        }
        fill::items(request, "firstAvailable").for_each(default_request);
    }
}

fn default_request(request: &mut Value) {
    fill::zero(request, "allocationMode", "ExactCount");
    if request.text(&["allocationMode"]) == "ExactCount" {
        fill::zero(request, "count", 1);
    }
    for toleration in fill::items(request, "tolerations") {
        fill::zero(toleration, "operator", "Equal");
    }
}

fn check_count(list: &At, max: usize, faults: &mut Faults) {
    if list.items().len() > max {
        faults.push(FieldError::too_many(list.path, list.items().len(), max));
    }
}

pub(super) fn check_claim(spec: &At, faults: &mut Faults) {
    let devices = spec.field("devices");
    let requests = devices.field("requests");
    check_count(&requests, REQUESTS_MAX, faults);
    let mut names = BTreeSet::new();
    for request in requests.each() {
        let own = request.field("name");
        required_name(&own, name::dns1123_label, faults);
        if !names.insert(own.text()) {
            faults.push(own.duplicate());
        }
        check_request(&request, faults);
    }
    for constraint in devices.field("constraints").each() {
        check_names(&constraint.field("requests"), &names, faults);
    }
    check_configs(&devices.field("config"), faults);
}

fn check_request(request: &At, faults: &mut Faults) {
    let (exact, first) = (request.field("exactly"), request.field("firstAvailable"));
    match (exact.is_set(), first.items().is_empty()) {
        (true, false) => faults.push(request.invalid("exactly one of `exactly` or `firstAvailable` is required")),
        (false, true) => faults.push(request.required("exactly one of `exactly` or `firstAvailable` is required")),
        (true, true) => check_exact(&exact, faults),
        (false, false) => first.each().for_each(|choice| {
            required_name(&choice.field("name"), name::dns1123_label, faults);
            check_exact(&choice, faults);
        }),
    }
}

fn check_exact(request: &At, faults: &mut Faults) {
    required_name(&request.field("deviceClassName"), name::dns1123_subdomain, faults);
    check_selectors(&request.field("selectors"), faults);
    let (mode, count) = (request.field("allocationMode"), request.field("count"));
    supported_text(&mode, MODES, faults);
    match mode.text() {
        "All" if count.number() != 0 => {
            faults.push(count.invalid("must not be specified when allocationMode is 'All'"));
        }
        "ExactCount" if count.number() <= 0 => faults.push(count.invalid("must be greater than zero")),
        _ => {}
    }
    for toleration in request.field("tolerations").each() {
        one_of(&toleration.field("operator"), &["Equal", "Exists"], faults);
        optional_one_of(&toleration.field("effect"), EFFECTS, faults);
    }
}

/// CEL over devices; what it means is checked by who allocates.
pub(super) fn check_selectors(selectors: &At, faults: &mut Faults) {
    check_count(selectors, SELECTORS_MAX, faults);
    for selector in selectors.each() {
        let cel = selector.field("cel");
        if cel.is_set() { required(&cel.field("expression"), faults) } else { faults.push(cel.required("")) }
    }
}

fn check_names(requests: &At, names: &BTreeSet<&str>, faults: &mut Faults) {
    for request in requests.each() {
        let (main, _) = request.text().split_once('/').unwrap_or((request.text(), ""));
        if !names.contains(main) {
            faults.push(request.invalid(
                "must be the name of a request in the claim or the name of a request and a \
                 subrequest separated by '/'",
            ));
        }
    }
}

/// Settings that go to a driver as they are.
pub(super) fn check_configs(configs: &At, faults: &mut Faults) {
    check_count(configs, CONFIGS_MAX, faults);
    for config in configs.each() {
        let opaque = config.field("opaque");
        if !opaque.is_set() {
            faults.push(opaque.required(""));
            continue;
        }
        csi_driver_name(&opaque.field("driver"), faults);
        if !opaque.has("parameters") {
            faults.push(opaque.field("parameters").required(""));
        }
    }
}

/// A taint of a device.
pub(super) fn check_taint(taint: &At, faults: &mut Faults) {
    required_name(&taint.field("key"), name::qualified_name, faults);
    let value = taint.field("value");
    faults.extend(name::label_value(value.text()).into_iter().map(|fault| value.invalid(fault)));
    one_of(&taint.field("effect"), EFFECTS, faults);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn requests() {
        let check = |request: Value, expected: &[&str]| {
            let mut spec = json!({"devices": {"requests": [request]}});
            default_claim(&mut spec);
            let mut faults = Faults::new();
            check_claim(&At::root(&spec), &mut faults);
            assert_eq!(faults.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
        };
        check(json!({"name": "gpu", "exactly": {"deviceClassName": "gpu"}}), &[]);
        check(
            json!({"name": "gpu"}),
            &["devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required"],
        );
        check(
            json!({"name": "gpu", "exactly": {"deviceClassName": "gpu", "allocationMode": "All", "count": 2}}),
            &[
                "devices.requests[0].exactly.count: Invalid value: 2: must not be specified when allocationMode is 'All'",
            ],
        );
    }
}
