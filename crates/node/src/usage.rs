//! What the node and its containers use: counters of control groups and of the machine, looked at twice.
//!
//! Nobody asking costs nothing. The first question waits for a second look; later ones are measured from the last.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use apiserver::{NodeError, NodeUsage, Used};
use clock::Clock;
use contract::{ContainerFilter, ContainerRuntime, ContainerState, PodMeta, Stats};
use contract::{SandboxState, SandboxStatus};
use meta::Time;
use tokio::sync::Mutex;

use crate::traffic::{Links, Traffic};

/// Looks closer to each other measure noise: who asks again sooner gets the same answer.
const APART_MIN: Duration = Duration::from_secs(1);
/// Looks farther from each other say little of now.
const APART_MAX: Duration = Duration::from_secs(60);
/// The kernel counts the machine's time in hundredths of a second.
const TICK_NANOS: u64 = 10_000_000;

/// Counters at one moment.
#[derive(Clone, Default)]
pub(crate) struct Look {
    pub at: Time,
    /// When the machine started.
    pub booted: Time,
    pub node: Counters,
    pub containers: Vec<Container>,
    /// The machine's interfaces.
    pub links: Links,
    /// What pods on the pod network have sent and received, by uid.
    pub traffic: BTreeMap<String, Traffic>,
}

#[derive(Clone, Copy, Default)]
pub(crate) struct Counters {
    pub cpu_nanos: u64,
    pub memory_bytes: u64,
}

#[derive(Clone)]
pub(crate) struct Container {
    pub id: String,
    pub pod: PodMeta,
    pub name: String,
    pub started: Time,
    pub stats: Stats,
}

impl Container {
    fn counters(&self) -> Counters {
        Counters { cpu_nanos: self.stats.cpu.usage_ns, memory_bytes: self.stats.memory.working_set_bytes }
    }
}

/// Measures one node.
pub(crate) struct Meter {
    runtime: Arc<dyn ContainerRuntime>,
    clock: Arc<dyn Clock>,
    last: Mutex<Option<(Look, NodeUsage)>>,
}

impl Meter {
    pub fn new(runtime: Arc<dyn ContainerRuntime>, clock: Arc<dyn Clock>) -> Meter {
        Meter { runtime, clock, last: Mutex::default() }
    }

    /// What is used now. Those who ask at the same time wait for one answer.
    pub async fn measure(&self) -> Result<NodeUsage, NodeError> {
        self.look_and_measure().await.map(|(_, usage)| usage)
    }

    /// The same with the counters.
    pub async fn look_and_measure(&self) -> Result<(Look, NodeUsage), NodeError> {
        let mut last = self.last.lock().await;
        let age = last.as_ref().map(|(look, _)| self.clock.now().since(look.at));
        if let (Some(known), Some(age)) = (&*last, age)
            && age < APART_MIN
        {
            return Ok(known.clone());
        }
        let base = match last.take().filter(|_| age.is_some_and(|age| age <= APART_MAX)) {
            Some((look, _)) => look,
            None => {
                let first = self.look().await?;
                tokio::time::sleep(APART_MIN).await;
                first
            }
        };
        let look = self.look().await?;
        let usage = between(&base, &look);
        *last = Some((look.clone(), usage.clone()));
        Ok((look, usage))
    }

    async fn look(&self) -> Result<Look, NodeError> {
        let failed = |error: contract::Error| NodeError::Internal(error.to_string());
        let sandboxes = self.runtime.list_sandboxes().await.map_err(failed)?;
        let links = Links::read();
        let traffic = traffic(&sandboxes, &links);
        let pods: BTreeMap<String, PodMeta> = sandboxes.into_iter().map(|one| (one.id, one.spec.meta)).collect();
        let filter = ContainerFilter { sandbox: None, state: Some(ContainerState::Running) };
        let mut containers = Vec::new();
        for status in self.runtime.list_containers(&filter).await.map_err(failed)? {
            let stats = measured(self.runtime.stats(&status.id).await).map_err(failed)?;
            let (Some(stats), Some(pod)) = (stats, pods.get(&status.sandbox)) else { continue };
            containers.push(Container {
                id: status.id,
                pod: pod.clone(),
                name: status.spec.name,
                started: status.started_at.unwrap_or(status.created_at),
                stats,
            });
        }
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let stat = read("/proc/stat");
        let node = Counters { cpu_nanos: busy_nanos(&stat), memory_bytes: working_set(&read("/proc/meminfo")) };
        Ok(Look { at: self.clock.now(), booted: booted(&stat), node, containers, links, traffic })
    }
}

/// Only where the machine's ends of interfaces bear names of ours: what another network has made of them is not known.
fn traffic(sandboxes: &[SandboxStatus], links: &Links) -> BTreeMap<String, Traffic> {
    let is_up = |sandbox: &&SandboxStatus| sandbox.state == SandboxState::Ready;
    let own = |sandbox: &SandboxStatus| {
        let end = links.get(&contract::host_interface(&sandbox.id))?;
        Some((sandbox.spec.meta.uid.clone(), end.seen_from_other_end()))
    };
    sandboxes.iter().filter(is_up).filter_map(own).collect()
}

