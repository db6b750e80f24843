//! A container runtime that does not answer: its node says so and goes on with the rest, its pods go on too.

mod containerd;
mod machine;

use std::path::Path;

use containerd::Containerd;
use machine::{Server, binary, is_alone, wait_for};
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
    let lives = |pod: &Value| {
        let status = &pod["status"]["containerStatuses"][0];
        (status["containerID"].clone(), status["restartCount"].clone(), pod["status"]["podIP"].clone())
    };
    assert_eq!(lives(&after), lives(&before));

    std::fs::remove_file(manifests.join("static.yaml")).expect("removed");
    server.kubectl(&["delete", "pod", "stays"]).expect("deleted");
    wait_for("everything to go", || {
        containerd.ctr(&["containers", "list", "-q"]).filter(|left| left.trim().is_empty())
    });
}
