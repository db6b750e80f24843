//! Why an object is not as it should be: one cause, found by walking what the object owns down to the deepest thing
//! that is wrong, with the next command to run.

use std::collections::BTreeMap;
use std::sync::Arc;

use kinds::{Catalog, Converged, KindDef};
use meta::{ObjectExt, condition};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use view::{Object, View};

use crate::change::Reference;
use crate::fork::World;

#[cfg(test)]
mod tests;

/// Objects looked at below one: a rollout of a thousand pods and their replica sets.
const OBJECTS_MAX: usize = 5_000;
/// Deployment, replica set, pod, and some room.
const DEPTH_MAX: usize = 6;
/// Events read of one namespace.
const EVENTS_MAX: usize = 20_000;
/// Owners that make a new pod for one that has failed.
const REPLACING: [&str; 5] =
    ["apps/daemonsets", "apps/replicasets", "apps/statefulsets", "batch/jobs", "core/replicationcontrollers"];

/// Whether an object is as it should be, and why not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Diagnosis {
    /// Which.
    pub object: Reference,
    /// `converged`, `progressing` or `failed`.
    pub state: String,
    /// What its own status says is missing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The deepest thing that is wrong; absent when nothing is, or nothing is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// From the object to the cause: what owns what.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chain: Vec<Reference>,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cause {
    /// With which object.
    pub object: Reference,
    /// CamelCase: `ImagePullBackOff`, `FailedCreate`, `Unschedulable`, ...
    pub reason: String,
    /// One sentence, with numbers and names.
    pub message: String,
    /// How many siblings have the same, and how many there are.
    pub count: usize,
    /// See `count`.
    pub of: usize,
    /// Whether it is tried again without help. What is not will stay so.
    pub retrying: bool,
    /// The next command to run.
    pub next: String,
}

/// Something wrong with one object, before it is counted.
struct Trouble {
    weight: Weight,
    reason: String,
    message: String,
    retrying: bool,
    next: String,
    /// The object, when it is another than the one looked at (a missing map).
    about: Option<Reference>,
}

/// What explains more comes first when several things are wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Weight {
    /// Nothing can go on.
    Terminal,
    /// Something is refused or cannot be found.
    Blocked,
    /// Something runs and fails.
    Failing,
    /// Something has failed, and another is made in its place: what is wrong with that one explains more.
    Replaced,
    /// Something has not come yet.
    Waiting,
}

/// Finds out why.
///
/// What the asking user may not read is no part of the answer: the walk passes it over.
pub fn diagnose(
    world: &World,
    kind: &KindDef,
    object: &Object,
    may_read: &dyn Fn(&KindDef, &str) -> bool,
) -> Diagnosis {
    let tree = object.tree();
    let (state, message) = match kind.health.judge(&tree) {
        Converged::Yes => ("converged", String::new()),
        Converged::Progressing(why) => ("progressing", why),
        Converged::Failed(why) => ("failed", why),
    };
    let mut walk = Walk { view: &world.view, catalog: &world.catalog, may_read, seen: 0, events: BTreeMap::new() };
    let is_fine = state == "converged";
    let found = if is_fine { None } else { walk.deepest(object, DEPTH_MAX) };
    let (cause, chain) = found.map_or((None, Vec::new()), |(cause, chain)| (Some(cause), chain));
    Diagnosis { object: Reference::of(&tree), state: state.to_owned(), message, cause, chain }
}

struct Walk<'a> {
    view: &'a View,
    catalog: &'a Catalog,
    may_read: &'a dyn Fn(&KindDef, &str) -> bool,
    seen: usize,
    /// The newest warning about each object of a namespace, by uid.
    events: BTreeMap<String, BTreeMap<String, (String, String)>>,
}

