//! The Node and its Lease: made when absent, kept true, renewed.

use std::time::Duration;

use agent::pod::Failure;
use agent::pressure::{Policy, Pressure, Pressures, Signal};
use brain::{Action, Patch, Resource};
use meta::{ObjectExt, Time};
use serde_json::{Value, json};

use crate::NodeConfig;
use crate::api::Api;
use crate::image::LocalImage;
use crate::machine::Machine;

pub(crate) const NODES: Resource = Resource::new("", "v1", "nodes");
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
const LEASE: Resource = Resource::new("coordination.k8s.io", "v1", "leases");
/// How long a lease holds, and how often it is renewed: upstream's numbers.
const LEASE_SECONDS: i64 = 40;
pub(crate) const RENEW_EVERY: Duration = Duration::from_secs(10);
/// How often the status is written though nothing has changed: upstream's number.
pub(crate) const STATUS_EVERY: Duration = Duration::from_secs(5 * 60);
/// Images that the status names: upstream's limit.
const IMAGES_MAX: usize = 50;

/// Upstream's words around the reason.
const NETWORK_NOT_READY: &str = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady \
                                 message:the node has no range of addresses yet (spec.podCIDR)";

/// The labels that a node gives itself.
fn labels(name: &str, machine: &Machine) -> Value {
    json!({
        "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": machine.architecture,
        "beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": machine.architecture,
    })
}

/// What the status tells beside what never changes.
pub(crate) struct Told<'t> {
    pub images: &'t [LocalImage],
    pub pressures: &'t Pressures,
    /// Whether pods can have addresses of the node's range.
    pub network_is_ready: bool,
    /// Why the runtime cannot be used.
    pub trouble: Option<&'t str>,
}

/// What the machine has; for pods (`policy` given) without what is kept from them.
fn resources(machine: &Machine, pods_max: u64, policy: Option<&Policy>) -> Value {
    let less = |signal: Signal, bytes: u64| {
        let kept = policy.map_or(0, |policy| policy.kept(signal, i64::try_from(bytes).unwrap_or(i64::MAX)));
        format!("{}Ki", bytes.saturating_sub(kept.unsigned_abs()) / 1024)
    };
    json!({
        "cpu": machine.cpus.to_string(), "memory": less(Signal::MemoryAvailable, machine.memory_bytes),
        "pods": pods_max.to_string(), "ephemeral-storage": less(Signal::NodeFsAvailable, machine.disk_bytes),
    })
}

/// The Node's status, given the one it has.
pub(crate) fn status(config: &NodeConfig, machine: &Machine, told: &Told<'_>, old: &Value, now: Time) -> Value {
    let images = told.images;
    let mut addresses: Vec<Value> =
        config.ips.iter().map(|ip| json!({"type": "InternalIP", "address": ip.to_string()})).collect();
    addresses.push(json!({"type": "Hostname", "address": config.name}));
    let mut largest: Vec<&LocalImage> = images.iter().collect();
    largest.sort_by(|a, b| b.size.cmp(&a.size).then_with(|| a.id.cmp(&b.id)));
    let images: Vec<Value> =
        largest.iter().take(IMAGES_MAX).map(|image| json!({"names": image.names, "sizeBytes": image.size})).collect();
    json!({
        "capacity": resources(machine, config.pods_max, None),
        "allocatable": resources(machine, config.pods_max, Some(&config.upkeep.eviction)),
        "addresses": addresses, "conditions": conditions(told, old, now), "images": images,
        "daemonEndpoints": {"kubeletEndpoint": {"Port": config.port}},
        "nodeInfo": {
            "architecture": machine.architecture, "operatingSystem": "linux", "osImage": machine.os_image,
            "kernelVersion": machine.kernel, "machineID": machine.machine_id, "systemUUID": machine.system_uuid,
            "bootID": machine.boot_id, "kubeletVersion": config.version, "kubeProxyVersion": "",
            "containerRuntimeVersion": config.runtime_version,
        },
    })
}

fn conditions(told: &Told<'_>, old: &Value, now: Time) -> Vec<Value> {
    let stamp = now.to_rfc3339();
    let condition = |type_: &str, is_true: bool, (reason, message): (&str, &str)| {
        let status = if is_true { "True" } else { "False" };
        let known = meta::condition::find(old, type_).filter(|known| known.text(&["status"]) == status);
        let since = known.map_or(stamp.as_str(), |known| known.text(&["lastTransitionTime"]));
        json!({
            "type": type_, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": stamp, "lastTransitionTime": since,
        })
    };
    let short = Pressure::ALL.into_iter().map(|pressure| {
        let is_on = told.pressures.contains(&pressure);
        condition(pressure.type_(), is_on, pressure.words(is_on))
    });
    let ready = match unreadiness(told) {
        None => condition("Ready", true, ("KubeletReady", "kubelet is posting ready status")),
        Some(why) => condition("Ready", false, ("KubeletNotReady", &why)),
    };
    short.chain([ready]).collect()
}

/// Why no pods can be run here; several reasons as upstream lists them.
fn unreadiness(told: &Told<'_>) -> Option<String> {
    let network = (!told.network_is_ready).then_some(NETWORK_NOT_READY);
    let reasons: Vec<&str> = told.trouble.into_iter().chain(network).collect();
    match reasons.as_slice() {
        [] => None,
        [one] => Some((*one).to_owned()),
        several => Some(format!("[{}]", several.join(", "))),
    }
}

