//! The one task that looks at the node's pods and decides what is next for each.

mod errands;
mod looking;
mod resizes;
mod statics;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agent::pod::{self, Answer, Here, Memory, Notice, Pod, Scene, Shown, Step, begun_notes};
use agent::pressure::{self, Pressures, limits};
use agent::{fit, static_pod};
use brain::facts;
use brain::{Note, Object, Wake};
use driver::Refused;
use meta::labels::LabelMap;
use meta::{ObjectExt, Time};
use serde_json::{Value, json};
use store::{Key, Revision};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use view::Mirror;

use crate::api::{Api, PODS};
use crate::dirs::Dirs;
use crate::keeper::Keeper;
use crate::machine::Machine;
use crate::manifests::Manifests;
use crate::mirrors::Mirrors;
use crate::objects::Objects;
use crate::perform::{Ended, Hands, Task};
use crate::seen::Beside;
use crate::upkeep::{Errand, Guard};
use crate::{COMPONENT, NodeConfig, resize, volume};

/// How often volumes made of objects are brought up to date when nothing is known to have changed: tokens expire.
const REFRESH_EVERY: Duration = Duration::from_secs(5 * 60);

/// A pod on this node.
struct Tenant {
    key: Key,
    object: Arc<Value>,
    revision: Revision,
    is_gone: bool,
    /// Whether it comes from a manifest: then the API only shows a mirror of it.
    is_static: bool,
    memory: Memory,
    wake: Option<Time>,
    refreshed: Time,
    is_refreshing: bool,
    /// Whether something has ended since the last look that it would show.
    is_clouded: bool,
}

impl Tenant {
    /// Whether it takes room.
    fn is_active(&self) -> bool {
        !self.is_gone && !Pod::new(&self.object).is_finished()
    }

    /// When its volumes are due to be brought up to date; none for whoever has none that may change, now or ever.
    fn refresh_at(&self) -> Option<Time> {
        let can_be = !self.is_gone && !self.is_refreshing && self.memory.is_mounted();
        let has_any = can_be && has_payloads(&self.object) && !self.object.is_deleting();
        has_any.then(|| self.refreshed.after(REFRESH_EVERY))
    }
}

/// A step that has ended.
pub(crate) struct Done {
    uid: String,
    step: Step,
    ended: Ended,
}

/// What the loop is told.
pub(crate) enum News {
    /// A step has ended.
    Ended(Done),
    /// The runtime was looked at.
    Looked(looking::Listed),
    /// Volumes were brought up to date.
    Refreshed { uid: String },
    /// The runtime has changed.
    Runtime,
    /// Whoever looks after the machine wants something.
    Errand(Errand),
    /// All pods that manifests describe.
    Manifests(Vec<Arc<Value>>),
    /// Something was done about a mirror.
    Mirrored { key: Key, refused: Option<Refused> },
    /// A config map or secret (`namespace/name`) may have changed.
    Touched(String),
}

struct Room {
    config: NodeConfig,
    hands: Arc<Hands>,
    mirror: Mirror,
    here: Here,
    tenants: BTreeMap<String, Tenant>,
    awake: BTreeSet<String>,
    shown: BTreeMap<String, Shown>,
    beside: Beside,
    is_stale: bool,
    /// Since when the runtime is being looked at.
    looking_since: Option<Time>,
    /// Whether it was ever seen what runs: until then nothing is decided.
    is_known: bool,
    /// Whether the runtime does not answer: then only that is decided and done which does not need it.
    is_silent: bool,
    /// Steps of the runtime that have ended since the look began, which does not show what they did. One a step that
    /// was under way.
    unseen: Vec<Done>,
    is_swept: bool,
    retry_runtime: Option<Time>,
    news: mpsc::UnboundedSender<News>,
    /// What the node is short of.
    pressures: watch::Receiver<Pressures>,
    /// Set when a pod comes that has to be watched.
    is_limited: Arc<AtomicBool>,
    mirrors: Mirrors,
    /// What there is to say of the Node before there is one.
    untold: Vec<Note>,
    /// Whether it is known which pods manifests describe: until then no mirror is too many.
    knows_manifests: bool,
    objects: Option<Objects>,
    touched: BTreeSet<String>,
}

