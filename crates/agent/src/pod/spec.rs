//! A pod's object as the node reads it.

use std::time::Duration;

use meta::ObjectExt;
use serde_json::Value;
use stdx::Time;

use super::probe::{Kind, Probe};
use super::step::VolumeImage;

/// Grace when the spec says nothing: the API's default.
const GRACE_SECONDS: i64 = 30;

/// A pod, over its object.
#[derive(Clone, Copy, Debug)]
pub struct Pod<'a> {
    /// The object.
    pub object: &'a Value,
    /// The API has no such pod any more; `object` is the last that was seen.
    pub is_gone: bool,
}

/// What a container is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Runs to its end before the next is started.
    Init,
    /// An init container that keeps running beside the others.
    Sidecar,
    /// What the pod is for.
    Main,
    /// Came later, to look around.
    Ephemeral,
}

/// One container of a spec.
#[derive(Clone, Copy, Debug)]
pub struct Container<'a> {
    /// As written.
    pub spec: &'a Value,
    /// What it is for.
    pub role: Role,
}

/// The lists of containers, each with the list of its statuses.
pub(super) const LISTS: [(&str, &str); 3] = [
    ("initContainers", "initContainerStatuses"),
    ("containers", "containerStatuses"),
    ("ephemeralContainers", "ephemeralContainerStatuses"),
];

impl<'a> Pod<'a> {
    /// A pod that the API has.
    pub fn new(object: &'a Value) -> Pod<'a> {
        Pod { object, is_gone: false }
    }

    /// Its spec.
    pub fn spec(&self) -> &'a Value {
        &self.object["spec"]
    }

    /// Containers of one list of the spec.
    pub fn list(&self, list: &str) -> impl DoubleEndedIterator<Item = Container<'a>> + use<'a> {
        let role = match list {
            "containers" => Role::Main,
            "ephemeralContainers" => Role::Ephemeral,
            _ => Role::Init,
        };
        self.spec().items(&[list]).iter().map(move |spec| Container::new(spec, role))
    }

    /// Init containers and sidecars, in order.
    pub fn inits(&self) -> impl DoubleEndedIterator<Item = Container<'a>> + use<'a> {
        self.list("initContainers")
    }

    /// Main containers.
    pub fn mains(&self) -> impl DoubleEndedIterator<Item = Container<'a>> + use<'a> {
        self.list("containers")
    }

    /// Every container.
    pub fn containers(&self) -> impl Iterator<Item = Container<'a>> + use<'a> {
        let pod = *self;
        LISTS.into_iter().flat_map(move |(list, _)| pod.list(list))
    }

