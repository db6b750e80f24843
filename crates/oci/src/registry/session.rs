//! Asking one registry about one repository: credentials, redirections, tries.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use serde::Deserialize;
use tokio::sync::Mutex;

use super::challenge::Challenge;
use super::connect::{Answer, Ask, Connector};
use super::hosts::{Endpoint, Target};
use super::keyring::Login;
use crate::error::ImageError;
use crate::limits::Limits;
use crate::reference::Reference;

/// Registries redirect once, to where blobs are kept; that may redirect once more.
const REDIRECTS_MAX: usize = 5;
/// Of an answer that tells of an error.
const ERROR_BYTES_MAX: u64 = 8 * 1024;
/// Of an answer that holds a token.
const TOKEN_BYTES_MAX: u64 = 64 * 1024;
/// What is shown of a registry's own words.
const WORDS_CHARS_MAX: usize = 200;

/// A registry, a repository of it, and who asks.
pub(super) struct Session {
    connector: std::sync::Arc<Connector>,
    endpoint: Endpoint,
    /// The registry that the image's name tells; differs from the endpoint's at a mirror.
    registry: String,
    /// As the endpoint calls it.
    repository: String,
    /// The image, for messages.
    shown: String,
    login: Option<Login>,
    limits: Limits,
    /// The value of `Authorization` that was accepted last.
    authorization: Mutex<Option<HeaderValue>>,
}

