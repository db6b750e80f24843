//! CronJobs: Jobs made by the clock.

use jiff::tz::TimeZone;
use meta::{FieldError, ObjectExt, name as names};
use serde_json::Value;

use super::job;
use super::schedule::Schedule;
use crate::check::{At, Faults, non_negative, one_of, same};
use crate::column::{NONE, age, joined, name, selector_text, since};
use crate::core::pod::{drop_disabled, warnings};
use crate::halves::{drop_status, keep_other_half};
use crate::workload::selector_column;
use crate::{Column, KindDef, UpdateOf, column, fill};

/// Names of Jobs are eleven characters longer and must be labels.
const NAME_MAX: usize = 52;
const JOB: &[&str] = &["spec", "jobTemplate", "spec"];
const CONTAINERS: &[&str] = &["spec", "jobTemplate", "spec", "template", "spec", "containers"];

/// The declaration.
pub fn def() -> KindDef {
    KindDef::new("batch", "v1", "CronJob", "cronjobs")
        .short("cj")
        .category("all")
        .schema("io.k8s.api.batch.v1.CronJob")
        .counts_generation()
        .with_status()
        .columns(columns())
        .defaults(default)
        .prepares_create(prepare_create)
        .prepares_update(prepare_update)
        .validates(validate)
        .validates_update(validate_update)
        .warns(warn)
        .named_by(names::dns1123_subdomain)
        .example(
            r#"{"apiVersion":"batch/v1","kind":"CronJob","metadata":{"name":"hello","namespace":"default"},"spec":{
                "schedule":"*/5 * * * *","jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"OnFailure",
                    "containers":[{"name":"hello","image":"busybox:1.28"}]}}}}}}"#,
        )
}

fn columns() -> Vec<Column> {
    let [containers, images] = column::containers(
        |object, _| joined(object.items(CONTAINERS), "name"),
        |object, _| joined(object.items(CONTAINERS), "image"),
    );
    vec![
        name(),
        Column::new("Schedule", "string", "When Jobs are made.", |o, _| o.text(&["spec", "schedule"]).into()),
        Column::new("Timezone", "string", "On whose clock.", |o, _| {
            o.at(&["spec", "timeZone"]).and_then(Value::as_str).unwrap_or(NONE).into()
        }),
        Column::new("Suspend", "boolean", "Whether no Jobs are made for now.", |o, _| {
            match o.at(&["spec", "suspend"]) {
                Some(Value::Bool(true)) => "True".into(),
                Some(Value::Bool(false)) => "False".into(),
                _ => "<unset>".into(),
            }
        }),
        Column::new("Active", "integer", "Jobs that run.", |o, _| o.items(&["status", "active"]).len().into()),
        Column::new("Last Schedule", "string", "When the last Job was made.", |o, now| {
            match o.text(&["status", "lastScheduleTime"]) {
                "" => NONE.into(),
                stamp => since(stamp, now).into(),
            }
        }),
        age(),
        containers,
        images,
        selector_column(|o, _| selector_text(o.at(&["spec", "jobTemplate", "spec", "selector"])).into()),
    ]
}

fn default(object: &mut Value) {
    let Some(spec) = fill::made(object, "spec") else { return };
    fill::zero(spec, "concurrencyPolicy", "Allow");
    fill::absent(spec, "suspend", false);
    fill::absent(spec, "successfulJobsHistoryLimit", 3);
    fill::absent(spec, "failedJobsHistoryLimit", 1);
    if let Some(job) = fill::made(spec, "jobTemplate").and_then(|template| fill::made(template, "spec")) {
        job::template_defaults(job);
    }
}

fn prepare_create(object: &mut Value) {
    drop_status(object);
    drop_off(object);
}

fn prepare_update(new: &mut Value, old: &Value, what: UpdateOf) {
    keep_other_half(new, old, what);
    drop_off(new);
}

fn drop_off(object: &mut Value) {
    if let Some(job) = fill::descend(object, JOB) {
        job.remove(&["scheduling"]);
        if let Some(template) = fill::child(job, "template") {
            drop_disabled(template);
        }
    }
}

fn validate(object: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(object);
    check_spec(&root.field("spec"), None, &mut faults);
    let metadata = root.field("metadata");
    if object.name().len() > NAME_MAX {
        faults.push(metadata.field("name").invalid("must be no more than 52 characters"));
    }
    faults
}

fn validate_update(new: &Value, old: &Value, what: UpdateOf) -> Vec<FieldError> {
    let mut faults = Faults::new();
    if what != UpdateOf::Status {
        check_spec(&At::root(new).field("spec"), Some(&old["spec"]), &mut faults);
    }
    faults
}

fn check_spec(spec: &At, old: Option<&Value>, faults: &mut Faults) {
    let (when, zone) = (spec.field("schedule"), spec.field("timeZone"));
    if when.text().is_empty() {
        faults.push(when.required(""));
    } else {
        let zone_was_in_it = old.is_some_and(|old| old.text(&["schedule"]).contains("TZ"));
        schedule(&when, zone_was_in_it, zone.is_set(), faults);
    }
    non_negative(&spec.field("startingDeadlineSeconds"), faults);
    if old.is_none_or(|old| old.get("timeZone").unwrap_or(&Value::Null) != zone.value) {
        time_zone(&zone, faults);
    }
    one_of(&spec.field("concurrencyPolicy"), &["Allow", "Forbid", "Replace"], faults);
    let template = spec.field("jobTemplate");
    job_template(&template.field("spec"), faults);
    non_negative(&spec.field("successfulJobsHistoryLimit"), faults);
    non_negative(&spec.field("failedJobsHistoryLimit"), faults);
}

