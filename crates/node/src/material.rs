//! Fetches what a pod refers to.

use std::collections::BTreeMap;

use agent::material::Material;
use agent::payload::tokens_needed;
use meta::ObjectExt;
use serde_json::Value;
use view::View;

use crate::api::Api;

/// What a pod's environment needs.
pub(crate) async fn for_environment(api: &Api, view: &View, pod: &Value) -> Result<Material, String> {
    let mut material = objects(api, pod).await?;
    let own = view.list("core/services", pod.namespace());
    let of_the_api = view.get("core/services", "default", "kubernetes").filter(|_| pod.namespace() != "default");
    material.services = own.iter().chain(&of_the_api).map(view::Object::tree).collect();
    material.allocatable = allocatable(view, pod);
    Ok(material)
}

/// What a pod's volumes need.
pub(crate) async fn for_volumes(api: &Api, view: &View, pod: &Value) -> Result<Material, String> {
    let mut material = objects(api, pod).await?;
    material.allocatable = allocatable(view, pod);
    for (audience, seconds) in tokens_needed(pod) {
        let token = api
            .token(pod, &audience, seconds)
            .await
            .map_err(|refused| format!("failed to fetch token: {}", refused.message))?;
        material.tokens.insert((audience, seconds), token);
    }
    Ok(material)
}

fn allocatable(view: &View, pod: &Value) -> Value {
    let node = view.get("core/nodes", "", pod.text(&["spec", "nodeName"]));
    node.map(|node| node.tree()["status"]["allocatable"].take()).unwrap_or_default()
}

/// Config maps and secrets by the names that the pod gives. One that there is not is no error here.
async fn objects(api: &Api, pod: &Value) -> Result<Material, String> {
    let fetch = async |plural: &str, names: Vec<&str>| -> Result<BTreeMap<String, Value>, String> {
        let mut found = BTreeMap::new();
        for name in names {
            let path = format!("/api/v1/namespaces/{}/{plural}/{name}", pod.namespace());
            match api.get(path).await {
                Ok(object) => {
                    found.insert(name.to_owned(), object);
                }
                Err(refused) if refused.reason == "NotFound" => {}
                Err(refused) => return Err(refused.message),
            }
        }
        Ok(found)
    };
    Ok(Material {
        config_maps: fetch("configmaps", admit::pod_refs::config_map_names(pod)).await?,
        secrets: fetch("secrets", admit::pod_refs::secret_names(pod)).await?,
        ..Material::default()
    })
}

/// The secrets that an image may be pulled with, as far as they are there.
pub(crate) async fn pull_secrets(api: &Api, pod: &Value) -> Vec<Value> {
    let mut found = Vec::new();
    for secret in pod.items(&["spec", "imagePullSecrets"]) {
        let path = format!("/api/v1/namespaces/{}/secrets/{}", pod.namespace(), secret.text(&["name"]));
        found.extend(api.get(path).await.ok());
    }
    found
}
