//! The same pods on the embedded runtime and on containerd end up the same: as root, with this machine's kernel.

mod containerd;
mod machine;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use containerd::Containerd;
use machine::{Server, binary, is_alone, wait_for};
use meta::condition;
use serde_json::{Value, json};

/// What differs from one life to the next.
const PASSING: [&str; 11] = [
    "containerID",
    "startedAt",
    "finishedAt",
    "podIP",
    "podIPs",
    "hostIP",
    "hostIPs",
    "startTime",
    "lastTransitionTime",
    "lastProbeTime",
    "lastUpdateTime",
];

/// A pod whose containers have the machine's own programs, for the image has hardly any.
fn pod(name: &str, rest: &str, containers: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, annotations: {{said: hello}}}}\nspec:\n  \
         terminationGracePeriodSeconds: 5\n  {rest}\n{containers}---\n"
    )
}

/// A container that runs a script.
fn script(name: &str, text: &str, rest: &str) -> String {
    format!(
        "  - name: {name}\n    image: 'setpoint.local/box:v1'\n    command: [/usr/bin/sh, -c, {}]\n    {rest}\n",
        json!(text)
    )
}

const USR: &str = "{name: usr, hostPath: {path: /usr}}";
const MOUNT: &str = "{name: usr, mountPath: /usr, readOnly: true}";

fn manifest(directory: &Path) -> String {
    let path = "{name: PATH, value: /usr/bin}";
    let plain = format!("env: [{path}]\n    volumeMounts: [{MOUNT}]");
    let maps = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: map}\ndata: {color: blue, file: text}\n---\n\
                apiVersion: v1\nkind: Secret\nmetadata: {name: secret}\nstringData: {word: open}\n---\n";
    let whole = pod(
        "whole",
        &format!(
            "hostAliases: [{{ip: 192.0.2.7, hostnames: [there]}}]\n  volumes: [{USR}, {{name: made, emptyDir: {{}}}}, \
             {{name: map, configMap: {{name: map}}}}]\n  initContainers:"
        ),
        &(script(
            "first",
            "echo made by init > /made/deep.txt",
            &format!("env: [{path}]\n    volumeMounts: [{MOUNT}, {{name: made, mountPath: /made, subPath: deep/er}}]"),
        ) + &script(
            "beside",
            "trap 'exit 0' TERM; while :; do sleep 1; done",
            &format!("restartPolicy: Always\n    {plain}"),
        ) + "  containers:\n"
            + &script(
                "main",
                "echo $COLOR $WORD $NAME $SAID $GREETING; cat /all/deep/er/deep.txt; cat /one; echo; \
                 grep there /etc/hosts | tr '\\t' ' '; hostname; echo ready > /made/ready; echo to stderr >&2; \
                 trap 'exit 0' TERM; while :; do sleep 1; done",
                &format!(
                    "env: [{path}, {{name: GREETING, value: 'hi $(NAME)'}}, \
                     {{name: NAME, valueFrom: {{fieldRef: {{fieldPath: metadata.name}}}}}}, \
                     {{name: SAID, valueFrom: {{fieldRef: {{fieldPath: \"metadata.annotations['said']\"}}}}}}, \
                     {{name: COLOR, valueFrom: {{configMapKeyRef: {{name: map, key: color}}}}}}, \
                     {{name: WORD, valueFrom: {{secretKeyRef: {{name: secret, key: word}}}}}}]\n    \
                     resources: {{requests: {{cpu: 10m, memory: 16Mi}}, limits: {{cpu: 500m, memory: 64Mi}}}}\n    \
                     readinessProbe: {{exec: {{command: [/usr/bin/cat, /made/ready]}}, periodSeconds: 1}}\n    \
                     volumeMounts: [{MOUNT}, {{name: made, mountPath: /made}}, {{name: made, mountPath: /all}}, \
                     {{name: map, mountPath: /one, subPath: file}}]"
                ),
            )),
    );
    let fails = pod(
        "fails",
        &format!("restartPolicy: Never\n  volumes: [{USR}]\n  containers:"),
        &script("c", "echo last words > /dev/termination-log; exit 3", &plain),
    );
    let falls = pod(
        "falls-back",
        &format!("restartPolicy: Never\n  volumes: [{USR}]\n  containers:"),
        &script("c", "echo a line; exit 4", &format!("terminationMessagePolicy: FallbackToLogsOnError\n    {plain}")),
    );
    let again = pod(
        "again",
        &format!("restartPolicy: OnFailure\n  volumes: [{USR}, {{name: made, emptyDir: {{}}}}]\n  containers:"),
        &script(
            "c",
            "[ -e /made/once ] && echo twice && exit 0; touch /made/once; exit 1",
            &format!("env: [{path}]\n    volumeMounts: [{MOUNT}, {{name: made, mountPath: /made}}]"),
        ),
    );
    let other = pod(
        "other-user",
        &format!(
            "restartPolicy: Never\n  \
             securityContext: {{runAsUser: 65534, runAsGroup: 65534, fsGroup: 7, runAsNonRoot: true}}\n  \
             volumes: [{USR}]\n  containers:"
        ),
        &script(
            "c",
            "id -u; id -g; id -G; touch /no 2>/dev/null && echo written; grep NoNewPrivs /proc/self/status",
            &format!(
                "securityContext: {{readOnlyRootFilesystem: true, allowPrivilegeEscalation: false, \
                 capabilities: {{drop: [ALL]}}}}\n    {plain}"
            ),
        ),
    );
    let missing = "apiVersion: v1\nkind: Pod\nmetadata: {name: no-program}\nspec:\n  \
                   restartPolicy: Never\n  containers:\n  \
                   - {name: c, image: 'setpoint.local/box:v1', command: [/no/such/program]}\n---\n";
    let left = directory.display();
    let graceful = pod(
        "graceful",
        &format!("volumes: [{USR}, {{name: left, hostPath: {{path: {left}}}}}]\n  containers:"),
        &script(
            "c",
            "trap 'echo graceful > /left/words; exit 0' TERM; while :; do sleep 1; done",
            &format!(
                "env: [{path}]\n    lifecycle: {{preStop: {{exec: {{command: [/usr/bin/touch, /left/before]}}}}}}\n    \
                 volumeMounts: [{MOUNT}, {{name: left, mountPath: /left}}]"
            ),
        ),
    );
    maps.to_owned() + &whole + &fails + &falls + &again + &other + missing + &graceful
}

