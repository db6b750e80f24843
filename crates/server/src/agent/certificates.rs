//! Certificates through the API: asked for by a CertificateSigningRequest, waited for, renewed before they end.

use std::sync::Arc;
use std::time::Duration;

use admit::csr::{KUBELET_CLIENT, KUBELET_SERVING};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use client::{Swap, Transport};
use clock::{Clock, Ids, SystemIds};
use http::Method;
use meta::{ObjectExt, condition};
use pki::{KeyRequest, Leaf, Purpose, user_of};
use serde_json::{Value, json};

use super::credentials::Credentials;
use super::join::{self, JoinError};

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
/// How often an answer is looked for, and how long: approving by hand is another try later.
const LOOK_EVERY: Duration = Duration::from_millis(300);
const LOOKS_MAX: u32 = 200;
/// How often certificates are looked at for renewal, and when they are tried again after a failure.
const RENEWAL_EVERY: Duration = Duration::from_secs(10 * 60);
const RETRY_EVERY: Duration = Duration::from_secs(5);
/// Tries at that pace; from then on it is the slower one.
const QUICK_TRIES_MAX: u32 = 24;

/// Which certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// For coming to the server.
    Client,
    /// For being asked.
    Serving,
}

/// Whether a certificate is the node's.
pub fn is_of(leaf: &Leaf, name: &str) -> bool {
    user_of(leaf.der()).is_some_and(|user| user.node() == Some(name))
}

/// Makes a key and has the server sign a certificate for it.
pub async fn obtain(transport: &Arc<dyn Transport>, name: &str, which: Which) -> Result<Leaf, JoinError> {
    let purpose = Purpose::client(format!("system:node:{name}"), Some("system:nodes"));
    let (purpose, signer, usage) = match which {
        Which::Client => (purpose, KUBELET_CLIENT, "client auth"),
        // By name alone: the server asks for the node by its name, wherever that says that it is.
        Which::Serving => (Purpose { dns_names: vec![name.to_owned()], ..purpose }, KUBELET_SERVING, "server auth"),
    };
    let key = KeyRequest::new(&purpose)?;
    let request = format!("csr-{}", SystemIds.uid().get(..8).unwrap_or_default());
    let object = json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": request},
        "spec": {
            "signerName": signer, "usages": ["digital signature", usage],
            "request": STANDARD.encode(key.request_pem()),
        },
    });
    join::call(transport, Method::POST, REQUESTS, &object).await?;
    for _ in 0..LOOKS_MAX {
        let found = join::call(transport, Method::GET, &format!("{REQUESTS}/{request}"), &Value::Null).await?;
        if let Some(pem) = certificate_in(&found, &request)? {
            return Ok(key.certified(&pem)?);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Err(JoinError::NotApproved { request })
}

fn certificate_in(found: &Value, request: &str) -> Result<Option<String>, JoinError> {
    for kind in ["Denied", "Failed"] {
        if let Some(refused) = condition::find(found, kind) {
            let why = format!("{}: {}", refused.text(&["reason"]), refused.text(&["message"]));
            return Err(JoinError::Refused { request: request.to_owned(), why });
        }
    }
    match found.text(&["status", "certificate"]) {
        "" => Ok(None),
        encoded => {
            let broken = || JoinError::Answer("the certificate that came cannot be read".to_owned());
            let pem = STANDARD.decode(encoded).map_err(|_| broken())?;
            String::from_utf8(pem).map(Some).map_err(|_| broken())
        }
    }
}

/// Renews both certificates before they end, for ever, and gets the one to serve with when there is none yet.
pub async fn renew(name: String, credentials: Arc<Credentials>, transport: Arc<Swap>, clock: Arc<dyn Clock>) {
    let through: Arc<dyn Transport> = transport.clone();
    let mut failures = 0;
    loop {
        let now = clock.now();
        let mut failed = None;
        if credentials.serving().is_none_or(|leaf| leaf.needs_renewal(now)) {
            let renewed = obtain(&through, &name, Which::Serving).await;
            failed = failed.or(renewed.and_then(|leaf| Ok(credentials.renew_serving(leaf)?)).err());
        }
        if credentials.client().needs_renewal(now) {
            failed = failed.or(renew_client(&name, &credentials, &transport, &clock).await.err());
        }
        if let Some(error) = &failed {
            tracing::warn!(error = stdx::chain(error), "a certificate could not be renewed");
        }
        failures = if failed.is_some() { failures + 1 } else { 0 };
        let is_quick = (1..=QUICK_TRIES_MAX).contains(&failures);
        tokio::time::sleep(if is_quick { RETRY_EVERY } else { RENEWAL_EVERY }).await;
    }
}

async fn renew_client(
    name: &str,
    credentials: &Credentials,
    transport: &Arc<Swap>,
    clock: &Arc<dyn Clock>,
) -> Result<(), JoinError> {
    let through: Arc<dyn Transport> = transport.clone();
    let leaf = credentials.renew_client(obtain(&through, name, Which::Client).await?)?;
    let opened = super::open(credentials, &leaf, clock).map_err(|error| JoinError::Answer(stdx::chain(&error)))?;
    transport.replace(opened);
    tracing::info!("the node's certificate was renewed");
    Ok(())
}
