//! Starting shims, following them, adopting them after a restart, and cleaning up after them.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Weak};
use std::time::Duration;

use clock::Clock;
use rustix::fs::CWD;
use tokio::io::AsyncReadExt;

use super::channel::Channel;
use super::sandbox::Sandbox;
use super::{ANSWER_TIMEOUT, Inner, Runtime, SANDBOX_TIMEOUT, blocking, fd_path, timed};
use crate::record::{self, SandboxRecord};
use crate::shim::protocol::{Reply, Request};
use crate::sys;
use contract::EventKind;
use contract::{Error, Result};

/// How long a dying predecessor is waited for: its last breath between fork and exec takes milliseconds.
const LOCK_WAIT: Duration = Duration::from_secs(5);
/// How long a shim that holds its lock may take to answer at start-up: it may just be setting up.
const ADOPT_WAIT: Duration = Duration::from_secs(10);
/// The pause between two looks at a lock, which nobody announces.
const LOCK_PAUSE: Duration = Duration::from_millis(5);
/// Bytes of the word that a shim says when it is ready or not.
const WORD_BYTES_MAX: u64 = 64 << 10;

/// The root's lock: one runtime at a time.
pub(super) async fn lock_root(root: &Path) -> Result<File> {
    let path = root.join(record::LOCK);
    let file = File::create(&path).map_err(Error::io(format!("open {}", path.display())))?;
    let taken = tokio::time::timeout(LOCK_WAIT, async {
        while file.try_lock().is_err() {
            tokio::time::sleep(LOCK_PAUSE).await;
        }
    });
    match taken.await {
        Ok(()) => Ok(file),
        Err(_) => Err(Error::WrongState(format!("another runtime uses {}", root.display()))),
    }
}

/// The program on a read-only mount that is nowhere to be found but in this descriptor.
pub(super) fn readonly_program(path: &Path) -> io::Result<OwnedFd> {
    use rustix::mount::{OpenTreeFlags, open_tree};
    let tree = open_tree(CWD, path, OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC)?;
    sys::mount_setattr(tree.as_fd(), false, libc::MOUNT_ATTR_RDONLY, 0, 0)?;
    Ok(tree)
}

/// Kills a shim that does not go by itself.
pub(super) fn kill_shim(sandbox: &Sandbox) {
    let pid = fs::read_to_string(sandbox.dir.join(record::SHIM_PID)).ok().and_then(|text| text.parse::<i32>().ok());
    let Some(pid) = pid else { return };
    // The number may be another process's by now.
    let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    if line.contains(&sandbox.record.id) {
        let _ = sys::kill(pid, libc::SIGKILL);
    }
}

impl Runtime {
    /// Makes the pod's cgroup, starts the shim and waits until it is ready.
    pub(super) async fn start_shim(&self, sandbox: &Arc<Sandbox>) -> Result<()> {
        self.make_pod_group(sandbox)?;
        let lock = sandbox.try_lock().map_err(Error::io("lock the sandbox"))?;
        let lock = lock.ok_or_else(|| Error::WrongState("the sandbox has a shim already".to_owned()))?;
        let config = &self.inner.config.shim;
        let program = self.inner.program.as_ref().map_or_else(|| config.program.clone(), fd_path);
        let mut command = tokio::process::Command::new(program);
        command.args(&config.args).arg(&sandbox.dir).env_clear();
        command.stdin(lock).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(Error::io("start the shim"))?;
        let word = child.stdout.take();
        // Collected when it ends, so that it does not stay as a zombie.
        tokio::spawn(async move { child.wait().await });
        let read = async {
            let mut bytes = Vec::new();
            if let Some(word) = word {
                word.take(WORD_BYTES_MAX).read_to_end(&mut bytes).await.map_err(Error::io("hear from the shim"))?;
            }
            Ok(bytes)
        };
        let bytes = timed("starting the sandbox", SANDBOX_TIMEOUT, read).await?;
        let shim = |message: String| Error::Shim { id: sandbox.record.id.clone(), message };
        match serde_json::from_slice(&bytes) {
            Ok(Reply::Started { pid }) => self.follow(sandbox, u32::try_from(pid).ok()).await,
            Ok(Reply::Failed { message, .. }) => Err(shim(message)),
            _ => Err(shim("ended before it was ready".to_owned())),
        }
    }

    /// Subscribes to a shim's events, and goes on reading them until it is gone.
    async fn follow(&self, sandbox: &Arc<Sandbox>, pid: Option<u32>) -> Result<()> {
        let channel = self.subscribe(sandbox).await?;
        sandbox.change(|view| {
            view.ready = true;
            view.shim_pid = pid;
        });
        self.publish(sandbox, EventKind::SandboxReady);
        // It may have been unplugged while nobody looked.
        self.check_plug(sandbox);
        // Weak: following a shim does not keep a runtime open that nobody uses any more.
        tokio::spawn(follow_to_the_end(Arc::downgrade(&self.inner), sandbox.clone(), channel));
        Ok(())
    }

    async fn subscribe(&self, sandbox: &Arc<Sandbox>) -> Result<Channel> {
        let shim = |e: io::Error| Error::Shim { id: sandbox.record.id.clone(), message: e.to_string() };
        timed("subscribing to the shim", ANSWER_TIMEOUT, async {
            let channel = Channel::connect(&sandbox.dir).await.map_err(shim)?;
            channel.send(&Request::Subscribe, &[]).await.map_err(shim)?;
            match channel.receive().await.map_err(shim)? {
                Some((Reply::Done, _)) => Ok(channel),
                _ => Err(shim(io::ErrorKind::ConnectionReset.into())),
            }
        })
        .await
    }

