//! The figures, each a function of a running server.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::client::Client;
use super::server::{Server, now};
use super::{brains, cluster, node};

/// Clients of the rates, as the targets have it.
const CLIENTS: usize = 64;
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const PODS: &str = "/api/v1/namespaces/default/pods";
const EVENTS: &str = "/api/v1/namespaces/default/events";

/// What is measured and how.
pub struct Bench {
    /// The server's binary.
    pub binary: PathBuf,
    /// How long each rate is loaded.
    pub span: Duration,
    /// Only figures whose name contains this.
    pub only: String,
}

impl Bench {
    /// Measures everything asked for.
    pub async fn run(&self) -> Result<(), String> {
        println!("{:<44} {:>14}  note", "figure", "value");
        if self.wants("start idle") {
            self.start_and_idle().await?;
        }
        if self.wants("create get list watch delete") {
            self.rates().await?;
        }
        if self.wants("pods memory") {
            self.pods().await?;
        }
        if self.wants("restart lists") {
            self.restart_and_lists().await?;
        }
        if self.wants("scheduling") {
            brains::scheduling();
        }
        if self.wants("reconcile tenfold") {
            brains::reconciling();
        }
        if self.wants("cluster rollout namespace rest") {
            let (server, _dir) = self.server(cluster::OPTIONS).await?;
            cluster::measure(&server).await?;
        }
        if self.wants("node real pods exec") {
            node::measure(&self.binary).await?;
        }
        Ok(())
    }

    fn wants(&self, names: &str) -> bool {
        self.only.is_empty() || names.contains(&self.only)
    }

    async fn server(&self, options: &[&str]) -> Result<(Server, tempfile::TempDir), String> {
        let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
        Ok((Server::start(&self.binary, dir.path(), options).await?, dir))
    }

    async fn start_and_idle(&self) -> Result<(), String> {
        let (first, dir) = self.server(&[]).await?;
        row("start, new data directory", ms(first.start), "spawn to first answer over TLS");
        first.kill();
        let again = Server::start(&self.binary, dir.path(), &[]).await?;
        row("start, existing data directory", ms(again.start), "");
        tokio::time::sleep(Duration::from_secs(2)).await;
        let (processor, written) = (again.processor_s(), again.written_bytes());
        tokio::time::sleep(Duration::from_secs(10)).await;
        row("idle memory", format!("{:.1} MiB", again.memory_mib()), "control plane");
        row("idle processor", format!("{:.2} %", (again.processor_s() - processor) * 10.0), "of a core, over 10 s");
        row("idle disk", format!("{} B", again.written_bytes() - written), "over 10 s");
        Ok(())
    }

    async fn rates(&self) -> Result<(), String> {
        let (server, _dir) = self.server(&[]).await?;
        self.creates(&server, "create ConfigMap, 64 clients", CONFIG_MAPS, "a", config_map).await?;
        self.creates(&server, "create ConfigMap again, store full of them", CONFIG_MAPS, "b", config_map).await?;
        self.creates(&server, "create Pod, 64 clients", PODS, "p", pod).await?;
        self.gets(&server).await?;
        let held = held(&server).await?;
        row("memory after that load", format!("{:.1} MiB", server.memory_mib()), &held);
        let namespace = make_namespace(&server, "five-thousand").await?;
        fill(&server.client, &namespace, 5_000).await?;
        let mut connection = server.client.connect().await?;
        let begun = now();
        let (_, body) = connection.send("GET", &format!("/api/v1/namespaces/{namespace}/configmaps"), None).await?;
        row("LIST 5,000 ConfigMaps", ms(begun.elapsed()), &format!("{:.1} MB", body.len() as f64 / 1e6));
        watches(&server).await?;
        let begun = now();
        let (status, _) =
            connection.send("DELETE", &format!("/api/v1/namespaces/{namespace}/configmaps"), None).await?;
        row("delete collection of 5,000", ms(begun.elapsed()), &format!("status {status}"));
        Ok(())
    }

    async fn creates(
        &self,
        server: &Server,
        name: &str,
        path: &'static str,
        prefix: &'static str,
        object: fn(&str) -> Value,
    ) -> Result<(), String> {
        let made = Arc::new(AtomicU64::new(0));
        let load = load(&server.client, self.span, move |_, _| {
            let name = format!("{prefix}{}", made.fetch_add(1, Ordering::Relaxed));
            ("POST", path.to_owned(), Some(Bytes::from(object(&name).to_string())), 201)
        });
        let before = server.processor_s();
        report(name, load.await?, self.span, server.processor_s() - before);
        Ok(())
    }

    async fn gets(&self, server: &Server) -> Result<(), String> {
        let load = load(&server.client, self.span, |client, turn| {
            ("GET", format!("{CONFIG_MAPS}/a{}", (client + turn * CLIENTS) % 1_000), None, 200)
        });
        let before = server.processor_s();
        report("get, 64 clients", load.await?, self.span, server.processor_s() - before);
        Ok(())
    }

