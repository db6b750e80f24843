//! What a pod asks for. Also read from the pod templates of workloads.

use meta::labels::LabelMap;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{Affinity, LabelSelector, Quantities, Requests, Resources, Toleration};

/// `spec` of a pod or pod template.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// The node it is bound to; empty when it is not.
    pub node_name: Box<str>,
    /// Which scheduler binds it.
    pub scheduler_name: Box<str>,
    /// Its priority; 0 when absent.
    pub priority: i32,
    /// Its priority class.
    pub priority_class_name: Box<str>,
    /// `PreemptLowerPriority` (also when empty) or `Never`.
    pub preemption_policy: Box<str>,
    /// `Always` (also when empty), `OnFailure` or `Never`.
    pub restart_policy: Box<str>,
    /// Shares the node's network.
    pub host_network: bool,
    /// Its host name.
    pub hostname: Box<str>,
    /// Its subdomain.
    pub subdomain: Box<str>,
    /// Its runtime class.
    pub runtime_class_name: Box<str>,
    /// Its service account.
    pub service_account_name: Box<str>,
    /// Node labels it needs.
    pub node_selector: LabelMap,
    /// Where it wants to be.
    pub affinity: Option<Box<Affinity>>,
    /// What it tolerates.
    pub tolerations: Box<[Toleration]>,
    /// How it wants to be spread.
    pub topology_spread_constraints: Box<[TopologySpreadConstraint]>,
    /// What must be lifted before it is scheduled.
    pub scheduling_gates: Box<[Named]>,
    /// Containers that run before (or, restarted always, beside) the others.
    pub init_containers: Box<[Container]>,
    /// Its containers.
    pub containers: Box<[Container]>,
    /// Resources of the pod as a whole.
    pub resources: Option<Box<Resources>>,
    /// What running any pod of its class costs.
    pub overhead: Quantities,
    /// Its volumes.
    pub volumes: Box<[Volume]>,
    /// Resource claims.
    pub resource_claims: Box<[Named]>,
    /// Seconds between the first signal and the last.
    pub termination_grace_period_seconds: Option<i64>,
    /// Seconds it may run.
    pub active_deadline_seconds: Option<i64>,
}

/// One container.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// Its name.
    pub name: Box<str>,
    /// Its image.
    pub image: Box<str>,
    /// Its ports.
    pub ports: Box<[ContainerPort]>,
    /// Its resources.
    pub resources: Resources,
    /// `Always` makes an init container a sidecar.
    pub restart_policy: Box<str>,
}

/// One port.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerPort {
    /// Its name.
    pub name: Box<str>,
    /// Its number in the container.
    pub container_port: i32,
    /// Its number on the node; 0 for none.
    pub host_port: i32,
    /// The node's address it is bound to; empty for all.
    #[serde(rename = "hostIP")]
    pub host_ip: Box<str>,
    /// `TCP` (also when empty), `UDP` or `SCTP`.
    pub protocol: Box<str>,
}

/// One volume.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Volume {
    /// Its name.
    pub name: Box<str>,
    /// The claim it mounts.
    pub persistent_volume_claim: Option<ClaimSource>,
    /// Whether it has a claim of its own, `<pod>-<volume>`.
    #[serde(deserialize_with = "is_there")]
    pub ephemeral: bool,
}

/// A claim that a volume mounts.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimSource {
    /// The claim's name.
    pub claim_name: Box<str>,
    /// Mounted for reading only.
    pub read_only: bool,
}

/// Something of which only the name matters.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Named {
    /// The name.
    pub name: Box<str>,
}

/// One constraint on spreading.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopologySpreadConstraint {
    /// The most that two domains may differ.
    pub max_skew: i32,
    /// The node label whose values are the domains.
    pub topology_key: Box<str>,
    /// `DoNotSchedule` or `ScheduleAnyway`.
    pub when_unsatisfiable: Box<str>,
    /// Which pods are counted.
    pub label_selector: LabelSelector,
    /// The least number of domains.
    pub min_domains: Option<i32>,
    /// `Honor` (also when empty) or `Ignore`.
    pub node_affinity_policy: Box<str>,
    /// `Honor` or `Ignore` (also when empty).
    pub node_taints_policy: Box<str>,
    /// Labels of the pod itself that are added to the selector.
    pub match_label_keys: Box<[Box<str>]>,
}

fn is_there<'de, D: serde::Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    Ok(Option::<IgnoredAny>::deserialize(from)?.is_some())
}

impl Container {
    /// Whether this init container keeps running beside the others.
    pub fn is_sidecar(&self) -> bool {
        &*self.restart_policy == "Always"
    }
}