/// What is left of a status when what passes is taken out.
fn lasting(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(name, _)| !PASSING.contains(&name.as_str()));
            kept.map(|(name, value)| (name.clone(), lasting(value))).collect::<serde_json::Map<_, _>>().into()
        }
        Value::Array(items) => items.iter().map(lasting).collect(),
        // A name made at random.
        Value::String(text) if text.starts_with("kube-api-access-") => "kube-api-access".into(),
        other => other.clone(),
    }
}

fn get(server: &Server, what: &[&str]) -> Value {
    let words = [&["get"], what, &["-o", "json"]].concat();
    serde_json::from_str(&server.kubectl(&words).unwrap_or_default()).unwrap_or_default()
}

fn phase(server: &Server, pod: &str) -> String {
    get(server, &["pod", pod])["status"]["phase"].as_str().unwrap_or("").to_owned()
}

fn is_ready(server: &Server, pod: &str) -> bool {
    meta::condition::is_true(&get(server, &["pod", pod]), "Ready")
}

/// What a command said and how it ended.
fn run(server: &Server, words: &[&str], input: &str) -> String {
    let mut command = server.command(words);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("runs");
    let mut stdin = child.stdin.take().expect("its input");
    // Who takes no input may close it.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{:?} {} {}", output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// A page through a forwarded port.
fn fetched(server: &Server, pod: &str) -> String {
    use std::io::{BufRead, BufReader, Read};
    let mut command = server.command(&["port-forward", pod, ":8080"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("runs");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("its output")).read_line(&mut line).expect("a line");
    let port = line.split("127.0.0.1:").nth(1).and_then(|rest| rest.split(' ').next()).expect("a port").to_owned();
    let mut stream = std::net::TcpStream::connect(format!("127.0.0.1:{port}")).expect("connected");
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").expect("written");
    let mut bytes = Vec::new();
    // Its end may be a reset: the server closes what it has answered.
    let _ = stream.read_to_end(&mut bytes);
    child.kill().expect("killed");
    child.wait().expect("ended");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Runs everything and tells how it ended.
fn outcome(server: &Server, directory: &Path) -> BTreeMap<String, Value> {
    let (file, left) = (directory.join("pods.yaml"), directory.join("left"));
    std::fs::create_dir_all(&left).expect("a directory");
    std::fs::write(&file, manifest(&left)).expect("written");
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/web.yaml");
    for file in [&file, &web] {
        wait_for("the API", || server.kubectl(&["apply", "--server-side", "-f", file.to_str().expect("a path")]));
    }
    let mut found = BTreeMap::new();
    let names = ["whole", "fails", "falls-back", "again", "other-user", "no-program", "graceful"];
    for name in ["fails", "falls-back", "again", "other-user", "no-program"] {
        wait_for(name, || matches!(phase(server, name).as_str(), "Succeeded" | "Failed").then_some(()));
    }
    wait_for("the whole pod", || is_ready(server, "whole").then_some(()));
    wait_for("the graceful pod", || is_ready(server, "graceful").then_some(()));
    let ready = || get(server, &["deployment", "web"])["status"]["readyReplicas"] == json!(5);
    wait_for("five replicas", || ready().then_some(()));
    for name in names {
        found.insert(name.to_owned(), lasting(&get(server, &["pod", name])["status"]));
    }
    found.insert("web".to_owned(), lasting(&get(server, &["deployment", "web"])["status"]));
    for name in ["whole", "again", "other-user", "falls-back"] {
        let log = run(server, &["logs", name, "--all-containers=false"], "");
        // Nothing orders what a program writes to one pipe and what it writes to another.
        let (to_stderr, to_stdout): (Vec<&str>, Vec<&str>) = log.lines().partition(|line| *line == "to stderr");
        found.insert(format!("log of {name}"), json!([to_stdout, to_stderr]));
    }
    let commands: [(&str, &[&str], &str); 4] = [
        ("exec", &["exec", "whole", "--", "sh", "-c", "echo out; echo err >&2; exit 7"], ""),
        ("input", &["exec", "-i", "whole", "--", "cat"], "one\ntwo\n"),
        ("no command", &["exec", "whole", "--", "/no/such"], ""),
        ("tail", &["logs", "again", "--tail=1"], ""),
    ];
    for (name, words, input) in commands {
        let said = run(server, words, input);
        // Each runtime has its own words for it.
        let said = if name == "no command" { said.split(' ').next().unwrap_or("").to_owned() } else { said };
        found.insert(name.to_owned(), said.into());
    }
    found.insert("forwarded".to_owned(), fetched(server, "deployment/web").into());
    server.kubectl(&["delete", "pod", "graceful"]).expect("deleted");
    found.insert("words".to_owned(), std::fs::read_to_string(left.join("words")).unwrap_or_default().into());
    found.insert("before".to_owned(), left.join("before").exists().into());
    found
}

fn take_down(server: &Server) {
    server.kubectl(&["delete", "deployment", "web", "--wait=false"]).expect("deleted");
    server.kubectl(&["delete", "pods", "--all", "--wait=false"]).expect("deleted");
    wait_for("the pods to go", || server.pods().is_empty().then_some(()));
}

/// What runtimes may differ in.
fn comparable(mut outcome: BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    // A program that is not there: the words and the code are the runtime's own.
    if let Some(status) = outcome.get_mut("no-program") {
        let ended = &mut status["containerStatuses"][0]["state"]["terminated"];
        assert_eq!(ended["reason"], "StartError");
        for field in ["message", "exitCode"] {
            ended[field] = Value::Null;
        }
    }
    // In the order in which they came to be known.
    for status in outcome.values_mut().filter(|status| status["conditions"].is_array()) {
        let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        conditions.sort_by_key(|condition| condition["type"].to_string());
        status["conditions"] = conditions.into();
    }
    outcome
}

/// The pod's container is given more, by the runtime and without a restart.
fn is_resized(server: &Server, name: &str) {
    let more = json!({"requests": {"cpu": "20m"}, "limits": {"cpu": "200m"}});
    let patch = json!({"spec": {"containers": [{"name": "c", "resources": more}]}}).to_string();
    server.kubectl(&["patch", "pod", name, "--subresource", "resize", "-p", &patch]).expect("patched");
    let status = wait_for("more to be given", || {
        let pod = get(server, &["pod", name]);
        let is_there = ["PodResizePending", "PodResizeInProgress"].iter().any(|t| condition::find(&pod, t).is_some());
        let status = pod["status"]["containerStatuses"][0].clone();
        (status["resources"] == more && !is_there).then_some(status)
    });
    assert_eq!(status["restartCount"], 0);
}

/// As on a full disk: an image that nothing needs is removed; the one that a pod runs on and the one that sandboxes wait
/// in are not.
fn unused_images_go(containerd: &Containerd, server: &mut Server, binary: &Path, data: &Path, exported: &Path) {
    let has = |name: &str| {
        let listed = containerd.ctr(&["images", "list", "-q"]).unwrap_or_default();
        listed.lines().any(|line| line == name)
    };
    let (idle, used, pause) = ("example.com/idle:v1", "example.com/used:v1", "setpoint.local/pause:v1");
    containerd.import_variant(exported, idle, &["sleep", "1"]);
    containerd.import_variant(exported, used, &["serve"]);
    // So critical that it stays on a full disk.
    let pod = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: user}}\nspec: {{terminationGracePeriodSeconds: 1, priorityClassName: \
         system-node-critical, containers: [{{name: c, image: '{used}', imagePullPolicy: Never}}]}}\n"
    );
    let file = data.join("user.yaml");
    std::fs::write(&file, pod).expect("written");
    server.kubectl(&["apply", "-f", file.to_str().expect("a path")]).expect("applied");
    wait_for("the pod of an image", || is_ready(server, "user").then_some(()));
    assert!([idle, used, pause].iter().all(|name| has(name)));
    server.kill();
    let endpoint = containerd.endpoint();
    let full = ["--eviction-hard", "imagefs.available<1Ei", "--minimum-image-ttl-duration", "0s", "--cri", &endpoint];
    *server = Server::start_with(binary, data, &full);
    wait_for("the idle image to go", || (!has(idle)).then_some(()));
    assert!(has(used) && has(pause));
    wait_for("the API again", || server.kubectl(&["get", "--raw", "/readyz"]));
    assert!(is_ready(server, "user"));
}

