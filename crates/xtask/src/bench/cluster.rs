//! Figures of a whole cluster on simulated nodes: a rollout, ten thousand pods at rest, a namespace of them deleted.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use super::client::Connection;
use super::figures::{expect, make_namespace, ms, row};
use super::server::{Server, now};

/// A node has room for 110 pods: this is enough for the pods below and the surge of a rollout.
const NODES: &str = "100";
const DEPLOYMENTS: usize = 10;
const REPLICAS: i64 = 1_000;
/// How often it is asked whether it is done: a list of nothing but one object, so it costs next to nothing.
const ASK_EVERY: Duration = Duration::from_millis(20);
/// How often a plan is made.
const PLANS: usize = 10;
/// When it is given up.
const PATIENCE: Duration = Duration::from_secs(600);
/// How long rest is measured, and how long before nothing is.
const REST: Duration = Duration::from_secs(20);

/// The options that the server of these figures wants.
pub const OPTIONS: &[&str] = &["--simulated-nodes", NODES];

/// Measures all of them.
pub async fn measure(server: &Server) -> Result<(), String> {
    let mut connection = server.client.connect().await?;
    let namespace = make_namespace(server, "many").await?;
    let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
    let processor = server.processor_s();
    let begun = now();
    create(&mut connection, &path, 0).await?;
    until(&mut connection, &format!("{path}/bench-0"), is_rolled_out).await?;
    row("1,000 pods created, scheduled and ready", ms(begun.elapsed()), &used(server, processor));
    let processor = server.processor_s();
    let begun = now();
    let again = Bytes::from(deployment(0, "2").to_string());
    expect(connection.send("PUT", &format!("{path}/bench-0"), Some(again)).await?, 200)?;
    until(&mut connection, &format!("{path}/bench-0"), is_rolled_out).await?;
    row("rollout of 1,000 replicas", ms(begun.elapsed()), &used(server, processor));
    let processor = server.processor_s();
    let begun = now();
    for at in 1..DEPLOYMENTS {
        create(&mut connection, &path, at).await?;
    }
    for at in 1..DEPLOYMENTS {
        until(&mut connection, &format!("{path}/bench-{at}"), is_rolled_out).await?;
    }
    row("9,000 pods more", ms(begun.elapsed()), &used(server, processor));
    at_rest(server).await;
    plans(&mut connection, &namespace).await?;
    let processor = server.processor_s();
    let begun = now();
    let gone = format!("/api/v1/namespaces/{namespace}");
    expect(connection.send("DELETE", &gone, None).await?, 200)?;
    until(&mut connection, &gone, |status, _| status == 404).await?;
    row("namespace of 10,000 pods deleted", ms(begun.elapsed()), &used(server, processor));
    row("memory after that", format!("{:.1} MiB", server.memory_mib()), "");
    Ok(())
}

/// What a new image of one small Deployment would do, in this world.
async fn plans(connection: &mut Connection, namespace: &str) -> Result<(), String> {
    let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments/small?fieldManager=setpoint");
    let small = |version: &str| {
        let mut small = deployment(0, version);
        small["metadata"] = json!({"name": "small", "namespace": namespace});
        small["spec"]["replicas"] = json!(5);
        for place in ["/spec/selector/matchLabels/app", "/spec/template/metadata/labels/app"] {
            if let Some(app) = small.pointer_mut(place) {
                *app = json!("small");
            }
        }
        small
    };
    expect(connection.send("PATCH", &path, Some(Bytes::from(small("1").to_string()))).await?, 201)?;
    until(connection, &path, |_, object| object["status"]["availableReplicas"] == json!(5)).await?;
    for (what, objects) in [("one changed Deployment", vec![small("2")]), ("nothing changed", vec![small("1")])] {
        let question = json!({"apiVersion": "setpoint.dev/v1alpha1", "kind": "Plan", "spec": {"objects": objects}});
        let mut taken = Vec::new();
        for _ in 0..PLANS {
            let (body, begun) = (Bytes::from(question.to_string()), now());
            expect(connection.send("POST", "/apis/setpoint.dev/v1alpha1/plans", Some(body)).await?, 201)?;
            taken.push(begun.elapsed());
        }
        taken.sort();
        let note = format!("worst of {PLANS} {}", ms(taken[PLANS - 1]));
        row(&format!("plan among 10,000 pods, {what}"), ms(taken[PLANS / 2]), &note);
    }
    Ok(())
}

async fn at_rest(server: &Server) {
    tokio::time::sleep(REST).await;
    let (processor, written) = (server.processor_s(), server.written_bytes());
    tokio::time::sleep(REST).await;
    let share = (server.processor_s() - processor) * 100.0 / REST.as_secs_f64();
    row("memory, 10,000 pods on 100 simulated nodes", format!("{:.1} MiB", server.memory_mib()), "at rest");
    row("processor, the same", format!("{share:.2} %"), "of a core, over 20 s");
    row("disk, the same", format!("{} B", server.written_bytes() - written), "over 20 s");
}

fn used(server: &Server, before: f64) -> String {
    format!("{:.1} s of the server's processor", server.processor_s() - before)
}

async fn create(connection: &mut Connection, path: &str, at: usize) -> Result<(), String> {
    expect(connection.send("POST", path, Some(Bytes::from(deployment(at, "1").to_string()))).await?, 201)
}

fn deployment(at: usize, version: &str) -> Value {
    let (name, labels) = (format!("bench-{at}"), json!({"app": format!("bench-{at}")}));
    let container = json!({"name": "main", "image": "pause", "resources": {"requests": {"cpu": "10m"}}});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"replicas": REPLICAS, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels, "annotations": {"version": version}}, "spec": {"containers": [container]}}},
    })
}

/// Observed, and all pods are new and available.
fn is_rolled_out(_: u16, deployment: &Value) -> bool {
    let number = |path: &str| deployment.pointer(path).and_then(Value::as_i64);
    let whole = ["replicas", "updatedReplicas", "availableReplicas"];
    number("/status/observedGeneration") == number("/metadata/generation")
        && whole.iter().all(|field| number(&format!("/status/{field}")) == Some(REPLICAS))
}

async fn until(connection: &mut Connection, path: &str, is_so: impl Fn(u16, &Value) -> bool) -> Result<(), String> {
    until_every(ASK_EVERY, connection, path, is_so).await
}

/// Asks until it is so.
pub async fn until_every(
    span: Duration,
    connection: &mut Connection,
    path: &str,
    is_so: impl Fn(u16, &Value) -> bool,
) -> Result<(), String> {
    let begun = now();
    loop {
        let (status, body) = connection.send("GET", path, None).await?;
        let object: Value = serde_json::from_slice(&body).unwrap_or_default();
        if is_so(status, &object) {
            return Ok(());
        }
        if begun.elapsed() > PATIENCE {
            return Err(format!("{path} did not come to be so: {}", object["status"]));
        }
        tokio::time::sleep(span).await;
    }
}
