//! A containerd of its own for a test: root, state, socket and networks below one directory. It is the one that
//! `hack/containerd.sh` fetches, or the machine's own.

#![allow(dead_code, reason = "not every test needs everything")]

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::machine::wait_for;

/// Where a containerd and what it runs with are, if there is one: the directories of programs.
fn programs() -> Option<Vec<PathBuf>> {
    let tools = std::env::var_os("SETPOINT_TOOLS").map(PathBuf::from);
    let usual = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/setpoint/tools"));
    let fetched = tools.or_else(usual).map(|tools| tools.join("containerd/usr"));
    let fetched = fetched.into_iter().flat_map(|usr| [usr.join("bin"), usr.join("sbin")]);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all: Vec<PathBuf> = fetched.chain(std::env::split_paths(&path)).collect();
    let has = |name: &str| all.iter().any(|directory| directory.join(name).is_file());
    ["containerd", "containerd-shim-runc-v2", "ctr", "runc"].iter().all(|name| has(name)).then_some(all)
}

/// A containerd.
pub struct Containerd {
    directory: PathBuf,
    path: std::ffi::OsString,
    child: Child,
}

impl Containerd {
    /// Starts one below `directory`; none where it is not installed.
    pub fn start(directory: &Path) -> Option<Containerd> {
        let Some(programs) = programs() else {
            println!("skipped: containerd is not installed (hack/containerd.sh fetches it)");
            return None;
        };
        let path = std::env::join_paths(programs).expect("a path");
        std::fs::create_dir_all(directory).expect("a directory");
        std::fs::write(directory.join("config.toml"), config(directory)).expect("written");
        let child = spawn(directory, &path);
        let containerd = Containerd { directory: directory.to_owned(), path, child };
        wait_for("containerd", || containerd.ctr(&["version"]));
        Some(containerd)
    }

    /// The address for `--cri`.
    pub fn endpoint(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    fn socket(&self) -> PathBuf {
        self.directory.join("containerd.sock")
    }

    /// Its own client.
    pub fn ctr(&self, words: &[&str]) -> Option<String> {
        let output = Command::new("ctr")
            .env("PATH", &self.path)
            .arg("--address")
            .arg(self.socket())
            .args(["--namespace", "k8s.io"])
            .args(words)
            .output()
            .expect("ctr runs");
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Loses the process and starts another.
    pub fn restart(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("ended");
        self.child = spawn(&self.directory, &self.path);
        wait_for("containerd again", || self.ctr(&["version"]));
    }

    /// Makes the process stand still: who asks it something gets no answer.
    pub fn hang(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("signalled");
    }

    /// Gives it the image that sandboxes wait in: the built-in one of a server's data directory, told to sleep. A
    /// machine with a network pulls it. Where the built-in one was written to.
    pub fn import_pause(&self, binary: &Path, data: &Path) -> PathBuf {
        let exported = self.directory.join("box.tar");
        let mut export = Command::new(binary);
        export.args(["image", "export", "setpoint.local/box:v1"]).arg(&exported).arg("--data-dir").arg(data);
        // It complains until the server has made the image.
        export.stderr(Stdio::null());
        wait_for("the built-in image", || export.status().expect("runs").success().then_some(()));
        self.import_variant(&exported, "setpoint.local/pause:v1", &["sleep"]);
        exported
    }

    /// Gives it the exported image by another name and with another command: that is another image.
    pub fn import_variant(&self, exported: &Path, name: &str, words: &[&str]) {
        let archive = self.directory.join("variant.tar");
        write_variant(exported, &archive, name, words);
        self.ctr(&["images", "import", archive.to_str().expect("a path")]).expect("imported");
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        // A failed test may have left it standing still.
        self.resume();
        // What a failed test left: tasks first, whose shims outlive containerd.
        for task in self.ctr(&["tasks", "list", "-q"]).unwrap_or_default().lines() {
            self.ctr(&["tasks", "delete", "--force", task]);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let own = |line: &&str| line.split(' ').nth(1).is_some_and(|at| Path::new(at).starts_with(&self.directory));
        for line in mounts.lines().rev().filter(own) {
            let _ = Command::new("umount").arg("-l").args(line.split(' ').nth(1)).status();
        }
    }
}

fn spawn(directory: &Path, path: &std::ffi::OsStr) -> Child {
    let log = std::fs::File::options().create(true).append(true).open(directory.join("log")).expect("a log");
    Command::new("containerd")
        .env("PATH", path)
        .arg("--config")
        .arg(directory.join("config.toml"))
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("containerd runs")
}

/// A machine may withhold the right to lower scores of the out-of-memory killer: then they stay.
fn config(directory: &Path) -> String {
    let at = directory.display();
    format!(
        "version = 2\nroot = \"{at}/root\"\nstate = \"{at}/state\"\n[grpc]\naddress = \"{at}/containerd.sock\"\n\
         [plugins.\"io.containerd.internal.v1.opt\"]\npath = \"{at}/opt\"\n\
         [plugins.\"io.containerd.grpc.v1.cri\"]\nsandbox_image = \"setpoint.local/pause:v1\"\n\
         disable_apparmor = true\nrestrict_oom_score_adj = true\nnetns_mounts_under_state_dir = true\n\
         [plugins.\"io.containerd.grpc.v1.cri\".cni]\nbin_dir = \"{at}/cni/bin\"\nconf_dir = \"{at}/cni/net.d\"\n"
    )
}

/// The image of an archive with another name and another command.
fn write_variant(exported: &Path, archive: &Path, name: &str, words: &[&str]) {
    let mut tar = tar::Archive::new(std::fs::File::open(exported).expect("an archive"));
    let mut out = tar::Builder::new(std::fs::File::create(archive).expect("an archive"));
    let mut texts: Vec<(String, Value)> = Vec::new();
    for entry in tar.entries().expect("entries") {
        let mut entry = entry.expect("an entry");
        let name = entry.path().expect("a name").to_string_lossy().into_owned();
        let header = entry.header().clone();
        if header.size().expect("a size") > 1 << 20 {
            out.append(&header, &mut entry).expect("copied");
            continue;
        }
        let mut text = Vec::new();
        entry.read_to_end(&mut text).expect("read");
        if let Ok(value) = serde_json::from_slice::<Value>(&text) {
            texts.push((name, value));
        }
    }
    let find = |wanted: &str| texts.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone());
    let mut list = find("manifest.json").expect("a list");
    let mut config = find(list[0]["Config"].as_str().expect("a name")).expect("a config");
    config["config"]["Cmd"] = json!(words);
    list[0]["Config"] = json!("variant.json");
    list[0]["RepoTags"] = json!([name]);
    for (name, value) in [("variant.json", config), ("manifest.json", list)] {
        let text = value.to_string();
        let mut header = tar::Header::new_ustar();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        out.append_data(&mut header, name, text.as_bytes()).expect("written");
    }
    out.finish().expect("written");
}
