//! A server and two nodes, each in a network namespace of its own, on one bridge: as root, with this machine's kernel.
//! Without root, binary, `ip` or kubectl there is nothing to test.

mod machine;
mod segment;

use machine::{binary, is_root, processes, wait_for};
use segment::{Cluster, Segment};

/// A Deployment that runs on both nodes, and a pod on one of them that reads a secret.
fn manifest(port: u16, seconds: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: one}}\nstringData: {{word: first}}\n---\n\
         apiVersion: v1\nkind: Secret\nmetadata: {{name: other}}\nstringData: {{word: second}}\n---\n\
         apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web}}\nspec:\n  replicas: 2\n  \
         selector: {{matchLabels: {{app: web}}}}\n  template:\n    metadata: {{labels: {{app: web}}}}\n    spec:\n      \
         terminationGracePeriodSeconds: 1\n      topologySpreadConstraints:\n      \
         - {{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, \
         labelSelector: {{matchLabels: {{app: web}}}}}}\n      containers:\n      \
         - {{name: c, image: 'setpoint.local/box:v1', args: [serve, '{port}']}}\n---\n\
         apiVersion: v1\nkind: Pod\nmetadata: {{name: reader}}\nspec:\n  nodeName: node-1\n  \
         terminationGracePeriodSeconds: 1\n  containers:\n  \
         - {{name: c, image: 'setpoint.local/box:v1', args: [sleep, '{seconds}'], \
         volumeMounts: [{{name: s, mountPath: /s}}]}}\n  volumes: [{{name: s, secret: {{secretName: one}}}}]\n"
    )
}

/// The processes of all those containers.
fn containers(port: u16, seconds: &str) -> Vec<u32> {
    let port = port.to_string();
    [processes(&["/bin/box", "serve", &port]), processes(&["/bin/box", "sleep", seconds])].concat()
}

#[test]
fn machines_join_and_work_together() {
    let (Some(binary), true, Some(segment)) = (binary(), is_root(), Segment::lay()) else { return };
    let mut cluster = Cluster::start(&binary, &segment);
    refusals(&cluster);

    let command = cluster.join_command();
    let token = command.last().expect("a token").clone();
    for node in ["node-1", "node-2"] {
        cluster.start_agent(node, Some(&token));
    }
    wait_for("both nodes to be ready", || (cluster.ready_nodes() == ["node-1", "node-2"]).then_some(()));
    let ranges = cluster.kubectl(&["get", "nodes", "-o", "jsonpath={.items[*].spec.podCIDR}"]).expect("ranges");
    let mut ranges: Vec<&str> = ranges.split(' ').collect();
    ranges.sort_unstable();
    assert_eq!(ranges, ["10.244.0.0/24", "10.244.1.0/24"]);

    own_pods(&cluster);

    // A Deployment is spread over both, and its pods are reached through the server.
    let (port, seconds) = (
        20_000 + u16::try_from(std::process::id() % 20_000).expect("a port"),
        format!("{}", 800_000 + std::process::id()),
    );
    cluster.apply(&manifest(port, &seconds));
    let pods = wait_for("three ready pods", || {
        let pods = cluster.ready_pods();
        (pods.len() == 3).then_some(pods)
    });
    for pod in pods.iter().filter(|pod| pod.name != "reader") {
        let log = wait_for("the log", || cluster.kubectl(&["logs", &pod.name]).filter(|log| !log.is_empty()));
        assert_eq!(log, format!("serving on [::]:{port}\n"));
        let said = wait_for("a command", || cluster.kubectl(&["exec", &pod.name, "--", "/bin/box", "echo", "here"]));
        assert_eq!(said, "here\n");
    }
    let nodes: std::collections::BTreeSet<&str> =
        pods.iter().filter(|pod| pod.name != "reader").map(|pod| pod.node.as_str()).collect();
    assert_eq!(nodes.len(), 2, "on both nodes");

    for (node, pod) in pods.iter().map(|pod| (pod.node.as_str(), pod.name.as_str())) {
        pages(&cluster, node, pod);
    }

    // A pod on one node reaches one on the other.
    let on = |node: &str| pods.iter().find(|pod| pod.node == node && pod.name != "reader").expect("a pod");
    let (one, two) = (on("node-1"), on("node-2"));
    for (from, to) in [(one, two), (two, one)] {
        let to_ip = format!("{}:{port}", to.ip);
        let said = wait_for("a word from pod to pod", || {
            cluster.kubectl(&["exec", &from.name, "--", "/bin/box", "get", &to_ip])
        });
        assert!(said.contains(&to.name), "{said}");
    }

    // A secret that a pod uses follows its object, and is nobody else's.
    let word = || cluster.kubectl(&["exec", "reader", "--", "/bin/box", "cat", "/s/word"]);
    assert_eq!(word().as_deref(), Some("first"));
    cluster.kubectl(&["patch", "secret", "one", "-p", "{\"stringData\":{\"word\":\"newer\"}}"]).expect("patched");
    wait_for("the newer secret", || (word()? == "newer").then_some(()));
    assert_eq!(cluster.as_node("node-1", "/api/v1/namespaces/default/secrets/one"), 200);
    for (node, path) in [
        ("node-2", "/api/v1/namespaces/default/secrets/one"),
        ("node-1", "/api/v1/namespaces/default/secrets/other"),
        ("node-1", "/api/v1/secrets"),
        ("node-1", "/api/v1/nodes/node-2"),
        ("node-1", "/api/v1/nodes"),
        ("node-1", "/api/v1/nodes/node-2/proxy/stats/summary"),
        ("node-1", "/api/v1/pods"),
    ] {
        assert_eq!(cluster.as_node(node, path), 403, "{node} {path}");
    }

    // An agent that is killed leaves its containers; the next one needs no token and takes over.
    let running = || containers(port, &seconds);
    let before = running();
    assert_eq!(before.len(), 3);
    cluster.kill("node-2");
    assert_eq!(running(), before);
    cluster.start_agent("node-2", None);
    wait_for("the log of the one that was taken over", || cluster.kubectl(&["logs", &two.name]));
    assert_eq!(running(), before);

    // The server is lost and comes back: nothing happens to the containers.
    cluster.restart_server();
    wait_for("both nodes to be ready", || (cluster.ready_nodes() == ["node-1", "node-2"]).then_some(()));
    wait_for("the log after that", || cluster.kubectl(&["logs", &one.name]));
    assert_eq!(running(), before);

    cluster.kubectl(&["delete", "deployment/web", "pod/reader", "--wait=false"]).expect("deleted");
    wait_for("the processes to go", || running().is_empty().then_some(()));
}

