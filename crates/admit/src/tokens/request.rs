//! TokenRequest: from what is asked to the claims that are granted.

use meta::{ApiError, FieldError, GroupKind, GroupResource, ObjectExt};
use serde_json::{Value, json};
use stdx::Time;
use store::Snapshot;

use super::{Bound, EXTENDED_SECONDS, TokenConfig, WARN_ONLY_SECONDS, claims};

const GROUP: &str = "authentication.k8s.io";
const SECONDS_DEFAULT: i64 = 60 * 60;
const SECONDS_MIN: i64 = 10 * 60;
const SECONDS_MAX: i64 = 1 << 32;

/// What a TokenRequest comes to: sign the claims, put the token under `status.token` of the answer.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenGrant {
    /// For [`super::sign`].
    pub claims: Value,
    /// The TokenRequest with its status, the token still missing.
    pub answer: Value,
    /// Warnings for the asker.
    pub warnings: Vec<String>,
}

/// Grants or refuses the request for a token of the service account `namespace/name`. `id` becomes the token's
/// identity.
pub fn token_request(
    config: &TokenConfig,
    snapshot: &Snapshot,
    (namespace, name): (&str, &str),
    request: &Value,
    now: Time,
    id: &str,
) -> Result<TokenGrant, ApiError> {
    check_address(request, namespace, name)?;
    let account = read(snapshot, "core", "serviceaccounts", namespace, name)?;
    check_uid(request, &account, name)?;
    let mut answer = request.clone();
    complete(&mut answer, config, &account, now);
    let seconds = granted_seconds(config, &answer)?;
    let bound = BoundObjects::read(snapshot, namespace, name, &answer)?;
    let mut warnings = Vec::new();
    let asked = answer.int(&["spec", "expirationSeconds"]).unwrap_or(SECONDS_DEFAULT);
    if seconds != asked {
        warnings.push(format!("requested expiration of {asked} seconds shortened to {seconds} seconds"));
        answer.put(&["spec", "expirationSeconds"], seconds);
    }
    let audiences: Vec<String> = texts(answer.items(&["spec", "audiences"]));
    let extended = bound.pod.is_some() && seconds == WARN_ONLY_SECONDS && config.all_own(&audiences);
    let span = if extended { (now, EXTENDED_SECONDS, Some(seconds)) } else { (now, seconds, None) };
    let expires = Time::from_secs(now.as_secs().saturating_add(seconds)).to_rfc3339();
    answer.put(&["status"], json!({"expirationTimestamp": expires}));
    Ok(TokenGrant { claims: claims(config, &account, bound.borrowed(), &audiences, span, id), answer, warnings })
}

impl TokenConfig {
    fn all_own(&self, audiences: &[String]) -> bool {
        audiences.iter().all(|audience| self.audiences.contains(audience))
    }
}

fn check_address(request: &Value, namespace: &str, name: &str) -> Result<(), ApiError> {
    let refuse = |field: &str, given: &str| {
        let detail = format!("must match the service account {field} if specified");
        let error = FieldError::invalid(format!("metadata.{field}"), given, detail);
        Err(ApiError::invalid(&kind(), name, &[error]))
    };
    if !request.name().is_empty() && request.name() != name {
        return refuse("name", request.name());
    }
    if !request.namespace().is_empty() && request.namespace() != namespace {
        return refuse("namespace", request.namespace());
    }
    Ok(())
}

fn check_uid(request: &Value, account: &Value, name: &str) -> Result<(), ApiError> {
    if request.uid().is_empty() || request.uid() == account.uid() {
        return Ok(());
    }
    let why = format!(
        "the UID in the token request ({}) does not match the UID of the service account ({})",
        request.uid(),
        account.uid()
    );
    Err(ApiError::conflict(&GroupResource::new(GROUP, "TokenRequest"), name, why))
}

fn complete(answer: &mut Value, config: &TokenConfig, account: &Value, now: Time) {
    answer.put(&["apiVersion"], format!("{GROUP}/v1"));
    answer.put(&["kind"], "TokenRequest");
    for (field, text) in [("name", account.name()), ("namespace", account.namespace()), ("uid", account.uid())] {
        answer.put(&["metadata", field], text);
    }
    answer.put(&["metadata", "creationTimestamp"], now.to_rfc3339());
    if answer.items(&["spec", "audiences"]).is_empty() {
        answer.put(&["spec", "audiences"], json!(config.audiences));
    }
    if answer.int(&["spec", "expirationSeconds"]).is_none() {
        answer.put(&["spec", "expirationSeconds"], SECONDS_DEFAULT);
    }
}

