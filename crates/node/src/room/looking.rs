//! What the runtime shows: when it is looked at, and what there is to decide by while it does not answer.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use agent::pod::{Memory, Pod, Sight};
use agent::static_pod;
use meta::{ObjectExt, Time};
use serde_json::json;
use store::Revision;

use super::{News, Room, Tenant};
use crate::orphans::Orphans;
use crate::{log, seen};

/// How long a runtime that does not answer is left alone.
const RETRY_RUNTIME: Duration = Duration::from_secs(1);
/// How long a look at the runtime is waited for before what it showed last has to do: a list of a full node's pods
/// takes a small part of that, and a probe's result is not much later than its period.
const LOOK_PATIENCE: Duration = Duration::from_secs(2);
/// How long one look may take altogether. What it has found out meanwhile is kept, so that the next one takes less.
const LOOK_TIMEOUT: Duration = Duration::from_secs(60);

/// Sandboxes and containers as the runtime lists them.
pub(crate) type Listed = contract::Result<(Vec<contract::SandboxStatus>, Vec<contract::ContainerStatus>)>;

impl Room {
    /// Begins to find out what the runtime shows, if it may have changed.
    pub(super) fn look_at_runtime(&mut self) {
        let now = self.config.clock.now();
        if self.looking_since.is_some() || !self.is_stale || self.retry_runtime.is_some_and(|at| at > now) {
            return;
        }
        // What changes from now on makes it stale again.
        (self.is_stale, self.looking_since) = (false, Some(now));
        let (runtime, news) = (Arc::clone(&self.config.runtime), self.news.clone());
        tokio::spawn(async move {
            let looking = tokio::spawn(async move { look(&*runtime).await });
            let broken = |_| Err(contract::Error::WrongState("the look at the container runtime panicked".to_owned()));
            // The receiver is gone only when the node is.
            let _ = news.send(News::Looked(looking.await.unwrap_or_else(broken)));
        });
    }

    /// Decides by what the runtime showed, and only then hears of what ended since.
    pub(super) fn end_look(&mut self, listed: Listed) {
        self.looking_since = None;
        match listed {
            Ok((sandboxes, containers)) => {
                self.retry_runtime = None;
                self.end_silence();
                self.take_look(&sandboxes, &containers);
                self.decide();
            }
            Err(error) => {
                tracing::warn!(%error, "the container runtime does not answer");
                (self.is_stale, self.is_silent) = (true, true);
                self.retry_runtime = Some(self.config.clock.now().after(RETRY_RUNTIME));
            }
        }
        for done in std::mem::take(&mut self.unseen) {
            self.end(&done.uid, &done.step, done.ended);
        }
    }

    /// A look that takes long is gone without.
    pub(super) fn notice_silence(&mut self) {
        let now = self.config.clock.now();
        let is_late = self.looking_since.is_some_and(|since| since.after(LOOK_PATIENCE) <= now);
        if is_late && !std::mem::replace(&mut self.is_silent, true) {
            tracing::warn!("the container runtime is slow to answer: what does not need it goes on");
        }
    }

    /// Everybody may have waited for the runtime.
    fn end_silence(&mut self) {
        self.is_known = true;
        if std::mem::take(&mut self.is_silent) {
            tracing::info!("the container runtime answers again");
            self.awake.extend(self.tenants.keys().cloned());
        }
    }

    /// What the runtime showed last, as it shows it now.
    fn take_look(&mut self, sandboxes: &[contract::SandboxStatus], containers: &[contract::ContainerStatus]) {
        self.gather_messages(sandboxes, containers);
        let shown = seen::by_pod(sandboxes, containers, &self.beside);
        for uid in shown.keys().chain(self.shown.keys()) {
            if shown.get(uid) != self.shown.get(uid) {
                self.awake.insert(uid.clone());
            }
        }
        for sandbox in sandboxes {
            self.adopt(sandbox);
        }
        self.shown = shown;
        self.tenants.values_mut().for_each(|tenant| tenant.is_clouded = false);
        self.sweep_orphans();
    }

    /// Once, when it is known for the first time which pods there are, those of manifests included.
    fn sweep_orphans(&mut self) {
        if !self.knows_manifests || std::mem::replace(&mut self.is_swept, true) {
            return;
        }
        // Found here and not beside: no pod comes meanwhile.
        let dirs = self.hands.dirs.clone();
        let orphans = Orphans::find(&dirs, &self.config.logs, |uid| self.tenants.contains_key(uid));
        tokio::task::spawn_blocking(move || orphans.remove(&dirs));
    }

