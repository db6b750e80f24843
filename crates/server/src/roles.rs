//! One process: opens the store, makes the API, binds, starts the controllers, and takes it all down in order.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use admit::UserInfo;
use admit::bootstrap::controller_account;
use admit::user::MASTERS;
use apiserver::{App, AppConfig, InProcess, ServeConfig, serve};
use client::Transport;
use clock::{Clock, Ids, SystemClock, SystemIds};
use driver::{DriverConfig, SchedulerConfig, Source};
use pki::{KubeconfigEntry, Pki, PkiConfig, write_kubeconfig};
use store::Store;
use store_disk::{Disk, Options};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::bootstrap::{self, Facts};
use crate::certificates::Certificates;
use crate::node_role::Surroundings;
use crate::tls::{self, TlsSource};
use crate::{Config, StartError, compaction, control, identity, node_role, simulated};

/// How often certificates are looked at for renewal.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(60 * 60);
/// The kubeconfig entry's name.
const CONTEXT: &str = "setpoint";
/// Who the administrator is within this process.
const ADMIN: &str = "kubernetes-admin";

/// What there is to know of a server that answers.
pub struct Started {
    /// The API's address.
    pub address: SocketAddr,
    /// The administrator's way to the API, within this process.
    pub admin: Arc<dyn Transport>,
}

/// Runs a server until `stop` resolves. `started` is told when the API answers.
pub async fn run(
    config: Config,
    started: impl FnOnce(Started),
    stop: impl Future<Output = ()>,
) -> Result<(), StartError> {
    run_by(Arc::new(SystemClock::new()), config, started, stop).await
}

/// The same by another clock.
pub async fn run_by(
    clock: Arc<dyn Clock>,
    config: Config,
    started: impl FnOnce(Started),
    stop: impl Future<Output = ()>,
) -> Result<(), StartError> {
    let ids: Arc<dyn Ids> = Arc::new(SystemIds);
    make_data_dir(&config)?;
    let listener = bind(config.listen).await?;
    let address = listener.local_addr().map_err(|source| StartError::Listen { address: config.listen, source })?;
    let keys = pki_config(&config, address);
    let service_address = keys.service_address;
    let pki = Arc::new(Pki::load_or_create(keys, Arc::clone(&clock), Arc::clone(&ids))?);
    let (fatal, mut died) = watch::channel(false);
    let disk = Arc::new(open(&config, fatal)?);
    control::listen(&config.data_dir, Arc::clone(&disk))
        .map_err(|source| StartError::DataDir { path: config.data_dir.clone(), source })?;
    let store: Arc<dyn Store> = disk.clone();
    let app = App::new(AppConfig {
        store: Arc::clone(&store),
        clock: Arc::clone(&clock),
        ids,
        identity: identity::identity(&pki),
        git_version: config.git_version.clone(),
    });
    let facts = Facts {
        ca_pem: pki.ca().pem().to_owned(),
        front_proxy_ca_pem: pki.front_proxy_ca().pem().to_owned(),
        port: address.port(),
        address: endpoint(address).unwrap_or(service_address).to_string(),
        service_address: service_address.to_string(),
        cluster_cidr: config.cluster_cidr.clone(),
    };
    bootstrap::write(&app, &facts, config.simulated_nodes).await?;
    simulated::connect(&app, config.simulated_nodes);
    publish_kubeconfig(&config, &pki, address)?;
    let renewal =
        Arc::new(Renewal { pki: Arc::clone(&pki), clock: Arc::clone(&clock), config: config.clone(), address });
    let tls = TlsSource::new(Arc::clone(&pki))?;
    app.reach_nodes(tls::to_nodes(Arc::clone(&pki)));
    let (stopping, stopped) = watch::channel(false);
    let scheduler = config
        .controllers
        .then(|| tokio::spawn(driver::run_scheduler(scheduler_config(&app, &store, &clock), stopped.clone())));
    // Simulated nodes stand in for machines: they run wherever the controllers are.
    let has_brains = config.controllers || config.simulated_nodes > 0;
    let driver =
        has_brains.then(|| tokio::spawn(driver::run(driver_config(&config, &app, &store, &clock), stopped.clone())));
    let certificates = Certificates { app: Arc::clone(&app), pki: Arc::clone(&pki), clock: Arc::clone(&clock) };
    let certificates = config.controllers.then(|| tokio::spawn(certificates.run(stopped.clone())));
    let node = start_node(&config, (&app, &store, &clock), address, stopped).await?;
    tokio::spawn(renew_in_time(Arc::clone(&renewal)));
    tokio::spawn(compaction::follow(Arc::clone(&store), config.compaction_interval));
    app.become_ready();
    let admin = UserInfo::new(ADMIN, [MASTERS]).authenticated();
    started(Started { address, admin: Arc::new(InProcess::new(Arc::clone(&app), admin)) });
    let serving = ServeConfig {
        listener,
        tls: Arc::new(move || {
            // Asked here too: a machine that slept through the end of its certificates has not slept through its timer.
            renewal.renew_if_due();
            tls.current()
        }),
        certificate_user: pki::user_of,
        connections_max: config.connections_max,
    };
    let died = async move {
        // The channel closes only with the store: then there is nothing to wait for.
        let _ = died.wait_for(|died| *died).await;
    };
    serve(app, serving, async {
        tokio::select! { () = stop => {}, () = died => {} }
    })
    .await;
    stopping.send_replace(true);
    for running in [scheduler, driver, certificates, node].into_iter().flatten() {
        // A panic in the loop has been logged; what matters now is the log's orderly end.
        let _ = running.await;
    }
    if let Err(error) = disk.close() {
        tracing::error!(?error, "the store did not close cleanly");
    }
    Ok(())
}

