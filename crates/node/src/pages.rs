//! The pages that a node shows of itself, as the kubelet's: `/stats/summary` for programs that want everything at once,
//! `/metrics/resource` for Prometheus, `/pods`. Pure: what was measured is an argument.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use agent::pressure::{Observations, Signal, Used};
use apiserver::NodeUsage;
use brain::facts;
use contract::{MemoryStats, Stats};
use serde_json::{Value, json};
use view::View;

use crate::disks::{ByPod, PodDisk, Volume};
use crate::traffic::Traffic;
use crate::upkeep::sample::FileSystem;
use crate::usage::{Container, Look};

/// The interface of a pod on the pod network, as the pod sees it.
const POD_INTERFACE: &str = "eth0";

/// What is shown.
pub(crate) struct Measured<'m> {
    /// The Node's name.
    pub node: &'m str,
    /// Counters.
    pub look: &'m Look,
    /// How fast they grow.
    pub usage: &'m NodeUsage,
    /// Disks and process numbers.
    pub found: &'m Observations,
    /// What pods have written.
    pub disks: &'m ByPod,
}

/// A pod of a runtime: namespace, name and uid.
pub(crate) type PodRef<'p> = (&'p str, &'p str, &'p str);

/// The pods that something runs of.
pub(crate) fn pods_of(look: &Look) -> BTreeSet<PodRef<'_>> {
    by_pod(look).into_keys().collect()
}

fn by_pod(look: &Look) -> BTreeMap<PodRef<'_>, Vec<&Container>> {
    let mut pods: BTreeMap<PodRef<'_>, Vec<&Container>> = BTreeMap::new();
    for container in &look.containers {
        let meta = &container.pod;
        pods.entry((&meta.namespace, &meta.name, &meta.uid)).or_default().push(container);
    }
    pods
}

/// What containers use together.
fn sum(containers: &[&Container]) -> Stats {
    let mut sum = Stats::default();
    for stats in containers.iter().map(|container| &container.stats) {
        let (total, own) = (&mut sum.memory, &stats.memory);
        sum.cpu.usage_ns = sum.cpu.usage_ns.saturating_add(stats.cpu.usage_ns);
        sum.pids = sum.pids.saturating_add(stats.pids);
        total.usage_bytes = total.usage_bytes.saturating_add(own.usage_bytes);
        total.working_set_bytes = total.working_set_bytes.saturating_add(own.working_set_bytes);
        total.rss_bytes = total.rss_bytes.saturating_add(own.rss_bytes);
        total.page_faults = total.page_faults.saturating_add(own.page_faults);
        total.major_page_faults = total.major_page_faults.saturating_add(own.major_page_faults);
    }
    sum
}

/// `/stats/summary` (`stats/v1alpha1`).
pub(crate) fn summary(measured: &Measured<'_>) -> Value {
    let Measured { node, look, usage, found, disks } = measured;
    let room = file_system(found, Signal::NodeFsAvailable, Signal::NodeFsInodesFree);
    let at = look.at.to_rfc3339();
    let pods: Vec<Value> = by_pod(look)
        .into_iter()
        .map(|((namespace, name, uid), containers)| {
            let rates = usage.pods.get(uid);
            let rate = |container: &str| rates.and_then(|rates| rates.get(container)).map_or(0, |used| used.cpu_nanos);
            let rate_of_all = rates.into_iter().flatten().map(|(_, used)| used.cpu_nanos).sum();
            let shown = containers.iter().map(|container| {
                let mut shown = counters(&container.stats, rate(&container.name), &at);
                shown["name"] = container.name.as_str().into();
                shown["startTime"] = container.started.to_rfc3339().into();
                shown
            });
            let shown: Vec<Value> = shown.collect();
            let all = sum(&containers);
            let mut pod = counters(&all, rate_of_all, &at);
            pod["podRef"] = json!({"name": name, "namespace": namespace, "uid": uid});
            pod["startTime"] = containers.iter().map(|one| one.started).min().unwrap_or_default().to_rfc3339().into();
            pod["containers"] = shown.into();
            pod["process_stats"] = json!({"process_count": all.pids});
            if let Some(traffic) = look.traffic.get(uid) {
                pod["network"] = network(Some(POD_INTERFACE), &[(POD_INTERFACE, *traffic)], &at);
            }
            if let Some(disk) = disks.get(uid) {
                add_disk(&mut pod, disk, room.as_ref(), namespace, &at);
            }
            pod
        })
        .collect();
    let memory = found.get(&Signal::MemoryAvailable).map_or(0, |amount| amount.available);
    let mut shown = json!({
        "nodeName": node, "startTime": look.booted.to_rfc3339(),
        "cpu": {"time": at, "usageNanoCores": usage.node.cpu_nanos, "usageCoreNanoSeconds": look.node.cpu_nanos},
        "memory": {"time": at, "availableBytes": memory, "workingSetBytes": look.node.memory_bytes},
    });
    let own: Vec<(&str, Traffic)> = look.links.own().collect();
    shown["network"] = network(look.links.default(), &own, &at);
    if let Some(room) = &room {
        shown["fs"] = disk(room, None, &at);
        // What containers write lies there too.
        shown["runtime"]["containerFs"] = shown["fs"].clone();
    }
    if let Some(images) = file_system(found, Signal::ImageFsAvailable, Signal::ImageFsInodesFree) {
        shown["runtime"]["imageFs"] = disk(&images, None, &at);
    }
    if let Some(pids) = found.get(&Signal::PidAvailable) {
        shown["rlimit"] = json!({"time": at, "maxpid": pids.capacity, "curproc": pids.capacity - pids.available});
    }
    json!({"node": shown, "pods": pods})
}

