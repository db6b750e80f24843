//! ServiceAccount: every pod acts as one, and finds its token where clients look for it.

use std::sync::Arc;

use meta::{ApiError, ObjectExt};
use serde_json::{Value, json};

use crate::admission::{Case, Effects, Operation, Tree};
use crate::pod_refs::{self, MIRROR_ANNOTATION};

const DEFAULT: &str = "default";
const VOLUME_PREFIX: &str = "kube-api-access-";
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const ENFORCE_ANNOTATION: &str = "kubernetes.io/enforce-mountable-secrets";
/// An hour and seven seconds: the odd number marks tokens that were mounted without being asked for.
const TOKEN_SECONDS: i64 = 60 * 60 + 7;

/// The mutating half.
pub fn mutate(case: &Case<'_>, new: &mut Value, _effects: &mut Effects) -> Result<(), ApiError> {
    let creates = case.request.operation == Operation::Create && case.is_for_pods();
    if !creates || new.annotation(MIRROR_ANNOTATION).is_some() {
        return Ok(());
    }
    if new.text(&["spec", "serviceAccountName"]).is_empty() {
        new.put(&["spec", "serviceAccountName"], DEFAULT);
        new.put(&["spec", "serviceAccount"], DEFAULT);
    }
    let account = account_of(case, new)?;
    if mounts_token(&account, new) {
        mount_token(new, &(case.world.suffix)());
    }
    let secrets = account.items(&["imagePullSecrets"]);
    if new.items(&["spec", "imagePullSecrets"]).is_empty() && !secrets.is_empty() {
        let names: Vec<Value> = secrets.iter().map(|secret| json!({"name": secret.text(&["name"])})).collect();
        new.put(&["spec", "imagePullSecrets"], names);
    }
    Ok(())
}

/// The validating half.
pub fn validate(case: &Case<'_>, new: Option<&Value>, _effects: &mut Effects) -> Result<(), ApiError> {
    let Some(new) = new else { return Ok(()) };
    let creates = case.request.operation == Operation::Create && case.is_for_pods();
    let debugs = case.request.operation == Operation::Update && case.is_for("", "pods", "ephemeralcontainers");
    if !creates && !debugs {
        return Ok(());
    }
    if creates && new.annotation(MIRROR_ANNOTATION).is_some() {
        return check_mirror(case, new);
    }
    if new.text(&["spec", "serviceAccountName"]).is_empty() {
        let (namespace, name) = (case.namespace(), new.name());
        return Err(case.forbids(Some(new), format!("no service account specified for pod {namespace}/{name}")));
    }
    let account = account_of(case, new)?;
    let enforces = account.annotation(ENFORCE_ANNOTATION).is_some_and(is_true);
    match enforces.then(|| check_secrets(&account, new, creates)) {
        Some(Err(why)) => Err(case.forbids(Some(new), why)),
        _ => Ok(()),
    }
}

/// What Go's `strconv.ParseBool` takes for true.
fn is_true(text: &str) -> bool {
    matches!(text, "1" | "t" | "T" | "TRUE" | "true" | "True")
}

fn account_of(case: &Case<'_>, pod: &Value) -> Result<Arc<Tree>, ApiError> {
    let (namespace, name) = (case.namespace(), pod.text(&["spec", "serviceAccountName"]));
    let account = case.world.shared("core/serviceaccounts", &format!("{namespace}/{name}"));
    account.ok_or_else(|| {
        let why = format!("error looking up service account {namespace}/{name}: serviceaccount {name:?} not found");
        case.forbids(Some(pod), why)
    })
}

/// The pod's word counts first, then the account's.
fn mounts_token(account: &Value, pod: &Value) -> bool {
    let own = pod.at(&["spec", "automountServiceAccountToken"]).and_then(Value::as_bool);
    own.or(account.at(&["automountServiceAccountToken"]).and_then(Value::as_bool)).unwrap_or(true)
}

