//! A node of a test's own: its own network, control groups and directory, a server that can be killed and started again,
//! and a way to its API. What a test breaks there nobody else misses.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use client::{Https, Transport, read_all, read_kubeconfig};
use clock::SystemClock;
use http::Request;
use serde_json::{Value, json};

use super::{is_alone, program, wait_for};

/// An answer of the API: lists of a few hundred pods.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// How long a call may take: one that hangs would hang the test.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
pub const PODS: &str = "/api/v1/namespaces/default/pods";
pub const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

/// A node and its server. What is left when it is dropped is killed.
pub struct Own {
    /// The data directory.
    pub directory: PathBuf,
    /// The parent of all control groups.
    pub cgroup_root: String,
    /// More options of the server.
    pub options: Vec<String>,
    /// More of its environment.
    pub environment: Vec<(String, String)>,
    log: PathBuf,
    binary: PathBuf,
    child: Option<Child>,
    runtime: tokio::runtime::Runtime,
    transport: Option<Arc<dyn Transport>>,
    _temporary: tempfile::TempDir,
}

impl Own {
    /// Nothing is started yet. `None`, and why, where there can be no node.
    pub fn new() -> Option<Own> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let (Some(binary), true) = (program(), is_alone()) else {
            println!("skipped: it needs root, and the binary that `cargo build -p setpoint` makes");
            return None;
        };
        let temporary = tempfile::tempdir().expect("a directory");
        let directory = temporary.path().join("data");
        std::fs::create_dir(&directory).expect("a directory");
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Some(Own {
            directory,
            log: temporary.path().join("log"),
            cgroup_root: format!("setpoint-test-{}-{number}", std::process::id()),
            options: Vec::new(),
            environment: Vec::new(),
            binary,
            child: None,
            // Its thread is in the node's network, as this one is.
            runtime: tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .expect("a runtime"),
            transport: None,
            _temporary: temporary,
        })
    }

    /// Started, with a node that is ready.
    pub fn started() -> Option<Own> {
        let mut own = Own::new()?;
        own.start();
        Some(own)
    }

    fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }

    /// Starts the server, and says whether it serves or has given up.
    pub fn starts(&mut self) -> bool {
        self.spawn();
        wait_for("the server to serve or to give up", || {
            if self.has_ended() { Some(false) } else { self.kubeconfig().exists().then_some(true) }
        })
    }

    /// Starts the server and waits until its API is ready.
    pub fn start(&mut self) {
        self.spawn();
        self.transport = Some(wait_for("the kubeconfig", || {
            self.assert_runs();
            let access = read_kubeconfig(&self.kubeconfig(), None).ok()?;
            let _inside = self.runtime.enter();
            Https::open(&access, Arc::new(SystemClock::new())).ok()
        }));
        wait_for("the API", || (self.try_call("GET", "/readyz", &Value::Null)?.0 == 200).then_some(()));
    }

    fn spawn(&mut self) {
        // The port of an earlier start must not be found in it.
        let _ = std::fs::remove_file(self.kubeconfig());
        let log = std::fs::File::options().create(true).append(true).open(&self.log).expect("a log");
        let mut command = Command::new(&self.binary);
        command.args(["server", "--listen", "127.0.0.1:0", "--node", "test-node", "--eviction-hard", ""]);
        command.arg("--data-dir").arg(&self.directory).arg("--kubeconfig").arg(self.kubeconfig());
        command.args(["--cgroup-root", &self.cgroup_root]).args(&self.options);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        // A group of its own: the keyboard's interrupt is the test's alone.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).process_group(0);
        self.child = Some(command.spawn().expect("a process"));
    }

    fn assert_runs(&self) {
        let pid = self.pid();
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let runs = state.rsplit(')').next().is_some_and(|rest| !rest.trim().is_empty() && !rest.starts_with(" Z"));
        assert!(runs, "the server ended; it said:\n{}", self.log_tail());
    }

    /// The end of what the server said.
    pub fn log_tail(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(60)..].join("\n")
    }

    /// Whether the server has said so by now.
    pub fn has_said(&self, words: &str) -> bool {
        std::fs::read_to_string(&self.log).unwrap_or_default().contains(words)
    }

    /// The server's process, while it was not ended by the test.
    pub fn server(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// The server's process.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("it was started").id()
    }

    /// Whether its process has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.as_mut().is_none_or(|child| child.try_wait().is_ok_and(|ended| ended.is_some()))
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.end(|child| child.kill().expect("killed"));
    }

    /// SIGTERM, and its end.
    pub fn stop(&mut self) {
        self.end(|child| signal(child.id(), rustix::process::Signal::TERM));
    }

    fn end(&mut self, how: impl FnOnce(&mut Child)) {
        self.transport = None;
        if let Some(mut child) = self.child.take() {
            if child.try_wait().is_ok_and(|ended| ended.is_none()) {
                how(&mut child);
            }
            child.wait().expect("ended");
        }
    }

    /// A request; none if no answer came.
    pub fn try_call(&self, method: &str, path: &str, body: &Value) -> Option<(u16, Value)> {
        let transport = self.transport.as_ref()?;
        let bytes = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        let content_type = if method == "PATCH" { "application/apply-patch+yaml" } else { "application/json" };
        let request = Request::builder().method(method).uri(path).header("content-type", content_type);
        let request = request.header("user-agent", "test").body(bytes).expect("a request");
        let asking = async {
            let answer = transport.call(request).await.ok()?;
            let code = answer.status().as_u16();
            let bytes = read_all(answer.into_body(), ANSWER_BYTES_MAX).await.ok()?;
            Some((code, serde_json::from_slice(&bytes).unwrap_or(Value::Null)))
        };
        self.runtime.block_on(async { tokio::time::timeout(CALL_TIMEOUT, asking).await.ok().flatten() })
    }

    /// A request that must be answered.
    pub fn call(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let answer = self.try_call(method, path, body);
        answer.unwrap_or_else(|| panic!("no answer to {method} {path}; the server said:\n{}", self.log_tail()))
    }

    pub fn get(&self, path: &str) -> Value {
        let (code, body) = self.call("GET", path, &Value::Null);
        if code == 200 { body } else { Value::Null }
    }

    /// Server-side apply, until it is taken: the namespace's service account may not be there yet.
    pub fn apply(&self, collection: &str, object: &Value) {
        let name = object["metadata"]["name"].as_str().expect("a name");
        let path = format!("{collection}/{name}?fieldManager=test&force=true");
        let mut last = Value::Null;
        let is_taken = || {
            let (code, body) = self.call("PATCH", &path, object);
            last = body;
            (code < 300).then_some(())
        };
        let mut is_taken = is_taken;
        for _ in 0..500 {
            if is_taken().is_some() {
                return;
            }
            super::pause(super::LOOK_EVERY);
        }
        panic!("{path} is refused: {last}");
    }

    /// DELETE; what is not there is as good.
    pub fn delete(&self, path: &str, grace: Option<i64>) {
        let options = match grace {
            Some(seconds) => json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": seconds}),
            None => Value::Null,
        };
        let (code, body) = self.call("DELETE", path, &options);
        assert!(code < 300 || code == 404 || code == 409, "DELETE {path}: {body}");
    }

    pub fn items(&self, path: &str) -> Vec<Value> {
        self.get(path)["items"].as_array().cloned().unwrap_or_default()
    }

    /// Pods with `app=<label>` that are ready and not being deleted.
    pub fn ready(&self, label: &str) -> Vec<Value> {
        let mut pods = self.items(&format!("{PODS}?labelSelector=app%3D{label}"));
        pods.retain(|pod| meta::condition::is_true(pod, "Ready") && pod["metadata"].get("deletionTimestamp").is_none());
        pods
    }

    /// The directory of the sandbox that a pod runs in.
    pub fn sandbox_of(&self, uid: &str) -> Option<PathBuf> {
        let runs = |dir: &PathBuf| {
            let record = std::fs::read_to_string(dir.join("sandbox.json")).unwrap_or_default();
            let record: Value = serde_json::from_str(&record).unwrap_or_default();
            record["spec"]["meta"]["uid"] == *uid && !dir.join("stopped").exists()
        };
        self.sandboxes().into_iter().find(runs)
    }

    /// The directories of all sandboxes.
    pub fn sandboxes(&self) -> Vec<PathBuf> {
        entries(&self.directory.join("runtime/sandboxes"))
    }

    /// The first processes of containers that were started and whose end nobody recorded.
    pub fn containers(&self) -> Vec<(PathBuf, u32)> {
        let all = self.sandboxes().into_iter().flat_map(|dir| entries(&dir.join("containers")));
        all.filter(|dir| !dir.join("exit.json").exists())
            .filter_map(|dir| {
                let text = std::fs::read_to_string(dir.join("started.json")).ok()?;
                let record: Value = serde_json::from_str(&text).ok()?;
                Some((dir, u32::try_from(record["pid"].as_i64()?).ok()?))
            })
            .collect()
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("the server said:\n{}", self.log_tail());
        }
        self.kill();
        super::leaks::kill_all(self);
    }
}

