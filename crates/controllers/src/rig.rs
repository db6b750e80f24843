//! A small world for tests: a store in memory, the API's write semantics as far as controllers see them, and a
//! loop that runs controllers until they rest. Every write can be the last one before a crash.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use brain::{Action, Controller, Note, Patch, Propagation, Refusal, Refusals, View, Wake};
use meta::{ObjectExt, Time};
use serde_json::{Value, json};
use store::{Key as StoreKey, Keyspace, Mem, Op, Store, Txn};
use view::Mirror;

/// Turns after which a world that does not come to rest is called restless.
const TURNS_MAX: usize = 5_000;
/// When every test world begins.
pub(crate) const START: Time = Time::from_secs(1_700_000_000);

/// A look at one state.
pub(crate) type Inspect = Box<dyn Fn(&View)>;

/// What may befall a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is committed, and whether or not anybody hears of it every controller dies and starts anew.
    Crash,
    /// It is committed, its answer is lost, and the key is decided on again before the view has it.
    LostAnswer,
    /// It never arrives, and every controller dies and starts anew.
    CrashBefore,
}

pub(crate) struct World {
    store: Mem,
    mirror: Mirror,
    controllers: Vec<Controller>,
    due: Vec<BTreeSet<StoreKey>>,
    wakes: Vec<BTreeMap<StoreKey, Time>>,
    pub now: Time,
    uids: u64,
    refusals: Vec<Refusals>,
    /// Actions whose line begins so are refused by "admission".
    pub deny: Vec<String>,
    /// What was done, one line an action.
    pub log: Vec<String>,
    /// What was said, `Reason: message`.
    pub notes: Vec<String>,
    /// Only the first action of a turn is performed, then everything known is forgotten.
    pub crashing: bool,
    /// Every action is sent twice, as after a lost answer.
    pub repeating: bool,
    /// What befalls one write, counted from 0.
    pub fault: Option<(usize, Fault)>,
    /// Writes performed so far.
    pub writes: usize,
    /// The next turn is decided on an old view.
    is_behind: bool,
    /// Looks at every state on the way.
    pub inspect: Option<Inspect>,
}

impl World {
    pub fn new(controllers: impl IntoIterator<Item = Controller>) -> World {
        let controllers: Vec<Controller> = controllers.into_iter().collect();
        let store = Mem::new();
        World {
            mirror: Mirror::of(&store),
            store,
            due: vec![BTreeSet::new(); controllers.len()],
            wakes: vec![BTreeMap::new(); controllers.len()],
            refusals: controllers.iter().map(|_| Refusals::default()).collect(),
            controllers,
            now: START,
            uids: 0,
            deny: Vec::new(),
            log: Vec::new(),
            notes: Vec::new(),
            crashing: false,
            repeating: false,
            fault: None,
            writes: 0,
            is_behind: false,
            inspect: None,
        }
    }

    /// The same, dying after every write.
    pub fn crashing(mut self) -> World {
        self.crashing = true;
        self
    }

    pub fn view(&self) -> View {
        View::of(self.store.snapshot())
    }

    /// Puts an object there as a user would; `collection` is e.g. `core/pods`. Name and uid may be given.
    pub fn put(&mut self, collection: &str, mut object: Value) -> Value {
        let key = brain::key(collection, object.namespace(), object.name());
        let old = self.stored(&key);
        if object.uid().is_empty() {
            let uid = old.as_ref().map(|o| o.uid().to_owned()).unwrap_or_else(|| self.next_uid());
            object.put(&["metadata", "uid"], uid);
        }
        if object.at(&["metadata", "creationTimestamp"]).is_none() {
            object.put(&["metadata", "creationTimestamp"], self.now.to_rfc3339());
        }
        self.write(&key, object.clone());
        object
    }

