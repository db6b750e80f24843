//! Joining: whose cluster it is, proven by the pin in the token; then the first certificate, by the token.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use client::{Access, Credential, Https, Secret, Transport};
use clock::Clock;
use http::{Method, Request, Uri, header};
use meta::ObjectExt;
use pki::Leaf;
use serde_json::Value;
use stdx::Time;

use super::certificates::{self, Which};

/// Where everybody may read whose cluster it is, as kubeadm has it.
const CLUSTER_INFO: &str = "/api/v1/namespaces/kube-public/configmaps/cluster-info";
/// Most bytes of an answer: a CertificateSigningRequest is a few kilobytes.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// How far this machine's clock may be from the server's: as much as certificates are dated back.
const CLOCK_SECONDS_MAX: i64 = 5 * 60;

/// A token with the pin of the authority that it is for: `abcdef.0123456789abcdef@sha256:...`. It has no `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct JoinToken {
    /// The bootstrap token. Secret.
    token: String,
    /// `sha256:` and the hexadecimal digest of the authority's public key.
    pin: String,
}

impl JoinToken {
    /// From the words of a command line; the error says what is missing.
    pub fn parse(text: &str, pin: Option<&str>) -> Result<JoinToken, String> {
        let (token, within) = match text.split_once('@') {
            Some((token, within)) => (token, Some(within)),
            None => (text, None),
        };
        if admit::bootstrap_token::BootstrapToken::parse(token).is_none() {
            return Err(
                "the token is not of the form ID.SECRET@sha256:HASH; 'setpoint token create' makes one".to_owned()
            );
        }
        let pin = within.or(pin).ok_or(
            "the token does not say whose cluster it is for: take the whole of what 'setpoint token create' prints, or \
             add --ca-cert-hash sha256:HASH",
        )?;
        let digest = pin.strip_prefix("sha256:").unwrap_or_default();
        if digest.len() != 64 || !digest.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(format!("{pin:?} is not sha256: and 64 hexadecimal digits"));
        }
        Ok(JoinToken { token: token.to_owned(), pin: pin.to_ascii_lowercase() })
    }
}

/// Why a machine does not join. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// It has not joined before, and was not told how to.
    #[error(
        "{dir} holds no certificate of a node: join with --join https://HOST:PORT --token TOKEN ('setpoint token create \
         --print-join-command' on the server prints it)"
    )]
    NothingKept {
        /// Where it would be.
        dir: PathBuf,
    },
    /// What is kept is another node's.
    #[error(
        "{dir} holds the certificate of node {kept:?}, not of {given:?}: use --node-name {kept}, or another --data-dir"
    )]
    OtherName {
        /// Where.
        dir: PathBuf,
        /// Whose it is.
        kept: String,
        /// Who was to be.
        given: String,
    },
    /// It was away for too long.
    #[error(
        "the certificate of this node in {dir} ended at {at}: join again with --join and a new --token, after 'kubectl \
         delete node' on the server (or set the clock, if that is wrong)"
    )]
    Expired {
        /// Where.
        dir: PathBuf,
        /// When.
        at: String,
    },
    /// No answer.
    #[error(
        "cannot reach the server at {server}: {why}. Is it running, does it listen there (setpoint server --listen \
         0.0.0.0:6443), and does no firewall stand between?"
    )]
    Unreachable {
        /// Where.
        server: String,
        /// Why.
        why: String,
    },
    /// Another authority.
    #[error(
        "the server at {server} is not the one that the token is for: its authority is {found}, the token says {pinned}. \
         Check the address; if the server was installed anew, make a new token there"
    )]
    OtherAuthority {
        /// Where.
        server: String,
        /// Its pin.
        found: String,
        /// The token's.
        pinned: String,
    },
    /// Clocks differ.
    #[error("this machine's clock is {seconds} seconds {way} the server's: set it (NTP), then join again")]
    Clock {
        /// By how much.
        seconds: i64,
        /// `ahead of` or `behind`.
        way: &'static str,
    },
    /// 401.
    #[error(
        "the server does not accept the token: it has expired, was deleted, or was not copied whole. Make a new one with \
         'setpoint token create --print-join-command' on the server"
    )]
    Token,
    /// Nobody approved.
    #[error(
        "nobody has approved the request {request} yet. A node of this name that is there already is not replaced by \
         itself: delete it ('kubectl delete node'), or approve by hand ('kubectl certificate approve {request}'), and start \
         again"
    )]
    NotApproved {
        /// Its name.
        request: String,
    },
    /// Denied, or not signed.
    #[error("the server refused the certificate ({request}): {why}")]
    Refused {
        /// Its name.
        request: String,
        /// Why.
        why: String,
    },
    /// An answer that makes no sense, or a refusal.
    #[error("{0}")]
    Answer(String),
    /// Keys.
    #[error(transparent)]
    Pki(#[from] pki::PkiError),
}

