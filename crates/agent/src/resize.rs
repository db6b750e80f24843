//! What of its node a pod was granted, whatever its spec asks for by now, and who is granted more first.
//!
//! Upstream keeps a file of what was granted. Here it follows from what is there anyway: containers carry what they
//! were given, and a pod of which no container has been made yet was granted what it asks for.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use brain::Note;
use brain::facts::{self, Fact, Requests};
use kinds::pod::resources::qos_class;
use meta::{ObjectExt, condition};
use serde::Serialize;
use serde_json::{Map, Value};
use stdx::Time;

use crate::pod::{Notice, Shown};

/// The condition of a pod whose resize waits, and that of one whose resize is under way.
pub const PENDING: &str = "PodResizePending";
pub const IN_PROGRESS: &str = "PodResizeInProgress";

/// The lists of containers whose resources may change.
const LISTS: [&str; 2] = ["initContainers", "containers"];

/// The resources that a pod may use on its node: those of the pod as a whole, and of its containers by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Grant {
    pod: Value,
    containers: BTreeMap<String, Value>,
}

/// Why a resize waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Which.
    pub reason: Reason,
    /// For people.
    pub message: String,
}

/// Upstream's reasons. It has more cases of the second: static pods (the API refuses to resize their mirrors), swap and
/// exclusive processors (no node of this program gives either).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// There is no room now.
    Deferred,
    /// There never is, on this node.
    Infeasible,
}

impl Reason {
    /// As conditions have it.
    pub fn word(self) -> &'static str {
        match self {
            Reason::Deferred => "Deferred",
            Reason::Infeasible => "Infeasible",
        }
    }

    fn event(self) -> &'static str {
        match self {
            Reason::Deferred => "ResizeDeferred",
            Reason::Infeasible => "ResizeInfeasible",
        }
    }
}

impl Grant {
    /// All that `pod` asks for.
    pub fn of(pod: &Value) -> Grant {
        let own = |container: &Value| (container.text(&["name"]).to_owned(), container["resources"].clone());
        Grant { pod: pod["spec"]["resources"].clone(), containers: resizable(pod).map(own).collect() }
    }

    /// What containers have been given; to those that were never made, this is still to be given.
    pub fn given(&self, shown: &Shown) -> Grant {
        let mut given = self.clone();
        for (name, resources) in &mut given.containers {
            if let Some(life) = shown.latest(name) {
                *resources = serde_json::from_str(&life.marks.resources).unwrap_or_default();
            }
        }
        given
    }

    /// Whether `pod` asks for something else.
    pub fn differs_from(&self, pod: &Value) -> bool {
        self.pod != pod["spec"]["resources"]
            || resizable(pod).any(|c| self.containers.get(c.text(&["name"])).is_some_and(|own| *own != c["resources"]))
    }

    /// `pod`, as if it asked for this.
    pub fn apply_to(&self, pod: &Value) -> Value {
        let mut granted = pod.clone();
        put(&mut granted["spec"], &self.pod);
        for list in LISTS {
            let containers = granted["spec"].get_mut(list).and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten() {
                if let Some(own) = self.containers.get(container.text(&["name"])) {
                    put(container, own);
                }
            }
        }
        granted
    }

    /// What `pod` takes of its node: what it was granted or, where that is more, what its containers still have.
    pub fn taken(&self, pod: &Value, shown: &Shown) -> Requests {
        let mut taken = self.requests(pod);
        taken.raise_to(&self.given(shown).requests(pod));
        taken
    }

    fn requests(&self, pod: &Value) -> Requests {
        requests(&self.apply_to(pod))
    }
}

/// What a pod asks for.
fn requests(pod: &Value) -> Requests {
    facts::Pod::read(pod.to_string().as_bytes()).spec.requests()
}

fn resizable(pod: &Value) -> impl Iterator<Item = &Value> {
    LISTS.iter().flat_map(move |list| pod.items(&["spec", list]))
}

fn put(owner: &mut Value, resources: &Value) {
    match resources.is_null() {
        true => _ = owner.remove(&["resources"]),
        false => owner.put(&["resources"], resources.clone()),
    }
}

/// What decides who is granted first; the least is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    wants_more: bool,
    priority: Reverse<i64>,
    is_lesser_class: bool,
    is_new: bool,
    since: Time,
}

/// Who asks for no more than it has comes first, for that always fits; then who has the higher priority, then class
/// Guaranteed, then who has waited longest.
pub fn rank(pod: &Value, grant: &Grant) -> Rank {
    let (has, wants) = (grant.requests(pod), requests(pod));
    let waits = condition::find(pod, PENDING).and_then(|waits| Time::parse(waits.text(&["lastTransitionTime"])));
    Rank {
        wants_more: wants.cpu_milli > has.cpu_milli || wants.memory > has.memory,
        priority: Reverse(pod.int(&["spec", "priority"]).unwrap_or(0)),
        is_lesser_class: qos_class(&pod["spec"]) != "Guaranteed",
        is_new: waits.is_none(),
        since: waits.unwrap_or_default(),
    }
}

/// An event about the resize of `pod`, with the resources that its spec has.
pub fn notice(pod: &Value, news: &News<'_>) -> Notice {
    let error = match news {
        News::Started | News::Completed => "",
        News::Pending(pending) => &pending.message,
        News::Error(message) => message,
    };
    let list = |list: &str| pod.items(&["spec", list]).iter().map(Summary::of).collect();
    let told = Told {
        init_containers: list("initContainers"),
        containers: list("containers"),
        generation: pod.generation(),
        error,
    };
    let told = serde_json::to_string(&told).unwrap_or_default();
    let note = match news {
        News::Started => Note::normal("ResizeStarted", format!("Pod resize started: {told}")),
        News::Completed => Note::normal("ResizeCompleted", format!("Pod resize completed: {told}")),
        News::Error(_) => Note::warning("ResizeError", format!("Pod resize error: {told}")),
        News::Pending(pending) => {
            let message = format!("Pod resize {}: {told}", pending.reason.word());
            Note::warning(pending.reason.event(), message)
        }
    };
    Notice { note, field_path: None }
}

