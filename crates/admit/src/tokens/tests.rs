use serde_json::{Value, json};
use store::{Mem, Snapshot, Store};

use super::*;
use crate::testing::put;

/// Signs by naming: enough to see which algorithm and key a token is checked with.
struct Named;

impl TokenSigner for Named {
    fn algorithm(&self) -> &str {
        "ES256"
    }
    fn key_id(&self) -> &str {
        "k1"
    }
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, String> {
        Ok([b"signed:", message].concat())
    }
}

impl SignatureVerifier for Named {
    fn verify(&self, algorithm: &str, key_id: &str, message: &[u8], signature: &[u8]) -> Result<(), SignatureError> {
        if key_id != "k1" {
            return Err(SignatureError::UnknownKey);
        }
        let right = algorithm == "ES256" && signature == [b"signed:", message].concat();
        if right { Ok(()) } else { Err(SignatureError::Wrong) }
    }
}

const NOW: Time = Time::from_secs(1_800_000_000);

fn config() -> TokenConfig {
    let issuer = "https://kubernetes.default.svc".to_owned();
    TokenConfig { audiences: vec![issuer.clone()], issuer, ..TokenConfig::default() }
}

fn world() -> Snapshot {
    world_with(|_| {})
}

fn world_with(change: impl Fn(&mut Vec<Value>)) -> Snapshot {
    let mut objects = vec![
        json!({"apiVersion": "v1", "kind": "ServiceAccount",
               "metadata": {"name": "bot", "namespace": "d", "uid": "sa-1"}}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "d", "uid": "pod-1"},
               "spec": {"serviceAccountName": "bot", "nodeName": "n"}}),
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "uid": "node-1"}}),
    ];
    change(&mut objects);
    let store = Mem::new();
    put(&store, &objects);
    store.snapshot()
}

fn request(spec: Value) -> Result<TokenGrant, meta::ApiError> {
    token_request(&config(), &world(), ("d", "bot"), &json!({"spec": spec}), NOW, "id-1")
}

fn pod_token() -> String {
    let grant = request(json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "pod-1"}}));
    sign(&grant.expect("granted").claims, &Named).expect("signed")
}

fn check(token: &str, snapshot: &Snapshot, now: Time) -> Result<Option<Authenticated>, String> {
    authenticate(&config(), &Named, snapshot, token, None, now)
}

/// A token with another header or other claims, signed all the same.
fn forged(change: impl Fn(&mut Value, &mut Value)) -> String {
    let token = pod_token();
    let parts: Vec<Value> = token
        .split('.')
        .take(2)
        .map(|p| serde_json::from_slice(&URL_SAFE_NO_PAD.decode(p).expect("b64")).expect("json"))
        .collect();
    let (mut header, mut claims) = (parts[0].clone(), parts[1].clone());
    change(&mut header, &mut claims);
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let message = format!("{}.{}", part(&header), part(&claims));
    format!("{message}.{}", URL_SAFE_NO_PAD.encode([b"signed:", message.as_bytes()].concat()))
}

#[test]
fn a_pods_token_proves_account_pod_and_node() {
    let found = check(&pod_token(), &world(), NOW).expect("valid").expect("ours");
    assert_eq!(found.user.name, "system:serviceaccount:d:bot");
    assert_eq!(found.user.uid, "sa-1");
    assert_eq!(found.user.groups, ["system:serviceaccounts", "system:serviceaccounts:d", "system:authenticated"]);
    let extra = |key: &str| found.user.extra[&format!("authentication.kubernetes.io/{key}")][0].clone();
    assert_eq!(
        [extra("pod-name"), extra("pod-uid"), extra("node-name"), extra("node-uid")],
        ["p", "pod-1", "n", "node-1"]
    );
    assert_eq!(extra("credential-id"), "JTI=id-1");
    assert_eq!(found.audiences, config().audiences);
}