/// Runs until `stop` turns true. Containers go on running.
pub async fn run(config: NodeConfig, mut stop: watch::Receiver<bool>) {
    // What is not there has no size, and cannot run full.
    if let Err(error) = std::fs::create_dir_all(&config.root) {
        tracing::error!(directory = %config.root.display(), %error, "the node's directory cannot be made");
    }
    let machine = Machine::read(&config.root);
    let api = Api::new(Arc::clone(&config.transport), config.source.clone());
    let mut moved = config.source.moved.clone();
    let (news, mut heard) = mpsc::unbounded_channel();
    let (shown, pressures) = watch::channel(Pressures::new());
    let mut room = Room::new(config, &machine, api, news, pressures);
    tokio::spawn(listen(room.hands.runtime.events(), room.news.clone()));
    let mut keeping = tokio::spawn(room.keeper(machine).keep());
    let guarding = tokio::spawn(room.guard(shown).run());
    let reading = room.manifests().map(|manifests| tokio::spawn(manifests.run()));
    loop {
        moved.mark_unchanged();
        room.look();
        room.look_at_runtime();
        room.notice_silence();
        room.decide_if_seen();
        room.keep_mirrors();
        room.tell_untold();
        let timer = room.next_timer();
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => break,
            Some(first) = heard.recv() => {
                room.hear(first);
                while let Ok(next) = heard.try_recv() {
                    room.hear(next);
                }
            }
            _ = moved.changed() => {}
            () = sleep(timer) => {}
            _ = &mut keeping => {
                tracing::error!("the task that keeps the Node has ended; the node stops");
                break;
            }
        }
    }
    keeping.abort();
    guarding.abort();
    reading.inspect(JoinHandle::abort);
}

async fn sleep(span: Option<Duration>) {
    match span {
        Some(span) => tokio::time::sleep(span).await,
        None => std::future::pending().await,
    }
}

/// Tells the loop that the runtime has changed; which change does not matter, for it looks at everything.
async fn listen(mut events: contract::Events, news: mpsc::UnboundedSender<News>) {
    while !matches!(events.next().await, Ok(None)) {
        if news.send(News::Runtime).is_err() {
            return;
        }
    }
}

impl Room {
    fn new(
        config: NodeConfig,
        machine: &Machine,
        api: Api,
        news: mpsc::UnboundedSender<News>,
        pressures: watch::Receiver<Pressures>,
    ) -> Room {
        let ips: Vec<String> = config.ips.iter().map(ToString::to_string).collect();
        let runtime_name = config.runtime_version.split("://").next().unwrap_or_default().to_owned();
        let dirs = Dirs::new(&config.root);
        let (runtime, images) = (Arc::clone(&config.runtime), Arc::clone(&config.images));
        let memory = i64::try_from(machine.memory_bytes).unwrap_or(i64::MAX);
        let hands = Hands::new(api, runtime, images, dirs, config.cluster_dns, ips.clone(), memory);
        let mirror = Mirror::of(&*config.source.store);
        let mut room = Room {
            hands: Arc::new(hands),
            mirror,
            here: Here { ips, runtime: runtime_name, ..Here::default() },
            tenants: BTreeMap::new(),
            awake: BTreeSet::new(),
            shown: BTreeMap::new(),
            beside: Beside::default(),
            is_stale: true,
            looking_since: None,
            is_known: false,
            is_silent: false,
            unseen: Vec::new(),
            is_swept: false,
            retry_runtime: None,
            news,
            pressures,
            is_limited: Arc::default(),
            mirrors: Mirrors::default(),
            untold: Vec::new(),
            knows_manifests: config.manifests.is_none(),
            objects: config.watches.clone().map(|ids| Objects::new(Arc::clone(&config.transport), ids)),
            touched: BTreeSet::new(),
            config,
        };
        room.beside.resized = resize::all_remembered(&room.hands.dirs);
        room.take_stock();
        room
    }

