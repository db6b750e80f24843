//! Persistent volumes that are directories of this machine.

use std::path::PathBuf;

use meta::ObjectExt;
use serde_json::Value;

use crate::api::Api;

/// The claim's name: an ephemeral volume has one of its own.
pub(super) fn name(pod: &Value, volume: &Value) -> String {
    match volume.text(&["persistentVolumeClaim", "claimName"]) {
        "" => format!("{}-{}", pod.name(), volume.text(&["name"])),
        name => name.to_owned(),
    }
}

/// Where the volume behind a claim is.
pub(super) async fn path(api: &Api, pod: &Value, volume: &Value) -> Result<PathBuf, String> {
    let name = name(pod, volume);
    let address = format!("/api/v1/namespaces/{}/persistentvolumeclaims/{name}", pod.namespace());
    let claim = api.get(address).await.map_err(|refused| refused.message)?;
    let bound = claim.text(&["spec", "volumeName"]);
    if claim.text(&["status", "phase"]) != "Bound" || bound.is_empty() {
        return Err(format!("PVC {}/{name} is not bound", pod.namespace()));
    }
    let volume = api.get(format!("/api/v1/persistentvolumes/{bound}")).await.map_err(|refused| refused.message)?;
    let found = [volume.text(&["spec", "hostPath", "path"]), volume.text(&["spec", "local", "path"])];
    match found.into_iter().find(|path| !path.is_empty()) {
        Some(path) => Ok(PathBuf::from(path)),
        None => Err(format!("no volume plugin matched: PersistentVolume {bound} is not a directory of a machine")),
    }
}