fn counters(stats: &Stats, rate: u64, at: &str) -> Value {
    let MemoryStats { usage_bytes, working_set_bytes, rss_bytes, limit_bytes, page_faults, major_page_faults } =
        &stats.memory;
    let mut memory = json!({
        "time": at, "usageBytes": usage_bytes, "workingSetBytes": working_set_bytes, "rssBytes": rss_bytes,
        "pageFaults": page_faults, "majorPageFaults": major_page_faults,
    });
    // Without a limit nothing is said of what is left.
    if *limit_bytes > 0 {
        memory["availableBytes"] = limit_bytes.saturating_sub(*working_set_bytes).into();
    }
    let cpu = json!({"time": at, "usageNanoCores": rate, "usageCoreNanoSeconds": stats.cpu.usage_ns});
    json!({"cpu": cpu, "memory": memory})
}

/// Counters of interfaces, those of the one that leads everywhere in front.
fn network(default: Option<&str>, interfaces: &[(&str, Traffic)], at: &str) -> Value {
    let one = |(name, traffic): &(&str, Traffic)| {
        json!({
            "name": name, "rxBytes": traffic.rx_bytes, "rxErrors": traffic.rx_errors,
            "txBytes": traffic.tx_bytes, "txErrors": traffic.tx_errors,
        })
    };
    let first = interfaces.iter().find(|(name, _)| Some(*name) == default);
    let mut shown = first.map_or_else(|| json!({"name": ""}), one);
    shown["time"] = at.into();
    shown["interfaces"] = interfaces.iter().map(one).collect();
    shown
}

fn file_system(found: &Observations, bytes: Signal, inodes: Signal) -> Option<FileSystem> {
    Some(FileSystem { bytes: *found.get(&bytes)?, inodes: found.get(&inodes).copied() })
}

/// A file system; `used` of it, or all that is taken.
fn disk(room: &FileSystem, used: Option<Used>, at: &str) -> Value {
    let bytes = &room.bytes;
    let mut disk = json!({
        "time": at, "availableBytes": bytes.available, "capacityBytes": bytes.capacity,
        "usedBytes": used.map_or(bytes.capacity - bytes.available, |used| used.bytes),
    });
    if let Some(inodes) = &room.inodes {
        disk["inodesFree"] = inodes.available.into();
        disk["inodes"] = inodes.capacity.into();
    }
    let taken = room.inodes.map(|inodes| inodes.capacity - inodes.available);
    if let Some(inodes) = used.map(|used| used.inodes).or(taken) {
        disk["inodesUsed"] = inodes.into();
    }
    disk
}

/// What a pod and its containers have written, and its volumes.
fn add_disk(pod: &mut Value, taken: &PodDisk, room: Option<&FileSystem>, namespace: &str, at: &str) {
    if let Some(room) = room {
        pod["ephemeral-storage"] = disk(room, Some(taken.usage.disk()), at);
        for shown in pod["containers"].as_array_mut().into_iter().flatten() {
            let own = taken.usage.containers.iter().find(|own| shown["name"] == own.name.as_str());
            if let Some(own) = own {
                shown["rootfs"] = disk(room, Some(own.root), at);
                shown["logs"] = disk(room, Some(own.logs), at);
            }
        }
    }
    let volume = |volume: &Volume| {
        let mut shown = disk(&volume.room, volume.used, at);
        shown["name"] = volume.name.as_str().into();
        if let Some(claim) = &volume.claim {
            shown["pvcRef"] = json!({"name": claim, "namespace": namespace});
        }
        shown
    };
    if !taken.volumes.is_empty() {
        pod["volume"] = taken.volumes.iter().map(volume).collect();
    }
}

