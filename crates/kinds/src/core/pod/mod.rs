//! Pods: containers that share a node, a network and volumes.

use std::collections::{BTreeMap, BTreeSet};

use meta::{FieldError, Gvk, ObjectExt, name};
use serde_json::Value;

use crate::check::At;
use crate::{Converged, KindDef, UpdateOf};

pub(crate) mod affinity;
pub(crate) mod annotations;
mod columns;
pub(crate) mod container;
pub mod defaults;
pub(crate) mod env;
pub mod image;
mod mount;
pub(crate) mod path;
mod prepare;
pub(crate) mod probe;
pub(crate) mod projected;
mod resize;
pub mod resources;
pub mod restart;
pub(crate) mod security;
pub(crate) mod spec;
mod status;
pub(crate) mod template;
mod update;
pub(crate) mod volume;
pub(crate) mod warnings;
mod windows;

/// What the checks of containers need to know of their pod.
pub(crate) struct Context<'v> {
    /// The pod's spec.
    pub spec: &'v Value,
    /// The pod's sound volumes, by name.
    pub volumes: BTreeMap<&'v str, &'v Value>,
    /// Names of the pod's claims of devices.
    pub claims: BTreeSet<&'v str>,
}

impl<'v> Context<'v> {
    fn new(spec: &'v Value, volumes: BTreeMap<&'v str, &'v Value>) -> Self {
        let claims = spec.items(&["resourceClaims"]).iter().map(|claim| claim.text(&["name"]));
        Self { spec, volumes, claims: claims.filter(|name| !name.is_empty()).collect() }
    }

    /// Names of the containers in one list.
    fn names(&self, list: &str) -> BTreeSet<&'v str> {
        self.spec.items(&[list]).iter().map(|container| container.text(&["name"])).collect()
    }

    fn grace_seconds(&self) -> Option<i64> {
        self.spec.int(&["terminationGracePeriodSeconds"])
    }

    /// Whether the pod's users are the node's.
    fn host_users(&self) -> bool {
        self.spec.get("hostUsers") != Some(&Value::Bool(false))
    }
}

pub(crate) use prepare::drop_disabled;

/// Before a workload with a template at `spec.template` is stored: what belongs to features that are off is dropped.
pub(crate) fn prepare_template(object: &mut Value) {
    if let Some(template) = crate::fill::descend(object, &["spec", "template"]) {
        drop_disabled(template);
    }
}

/// Visits all containers of a pod spec, of whatever list.
pub(crate) fn each_container<'v>(spec: &At<'v, '_>, mut visit: impl for<'p> FnMut(At<'v, 'p>)) {
    for list in defaults::CONTAINER_LISTS {
        spec.field(list).each().for_each(&mut visit);
    }
}

/// The declaration.
pub fn def() -> KindDef {
    let proxy = ["create", "delete", "get", "patch", "update"];
    let stream = |kind| Gvk::new("", "v1", kind);
    KindDef::new("", "v1", "Pod", "pods")
        .short("po")
        .category("all")
        .schema("io.k8s.api.core.v1.Pod")
        .counts_generation()
        .with_status()
        .with_subresource_of("attach", stream("PodAttachOptions"), &["create", "get"])
        .with_subresource_of("binding", stream("Binding"), &["create"])
        .with_subresource("ephemeralcontainers", &["get", "patch", "update"])
        .with_subresource_of("eviction", Gvk::new("policy", "v1", "Eviction"), &["create"])
        .with_subresource_of("exec", stream("PodExecOptions"), &["create", "get"])
        .with_subresource("log", &["get"])
        .with_subresource_of("portforward", stream("PodPortForwardOptions"), &["create", "get"])
        .with_subresource_of("proxy", stream("PodProxyOptions"), &proxy)
        .with_subresource("resize", &["get", "patch", "update"])
        .columns(columns::all())
        .selectable("spec.nodeName")
        .selectable_by("spec.host", |pod, _| pod.text(&["spec", "nodeName"]).to_owned())
        .selectable("spec.restartPolicy")
        .selectable("spec.schedulerName")
        .selectable("spec.serviceAccountName")
        .selectable_by("spec.hostNetwork", |pod, _| pod.flag(&["spec", "hostNetwork"]).to_string())
        .selectable("status.phase")
        .selectable_by("status.podIP", |pod, _| pod_ip(pod).to_owned())
        .selectable_by("status.podIPs", |pod, _| pod_ip(pod).to_owned())
        .selectable("status.nominatedNodeName")
        .grace(grace_seconds)
        .health(health)
        .defaults(defaults::pod)
        .prepares_create(prepare::create)
        .prepares_update(prepare::update)
        .validates(validate)
        .validates_update(validate_update)
        .warns(warnings::of_pod)
        .named_by(name::dns1123_subdomain)
        .example(
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"default"},
                "spec":{"containers":[{"name":"web","image":"nginx:1.27"}]}}"#,
        )
}