fn granted_seconds(config: &TokenConfig, request: &Value) -> Result<i64, ApiError> {
    let seconds = request.int(&["spec", "expirationSeconds"]).unwrap_or(SECONDS_DEFAULT);
    let invalid = |detail: &str| {
        let error = FieldError::invalid("spec.expirationSeconds", seconds, detail);
        Err(ApiError::invalid(&kind(), "", &[error]))
    };
    if seconds < SECONDS_MIN {
        return invalid("may not specify a duration less than 10 minutes");
    }
    if seconds > SECONDS_MAX {
        return invalid("may not specify a duration larger than 2^32 seconds");
    }
    Ok(config.seconds_max.map_or(seconds, |max| seconds.min(max)))
}

#[derive(Default)]
struct BoundObjects {
    pod: Option<Value>,
    node: Option<Value>,
    secret: Option<Value>,
}

impl BoundObjects {
    fn read(snapshot: &Snapshot, namespace: &str, account: &str, request: &Value) -> Result<Self, ApiError> {
        let mut bound = Self::default();
        let Some(reference) = request.at(&["spec", "boundObjectRef"]).filter(|reference| !reference.is_null()) else {
            return Ok(bound);
        };
        let (kind, name) = (reference.text(&["kind"]), reference.text(&["name"]));
        let object = match (reference.text(&["apiVersion"]), kind) {
            ("v1", "Pod") => bound.pod.insert(read(snapshot, "core", "pods", namespace, name)?),
            ("v1", "Node") => bound.node.insert(read(snapshot, "core", "nodes", "", name)?),
            ("v1", "Secret") => bound.secret.insert(read(snapshot, "core", "secrets", namespace, name)?),
            (version, _) => return Err(unbindable(version, kind)),
        };
        check_bound_uid(reference, object)?;
        if let Some(pod) = &bound.pod {
            bound.node = node_of(snapshot, pod, account)?;
        }
        Ok(bound)
    }

    fn borrowed(&self) -> Bound<'_> {
        Bound { pod: self.pod.as_ref(), node: self.node.as_ref(), secret: self.secret.as_ref() }
    }
}

/// The node that the pod runs on; when it is not registered, its name alone still helps whoever reads the token.
fn node_of(snapshot: &Snapshot, pod: &Value, account: &str) -> Result<Option<Value>, ApiError> {
    if pod.text(&["spec", "serviceAccountName"]) != account {
        let why = format!(
            "cannot bind token for serviceaccount {account:?} to pod running with different serviceaccount name."
        );
        return Err(ApiError::bad_request(why));
    }
    Ok(match pod.text(&["spec", "nodeName"]) {
        "" => None,
        node => Some(read(snapshot, "core", "nodes", "", node).unwrap_or_else(|_| json!({"metadata": {"name": node}}))),
    })
}

fn unbindable(api_version: &str, kind: &str) -> ApiError {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let prefix = if group.is_empty() { String::new() } else { format!("{group}/") };
    ApiError::bad_request(format!("cannot bind token to object of type {prefix}{version}, Kind={kind}"))
}

fn check_bound_uid(reference: &Value, object: &Value) -> Result<(), ApiError> {
    let uid = reference.text(&["uid"]);
    if uid.is_empty() || uid == object.uid() {
        return Ok(());
    }
    let why = format!(
        "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been \
         deleted and then recreated"
    );
    Err(ApiError::conflict(&GroupResource::new("", reference.text(&["kind"])), reference.text(&["name"]), why))
}

fn read(snapshot: &Snapshot, group: &str, plural: &str, namespace: &str, name: &str) -> Result<Value, ApiError> {
    let item = if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") };
    let entry = snapshot.get(&format!("{group}/{plural}"), &item);
    let object = entry.and_then(|entry| serde_json::from_slice(&entry.value).ok());
    object.ok_or_else(|| ApiError::not_found(&GroupResource::new("", plural), name))
}

fn kind() -> GroupKind {
    GroupKind { group: GROUP.to_owned(), kind: "TokenRequest".to_owned() }
}

fn texts(list: &[Value]) -> Vec<String> {
    list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}
