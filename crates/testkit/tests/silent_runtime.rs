//! A container runtime that does not answer: its node says so and goes on with the rest, its pods go on too.

mod containerd;
mod machine;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use containerd::Containerd;
use machine::{Server, binary, is_alone, look_for, pause, wait_for};
use meta::ObjectExt;
use serde_json::Value;

const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: NAME}\nspec:\n  terminationGracePeriodSeconds: 0\n  \
                   containers:\n  - name: c\n    image: 'setpoint.local/box:v1'\n    args: [sleep]\n    \
                   livenessProbe: {exec: {command: [/bin/box, exit, '0']}, periodSeconds: 1}\n";

fn write_pod(file: &Path, name: &str) {
    std::fs::write(file, POD.replace("NAME", name)).expect("written");
}

fn get(server: &Server, path: &str) -> Option<Value> {
    serde_json::from_str(&server.kubectl(&["get", "--raw", path])?).ok()
}

/// Status, reason and message of the node's condition `Ready`.
fn readiness(server: &Server) -> Option<(String, String, String)> {
    let node = get(server, "/api/v1/nodes/test-node")?;
    let ready = meta::condition::find(&node, "Ready")?;
    let text = |field: &str| ready.text(&[field]).to_owned();
    Some((text("status"), text("reason"), text("message")))
}

fn renewed(server: &Server) -> Option<String> {
    let lease = get(server, "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/test-node")?;
    Some(lease.text(&["spec", "renewTime"]).to_owned())
}

fn pod(server: &Server, name: &str) -> Option<Value> {
    get(server, &format!("/api/v1/namespaces/default/pods/{name}"))
}

fn ready_pod(server: &Server, name: &str) -> Option<Value> {
    pod(server, name).filter(|pod| meta::condition::is_true(pod, "Ready"))
}

/// What a probe of this test asks: the machine's own address, so that the answer does not depend on the runtime.
struct Oracle {
    port: u16,
    is_well: Arc<AtomicBool>,
}

impl Oracle {
    fn open() -> Oracle {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let is_well = Arc::new(AtomicBool::new(true));
        let known = Arc::clone(&is_well);
        // Until the test ends.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let code = if known.load(Ordering::Relaxed) { "200 OK" } else { "503 Service Unavailable" };
                let _ = stream.read(&mut [0; 4096]);
                let _ = write!(stream, "HTTP/1.1 {code}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            }
        });
        Oracle { port, is_well }
    }

    fn probe(&self) -> String {
        format!(
            "    readinessProbe: {{httpGet: {{host: 127.0.0.1, port: {}}}, periodSeconds: 1, failureThreshold: 1}}\n",
            self.port
        )
    }
}

/// Longer than a probe's period, an old view's patience and a write take on a busy machine, and much shorter than the
/// time limit of a call to the runtime.
const SOON: Duration = Duration::from_secs(10);
/// Whatever was to happen before the runtime is told of as silent has happened.
const SETTLED: Duration = Duration::from_secs(5);

/// The identity, the number of restarts and the address of a pod's first container.
fn lives(pod: &Value) -> (Value, Value, Value) {
    let status = &pod["status"]["containerStatuses"][0];
    (status["containerID"].clone(), status["restartCount"].clone(), pod["status"]["podIP"].clone())
}

/// Asks for a pod to be deleted; its node has to do it.
fn delete(server: &Server, name: &str) {
    server.kubectl(&["delete", "pod", name, "--grace-period=3", "--wait=false"]).expect("deleted");
}

