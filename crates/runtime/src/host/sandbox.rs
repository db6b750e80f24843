//! A sandbox as the server knows it: its record, what its shim reported, and how to clean up without one.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use stdx::Time;
use tokio::sync::watch;

use crate::cgroup::{Group, Hierarchies};
use crate::net;
use crate::record::{self, ContainerRecord, SandboxRecord, StartRecord};
use crate::shim::NETNS_FD;
use contract::{ContainerState, ContainerStatus, EventKind, ExitRecord, SandboxState, SandboxStatus};

/// What is known of a container.
#[derive(Clone, Debug)]
pub(super) struct ContainerView {
    pub(super) record: ContainerRecord,
    pub(super) started: Option<StartRecord>,
    pub(super) exit: Option<ExitRecord>,
}

impl ContainerView {
    pub(super) fn state(&self) -> ContainerState {
        match (&self.exit, &self.started) {
            (Some(_), _) => ContainerState::Exited,
            (None, Some(_)) => ContainerState::Running,
            (None, None) => ContainerState::Created,
        }
    }

    fn load(dir: &Path) -> io::Result<ContainerView> {
        Ok(ContainerView {
            record: record::read(&dir.join(record::CONTAINER))?,
            started: record::read(&dir.join(record::STARTED)).ok(),
            exit: record::read(&dir.join(record::EXIT)).ok(),
        })
    }
}

/// What changes.
#[derive(Debug, Default)]
pub(super) struct View {
    pub(super) ready: bool,
    /// Its interface is gone: it has no address any more.
    pub(super) unplugged: bool,
    pub(super) shim_pid: Option<u32>,
    pub(super) containers: BTreeMap<String, ContainerView>,
}

impl View {
    /// Whether it has its address.
    pub(super) fn is_connected(&self) -> bool {
        self.ready && !self.unplugged
    }
}

/// A sandbox.
pub(super) struct Sandbox {
    pub(super) record: SandboxRecord,
    pub(super) dir: PathBuf,
    /// Held by the operation that changes the sandbox or one of its containers.
    pub(super) operation: tokio::sync::Mutex<()>,
    view: Mutex<View>,
    /// Counts changes of the view, for those who wait for one.
    changed: watch::Sender<u64>,
}

impl Sandbox {
    pub(super) fn new(record: SandboxRecord, dir: PathBuf) -> Sandbox {
        Sandbox {
            record,
            dir,
            operation: tokio::sync::Mutex::new(()),
            view: Mutex::default(),
            changed: watch::Sender::new(0),
        }
    }

    pub(super) fn view(&self) -> MutexGuard<'_, View> {
        // A view is replaced field by field and never half-valid.
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the view and wakes those who wait.
    pub(super) fn change<T>(&self, step: impl FnOnce(&mut View) -> T) -> T {
        let result = step(&mut self.view());
        self.changed.send_modify(|count| *count += 1);
        result
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Reads the containers from disk again; what was begun and not finished is swept away.
    pub(super) fn reload(&self) -> io::Result<()> {
        let mut found: BTreeMap<String, ContainerView> = BTreeMap::new();
        for entry in fs::read_dir(self.dir.join("containers"))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with('.') {
                record::remove_tree(&entry.path())?;
                continue;
            }
            found.insert(name, ContainerView::load(&entry.path())?);
        }
        self.change(|view| {
            // An end that could not be written to a full disk was told all the same.
            for (name, fresh) in found.iter_mut().filter(|(_, fresh)| fresh.exit.is_none()) {
                fresh.exit = view.containers.get(name).and_then(|known| known.exit.clone());
            }
            view.containers = found;
        });
        Ok(())
    }

    /// Applies what the shim reported.
    pub(super) fn apply(&self, event: &EventKind) {
        let reload = |id: &String| ContainerView::load(&record::container_dir(&self.dir, id)).ok();
        self.change(|view| match event {
            EventKind::ContainerStarted { container } => {
                if let (Some(known), Some(fresh)) = (view.containers.get_mut(container), reload(container)) {
                    known.started = fresh.started;
                }
            }
            EventKind::ContainerExited { container, exit } => {
                if let Some(known) = view.containers.get_mut(container) {
                    known.exit = Some(exit.clone());
                }
            }
            _ => {}
        });
    }

