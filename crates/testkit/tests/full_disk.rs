//! The disk of a server with a node is full: the server stops as docs/design/storage.md says, the pods go on, and with
//! room again so does the server. As root, with this machine's kernel.

mod machine;

use machine::own::{Own, PODS, fill, small_disk};
use machine::{leaks, wait_for};
use serde_json::{Value, json};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Room for the built-in image, as packed and unpacked: a program without optimisation is large.
const DISK_MIB: u64 = 600;
/// Writes until the log cannot grow any more: it is allotted in pages.
const WRITES_MAX: usize = 10_000;

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [{
            "name": "c", "image": "setpoint.local/box:v1", "args": ["sleep"]}]},
    })
}

fn config_map(at: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("m{at}")},
        "data": {"text": "x".repeat(8 << 10)},
    })
}

fn ready(own: &Own, name: &str) -> Value {
    let path = format!("{PODS}/{name}");
    let pod = wait_for("the pod", || Some(own.get(&path)).filter(|pod| meta::condition::is_true(pod, "Ready")));
    pod["status"]["containerStatuses"][0].clone()
}

#[test]
fn a_full_disk_stops_the_server_and_no_pod() {
    let Some(mut own) = Own::new() else { return };
    small_disk(&own.directory, DISK_MIB);
    own.start();
    own.apply(PODS, &pod("goes-on"));
    let before = ready(&own, "goes-on");
    let (_, process) = own.containers()[0];
    let ballast = fill(&own.directory, 0);

    let mut acknowledged = Vec::new();
    for at in 0..WRITES_MAX {
        match own.try_call("POST", CONFIG_MAPS, &config_map(at)) {
            Some((201, _)) => acknowledged.push(at),
            _ => break,
        }
    }
    println!("{} writes were acknowledged on the full disk", acknowledged.len());
    wait_for("the server to stop", || own.has_ended().then_some(()));
    let said = own.log_tail();
    assert!(said.to_lowercase().contains("no space left"), "{said}");
    assert!(is_alive(process), "the pod went on");

    // As long as there is no room, a start says so and changes nothing. What the torn end of the log gives back may be
    // enough to serve reads from, until somebody writes.
    fill(&own.directory, 0);
    if own.starts() {
        own.kill();
    } else {
        let said = own.log_tail();
        assert!(said.lines().last().is_some_and(|line| line.to_lowercase().contains("no space left")), "{said}");
    }
    assert!(is_alive(process), "the pod goes on");

    std::fs::remove_file(ballast).expect("removed");
    own.start();
    for at in acknowledged {
        assert!(own.get(&format!("{CONFIG_MAPS}/m{at}")).is_object(), "m{at} was acknowledged");
    }
    assert_eq!(ready(&own, "goes-on"), before);
    own.apply(PODS, &pod("new"));
    ready(&own, "new");
    for name in ["goes-on", "new"] {
        own.delete(&format!("{PODS}/{name}"), Some(0));
    }
    wait_for("the pods to go", || own.items(PODS).is_empty().then_some(()));
    let mut left = Vec::new();
    let is_clean = || {
        left = leaks::left(&own);
        left.is_empty().then_some(())
    };
    assert!(machine::look_for(machine::PATIENCE, is_clean).is_some(), "left behind:\n{}", left.join("\n"));
}

fn is_alive(pid: u32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}
