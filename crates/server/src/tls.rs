//! TLS for the API's socket. Client certificates are asked for, not demanded: tokens prove identities too.

use std::sync::{Arc, Mutex, PoisonError};

use pki::{Leaf, Pki};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::StartError;

/// Gives the configuration for a connection; made anew only when the certificate was renewed.
pub struct TlsSource {
    pki: Arc<Pki>,
    made: Mutex<(Arc<Leaf>, Arc<ServerConfig>)>,
}

impl TlsSource {
    /// A source for these keys.
    pub fn new(pki: Arc<Pki>) -> Result<TlsSource, StartError> {
        let leaf = pki.server();
        let config = Arc::new(config(&pki, &leaf)?);
        Ok(TlsSource { pki, made: Mutex::new((leaf, config)) })
    }

    /// The configuration with the certificate of the moment. When a renewed one does not work the last one stays.
    pub fn current(&self) -> Arc<ServerConfig> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let leaf = self.pki.server();
        if !Arc::ptr_eq(&made.0, &leaf) {
            match config(&self.pki, &leaf) {
                Ok(config) => *made = (leaf, Arc::new(config)),
                Err(error) => tracing::error!(%error, "the renewed certificate cannot be used"),
            }
        }
        Arc::clone(&made.1)
    }
}

/// How this server comes to nodes: with a certificate that proves it is the API server, made anew when it was renewed.
pub fn to_nodes(pki: Arc<Pki>) -> apiserver::link::dial::NodeTls {
    let made: Mutex<Option<(Arc<Leaf>, Arc<ClientConfig>)>> = Mutex::default();
    Arc::new(move || {
        let leaf = pki.node_client();
        let mut made = made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, config)) = made.as_ref().filter(|(of, _)| Arc::ptr_eq(of, &leaf)) {
            return Ok(Arc::clone(config));
        }
        let config = Arc::new(client_config(&pki, &leaf)?);
        *made = Some((leaf, Arc::clone(&config)));
        Ok(config)
    })
}

fn client_config(pki: &Pki, leaf: &Leaf) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    roots.add(pki.ca().der().clone()).map_err(|error| error.to_string())?;
    let key = leaf.key().map_err(|error| error.to_string())?;
    let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![leaf.der().clone()], key)
        .map_err(|error| error.to_string())?;
    config.alpn_protocols = vec![apiserver::link::PROTOCOL.to_vec()];
    Ok(config)
}

fn config(pki: &Pki, leaf: &Leaf) -> Result<ServerConfig, StartError> {
    let failed = |error: &dyn std::fmt::Display| StartError::Tls(error.to_string());
    let mut roots = RootCertStore::empty();
    roots.add(pki.ca().der().clone()).map_err(|e| failed(&e))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .allow_unauthenticated()
        .build()
        .map_err(|e| failed(&e))?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| failed(&e))?
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![leaf.der().clone()], leaf.key()?)
        .map_err(|e| failed(&e))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
