//! The table form of pods.

use std::collections::BTreeSet;

use meta::{ObjectExt, Time};
use serde_json::Value;

use super::resources::is_sidecar;
use crate::Column;
use crate::column::{NONE, age, name, or_none, span};

/// The columns of pods.
pub(crate) fn all() -> Vec<Column> {
    let wide = |name: &'static str, description, cell| Column::new(name, "string", description, cell).wide();
    vec![
        name(),
        Column::new("Ready", "string", "Containers that are ready, of all.", |pod, _| {
            let summary = Summary::of(pod);
            format!("{}/{}", summary.ready, summary.total).into()
        }),
        Column::new("Status", "string", "What the containers are doing, in one word.", |pod, _| status(pod).into()),
        Column::new("Restarts", "string", "How often containers were restarted, and when last.", |pod, now| {
            Summary::of(pod).restarts(now).into()
        }),
        age(),
        wide("IP", "The pod's first address.", |pod, _| or_none(super::pod_ip(pod)).into()),
        wide("Node", "Where the pod runs.", |pod, _| or_none(pod.text(&["spec", "nodeName"])).into()),
        wide("Nominated Node", "Where room is being made for the pod.", |pod, _| {
            or_none(pod.text(&["status", "nominatedNodeName"])).into()
        }),
        wide("Readiness Gates", "Conditions that the pod waits for, and how many are true.", |pod, _| {
            readiness_gates(pod).into()
        }),
    ]
}

/// The pod's state in one word, as the table shows it.
pub(crate) fn status(pod: &Value) -> String {
    Summary::of(pod).reason
}

/// The status of a condition; empty when there is none.
pub(crate) fn condition<'v>(pod: &'v Value, kind: &str) -> &'v str {
    let conditions = pod.items(&["status", "conditions"]);
    conditions.iter().find(|c| c.text(&["type"]) == kind).map_or("", |c| c.text(&["status"]))
}

fn readiness_gates(pod: &Value) -> String {
    let gates = pod.items(&["spec", "readinessGates"]);
    if gates.is_empty() {
        return NONE.to_owned();
    }
    let fulfilled = gates.iter().filter(|gate| condition(pod, gate.text(&["conditionType"])) == "True").count();
    format!("{fulfilled}/{}", gates.len())
}

/// What the statuses of all containers come to.
struct Summary {
    reason: String,
    ready: usize,
    total: usize,
    restarts: i64,
    last_restart: Option<Time>,
}

impl Summary {
    fn of(pod: &Value) -> Self {
        let sidecars: BTreeSet<&str> = pod
            .items(&["spec", "initContainers"])
            .iter()
            .filter(|container| is_sidecar(container))
            .map(|container| container.text(&["name"]))
            .collect();
        let mut summary = Self {
            reason: before_containers(pod),
            ready: 0,
            total: pod.items(&["spec", "containers"]).len() + sidecars.len(),
            restarts: 0,
            last_restart: None,
        };
        let initializing = summary.add_init(pod, &sidecars);
        if !initializing || condition(pod, "Initialized") == "True" {
            summary.add_regular(pod, &sidecars);
        }
        summary.end(pod);
        summary
    }

    /// Counts init containers up to the first that has not done its part; says whether there is one.
    fn add_init(&mut self, pod: &Value, sidecars: &BTreeSet<&str>) -> bool {
        for (index, status) in pod.items(&["status", "initContainerStatuses"]).iter().enumerate() {
            self.count(status);
            let ended = status.at(&["state", "terminated"]);
            if ended.is_some_and(|end| end.int(&["exitCode"]).unwrap_or(0) == 0) {
                continue;
            }
            if sidecars.contains(status.text(&["name"])) && status.flag(&["started"]) {
                self.ready += usize::from(status.flag(&["ready"]));
                continue;
            }
            let waiting = status.text(&["state", "waiting", "reason"]);
            self.reason = match ended {
                Some(end) => format!("Init:{}", end_reason(end)),
                None if !waiting.is_empty() && waiting != "PodInitializing" => format!("Init:{waiting}"),
                None => format!("Init:{index}/{}", pod.items(&["spec", "initContainers"]).len()),
            };
            return true;
        }
        false
    }

    /// Counts the regular containers; of the init containers' restarts only those of sidecars still matter.
    fn add_regular(&mut self, pod: &Value, sidecars: &BTreeSet<&str>) {
        (self.restarts, self.last_restart) = (0, None);
        let init = pod.items(&["status", "initContainerStatuses"]).iter();
        init.filter(|status| sidecars.contains(status.text(&["name"]))).for_each(|status| self.count(status));
        let (mut running, mut error) = (false, None);
        for status in pod.items(&["status", "containerStatuses"]).iter().rev() {
            self.count(status);
            let waiting = status.text(&["state", "waiting", "reason"]);
            if !waiting.is_empty() {
                self.reason = waiting.to_owned();
            } else if let Some(end) = status.at(&["state", "terminated"]) {
                self.reason = end_reason(end);
                if end.int(&["exitCode"]).unwrap_or(0) != 0 {
                    error = Some(self.reason.clone());
                }
            } else if status.flag(&["ready"]) && status.at(&["state", "running"]).is_some() {
                running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" {
            self.partly_completed(running, condition(pod, "Ready") == "True", error);
        }
    }

    /// Some containers are done, which says little about the others.
    fn partly_completed(&mut self, running: bool, ready: bool, error: Option<String>) {
        if running && ready {
            self.reason = "Running".to_owned();
        } else if let Some(error) = error {
            self.reason = error;
        } else if running {
            self.reason = "NotReady".to_owned();
        }
    }

    fn end(&mut self, pod: &Value) {
        if !pod.is_deleting() {
            return;
        }
        if pod.text(&["status", "reason"]) == "NodeLost" {
            self.reason = "Unknown".to_owned();
        } else if !matches!(pod.text(&["status", "phase"]), "Failed" | "Succeeded") {
            self.reason = "Terminating".to_owned();
        }
    }

    fn count(&mut self, status: &Value) {
        self.restarts = self.restarts.saturating_add(status.int(&["restartCount"]).unwrap_or(0));
        let ended = Time::parse(status.text(&["lastState", "terminated", "finishedAt"]));
        self.last_restart = self.last_restart.max(ended);
    }

    fn restarts(&self, now: Time) -> String {
        match self.last_restart {
            Some(last) if self.restarts != 0 => format!("{} ({} ago)", self.restarts, span(last, now)),
            _ => self.restarts.to_string(),
        }
    }
}

fn before_containers(pod: &Value) -> String {
    let conditions = pod.items(&["status", "conditions"]);
    let gated = |c: &Value| c.text(&["type"]) == "PodScheduled" && c.text(&["reason"]) == "SchedulingGated";
    if conditions.iter().any(gated) {
        return "SchedulingGated".to_owned();
    }
    match pod.text(&["status", "reason"]) {
        "" => pod.text(&["status", "phase"]).to_owned(),
        reason => reason.to_owned(),
    }
}

fn end_reason(end: &Value) -> String {
    let reason = end.text(&["reason"]);
    match (reason, end.int(&["signal"]).unwrap_or(0)) {
        ("", 0) => format!("ExitCode:{}", end.int(&["exitCode"]).unwrap_or(0)),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}