    fn manifests(&self) -> Option<Manifests> {
        Some(Manifests {
            directory: self.config.manifests.clone()?,
            node: self.config.name.clone(),
            clock: Arc::clone(&self.config.clock),
            news: self.news.clone(),
        })
    }

    fn guard(&self, shown: watch::Sender<Pressures>) -> Guard {
        Guard::new(self.config.clone(), Arc::clone(&self.hands), self.news.clone(), shown, Arc::clone(&self.is_limited))
    }

    fn keeper(&self, machine: Machine) -> Keeper {
        Keeper::new(self.config.clone(), Arc::clone(&self.hands), machine, self.pressures.clone())
    }

    /// Every pod, after a start or when history was lost.
    fn take_stock(&mut self) {
        let all: Vec<Object> = self.mirror.view().list("core/pods", "");
        let keys: BTreeSet<Key> = all.iter().map(|object| object.key.clone()).collect();
        let lost: Vec<Key> = self.tenants.values().map(|t| t.key.clone()).filter(|key| !keys.contains(key)).collect();
        for object in &all {
            self.notice_pod(&object.key);
        }
        lost.iter().for_each(|key| self.notice_pod(key));
    }

    fn look(&mut self) {
        let mut changed = BTreeSet::new();
        let mut touched = std::mem::take(&mut self.touched);
        let is_whole = self.mirror.advance(&*self.config.source.store, |_, event| match &*event.key.collection {
            "core/pods" => {
                changed.insert(event.key.clone());
            }
            "core/configmaps" | "core/secrets" => {
                touched.insert(event.key.item.to_string());
            }
            _ => {}
        });
        if !is_whole {
            return self.take_stock();
        }
        changed.iter().for_each(|key| self.notice_pod(key));
        self.refresh(&touched);
        self.watch_objects();
    }

    /// What mounted volumes are made of is watched.
    fn watch_objects(&mut self) {
        let Some(objects) = &mut self.objects else { return };
        let uses = |tenant: &&Tenant| !tenant.is_gone && tenant.memory.is_mounted() && has_payloads(&tenant.object);
        let news = self.news.clone();
        let told = move |item: String| {
            // The receiver is gone only when the node is.
            let _ = news.send(News::Touched(item));
        };
        objects.watch(self.tenants.values().filter(uses).map(|tenant| &*tenant.object), &told);
    }

    /// A pod may have come, changed or gone.
    fn notice_pod(&mut self, key: &Key) {
        self.mirrors.wake(key.clone());
        let found = self.mirror.view().get_key(key).filter(|object| !is_mirror(object));
        let own = found.filter(|object| &*facts::Pod::of(object).spec.node_name == self.config.name.as_str());
        let uid = own.as_ref().map(|object| object.meta().uid.to_string());
        for (other, tenant) in self.tenants.iter_mut().filter(|(_, tenant)| tenant.key == *key && !tenant.is_static) {
            if Some(other) != uid.as_ref() && !tenant.is_gone {
                tenant.is_gone = true;
                self.awake.insert(other.clone());
            }
        }
        if let (Some(object), Some(uid)) = (own, uid) {
            self.take_in(&uid, &object);
        }
    }

    fn take_in(&mut self, uid: &str, object: &Object) {
        if let Some(tenant) = self.tenants.get_mut(uid) {
            if object.revision() > tenant.revision || tenant.is_gone {
                (tenant.object, tenant.revision) = (Arc::new(told(object.tree())), object.revision());
                // A pod of the same uid that was gone only for us: it is looked at again.
                tenant.is_gone = false;
                self.awake.insert(uid.to_owned());
            }
            return;
        }
        let tree = told(object.tree());
        if limits::has_limits(&tree) {
            self.is_limited.store(true, Ordering::Relaxed);
        }
        let mut memory = Memory::default();
        if let Some(verdict) = self.refusal(uid, object, &tree) {
            memory.condemn(verdict);
        }
        let tenant = Tenant {
            key: object.key.clone(),
            object: Arc::new(tree),
            revision: object.revision(),
            is_gone: false,
            is_static: false,
            memory,
            wake: None,
            refreshed: self.config.clock.now(),
            is_refreshing: false,
            is_clouded: false,
        };
        self.tenants.insert(uid.to_owned(), tenant);
        self.awake.insert(uid.to_owned());
    }