    /// Changes an object as a user would.
    pub fn edit(&mut self, collection: &str, namespace: &str, name: &str, change: impl FnOnce(&mut Value)) {
        let key = brain::key(collection, namespace, name);
        let mut object = self.stored(&key).unwrap_or_else(|| panic!("no {key}"));
        change(&mut object);
        self.finish(&key, object);
    }

    pub fn get(&self, collection: &str, namespace: &str, name: &str) -> Option<Value> {
        self.stored(&brain::key(collection, namespace, name))
    }

    pub fn list(&self, collection: &str) -> Vec<Value> {
        self.view().list(collection, "").iter().map(|o| o.tree()).collect()
    }

    /// `name` or `namespace/name` of everything in a collection.
    pub fn names(&self, collection: &str) -> Vec<String> {
        self.view().list(collection, "").iter().map(|o| o.key.item.to_string()).collect()
    }

    /// Deletes as a user would, with this propagation.
    pub fn delete(&mut self, collection: &str, namespace: &str, name: &str, propagation: Option<Propagation>) {
        let key = brain::key(collection, namespace, name);
        self.begin_deletion(&key, propagation, None);
    }

    /// Removes an object that is being deleted, whatever its grace (a pod that its node has stopped).
    pub fn remove(&mut self, collection: &str, namespace: &str, name: &str) {
        let key = brain::key(collection, namespace, name);
        self.commit(Op::Delete { key, last: None });
    }

    pub fn advance(&mut self, seconds: u64) {
        self.now = self.now.after(Duration::from_secs(seconds));
    }

    /// Runs the controllers until nothing is due at this time; returns what was done since the last call.
    pub fn settle(&mut self) -> Vec<String> {
        self.wake_all();
        self.run();
        let done = std::mem::take(&mut self.log);
        // At rest, a fresh look at everything finds nothing to do.
        let crashing = std::mem::replace(&mut self.crashing, false);
        self.wake_all();
        self.run();
        assert_eq!(self.log, Vec::<String>::new(), "a settled world was not at rest, after {done:#?}");
        self.crashing = crashing;
        done
    }

    /// Runs what is due now, without asking for rest afterwards (something is refused again and again).
    pub fn settle_once(&mut self) -> Vec<String> {
        self.run();
        std::mem::take(&mut self.log)
    }

    /// Like `settle`, but only what events and wake-ups bring is looked at.
    pub fn follow(&mut self) -> Vec<String> {
        self.run();
        let done = std::mem::take(&mut self.log);
        self.wake_all();
        self.run();
        assert_eq!(self.log, Vec::<String>::new(), "events did not wake what a full look finds, after {done:#?}");
        done
    }

    /// The earliest time a controller asked for.
    pub fn next_wake(&self) -> Option<Time> {
        self.wakes.iter().flat_map(|w| w.values()).min().copied()
    }

    fn wake_all(&mut self) {
        let view = self.view();
        for (due, controller) in self.due.iter_mut().zip(&self.controllers) {
            due.extend(controller.all_keys(&view));
        }
    }

    fn run(&mut self) {
        for _ in 0..TURNS_MAX {
            if !std::mem::take(&mut self.is_behind) {
                self.hear();
            }
            let now = self.now;
            for (due, wakes) in self.due.iter_mut().zip(&mut self.wakes) {
                due.extend(wakes.extract_if(.., |_, at| *at <= now).map(|(key, _)| key));
            }
            let Some(index) = self.due.iter().position(|due| !due.is_empty()) else { return };
            if let Some(key) = self.due[index].pop_first() {
                self.turn(index, key);
            }
        }
        panic!("restless: {:#?}", &self.log[self.log.len().saturating_sub(20)..]);
    }

    fn hear(&mut self) {
        let World { mirror, store, due, controllers, .. } = self;
        mirror.advance(store, |view, event| {
            for (due, controller) in due.iter_mut().zip(controllers.iter()) {
                due.extend(controller.def.keys(view, event));
            }
        });
    }

