//! A Service with a selector has Endpoints of the same name, which list the addresses of its pods.
//!
//! Owns: subsets and labels of such Endpoints and their over-capacity annotation. Endpoints of Services without
//! selector are the user's and are never touched. At rest: the subsets are those of the pods, in upstream's order.
//! Endpoints that this controller made go with their Service.

use std::collections::{BTreeMap, BTreeSet};

use brain::{Action, Brain, Def, Note, Outcome, Resource, View, Watch};
use meta::{ObjectExt, Time};
use serde_json::{Map, Value, json};
use store::Key;

use crate::service_backends::{self, Backend, Port, SERVICES, Service, namesake_roots, pod_roots};
use crate::target::Target;
use crate::wakes;

const ENDPOINTS: Resource = Resource::new("", "v1", "endpoints");
const COLLECTION: &str = "core/endpoints";
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const MANAGER: &str = "endpoint-controller";
const HEADLESS: &str = "service.kubernetes.io/headless";
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// Upstream's bound on one object; what is beyond is found in slices.
const ADDRESSES_MAX: usize = 1_000;

/// The controller.
pub struct EndpointsController;

/// What the Endpoints shall be; `None` without a Service.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    wanted: Option<Value>,
}

/// What stands there.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    existing: Option<(Target, Value)>,
}

/// Every effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Makes the Endpoints.
    Create(Value),
    /// Writes subsets and labels.
    Update(Value),
    /// Removes those of a Service that is gone.
    Delete,
}

/// Every reason: none, the objects say it all.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {}

impl Brain for EndpointsController {
    const DEF: Def = Def {
        name: "endpoint",
        root: Resource::new("", "v1", "services"),
        root_kind: "Service",
        watches: &[
            Watch { collection: SERVICES, roots: |_, event| vec![event.key.clone()] },
            Watch { collection: COLLECTION, roots: namesake_roots },
            Watch { collection: "core/pods", roots: pod_roots },
        ],
        resync: None,
    };
    type Desired = Desired;
    type Observed = Observed;
    type Step = Step;
    type Why = Why;

    fn observe(view: &View, key: &Key, _: Time) -> Option<(Desired, Observed)> {
        let wanted = match view.get_key(key) {
            Some(service) => {
                let (service, backends) = service_backends::observe(view, &service)?;
                Some(wanted(&service, &backends))
            }
            None => None,
        };
        let existing = view.get_key(&Key::new(COLLECTION, key.item.clone()));
        Some((Desired { wanted }, Observed { existing: existing.map(|o| (Target::of(&o), o.tree())) }))
    }

    fn absent_roots(view: &View) -> Vec<Key> {
        wakes::of_absent(view, COLLECTION, namesake_roots)
    }

    fn reconcile(desired: &Desired, observed: &Observed, _: Time) -> Outcome<Step, Why> {
        match (&desired.wanted, &observed.existing) {
            (None, Some((_, existing))) if existing.label(MANAGED_BY) == Some(MANAGER) => {
                Outcome::rest().step(Step::Delete)
            }
            (None, _) => Outcome::rest(),
            (Some(wanted), None) => Outcome::rest().step(Step::Create(wanted.clone())),
            (Some(wanted), Some((_, existing))) => {
                let updated = updated(existing, wanted);
                if updated == *existing { Outcome::rest() } else { Outcome::rest().step(Step::Update(updated)) }
            }
        }
    }

    fn check(_: &Desired, observed: &Observed, outcome: &Outcome<Step, Why>) -> Result<(), String> {
        let creates = outcome.steps.iter().any(|step| matches!(step, Step::Create(_)));
        match creates == observed.existing.is_none() || outcome.steps.is_empty() {
            true => Ok(()),
            false => Err("Endpoints that exist are made again".to_owned()),
        }
    }

    fn perform(step: Step, _: &Desired, observed: &Observed) -> Action {
        match (step, &observed.existing) {
            (Step::Create(object), _) => {
                Action::Create { resource: ENDPOINTS, namespace: object.namespace().to_owned(), object }
            }
            (Step::Update(object), _) => Action::Update { resource: ENDPOINTS, subresource: "", object },
            (Step::Delete, Some((target, _))) => target.delete(ENDPOINTS, None),
            // Only what exists is deleted: nothing to name means nothing to delete.
            (Step::Delete, None) => Target::default().delete(ENDPOINTS, None),
        }
    }

    fn explain(why: Why) -> Note {
        match why {}
    }
}

