//! A node on a machine of its own: joins a cluster with a token, keeps its own certificates, runs the same node as in
//! the server's process over HTTPS, and is asked for streams at a port of its own.

mod certificates;
mod credentials;
mod join;
mod serving;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use client::{Access, Credential, Https, Identity, Swap, Transport};
use clock::{Clock, Ids, SystemClock, SystemIds};
use driver::Source;
use driver::remote::{Chosen, Remote};
use http::Uri;
use pki::Leaf;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::StartError;
use crate::node_role::{self, NodeRole, Surroundings};
use credentials::Credentials;

pub use join::{JoinError, JoinToken};

/// What an agent is told on its command line.
#[derive(Clone)]
pub struct AgentConfig {
    /// The server, `https://HOST:PORT`; needed the first time.
    pub server: Option<Uri>,
    /// The token that it joins with; not needed once it has joined.
    pub token: Option<JoinToken>,
    /// Where keys, images and pods are.
    pub data_dir: PathBuf,
    /// The node.
    pub role: NodeRole,
    /// Where it is asked for logs and streams; port 0 takes any free port.
    pub listen: SocketAddr,
    /// Its address; `None`: the one from which it reaches the server.
    pub address: Option<IpAddr>,
    /// The version that it reports.
    pub version: String,
}

/// Runs a node until `stop` resolves. Containers go on running.
pub async fn run_agent(config: AgentConfig, stop: impl Future<Output = ()>) -> Result<(), StartError> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let stopping = watch::Sender::new(false);
    let running = run(&config, &clock, stopping.subscribe());
    tokio::pin!(running);
    tokio::select! {
        ended = &mut running => ended,
        () = stop => {
            stopping.send_replace(true);
            running.await
        }
    }
}

async fn run(config: &AgentConfig, clock: &Arc<dyn Clock>, mut stop: watch::Receiver<bool>) -> Result<(), StartError> {
    let ids: Arc<dyn Ids> = Arc::new(SystemIds);
    let credentials = tokio::select! {
        credentials = Credentials::load_or_join(config, clock) => Arc::new(credentials?),
        _ = stop.wait_for(|stop| *stop) => return Ok(()),
    };
    let transport = Arc::new(Swap::new(open(&credentials, &credentials.client(), clock)?));
    let shared: Arc<dyn Transport> = transport.clone();
    let address = own_address(config, &credentials)?;
    let listener = TcpListener::bind(config.listen).await;
    let listener = listener.map_err(|source| StartError::Listen { address: config.listen, source })?;
    let port = listener.local_addr().map_or(config.listen.port(), |bound| bound.port());
    tracing::info!(server = %credentials.server, node = config.role.name, %address, port, "the node begins");

    let remote = Remote::choosing(Arc::clone(&shared), Arc::clone(&ids), &chosen(&selectors(&config.role.name)));
    let whole = watch::Sender::new(false);
    let mut is_whole = whole.subscribe();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(Arc::clone(&remote).run(whole));
    // Until the server has said which pods there are, none is taken for gone: containers go on meanwhile.
    tokio::select! {
        _ = stop.wait_for(|stop| *stop) => return Ok(()),
        whole = is_whole.wait_for(|whole| *whole) => drop(whole),
    }
    let around = Surroundings {
        source: Source::remote(remote),
        transport: Arc::clone(&shared),
        clock: Arc::clone(clock),
        ips: vec![address],
        version: config.version.clone(),
        watches: Some(Arc::clone(&ids)),
        port,
    };
    let prepared = node_role::prepare(&config.role, &config.data_dir, around).await?;
    let routes = node::keep_routes(config.role.name.clone(), Arc::clone(&shared), Arc::clone(&ids), address);
    tasks.spawn(routes);
    let hand = Arc::new(node::Streams::new(&prepared));
    tasks.spawn(serving::door(listener, &credentials, hand)?.serve(stop.clone()));
    tasks.spawn(certificates::renew(config.role.name.clone(), Arc::clone(&credentials), transport, Arc::clone(clock)));
    node::run(prepared, stop).await;
    // What is carried has ended with the node; the rest is cut off.
    tasks.shutdown().await;
    Ok(())
}

/// What a node looks at, each with its selector.
fn chosen<'s>([node, pods]: &'s [String; 2]) -> [Chosen<'s>; 3] {
    let of = |collection, path, kind, namespaced, selector| Chosen {
        collection,
        path,
        api_version: "v1",
        kind,
        namespaced,
        selector,
    };
    [
        of("core/nodes", "/api/v1/nodes", "Node", false, node.as_str()),
        of("core/pods", "/api/v1/pods", "Pod", true, pods.as_str()),
        of("core/services", "/api/v1/services", "Service", true, ""),
    ]
}

fn selectors(name: &str) -> [String; 2] {
    // Names of nodes are those of DNS: nothing in them is escaped.
    ["metadata.name", "spec.nodeName"].map(|field| format!("fieldSelector={field}%3D{name}"))
}

/// A way to the server as whom the certificate names.
fn open(credentials: &Credentials, leaf: &Leaf, clock: &Arc<dyn Clock>) -> Result<Arc<dyn Transport>, StartError> {
    let identity =
        Identity { certificate: leaf.cert_pem().as_bytes().to_vec(), key: leaf.key_pem().as_bytes().to_vec() };
    let access = Access {
        context: "agent".to_owned(),
        server: credentials.server.clone(),
        authorities: Some(credentials.authority.as_bytes().to_vec()),
        insecure: false,
        server_name: None,
        credential: Credential { identity: Some(identity), ..Credential::default() },
    };
    Ok(Https::open(&access, Arc::clone(clock))?)
}

/// The address from which the server is reached, unless another is given.
fn own_address(config: &AgentConfig, credentials: &Credentials) -> Result<IpAddr, StartError> {
    if let Some(address) = config.address {
        return Ok(address);
    }
    let (host, port) = (credentials.server.host().unwrap_or(""), credentials.server.port_u16().unwrap_or(443));
    let host = host.trim_matches(['[', ']']);
    let found = || -> std::io::Result<IpAddr> {
        use std::net::ToSocketAddrs;
        let to = (host, port).to_socket_addrs()?.next().ok_or(std::io::ErrorKind::NotFound)?;
        let any: IpAddr = if to.is_ipv4() { [0, 0, 0, 0].into() } else { std::net::Ipv6Addr::UNSPECIFIED.into() };
        // Connecting a datagram socket sends nothing: it asks the routing table for the source address.
        let socket = std::net::UdpSocket::bind((any, 0))?;
        socket.connect(to)?;
        Ok(socket.local_addr()?.ip())
    };
    found().map_err(|error| {
        StartError::Node(format!("this machine's address cannot be found ({error}); give it with --node-ip"))
    })
}
