//! A pod's volumes on this machine.

mod atomic;
mod claim;
mod host_path;
mod ownership;
mod scratch;

use std::path::{Path, PathBuf};

use agent::payload;
use meta::ObjectExt;
use serde_json::Value;
use view::View;

use crate::api::Api;
use crate::dirs::Dirs;
use crate::material;

pub(crate) use scratch::tear_down;

/// Where each volume of a pod is.
pub(crate) async fn place(api: &Api, dirs: &Dirs, pod: &Value, name: &str) -> Option<PathBuf> {
    let volume = pod.items(&["spec", "volumes"]).iter().find(|volume| volume.text(&["name"]) == name)?;
    let part = |name: &str| volume.get(name).filter(|part| part.is_object());
    if let Some(host) = part("hostPath") {
        return Some(PathBuf::from(host.text(&["path"])));
    }
    if part("persistentVolumeClaim").is_some() || part("ephemeral").is_some() {
        return claim::path(api, pod, volume).await.ok();
    }
    Some(dirs.volume(pod.uid(), name))
}

/// The claim behind a volume of a pod.
pub(crate) fn claim_name(pod: &Value, volume: &Value) -> Option<String> {
    let is = |name: &str| volume.get(name).is_some_and(Value::is_object);
    (is("persistentVolumeClaim") || is("ephemeral")).then(|| claim::name(pod, volume))
}

/// Makes every volume of a pod, or brings it up to date. The error names the volume.
pub(crate) async fn set_up(api: &Api, view: &View, dirs: &Dirs, pod: &Value) -> Result<(), String> {
    let material = material::for_volumes(api, view, pod).await?;
    for volume in pod.items(&["spec", "volumes"]) {
        let name = volume.text(&["name"]);
        let path = dirs.volume(pod.uid(), name);
        let named = |why: String| format!("MountVolume.SetUp failed for volume \"{name}\" : {why}");
        match payload::of_volume(pod, volume, &material) {
            Some(files) => {
                let files = files.map_err(named)?;
                let group = ownership::group(pod);
                on_disk(path, move |path| atomic::write(path, &files, group)).await.map_err(named)?;
            }
            None => other(api, pod, volume, path).await.map_err(named)?,
        }
    }
    Ok(())
}

/// Makes again what somebody has removed or unmounted; what is there stays as it is.
pub(crate) async fn restore(api: &Api, view: &View, dirs: &Dirs, pod: &Value) -> Result<(), String> {
    if pod.items(&["spec", "volumes"]).iter().all(|volume| is_whole(dirs, pod, volume)) {
        return Ok(());
    }
    tracing::warn!(pod = pod.name(), namespace = pod.namespace(), "volumes of a pod are gone; making them again");
    set_up(api, view, dirs, pod).await
}

fn is_whole(dirs: &Dirs, pod: &Value, volume: &Value) -> bool {
    let path = dirs.volume(pod.uid(), volume.text(&["name"]));
    match volume.get("emptyDir").filter(|source| source.is_object()) {
        Some(source) => scratch::is_made(&path, source),
        None => !payload::is_payload(volume) || atomic::is_written(&path),
    }
}

/// A volume that is not made of objects.
async fn other(api: &Api, pod: &Value, volume: &Value, path: PathBuf) -> Result<(), String> {
    let part = |name: &str| volume.get(name).filter(|part| part.is_object()).cloned();
    if let Some(source) = part("emptyDir") {
        let group = ownership::group(pod);
        return on_disk(path, move |path| scratch::make(path, &source, group)).await;
    }
    if let Some(source) = part("hostPath") {
        let wanted = source.text(&["type"]).to_owned();
        return on_disk(PathBuf::from(source.text(&["path"])), move |path| host_path::check(path, &wanted)).await;
    }
    if part("persistentVolumeClaim").is_some() || part("ephemeral").is_some() {
        return claim::path(api, pod, volume).await.map(|_| ());
    }
    // Pulled with the images of the containers that mount it.
    if part("image").is_some() {
        return Ok(());
    }
    let kinds = volume.as_object().into_iter().flatten().map(|(key, _)| key.as_str());
    let kind = kinds.filter(|key| *key != "name").collect::<Vec<_>>().join(", ");
    Err(format!("no volume plugin matched: {kind} is not supported on this node"))
}

/// File work on a thread that may block.
async fn on_disk<T: Send + 'static>(
    path: PathBuf,
    work: impl FnOnce(&Path) -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    match tokio::task::spawn_blocking(move || work(&path)).await {
        Ok(done) => done,
        Err(error) => Err(error.to_string()),
    }
}