    async fn pods(&self) -> Result<(), String> {
        let (server, _dir) = self.server(&["--no-controllers"]).await?;
        // Without controllers nobody makes the account that pods run as.
        let account =
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}).to_string();
        let mut connection = server.client.connect().await?;
        expect(connection.send("POST", ACCOUNTS, Some(Bytes::from(account))).await?, 201)?;
        let before = server.memory_mib();
        let mut tasks = JoinSet::new();
        for client in 0..CLIENTS {
            let connection = server.client.connect().await?;
            tasks.spawn(async move {
                let mut connection = connection;
                for at in (client..10_000).step_by(CLIENTS) {
                    let body = Bytes::from(pod(&format!("pod-{at}")).to_string());
                    expect(connection.send("POST", PODS, Some(body)).await?, 201)?;
                }
                Ok::<(), String>(())
            });
        }
        finish(tasks).await?;
        row("memory with 10,000 pods", format!("{:.1} MiB", server.memory_mib()), &format!("{before:.1} MiB before"));
        Ok(())
    }

    async fn restart_and_lists(&self) -> Result<(), String> {
        let (server, dir) = self.server(&["--no-controllers"]).await?;
        fill(&server.client, "default", 100_000).await?;
        server.kill();
        let server = Server::start(&self.binary, dir.path(), &["--no-controllers"]).await?;
        row("restart with 100,000 objects, after kill -9", ms(server.start), "");
        let before = server.memory_mib();
        let mut tasks = JoinSet::new();
        let bytes = Arc::new(AtomicU64::new(0));
        let begun = now();
        for _ in 0..10 {
            let (mut connection, bytes) = (server.client.connect().await?, Arc::clone(&bytes));
            tasks.spawn(async move {
                let (_, mut body) = connection.open("GET", CONFIG_MAPS, None).await?;
                while let Some(frame) = body.frame().await {
                    let frame = frame.map_err(|e| e.to_string())?;
                    bytes.fetch_add(frame.data_ref().map_or(0, |data| data.len() as u64), Ordering::Relaxed);
                }
                Ok::<(), String>(())
            });
        }
        finish(tasks).await?;
        let note = format!("{:.0} MB in {}", bytes.load(Ordering::Relaxed) as f64 / 1e6, ms(begun.elapsed()));
        row("more memory for ten lists of 100,000 at once", format!("{:.1} MiB", server.memory_mib() - before), &note);
        Ok(())
    }
}

/// 100 watchers of one collection; 1,000 writes; every delivery and its delay.
async fn watches(server: &Server) -> Result<(), String> {
    const WATCHERS: usize = 100;
    const WRITES: usize = 1_000;
    let namespace = make_namespace(server, "watched").await?;
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    let mut tasks = JoinSet::new();
    let written: Arc<std::sync::Mutex<Vec<Option<Instant>>>> = Arc::new(std::sync::Mutex::new(vec![None; WRITES]));
    for _ in 0..WATCHERS {
        let mut connection = server.client.connect().await?;
        let (_, mut body) = connection.open("GET", &format!("{path}?watch=1"), None).await?;
        let written = Arc::clone(&written);
        tasks.spawn(async move {
            let _connection = connection;
            let (mut seen, mut line, mut delays) = (0, Vec::new(), Vec::new());
            while seen < WRITES {
                let frame = body.frame().await.ok_or("a watch ended early")?.map_err(|e| e.to_string())?;
                let arrived = now();
                line.extend_from_slice(&frame.into_data().unwrap_or_default());
                let whole = line.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
                for event in line[..whole].split(|byte| *byte == b'\n') {
                    if let Some(at) = written_at(event) {
                        let sent = written.lock().map_err(|e| e.to_string())?[at];
                        delays.extend(sent.map(|sent| arrived.saturating_duration_since(sent)));
                        seen += 1;
                    }
                }
                line.drain(..whole);
            }
            Ok::<Vec<Duration>, String>(delays)
        });
    }
    let mut connection = server.client.connect().await?;
    let begun = now();
    for at in 0..WRITES {
        written.lock().map_err(|e| e.to_string())?[at] = Some(now());
        expect(
            connection.send("POST", &path, Some(Bytes::from(config_map(&format!("w{at}")).to_string()))).await?,
            201,
        )?;
    }
    let mut delays = Vec::new();
    while let Some(done) = tasks.join_next().await {
        delays.extend(done.map_err(|e| e.to_string())??);
    }
    delays.sort();
    let rate = delays.len() as f64 / begun.elapsed().as_secs_f64();
    row("watch deliveries, 100 watchers", format!("{rate:.0}/s"), &format!("one writer, {} in all", delays.len()));
    row("request sent to event seen", ms(percentile(&delays, 50)), &format!("p99 {}", ms(percentile(&delays, 99))));
    Ok(())
}

