//! What a job asks for.

use meta::{ObjectExt, Time};
use serde_json::Value;

/// The fields of a job that its controller decides on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct JobSpec {
    pub completions: Option<i64>,
    pub parallelism: i64,
    pub backoff_limit: i64,
    pub backoff_limit_per_index: Option<i64>,
    pub max_failed_indexes: Option<i64>,
    pub active_deadline: Option<u64>,
    pub is_indexed: bool,
    pub is_suspended: bool,
    /// Only pods that have ended are replaced, not those that are being deleted.
    pub replaces_failed_only: bool,
    pub restarts_on_failure: bool,
    pub failure_policy: Option<Value>,
    pub success_policy: Option<Value>,
}

impl JobSpec {
    /// Takes the facts, with the defaults that the API fills in.
    pub fn of(job: &Value) -> JobSpec {
        let int = |field: &str| job.int(&["spec", field]);
        let per_index = int("backoffLimitPerIndex");
        let failure_policy = job.at(&["spec", "podFailurePolicy"]).cloned();
        let replacement = job.text(&["spec", "podReplacementPolicy"]);
        JobSpec {
            completions: int("completions"),
            parallelism: int("parallelism").unwrap_or(1).max(0),
            backoff_limit: int("backoffLimit").unwrap_or(if per_index.is_some() { i64::from(i32::MAX) } else { 6 }),
            backoff_limit_per_index: per_index,
            max_failed_indexes: int("maxFailedIndexes"),
            active_deadline: int("activeDeadlineSeconds").and_then(|seconds| u64::try_from(seconds).ok()),
            is_indexed: job.text(&["spec", "completionMode"]) == "Indexed",
            is_suspended: job.flag(&["spec", "suspend"]),
            replaces_failed_only: replacement == "Failed" || (replacement.is_empty() && failure_policy.is_some()),
            restarts_on_failure: job.text(&["spec", "template", "spec", "restartPolicy"]) == "OnFailure",
            failure_policy,
            success_policy: job.at(&["spec", "successPolicy"]).cloned(),
        }
    }

    /// Whether `index` is one of the job's.
    pub fn has_index(&self, index: Option<i64>) -> bool {
        index.is_some_and(|index| index < self.completions.unwrap_or(0))
    }
}

/// The job's status as it stands.
#[derive(Clone, Debug, PartialEq, Default)]
pub(super) struct JobStatus {
    pub succeeded: i64,
    pub failed: i64,
    pub uncounted_succeeded: Vec<String>,
    pub uncounted_failed: Vec<String>,
    pub completed_indexes: String,
    pub failed_indexes: String,
    pub start_time: Option<Time>,
}

impl JobStatus {
    /// Takes the facts.
    pub fn of(job: &Value) -> JobStatus {
        let uids = |field: &str| {
            let listed = job.items(&["status", "uncountedTerminatedPods", field]).iter();
            listed.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        JobStatus {
            succeeded: job.int(&["status", "succeeded"]).unwrap_or(0),
            failed: job.int(&["status", "failed"]).unwrap_or(0),
            uncounted_succeeded: uids("succeeded"),
            uncounted_failed: uids("failed"),
            completed_indexes: job.text(&["status", "completedIndexes"]).to_owned(),
            failed_indexes: job.text(&["status", "failedIndexes"]).to_owned(),
            start_time: Time::parse(job.text(&["status", "startTime"])),
        }
    }
}
