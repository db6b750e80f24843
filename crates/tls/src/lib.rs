//! What the ends of TLS connections share: one provider of cryptography, what PEM holds, who is believed.
//! Errors are for people; whoever asks says what it was about.

mod anybody;

use std::sync::{Arc, LazyLock};

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
pub use rustls::server::danger::ClientCertVerifier as ClientVerifier;
pub use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// A certificate, what leads from it to an authority, and its key.
pub type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// Which servers a client believes.
pub enum Trust {
    /// Those with a certificate of these authorities.
    Authorities(RootCertStore),
    /// Whoever answers. That the certificate is its own is proven by a signature; to check that, the certificate must be
    /// read, and so certificates of version 1, for one, are refused.
    Anybody {
        /// Whether that is checked.
        checks_signatures: bool,
    },
}

/// A client with this identity, if it has one. All that can fail is that its certificate and key do not fit.
pub fn client(trust: Trust, identity: Option<Identity>, protocols: &[&[u8]]) -> Result<ClientConfig, String> {
    let builder =
        ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions().map_err(told)?;
    let builder = match trust {
        Trust::Authorities(roots) => builder.with_root_certificates(roots),
        Trust::Anybody { checks_signatures } => {
            let verifier = anybody::verifier(&provider(), checks_signatures);
            builder.dangerous().with_custom_certificate_verifier(verifier)
        }
    };
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => builder.with_client_auth_cert(chain, key).map_err(told)?,
    };
    config.alpn_protocols = owned(protocols);
    Ok(config)
}

/// A server with this identity, whose clients `clients` looks at.
pub fn server(
    clients: Arc<dyn ClientVerifier>,
    (chain, key): Identity,
    protocols: &[&[u8]],
) -> Result<ServerConfig, String> {
    let builder =
        ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions().map_err(told)?;
    let mut config = builder.with_client_cert_verifier(clients).with_single_cert(chain, key).map_err(told)?;
    config.alpn_protocols = owned(protocols);
    Ok(config)
}

/// Looks at the certificates of clients: they are of these authorities. Who has none may still come, unless one is
/// demanded.
pub fn clients_of(roots: RootCertStore, is_demanded: bool) -> Result<Arc<dyn ClientVerifier>, String> {
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
    if is_demanded { builder } else { builder.allow_unauthenticated() }.build().map_err(told)
}

/// Authorities to trust, each of which must be usable.
pub fn authorities(certificates: impl IntoIterator<Item = CertificateDer<'static>>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    certificates.into_iter().try_for_each(|certificate| roots.add(certificate)).map_err(told)?;
    Ok(roots)
}

/// All certificates of a PEM, which may have none.
pub fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(told)
}

/// The first private key of a PEM.
pub fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_slice(pem).map_err(told)
}

fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| Arc::new(ring::default_provider()));
    Arc::clone(&PROVIDER)
}

fn told(error: impl ToString) -> String {
    error.to_string()
}

fn owned(protocols: &[&[u8]]) -> Vec<Vec<u8>> {
    protocols.iter().map(|protocol| protocol.to_vec()).collect()
}

#[cfg(test)]
mod tests;