#[test]
fn attacks_are_refused() {
    let refused = |token: &str, why: &str| {
        assert_eq!(check(token, &world(), NOW).unwrap_err(), why);
    };
    refused(&forged(|header, _| header["alg"] = json!("none")), "invalid signature");
    refused(&forged(|header, _| header["alg"] = json!("HS256")), "invalid signature");
    refused(&forged(|header, _| header["alg"] = json!("RS256")), "invalid signature");
    refused(&forged(|header, _| header["kid"] = json!("../../etc/passwd")), "invalid signature, no keys found");
    refused(&forged(|header, _| header["crit"] = json!(["b64"])), "invalid signature, unsupported critical header");
    refused(
        &forged(|_, claims| claims["aud"] = json!(["vault"])),
        "token audiences [\"vault\"] is invalid for the target audiences [\"https://kubernetes.default.svc\"]",
    );
    refused(
        &forged(|_, claims| claims["aud"] = json!([])),
        "token audiences [] is invalid for the target audiences [\"https://kubernetes.default.svc\"]",
    );
    refused(&forged(|_, c| c["exp"] = json!(NOW.as_secs() - 61)), "service account token has expired");
    refused(&forged(|_, c| c["exp"] = Value::Null), "service account token has expired");
    refused(&forged(|_, c| c["nbf"] = json!(NOW.as_secs() + 61)), "service account token is not valid yet");
    refused(&forged(|_, c| c["iat"] = json!(NOW.as_secs() + 61)), "service account token is issued in the future");
    refused(
        &forged(|_, c| c["kubernetes.io"]["serviceaccount"]["uid"] = json!("sa-0")),
        "service account UID (sa-1) does not match claim (sa-0)",
    );
    let cut = pod_token().rsplit_once('.').map(|(message, _)| format!("{message}.")).expect("has a signature");
    refused(&cut, "invalid signature");
}

#[test]
fn unknown_issuers_and_other_things_are_not_ours() {
    let foreign = forged(|_, claims| claims["iss"] = json!("https://elsewhere"));
    let long = "a".repeat(TOKEN_BYTES_MAX + 1);
    for token in ["", "abc", "a.b.c", "{}", "..", &foreign, &long] {
        assert_eq!(check(token, &world(), NOW), Ok(None), "{token:.20}");
    }
}

#[test]
fn what_is_gone_takes_the_token_along() {
    let gone = |change: &dyn Fn(&mut Vec<Value>)| check(&pod_token(), &world_with(change), NOW).map(|f| f.is_some());
    let invalidated = Err("service account token has been invalidated".to_owned());
    assert_eq!(gone(&|_| {}), Ok(true));
    assert_eq!(gone(&|o| drop(o.remove(0))), Err("serviceaccounts \"bot\" not found".to_owned()));
    assert_eq!(gone(&|o| drop(o.remove(1))), invalidated);
    let again = Err("pod UID (pod-2) does not match service account pod ref claim (pod-1)".to_owned());
    assert_eq!(gone(&|o| o[1]["metadata"]["uid"] = json!("pod-2")), again);
    let deleted = |seconds: i64| json!(Time::from_secs(NOW.as_secs() - seconds).to_rfc3339());
    assert_eq!(gone(&|o| o[1]["metadata"]["deletionTimestamp"] = deleted(61)), invalidated);
    assert_eq!(gone(&|o| o[1]["metadata"]["deletionTimestamp"] = deleted(30)), Ok(true));
    let account = Err("service account d/bot has been deleted".to_owned());
    assert_eq!(gone(&|o| o[0]["metadata"]["deletionTimestamp"] = deleted(61)), account);
}

#[test]
fn reviews_get_the_common_audiences() {
    let grant = request(json!({"audiences": ["a", "b"]})).expect("granted");
    let token = sign(&grant.claims, &Named).expect("signed");
    let wanted = ["b".to_owned(), "c".to_owned()];
    let found = authenticate(&config(), &Named, &world(), &token, Some(&wanted), NOW).expect("valid").expect("ours");
    assert_eq!(found.audiences, ["b"]);
    assert!(check(&token, &world(), NOW).is_err(), "not meant for this server");
}

#[test]
fn requests_are_checked_like_upstream() {
    let refused = |spec: Value| request(spec).map(|_| ()).unwrap_err().message;
    let short = "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 599: may \
                 not specify a duration less than 10 minutes";
    assert_eq!(refused(json!({"expirationSeconds": 599})), short);
    let bound = |kind: &str, name: &str, uid: &str| json!({"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": name, "uid": uid}});
    assert_eq!(refused(bound("Pod", "q", "")), "pods \"q\" not found");
    assert!(refused(bound("Pod", "p", "pod-0")).contains("does not match the UID in record"));
    assert_eq!(refused(bound("ConfigMap", "c", "")), "cannot bind token to object of type v1, Kind=ConfigMap");
    let grant = request(json!({"expirationSeconds": 600})).expect("granted");
    assert_eq!(grant.answer["status"]["expirationTimestamp"], "2027-01-15T08:10:00Z");
    assert_eq!(grant.answer["spec"]["audiences"], json!(config().audiences));
}

#[test]
fn long_lived_mounted_tokens_warn_when_used_late() {
    let spec = json!({"expirationSeconds": 3607, "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "p"}});
    let token = sign(&request(spec).expect("granted").claims, &Named).expect("signed");
    let late = Time::from_secs(NOW.as_secs() + 4000);
    let found = check(&token, &world(), late).expect("still valid").expect("ours");
    let stale = "subject: system:serviceaccount:d:bot, seconds after warning threshold: 393";
    assert_eq!(found.stale.as_deref(), Some(stale));
}