/// `/metrics/resource`: the families that the kubelet shows there. Names of pods and containers need no escapes.
pub(crate) fn resources(look: &Look) -> String {
    let (millis, pods) = (look.at.as_micros() / 1_000, by_pod(look));
    let of_container = |container: &Container| {
        let (name, meta) = (&container.name, &container.pod);
        format!("{{container=\"{name}\",namespace=\"{}\",pod=\"{}\"}}", meta.namespace, meta.name)
    };
    let containers = |value: &dyn Fn(&Container) -> f64| -> Vec<Sample> {
        look.containers.iter().map(|container| (of_container(container), value(container), Some(millis))).collect()
    };
    let of_pods = |value: &dyn Fn(&Stats) -> f64| -> Vec<Sample> {
        let labels = |(namespace, name, _): &PodRef<'_>| format!("{{namespace=\"{namespace}\",pod=\"{name}\"}}");
        pods.iter().map(|(pod, containers)| (labels(pod), value(&sum(containers)), Some(millis))).collect()
    };
    let node = |value: f64| vec![(String::new(), value, Some(millis))];
    let (cpu, memory) =
        (|stats: &Stats| seconds(stats.cpu.usage_ns), |stats: &Stats| stats.memory.working_set_bytes as f64);
    let families: [(&str, &str, &str, Vec<Sample>); 8] = [
        (
            "container_cpu_usage_seconds_total",
            "counter",
            "Cumulative cpu time consumed by the container in core-seconds",
            containers(&|one| cpu(&one.stats)),
        ),
        (
            "container_memory_working_set_bytes",
            "gauge",
            "Current working set of the container in bytes",
            containers(&|one| memory(&one.stats)),
        ),
        (
            "container_start_time_seconds",
            "gauge",
            "Start time of the container since unix epoch in seconds",
            containers(&|one| one.started.as_micros() as f64 / 1e6),
        ),
        (
            "node_cpu_usage_seconds_total",
            "counter",
            "Cumulative cpu time consumed by the node in core-seconds",
            node(seconds(look.node.cpu_nanos)),
        ),
        (
            "node_memory_working_set_bytes",
            "gauge",
            "Current working set of the node in bytes",
            node(look.node.memory_bytes as f64),
        ),
        (
            "pod_cpu_usage_seconds_total",
            "counter",
            "Cumulative cpu time consumed by the pod in core-seconds",
            of_pods(&cpu),
        ),
        ("pod_memory_working_set_bytes", "gauge", "Current working set of the pod in bytes", of_pods(&memory)),
        (
            "resource_scrape_error",
            "gauge",
            "1 if there was an error while getting container metrics, 0 otherwise",
            vec![(String::new(), 0.0, None)],
        ),
    ];
    let mut text = String::new();
    for (name, type_, help, samples) in families {
        family(&mut text, (name, type_, help), &samples);
    }
    text
}

/// Labels, value, and when it was so, in milliseconds.
type Sample = (String, f64, Option<i64>);

