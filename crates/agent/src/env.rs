//! The environment of a container: services, then `envFrom`, then `env`, each on top of what came before.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use meta::ObjectExt;
use serde_json::Value;

use crate::expand::expand;
use crate::material::Material;
use crate::{downward, service_env};

/// Variables by name.
pub type Environment = BTreeMap<String, String>;

/// The environment of `container` in `pod`. The error is what the container's status shows as
/// `CreateContainerConfigError`.
pub fn environment(pod: &Value, container: &Value, material: &Material) -> Result<Environment, String> {
    let services = service_env::variables(pod, &material.services);
    let mut own = Environment::new();
    for source in container.items(&["envFrom"]) {
        own.extend(from_source(pod, source, material)?);
    }
    for variable in container.items(&["env"]) {
        let name = variable.text(&["name"]);
        if let Some(value) = value_of(pod, container, variable, material, &own, &services)? {
            own.insert(name.to_owned(), value);
        }
    }
    let mut all = services;
    all.extend(own);
    Ok(all)
}

/// All keys of a config map or secret.
fn from_source(pod: &Value, source: &Value, material: &Material) -> Result<Environment, String> {
    let prefix = source.text(&["prefix"]);
    let (reference, found) = match (source.get("configMapRef"), source.get("secretRef")) {
        (Some(reference), _) if reference.is_object() => (reference, material.config_map(reference.text(&["name"]))),
        (_, Some(reference)) if reference.is_object() => (reference, material.secret(reference.text(&["name"]))),
        _ => return Ok(Environment::new()),
    };
    let object = match found {
        Ok(object) => object,
        Err(_) if reference.flag(&["optional"]) => return Ok(Environment::new()),
        Err(why) => return Err(why),
    };
    let is_secret = source.get("secretRef").is_some_and(Value::is_object);
    let keys = object.map(&["data"]).into_iter().flatten();
    let read = |(key, value): (&String, &Value)| {
        let value = if is_secret { decoded(value)? } else { value.as_str().unwrap_or("").to_owned() };
        Ok((format!("{prefix}{key}"), value))
    };
    keys.map(read).collect::<Result<_, String>>().map_err(|why| format!("{why} in namespace {}", pod.namespace()))
}

fn decoded(value: &Value) -> Result<String, String> {
    let bytes = STANDARD.decode(value.as_str().unwrap_or("")).map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The value of one variable; `None` when it comes from something optional that there is not.
fn value_of(
    pod: &Value,
    container: &Value,
    variable: &Value,
    material: &Material,
    own: &Environment,
    services: &Environment,
) -> Result<Option<String>, String> {
    let Some(source) = variable.get("valueFrom").filter(|source| source.is_object()) else {
        let known = |name: &str| own.get(name).or_else(|| services.get(name)).cloned();
        return Ok(Some(expand(variable.text(&["value"]), known)));
    };
    let part = |name: &str| source.get(name).filter(|part| part.is_object());
    if let Some(reference) = part("fieldRef") {
        let path = reference.text(&["fieldPath"]);
        return Ok(Some(downward::field(pod, path).unwrap_or_default()));
    }
    if let Some(reference) = part("resourceFieldRef") {
        return downward::resource(pod, container.text(&["name"]), reference, &material.allocatable).map(Some);
    }
    if let Some(reference) = part("configMapKeyRef") {
        let found = material.config_map(reference.text(&["name"]));
        return key_of(pod, reference, found, "ConfigMap");
    }
    if let Some(reference) = part("secretKeyRef") {
        let found = material.secret(reference.text(&["name"]));
        return key_of(pod, reference, found, "Secret");
    }
    Err(format!("the source of variable {} is not supported on this node", variable.text(&["name"])))
}

fn key_of(pod: &Value, reference: &Value, found: Result<&Value, String>, kind: &str) -> Result<Option<String>, String> {
    let (name, key) = (reference.text(&["name"]), reference.text(&["key"]));
    let is_optional = reference.flag(&["optional"]);
    let object = match found {
        Ok(object) => object,
        Err(_) if is_optional => return Ok(None),
        Err(why) => return Err(why),
    };
    match object.at(&["data", key]) {
        Some(value) if kind == "Secret" => decoded(value).map(Some),
        Some(value) => Ok(Some(value.as_str().unwrap_or("").to_owned())),
        None if is_optional => Ok(None),
        None => Err(format!("couldn't find key {key} in {kind} {}/{name}", pod.namespace())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn material() -> Material {
        let mut material = Material::default();
        material.config_maps.insert("cm".into(), json!({"data": {"k": "v", "other": "w"}}));
        material.secrets.insert("s".into(), json!({"data": {"password": "c2VjcmV0"}}));
        material
    }

    fn check(container: Value, expected: Result<&[(&str, &str)], &str>) {
        let pod = json!({"metadata": {"name": "p", "namespace": "d"}, "spec": {"enableServiceLinks": false}});
        let found = environment(&pod, &container, &material());
        let expected = match expected {
            Ok(pairs) => Ok(pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()),
            Err(why) => Err(why.to_owned()),
        };
        assert_eq!(found, expected, "{container}");
    }

    #[test]
    fn values_and_their_sources() {
        check(
            json!({"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)2$(C)"}, {"name": "C", "value": "3"}]}),
            Ok(&[("A", "1"), ("B", "12$(C)"), ("C", "3")]),
        );
        check(
            json!({"env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}),
            Ok(&[("N", "p")]),
        );
        check(
            json!({"envFrom": [{"prefix": "X_", "configMapRef": {"name": "cm"}}, {"secretRef": {"name": "s"}}],
                   "env": [{"name": "X_k", "value": "mine"}]}),
            Ok(&[("X_k", "mine"), ("X_other", "w"), ("password", "secret")]),
        );
        let key = |kind: &str, name: &str, key: &str, optional: bool| json!({"env": [{"name": "A", "valueFrom": {kind: {"name": name, "key": key, "optional": optional}}}]});
        check(key("configMapKeyRef", "cm", "k", false), Ok(&[("A", "v")]));
        check(key("secretKeyRef", "s", "password", false), Ok(&[("A", "secret")]));
        check(key("configMapKeyRef", "no", "k", true), Ok(&[]));
    }

    #[test]
    fn what_is_missing_is_named() {
        let key = |kind: &str, name: &str, key: &str| json!({"env": [{"name": "A", "valueFrom": {kind: {"name": name, "key": key}}}]});
        check(key("configMapKeyRef", "x", "k"), Err("configmap \"x\" not found"));
        check(key("secretKeyRef", "x", "k"), Err("secret \"x\" not found"));
        check(key("configMapKeyRef", "cm", "no"), Err("couldn't find key no in ConfigMap d/cm"));
        check(key("secretKeyRef", "s", "no"), Err("couldn't find key no in Secret d/s"));
        check(json!({"envFrom": [{"configMapRef": {"name": "x"}}]}), Err("configmap \"x\" not found"));
    }
}
