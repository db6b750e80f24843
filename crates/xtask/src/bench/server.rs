//! The server under measurement: a child process with a data directory of its own.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::client::Client;

/// How long a start may take.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Builds the release binary.
pub fn build() -> Result<PathBuf, String> {
    let built = Command::new("cargo").args(["build", "--release", "--locked", "--package", "setpoint"]).status();
    if !built.map_err(|e| e.to_string())?.success() {
        return Err("the release build failed".to_owned());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    Ok(target.join("release/setpoint"))
}

/// A running server. It is killed when dropped.
pub struct Server {
    child: Child,
    /// Address of the API.
    pub address: String,
    /// The administrator's way in.
    pub client: Client,
    /// From spawn to the first answer over TLS.
    pub start: Duration,
}

impl Server {
    /// Starts a server on `data_dir` and waits until it is ready. What it says goes where ours goes.
    pub async fn start(binary: &Path, data_dir: &Path, options: &[&str]) -> Result<Server, String> {
        Server::start_logged(binary, data_dir, options, None).await
    }

    /// The same; what it says goes to a file.
    pub async fn start_logged(
        binary: &Path,
        data_dir: &Path,
        options: &[&str],
        log: Option<&Path>,
    ) -> Result<Server, String> {
        let port =
            std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).map_err(|e| e.to_string())?.port();
        let address = format!("127.0.0.1:{port}");
        let kubeconfig = data_dir.join("kubeconfig");
        // One file, one entry: a port of an earlier start must not be found in it.
        let _ = std::fs::remove_file(&kubeconfig);
        let begun = now();
        let mut command = command(binary, &address, data_dir, &kubeconfig, options);
        if let Some(log) = log {
            let file = std::fs::File::create(log).map_err(|e| format!("cannot create {}: {e}", log.display()))?;
            command.env("SETPOINT_LOG", "info").stdout(file.try_clone().map_err(|e| e.to_string())?).stderr(file);
        }
        let child = command.spawn().map_err(|e| format!("cannot start {}: {e}", binary.display()))?;
        let mut server = Server { child, address, client: Client::default(), start: Duration::ZERO };
        while begun.elapsed() < START_TIMEOUT {
            if let Some(exit) = server.child.try_wait().map_err(|e| e.to_string())? {
                return Err(format!("the server ended: {exit}"));
            }
            if let Ok(client) = Client::from_kubeconfig(&kubeconfig, &server.address)
                && let Ok(mut connection) = client.connect().await
                && matches!(connection.send("GET", "/readyz", None).await, Ok((200, _)))
            {
                server.start = begun.elapsed();
                server.client = client;
                return Ok(server);
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Err("the server did not become ready".to_owned())
    }

    /// Resident memory in MiB.
    pub fn memory_mib(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or("");
        let kib: f64 = line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(f64::NAN);
        kib / 1024.0
    }

    /// Processor time used so far, in seconds.
    pub fn processor_s(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        // Behind the name, which may hold anything, fields 14 and 15 count from the state's field 3.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
        let ticks = |at: usize| fields.get(at).and_then(|n| n.parse::<f64>().ok()).unwrap_or(f64::NAN);
        (ticks(11) + ticks(12)) / 100.0
    }

    /// Bytes handed to the medium so far.
    pub fn written_bytes(&self) -> u64 {
        let io = std::fs::read_to_string(format!("/proc/{}/io", self.child.id())).unwrap_or_default();
        io.lines().find_map(|line| line.strip_prefix("write_bytes: ")?.parse().ok()).unwrap_or(0)
    }

    /// Ends it as a crash would.
    pub fn kill(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts the process and does not wait for it.
pub fn spawn(
    binary: &Path,
    address: &str,
    data_dir: &Path,
    kubeconfig: &Path,
    options: &[&str],
) -> Result<Child, String> {
    let spawned = command(binary, address, data_dir, kubeconfig, options).spawn();
    spawned.map_err(|e| format!("cannot start {}: {e}", binary.display()))
}

fn command(binary: &Path, address: &str, data_dir: &Path, kubeconfig: &Path, options: &[&str]) -> Command {
    let mut command = Command::new(binary);
    command
        .args(["server", "--listen", address, "--data-dir"])
        .arg(data_dir)
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args(options)
        .env("SETPOINT_LOG", "warn")
        .stdin(Stdio::null());
    command
}

/// A measurement asks the clock; that is what it is for.
#[allow(clippy::disallowed_methods)]
pub fn now() -> Instant {
    Instant::now()
}