impl Walk<'_> {
    /// The deepest cause at or below an object, and the way to it.
    fn deepest(&mut self, object: &Object, depth: usize) -> Option<(Cause, Vec<Reference>)> {
        let me = Reference::of(&object.tree());
        let below = if depth == 0 { None } else { self.below(object, depth) };
        if let Some((cause, mut chain)) = below {
            chain.insert(0, me);
            return Some((cause, chain));
        }
        // Whoever asks about a failed pod itself is not helped by the one that takes its place.
        let trouble = self.trouble(object, false)?;
        Some((cause(trouble, &me, 1, 1), vec![me]))
    }

    /// The worst of what an object owns; what many have is counted.
    fn below(&mut self, object: &Object, depth: usize) -> Option<(Cause, Vec<Reference>)> {
        let children: Vec<Object> = self.view.dependents(&object.meta().uid);
        let mut worst: Option<(Weight, usize, Cause, Vec<Reference>)> = None;
        let mut alike: BTreeMap<(String, String), usize> = BTreeMap::new();
        let mut pods = 0;
        let is_replacing = replaces_pods(object);
        for child in children {
            self.seen += 1;
            let is_readable = self.is_readable(&child.key.collection, &child.meta().namespace);
            if self.seen > OBJECTS_MAX || !is_readable || !self.is_relevant(object, &child) {
                continue;
            }
            pods += usize::from(&*child.key.collection == "core/pods");
            let grandchildren = depth > 1 && &*child.key.collection != "core/pods";
            let found = if grandchildren { self.below(&child, depth - 1) } else { None };
            let me = Reference::of(&child.tree());
            let (weight, cause, chain) = match found {
                Some((cause, mut chain)) => {
                    chain.insert(0, me);
                    (weight_of(&cause), cause, chain)
                }
                None => {
                    let Some(trouble) = self.trouble(&child, is_replacing) else { continue };
                    let weight = trouble.weight;
                    (weight, cause(trouble, &me, 1, 1), vec![me])
                }
            };
            *alike.entry((cause.reason.clone(), plain(&cause.message, &cause.object.name))).or_default() += 1;
            let is_worse = worst.as_ref().is_none_or(|(known, ..)| weight < *known);
            if is_worse {
                worst = Some((weight, 0, cause, chain));
            }
        }
        let (_, _, mut cause, chain) = worst?;
        if cause.of <= 1 {
            let key = (cause.reason.clone(), plain(&cause.message, &cause.object.name));
            cause.count = alike.get(&key).copied().unwrap_or(1);
            cause.of = pods.max(cause.count);
        }
        Some((cause, chain))
    }

    /// Whether the asking user may read objects of a collection in a namespace.
    fn is_readable(&self, collection: &str, namespace: &str) -> bool {
        self.catalog.collection(collection).is_some_and(|kind| (self.may_read)(kind, namespace))
    }

    /// Old replica sets on their way out explain nothing.
    fn is_relevant(&self, owner: &Object, child: &Object) -> bool {
        if &*owner.key.collection != "apps/deployments" || &*child.key.collection != "apps/replicasets" {
            return true;
        }
        let revision =
            |object: &Object| object.tree().annotation("deployment.kubernetes.io/revision").map(str::to_owned);
        revision(child) == revision(owner)
    }

    /// What is wrong with one object itself; a pod that has failed may be replaced.
    fn trouble(&mut self, object: &Object, is_replaced: bool) -> Option<Trouble> {
        let tree = object.tree();
        if let Some(trouble) = going(&tree) {
            return Some(trouble);
        }
        match &*object.key.collection {
            "core/pods" => self.pod(&tree, is_replaced),
            "core/persistentvolumeclaims" => self.claim(&tree),
            "core/namespaces" => None,
            _ => self.workload(object, &tree),
        }
    }

    fn pod(&mut self, pod: &Value, is_replaced: bool) -> Option<Trouble> {
        let what = format!("pod/{}", pod.name());
        if let Some(unplaced) = condition::find(pod, "PodScheduled").filter(|c| c.text(&["status"]) == "False") {
            let (reason, message) = (unplaced.text(&["reason"]), unplaced.text(&["message"]));
            let next = format!("kubectl describe nodes; kubectl{} describe {what}", place(pod));
            return Some(blocked(Weight::Blocked, reason, message, true, next));
        }
        let is_failed = pod.text(&["status", "phase"]) == "Failed";
        // Why a pod was ended (Evicted, NodeLost) says more than how its containers were.
        if is_failed && !pod.text(&["status", "reason"]).is_empty() {
            return Some(failed(pod, is_replaced));
        }
        if let Some(container) = containers(pod).find_map(|status| self.container(pod, status, is_replaced)) {
            return Some(container);
        }
        if is_failed {
            return Some(failed(pod, is_replaced));
        }
        let gates = pod.items(&["spec", "readinessGates"]).iter().map(|gate| gate.text(&["conditionType"]));
        let open = gates.filter(|gate| !condition::is_true(pod, gate)).collect::<Vec<_>>();
        if !open.is_empty() && condition::is_true(pod, "ContainersReady") {
            let message = format!("waits for the readiness gate {}", open.join(", "));
            return Some(blocked(Weight::Waiting, "ReadinessGatesNotReady", &message, true, describe(pod)));
        }
        if pod.text(&["status", "phase"]) == "Pending" || !condition::is_true(pod, "Ready") {
            return self.event(pod).or_else(|| {
                let is_over = pod.text(&["status", "phase"]) == "Succeeded";
                let waiting = blocked(Weight::Waiting, "Starting", "the pod is starting", true, describe(pod));
                (!is_over).then_some(waiting)
            });
        }
        None
    }

    fn container(&mut self, pod: &Value, status: &Value, is_replaced: bool) -> Option<Trouble> {
        let name = status.text(&["name"]);
        let image = status.text(&["image"]);
        let (state, last) = (status.at(&["state"])?, status.at(&["lastState", "terminated"]));
        if let Some(waiting) = state.get("waiting") {
            let (reason, message) = (waiting.text(&["reason"]), waiting.text(&["message"]));
            return match reason {
                "ContainerCreating" | "PodInitializing" | "" => None,
                "CrashLoopBackOff" => Some(crashed(pod, status, last, is_replaced)),
                _ => {
                    let message = if message.is_empty() { format!("image {image:?}") } else { message.to_owned() };
                    let message = format!("container {name}: {message}");
                    // Whatever a node says of a container that does not start, it tries again.
                    Some(blocked(Weight::Blocked, reason, &message, true, describe(pod)))
                }
            };
        }
        if let Some(ended) = state.get("terminated").filter(|ended| ended.int(&["exitCode"]) != Some(0)) {
            return Some(crashed(pod, status, Some(ended), is_replaced));
        }
        let is_running = state.get("running").is_some();
        if is_running && !status.flag(&["ready"]) && is_main(pod, name) {
            let probe = self.event(pod).filter(|trouble| trouble.reason == "Unhealthy");
            let message = match probe {
                Some(probe) => format!("container {name} runs but is not ready: {}", probe.message),
                None if has_probe(pod, name) => {
                    format!("container {name} runs but its readiness probe has not succeeded")
                }
                None => return None,
            };
            return Some(blocked(Weight::Failing, "NotReady", &message, true, logs(pod, name, false)));
        }
        None
    }

    fn claim(&mut self, claim: &Value) -> Option<Trouble> {
        if claim.text(&["status", "phase"]) == "Bound" {
            return None;
        }
        self.event(claim).or_else(|| {
            let class = claim.text(&["spec", "storageClassName"]);
            let message = format!("the claim waits for a volume of class {class:?}");
            Some(blocked(Weight::Waiting, "Pending", &message, true, describe(claim)))
        })
    }

    /// Anything else: its conditions, its last warning, its health.
    fn workload(&mut self, object: &Object, tree: &Value) -> Option<Trouble> {
        let kind = self.catalog.collection(&object.key.collection)?;
        let health = kind.health.judge(tree);
        if health == Converged::Yes && &*object.key.collection != "apps/replicasets" {
            return None;
        }
        let failing = ["ReplicaFailure", "FailureTarget", "Failed", "Stalled"];
        let condition =
            failing.iter().find_map(|type_| condition::find(tree, type_).filter(|c| c.text(&["status"]) == "True"));
        if let Some(found) = condition {
            let is_over = matches!(found.text(&["type"]), "Failed" | "FailureTarget");
            let weight = if is_over { Weight::Terminal } else { Weight::Blocked };
            return Some(blocked(weight, found.text(&["reason"]), found.text(&["message"]), !is_over, describe(tree)));
        }
        if tree.flag(&["spec", "paused"]) {
            let next = format!(
                "kubectl{} rollout resume {}/{}",
                place(tree),
                tree.text(&["kind"]).to_lowercase(),
                tree.name()
            );
            return Some(blocked(Weight::Terminal, "Paused", "the rollout is paused", false, next));
        }
        if let Some(event) = self.event(tree) {
            return Some(event);
        }
        match health {
            Converged::Yes => None,
            Converged::Progressing(why) => Some(blocked(Weight::Waiting, "Progressing", &why, true, describe(tree))),
            Converged::Failed(why) => Some(blocked(Weight::Terminal, "Failed", &why, false, describe(tree))),
        }
    }

    /// The newest warning that was told about an object.
    fn event(&mut self, object: &Value) -> Option<Trouble> {
        let namespace = if object.namespace().is_empty() { "default" } else { object.namespace() };
        if !self.is_readable("core/events", namespace) {
            return None;
        }
        let view = self.view;
        let warnings = self.events.entry(namespace.to_owned()).or_insert_with(|| warnings(view, namespace));
        let (reason, message) = warnings.get(object.uid())?;
        Some(blocked(Weight::Blocked, reason, message, true, describe(object)))
    }
}

