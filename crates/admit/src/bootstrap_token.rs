//! Bootstrap tokens: short-lived words by which a machine that has nothing else joins. Each is a Secret in kube-system.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use meta::ObjectExt;
use serde_json::{Value, json};
use stdx::Time;
use store::Snapshot;

use crate::UserInfo;

/// `type` of the Secrets.
pub const SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";
/// Where they are.
pub const NAMESPACE: &str = "kube-system";
/// Everybody who comes with such a token.
pub const GROUP: &str = "system:bootstrappers";
/// The group that kubeadm's tokens give besides.
pub const DEFAULT_GROUP: &str = "system:bootstrappers:kubeadm:default-node-token";
const NAME_PREFIX: &str = "bootstrap-token-";
const USER_PREFIX: &str = "system:bootstrap:";
const ID_CHARS: usize = 6;
const SECRET_CHARS: usize = 16;
/// Extra groups of one token that are looked at.
const GROUPS_MAX: usize = 64;

/// A token in its parts. It has no `Debug`: the second part is secret.
#[derive(Clone, PartialEq, Eq)]
pub struct BootstrapToken {
    /// Six characters, not secret.
    pub id: String,
    /// Sixteen characters. Secret.
    pub secret: String,
}

impl BootstrapToken {
    /// Reads `abcdef.0123456789abcdef`; `None` when it is no such token.
    pub fn parse(text: &str) -> Option<BootstrapToken> {
        let is_part = |part: &str, chars: usize| {
            part.len() == chars && part.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9'))
        };
        let (id, secret) = text.split_once('.')?;
        let fits = is_part(id, ID_CHARS) && is_part(secret, SECRET_CHARS);
        fits.then(|| BootstrapToken { id: id.to_owned(), secret: secret.to_owned() })
    }

    /// A new one from random bytes, of which the first 22 are used.
    pub fn from_random(bytes: &[u8; ID_CHARS + SECRET_CHARS]) -> BootstrapToken {
        const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
        let text: String = bytes.iter().map(|byte| char::from(ALPHABET[usize::from(byte % 32)])).collect();
        let (id, secret) = text.split_at(ID_CHARS);
        BootstrapToken { id: id.to_owned(), secret: secret.to_owned() }
    }

    /// The Secret that makes the token valid, until `expires` if it does expire.
    pub fn object(&self, description: &str, expires: Option<Time>) -> Value {
        let mut data = json!({
            "token-id": self.id, "token-secret": self.secret,
            "usage-bootstrap-authentication": "true", "usage-bootstrap-signing": "true",
            "auth-extra-groups": DEFAULT_GROUP,
        });
        if let Some(expires) = expires {
            data.put(&["expiration"], expires.to_rfc3339());
        }
        if !description.is_empty() {
            data.put(&["description"], description);
        }
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": SECRET_TYPE,
            "metadata": {"name": secret_name(&self.id), "namespace": NAMESPACE}, "stringData": data,
        })
    }
}

/// The name of a token's Secret.
pub fn secret_name(id: &str) -> String {
    format!("{NAME_PREFIX}{id}")
}

/// A field of a token's Secret as text; empty when it is not there.
pub fn field(secret: &Value, name: &str) -> String {
    let bytes = STANDARD.decode(secret.text(&["data", name])).unwrap_or_default();
    String::from_utf8(bytes).unwrap_or_default()
}

/// When a token's Secret says that it ends; `Err` when nobody can read that.
pub fn expiration(secret: &Value) -> Result<Option<Time>, String> {
    match field(secret, "expiration").as_str() {
        "" => Ok(None),
        text => Time::parse(text).map(Some).ok_or_else(|| format!("unparseable expiration {text:?}")),
    }
}

/// Whom a token proves. `Ok(None)`: it is no bootstrap token. The error says why one does not count; nothing in it is
/// secret.
pub fn authenticate(snapshot: &Snapshot, token: &str, now: Time) -> Result<Option<UserInfo>, String> {
    let Some(token) = BootstrapToken::parse(token) else { return Ok(None) };
    let id = &token.id;
    let entry = snapshot.get("core/secrets", &format!("{NAMESPACE}/{}", secret_name(id)));
    let secret: Value = entry.and_then(|entry| serde_json::from_slice(&entry.value).ok()).unwrap_or_default();
    if secret.is_null() {
        return Err(format!("there is no bootstrap token {id:?}"));
    }
    check(&secret, &token, now).map_err(|why| format!("bootstrap token {id:?}: {why}"))?;
    let extra = field(&secret, "auth-extra-groups");
    let extra: Vec<&str> = extra.split(',').map(str::trim).filter(|group| !group.is_empty()).take(GROUPS_MAX).collect();
    if let Some(group) = extra.iter().find(|group| !is_bootstrap_group(group)) {
        return Err(format!("bootstrap token {id:?}: group {group:?} does not begin with {GROUP}:"));
    }
    Ok(Some(UserInfo::new(format!("{USER_PREFIX}{id}"), [GROUP].into_iter().chain(extra)).authenticated()))
}

