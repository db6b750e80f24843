//! Every active namespace has the ConfigMap `kube-root-ca.crt`, with which pods check the API server's certificate.
//!
//! The certificate comes from where every client of the cluster may read it: the key `client-ca-file` of the ConfigMap
//! `kube-system/extension-apiserver-authentication`, which the server writes when it starts (one authority signs
//! clients and servers here). Until that is there, nothing is published.
//! Owns: `data` and the description annotation of `kube-root-ca.crt`. Never touches its labels and other annotations.
//! At rest: the data is exactly the authority and the description is there.

use brain::{Action, Brain, Def, Note, Outcome, Resource, View, Watch};
use meta::{ObjectExt, Time};
use serde_json::{Value, json};
use store::{Event, Key};

use crate::namespace_roots::{self, NAMESPACES};
use crate::target::Target;

/// The ConfigMap's name in every namespace.
const NAME: &str = "kube-root-ca.crt";
/// The key that holds the certificates, in PEM.
const CA_KEY: &str = "ca.crt";
const SOURCE_NAMESPACE: &str = "kube-system";
const SOURCE_NAME: &str = "extension-apiserver-authentication";
const SOURCE_KEY: &str = "client-ca-file";
const DESCRIPTION: &str = "kubernetes.io/description";
/// Users read this text in their ConfigMaps: upstream's words.
const DESCRIPTION_TEXT: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal \
                                endpoints such as the internal service IP or kubernetes.default.svc. No other usage is \
                                guaranteed across distributions of Kubernetes clusters.";
const CONFIG_MAPS: Resource = Resource::new("", "v1", "configmaps");

/// The controller.
pub struct RootCaController;

/// What shall be published where.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    /// The namespace.
    pub namespace: String,
    /// The authority's certificates, PEM.
    pub ca: String,
}

/// What stands there.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    config_map: Option<(Target, Value)>,
}

/// Every effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Creates the ConfigMap.
    Create,
    /// Writes data and description over what stands there.
    Restore,
}

/// Every reason.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// The ConfigMap was missing.
    Missing,
    /// It held something else.
    Differs,
}

impl Brain for RootCaController {
    const DEF: Def = Def {
        name: "root-ca-cert-publisher",
        root: NAMESPACES,
        root_kind: "Namespace",
        watches: &[
            Watch { collection: "core/namespaces", roots: |_, event| vec![event.key.clone()] },
            Watch { collection: "core/configmaps", roots: config_map_roots },
        ],
        resync: None,
    };
    type Desired = Desired;
    type Observed = Observed;
    type Step = Step;
    type Why = Why;

    fn observe(view: &View, key: &Key, _: Time) -> Option<(Desired, Observed)> {
        let namespace = view.get_key(key)?;
        if !namespace_roots::is_active(&namespace) {
            return None;
        }
        let source = view.get("core/configmaps", SOURCE_NAMESPACE, SOURCE_NAME)?.tree();
        let ca = source.text(&["data", SOURCE_KEY]);
        if ca.is_empty() {
            return None;
        }
        let config_map = view.get("core/configmaps", &key.item, NAME).map(|o| (Target::of(&o), o.tree()));
        Some((Desired { namespace: key.item.to_string(), ca: ca.to_owned() }, Observed { config_map }))
    }

    fn reconcile(desired: &Desired, observed: &Observed, _: Time) -> Outcome<Step, Why> {
        match &observed.config_map {
            None => Outcome::rest().step(Step::Create).note(Why::Missing),
            Some((_, object)) if is_published(object, &desired.ca) => Outcome::rest(),
            Some(_) => Outcome::rest().step(Step::Restore).note(Why::Differs),
        }
    }

    fn check(_: &Desired, observed: &Observed, outcome: &Outcome<Step, Why>) -> Result<(), String> {
        match outcome.steps.contains(&Step::Create) && observed.config_map.is_some() {
            true => Err("a ConfigMap that exists is made again".to_owned()),
            false => Ok(()),
        }
    }

    fn perform(step: Step, desired: &Desired, observed: &Observed) -> Action {
        match (step, &observed.config_map) {
            (Step::Restore, Some((_, object))) => {
                let mut object = object.clone();
                fill(&mut object, &desired.ca);
                Action::Update { resource: CONFIG_MAPS, subresource: "", object }
            }
            (Step::Create | Step::Restore, _) => {
                let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}});
                object.put(&["metadata", "namespace"], desired.namespace.as_str());
                fill(&mut object, &desired.ca);
                Action::Create { resource: CONFIG_MAPS, namespace: desired.namespace.clone(), object }
            }
        }
    }

    fn explain(why: Why) -> Note {
        match why {
            Why::Missing => Note::quiet("RootCAMissing", "the namespace had no ConfigMap kube-root-ca.crt"),
            Why::Differs => Note::quiet("RootCADiffers", "kube-root-ca.crt was not the cluster's authority"),
        }
    }
}

fn is_published(object: &Value, ca: &str) -> bool {
    object.at(&["data"]) == Some(&json!({CA_KEY: ca}))
        && object.annotation(DESCRIPTION).is_some_and(|text| !text.is_empty())
}

fn fill(object: &mut Value, ca: &str) {
    object.put(&["data"], json!({CA_KEY: ca}));
    object.put(&["metadata", "annotations", DESCRIPTION], DESCRIPTION_TEXT);
}

fn config_map_roots(view: &View, event: &Event) -> Vec<Key> {
    match event.key.item.split_once('/') {
        Some((SOURCE_NAMESPACE, SOURCE_NAME)) => namespace_roots::all(view),
        _ => namespace_roots::of_named(event, NAME),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::World;
    use brain::Controller;

    fn source(world: &mut World, ca: &str) {
        world.put(
            "core/configmaps",
            json!({"kind": "ConfigMap", "metadata": {"name": SOURCE_NAME, "namespace": SOURCE_NAMESPACE},
                "data": {"client-ca-file": ca}}),
        );
    }

    fn world() -> World {
        let mut world = World::new([Controller::of::<RootCaController>()]);
        for name in ["shop", "depot"] {
            world.put("core/namespaces", json!({"kind": "Namespace", "metadata": {"name": name}}));
        }
        world
    }

    #[test]
    fn the_authority_is_published_everywhere_and_followed() {
        for mut world in [world(), world().crashing()] {
            assert_eq!(world.settle(), Vec::<String>::new(), "no authority is known yet");
            source(&mut world, "PEM 1");
            let created = ["create configmaps depot/kube-root-ca.crt", "create configmaps shop/kube-root-ca.crt"];
            assert_eq!(world.follow(), created);
            source(&mut world, "PEM 2");
            let renewed = ["update configmaps depot/kube-root-ca.crt", "update configmaps shop/kube-root-ca.crt"];
            assert_eq!(world.follow(), renewed);
            let map = world.get("core/configmaps", "shop", NAME).unwrap();
            assert_eq!(map.at(&["data"]), Some(&json!({"ca.crt": "PEM 2"})));
        }
    }

    #[test]
    fn a_changed_copy_is_restored_and_keeps_what_is_not_ours() {
        let mut world = world();
        source(&mut world, "PEM");
        world.settle();
        world.edit("core/configmaps", "shop", NAME, |map| {
            map.put(&["data", "more"], "x");
            map.put(&["metadata", "labels"], json!({"team": "a"}));
        });
        assert_eq!(world.follow(), ["update configmaps shop/kube-root-ca.crt"]);
        let map = world.get("core/configmaps", "shop", NAME).unwrap();
        assert_eq!((map.at(&["data"]), map.label("team")), (Some(&json!({"ca.crt": "PEM"})), Some("a")));
    }
}
