//! Probes as a state machine: when the next one is due, and what the results so far amount to. How a probe is
//! carried out (a command, a request, a connection) is an effect.

use std::time::Duration;

use meta::ObjectExt;
use serde_json::Value;
use stdx::Time;

use super::spec::seconds;

/// What a probe decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Whether the container has started; holds the others back until then.
    Startup,
    /// Whether it is to be started again.
    Liveness,
    /// Whether it takes work.
    Readiness,
}

/// Every kind, in the order in which they are looked at.
pub const KINDS: [Kind; 3] = [Kind::Startup, Kind::Liveness, Kind::Readiness];

/// One probe of a spec.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probe<'a> {
    /// `exec`, `httpGet`, `tcpSocket` or `grpc`, in the probe as written.
    pub spec: &'a Value,
    /// From the start of the container to the first probe.
    pub initial_delay: Duration,
    /// From one probe to the next.
    pub period: Duration,
    /// How long one may take.
    pub timeout: Duration,
    /// Successes in a row that count as one.
    pub successes_needed: u32,
    /// Failures in a row that count as one.
    pub failures_needed: u32,
    /// Grace of the stop that its failure leads to.
    pub grace: Option<Duration>,
}

/// How one probe ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeAnswer {
    /// It succeeded.
    Success,
    /// It failed, and what it said.
    Failure(String),
    /// It could not be carried out, and why. Counts as nothing.
    Unknown(String),
}

/// What is known of one probe of one life of a container.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prober {
    last_begun: Option<Time>,
    last_succeeded: Option<bool>,
    run: u32,
    verdict: Option<bool>,
}

impl Kind {
    /// The field of a container that holds it.
    pub fn field(self) -> &'static str {
        match self {
            Kind::Startup => "startupProbe",
            Kind::Liveness => "livenessProbe",
            Kind::Readiness => "readinessProbe",
        }
    }

    /// As events name it.
    pub fn title(self) -> &'static str {
        match self {
            Kind::Startup => "Startup",
            Kind::Liveness => "Liveness",
            Kind::Readiness => "Readiness",
        }
    }
}

impl<'a> Probe<'a> {
    /// The probe as written, with the API's defaults.
    pub fn of(spec: &'a Value) -> Option<Probe<'a>> {
        let number = |field: &str, default: i64| spec.int(&[field]).filter(|n| *n > 0).unwrap_or(default);
        let count = |field: &str, default: i64| u32::try_from(number(field, default)).unwrap_or(u32::MAX);
        spec.is_object().then(|| Probe {
            spec,
            initial_delay: seconds(number("initialDelaySeconds", 0)),
            period: seconds(number("periodSeconds", 10)),
            timeout: seconds(number("timeoutSeconds", 1)),
            successes_needed: count("successThreshold", 1),
            failures_needed: count("failureThreshold", 3),
            grace: spec.int(&["terminationGracePeriodSeconds"]).map(seconds),
        })
    }
}

impl Prober {
    /// What is known when nothing was probed yet but the API remembers a verdict on this life of the container.
    pub fn remembered(verdict: Option<bool>) -> Prober {
        Prober { verdict, ..Prober::default() }
    }

    /// What the results so far amount to; `None` when they amount to nothing yet.
    pub fn verdict(&self) -> Option<bool> {
        self.verdict
    }

    /// When the next probe is due, for a container that started at `started`.
    pub fn due(&self, probe: &Probe<'_>, started: Time) -> Time {
        let first = started.after(probe.initial_delay);
        self.last_begun.map_or(first, |last| last.after(probe.period))
    }

    /// A probe begins.
    pub fn begin(&mut self, now: Time) {
        self.last_begun = Some(now);
    }

    /// A probe has ended. Whether the verdict has changed.
    pub fn end(&mut self, probe: &Probe<'_>, answer: &ProbeAnswer) -> bool {
        let succeeded = match answer {
            ProbeAnswer::Success => true,
            ProbeAnswer::Failure(_) => false,
            ProbeAnswer::Unknown(_) => return false,
        };
        self.run = if self.last_succeeded == Some(succeeded) { self.run.saturating_add(1) } else { 1 };
        self.last_succeeded = Some(succeeded);
        let needed = if succeeded { probe.successes_needed } else { probe.failures_needed };
        let counts = self.run >= needed && self.verdict != Some(succeeded);
        if counts {
            self.verdict = Some(succeeded);
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(spec: Value, answers: &str, verdicts: &[Option<bool>]) {
        let probe = Probe::of(&spec).expect("a probe");
        let mut prober = Prober::default();
        let step = |answer: char| {
            let answer = match answer {
                '+' => ProbeAnswer::Success,
                '-' => ProbeAnswer::Failure(String::new()),
                _ => ProbeAnswer::Unknown(String::new()),
            };
            prober.end(&probe, &answer);
            prober.verdict()
        };
        assert_eq!(answers.chars().map(step).collect::<Vec<_>>(), verdicts, "{spec} {answers}");
    }

    #[test]
    fn results_in_a_row_make_a_verdict() {
        let (yes, no) = (Some(true), Some(false));
        check(json!({}), "+---", &[yes, yes, yes, no]);
        check(json!({}), "--+--", &[None, None, yes, yes, yes]);
        check(json!({"failureThreshold": 1}), "-+-", &[no, yes, no]);
        check(json!({"failureThreshold": 1, "successThreshold": 2}), "-+-++", &[no, no, no, no, yes]);
        check(json!({"failureThreshold": 2}), "-?-", &[None, None, no]);
    }

    #[test]
    fn the_first_waits_and_the_next_keeps_the_period() {
        let spec = json!({"initialDelaySeconds": 5, "periodSeconds": 3});
        let probe = Probe::of(&spec).expect("a probe");
        let mut prober = Prober::default();
        assert_eq!(prober.due(&probe, Time::from_secs(100)), Time::from_secs(105));
        prober.begin(Time::from_secs(106));
        assert_eq!(prober.due(&probe, Time::from_secs(100)), Time::from_secs(109));
    }
}
