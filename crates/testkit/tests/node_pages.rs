//! The pages that a node shows of itself, through the API: who may see them, and what they tell.

mod machine;

use machine::{Server, binary, is_alone, wait_for};
use meta::ObjectExt;
use serde_json::Value;

const PROXY: &str = "/api/v1/nodes/test-node/proxy";

const OBJECTS: &str = "
apiVersion: v1
kind: Pod
metadata: {name: runs}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: c, image: 'setpoint.local/box:v1', args: [sleep], resources: {limits: {memory: 64Mi}}}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: looks-at-nodes}
rules: [{apiGroups: [''], resources: [nodes/proxy], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: looks-at-nodes}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: looks-at-nodes}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: eve}]
";

fn shown(server: &Server, path: &str) -> Option<String> {
    server.kubectl(&["get", "--raw", path])
}

/// Why kubectl could not do it.
fn refused(server: &Server, words: &[&str]) -> String {
    let output = server.command(words).output().expect("kubectl runs");
    assert!(!output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_node_shows_its_pages_to_those_who_may_see_them() {
    let (Some(binary), true) = (binary(), is_alone()) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::start(&binary, directory.path());
    let file = directory.path().join("objects.yaml");
    std::fs::write(&file, OBJECTS).expect("written");
    wait_for("the API", || server.kubectl(&["apply", "-f", file.to_str().expect("a path")]));
    wait_for("the pod", || (server.ready_pods().len() == 1).then_some(()));

    assert_eq!(shown(&server, &format!("{PROXY}/healthz")).as_deref(), Some("ok"));
    assert_eq!(shown(&server, "/api/v1/nodes/https:test-node:10250/proxy/healthz").as_deref(), Some("ok"));

    let summary = shown(&server, &format!("{PROXY}/stats/summary")).expect("a summary");
    let summary: Value = serde_json::from_str(&summary).expect("JSON");
    assert_eq!(summary.text(&["node", "nodeName"]), "test-node");
    let number = |of: &Value, path: &str| of.pointer(path).and_then(Value::as_i64).unwrap_or_default();
    for path in ["/node/cpu/usageCoreNanoSeconds", "/node/memory/workingSetBytes", "/node/fs/capacityBytes"] {
        assert!(number(&summary, path) > 0, "{path} of {summary}");
    }
    let pod = &summary["pods"][0];
    assert_eq!((pod.text(&["podRef", "name"]), pod.text(&["podRef", "namespace"])), ("runs", "default"));
    assert_eq!(pod.text(&["podRef", "uid"]), server.pods()[0].uid());
    assert!(number(pod, "/containers/0/memory/workingSetBytes") > 0, "{pod}");

    let metrics = shown(&server, &format!("{PROXY}/metrics/resource")).expect("metrics");
    for line in [
        "# TYPE node_memory_working_set_bytes gauge",
        "container_memory_working_set_bytes{container=\"c\",namespace=\"default\",pod=\"runs\"} ",
        "pod_cpu_usage_seconds_total{namespace=\"default\",pod=\"runs\"} ",
        "resource_scrape_error 0",
    ] {
        assert!(metrics.lines().any(|found| found.starts_with(line)), "{line} in\n{metrics}");
    }

    let pods: Value = serde_json::from_str(&shown(&server, &format!("{PROXY}/pods")).expect("pods")).expect("JSON");
    assert_eq!((pods.text(&["kind"]), pods.items(&["items"]).len()), ("PodList", 1));

    // Who may, sees them; whoever may only read nodes does not.
    let health = format!("{PROXY}/healthz");
    let seen = wait_for("eve's role", || server.kubectl(&["get", "--raw", &health, "--as", "eve"]));
    assert_eq!(seen, "ok");
    assert!(refused(&server, &["get", "--raw", &health, "--as", "bob"]).contains("nodes/proxy"));
    let write = ["create", "--raw", health.as_str(), "-f", file.to_str().expect("a path")];
    assert!(refused(&server, &[&write[..], &["--as", "eve"]].concat()).contains("nodes/proxy"));
    assert!(refused(&server, &write).contains("MethodNotAllowed"));

    let check = |path: &str, why: &str| {
        let said = refused(&server, &["get", "--raw", path]);
        assert!(said.contains(why), "{path}: {said}");
    };
    check(&format!("{PROXY}/run/default/runs/c"), "/stats/summary");
    check(&format!("{PROXY}/configz"), "/stats/summary");
    check("/api/v1/nodes/none/proxy/healthz", "not found");
    check("/api/v1/nodes/test-node:22/proxy/healthz", "https:NAME:10250");
    server.kubectl(&["delete", "pod", "runs"]).expect("deleted");
}