/// What stands in a directory, in order.
pub fn entries(directory: &Path) -> Vec<PathBuf> {
    let found = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = found.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// A signal to a process; one that is gone is as good.
pub fn signal(pid: u32, signal: rustix::process::Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// A file system of its own in memory, mounted at `path`.
pub fn small_disk(path: &Path, mebibytes: u64) {
    std::fs::create_dir_all(path).expect("a directory");
    run(&[
        "mount",
        "-t",
        "tmpfs",
        "-o",
        &format!("size={mebibytes}m,mode=0755"),
        "tmpfs",
        path.to_str().expect("a path"),
    ]);
}

/// Fills the file system of `directory` but for `spare` bytes; the file that has to be removed again.
pub fn fill(directory: &Path, spare: u64) -> PathBuf {
    use std::io::Write;
    let path = directory.join("ballast");
    let mut file = std::fs::File::create(&path).expect("a file");
    let mut bytes = 0;
    for piece in [1 << 20, 4 << 10] {
        while let Ok(count @ 1..) = file.write(&vec![1; piece]) {
            bytes += count as u64;
        }
    }
    file.set_len(bytes.saturating_sub(spare)).expect("shortened");
    path
}

/// Runs `ip`, or another tool of the machine.
pub fn run(words: &[&str]) -> String {
    let output = Command::new(words[0]).args(&words[1..]).output().expect("it runs");
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