/// What a Warning event says; read once an event, however often somebody asks.
struct Warning {
    about: String,
    time: String,
    reason: String,
    message: String,
}

impl Warning {
    fn read(bytes: &[u8]) -> Option<Warning> {
        let event: Value = meta::stored::read(bytes).ok()?;
        let text = |path: &[&str]| event.text(path).to_owned();
        (event.text(&["type"]) == "Warning").then(|| Warning {
            about: text(&["involvedObject", "uid"]),
            time: text(&["lastTimestamp"]),
            reason: text(&["reason"]),
            message: text(&["message"]),
        })
    }
}

/// The newest warning about each object of a namespace.
fn warnings(view: &View, namespace: &str) -> BTreeMap<String, (String, String)> {
    let mut newest: BTreeMap<String, Arc<Option<Warning>>> = BTreeMap::new();
    for event in view.list("core/events", namespace).into_iter().take(EVENTS_MAX) {
        let read = event.project(Warning::read);
        let Some(warning) = read.as_ref() else { continue };
        let known = newest.get(&warning.about).and_then(|known| known.as_ref().as_ref());
        if known.is_none_or(|known| known.time <= warning.time) {
            newest.insert(warning.about.clone(), Arc::clone(&read));
        }
    }
    let told = |warning: &Warning| (warning.reason.clone(), warning.message.clone());
    newest.into_iter().filter_map(|(uid, warning)| Some((uid, told(warning.as_ref().as_ref()?)))).collect()
}

