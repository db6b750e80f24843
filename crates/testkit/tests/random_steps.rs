//! Random steps on a real node: pods and Deployments come, change and go while processes, interfaces, control groups and
//! the server itself are taken away. In the end everything is deleted, and nothing may be left.
//!
//! The steps follow from a seed and are printed as they are taken. `SETPOINT_STEPS` says how many (60), `SETPOINT_SEED`
//! which.

mod machine;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use machine::leaks::{self, Held};
use machine::own::{DEPLOYMENTS, Own, PODS, signal};
use machine::{wait_for, wait_long_for};
use rustix::process::Signal;
use serde_json::{Value, json};

const STEPS: u64 = 60;
const SEED: u64 = 20_261_130;
/// Names that pods and Deployments are drawn from: few, so that they meet.
const PODS_MAX: u64 = 8;
const DEPLOYMENTS_MAX: u64 = 3;
const REPLICAS_MAX: u64 = 4;
/// The longest pause between two steps.
const PAUSE_MS: u64 = 90;
/// A container that was killed several times waits before it is started again: 10, 20, 40, 80, 160 seconds.
const SETTLE: Duration = Duration::from_secs(400);
/// Rounds of the same pods on one server, to see what it holds grow.
const ROUNDS: usize = 6;
/// Descriptors more than after the second round: connections and timers come and go.
const DESCRIPTORS_MORE: usize = 6;
/// Memory more than after the second round. A round makes and removes a dozen pods with all their events; a leak of a
/// pod's object and its sandbox is about 64 KiB each, which is 3 MiB in the rounds that are compared.
const MEMORY_MORE_KIB: usize = 12 << 10;

/// What a pod is made for.
const KINDS: [&str; 8] = ["plain", "volumes", "init", "ends", "fails", "probed", "host", "shared"];

/// One step.
#[derive(Clone, Debug)]
enum Step {
    CreatePod { name: u64, kind: &'static str },
    UpdatePod { name: u64, value: u64 },
    DeletePod { name: u64, grace: Option<i64> },
    ApplyDeployment { name: u64, replicas: u64, version: u64 },
    DeleteDeployment { name: u64 },
    KillContainer { nth: u64 },
    KillShim { nth: u64 },
    Unplug { nth: u64 },
    RemoveGroups { nth: u64 },
    RemoveDirectory { nth: u64 },
    KillServer { breaks: Option<u64> },
    StopServer,
}

/// Numbers that follow from a seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    fn step(&mut self) -> Step {
        let kind = KINDS[usize::try_from(self.below(KINDS.len() as u64)).expect("small")];
        match self.below(100) {
            0..25 => Step::CreatePod { name: self.below(PODS_MAX), kind },
            25..30 => Step::UpdatePod { name: self.below(PODS_MAX), value: self.below(1_000) },
            30..45 => Step::DeletePod { name: self.below(PODS_MAX), grace: [None, Some(0)][self.below(2) as usize] },
            45..63 => Step::ApplyDeployment {
                name: self.below(DEPLOYMENTS_MAX),
                replicas: self.below(REPLICAS_MAX + 1),
                version: self.below(3),
            },
            63..67 => Step::DeleteDeployment { name: self.below(DEPLOYMENTS_MAX) },
            67..79 => Step::KillContainer { nth: self.below(1_000) },
            79..83 => Step::KillShim { nth: self.below(1_000) },
            83..88 => Step::Unplug { nth: self.below(1_000) },
            88..92 => Step::RemoveGroups { nth: self.below(1_000) },
            92..94 => Step::RemoveDirectory { nth: self.below(1_000) },
            94..98 => Step::KillServer { breaks: [None, Some(self.below(1_000))][self.below(2) as usize] },
            _ => Step::StopServer,
        }
    }
}