fn mount_token(pod: &mut Value, suffix: &str) {
    let known = pod_refs::volumes(pod).iter().map(|v| v.text(&["name"])).find(|name| name.starts_with(VOLUME_PREFIX));
    let (name, exists) = match known {
        Some(name) => (name.to_owned(), true),
        None => (format!("{VOLUME_PREFIX}{suffix}"), false),
    };
    let mut mounted = false;
    for list in ["initContainers", "containers"] {
        let Some(Value::Array(containers)) = pod.get_mut("spec").and_then(|spec| spec.get_mut(list)) else { continue };
        for container in containers {
            mounted |= mount_in(container, &name);
        }
    }
    if mounted && !exists {
        let mut volumes = pod_refs::volumes(pod).to_vec();
        volumes.push(json!({"name": name, "projected": token_source()}));
        pod.put(&["spec", "volumes"], volumes);
    }
}

/// Whether the mount was added: something else at its place stands against it.
fn mount_in(container: &mut Value, volume: &str) -> bool {
    let mounts = container.items(&["volumeMounts"]);
    if mounts.iter().any(|mount| mount.text(&["mountPath"]) == MOUNT_PATH) {
        return false;
    }
    let mut mounts = mounts.to_vec();
    mounts.push(json!({"name": volume, "readOnly": true, "mountPath": MOUNT_PATH}));
    container.put(&["volumeMounts"], mounts);
    true
}

