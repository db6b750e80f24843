//! From creation to removal: ends, signals, grace, memory deaths, failures to start, restarts of the runtime.
#![allow(clippy::unwrap_used, reason = "a test may fail by panic")]

mod rig;

use std::time::Duration;

use contract::{ContainerFilter, ContainerRuntime, ContainerState, Error, EventKind, PidMode, Resources, SandboxState};
use rig::{Rig, output, skip};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exit_codes_and_output() {
    if skip() {
        return;
    }
    let rig = Rig::new().await;
    let sandbox = rig.sandbox("codes").await;
    for (number, (command, code, reason, text)) in [
        (vec!["echo", "hello", "exit", "0"], 0, "Completed", "hello\n"),
        (vec!["err", "oops", "exit", "7"], 7, "Error", "oops\n"),
        (vec!["partial", "no newline", "exit", "1"], 1, "Error", "no newline\n"),
        (vec!["segv"], 139, "Error", ""),
        (vec!["pid", "pwd", "env", "HOME"], 0, "Completed", "pid=1\n/\nHOME=/root\n"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut spec = rig.spec("main", &command);
        spec.attempt = u32::try_from(number).unwrap();
        let (status, printed) = rig.run(&sandbox.id, &spec).await;
        let exit = status.exit.unwrap();
        assert_eq!((exit.exit_code, exit.reason.as_str(), printed.as_str()), (code, reason, text), "{command:?}");
        assert!(status.started_at.is_some() && exit.finished_at >= status.started_at.unwrap());
        assert!(status.log_path.ends_with(format!("default_codes_uid-codes/main/{number}.log")));
    }
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grace_then_kill() {
    if skip() {
        return;
    }
    let rig = Rig::new().await;
    let sandbox = rig.sandbox("grace").await;
    let polite = rig.start(&sandbox.id, &rig.spec("polite", &["term", "3"])).await;
    let stubborn = rig.start(&sandbox.id, &rig.spec("stubborn", &["fork", "stubborn"])).await;
    rig.printed(&polite, "ready").await;
    rig.printed(&stubborn, "ready").await;
    rig.runtime.stop_container(&polite, None, Duration::from_secs(30)).await.unwrap();
    rig.runtime.stop_container(&stubborn, None, Duration::from_millis(50)).await.unwrap();
    for (id, code, signal) in [(&polite, 3, None), (&stubborn, 137, Some(9))] {
        let exit = rig.runtime.container_status(id).await.unwrap().exit.unwrap();
        assert_eq!((exit.exit_code, exit.signal), (code, signal));
        // Twice is once.
        rig.runtime.stop_container(id, None, Duration::from_secs(1)).await.unwrap();
    }
    rig.runtime.remove_container(&polite).await.unwrap();
    rig.runtime.remove_container(&polite).await.unwrap();
    assert!(matches!(rig.runtime.container_status(&polite).await, Err(Error::NotFound { .. })));
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_deaths() {
    if skip() {
        return;
    }
    let rig = Rig::new().await;
    let sandbox = rig.sandbox("memory").await;
    let mut spec = rig.spec("hog", &["alloc", "64", "exit", "0"]);
    spec.resources.memory_limit_bytes = Some(16 << 20);
    let mut events = rig.runtime.events();
    let (status, _) = rig.run(&sandbox.id, &spec).await;
    let exit = status.exit.unwrap();
    assert_eq!((exit.exit_code, exit.reason.as_str(), exit.oom_killed), (137, "OOMKilled", true));
    let mut seen = Vec::new();
    while !matches!(seen.last(), Some(EventKind::ContainerExited { .. })) {
        seen.extend(rig::next(&mut events).await);
    }
    assert!(seen.iter().any(|event| matches!(event, EventKind::ContainerOom { .. })), "{seen:?}");
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_to_start() {
    if skip() {
        return;
    }
    let rig = Rig::new().await;
    let sandbox = rig.sandbox("failures").await;
    for (program, text, code) in [
        ("nothing", "exec: \"nothing\": executable file not found in $PATH", 127),
        ("/no/such", "exec: \"/no/such\": stat /no/such: no such file or directory", 127),
        ("/etc/noexec", "exec: \"/etc/noexec\": permission denied", 126),
        ("/etc", "exec: \"/etc\": is a directory", 126),
        ("/bin/garbage", "exec /bin/garbage: exec format error", 126),
    ] {
        let mut spec = rig.spec("main", &[]);
        spec.command = vec![program.to_owned()];
        let id = rig.runtime.create_container(&sandbox.id, &spec).await.unwrap();
        let Err(Error::Start { message, exit_code }) = rig.runtime.start_container(&id).await else {
            panic!("{program} started");
        };
        assert_eq!(
            (message.as_str(), exit_code),
            (format!("unable to start container process: {text}").as_str(), code)
        );
        let exit = rig.runtime.container_status(&id).await.unwrap().exit.unwrap();
        assert_eq!(
            (exit.exit_code, exit.reason.as_str(), exit.message.as_str()),
            (128, "StartError", message.as_str())
        );
        rig.runtime.remove_container(&id).await.unwrap();
    }
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_may_be_repeated() {
    if skip() {
        return;
    }
    let rig = Rig::new().await;
    let first = rig.sandbox("twice").await;
    assert_eq!(rig.sandbox("twice").await, first);
    let spec = rig.spec("main", &["term", "0"]);
    let id = rig.start(&first.id, &spec).await;
    assert_eq!(rig.runtime.create_container(&first.id, &spec).await.unwrap(), id);
    rig.runtime.start_container(&id).await.unwrap();
    rig.runtime.stop_sandbox(&first.id).await.unwrap();
    rig.runtime.stop_sandbox(&first.id).await.unwrap();
    let status = rig.runtime.sandbox_status(&first.id).await.unwrap();
    assert_eq!((status.state, status.ips.len()), (SandboxState::NotReady, 0));
    assert_eq!(rig.runtime.container_status(&id).await.unwrap().exit.unwrap().exit_code, 137);
    assert!(rig.runtime.create_container(&first.id, &rig.spec("late", &[])).await.is_err());
    rig.runtime.remove_sandbox(&first.id).await.unwrap();
    rig.runtime.remove_sandbox(&first.id).await.unwrap();
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_runtime_finds_everything() {
    if skip() {
        return;
    }
    let rig = Rig::new().await;
    let mut pod = rig.pod("kept");
    pod.labels.insert("io.kubernetes.pod.name".to_owned(), "kept".to_owned());
    let sandbox = rig.runtime.run_sandbox(&pod).await.unwrap();
    let runs = rig.start(&sandbox.id, &rig.spec("runs", &["term", "5"])).await;
    rig.printed(&runs, "ready").await;
    let (done, _) = rig.run(&sandbox.id, &rig.spec("done", &["exit", "4"])).await;
    let waits = rig.runtime.create_container(&sandbox.id, &rig.spec("waits", &["exit", "6"])).await.unwrap();
    let before = rig.runtime.list_containers(&ContainerFilter::default()).await.unwrap();
    let rig = rig.reopen().await;
    assert_eq!(rig.runtime.list_containers(&ContainerFilter::default()).await.unwrap(), before);
    assert_eq!(rig.runtime.list_sandboxes().await.unwrap(), vec![sandbox]);
    let states =
        [(&runs, ContainerState::Running), (&done.id, ContainerState::Exited), (&waits, ContainerState::Created)];
    for (id, state) in states {
        assert_eq!(rig.runtime.container_status(id).await.unwrap().state, state);
    }
    rig.runtime.start_container(&waits).await.unwrap();
    assert_eq!(rig.ended(&waits).await.exit.unwrap().exit_code, 6);
    rig.runtime.stop_container(&runs, None, rig::PATIENCE).await.unwrap();
    assert_eq!(rig.ended(&runs).await.exit.unwrap().exit_code, 5);
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_shim_is_noticed_and_cleaned_up() {
    if skip() {
        return;
    }
    let rig = Rig::new().await;
    let mut pod = rig.pod("orphan");
    pod.pid = PidMode::Pod;
    let sandbox = rig.runtime.run_sandbox(&pod).await.unwrap();
    let id = rig.start(&sandbox.id, &rig.spec("main", &["fork", "term", "0"])).await;
    let mut events = rig.runtime.events();
    let shim = rustix::process::Pid::from_raw(sandbox.shim_pid.unwrap().cast_signed()).unwrap();
    rustix::process::kill_process(shim, rustix::process::Signal::KILL).unwrap();
    while rig::next(&mut events).await != Some(EventKind::SandboxNotReady) {}
    let exit = rig.runtime.container_status(&id).await.unwrap().exit.unwrap();
    assert_eq!((exit.exit_code, exit.reason.as_str()), (255, "Unknown"));
    let left: Vec<String> = rig::leftovers(&rig.config);
    assert!(left.iter().all(|what| what.starts_with("directory") || what.starts_with("cgroup")), "{left:?}");
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_are_visible_changeable_and_measured() {
    if skip() {
        return;
    }
    let rig = Rig::new().await;
    let sandbox = rig.sandbox("limits").await;
    let mut spec = rig.spec("main", &["alloc", "8", "term", "0"]);
    spec.resources = Resources {
        cpu_shares: Some(512),
        cpu_quota_us: Some(50_000),
        cpu_period_us: Some(100_000),
        memory_limit_bytes: Some(64 << 20),
        pids_limit: Some(32),
        ..Resources::default()
    };
    let id = rig.start(&sandbox.id, &spec).await;
    rig.printed(&id, "ready").await;
    let stats = rig.runtime.stats(&id).await.unwrap();
    assert_eq!((stats.memory.limit_bytes, stats.pids), (64 << 20, 1));
    assert!(stats.memory.working_set_bytes >= 8 << 20 && stats.cpu.usage_ns > 0, "{stats:?}");
    assert!(rig.runtime.sandbox_stats(&sandbox.id).await.unwrap().memory.usage_bytes >= 8 << 20);
    for limit in [128 << 20, 32 << 20] {
        let update = Resources { memory_limit_bytes: Some(limit), ..Resources::default() };
        rig.runtime.update_resources(&id, &update).await.unwrap();
        let stats = rig.runtime.stats(&id).await.unwrap();
        assert_eq!(stats.memory.limit_bytes, limit.cast_unsigned());
    }
    let known = rig.runtime.container_status(&id).await.unwrap().spec.resources;
    assert_eq!((known.memory_limit_bytes, known.cpu_shares), (Some(32 << 20), Some(512)));
    let file = if std::path::Path::new("/sys/fs/cgroup/memory").exists() {
        "/sys/fs/cgroup/memory/memory.limit_in_bytes"
    } else {
        "/sys/fs/cgroup/memory.max"
    };
    let command = ["/bin/box", "show", file].map(str::to_owned);
    let seen = rig.runtime.exec_sync(&id, &command, rig::PATIENCE).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&seen.stdout).trim(), (32u64 << 20).to_string());
    assert!(output(&rig.runtime.container_status(&id).await.unwrap()).contains("ready"));
    rig.close().await;
}

fn ip(words: &[&str]) -> String {
    let output = std::process::Command::new("ip").args(words).output().unwrap();
    assert!(output.status.success(), "ip {words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn host_interface(sandbox: &str) -> String {
    format!("sp{}", &sandbox[..12])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_interface_is_a_lost_address() {
    if skip() {
        return;
    }
    let rig = Rig::new().await;
    let (lost, kept) = (rig.sandbox("lost").await, rig.sandbox("kept").await);
    let mut events = rig.runtime.events();
    ip(&["link", "del", &host_interface(&lost.id)]);
    while rig::next(&mut events).await != Some(EventKind::SandboxUnplugged) {}
    let ips = |status: contract::SandboxStatus| (status.state, status.ips.len());
    assert_eq!(ips(rig.runtime.sandbox_status(&lost.id).await.unwrap()), (SandboxState::Ready, 0));
    assert_eq!(ips(rig.runtime.sandbox_status(&kept.id).await.unwrap()), (SandboxState::Ready, 1));
    // Lost while nobody looked.
    let unheard = rig.sandbox("unheard").await;
    let rig = rig.reopen_after(|| drop(ip(&["link", "del", &host_interface(&unheard.id)]))).await;
    for (sandbox, expected) in [(&lost, 0), (&unheard, 0), (&kept, 1)] {
        assert_eq!(ips(rig.runtime.sandbox_status(&sandbox.id).await.unwrap()), (SandboxState::Ready, expected));
    }
    // A stop takes the interface away in order: nothing was lost then.
    rig.runtime.stop_sandbox(&kept.id).await.unwrap();
    assert_eq!(rig.runtime.sandbox_status(&kept.id).await.unwrap().state, SandboxState::NotReady);
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_bridge_comes_back_with_all_that_was_on_it() {
    if skip() {
        return;
    }
    let rig = Rig::new().await;
    let sandbox = rig.sandbox("bridged").await;
    let interface = host_interface(&sandbox.id);
    let bridge = rig.config.network.as_ref().unwrap().bridge.clone();
    let is_on_it = || ip(&["-o", "link", "show", &interface]).contains(&format!("master {bridge} "));
    assert!(is_on_it());
    ip(&["link", "del", &bridge]);
    let back = async {
        while !is_on_it() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(rig::PATIENCE, back).await.expect("the bridge comes back");
    assert_eq!(rig.runtime.sandbox_status(&sandbox.id).await.unwrap().ips, sandbox.ips);
    let gateway = rig.config.network.as_ref().unwrap().pod_cidr.unwrap().gateway();
    assert!(ip(&["-o", "addr", "show", &bridge]).contains(&format!("inet {gateway}/")));
    // Lost while nobody looked.
    let rig = rig.reopen_after(|| drop(ip(&["link", "del", &bridge]))).await;
    assert!(is_on_it());
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_control_group_comes_back_with_its_limits() {
    if skip() {
        return;
    }
    let rig = Rig::new().await;
    let mut pod = rig.pod("grouped");
    pod.resources = Resources { memory_limit_bytes: Some(64 << 20), ..Resources::default() };
    let sandbox = rig.runtime.run_sandbox(&pod).await.unwrap();
    let first = rig.start(&sandbox.id, &rig.spec("main", &["term", "0"])).await;
    rig.printed(&first, "ready").await;
    let mut groups: Vec<_> = rig::cgroups(&rig.config.cgroup_root);
    groups.retain(|dir| dir.to_string_lossy().contains("poduid-grouped"));
    groups.sort_by_key(|dir| std::cmp::Reverse(dir.components().count()));
    assert!(!groups.is_empty());
    let pid = rig.runtime.container_status(&first).await.unwrap().pid.unwrap().cast_signed();
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), rustix::process::Signal::KILL).unwrap();
    rig.ended(&first).await;
    for dir in &groups {
        // Those of the container have gone with it.
        let _ = std::fs::remove_dir(dir);
        assert!(!dir.exists(), "{}", dir.display());
    }
    let mut spec = rig.spec("main", &["term", "0"]);
    spec.attempt = 1;
    let second = rig.start(&sandbox.id, &spec).await;
    rig.printed(&second, "ready").await;
    let stats = rig.runtime.sandbox_stats(&sandbox.id).await.unwrap();
    assert_eq!(stats.memory.limit_bytes, 64 << 20);
    rig.close().await;
}

/// Whoever spoke with the last owner of an address speaks with the next one at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_keeps_its_hardware_address() {
    if skip() {
        return;
    }
    let mut rig = Rig::new().await;
    let mut seen = Vec::new();
    for name in ["first", "second"] {
        let sandbox = rig.sandbox(name).await;
        let id = rig.start(&sandbox.id, &rig.spec("main", &["term", "0"])).await;
        let command = ["/bin/box", "show", "/sys/class/net/eth0/address"].map(str::to_owned);
        let shown = rig.runtime.exec_sync(&id, &command, rig::PATIENCE).await.unwrap();
        seen.push((sandbox.ips[0], String::from_utf8_lossy(&shown.stdout).into_owned()));
        rig.runtime.remove_sandbox(&sandbox.id).await.unwrap();
        // Only a runtime that was just opened gives the same address at once.
        rig = rig.reopen().await;
    }
    assert!(seen[0].1.starts_with("0a:58:"), "{seen:?}");
    assert_eq!(seen[0], seen[1]);
    rig.close().await;
}