impl Session {
    pub fn new(
        connector: std::sync::Arc<Connector>,
        endpoint: Endpoint,
        reference: &Reference,
        login: Option<Login>,
        limits: &Limits,
    ) -> Session {
        Session {
            connector,
            registry: reference.registry().to_owned(),
            repository: endpoint.repository(reference.repository()),
            endpoint,
            shown: reference.to_string(),
            login,
            limits: limits.clone(),
            authorization: Mutex::new(None),
        }
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Asks for a manifest by tag or digest.
    pub async fn manifest(&self, selector: &str, accepted: &[&str]) -> Result<Answer, ImageError> {
        let mut headers = HeaderMap::new();
        for media_type in accepted {
            headers.extend(HeaderValue::from_str(media_type).ok().map(|value| (header::ACCEPT, value)));
        }
        self.get(&format!("manifests/{selector}"), headers).await
    }

    /// Asks for a blob from the byte `offset` on.
    pub async fn blob(&self, digest: &str, offset: u64) -> Result<Answer, ImageError> {
        let mut headers = HeaderMap::new();
        // Nobody may pack once more what the digest is of.
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if offset > 0 {
            let range = HeaderValue::from_str(&format!("bytes={offset}-"));
            headers.extend(range.ok().map(|range| (header::RANGE, range)));
        }
        self.get(&format!("blobs/{digest}"), headers).await
    }

    /// Asks until there is an answer that is none of trouble, or no hope.
    async fn get(&self, path: &str, headers: HeaderMap) -> Result<Answer, ImageError> {
        let target = self.target(path)?;
        let mut pause = self.limits.retry_pause;
        for attempt in 1.. {
            let failure = match self.get_once(&target, &headers).await {
                Ok(answer) if !is_passing(answer.status) => return self.judge(answer).await,
                Ok(answer) if attempt >= self.limits.attempts_max => return self.judge(answer).await,
                Ok(answer) => {
                    pause = retry_after(&answer).unwrap_or(pause);
                    answer.status.to_string()
                }
                Err(error) if !is_transient(&error) || attempt >= self.limits.attempts_max => {
                    return Err(error.about(&self.shown));
                }
                Err(error) => error.message(),
            };
            tracing::debug!(image = %self.shown, %target, failure, attempt, "asking the registry again");
            tokio::time::sleep(pause.min(self.limits.retry_pause_max)).await;
            pause = pause.saturating_mul(2);
        }
        Err(ImageError::unavailable(format!("ask {target}"), "no attempt is allowed"))
    }

    fn target(&self, path: &str) -> Result<Target, ImageError> {
        let base = &self.endpoint.base;
        // A mirror of several registries must be told which one is meant.
        let query = if self.endpoint.is_mirror { format!("?ns={}", self.registry) } else { String::new() };
        let path = format!("{}{}/{}/{path}{query}", base.path, self.endpoint.api, self.repository);
        Ok(Target { path, ..base.clone() })
    }

    /// Asks, proves who asks where that is demanded, and follows redirections.
    async fn get_once(&self, target: &Target, headers: &HeaderMap) -> Result<Answer, ImageError> {
        let authorization = self.authorization.lock().await.clone();
        let answer = self.follow(target, headers, authorization.as_ref()).await?;
        if answer.status != StatusCode::UNAUTHORIZED {
            return Ok(answer);
        }
        let values = answer.headers.get_all(header::WWW_AUTHENTICATE);
        let challenge = Challenge::choose(values.iter().filter_map(|value| value.to_str().ok()));
        let Some(challenge) = challenge else { return Ok(answer) };
        let Some(fresh) = self.prove(&challenge).await? else { return Ok(answer) };
        // What was refused is not shown again.
        if challenge == Challenge::Basic && authorization.as_ref() == Some(&fresh) {
            return Ok(answer);
        }
        drop(answer);
        let answer = self.follow(target, headers, Some(&fresh)).await?;
        if answer.status != StatusCode::UNAUTHORIZED {
            *self.authorization.lock().await = Some(fresh);
        }
        Ok(answer)
    }

    async fn follow(
        &self,
        first: &Target,
        headers: &HeaderMap,
        authorization: Option<&HeaderValue>,
    ) -> Result<Answer, ImageError> {
        let mut target = first.clone();
        for _ in 0..=REDIRECTS_MAX {
            let mut headers = headers.clone();
            // Whoever is redirected to gets no credentials of this registry.
            let shown = authorization.filter(|_| target.is_same_place(first));
            headers.extend(shown.map(|value| (header::AUTHORIZATION, value.clone())));
            let answer = self.connector.ask(&target, Ask { headers, form: None }, &self.limits).await?;
            if !is_redirection(answer.status) {
                return Ok(answer);
            }
            let location = answer.header(header::LOCATION).unwrap_or_default();
            let next = target.redirected(location)?;
            if target.tls && !next.tls {
                return Err(ImageError::Denied(format!("{target} redirects to plain HTTP")));
            }
            target = next;
        }
        Err(ImageError::Damaged(format!("{first}: more than {REDIRECTS_MAX} redirections")))
    }

    /// The value of `Authorization` that answers a challenge; none if nothing can.
    async fn prove(&self, challenge: &Challenge) -> Result<Option<HeaderValue>, ImageError> {
        match challenge {
            Challenge::Basic => Ok(self.login.as_ref().and_then(Login::basic).and_then(|basic| secret(&basic))),
            Challenge::Bearer { realm, service, scope } => {
                let token = self.fetch_token(realm, service, scope).await?;
                Ok(secret(&format!("Bearer {token}")))
            }
        }
    }

    async fn fetch_token(&self, realm: &str, service: &str, scope: &str) -> Result<String, ImageError> {
        #[derive(Deserialize)]
        struct Tokens {
            token: Option<String>,
            access_token: Option<String>,
        }
        let mut target = Target::parse(realm)?;
        if self.endpoint.base.tls && !target.tls {
            return Err(ImageError::Denied(format!("{}: asks to send credentials in plain HTTP", self.endpoint.base)));
        }
        let own_scope = format!("repository:{}:pull", self.repository);
        let scope = if scope.is_empty() { &own_scope } else { scope };
        let separator = if target.path.contains('?') { '&' } else { '?' };
        let question = format!("service={}&scope={}", encode(service), encode(scope));
        let mut ask = Ask::default();
        if let Some(token) = self.login.as_ref().and_then(Login::identity_token) {
            let client = concat!("client_id=setpoint/", env!("CARGO_PKG_VERSION"));
            ask.form = Some(format!("grant_type=refresh_token&refresh_token={}&{client}&{question}", encode(token)));
        } else {
            target.path = format!("{}{separator}{question}", target.path);
            let basic = self.login.as_ref().and_then(Login::basic);
            ask.headers.extend(basic.and_then(|basic| Some((header::AUTHORIZATION, secret(&basic)?))));
        }
        let answer = self.connector.ask(&target, ask, &self.limits).await?;
        match answer.status {
            StatusCode::OK => {}
            status if is_passing(status) => {
                return Err(ImageError::unavailable(format!("ask {target} for a token"), status.to_string()));
            }
            status => {
                let text = format!("failed to authorize: failed to fetch anonymous token: {target}: {status}");
                let text = if self.login.is_some() { text.replace("anonymous", "oauth") } else { text };
                return Err(ImageError::Unauthorized(text));
            }
        }
        let bytes = answer.bytes("a token", TOKEN_BYTES_MAX).await?;
        let tokens: Option<Tokens> = serde_json::from_slice(&bytes).ok();
        let token = tokens.and_then(|tokens| tokens.token.or(tokens.access_token)).filter(|token| !token.is_empty());
        token.ok_or_else(|| ImageError::Unauthorized(format!("{target}: the answer holds no token")))
    }

    /// Makes an error of an answer that is one.
    async fn judge(&self, answer: Answer) -> Result<Answer, ImageError> {
        let status = answer.status;
        if status.is_success() || status == StatusCode::RANGE_NOT_SATISFIABLE {
            return Ok(answer);
        }
        let words = answer.bytes("an error", ERROR_BYTES_MAX).await.map(|bytes| words(&bytes)).unwrap_or_default();
        let shown = &self.shown;
        let with = |text: String| if words.is_empty() { text } else { format!("{text}: {words}") };
        Err(match status {
            StatusCode::NOT_FOUND => ImageError::NotFound(shown.clone()),
            StatusCode::UNAUTHORIZED => ImageError::Unauthorized(with(format!(
                "{shown}: pull access denied, repository does not exist or may require authorization: {status}"
            ))),
            StatusCode::FORBIDDEN => ImageError::Denied(with(format!("{shown}: {status}"))),
            StatusCode::TOO_MANY_REQUESTS => {
                ImageError::unavailable(shown.clone(), with(format!("toomanyrequests: {status}")))
            }
            _ => ImageError::unavailable(shown.clone(), with(format!("unexpected status from the registry: {status}"))),
        })
    }
}

/// A header that no log shows.
fn secret(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn is_redirection(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// Trouble that passes.
fn is_passing(status: StatusCode) -> bool {
    status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED
        || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT)
}

fn is_transient(error: &ImageError) -> bool {
    matches!(error, ImageError::Unavailable { .. })
}

fn retry_after(answer: &Answer) -> Option<Duration> {
    let seconds = answer.header(HeaderName::from_static("retry-after"))?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// A registry's own words on an error: one line, of bounded length.
fn words(bytes: &[u8]) -> String {
    let value: serde_json::Value = serde_json::from_slice(bytes).unwrap_or_default();
    let first = &value["errors"][0];
    let text = [&first["code"], &first["message"]].into_iter().filter_map(|part| part.as_str());
    let text = text.collect::<Vec<_>>().join(": ");
    text.chars().filter(|c| !c.is_control()).take(WORDS_CHARS_MAX).collect()
}

fn encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/,*".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