/// Starts the node of this process, if there is to be one.
async fn start_node(
    config: &Config,
    (app, store, clock): (&Arc<App>, &Arc<dyn Store>, &Arc<dyn Clock>),
    address: SocketAddr,
    stopped: watch::Receiver<bool>,
) -> Result<Option<JoinHandle<()>>, StartError> {
    let Some(role) = &config.node else { return Ok(None) };
    let own = endpoint(address).unwrap_or(reachable(address));
    let ips = vec![own];
    let around = Surroundings {
        source: Source::own(Arc::clone(store), app.moved()),
        transport: node_role::in_process(app, &role.name),
        clock: Arc::clone(clock),
        ips,
        version: config.git_version.clone(),
        watches: None,
        port: 0,
    };
    let prepared = node_role::prepare(role, &config.data_dir, around).await?;
    let routes = node::keep_routes(role.name.clone(), Arc::clone(&prepared.transport), Arc::new(SystemIds), own);
    let mut ends = stopped.clone();
    tokio::spawn(async move {
        tokio::select! { () = routes => {}, _ = ends.wait_for(|ends| *ends) => {} }
    });
    app.connect_node(&role.name, Arc::new(node::Streams::new(&prepared)));
    Ok(Some(tokio::spawn(node::run(prepared, stopped))))
}

fn make_data_dir(config: &Config) -> Result<(), StartError> {
    let path = config.data_dir.clone();
    std::fs::create_dir_all(&path).map_err(|source| StartError::DataDir { path, source })
}

async fn bind(address: SocketAddr) -> Result<TcpListener, StartError> {
    TcpListener::bind(address).await.map_err(|source| StartError::Listen { address, source })
}

fn open(config: &Config, fatal: watch::Sender<bool>) -> Result<Disk, StartError> {
    let options = Options {
        on_fatal: Some(Arc::new(move |reason| {
            tracing::error!(reason, "the medium failed; the server stops");
            fatal.send_replace(true);
        })),
        ..Options::default()
    };
    Ok(Disk::open(&config.data_dir.join("store"), options)?)
}

fn pki_config(config: &Config, address: SocketAddr) -> PkiConfig {
    let given = config.names.iter().map(|name| name.parse::<IpAddr>().map_err(|_| name.clone()));
    let (mut addresses, mut host_names) = (advertised(address), Vec::new());
    for name in given {
        match name {
            Ok(ip) => addresses.push(ip),
            Err(name) => host_names.push(name),
        }
    }
    PkiConfig { addresses, host_names, ..PkiConfig::new(config.data_dir.join("pki")) }
}

