//! Endpoints that a user writes for a Service without selector are mirrored into EndpointSlices, which is what proxies
//! read.
//!
//! Owns: the slices labelled `endpointslice.kubernetes.io/managed-by: endpointslicemirroring-controller.k8s.io`. Nothing
//! is mirrored that has the label `endpointslice.kubernetes.io/skip-mirror: "true"`, is a lock of an election, or
//! belongs to a Service with a selector or to none. At rest: the slices hold what the Endpoints hold, at most a
//! thousand addresses a subset.

use std::collections::BTreeMap;

use brain::{Action, Brain, Def, Note, Outcome, Resource, View, Watch};
use meta::{ObjectExt, Time};
use serde_json::{Value, json};
use store::{Event, Key};

use crate::endpoint_slice::{check_changes, services_of_slice};
use crate::service_backends::{SERVICES, family_of, namesake_roots};
use crate::slice_plan::{COLLECTION, Change, Group, MANAGED_BY, Parent, SERVICE_NAME, Slice, existing, identity, plan};
use crate::wakes;

const MANAGER: &str = "endpointslicemirroring-controller.k8s.io";
const ENDPOINTS: &str = "core/endpoints";
const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";
const ELECTION: &str = "control-plane.alpha.kubernetes.io/leader";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Upstream's bound on what is mirrored of one subset.
const ADDRESSES_MAX: usize = 1_000;

/// The controller.
pub struct EndpointSliceMirroringController;

/// What shall be mirrored; `None` when nothing (any more).
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    mirrored: Option<(Parent, Vec<Group>)>,
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

impl Brain for EndpointSliceMirroringController {
    const DEF: Def = Def {
        name: "endpointslicemirroring",
        root: Resource::new("", "v1", "services"),
        root_kind: "Service",
        watches: &[
            Watch { collection: SERVICES, roots: |_, event| vec![event.key.clone()] },
            Watch { collection: ENDPOINTS, roots: namesake_roots },
            Watch { collection: COLLECTION, roots: slice_roots },
        ],
        resync: None,
    };
    type Desired = Desired;
    type Observed = Observed;
    type Step = Step;
    type Why = Why;

    fn observe(view: &View, key: &Key, _: Time) -> Option<(Desired, Observed)> {
        let (namespace, name) = key.item.split_once('/')?;
        let slices = existing(view, namespace, name, MANAGER);
        let service = view.get_key(key).map(|service| service.tree());
        let is_users = service.is_some_and(|s| s.map(&["spec", "selector"]).is_none_or(|pairs| pairs.is_empty()));
        let endpoints = view.get(ENDPOINTS, namespace, name).map(|endpoints| endpoints.tree());
        let mirrored = endpoints.filter(|endpoints| is_users && is_mirrored(endpoints));
        let mirrored = mirrored.map(|endpoints| (parent(&endpoints), groups(&endpoints)));
        Some((Desired { mirrored }, Observed { slices }))
    }

    fn absent_roots(view: &View) -> Vec<Key> {
        wakes::of_absent(view, COLLECTION, slice_roots)
    }

    fn reconcile(desired: &Desired, observed: &Observed, _: Time) -> Outcome<Step, Why> {
        let steps = match &desired.mirrored {
            Some((parent, groups)) => plan(parent, groups, &observed.slices).into_iter().map(Step).collect(),
            None => observed.slices.iter().map(|slice| Step(Change::Delete(slice.target.clone()))).collect(),
        };
        Outcome { steps, ..Outcome::rest() }
    }

    fn check(desired: &Desired, _: &Observed, outcome: &Outcome<Step, Why>) -> Result<(), String> {
        let groups = desired.mirrored.as_ref().map_or(&[][..], |(_, groups)| groups);
        check_changes(groups, outcome.steps.iter().map(|step| &step.0))
    }

    fn perform(Step(change): Step, _: &Desired, _: &Observed) -> Action {
        change.perform()
    }

    fn explain(why: Why) -> Note {
        match why {}
    }
}

fn is_mirrored(endpoints: &Value) -> bool {
    endpoints.label(SKIP) != Some("true") && endpoints.annotation(ELECTION).is_none() && !endpoints.is_deleting()
}

fn parent(endpoints: &Value) -> Parent {
    let mut labels = endpoints.map(&["metadata", "labels"]).cloned().unwrap_or_default();
    labels.insert(SERVICE_NAME.to_owned(), endpoints.name().into());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.into());
    let mut annotations = endpoints.map(&["metadata", "annotations"]).cloned().unwrap_or_default();
    annotations.remove(LAST_APPLIED);
    Parent {
        namespace: endpoints.namespace().to_owned(),
        name: endpoints.name().to_owned(),
        uid: endpoints.uid().to_owned(),
        reference: json!({"apiVersion": "v1", "kind": "Endpoints", "name": endpoints.name(), "uid": endpoints.uid(),
            "controller": true, "blockOwnerDeletion": true}),
        labels,
        annotations,
    }
}

