//! Figures of a real node on this machine, with containers that run. It needs root; in a network of its own (`unshare -n`
//! and the loopback interface up) it meets no other node.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use super::client::Connection;
use super::cluster::until_every;
use super::figures::{expect, ms, percentile, row};
use super::server::{Server, now};

const PODS: &str = "/api/v1/namespaces/default/pods";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
/// How often a pod is made on a node that is warm.
const CREATIONS: usize = 100;
const MANY: usize = 200;
const IDLE: usize = 100;
const EXECS: usize = 20;
const REST: Duration = Duration::from_secs(20);
/// How often it is looked: below what is measured, and a look at one object costs next to nothing.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// The options that the server of these figures wants.
pub const OPTIONS: &[&str] = &["--node", "bench", "--max-pods", "250", "--eviction-hard", ""];

/// Measures all of them.
pub async fn measure(binary: &Path) -> Result<(), String> {
    let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
    let begun = now();
    let server = Server::start(binary, dir.path(), OPTIONS).await?;
    let mut connection = server.client.connect().await?;
    create_when_possible(&mut connection, &pod("first")).await?;
    until_every(LOOK_EVERY, &mut connection, &format!("{PODS}/first"), is_ready).await?;
    row("cold start to the first pod ready", ms(begun.elapsed()), "new data directory, spawn to Ready");
    creations(&mut connection).await?;
    // First: what many pods have taken, the server keeps for the next ones.
    idle(&server, &mut connection, dir.path()).await?;
    scale(&mut connection, 0).await?;
    many(&server, &mut connection).await?;
    execs(&dir.path().join("kubeconfig"))?;
    scale(&mut connection, 0).await?;
    delete(&mut connection, "first").await
}

/// The service account of the namespace is made a moment after the start.
async fn create_when_possible(connection: &mut Connection, pod: &Value) -> Result<(), String> {
    loop {
        match connection.send("POST", PODS, Some(Bytes::from(pod.to_string()))).await? {
            (201, _) => return Ok(()),
            (403, _) => tokio::time::sleep(LOOK_EVERY).await,
            (status, body) => return Err(format!("{status}: {}", String::from_utf8_lossy(&body))),
        }
    }
}

async fn creations(connection: &mut Connection) -> Result<(), String> {
    let (mut ready, mut gone) = (Vec::new(), Vec::new());
    for at in 0..CREATIONS {
        let (name, begun) = (format!("warm-{at}"), now());
        create_when_possible(connection, &pod(&name)).await?;
        until_every(LOOK_EVERY, connection, &format!("{PODS}/{name}"), is_ready).await?;
        ready.push(begun.elapsed());
        let begun = now();
        delete(connection, &name).await?;
        gone.push(begun.elapsed());
    }
    for (what, mut spans) in [("warm create to Ready", ready), ("delete to gone", gone)] {
        spans.sort();
        let note = format!("p99 {}, of {CREATIONS} one after the other", ms(percentile(&spans, 99)));
        row(&format!("{what}, one pod, p50"), ms(percentile(&spans, 50)), &note);
    }
    Ok(())
}

async fn delete(connection: &mut Connection, name: &str) -> Result<(), String> {
    let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 1});
    let path = format!("{PODS}/{name}");
    expect(connection.send("DELETE", &path, Some(Bytes::from(options.to_string()))).await?, 200)?;
    until_every(LOOK_EVERY, connection, &path, |status, _| status == 404).await
}

async fn many(server: &Server, connection: &mut Connection) -> Result<(), String> {
    let (processor, begun) = (server.processor_s(), now());
    scale(connection, MANY).await?;
    let note = format!("{:.1} s of the server's processor", server.processor_s() - processor);
    row("200 pods at once, all ready", ms(begun.elapsed()), &note);
    Ok(())
}

