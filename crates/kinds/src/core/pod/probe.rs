//! Probes, lifecycle hooks and what they do.

use meta::name;
use serde_json::Value;

use super::Context;
use crate::check::{At, Faults, named, non_negative_fields, required, supported_text};

/// Actions in the order that upstream looks at them; of several only the first counts.
const PROBE_ACTIONS: &[&str] = &["exec", "httpGet", "tcpSocket", "grpc"];
const HOOK_ACTIONS: &[&str] = &["exec", "httpGet", "tcpSocket", "sleep"];

/// Checks the probes and the lifecycle of a container that keeps running.
pub(crate) fn check(container: &At, context: &Context, faults: &mut Faults) {
    let lifecycle = container.field("lifecycle");
    for hook in ["postStart", "preStop"] {
        let at = lifecycle.field(hook);
        if at.is_set() {
            action(&at, HOOK_ACTIONS, context, faults);
        }
    }
    for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let at = container.field(kind);
        if at.is_set() {
            probe(&at, kind, context, faults);
        }
    }
}

fn probe(at: &At, kind: &str, context: &Context, faults: &mut Faults) {
    action(at, PROBE_ACTIONS, context, faults);
    let numbers = ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"];
    non_negative_fields(at, &numbers, faults);
    let (grace, successes) = (at.field("terminationGracePeriodSeconds"), at.field("successThreshold"));
    if grace.int().is_some_and(|seconds| seconds <= 0) {
        faults.push(grace.invalid("must be greater than 0"));
    }
    if kind == "readinessProbe" {
        if grace.is_set() {
            faults.push(grace.invalid("must not be set for readinessProbes"));
        }
    } else if successes.number() != 1 {
        faults.push(successes.invalid_as(successes.number(), "must be 1"));
    }
}

fn action(at: &At, kinds: &[&str], context: &Context, faults: &mut Faults) {
    let mut given = kinds.iter().filter(|kind| at.has(kind));
    let Some(first) = given.next() else {
        faults.push(at.required("must specify a handler type"));
        return;
    };
    one_action(&at.field(first), first, context, faults);
    faults.extend(given.map(|kind| at.field(kind).forbidden("may not specify more than 1 handler type")));
}

fn one_action(at: &At, kind: &str, context: &Context, faults: &mut Faults) {
    match kind {
        "exec" if at.field("command").items().is_empty() => faults.push(at.field("command").required("")),
        "httpGet" => http_get(at, faults),
        "tcpSocket" => port(&at.field("port"), faults),
        "grpc" => port(&at.field("port"), faults),
        "sleep" => sleep(at, context, faults),
        _ => {}
    }
}

fn http_get(at: &At, faults: &mut Faults) {
    required(&at.field("path"), faults);
    port(&at.field("port"), faults);
    supported_text(&at.field("scheme"), &["HTTP", "HTTPS"], faults);
    let headers = at.field("httpHeaders");
    for header in headers.each() {
        named(&headers.with(header.field("name").value), name::http_header_name, faults);
    }
}

/// A port by number or by name.
pub(crate) fn port(at: &At, faults: &mut Faults) {
    match at.value {
        Value::String(_) => named(at, name::port_name, faults),
        _ => faults.extend(name::port_number(at.number()).into_iter().map(|f| at.invalid_as(at.number(), f))),
    }
}

fn sleep(at: &At, context: &Context, faults: &mut Faults) {
    let seconds = at.field("seconds").number();
    if let Some(grace) = context.grace_seconds().filter(|grace| !(0..=*grace).contains(&seconds)) {
        let detail = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        faults.push(at.invalid_as(seconds, detail));
    }
}
