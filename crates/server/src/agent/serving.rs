//! The agent's TLS: the newest certificate, and only the API server may come.

use std::sync::{Arc, Mutex, PoisonError};

use apiserver::{NodeHand, link};
use node::Door;
use pki::{Leaf, NODE_CLIENT, NODE_CLIENT_GROUP, user_of};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
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

fn verifier(authority: &str) -> Result<Arc<dyn ClientCertVerifier>, StartError> {
    let failed = |error: &dyn std::fmt::Display| StartError::Tls(error.to_string());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).map_err(|e| failed(&e))?).map_err(|e| failed(&e))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    builder.build().map_err(|e| failed(&e))
}

fn config(verifier: &Arc<dyn ClientCertVerifier>, leaf: &Leaf) -> Result<ServerConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = leaf.key().map_err(|error| error.to_string())?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_client_cert_verifier(Arc::clone(verifier))
        .with_single_cert(vec![leaf.der().clone()], key)
        .map_err(|error| error.to_string())?;
    config.alpn_protocols = vec![link::PROTOCOL.to_vec()];
    Ok(config)
}
