//! Where a node on a machine of its own is asked for logs, processes and connections: by the API server alone.

use std::sync::Arc;
use std::time::Duration;

use apiserver::NodeHand;
use apiserver::link;
use rustix::net::sockopt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;

/// Connections at a time: as many as the API server carries streams.
const CONNECTIONS_MAX: usize = 1_024;
/// How long a peer may take for its TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// A peer that has vanished is found out by the kernel, even when nothing is to be sent.
const KEEP_ALIVE_AFTER: Duration = Duration::from_secs(60);

/// What is served, and to whom.
pub struct Door {
    /// The bound socket.
    pub listener: TcpListener,
    /// The configuration of the moment, which demands a client certificate; `None` while there is no certificate yet.
    pub tls: Arc<dyn Fn() -> Option<Arc<tls::ServerConfig>> + Send + Sync>,
    /// Whether the holder of a verified client certificate (DER) may ask.
    pub admits: fn(&[u8]) -> bool,
    /// What answers.
    pub hand: Arc<dyn NodeHand>,
}

impl Door {
    /// Serves until `stop` turns true; what is carried then ends.
    pub async fn serve(self, mut stop: watch::Receiver<bool>) {
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let mut carried = tokio::task::JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                Some(_) = carried.join_next() => continue,
                _ = stop.wait_for(|stop| *stop) => return,
            };
            let Ok((socket, address)) = accepted else {
                // Out of descriptors, most likely: let some connections end.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let (Ok(place), Some(tls)) = (Arc::clone(&places).try_acquire_owned(), (self.tls)()) else { continue };
            let (hand, admits) = (Arc::clone(&self.hand), self.admits);
            carried.spawn(async move {
                if let Err(error) = carry(socket, TlsAcceptor::from(tls), admits, &*hand).await {
                    tracing::debug!(%address, %error, "a connection ended");
                }
                drop(place);
            });
        }
    }
}

async fn carry(
    socket: TcpStream,
    acceptor: TlsAcceptor,
    admits: fn(&[u8]) -> bool,
    hand: &dyn NodeHand,
) -> std::io::Result<()> {
    let _ = socket.set_nodelay(true);
    let _ = sockopt::set_socket_keepalive(&socket, true);
    let _ = sockopt::set_tcp_keepidle(&socket, KEEP_ALIVE_AFTER);
    let shaken = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(socket)).await;
    let stream = shaken.map_err(|_| std::io::Error::from(std::io::ErrorKind::TimedOut))??;
    let (_, session) = stream.get_ref();
    let certificate = session.peer_certificates().and_then(|chain| chain.first());
    if !certificate.is_some_and(|der| admits(der)) || session.alpn_protocol() != Some(link::PROTOCOL) {
        return Err(std::io::Error::other("it is not the API server"));
    }
    link::answer(hand, Box::pin(stream)).await
}
