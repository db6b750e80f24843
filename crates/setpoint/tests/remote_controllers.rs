//! The controllers and the scheduler as a process of their own: what they are to do, they do, whichever of the two
//! processes dies in between.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test")]

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use bytes::Bytes;
use client::{Https, Transport, read_all, read_kubeconfig};
use clock::SystemClock;
use http::{Method, Request};
use http_body_util::BodyExt;
use serde_json::{Value, json};

/// How long anything may take before the test fails. Long: nothing here measures time.
const PATIENCE: Duration = Duration::from_secs(120);
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

/// A process that ends with the test, and what it logs.
struct Running(Child, mpsc::Receiver<String>);

impl Running {
    /// Starts the program and waits until it logs `line`.
    fn start(args: &[&str], line: &str) -> Running {
        let mut child = Command::new(env!("CARGO_BIN_EXE_setpoint"))
            .args(args)
            .env("SETPOINT_LOG", "info")
            .stderr(Stdio::piped())
            .spawn()
            .expect("started");
        let lines = BufReader::new(child.stderr.take().expect("its log")).lines();
        let (say, said) = mpsc::channel();
        // A log that nobody reads would stop the process.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| drop(say.send(line))));
        let running = Running(child, said);
        running.says(line);
        running
    }

    /// Waits until it logs `line`.
    fn says(&self, line: &str) {
        let mut told = Vec::new();
        while let Ok(said) = self.1.recv_timeout(PATIENCE) {
            if said.contains(line) {
                return;
            }
            told.push(said);
        }
        panic!("{line:?} was not said, but {told:#?}");
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.0.id().to_string()]).status();
        assert!(sent.expect("kill runs").success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct World {
    directory: tempfile::TempDir,
    listen: String,
}

impl World {
    fn new() -> World {
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let listen = free.local_addr().expect("its address").to_string();
        World { directory: tempfile::tempdir().expect("a directory"), listen }
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().expect("a path").to_owned()
    }

    fn server(&self) -> Running {
        let (data, kubeconfig) = (self.path("data"), self.path("kubeconfig"));
        let mut args = vec!["server", "--data-dir", &data, "--listen", &self.listen, "--kubeconfig", &kubeconfig];
        args.extend(["--no-controllers", "--simulated-nodes", "2", "--compaction-interval", "1"]);
        Running::start(&args, "the API is served")
    }

    fn controllers(&self, more: &[&str]) -> Running {
        self.controllers_that_say("the copy is whole", more)
    }

    fn controllers_that_say(&self, line: &str, more: &[&str]) -> Running {
        let kubeconfig = self.path("kubeconfig");
        let args = [&["controllers", "--kubeconfig", &kubeconfig, "--scheduler"], more].concat();
        Running::start(&args, line)
    }

    fn api(&self) -> Api {
        let access = read_kubeconfig(Path::new(&self.path("kubeconfig")), None).expect("a kubeconfig");
        Api(Https::open(&access, Arc::new(SystemClock::new())).expect("a transport"))
    }
}

struct Api(Arc<dyn Transport>);

impl Api {
    async fn send(&self, method: Method, path: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        let answer = self.0.call(request.body(body).expect("a request")).await.expect("an answer");
        let code = answer.status().as_u16();
        let body = read_all(answer.into_body(), 1 << 24).await.expect("a body");
        (code, serde_json::from_slice(&body).unwrap_or_default())
    }

    async fn deploy(&self, name: &str, replicas: i64) {
        let object = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
            "spec": {
                "replicas": replicas, "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}},
                    "spec": {"containers": [{"name": "main", "image": "example/app:1"}]},
                },
            },
        });
        let (code, answer) = self.send(Method::POST, DEPLOYMENTS, &object).await;
        assert_eq!(code, 201, "{answer}");
    }

    /// Watches what `path` selects until an event says that it is so.
    async fn wait(&self, path: &str, is_so: impl Fn(&str, &Value) -> bool) {
        let path = format!("{path}&watch=1");
        let watched = async {
            let request = Request::get(&path).body(Bytes::new()).expect("a request");
            let mut body = self.0.call(request).await.expect("an answer").into_body();
            let mut left = Vec::new();
            while let Some(frame) = body.frame().await {
                left.extend_from_slice(&frame.expect("a stream").into_data().unwrap_or_default());
                while let Some(end) = left.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = left.drain(..=end).collect();
                    let event: Value = serde_json::from_slice(&line).expect("an event");
                    if is_so(event["type"].as_str().unwrap_or(""), &event["object"]) {
                        return;
                    }
                }
            }
            panic!("the stream ended before {path} was so");
        };
        tokio::time::timeout(PATIENCE, watched).await.unwrap_or_else(|_| panic!("{path} did not come to be so"));
    }

    async fn ready(&self, name: &str, replicas: i64) {
        self.wait(&format!("{DEPLOYMENTS}?fieldSelector=metadata.name%3D{name}"), |_, object| {
            object["status"]["readyReplicas"] == replicas && object["status"]["updatedReplicas"] == replicas
        })
        .await;
    }

    /// Waits until a watch cannot go on from this revision any more.
    async fn forgotten(&self, revision: &str) {
        let path = format!("/api/v1/pods?watch=1&timeoutSeconds=1&resourceVersion={revision}");
        let forgotten = async {
            loop {
                let (code, answer) = self.send(Method::GET, &path, &Value::Null).await;
                if code == 410 || answer["object"]["code"] == 410 || answer["code"] == 410 {
                    return;
                }
            }
        };
        tokio::time::timeout(PATIENCE, forgotten).await.expect("history goes away");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deployments_converge_whichever_process_dies() {
    let world = World::new();
    let mut server = world.server();
    let mut controllers = world.controllers(&[]);
    let api = world.api();
    api.deploy("first", 3).await;
    api.ready("first", 3).await;

    // The controllers die in the middle of it.
    api.deploy("second", 5).await;
    controllers.signal("-KILL");
    drop(controllers);
    controllers = world.controllers(&["--impersonate"]);
    api.ready("second", 5).await;

    // The API server dies and comes back while the controllers cannot look; what they knew is history by then.
    let (_, pods) = api.send(Method::GET, "/api/v1/pods", &Value::Null).await;
    let known = pods["metadata"]["resourceVersion"].as_str().expect("a revision").to_owned();
    controllers.signal("-STOP");
    server.signal("-KILL");
    drop(server);
    server = world.server();
    let api = world.api();
    api.deploy("third", 2).await;
    let (code, _) = api.send(Method::DELETE, &format!("{DEPLOYMENTS}/first"), &Value::Null).await;
    assert_eq!(code, 200);
    api.forgotten(&known).await;
    controllers.signal("-CONT");
    api.ready("third", 2).await;

    // Garbage is collected: nothing of the first is left, all of the others is.
    api.deploy("last", 1).await;
    api.ready("last", 1).await;
    for (selector, expected) in [("app%3Dsecond", 5), ("app%3Dthird", 2)] {
        let (_, pods) = api.send(Method::GET, &format!("/api/v1/pods?labelSelector={selector}"), &Value::Null).await;
        assert_eq!(pods["items"].as_array().map(Vec::len), Some(expected), "{selector}");
    }
    let first = "/apis/apps/v1/replicasets?labelSelector=app%3Dfirst";
    let (_, sets) = api.send(Method::GET, first, &Value::Null).await;
    if sets["items"].as_array().is_some_and(|sets| !sets.is_empty()) {
        let since = sets["metadata"]["resourceVersion"].as_str().expect("a revision");
        api.wait(&format!("{first}&resourceVersion={since}"), |kind, _| kind == "DELETED").await;
    }
    controllers.signal("-TERM");
    assert!(controllers.0.wait().expect("ended").success(), "it ends in order");
    drop(server);
}

const ELECT: &[&str] = &["--leader-elect"];
const STANDS_BY: &str = "another process acts";
const ACTS: &str = "this process acts";

/// Exactly so many pods and one ReplicaSet: two processes that act at once make more.
async fn has_exactly(api: &Api, name: &str, pods: usize) {
    for (path, expected) in [("/api/v1/pods", pods), ("/apis/apps/v1/replicasets", 1)] {
        let (_, list) = api.send(Method::GET, &format!("{path}?labelSelector=app%3D{name}"), &Value::Null).await;
        assert_eq!(list["items"].as_array().map(Vec::len), Some(expected), "{path} of {name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_second_takes_over_when_the_first_is_killed() {
    let world = World::new();
    let _server = world.server();
    let first = world.controllers_that_say(ACTS, ELECT);
    let second = world.controllers_that_say(STANDS_BY, ELECT);
    let api = world.api();
    api.deploy("before", 3).await;
    api.ready("before", 3).await;
    // In the middle of something.
    api.deploy("between", 4).await;
    first.signal("-KILL");
    drop(first);
    api.deploy("after", 2).await;
    second.says(ACTS);
    for (name, pods) in [("between", 4), ("after", 2)] {
        api.ready(name, pods).await;
    }
    for (name, pods) in [("before", 3), ("between", 4), ("after", 2)] {
        has_exactly(&api, name, pods).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_slept_through_its_lease_writes_no_more() {
    let world = World::new();
    let _server = world.server();
    let first = world.controllers_that_say(ACTS, ELECT);
    let second = world.controllers_that_say(STANDS_BY, ELECT);
    let api = world.api();
    api.deploy("before", 1).await;
    api.ready("before", 1).await;
    first.signal("-STOP");
    api.deploy("between", 3).await;
    second.says(ACTS);
    api.ready("between", 3).await;
    first.signal("-CONT");
    api.deploy("after", 4).await;
    first.says("the lease is lost");
    api.ready("after", 4).await;
    for (name, pods) in [("before", 1), ("between", 3), ("after", 4)] {
        has_exactly(&api, name, pods).await;
    }
}
