//! Jobs: pods that run until enough of them have succeeded.

use meta::{FieldError, ObjectExt, Time, name as names};
use serde_json::{Map, Value};

use crate::check::{At, Faults};
use crate::column::{age, name, span};
use crate::core::pod::{defaults, prepare_template, warnings};
use crate::halves::{drop_status, keep_other_half};
use crate::workload::{condition, is_true, wide_columns};
use crate::{Column, Converged, KindDef, UpdateOf, fill};

mod indexes;
mod policy;
pub(crate) mod spec;
mod status;

/// Labels by which a Job knows its pods: the old names and the new.
pub const NAME_LABELS: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];
/// Labels with the Job's uid: the old name and the new.
pub const UID_LABELS: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];
/// Above these numbers together indexes cannot always be kept track of.
const MANY_COMPLETIONS: i64 = 100_000;
const MANY_AT_ONCE: i64 = 10_000;

/// The declaration.
pub fn def() -> KindDef {
    KindDef::new("batch", "v1", "Job", "jobs")
        .category("all")
        .schema("io.k8s.api.batch.v1.Job")
        .counts_generation()
        .with_status()
        .columns(columns())
        .selectable_by("status.successful", |job, _| succeeded(job).to_string())
        .orphans_by_default()
        .health(health)
        .defaults(default)
        .prepares_create(prepare_create)
        .prepares_update(prepare_update)
        .validates(validate)
        .validates_update(validate_update)
        .warns(warn)
        .named_by(names::dns1123_subdomain)
        .example(
            r#"{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"pi","namespace":"default"},"spec":{
                "template":{"spec":{"restartPolicy":"Never",
                    "containers":[{"name":"pi","image":"perl:5.34.0"}]}}}}"#,
        )
}

fn succeeded(job: &Value) -> i64 {
    job.int(&["status", "succeeded"]).unwrap_or(0)
}

fn columns() -> Vec<Column> {
    let mut columns = vec![
        name(),
        Column::new("Status", "string", "Status of the job.", |job, _| state(job).into()),
        Column::new("Completions", "string", "Pods that succeeded, of those that must.", |job, _| {
            completions(job).into()
        }),
        Column::new("Duration", "string", "Time required to complete the job.", |job, now| duration(job, now).into()),
        age(),
    ];
    columns.extend(wide_columns());
    columns
}