fn family(text: &mut String, (name, type_, help): (&str, &str, &str), samples: &[Sample]) {
    if samples.is_empty() {
        return;
    }
    // Writing to a string does not fail.
    let _ = writeln!(text, "# HELP {name} [STABLE] {help}\n# TYPE {name} {type_}");
    for (labels, value, millis) in samples {
        let at = millis.map_or_else(String::new, |millis| format!(" {millis}"));
        let _ = writeln!(text, "{name}{labels} {value}{at}");
    }
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

/// `/pods`: those that the API has on the node, as it sees them.
pub(crate) fn pods(view: &View, node: &str) -> Value {
    let all = view.list("core/pods", "");
    let own = all.iter().filter(|object| &*facts::Pod::of(object).spec.node_name == node);
    let items: Vec<Value> = own.map(|object| object.tree()).collect();
    json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items})
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use agent::pressure::{Amount, ContainerUsage, PodUsage};
    use apiserver::Used as Cpu;
    use contract::{CpuStats, PodMeta};
    use meta::Time;

    use super::*;
    use crate::usage::Counters;

    fn look() -> Look {
        let meta = PodMeta { name: "p".into(), namespace: "a".into(), uid: "u".into(), attempt: 0 };
        let container = |name: &str, usage_ns: u64| Container {
            id: name.to_owned(),
            pod: meta.clone(),
            name: name.to_owned(),
            started: Time::from_secs(50),
            stats: Stats {
                cpu: CpuStats { usage_ns, ..CpuStats::default() },
                memory: MemoryStats { working_set_bytes: 7, limit_bytes: 10, ..MemoryStats::default() },
                pids: 2,
            },
        };
        Look {
            at: Time::from_secs(100),
            booted: Time::from_secs(1),
            node: Counters { cpu_nanos: 3_000_000_000, memory_bytes: 9 },
            containers: vec![container("c", 1_500_000_000), container("d", 500_000_000)],
            traffic: BTreeMap::from([("u".to_owned(), Traffic { rx_bytes: 5, tx_bytes: 6, ..Traffic::default() })]),
            ..Look::default()
        }
    }

    #[test]
    fn a_summary_tells_of_node_pods_and_containers() {
        let used = |cpu_nanos| Cpu { cpu_nanos, memory_bytes: 7 };
        let rates = BTreeMap::from([("c".to_owned(), used(4)), ("d".to_owned(), used(5))]);
        let usage = NodeUsage {
            at: Time::from_secs(100),
            window: Duration::from_secs(1),
            node: used(11),
            pods: BTreeMap::from([("u".to_owned(), rates)]),
        };
        let amount = |available, capacity| Amount { available, capacity };
        let found =
            Observations::from([(Signal::NodeFsAvailable, amount(40, 100)), (Signal::PidAvailable, amount(90, 100))]);
        let written = |bytes| Used { bytes, inodes: 2 };
        let own = ContainerUsage { name: "c".into(), root: written(3), logs: written(4), ..ContainerUsage::default() };
        let room = FileSystem { bytes: amount(30, 50), inodes: Some(amount(7, 9)) };
        let volume = |name: &str, claim: Option<&str>, used| Volume {
            name: name.to_owned(),
            claim: claim.map(str::to_owned),
            used,
            room,
        };
        let disk = PodDisk {
            usage: PodUsage {
                containers: vec![own],
                volumes: BTreeMap::from([("v".to_owned(), written(8))]),
                ..PodUsage::default()
            },
            volumes: vec![volume("v", None, Some(written(8))), volume("w", Some("claim"), None)],
        };
        let disks = ByPod::from([("u".to_owned(), disk)]);
        let shown = summary(&Measured { node: "n", look: &look(), usage: &usage, found: &found, disks: &disks });
        let check = |path: &str, expected: Value| assert_eq!(shown.pointer(path), Some(&expected), "{path}");
        check("/node/nodeName", json!("n"));
        check("/node/startTime", json!("1970-01-01T00:00:01Z"));
        check("/node/cpu/usageNanoCores", json!(11));
        check("/node/memory/workingSetBytes", json!(9));
        check("/node/fs/usedBytes", json!(60));
        check("/node/rlimit/curproc", json!(10));
        check("/node/runtime/containerFs/usedBytes", json!(60));
        assert_eq!(shown.pointer("/node/runtime/imageFs"), None, "what is not known is not said");
        check("/node/network/interfaces", json!([]));
        let carried = json!({"name": "eth0", "rxBytes": 5, "rxErrors": 0, "txBytes": 6, "txErrors": 0});
        check("/pods/0/network/interfaces", json!([carried]));
        check("/pods/0/network/txBytes", json!(6));
        check("/pods/0/ephemeral-storage/usedBytes", json!(15));
        check("/pods/0/ephemeral-storage/capacityBytes", json!(100));
        check("/pods/0/containers/0/rootfs/usedBytes", json!(3));
        check("/pods/0/containers/0/logs/inodesUsed", json!(2));
        assert_eq!(shown.pointer("/pods/0/containers/1/rootfs"), None);
        let of_v = json!({"time": "1970-01-01T00:01:40Z", "name": "v", "availableBytes": 30, "capacityBytes": 50,
            "usedBytes": 8, "inodes": 9, "inodesFree": 7, "inodesUsed": 2});
        check("/pods/0/volume/0", of_v);
        check("/pods/0/volume/1/usedBytes", json!(20));
        check("/pods/0/volume/1/inodesUsed", json!(2));
        check("/pods/0/volume/1/pvcRef", json!({"name": "claim", "namespace": "a"}));
        check("/pods/0/podRef", json!({"name": "p", "namespace": "a", "uid": "u"}));
        check("/pods/0/cpu/usageNanoCores", json!(9));
        check("/pods/0/cpu/usageCoreNanoSeconds", json!(2_000_000_000_u64));
        check("/pods/0/process_stats/process_count", json!(4));
        check("/pods/0/containers/1/name", json!("d"));
        check("/pods/0/containers/1/memory/availableBytes", json!(3));
    }

    #[test]
    fn metrics_are_lines() {
        let text = resources(&look());
        for line in [
            "# TYPE container_cpu_usage_seconds_total counter",
            "container_cpu_usage_seconds_total{container=\"c\",namespace=\"a\",pod=\"p\"} 1.5 100000",
            "container_start_time_seconds{container=\"d\",namespace=\"a\",pod=\"p\"} 50 100000",
            "node_cpu_usage_seconds_total 3 100000",
            "pod_cpu_usage_seconds_total{namespace=\"a\",pod=\"p\"} 2 100000",
            "pod_memory_working_set_bytes{namespace=\"a\",pod=\"p\"} 14 100000",
            "resource_scrape_error 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
        let nobody = resources(&Look { containers: Vec::new(), ..look() });
        assert!(!nobody.contains("container_"), "{nobody}");
    }
}