/// What a node shows of itself comes from that node, over its own connection.
fn pages(cluster: &Cluster, node: &str, pod: &str) {
    let page = |path: &str| cluster.kubectl(&["get", "--raw", &format!("/api/v1/nodes/{node}/proxy{path}")]);
    assert_eq!(page("/healthz").as_deref(), Some("ok"));
    let summary: serde_json::Value = serde_json::from_str(&page("/stats/summary").expect("a summary")).expect("JSON");
    assert_eq!(summary["node"]["nodeName"], *node);
    let names = summary["pods"].as_array().into_iter().flatten().map(|shown| &shown["podRef"]["name"]);
    assert!(names.into_iter().any(|name| name == pod), "{summary}");
    assert!(page("/metrics/resource").expect("metrics").contains(&format!("pod=\"{pod}\"")));
    assert!(page("/pods").expect("pods").contains(&format!("\"name\":\"{pod}\"")));
}

/// A pod of a manifest runs on a node by itself; the server shows a mirror, which the node keeps over its own way there.
fn own_pods(cluster: &Cluster) {
    let seconds = format!("{}", 830_000 + std::process::id());
    let manifest = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: own}}\nspec:\n  terminationGracePeriodSeconds: 1\n  containers:\n  \
         - {{name: c, image: 'setpoint.local/box:v1', args: [sleep, '{seconds}']}}\n"
    );
    cluster.put_manifest("node-2", "own.yaml", &manifest);
    let uid = || cluster.kubectl(&["get", "pod", "own-node-2", "-o", "jsonpath={.metadata.uid}"]);
    let is_ready = || cluster.ready_pods().iter().any(|pod| pod.name == "own-node-2" && pod.node == "node-2");
    wait_for("the mirror", || is_ready().then_some(()));
    let (first, running) = (uid(), processes(&["/bin/box", "sleep", &seconds]));
    assert_eq!(running.len(), 1);
    let said =
        wait_for("a command in it", || cluster.kubectl(&["exec", "own-node-2", "--", "/bin/box", "echo", "here"]));
    assert_eq!(said, "here\n");
    cluster.kubectl(&["delete", "pod", "own-node-2", "--wait=false"]).expect("deleted");
    wait_for("another mirror", || (is_ready() && uid() != first).then_some(()));
    assert_eq!(processes(&["/bin/box", "sleep", &seconds]), running);
    cluster.remove_manifest("node-2", "own.yaml");
    wait_for("both to go", || {
        (uid().is_none() && processes(&["/bin/box", "sleep", &seconds]).is_empty()).then_some(())
    });
}

/// What does not join is told why.
fn refusals(cluster: &Cluster) {
    let command = cluster.join_command();
    let token = command.last().expect("a token").clone();
    let (secret, pin) = token.split_once('@').expect("a pin");
    let other_pin = format!("{secret}@sha256:{}", "0".repeat(64));
    let unknown = format!("aaaaaa.0123456789abcdef@{pin}");
    let check = |token: &str, expected: &str| {
        let said = cluster.refused(token);
        assert!(said.contains(expected), "{said}");
    };
    check(&other_pin, "is not the one that the token is for");
    check(&unknown, "does not accept the token");
    let id = secret.split('.').next().expect("an id");
    cluster.setpoint(&["token", "delete", id]).expect("deleted");
    check(&token, "does not accept the token");
}
