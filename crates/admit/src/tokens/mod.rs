//! Service-account tokens: what is in them, who may ask for them, whom they prove. Signing and checking signatures
//! is behind two small traits; keys never come here.

mod request;
mod verify;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};
use stdx::Time;

use crate::user::service_account_name;
use meta::ObjectExt;

pub use request::{TokenGrant, token_request};
pub use verify::{Authenticated, authenticate};

/// Longest token looked at. A claim set is below 2 KiB; object names add at most a few hundred bytes.
pub const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// How far clocks may be apart.
const LEEWAY_SECONDS: i64 = 60;

/// The lifetime that kubelets ask for on behalf of pods whose clients may not reread their token; such tokens live
/// longer than they say and are reported when used late.
const WARN_ONLY_SECONDS: i64 = 60 * 60 + 7;
const EXTENDED_SECONDS: i64 = 365 * 24 * 60 * 60;

/// Who issues tokens and for whom.
#[derive(Clone, Debug, Default)]
pub struct TokenConfig {
    /// `iss` of new tokens, also accepted.
    pub issuer: String,
    /// Further accepted issuers (earlier names of this one).
    pub accepted_issuers: Vec<String>,
    /// Audiences that mean this API server; the default of requests without any.
    pub audiences: Vec<String>,
    /// Longest lifetime granted; `None` leaves it to the asker.
    pub seconds_max: Option<i64>,
}

/// Makes signatures.
pub trait TokenSigner {
    /// JWS name, e.g. `ES256`.
    fn algorithm(&self) -> &str;
    /// Key identifier for the token's header.
    fn key_id(&self) -> &str;
    /// Signature of `message`; the error is for logs.
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, String>;
}

/// Checks signatures. An implementation chooses the key by `key_id` alone, never reads anything from a place that the
/// identifier names, and uses the key only with the key's own algorithm.
pub trait SignatureVerifier {
    /// Whether a known key made the signature.
    fn verify(&self, algorithm: &str, key_id: &str, message: &[u8], signature: &[u8]) -> Result<(), SignatureError>;
}

/// Why a signature does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureError {
    /// Nobody knows a key of that name.
    UnknownKey,
    /// The key did not make it, or not with that algorithm.
    Wrong,
}

/// What a token is bound to beside its service account.
#[derive(Clone, Copy, Default)]
pub struct Bound<'b> {
    /// A pod.
    pub pod: Option<&'b Value>,
    /// A node: on its own, or the one that the pod runs on.
    pub node: Option<&'b Value>,
    /// A secret.
    pub secret: Option<&'b Value>,
}

/// The claims of a new token. `warn_after` is seconds from `now`; `id` becomes `jti`.
pub fn claims(
    config: &TokenConfig,
    account: &Value,
    bound: Bound<'_>,
    audiences: &[String],
    (now, seconds, warn_after): (Time, i64, Option<i64>),
    id: &str,
) -> Value {
    let reference = |object: &Value| {
        let pairs = [("name", object.name()), ("uid", object.uid())].into_iter().filter(|(_, text)| !text.is_empty());
        Value::Object(pairs.map(|(key, text)| (key.to_owned(), json!(text))).collect())
    };
    let mut private = Map::new();
    private.insert("namespace".to_owned(), json!(account.namespace()));
    private.insert("serviceaccount".to_owned(), reference(account));
    for (key, object) in [("pod", bound.pod), ("node", bound.node), ("secret", bound.secret)] {
        private.extend(object.map(|object| (key.to_owned(), reference(object))));
    }
    private.extend(warn_after.map(|after| ("warnafter".to_owned(), json!(now.as_secs().saturating_add(after)))));
    json!({
        "iss": config.issuer,
        "sub": service_account_name(account.namespace(), account.name()),
        "aud": audiences,
        "exp": now.as_secs().saturating_add(seconds),
        "iat": now.as_secs(),
        "nbf": now.as_secs(),
        "jti": id,
        "kubernetes.io": private,
    })
}

/// The compact form of a signed claim set.
pub fn sign(claims: &Value, signer: &dyn TokenSigner) -> Result<String, String> {
    let header = json!({"alg": signer.algorithm(), "kid": signer.key_id()});
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let message = format!("{}.{}", part(&header), part(claims));
    let signature = signer.sign(message.as_bytes())?;
    Ok(format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

/// The document at `/.well-known/openid-configuration`.
pub fn discovery_document(config: &TokenConfig, jwks_uri: &str, algorithms: &[&str]) -> Value {
    json!({
        "issuer": config.issuer,
        "jwks_uri": jwks_uri,
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": algorithms,
    })
}

#[cfg(test)]
mod tests;
