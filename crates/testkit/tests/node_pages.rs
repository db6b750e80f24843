//! The pages that a node shows of itself, through the API: who may see them, and what they tell.

mod machine;

use std::io::{Read, Write};
use std::net::TcpStream;

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
  containers:
  - {name: c, image: 'setpoint.local/box:v1', args: [serve, '8080'], resources: {limits: {memory: 64Mi}}, volumeMounts: [
      {name: scratch, mountPath: /scratch}, {name: small, mountPath: /small}, {name: claimed, mountPath: /claimed}]}
  volumes:
  - {name: scratch, emptyDir: {}}
  - {name: small, emptyDir: {medium: Memory, sizeLimit: 1Mi}}
  - {name: claimed, persistentVolumeClaim: {claimName: claim}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: claim}
spec: {accessModes: [ReadWriteOnce], storageClassName: '', resources: {requests: {storage: 1Mi}}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: volume}
spec: {accessModes: [ReadWriteOnce], capacity: {storage: 1Mi}, hostPath: {path: DIRECTORY/claimed, type: DirectoryOrCreate}}
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

/// Asks the pod for a page. The bytes that came.
fn fetch(ip: &str) -> std::io::Result<u64> {
    let mut stream = TcpStream::connect((ip, 8080))?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer.len() as u64)
}

fn number(of: &Value, path: &str) -> i64 {
    of.pointer(path).and_then(Value::as_i64).unwrap_or(-1)
}

/// The pod's side of its interface is shown, and the machine's own interfaces.
fn check_network(summary: &Value, pod: &Value, sent: u64) {
    assert_eq!((pod.text(&["network", "name"]), pod.items(&["network", "interfaces"]).len()), ("eth0", 1));
    assert!(number(pod, "/network/txBytes") >= i64::try_from(sent).expect("small"), "{pod}");
    assert!(number(pod, "/network/rxBytes") > 0, "{pod}");
    assert_eq!((number(pod, "/network/rxErrors"), number(pod, "/network/txErrors")), (0, 0));
    let own = summary["node"].items(&["network", "interfaces"]);
    assert!(!own.is_empty() && own.iter().all(|one| number(one, "/rxBytes") >= 0), "{}", summary["node"]);
}

fn check_disks(summary: &Value, pod: &Value) {
    let volume = |name: &str| {
        let found = pod.items(&["volume"]).iter().find(|volume| volume.text(&["name"]) == name);
        found.unwrap_or_else(|| panic!("no volume {name}: {pod}"))
    };
    let scratch = volume("scratch");
    let used = number(scratch, "/usedBytes");
    assert!((1 << 20..(1 << 20) + 65_536).contains(&used), "{scratch}");
    assert_eq!(number(scratch, "/inodesUsed"), 2, "{scratch}");
    assert_eq!(number(scratch, "/capacityBytes"), number(summary, "/node/fs/capacityBytes"));
    assert_eq!(number(volume("small"), "/capacityBytes"), 1 << 20);
    assert_eq!(number(volume("small"), "/usedBytes"), 0);
    let claimed = volume("claimed");
    assert_eq!((claimed.text(&["pvcRef", "name"]), claimed.text(&["pvcRef", "namespace"])), ("claim", "default"));
    assert!(number(claimed, "/capacityBytes") > 0 && number(claimed, "/availableBytes") >= 0, "{claimed}");
    let token = pod.items(&["volume"]).iter().any(|volume| volume.text(&["name"]).starts_with("kube-api-access-"));
    assert!(token, "{pod}");

    let whole = number(pod, "/ephemeral-storage/usedBytes");
    let parts = ["/containers/0/rootfs/usedBytes", "/containers/0/logs/usedBytes"].map(|path| number(pod, path));
    assert!(parts.iter().all(|part| *part >= 0) && whole >= used + parts.iter().sum::<i64>(), "{pod}");
    for path in ["/node/runtime/imageFs/capacityBytes", "/node/runtime/containerFs/capacityBytes"] {
        assert!(number(summary, path) > 0, "{path} of {summary}");
    }
}

#[test]
fn a_node_shows_its_pages_to_those_who_may_see_them() {
    let (Some(binary), true) = (binary(), is_alone()) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::start(&binary, directory.path());
    let file = directory.path().join("objects.yaml");
    std::fs::create_dir(directory.path().join("claimed")).expect("made");
    let objects = OBJECTS.replace("DIRECTORY", directory.path().to_str().expect("a path"));
    std::fs::write(&file, objects).expect("written");
    wait_for("the API", || server.kubectl(&["apply", "-f", file.to_str().expect("a path")]));
    wait_for("the pod", || (server.ready_pods().len() == 1).then_some(()));

    assert_eq!(shown(&server, &format!("{PROXY}/healthz")).as_deref(), Some("ok"));
    assert_eq!(shown(&server, "/api/v1/nodes/https:test-node:10250/proxy/healthz").as_deref(), Some("ok"));

    // Something to be counted: bytes in a volume, and bytes over the network.
    let pod = server.pods()[0].clone();
    let (uid, ip) = (pod.uid().to_owned(), pod.text(&["status", "podIP"]).to_owned());
    let scratch = directory.path().join(format!("node/pods/{uid}/volumes/scratch"));
    std::fs::write(scratch.join("file"), vec![1; 1 << 20]).expect("written");
    let sent: u64 = wait_for("the pod's server", || fetch(&ip).ok());

    let summary = shown(&server, &format!("{PROXY}/stats/summary")).expect("a summary");
    let summary: Value = serde_json::from_str(&summary).expect("JSON");
    assert_eq!(summary.text(&["node", "nodeName"]), "test-node");
    for path in ["/node/cpu/usageCoreNanoSeconds", "/node/memory/workingSetBytes", "/node/fs/capacityBytes"] {
        assert!(number(&summary, path) > 0, "{path} of {summary}");
    }
    let pod = &summary["pods"][0];
    assert_eq!((pod.text(&["podRef", "name"]), pod.text(&["podRef", "namespace"])), ("runs", "default"));
    assert_eq!(pod.text(&["podRef", "uid"]), server.pods()[0].uid());
    assert!(number(pod, "/containers/0/memory/workingSetBytes") > 0, "{pod}");
    check_network(&summary, pod, sent);
    check_disks(&summary, pod);

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
