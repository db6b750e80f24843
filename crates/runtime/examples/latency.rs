//! Figures of the runtime: from creation to running, memory of a shim, many containers at once.
//!
//! Needs root, an image directory with a program that waits, and the shim's program:
//! `cargo run --release -p runtime --example latency -- IMAGE PROGRAM SHIM`.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use contract::{ContainerRuntime, ContainerSpec, PodMeta, RootImage, SandboxSpec};
use runtime::{Config, NetworkConfig, Runtime, ShimCommand};

const COUNT: usize = 50;

#[allow(clippy::disallowed_methods, reason = "a measurement of time")]
fn now() -> Instant {
    Instant::now()
}

fn pod(number: usize) -> SandboxSpec {
    let name = format!("pod-{number}");
    let meta = PodMeta { name: name.clone(), namespace: "default".to_owned(), uid: name.clone(), attempt: 0 };
    SandboxSpec { meta, hostname: name, ..SandboxSpec::default() }
}

fn percentiles(mut times: Vec<Duration>) -> String {
    times.sort();
    let at = |part: usize| times[(times.len() - 1) * part / 100].as_secs_f64() * 1000.0;
    format!("p50 {:.1} ms, p99 {:.1} ms", at(50), at(99))
}

/// Resident memory of a process, all of it and the part that is its own.
fn memory_kib(pid: u32) -> (u64, u64) {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let field = |name: &str| -> u64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.split_whitespace().next()).and_then(|number| number.parse().ok()).unwrap_or(0)
    };
    (field("Rss:"), field("Private_Dirty:") + field("Private_Clean:"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(image), Some(program), Some(shim)) = (args.next(), args.next(), args.next()) else {
        return Err("usage: latency IMAGE PROGRAM SHIM".into());
    };
    let dir = tempfile::tempdir()?;
    let config = Config {
        root: dir.path().join("root"),
        logs: dir.path().join("logs"),
        cgroup_root: "sptest-latency".to_owned(),
        shim: ShimCommand { program: shim.into(), args: vec![] },
        network: Some(NetworkConfig {
            bridge: "sptlatency".to_owned(),
            pod_cidr: Some("10.198.0.0/24".parse()?),
            mtu: 1500,
            forward: false,
        }),
    };
    let runtime = Runtime::open(config).await?;
    let spec = ContainerSpec {
        name: "main".to_owned(),
        root: RootImage { lower_dirs: vec![PathBuf::from(image)], ..RootImage::default() },
        command: program.split(' ').map(str::to_owned).collect(),
        ..ContainerSpec::default()
    };
    let (mut sandboxes, mut containers, mut execs, mut removals) = (vec![], vec![], vec![], vec![]);
    for number in 0..COUNT {
        let start = now();
        let sandbox = runtime.run_sandbox(&pod(number)).await?;
        sandboxes.push(start.elapsed());
        let start = now();
        let id = runtime.create_container(&sandbox.id, &spec).await?;
        runtime.start_container(&id).await?;
        containers.push(start.elapsed());
        let start = now();
        let words: Vec<String> =
            spec.command.iter().take(1).cloned().chain(["echo".to_owned(), "x".to_owned()]).collect();
        runtime.exec_sync(&id, &words, Duration::from_secs(10)).await?;
        execs.push(start.elapsed());
        if number == 0 {
            let (rss, private) = memory_kib(sandbox.shim_pid.unwrap_or(0));
            println!("shim: {rss} KiB resident, {private} KiB of its own");
        }
        let start = now();
        runtime.remove_sandbox(&sandbox.id).await?;
        removals.push(start.elapsed());
    }
    println!("sandbox: {}", percentiles(sandboxes));
    println!("container, create to running: {}", percentiles(containers));
    println!("exec_sync: {}", percentiles(execs));
    println!("removal: {}", percentiles(removals));
    let start = now();
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..COUNT {
        let (runtime, spec) = (runtime.clone(), spec.clone());
        tasks.spawn(async move {
            let sandbox = runtime.run_sandbox(&pod(number)).await?;
            let id = runtime.create_container(&sandbox.id, &spec).await?;
            runtime.start_container(&id).await.map(|()| sandbox.id)
        });
    }
    let mut ids = vec![];
    while let Some(done) = tasks.join_next().await {
        ids.push(done??);
    }
    println!("{COUNT} pods at once: {:.0} ms until all run", start.elapsed().as_secs_f64() * 1000.0);
    let start = now();
    for id in ids {
        let runtime = runtime.clone();
        tasks.spawn(async move { runtime.remove_sandbox(&id).await.map(|()| id) });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    println!("{COUNT} pods removed at once: {:.0} ms", start.elapsed().as_secs_f64() * 1000.0);
    runtime::remove_bridge("sptlatency")?;
    Ok(())
}