impl PodSpec {
    /// What the pod needs on its node: the containers together with the sidecars, or the largest moment of the
    /// start if that is more; the pod's own resources where it states them; and the overhead.
    pub fn requests(&self) -> Requests {
        let mut total = self.sum(|container| container.resources.requests.whole());
        if let Some(pod) = &self.resources {
            pod.requests.whole().each(|name, amount| {
                if pod.requests.get(name).is_some() {
                    total.set(name, amount);
                }
            });
        }
        total.add(&self.overhead.whole());
        total
    }

    /// What the containers need together, each as much as `own` says.
    pub(super) fn sum(&self, own: impl Fn(&Container) -> Requests) -> Requests {
        let (mut sidecars, mut peak) = (Requests::default(), Requests::default());
        for container in &self.init_containers {
            let own = own(container);
            if container.is_sidecar() {
                sidecars.add(&own);
                peak.raise_to(&sidecars);
            } else {
                let mut moment = sidecars.clone();
                moment.add(&own);
                peak.raise_to(&moment);
            }
        }
        let mut total = sidecars;
        self.containers.iter().for_each(|container| total.add(&own(container)));
        total.raise_to(&peak);
        total
    }

    /// The ports it takes on its node: `(address, protocol, port)`.
    pub fn host_ports(&self) -> impl Iterator<Item = (&str, &str, i32)> {
        let sidecars = self.init_containers.iter().filter(|container| container.is_sidecar());
        sidecars.chain(&self.containers).flat_map(|container| &container.ports).filter(|port| port.host_port > 0).map(
            |port| {
                let address = if port.host_ip.is_empty() { "0.0.0.0" } else { &*port.host_ip };
                let protocol = if port.protocol.is_empty() { "TCP" } else { &*port.protocol };
                (address, protocol, port.host_port)
            },
        )
    }

    /// Whether the pod may be on a node with these labels and this name, by its selector and its affinity.
    pub fn selects_node(&self, labels: &LabelMap, name: &str) -> bool {
        let required = self.affinity.as_deref().and_then(|affinity| affinity.node_affinity.required.as_ref());
        self.node_selector.iter().all(|(key, value)| labels.get(key) == Some(value))
            && required.is_none_or(|selector| selector.matches(labels, name))
    }

    /// The node that the affinity names by `metadata.name`, as a DaemonSet's pods do.
    pub fn node_named_by_affinity(&self) -> Option<&str> {
        let required = self.affinity.as_deref()?.node_affinity.required.as_ref()?;
        let fields = required.node_selector_terms.iter().flat_map(|term| &term.match_fields);
        let names = |r: &&super::NodeSelectorRequirement| {
            &*r.key == "metadata.name" && &*r.operator == "In" && r.values.len() == 1
        };
        fields.filter(names).find_map(|requirement| requirement.values.first()).map(|name| &**name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn spec(value: Value) -> PodSpec {
        serde_json::from_value(value).expect("reads")
    }

    #[test]
    fn requests_are_the_larger_of_start_and_run() {
        let cpu = |amount: &str| json!({"resources": {"requests": {"cpu": amount, "memory": "1Mi"}}});
        let sidecar = |amount: &str| json!({"restartPolicy": "Always", "resources": {"requests": {"cpu": amount}}});
        let check = |value: Value, milli: i64| assert_eq!(spec(value.clone()).requests().cpu_milli, milli, "{value}");
        check(json!({"containers": [cpu("100m"), cpu("0.2")]}), 300);
        check(json!({"initContainers": [cpu("1")], "containers": [cpu("100m")]}), 1000);
        check(json!({"initContainers": [sidecar("1"), cpu("1")], "containers": [cpu("100m")]}), 2000);
        check(json!({"initContainers": [cpu("500m"), sidecar("1")], "containers": [cpu("100m")]}), 1100);
        check(json!({"containers": [cpu("1")], "overhead": {"cpu": "250m"}}), 1250);
        check(json!({"containers": [cpu("1")], "resources": {"requests": {"cpu": "3"}}}), 3000);
        let memory = spec(json!({"containers": [cpu("1"), cpu("1")]})).requests().memory;
        assert_eq!(memory, 2 << 20);
    }

    #[test]
    fn host_ports_and_named_nodes() {
        let spec = spec(json!({
            "containers": [{"ports": [{"containerPort": 80}, {"containerPort": 53, "hostPort": 53, "protocol": "UDP"}]}],
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}}}
        }));
        assert_eq!(spec.host_ports().collect::<Vec<_>>(), [("0.0.0.0", "UDP", 53)]);
        assert_eq!(spec.node_named_by_affinity(), Some("n1"));
        assert!(spec.selects_node(&LabelMap::default(), "n1") && !spec.selects_node(&LabelMap::default(), "n2"));
    }
}
