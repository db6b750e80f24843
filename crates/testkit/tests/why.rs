//! `setpoint why` on forty broken manifests, on a real node: as root, with this machine's kernel, the built-in image and no
//! registry. Each is broken in one way; the answer must name that one, on the object where it is.

mod machine;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use machine::{Server, binary, is_alone, look_for};

/// How long a cause may take to show. Long: nothing here measures time.
const PATIENCE: Duration = Duration::from_secs(120);

/// One broken thing: what is declared, what is asked about, and what the answer must hold.
struct Case {
    object: String,
    manifests: Vec<Value>,
    reason: &'static str,
    message: &'static str,
}

fn case(object: &str, manifests: Vec<Value>, reason: &'static str, message: &'static str) -> Case {
    Case { object: object.to_owned(), manifests, reason, message }
}

/// A container of the built-in image that sleeps, with what is different.
fn container(different: Value) -> Value {
    let mut container = json!({"name": "c", "image": "setpoint.local/box:v1", "args": ["sleep", "infinity"]});
    merge(&mut container, different);
    container
}

fn merge(into: &mut Value, different: Value) {
    match (into, different) {
        (Value::Object(into), Value::Object(different)) => {
            for (key, value) in different {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, different) => *into = different,
    }
}

fn spec(main: Value, different: Value) -> Value {
    let mut spec = json!({"terminationGracePeriodSeconds": 0, "containers": [container(main)]});
    merge(&mut spec, different);
    spec
}

/// A pod that is broken by its container, or by its own fields.
fn pod(name: &str, main: Value, different: Value, reason: &'static str, message: &'static str) -> Case {
    let manifest =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec(main, different)});
    case(&format!("pod/{name}"), vec![manifest], reason, message)
}

/// A Deployment whose pods are broken.
fn deployment(name: &str, main: Value, different: Value, reason: &'static str, message: &'static str) -> Case {
    let manifest = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec(main, different)}}});
    case(&format!("deployment/{name}"), vec![manifest], reason, message)
}

fn volume(source: Value) -> Value {
    let mut volume = json!({"name": "v"});
    merge(&mut volume, source);
    json!({"volumes": [volume]})
}

fn mounted() -> Value {
    json!({"volumeMounts": [{"name": "v", "mountPath": "/v"}]})
}

fn probe(kind: &str, action: Value) -> Value {
    let mut probe = json!({"periodSeconds": 1, "failureThreshold": 1});
    merge(&mut probe, action);
    json!({kind: probe})
}

fn images_and_commands() -> Vec<Case> {
    let none = || json!({});
    vec![
        deployment(
            "no-registry",
            json!({"image": "127.0.0.1:1/none:v1"}),
            none(),
            "ErrImagePull|ImagePullBackOff",
            "127.0.0.1:1",
        ),
        deployment(
            "never-pulled",
            json!({"image": "127.0.0.1:1/none:v2", "imagePullPolicy": "Never"}),
            none(),
            "ErrImageNeverPull",
            "v2",
        ),
        pod("bad-name", json!({"image": "127.0.0.1:1/UPPER:v1"}), none(), "InvalidImageName", "UPPER"),
        pod(
            "no-command",
            json!({"command": ["/bin/absent"]}),
            none(),
            "StartError|CreateContainerError|RunContainerError|CommandNotFound",
            "/bin/absent",
        ),
        pod(
            "no-program",
            json!({"command": ["/etc"]}),
            none(),
            "StartError|CreateContainerError|RunContainerError|CommandNotFound",
            "/etc",
        ),
        deployment("exits-with-3", json!({"args": ["exit", "3"]}), none(), "Crashing", "exit code 3"),
        deployment("exits-well", json!({"args": ["exit", "0"]}), none(), "Crashing", "exit code 0"),
        pod(
            "ends-for-good",
            json!({"args": ["exit", "7"]}),
            json!({"restartPolicy": "Never"}),
            "Crashing",
            "exit code 7",
        ),
    ]
}