    fn turn(&mut self, index: usize, key: StoreKey) {
        let refusal = self.refusals[index].get(&key);
        let turn = (self.controllers[index].turn)(self.mirror.view(), &key, self.now, refusal);
        // A struck world is played so often that it is not asked of it.
        if self.fault.is_none() {
            let anew = self.view();
            let again = (self.controllers[index].turn)(&anew, &key, self.now, refusal);
            assert_eq!(turn, again, "the same input gave another output");
        }
        assert_eq!(turn.violation, None, "{key}: {:#?}", turn.effects);
        self.notes.extend(turn.notes.iter().filter(|n| n.severity.is_some()).map(text));
        self.wakes[index].remove(&key);
        if let Wake::At(at) = turn.wake {
            self.wakes[index].insert(key.clone(), at);
        }
        for effect in turn.effects {
            let line = describe(&effect.action);
            if let Some(message) = self.denied(&line) {
                let refusal = Refusal::of(&effect.action, "Forbidden", message, self.now);
                self.refusals[index].remember(key.clone(), refusal);
                self.log.push(format!("{line} DENIED"));
                self.wakes[index].insert(key, self.now.after(Duration::from_secs(1)));
                return;
            }
            let fault = self.fault.filter(|(index, _)| *index == self.writes).map(|(_, fault)| fault);
            if fault == Some(Fault::CrashBefore) {
                self.writes += 1;
                return self.die();
            }
            match self.perform(effect.action.clone()) {
                Ok(()) => {
                    self.writes += 1;
                    if self.repeating {
                        let _ = self.perform(effect.action);
                    }
                    self.notes.extend(effect.note.iter().filter(|n| n.severity.is_some()).map(text));
                    self.log.push(line);
                    match fault {
                        // What is known of the answer dies with who knew it.
                        Some(Fault::Crash) => return self.die(),
                        Some(Fault::LostAnswer) => {
                            self.is_behind = true;
                            self.due[index].insert(key);
                            return;
                        }
                        _ => {}
                    }
                }
                Err(why) => {
                    self.log.push(format!("{line} REFUSED: {why}"));
                    self.due[index].insert(key);
                    return;
                }
            }
            if self.crashing {
                self.wakes.iter_mut().for_each(BTreeMap::clear);
                self.wake_all();
                return;
            }
        }
        self.refusals[index].forget(&key);
    }

    /// Every controller forgets all it knew and looks at everything.
    fn die(&mut self) {
        self.wakes.iter_mut().for_each(BTreeMap::clear);
        self.due.iter_mut().for_each(BTreeSet::clear);
        self.refusals.iter_mut().for_each(|refusals| *refusals = Refusals::default());
        self.mirror = Mirror::of(&self.store);
        self.wake_all();
    }

    fn denied(&self, line: &str) -> Option<String> {
        self.deny.iter().find(|deny| line.starts_with(&***deny)).map(|deny| format!("{deny} is forbidden"))
    }

    fn stored(&self, key: &StoreKey) -> Option<Value> {
        let snapshot = self.store.snapshot();
        snapshot.get_key(key).map(|entry| serde_json::from_slice(&entry.value).expect("stored JSON"))
    }