/// Makes the Node if need be and writes its labels and status.
pub(crate) async fn register(
    api: &Api,
    config: &NodeConfig,
    machine: &Machine,
    told: &Told<'_>,
    now: Time,
) -> Result<Value, Failure> {
    let path = format!("/api/v1/nodes/{}", config.name);
    let failed = |refused: driver::Refused| Failure { reason: refused.reason, message: refused.message };
    let node = match api.get(path.clone()).await {
        Ok(node) => node,
        Err(refused) if refused.reason == "NotFound" => {
            let node = json!({
                "apiVersion": "v1", "kind": "Node",
                "metadata": {"name": config.name, "labels": labels(&config.name, machine)},
            });
            api.call("POST", "/api/v1/nodes".to_owned(), &node).await.map_err(failed)?
        }
        Err(refused) => return Err(failed(refused)),
    };
    let own = labels(&config.name, machine);
    let is_labelled = own.as_object().into_iter().flatten().all(|(key, value)| node.label(key) == value.as_str());
    if !is_labelled {
        let patch = Patch::Merge(json!({"metadata": {"labels": own}}));
        api.act(&patch_of(&node, patch)).await.map_err(failed)?;
    }
    let status = status(config, machine, told, &node, now);
    api.patch_status(NODES, &node, json!({ "status": status })).await.map_err(failed)
}

fn patch_of(node: &Value, patch: Patch) -> Action {
    Action::Patch {
        resource: NODES,
        subresource: "",
        namespace: String::new(),
        name: node.name().to_owned(),
        uid: node.uid().to_owned(),
        patch,
    }
}

/// Says that the node is alive.
pub(crate) async fn renew(api: &Api, node: &Value, now: Time) -> Result<(), driver::Refused> {
    let stamp = now.to_rfc3339_micros();
    let renewed = api
        .act(&Action::Patch {
            resource: LEASE,
            subresource: "",
            namespace: "kube-node-lease".to_owned(),
            name: node.name().to_owned(),
            uid: String::new(),
            patch: Patch::Merge(json!({"spec": {"renewTime": stamp, "holderIdentity": node.name()}})),
        })
        .await;
    match renewed {
        Err(refused) if refused.reason == "NotFound" => {
            let lease = json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"name": node.name(), "namespace": "kube-node-lease", "ownerReferences": [{
                    "apiVersion": "v1", "kind": "Node", "name": node.name(), "uid": node.uid(),
                }]},
                "spec": {
                    "holderIdentity": node.name(), "leaseDurationSeconds": LEASE_SECONDS, "renewTime": stamp,
                },
            });
            api.call("POST", LEASES.to_owned(), &lease).await.map(|_| ())
        }
        other => other.map(|_| ()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_short_is_said_and_what_is_kept_is_not_for_pods() {
        let now = Time::from_secs(100);
        let old = json!({"status": {"conditions": [
            {"type": "MemoryPressure", "status": "True", "lastTransitionTime": "x"},
            {"type": "DiskPressure", "status": "True", "lastTransitionTime": "x"},
        ]}});
        let pressures = Pressures::from([Pressure::Memory]);
        let told = |network_is_ready| Told { images: &[], pressures: &pressures, network_is_ready, trouble: None };
        let said = conditions(&told(true), &old, now);
        let check = |at: usize, type_: &str, status: &str, reason: &str, since: &str| {
            let text = |field: &str| said[at].text(&[field]).to_owned();
            let found = (text("type"), text("status"), text("reason"), text("lastTransitionTime"));
            assert_eq!(found, (type_.into(), status.into(), reason.into(), since.into()));
        };
        check(0, "MemoryPressure", "True", "KubeletHasInsufficientMemory", "x");
        check(1, "DiskPressure", "False", "KubeletHasNoDiskPressure", &now.to_rfc3339());
        check(2, "PIDPressure", "False", "KubeletHasSufficientPID", &now.to_rfc3339());
        check(3, "Ready", "True", "KubeletReady", &now.to_rfc3339());
        let unconnected = conditions(&told(false), &old, now);
        assert_eq!(unconnected[0], said[0]);
        assert_eq!(unconnected[3].text(&["status"]), "False");
        assert_eq!(unconnected[3].text(&["reason"]), "KubeletNotReady");
        let ready = |network_is_ready, trouble| {
            let said = conditions(&Told { trouble, ..told(network_is_ready) }, &old, now);
            let ready = &said[3];
            (ready.text(&["status"]).to_owned(), ready.text(&["message"]).to_owned())
        };
        assert_eq!(ready(true, Some("it is down")), ("False".to_owned(), "it is down".to_owned()));
        assert_eq!(ready(false, Some("it is down")).1, format!("[it is down, {NETWORK_NOT_READY}]"));
        let machine = Machine { memory_bytes: 1 << 30, disk_bytes: 1 << 30, ..Machine::default() };
        let policy = Policy::default();
        assert_eq!(resources(&machine, 1, None).text(&["memory"]), "1048576Ki");
        assert_eq!(resources(&machine, 1, Some(&policy)).text(&["memory"]), "946176Ki");
        assert_eq!(resources(&machine, 1, Some(&policy)).text(&["ephemeral-storage"]), "943718Ki");
    }
}
