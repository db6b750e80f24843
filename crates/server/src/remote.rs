//! The controllers as a process of their own, against any API server.

use std::path::PathBuf;
use std::sync::Arc;

use brain::Controller;
use client::{Acting, Gated, Https, Transport, read_kubeconfig};
use clock::{Clock, Ids, SystemClock, SystemIds};
use driver::lease::{self, Candidate, Election};
use driver::remote::Remote;
use driver::{DriverConfig, SchedulerConfig, Source};
use tokio::sync::watch;

use crate::StartError;
use crate::selection::Selection;
use admit::bootstrap::controller_account;

/// The Lease of these controllers.
const LEASE: (&str, &str) = ("kube-system", "setpoint-controllers");

/// What a process of controllers is told.
pub struct ControllersConfig {
    /// Where the API server is, and who one is there.
    pub kubeconfig: PathBuf,
    /// The context in it; `None`: the current one.
    pub context: Option<String>,
    /// Act only while a Lease is held.
    pub leader_elect: bool,
    /// Each controller acts as its own service account.
    pub impersonate: bool,
    /// Which controllers run.
    pub controllers: Selection,
    /// The scheduler runs too.
    pub scheduler: bool,
}

/// Everything a term needs.
struct Process {
    config: ControllersConfig,
    transport: Arc<dyn Transport>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    brains: Vec<Controller>,
}

/// Runs controllers until `stop` resolves.
pub async fn run_controllers(config: ControllersConfig, stop: impl Future<Output = ()>) -> Result<(), StartError> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let brains = config.controllers.of(controllers::all()).map_err(StartError::Controllers)?;
    let access = read_kubeconfig(&config.kubeconfig, config.context.as_deref())?;
    tracing::info!(server = %access.server, context = %access.context, controllers = brains.len(), "starting");
    let transport = Https::open(&access, Arc::clone(&clock))?;
    let process = Process { config, transport, clock, ids: Arc::new(SystemIds), brains };
    let stopping = watch::Sender::new(false);
    let stopped = stopping.subscribe();
    let running = async {
        match process.config.leader_elect {
            true => lease::run(process.election(), stopped, |ending| process.act(ending)).await,
            false => process.act(stopped).await,
        }
    };
    tokio::pin!(running);
    tokio::select! {
        () = &mut running => {}
        () = stop => {
            stopping.send_replace(true);
            running.await;
        }
    }
    Ok(())
}

impl Process {
    fn election(&self) -> Election {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let candidate = Candidate {
            namespace: LEASE.0.to_owned(),
            name: LEASE.1.to_owned(),
            identity: format!("{}_{}", host.trim(), self.ids.uid()),
        };
        // An election writes nothing that a view would show.
        let source = Source::remote(Remote::new(Arc::clone(&self.transport), Arc::clone(&self.ids)));
        Election::new(candidate, Arc::clone(&self.transport), source, Arc::clone(&self.clock), Arc::clone(&self.ids))
    }

    /// One term: copies the world, then acts on it until `ending` turns true. What is under way then is given up.
    async fn act(&self, mut ending: watch::Receiver<bool>) {
        let remote = Remote::new(Arc::clone(&self.transport), Arc::clone(&self.ids));
        let whole = watch::Sender::new(false);
        let mut is_whole = whole.subscribe();
        let copying = tokio::spawn(Arc::clone(&remote).run(whole));
        let begun = tokio::select! {
            biased;
            _ = ending.wait_for(|ending| *ending) => false,
            whole = is_whole.wait_for(|whole| *whole) => whole.is_ok(),
        };
        if begun {
            let source = Source::remote(remote);
            let scheduler = async {
                if self.config.scheduler {
                    driver::run_scheduler(self.scheduler_config(&source, &ending), ending.clone()).await;
                }
            };
            tokio::join!(scheduler, driver::run(self.driver_config(&source, &ending), ending.clone()));
        }
        copying.abort();
        // Aborted, or ended by a panic that has been logged.
        let _ = copying.await;
    }

    fn driver_config(&self, source: &Source, ending: &watch::Receiver<bool>) -> DriverConfig {
        let (transport, ending, impersonate) = (Arc::clone(&self.transport), ending.clone(), self.config.impersonate);
        DriverConfig {
            source: source.clone(),
            clock: Arc::clone(&self.clock),
            controllers: self.brains.clone(),
            transport: Box::new(move |name| {
                let user = format!("system:serviceaccount:kube-system:{}", controller_account(name));
                gated(acting(&transport, impersonate.then_some(user.as_str())), &ending)
            }),
        }
    }

    fn scheduler_config(&self, source: &Source, ending: &watch::Receiver<bool>) -> SchedulerConfig {
        let user = self.config.impersonate.then_some("system:kube-scheduler");
        SchedulerConfig {
            source: source.clone(),
            clock: Arc::clone(&self.clock),
            transport: gated(acting(&self.transport, user), ending),
        }
    }
}

fn gated(transport: Arc<dyn Transport>, ending: &watch::Receiver<bool>) -> Arc<dyn Transport> {
    Arc::new(Gated::new(transport, ending.clone()))
}

fn acting(transport: &Arc<dyn Transport>, user: Option<&str>) -> Arc<dyn Transport> {
    match user.and_then(|user| Acting::new(Arc::clone(transport), user, &[])) {
        Some(acting) => Arc::new(acting),
        None => Arc::clone(transport),
    }
}
