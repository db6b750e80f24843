//! The server is killed at many moments of a pod's life; what the next one finds is whole, and leaves nothing behind.
#![allow(clippy::unwrap_used, reason = "a test may fail by panic")]

mod rig;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use contract::{
    ContainerRuntime, ContainerSpec, ContainerState, PidMode, PodMeta, RootImage, SandboxSpec, SandboxState,
};
use rig::skip;
use runtime::{Config, Runtime};

const VICTIM: &str = "RUNTIME_TEST_VICTIM";
/// Moments in the life of the victim, which takes about 150 ms for a whole round.
const KILLS: u32 = 60;
const STEP: Duration = Duration::from_micros(3_700);

fn settings(dir: &Path) -> Config {
    let mut config = rig::config(dir, 7);
    // The victim is another process: what depends on the process's number comes from the parent.
    let parent = std::env::var(VICTIM).unwrap_or_else(|_| std::process::id().to_string());
    config.cgroup_root = format!("sptest-{parent}-7");
    if let Some(network) = &mut config.network {
        network.bridge = format!("spt{}x7", parent.parse::<u32>().unwrap() % 1_000_000);
        network.pod_cidr = "10.199.7.0/24".parse().ok();
    }
    config
}

/// Not a test of its own: the server that is killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn victim() {
    let Ok(dir) = std::env::var("RUNTIME_TEST_DIR") else { return };
    let dir = PathBuf::from(dir);
    let runtime = Runtime::open(settings(&dir)).await.unwrap();
    println!("victim is open");
    for number in 0.. {
        let name = format!("p{number}-{}", std::process::id());
        let meta = PodMeta { name: name.clone(), namespace: "default".to_owned(), uid: name.clone(), attempt: 0 };
        let pid = if number % 2 == 0 { PidMode::Container } else { PidMode::Pod };
        let pod = SandboxSpec { meta, hostname: name, pid, ..SandboxSpec::default() };
        let sandbox = runtime.run_sandbox(&pod).await.unwrap();
        let spec = ContainerSpec {
            name: "main".to_owned(),
            root: RootImage { lower_dirs: vec![dir.join("image")], ..RootImage::default() },
            command: ["/bin/box", "fork", "term", "0"].map(str::to_owned).to_vec(),
            ..ContainerSpec::default()
        };
        let id = runtime.create_container(&sandbox.id, &spec).await.unwrap();
        runtime.start_container(&id).await.unwrap();
        let command = ["/bin/box", "echo", "x"].map(str::to_owned);
        runtime.exec_sync(&id, &command, rig::PATIENCE).await.unwrap();
        runtime.stop_container(&id, None, Duration::from_millis(20)).await.unwrap();
        runtime.remove_container(&id).await.unwrap();
        runtime.remove_sandbox(&sandbox.id).await.unwrap();
    }
}

/// Starts the victim, kills it `delay` after it is open.
async fn kill_one(dir: &Path, delay: Duration) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "victim", "--nocapture", "--test-threads=1"])
        .env(VICTIM, std::process::id().to_string())
        .env("RUNTIME_TEST_DIR", dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("victim is open")), "the victim did not open");
    tokio::time::sleep(delay).await;
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Kills what would have survived, as if memory had run out.
fn kill_shims(config: &Config) {
    for left in rig::leftovers(config).iter().filter(|left| left.contains("/sandboxes/")) {
        let pid = left.strip_prefix("process /proc/").and_then(|rest| rest.split(':').next());
        if let Some(pid) = pid.and_then(|pid| pid.parse().ok()).and_then(rustix::process::Pid::from_raw) {
            // It may be gone by itself meanwhile.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

async fn await_end(runtime: &Runtime, id: &str) {
    let mut events = runtime.events();
    while runtime.container_status(id).await.unwrap().state == ContainerState::Running {
        rig::next(&mut events).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_killed_anywhere_leaves_nothing() {
    if skip() || std::env::var(VICTIM).is_ok() {
        return;
    }
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    rig::make_image(&dir.join("image"));
    let config = settings(dir);
    let (mut adopted, mut running) = (0, 0);
    for number in 0..KILLS {
        kill_one(dir, STEP * number).await;
        if number % 3 == 2 {
            kill_shims(&config);
        }
        let runtime = Runtime::open(config.clone()).await.unwrap();
        for sandbox in runtime.list_sandboxes().await.unwrap() {
            adopted += u32::from(sandbox.state == SandboxState::Ready);
            for container in runtime.list_containers(&Default::default()).await.unwrap() {
                running += u32::from(container.state == ContainerState::Running);
                if container.state == ContainerState::Running {
                    // Found alive means usable.
                    let command = ["/bin/box", "echo", "alive"].map(str::to_owned);
                    let output = runtime.exec_sync(&container.id, &command, rig::PATIENCE).await;
                    if output.is_err() {
                        // The victim had told it to stop: then it is ending.
                        await_end(&runtime, &container.id).await;
                    }
                }
            }
            runtime.remove_sandbox(&sandbox.id).await.unwrap();
        }
        let left = rig::leftovers(&config);
        assert_eq!(left, Vec::<String>::new(), "killed {:?} after the start", STEP * number);
    }
    println!("{KILLS} kills: {adopted} sandboxes adopted, {running} containers found running");
    rig::clean(&config);
}
