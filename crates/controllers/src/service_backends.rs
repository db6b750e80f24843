//! The pods behind a Service, as the two controllers of endpoints see them.

use brain::facts::{Pod, Seen};
use brain::{Object, View};
use meta::labels::{LabelMap, Selector};
use meta::{ObjectExt, int_or_string::IntOrString};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use store::{Event, Key};

/// Where Services are stored.
pub(crate) const SERVICES: &str = "core/services";
const NODES: &str = "core/nodes";
const ZONE: &str = "topology.kubernetes.io/zone";

/// A Service that selects pods.
#[derive(Clone, Debug, PartialEq, Default)]
pub(crate) struct Service {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub labels: Map<String, Value>,
    pub is_headless: bool,
    pub publishes_not_ready: bool,
    /// `IPv4`, `IPv6`: the families it is served in, the first one preferred.
    pub families: Vec<&'static str>,
    pub has_ports: bool,
}

/// A port that a pod serves a Service on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Port {
    pub name: String,
    pub number: i64,
    pub protocol: String,
    pub app_protocol: Option<String>,
}

impl Port {
    /// As `Endpoints` and `EndpointSlice` write it. They differ only in that a slice keeps an empty name.
    pub fn to_value(&self, keeps_empty_name: bool) -> Value {
        let mut port = json!({"port": self.number, "protocol": self.protocol});
        if keeps_empty_name || !self.name.is_empty() {
            port.put(&["name"], self.name.as_str());
        }
        if let Some(app_protocol) = &self.app_protocol {
            port.put(&["appProtocol"], app_protocol.as_str());
        }
        port
    }
}

/// One pod behind a Service.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Backend {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub addresses: Vec<String>,
    pub node: String,
    pub zone: Option<String>,
    /// The name it is known by under a headless Service.
    pub hostname: Option<String>,
    pub is_ready: bool,
    pub is_terminating: bool,
    pub ports: Vec<Port>,
}

impl Backend {
    /// Its addresses of one family.
    pub fn addresses_in<'b>(&'b self, family: &'b str) -> impl Iterator<Item = &'b str> {
        self.addresses.iter().map(String::as_str).filter(move |address| family_of(address) == family)
    }

    /// A reference to the pod.
    pub fn target_ref(&self) -> Value {
        json!({"kind": "Pod", "namespace": self.namespace, "name": self.name, "uid": self.uid})
    }
}

/// The family of an address.
pub(crate) fn family_of(address: &str) -> &'static str {
    if address.contains(':') { "IPv6" } else { "IPv4" }
}

/// The Service and its pods, in order of name; `None` where endpoints are not a controller's business (no selector,
/// an external name).
pub(crate) fn observe(view: &View, object: &Object) -> Option<(Service, Vec<Backend>)> {
    let tree = object.tree();
    let selector = tree.map(&["spec", "selector"]).filter(|pairs| !pairs.is_empty())?;
    if tree.text(&["spec", "type"]) == "ExternalName" {
        return None;
    }
    let (key, value) = selector.iter().next()?;
    let (key, value) = (key.clone(), value.as_str().unwrap_or_default().to_owned());
    let selector = Selector::from_map(selector);
    let service = service(&tree);
    let is_behind = |pod: &Object| selector.matches(&pod.meta().labels);
    let pods = view.pods_labelled(&service.namespace, &key, &value).into_iter();
    let pods = pods.filter(is_behind).map(Seen::<Pod>::from);
    let backends = pods.filter_map(|pod| backend(view, &tree, &service, &pod)).collect();
    Some((service, backends))
}

fn service(tree: &Value) -> Service {
    let declared = tree.items(&["spec", "ipFamilies"]).iter().filter_map(Value::as_str);
    let mut families: Vec<&'static str> = declared.map(|f| if f == "IPv6" { "IPv6" } else { "IPv4" }).collect();
    if families.is_empty() {
        families.push(family_of(tree.text(&["spec", "clusterIP"])));
    }
    Service {
        namespace: tree.namespace().to_owned(),
        name: tree.name().to_owned(),
        uid: tree.uid().to_owned(),
        labels: tree.map(&["metadata", "labels"]).cloned().unwrap_or_default(),
        is_headless: tree.text(&["spec", "clusterIP"]) == "None",
        publishes_not_ready: tree.flag(&["spec", "publishNotReadyAddresses"]),
        families,
        has_ports: !tree.items(&["spec", "ports"]).is_empty(),
    }
}