    fn perform(&mut self, action: Action) -> Result<(), String> {
        match action {
            Action::Create { resource, namespace, mut object } => {
                if !namespace.is_empty() {
                    object.put(&["metadata", "namespace"], namespace.clone());
                }
                let key = brain::key(&resource.collection(), &namespace, object.name());
                assert!(!object.name().is_empty(), "a created object has a name");
                if self.stored(&key).is_some() {
                    return Err("AlreadyExists".to_owned());
                }
                object.put(&["metadata", "uid"], self.next_uid());
                object.put(&["metadata", "creationTimestamp"], self.now.to_rfc3339());
                object.put(&["metadata", "generation"], 1);
                self.write(&key, object);
                Ok(())
            }
            Action::Update { resource, subresource, object } => {
                let key = brain::key(&resource.collection(), object.namespace(), object.name());
                let old = self.stored(&key).ok_or("NotFound")?;
                self.replace(&key, old, object, subresource)
            }
            Action::Patch { resource, subresource, namespace, name, uid, patch } => {
                let key = brain::key(&resource.collection(), &namespace, &name);
                let old = self.expect(&key, &uid)?;
                let Patch::Merge(patch) = patch else { return Err("only merge patches here".to_owned()) };
                let mut new = old.clone();
                merge(&mut new, &patch);
                self.replace(&key, old, new, subresource)
            }
            Action::Delete { resource, namespace, name, uid, revision, propagation, grace_seconds } => {
                let key = brain::key(&resource.collection(), &namespace, &name);
                let old = self.expect(&key, &uid)?;
                let at = old.text(&["metadata", "resourceVersion"]).to_owned();
                if revision.is_some_and(|r| r.to_string() != at) {
                    return Err("Conflict".to_owned());
                }
                self.begin_deletion(&key, propagation, grace_seconds);
                Ok(())
            }
            Action::DeleteCollection { resource, namespace, propagation } => {
                for object in self.view().list(&resource.collection(), &namespace) {
                    if !object.meta().is_deleting() {
                        self.begin_deletion(&object.key, propagation, None);
                    }
                }
                Ok(())
            }
            Action::Evict { namespace, name, uid } => {
                let key = brain::key("core/pods", &namespace, &name);
                self.expect(&key, &uid)?;
                self.begin_deletion(&key, None, None);
                Ok(())
            }
            Action::Bind { namespace, name, uid, node } => {
                let key = brain::key("core/pods", &namespace, &name);
                let mut pod = self.expect(&key, &uid)?;
                pod.put(&["spec", "nodeName"], node);
                self.write(&key, pod);
                Ok(())
            }
        }
    }

    fn expect(&self, key: &StoreKey, uid: &str) -> Result<Value, String> {
        let old = self.stored(key).ok_or("NotFound")?;
        if old.uid() == uid { Ok(old) } else { Err("Conflict: another uid".to_owned()) }
    }

    fn replace(&mut self, key: &StoreKey, old: Value, mut new: Value, subresource: &str) -> Result<(), String> {
        let version = |object: &Value| object.text(&["metadata", "resourceVersion"]).to_owned();
        if !version(&new).is_empty() && version(&new) != version(&old) {
            return Err("Conflict".to_owned());
        }
        if subresource == "status" {
            let status = new.at(&["status"]).cloned().unwrap_or_default();
            let annotations = new.at(&["metadata", "annotations"]).cloned();
            new = old.clone();
            new.put(&["status"], status);
            if let Some(annotations) = annotations {
                new.put(&["metadata", "annotations"], annotations);
            }
        } else if has_status(&key.collection) {
            match old.at(&["status"]).cloned() {
                Some(status) => new.put(&["status"], status),
                None => drop(new.remove(&["status"])),
            }
        }
        if new == old {
            return Err("a write that changes nothing".to_owned());
        }
        self.finish(key, new);
        Ok(())
    }