fn token_source() -> Value {
    let namespace = json!({"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}});
    json!({
        "defaultMode": 0o644,
        "sources": [
            {"serviceAccountToken": {"path": "token", "expirationSeconds": TOKEN_SECONDS}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [namespace]}},
        ],
    })
}

fn check_mirror(case: &Case<'_>, pod: &Value) -> Result<(), ApiError> {
    let refuse = |why: &str| Err(case.forbids(Some(pod), why));
    if !pod.text(&["spec", "serviceAccountName"]).is_empty() {
        return refuse("a mirror pod may not reference service accounts");
    }
    if !pod_refs::secret_names(pod).is_empty() {
        return refuse("a mirror pod may not reference secrets");
    }
    let tokens = pod_refs::volumes(pod).iter().flat_map(|volume| volume.items(&["projected", "sources"]));
    if tokens.into_iter().any(|source| source.get("serviceAccountToken").is_some()) {
        return refuse("a mirror pod may not use ServiceAccountToken volume projections");
    }
    Ok(())
}

/// For accounts that list the secrets their pods may use. Existing containers of a pod were checked when it was made.
fn check_secrets(account: &Value, pod: &Value, whole: bool) -> Result<(), String> {
    let name = account.name();
    let names = |list: &str| account.items(&[list]).iter().map(|s| s.text(&["name"]).to_owned()).collect::<Vec<_>>();
    let (mountable, pullable) = (names("secrets"), names("imagePullSecrets"));
    let refused =
        |what: String| format!("{what} is not allowed because service account {name} does not reference that");
    let unknown = |secret: &str| !secret.is_empty() && !mountable.iter().any(|known| known == secret);
    for volume in pod_refs::volumes(pod).iter().filter(|_| whole) {
        let secret = volume.text(&["secret", "secretName"]);
        if unknown(secret) {
            return Err(refused(format!("volume with secret.secretName=\"{secret}\"")) + " secret");
        }
    }
    let Some(spec) = pod.get("spec") else { return Ok(()) };
    for (list, _, container) in
        pod_refs::containers(spec).filter(|(list, _, _)| whole || *list == "ephemeralContainers")
    {
        let word = match list {
            "initContainers" => "init container",
            "ephemeralContainers" => "ephemeral container",
            _ => "container",
        };
        let start = format!("{word} {}", container.text(&["name"]));
        for env in container.items(&["env"]) {
            let (variable, secret) = (env.text(&["name"]), env.text(&["valueFrom", "secretKeyRef", "name"]));
            if unknown(secret) {
                let what = format!("{start} with envVar {variable} referencing secret.secretName=\"{secret}\"");
                return Err(refused(what) + " secret");
            }
        }
        let sources = container.items(&["envFrom"]).iter().map(|from| from.text(&["secretRef", "name"]));
        if let Some(secret) = sources.into_iter().find(|secret| unknown(secret)) {
            return Err(refused(format!("{start} with envFrom referencing secret.secretName=\"{secret}\"")) + " secret");
        }
    }
    let pulls = pod.items(&["spec", "imagePullSecrets"]).iter().enumerate().filter(|_| whole);
    for (index, secret) in pulls.map(|(index, pull)| (index, pull.text(&["name"]))) {
        if !pullable.iter().any(|known| known == secret) {
            return Err(refused(format!("imagePullSecrets[{index}].name=\"{secret}\"")) + " imagePullSecret");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Scene, create};
    use super::*;

    fn account(extra: Value) -> Value {
        let mut account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
                                 "metadata": {"name": "default", "namespace": "d"}});
        for (key, value) in extra.as_object().expect("an object") {
            account[key] = value.clone();
        }
        account
    }

    fn admitted(account: Value, mut pod: Value) -> Result<Value, String> {
        let (scene, asked) = (Scene::new(&[account]), create("", "pods", "d", "p"));
        let case = scene.case(&asked, None);
        mutate(&case, &mut pod, &mut Effects::default()).map_err(|e| e.message)?;
        validate(&case, Some(&pod), &mut Effects::default()).map_err(|e| e.message)?;
        Ok(pod)
    }

    #[test]
    fn a_pod_gets_account_token_and_pull_secrets() {
        let pod = json!({"spec": {"containers": [{"name": "c"}, {"name": "own", "volumeMounts": [
            {"name": "x", "mountPath": MOUNT_PATH},
        ]}]}});
        let pod = admitted(account(json!({"imagePullSecrets": [{"name": "pull"}]})), pod).expect("admitted");
        assert_eq!(pod["spec"]["serviceAccountName"], "default");
        assert_eq!(pod["spec"]["imagePullSecrets"], json!([{"name": "pull"}]));
        assert_eq!(pod["spec"]["volumes"][0]["name"], "kube-api-access-abcde");
        let mount = json!({"name": "kube-api-access-abcde", "readOnly": true, "mountPath": MOUNT_PATH});
        assert_eq!(pod["spec"]["containers"][0]["volumeMounts"], json!([mount]));
        assert_eq!(pod["spec"]["containers"][1]["volumeMounts"].as_array().map(Vec::len), Some(1));
        let again = admitted(account(json!({})), pod.clone()).expect("admitted");
        assert_eq!(again, pod, "admitting twice changes nothing");
    }

    #[test]
    fn tokens_are_not_mounted_against_the_word_of_pod_or_account() {
        let has_volume = |account_says: Value, pod_says: Value| {
            let pod = json!({"spec": {"containers": [{"name": "c"}], "automountServiceAccountToken": pod_says}});
            admitted(account(json!({"automountServiceAccountToken": account_says})), pod)
                .expect("admitted")
                .at(&["spec", "volumes"])
                .is_some()
        };
        assert!(has_volume(Value::Null, Value::Null));
        assert!(!has_volume(json!(false), Value::Null));
        assert!(has_volume(json!(false), json!(true)));
        assert!(!has_volume(json!(true), json!(false)));
    }

    #[test]
    fn refusals_read_like_upstream() {
        let named = json!({"metadata": {"name": "p"}, "spec": {"serviceAccountName": "ghost"}});
        assert_eq!(
            admitted(account(json!({})), named).unwrap_err(),
            "pods \"p\" is forbidden: error looking up service account d/ghost: serviceaccount \"ghost\" not found"
        );
        let mirror = json!({"metadata": {"annotations": {MIRROR_ANNOTATION: "x"}},
                            "spec": {"containers": [{"envFrom": [{"secretRef": {"name": "s"}}]}]}});
        assert_eq!(
            admitted(account(json!({})), mirror).unwrap_err(),
            "pods \"p\" is forbidden: a mirror pod may not reference secrets"
        );
    }

    #[test]
    fn listed_secrets_bind_every_kind_of_container() {
        let metadata = json!({"name": "default", "namespace": "d", "annotations": {ENFORCE_ANNOTATION: "true"}});
        for (list, word) in [
            ("containers", "container"),
            ("initContainers", "init container"),
            ("ephemeralContainers", "ephemeral container"),
        ] {
            let pod = json!({"spec": {list: [{"name": "c", "envFrom": [{"secretRef": {"name": "s"}}]}]}});
            let why = admitted(account(json!({"metadata": metadata})), pod).unwrap_err();
            let expected = format!(
                "pods \"p\" is forbidden: {word} c with envFrom referencing secret.secretName=\"s\" is not allowed \
                 because service account default does not reference that secret"
            );
            assert_eq!(why, expected);
        }
    }
}
