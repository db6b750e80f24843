//! Requests for certificates: approves those of nodes that need no person, signs what is approved, and removes what is
//! old. It needs the authority's key, so it lives with the server and not among the controllers; what is approved is
//! decided purely (`admit::csr_approval`), and every write is a request of `certificate-controller`.

use std::sync::Arc;
use std::time::Duration;

use admit::csr_approval::{Surroundings, approval};
use admit::{Attributes, Authorizer};
use apiserver::{App, InProcess};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use client::Transport;
use clock::Clock;
use http::{Method, Request};
use meta::{ObjectExt, Time, condition};
use pki::{CsrOrder, Pki};
use serde_json::{Value, json};
use store::Snapshot;
use tokio::sync::watch;

const COLLECTION: &str = "certificates.k8s.io/certificatesigningrequests";
const PATH: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const ACCOUNT: &str = "certificate-controller";
/// Ages at which requests are removed (upstream's): when nobody decided, and when it was decided.
const PENDING_AGE_MAX: Duration = Duration::from_secs(24 * 60 * 60);
const DECIDED_AGE_MAX: Duration = Duration::from_secs(60 * 60);
/// How often ages are looked at.
const SWEEP_EVERY: Duration = Duration::from_secs(10 * 60);
/// A write that was refused is tried again after this.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// What the task works with.
pub struct Certificates {
    pub app: Arc<App>,
    pub pki: Arc<Pki>,
    pub clock: Arc<dyn Clock>,
}

/// What a look left behind.
struct Left {
    /// Something was refused.
    failed: bool,
    /// Some request waits for a decision.
    pending: bool,
}

/// What is next for one request.
#[derive(Debug, PartialEq)]
enum Next {
    Approve(&'static str),
    Sign,
    Remove,
}

impl Certificates {
    /// Works until `stop` turns true.
    pub async fn run(self, mut stop: watch::Receiver<bool>) {
        let user = App::controller_user(ACCOUNT);
        let transport = InProcess::new(Arc::clone(&self.app), user);
        let authorizer = Authorizer::default();
        let mut moved = self.app.moved();
        let mut seen = Snapshot::default();
        let mut left = Left { failed: false, pending: false };
        let mut is_due = true;
        loop {
            moved.mark_unchanged();
            let snapshot = self.app.snapshot();
            // Whether a request is approved may depend on the Node that it is about.
            let is_news = !snapshot.is_same_collection(&seen, COLLECTION)
                || (left.pending && !snapshot.is_same_collection(&seen, "core/nodes"));
            if is_due || is_news {
                left = self.turn(&snapshot, &authorizer, &transport).await;
                seen = snapshot;
            }
            let pause = if left.failed { RETRY_AFTER } else { SWEEP_EVERY };
            is_due = tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return,
                _ = moved.changed() => false,
                () = tokio::time::sleep(pause) => true,
            };
        }
    }

    /// One look at every request.
    async fn turn(&self, snapshot: &Snapshot, authorizer: &Authorizer, transport: &InProcess) -> Left {
        let mut left = Left { failed: false, pending: false };
        for (name, entry) in snapshot.items(COLLECTION) {
            let Ok(request) = serde_json::from_slice::<Value>(&entry.value) else { continue };
            let step = next(&request, snapshot, (authorizer, &|name| self.pki.serves(name)), self.clock.now());
            let done = match step {
                None => {
                    left.pending |= request.items(&["status", "conditions"]).is_empty();
                    continue;
                }
                Some(Next::Approve(message)) => self.approve(transport, request, message).await,
                Some(Next::Sign) => self.sign(transport, request).await,
                Some(Next::Remove) => call(transport, Method::DELETE, &format!("{PATH}/{name}"), &Value::Null).await,
            };
            if let Err(why) = done {
                tracing::debug!(%name, why, "a request for a certificate could not be dealt with");
                left.failed = true;
            }
        }
        left
    }

    async fn approve(&self, transport: &InProcess, mut request: Value, message: &str) -> Result<(), String> {
        self.put_condition(&mut request, "Approved", "AutoApproved", message);
        let path = format!("{PATH}/{}/approval", request.name());
        call(transport, Method::PUT, &path, &request).await
    }

