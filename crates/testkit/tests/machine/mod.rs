//! A server process with a node on this machine. The binary is built by `cargo build -p setpoint` (or named by
//! `SETPOINT_BINARY`); without root, binary or kubectl there is nothing to test.

#![allow(dead_code, reason = "not every test needs everything")]

pub mod leaks;
pub mod own;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long a wait may take before the test fails. Long: nothing here measures time.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The server's program, where there is a kubectl to talk to it.
pub fn binary() -> Option<PathBuf> {
    kubectl()?;
    program()
}

/// The server's program.
pub fn program() -> Option<PathBuf> {
    let named = std::env::var_os("SETPOINT_BINARY").map(PathBuf::from);
    let beside = || Some(std::env::current_exe().ok()?.parent()?.parent()?.join("setpoint"));
    named.or_else(beside).filter(|path| path.is_file())
}

/// Where `hack/tools.sh` installs.
pub fn tools() -> Option<PathBuf> {
    let named = std::env::var_os("SETPOINT_TOOLS").map(PathBuf::from);
    named.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/setpoint/tools")))
}

/// The one that `hack/tools.sh` installs, or the machine's own.
pub fn kubectl() -> Option<PathBuf> {
    let installed = tools().map(|tools| tools.join("bin/kubectl-1.37"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = std::env::split_paths(&path).map(|directory| directory.join("kubectl"));
    installed.into_iter().chain(own).find(|path| path.is_file())
}

/// Moves this thread, and all that it starts from now on, to a network of its own: no test meets what another has left.
/// False where that cannot be, for want of root.
pub fn is_alone() -> bool {
    if !is_root() {
        return false;
    }
    #[expect(deprecated, reason = "the safe form: of a network namespace no thread takes anything over")]
    rustix::thread::unshare(rustix::thread::UnshareFlags::NEWNET).expect("a network of its own");
    let up = Command::new("ip").args(["link", "set", "lo", "up"]).status();
    up.is_ok_and(|status| status.success())
}

pub fn is_root() -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| status.contains("\nUid:\t0\t0\t0\t0"))
}

/// A server process on its own directory.
pub struct Server {
    directory: PathBuf,
    child: Child,
}

impl Server {
    /// On a machine that may be as full as it likes: whoever tests does not fail for want of a free disk.
    pub fn start(binary: &Path, directory: &Path) -> Server {
        Server::start_with(binary, directory, &["--eviction-hard", ""])
    }

    /// The same with further options.
    pub fn start_with(binary: &Path, directory: &Path, options: &[&str]) -> Server {
        let log = std::fs::File::options().create(true).append(true).open(directory.join("log")).expect("a log");
        let child = Command::new(binary)
            .args(["server", "--listen", "127.0.0.1:0", "--node", "test-node", "--data-dir"])
            .arg(directory)
            .arg("--kubeconfig")
            .arg(directory.join("kubeconfig"))
            .args(options)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("a process");
        Server { directory: directory.to_owned(), child }
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(kubectl().expect("a kubectl"));
        command.arg("--kubeconfig").arg(self.directory.join("kubeconfig")).args(words);
        command
    }

    pub fn kubectl(&self, words: &[&str]) -> Option<String> {
        let output = self.command(words).output().expect("kubectl runs");
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    pub fn pods(&self) -> Vec<Value> {
        let text = self.kubectl(&["get", "pods", "-o", "json"]).unwrap_or_default();
        let list: Value = serde_json::from_str(&text).unwrap_or_default();
        list["items"].as_array().cloned().unwrap_or_default()
    }

    pub fn ready_pods(&self) -> Vec<Value> {
        let is_ready =
            |pod: &Value| meta::condition::is_true(pod, "Ready") && pod["metadata"].get("deletionTimestamp").is_none();
        self.pods().into_iter().filter(is_ready).collect()
    }

    pub fn kill(&mut self) {
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

pub fn wait_for<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    wait_long_for(what, PATIENCE, look)
}

/// The same for what may take longer.
pub fn wait_long_for<T>(what: &str, patience: Duration, look: impl FnMut() -> Option<T>) -> T {
    look_for(patience, look).unwrap_or_else(|| panic!("{what} did not come to be"))
}

/// Looks until something is found or the patience is over.
pub fn look_for<T>(patience: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let begun = now();
    while begun.elapsed() < patience {
        if let Some(found) = look() {
            return Some(found);
        }
        pause(LOOK_EVERY);
    }
    None
}

/// Between two looks at something that nobody announces.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Processes of this machine that were started with a path below `directory`, or whose root is there: agents, shims and
/// containers.
pub fn processes_about(directory: &str) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let read = |pid: &u32, what: &str| std::fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
    let is_about = |pid: &u32| {
        let (line, mounts) = (read(pid, "cmdline"), read(pid, "mountinfo"));
        let is_root = |mount: &&str| mount.split(' ').nth(4) == Some("/");
        String::from_utf8_lossy(&line).contains(directory)
            || String::from_utf8_lossy(&mounts).lines().filter(is_root).any(|mount| mount.contains(directory))
    };
    numbers.filter(is_about).collect()
}

/// Processes of this machine whose first words are those.
pub fn processes(words: &[&str]) -> Vec<u32> {
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

/// A wait for what nobody announces, or a step's distance from the next.
#[allow(clippy::disallowed_methods, reason = "another process and the kernel are looked at; they announce nothing")]
pub fn pause(span: Duration) {
    std::thread::sleep(span);
}

/// For how long something took, and how long to be patient.
#[allow(clippy::disallowed_methods, reason = "what is measured takes real time")]
pub fn now() -> Instant {
    Instant::now()
}