    /// Why a new pod cannot be here. One that was here before stays.
    fn refusal(&self, uid: &str, object: &Object, tree: &Value) -> Option<pod::Verdict> {
        let is_known = !tree.text(&["status", "startTime"]).is_empty() || self.shown.contains_key(uid);
        if is_known || tree.is_deleting() {
            return None;
        }
        let pod = facts::Pod::of(object);
        self.with_node(|node, labels| {
            let subject = fit::Node { name: &self.config.name, labels, facts: node };
            let pressed = pressure::refusal(&self.pressures.borrow(), tree, &pod);
            pressed.or_else(|| fit::refusal(&subject, &self.others(uid), &pod))
        })?
    }

    /// What follows from the Node, once there is one.
    fn with_node<T>(&self, decide: impl FnOnce(&facts::Node, &LabelMap) -> T) -> Option<T> {
        let node = self.mirror.view().get("core/nodes", "", &self.config.name)?;
        Some(decide(&facts::Node::of(&node), &node.meta().labels))
    }

    /// Volumes whose objects have changed, or whose tokens grow old, are brought up to date.
    fn refresh(&mut self, touched: &BTreeSet<String>) {
        let now = self.config.clock.now();
        for (uid, tenant) in &mut self.tenants {
            let Some(due) = tenant.refresh_at() else { continue };
            let pod = &tenant.object;
            let is_touched = || {
                let names = admit::pod_refs::config_map_names(pod);
                let mut names = names.into_iter().chain(admit::pod_refs::secret_names(pod));
                !touched.is_empty() && names.any(|name| touched.contains(&format!("{}/{name}", pod.namespace())))
            };
            if due > now && !is_touched() {
                continue;
            }
            (tenant.refreshed, tenant.is_refreshing) = (now, true);
            let (hands, pod, view) = (Arc::clone(&self.hands), Arc::clone(pod), self.mirror.view().clone());
            let (news, uid) = (self.news.clone(), uid.clone());
            tokio::spawn(async move {
                if let Err(why) = volume::set_up(&hands.api, &view, &hands.dirs, &pod).await {
                    tracing::debug!(pod = pod.name(), why, "volumes could not be brought up to date");
                }
                // The receiver is gone only when the node is.
                let _ = news.send(News::Refreshed { uid });
            });
        }
    }

    fn decide_if_seen(&mut self) {
        if self.can_decide() {
            self.decide();
        }
    }

    /// One turn for every pod that is awake.
    fn decide(&mut self) {
        let now = self.config.clock.now();
        for (uid, tenant) in &self.tenants {
            if tenant.wake.is_some_and(|at| at <= now) {
                self.awake.insert(uid.clone());
            }
        }
        self.grant_resizes(now);
        for uid in std::mem::take(&mut self.awake) {
            self.turn(&uid, now);
        }
    }

    fn turn(&mut self, uid: &str, now: Time) {
        let nothing = Shown::default();
        let shown = self.shown.get(uid).unwrap_or(&nothing);
        if self.has_to_wait(uid) {
            return;
        }
        let Some(sight) = self.tenants.get(uid).map(|tenant| self.sight(tenant)) else { return };
        let Some(tenant) = self.tenants.get_mut(uid) else { return };
        let object = tenant.granted();
        let subject = Pod { object: &object, is_gone: tenant.is_gone };
        let scene = Scene { pod: subject, shown, sight, memory: &tenant.memory, here: &self.here, now };
        // A pod that makes the brain panic must not take the others with it.
        let Ok(turn) = std::panic::catch_unwind(AssertUnwindSafe(|| pod::turn(&scene))) else {
            tracing::error!(pod = object.name(), namespace = object.namespace(), "the agent panicked on a pod");
            tenant.wake = Some(now.after(REFRESH_EVERY));
            return;
        };
        tenant.memory.begin_turn(&subject, &turn, now);
        tenant.wake = match turn.wake {
            Wake::At(at) => Some(at),
            Wake::OnChange => None,
        };
        let shown = shown.clone();
        if turn.is_over && shown == nothing {
            if let Some(tenant) = self.tenants.remove(uid).filter(|tenant| tenant.is_static) {
                self.go_on(&tenant.key);
            }
            let logs = self.config.logs.join(format!("{}_{}_{uid}", object.namespace(), object.name()));
            // Nobody can ask for them any more.
            tokio::task::spawn_blocking(move || std::fs::remove_dir_all(logs));
            return;
        }
        let mut notices = turn.notices;
        for step in turn.steps {
            notices.extend(begun_notes(&subject, &step));
            self.spawn(uid, Arc::clone(&object), shown.clone(), step);
        }
        self.tell(&object, notices, &BTreeMap::new(), now);
    }

