//! Mistakes planted on purpose, to see whether the oracles notice: each is one that a control plane really had.

use brain::{Action, Effect, Note, Object, Patch, Turn};
use driver::Call;
use meta::ObjectExt;
use serde_json::{Value, json};

macro_rules! mutants {
    ($($(#[doc = $doc:expr])+ $name:ident = $text:literal,)+) => {
        /// One mistake.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Mutant {
            $($(#[doc = $doc])+ $name,)+
            /// This controller decides and does nothing.
            Asleep(&'static str),
            /// This controller hears of what comes and goes, and of no change.
            Deaf(&'static str),
        }

        impl Mutant {
            /// Those that are about no controller in particular.
            pub const GENERAL: &'static [Mutant] = &[$(Mutant::$name,)+];

            /// As it is called on the command line.
            pub fn name(self) -> String {
                match self {
                    $(Mutant::$name => $text.to_owned(),)+
                    Mutant::Asleep(controller) => format!("asleep:{controller}"),
                    Mutant::Deaf(controller) => format!("deaf:{controller}"),
                }
            }
        }
    };
}

mutants! {
    /// A key is decided on before the view has reached its own last write.
    NoGate = "no-gate",
    /// After a restart the first view is an old one, and children get random names (as upstream's have).
    StaleRestart = "stale-restart",
    /// Children get random names instead of ones that follow from what is meant.
    RandomNames = "random-names",
    /// A create whose answer was lost is tried again under another name.
    DoubleCreate = "double-create",
    /// Wake-ups at a time are forgotten.
    ForgetWakes = "forget-wakes",
    /// A refused step counts as done.
    IgnoreRefusals = "ignore-refusals",
    /// Some events never arrive.
    DropEvents = "drop-events",
    /// Finalizers are never taken off.
    KeepFinalizers = "keep-finalizers",
    /// Status is never written.
    NoStatus = "no-status",
    /// Every status write says that something has changed.
    RestlessStatus = "restless-status",
    /// Pods are deleted without grace by those who do not run them.
    ForceDelete = "force-delete",
    /// One child too many is created.
    OneTooMany = "one-too-many",
    /// Children are created without an owner.
    NoOwner = "no-owner",
    /// The collector deletes dependents of living owners.
    CollectLiving = "collect-living",
    /// Specs are written by those who may only write status.
    MeddleWithSpec = "meddle-with-spec",
    /// Deletions and patches take whatever has the name.
    NoUid = "no-uid",
    /// Writes are not guarded by the revision they were decided on.
    NoRevision = "no-revision",
    /// After a start only what changes is looked at.
    ForgetStart = "forget-start",
    /// After history was compacted away only what changes is looked at.
    NoRelist = "no-relist",
    /// Every look at a key says something, and another look follows.
    Chatty = "chatty",
    /// Children name their owner, but not as the one who controls them.
    WeakOwner = "weak-owner",
    /// Children are created without the labels that select them.
    NoLabels = "no-labels",
    /// Collections are never emptied.
    NoEmptying = "no-emptying",
    /// The last effect of several counts as done.
    DropLast = "drop-last",
    /// Deletions go unnoticed.
    MissDeletions = "miss-deletions",
    /// ReplicaSets are made larger than was decided.
    TooLarge = "too-large",
    /// The first of several creations is carried out in another namespace.
    WrongNamespace = "wrong-namespace",
    /// Orphans are not let go of.
    NoRelease = "no-release",
    /// What is created is created only once in a process's life, whatever became of it.
    CreateOnce = "create-once",
    /// The server's transactions have no preconditions.
    NoPreconditions = "no-preconditions",
    /// The server acknowledges a write now and then that it never commits.
    ForgetWrites = "forget-writes",
    /// The store does not sync at all.
    SkipSync = "skip-sync",
    /// The store acknowledges before it syncs.
    AckBeforeSync = "ack-before-sync",
    /// The store believes the second answer of a sync that failed.
    RetrySync = "retry-sync",
    /// The store leaves what a failed sync did not write for the next process.
    KeepUnsynced = "keep-unsynced",
    /// The store leaves out an event where a watcher is slow.
    SlowMisses = "slow-misses",
    /// The store tells a watcher that it is up to date before it has got the events.
    EarlyBookmark = "early-bookmark",
    /// Evictions are plain deletions: budgets are not asked.
    EvictAnyway = "evict-anyway",
}

impl Mutant {
    /// By its name.
    pub fn named(name: &str) -> Option<Mutant> {
        Mutant::all().into_iter().find(|mutant| mutant.name() == name)
    }

    /// All of them: the general ones, and two for every controller.
    pub fn all() -> Vec<Mutant> {
        let names: Vec<&'static str> = controllers::all().iter().map(|controller| controller.def.name).collect();
        let of = |make: fn(&'static str) -> Mutant| names.iter().map(move |name| make(name));
        Mutant::GENERAL.iter().copied().chain(of(Mutant::Asleep)).chain(of(Mutant::Deaf)).collect()
    }

    /// The mistake of the store, if it is one.
    pub fn of_store(self) -> Option<store_disk::Mutant> {
        match self {
            Mutant::SkipSync => Some(store_disk::Mutant::SkipSync),
            Mutant::AckBeforeSync => Some(store_disk::Mutant::AckBeforeSync),
            Mutant::RetrySync => Some(store_disk::Mutant::RetrySync),
            Mutant::KeepUnsynced => Some(store_disk::Mutant::KeepUnsynced),
            _ => None,
        }
    }

    /// The mistake of what all stores share, if it is one.
    pub fn of_heart(self) -> Option<store::Mutant> {
        match self {
            Mutant::SlowMisses => Some(store::Mutant::SlowMisses),
            Mutant::EarlyBookmark => Some(store::Mutant::EarlyBookmark),
            _ => None,
        }
    }

    /// Spoils a decision.
    pub fn bend(self, turn: &mut Turn, number: u64) {
        match self {
            Mutant::RandomNames | Mutant::StaleRestart => {
                for (index, effect) in turn.effects.iter_mut().enumerate() {
                    Mutant::rename(&mut effect.action, number * 100 + index as u64);
                }
            }
            Mutant::KeepFinalizers => turn.effects.retain(|effect| !takes_finalizer(&effect.action)),
            Mutant::NoStatus => turn.effects.retain(|effect| !is_status(&effect.action)),
            Mutant::RestlessStatus => turn.effects.iter_mut().for_each(|effect| unsettle(&mut effect.action, number)),
            Mutant::ForceDelete => turn.effects.iter_mut().for_each(|effect| force(&mut effect.action)),
            Mutant::OneTooMany => {
                let extra = turn.effects.iter().find(|effect| is_pod_creation(&effect.action)).cloned();
                if let Some(mut extra) = extra {
                    Mutant::rename(&mut extra.action, number);
                    turn.effects.push(extra);
                }
            }
            Mutant::NoOwner => {
                for effect in &mut turn.effects {
                    if let Action::Create { object, .. } = &mut effect.action {
                        object.remove(&["metadata", "ownerReferences"]);
                    }
                }
            }
            Mutant::Chatty => {
                turn.notes.push(Note::normal("Looked", "a look was taken"));
            }
            Mutant::WeakOwner => {
                for effect in &mut turn.effects {
                    if let Action::Create { object, .. } = &mut effect.action
                        && let Some(owner) = object.pointer_mut("/metadata/ownerReferences/0")
                    {
                        owner.put(&["controller"], false);
                    }
                }
            }
            Mutant::NoLabels => {
                for effect in &mut turn.effects {
                    if let Action::Create { object, .. } = &mut effect.action {
                        object.remove(&["metadata", "labels"]);
                    }
                }
            }
            Mutant::NoEmptying => {
                turn.effects.retain(|effect| !matches!(effect.action, Action::DeleteCollection { .. }));
            }
            Mutant::DropLast if turn.effects.len() > 1 => drop(turn.effects.pop()),
            Mutant::TooLarge => turn.effects.iter_mut().for_each(|effect| enlarge(&mut effect.action)),
            Mutant::WrongNamespace if turn.effects.len() > 1 => {
                if let Action::Create { namespace, object, .. } = &mut turn.effects[0].action {
                    *namespace = "default".to_owned();
                    object.put(&["metadata", "namespace"], "default");
                }
            }
            Mutant::NoRelease => turn.effects.retain(|effect| !changes_owners(&effect.action)),
            Mutant::MeddleWithSpec => turn.effects.iter_mut().for_each(|effect| meddle(&mut effect.action)),
            _ => {}
        }
    }

    /// Spoils a decision about an object.
    pub fn bend_about(self, turn: &mut Turn, root: Option<&Object>, controller: &str) {
        let Some(root) = root.filter(|root| &*root.key.collection == "core/pods") else { return };
        let living = controller == "generic-garbage-collector" && root.meta().controller().is_some();
        if self == Mutant::CollectLiving && living && !root.meta().is_deleting() {
            let action = Action::Delete {
                resource: brain::Resource::new("", "v1", "pods"),
                namespace: root.meta().namespace.to_string(),
                name: root.meta().name.to_string(),
                uid: root.meta().uid.to_string(),
                revision: None,
                propagation: None,
                grace_seconds: None,
            };
            turn.effects.push(Effect { action, note: None });
        }
    }

    /// Spoils a request.
    pub fn strip(self, call: &mut Call) {
        let paths: &[&[&str]] = match self {
            Mutant::NoUid => &[&["preconditions"], &["metadata", "uid"]],
            Mutant::NoRevision => &[&["preconditions", "resourceVersion"], &["metadata", "resourceVersion"]],
            _ => return,
        };
        let Ok(mut body) = serde_json::from_slice::<Value>(&call.body) else { return };
        for path in paths {
            body.remove(path);
        }
        call.body = serde_json::to_vec(&body).unwrap_or_default().into();
    }

    /// Gives a pod that is to be created another name. False for any other action.
    pub fn rename(action: &mut Action, number: u64) -> bool {
        if !is_pod_creation(action) {
            return false;
        }
        let Action::Create { object, .. } = action else { return false };
        let name = object.name().to_owned();
        // Names with an ordinal are identities, not random anywhere.
        if name.rsplit('-').next().is_some_and(|end| end.parse::<u32>().is_ok()) {
            return false;
        }
        object.put(&["metadata", "name"], format!("{name}x{number}"));
        true
    }
}

fn is_pod_creation(action: &Action) -> bool {
    matches!(action, Action::Create { resource, .. } if resource.plural == "pods")
}

fn is_status(action: &Action) -> bool {
    matches!(action, Action::Update { subresource: "status", .. })
        || matches!(action, Action::Patch { subresource: "status", resource, .. } if resource.plural != "pods"
            && resource.plural != "nodes")
}

fn takes_finalizer(action: &Action) -> bool {
    match action {
        Action::Patch { patch: Patch::Merge(body) | Patch::Strategic(body), .. } => {
            body.at(&["metadata", "finalizers"]).is_some() || body.at(&["spec", "finalizers"]).is_some()
        }
        Action::Patch { patch: Patch::Json(body), .. } => body.to_string().contains("/finalizers"),
        Action::Update { object, subresource, .. } => {
            *subresource == "finalize" || (subresource.is_empty() && object.is_deleting())
        }
        _ => false,
    }
}

fn unsettle(action: &mut Action, number: u64) {
    let patch = match action {
        Action::Update { object, subresource: "status", .. } => object,
        Action::Patch { patch: Patch::Merge(body), subresource: "status", resource, .. }
            if resource.plural != "pods" =>
        {
            body
        }
        _ => return,
    };
    let counter = patch.at(&["status", "observedGeneration"]).is_some();
    if counter {
        patch.put(&["status", "observedGeneration"], json!(number as i64 % 1_000));
    }
}

fn enlarge(action: &mut Action) {
    if let Action::Patch { resource, patch: Patch::Merge(body), .. } = action
        && resource.plural == "replicasets"
        && let Some(replicas) = body.int(&["spec", "replicas"])
    {
        body.put(&["spec", "replicas"], replicas + 3);
    }
}

fn changes_owners(action: &Action) -> bool {
    let Action::Patch { patch: Patch::Merge(body), .. } = action else { return false };
    body.at(&["metadata", "ownerReferences"]).is_some()
}

fn force(action: &mut Action) {
    if let Action::Delete { resource, grace_seconds, .. } = action
        && resource.plural == "pods"
    {
        *grace_seconds = Some(0);
    }
}

fn meddle(action: &mut Action) {
    let object: &mut Value = match action {
        Action::Update { object, subresource: "status", .. } => object,
        Action::Patch { patch: Patch::Merge(body), subresource: "status", .. } => body,
        _ => return,
    };
    object.put(&["metadata", "annotations", "sim.setpoint.dev/meddled"], "yes");
}
