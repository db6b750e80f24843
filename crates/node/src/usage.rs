//! What the node and its containers use: counters of control groups and of the machine, looked at twice.
//!
//! Nobody asking costs nothing. The first question waits for a second look; later ones are measured from the last.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use apiserver::{NodeError, NodeUsage, Used};
use clock::Clock;
use contract::{ContainerFilter, ContainerRuntime, ContainerState};
use meta::Time;
use tokio::sync::Mutex;

/// Looks closer to each other measure noise: who asks again sooner gets the same answer.
const APART_MIN: Duration = Duration::from_secs(1);
/// Looks farther from each other say little of now.
const APART_MAX: Duration = Duration::from_secs(60);
/// The kernel counts the machine's time in hundredths of a second.
const TICK_NANOS: u64 = 10_000_000;

/// Counters at one moment.
#[derive(Clone, Default)]
struct Look {
    at: Time,
    node: Counters,
    containers: Vec<Container>,
}

#[derive(Clone, Copy, Default)]
struct Counters {
    cpu_nanos: u64,
    memory_bytes: u64,
}

#[derive(Clone)]
struct Container {
    id: String,
    pod: String,
    name: String,
    started: Time,
    counters: Counters,
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
        let mut last = self.last.lock().await;
        let age = last.as_ref().map(|(look, _)| self.clock.now().since(look.at));
        if let (Some((_, usage)), Some(age)) = (&*last, age)
            && age < APART_MIN
        {
            return Ok(usage.clone());
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
        *last = Some((look, usage.clone()));
        Ok(usage)
    }

    async fn look(&self) -> Result<Look, NodeError> {
        let failed = |error: contract::Error| NodeError::Internal(error.to_string());
        let sandboxes = self.runtime.list_sandboxes().await.map_err(failed)?;
        let pods: BTreeMap<String, String> = sandboxes.into_iter().map(|one| (one.id, one.spec.meta.uid)).collect();
        let filter = ContainerFilter { sandbox: None, state: Some(ContainerState::Running) };
        let mut containers = Vec::new();
        for status in self.runtime.list_containers(&filter).await.map_err(failed)? {
            // One that has just ended uses nothing.
            let Ok(stats) = self.runtime.stats(&status.id).await else { continue };
            let Some(pod) = pods.get(&status.sandbox) else { continue };
            let counters = Counters { cpu_nanos: stats.cpu.usage_ns, memory_bytes: stats.memory.working_set_bytes };
            containers.push(Container {
                id: status.id,
                pod: pod.clone(),
                name: status.spec.name,
                started: status.started_at.unwrap_or(status.created_at),
                counters,
            });
        }
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let node =
            Counters { cpu_nanos: busy_nanos(&read("/proc/stat")), memory_bytes: working_set(&read("/proc/meminfo")) };
        Ok(Look { at: self.clock.now(), node, containers })
    }
}

fn between(before: &Look, now: &Look) -> NodeUsage {
    let window = now.at.since(before.at);
    let mut pods: BTreeMap<String, BTreeMap<String, Used>> = BTreeMap::new();
    for container in &now.containers {
        let old = before.containers.iter().find(|old| old.id == container.id);
        // One that is new is measured over its life.
        let (base, span) = match old {
            Some(old) => (old.counters.cpu_nanos, window),
            None => (0, now.at.since(container.started)),
        };
        let used = used(base, &container.counters, span);
        pods.entry(container.pod.clone()).or_default().insert(container.name.clone(), used);
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

    #[test]
    fn rates_are_between_two_looks() {
        let at = |seconds: i64| Time::from_micros(seconds * 1_000_000);
        let container = |id: &str, cpu_nanos: u64| Container {
            id: id.to_owned(),
            pod: "p".to_owned(),
            name: format!("c-{id}"),
            started: at(105),
            counters: Counters { cpu_nanos, memory_bytes: 7 },
        };
        let before = Look { at: at(100), containers: vec![container("old", 1_000_000_000)], ..Look::default() };
        let now = Look {
            at: at(110),
            node: Counters { cpu_nanos: 20_000_000_000, memory_bytes: 9 },
            containers: vec![container("old", 2_000_000_000), container("new", 1_000_000_000)],
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
        assert_eq!(working_set("MemTotal: 100 kB\nMemFree: 30 kB\nInactive(file): 20 kB\n"), 50 * 1024);
    }
}