    /// Writes the object, or removes it when nothing holds it any more.
    fn finish(&mut self, key: &StoreKey, object: Value) {
        let held = object.finalizers().next().is_some() || !object.items(&["spec", "finalizers"]).is_empty();
        let grace = object.int(&["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0);
        if object.is_deleting() && !held && grace == 0 {
            self.commit(Op::Delete { key: key.clone(), last: None });
        } else {
            self.write(key, object);
        }
    }

    fn begin_deletion(&mut self, key: &StoreKey, propagation: Option<Propagation>, grace: Option<i64>) {
        let mut object = self.stored(key).unwrap_or_else(|| panic!("no {key}"));
        let mut finalizers: Vec<String> = object.finalizers().map(str::to_owned).collect();
        if propagation.is_some() {
            finalizers.retain(|f| f != "orphan" && f != "foregroundDeletion");
        }
        match propagation {
            Some(Propagation::Orphan) => finalizers.push("orphan".to_owned()),
            Some(Propagation::Foreground) => finalizers.push("foregroundDeletion".to_owned()),
            Some(Propagation::Background) | None => {}
        }
        object.put(&["metadata", "finalizers"], finalizers);
        let on_a_node = &*key.collection == "core/pods"
            && !object.text(&["spec", "nodeName"]).is_empty()
            && !matches!(object.text(&["status", "phase"]), "Succeeded" | "Failed");
        let grace = if on_a_node { grace.unwrap_or(30) } else { 0 };
        if !object.is_deleting() || grace == 0 {
            let at = self.now.after(Duration::from_secs(grace as u64));
            object.put(&["metadata", "deletionTimestamp"], at.to_rfc3339());
            object.put(&["metadata", "deletionGracePeriodSeconds"], grace);
        }
        if &*key.collection == "core/namespaces" {
            object.put(&["status", "phase"], "Terminating");
        }
        self.finish(key, object);
    }

    fn write(&mut self, key: &StoreKey, mut object: Value) {
        const MARK: &str = "\"resourceVersion\":\"";
        let old = self.stored(key).filter(|old| old.generation() > 0 && old.get("spec") != object.get("spec"));
        if let Some(old) = old {
            object.put(&["metadata", "generation"], old.generation() + 1);
        }
        object.put(&["metadata", "resourceVersion"], "");
        let text = object.to_string();
        let stamp_at = text.find(MARK).map(|at| (at + MARK.len()) as u32);
        let op =
            Op::Put { key: key.clone(), value: text.into(), annex: "".into(), stamp_at, keyspace: Keyspace::Durable };
        self.commit(op);
    }

    fn commit(&mut self, op: Op) {
        let txn = Txn { preconditions: Vec::new(), ops: vec![op] };
        self.store.submit(txn, Box::new(|done| drop(done.expect("committed"))));
        if let Some(inspect) = &self.inspect {
            inspect(&self.view());
        }
    }

    fn next_uid(&mut self) -> String {
        self.uids += 1;
        format!("uid-{}", self.uids)
    }
}

/// Kinds whose status is written apart.
fn has_status(collection: &str) -> bool {
    !matches!(collection, "core/endpoints" | "discovery.k8s.io/endpointslices" | "core/configmaps" | "core/secrets")
}

fn text(note: &Note) -> String {
    format!("{}: {}", note.reason, note.message)
}

fn describe(action: &Action) -> String {
    let verb = action.verb();
    let at = |resource: &brain::Resource, namespace: &str, name: &str| match namespace {
        "" => format!("{} {name}", resource.plural),
        namespace => format!("{} {namespace}/{name}", resource.plural),
    };
    let sub = |subresource: &str| if subresource.is_empty() { String::new() } else { format!(" {subresource}") };
    match action {
        Action::Create { resource, namespace, object } => format!("{verb} {}", at(resource, namespace, object.name())),
        Action::Update { resource, subresource, object } => {
            format!("{verb}{} {}", sub(subresource), at(resource, object.namespace(), object.name()))
        }
        Action::Patch { resource, subresource, namespace, name, .. } => {
            format!("{verb}{} {}", sub(subresource), at(resource, namespace, name))
        }
        Action::Delete { resource, namespace, name, propagation, .. } => {
            let how = propagation.map(|p| format!(" {p:?}")).unwrap_or_default();
            format!("{verb} {}{how}", at(resource, namespace, name))
        }
        Action::DeleteCollection { resource, namespace, .. } => format!("{verb} {}", at(resource, namespace, "*")),
        Action::Evict { namespace, name, .. } => format!("{verb} pods {namespace}/{name}"),
        Action::Bind { namespace, name, node, .. } => format!("{verb} pods {namespace}/{name} to {node}"),
    }
}

/// RFC 7386.
fn merge(target: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, value) in patch {
        if value.is_null() {
            target.as_object_mut().expect("an object").remove(name);
        } else {
            merge(&mut target[name], value);
        }
    }
}
