//! The TLS of a client, as a kubeconfig asks for it.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};

use crate::{Access, Identity};

/// The configuration of connections; the error is for people.
pub fn config(access: &Access) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = match access.insecure {
        true => builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody::new(&provider))),
        false => builder.with_root_certificates(roots(access)?),
    };
    let mut config = match &access.credential.identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let (chain, key) = parsed(identity)?;
            builder.with_client_auth_cert(chain, key).map_err(|error| format!("the client certificate: {error}"))?
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn roots(access: &Access) -> Result<RootCertStore, String> {
    let pem = access.authorities.as_deref().ok_or_else(|| {
        format!("context {:?} has no certificate-authority, and public authorities are not trusted", access.context)
    })?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| format!("the certificate-authority: {error}"))?;
        roots.add(certificate).map_err(|error| format!("the certificate-authority: {error}"))?;
    }
    match roots.is_empty() {
        true => Err("the certificate-authority holds no certificate".to_owned()),
        false => Ok(roots),
    }
}

fn parsed(identity: &Identity) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), String> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&identity.certificate).collect();
    let chain = chain.map_err(|error| format!("the client certificate: {error}"))?;
    let key = PrivateKeyDer::from_pem_slice(&identity.key).map_err(|error| format!("the client key: {error}"))?;
    Ok((chain, key))
}

/// Takes any certificate, as `insecure-skip-tls-verify` asks; signatures are still checked.
#[derive(Debug)]
struct Anybody {
    algorithms: WebPkiSupportedAlgorithms,
}

impl Anybody {
    fn new(provider: &CryptoProvider) -> Anybody {
        Anybody { algorithms: provider.signature_verification_algorithms }
    }
}

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
