//! The TLS of a client, as a kubeconfig asks for it.

use tls::{ClientConfig, RootCertStore, Trust};

use crate::Access;

/// The configuration of connections; the error is for people.
pub fn config(access: &Access) -> Result<ClientConfig, String> {
    let trust = match access.insecure {
        true => Trust::Anybody { checks_signatures: true },
        false => Trust::Authorities(roots(access)?),
    };
    let identity = match &access.credential.identity {
        None => None,
        Some(identity) => {
            let chain = tls::certificates(&identity.certificate);
            let key = tls::private_key(&identity.key);
            Some((
                chain.map_err(|error| format!("the client certificate: {error}"))?,
                key.map_err(|error| format!("the client key: {error}"))?,
            ))
        }
    };
    let config = tls::client(trust, identity, &[b"h2", b"http/1.1"]);
    config.map_err(|error| format!("the client certificate: {error}"))
}

fn roots(access: &Access) -> Result<RootCertStore, String> {
    let pem = access.authorities.as_deref().ok_or_else(|| {
        format!("context {:?} has no certificate-authority, and public authorities are not trusted", access.context)
    })?;
    let roots = tls::certificates(pem).and_then(tls::authorities);
    let roots = roots.map_err(|error| format!("the certificate-authority: {error}"))?;
    match roots.is_empty() {
        true => Err("the certificate-authority holds no certificate".to_owned()),
        false => Ok(roots),
    }
}
