//! What a container can and cannot do and see.
#![allow(clippy::unwrap_used, reason = "a test may fail by panic")]

mod rig;

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use contract::{
    ContainerRuntime, Device, Error, IpcMode, Mount, MountSource, NetworkMode, PidMode, Propagation, Rlimit,
    SeccompProfile, User,
};
use rig::{Rig, skip};

fn host(container_path: &str, path: &std::path::Path, sub_path: &str) -> Mount {
    Mount {
        container_path: container_path.to_owned(),
        source: MountSource::Host { path: path.to_owned(), sub_path: sub_path.to_owned() },
        readonly: false,
        recursive_readonly: false,
        propagation: Propagation::Private,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_capabilities_and_filters() {
    if skip() {
        return;
    }
    let rig = Rig::new().await;
    let sandbox = rig.sandbox("users").await;
    let base = rig.spec("main", &["id", "unshare", "keyctl"]);
    let with = |change: &dyn Fn(&mut contract::ContainerSpec)| {
        let mut spec = base.clone();
        change(&mut spec);
        spec
    };
    let cases: Vec<(contract::ContainerSpec, Vec<&str>)> = vec![
        (
            with(&|_| {}),
            vec![
                "uid=0 gid=0 groups=0\n",
                "CapEff:\t00000000a80425fb",
                "CapBnd:\t00000000a80425fb",
                "NoNewPrivs:\t0",
                "Seccomp:\t0",
                "unshare: Operation not permitted",
            ],
        ),
        (
            with(&|spec| spec.user = User { user: "web".to_owned(), supplemental_groups: vec![7], ..User::default() }),
            vec!["uid=33 gid=34 groups=7,34,50\n", "CapEff:\t0000000000000000", "CapAmb:\t0000000000000000"],
        ),
        (
            with(&|spec| {
                spec.security.drop_capabilities = vec!["ALL".to_owned()];
                spec.security.add_capabilities = vec!["NET_BIND_SERVICE".to_owned()];
                spec.security.no_new_privileges = true;
                spec.security.seccomp = SeccompProfile::RuntimeDefault;
            }),
            vec!["CapEff:\t0000000000000400", "NoNewPrivs:\t1", "Seccomp:\t2", "keyctl: Operation not permitted"],
        ),
        (
            with(&|spec| {
                spec.user.user = "1000:1000".to_owned();
                spec.security.seccomp = SeccompProfile::RuntimeDefault;
            }),
            vec!["uid=1000 gid=1000", "Seccomp:\t2", "keyctl: Operation not permitted"],
        ),
        (with(&|spec| spec.security.privileged = true), vec!["Seccomp:\t0", "unshare: ok"]),
    ];
    for (number, (mut spec, expected)) in cases.into_iter().enumerate() {
        spec.attempt = u32::try_from(number).unwrap();
        let (_, printed) = rig.run(&sandbox.id, &spec).await;
        for text in expected {
            assert!(printed.contains(text), "case {number}: no {text:?} in {printed}");
        }
    }
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn file_systems() {
    if skip() {
        return;
    }
    let rig = Rig::new().await;
    let sandbox = rig.sandbox("files").await;
    let volume = rig.dir.join("volume");
    fs::create_dir_all(volume.join("inner")).unwrap();
    fs::write(volume.join("inner/file"), "inside\n").unwrap();
    symlink("/", volume.join("escape")).unwrap();
    let commands = [
        "write",
        "/file",
        "x",
        "write",
        "/proc/sys/kernel/domainname",
        "x",
        "show",
        "/proc/timer_list",
        "show",
        "/proc/kcore",
        "write",
        "/dev/null",
        "x",
        "write",
        "/rw/made",
        "x",
        "write",
        "/ro/made",
        "x",
        "show",
        "/sub/file",
        "write",
        "/tmp/x",
        "x",
        "write",
        "/dev/shm/x",
        "x",
        "show",
        "/etc/hostname",
        "show",
        "/etc/hosts",
        "pwd",
        "device",
        "/dev/loop-made",
    ];
    let mut spec = rig.spec("main", &commands);
    spec.working_dir = "/work/made".to_owned();
    spec.security.readonly_root = true;
    spec.rlimits = vec![Rlimit { name: "RLIMIT_NOFILE".to_owned(), soft: 64, hard: 64 }];
    let mut readonly = host("/ro", &volume, "");
    readonly.readonly = true;
    spec.mounts = vec![
        host("/sub", &volume, "inner"),
        readonly,
        host("/rw", &volume, ""),
        Mount { source: MountSource::Tmpfs { size_bytes: 1 << 20, mode: 0o1777 }, ..host("/tmp", &volume, "") },
    ];
    let (status, printed) = rig.run(&sandbox.id, &spec).await;
    assert_eq!(status.exit.unwrap().exit_code, 0, "{printed}");
    for expected in [
        "/file: Read-only file system",
        "/proc/sys/kernel/domainname: Read-only file system",
        "/dev/null: ok",
        "/rw/made: ok",
        "/ro/made: Read-only file system",
        "inside",
        "/tmp/x: ok",
        "/dev/shm/x: ok",
        "files\n",
        "# Kubernetes-managed hosts file.",
        "/work/made",
        "stat: ok\nopen: Operation not permitted",
    ] {
        assert!(printed.contains(expected), "no {expected:?} in {printed}");
    }
    assert!(volume.join("made").exists());
    // Nothing of it in the image.
    assert!(!rig.image.join("work").exists() && !rig.image.join("sub").exists());
    for (sub_path, good) in [("inner", true), ("new/dir", true), ("escape/etc", false), ("../volume", false)] {
        let mut spec = rig.spec("sub", &["exit", "0"]);
        spec.mounts = vec![host("/sub", &volume, sub_path)];
        let id = rig.runtime.create_container(&sandbox.id, &spec).await.unwrap();
        let started = rig.runtime.start_container(&id).await;
        assert_eq!(started.is_ok(), good, "{sub_path}: {started:?}");
        if started.is_err() {
            assert!(matches!(started, Err(Error::Start { exit_code: 128, .. })));
        }
        rig.runtime.remove_container(&id).await.unwrap();
    }
    assert!(volume.join("new/dir").is_dir());
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_racing_link_never_leads_out() {
    if skip() {
        return;
    }
    let rig = Rig::new().await;
    let sandbox = rig.sandbox("race").await;
    let volume = rig.dir.join("volume");
    let outside = rig.dir.join("outside");
    fs::create_dir_all(volume.join("real")).unwrap();
    fs::create_dir_all(&outside).unwrap();
    fs::write(outside.join("secret"), "host secret\n").unwrap();
    symlink(&outside, volume.join("link")).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let racer = {
        let (stop, volume) = (stop.clone(), volume.clone());
        std::thread::spawn(move || {
            use rustix::fs::{CWD, RenameFlags, renameat_with};
            while !stop.load(Ordering::Relaxed) {
                let (a, b) = (volume.join("real"), volume.join("link"));
                renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE).unwrap();
            }
        })
    };
    for attempt in 0..40 {
        let mut spec = rig.spec("main", &["show", "/sub/secret", "show", "/vol/real/mount/secret"]);
        spec.attempt = attempt;
        // A source below the racing name, and a target below it.
        spec.mounts =
            vec![host("/sub", &volume, "real/deep"), host("/vol", &volume, ""), host("/vol/real/mount", &volume, "")];
        let id = rig.runtime.create_container(&sandbox.id, &spec).await.unwrap();
        if rig.runtime.start_container(&id).await.is_ok() {
            let status = rig.ended(&id).await;
            assert!(!rig::output(&status).contains("host secret"));
        }
        rig.runtime.remove_container(&id).await.unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    racer.join().unwrap();
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1, "something was made outside");
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shared_namespaces() {
    if skip() {
        return;
    }
    let rig = Rig::new().await;
    let mut pod = rig.pod("shared");
    pod.pid = PidMode::Pod;
    pod.sysctls.insert("net.ipv4.ip_unprivileged_port_start".to_owned(), "77".to_owned());
    pod.domainname = "sub.example".to_owned();
    let sandbox = rig.runtime.run_sandbox(&pod).await.unwrap();
    let mut spec = rig.spec("one", &["write", "/dev/shm/shared", "from one", "pid", "term", "0"]);
    spec.security.add_capabilities = vec!["SYS_PTRACE".to_owned()];
    let one = rig.start(&sandbox.id, &spec).await;
    rig.printed(&one, "ready").await;
    let commands = [
        "pid",
        "show",
        "/dev/shm/shared",
        "show",
        "/proc/1/comm",
        "show",
        "/proc/sys/net/ipv4/ip_unprivileged_port_start",
    ];
    let (_, printed) = rig.run(&sandbox.id, &rig.spec("two", &commands)).await;
    assert!(!printed.contains("pid=1\n"), "{printed}");
    assert!(printed.contains("from one") && printed.contains("pause\n") && printed.contains("77\n"), "{printed}");
    // The pod's first process leads nowhere.
    let command = ["/bin/box", "show", "/proc/1/root/etc/passwd"].map(str::to_owned);
    let seen = rig.runtime.exec_sync(&one, &command, rig::PATIENCE).await.unwrap();
    let text = String::from_utf8_lossy(&seen.stdout).into_owned();
    assert!(text.contains("No such file") || text.contains("Permission denied"), "{text}");

    let mut node = rig.pod("node");
    (node.network, node.pid, node.ipc) = (NetworkMode::Node, PidMode::Node, IpcMode::Node);
    let sandbox = rig.runtime.run_sandbox(&node).await.unwrap();
    assert!(sandbox.ips.is_empty() && sandbox.netns.is_none());
    let mut spec =
        rig.spec("main", &["pid", "show", "/proc/1/comm", "fork", "show", "/etc/hosts", "write", "/dev/zero2", "x"]);
    spec.devices = vec![Device {
        host_path: "/dev/zero".into(),
        container_path: "/dev/zero2".to_owned(),
        permissions: "rw".to_owned(),
    }];
    let (status, printed) = rig.run(&sandbox.id, &spec).await;
    let comm = fs::read_to_string("/proc/1/comm").unwrap();
    assert!(printed.contains(&comm) && printed.contains("(host network)"), "{printed}");
    assert!(printed.contains("/dev/zero2: ok"), "{printed}");
    assert_eq!(status.exit.unwrap().exit_code, 0);
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn images_are_mounted_to_be_read() {
    if skip() {
        return;
    }
    let rig = Rig::new().await;
    let sandbox = rig.sandbox("images").await;
    let (top, base) = (rig.dir.join("top"), rig.dir.join("base"));
    for (layer, text) in [(&top, "from the top"), (&base, "from the base")] {
        fs::create_dir_all(layer.join("data")).unwrap();
        fs::write(layer.join("data/both"), text).unwrap();
    }
    fs::write(base.join("data/below"), "only below").unwrap();
    symlink("/etc", base.join("out")).unwrap();
    let image = |container_path: &str, layers: &[&std::path::PathBuf], sub_path: &str| Mount {
        source: MountSource::Image {
            image_id: "sha256:1".to_owned(),
            reference: String::new(),
            lower_dirs: layers.iter().map(|layer| (*layer).clone()).collect(),
            sub_path: sub_path.to_owned(),
        },
        ..host(container_path, &top, "")
    };
    let commands = [
        "show",
        "/whole/data/both",
        "show",
        "/whole/data/below",
        "show",
        "/part/below",
        "show",
        "/file",
        "show",
        "/one/data/both",
        "write",
        "/whole/data/new",
        "x",
        "write",
        "/one/new",
        "x",
        "write",
        "/part/new",
        "x",
    ];
    let mut spec = rig.spec("main", &commands);
    spec.mounts = vec![
        image("/whole", &[&top, &base], ""),
        image("/part", &[&top, &base], "data"),
        image("/file", &[&top, &base], "data/both"),
        image("/one", &[&base], ""),
    ];
    let (status, printed) = rig.run(&sandbox.id, &spec).await;
    assert_eq!(status.exit.unwrap().exit_code, 0, "{printed}");
    assert_eq!(
        (printed.matches("from the top").count(), printed.matches("from the base").count()),
        (2, 1),
        "{printed}"
    );
    assert_eq!(printed.matches("only below").count(), 2, "{printed}");
    assert_eq!(printed.matches("new: Read-only file system").count(), 3, "{printed}");
    assert!(!base.join("new").exists() && !top.join("data/new").exists());
    for (sub_path, good) in [("data", true), ("missing", false), ("out/passwd", false), ("../base", false)] {
        let mut spec = rig.spec("part", &["exit", "0"]);
        spec.mounts = vec![image("/part", &[&top, &base], sub_path)];
        let id = rig.runtime.create_container(&sandbox.id, &spec).await.unwrap();
        let started = rig.runtime.start_container(&id).await;
        assert_eq!(started.is_ok(), good, "{sub_path}: {started:?}");
        rig.runtime.remove_container(&id).await.unwrap();
    }
}