/// Subsets with the same ports share slices.
fn groups(endpoints: &Value) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for subset in endpoints.items(&["subsets"]) {
        let ports = ports(subset);
        for (family, endpoint) in addresses(subset) {
            let place = groups.iter().position(|group| group.family == family && group.ports == ports);
            let group = match place {
                Some(index) => &mut groups[index],
                None => {
                    groups.push(Group { family, ports: ports.clone(), endpoints: BTreeMap::new() });
                    let last = groups.len() - 1;
                    &mut groups[last]
                }
            };
            group.endpoints.entry(identity(&endpoint)).or_insert(endpoint);
        }
    }
    groups
}

fn addresses(subset: &Value) -> Vec<(&'static str, Value)> {
    let of = |field, ready| subset.items(&[field]).iter().map(move |address| (address, ready));
    let all = of("addresses", true).chain(of("notReadyAddresses", false)).take(ADDRESSES_MAX);
    all.map(|(address, ready)| (family_of(address.text(&["ip"])), endpoint(address, ready))).collect()
}

fn endpoint(address: &Value, ready: bool) -> Value {
    let mut endpoint = json!({"addresses": [address.text(&["ip"])], "conditions": {"ready": ready}});
    for field in ["hostname", "nodeName", "targetRef"] {
        if let Some(value) = address.at(&[field]) {
            endpoint.put(&[field], value.clone());
        }
    }
    endpoint
}

fn ports(subset: &Value) -> Value {
    let port = |port: &Value| {
        let mut port = port.clone();
        if port.at(&["name"]).is_none() {
            port.put(&["name"], "");
        }
        port
    };
    subset.items(&["ports"]).iter().map(port).collect::<Vec<_>>().into()
}

fn slice_roots(_: &View, event: &Event) -> Vec<Key> {
    services_of_slice(event, MANAGER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::World;
    use brain::Controller;

    fn world() -> World {
        let mut world = World::new([Controller::of::<EndpointSliceMirroringController>()]);
        world.put(SERVICES, json!({"metadata": {"name": "db", "namespace": "a"}, "spec": {"ports": [{"port": 5432}]}}));
        world.put(
            ENDPOINTS,
            json!({"metadata": {"name": "db", "namespace": "a", "labels": {"team": "x"},
                    "annotations": {"note": "y", LAST_APPLIED: "{}"}},
                "subsets": [{"addresses": [{"ip": "192.0.2.1"}, {"ip": "2001:db8::1"}],
                    "notReadyAddresses": [{"ip": "192.0.2.2", "nodeName": "n1"}],
                    "ports": [{"port": 5432, "protocol": "TCP"}]}]}),
        );
        world
    }

    #[test]
    fn what_users_write_is_mirrored_by_family() {
        for mut world in [world(), world().crashing()] {
            world.settle();
            let slices = world.list(COLLECTION);
            let mut found: Vec<_> =
                slices.iter().map(|s| (s.text(&["addressType"]), s.items(&["endpoints"]).len())).collect();
            found.sort();
            assert_eq!(found, [("IPv4", 2), ("IPv6", 1)]);
            assert_eq!(slices[0].at(&["metadata", "annotations"]), Some(&json!({"note": "y"})));
            assert_eq!(slices[0].label("team"), Some("x"));
            assert_eq!(slices[0]["ports"], json!([{"name": "", "port": 5432, "protocol": "TCP"}]));
        }
    }

    #[test]
    fn the_mirror_goes_when_there_is_nothing_to_mirror() {
        let mut world = world();
        world.settle();
        world.edit(ENDPOINTS, "a", "db", |o| o.put(&["metadata", "labels", SKIP], "true"));
        assert_eq!(world.follow().len(), 2);
        world.edit(ENDPOINTS, "a", "db", |o| o.put(&["metadata", "labels", SKIP], "false"));
        assert_eq!(world.follow().len(), 2);
        world.edit(SERVICES, "a", "db", |o| o.put(&["spec", "selector"], json!({"app": "db"})));
        assert_eq!(world.follow().len(), 2);
        assert_eq!(world.names(COLLECTION).len(), 0);
    }

    #[test]
    fn the_mirror_of_a_service_that_went_unseen_goes() {
        let mut world = world();
        world.settle();
        world.remove(SERVICES, "a", "db");
        // A controller that starts now has not seen it go.
        world.settle();
        assert_eq!(world.names(COLLECTION).len(), 0);
    }
}