/// Asks the server, of whom nothing is known, for its authority, and checks that against the token. Everything after
/// this trusts that authority and no other.
pub async fn fetch_authority(server: &Uri, token: &JoinToken, clock: &Arc<dyn Clock>) -> Result<String, JoinError> {
    let transport = open(server, None, None, clock)?;
    let request = Request::get(CLUSTER_INFO).header(header::ACCEPT, "application/json").body(Bytes::new());
    let request = request.map_err(|error| JoinError::Answer(error.to_string()))?;
    let unreachable = |why: String| JoinError::Unreachable { server: server.to_string(), why };
    let answer = transport.call(request).await.map_err(|error| unreachable(error.message))?;
    let date = answer.headers().get(header::DATE).and_then(|date| date.to_str().ok()).and_then(http_date);
    if let Some(date) = date {
        check_clock(clock.now(), date)?;
    }
    let status = answer.status();
    let bytes = client::read_all(answer.into_body(), ANSWER_BYTES_MAX).await.map_err(|e| unreachable(e.message))?;
    let object: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let authority = authority_in(object.text(&["data", "kubeconfig"])).ok_or_else(|| {
        JoinError::Answer(format!("{server} does not say whose cluster it is ({CLUSTER_INFO}: {status})"))
    })?;
    let found = pki::public_key_hash(&authority).unwrap_or_default();
    if found != token.pin {
        let pinned = token.pin.clone();
        return Err(JoinError::OtherAuthority { server: server.to_string(), found, pinned });
    }
    Ok(authority)
}

/// The authority that a kubeconfig of one cluster names, PEM.
fn authority_in(kubeconfig: &str) -> Option<String> {
    use base64::Engine;
    let config: Value = serde_json::from_str(kubeconfig).ok()?;
    let cluster = config.items(&["clusters"]).first()?;
    let encoded = cluster.text(&["cluster", "certificate-authority-data"]);
    String::from_utf8(base64::engine::general_purpose::STANDARD.decode(encoded).ok()?).ok()
}

fn check_clock(own: Time, server: Time) -> Result<(), JoinError> {
    let difference = own.as_secs().saturating_sub(server.as_secs());
    match difference {
        d if d > CLOCK_SECONDS_MAX => Err(JoinError::Clock { seconds: d, way: "ahead of" }),
        d if d < -CLOCK_SECONDS_MAX => Err(JoinError::Clock { seconds: d.saturating_neg(), way: "behind" }),
        _ => Ok(()),
    }
}

/// `Mon, 30 Nov 2026 13:44:20 GMT`.
fn http_date(text: &str) -> Option<Time> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let words: Vec<&str> = text.split(' ').collect();
    let [_, day, month, year, time, "GMT"] = words[..] else { return None };
    let month = MONTHS.iter().position(|name| *name == month)? + 1;
    Time::parse(&format!("{year}-{month:02}-{day}T{time}Z"))
}

/// The node's first certificate for coming to the server.
pub async fn first_certificate(
    server: &Uri,
    authority: &str,
    token: &JoinToken,
    name: &str,
    clock: &Arc<dyn Clock>,
) -> Result<Leaf, JoinError> {
    let transport = open(server, Some(authority), Some(token), clock)?;
    certificates::obtain(&transport, name, Which::Client).await
}

