//! The files of volumes that are made of objects: config maps, secrets, projections, the downward API.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use meta::ObjectExt;
use serde_json::Value;

use crate::downward;
use crate::material::Material;

/// Mode of a file when nobody says another.
const MODE: u32 = 0o644;
/// How long a token holds when nobody says otherwise (upstream's default).
const TOKEN_SECONDS: i64 = 3_600;

/// Files by path within the volume.
pub type Payload = BTreeMap<String, File>;

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its content.
    pub bytes: Vec<u8>,
    /// Its permission bits.
    pub mode: u32,
}

/// A token that a volume needs: audience (empty for the API's own) and seconds.
pub type TokenAsk = (String, i64);

/// The files of `volume`; `None` when it is not made of objects.
pub fn of_volume(pod: &Value, volume: &Value, material: &Material) -> Option<Result<Payload, String>> {
    let part = |name: &str| volume.get(name).filter(|part| part.is_object());
    if let Some(source) = part("configMap") {
        let found = material.config_map(source.text(&["name"]));
        return Some(of_object(source, found, "configmap", mode(source, MODE)));
    }
    if let Some(source) = part("secret") {
        let found = material.secret(source.text(&["secretName"]));
        return Some(of_object(source, found, "secret", mode(source, MODE)));
    }
    if let Some(source) = part("downwardAPI") {
        return Some(of_downward(pod, source, material, mode(source, MODE)));
    }
    part("projected").map(|source| of_projection(pod, source, material))
}

/// Whether `volume` is made of objects.
pub fn is_payload(volume: &Value) -> bool {
    let kinds = ["configMap", "secret", "projected", "downwardAPI"];
    kinds.iter().any(|kind| volume.get(*kind).is_some_and(Value::is_object))
}

/// The tokens that the pod's volumes need.
pub fn tokens_needed(pod: &Value) -> Vec<TokenAsk> {
    let volumes = pod.items(&["spec", "volumes"]).iter();
    let sources = volumes.flat_map(|volume| volume.items(&["projected", "sources"]));
    let mut asks: Vec<TokenAsk> = sources.filter_map(|source| token_ask(source.get("serviceAccountToken")?)).collect();
    asks.sort();
    asks.dedup();
    asks
}

fn token_ask(source: &Value) -> Option<TokenAsk> {
    let seconds = source.int(&["expirationSeconds"]).unwrap_or(TOKEN_SECONDS);
    source.is_object().then(|| (source.text(&["audience"]).to_owned(), seconds))
}

fn mode(source: &Value, usual: u32) -> u32 {
    source.int(&["defaultMode"]).and_then(|mode| u32::try_from(mode).ok()).unwrap_or(usual)
}

fn own_mode(item: &Value, usual: u32) -> u32 {
    item.int(&["mode"]).and_then(|mode| u32::try_from(mode).ok()).unwrap_or(usual)
}

fn of_object(source: &Value, found: Result<&Value, String>, kind: &str, mode: u32) -> Result<Payload, String> {
    let is_optional = source.flag(&["optional"]);
    let object = match found {
        Ok(object) => object,
        Err(_) if is_optional => return Ok(Payload::new()),
        Err(why) => return Err(why),
    };
    let keys = contents(object, kind)?;
    let items = source.items(&["items"]);
    if items.is_empty() {
        return Ok(keys.into_iter().map(|(key, bytes)| (key, File { bytes, mode })).collect());
    }
    let mut payload = Payload::new();
    for item in items {
        let key = item.text(&["key"]);
        match keys.get(key) {
            Some(bytes) => {
                let file = File { bytes: bytes.clone(), mode: own_mode(item, mode) };
                payload.insert(item.text(&["path"]).to_owned(), file);
            }
            None if is_optional => {}
            None if kind == "secret" => return Err(format!("references non-existent secret key: {key}")),
            None => return Err(format!("configmap references non-existent config key: {key}")),
        }
    }
    Ok(payload)
}

fn contents(object: &Value, kind: &str) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let mut keys = BTreeMap::new();
    let coded = if kind == "secret" { "data" } else { "binaryData" };
    for (key, value) in object.map(&[coded]).into_iter().flatten() {
        let bytes = STANDARD.decode(value.as_str().unwrap_or("")).map_err(|error| error.to_string())?;
        keys.insert(key.clone(), bytes);
    }
    if kind != "secret" {
        for (key, value) in object.map(&["data"]).into_iter().flatten() {
            keys.insert(key.clone(), value.as_str().unwrap_or("").as_bytes().to_vec());
        }
    }
    Ok(keys)
}

