//! The spec of Jobs, as Jobs and the templates of CronJobs share it.

use meta::labels::Selector;
use meta::{FieldError, ObjectExt, name};
use serde_json::Value;

use super::policy;
use crate::check::{At, Faults, immutable, non_negative_fields, optional_one_of, same};
use crate::core::pod::template;

const PARALLELISM_MAX: i64 = 100_000;
const FAILED_INDEXES_MAX: i64 = 100_000;
/// Above this many completions the bookkeeping of indexes is held to tighter limits.
const MANY_COMPLETIONS: i64 = 100_000;
const PARALLELISM_OF_MANY_MAX: i64 = 10_000;
const FAILED_INDEXES_OF_MANY_MAX: i64 = 10_000;
const MANAGER_MAX: usize = 63;
const NUMBERS: &[&str] = &[
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
];

/// Whether the Job counts its completions by index.
pub(crate) fn is_indexed(spec: &Value) -> bool {
    spec.text(&["completionMode"]) == "Indexed"
}

/// Checks the spec of a Job, whose selector must be there.
pub(crate) fn check(spec: &At, faults: &mut Faults) {
    check_template(spec, faults);
    let selector = spec.field("selector");
    if selector.is_set() {
        faults.extend(Selector::validate(selector.value, &selector.path));
    } else {
        faults.push(selector.required(""));
    }
    let pods = spec.field("template");
    let labels = pods.value.map(&["metadata", "labels"]);
    if Selector::from_label_selector(Some(selector.value)).is_ok_and(|parsed| !parsed.matches(&labels)) {
        let metadata = pods.field("metadata");
        faults.push(metadata.field("labels").invalid(template::MISMATCH));
    }
}

/// Checks the spec of a Job but for its selector.
pub(crate) fn check_template(spec: &At, faults: &mut Faults) {
    non_negative_fields(spec, NUMBERS, faults);
    if spec.has("maxFailedIndexes") && !spec.has("backoffLimitPerIndex") {
        faults.push(spec.field("backoffLimitPerIndex").required("when maxFailedIndexes is specified"));
    }
    managed_by(&spec.field("managedBy"), faults);
    optional_one_of(&spec.field("completionMode"), &["NonIndexed", "Indexed"], faults);
    if is_indexed(spec.value) {
        indexed(spec, faults)
    } else {
        not_indexed(spec, faults)
    }
    if spec.has("podFailurePolicy") {
        policy::failure(spec, faults);
    }
    let success = spec.field("successPolicy");
    if success.is_set() && !is_indexed(spec.value) {
        faults.push(success.invalid("requires indexed completion mode"));
    } else if success.is_set() {
        policy::success(spec, faults);
    }
    replacement(spec, faults);
    template::check(&spec.field("template"), faults);
    restart_policy(spec, faults);
}

fn managed_by(at: &At, faults: &mut Faults) {
    if !at.is_set() {
        return;
    }
    let text = at.text();
    match text.split_once('/').filter(|(domain, path)| !domain.is_empty() && !path.is_empty()) {
        _ if text.is_empty() => faults.push(at.required("")),
        None => faults.push(at.invalid("must be a domain-prefixed path (such as \"acme.io/foo\")")),
        Some((domain, path)) => {
            let wrong = name::dns1123_subdomain(domain).into_iter();
            faults.extend(wrong.map(|fault| at.invalid_as(domain, fault)));
            if !path.bytes().all(is_path_byte) {
                let detail = name::regex_error("Invalid path", r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+", &[]);
                faults.push(at.invalid_as(path, detail));
            }
        }
    }
    if text.len() > MANAGER_MAX {
        faults.push(FieldError::too_long(at.path, MANAGER_MAX));
    }
}

fn is_path_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte)
}

fn indexed(spec: &At, faults: &mut Faults) {
    let (completions, parallelism, failed) =
        (spec.field("completions"), spec.field("parallelism"), spec.field("maxFailedIndexes"));
    if !completions.is_set() {
        faults.push(completions.required("when completion mode is Indexed"));
    }
    if parallelism.number() > PARALLELISM_MAX {
        let detail = format!("must be less than or equal to {PARALLELISM_MAX} when completion mode is Indexed");
        faults.push(parallelism.invalid(detail));
    }
    if completions.is_set() && failed.number() > completions.number() {
        faults.push(failed.invalid("must be less than or equal to completions"));
    }
    if failed.number() > FAILED_INDEXES_MAX {
        faults.push(failed.invalid(format!("must be less than or equal to {FAILED_INDEXES_MAX}")));
    }
    if completions.number() > MANY_COMPLETIONS && spec.has("backoffLimitPerIndex") {
        many(&parallelism, &failed, faults);
    }
}

