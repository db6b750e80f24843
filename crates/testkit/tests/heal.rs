//! A node that is broken on purpose heals by itself: as root, with this machine's kernel. Every break has a test, which
//! prints how long healing took; nothing is asserted about that time.

mod machine;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use machine::own::{DEPLOYMENTS, Own, entries, run, signal};
use machine::{leaks, wait_for};
use rustix::process::Signal;
use serde_json::{Value, json};

const REPLICAS: usize = 2;

/// Pods that print a line, have a volume of every kind that the node makes, and run until they are told to end.
fn deployment(name: &str, version: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": REPLICAS, "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}, "annotations": {"version": version}},
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{
                        "name": "c", "image": "setpoint.local/box:v1", "args": ["serve", "8080"],
                        "readinessProbe": {"httpGet": {"port": 8080, "path": "/healthz"}, "periodSeconds": 1},
                        "volumeMounts": [
                            {"name": "scratch", "mountPath": "/scratch"}, {"name": "memory", "mountPath": "/memory"},
                            {"name": "names", "mountPath": "/names"},
                        ],
                    }],
                    "volumes": [
                        {"name": "scratch", "emptyDir": {}}, {"name": "memory", "emptyDir": {"medium": "Memory"}},
                        {"name": "names", "downwardAPI": {"items": [
                            {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
                    ],
                },
            },
        },
    })
}

/// A pod as it was before it was broken.
struct Victim {
    pod: String,
    uid: String,
    container: String,
    sandbox: PathBuf,
    process: u32,
}

impl Victim {
    fn of(own: &Own, pod: &Value) -> Victim {
        let container = container_of(pod);
        let uid = pod["metadata"]["uid"].as_str().expect("a uid").to_owned();
        let (sandbox, process) = find(own, &container).expect("it runs");
        Victim { pod: pod["metadata"]["name"].as_str().expect("a name").to_owned(), uid, container, sandbox, process }
    }

    fn shim(&self) -> u32 {
        std::fs::read_to_string(self.sandbox.join("shim.pid")).expect("a shim").trim().parse().expect("a number")
    }

    /// The host's end of the pod's interface.
    fn interface(&self) -> String {
        let id = self.sandbox.file_name().expect("a name").to_string_lossy().into_owned();
        format!("sp{}", &id[..12])
    }

    /// The control groups of the container, and of the pod, the inner ones first.
    fn groups(&self) -> Vec<PathBuf> {
        let text = std::fs::read_to_string(format!("/proc/{}/cgroup", self.process)).expect("it runs");
        let mut found = Vec::new();
        for line in text.lines() {
            let mut parts = line.splitn(3, ':').skip(1);
            let (Some(names), Some(path)) = (parts.next(), parts.next()) else { continue };
            let roots = names.split(',').map(|name| format!("/sys/fs/cgroup/{}", name.trim_start_matches("name=")));
            for root in roots.chain(["/sys/fs/cgroup".to_owned()]) {
                let dir = PathBuf::from(format!("{root}{path}"));
                if path.contains("/pod") && dir.is_dir() {
                    found.push(dir);
                    break;
                }
            }
        }
        let pods: BTreeSet<PathBuf> = found.iter().filter_map(|dir| dir.parent().map(Path::to_owned)).collect();
        found.into_iter().chain(pods).collect()
    }
}

fn container_of(pod: &Value) -> String {
    let id = pod["status"]["containerStatuses"][0]["containerID"].as_str().unwrap_or_default();
    id.trim_start_matches("setpoint://").to_owned()
}

/// The sandbox and the process of a container that runs.
fn find(own: &Own, container: &str) -> Option<(PathBuf, u32)> {
    let all = own.containers();
    let (dir, pid) = all.into_iter().find(|(dir, _)| dir.file_name().is_some_and(|name| name == container))?;
    Some((dir.parent()?.parent()?.to_owned(), pid))
}

fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with('Z'))
}

/// A Deployment whose pods are ready, and one of them.
fn prepare(own: &Own, name: &str) -> Victim {
    own.apply(DEPLOYMENTS, &deployment(name, "1"));
    let pods = wait_for("the pods", || Some(own.ready(name)).filter(|pods| pods.len() == REPLICAS));
    Victim::of(own, &pods[0])
}

/// Waits until all pods are ready again and none of them is what it was; prints how long that took.
fn healed(own: &Own, name: &str, begun: Instant, is_new: impl Fn(&Value) -> bool) -> Vec<Value> {
    let is_healed = || {
        let pods = own.ready(name);
        let runs = |pod: &Value| find(own, &container_of(pod)).is_some_and(|(_, pid)| is_alive(pid));
        (pods.len() == REPLICAS && pods.iter().all(|pod| is_new(pod) && runs(pod))).then_some(pods)
    };
    let Some(pods) = machine::look_for(machine::PATIENCE, is_healed) else {
        let pods = own.items(machine::own::PODS);
        panic!("{name}: not healed; {}", serde_json::to_string_pretty(&pods).unwrap_or_default());
    };
    println!("healed: {name:28} {:>6} ms", begun.elapsed().as_millis());
    pods
}

