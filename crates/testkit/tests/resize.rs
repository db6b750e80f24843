//! Pods that are given other resources while they run: with real containers, as root, by the kernel's own files.

mod machine;

use std::path::{Path, PathBuf};

use machine::{Server, binary, is_root, processes, wait_for};
use meta::{ObjectExt, Quantity, condition};
use serde_json::{Value, json};

fn get(server: &Server, words: &[&str]) -> Option<Value> {
    serde_json::from_str(&server.kubectl(&[&["get", "-o", "json"], words].concat())?).ok()
}

fn apply(server: &Server, directory: &Path, objects: &[Value]) {
    let file = directory.join("apply.json");
    std::fs::write(&file, json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string()).expect("written");
    let path = file.to_str().expect("a path");
    wait_for("the API", || server.kubectl(&["apply", "--server-side", "-f", path]));
}

/// A pod bound to the node that asks for so much processor, and may take twice as much.
fn pod(name: &str, milli: i64, words: &[&str], policies: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "nodeName": "test-node", "terminationGracePeriodSeconds": 1,
            "containers": [{
                "name": "c", "image": "setpoint.local/box:v1", "args": words, "resizePolicy": policies,
                "resources": resources(milli, "64Mi"),
            }],
        },
    })
}

fn resources(milli: i64, memory: &str) -> Value {
    let amounts = |milli: i64| json!({"cpu": format!("{milli}m"), "memory": memory});
    json!({"requests": amounts(milli), "limits": amounts(milli * 2)})
}

fn resize(server: &Server, name: &str, resources: Value) {
    let patch = json!({"spec": {"containers": [{"name": "c", "resources": resources}]}}).to_string();
    server
        .kubectl(&["patch", "pod", name, "--subresource", "resize", "-p", &patch])
        .expect("a resize that is accepted");
}

/// The pod, once its resize waits for this reason.
fn pending(server: &Server, name: &str, reason: &str) -> Value {
    wait_for(reason, || {
        let pod = get(server, &["pod", name])?;
        let is_it = condition::find(&pod, "PodResizePending")?.text(&["reason"]) == reason;
        is_it.then_some(pod)
    })
}

/// The pod, once its container has these requests of processor and nothing is left to do.
fn resized(server: &Server, name: &str, cpu: &str) -> Value {
    wait_for(&format!("{name} to be given {cpu}"), || {
        let pod = get(server, &["pod", name])?;
        let status = &pod["status"]["containerStatuses"][0];
        let has = status.text(&["resources", "requests", "cpu"]) == cpu
            && status.text(&["allocatedResources", "cpu"]) == cpu
            && status.at(&["state", "running"]).is_some();
        let is_quiet = ["PodResizePending", "PodResizeInProgress"].iter().all(|t| condition::find(&pod, t).is_none());
        (has && is_quiet).then_some(pod)
    })
}

/// What the kernel's files say of the process's group and of its parent, the pod's: processor in thousandths, bytes.
fn limits(pid: u32) -> [(i64, i64); 2] {
    let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("a process");
    let place = |controller: &str| -> PathBuf {
        let mut lines = text.lines().map(|line| line.splitn(3, ':').collect::<Vec<_>>());
        let line = lines.find(|l| l[1].split(',').any(|c| c == controller) || l[1].is_empty()).expect("a group");
        let top = Path::new("/sys/fs/cgroup").join(if line[1].is_empty() { "" } else { controller });
        top.join(line[2].trim_start_matches('/'))
    };
    let read = |dir: &Path, files: [&str; 2]| {
        let found = files.iter().find_map(|file| std::fs::read_to_string(dir.join(file)).ok()).expect("a limit");
        found.split_whitespace().next().and_then(|first| first.parse::<i64>().ok()).unwrap_or(-1)
    };
    let of = |cpu: &Path, memory: &Path| {
        let quota = read(cpu, ["cpu.cfs_quota_us", "cpu.max"]);
        (quota / 100, read(memory, ["memory.limit_in_bytes", "memory.max"]))
    };
    let (cpu, memory) = (place("cpu"), place("memory"));
    let above = |dir: &Path| dir.parent().expect("a parent").to_owned();
    [of(&cpu, &memory), of(&above(&cpu), &above(&memory))]
}

/// Waits until an event about the pod has this reason.
fn wait_for_event(server: &Server, name: &str, reason: &str) {
    let field = format!("involvedObject.name={name},reason={reason}");
    wait_for(reason, || {
        let events = get(server, &["events", "--field-selector", &field])?;
        (!events.items(&["items"]).is_empty()).then_some(())
    });
}