    /// A sandbox of a pod that the API does not have: what is left of the pod is taken down.
    fn adopt(&mut self, sandbox: &contract::SandboxStatus) {
        let meta = &sandbox.spec.meta;
        let is_static = sandbox.spec.annotations.contains_key(static_pod::SOURCE);
        // That no manifest describes it cannot be known before they are read.
        if self.tenants.contains_key(&meta.uid) || (is_static && !self.knows_manifests) {
            return;
        }
        let object = json!({
            "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid}, "spec": {"containers": []},
        });
        let tenant = Tenant {
            key: brain::key("core/pods", &meta.namespace, &meta.name),
            object: Arc::new(object),
            revision: Revision(0),
            is_gone: true,
            is_static: false,
            memory: Memory::default(),
            wake: None,
            refreshed: self.config.clock.now(),
            is_refreshing: false,
            is_clouded: false,
        };
        self.tenants.insert(meta.uid.clone(), tenant);
        self.awake.insert(meta.uid.clone());
    }

    /// The last words of containers that have ended since the last look.
    fn gather_messages(&mut self, sandboxes: &[contract::SandboxStatus], containers: &[contract::ContainerStatus]) {
        let known: BTreeSet<&str> = containers.iter().map(|container| container.id.as_str()).collect();
        self.beside.messages.retain(|id, _| known.contains(id.as_str()));
        let is_sandbox = |id: &String| sandboxes.iter().any(|sandbox| sandbox.id == *id);
        self.beside.resized.retain(|id, _| known.contains(id.as_str()) || is_sandbox(id));
        for container in containers {
            let Some(exit) = container.exit.as_ref().filter(|_| !self.beside.messages.contains_key(&container.id))
            else {
                continue;
            };
            let Some(sandbox) = sandboxes.iter().find(|sandbox| sandbox.id == container.sandbox) else { continue };
            let uid = &sandbox.spec.meta.uid;
            let file = self.hands.dirs.message(uid, &container.spec.name, container.spec.attempt);
            let policy = self.tenants.get(uid).and_then(|tenant| {
                let spec = Pod::new(&tenant.object).container(&container.spec.name)?.spec;
                Some(spec.text(&["terminationMessagePolicy"]).to_owned())
            });
            let said = log::last_words(&file, &container.log_path, &policy.unwrap_or_default(), exit.exit_code);
            self.beside.messages.insert(container.id.clone(), said);
        }
    }

    /// Whether what the runtime showed last is what there is.
    fn has_seen(&self) -> bool {
        !self.is_stale && self.looking_since.is_none()
    }

    /// Whether there is something to decide by: what runs, or, as long as the runtime is silent, what ran when it last
    /// spoke.
    pub(super) fn can_decide(&self) -> bool {
        self.has_seen() || (self.is_silent && self.is_known)
    }

    /// How far what was shown of a pod can be relied on.
    pub(super) fn sight(&self, tenant: &Tenant) -> Sight {
        match (self.is_silent, tenant.is_clouded) {
            (false, _) => Sight::Clear,
            (true, false) => Sight::Old,
            (true, true) => Sight::Clouded,
        }
    }

    /// When there is to be another look, or a look is to be gone without.
    pub(super) fn look_again_at(&self) -> Option<Time> {
        match self.looking_since {
            Some(since) => (!self.is_silent).then(|| since.after(LOOK_PATIENCE)),
            None => self.retry_runtime.filter(|_| self.is_stale),
        }
    }
}

async fn look(runtime: &dyn contract::ContainerRuntime) -> Listed {
    let list = async {
        let sandboxes = runtime.list_sandboxes().await?;
        Ok((sandboxes, runtime.list_containers(&Default::default()).await?))
    };
    let limit_ms = u64::try_from(LOOK_TIMEOUT.as_millis()).unwrap_or(u64::MAX);
    let late = |_| Err(contract::Error::Timeout { what: "the look at what runs".to_owned(), limit_ms });
    tokio::time::timeout(LOOK_TIMEOUT, list).await.unwrap_or_else(late)
}
