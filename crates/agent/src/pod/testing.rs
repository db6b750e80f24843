//! A runtime and an API of a few lines, for tests: steps are performed at once, time moves when nothing else does.

use std::collections::BTreeMap;

use brain::Wake;
use meta::ObjectExt;
use serde_json::{Value, json};
use stdx::Time;

use super::shown::{Container, Exit, Sandbox, State};
use super::*;
use crate::figures::Figures;

/// More turns than any test needs: whoever gets there does not come to rest.
const TURNS_MAX: usize = 400;

pub(super) struct World {
    pub object: Value,
    pub exists: bool,
    pub shown: Shown,
    pub memory: Memory,
    pub now: Time,
    /// What the lives of a container end with; after the last, the last again. Absent: it runs.
    pub programs: BTreeMap<String, Vec<i64>>,
    /// What probes answer; absent: success.
    pub probes: BTreeMap<(String, Kind), ProbeAnswer>,
    /// Steps that fail, by name of the container or of the step.
    pub failing: BTreeMap<String, Failure>,
    /// Every step performed.
    pub log: Vec<String>,
    pub notices: Vec<String>,
    /// Steps after which the agent is restarted.
    pub crash_after: Option<usize>,
    /// Steps after which every running container is killed.
    pub kill_after: Option<usize>,
    pub performed: usize,
    pub is_short_of_disk: bool,
    pub sight: Sight,
    serial: usize,
}

/// Merged by type and field, as the API does.
fn merge_condition(all: &mut Vec<Value>, change: &Value) {
    if !all.iter().any(|old| old["type"] == change["type"]) {
        all.push(json!({"type": change["type"]}));
    }
    if change["$patch"] == "delete" {
        return all.retain(|old| old["type"] != change["type"]);
    }
    for old in all.iter_mut().filter(|old| old["type"] == change["type"]) {
        for (field, value) in change.as_object().into_iter().flatten() {
            match value.is_null() {
                true => drop(old.remove(&[field])),
                false => old.put(&[field], value.clone()),
            }
        }
    }
}

impl World {
    pub fn new(spec: Value) -> World {
        let object = json!({
            "metadata": {"name": "p", "namespace": "d", "uid": "u", "generation": 1},
            "spec": spec, "status": {"phase": "Pending", "qosClass": "BestEffort"},
        });
        World {
            object,
            exists: true,
            shown: Shown::default(),
            memory: Memory::default(),
            now: Time::from_secs(1_000),
            programs: BTreeMap::new(),
            probes: BTreeMap::new(),
            failing: BTreeMap::new(),
            log: Vec::new(),
            notices: Vec::new(),
            crash_after: None,
            kill_after: None,
            performed: 0,
            is_short_of_disk: false,
            sight: Sight::Clear,
            serial: 0,
        }
    }

    pub fn ends_with(mut self, container: &str, codes: &[i64]) -> World {
        self.programs.insert(container.to_owned(), codes.to_vec());
        self
    }

    pub fn here(&self) -> Here {
        Here {
            ips: vec!["192.0.2.1".to_owned()],
            runtime: "setpoint".to_owned(),
            is_short_of_disk: self.is_short_of_disk,
        }
    }

    /// The pod as it was granted.
    pub fn granted(&self) -> Value {
        self.memory.grant().map_or_else(|| self.object.clone(), |grant| grant.apply_to(&self.object))
    }

    pub fn turn(&self) -> Turn {
        let (here, granted) = (self.here(), self.granted());
        let pod = Pod { object: &granted, is_gone: !self.exists };
        turn(&Scene { pod, shown: &self.shown, sight: self.sight, memory: &self.memory, here: &here, now: self.now })
    }

    /// Turns until there is nothing to do, or until `until`, letting time pass.
    pub fn run_until(&mut self, until: Time) {
        for _ in 0..TURNS_MAX {
            let decided = self.turn();
            let object = self.granted();
            let pod = Pod { object: &object, is_gone: !self.exists };
            self.memory.begin_turn(&pod, &decided, self.now);
            self.notices.extend(decided.notices.iter().map(|notice| notice.note.message.clone()));
            if decided.steps.is_empty() {
                match decided.wake {
                    Wake::At(at) if at <= until && !decided.is_over => self.now = at.max(self.now),
                    _ => return,
                }
            }
            for step in decided.steps {
                self.take(&pod, &step);
            }
        }
        panic!("no rest: {:?}", &self.log[self.log.len().saturating_sub(20)..]);
    }

    /// Performs one step alone.
    pub fn take_one(&mut self, step: &Step) {
        let object = self.object.clone();
        let pod = Pod { object: &object, is_gone: !self.exists };
        self.memory.begin(step, self.now);
        self.take(&pod, step);
    }

    pub fn run(&mut self) {
        self.run_until(self.now);
    }

    fn take(&mut self, pod: &Pod<'_>, step: &Step) {
        let answer = self.perform(step);
        let notes = self.memory.end(pod, step, &answer, self.now);
        self.notices.extend(notes.iter().map(|notice| notice.note.message.clone()));
        self.performed += 1;
        if self.crash_after == Some(self.performed) {
            self.memory = Memory::default();
        }
        if self.kill_after == Some(self.performed) {
            let names: Vec<String> = self.shown.alive().map(|life| life.name.clone()).collect();
            names.iter().for_each(|name| self.exit(name, 137));
        }
    }

