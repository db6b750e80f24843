//! What an agent keeps of a pod between turns: what is under way, what failed and when, what probes have said. All of
//! it may be lost at any time (a restart): what matters for good stands in the pod's status and on its containers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use meta::ObjectExt;
use serde_json::Value;
use stdx::Time;

use super::notice::{Notice, ended_notes};
use super::probe::{Kind, Probe, Prober};
use super::spec::Pod;
use super::step::{Answer, Failure, Op, Pulled, Step};
use crate::resize::{self, Grant, Pending};

/// How long the same status patch is not repeated.
const REPORT_AGAIN: Duration = Duration::from_secs(10);

/// What is remembered of one pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    pub(super) underway: BTreeSet<Op>,
    pub(super) failures: BTreeMap<Op, Failures>,
    pub(super) is_mounted: bool,
    pub(super) is_unmounted: bool,
    pub(super) images: BTreeMap<String, Pulled>,
    pub(super) probers: BTreeMap<(String, Kind), Prober>,
    /// Hooks by container: what has to be done once it runs, or how that went.
    pub(super) hooks: BTreeMap<String, Hook>,
    pub(super) stops: BTreeMap<String, Stopping>,
    /// Back-offs that were told, by container and number.
    pub(super) told: BTreeSet<(String, u32)>,
    /// The last status patch that was taken, and when.
    pub(super) reported: Option<(Value, Time)>,
    /// Why the pod may not go on here, whatever its spec says.
    pub(super) verdict: Option<Verdict>,
    /// The resources that it may use; unknown until somebody says it.
    pub(super) grant: Option<Grant>,
    /// Why it may not use those that its spec asks for by now, and the generation of the spec.
    pub(super) pending: Option<(Pending, i64)>,
    /// The generation of the last resize that was granted.
    pub(super) resized: Option<i64>,
}

/// Failures of one operation in a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Failures {
    /// How many.
    pub count: u32,
    /// When the last one was.
    pub at: Time,
    /// The last one.
    pub last: Failure,
}

/// Where a postStart hook is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// It is to be performed.
    Due,
    /// It has succeeded.
    Done,
    /// It has failed: the container is to be stopped.
    Failed,
}

/// A stop under way.
#[derive(Clone, Debug, PartialEq)]
pub struct Stopping {
    /// When it was decided.
    pub since: Time,
    /// Whether the preStop hook is over.
    pub is_hook_over: bool,
    /// When the last signal comes, once the first has been sent.
    pub deadline: Option<Time>,
}

/// Why a pod ends on this node: it was not admitted, or was evicted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// `status.reason`, e.g. `OutOfcpu`, `Evicted`.
    pub reason: String,
    /// `status.message`.
    pub message: String,
    /// Whether it is a disruption of a pod that could have gone on.
    pub is_disruption: bool,
    /// How long its containers are given to end, where that is not what the pod asks for.
    pub grace: Option<Duration>,
}

impl Memory {
    /// The pod may not go on here.
    pub fn condemn(&mut self, verdict: Verdict) {
        self.verdict.get_or_insert(verdict);
    }

    /// The resources that it may use.
    pub fn grant(&self) -> Option<&Grant> {
        self.grant.as_ref()
    }

    /// It may use these from the start, or has used them.
    pub fn admit(&mut self, grant: Grant) {
        self.grant = Some(grant);
    }

    /// It may use what its spec asks for by now. What there is to say.
    pub fn grant_resize(&mut self, pod: &Value) -> Notice {
        (self.grant, self.pending, self.resized) = (Some(Grant::of(pod)), None, Some(pod.generation()));
        // What went wrong with the resize before says nothing about this one.
        self.failures.remove(&Op::Resize);
        resize::notice(pod, &resize::News::Started)
    }

    /// It may not use what its spec asks for by now. What there is to say, if that is new.
    pub fn hold_resize(&mut self, pod: &Value, pending: Pending) -> Option<Notice> {
        let held = Some((pending, pod.generation()));
        if self.pending == held {
            return None;
        }
        self.pending = held;
        self.pending.as_ref().map(|(pending, _)| resize::notice(pod, &resize::News::Pending(pending)))
    }

    /// It asks for what it has. Whether that is new.
    pub fn settle_resize(&mut self) -> bool {
        self.pending.take().is_some()
    }

    /// Whether it was condemned.
    pub fn is_condemned(&self) -> bool {
        self.verdict.is_some()
    }

    /// Whether the pod's volumes were removed.
    pub fn is_unmounted(&self) -> bool {
        self.is_unmounted
    }

    /// Whether something of the pod is being removed.
    pub fn is_removing(&self) -> bool {
        self.underway
            .iter()
            .any(|op| matches!(op, Op::RemoveContainer(_) | Op::StopSandbox(_) | Op::RemoveSandbox(_) | Op::Unmount))
    }

    /// A step begins.
    pub fn begin(&mut self, step: &Step, now: Time) {
        self.underway.insert(step.op());
        match step {
            Step::Probe { id, kind, .. } => self.probers.entry((id.clone(), *kind)).or_default().begin(now),
            Step::PreStop { id, .. } => {
                self.stop(id, now);
            }
            Step::Stop { id, grace, .. } => self.stop(id, now).deadline = Some(now.after(*grace)),
            Step::Mount => self.is_unmounted = false,
            Step::Unmount => self.is_mounted = false,
            _ => {}
        }
    }

