//! What pods take of disks, for those who ask. That means a walk through all that they have written: an answer holds
//! for a while.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agent::pressure::{PodUsage, Used};
use clock::Clock;
use contract::ContainerRuntime;
use meta::{ObjectExt, Time};
use serde_json::Value;
use tokio::sync::Mutex;

use crate::api::Api;
use crate::dirs::Dirs;
use crate::upkeep::sample::{self, FileSystem};
use crate::upkeep::{Wanted, of_pods};
use crate::{NodeConfig, volume};

/// How long an answer holds: the kubelet's period.
const HOLDS: Duration = Duration::from_secs(60);
/// How long it holds in any case, though there are pods that it says nothing of.
const HOLDS_AT_LEAST: Duration = Duration::from_secs(5);
/// How long whoever asks waits for the walk: half of what a page may take.
const WALK_TIMEOUT: Duration = Duration::from_secs(15);

/// What one pod takes.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodDisk {
    /// Of the node's own disk.
    pub usage: PodUsage,
    pub volumes: Vec<Volume>,
}

/// One volume.
#[derive(Clone, Debug)]
pub(crate) struct Volume {
    pub name: String,
    /// The claim behind it.
    pub claim: Option<String>,
    /// What is in it; `None` where it is a file system of its own.
    pub used: Option<Used>,
    /// The file system that it lies on.
    pub room: FileSystem,
}

/// By uid.
pub(crate) type ByPod = BTreeMap<String, PodDisk>;

/// Measures the pods of one node.
pub(crate) struct Disks {
    runtime: Arc<dyn ContainerRuntime>,
    clock: Arc<dyn Clock>,
    api: Api,
    dirs: Dirs,
    last: Mutex<Option<(Time, Arc<ByPod>)>>,
}

impl Disks {
    pub fn new(config: &NodeConfig) -> Disks {
        Disks {
            runtime: Arc::clone(&config.runtime),
            clock: Arc::clone(&config.clock),
            api: Api::new(Arc::clone(&config.transport), config.source.clone()),
            dirs: Dirs::new(&config.root),
            last: Mutex::default(),
        }
    }

    /// What `pods` take, whose uids are the runtime's. Those who ask at the same time wait for one answer. What cannot
    /// be found out is not said.
    pub async fn measure(&self, pods: &[Arc<Value>]) -> Arc<ByPod> {
        let mut last = self.last.lock().await;
        if let Some((at, known)) = &*last {
            let age = self.clock.now().since(*at);
            let knows_all = || pods.iter().all(|pod| known.contains_key(pod.uid()));
            if age < HOLDS_AT_LEAST || (age < HOLDS && knows_all()) {
                return Arc::clone(known);
            }
        }
        let Ok(found) = tokio::time::timeout(WALK_TIMEOUT, self.walk(pods)).await else {
            tracing::warn!("what pods take of disks cannot be found out in time");
            return last.as_ref().map(|(_, known)| Arc::clone(known)).unwrap_or_default();
        };
        let found = Arc::new(found);
        *last = Some((self.clock.now(), Arc::clone(&found)));
        found
    }

    async fn walk(&self, pods: &[Arc<Value>]) -> ByPod {
        let wanted = Wanted { memory: false, disk: true };
        let used = match of_pods(&*self.runtime, &self.dirs, pods, wanted).await {
            Ok(used) => used,
            Err(error) => {
                tracing::debug!(%error, "what pods have written cannot be found out");
                return ByPod::new();
            }
        };
        let mut found = ByPod::new();
        for pod in pods {
            let usage = used.get(pod.uid()).cloned().unwrap_or_default();
            let volumes = self.volumes(pod, &usage).await;
            found.insert(pod.uid().to_owned(), PodDisk { usage, volumes });
        }
        found
    }

    async fn volumes(&self, pod: &Value, usage: &PodUsage) -> Vec<Volume> {
        let mut wanted: Vec<(String, Option<String>, Option<Used>, PathBuf)> = Vec::new();
        for volume in pod.items(&["spec", "volumes"]) {
            let name = volume.text(&["name"]);
            let claim = volume::claim_name(pod, volume);
            let used = usage.volumes.get(name).copied();
            // A file system in memory is the volume's own; a path of the machine is nobody's.
            if claim.is_none() && used.is_none() && volume.get("emptyDir").is_none_or(Value::is_null) {
                continue;
            }
            if let Some(path) = volume::place(&self.api, &self.dirs, pod, name).await {
                wanted.push((name.to_owned(), claim, used, path));
            }
        }
        let look = move || {
            let found = wanted.into_iter().filter_map(|(name, claim, used, path)| {
                Some(Volume { name, claim, used, room: sample::file_system(&path)? })
            });
            found.collect()
        };
        tokio::task::spawn_blocking(look).await.unwrap_or_default()
    }
}

/// The pods of the API that the runtime runs, with the uids that they have there: a mirror's is another than that of
/// the pod that it shows.
pub(crate) fn known_pods(all: &[brain::Object], running: &BTreeSet<(&str, &str, &str)>) -> Vec<Arc<Value>> {
    let named = |object: &brain::Object| {
        let meta = object.meta();
        let found = running.iter().find(|(namespace, name, _)| *meta.namespace == **namespace && *meta.name == **name);
        let (.., uid) = found?;
        let is_mirror = || brain::facts::Pod::of(object).annotation(agent::mirror::MIRROR).is_some();
        if *meta.uid != **uid && !is_mirror() {
            return None;
        }
        let mut pod = object.tree();
        pod.put(&["metadata", "uid"], *uid);
        Some(Arc::new(pod))
    };
    all.iter().filter_map(named).collect()
}
