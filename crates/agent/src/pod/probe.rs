//! Probes as a state machine: when the next one is due, and what the results so far amount to. How a probe is
//! carried out (a command, a request, a connection) is an effect.
//!
//! A container that has just been started is seldom ready when it is first asked, and would wait a whole period for the
//! next look. So until it first succeeds, whatever decides that a pod is ready is also asked between the due times, soon
//! and then less and less often. Such early failures count for nothing and nobody is told of them: thresholds and events
//! are as with a kubelet.

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

/// From the first probe to the first early one; each next gap is twice as long.
const EARLY_GAP: Duration = Duration::from_millis(50);

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
    /// Whether the pod waits for its success.
    is_awaited: bool,
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
    /// How many have begun.
    begun: u32,
    /// When the last one began whose failure counted.
    last_due: Option<Time>,
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
    pub fn of(kind: Kind, spec: &'a Value) -> Option<Probe<'a>> {
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
            is_awaited: kind != Kind::Liveness,
        })
    }

    /// Whether something has to be run in the container for it.
    pub fn is_command(&self) -> bool {
        self.spec.get("exec").is_some_and(Value::is_object)
    }

    /// Whether it is asked early: where its success is waited for, and asking costs the container little (a command costs
    /// it a process).
    fn is_early(&self) -> bool {
        self.is_awaited && !self.is_command()
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

    /// When the next probe begins, for a container that started at `started`.
    pub fn due(&self, probe: &Probe<'_>, started: Time) -> Time {
        let Some(last) = self.last_begun else { return started.after(probe.initial_delay) };
        let due = self.last_due.unwrap_or(last).after(probe.period);
        let has_succeeded = self.verdict == Some(true) || self.last_succeeded == Some(true);
        if has_succeeded || !probe.is_early() {
            return due;
        }
        let gap = EARLY_GAP.saturating_mul(1_u32.checked_shl(self.begun.saturating_sub(1)).unwrap_or(u32::MAX));
        due.min(last.after(gap.min(probe.period)))
    }

    /// A probe begins.
    pub fn begin(&mut self, now: Time) {
        self.last_begun = Some(now);
        self.begun = self.begun.saturating_add(1);
    }

    /// Whether the probe that began last is an extra one, before its time.
    pub fn is_early(&self, probe: &Probe<'_>) -> bool {
        self.last_due.zip(self.last_begun).is_some_and(|(due, begun)| begun < due.after(probe.period))
    }

    /// A probe has ended. Whether the verdict has changed.
    pub fn end(&mut self, probe: &Probe<'_>, answer: &ProbeAnswer) -> bool {
        let is_early = self.is_early(probe);
        if !is_early {
            self.last_due = self.last_begun;
        }
        let succeeded = match answer {
            ProbeAnswer::Success => true,
            ProbeAnswer::Failure(_) if !is_early => false,
            ProbeAnswer::Failure(_) | ProbeAnswer::Unknown(_) => return false,
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
        let probe = Probe::of(Kind::Readiness, &spec).expect("a probe");
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
        let spec = json!({"initialDelaySeconds": 5, "periodSeconds": 3, "exec": {"command": ["true"]}});
        let probe = Probe::of(Kind::Readiness, &spec).expect("a probe");
        let mut prober = Prober::default();
        assert_eq!(prober.due(&probe, Time::from_secs(100)), Time::from_secs(105));
        prober.begin(Time::from_secs(106));
        assert_eq!(prober.due(&probe, Time::from_secs(100)), Time::from_secs(109));
    }

    /// The times in milliseconds at which it is asked, while it fails and then succeeds; and the verdicts' changes.
    fn asked(kind: Kind, spec: &Value, until: i64, succeeds_from: i64) -> (Vec<i64>, Vec<(i64, bool)>) {
        let probe = Probe::of(kind, spec).expect("a probe");
        let started = Time::from_secs(100);
        let (mut prober, mut times, mut changes) = (Prober::default(), Vec::new(), Vec::new());
        loop {
            let due = prober.due(&probe, started);
            let at = i64::try_from(due.since(started).as_millis()).expect("a short time");
            if at > until {
                return (times, changes);
            }
            times.push(at);
            prober.begin(due);
            let answer = if at < succeeds_from { ProbeAnswer::Failure(String::new()) } else { ProbeAnswer::Success };
            if prober.end(&probe, &answer) {
                changes.extend(prober.verdict().map(|verdict| (at, verdict)));
            }
        }
    }

    #[test]
    fn a_success_that_is_waited_for_is_looked_for_early() {
        let spec = json!({"periodSeconds": 2, "httpGet": {"port": 80}});
        let (times, changes) = asked(Kind::Readiness, &spec, 6_000, 300);
        assert_eq!((times, changes), (vec![0, 50, 150, 350, 2_000, 4_000, 6_000], vec![(350, true)]));
        let (times, _) = asked(Kind::Readiness, &spec, 9_000, 100_000);
        assert_eq!(times, [0, 50, 150, 350, 750, 1_550, 2_000, 4_000, 6_000, 8_000], "no more often than that");
        let (times, _) = asked(Kind::Liveness, &spec, 5_000, 300);
        assert_eq!(times, [0, 2_000, 4_000], "nobody waits for it");
    }

    #[test]
    fn early_failures_do_not_count() {
        let spec = json!({"periodSeconds": 1, "failureThreshold": 3, "tcpSocket": {"port": 80}});
        assert_eq!(asked(Kind::Startup, &spec, 2_500, 100_000).1, [(2_000, false)]);
        assert_eq!(asked(Kind::Startup, &spec, 2_500, 1_900).1, [(2_000, true)]);
    }
}