fn blocked(weight: Weight, reason: &str, message: &str, retrying: bool, next: String) -> Trouble {
    Trouble { weight, reason: reason.to_owned(), message: message.to_owned(), retrying, next, about: None }
}

fn cause(trouble: Trouble, me: &Reference, count: usize, of: usize) -> Cause {
    let Trouble { reason, message, retrying, next, about, .. } = trouble;
    Cause { object: about.unwrap_or_else(|| me.clone()), reason, message, count, of, retrying, next }
}

fn weight_of(cause: &Cause) -> Weight {
    if cause.retrying { Weight::Blocked } else { Weight::Terminal }
}

/// A sentence without the name of the object it is about: what siblings have in common.
fn plain(message: &str, name: &str) -> String {
    message.replace(name, "")
}

/// Deletion that somebody holds up.
fn going(object: &Value) -> Option<Trouble> {
    if !object.is_deleting() {
        return None;
    }
    let held: Vec<&str> = object.finalizers().collect();
    let left = condition::find(object, "NamespaceContentRemaining")
        .or_else(|| condition::find(object, "NamespaceFinalizersRemaining"));
    let message = match (left, held.is_empty()) {
        (Some(left), _) if left.text(&["status"]) == "True" => left.text(&["message"]).to_owned(),
        (_, true) => "is being deleted and waits for its containers to stop".to_owned(),
        (_, false) => {
            format!("is being deleted, which the finalizers {} hold up until their owners let go", held.join(", "))
        }
    };
    let weight = if held.is_empty() { Weight::Waiting } else { Weight::Blocked };
    Some(blocked(weight, "Deleting", &message, true, describe(object)))
}