fn pod_spec(kind: &str) -> Value {
    let run = |name: &str, args: &[&str]| json!({"name": name, "image": "setpoint.local/box:v1", "args": args});
    let forever = run("main", &["serve", "8080"]);
    let mut spec = json!({"terminationGracePeriodSeconds": 1, "containers": [forever]});
    match kind {
        "volumes" => {
            spec["volumes"] = json!([
                {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "8Mi"}}, {"name": "disk", "emptyDir": {}},
                {"name": "words", "configMap": {"name": "words", "optional": true}},
            ]);
            spec["containers"][0]["volumeMounts"] = json!([
                {"name": "memory", "mountPath": "/memory"}, {"name": "disk", "mountPath": "/disk"},
                {"name": "words", "mountPath": "/words"},
            ]);
            spec["containers"][0]["resources"] = json!({"requests": {"cpu": "10m"}, "limits": {"memory": "256Mi"}});
        }
        "init" => {
            spec["initContainers"] = json!([run("first", &["echo", "first"]), {
                "name": "side", "image": "setpoint.local/box:v1", "args": ["sleep"], "restartPolicy": "Always"}]);
        }
        "ends" => {
            spec["containers"] = json!([run("main", &["echo", "done"])]);
            spec["restartPolicy"] = json!("Never");
        }
        "fails" => spec["containers"] = json!([run("main", &["exit", "3"]), run("other", &["sleep"])]),
        "probed" => {
            spec["containers"][0]["readinessProbe"] = json!({"httpGet": {"port": 8080}, "periodSeconds": 1});
            spec["containers"][0]["livenessProbe"] =
                json!({"exec": {"command": ["/bin/box", "exit", "0"]}, "periodSeconds": 1});
            spec["containers"][0]["lifecycle"] = json!({
                "postStart": {"exec": {"command": ["/bin/box", "echo", "begun"]}},
                "preStop": {"exec": {"command": ["/bin/box", "sleep", "1"]}}});
        }
        "host" => {
            spec["hostNetwork"] = json!(true);
            spec["containers"] = json!([run("main", &["sleep"])]);
        }
        "shared" => {
            spec["shareProcessNamespace"] = json!(true);
            spec["containers"] = json!([run("main", &["sleep"]), run("other", &["sleep"])]);
        }
        _ => {}
    }
    spec
}

fn pod(name: &str, kind: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": pod_spec(kind)})
}

fn deployment(name: u64, replicas: u64, version: u64) -> Value {
    let (name, labels) = (format!("d{name}"), json!({"app": format!("d{name}")}));
    let kind = ["plain", "volumes", "probed"][version as usize];
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": pod_spec(kind)}},
    })
}

/// One of a list, by any number.
fn pick<T: Clone>(list: &[T], nth: u64) -> Option<T> {
    let at = usize::try_from(nth).ok()?.checked_rem(list.len())?;
    list.get(at).cloned()
}

fn take(own: &mut Own, step: &Step, declared: &mut BTreeMap<u64, u64>) {
    match step {
        Step::CreatePod { name, kind } => {
            let (code, body) = own.call("POST", PODS, &pod(&format!("p{name}"), kind));
            // 403 while the namespace has no service account yet.
            assert!([201, 403, 409].contains(&code), "{body}");
        }
        Step::UpdatePod { name, value } => {
            let mut pod = own.get(&format!("{PODS}/p{name}"));
            if pod.is_object() {
                pod["metadata"]["labels"] = json!({"value": value.to_string()});
                let (code, body) = own.call("PUT", &format!("{PODS}/p{name}"), &pod);
                assert!([200, 404, 409].contains(&code), "{body}");
            }
        }
        Step::DeletePod { name, grace } => own.delete(&format!("{PODS}/p{name}"), *grace),
        Step::ApplyDeployment { name, replicas, version } => {
            own.apply(DEPLOYMENTS, &deployment(*name, *replicas, *version));
            declared.insert(*name, *replicas);
        }
        Step::DeleteDeployment { name } => {
            own.delete(&format!("{DEPLOYMENTS}/d{name}"), None);
            declared.remove(name);
        }
        Step::KillContainer { nth } => kill_container(own, *nth),
        Step::KillShim { nth } => {
            let pid = pick(&own.sandboxes(), *nth).and_then(|dir| std::fs::read_to_string(dir.join("shim.pid")).ok());
            let pid = pid.and_then(|text| text.trim().parse().ok());
            // The number may be nobody's any more, or another's: only a shim is killed.
            if let Some(pid) = pid.filter(|pid| is_of(own, *pid)) {
                signal(pid, Signal::KILL);
            }
        }
        Step::Unplug { nth } => {
            if let Some(name) = pick(&leaks::interfaces(), *nth) {
                let name = name.split('@').next().unwrap_or_default().to_owned();
                // It may be gone by itself meanwhile.
                let _ = std::process::Command::new("ip").args(["link", "del", &name]).output();
            }
        }
        Step::RemoveGroups { nth } => remove_groups(own, *nth),
        Step::RemoveDirectory { nth } => {
            let pods = machine::own::entries(&own.directory.join("node/pods"));
            if let Some(directory) = pick(&pods, *nth) {
                let _ = std::fs::remove_dir_all(directory.join("volumes/disk"));
            }
        }
        Step::KillServer { breaks } => {
            own.kill();
            breaks.iter().for_each(|nth| kill_container(own, *nth));
            own.start();
        }
        Step::StopServer => {
            own.stop();
            own.start();
        }
    }
}

fn is_of(own: &Own, pid: u32) -> bool {
    let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.contains(&own.directory.display().to_string())
}

fn kill_container(own: &Own, nth: u64) {
    let Some((_, pid)) = pick(&own.containers(), nth) else { return };
    let group = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    if group.contains(&own.cgroup_root) {
        signal(pid, Signal::KILL);
    }
}