    /// Reads from disk what events would have told.
    fn catch_up(&self, sandbox: &Arc<Sandbox>) {
        let ended = |sandbox: &Sandbox| -> Vec<String> {
            let view = sandbox.view();
            view.containers.iter().filter(|(_, c)| c.exit.is_some()).map(|(id, _)| id.clone()).collect()
        };
        let before = ended(sandbox);
        if sandbox.reload().is_err() {
            return;
        }
        for id in ended(sandbox).into_iter().filter(|id| !before.contains(id)) {
            let exit = sandbox.view().containers.get(&id).and_then(|container| container.exit.clone());
            if let Some(exit) = exit {
                self.publish(sandbox, EventKind::ContainerExited { container: id, exit });
            }
        }
    }

    /// Waits for the shim's lock and cleans up. May be repeated.
    pub(super) async fn bury(&self, sandbox: &Arc<Sandbox>) -> Result<()> {
        let held = tokio::time::timeout(ADOPT_WAIT, async {
            loop {
                match sandbox.try_lock() {
                    Ok(None) => tokio::time::sleep(LOCK_PAUSE).await,
                    other => return other,
                }
            }
        });
        let lock = match held.await {
            Ok(lock) => lock.map_err(Error::io("lock the sandbox"))?,
            Err(_) => {
                // Not going by itself.
                kill_shim(sandbox);
                None
            }
        };
        let (hierarchies, buried) = (self.inner.hierarchies.clone(), sandbox.clone());
        let now = self.inner.clock.now();
        let events = blocking("clean up the sandbox", move || buried.bury(&hierarchies, now)).await?;
        drop(lock);
        for event in events {
            self.publish(sandbox, event);
        }
        Ok(())
    }

    /// Finds all sandboxes again.
    pub(super) async fn adopt_all(&self) -> Result<()> {
        let parent = self.inner.config.root.join("sandboxes");
        let entries = fs::read_dir(&parent).map_err(Error::io(format!("list {}", parent.display())))?;
        for entry in entries {
            let entry = entry.map_err(Error::io(format!("list {}", parent.display())))?;
            if entry.file_name().to_string_lossy().starts_with('.') {
                super::remove_in_background(entry.path()).await?;
                continue;
            }
            match record::read::<SandboxRecord>(&entry.path().join(record::SANDBOX)) {
                Ok(found) => self.adopt(Arc::new(Sandbox::new(found, entry.path()))).await?,
                Err(error) => {
                    // Cut short by a loss of power, after which nothing of it runs.
                    tracing::warn!(path = %entry.path().display(), %error, "removing a sandbox without a record");
                    super::remove_in_background(entry.path()).await?;
                }
            }
        }
        Ok(())
    }

    async fn adopt(&self, sandbox: Arc<Sandbox>) -> Result<()> {
        sandbox.reload().map_err(Error::io(format!("read {}", sandbox.dir.display())))?;
        self.all().insert(sandbox.record.id.clone(), sandbox.clone());
        let held = sandbox.try_lock().map_err(Error::io("lock the sandbox"))?.is_none();
        if held && self.adopt_living(&sandbox).await.is_ok() {
            // Between the first look and the subscription something may have happened.
            sandbox.reload().map_err(Error::io(format!("read {}", sandbox.dir.display())))?;
            return Ok(());
        }
        if held {
            kill_shim(&sandbox);
        }
        self.bury(&sandbox).await?;
        self.remove_pod_group(&sandbox);
        Ok(())
    }

    async fn adopt_living(&self, sandbox: &Arc<Sandbox>) -> Result<()> {
        timed("adopting the sandbox", ADOPT_WAIT, async {
            loop {
                let pid = fs::read_to_string(sandbox.dir.join(record::SHIM_PID)).ok();
                match self.follow(sandbox, pid.and_then(|text| text.parse().ok())).await {
                    Err(Error::Shim { .. }) if sandbox.try_lock().is_ok_and(|lock| lock.is_none()) => {
                        // Not listening yet.
                        tokio::time::sleep(LOCK_PAUSE).await;
                    }
                    other => return other,
                }
            }
        })
        .await
    }
}

/// Passes on what a shim tells; when it is gone, cleans up after it.
async fn follow_to_the_end(runtime: Weak<Inner>, sandbox: Arc<Sandbox>, mut channel: Channel) {
    let open = || runtime.upgrade().map(|inner| Runtime { inner });
    loop {
        while let Ok(Some((reply, _))) = channel.receive().await {
            let (Reply::Event(event), Some(runtime)) = (reply, open()) else { continue };
            sandbox.apply(&event);
            runtime.publish(&sandbox, event);
        }
        let Some(runtime) = open() else { return };
        // The shim cuts off a subscriber that is too slow; then nothing is over, but something was missed.
        match runtime.subscribe(&sandbox).await {
            Ok(again) => channel = again,
            Err(_) => break,
        }
        runtime.catch_up(&sandbox);
    }
    let Some(runtime) = open() else { return };
    if let Err(error) = runtime.bury(&sandbox).await {
        tracing::warn!(sandbox = sandbox.record.id, %error, "cannot clean up after the shim");
    }
}