#[test]
fn pods_are_resized_while_they_run() {
    let (Some(binary), true) = (binary(), is_root()) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let mut server = Server::start(&binary, directory.path());
    let allocatable = wait_for("the node", || {
        let node = get(&server, &["node", "test-node"])?;
        Some(Quantity::from_value(node.at(&["status", "allocatable", "cpu"])?).ok()?.milli())
    });
    let seconds = format!("{}", 920_000 + std::process::id());
    let words = ["sleep", seconds.as_str()];
    let other = format!("{}", 930_000 + std::process::id());
    let stays = json!([{"resourceName": "cpu", "restartPolicy": "NotRequired"}]);
    // Beside the filler there is room for 300.
    let filler = pod("filler", allocatable - 300, &["sleep", other.as_str()], stays.clone());
    apply(&server, directory.path(), &[pod("web", 100, &words, stays), filler]);
    resized(&server, "web", "100m");
    wait_for("the filler", || get(&server, &["pod", "filler"]).filter(|pod| condition::is_true(pod, "Ready")));
    let line = ["/bin/box", "sleep", seconds.as_str()];
    let [pid] = processes(&line)[..] else { panic!("one process") };
    assert_eq!(limits(pid), [(200, 64 << 20); 2]);

    // There is room: the same process has more, and so has its pod.
    resize(&server, "web", resources(250, "96Mi"));
    let pod = resized(&server, "web", "250m");
    assert_eq!(pod["status"]["observedGeneration"], pod["metadata"]["generation"]);
    assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 0);
    assert_eq!((limits(pid), processes(&line)), ([(500, 96 << 20); 2], vec![pid]));

    // There never is.
    resize(&server, "web", resources(1_000_000, "96Mi"));
    let pod = pending(&server, "web", "Infeasible");
    let why = condition::find(&pod, "PodResizePending").expect("a condition");
    let expected = format!("Node didn't have enough capacity: cpu, requested: 1000000, capacity: {allocatable}");
    assert_eq!((why.text(&["message"]), why.int(&["observedGeneration"])), (expected.as_str(), Some(pod.generation())));
    assert!(condition::is_true(&pod, "Ready"));
    wait_for_event(&server, "web", "ResizeInfeasible");

    // There is none now; the node's program may be started anew meanwhile.
    resize(&server, "web", resources(400, "96Mi"));
    let pod = pending(&server, "web", "Deferred");
    assert_eq!(pod["status"]["containerStatuses"][0]["allocatedResources"]["cpu"], "250m");
    assert_eq!(limits(pid)[0].0, 500);
    // Events do not outlive the server.
    ["ResizeStarted", "ResizeCompleted", "ResizeDeferred"].iter().for_each(|one| wait_for_event(&server, "web", one));
    server.kill();
    let server = Server::start(&binary, directory.path());
    wait_for("the API", || server.kubectl(&["get", "--raw", "/readyz"]));
    pending(&server, "web", "Deferred");
    assert_eq!(limits(pid)[0].0, 500);

    // Once there is, it is had.
    server.kubectl(&["delete", "pod", "filler", "--wait=false"]).expect("deleted");
    resized(&server, "web", "400m");
    assert_eq!((limits(pid), processes(&line)), ([(800, 96 << 20); 2], vec![pid]));
    wait_for_event(&server, "web", "ResizeCompleted");

    // What is in use is not taken away.
    resize(&server, "web", resources(400, "4Ki"));
    let pod = wait_for("the refusal", || {
        let pod = get(&server, &["pod", "web"])?;
        (condition::find(&pod, "PodResizeInProgress")?.text(&["reason"]) == "Error").then_some(pod)
    });
    let why = condition::find(&pod, "PodResizeInProgress").expect("a condition").text(&["message"]);
    assert!(why.starts_with("cannot decrease memory limits: [attempting to set pod memory limit (4096)"), "{why}");
    assert_eq!((limits(pid)[0].1, processes(&line)), (96 << 20, vec![pid]));
    assert!(condition::is_true(&pod, "Ready"));
    resize(&server, "web", resources(400, "96Mi"));
    resized(&server, "web", "400m");

    // Who asks for a restart gets one.
    let restarts = json!([{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]);
    apply(&server, directory.path(), &[self::pod("again", 100, &["sleep", other.as_str()], restarts)]);
    resized(&server, "again", "100m");
    resize(&server, "again", resources(150, "64Mi"));
    let pod = resized(&server, "again", "150m");
    assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 1);
}
