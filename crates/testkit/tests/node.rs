//! A node with real containers: as root, with this machine's kernel. The binary is built by `cargo build -p setpoint`
//! (or named by `SETPOINT_BINARY`); without root or binary there is nothing to test.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long a wait may take before the test fails. Long: nothing here measures time.
const PATIENCE: Duration = Duration::from_secs(60);

fn binary() -> Option<PathBuf> {
    let named = std::env::var_os("SETPOINT_BINARY").map(PathBuf::from);
    let beside = || Some(std::env::current_exe().ok()?.parent()?.parent()?.join("setpoint"));
    named.or_else(beside).filter(|path| path.is_file())
}

fn is_root() -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| status.contains("\nUid:\t0\t0\t0\t0"))
}

/// A server process on its own directory.
struct Server {
    directory: PathBuf,
    child: Child,
}

impl Server {
    fn start(binary: &Path, directory: &Path) -> Server {
        let log = std::fs::File::options().create(true).append(true).open(directory.join("log")).expect("a log");
        let child = Command::new(binary)
            .args(["server", "--listen", "127.0.0.1:0", "--node", "test-node", "--data-dir"])
            .arg(directory)
            .arg("--kubeconfig")
            .arg(directory.join("kubeconfig"))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("a process");
        Server { directory: directory.to_owned(), child }
    }

    fn kubectl(&self, words: &[&str]) -> Option<String> {
        let output = Command::new("kubectl")
            .arg("--kubeconfig")
            .arg(self.directory.join("kubeconfig"))
            .args(words)
            .output()
            .expect("kubectl runs");
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn pods(&self) -> Vec<Value> {
        let text = self.kubectl(&["get", "pods", "-o", "json"]).unwrap_or_default();
        let list: Value = serde_json::from_str(&text).unwrap_or_default();
        list["items"].as_array().cloned().unwrap_or_default()
    }

    fn ready_pods(&self) -> Vec<Value> {
        let is_ready =
            |pod: &Value| meta::condition::is_true(pod, "Ready") && pod["metadata"].get("deletionTimestamp").is_none();
        self.pods().into_iter().filter(is_ready).collect()
    }

    fn kill(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("ended");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "{what} did not come to be");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Processes of this machine whose first words are those.
fn processes(words: &[&str]) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_it = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let said: Vec<String> =
            line.split(|b| *b == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        said.iter().map(String::as_str).take(words.len()).eq(words.iter().copied())
    };
    numbers.filter(is_it).collect()
}

#[test]
fn containers_run_heal_outlive_the_server_and_go() {
    let (Some(binary), true) = (binary(), is_root()) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let mut server = Server::start(&binary, directory.path());
    // A number of seconds that no other process on this machine sleeps for.
    let seconds = format!("{}", 900_000 + std::process::id());
    let words = ["/bin/box", "sleep", seconds.as_str()];
    let manifest = format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web}}\nspec:\n  replicas: 2\n  selector: {{matchLabels: {{app: web}}}}\n  \
         template:\n    metadata: {{labels: {{app: web}}}}\n    spec:\n      terminationGracePeriodSeconds: 5\n      containers:\n      \
         - {{name: c, image: 'setpoint.local/box:v1', args: [sleep, '{seconds}']}}\n"
    );
    let file = directory.path().join("web.yaml");
    std::fs::write(&file, manifest).expect("written");
    let path = file.to_str().expect("a path");
    wait_for("the API", || server.kubectl(&["apply", "--server-side", "-f", path]));
    wait_for("two ready pods", || (server.ready_pods().len() == 2).then_some(()));
    let before = processes(&words);
    assert_eq!(before.len(), 2);

    // One process is lost: it comes back.
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(i32::try_from(before[0]).expect("a number")).expect("a process"),
        rustix::process::Signal::KILL,
    )
    .expect("killed");
    let restarts = |pod: &Value| pod["status"]["containerStatuses"][0]["restartCount"].as_i64().unwrap_or(0);
    wait_for("the lost one to come back", || {
        let pods = server.ready_pods();
        (pods.len() == 2 && pods.iter().map(restarts).sum::<i64>() == 1).then_some(())
    });

    // The server is lost: its successor takes over the same processes.
    let before = processes(&words);
    assert_eq!(before.len(), 2);
    server.kill();
    assert_eq!(processes(&words), before);
    let server = Server::start(&binary, directory.path());
    wait_for("the API again", || server.kubectl(&["get", "--raw", "/readyz"]));
    wait_for("two ready pods", || (server.ready_pods().len() == 2).then_some(()));
    assert_eq!(processes(&words), before);

    // Deleted, nothing is left.
    server.kubectl(&["delete", "deployment", "web", "--wait=false"]).expect("deleted");
    wait_for("the pods to go", || server.pods().is_empty().then_some(()));
    wait_for("the processes to go", || processes(&words).is_empty().then_some(()));
    wait_for("the directories to go", || {
        let left = std::fs::read_dir(directory.path().join("node/pods")).into_iter().flatten().count();
        let sandboxes = std::fs::read_dir(directory.path().join("runtime/sandboxes")).into_iter().flatten().count();
        (left + sandboxes == 0).then_some(())
    });
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    assert!(!mounts.contains(directory.path().to_str().expect("a path")));
}
