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

/// Every secret of its namespace that the pod refers to.
pub fn secret_names(pod: &Value) -> Vec<&str> {
    let pulls = pod.items(&["spec", "imagePullSecrets"]).iter().map(|secret| secret.text(&["name"]));
    let mounted = volumes(pod).iter().flat_map(|volume| {
        let own = [
            volume.text(&["secret", "secretName"]),
            volume.text(&["azureFile", "secretName"]),
            volume.text(&["csi", "nodePublishSecretRef", "name"]),
        ];
        let by_ref = SECRET_REF_SOURCES.iter().map(|source| volume.text(&[source, "secretRef", "name"]));
        own.into_iter().chain(by_ref).chain(projected(volume, "secret"))
    });
    named(pulls.chain(mounted).chain(env_names(pod, "secretKeyRef", "secretRef")))
}

/// Every config map of its namespace that the pod refers to.
pub fn config_map_names(pod: &Value) -> Vec<&str> {
    let mounted = volumes(pod)
        .iter()
        .flat_map(|volume| std::iter::once(volume.text(&["configMap", "name"])).chain(projected(volume, "configMap")));
    named(mounted.chain(env_names(pod, "configMapKeyRef", "configMapRef")))
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

fn named<'p>(names: impl Iterator<Item = &'p str>) -> Vec<&'p str> {
    names.filter(|name| !name.is_empty()).collect()
}

fn projected<'p>(volume: &'p Value, kind: &'static str) -> impl Iterator<Item = &'p str> {
    volume.items(&["projected", "sources"]).iter().map(move |source| source.text(&[kind, "name"]))
}

fn env_names<'p>(pod: &'p Value, key_ref: &'static str, whole_ref: &'static str) -> impl Iterator<Item = &'p str> {
    pod.get("spec").into_iter().flat_map(containers).flat_map(move |(_, _, container)| {
        let keys = container.items(&["env"]).iter().map(move |env| env.text(&["valueFrom", key_ref, "name"]));
        keys.chain(container.items(&["envFrom"]).iter().map(move |env| env.text(&[whole_ref, "name"])))
    })
}

/// The first kind of object that the pod cannot do without, in upstream's words. Pods that a node makes itself may need
/// none.
pub fn api_reference(pod: &Value) -> Option<&'static str> {
    if !pod.text(&["spec", "serviceAccountName"]).is_empty() {
        return Some("serviceaccounts");
    }
    if !secret_names(pod).is_empty() {
        return Some("secrets");
    }
    if !config_map_names(pod).is_empty() {
        return Some("configmaps");
    }
    if !pod.items(&["spec", "resourceClaims"]).is_empty() {
        return Some("resourceclaims");
    }
    volumes(pod).iter().find_map(volume_reference)
}

fn volume_reference(volume: &Value) -> Option<&'static str> {
    const SOURCES: [(&str, &str); 7] = [
        ("configMap", "configmaps (via configmap volumes)"),
        ("secret", "secrets (via secret volumes)"),
        ("csi", "csidrivers (via CSI volumes)"),
        ("glusterfs", "endpoints (via glusterFS volumes)"),
        ("persistentVolumeClaim", "persistentvolumeclaims"),
        ("ephemeral", "persistentvolumeclaims (via ephemeral volumes)"),
        ("azureFile", "secrets (via azureFile volumes)"),
    ];
    const PROJECTED: [(&str, &str); 5] = [
        ("configMap", "configmaps (via projected volumes)"),
        ("secret", "secrets (via projected volumes)"),
        ("serviceAccountToken", "serviceaccounts (via projected volumes)"),
        ("clusterTrustBundle", "clustertrustbundles"),
        ("podCertificate", "podcertificates"),
    ];
    let first = |holder: &Value, table: &[(&str, &'static str)]| {
        table.iter().find(|(field, _)| holder.get(*field).is_some_and(|v| !v.is_null())).map(|(_, word)| *word)
    };
    first(volume, &SOURCES)
        .or_else(|| volume.items(&["projected", "sources"]).iter().find_map(|source| first(source, &PROJECTED)))
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
            assert_eq!((secret_names(&pod), config_map_names(&pod)), (vec!["s"], vec!["c"]), "{field}");
        }
    }

    #[test]
    fn ephemeral_volumes_name_their_claim() {
        let pod = json!({"metadata": {"name": "p"}, "spec": {"volumes": [{"name": "v", "ephemeral": {}}]}});
        assert!(uses_claim(&pod, "p-v"));
        assert!(!uses_claim(&pod, "v"));
    }
}