/// What stands there, with ours in place.
fn updated(existing: &Value, wanted: &Value) -> Value {
    let mut object = existing.clone();
    put_or_remove(&mut object, &["subsets"], wanted.at(&["subsets"]));
    put_or_remove(&mut object, &["metadata", "labels"], wanted.at(&["metadata", "labels"]));
    let over = ["metadata", "annotations", OVER_CAPACITY];
    if object.at(&over) != wanted.at(&over) {
        put_or_remove(&mut object, &over, wanted.at(&over));
    }
    object
}

fn put_or_remove(object: &mut Value, path: &[&str], value: Option<&Value>) {
    match value {
        Some(value) => object.put(path, value.clone()),
        None => drop(object.remove(path)),
    }
}

fn wanted(service: &Service, backends: &[Backend]) -> Value {
    let (subsets, is_truncated) = subsets(service, backends);
    let mut labels: Map<String, Value> = service.labels.clone();
    labels.remove(HEADLESS);
    if service.is_headless {
        labels.insert(HEADLESS.to_owned(), "".into());
    }
    labels.insert(MANAGED_BY.to_owned(), MANAGER.into());
    let mut object = json!({"apiVersion": "v1", "kind": "Endpoints",
        "metadata": {"name": service.name, "namespace": service.namespace, "labels": labels}});
    if !subsets.is_empty() {
        object.put(&["subsets"], subsets);
    }
    if is_truncated {
        object.put(&["metadata", "annotations", OVER_CAPACITY], "truncated");
    }
    object
}

/// An address of a subset. Ready ones come first when there are too many; the order of addresses is upstream's.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Address<'b> {
    ip: &'b str,
    uid: &'b str,
    is_ready: bool,
    index: usize,
}

/// The subsets, and whether addresses were left out.
fn subsets(service: &Service, backends: &[Backend]) -> (Vec<Value>, bool) {
    let family = service.families.first().copied().unwrap_or("IPv4");
    let mut addresses: Vec<Address> = Vec::new();
    for (index, backend) in backends.iter().enumerate() {
        let is_listed = !backend.is_terminating || service.publishes_not_ready;
        let Some(ip) = backend.addresses_in(family).next().filter(|_| is_listed) else { continue };
        let is_ready = backend.is_ready || service.publishes_not_ready;
        addresses.push(Address { ip, uid: &backend.uid, is_ready, index });
    }
    let is_truncated = addresses.len() > ADDRESSES_MAX;
    if is_truncated {
        addresses.sort_by_key(|address| !address.is_ready);
        addresses.truncate(ADDRESSES_MAX);
    }
    // Ports with the same addresses share a subset.
    let mut by_port: BTreeMap<Option<&Port>, BTreeSet<Address>> = BTreeMap::new();
    for address in &addresses {
        let ports = &backends[address.index].ports;
        for port in ports {
            by_port.entry(Some(port)).or_default().insert(address.clone());
        }
        if service.is_headless && !service.has_ports {
            by_port.entry(None).or_default().insert(address.clone());
        }
    }
    let mut by_addresses: BTreeMap<BTreeSet<Address>, Vec<&Port>> = BTreeMap::new();
    for (port, addresses) in by_port {
        by_addresses.entry(addresses).or_default().extend(port);
    }
    (by_addresses.iter().map(|(addresses, ports)| subset(addresses, ports, backends)).collect(), is_truncated)
}

fn subset(addresses: &BTreeSet<Address>, ports: &[&Port], backends: &[Backend]) -> Value {
    let mut subset = json!({});
    for (field, is_ready) in [("addresses", true), ("notReadyAddresses", false)] {
        let of_state = addresses.iter().filter(|address| address.is_ready == is_ready);
        let listed: Vec<Value> = of_state.map(|a| address_value(a.ip, &backends[a.index])).collect();
        if !listed.is_empty() {
            subset.put(&[field], listed);
        }
    }
    if !ports.is_empty() {
        subset.put(&["ports"], ports.iter().map(|port| port.to_value(false)).collect::<Vec<_>>());
    }
    subset
}

fn address_value(ip: &str, backend: &Backend) -> Value {
    let mut address = json!({"ip": ip, "targetRef": backend.target_ref()});
    if !backend.node.is_empty() {
        address.put(&["nodeName"], backend.node.as_str());
    }
    if let Some(hostname) = &backend.hostname {
        address.put(&["hostname"], hostname.as_str());
    }
    address
}

#[cfg(test)]
mod tests;