    async fn sign(&self, transport: &InProcess, mut request: Value) -> Result<(), String> {
        let pem = STANDARD.decode(request.text(&["spec", "request"])).map_err(|error| error.to_string())?;
        let usages: Vec<String> = texts(&request, "usages");
        let order = CsrOrder {
            request: &pem,
            signer: request.text(&["spec", "signerName"]),
            usages: &usages,
            seconds: request.int(&["spec", "expirationSeconds"]),
        };
        match self.pki.sign_csr(order) {
            Ok(certificate) => request.put(&["status", "certificate"], STANDARD.encode(certificate)),
            Err(error) => self.put_condition(&mut request, "Failed", "SignerValidationFailure", &error.to_string()),
        }
        let path = format!("{PATH}/{}/status", request.name());
        call(transport, Method::PUT, &path, &request).await
    }

    fn put_condition(&self, request: &mut Value, kind: &str, reason: &str, message: &str) {
        let stamp = self.clock.now().to_rfc3339();
        let mut conditions = request.items(&["status", "conditions"]).to_vec();
        conditions.push(json!({
            "type": kind, "status": "True", "reason": reason, "message": message,
            "lastUpdateTime": stamp, "lastTransitionTime": stamp,
        }));
        request.put(&["status", "conditions"], conditions);
    }
}

fn texts(request: &Value, field: &str) -> Vec<String> {
    let texts = request.items(&["spec", field]).iter().filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}

fn next(
    request: &Value,
    snapshot: &Snapshot,
    (authorizer, is_reserved): (&Authorizer, &dyn Fn(&str) -> bool),
    now: Time,
) -> Option<Next> {
    let has = |kind: &str| condition::find(request, kind).is_some();
    let created = Time::parse(request.text(&["metadata", "creationTimestamp"])).unwrap_or_default();
    let is_issued = !request.text(&["status", "certificate"]).is_empty();
    let is_over = has("Denied") || has("Failed") || is_issued;
    let age_max = if is_over { DECIDED_AGE_MAX } else { PENDING_AGE_MAX };
    if request.is_deleting() {
        return None;
    }
    if created.after(age_max) < now {
        return Some(Next::Remove);
    }
    if is_over {
        return None;
    }
    if has("Approved") {
        return OWN_SIGNERS.contains(&request.text(&["spec", "signerName"])).then_some(Next::Sign);
    }
    let may = |asked: &Attributes| authorizer.authorize(snapshot, asked).is_allowed();
    let has_node = |name: &str| snapshot.get("core/nodes", name).is_some();
    approval(request, &Surroundings { may: &may, has_node: &has_node, is_reserved }).map(Next::Approve)
}

/// The signers that this server is.
const OWN_SIGNERS: [&str; 4] =
    [admit::csr::API_CLIENT, admit::csr::KUBELET_CLIENT, admit::csr::KUBELET_SERVING, admit::csr::LEGACY_UNKNOWN];

async fn call(transport: &InProcess, method: Method, path: &str, body: &Value) -> Result<(), String> {
    let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .header("user-agent", ACCOUNT)
        .body(body)
        .map_err(|error| error.to_string())?;
    let answer = transport.call(request).await.map_err(|error| error.message)?;
    let status = answer.status();
    if status.is_success() {
        return Ok(());
    }
    let bytes = client::read_all(answer.into_body(), 64 * 1024).await.unwrap_or_default();
    let told: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    Err(told.text(&["message"]).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_next_follows_from_the_request() {
        let now = Time::from_secs(100_000_000);
        let check = |age: i64, status: Value, signer: &str, expected: Option<Next>| {
            let created = Time::from_secs(now.as_secs() - age).to_rfc3339();
            let request =
                json!({"metadata": {"creationTimestamp": created}, "spec": {"signerName": signer}, "status": status});
            let found = next(&request, &Snapshot::default(), (&Authorizer::default(), &|_: &str| false), now);
            assert_eq!(found, expected, "{request}");
        };
        let is = |kind: &str| json!({"conditions": [{"type": kind, "status": "True"}]});
        check(10, is("Approved"), admit::csr::KUBELET_CLIENT, Some(Next::Sign));
        check(10, is("Approved"), "example.com/other", None);
        check(10, is("Denied"), admit::csr::KUBELET_CLIENT, None);
        check(3_601, is("Denied"), admit::csr::KUBELET_CLIENT, Some(Next::Remove));
        check(3_601, json!({}), admit::csr::KUBELET_CLIENT, None);
        check(90_000, json!({}), admit::csr::KUBELET_CLIENT, Some(Next::Remove));
        check(10, json!({"certificate": "x", "conditions": [{"type": "Approved"}]}), admit::csr::KUBELET_CLIENT, None);
        let unique: std::collections::BTreeSet<&str> = OWN_SIGNERS.into_iter().collect();
        assert_eq!(unique.len(), OWN_SIGNERS.len());
    }
}