/// Whether an owner makes a new pod for one that has failed. A Job does until it has failed itself.
fn replaces_pods(owner: &Object) -> bool {
    let tree = owner.tree();
    let has_given_up = ["Failed", "FailureTarget"].iter().any(|type_| condition::is_true(&tree, type_));
    REPLACING.contains(&&*owner.key.collection) && !has_given_up
}

/// How much a failed pod explains, and whether it is tried again: both follow from whether it is replaced.
fn end_of(is_replaced: bool) -> (Weight, bool) {
    if is_replaced { (Weight::Replaced, true) } else { (Weight::Terminal, false) }
}

/// A pod that has failed as a whole.
fn failed(pod: &Value, is_replaced: bool) -> Trouble {
    let or = |text: &'static str, found: &str| if found.is_empty() { text.to_owned() } else { found.to_owned() };
    let reason = or("Failed", pod.text(&["status", "reason"]));
    let message = or("the pod has failed", pod.text(&["status", "message"]));
    let (weight, retrying) = end_of(is_replaced);
    // One that was ended before it began has no logs.
    let has_run = containers(pod).any(|status| status.at(&["state", "terminated"]).is_some());
    let next = if has_run { logs(pod, "", false) } else { describe(pod) };
    blocked(weight, &reason, &message, retrying, next)
}

fn crashed(pod: &Value, status: &Value, ended: Option<&Value>, is_replaced: bool) -> Trouble {
    let (container, restarts) = (status.text(&["name"]), status.int(&["restartCount"]).unwrap_or(0));
    let code = ended.and_then(|ended| ended.int(&["exitCode"])).unwrap_or(0);
    let reason = ended.map_or("", |ended| ended.text(&["reason"]));
    let (reason, how) = match (reason, code) {
        ("OOMKilled", _) => ("OOMKilled", "was killed for using more memory than its limit".to_owned()),
        ("StartError" | "ContainerCannotRun", _) => ("StartError", "could not be started".to_owned()),
        (_, 126 | 127) => ("CommandNotFound", format!("ended with exit code {code}: its command cannot be run")),
        (_, code) if code > 128 => ("Crashing", format!("was ended by signal {} (exit code {code})", code - 128)),
        (_, code) => ("Crashing", format!("ended with exit code {code}")),
    };
    let told = ended.map_or("", |ended| ended.text(&["message"])).trim();
    let told = if told.is_empty() { String::new() } else { format!(": {told}") };
    let message = format!("container {container} {how}{told}; {restarts} restarts");
    let stays = pod.text(&["spec", "restartPolicy"]) == "Never";
    let (weight, retrying) = if stays { end_of(is_replaced) } else { (Weight::Failing, true) };
    blocked(weight, reason, &message, retrying, logs(pod, container, !stays))
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    ["initContainerStatuses", "containerStatuses"].into_iter().flat_map(move |list| pod.items(&["status", list]))
}

fn is_main(pod: &Value, name: &str) -> bool {
    pod.items(&["spec", "containers"]).iter().any(|container| container.text(&["name"]) == name)
}

fn has_probe(pod: &Value, name: &str) -> bool {
    let named = |container: &&Value| container.text(&["name"]) == name;
    let found = pod.items(&["spec", "containers"]).iter().find(named);
    found.is_some_and(|container| container.get("readinessProbe").is_some() || container.get("startupProbe").is_some())
}

fn place(object: &Value) -> String {
    match object.namespace() {
        "" | "default" => String::new(),
        namespace => format!(" -n {namespace}"),
    }
}

fn describe(object: &Value) -> String {
    format!("kubectl{} describe {}/{}", place(object), object.text(&["kind"]).to_lowercase(), object.name())
}

fn logs(pod: &Value, container: &str, previous: bool) -> String {
    let container = if container.is_empty() { String::new() } else { format!(" -c {container}") };
    let previous = if previous { " --previous" } else { "" };
    format!("kubectl{} logs {}{container}{previous}", place(pod), pod.name())
}