/// What there is to say of a resize.
#[derive(Clone, Copy, Debug)]
pub enum News<'n> {
    /// It was granted.
    Started,
    /// Containers have what was granted.
    Completed,
    /// It waits.
    Pending(&'n Pending),
    /// Containers could not be given what was granted.
    Error(&'n str),
}

/// Upstream's fields, in upstream's order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Told<'t> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    init_containers: Vec<Summary<'t>>,
    containers: Vec<Summary<'t>>,
    generation: i64,
    #[serde(skip_serializing_if = "str::is_empty")]
    error: &'t str,
}

#[derive(Serialize)]
struct Summary<'t> {
    name: &'t str,
    resources: Map<String, Value>,
}

impl<'t> Summary<'t> {
    fn of(container: &'t Value) -> Summary<'t> {
        Summary {
            name: container.text(&["name"]),
            resources: container.map(&["resources"]).cloned().unwrap_or_default(),
        }
    }
}

/// Whose limit of memory is to be lowered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lowered {
    /// The container; `None` for the pod as a whole.
    pub container: Option<String>,
    /// Bytes, from now on.
    pub limit: i64,
    /// Bytes in use.
    pub usage: i64,
}

/// Why limits of memory are not lowered: whoever uses more would be killed by the kernel.
pub fn refuse_lowering(all: &[Lowered]) -> Option<String> {
    let one = |lowered: &Lowered| {
        let whose = lowered.container.as_ref().map_or("pod".to_owned(), |name| format!("container {name:?}"));
        let Lowered { limit, usage, .. } = lowered;
        format!("attempting to set {whose} memory limit ({limit}) below current usage ({usage})")
    };
    let refused: Vec<String> = all.iter().filter(|lowered| lowered.limit < lowered.usage).map(one).collect();
    match &refused[..] {
        [] => None,
        [only] => Some(format!("cannot decrease memory limits: {only}")),
        several => Some(format!("cannot decrease memory limits: [{}]", several.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(cpu: &str) -> Value {
        json!({
            "metadata": {"name": "p", "generation": 3},
            "spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": cpu}}}, {"name": "b"}]},
        })
    }

    #[test]
    fn a_pod_goes_on_with_what_it_was_granted() {
        let grant = Grant::of(&pod("1"));
        assert!(!grant.differs_from(&pod("1")) && grant.differs_from(&pod("2")));
        assert_eq!(grant.apply_to(&pod("2")), pod("1"));
        assert_eq!(grant.taken(&pod("2"), &Shown::default()).cpu_milli, 1_000);
    }

    #[test]
    fn who_is_granted_first() {
        let with = |change: Value, condition: Option<&str>| {
            let mut pod = pod("2");
            pod.put(&["spec", "priority"], change);
            if let Some(since) = condition {
                pod.put(&["status", "conditions"], json!([{"type": PENDING, "lastTransitionTime": since}]));
            }
            pod
        };
        let rank = |pod: &Value, cpu: &str| rank(pod, &Grant::of(&self::pod(cpu)));
        let ordered = [
            rank(&with(json!(0), None), "3"),
            rank(&with(json!(9), None), "1"),
            rank(&with(json!(5), Some("2026-01-01T00:00:00Z")), "1"),
            rank(&with(json!(5), Some("2026-01-01T00:00:01Z")), "1"),
            rank(&with(json!(5), None), "1"),
        ];
        assert!(ordered.is_sorted(), "{ordered:?}");
        let mut guaranteed = with(json!(5), None);
        let both = json!({"cpu": "2", "memory": "1Gi"});
        guaranteed["spec"]["containers"] = json!([{"name": "a", "resources": {"requests": both, "limits": both}}]);
        assert!(rank(&guaranteed, "1") < rank(&with(json!(5), Some("2026-01-01T00:00:00Z")), "1"));
    }

    #[test]
    fn events_say_what_upstream_says() {
        let of = |news: News<'_>| notice(&pod("2"), &news).note;
        let started = r#"Pod resize started: {"containers":[{"name":"a","resources":{"requests":{"cpu":"2"}}},{"name":"b","resources":{}}],"generation":3}"#;
        assert_eq!(of(News::Started), Note::normal("ResizeStarted", started));
        let pending = Pending { reason: Reason::Deferred, message: "no room".to_owned() };
        let deferred = of(News::Pending(&pending));
        assert_eq!(deferred.reason, "ResizeDeferred");
        assert!(deferred.message.starts_with("Pod resize Deferred: {") && deferred.message.contains("no room"));
    }

    #[test]
    fn memory_in_use_is_not_taken_away() {
        let lowered =
            |container: Option<&str>, limit, usage| Lowered { container: container.map(str::to_owned), limit, usage };
        let check = |all: &[Lowered], expected: Option<&str>| assert_eq!(refuse_lowering(all).as_deref(), expected);
        check(&[lowered(None, 10, 10), lowered(Some("a"), 5, 4)], None);
        let of_a = "attempting to set container \"a\" memory limit (5) below current usage (6)";
        check(&[lowered(Some("a"), 5, 6)], Some(&format!("cannot decrease memory limits: {of_a}")));
        let both = format!(
            "cannot decrease memory limits: [attempting to set pod memory limit (5) below current usage (7), {of_a}]"
        );
        check(&[lowered(None, 5, 7), lowered(Some("a"), 5, 6)], Some(&both));
    }
}