/// One Deployment with so many pods, all of them ready and the others gone.
async fn scale(connection: &mut Connection, replicas: usize) -> Result<(), String> {
    let labels = json!({"app": "many"});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "many"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": pod("x")["spec"]}},
    });
    let path = format!("{DEPLOYMENTS}/many?fieldManager=bench");
    let (status, body) = connection.send("PATCH", &path, Some(Bytes::from(deployment.to_string()))).await?;
    if status >= 300 {
        return Err(format!("{status}: {}", String::from_utf8_lossy(&body)));
    }
    let is_so = move |_: u16, deployment: &Value| {
        let number = |path: &str| deployment.pointer(path).and_then(Value::as_u64).unwrap_or(0);
        let is_seen = number("/status/observedGeneration") == number("/metadata/generation");
        is_seen && ["replicas", "readyReplicas"].iter().all(|f| number(&format!("/status/{f}")) == replicas as u64)
    };
    until_every(LOOK_EVERY, connection, &format!("{DEPLOYMENTS}/many"), is_so).await?;
    // What was scaled away may still be ending.
    let list = format!("{PODS}?labelSelector=app%3Dmany");
    let has_all = move |_: u16, list: &Value| list["items"].as_array().is_some_and(|pods| pods.len() == replicas);
    until_every(Duration::from_millis(50), connection, &list, has_all).await
}

async fn idle(server: &Server, connection: &mut Connection, data_dir: &Path) -> Result<(), String> {
    scale(connection, 0).await?;
    tokio::time::sleep(REST).await;
    let alone = server.memory_mib();
    scale(connection, IDLE).await?;
    tokio::time::sleep(REST).await;
    let (processor, written, shims) = (server.processor_s(), server.written_bytes(), shims(data_dir));
    let before: f64 = shims.iter().map(|shim| processor_of(shim)).sum();
    tokio::time::sleep(REST).await;
    let share = |seconds: f64| format!("{:.2} %", seconds * 100.0 / REST.as_secs_f64());
    row("100 pods at rest, the server", share(server.processor_s() - processor), "of a core, over 20 s");
    let after: f64 = shims.iter().map(|shim| processor_of(shim)).sum();
    row("100 pods at rest, their shims", share(after - before), "of a core, all together");
    row("100 pods at rest, disk", format!("{} B", server.written_bytes() - written), "over 20 s");
    let own: f64 = shims.iter().map(|shim| private_kib(shim)).sum();
    let each = own / shims.len().max(1) as f64;
    row("memory of a pod, its shim", format!("{each:.0} KiB"), "of its own; the program is shared");
    let each = (server.memory_mib() - alone) * 1024.0 / IDLE as f64;
    row("memory of a pod, in the server", format!("{each:.0} KiB"), &format!("server {:.1} MiB", server.memory_mib()));
    Ok(())
}

/// The processes of the shims.
fn shims(data_dir: &Path) -> Vec<PathBuf> {
    let wanted = data_dir.join("runtime/sandboxes").display().to_string();
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
    all.filter(|path| std::fs::read_to_string(path.join("cmdline")).is_ok_and(|line| line.contains(&wanted))).collect()
}

fn processor_of(process: &Path) -> f64 {
    let stat = std::fs::read_to_string(process.join("stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|number| number.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

fn private_kib(process: &Path) -> f64 {
    let text = std::fs::read_to_string(process.join("smaps_rollup")).unwrap_or_default();
    let lines = text.lines().filter(|line| line.starts_with("Private_"));
    lines.filter_map(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok()).sum()
}

/// With kubectl, where there is one, whose own start is told beside it.
fn execs(kubeconfig: &Path) -> Result<(), String> {
    let tools = std::env::var_os("SETPOINT_TOOLS").map(PathBuf::from);
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache/setpoint/tools"));
    let Some(kubectl) = tools.or(home).map(|tools| tools.join("bin/kubectl-1.37")).filter(|path| path.is_file()) else {
        row("exec round trip", "", "no kubectl to measure it with");
        return Ok(());
    };
    let timed = |words: &[&str]| -> Result<Duration, String> {
        let mut spans = Vec::new();
        for _ in 0..EXECS {
            let begun = now();
            let mut command = Command::new(&kubectl);
            command.arg("--kubeconfig").arg(kubeconfig).args(words).stdin(Stdio::null());
            let output = command.output().map_err(|e| e.to_string())?;
            if !output.status.success() {
                return Err(String::from_utf8_lossy(&output.stderr).into_owned());
            }
            spans.push(begun.elapsed());
        }
        spans.sort();
        Ok(percentile(&spans, 50))
    };
    let whole = timed(&["exec", "first", "--", "/bin/box", "echo", "x"])?;
    let get = timed(&["get", "--raw", "/api/v1/namespaces/default/pods/first"])?;
    row("exec round trip, kubectl, p50", ms(whole), &format!("`kubectl get --raw` of a pod takes {}", ms(get)));
    Ok(())
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [{
            "name": "main", "image": "setpoint.local/box:v1", "args": ["sleep"]}]},
    })
}

fn is_ready(_: u16, pod: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}
