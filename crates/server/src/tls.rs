//! TLS for the API's socket. Client certificates are asked for, not demanded: tokens prove identities too.

use std::sync::{Arc, Mutex, PoisonError};

use pki::{Leaf, Pki};
use tls::{ClientConfig, ServerConfig, Trust};

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
    let roots = tls::authorities([pki.ca().der().clone()])?;
    let key = leaf.key().map_err(|error| error.to_string())?;
    tls::client(Trust::Authorities(roots), Some((vec![leaf.der().clone()], key)), &[apiserver::link::PROTOCOL])
}

fn config(pki: &Pki, leaf: &Leaf) -> Result<ServerConfig, StartError> {
    let identity = (vec![leaf.der().clone()], leaf.key()?);
    let clients = tls::authorities([pki.ca().der().clone()]).and_then(|roots| tls::clients_of(roots, false));
    clients.and_then(|clients| tls::server(clients, identity, &[b"h2", b"http/1.1"])).map_err(StartError::Tls)
}
