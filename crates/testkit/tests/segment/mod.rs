//! Three machines on one network segment: network namespaces joined by a bridge in a fourth one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::machine::{kubectl, wait_for};

/// The machines, and their addresses on the segment.
const MACHINES: [(&str, &str); 3] = [("server", "192.0.2.1"), ("node-1", "192.0.2.2"), ("node-2", "192.0.2.3")];

/// The namespaces; removed when dropped.
pub struct Segment {
    prefix: String,
}

fn ip(words: &[&str]) -> bool {
    let status = Command::new("ip").args(words).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

impl Segment {
    /// `None` where this machine cannot have one.
    pub fn lay() -> Option<Segment> {
        let segment = Segment { prefix: format!("spt{}", std::process::id()) };
        let bridge = segment.space("bridge");
        let laid = ip(&["netns", "add", &bridge])
            && ip(&["-n", &bridge, "link", "add", "br0", "type", "bridge"])
            && ip(&["-n", &bridge, "link", "set", "br0", "up"])
            && MACHINES.iter().all(|(name, address)| segment.join(name, address, &bridge));
        laid.then_some(segment)
    }

    fn join(&self, name: &str, address: &str, bridge: &str) -> bool {
        let space = self.space(name);
        let (end, cidr) = (format!("to-{name}"), format!("{address}/24"));
        ip(&["netns", "add", &space])
            && ip(&["-n", &space, "link", "set", "lo", "up"])
            && ip(&["-n", bridge, "link", "add", &end, "type", "veth", "peer", "name", "eth0", "netns", &space])
            && ip(&["-n", bridge, "link", "set", &end, "master", "br0", "up"])
            && ip(&["-n", &space, "link", "set", "eth0", "up"])
            && ip(&["-n", &space, "address", "add", &cidr, "dev", "eth0"])
    }

    fn space(&self, name: &str) -> String {
        format!("{}-{name}", self.prefix)
    }

    /// A command on one of the machines. (Not by `ip netns exec`, which would hide the control groups.)
    fn on(&self, machine: &str, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", self.space(machine))).arg(program);
        command
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        for name in MACHINES.iter().map(|(name, _)| *name).chain(["bridge"]) {
            ip(&["netns", "delete", &self.space(name)]);
        }
    }
}

/// A pod that is ready.
pub struct ReadyPod {
    pub name: String,
    pub node: String,
    pub ip: String,
}

/// A server and its agents.
pub struct Cluster<'s> {
    binary: PathBuf,
    segment: &'s Segment,
    directory: tempfile::TempDir,
    running: BTreeMap<String, Child>,
}