/// The node tells what a pod has sent and written, though another program runs it.
fn is_measured(server: &Server, name: &str) {
    let summary = server.kubectl(&["get", "--raw", "/api/v1/nodes/test-node/proxy/stats/summary"]).expect("a summary");
    let summary: Value = serde_json::from_str(&summary).expect("JSON");
    let pods = summary["pods"].as_array().expect("pods");
    let pod = pods.iter().find(|pod| pod["podRef"]["name"] == name).unwrap_or_else(|| panic!("no {name}: {summary}"));
    assert_eq!(pod["network"]["name"], "eth0", "{pod}");
    for path in ["/network/rxBytes", "/ephemeral-storage/usedBytes", "/containers/0/rootfs/capacityBytes"] {
        assert!(pod.pointer(path).and_then(Value::as_u64).is_some_and(|number| number > 0), "{path}: {pod}");
    }
}

#[test]
fn pods_end_up_the_same_on_containerd() {
    let (Some(binary), true) = (binary(), is_alone()) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let Some(mut containerd) = Containerd::start(&directory.path().join("containerd")) else { return };

    let own = directory.path().join("own");
    std::fs::create_dir(&own).expect("a directory");
    let server = Server::start(&binary, &own);
    let expected = comparable(outcome(&server, &own));
    take_down(&server);
    drop(server);
    let exported = containerd.import_pause(&binary, &own);

    let other = directory.path().join("other");
    std::fs::create_dir(&other).expect("a directory");
    let endpoint = containerd.endpoint();
    let more = ["--eviction-hard", "", "--cri", endpoint.as_str()];
    let mut server = Server::start_with(&binary, &other, &more);
    let found = comparable(outcome(&server, &other));
    for (name, expected) in &expected {
        assert_eq!(found.get(name), Some(expected), "{name}");
    }
    let runtime = get(&server, &["node", "test-node"])["status"]["nodeInfo"]["containerRuntimeVersion"].clone();
    assert!(runtime.as_str().is_some_and(|text| text.starts_with("containerd://")), "{runtime}");

    is_measured(&server, "whole");

    // The server is lost, then containerd: what runs goes on, and is known again.
    let identity = |server: &Server| get(server, &["pod", "whole"])["status"]["containerStatuses"].clone();
    let before = identity(&server);
    server.kill();
    let server = Server::start_with(&binary, &other, &more);
    wait_for("the API again", || server.kubectl(&["get", "--raw", "/readyz"]));
    containerd.restart();
    let again = "apiVersion: v1\nkind: Pod\nmetadata: {name: after}\nspec: {terminationGracePeriodSeconds: 1, \
                 containers: [{name: c, image: 'setpoint.local/box:v1', args: [sleep], \
                 resources: {requests: {cpu: 10m}, limits: {cpu: 100m}}}]}\n";
    let file = other.join("after.yaml");
    std::fs::write(&file, again).expect("written");
    server.kubectl(&["apply", "-f", file.to_str().expect("a path")]).expect("applied");
    wait_for("a pod after all that", || is_ready(&server, "after").then_some(()));
    is_resized(&server, "after");
    wait_for("the first pod's status", || (identity(&server) == before).then_some(()));

    let mut server = server;
    unused_images_go(&containerd, &mut server, &binary, &other, &exported);

    // Deleted, nothing is left.
    take_down(&server);
    wait_for("the containers to go", || {
        let left = containerd.ctr(&["containers", "list", "-q"]).unwrap_or_default();
        let addresses = std::fs::read_dir(other.join("cni")).into_iter().flatten().flatten();
        let taken = addresses.filter(|entry| entry.file_name().to_string_lossy().starts_with("10.")).count();
        (left.trim().is_empty() && taken == 0).then_some(())
    });
}