/// The pod's first address; empty while it has none.
pub fn pod_ip(pod: &Value) -> &str {
    pod.items(&["status", "podIPs"]).first().map_or("", |entry| entry.text(&["ip"]))
}

/// What a pod is given to stop: nothing before it is placed and once it has ended, whatever is asked for.
fn grace_seconds(pod: &Value, asked: Option<i64>) -> i64 {
    let ended = matches!(pod.text(&["status", "phase"]), "Failed" | "Succeeded");
    if ended || pod.text(&["spec", "nodeName"]).is_empty() {
        return 0;
    }
    match asked.or(pod.int(&["spec", "terminationGracePeriodSeconds"])) {
        Some(seconds) if seconds < 0 => 1,
        Some(seconds) => seconds,
        None => 30,
    }
}

fn validate(pod: &Value) -> Vec<FieldError> {
    let mut faults = Vec::new();
    update::metadata_and_spec(pod, &mut faults);
    update::only_on_create(pod, &mut faults);
    faults
}

fn validate_update(new: &Value, old: &Value, what: UpdateOf) -> Vec<FieldError> {
    match what {
        UpdateOf::Status => status::check(new, old),
        UpdateOf::Other("ephemeralcontainers") => update::ephemeral_containers(new, old),
        UpdateOf::Other("resize") => resize::check(new, old),
        UpdateOf::Main | UpdateOf::Other(_) => update::check(new, old),
    }
}

/// Ready or done is converged; failed needs help, and so does what cannot be fetched or keeps crashing.
fn health(pod: &Value) -> Converged {
    let shown = columns::status(pod);
    let ready = columns::condition(pod, "Ready") == "True";
    match pod.text(&["status", "phase"]) {
        _ if pod.is_deleting() => Converged::Progressing("is being deleted".to_owned()),
        "Succeeded" => Converged::Yes,
        "Failed" => Converged::Failed(format!("ended: {shown}")),
        "Running" if ready => Converged::Yes,
        _ if is_stuck(&shown) => Converged::Failed(shown),
        _ => Converged::Progressing(unscheduled(pod).unwrap_or(shown)),
    }
}

/// States that pass only when somebody changes something.
fn is_stuck(shown: &str) -> bool {
    const STUCK: &[&str] = &[
        "CrashLoopBackOff",
        "CreateContainerConfigError",
        "ErrImageNeverPull",
        "ImageInspectError",
        "ImagePullBackOff",
        "InvalidImageName",
    ];
    STUCK.contains(&shown.strip_prefix("Init:").unwrap_or(shown))
}

fn unscheduled(pod: &Value) -> Option<String> {
    let conditions = pod.items(&["status", "conditions"]);
    let scheduled = conditions.iter().find(|c| c.text(&["type"]) == "PodScheduled")?;
    let message = scheduled.text(&["message"]);
    (scheduled.text(&["status"]) == "False" && !message.is_empty()).then(|| message.to_owned())
}

#[cfg(test)]
mod tests;
