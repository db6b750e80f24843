//! What a pod refers to. One walk over all kinds of containers: a forgotten kind is a way around admission.

use meta::ObjectExt;
use serde_json::Value;

/// Marks a pod that a node agent shows for one it runs from a file.
pub const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";

/// The fields of a pod spec that hold containers.
pub const CONTAINER_LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Sources of pod volumes that name a secret in `secretRef.name`.
const SECRET_REF_SOURCES: [&str; 7] = ["cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos"];

/// Every container of a pod spec, of every kind, with the field it stands in and its index there.
pub fn containers(spec: &Value) -> impl Iterator<Item = (&'static str, usize, &Value)> {
    CONTAINER_LISTS.into_iter().flat_map(move |field| {
        spec.items(&[field]).iter().enumerate().map(move |(index, container)| (field, index, container))
    })
}

/// Whether the pod refers to the secret `name` of its namespace.
pub fn uses_secret(pod: &Value, name: &str) -> bool {
    let is = |value: &Value, path: &[&str]| value.text(path) == name;
    pod.items(&["spec", "imagePullSecrets"]).iter().any(|secret| is(secret, &["name"]))
        || env_refers(pod, "secretKeyRef", "secretRef", name)
        || volumes(pod).iter().any(|volume| {
            is(volume, &["secret", "secretName"])
                || is(volume, &["azureFile", "secretName"])
                || is(volume, &["csi", "nodePublishSecretRef", "name"])
                || SECRET_REF_SOURCES.iter().any(|source| is(volume, &[source, "secretRef", "name"]))
                || projects(volume, "secret", name)
        })
}

/// Whether the pod refers to the config map `name` of its namespace.
pub fn uses_config_map(pod: &Value, name: &str) -> bool {
    env_refers(pod, "configMapKeyRef", "configMapRef", name)
        || volumes(pod)
            .iter()
            .any(|volume| volume.text(&["configMap", "name"]) == name || projects(volume, "configMap", name))
}

/// Whether the pod mounts the claim `name` of its namespace.
pub fn uses_claim(pod: &Value, name: &str) -> bool {
    volumes(pod).iter().any(|volume| {
        volume.text(&["persistentVolumeClaim", "claimName"]) == name
            || (volume.get("ephemeral").is_some() && format!("{}-{}", pod.name(), volume.text(&["name"])) == name)
    })
}

/// Whether the pod refers to the resource claim `name`, directly or through one made for it.
pub fn uses_resource_claim(pod: &Value, name: &str) -> bool {
    let named = |entry: &Value| entry.text(&["resourceClaimName"]) == name;
    pod.items(&["spec", "resourceClaims"]).iter().any(named)
        || pod.items(&["status", "resourceClaimStatuses"]).iter().any(named)
        || pod.text(&["status", "extendedResourceClaimStatus", "resourceClaimName"]) == name
}

/// Whether a persistent volume needs the secret on nodes that mount it.
pub fn volume_uses_secret(volume: &Value, namespace: &str, name: &str) -> bool {
    let claim_namespace = volume.text(&["spec", "claimRef", "namespace"]);
    let is = |name_path: &[&str], namespace_path: &[&str]| {
        let own = volume.text(namespace_path);
        let own = if own.is_empty() { claim_namespace } else { own };
        volume.text(name_path) == name && own == namespace
    };
    let by_ref =
        |source: &str, field: &str| is(&["spec", source, field, "name"], &["spec", source, field, "namespace"]);
    is(&["spec", "azureFile", "secretName"], &["spec", "azureFile", "secretNamespace"])
        || SECRET_REF_SOURCES.iter().any(|source| by_ref(source, "secretRef"))
        || ["nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef"].iter().any(|f| by_ref("csi", f))
}

/// The pod's volumes.
pub fn volumes(pod: &Value) -> &[Value] {
    pod.items(&["spec", "volumes"])
}

fn projects(volume: &Value, kind: &str, name: &str) -> bool {
    volume.items(&["projected", "sources"]).iter().any(|source| source.text(&[kind, "name"]) == name)
}

fn env_refers(pod: &Value, key_ref: &str, whole_ref: &str, name: &str) -> bool {
    let Some(spec) = pod.get("spec") else { return false };
    containers(spec).any(|(_, _, container)| {
        container.items(&["env"]).iter().any(|env| env.text(&["valueFrom", key_ref, "name"]) == name)
            || container.items(&["envFrom"]).iter().any(|env| env.text(&[whole_ref, "name"]) == name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_kind_of_container_counts() {
        for field in CONTAINER_LISTS {
            let pod = json!({"spec": {field: [
                {"env": [{"valueFrom": {"secretKeyRef": {"name": "s"}}}], "envFrom": [{"configMapRef": {"name": "c"}}]},
            ]}});
            assert!(uses_secret(&pod, "s") && uses_config_map(&pod, "c"), "{field}");
            assert!(!uses_secret(&pod, "c") && !uses_config_map(&pod, "s"), "{field}");
        }
    }

    #[test]
    fn ephemeral_volumes_name_their_claim() {
        let pod = json!({"metadata": {"name": "p"}, "spec": {"volumes": [{"name": "v", "ephemeral": {}}]}});
        assert!(uses_claim(&pod, "p-v"));
        assert!(!uses_claim(&pod, "v"));
    }
}
