//! Whom a token proves.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use meta::ObjectExt;
use serde_json::Value;
use stdx::Time;
use store::Snapshot;

use super::{LEEWAY_SECONDS, SignatureError, SignatureVerifier, TOKEN_BYTES_MAX, TokenConfig};
use crate::UserInfo;
use crate::rbac::quoted;

/// A proven user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authenticated {
    /// Who it is.
    pub user: UserInfo,
    /// Audiences that both the token and the request name.
    pub audiences: Vec<String>,
    /// What audit should say about a token used after its warning time.
    pub stale: Option<String>,
}

/// Checks a bearer token against the state at hand. `Ok(None)`: it is no token of ours, others may know it. The error
/// says why a token of ours does not count; it holds nothing secret. `wanted` are the audiences that a TokenReview asks
/// for; a request to this server has none.
pub fn authenticate(
    config: &TokenConfig,
    verifier: &dyn SignatureVerifier,
    snapshot: &Snapshot,
    token: &str,
    wanted: Option<&[String]>,
    now: Time,
) -> Result<Option<Authenticated>, String> {
    let Some(parts) = Parts::read(token).filter(|parts| config.accepts(parts.claims.text(&["iss"]))) else {
        return Ok(None);
    };
    parts.check_signature(verifier)?;
    let claims = &parts.claims;
    let audiences = common_audiences(config, claims, wanted)?;
    check_times(claims, now)?;
    let case = Case { snapshot, claims, now };
    let user = case.user()?;
    Ok(Some(Authenticated { user, audiences, stale: case.stale() }))
}

impl TokenConfig {
    fn accepts(&self, issuer: &str) -> bool {
        !issuer.is_empty() && (self.issuer == issuer || self.accepted_issuers.iter().any(|i| i == issuer))
    }
}

/// A token taken apart; nothing in it is to be believed before the signature is checked.
struct Parts<'t> {
    header: Value,
    claims: Value,
    message: &'t str,
    signature: Vec<u8>,
}

impl<'t> Parts<'t> {
    fn read(token: &'t str) -> Option<Self> {
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let (message, signature) = token.rsplit_once('.')?;
        let (header, claims) = message.split_once('.')?;
        let tree = |part: &str| -> Option<Value> {
            let value: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()?;
            value.is_object().then_some(value)
        };
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        Some(Self { header: tree(header)?, claims: tree(claims)?, message, signature })
    }

    fn check_signature(&self, verifier: &dyn SignatureVerifier) -> Result<(), String> {
        // A critical extension that is not understood must refuse the token; none is understood.
        if self.header.get("crit").is_some() {
            return Err("invalid signature, unsupported critical header".to_owned());
        }
        let (algorithm, key_id) = (self.header.text(&["alg"]), self.header.text(&["kid"]));
        match verifier.verify(algorithm, key_id, self.message.as_bytes(), &self.signature) {
            Ok(()) => Ok(()),
            Err(SignatureError::UnknownKey) => Err("invalid signature, no keys found".to_owned()),
            Err(SignatureError::Wrong) => Err("invalid signature".to_owned()),
        }
    }
}

fn common_audiences(config: &TokenConfig, claims: &Value, wanted: Option<&[String]>) -> Result<Vec<String>, String> {
    let wanted = wanted.unwrap_or(&config.audiences);
    let own: Vec<String> = match claims.get("aud") {
        Some(Value::String(one)) => vec![one.clone()],
        Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    let common: Vec<String> = own.iter().filter(|audience| wanted.contains(audience)).cloned().collect();
    if common.is_empty() {
        let (own, wanted) = (quoted(&own), quoted(wanted));
        return Err(format!("token audiences {own} is invalid for the target audiences {wanted}"));
    }
    Ok(common)
}

fn check_times(claims: &Value, now: Time) -> Result<(), String> {
    let now = now.as_secs();
    let at = |claim: &str| claims.get(claim).and_then(Value::as_f64).map(|seconds| seconds as i64);
    // A token without an end was not issued here.
    if at("exp").is_none_or(|end| now.saturating_sub(LEEWAY_SECONDS) > end) {
        return Err("service account token has expired".to_owned());
    }
    if at("nbf").is_some_and(|start| now.saturating_add(LEEWAY_SECONDS) < start) {
        return Err("service account token is not valid yet".to_owned());
    }
    if at("iat").is_some_and(|issued| now.saturating_add(LEEWAY_SECONDS) < issued) {
        return Err("service account token is issued in the future".to_owned());
    }
    Ok(())
}

struct Case<'c> {
    snapshot: &'c Snapshot,
    claims: &'c Value,
    now: Time,
}