    /// The container of this name.
    pub fn container(&self, name: &str) -> Option<Container<'a>> {
        self.containers().find(|container| container.name() == name)
    }

    /// The images that a container mounts as volumes.
    pub fn image_volumes(&self, container: &Container<'a>) -> impl Iterator<Item = VolumeImage> + use<'a> {
        let mounts = container.spec.items(&["volumeMounts"]);
        let is_mounted = |name: &str| mounts.iter().any(|mount| mount.text(&["name"]) == name);
        let volumes = self.spec().items(&["volumes"]).iter().filter(move |volume| is_mounted(volume.text(&["name"])));
        volumes.filter_map(|volume| {
            let image = volume.get("image").filter(|image| image.is_object())?;
            Some(VolumeImage {
                volume: volume.text(&["name"]).to_owned(),
                image: image.text(&["reference"]).to_owned(),
                policy: image.text(&["pullPolicy"]).to_owned(),
            })
        })
    }

    /// What the API shows of a container.
    pub fn status_of(&self, name: &str) -> Option<&'a Value> {
        let object = self.object;
        let statuses = LISTS.iter().flat_map(move |(_, list)| object.items(&["status", list]));
        statuses.into_iter().find(|status| status.text(&["name"]) == name)
    }

    /// `Always`, `OnFailure` or `Never`.
    pub fn restart_policy(&self) -> &'a str {
        match self.spec().text(&["restartPolicy"]) {
            "" => "Always",
            policy => policy,
        }
    }

    /// Whether it shares the node's network.
    pub fn is_on_host_network(&self) -> bool {
        self.spec().flag(&["hostNetwork"])
    }

    /// Whether the API shows it at its end.
    pub fn is_finished(&self) -> bool {
        matches!(self.object.text(&["status", "phase"]), "Succeeded" | "Failed")
    }

    /// Whether the API shows it as evicted.
    pub fn is_evicted(&self) -> bool {
        self.is_finished() && self.object.text(&["status", "reason"]) == crate::pressure::EVICTED
    }

    /// Grace for a stop that nobody asked for.
    pub fn grace(&self) -> Duration {
        seconds(self.spec().int(&["terminationGracePeriodSeconds"]).unwrap_or(GRACE_SECONDS))
    }

    /// When its grace ends, once its deletion has begun.
    pub fn deletion_deadline(&self) -> Option<Time> {
        self.object.deletion_timestamp()
    }

    /// When it has been active for as long as it may.
    pub fn active_deadline(&self) -> Option<Time> {
        let span = self.spec().int(&["activeDeadlineSeconds"])?;
        Some(Time::parse(self.object.text(&["status", "startTime"]))?.after(seconds(span)))
    }

    /// `name_namespace(uid)`, as messages name a pod.
    pub fn full_name(&self) -> String {
        format!("{}_{}({})", self.object.name(), self.object.namespace(), self.object.uid())
    }
}

impl<'a> Container<'a> {
    fn new(spec: &'a Value, role: Role) -> Container<'a> {
        let is_sidecar = role == Role::Init && spec.text(&["restartPolicy"]) == "Always";
        Container { spec, role: if is_sidecar { Role::Sidecar } else { role } }
    }

    /// Its name.
    pub fn name(&self) -> &'a str {
        self.spec.text(&["name"])
    }

    /// Its image.
    pub fn image(&self) -> &'a str {
        self.spec.text(&["image"])
    }

    /// `Always`, `IfNotPresent` or `Never`.
    pub fn pull_policy(&self) -> &'a str {
        match self.spec.text(&["imagePullPolicy"]) {
            "" => "IfNotPresent",
            policy => policy,
        }
    }

    /// Whether it keeps running: everything but an ordinary init container.
    pub fn is_lasting(&self) -> bool {
        self.role != Role::Init
    }

    /// Name and image, as a fingerprint: when it differs from that of the running container, the container is
    /// replaced. Nothing else of a running container may change, but for what is resized in place.
    pub fn hash(&self) -> String {
        brain::fingerprint([self.name(), self.image()])
    }

    /// Its resources as JSON text.
    pub fn resources_text(&self) -> String {
        self.spec.get("resources").filter(|r| !r.is_null()).map(Value::to_string).unwrap_or_default()
    }

    /// One of its probes.
    pub fn probe(&self, kind: Kind) -> Option<Probe<'a>> {
        Probe::of(kind, self.spec.get(kind.field()).filter(|probe| !probe.is_null())?)
    }

    /// What is done once it has started.
    pub fn post_start(&self) -> Option<&'a Value> {
        self.spec.at(&["lifecycle", "postStart"]).filter(|hook| !hook.is_null())
    }

    /// What is done before it is stopped.
    pub fn pre_stop(&self) -> Option<&'a Value> {
        self.spec.at(&["lifecycle", "preStop"]).filter(|hook| !hook.is_null())
    }

    /// Where it stands in the spec, as events say it.
    pub fn field_path(&self) -> String {
        let list = match self.role {
            Role::Main => "containers",
            Role::Ephemeral => "ephemeralContainers",
            Role::Init | Role::Sidecar => "initContainers",
        };
        format!("spec.{list}{{{}}}", self.name())
    }
}

/// Seconds as written in a spec; nothing below zero.
pub(super) fn seconds(count: i64) -> Duration {
    Duration::from_secs(u64::try_from(count).unwrap_or(0))
}
