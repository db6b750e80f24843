//! The agent's TLS: the newest certificate, and only the API server may come.

use std::sync::{Arc, Mutex, PoisonError};

use apiserver::{NodeHand, link};
use node::Door;
use pki::{Leaf, NODE_CLIENT, NODE_CLIENT_GROUP, user_of};
use tls::{ClientVerifier, ServerConfig};
use tokio::net::TcpListener;

use super::credentials::Credentials;
use crate::StartError;

/// The door of a node: it is shut until there is a certificate.
pub fn door(
    listener: TcpListener,
    credentials: &Arc<Credentials>,
    hand: Arc<dyn NodeHand>,
) -> Result<Door, StartError> {
    let verifier = verifier(&credentials.authority)?;
    let credentials = Arc::clone(credentials);
    let made: Mutex<Option<(Arc<Leaf>, Arc<ServerConfig>)>> = Mutex::default();
    let tls = move || {
        let leaf = credentials.serving()?;
        let mut made = made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, config)) = made.as_ref().filter(|(of, _)| Arc::ptr_eq(of, &leaf)) {
            return Some(Arc::clone(config));
        }
        match config(&verifier, &leaf) {
            Ok(config) => {
                let config = Arc::new(config);
                *made = Some((leaf, Arc::clone(&config)));
                Some(config)
            }
            Err(error) => {
                tracing::error!(%error, "the certificate cannot be used");
                None
            }
        }
    };
    Ok(Door { listener, tls: Arc::new(tls), admits, hand })
}

/// Only the API server itself: no administrator, and no other node.
fn admits(der: &[u8]) -> bool {
    user_of(der).is_some_and(|user| user.name == NODE_CLIENT && user.is_in(NODE_CLIENT_GROUP))
}

fn verifier(authority: &str) -> Result<Arc<dyn ClientVerifier>, StartError> {
    let roots = tls::certificates(authority.as_bytes()).and_then(tls::authorities);
    roots.and_then(|roots| tls::clients_of(roots, true)).map_err(StartError::Tls)
}

fn config(verifier: &Arc<dyn ClientVerifier>, leaf: &Leaf) -> Result<ServerConfig, String> {
    let key = leaf.key().map_err(|error| error.to_string())?;
    tls::server(Arc::clone(verifier), (vec![leaf.der().clone()], key), &[link::PROTOCOL])
}
