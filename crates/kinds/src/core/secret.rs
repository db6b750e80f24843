//! Secret: small confidential data. Values are base64 on the wire; `stringData` is a write-only convenience.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use meta::{FieldError, ObjectExt};
use serde_json::{Map, Value};

use super::config_map::{DATA_BYTES_MAX, check_key, check_sealed, decoded_len};
use crate::check::{At, Faults, immutable};
use crate::{Column, KindDef, UpdateOf, apply_order, column, fill};

const SERVICE_ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const EXAMPLE: &str = r#"{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login", "namespace": "default"},
    "type": "kubernetes.io/basic-auth", "stringData": {"username": "admin", "password": "t0p-Secret"}}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new("", "v1", "Secret", "secrets")
        .schema("io.k8s.api.core.v1.Secret")
        .columns(vec![
            column::name(),
            Column::new("Type", "string", "What the data is for.", |object, _| object.text(&["type"]).into()),
            Column::new("Data", "string", "Number of entries.", |object, _| {
                object.map(&["data"]).map_or(0, Map::len).into()
            }),
            column::age(),
        ])
        .selectable("type")
        .secret_fields(&["data", "stringData"])
        .apply_order(apply_order::CONFIG)
        .defaults(default)
        .validates(validate)
        .validates_update(validate_update)
        .example(EXAMPLE)
}

/// `stringData` becomes part of `data` and is never stored.
fn default(object: &mut Value) {
    fill::zero(object, "type", "Opaque");
    let Some(Value::Object(texts)) = object.remove(&["stringData"]) else { return };
    for (key, text) in texts {
        let encoded = STANDARD.encode(text.as_str().unwrap_or(""));
        object.put(&["data", &key], encoded);
    }
}

fn validate(object: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(object);
    let data = root.field("data");
    let mut bytes = 0;
    for (key, value) in data.entries() {
        check_key(&value, key, &mut faults);
        bytes += decoded_len(value.text());
    }
    if bytes > DATA_BYTES_MAX {
        faults.push(FieldError::too_long(data.path, DATA_BYTES_MAX));
    }
    check_type(&root, &mut faults);
    faults
}

fn check_type(root: &At, faults: &mut Faults) {
    let data = root.field("data");
    match root.field("type").text() {
        "kubernetes.io/service-account-token" => check_account_name(root, faults),
        "kubernetes.io/dockercfg" => check_docker_config(&data.entry(".dockercfg"), faults),
        "kubernetes.io/dockerconfigjson" => check_docker_config(&data.entry(".dockerconfigjson"), faults),
        "kubernetes.io/basic-auth" if !data.has("username") && !data.has("password") => {
            faults.extend(["username", "password"].map(|key| data.entry(key).required("")));
        }
        "kubernetes.io/ssh-auth" if data.entry("ssh-privatekey").text().is_empty() => {
            faults.push(data.entry("ssh-privatekey").required(""));
        }
        "kubernetes.io/tls" => {
            let missing = ["tls.crt", "tls.key"].into_iter().filter(|key| !data.has(key));
            faults.extend(missing.map(|key| data.entry(key).required("")));
        }
        _ => {}
    }
}

/// The uid and the token are added later by a controller; only the name is the client's.
fn check_account_name(root: &At, faults: &mut Faults) {
    let meta = root.field("metadata");
    let annotations = meta.field("annotations");
    let name = annotations.entry(SERVICE_ACCOUNT_NAME);
    if name.text().is_empty() {
        faults.push(name.required(""));
    }
}

fn check_docker_config(entry: &At, faults: &mut Faults) {
    if !entry.is_set() {
        faults.push(entry.required(""));
        return;
    }
    let decoded = STANDARD.decode(entry.text()).unwrap_or_default();
    if let Err(error) = serde_json::from_slice::<Map<String, Value>>(&decoded) {
        // The error's own text may quote what is secret.
        let detail = if error.is_eof() { "unexpected end of JSON input" } else { "must be a JSON object" };
        faults.push(entry.invalid_as("<secret contents redacted>", detail));
    }
}

fn validate_update(new: &Value, old: &Value, _: UpdateOf) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let (root, old_root) = (At::root(new), At::root(old));
    immutable(&root.field("type"), &old_root.field("type"), &mut faults);
    check_sealed(&root, &old_root, &["data"], &mut faults);
    faults.extend(validate(new));
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn string_data_is_merged() {
        let mut object = json!({"data": {"a": "YQ=="}, "stringData": {"a": "b", "c": "d"}});
        default(&mut object);
        assert_eq!(object, json!({"type": "Opaque", "data": {"a": "Yg==", "c": "ZA=="}}));
    }

    #[test]
    fn types_need_their_keys() {
        let check = |kind: &str, data: Value, expected: &[&str]| {
            let faults = validate(&json!({"type": format!("kubernetes.io/{kind}"), "data": data}));
            assert_eq!(faults.iter().map(ToString::to_string).collect::<Vec<_>>(), expected, "{kind}");
        };
        check("tls", json!({"tls.crt": "", "tls.key": ""}), &[]);
        check("tls", json!({}), &["data[tls.crt]: Required value", "data[tls.key]: Required value"]);
        check("basic-auth", json!({"password": ""}), &[]);
        check("basic-auth", json!({}), &["data[username]: Required value", "data[password]: Required value"]);
        check("ssh-auth", json!({"ssh-privatekey": ""}), &["data[ssh-privatekey]: Required value"]);
        check("dockerconfigjson", json!({".dockerconfigjson": "e30="}), &[]);
        check(
            "dockerconfigjson",
            json!({".dockerconfigjson": "e30"}),
            &["data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\": unexpected end of JSON input"],
        );
        check(
            "service-account-token",
            json!({}),
            &["metadata.annotations[kubernetes.io/service-account.name]: Required value"],
        );
    }

    #[test]
    fn type_stays() {
        let (old, new) = (json!({"type": "Opaque"}), json!({"type": "a/b"}));
        let faults = validate_update(&new, &old, UpdateOf::Main);
        assert_eq!(faults[0].to_string(), "type: Invalid value: \"a/b\": field is immutable");
    }
}