/// The container is another one.
fn other_than(victim: &Victim) -> impl Fn(&Value) -> bool {
    let before = victim.container.clone();
    move |pod| container_of(pod) != before
}

fn take_down(own: &Own, name: &str) {
    own.delete(&format!("{DEPLOYMENTS}/{name}"), None);
    wait_for("the pods to go", || own.items(machine::own::PODS).is_empty().then_some(()));
    wait_clean(own);
}

fn wait_clean(own: &Own) {
    let mut left = Vec::new();
    let begun = machine::now();
    while begun.elapsed() < machine::PATIENCE {
        left = leaks::left(own);
        if left.is_empty() {
            return;
        }
        machine::pause(std::time::Duration::from_millis(20));
    }
    panic!("left behind:\n{}", left.join("\n"));
}

/// Breaks something and waits until it is healed.
type Case = fn(&mut Own);

#[test]
fn what_is_broken_heals() {
    let Some(mut own) = Own::started() else { return };
    let cases: [(&str, Case); 11] = [
        ("killed-process", killed_process),
        ("deleted-pod", deleted_pod),
        ("removed-cgroup", removed_control_group),
        ("unplugged-interface", unplugged_interface),
        ("removed-bridge", removed_bridge),
        ("killed-shim", killed_shim),
        ("deleted-directory", deleted_directory),
        ("unmounted-volume", unmounted_volume),
        ("killed-server", killed_server),
        ("broken-without-server", broken_without_server),
        ("killed-rollout", everything_killed_in_a_rollout),
    ];
    // One by name, for whoever looks for its fault.
    let wanted = std::env::var("SETPOINT_HEAL").unwrap_or_default();
    for (_, case) in cases.iter().filter(|(name, _)| name.contains(&wanted)) {
        case(&mut own);
    }
}

fn killed_process(own: &mut Own) {
    let victim = prepare(own, "killed-process");
    let begun = machine::now();
    signal(victim.process, Signal::KILL);
    let pods = healed(own, "killed-process", begun, other_than(&victim));
    // The same pod, in the same sandbox.
    let pod = pods.iter().find(|pod| pod["metadata"]["uid"] == *victim.uid).expect("it stays");
    assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 1);
    assert_eq!(own.sandbox_of(&victim.uid), Some(victim.sandbox));
    take_down(own, "killed-process");
}

fn deleted_pod(own: &mut Own) {
    let victim = prepare(own, "deleted-pod");
    let begun = machine::now();
    own.delete(&format!("{}/{}", machine::own::PODS, victim.pod), Some(0));
    healed(own, "deleted-pod", begun, other_than(&victim));
    wait_for("the old parts to go", || {
        let gone = [!is_alive(victim.process), !victim.sandbox.exists(), !pod_directory(own, &victim.uid).exists()];
        gone.iter().all(|gone| *gone).then_some(())
    });
    take_down(own, "deleted-pod");
}

fn removed_control_group(own: &mut Own) {
    let victim = prepare(own, "removed-cgroup");
    let groups = victim.groups();
    assert!(!groups.is_empty());
    let begun = machine::now();
    // Whoever removes a control group must end what is in it first.
    for group in &groups {
        for pid in std::fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default().lines() {
            signal(pid.parse().expect("a number"), Signal::KILL);
        }
    }
    for group in &groups {
        // The runtime removes them too, and may have made the next already.
        wait_for("it to be removed", || {
            let removed = std::fs::remove_dir(group);
            (removed.is_ok() || !group.exists() || begun.elapsed().as_millis() > 500).then_some(())
        });
    }
    healed(own, "removed-cgroup", begun, other_than(&victim));
    take_down(own, "removed-cgroup");
}

fn unplugged_interface(own: &mut Own) {
    let victim = prepare(own, "unplugged-interface");
    let begun = machine::now();
    run(&["ip", "link", "del", &victim.interface()]);
    let pods = healed(own, "unplugged-interface", begun, other_than(&victim));
    // The same pod in a new sandbox, with an address that answers: it is probed over it.
    let pod = pods.iter().find(|pod| pod["metadata"]["uid"] == *victim.uid).expect("it stays");
    assert!(pod["status"]["podIP"].as_str().is_some_and(|ip| !ip.is_empty()), "{pod}");
    let sandbox = own.sandbox_of(&victim.uid).expect("a sandbox");
    assert!(sandbox != victim.sandbox && victim.sandbox.join("stopped").exists());
    wait_for("the old process to go", || (!is_alive(victim.process)).then_some(()));
    assert_eq!(leaks::interfaces().len(), REPLICAS);
    take_down(own, "unplugged-interface");
}

