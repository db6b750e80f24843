//! # Contract
//! Owns the status and the Lease of every Node with the label [`SIMULATED`]. At rest between two renewals. Touches no
//! other node.

use std::time::Duration;

use brain::{Action, Brain, Def, Note, Outcome, Patch, Resource, View, Watch, key};
use meta::{ObjectExt, condition};
use serde_json::{Value, json};
use stdx::Time;
use store::{Event, Key};

/// The label of nodes that are played.
pub const SIMULATED: &str = "setpoint.dev/simulated";

const NODES: Resource = Resource::new("", "v1", "nodes");
const LEASES: Resource = Resource::new("coordination.k8s.io", "v1", "leases");
const LEASE_NAMESPACE: &str = "kube-node-lease";
/// How long a lease holds, and how often it is renewed: upstream's numbers.
const LEASE_SECONDS: i64 = 40;
const RENEW_EVERY: Duration = Duration::from_secs(10);

/// A new simulated node. Its size is that of a small machine; it is ready once its brain has looked at it.
pub fn node_object(index: usize) -> Value {
    let name = format!("simulated-{index}");
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {
            SIMULATED: "true",
            "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
            "beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64",
        }},
    })
}

/// The brain.
pub struct SimulatedNode;

/// A node that is to be ready.
pub struct Desired {
    node: Value,
}

/// How it is.
pub struct Observed {
    is_ready: bool,
    has_lease: bool,
    renewed: Option<Time>,
}

/// Every effect.
#[derive(Debug, PartialEq)]
pub enum Step {
    /// Says that the node is ready.
    BecomeReady(Time),
    /// Makes the lease.
    CreateLease(Time),
    /// Says that the node is alive.
    Renew(Time),
}

impl Brain for SimulatedNode {
    const DEF: Def = Def {
        name: "simulated-node",
        root: NODES,
        root_kind: "Node",
        watches: &[Watch { collection: "core/nodes", roots: own }],
        resync: None,
    };
    type Desired = Desired;
    type Observed = Observed;
    type Step = Step;
    type Why = std::convert::Infallible;

    fn observe(view: &View, key: &Key, _: Time) -> Option<(Desired, Observed)> {
        let object = view.get_key(key)?;
        if !object.meta().labels.contains_key(SIMULATED) || object.meta().is_deleting() {
            return None;
        }
        let node = object.tree();
        let lease = view.get("coordination.k8s.io/leases", LEASE_NAMESPACE, &key.item);
        let renewed = lease.as_ref().and_then(|lease| Time::parse(lease.tree().text(&["spec", "renewTime"])));
        let observed = Observed { is_ready: condition::is_true(&node, "Ready"), has_lease: lease.is_some(), renewed };
        Some((Desired { node }, observed))
    }

    fn reconcile(_: &Desired, observed: &Observed, now: Time) -> Outcome<Step, Self::Why> {
        let mut outcome = Outcome::rest().wake_at(now.after(RENEW_EVERY));
        if !observed.is_ready {
            outcome = outcome.step(Step::BecomeReady(now));
        }
        if !observed.has_lease {
            outcome.step(Step::CreateLease(now))
        } else if observed.renewed.is_none_or(|at| at.after(RENEW_EVERY) <= now) {
            outcome.step(Step::Renew(now))
        } else {
            outcome
        }
    }

    fn check(_: &Desired, _: &Observed, outcome: &Outcome<Step, Self::Why>) -> Result<(), String> {
        let leases = outcome.steps.iter().filter(|step| !matches!(step, Step::BecomeReady(_))).count();
        if leases > 1 { Err("the lease is written twice in one turn".to_owned()) } else { Ok(()) }
    }

    fn perform(step: Step, desired: &Desired, _: &Observed) -> Action {
        let name = desired.node.name().to_owned();
        match step {
            Step::BecomeReady(now) => Action::Patch {
                resource: NODES,
                subresource: "status",
                namespace: String::new(),
                uid: desired.node.uid().to_owned(),
                patch: Patch::Merge(json!({"status": status(&name, now)})),
                name,
            },
            Step::CreateLease(now) => Action::Create {
                resource: LEASES,
                namespace: LEASE_NAMESPACE.to_owned(),
                object: json!({
                    "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                    "metadata": {"name": name, "namespace": LEASE_NAMESPACE, "ownerReferences": [{
                        "apiVersion": "v1", "kind": "Node", "name": name, "uid": desired.node.uid(),
                    }]},
                    "spec": {
                        "holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS,
                        "renewTime": now.to_rfc3339_micros(),
                    },
                }),
            },
            Step::Renew(now) => Action::Patch {
                resource: LEASES,
                subresource: "",
                namespace: LEASE_NAMESPACE.to_owned(),
                name,
                uid: String::new(),
                patch: Patch::Merge(json!({"spec": {"renewTime": now.to_rfc3339_micros()}})),
            },
        }
    }

    fn explain(why: Self::Why) -> Note {
        match why {}
    }
}

fn own(_: &View, event: &Event) -> Vec<Key> {
    vec![key("core/nodes", "", &event.key.item)]
}

/// The status of a healthy machine with 16 cores and 64 GiB.
fn status(name: &str, now: Time) -> Value {
    let stamp = now.to_rfc3339();
    let condition = |type_: &str, status: &str, reason: &str| {
        json!({
            "type": type_, "status": status, "reason": reason, "message": "",
            "lastHeartbeatTime": stamp, "lastTransitionTime": stamp,
        })
    };
    let resources = json!({"cpu": "16", "memory": "64Gi", "pods": "110", "ephemeral-storage": "256Gi"});
    json!({
        "capacity": resources, "allocatable": resources,
        "conditions": [
            condition("MemoryPressure", "False", "KubeletHasSufficientMemory"),
            condition("DiskPressure", "False", "KubeletHasNoDiskPressure"),
            condition("PIDPressure", "False", "KubeletHasSufficientPID"),
            condition("Ready", "True", "KubeletReady"),
        ],
        "addresses": [{"type": "Hostname", "address": name}, {"type": "InternalIP", "address": address(name)}],
        "nodeInfo": {
            "architecture": "amd64", "operatingSystem": "linux", "osImage": "simulated", "kernelVersion": "simulated",
            "machineID": name, "systemUUID": name, "bootID": name, "kubeletVersion": "v1.37.0",
            "kubeProxyVersion": "", "containerRuntimeVersion": "simulated://1",
        },
    })
}

/// An address from the range for benchmarks (RFC 2544): nobody's machine is there.
pub(crate) fn address(name: &str) -> String {
    let index: u32 = name.rsplit('-').next().and_then(|n| n.parse().ok()).unwrap_or(0);
    format!("198.18.{}.{}", (index >> 8) & 0xff, index & 0xff)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(observed: Observed, now: i64, steps: Vec<Step>) {
        let outcome = SimulatedNode::reconcile(&Desired { node: node_object(0) }, &observed, Time::from_secs(now));
        assert_eq!(outcome.steps, steps);
    }

    #[test]
    fn a_node_becomes_ready_and_stays_alive() {
        let now = Time::from_secs(100);
        check(
            Observed { is_ready: false, has_lease: false, renewed: None },
            100,
            vec![Step::BecomeReady(now), Step::CreateLease(now)],
        );
        check(Observed { is_ready: true, has_lease: true, renewed: Some(Time::from_secs(95)) }, 100, vec![]);
        check(
            Observed { is_ready: true, has_lease: true, renewed: Some(Time::from_secs(90)) },
            100,
            vec![Step::Renew(now)],
        );
    }
}