const INVALIDATED: &str = "service account token has been invalidated";

impl Case<'_> {
    fn claim(&self, path: &[&str]) -> &str {
        self.claims.at(&["kubernetes.io"]).map_or("", |private| private.text(path))
    }

    fn has(&self, object: &str) -> bool {
        self.claims.at(&["kubernetes.io", object]).is_some_and(|reference| !reference.is_null())
    }

    fn read(&self, collection: &str, item: &str) -> Option<Value> {
        serde_json::from_slice(&self.snapshot.get(collection, item)?.value).ok()
    }

    /// Whether deletion began so long ago that the token no longer counts.
    fn is_gone(&self, object: &Value) -> bool {
        let begun = object.deletion_timestamp();
        begun.is_some_and(|begun| begun.as_secs() < self.now.as_secs().saturating_sub(LEEWAY_SECONDS))
    }

    fn user(&self) -> Result<UserInfo, String> {
        let namespace = self.claim(&["namespace"]);
        let (name, uid) = (self.claim(&["serviceaccount", "name"]), self.claim(&["serviceaccount", "uid"]));
        let account = self.read("core/serviceaccounts", &format!("{namespace}/{name}"));
        let account = account.ok_or_else(|| format!("serviceaccounts {name:?} not found"))?;
        if uid.is_empty() || account.uid() != uid {
            return Err(format!("service account UID ({}) does not match claim ({uid})", account.uid()));
        }
        if self.is_gone(&account) {
            return Err(format!("service account {namespace}/{name} has been deleted"));
        }
        let inside = |object: &str| format!("{namespace}/{}", self.claim(&[object, "name"]));
        self.check_bound("secret", "core/secrets", inside("secret"))?;
        self.check_bound("pod", "core/pods", inside("pod"))?;
        if !self.has("pod") {
            self.check_bound("node", "core/nodes", self.claim(&["node", "name"]).to_owned())?;
        }
        // Bindings that are not understood here must not widen into a token without them.
        for unknown in ["validatingwebhookconfiguration", "mutatingwebhookconfiguration"] {
            if self.has(unknown) {
                return Err(format!("tokens bound to a {unknown} are not accepted"));
            }
        }
        let mut user = UserInfo::service_account(namespace, name, uid);
        self.add_extra(&mut user);
        Ok(user)
    }

    fn check_bound(&self, word: &str, collection: &str, item: String) -> Result<(), String> {
        if !self.has(word) {
            return Ok(());
        }
        let object = self.read(collection, &item).ok_or(INVALIDATED)?;
        let uid = self.claim(&[word, "uid"]);
        if uid.is_empty() || object.uid() != uid {
            let actual = object.uid();
            return Err(format!("{word} UID ({actual}) does not match service account {word} ref claim ({uid})"));
        }
        if self.is_gone(&object) { Err(INVALIDATED.to_owned()) } else { Ok(()) }
    }

    fn add_extra(&self, user: &mut UserInfo) {
        let mut add = |key: &str, value: String| {
            user.extra.insert(format!("authentication.kubernetes.io/{key}"), vec![value]);
        };
        let id = self.claims.text(&["jti"]);
        if !id.is_empty() {
            add("credential-id", format!("JTI={id}"));
        }
        for object in ["pod", "node"] {
            let (name, uid) = (self.claim(&[object, "name"]), self.claim(&[object, "uid"]));
            if !name.is_empty() {
                add(&format!("{object}-name"), name.to_owned());
            }
            if !name.is_empty() && !uid.is_empty() {
                add(&format!("{object}-uid"), uid.to_owned());
            }
        }
    }

    fn stale(&self) -> Option<String> {
        let warn_after = self.claims.int(&["kubernetes.io", "warnafter"]).filter(|after| *after != 0)?;
        let late = self.now.as_secs().saturating_sub(warn_after);
        let subject = self.claims.text(&["sub"]);
        (late > 0).then(|| format!("subject: {subject}, seconds after warning threshold: {late}"))
    }
}