fn removed_bridge(own: &mut Own) {
    let victim = prepare(own, "removed-bridge");
    let begun = machine::now();
    let bridge = leaks::bridge().expect("a bridge");
    run(&["ip", "link", "del", &bridge]);
    wait_for("the bridge to come back", || {
        let shown = run(&["ip", "-o", "link", "show", &victim.interface()]);
        shown.contains(&format!("master {bridge}")).then_some(())
    });
    // A pod that was not reached for a moment may have been restarted by nobody: its probe only makes it unready.
    healed(own, "removed-bridge", begun, |_| true);
    assert!(is_alive(victim.process));
    take_down(own, "removed-bridge");
}

fn killed_shim(own: &mut Own) {
    let victim = prepare(own, "killed-shim");
    let begun = machine::now();
    signal(victim.shim(), Signal::KILL);
    healed(own, "killed-shim", begun, other_than(&victim));
    wait_for("the old process to go", || (!is_alive(victim.process)).then_some(()));
    take_down(own, "killed-shim");
}

fn pod_directory(own: &Own, uid: &str) -> PathBuf {
    own.directory.join("node/pods").join(uid)
}

fn deleted_directory(own: &mut Own) {
    let victim = prepare(own, "deleted-directory");
    let directory = pod_directory(own, &victim.uid);
    unmount_below(&directory);
    let begun = machine::now();
    std::fs::remove_dir_all(&directory).expect("removed");
    // What runs goes on with what it has. Its next life finds everything again.
    signal(victim.process, Signal::KILL);
    healed(own, "deleted-directory", begun, other_than(&victim));
    let volumes = directory.join("volumes");
    assert!(volumes.join("scratch").is_dir() && is_mounted(&volumes.join("memory")));
    assert_eq!(std::fs::read_to_string(volumes.join("names/name")).expect("a name"), victim.pod);
    take_down(own, "deleted-directory");
}

fn unmounted_volume(own: &mut Own) {
    let victim = prepare(own, "unmounted-volume");
    let volume = pod_directory(own, &victim.uid).join("volumes/memory");
    assert!(is_mounted(&volume));
    let begun = machine::now();
    unmount_below(&volume);
    assert!(!is_mounted(&volume));
    signal(victim.process, Signal::KILL);
    healed(own, "unmounted-volume", begun, other_than(&victim));
    assert!(is_mounted(&volume));
    take_down(own, "unmounted-volume");
}

fn is_mounted(path: &Path) -> bool {
    let table = std::fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    table.lines().any(|line| line.split(' ').nth(4).map(Path::new) == Some(path))
}

fn unmount_below(path: &Path) {
    let table = std::fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    for point in
        table.lines().filter_map(|line| line.split(' ').nth(4)).filter(|point| Path::new(point).starts_with(path))
    {
        rustix::mount::unmount(point, rustix::mount::UnmountFlags::DETACH).expect("unmounted");
    }
}

fn killed_server(own: &mut Own) {
    let victim = prepare(own, "killed-server");
    let begun = machine::now();
    own.kill();
    assert!(is_alive(victim.process));
    own.start();
    // The same containers go on: nothing was lost, and nothing is new.
    let pods = healed(own, "killed-server", begun, |_| true);
    assert!(pods.iter().any(|pod| container_of(pod) == victim.container));
    assert!(is_alive(victim.process));
    take_down(own, "killed-server");
}

fn broken_without_server(own: &mut Own) {
    let victim = prepare(own, "broken-without-server");
    own.kill();
    // What began the pods is not what heals them.
    own.start();
    own.kill();
    let begun = machine::now();
    signal(victim.process, Signal::KILL);
    run(&["ip", "link", "del", &victim.interface()]);
    own.start();
    healed(own, "broken-without-server", begun, other_than(&victim));
    take_down(own, "broken-without-server");
}

fn everything_killed_in_a_rollout(own: &mut Own) {
    for (at, moment) in [0, 40, 150, 400, 1_000].into_iter().enumerate() {
        let name = format!("killed-rollout-{at}");
        let victim = prepare(own, &name);
        own.apply(DEPLOYMENTS, &deployment(&name, "2"));
        // A different moment of the rollout every time.
        let begun = machine::now();
        wait_for("the moment", || (begun.elapsed().as_millis() >= moment).then_some(()));
        let begun = machine::now();
        own.kill();
        leaks::kill_processes(own);
        assert!(!is_alive(victim.process));
        own.start();
        healed(own, &name, begun, |pod| pod["metadata"]["annotations"]["version"] == "2");
        wait_for("the rollout to finish", || {
            let status = own.get(&format!("{DEPLOYMENTS}/{name}"))["status"].clone();
            let is_done = ["replicas", "updatedReplicas", "availableReplicas"].iter().all(|n| status[n] == REPLICAS);
            is_done.then_some(())
        });
        take_down(own, &name);
    }
    assert!(entries(&own.directory.join("node/pods")).is_empty());
}