fn many(parallelism: &At, failed: &At, faults: &mut Faults) {
    if !failed.is_set() {
        faults.push(failed.required(format!("must be specified when completions is above {MANY_COMPLETIONS}")));
    }
    for (at, max) in [(parallelism, PARALLELISM_OF_MANY_MAX), (failed, FAILED_INDEXES_OF_MANY_MAX)] {
        if at.number() > max {
            faults.push(at.invalid(format!(
                "must be less than or equal to {max} when completions are above {MANY_COMPLETIONS} and used with \
                 backoff limit per index"
            )));
        }
    }
}

fn not_indexed(spec: &At, faults: &mut Faults) {
    if !matches!(spec.field("completionMode").text(), "" | "NonIndexed") {
        return;
    }
    for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
        if spec.has(field) {
            faults.push(spec.field(field).invalid("requires indexed completion mode"));
        }
    }
}

fn replacement(spec: &At, faults: &mut Faults) {
    let policy = spec.field("podReplacementPolicy");
    let supported: &[&str] =
        if spec.has("podFailurePolicy") { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
    optional_one_of(&policy, supported, faults);
}

fn restart_policy(spec: &At, faults: &mut Faults) {
    let template = spec.field("template");
    let pods = template.field("spec");
    let policy = pods.field("restartPolicy");
    match policy.text() {
        "Always" | "" => faults.push(policy.required("valid values: \"OnFailure\", \"Never\"")),
        "OnFailure" if spec.has("podFailurePolicy") => {
            faults.push(policy.invalid("only \"Never\" is supported when podFailurePolicy is specified"));
        }
        "OnFailure" | "Never" => {}
        _ => faults.push(policy.unsupported(&["OnFailure", "Never"])),
    }
}

/// Checks what may change in the spec of a Job. `old` is the whole Job: what it has done decides.
pub(crate) fn check_update(spec: &At, old: &Value, faults: &mut Faults) {
    check(spec, faults);
    let old_spec = At { value: &old["spec"], path: spec.path };
    completions(spec, &old_spec, faults);
    immutable(&spec.field("selector"), &old_spec.field("selector"), faults);
    pod_template(spec, old, faults);
    for field in ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"] {
        immutable(&spec.field(field), &old_spec.field(field), faults);
    }
}

/// Only Jobs that count by index can be made longer or shorter.
fn completions(spec: &At, old: &At, faults: &mut Faults) {
    let at = spec.field("completions");
    if !is_indexed(spec.value) {
        return immutable(&at, &old.field("completions"), faults);
    }
    let changed = at.is_set() && at.number() != old.field("completions").number();
    if changed && at.number() != spec.field("parallelism").number() {
        faults.push(at.invalid("can only be modified in tandem with spec.parallelism"));
    }
}

/// The template stays, except for what a suspended Job without pods may still learn about nodes and resources.
fn pod_template(spec: &At, old: &Value, faults: &mut Faults) {
    let at = spec.field("template");
    let mut kept = at.value.clone();
    let old_template = &old["spec"]["template"];
    let suspended = old.flag(&["spec", "suspend"]);
    let idle = suspended && is_idle(old);
    if idle {
        keep_scheduling(&mut kept, old_template);
        keep_resources(&mut kept, old_template);
    }
    if same(&kept, old_template) {
        return;
    }
    // Upstream names the spec alone where resources may change.
    let shown = at.field("spec");
    let fault = if idle {
        FieldError::invalid(spec.field("template.spec").path, shown.value.clone(), "field is immutable")
    } else {
        at.invalid("field is immutable")
    };
    faults.push(fault);
}

/// Whether a suspended Job has no pods: it never started, or it has been suspended since.
fn is_idle(job: &Value) -> bool {
    let started = job.at(&["status", "startTime"]).is_some();
    let active = job.int(&["status", "active"]).unwrap_or(0);
    active == 0 && (!started || crate::workload::is_true(job, "Suspended"))
}

fn keep_scheduling(kept: &mut Value, old: &Value) {
    for path in [
        &["metadata", "labels"][..],
        &["metadata", "annotations"],
        &["spec", "nodeSelector"],
        &["spec", "tolerations"],
        &["spec", "schedulingGates"],
        &["spec", "affinity", "nodeAffinity"],
    ] {
        match old.at(path) {
            Some(value) => kept.put(path, value.clone()),
            None => _ = kept.remove(path),
        }
    }
}

fn keep_resources(kept: &mut Value, old: &Value) {
    let Some(spec) = crate::fill::child(kept, "spec") else { return };
    for list in ["containers", "initContainers"] {
        let old = old.items(&["spec", list]);
        if spec.items(&[list]).len() != old.len() {
            continue;
        }
        for (container, old) in crate::fill::items(spec, list).zip(old) {
            if container.text(&["name"]) == old.text(&["name"]) {
                crate::halves::restore(container, old, "resources");
            }
        }
    }
}
