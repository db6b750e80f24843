//! The node's hand for the API: logs, commands, terminals, connections of its pods.

use std::sync::Arc;

use apiserver::{LogOptions, LogText, NodeAnswer, NodeError, NodeHand, NodeUsage, PAGE_BYTES_MAX, Page, PodId};
use bytes::Bytes;
use contract::{Connection, ContainerFilter, ContainerRuntime, ContainerState, ContainerStatus, Error, ExecSpec};
use contract::{SandboxSpec, SandboxState, SandboxStatus, Session};
use store::Store;
use view::View;

use crate::disks::{Disks, known_pods};
use crate::log::{Bells, Reading};
use crate::pages::Measured;
use crate::upkeep::sample::{self, Places};
use crate::usage::Meter;
use crate::{NodeConfig, pages};

/// A node's streams.
pub struct Streams {
    runtime: Arc<dyn ContainerRuntime>,
    bells: Option<Bells>,
    meter: Meter,
    name: String,
    store: Arc<dyn Store>,
    places: Places,
    disks: Disks,
}

impl Streams {
    /// Of a node's pods. Must be called on an async runtime.
    pub fn new(config: &NodeConfig) -> Streams {
        let runtime = Arc::clone(&config.runtime);
        let bells = Bells::open();
        if let Err(error) = &bells {
            tracing::debug!(%error, "logs that are followed are looked at from time to time");
        }
        Streams {
            meter: Meter::new(Arc::clone(&runtime), Arc::clone(&config.clock)),
            runtime,
            bells: bells.ok(),
            name: config.name.clone(),
            store: Arc::clone(&config.source.store),
            places: Places::of(config),
            disks: Disks::new(config),
        }
    }

    async fn show(&self, page: Page) -> Result<Bytes, NodeError> {
        let shown: Bytes = match page {
            Page::Health => "ok".into(),
            Page::Pods => pages::pods(&View::of(self.store.snapshot()), &self.name).to_string().into(),
            Page::Resources => pages::resources(&self.meter.look_and_measure().await?.0).into(),
            Page::Summary => self.summary().await?,
        };
        match shown.len() {
            0..=PAGE_BYTES_MAX => Ok(shown),
            bytes => Err(NodeError::Internal(format!("the page has {bytes} bytes, more than {PAGE_BYTES_MAX}"))),
        }
    }

    async fn summary(&self) -> Result<Bytes, NodeError> {
        let (look, usage) = self.meter.look_and_measure().await?;
        let places = self.places.clone();
        let found = tokio::task::spawn_blocking(move || sample::observe(&places)).await.unwrap_or_default();
        let pods = View::of(self.store.snapshot()).list("core/pods", "");
        let disks = self.disks.measure(&known_pods(&pods, &pages::pods_of(&look))).await;
        let measured = Measured { node: &self.name, look: &look, usage: &usage, found: &found, disks: &disks };
        Ok(pages::summary(&measured).to_string().into())
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

    fn page(&self, page: Page) -> NodeAnswer<'_, Bytes> {
        Box::pin(self.show(page))
    }

    fn forward<'a>(&'a self, pod: &'a PodId, port: u16) -> NodeAnswer<'a, Box<dyn Connection>> {
        Box::pin(async move {
            let sandbox = self.sandbox(pod).await?;
            self.runtime.port_forward(&sandbox.id, port).await.map_err(internal)
        })
    }
}