#[test]
fn what_does_not_need_the_runtime_goes_on() {
    let (Some(binary), true) = (binary(), is_alone()) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let Some(containerd) = Containerd::start(&directory.path().join("containerd")) else { return };
    let (own, other) = (directory.path().join("own"), directory.path().join("other"));
    [&own, &other].iter().for_each(|made| std::fs::create_dir_all(made).expect("a directory"));
    let embedded = Server::start(&binary, &own);
    containerd.import_pause(&binary, &own);
    drop(embedded);

    let endpoint = containerd.endpoint();
    let server = Server::start_with(&binary, &other, &["--eviction-hard", "", "--cri", endpoint.as_str()]);
    let oracle = Oracle::open();
    let file = other.join("pod.yaml");
    std::fs::write(&file, POD.replace("NAME", "stays") + &oracle.probe()).expect("written");
    wait_for("the API", || server.kubectl(&["apply", "-f", file.to_str().expect("a path")]));
    let before = wait_for("a pod", || ready_pod(&server, "stays"));

    containerd.hang();
    // This one makes the node notice, for its sandbox has to be made.
    write_pod(&file, "comes");
    wait_for("another pod", || server.kubectl(&["apply", "-f", file.to_str().expect("a path")]));
    pause(SETTLED);
    let is_well = |pod: &Value| pod["status"]["containerStatuses"][0]["ready"] == true;
    let told = || {
        look_for(SOON, || pod(&server, "stays").filter(|pod| is_well(pod) == oracle.is_well.load(Ordering::Relaxed)))
    };
    oracle.is_well.store(false, Ordering::Relaxed);
    let bad = told().expect("the probe that has turned bad to be told of");
    assert_eq!(meta::condition::status(&bad, "Ready"), "False");
    assert!(bad["status"]["containerStatuses"][0]["state"].get("running").is_some(), "{}", bad["status"]);
    oracle.is_well.store(true, Ordering::Relaxed);
    told().expect("the probe that has turned good to be told of");
    // What has nothing in the runtime can come and go.
    write_pod(&file, "passes");
    server.kubectl(&["apply", "-f", file.to_str().expect("a path")]).expect("applied");
    let is_waiting = |pod: &Value| pod["status"]["containerStatuses"][0]["state"].get("waiting").is_some();
    look_for(SOON, || pod(&server, "passes").filter(is_waiting)).expect("a new pod to be told of");
    delete(&server, "passes");
    look_for(SOON, || pod(&server, "passes").is_none().then_some(())).expect("the pod that has not begun to go");
    wait_for("the node to say so", || readiness(&server).filter(|(status, ..)| status == "False"));

    containerd.resume();
    wait_for("the pod that waited", || ready_pod(&server, "comes"));
    let after = wait_for("the pod as it was", || ready_pod(&server, "stays"));
    assert_eq!(lives(&after), lives(&before));
    // A sandbox and a container a pod.
    let listed = containerd.ctr(&["containers", "list", "-q"]).expect("a list");
    assert_eq!(listed.split_whitespace().count(), 4, "{listed}");

    containerd.hang();
    pause(SETTLED);
    delete(&server, "stays");
    pause(2 * SETTLED);
    let stays = pod(&server, "stays").expect("a pod whose container runs");
    assert!(stays["status"]["containerStatuses"][0]["state"].get("running").is_some(), "{}", stays["status"]);
    containerd.resume();
    server.kubectl(&["delete", "pod", "comes"]).expect("deleted");
    wait_for("everything to go", || {
        containerd.ctr(&["containers", "list", "-q"]).filter(|left| left.trim().is_empty())
    });
}

#[test]
fn a_node_says_that_its_runtime_does_not_answer_and_goes_on() {
    let (Some(binary), true) = (binary(), is_alone()) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let Some(containerd) = Containerd::start(&directory.path().join("containerd")) else { return };
    let (own, other) = (directory.path().join("own"), directory.path().join("other"));
    let manifests = other.join("manifests");
    [&own, &manifests].iter().for_each(|made| std::fs::create_dir_all(made).expect("a directory"));
    let embedded = Server::start(&binary, &own);
    containerd.import_pause(&binary, &own);
    drop(embedded);

    let endpoint = containerd.endpoint();
    let server = Server::start_with(&binary, &other, &["--eviction-hard", "", "--cri", endpoint.as_str()]);
    let file = other.join("pod.yaml");
    write_pod(&file, "stays");
    wait_for("the API", || server.kubectl(&["apply", "-f", file.to_str().expect("a path")]));
    let before = wait_for("a pod", || ready_pod(&server, "stays"));

    containerd.hang();
    let why = wait_for("the node to say so", || readiness(&server).filter(|(status, ..)| status == "False"));
    assert_eq!(why.1, "KubeletNotReady");
    assert!(why.2.starts_with(&format!("container runtime is down: {endpoint}: ")), "{}", why.2);
    // What does not need the runtime goes on: leases, and all that the loop about pods does.
    let lease = renewed(&server);
    assert!(lease.is_some());
    wait_for("the lease to be renewed", || (renewed(&server) != lease).then_some(()));
    write_pod(&manifests.join("static.yaml"), "static");
    wait_for("the mirror of a new manifest", || pod(&server, "static-test-node"));
    assert_eq!(readiness(&server).map(|(status, ..)| status).as_deref(), Some("False"));

    containerd.resume();
    wait_for("the node to be ready", || readiness(&server).filter(|(status, ..)| status == "True"));
    wait_for("the pod of the manifest", || ready_pod(&server, "static-test-node"));
    let after = wait_for("the pod as it was", || ready_pod(&server, "stays"));
    assert_eq!(lives(&after), lives(&before));

    std::fs::remove_file(manifests.join("static.yaml")).expect("removed");
    server.kubectl(&["delete", "pod", "stays"]).expect("deleted");
    wait_for("everything to go", || {
        containerd.ctr(&["containers", "list", "-q"]).filter(|left| left.trim().is_empty())
    });
}