    /// The running life of a container ends.
    pub fn exit(&mut self, name: &str, code: i64) {
        let finished = self.now;
        for life in self.shown.containers.iter_mut().filter(|life| life.name == name && life.is_running()) {
            let State::Running { started } = life.state else { continue };
            life.state = State::Exited(Exit { started: Some(started), finished, code, ..Exit::default() });
        }
    }

    fn perform(&mut self, step: &Step) -> Answer {
        let about = step.container().unwrap_or_default();
        let word = format!("{step:?}").split([' ', '{']).next().unwrap_or_default().to_owned();
        let entry = if about.is_empty() { word.clone() } else { format!("{word} {about}") };
        self.log.push(entry.clone());
        if let Some(failure) = self.failing.get(&entry) {
            return Answer::Failed(failure.clone());
        }
        match step {
            Step::Pull { image, .. } => Answer::Pulled(Pulled { image_id: format!("sha256:{image}"), fetched: None }),
            Step::CreateSandbox { attempt } => {
                let id = self.id("s");
                let ips = vec![format!("10.0.0.{}", attempt + 1)];
                let figures = Figures::of_pod(&self.granted()["spec"]);
                let sandbox = Sandbox { id, attempt: *attempt, is_ready: true, created: self.now, ips, figures };
                self.shown.sandboxes.push(sandbox);
                Answer::Done
            }
            Step::CreateContainer { sandbox, container, attempt, image_id, marks } => {
                let life = Container {
                    id: self.id("c"),
                    sandbox: sandbox.clone(),
                    name: container.clone(),
                    attempt: *attempt,
                    state: State::Created,
                    image_id: image_id.clone(),
                    marks: marks.clone(),
                };
                self.shown.containers.push(life);
                Answer::Done
            }
            Step::StartContainer { container, id } => {
                let now = self.now;
                let Some(life) = self.shown.containers.iter_mut().find(|life| life.id == *id) else {
                    return Answer::failed("", "no such container");
                };
                life.state = State::Running { started: now };
                let attempt = life.attempt as usize;
                let code = self.programs.get(container).and_then(|codes| codes.get(attempt).or(codes.last())).copied();
                if let Some(code) = code {
                    self.exit(container, code);
                }
                Answer::Done
            }
            Step::Stop { container, .. } => {
                self.exit(container, 143);
                Answer::Done
            }
            Step::Probe { container, kind, .. } => {
                Answer::Probed(self.probes.get(&(container.clone(), *kind)).cloned().unwrap_or(ProbeAnswer::Success))
            }
            Step::RemoveContainer { id } => {
                self.shown.containers.retain(|life| life.id != *id);
                Answer::Done
            }
            Step::StopSandbox { id } => {
                self.shown.sandboxes.iter_mut().filter(|s| s.id == *id).for_each(|s| s.is_ready = false);
                Answer::Done
            }
            Step::RemoveSandbox { id } => {
                self.shown.sandboxes.retain(|sandbox| sandbox.id != *id);
                Answer::Done
            }
            Step::Resize { sandbox, to, containers, .. } => {
                for resized in containers {
                    let lives = self.shown.containers.iter_mut().filter(|life| life.id == resized.id);
                    lives.for_each(|life| life.marks.resources = resized.to.clone());
                }
                let sandboxes = self.shown.sandboxes.iter_mut().filter(|shown| shown.id == *sandbox);
                sandboxes.for_each(|shown| shown.figures = *to);
                Answer::Done
            }
            Step::Report { patch } => {
                self.report(&patch["status"]);
                Answer::Done
            }
            Step::Delete => {
                self.exists = false;
                Answer::Done
            }
            Step::Mount | Step::PostStart { .. } | Step::PreStop { .. } | Step::Unmount => Answer::Done,
        }
    }

    fn id(&mut self, prefix: &str) -> String {
        self.serial += 1;
        format!("{prefix}{}", self.serial)
    }

    /// The part of strategic merge that statuses need.
    fn report(&mut self, patch: &Value) {
        for (field, value) in patch.as_object().into_iter().flatten() {
            let path = ["status", field.as_str()];
            if value.is_null() {
                self.object.remove(&path);
            } else if field == "conditions" {
                let mut all = self.object.items(&path).to_vec();
                for condition in value.as_array().into_iter().flatten() {
                    merge_condition(&mut all, condition);
                }
                self.object.put(&path, all);
            } else {
                let list = value.as_array().map(|l| l.iter().filter(|v| v.get("$patch").is_none()).cloned().collect());
                self.object.put(&path, list.map_or_else(|| value.clone(), Value::Array));
            }
        }
    }

    pub fn phase(&self) -> &str {
        self.object.text(&["status", "phase"])
    }

    pub fn condition(&self, type_: &str) -> &str {
        meta::condition::status(&self.object, type_)
    }

    /// The state of a container in words: `running`, or its reason.
    pub fn state(&self, name: &str) -> String {
        let status = Pod::new(&self.object).status_of(name).cloned().unwrap_or_default();
        if status.at(&["state", "running"]).is_some() {
            return "running".to_owned();
        }
        let of = |state: &str| status.text(&["state", state, "reason"]).to_owned();
        format!("{}{}", of("waiting"), of("terminated"))
    }

    pub fn delete(&mut self, grace: i64) {
        let deadline = self.now.after(std::time::Duration::from_secs(grace.unsigned_abs()));
        self.object.put(&["metadata", "deletionTimestamp"], deadline.to_rfc3339());
        self.object.put(&["metadata", "deletionGracePeriodSeconds"], grace);
    }

    /// Nothing is left anywhere.
    pub fn is_clean(&self) -> bool {
        self.shown == Shown::default()
    }
}