/// `None`: the pod has ended or has no address yet.
fn backend(view: &View, tree: &Value, service: &Service, pod: &Seen<Pod>) -> Option<Backend> {
    let status = &pod.facts.status;
    let mut addresses: Vec<String> = status.pod_ips.iter().map(|ip| ip.ip.to_string()).collect();
    if addresses.is_empty() && !status.pod_ip.is_empty() {
        addresses.push(status.pod_ip.to_string());
    }
    if pod.facts.is_finished() || addresses.is_empty() {
        return None;
    }
    let spec = &pod.facts.spec;
    let named = !spec.hostname.is_empty() && *spec.subdomain == *service.name;
    let ports = tree.items(&["spec", "ports"]).iter().filter_map(|port| port_of(port, &pod.facts));
    Some(Backend {
        namespace: service.namespace.clone(),
        name: pod.name().to_owned(),
        uid: pod.uid().to_owned(),
        addresses,
        node: spec.node_name.to_string(),
        zone: view
            .get(NODES, "", &spec.node_name)
            .and_then(|node| node.meta().labels.get(ZONE).map(|zone| zone.to_string())),
        hostname: named.then(|| spec.hostname.to_string()),
        is_ready: pod.facts.is_ready(),
        is_terminating: pod.is_deleting(),
        ports: ports.collect(),
    })
}

/// The port of a pod that a Service's port leads to; `None` when the pod has none of that name.
fn port_of(port: &Value, pod: &Pod) -> Option<Port> {
    let protocol = match port.text(&["protocol"]) {
        "" => "TCP",
        protocol => protocol,
    };
    let number = match port.at(&["targetPort"]).and_then(IntOrString::from_value) {
        None => port.int(&["port"])?,
        Some(IntOrString::Int(0)) => port.int(&["port"])?,
        Some(IntOrString::Int(number)) => i64::from(number),
        Some(IntOrString::Text(name)) => {
            let sidecars = pod.spec.init_containers.iter().filter(|container| container.is_sidecar());
            let mut ports = pod.spec.containers.iter().chain(sidecars).flat_map(|container| &container.ports);
            let is_it = |p: &&brain::facts::ContainerPort| *p.name == *name && same_protocol(&p.protocol, protocol);
            i64::from(ports.find(is_it)?.container_port)
        }
    };
    Some(Port {
        name: port.text(&["name"]).to_owned(),
        number,
        protocol: protocol.to_owned(),
        app_protocol: port.at(&["appProtocol"]).and_then(Value::as_str).map(str::to_owned),
    })
}

fn same_protocol(declared: &str, wanted: &str) -> bool {
    declared == wanted || (declared.is_empty() && wanted == "TCP")
}

/// What the selection of pods needs of a Service.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Selecting {
    spec: SelectingSpec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SelectingSpec {
    selector: LabelMap,
}

/// The Services that select the pod as it is, or did as it was.
pub(crate) fn pod_roots(view: &View, event: &Event) -> Vec<Key> {
    let new = Object::new(event.key.clone(), event.entry.clone());
    let old = event.previous.clone().map(|entry| Object::new(event.key.clone(), entry));
    let selects = |service: &Object| {
        let read = |bytes: &[u8]| serde_json::from_slice::<Selecting>(bytes).unwrap_or_default();
        let selector = &service.project(read).spec.selector;
        let matches = |pod: &Object| selector.iter().all(|(key, value)| pod.meta().labels.get(key) == Some(value));
        !selector.is_empty() && old.iter().chain([&new]).any(matches)
    };
    let services = view.list(SERVICES, &new.meta().namespace).into_iter();
    services.filter(selects).map(|service| service.key).collect()
}

/// The Service of the same name.
pub(crate) fn namesake_roots(_: &View, event: &Event) -> Vec<Key> {
    vec![Key::new(SERVICES, event.key.item.clone())]
}