fn of_downward(pod: &Value, source: &Value, material: &Material, mode: u32) -> Result<Payload, String> {
    let mut payload = Payload::new();
    for item in source.items(&["items"]) {
        let text = match (item.get("fieldRef"), item.get("resourceFieldRef")) {
            (Some(reference), _) if reference.is_object() => {
                downward::field(pod, reference.text(&["fieldPath"])).unwrap_or_default()
            }
            (_, Some(reference)) if reference.is_object() => {
                downward::resource(pod, reference.text(&["containerName"]), reference, &material.allocatable)?
            }
            _ => continue,
        };
        let file = File { bytes: text.into_bytes(), mode: own_mode(item, mode) };
        payload.insert(item.text(&["path"]).to_owned(), file);
    }
    Ok(payload)
}

fn of_projection(pod: &Value, volume: &Value, material: &Material) -> Result<Payload, String> {
    let mode = mode(volume, MODE);
    let mut payload = Payload::new();
    for source in volume.items(&["sources"]) {
        let part = |name: &str| source.get(name).filter(|part| part.is_object());
        if let Some(part) = part("configMap") {
            let found = material.config_map(part.text(&["name"]));
            payload.extend(of_object(part, found, "configmap", mode)?);
        } else if let Some(part) = part("secret") {
            payload.extend(of_object(part, material.secret(part.text(&["name"])), "secret", mode)?);
        } else if let Some(part) = part("downwardAPI") {
            payload.extend(of_downward(pod, part, material, mode)?);
        } else if let Some(part) = part("serviceAccountToken") {
            payload.extend(token(pod, part, material, mode)?);
        }
    }
    Ok(payload)
}

fn token(pod: &Value, source: &Value, material: &Material, mode: u32) -> Result<Payload, String> {
    let found = token_ask(source).and_then(|ask| material.tokens.get(&ask));
    let text = found.ok_or_else(|| {
        format!("failed to fetch token for service account {}", pod.text(&["spec", "serviceAccountName"]))
    })?;
    // A token is nobody's business but the owner's, unless the pod shares a group or runs as somebody else.
    let is_shared = pod.at(&["spec", "securityContext", "fsGroup"]).is_some();
    let mode = if is_shared { 0o600 } else { mode };
    let file = File { bytes: text.clone().into_bytes(), mode };
    Ok(Payload::from([(source.text(&["path"]).to_owned(), file)]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn material() -> Material {
        let mut material = Material::default();
        material.config_maps.insert("cm".into(), json!({"data": {"a": "1", "b": "2"}, "binaryData": {"c": "AAE="}}));
        material.secrets.insert("s".into(), json!({"data": {"password": "c2VjcmV0"}}));
        material.tokens.insert((String::new(), 3607), "token".into());
        material
    }

    type Written<'w> = (&'w str, &'w [u8], u32);

    fn check(volume: Value, expected: Result<&[Written<'_>], &str>) {
        let pod = json!({"metadata": {"name": "p"}, "spec": {"serviceAccountName": "sa"}});
        let found = of_volume(&pod, &volume, &material()).expect("made of objects");
        let expected = match expected {
            Ok(files) => Ok(files
                .iter()
                .map(|(path, bytes, mode)| ((*path).to_owned(), File { bytes: bytes.to_vec(), mode: *mode }))
                .collect()),
            Err(why) => Err(why.to_owned()),
        };
        assert_eq!(found, expected, "{volume}");
    }

    #[test]
    fn files_of_objects() {
        check(
            json!({"configMap": {"name": "cm"}}),
            Ok(&[("a", b"1", 0o644), ("b", b"2", 0o644), ("c", &[0, 1], 0o644)]),
        );
        check(
            json!({"configMap": {"name": "cm", "defaultMode": 256, "items": [{"key": "b", "path": "x/y"}, {"key": "a", "path": "z", "mode": 511}]}}),
            Ok(&[("x/y", b"2", 0o400), ("z", b"1", 0o777)]),
        );
        check(json!({"secret": {"secretName": "s"}}), Ok(&[("password", b"secret", 0o644)]));
        check(json!({"configMap": {"name": "no", "optional": true}}), Ok(&[]));
        check(json!({"configMap": {"name": "no"}}), Err("configmap \"no\" not found"));
        check(
            json!({"configMap": {"name": "cm", "items": [{"key": "no", "path": "x"}]}}),
            Err("configmap references non-existent config key: no"),
        );
        check(
            json!({"secret": {"secretName": "s", "items": [{"key": "no", "path": "x"}]}}),
            Err("references non-existent secret key: no"),
        );
    }

    #[test]
    fn projections() {
        let sources = json!([
            {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
            {"configMap": {"name": "cm", "items": [{"key": "a", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        ]);
        check(
            json!({"projected": {"defaultMode": 420, "sources": sources}}),
            Ok(&[("ca.crt", b"1", 0o644), ("name", b"p", 0o644), ("token", b"token", 0o644)]),
        );
        let pod = json!({"spec": {"volumes": [{"projected": {"sources": sources}}]}});
        assert_eq!(tokens_needed(&pod), [(String::new(), 3607)]);
        assert_eq!(of_volume(&pod, &json!({"emptyDir": {}}), &material()), None);
    }
}