fn open(
    server: &Uri,
    authority: Option<&str>,
    token: Option<&JoinToken>,
    clock: &Arc<dyn Clock>,
) -> Result<Arc<dyn Transport>, JoinError> {
    let access = Access {
        context: "join".to_owned(),
        server: server.clone(),
        authorities: authority.map(|pem| pem.as_bytes().to_vec()),
        insecure: authority.is_none(),
        server_name: None,
        credential: Credential { token: token.map(|token| Secret(token.token.clone())), ..Credential::default() },
    };
    Https::open(&access, Arc::clone(clock)).map_err(|error| JoinError::Answer(stdx::chain(&error)))
}

/// One request with a JSON body, and its answer.
pub async fn call(
    transport: &Arc<dyn Transport>,
    method: Method,
    path: &str,
    body: &Value,
) -> Result<Value, JoinError> {
    let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json")
        .header(header::USER_AGENT, "setpoint")
        .body(body)
        .map_err(|error| JoinError::Answer(error.to_string()))?;
    let answer = transport.call(request).await.map_err(|error| JoinError::Answer(no_answer(path, &error.message)))?;
    let status = answer.status();
    let bytes = client::read_all(answer.into_body(), ANSWER_BYTES_MAX).await;
    let bytes = bytes.map_err(|error| JoinError::Answer(error.message))?;
    let value: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    match status.as_u16() {
        200..=299 => Ok(value),
        401 => Err(JoinError::Token),
        code => Err(JoinError::Answer(format!("the server refused {path} ({code}): {}", value.text(&["message"])))),
    }
}

fn no_answer(path: &str, why: &str) -> String {
    let hint = match why.contains("certificate") {
        true => ". Does the server's certificate name this address? 'setpoint server --tls-san NAME' adds one",
        false => "",
    };
    format!("no answer to {path}: {why}{hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_carry_their_pin() {
        let pin = format!("sha256:{}", "0a".repeat(32));
        let check = |text: String, pin: Option<&str>, expected: Result<(), &str>| {
            let read = JoinToken::parse(&text, pin);
            match (read, expected) {
                (Ok(read), Ok(())) => assert_eq!(read.pin, format!("sha256:{}", "0a".repeat(32))),
                (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
                (read, _) => panic!("{text}: {}", read.err().unwrap_or_default()),
            }
        };
        check(format!("abcdef.0123456789abcdef@{pin}"), None, Ok(()));
        check(format!("abcdef.0123456789abcdef@{}", pin.to_uppercase().replace("SHA", "sha")), None, Ok(()));
        check("abcdef.0123456789abcdef".to_owned(), Some(&pin), Ok(()));
        check("abcdef.0123456789abcdef".to_owned(), None, Err("whose cluster"));
        check("abcdef.0123456789abcdef@sha256:00".to_owned(), None, Err("64 hexadecimal digits"));
        check(format!("abcdef@{pin}"), None, Err("setpoint token create"));
    }

    #[test]
    fn a_clock_that_is_far_off_is_said() {
        let at = Time::from_secs;
        assert!(check_clock(at(1_000), at(1_200)).is_ok());
        let error = check_clock(at(1_000), at(2_000)).expect_err("far off").to_string();
        assert_eq!(error, "this machine's clock is 1000 seconds behind the server's: set it (NTP), then join again");
        assert!(check_clock(at(2_000), at(1_000)).expect_err("far off").to_string().contains("ahead of"));
        assert_eq!(http_date("Mon, 30 Nov 2026 13:44:20 GMT"), Time::parse("2026-11-30T13:44:20Z"));
        assert_eq!(http_date("yesterday"), None);
    }

    #[test]
    fn an_authority_is_found_in_what_is_published() {
        let config = r#"{"clusters": [{"name": "", "cluster": {"certificate-authority-data": "UEVN"}}]}"#;
        assert_eq!(authority_in(config).as_deref(), Some("PEM"));
        assert_eq!(authority_in("{}"), None);
    }
}
