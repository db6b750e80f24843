//! Containers: made on disk here, started and stopped by the shim.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use clock::Clock;

use super::sandbox::{ContainerView, Sandbox};
use super::{KILL_TIMEOUT, Runtime, START_TIMEOUT, blocking, new_id, remove_in_background, timed, validate};
use crate::record::{self, ContainerRecord};
use crate::shim::protocol::{Reply, Request};
use contract::Resources;
use contract::{ContainerId, ContainerSpec};
use contract::{ContainerState, EventKind};
use contract::{Error, Result};

impl Runtime {
    pub(super) fn container(&self, sandbox: &Sandbox, id: &str) -> Result<ContainerView> {
        let found = sandbox.view().containers.get(id).cloned();
        found.ok_or_else(|| Error::NotFound { what: "container", id: id.to_owned() })
    }

    pub(super) async fn create(&self, sandbox: &str, spec: &ContainerSpec) -> Result<ContainerId> {
        validate::container(spec)?;
        let sandbox = self.sandbox(sandbox)?;
        let _operation = sandbox.operation.lock().await;
        if !sandbox.view().ready {
            return Err(Error::WrongState(format!("sandbox {} is not ready", sandbox.record.id)));
        }
        let same =
            |known: &&ContainerView| known.record.spec.name == spec.name && known.record.spec.attempt == spec.attempt;
        if let Some(known) = sandbox.view().containers.values().find(same) {
            return Ok(known.record.id.clone());
        }
        let record = ContainerRecord { id: new_id(), spec: spec.clone(), created_at: self.inner.clock.now() };
        let id = record.id.clone();
        let dir = record::container_dir(&sandbox.dir, &id);
        let hidden = dir.with_file_name(format!(".{id}"));
        let write = || {
            fs::create_dir(&hidden)?;
            ["upper", "work", "rootfs"].iter().try_for_each(|name| fs::create_dir(hidden.join(name)))?;
            record::write(&hidden.join(record::CONTAINER), &record, false)?;
            fs::rename(&hidden, &dir)
        };
        write().map_err(Error::io(format!("make {}", dir.display())))?;
        sandbox.change(|view| view.containers.insert(id.clone(), ContainerView { record, started: None, exit: None }));
        self.publish(&sandbox, EventKind::ContainerCreated { container: id.clone() });
        Ok(id)
    }

    pub(super) async fn start(&self, id: &str) -> Result<()> {
        let sandbox = self.owner(id)?;
        let _operation = sandbox.operation.lock().await;
        match self.container(&sandbox, id)?.state() {
            ContainerState::Running => return Ok(()),
            ContainerState::Exited => return Err(Error::WrongState(format!("container {id} has exited"))),
            ContainerState::Created => {}
        }
        let request = Request::Start { container: id.to_owned() };
        match self.ask(&sandbox, &request, START_TIMEOUT).await?.0 {
            Reply::Started { .. } => {
                sandbox.apply(&EventKind::ContainerStarted { container: id.to_owned() });
                Ok(())
            }
            Reply::Failed { message, exit_code } => {
                let exit = record::read(&record::container_dir(&sandbox.dir, id).join(record::EXIT)).ok();
                sandbox.change(|view| {
                    if let Some(known) = view.containers.get_mut(id) {
                        known.exit = exit;
                    }
                });
                Err(Error::Start { message, exit_code })
            }
            other => Err(Error::Shim { id: sandbox.record.id.clone(), message: format!("answered {other:?}") }),
        }
    }

    /// Waits until the container has ended.
    async fn await_end(&self, sandbox: &Sandbox, id: &str, limit: Duration) -> Result<()> {
        let mut changes = sandbox.changes();
        timed(&format!("the end of container {id}"), limit, async {
            while self.container(sandbox, id).is_ok_and(|view| view.state() == ContainerState::Running) {
                changes.changed().await.map_err(|_| Error::WrongState("the runtime is closing".to_owned()))?;
            }
            Ok(())
        })
        .await
    }