    pub(super) fn status(&self) -> SandboxStatus {
        let view = self.view();
        let net = self.record.net.as_ref().filter(|_| view.ready);
        let plugged = net.filter(|_| view.is_connected());
        SandboxStatus {
            id: self.record.id.clone(),
            spec: self.record.spec.clone(),
            state: if view.ready { SandboxState::Ready } else { SandboxState::NotReady },
            created_at: self.record.created_at,
            ips: plugged.map(|net| net.address.into()).into_iter().collect(),
            shim_pid: view.shim_pid,
            netns: net.and(view.shim_pid).map(|pid| PathBuf::from(format!("/proc/{pid}/fd/{NETNS_FD}"))),
        }
    }

    pub(super) fn container_status(&self, view: &ContainerView) -> ContainerStatus {
        let state = view.state();
        let running = view.started.as_ref().filter(|_| state == ContainerState::Running);
        ContainerStatus {
            id: view.record.id.clone(),
            sandbox: self.record.id.clone(),
            spec: view.record.spec.clone(),
            state,
            created_at: view.record.created_at,
            started_at: view.started.as_ref().map(|started| started.at),
            exit: view.exit.clone(),
            pid: running.and_then(|started| u32::try_from(started.pid).ok()),
            log_path: self.record.log_path(&view.record.spec),
            writable_layer: record::container_dir(&self.dir, &view.record.id).join("upper"),
        }
    }

    pub(super) fn pod_group(&self, hierarchies: &Hierarchies) -> Group {
        hierarchies.group(&self.record.pod_cgroup())
    }

    /// The lock, if no shim holds it.
    pub(super) fn try_lock(&self) -> io::Result<Option<File>> {
        let file = fs::OpenOptions::new().create(true).truncate(false).write(true).open(self.dir.join(record::LOCK))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(e)) => Err(e),
        }
    }

    /// Cleans up what a shim that is gone may have left: processes, control groups, interfaces. Containers that
    /// nobody saw end are recorded as such. The result is the events that follow.
    pub(super) fn bury(&self, hierarchies: &Hierarchies, now: Time) -> io::Result<Vec<EventKind>> {
        let pod = self.pod_group(hierarchies);
        let ids: Vec<String> = self.view().containers.keys().cloned().collect();
        for id in &ids {
            pod.child(id).remove()?;
        }
        pod.child(&self.record.id).remove()?;
        if self.record.net.is_some() {
            net::delete(&self.record.host_interface())?;
        }
        let mut events = Vec::new();
        for id in ids {
            if let Some(exit) = self.record_unseen_end(&id, now)? {
                events.push(EventKind::ContainerExited { container: id, exit });
            }
        }
        // What still waits to be started never will be.
        let was_ready = self.change(|view| {
            view.shim_pid = None;
            std::mem::take(&mut view.ready)
        });
        if was_ready {
            events.push(EventKind::SandboxNotReady);
        }
        Ok(events)
    }

    fn record_unseen_end(&self, id: &str, now: Time) -> io::Result<Option<ExitRecord>> {
        let dir = record::container_dir(&self.dir, id);
        let fresh = ContainerView::load(&dir)?;
        let known = self.view().containers.get(id).and_then(|view| view.exit.clone());
        let exit = match (fresh.state(), known) {
            (ContainerState::Created, _) | (ContainerState::Exited, Some(_)) => return Ok(None),
            (ContainerState::Exited, None) => fresh.exit,
            (ContainerState::Running, Some(known)) => {
                record_end(&dir, &known);
                return Ok(None);
            }
            (ContainerState::Running, None) => {
                let exit = ExitRecord {
                    exit_code: 255,
                    reason: "Unknown".to_owned(),
                    finished_at: now,
                    ..ExitRecord::default()
                };
                record_end(&dir, &exit);
                Some(exit)
            }
        };
        self.change(|view| {
            if let Some(known) = view.containers.get_mut(id) {
                known.started = fresh.started;
                known.exit.clone_from(&exit);
            }
        });
        Ok(exit)
    }
}

/// A full disk must not keep a sandbox from being taken down: then the end is known as long as this process is.
fn record_end(dir: &Path, exit: &ExitRecord) {
    if let Err(error) = record::write(&dir.join(record::EXIT), exit, true) {
        tracing::warn!(path = %dir.display(), %error, "the end of a container cannot be recorded");
    }
}