/// What was measured: what ends meanwhile uses nothing, or has no numbers. A runtime that is late is late for all: whoever
/// asked on would wait as many times as there are containers.
pub(crate) fn measured(answer: contract::Result<Stats>) -> contract::Result<Option<Stats>> {
    match answer {
        Err(late @ contract::Error::Timeout { .. }) => Err(late),
        other => Ok(other.ok()),
    }
}

fn between(before: &Look, now: &Look) -> NodeUsage {
    let window = now.at.since(before.at);
    let mut pods: BTreeMap<String, BTreeMap<String, Used>> = BTreeMap::new();
    for container in &now.containers {
        let old = before.containers.iter().find(|old| old.id == container.id);
        // One that is new is measured over its life.
        let (base, span) = match old {
            Some(old) => (old.counters().cpu_nanos, window),
            None => (0, now.at.since(container.started)),
        };
        let used = used(base, &container.counters(), span);
        pods.entry(container.pod.uid.clone()).or_default().insert(container.name.clone(), used);
    }
    NodeUsage { at: now.at, window, node: used(before.node.cpu_nanos, &now.node, window), pods }
}

fn used(base: u64, counters: &Counters, span: Duration) -> Used {
    let spent = u128::from(counters.cpu_nanos.saturating_sub(base)) * 1_000_000_000;
    let rate = spent / span.as_nanos().max(1);
    Used { cpu_nanos: u64::try_from(rate).unwrap_or(u64::MAX), memory_bytes: counters.memory_bytes }
}

/// The time that all processors were not idle, from the first line of `/proc/stat`.
fn busy_nanos(stat: &str) -> u64 {
    let mut words = stat.lines().next().unwrap_or("").split_whitespace().skip(1);
    let ticks: Vec<u64> = words.by_ref().take(8).map(|word| word.parse().unwrap_or(0)).collect();
    // The fourth is idle, the fifth waits for disks.
    let busy: u64 = ticks.iter().enumerate().filter(|(at, _)| !matches!(at, 3 | 4)).map(|(_, ticks)| ticks).sum();
    busy.saturating_mul(TICK_NANOS)
}

/// When the machine started, of `/proc/stat`.
fn booted(stat: &str) -> Time {
    let line = stat.lines().find_map(|line| line.strip_prefix("btime "));
    line.and_then(|text| text.trim().parse().ok()).map_or(Time::EPOCH, Time::from_secs)
}

/// Memory in use, less the file cache that was not used lately: what upstream reports of a node.
fn working_set(meminfo: &str) -> u64 {
    let kib = |name: &str| -> u64 {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|rest| rest.split_whitespace().next()).and_then(|number| number.parse().ok()).unwrap_or(0)
    };
    let used = kib("MemTotal").saturating_sub(kib("MemFree")).saturating_sub(kib("Inactive(file)"));
    used.saturating_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::CpuStats;

    #[test]
    fn rates_are_between_two_looks() {
        let at = |seconds: i64| Time::from_micros(seconds * 1_000_000);
        let container = |id: &str, usage_ns: u64| Container {
            id: id.to_owned(),
            pod: PodMeta { uid: "p".to_owned(), ..PodMeta::default() },
            name: format!("c-{id}"),
            started: at(105),
            stats: Stats { cpu: CpuStats { usage_ns, ..CpuStats::default() }, ..Stats::default() },
        };
        let before = Look { at: at(100), containers: vec![container("old", 1_000_000_000)], ..Look::default() };
        let now = Look {
            at: at(110),
            node: Counters { cpu_nanos: 20_000_000_000, memory_bytes: 9 },
            containers: vec![container("old", 2_000_000_000), container("new", 1_000_000_000)],
            ..Look::default()
        };
        let usage = between(&before, &now);
        assert_eq!(usage.window, Duration::from_secs(10));
        assert_eq!(usage.node, Used { cpu_nanos: 2_000_000_000, memory_bytes: 9 });
        let rate = |name: &str| usage.pods["p"][name].cpu_nanos;
        assert_eq!((rate("c-old"), rate("c-new")), (100_000_000, 200_000_000));
    }

    #[test]
    fn the_machines_counters_are_read() {
        assert_eq!(busy_nanos("cpu  1 2 3 100 50 4 5 6 0 0\ncpu0 ..."), 21 * TICK_NANOS);
        assert_eq!(busy_nanos(""), 0);
        assert_eq!(booted("cpu 1 2\nbtime 1700000000\nprocesses 3\n"), Time::from_secs(1_700_000_000));
        assert_eq!(booted(""), Time::EPOCH);
        assert_eq!(working_set("MemTotal: 100 kB\nMemFree: 30 kB\nInactive(file): 20 kB\n"), 50 * 1024);
    }
}