fn schedule(at: &At, zone_was_in_it: bool, has_zone: bool, faults: &mut Faults) {
    if let Err(fault) = Schedule::parse(at.text()) {
        faults.push(at.invalid(fault));
    }
    let zone_in_it = at.text().contains("TZ");
    if zone_in_it && !zone_was_in_it {
        faults.push(at.invalid("cannot use TZ or CRON_TZ in schedule, use timeZone field instead"));
    } else if zone_in_it && has_zone {
        faults.push(at.invalid("cannot use both timeZone field and TZ or CRON_TZ in schedule"));
    }
}

fn time_zone(at: &At, faults: &mut Faults) {
    let zone = at.text();
    if !at.is_set() {
        return;
    }
    if zone.is_empty() {
        return faults.push(at.invalid("timeZone must be nil or non-empty string"));
    }
    if zone.eq_ignore_ascii_case("local") {
        let detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        faults.push(at.invalid(detail));
    }
    // Go knows one zone more than everybody: this machine's.
    if zone != "Local" && (!zone.split('/').all(is_zone_part) || TimeZone::get(zone).is_err()) {
        faults.push(at.invalid(format!("unknown time zone {zone}")));
    }
}

/// Names of zones are looked up as files: their parts must be harmless.
fn is_zone_part(part: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b'+');
    (1..=14).contains(&part.len()) && !matches!(part, "." | "..") && !part.starts_with('-') && part.bytes().all(fits)
}

fn job_template(at: &At, faults: &mut Faults) {
    job::spec::check_template(at, faults);
    if at.has("selector") {
        faults.push(at.field("selector").invalid("`selector` will be auto-generated"));
    }
    if at.field("manualSelector").is_true() {
        faults.push(at.field("manualSelector").unsupported(&["nil", "false"]));
    }
}

fn warn(new: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    if old.is_none() {
        warnings::of_name(new, &mut warnings);
    }
    if old.is_none_or(|old| !same(&new["spec"], &old["spec"])) {
        let root = At::root(new);
        let spec = root.field("spec");
        job::warn_spec(&spec.field("jobTemplate").field("spec"), &mut warnings);
    }
    if old.is_some() && new.text(&["spec", "schedule"]).contains("TZ") {
        warnings.push(
            "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see \
             https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
                .to_owned(),
        );
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn example() -> Value {
        let mut object: Value = serde_json::from_str(def().example).expect("example is JSON");
        default(&mut object);
        object
    }

    fn texts(faults: &[FieldError]) -> Vec<String> {
        faults.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn defaults() {
        let object = example();
        let spec = &object["spec"];
        assert_eq!((&spec["concurrencyPolicy"], &spec["suspend"]), (&json!("Allow"), &json!(false)));
        assert_eq!(spec["jobTemplate"]["spec"].get("parallelism"), None);
        assert_eq!(spec["jobTemplate"]["spec"]["template"]["spec"]["dnsPolicy"], "ClusterFirst");
        assert_eq!(validate(&object), []);
    }

    #[test]
    fn checks_read_like_upstream() {
        let check = |change: fn(&mut Value), expected: &[&str]| {
            let mut object = example();
            change(&mut object["spec"]);
            assert_eq!(texts(&validate(&object)), expected);
        };
        check(|spec| spec["timeZone"] = json!("Europe/Zurich"), &[]);
        check(
            |spec| spec["schedule"] = json!("error"),
            &["spec.schedule: Invalid value: \"error\": expected exactly 5 fields, found 1: [error]"],
        );
        check(
            |spec| spec["schedule"] = json!("TZ=UTC 0 * * * *"),
            &[
                "spec.schedule: Invalid value: \"TZ=UTC 0 * * * *\": cannot use TZ or CRON_TZ in schedule, use timeZone \
               field instead",
            ],
        );
        check(
            |spec| spec["timeZone"] = json!(""),
            &["spec.timeZone: Invalid value: \"\": timeZone must be nil or non-empty string"],
        );
        check(
            |spec| spec["timeZone"] = json!("../etc/passwd"),
            &["spec.timeZone: Invalid value: \"../etc/passwd\": unknown time zone ../etc/passwd"],
        );
        check(
            |spec| spec["timeZone"] = json!("Continent/Zone"),
            &["spec.timeZone: Invalid value: \"Continent/Zone\": unknown time zone Continent/Zone"],
        );
        check(
            |spec| spec["timeZone"] = json!("Local"),
            &["spec.timeZone: Invalid value: \"Local\": timeZone must be an explicit time zone as defined in \
               https://www.iana.org/time-zones"],
        );
        check(
            |spec| spec["concurrencyPolicy"] = json!("Maybe"),
            &["spec.concurrencyPolicy: Unsupported value: \"Maybe\": supported values: \"Allow\", \"Forbid\", \
               \"Replace\""],
        );
        check(
            |spec| spec["jobTemplate"]["spec"]["selector"] = json!({"matchLabels": {"a": "b"}}),
            &["spec.jobTemplate.spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"b\"}}: `selector` will be \
               auto-generated"],
        );
        check(
            |spec| spec["jobTemplate"]["spec"]["template"]["spec"]["restartPolicy"] = json!("Always"),
            &["spec.jobTemplate.spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \
               \"Never\""],
        );
        let mut object = example();
        object["metadata"]["name"] = json!("x".repeat(53));
        assert_eq!(validate(&object)[0].detail, "must be no more than 52 characters");
    }

    #[test]
    fn a_zone_in_the_schedule_is_tolerated_where_it_was() {
        let mut old = example();
        old["spec"]["schedule"] = json!("TZ=UTC 0 * * * *");
        assert_eq!(validate_update(&old, &old, UpdateOf::Main), []);
        assert_eq!(warn(&old, Some(&old)).len(), 1);
    }
}