fn probes_and_memory() -> Vec<Case> {
    let none = || json!({});
    let http = |port: u16| json!({"httpGet": {"path": "/healthz", "port": port}});
    vec![
        deployment("never-ready", probe("readinessProbe", http(9)), none(), "NotReady", "readiness|Readiness"),
        pod("tcp-refused", probe("readinessProbe", json!({"tcpSocket": {"port": 9}})), none(), "NotReady", "refused"),
        pod(
            "exec-fails",
            probe("readinessProbe", json!({"exec": {"command": ["/bin/box", "exit", "1"]}})),
            none(),
            "NotReady",
            "",
        ),
        pod("killed-by-liveness", probe("livenessProbe", http(9)), none(), "Crashing|Unhealthy|NotReady", ""),
        pod("never-starts", probe("startupProbe", http(9)), none(), "Crashing|Unhealthy|NotReady", ""),
        pod(
            "gate",
            none(),
            json!({"readinessGates": [{"conditionType": "example.com/open"}]}),
            "ReadinessGatesNotReady",
            "example.com/open",
        ),
        deployment(
            "too-hungry",
            json!({"args": ["allocate", "256"], "resources": {"limits": {"memory": "48Mi"}}}),
            none(),
            "OOMKilled",
            "memory",
        ),
    ]
}

fn mounts_and_maps() -> Vec<Case> {
    let none = || json!({});
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "unbound"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "absent", "resources": {"requests": {"storage": "1Gi"}}}});
    let environment = |source: Value| json!({"env": [{"name": "A", "valueFrom": source}]});
    vec![
        pod("no-map", mounted(), volume(json!({"configMap": {"name": "absent-map"}})), "FailedMount", "absent-map"),
        pod(
            "no-secret",
            mounted(),
            volume(json!({"secret": {"secretName": "absent-secret"}})),
            "FailedMount",
            "absent-secret",
        ),
        pod(
            "no-host-path",
            mounted(),
            volume(json!({"hostPath": {"path": "/absent-path", "type": "Directory"}})),
            "FailedMount",
            "/absent-path",
        ),
        pod(
            "no-claim",
            mounted(),
            volume(json!({"persistentVolumeClaim": {"claimName": "absent-claim"}})),
            "Unschedulable",
            "absent-claim",
        ),
        case("pvc/unbound", vec![claim], "", "absent"),
        pod(
            "no-map-for-environment",
            environment(json!({"configMapKeyRef": {"name": "absent-map", "key": "a"}})),
            none(),
            "CreateContainerConfigError",
            "absent-map",
        ),
        pod(
            "no-secret-for-environment",
            environment(json!({"secretKeyRef": {"name": "absent-secret", "key": "a"}})),
            none(),
            "CreateContainerConfigError",
            "absent-secret",
        ),
        deployment(
            "no-key",
            environment(json!({"configMapKeyRef": {"name": "kube-root-ca.crt", "key": "absent-key"}})),
            none(),
            "CreateContainerConfigError",
            "absent-key",
        ),
        pod(
            "runs-as-root",
            json!({"securityContext": {"runAsNonRoot": true}}),
            none(),
            "CreateContainerConfigError",
            "root",
        ),
    ]
}

fn places() -> Vec<Case> {
    let none = || json!({});
    let affinity = json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["fast"]}]}]}}}});
    let asking = |resource: &str, amount: &str| json!({"resources": {"requests": {resource: amount}}});
    vec![
        deployment("too-much-cpu", asking("cpu", "4000"), none(), "Unschedulable", "Insufficient cpu"),
        pod("too-much-memory", asking("memory", "4000Gi"), none(), "Unschedulable", "Insufficient memory"),
        pod(
            "no-such-device",
            json!({"resources": {"limits": {"example.com/gpu": "1"}}}),
            none(),
            "Unschedulable",
            "example.com/gpu",
        ),
        pod(
            "no-such-label",
            none(),
            json!({"nodeSelector": {"disk": "fast"}}),
            "Unschedulable",
            "node affinity/selector|node selector",
        ),
        pod("no-such-affinity", none(), affinity, "Unschedulable", "node affinity"),
        pod("gated", none(), json!({"schedulingGates": [{"name": "example.com/wait"}]}), "SchedulingGated", "gate"),
    ]
}