/// The Job's state in one word, as the table shows it.
fn state(job: &Value) -> &'static str {
    let set = |kind: &str| is_true(job, kind);
    match () {
        () if set("Complete") => "Complete",
        () if set("Failed") => "Failed",
        () if job.is_deleting() => "Terminating",
        () if set("Suspended") => "Suspended",
        () if set("FailureTarget") => "FailureTarget",
        () if set("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

fn completions(job: &Value) -> String {
    let done = succeeded(job);
    match (job.int(&["spec", "completions"]), job.int(&["spec", "parallelism"])) {
        (Some(wanted), _) => format!("{done}/{wanted}"),
        (None, Some(parallelism @ 2..)) => format!("{done}/1 of {parallelism}"),
        (None, _) => format!("{done}/1"),
    }
}

fn duration(job: &Value, now: Time) -> String {
    let time = |field: &str| Time::parse(job.text(&["status", field]));
    match (time("startTime"), time("completionTime")) {
        (None, _) => String::new(),
        (Some(start), end) => span(start, end.unwrap_or(now)),
    }
}

fn default(object: &mut Value) {
    if let Some(spec) = fill::made(object, "spec") {
        spec_defaults(spec);
    }
    // Labels follow from the template, but not before it has those that tell the Jobs apart.
    if object.at(&["spec", "selector"]).is_some() {
        labels_from_template(object);
    }
}

/// Defaults of a Job's spec, as CronJobs have it too.
pub(crate) fn spec_defaults(spec: &mut Value) {
    if spec.get("completions").is_none() && spec.get("parallelism").is_none() {
        fill::absent(spec, "completions", 1);
    }
    fill::absent(spec, "parallelism", 1);
    let backoff = if spec.get("backoffLimitPerIndex").is_some() { i64::from(i32::MAX) } else { 6 };
    fill::absent(spec, "backoffLimit", backoff);
    fill::absent(spec, "completionMode", "NonIndexed");
    fill::absent(spec, "suspend", false);
    let replacement = if spec.get("podFailurePolicy").is_some() { "Failed" } else { "TerminatingOrFailed" };
    fill::absent(spec, "podReplacementPolicy", replacement);
    fill::absent(spec, "manualSelector", false);
    template_defaults(spec);
}

/// Defaults of what a Job's spec holds, which the template of a CronJob gets as well.
pub(crate) fn template_defaults(spec: &mut Value) {
    if let Some(policy) = fill::child(spec, "podFailurePolicy") {
        for rule in fill::items(policy, "rules") {
            fill::items(rule, "onPodConditions").for_each(|pattern| fill::zero(pattern, "status", "True"));
        }
    }
    if let Some(template) = fill::made(spec, "template") {
        defaults::template(template);
    }
}

fn labels_from_template(object: &mut Value) {
    if object.map(&["metadata", "labels"]).is_none_or(Map::is_empty)
        && let Some(labels) = object.map(&["spec", "template", "metadata", "labels"]).cloned()
    {
        object.put(&["metadata", "labels"], labels);
    }
}

fn prepare_create(object: &mut Value) {
    if !object.flag(&["spec", "manualSelector"]) {
        generate_selector(object);
    }
    labels_from_template(object);
    drop_status(object);
    drop_disabled(object);
}

/// Labels that no other Job has, and a selector for them.
fn generate_selector(object: &mut Value) {
    let (name, uid) = (object.name().to_owned(), object.uid().to_owned());
    let labels = object.map_mut(&["spec", "template", "metadata", "labels"]);
    for (keys, value) in [(NAME_LABELS, &name), (UID_LABELS, &uid)] {
        for key in keys {
            labels.entry(key).or_insert_with(|| value.as_str().into());
        }
    }
    let selector = object.map_mut(&["spec", "selector", "matchLabels"]);
    selector.entry(UID_LABELS[1]).or_insert_with(|| uid.into());
}

fn prepare_update(new: &mut Value, old: &Value, what: UpdateOf) {
    keep_other_half(new, old, what);
    drop_disabled(new);
}

fn drop_disabled(object: &mut Value) {
    object.remove(&["spec", "scheduling"]);
    prepare_template(object);
}

fn validate(object: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(object);
    generated_selector(&root, true, &mut faults);
    spec::check(&root.field("spec"), &mut faults);
    host_names(&root, &mut faults);
    faults
}

/// Checks that a selector that was to be generated selects this Job's pods only.
fn generated_selector(root: &At, prefixed: bool, faults: &mut Faults) {
    let spec = root.field("spec");
    let selector = spec.field("selector");
    if spec.field("manualSelector").is_true() || !selector.is_set() {
        return;
    }
    let pods = spec.field("template");
    let metadata = pods.field("metadata");
    let mut expected = Map::new();
    for (keys, value) in [(UID_LABELS, root.value.uid()), (NAME_LABELS, root.value.name())] {
        for key in keys.into_iter().take(if prefixed { 2 } else { 1 }) {
            has_label(&metadata, key, value, faults);
            expected.insert(key.to_owned(), value.into());
        }
    }
    let parsed = meta::labels::Selector::from_label_selector(Some(selector.value));
    if parsed.is_ok_and(|parsed| !parsed.matches(&expected)) {
        faults.push(selector.invalid("`selector` not auto-generated"));
    }
}

fn has_label(metadata: &At, key: &str, expected: &str, faults: &mut Faults) {
    let labels = metadata.field("labels");
    let label = labels.entry(key);
    let detail = format!("must be '{expected}'");
    if !label.is_set() {
        faults.push(label.required(detail));
    } else if label.text() != expected {
        faults.push(label.invalid_as(labels.value.clone(), detail));
    }
}

/// Pods of Jobs that count by index are named after the Job and the index.
fn host_names(root: &At, faults: &mut Faults) {
    let spec = root.field("spec");
    let completions = spec.field("completions").number();
    if !spec::is_indexed(spec.value) || completions <= 0 {
        return;
    }
    let longest = format!("{}-{}", root.value.name(), completions - 1);
    if !names::dns1123_label(&longest).is_empty() {
        let metadata = root.field("metadata");
        let detail = format!("will not able to create pod with invalid DNS label: {longest}");
        faults.push(metadata.field("name").invalid(detail));
    }
}

fn validate_update(new: &Value, old: &Value, what: UpdateOf) -> Vec<FieldError> {
    let mut faults = Faults::new();
    if what == UpdateOf::Status {
        status::check(new, old, &mut faults);
    } else {
        let root = At::root(new);
        spec::check_update(&root.field("spec"), old, &mut faults);
        host_names(&root, &mut faults);
    }
    faults
}

fn warn(new: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    if old.is_none() {
        warnings::of_name(new, &mut warnings);
    }
    if old.is_none_or(|old| !crate::check::same(&new["spec"], &old["spec"])) {
        let root = At::root(new);
        warn_spec(&root.field("spec"), &mut warnings);
    }
    warnings
}

/// Warnings for the spec of a Job.
pub(crate) fn warn_spec(spec: &At, warnings: &mut Vec<String>) {
    let of = |field: &str| spec.value.int(&[field]).unwrap_or(0);
    if spec::is_indexed(spec.value) && of("completions") > MANY_COMPLETIONS && of("parallelism") > MANY_AT_ONCE {
        warnings.push(format!(
            "{}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, \
             Kubernetes might not be able to track completedIndexes when a big number of indexes fail",
            spec.path
        ));
    }
    warnings::of_template(&spec.field("template"), warnings);
}

/// Complete is converged; a suspended Job waits for somebody.
fn health(job: &Value) -> Converged {
    let message = |kind: &str| condition(job, kind).map_or("", |c| c.text(&["message"])).to_owned();
    if is_true(job, "Failed") || is_true(job, "FailureTarget") {
        let kind = if is_true(job, "Failed") { "Failed" } else { "FailureTarget" };
        return Converged::Failed(message(kind));
    }
    if is_true(job, "Complete") {
        return Converged::Yes;
    }
    if job.is_deleting() {
        return Converged::Progressing("is being deleted".to_owned());
    }
    if job.flag(&["spec", "suspend"]) {
        return Converged::Yes;
    }
    Converged::Progressing(format!("{} completions", completions(job)))
}

#[cfg(test)]
mod tests;