    pub(super) async fn stop(&self, id: &str, signal: i32, grace: Duration) -> Result<()> {
        let sandbox = match self.owner(id) {
            Err(e) if e.is_not_found() => return Ok(()),
            other => other?,
        };
        if self.container(&sandbox, id)?.state() != ContainerState::Running {
            return Ok(());
        }
        if !grace.is_zero() {
            match self.tell(&sandbox, &Request::Signal { container: id.to_owned(), signal }).await {
                // A shim that is gone takes its containers along.
                Ok(_) | Err(Error::Shim { .. }) => {}
                Err(e) => return Err(e),
            }
            if self.await_end(&sandbox, id, grace).await.is_ok() {
                return Ok(());
            }
        }
        self.kill(&sandbox, id).await
    }

    /// Kills all of the container. A shim that is gone took it along.
    async fn kill(&self, sandbox: &Arc<Sandbox>, id: &str) -> Result<()> {
        match self.tell(sandbox, &Request::Kill { container: id.to_owned() }).await {
            Ok(_) | Err(Error::Shim { .. }) => {}
            Err(e) => return Err(e),
        }
        self.await_end(sandbox, id, KILL_TIMEOUT).await
    }

    pub(super) async fn remove(&self, id: &str) -> Result<()> {
        let sandbox = match self.owner(id) {
            Err(e) if e.is_not_found() => return Ok(()),
            other => other?,
        };
        let _operation = sandbox.operation.lock().await;
        let Ok(view) = self.container(&sandbox, id) else { return Ok(()) };
        if view.state() == ContainerState::Running {
            self.kill(&sandbox, id).await?;
        }
        if sandbox.view().ready {
            self.tell(&sandbox, &Request::Forget { container: id.to_owned() }).await?;
        } else {
            let group = sandbox.pod_group(&self.inner.hierarchies).child(id);
            blocking("remove the container's cgroup", move || group.remove()).await?;
        }
        let dir = record::container_dir(&sandbox.dir, id);
        let hidden = dir.with_file_name(format!(".{id}"));
        fs::rename(&dir, &hidden).map_err(Error::io(format!("remove {}", dir.display())))?;
        sandbox.change(|view| view.containers.remove(id));
        self.publish(&sandbox, EventKind::ContainerRemoved { container: id.to_owned() });
        remove_in_background(hidden).await
    }

    pub(super) async fn update(&self, id: &str, resources: &Resources) -> Result<()> {
        let sandbox = self.owner(id)?;
        let _operation = sandbox.operation.lock().await;
        let mut view = self.container(&sandbox, id)?;
        if view.state() == ContainerState::Running {
            let group = sandbox.pod_group(&self.inner.hierarchies).child(id);
            group.apply(resources).map_err(Error::io("apply limits"))?;
        }
        merge(&mut view.record.spec.resources, resources);
        let path = record::container_dir(&sandbox.dir, id).join(record::CONTAINER);
        record::write(&path, &view.record, false).map_err(Error::io("record the limits"))?;
        sandbox.change(|known| {
            if let Some(known) = known.containers.get_mut(id) {
                known.record = view.record;
            }
        });
        Ok(())
    }
}

/// What the update names replaces what was there.
fn merge(known: &mut Resources, update: &Resources) {
    let Resources {
        cpu_shares,
        cpu_quota_us,
        cpu_period_us,
        cpuset_cpus,
        cpuset_mems,
        memory_limit_bytes,
        pids_limit,
        hugepage_limits,
    } = update.clone();
    known.cpu_shares = cpu_shares.or(known.cpu_shares);
    known.cpu_quota_us = cpu_quota_us.or(known.cpu_quota_us);
    known.cpu_period_us = cpu_period_us.or(known.cpu_period_us);
    known.cpuset_cpus = cpuset_cpus.or_else(|| known.cpuset_cpus.take());
    known.cpuset_mems = cpuset_mems.or_else(|| known.cpuset_mems.take());
    known.memory_limit_bytes = memory_limit_bytes.or(known.memory_limit_bytes);
    known.pids_limit = pids_limit.or(known.pids_limit);
    if !hugepage_limits.is_empty() {
        known.hugepage_limits = hugepage_limits;
    }
}
