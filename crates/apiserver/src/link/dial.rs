//! Opens connections to nodes: TLS on both sides, and the certificate must be that very node's.
//!
//! Where a node is stands in its own Node, which it writes itself: nothing is believed of whoever answers there before
//! their certificate has been checked, and nothing is ever followed from there to elsewhere.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use meta::ObjectExt;
use rustls_pki_types::ServerName;
use serde_json::Value;
use store::Snapshot;
use tls::ClientConfig;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::{Dial, PROTOCOL, Secured};

/// Gives the TLS configuration of the moment: certificates are renewed.
pub type NodeTls = Arc<dyn Fn() -> Result<Arc<ClientConfig>, String> + Send + Sync>;

/// How long TCP and TLS may take together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Where a node says that it is; `None` when it says nothing.
pub fn address(snapshot: &Snapshot, name: &str) -> Option<SocketAddr> {
    let node: Value = serde_json::from_slice(&snapshot.get("core/nodes", name)?.value).ok()?;
    let port = node.int(&["status", "daemonEndpoints", "kubeletEndpoint", "Port"])?;
    let port = u16::try_from(port).ok().filter(|port| *port != 0)?;
    let addresses = node.items(&["status", "addresses"]).iter();
    let mut internal = addresses.filter(|address| address.text(&["type"]) == "InternalIP");
    let ip: IpAddr = internal.find_map(|address| address.text(&["address"]).parse().ok())?;
    Some(SocketAddr::new(ip, port))
}

/// Connects to the node `name` at `address`.
pub fn to(name: &str, address: SocketAddr, tls: NodeTls) -> Dial {
    let name: Arc<str> = name.into();
    Arc::new(move || {
        let (name, tls) = (Arc::clone(&name), Arc::clone(&tls));
        Box::pin(async move {
            match tokio::time::timeout(CONNECT_TIMEOUT, connect(&name, address, &tls)).await {
                Ok(done) => done,
                Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, format!("{address} does not answer"))),
            }
        })
    })
}

async fn connect(name: &str, address: SocketAddr, tls: &NodeTls) -> io::Result<Secured> {
    let config = tls().map_err(io::Error::other)?;
    let socket = TcpStream::connect(address).await?;
    socket.set_nodelay(true)?;
    let _ = rustix::net::sockopt::set_socket_keepalive(&socket, true);
    // By its name, not by the address, which is only what it says of itself.
    let host = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
    let stream = TlsConnector::from(config).connect(host, socket).await?;
    let (_, session) = stream.get_ref();
    let certificate = session.peer_certificates().and_then(|chain| chain.first());
    let user = certificate.and_then(|der| pki::user_of(der));
    if user.as_ref().and_then(|user| user.node()) != Some(name) {
        let whose = user.map_or_else(|| "nobody".to_owned(), |user| user.name);
        return Err(io::Error::other(format!("{address} is not this node but {whose}")));
    }
    match session.alpn_protocol() {
        Some(PROTOCOL) => Ok(Box::pin(stream)),
        _ => Err(io::Error::other(format!("{address} does not speak {}", String::from_utf8_lossy(PROTOCOL)))),
    }
}