fn check(secret: &Value, token: &BootstrapToken, now: Time) -> Result<(), String> {
    if secret.is_deleting() {
        return Err("it was deleted".to_owned());
    }
    if secret.text(&["type"]) != SECRET_TYPE {
        return Err("its secret has another type".to_owned());
    }
    if !is_same(field(secret, "token-secret").as_bytes(), token.secret.as_bytes()) {
        return Err("its second part is wrong".to_owned());
    }
    if field(secret, "token-id") != token.id {
        return Err("its secret holds another id".to_owned());
    }
    match expiration(secret)? {
        Some(expires) if expires <= now => return Err(format!("it expired at {}", expires.to_rfc3339())),
        _ => {}
    }
    match field(secret, "usage-bootstrap-authentication").as_str() {
        "true" => Ok(()),
        _ => Err("it is not for authentication".to_owned()),
    }
}

/// Takes the same time wherever two texts begin to differ.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

/// No token makes anybody more than a bootstrapper.
fn is_bootstrap_group(group: &str) -> bool {
    let rest = group.strip_prefix(GROUP).and_then(|rest| rest.strip_prefix(':'));
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == ':' || c == '-';
    rest.is_some_and(|rest| rest.chars().all(is_plain) && rest.ends_with(|c: char| c.is_ascii_alphanumeric()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::{Key, Keyspace, Mem, Op, Store, Txn};

    fn snapshot(change: impl FnOnce(&mut Value)) -> Snapshot {
        let mut data = json!({"token-id": "abcdef", "token-secret": "0123456789abcdef",
            "usage-bootstrap-authentication": "true", "expiration": "2026-01-02T00:00:00Z",
            "auth-extra-groups": "system:bootstrappers:a,system:bootstrappers:b-1"});
        change(&mut data);
        let data: serde_json::Map<String, Value> = data
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, value)| (key.clone(), STANDARD.encode(value.as_str().unwrap_or("")).into()))
            .collect();
        let secret = json!({"metadata": {"name": "bootstrap-token-abcdef", "namespace": "kube-system"},
            "type": SECRET_TYPE, "data": data});
        let store = Mem::default();
        let put = Op::Put {
            key: Key::new("core/secrets", "kube-system/bootstrap-token-abcdef"),
            value: secret.to_string().into(),
            annex: bytes::Bytes::new(),
            stamp_at: None,
            keyspace: Keyspace::Durable,
        };
        store.submit(Txn { preconditions: Vec::new(), ops: vec![put] }, Box::new(|_| {}));
        store.snapshot()
    }

    fn now(text: &str) -> Time {
        Time::parse(text).expect("a time")
    }

    #[test]
    fn tokens_have_one_form() {
        for (text, expected) in [
            ("abcdef.0123456789abcdef", true),
            ("abcdeF.0123456789abcdef", false),
            ("abcde.0123456789abcdef", false),
            ("abcdef.0123456789abcde", false),
            ("abcdef.0123456789abcdef.x", false),
            ("", false),
        ] {
            assert_eq!(BootstrapToken::parse(text).is_some(), expected, "{text}");
        }
        let made = BootstrapToken::from_random(&[255; 22]);
        assert!(BootstrapToken::parse(&format!("{}.{}", made.id, made.secret)) == Some(made));
    }

    #[test]
    fn a_token_proves_a_bootstrapper() {
        let found = authenticate(&snapshot(|_| ()), "abcdef.0123456789abcdef", now("2026-01-01T00:00:00Z"));
        let user = found.expect("no error").expect("a user");
        assert_eq!(user.name, "system:bootstrap:abcdef");
        let groups = [GROUP, "system:bootstrappers:a", "system:bootstrappers:b-1", "system:authenticated"];
        assert_eq!(user.groups, groups);
        let other = authenticate(&snapshot(|_| ()), "eyJ.x.y", now("2026-01-01T00:00:00Z"));
        assert_eq!(other, Ok(None), "others may know it");
    }

    #[test]
    fn what_does_not_count_is_refused_with_the_reason() {
        let check = |token: &str, at: &str, change: fn(&mut Value), expected: &str| {
            let error = authenticate(&snapshot(change), token, now(at)).expect_err(expected);
            assert!(error.contains(expected), "{error}");
        };
        let (token, early) = ("abcdef.0123456789abcdef", "2026-01-01T00:00:00Z");
        check("aaaaaa.0123456789abcdef", early, |_| (), "there is no bootstrap token \"aaaaaa\"");
        check("abcdef.0123456789abcdee", early, |_| (), "its second part is wrong");
        check(token, "2026-01-02T00:00:00Z", |_| (), "it expired at 2026-01-02T00:00:00Z");
        check(token, early, |data| data.put(&["expiration"], "soon"), "unparseable expiration");
        check(token, early, |data| data.put(&["token-id"], "bcdefg"), "another id");
        check(token, early, |data| data.put(&["usage-bootstrap-authentication"], "yes"), "not for authentication");
        check(token, early, |data| data.put(&["auth-extra-groups"], "system:masters"), "does not begin with");
    }
}
