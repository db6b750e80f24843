//! The labels and annotations by which pods and containers are told in a runtime that others use as well: the
//! kubelet's, and a few of our own.

use std::collections::{BTreeMap, HashMap};

use contract::{ContainerSpec, SandboxSpec};

/// The kubelet's.
pub const POD_NAME: &str = "io.kubernetes.pod.name";
pub const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
pub const POD_UID: &str = "io.kubernetes.pod.uid";
pub const CONTAINER_NAME: &str = "io.kubernetes.container.name";
pub const RESTART_COUNT: &str = "io.kubernetes.container.restartCount";
/// Whose pods these are: a runtime may serve several agents.
pub const NODE: &str = "setpoint.dev/node";
/// The whole spec of a sandbox, for a later process that makes containers in it.
pub const SANDBOX_SPEC: &str = "setpoint.dev/sandbox";
/// What the container's status shows as its image.
pub const IMAGE_ID: &str = "setpoint.dev/image-id";
/// Whether it has a terminal.
pub const TTY: &str = "setpoint.dev/tty";

/// What all things of one agent have in common.
pub fn own(node: &str) -> HashMap<String, String> {
    HashMap::from([(NODE.to_owned(), node.to_owned())])
}

fn pod(spec: &SandboxSpec, node: &str) -> HashMap<String, String> {
    let meta = &spec.meta;
    let all = [(POD_NAME, &meta.name), (POD_NAMESPACE, &meta.namespace), (POD_UID, &meta.uid)];
    let mut labels = own(node);
    labels.extend(all.into_iter().map(|(key, value)| (key.to_owned(), value.clone())));
    labels
}

/// Of a sandbox: the pod's own first, which cannot be passed off for ours.
pub fn sandbox(spec: &SandboxSpec, node: &str) -> HashMap<String, String> {
    let mut labels: HashMap<String, String> = spec.labels.clone().into_iter().collect();
    labels.extend(pod(spec, node));
    labels
}

/// Of a container.
pub fn container(sandbox: &SandboxSpec, spec: &ContainerSpec, node: &str) -> HashMap<String, String> {
    let mut labels: HashMap<String, String> = spec.labels.clone().into_iter().collect();
    labels.extend(pod(sandbox, node));
    labels.insert(CONTAINER_NAME.to_owned(), spec.name.clone());
    labels
}

/// Annotations of a sandbox.
pub fn sandbox_annotations(spec: &SandboxSpec) -> HashMap<String, String> {
    let mut annotations: HashMap<String, String> = spec.annotations.clone().into_iter().collect();
    // A spec is strings and numbers: it can always be written.
    let written = serde_json::to_string(spec).unwrap_or_default();
    annotations.insert(SANDBOX_SPEC.to_owned(), written);
    annotations
}

/// Annotations of a container.
pub fn container_annotations(spec: &ContainerSpec) -> HashMap<String, String> {
    let mut annotations: HashMap<String, String> = spec.annotations.clone().into_iter().collect();
    annotations.insert(RESTART_COUNT.to_owned(), spec.attempt.to_string());
    annotations.insert(IMAGE_ID.to_owned(), spec.root.image_id.clone());
    annotations.insert(TTY.to_owned(), spec.tty.to_string());
    annotations
}

/// In order.
pub fn sorted(map: HashMap<String, String>) -> BTreeMap<String, String> {
    map.into_iter().collect()
}
