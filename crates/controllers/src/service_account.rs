//! Every active namespace has a ServiceAccount `default`.
//!
//! Owns: the existence of `default`; never its content, so that what others add to it (image pull secrets) stays.
//! At rest: the account exists, or the namespace is not active.

use brain::{Action, Brain, Def, Note, Outcome, Resource, View, Watch};
use meta::{ObjectExt, Time};
use serde_json::json;
use store::Key;

use crate::namespace_roots::{self, NAMESPACES};

/// The account's name.
const DEFAULT: &str = "default";
const SERVICE_ACCOUNTS: Resource = Resource::new("", "v1", "serviceaccounts");

/// The controller.
pub struct ServiceAccountController;

/// An active namespace shall have the account.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    /// The namespace.
    pub namespace: String,
}

/// What is there.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// Whether the account exists.
    pub exists: bool,
}

/// Every effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Creates the account.
    Create,
}

/// Every reason.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// The account was missing.
    Missing,
}

impl Brain for ServiceAccountController {
    const DEF: Def = Def {
        name: "service-account",
        root: NAMESPACES,
        root_kind: "Namespace",
        watches: &[
            Watch { collection: "core/namespaces", roots: |_, event| vec![event.key.clone()] },
            Watch { collection: "core/serviceaccounts", roots: |_, event| namespace_roots::of_named(event, DEFAULT) },
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
        let exists = view.get("core/serviceaccounts", &key.item, DEFAULT).is_some();
        Some((Desired { namespace: key.item.to_string() }, Observed { exists }))
    }

    fn reconcile(_: &Desired, observed: &Observed, _: Time) -> Outcome<Step, Why> {
        if observed.exists { Outcome::rest() } else { Outcome::rest().step(Step::Create).note(Why::Missing) }
    }

    fn check(_: &Desired, observed: &Observed, outcome: &Outcome<Step, Why>) -> Result<(), String> {
        match observed.exists && !outcome.steps.is_empty() {
            true => Err("an account that exists is made again".to_owned()),
            false => Ok(()),
        }
    }

    fn perform(Step::Create: Step, desired: &Desired, _: &Observed) -> Action {
        let mut object = json!({"apiVersion": "v1", "kind": "ServiceAccount"});
        object.put(&["metadata", "name"], DEFAULT);
        object.put(&["metadata", "namespace"], desired.namespace.as_str());
        Action::Create { resource: SERVICE_ACCOUNTS, namespace: desired.namespace.clone(), object }
    }

    fn explain(Why::Missing: Why) -> Note {
        Note::quiet("ServiceAccountMissing", "the namespace had no ServiceAccount default")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::World;
    use brain::Controller;

    fn world() -> World {
        let mut world = World::new([Controller::of::<ServiceAccountController>()]);
        for (name, phase) in [("shop", "Active"), ("old", "Terminating")] {
            let object = json!({"kind": "Namespace", "metadata": {"name": name}, "status": {"phase": phase}});
            world.put("core/namespaces", object);
        }
        world
    }

    #[test]
    fn active_namespaces_have_the_account() {
        for mut world in [world(), world().crashing()] {
            assert_eq!(world.settle(), ["create serviceaccounts shop/default"]);
            world.remove("core/serviceaccounts", "shop", "default");
            assert_eq!(world.follow(), ["create serviceaccounts shop/default"]);
        }
    }

    #[test]
    fn what_others_write_into_it_stays() {
        let mut world = world();
        world.settle();
        world.edit("core/serviceaccounts", "shop", "default", |sa| {
            sa.put(&["imagePullSecrets"], json!([{"name": "x"}]))
        });
        assert_eq!(world.follow(), Vec::<String>::new());
    }
}