/// How many objects the server holds after the rates, which make as many as they can.
async fn held(server: &Server) -> Result<String, String> {
    let mut connection = server.client.connect().await?;
    let mut counts = Vec::new();
    for (what, path) in [("ConfigMaps", CONFIG_MAPS), ("Pods", PODS), ("Events", EVENTS)] {
        let (_, body) = connection.send("GET", &format!("{path}?limit=1"), None).await?;
        let list: Value = serde_json::from_slice(&body).map_err(|e| e.to_string())?;
        let more = list.pointer("/metadata/remainingItemCount").and_then(Value::as_u64).unwrap_or(0);
        let first = list["items"].as_array().map_or(0, Vec::len) as u64;
        counts.push(format!("{} {what}", first + more));
    }
    Ok(counts.join(", "))
}

/// The number of the ConfigMap that an event is about, found without decoding the event: the machine is shared with the
/// server, and a hundred decoders would be what is measured.
fn written_at(event: &[u8]) -> Option<usize> {
    const BEFORE: &[u8] = b"\"name\":\"w";
    let at = event.windows(BEFORE.len()).position(|part| part == BEFORE)? + BEFORE.len();
    let digits = event[at..].iter().take_while(|byte| byte.is_ascii_digit());
    Some(digits.fold(0, |number, digit| number * 10 + usize::from(digit - b'0')))
}

type Call = (&'static str, String, Option<Bytes>, u16);

/// Calls from 64 connections for `span`; the duration of each.
async fn load(
    client: &Client,
    span: Duration,
    call: impl Fn(usize, usize) -> Call + Send + Sync + 'static,
) -> Result<Vec<Duration>, String> {
    let call = Arc::new(call);
    let mut tasks = JoinSet::new();
    for at in 0..CLIENTS {
        let (connection, call) = (client.connect().await?, Arc::clone(&call));
        tasks.spawn(async move {
            let mut connection = connection;
            let (begun, mut durations) = (now(), Vec::new());
            while begun.elapsed() < span {
                let (method, path, body, status) = call(at, durations.len());
                let sent = now();
                expect(connection.send(method, &path, body).await?, status)?;
                durations.push(sent.elapsed());
            }
            Ok::<Vec<Duration>, String>(durations)
        });
    }
    let mut all = Vec::new();
    while let Some(done) = tasks.join_next().await {
        all.extend(done.map_err(|e| e.to_string())??);
    }
    Ok(all)
}

async fn finish(mut tasks: JoinSet<Result<(), String>>) -> Result<(), String> {
    while let Some(done) = tasks.join_next().await {
        done.map_err(|e| e.to_string())??;
    }
    Ok(())
}

pub fn expect((status, body): (u16, Bytes), wanted: u16) -> Result<(), String> {
    match status == wanted {
        true => Ok(()),
        false => Err(format!("status {status} instead of {wanted}: {}", String::from_utf8_lossy(&body))),
    }
}

pub async fn make_namespace(server: &Server, name: &str) -> Result<String, String> {
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}).to_string();
    let mut connection = server.client.connect().await?;
    expect(connection.send("POST", "/api/v1/namespaces", Some(Bytes::from(body))).await?, 201)?;
    Ok(name.to_owned())
}

async fn fill(client: &Client, namespace: &str, count: usize) -> Result<(), String> {
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    let mut tasks = JoinSet::new();
    for at in 0..CLIENTS {
        let (connection, path) = (client.connect().await?, path.clone());
        tasks.spawn(async move {
            let mut connection = connection;
            for item in (at..count).step_by(CLIENTS) {
                let body = Bytes::from(config_map(&format!("filled-{item}")).to_string());
                expect(connection.send("POST", &path, Some(body)).await?, 201)?;
            }
            Ok::<(), String>(())
        });
    }
    finish(tasks).await
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": "x".repeat(700)}})
}

fn pod(name: &str) -> Value {
    let env: Vec<Value> =
        (0..10).map(|n| json!({"name": format!("VARIABLE_{n}"), "value": format!("value-{n}")})).collect();
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "bench", "tier": "back"}},
        "spec": {"containers": [{
            "name": "main", "image": "registry.example/app:1", "env": env, "ports": [{"containerPort": 8080}],
            "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
        }]},
    })
}

/// `processor_s`: what the server used for it, which other load on the machine changes little.
fn report(name: &str, mut durations: Vec<Duration>, span: Duration, processor_s: f64) {
    durations.sort();
    let rate = durations.len() as f64 / span.as_secs_f64();
    let each_us = processor_s * 1e6 / durations.len().max(1) as f64;
    let (p50, p99) = (ms(percentile(&durations, 50)), ms(percentile(&durations, 99)));
    let note = format!("p50 {p50}, p99 {p99}, {each_us:.0} us of the server's processor each");
    row(name, format!("{rate:.0}/s"), &note);
}

/// The `percent`th percentile of sorted durations.
pub fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    sorted.get((sorted.len() * percent / 100).min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
}

pub fn ms(span: Duration) -> String {
    format!("{:.1} ms", span.as_secs_f64() * 1e3)
}

pub fn row(name: &str, value: impl AsRef<str>, note: &str) {
    println!("{name:<44} {:>14}  {note}", value.as_ref());
}
