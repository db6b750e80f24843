//! What pods use: their control groups, and what they have written.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use agent::pressure::{ContainerUsage, PodUsage, Used, limits};
use contract::{ContainerRuntime, ContainerState, ContainerStatus, Stats};
use meta::ObjectExt;
use serde_json::Value;

use super::disk;
use crate::dirs::Dirs;
use crate::usage::measured;

/// What is to be found out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// Memory and processes.
    pub memory: bool,
    /// What was written.
    pub disk: bool,
}

/// What each of `pods` uses, by uid. A pod that the runtime does not know uses what its volumes take.
pub(crate) async fn of_pods(
    runtime: &dyn ContainerRuntime,
    dirs: &Dirs,
    pods: &[Arc<Value>],
    wanted: Wanted,
) -> contract::Result<BTreeMap<String, PodUsage>> {
    let mut owners = BTreeMap::new();
    let mut used: BTreeMap<String, PodUsage> =
        pods.iter().map(|pod| (pod.uid().to_owned(), PodUsage::default())).collect();
    for sandbox in runtime.list_sandboxes().await? {
        let Some(pod) = used.get_mut(&sandbox.spec.meta.uid) else { continue };
        // Sandboxes of one pod share its control group.
        if wanted.memory
            && let Some(stats) = measured(runtime.sandbox_stats(&sandbox.id).await)?
        {
            (pod.memory, pod.pids) = (memory(&stats), number(stats.pids));
        }
        owners.insert(sandbox.id, sandbox.spec.meta.uid);
    }
    let mut paths: Vec<Path> = Vec::new();
    for status in runtime.list_containers(&Default::default()).await? {
        let Some(uid) = owners.get(&status.sandbox) else { continue };
        let Some(pod) = used.get_mut(uid) else { continue };
        let container = container(runtime, &status, wanted).await?;
        paths.extend(wanted.disk.then(|| Path::of_container(uid, pod.containers.len(), &status)).into_iter().flatten());
        pod.containers.push(container);
    }
    if wanted.disk {
        paths.extend(pods.iter().flat_map(|pod| Path::of_volumes(dirs, pod)));
        let measured = tokio::task::spawn_blocking(move || {
            paths.into_iter().map(|path| (disk::used(&path.path), path)).collect::<Vec<_>>()
        });
        measured.await.unwrap_or_default().into_iter().for_each(|(taken, path)| path.add(taken, &mut used));
        used.values_mut().for_each(join_lives);
    }
    Ok(used)
}

async fn container(
    runtime: &dyn ContainerRuntime,
    status: &ContainerStatus,
    wanted: Wanted,
) -> contract::Result<ContainerUsage> {
    let mut usage = ContainerUsage { name: status.spec.name.clone(), ..ContainerUsage::default() };
    if wanted.memory
        && status.state == ContainerState::Running
        && let Some(stats) = measured(runtime.stats(&status.id).await)?
    {
        usage.memory = memory(&stats);
    }
    Ok(usage)
}

fn memory(stats: &Stats) -> i64 {
    number(stats.memory.working_set_bytes)
}

fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Earlier lives of a container count with the last.
fn join_lives(pod: &mut PodUsage) {
    let mut joined: Vec<ContainerUsage> = Vec::new();
    for life in std::mem::take(&mut pod.containers) {
        match joined.iter_mut().find(|known| known.name == life.name) {
            Some(known) => {
                known.memory = known.memory.saturating_add(life.memory);
                known.root = known.root.plus(life.root);
                // All lives log into one directory.
                known.logs = Used { bytes: known.logs.bytes.max(life.logs.bytes), ..known.logs };
            }
            None => joined.push(life),
        }
    }
    pod.containers = joined;
}

/// A directory to be measured, and for whom.
struct Path {
    uid: String,
    part: Part,
    path: PathBuf,
}

enum Part {
    Root(usize),
    Logs(usize),
    Volume(String),
}

impl Path {
    fn of_container(uid: &str, at: usize, status: &ContainerStatus) -> Vec<Path> {
        let path = |part: Part, path: PathBuf| Path { uid: uid.to_owned(), part, path };
        let logs = status.log_path.parent().map(|logs| path(Part::Logs(at), logs.to_owned()));
        [path(Part::Root(at), status.writable_layer.clone())].into_iter().chain(logs).collect()
    }

    /// Volumes that lie in the pod's own directory.
    fn of_volumes(dirs: &Dirs, pod: &Value) -> Vec<Path> {
        let made = ["configMap", "secret", "projected", "downwardAPI"];
        let is_own = |volume: &Value| {
            limits::is_on_disk(volume) || made.iter().any(|kind| volume.get(*kind).is_some_and(Value::is_object))
        };
        let own = pod.items(&["spec", "volumes"]).iter().filter(|volume| is_own(volume));
        own.map(|volume| {
            let name = volume.text(&["name"]).to_owned();
            Path { uid: pod.uid().to_owned(), path: dirs.volume(pod.uid(), &name), part: Part::Volume(name) }
        })
        .collect()
    }

    fn add(self, taken: Used, used: &mut BTreeMap<String, PodUsage>) {
        let Some(pod) = used.get_mut(&self.uid) else { return };
        match self.part {
            Part::Root(at) => pod.containers[at].root = taken,
            Part::Logs(at) => pod.containers[at].logs = taken,
            Part::Volume(name) => {
                pod.volumes.insert(name, taken);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lives_count_together_and_their_logs_once() {
        let used = |bytes: i64| Used { bytes, inodes: 1 };
        let life = |name: &str, bytes: i64| ContainerUsage {
            name: name.to_owned(),
            memory: bytes,
            root: used(bytes),
            logs: used(9),
        };
        let mut pod = PodUsage { containers: vec![life("a", 1), life("b", 2), life("a", 4)], ..PodUsage::default() };
        join_lives(&mut pod);
        let found: Vec<(&str, i64, i64, i64)> =
            pod.containers.iter().map(|c| (c.name.as_str(), c.memory, c.root.bytes, c.logs.bytes)).collect();
        assert_eq!(found, [("a", 5, 5, 9), ("b", 2, 2, 9)]);
    }
}