fn refusals() -> Vec<Case> {
    let workload = |namespace: &str, name: &str, different: Value| {
        let mut manifest = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": namespace},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": {"app": name}}, "spec": spec(json!({}), json!({}))}}});
        merge(&mut manifest, different);
        manifest
    };
    let namespace = |name: &str, labels: Value| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": "small"}, "spec": {"hard": {"pods": "0"}}});
    let range = json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "range", "namespace": "narrow"},
        "spec": {"limits": [{"type": "Container", "max": {"cpu": "100m"}}]}});
    let greedy = json!({"spec": {"template": {"spec": {"containers": [container(json!({"resources": {"limits": {"cpu": "2"}}}))]}}}});
    let privileged = json!({"spec": {"template": {"spec": {"hostNetwork": true}}}});
    let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "no-pods"},
        "spec": {"failurePolicy": "Fail", "matchConstraints": {"namespaceSelector": {"matchLabels": {"strict": "yes"}},
            "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]},
            "validations": [{"expression": "false", "message": "no pods may be made here"}]}});
    let binding = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "no-pods"},
        "spec": {"policyName": "no-pods", "validationActions": ["Deny"]}});
    let account = json!({"spec": {"template": {"spec": {"serviceAccountName": "absent-account"}}}});
    let paused = json!({"spec": {"paused": true}});
    vec![
        case(
            "deployment/over-quota -n small",
            vec![namespace("small", json!({})), quota, workload("small", "over-quota", json!({}))],
            "FailedCreate",
            "exceeded quota: few",
        ),
        case(
            "deployment/over-range -n narrow",
            vec![namespace("narrow", json!({})), range, workload("narrow", "over-range", greedy)],
            "FailedCreate",
            "maximum cpu",
        ),
        case(
            "deployment/unsafe -n safe",
            vec![
                namespace("safe", json!({"pod-security.kubernetes.io/enforce": "baseline"})),
                workload("safe", "unsafe", privileged),
            ],
            "FailedCreate",
            "violates PodSecurity",
        ),
        case(
            "deployment/denied -n strict",
            vec![
                namespace("strict", json!({"strict": "yes"})),
                policy,
                binding,
                workload("strict", "denied", json!({})),
            ],
            "FailedCreate",
            "no pods may be made here",
        ),
        case(
            "deployment/no-account",
            vec![workload("default", "no-account", account)],
            "FailedCreate",
            "absent-account",
        ),
        case("deployment/paused", vec![workload("default", "paused", paused)], "Paused", "paused"),
    ]
}

fn jobs_and_sets() -> Vec<Case> {
    let failing = || spec(json!({"args": ["exit", "1"]}), json!({"restartPolicy": "Never"}));
    let job = |name: &str, different: Value| {
        let mut manifest = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
            "spec": {"backoffLimit": 0, "template": {"spec": failing()}}});
        merge(&mut manifest, different);
        manifest
    };
    let late = json!({"spec": {"activeDeadlineSeconds": 1, "template": {"spec": spec(json!({}), json!({"restartPolicy": "Never"}))}}});
    let set = |kind: &str, name: &str| {
        json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": {"metadata": {"labels": {"app": name}},
            "spec": spec(json!({"args": ["exit", "5"]}), json!({}))}}})
    };
    vec![
        case("job/fails", vec![job("fails", json!({}))], "BackoffLimitExceeded|Crashing", ""),
        case("job/late", vec![job("late", late)], "DeadlineExceeded", ""),
        case("statefulset/crashing-set", vec![set("StatefulSet", "crashing-set")], "Crashing", "exit code 5"),
        case("daemonset/crashing-agents", vec![set("DaemonSet", "crashing-agents")], "Crashing", "exit code 5"),
    ]
}

