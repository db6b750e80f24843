//! A runtime of its own for every test, an image made on the spot, and a search for what was left behind.
#![allow(dead_code, reason = "every test file uses its part")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use contract::{
    ContainerRuntime, ContainerSpec, ContainerState, ContainerStatus, EventKind, Events, PodMeta, RootImage,
    SandboxSpec, SandboxStatus,
};
use runtime::{Config, NetworkConfig, Runtime, ShimCommand};

/// Far above what anything here takes: only a hang runs into it.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// True (and says why) when the test cannot run.
pub fn skip() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("skipped: containers need root");
    }
    !root
}

/// The test program, compiled once a process.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/box.c");
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("box-{}", std::process::id()));
        let status = Command::new("gcc").args(["-static", "-O1", "-o"]).arg(&target).arg(source).status();
        assert!(status.expect("gcc runs").success());
        target
    })
}

/// Makes an image's layer at `dir`.
pub fn make_image(dir: &Path) {
    for sub in ["bin", "etc", "tmp", "data"] {
        fs::create_dir_all(dir.join(sub)).unwrap();
    }
    fs::copy(program(), dir.join("bin/box")).unwrap();
    fs::write(dir.join("etc/passwd"), "root:x:0:0::/root:/bin/sh\nweb:x:33:34::/srv:/bin/sh\n").unwrap();
    fs::write(dir.join("etc/group"), "root:x:0:\nwww:x:34:\nlogs:x:50:web\n").unwrap();
    fs::write(dir.join("etc/noexec"), "not a program\n").unwrap();
    fs::write(dir.join("bin/garbage"), "\x01\x02garbage").unwrap();
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(dir.join("bin/garbage"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(dir.join("tmp"), fs::Permissions::from_mode(0o1777)).unwrap();
}

/// A runtime with everything around it.
pub struct Rig {
    pub dir: PathBuf,
    pub config: Config,
    pub runtime: Runtime,
    pub image: PathBuf,
    _temporary: Option<tempfile::TempDir>,
}

/// A configuration below `dir`; `number` tells rigs of one process apart.
pub fn config(dir: &Path, number: u32) -> Config {
    let pid = std::process::id();
    Config {
        root: dir.join("root"),
        logs: dir.join("logs"),
        cgroup_root: format!("sptest-{pid}-{number}"),
        shim: ShimCommand { program: env!("CARGO_BIN_EXE_runtime-shim").into(), args: vec![] },
        network: Some(NetworkConfig {
            bridge: format!("spt{}x{number}", pid % 1_000_000),
            pod_cidr: format!("10.{}.{}.0/24", 200 + pid % 50, number % 250).parse().ok(),
            mtu: 1500,
            forward: false,
        }),
    }
}

impl Rig {
    pub async fn new() -> Rig {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path().to_owned();
        let image = dir.join("image");
        make_image(&image);
        let config = config(&dir, number);
        let runtime = Runtime::open(config.clone()).await.unwrap();
        Rig { dir, config, runtime, image, _temporary: Some(temporary) }
    }

    pub fn pod(&self, name: &str) -> SandboxSpec {
        SandboxSpec {
            meta: PodMeta {
                name: name.to_owned(),
                namespace: "default".to_owned(),
                uid: format!("uid-{name}"),
                attempt: 0,
            },
            hostname: name.to_owned(),
            ..SandboxSpec::default()
        }
    }

    pub async fn sandbox(&self, name: &str) -> SandboxStatus {
        self.runtime.run_sandbox(&self.pod(name)).await.unwrap()
    }

    pub fn spec(&self, name: &str, command: &[&str]) -> ContainerSpec {
        ContainerSpec {
            name: name.to_owned(),
            root: RootImage { lower_dirs: vec![self.image.clone()], ..RootImage::default() },
            command: std::iter::once("/bin/box").chain(command.iter().copied()).map(str::to_owned).collect(),
            ..ContainerSpec::default()
        }
    }

    /// Creates and starts.
    pub async fn start(&self, sandbox: &str, spec: &ContainerSpec) -> String {
        let id = self.runtime.create_container(sandbox, spec).await.unwrap();
        self.runtime.start_container(&id).await.unwrap();
        id
    }

    /// Waits for the end.
    pub async fn ended(&self, id: &str) -> ContainerStatus {
        let mut events = self.runtime.events();
        loop {
            let status = self.runtime.container_status(id).await.unwrap();
            if status.state == ContainerState::Exited {
                return status;
            }
            next(&mut events).await;
        }
    }

    /// Runs a container to its end; its status and output.
    pub async fn run(&self, sandbox: &str, spec: &ContainerSpec) -> (ContainerStatus, String) {
        let id = self.start(sandbox, spec).await;
        let status = self.ended(&id).await;
        let output = output(&status);
        (status, output)
    }

    /// Waits until the container has printed `text`.
    pub async fn printed(&self, id: &str, text: &str) {
        let status = self.runtime.container_status(id).await.unwrap();
        let wait = async {
            while !output(&status).contains(text) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.expect("the container prints");
    }

    /// Opens the runtime again, as a restarted server does.
    pub async fn reopen(self) -> Rig {
        self.reopen_after(|| ()).await
    }

    /// The same, with something done while no server looks.
    pub async fn reopen_after(self, meanwhile: impl FnOnce()) -> Rig {
        let Rig { dir, config, runtime, image, _temporary } = self;
        drop(runtime);
        meanwhile();
        let runtime = Runtime::open(config.clone()).await.unwrap();
        Rig { dir, config, runtime, image, _temporary }
    }

    /// Removes everything and looks for what is left.
    pub async fn close(self) {
        for sandbox in self.runtime.list_sandboxes().await.unwrap() {
            self.runtime.remove_sandbox(&sandbox.id).await.unwrap();
        }
        let Rig { config, runtime, _temporary, .. } = self;
        let left = leftovers(&config);
        // A runtime that is there heals what it loses, its bridge too.
        drop(runtime);
        clean(&config);
        assert_eq!(left, Vec::<String>::new());
    }
}

pub async fn next(events: &mut Events) -> Option<EventKind> {
    let event = tokio::time::timeout(PATIENCE, events.next()).await.expect("an event comes");
    event.ok().flatten().map(|event| event.kind)
}

/// What the container printed, without times.
pub fn output(status: &ContainerStatus) -> String {
    let text = fs::read_to_string(&status.log_path).unwrap_or_default();
    text.lines().filter_map(|line| line.splitn(4, ' ').nth(3)).map(|line| format!("{line}\n")).collect()
}

/// All directories below `root` of any hierarchy.
pub fn cgroups(root: &str) -> Vec<PathBuf> {
    let mut tops: Vec<PathBuf> = vec![Path::new("/sys/fs/cgroup").join(root)];
    for entry in fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten() {
        tops.push(entry.path().join(root));
    }
    let mut found = Vec::new();
    let mut stack: Vec<PathBuf> = tops.into_iter().filter(|dir| dir.is_dir()).collect();
    while let Some(dir) = stack.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                stack.push(entry.path());
            }
        }
        found.push(dir);
    }
    found
}