    /// A step has ended. What there is to say about it.
    pub fn end(&mut self, pod: &Pod<'_>, step: &Step, answer: &Answer, now: Time) -> Vec<Notice> {
        let op = step.op();
        self.underway.remove(&op);
        // A resize that fails again and again, with another figure each time, is told once.
        let is_known = op == Op::Resize && self.failures.contains_key(&op);
        let is_early = self.prober_of(pod, step).is_some_and(|(prober, probe)| prober.is_early(&probe));
        let notes = if is_known || is_early { Vec::new() } else { ended_notes(pod, step, answer) };
        match answer {
            Answer::Failed(failure) => self.fail(op, failure.clone(), now),
            _ => {
                self.failures.remove(&op);
            }
        }
        if let (Step::Report { patch }, Answer::Done) = (step, answer) {
            self.reported = Some((patch.clone(), now));
        }
        self.settle(pod, step, answer);
        notes
    }

    fn settle(&mut self, pod: &Pod<'_>, step: &Step, answer: &Answer) {
        let failed = matches!(answer, Answer::Failed(_));
        match (step, answer) {
            (Step::Mount, _) => self.is_mounted = !failed,
            (Step::Unmount, _) => self.is_unmounted = !failed,
            (Step::Pull { container, .. }, Answer::Pulled(pulled)) => {
                self.images.insert(container.clone(), pulled.clone());
            }
            // The next life looks for its image anew: its policy may be Always.
            (Step::CreateContainer { container, .. }, Answer::Done) => {
                self.images.remove(container);
            }
            // The image may have been removed to make room.
            (Step::CreateContainer { container, .. }, Answer::Failed(failure))
                if failure.reason == "CreateContainerError" =>
            {
                self.images.remove(container);
            }
            (Step::StartContainer { container, id }, Answer::Done)
                if pod.container(container).is_some_and(|c| c.post_start().is_some()) =>
            {
                self.hooks.insert(id.clone(), Hook::Due);
            }
            (Step::PostStart { id, .. }, _) => {
                self.hooks.insert(id.clone(), if failed { Hook::Failed } else { Hook::Done });
            }
            // A hook that fails holds nothing up.
            (Step::PreStop { id, .. }, _) => {
                if let Some(stop) = self.stops.get_mut(id) {
                    stop.is_hook_over = true;
                }
            }
            (Step::Stop { id, .. }, Answer::Failed(_)) => {
                if let Some(stop) = self.stops.get_mut(id) {
                    stop.deadline = None;
                }
            }
            (Step::Probe { .. }, Answer::Probed(result)) => {
                if let Some((prober, probe)) = self.prober_of(pod, step) {
                    prober.end(&probe, result);
                }
            }
            (Step::RemoveContainer { id }, Answer::Done) => self.forget(id),
            _ => {}
        }
    }

    /// What is known of the probe that a step performs, and how the pod has it.
    fn prober_of<'p>(&mut self, pod: &'p Pod<'_>, step: &Step) -> Option<(&mut Prober, Probe<'p>)> {
        let Step::Probe { container, id, kind } = step else { return None };
        let probe = pod.container(container)?.probe(*kind)?;
        Some((self.probers.get_mut(&(id.clone(), *kind))?, probe))
    }

    /// Whether the pod's volumes are there.
    pub fn is_mounted(&self) -> bool {
        self.is_mounted
    }

    /// When the very patch that was taken last may be sent again: an API that keeps something else than it was told
    /// is not asked without end.
    pub(super) fn same_report(&self, patch: &Value) -> Option<Time> {
        let (last, at) = self.reported.as_ref()?;
        (last == patch).then(|| at.after(REPORT_AGAIN))
    }

    /// Whether a step of this name is under way.
    pub fn is_underway(&self, op: &Op) -> bool {
        self.underway.contains(op)
    }

    /// The failures of an operation since it last succeeded.
    pub fn failures(&self, op: &Op) -> Option<&Failures> {
        self.failures.get(op)
    }

    /// What is known of one probe; before the first, what `remembered` says.
    pub(super) fn prober(&self, id: &str, kind: Kind, remembered: Option<bool>) -> Prober {
        let known = self.probers.get(&(id.to_owned(), kind));
        known.cloned().unwrap_or_else(|| Prober::remembered(remembered))
    }

    /// Takes over what the API remembers of a probe's verdict, for a container that ran before this agent did.
    pub(super) fn adopt(&mut self, id: &str, kind: Kind, verdict: Option<bool>) {
        self.probers.entry((id.to_owned(), kind)).or_insert_with(|| Prober::remembered(verdict));
    }

    fn stop(&mut self, id: &str, now: Time) -> &mut Stopping {
        let fresh = Stopping { since: now, is_hook_over: false, deadline: None };
        self.stops.entry(id.to_owned()).or_insert(fresh)
    }

    fn fail(&mut self, op: Op, failure: Failure, now: Time) {
        let count = self.failures.get(&op).map_or(0, |failures| failures.count);
        self.failures.insert(op, Failures { count: count.saturating_add(1), at: now, last: failure });
    }

    fn forget(&mut self, id: &str) {
        self.hooks.remove(id);
        self.stops.remove(id);
        self.probers.retain(|(container, _), _| container != id);
        let is_of = |op: &Op| match op {
            Op::StartContainer(of) | Op::PostStart(of) | Op::PreStop(of) | Op::Stop(of) => of == id,
            Op::Probe(of, _) => of == id,
            _ => false,
        };
        self.failures.retain(|op, _| !is_of(op));
    }
}

impl Failures {
    /// When the next attempt is due, with a back-off that doubles from `first` to `most`.
    pub fn retry_at(&self, first: Duration, most: Duration) -> Time {
        self.at.after(self.backoff(first, most))
    }

    /// The back-off after these failures.
    pub fn backoff(&self, first: Duration, most: Duration) -> Duration {
        first.saturating_mul(1 << self.count.saturating_sub(1).min(16)).min(most)
    }
}