impl<'s> Cluster<'s> {
    /// Starts the server and waits for it.
    pub fn start(binary: &Path, segment: &'s Segment) -> Cluster<'s> {
        let directory = tempfile::tempdir().expect("a directory");
        let mut cluster = Cluster { binary: binary.to_owned(), segment, directory, running: BTreeMap::new() };
        cluster.start_server();
        cluster
    }

    fn data(&self, machine: &str) -> PathBuf {
        let path = self.directory.path().join(machine);
        std::fs::create_dir_all(&path).expect("a directory");
        path
    }

    fn spawn(&mut self, machine: &str, words: &[&str]) {
        let data = self.data(machine);
        let log = std::fs::File::options().create(true).append(true).open(data.join("log")).expect("a log");
        let child = self
            .segment
            .on(machine, &self.binary)
            .args(words)
            .arg("--data-dir")
            .arg(&data)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("a process");
        self.running.insert(machine.to_owned(), child);
    }

    fn start_server(&mut self) {
        let config = self.data("server").join("kubeconfig");
        let config = config.to_str().expect("a path").to_owned();
        self.spawn("server", &["server", "--listen", "192.0.2.1:6443", "--kubeconfig", &config]);
        wait_for("the API", || self.kubectl(&["get", "--raw", "/readyz"]));
    }

    pub fn restart_server(&mut self) {
        self.kill("server");
        self.start_server();
    }

    /// The first start has a token, later ones have none.
    pub fn start_agent(&mut self, node: &str, token: Option<&str>) {
        // Whoever tests does not fail for want of a free disk.
        let mut words = vec!["agent", "--node-name", node, "--eviction-hard", ""];
        if let Some(token) = token {
            words.extend(["--join", "https://192.0.2.1:6443", "--token", token]);
        }
        self.spawn(node, &words);
    }

    /// What an agent says that does not get in.
    pub fn refused(&self, token: &str) -> String {
        let output = self
            .segment
            .on("node-1", &self.binary)
            .args([
                "agent",
                "--node-name",
                "nobody",
                "--join",
                "https://192.0.2.1:6443",
                "--token",
                token,
                "--data-dir",
            ])
            .arg(self.data("nobody"))
            .output()
            .expect("it ends");
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// Ends a machine's process at once.
    pub fn kill(&mut self, machine: &str) {
        let mut child = self.running.remove(machine).expect("it runs");
        child.kill().expect("killed");
        child.wait().expect("ended");
    }

    /// Has a node's machine run the pod of a manifest by itself.
    pub fn put_manifest(&self, node: &str, name: &str, text: &str) {
        let directory = self.data(node).join("manifests");
        std::fs::create_dir_all(&directory).expect("a directory");
        std::fs::write(directory.join(name), text).expect("written");
    }

    pub fn remove_manifest(&self, node: &str, name: &str) {
        std::fs::remove_file(self.data(node).join("manifests").join(name)).expect("removed");
    }

    pub fn kubectl(&self, words: &[&str]) -> Option<String> {
        let mut command = self.segment.on("server", &kubectl().expect("a kubectl"));
        command.arg("--kubeconfig").arg(self.directory.path().join("server/kubeconfig")).args(words);
        let output = command.output().expect("kubectl runs");
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    pub fn setpoint(&self, words: &[&str]) -> Option<String> {
        let mut command = self.segment.on("server", &self.binary);
        command.args(words).arg("--kubeconfig").arg(self.directory.path().join("server/kubeconfig"));
        let output = command.output().expect("setpoint runs");
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The words that a machine joins with.
    pub fn join_command(&self) -> Vec<String> {
        let said = self.setpoint(&["token", "create", "--print-join-command"]).expect("a token");
        let words: Vec<String> = said.split_whitespace().map(str::to_owned).collect();
        let known: Vec<&str> = words.iter().take(5).map(String::as_str).collect();
        assert_eq!(known, ["setpoint", "agent", "--join", "https://192.0.2.1:6443", "--token"]);
        words
    }

    pub fn apply(&self, manifest: &str) {
        let file = self.directory.path().join("manifest.yaml");
        std::fs::write(&file, manifest).expect("written");
        let path = file.to_str().expect("a path");
        wait_for("the manifest to be taken", || self.kubectl(&["apply", "--server-side", "-f", path]));
    }

    fn list(&self, what: &str) -> Vec<Value> {
        let text = self.kubectl(&["get", what, "-o", "json"]).unwrap_or_default();
        let list: Value = serde_json::from_str(&text).unwrap_or_default();
        list["items"].as_array().cloned().unwrap_or_default()
    }

    pub fn ready_nodes(&self) -> Vec<String> {
        let ready = |node: &Value| meta::condition::is_true(node, "Ready");
        let name = |node: &Value| node["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        self.list("nodes").iter().filter(|node| ready(node)).map(name).collect()
    }

    pub fn ready_pods(&self) -> Vec<ReadyPod> {
        let is_ready =
            |pod: &Value| meta::condition::is_true(pod, "Ready") && pod["metadata"].get("deletionTimestamp").is_none();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let pod = |pod: &Value| ReadyPod {
            name: text(&pod["metadata"]["name"]),
            node: text(&pod["spec"]["nodeName"]),
            ip: text(&pod["status"]["podIP"]),
        };
        self.list("pods").iter().filter(|found| is_ready(found)).map(pod).collect()
    }

    /// The code of a GET with a node's own certificate, from the server's machine.
    pub fn as_node(&self, node: &str, path: &str) -> u16 {
        use base64::Engine;
        let agent = self.data(node).join("agent");
        let read = |name: &str| std::fs::read_to_string(agent.join(name)).expect("it is kept");
        let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(agent.join("client.pem")).expect("kept"));
        assert_eq!(mode & 0o777, 0o600);
        let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
        let (authority, pair) = (encode(&read("ca.crt")), encode(&read("client.pem")));
        let config = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: it\n\
             clusters: [{{name: it, cluster: {{server: 'https://192.0.2.1:6443', certificate-authority-data: {authority}}}}}]\n\
             contexts: [{{name: it, context: {{cluster: it, user: it}}}}]\n\
             users: [{{name: it, user: {{client-certificate-data: {pair}, client-key-data: {pair}}}}}]\n"
        );
        let file = self.directory.path().join("node-kubeconfig");
        std::fs::write(&file, config).expect("written");
        let mut command = self.segment.on("server", &kubectl().expect("a kubectl"));
        let output =
            command.arg("--kubeconfig").arg(&file).args(["get", "--raw", path]).output().expect("kubectl runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        match (output.status.success(), said.contains("Forbidden") || said.contains("forbidden")) {
            (true, _) => 200,
            (false, true) => 403,
            (false, false) => panic!("{node} {path}: {said}"),
        }
    }
}

impl Drop for Cluster<'_> {
    fn drop(&mut self) {
        let directory = self.directory.path().to_string_lossy().into_owned();
        for pid in crate::machine::processes_about(&directory) {
            // Agents, and the shims of containers that a failed test leaves behind.
            let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
            let _ = pid.map(|pid| rustix::process::kill_process(pid, rustix::process::Signal::KILL));
        }
        for (machine, mut child) in std::mem::take(&mut self.running) {
            let _ = child.kill();
            let _ = child.wait();
            if std::thread::panicking() {
                let log = std::fs::read_to_string(self.directory.path().join(&machine).join("log")).unwrap_or_default();
                let tail: Vec<&str> = log.lines().rev().take(40).collect();
                let tail: Vec<&str> = tail.into_iter().rev().collect();
                eprintln!("---- {machine}\n{}", tail.join("\n"));
            }
        }
    }
}