    fn spawn(&self, uid: &str, object: Arc<Value>, shown: Shown, step: Step) {
        let (hands, news, uid) = (Arc::clone(&self.hands), self.news.clone(), uid.to_owned());
        tracing::debug!(pod = object.name(), op = ?step.op(), "a step begins");
        let is_static = self.tenants.get(&uid).is_some_and(|tenant| tenant.is_static);
        if let (Step::Report { patch }, true) = (&step, is_static) {
            // Its status is kept here; the mirror follows when it can.
            let object = Some(static_pod::with_status(&object, patch));
            let ended = Ended { answer: Answer::Done, object };
            let _ = news.send(News::Ended(Done { uid, step, ended }));
            return;
        }
        let task = Task { object, shown, view: self.mirror.view().clone(), step: step.clone() };
        tokio::spawn(async move {
            let performing = tokio::spawn(async move { hands.perform(&task).await });
            let ended = performing.await.unwrap_or_else(|_| Answer::failed("", "the step panicked").into());
            // The receiver is gone only when the node is.
            let _ = news.send(News::Ended(Done { uid, step, ended }));
        });
    }

    fn hear(&mut self, news: News) {
        match news {
            News::Runtime => self.is_stale = true,
            News::Touched(item) => {
                self.touched.insert(item);
            }
            News::Refreshed { uid } => {
                if let Some(tenant) = self.tenants.get_mut(&uid) {
                    tenant.is_refreshing = false;
                }
            }
            News::Ended(done) if self.looking_since.is_some() && done.step.is_seen() => self.unseen.push(done),
            News::Ended(done) => self.end(&done.uid, &done.step, done.ended),
            News::Looked(listed) => self.end_look(listed),
            News::Errand(errand) => self.run_errand(errand),
            News::Manifests(pods) => self.take_manifests(&pods),
            News::Mirrored { key, refused } => self.mirrors.end(&key, refused.as_ref(), self.config.clock.now()),
        }
    }

    fn end(&mut self, uid: &str, step: &Step, ended: Ended) {
        let now = self.config.clock.now();
        if !matches!(step, Step::Report { .. } | Step::Probe { .. } | Step::Delete | Step::Pull { .. }) {
            self.is_stale = true;
        }
        if let Step::Resize { .. } = step {
            // Some of it may have been done even if not all of it could be.
            self.beside.resized.extend(resize::remembered(&self.hands.dirs, uid));
        }
        let Some(tenant) = self.tenants.get_mut(uid) else { return };
        tenant.is_clouded |= step.is_seen();
        if let Answer::Failed(failure) = &ended.answer {
            tracing::debug!(pod = tenant.object.name(), op = ?step.op(), why = failure.message, "a step failed");
        }
        let object = tenant.granted();
        let notices = tenant.memory.end(&Pod::new(&object), step, &ended.answer, now);
        if let Some(written) = ended.object {
            let revision = written.text(&["metadata", "resourceVersion"]).parse().map_or(Revision(0), Revision);
            if tenant.is_static {
                tenant.object = Arc::new(written);
                self.mirrors.wake(tenant.key.clone());
            } else if revision > tenant.revision && written.uid() == uid {
                (tenant.object, tenant.revision) = (Arc::new(told(written)), revision);
            }
        }
        self.awake.insert(uid.to_owned());
        self.tell(&object, notices, &BTreeMap::new(), now);
    }