/// Processes, mounts, control groups, interfaces and directories that belong to the runtime of `config`.
pub fn leftovers(config: &Config) -> Vec<String> {
    let mut left = Vec::new();
    let root = config.root.display().to_string();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let path = entry.path();
        let line = fs::read_to_string(path.join("cmdline")).unwrap_or_default();
        let group = fs::read_to_string(path.join("cgroup")).unwrap_or_default();
        // A zombie has no command line and is its parent's to collect.
        if line.contains(&format!("{root}/sandboxes")) || (!line.is_empty() && group.contains(&config.cgroup_root)) {
            left.push(format!("process {}: {}", path.display(), line.replace('\0', " ")));
        }
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    left.extend(mounts.lines().filter(|line| line.contains(&root)).map(|line| format!("mount {line}")));
    let pods = cgroups(&config.cgroup_root).into_iter().filter(|dir| dir.to_string_lossy().contains("pod"));
    left.extend(pods.map(|dir| format!("cgroup {}", dir.display())));
    if let Some(network) = &config.network {
        let ports = fs::read_dir(format!("/sys/class/net/{}/brif", network.bridge)).into_iter().flatten().flatten();
        left.extend(ports.map(|port| format!("interface {}", port.path().display())));
    }
    let kept = fs::read_dir(config.root.join("sandboxes")).into_iter().flatten().flatten();
    left.extend(kept.map(|entry| format!("directory {}", entry.path().display())));
    left
}

/// Removes the bridge and the empty control groups of a rig.
pub fn clean(config: &Config) {
    if let Some(network) = &config.network {
        runtime::remove_bridge(&network.bridge).unwrap();
    }
    let mut dirs = cgroups(&config.cgroup_root);
    dirs.sort_by_key(|dir| std::cmp::Reverse(dir.components().count()));
    for dir in dirs {
        let _ = fs::remove_dir(dir);
    }
}
