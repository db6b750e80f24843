//! A Service with a selector has EndpointSlices that list the addresses of its pods, a hundred to a slice.
//!
//! Owns: the slices labelled `endpointslice.kubernetes.io/managed-by: endpointslice-controller.k8s.io`, whole. Pods that
//! are being deleted stay listed as terminating until they have ended, so that connections drain. At rest: every
//! endpoint stands in exactly one slice of its ports and family, and a family without endpoints has one empty slice.
//! Never touches slices of other managers. Slices go with their Service, which owns them.

use std::collections::BTreeMap;

use brain::{Action, Brain, Def, Note, Outcome, Resource, View, Watch};
use meta::{ObjectExt, Time};
use serde_json::{Value, json};
use store::{Event, Key};

use crate::service_backends::{self, Backend, Port, SERVICES, Service, pod_roots};
use crate::slice_plan::{COLLECTION, Change, Group, MANAGED_BY, Parent, SERVICE_NAME, Slice, existing, plan};

pub(crate) const MANAGER: &str = "endpointslice-controller.k8s.io";
const HEADLESS: &str = "service.kubernetes.io/headless";

/// The controller.
pub struct EndpointSliceController;

/// What the slices shall hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    parent: Parent,
    groups: Vec<Group>,
}

/// The slices.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    slices: Vec<Slice>,
}

/// Every effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Step(Change);

/// Every reason: none, the objects say it all.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {}

impl Brain for EndpointSliceController {
    const DEF: Def = Def {
        name: "endpointslice",
        root: Resource::new("", "v1", "services"),
        root_kind: "Service",
        watches: &[
            Watch { collection: SERVICES, roots: |_, event| vec![event.key.clone()] },
            Watch { collection: COLLECTION, roots: slice_roots },
            Watch { collection: "core/pods", roots: pod_roots },
        ],
        resync: None,
    };
    type Desired = Desired;
    type Observed = Observed;
    type Step = Step;
    type Why = Why;

    fn observe(view: &View, key: &Key, _: Time) -> Option<(Desired, Observed)> {
        let object = view.get_key(key)?;
        if object.meta().is_deleting() {
            return None;
        }
        let (service, backends) = service_backends::observe(view, &object)?;
        let slices = existing(view, &service.namespace, &service.name, MANAGER);
        let desired = Desired { parent: parent(&service), groups: groups(&service, &backends) };
        Some((desired, Observed { slices }))
    }

    fn reconcile(desired: &Desired, observed: &Observed, _: Time) -> Outcome<Step, Why> {
        let steps = plan(&desired.parent, &desired.groups, &observed.slices).into_iter().map(Step).collect();
        Outcome { steps, ..Outcome::rest() }
    }

    fn check(desired: &Desired, _: &Observed, outcome: &Outcome<Step, Why>) -> Result<(), String> {
        crate::endpoint_slice::check_changes(&desired.groups, outcome.steps.iter().map(|step| &step.0))
    }

    fn perform(Step(change): Step, _: &Desired, _: &Observed) -> Action {
        change.perform()
    }

    fn explain(why: Why) -> Note {
        match why {}
    }
}

/// No slice is fuller than allowed, and none is written with what is not wanted.
pub(crate) fn check_changes<'c>(groups: &[Group], changes: impl Iterator<Item = &'c Change>) -> Result<(), String> {
    let wanted: usize = groups.iter().map(|group| group.endpoints.len()).sum();
    let mut written = 0;
    for change in changes {
        let (Change::Create(object) | Change::Update(object)) = change else { continue };
        let count = object.items(&["endpoints"]).len();
        written += count;
        if count > crate::slice_plan::ENDPOINTS_MAX {
            return Err(format!("{count} endpoints in one slice"));
        }
    }
    if written > wanted { Err("an endpoint is written twice".to_owned()) } else { Ok(()) }
}

fn parent(service: &Service) -> Parent {
    let mut labels = service.labels.clone();
    labels.remove(HEADLESS);
    if service.is_headless {
        labels.insert(HEADLESS.to_owned(), "".into());
    }
    labels.insert(SERVICE_NAME.to_owned(), service.name.as_str().into());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.into());
    Parent {
        namespace: service.namespace.clone(),
        name: service.name.clone(),
        uid: service.uid.clone(),
        reference: json!({"apiVersion": "v1", "kind": "Service", "name": service.name, "uid": service.uid,
            "controller": true, "blockOwnerDeletion": true}),
        labels,
        annotations: Default::default(),
    }
}

fn groups(service: &Service, backends: &[Backend]) -> Vec<Group> {
    let mut groups = Vec::new();
    for family in &service.families {
        let mut by_ports: BTreeMap<&[Port], BTreeMap<String, Value>> = BTreeMap::new();
        for backend in backends {
            let addresses: Vec<&str> = backend.addresses_in(family).take(1).collect();
            if !addresses.is_empty() {
                let endpoint = endpoint(service, backend, &addresses);
                by_ports.entry(&backend.ports).or_default().insert(backend.uid.clone(), endpoint);
            }
        }
        if by_ports.is_empty() {
            by_ports.insert(&[], BTreeMap::new());
        }
        groups.extend(by_ports.into_iter().map(|(ports, endpoints)| Group {
            family,
            ports: ports.iter().map(|port| port.to_value(true)).collect::<Vec<_>>().into(),
            endpoints,
        }));
    }
    groups
}

fn endpoint(service: &Service, backend: &Backend, addresses: &[&str]) -> Value {
    let ready = service.publishes_not_ready || (backend.is_ready && !backend.is_terminating);
    let mut endpoint = json!({
        "addresses": addresses,
        "conditions": {"ready": ready, "serving": backend.is_ready, "terminating": backend.is_terminating},
        "targetRef": backend.target_ref(),
    });
    let optional =
        [("nodeName", Some(&backend.node)), ("zone", backend.zone.as_ref()), ("hostname", backend.hostname.as_ref())];
    for (field, value) in optional {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            endpoint.put(&[field], value.as_str());
        }
    }
    endpoint
}

fn slice_roots(_: &View, event: &Event) -> Vec<Key> {
    services_of_slice(event, MANAGER)
}

/// The Services that a manager's slice names, before and after a change.
pub(crate) fn services_of_slice(event: &Event, manager: &str) -> Vec<Key> {
    let entries = event.previous.iter().chain([&event.entry]);
    let objects = entries.map(|entry| view::Object::new(event.key.clone(), entry.clone()));
    let key = |object: view::Object| {
        let labels = &object.meta().labels;
        let service = labels.get(SERVICE_NAME).filter(|_| labels.get(MANAGED_BY).is_some_and(|m| &**m == manager))?;
        Some(Key::new(SERVICES, format!("{}/{service}", object.meta().namespace)))
    };
    objects.filter_map(key).collect()
}

#[cfg(test)]
mod tests;