    /// Makes events; one more or less holds nothing up.
    fn tell(&self, pod: &Value, notices: Vec<Notice>, annotations: &BTreeMap<String, String>, now: Time) {
        let key = brain::key("core/pods", pod.namespace(), pod.name());
        let is_it = |root: &Object| &*root.meta().uid == pod.uid() || agent::mirror::mirrors(&root.tree(), pod);
        let Some(root) = self.mirror.view().get_key(&key).filter(is_it) else { return };
        let events: Vec<Value> = notices
            .into_iter()
            .filter_map(|notice| {
                let mut event = driver::events::event_from(COMPONENT, &PODS, "Pod", &root, &notice.note, now)?;
                if let Some(path) = notice.field_path {
                    // The same words about another container are another event.
                    let base = format!("{}.", pod.name());
                    let name = brain::child_name(&base, [event.name(), path.as_str()]);
                    event.put(&["metadata", "name"], name);
                    event.put(&["involvedObject", "fieldPath"], path);
                }
                if !annotations.is_empty() {
                    event.put(&["metadata", "annotations"], json!(annotations));
                }
                Some(event)
            })
            .collect();
        self.send_events(events);
    }

    fn send_events(&self, mut events: Vec<Value>) {
        if events.is_empty() {
            return;
        }
        for event in &mut events {
            event.put(&["source", "host"], self.config.name.as_str());
            event.put(&["reportingInstance"], self.config.name.as_str());
        }
        let hands = Arc::clone(&self.hands.api.hands);
        tokio::spawn(async move {
            for event in events {
                driver::events::tell(&hands, &event).await;
            }
        });
    }

    fn next_timer(&self) -> Option<Duration> {
        let now = self.config.clock.now();
        // Before the runtime was looked at nobody's turn comes, however due it is.
        let wakes = self.tenants.values().filter_map(|tenant| tenant.wake).filter(|_| self.can_decide());
        let refreshes = self.tenants.values().filter_map(Tenant::refresh_at);
        let others = self.look_again_at().into_iter().chain(self.mirrors.wake_at());
        wakes.chain(refreshes).chain(others).min().map(|at| at.since(now))
    }
}

/// A pod as the API tells it: where it comes from is not for its author to say.
fn told(mut pod: Value) -> Value {
    if pod.annotation(static_pod::SOURCE).is_some() {
        pod.put(&["metadata", "annotations", static_pod::SOURCE], "api");
    }
    pod
}

/// Whether the API's pod only shows one that a node has made itself.
fn is_mirror(object: &Object) -> bool {
    facts::Pod::of(object).annotation(agent::mirror::MIRROR).is_some()
}

/// Whether some volume of a pod is made of objects.
fn has_payloads(pod: &Value) -> bool {
    pod.items(&["spec", "volumes"]).iter().any(agent::payload::is_payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_volumes_that_are_there_and_may_change_are_due() {
        let now = Time::from_secs(100);
        let payload = json!({"spec": {"volumes": [{"name": "v", "configMap": {"name": "m"}}]}});
        let check = |object: &Value, is_mounted: bool, expected: Option<Time>| {
            let mut memory = Memory::default();
            if is_mounted {
                memory.end(&Pod::new(object), &Step::Mount, &Answer::Done, now);
            }
            let tenant = Tenant {
                key: brain::key("core/pods", "a", "p"),
                object: Arc::new(object.clone()),
                revision: Revision(1),
                is_gone: false,
                is_static: false,
                memory,
                wake: None,
                refreshed: now,
                is_refreshing: false,
                is_clouded: false,
            };
            assert_eq!(tenant.refresh_at(), expected, "{object} {is_mounted}");
        };
        check(&payload, true, Some(now.after(REFRESH_EVERY)));
        // A pod that waits for its volumes or has ended must not keep the loop awake.
        check(&payload, false, None);
        check(&json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}), true, None);
    }
}