/// The addresses that the certificate must name, beside loopback.
fn advertised(address: SocketAddr) -> Vec<IpAddr> {
    let listened = Some(address.ip()).filter(|ip| !ip.is_unspecified());
    listened.into_iter().chain(endpoint(address)).collect()
}

/// The address under which the Service `default/kubernetes` finds the API. Loopback may not stand in Endpoints (it
/// means another machine to everybody else), so this machine's own address does; `None` on a machine without one.
fn endpoint(address: SocketAddr) -> Option<IpAddr> {
    let ip = address.ip();
    if !ip.is_loopback() && !ip.is_unspecified() {
        return Some(ip);
    }
    // Connecting a datagram socket sends nothing: it asks the routing table for the source address.
    let socket = std::net::UdpSocket::bind((std::net::Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((std::net::Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    let own = socket.local_addr().ok()?.ip();
    (!own.is_loopback() && !own.is_unspecified()).then_some(own)
}

/// Where a client on this machine reaches the API.
fn reachable(address: SocketAddr) -> IpAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::from([127, 0, 0, 1]),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::from([127, 0, 0, 1]),
        ip => ip,
    }
}

fn publish_kubeconfig(config: &Config, pki: &Pki, address: SocketAddr) -> Result<(), StartError> {
    let Some(path) = &config.kubeconfig else { return Ok(()) };
    let (admin, server) = (pki.admin(), format!("https://{}", SocketAddr::new(reachable(address), address.port())));
    let entry = KubeconfigEntry {
        name: CONTEXT,
        server: &server,
        ca_pem: pki.ca().pem(),
        cert_pem: admin.cert_pem(),
        key_pem: admin.key_pem(),
    };
    Ok(write_kubeconfig(path, &entry)?)
}

fn driver_config(config: &Config, app: &Arc<App>, store: &Arc<dyn Store>, clock: &Arc<dyn Clock>) -> DriverConfig {
    let acting = Arc::clone(app);
    let mut brains = if config.controllers { controllers::all() } else { Vec::new() };
    if config.simulated_nodes > 0 {
        brains.extend(agent::simulated());
    }
    DriverConfig {
        source: Source::own(Arc::clone(store), app.moved()),
        clock: Arc::clone(clock),
        controllers: brains,
        transport: Box::new(move |name| {
            let user = App::controller_user(&controller_account(name));
            Arc::new(InProcess::new(Arc::clone(&acting), user))
        }),
    }
}

fn scheduler_config(app: &Arc<App>, store: &Arc<dyn Store>, clock: &Arc<dyn Clock>) -> SchedulerConfig {
    let user = UserInfo::new("system:kube-scheduler", Vec::<String>::new()).authenticated();
    SchedulerConfig {
        source: Source::own(Arc::clone(store), app.moved()),
        clock: Arc::clone(clock),
        transport: Arc::new(InProcess::new(Arc::clone(app), user)),
    }
}

/// Renews certificates, and hands the administrator's to people.
struct Renewal {
    pki: Arc<Pki>,
    clock: Arc<dyn Clock>,
    config: Config,
    address: SocketAddr,
}

impl Renewal {
    /// Cheap when nothing is due.
    fn renew_if_due(&self) {
        if !self.pki.needs_renewal(self.clock.now()) {
            return;
        }
        match self.pki.renew() {
            Ok(true) => tracing::info!("certificates were renewed"),
            Ok(false) => return,
            Err(error) => return tracing::error!(%error, "certificates could not be renewed"),
        }
        if let Err(error) = publish_kubeconfig(&self.config, &self.pki, self.address) {
            tracing::error!(%error, "the renewed certificate could not be written into the kubeconfig");
        }
    }
}

async fn renew_in_time(renewal: Arc<Renewal>) {
    let mut interval = tokio::time::interval(RENEWAL_INTERVAL);
    loop {
        interval.tick().await;
        renewal.renew_if_due();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_controller_has_a_role() {
        for controller in controllers::all().iter().chain(&agent::simulated()) {
            let role = format!("system:controller:{}", controller_account(controller.def.name));
            assert!(!admit::bootstrap::cluster_role_rules(&role).is_empty(), "{role}");
        }
    }
}