fn remove_groups(own: &Own, nth: u64) {
    let Some((_, pid)) = pick(&own.containers(), nth) else { return };
    let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let groups: Vec<PathBuf> = text
        .lines()
        .filter_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (names, path) = rest.split_once(':')?;
            let name = names.split(',').next()?;
            path.contains(&own.cgroup_root).then(|| PathBuf::from(format!("/sys/fs/cgroup/{name}{path}")))
        })
        .collect();
    if groups.is_empty() {
        return;
    }
    signal(pid, Signal::KILL);
    for group in groups {
        // Gone by itself, or still busy: both happen.
        let _ = std::fs::remove_dir(&group);
        let _ = group.parent().map(std::fs::remove_dir);
    }
}

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

#[test]
fn random_steps_leave_nothing() {
    let Some(mut own) = Own::new() else { return };
    own.options = ["--compaction-interval", "1"].map(str::to_owned).to_vec();
    own.start();
    let (steps, seed) = (number("SETPOINT_STEPS", STEPS), number("SETPOINT_SEED", SEED));
    println!("seed {seed}, {steps} steps");
    let words = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "words"}, "data": {"a": "b"}});
    own.apply("/api/v1/namespaces/default/configmaps", &words);
    let (mut dice, mut declared) = (Dice(seed), BTreeMap::new());
    let begun = machine::now();
    for at in 0..steps {
        let (step, pause) = (dice.step(), dice.below(PAUSE_MS));
        println!("{at:>5} {:>7} ms  {step:?}, then {pause} ms", begun.elapsed().as_millis());
        take(&mut own, &step, &mut declared);
        machine::pause(Duration::from_millis(pause));
    }
    settle(&own, &declared);
    println!("settled after {} ms", begun.elapsed().as_millis());
    delete_all(&own);
    nothing_is_left(&own);
    println!("clean after {} ms", begun.elapsed().as_millis());
    nothing_grows(&own);
}

/// Every Deployment has the pods that were declared last.
fn settle(own: &Own, declared: &BTreeMap<u64, u64>) {
    for (name, replicas) in declared {
        let wanted = usize::try_from(*replicas).expect("small");
        let mut last = Vec::new();
        wait_long_for(&format!("Deployment d{name} with {wanted} ready pods"), SETTLE, || {
            last = own.ready(&format!("d{name}"));
            (last.len() == wanted).then_some(())
        });
    }
}

fn delete_all(own: &Own) {
    for deployment in own.items(DEPLOYMENTS) {
        own.delete(&format!("{DEPLOYMENTS}/{}", deployment["metadata"]["name"].as_str().expect("a name")), None);
    }
    for pod in own.items(PODS) {
        own.delete(&format!("{PODS}/{}", pod["metadata"]["name"].as_str().expect("a name")), None);
    }
    wait_for("all pods to go", || {
        let left = own.items(PODS);
        // A pod of a Deployment that was just being made.
        for pod in left.iter().filter(|pod| pod["metadata"].get("deletionTimestamp").is_none()) {
            own.delete(&format!("{PODS}/{}", pod["metadata"]["name"].as_str().expect("a name")), None);
        }
        left.is_empty().then_some(())
    });
}

fn nothing_is_left(own: &Own) {
    let begun = machine::now();
    loop {
        let left = leaks::left(own);
        if left.is_empty() {
            return;
        }
        assert!(begun.elapsed() < machine::PATIENCE, "left behind:\n{}", left.join("\n"));
        machine::pause(Duration::from_millis(50));
    }
}

/// The same pods again and again on one server: what it holds does not grow.
fn nothing_grows(own: &Own) {
    let mut seen: Vec<Held> = Vec::new();
    let mut before = Vec::new();
    for round in 0..ROUNDS {
        for (at, kind) in KINDS.iter().chain(&KINDS[..4]).enumerate() {
            own.apply(PODS, &pod(&format!("r{at}"), kind));
        }
        own.apply(DEPLOYMENTS, &deployment(9, 3, 2));
        wait_for("the pods to be begun", || {
            let begun = own.items(PODS).iter().filter(|pod| pod["status"]["startTime"].is_string()).count();
            (begun >= KINDS.len() + 7 && own.ready("d9").len() == 3).then_some(())
        });
        delete_all(own);
        nothing_is_left(own);
        seen.push(leaks::held(own.pid()));
        println!("round {round}: {:?}", seen[round]);
        if round == 1 {
            before = leaks::descriptors(own.pid());
        }
    }
    let (base, last) = (seen[1], seen[ROUNDS - 1]);
    let after = leaks::descriptors(own.pid());
    assert!(last.descriptors <= base.descriptors + DESCRIPTORS_MORE, "{before:?}\n{after:?}");
    assert!(last.memory_kib <= base.memory_kib + MEMORY_MORE_KIB, "{seen:?}");
    assert!(last.threads <= base.threads + 16, "{seen:?}");
    assert!(leaks::bridge().is_some());
}
