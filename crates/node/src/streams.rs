//! The node's hand for the API: logs, commands, terminals, connections of its pods.

use std::sync::Arc;

use apiserver::{LogOptions, LogText, NodeAnswer, NodeError, NodeHand, NodeUsage, PodId};
use clock::Clock;
use contract::{Connection, ContainerFilter, ContainerRuntime, ContainerState, ContainerStatus, Error, ExecSpec};
use contract::{SandboxSpec, SandboxState, SandboxStatus, Session};

use crate::log::{Bells, Reading};
use crate::usage::Meter;

/// A node's streams.
pub struct Streams {
    runtime: Arc<dyn ContainerRuntime>,
    bells: Option<Bells>,
    meter: Meter,
}

impl Streams {
    /// Of the pods that this runtime runs. Must be called on an async runtime.
    pub fn new(runtime: Arc<dyn ContainerRuntime>, clock: Arc<dyn Clock>) -> Streams {
        let bells = Bells::open();
        if let Err(error) = &bells {
            tracing::debug!(%error, "logs that are followed are looked at from time to time");
        }
        let meter = Meter::new(Arc::clone(&runtime), clock);
        Streams { runtime, bells: bells.ok(), meter }
    }

    async fn read_log(&self, id: &str, options: &LogOptions) -> Result<LogText, NodeError> {
        let gone = || NodeError::BadRequest(format!("unable to retrieve container logs for setpoint://{id}"));
        let status = self.runtime.container_status(id).await.map_err(|_| gone())?;
        let reading = Reading {
            runtime: Arc::clone(&self.runtime),
            id: id.to_owned(),
            path: status.log_path,
            options: options.clone(),
        };
        reading.begin(self.bells.clone()).await.map_err(|error| {
            tracing::debug!(container = id, %error, "a log cannot be opened");
            gone()
        })
    }

    /// The pod's newest sandbox that is up.
    async fn sandbox(&self, pod: &PodId) -> Result<SandboxStatus, NodeError> {
        let all = self.runtime.list_sandboxes().await.map_err(internal)?;
        let own = all.into_iter().filter(|found| is_of(&found.spec, pod) && found.state == SandboxState::Ready);
        let missing = || NodeError::NotFound(format!("pod {:?} is not running", pod.name));
        own.max_by_key(|sandbox| sandbox.spec.meta.attempt).ok_or_else(missing)
    }

    /// A container of the pod that runs now.
    async fn running(&self, pod: &PodId, container: &str) -> Result<ContainerStatus, NodeError> {
        let missing = || NodeError::NotFound(format!("container not found ({container:?})"));
        let sandbox = self.sandbox(pod).await.map_err(|_| missing())?;
        let filter = ContainerFilter { sandbox: Some(sandbox.id), state: Some(ContainerState::Running) };
        let all = self.runtime.list_containers(&filter).await.map_err(internal)?;
        let own = all.into_iter().filter(|found| found.spec.name == container);
        own.max_by_key(|found| found.spec.attempt).ok_or_else(missing)
    }
}

/// Whether the API means this sandbox: by uid, or, where it only shows a mirror, by name.
fn is_of(spec: &SandboxSpec, pod: &PodId) -> bool {
    let is_named = || (&spec.meta.namespace, &spec.meta.name) == (&pod.namespace, &pod.name);
    spec.meta.uid == pod.uid || (spec.annotations.contains_key(agent::static_pod::SOURCE) && is_named())
}

fn internal(error: Error) -> NodeError {
    NodeError::Internal(error.to_string())
}

impl NodeHand for Streams {
    fn log<'a>(&'a self, id: &'a str, options: &'a LogOptions) -> NodeAnswer<'a, LogText> {
        Box::pin(self.read_log(id, options))
    }

    fn exec<'a>(&'a self, pod: &'a PodId, container: &'a str, spec: &'a ExecSpec) -> NodeAnswer<'a, Session> {
        Box::pin(async move {
            let found = self.running(pod, container).await?;
            self.runtime.exec(&found.id, spec).await.map_err(internal)
        })
    }

    fn attach<'a>(&'a self, pod: &'a PodId, container: &'a str, stdin: bool) -> NodeAnswer<'a, Session> {
        Box::pin(async move {
            let found = self.running(pod, container).await?;
            self.runtime.attach(&found.id, stdin).await.map_err(internal)
        })
    }

    fn usage(&self) -> NodeAnswer<'_, NodeUsage> {
        Box::pin(self.meter.measure())
    }

    fn forward<'a>(&'a self, pod: &'a PodId, port: u16) -> NodeAnswer<'a, Box<dyn Connection>> {
        Box::pin(async move {
            let sandbox = self.sandbox(pod).await?;
            self.runtime.port_forward(&sandbox.id, port).await.map_err(internal)
        })
    }
}