/// Things that are held while they are being deleted.
fn held() -> Vec<Case> {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "finalizers": ["example.com/hold"]}});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "full"}});
    let inside = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "inside", "namespace": "full", "finalizers": ["example.com/stay"]}});
    vec![
        case("configmap/held", vec![map], "Deleting", "example.com/hold"),
        case("namespace/full", vec![namespace, inside], "Deleting", "example.com/stay|remaining"),
    ]
}

/// The machine's server, asked with its own program.
struct Asker {
    machine: Server,
    directory: PathBuf,
    binary: PathBuf,
}

impl Asker {
    fn run(&self, words: &[&str]) -> std::process::Output {
        let kubeconfig = self.directory.join("kubeconfig");
        Command::new(&self.binary).env("KUBECONFIG", kubeconfig).args(words).output().expect("it runs")
    }

    fn apply(&self, name: &str, manifests: &[Value]) {
        let file = self.directory.join(format!("{}.json", name.replace(['/', ' '], "-")));
        std::fs::write(&file, json!({"apiVersion": "v1", "kind": "List", "items": manifests}).to_string())
            .expect("written");
        let file = file.to_str().expect("a path");
        let mut said = String::new();
        let applied = look_for(PATIENCE, || {
            let output = self.run(&["apply", "--yes", "--no-wait", "-f", file]);
            said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
            output.status.success().then_some(())
        });
        assert!(applied.is_some(), "{name}: {said}");
    }

    /// Whether the answer to why names the cause, and the answer.
    fn explains(&self, case: &Case) -> (bool, String) {
        let mut words = vec!["why", "-o", "json"];
        words.extend(case.object.split(' '));
        let output = self.run(&words);
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let text = |field: &str| answer["cause"][field].as_str().unwrap_or("").to_owned();
        let fits = |found: &str, expected: &str| expected.split('|').any(|one| found.contains(one));
        let (reason, message) = (text("reason"), text("message"));
        let is_so = !answer["cause"].is_null()
            && fits(&reason, case.reason)
            && fits(&message, case.message)
            && !text("next").is_empty();
        (is_so, format!("{reason}: {message} ({})", String::from_utf8_lossy(&output.stderr).trim()))
    }
}

#[test]
fn why_finds_the_cause_of_forty_broken_manifests() {
    let (Some(binary), true) = (binary(), is_alone()) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let machine = Server::start(&binary, directory.path());
    let asker = Asker { machine, directory: directory.path().to_owned(), binary };
    let mut cases = images_and_commands();
    cases.extend(probes_and_memory());
    cases.extend(mounts_and_maps());
    cases.extend(places());
    cases.extend(refusals());
    cases.extend(jobs_and_sets());
    let held = held();
    assert!(cases.len() + held.len() >= 40, "{}", cases.len() + held.len());
    for case in cases.iter().chain(&held) {
        for (step, manifest) in case.manifests.iter().enumerate() {
            asker.apply(&format!("{}-{step}", case.object), std::slice::from_ref(manifest));
        }
    }
    for case in &held {
        let words: Vec<&str> = case.object.split('/').collect();
        let (kind, name) = (words[0], words[1]);
        let plural = if kind == "configmap" { "namespaces/default/configmaps" } else { "namespaces" };
        let path = format!("/api/v1/{plural}/{name}");
        let output = asker.machine.command(&["delete", "--raw", &path]).output().expect("kubectl runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let mut open: Vec<&Case> = cases.iter().chain(&held).collect();
    let all = open.len();
    let _ = look_for(PATIENCE, || {
        open.retain(|case| !asker.explains(case).0);
        open.is_empty().then_some(())
    });
    println!("{} of {all} causes found", all - open.len());
    let told = open.iter().map(|case| {
        format!("{}: wanted {}: {}; got {}", case.object, case.reason, case.message, asker.explains(case).1)
    });
    let told: Vec<String> = told.collect();
    // What runs goes with its test.
    let all = "deployments,statefulsets,daemonsets,jobs,pods";
    asker.machine.kubectl(&["delete", all, "--all", "-A", "--grace-period=1", "--timeout=60s"]);
    assert!(told.is_empty(), "{}", told.join("\n"));
}
