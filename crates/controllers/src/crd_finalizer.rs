//! A CustomResourceDefinition that is being deleted goes after all of its objects have gone.
//!
//! Owns: the finalizer `customresourcecleanup.apiextensions.k8s.io`, on every definition, and the condition
//! `Terminating`. At rest: the definition is not being deleted and has the finalizer, or its objects are being deleted
//! and something holds them. Never touches objects otherwise.

use brain::{Action, Brain, Def, Note, Outcome, Propagation, Refusal, Resource, View, Watch, key};
use meta::condition::Condition;
use meta::{ObjectExt, Time, condition};
use serde_json::Value;
use store::{Event, Key};
use view::Object;

use crate::crd_status::DEFINITIONS;
use crate::served;
use crate::target::{Target, finalizers_with, finalizers_without, has_finalizer};

const COLLECTION: &str = "apiextensions.k8s.io/customresourcedefinitions";
const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The controller.
pub struct CrdFinalizer;

/// The definition as seen.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    target: Target,
    object: Value,
    has_finalizer: bool,
    finalizers_with: Vec<String>,
    finalizers_without: Vec<String>,
}

/// Its objects.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Observed {
    /// Where they are served, if any version is.
    resource: Option<Resource>,
    count: usize,
    /// How many are not being deleted yet.
    undeleted: usize,
    failure: Option<String>,
}

/// Every effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Makes a later deletion wait for this controller.
    Hold,
    /// Writes the condition.
    Tell(Value),
    /// Deletes all objects.
    Empty(Resource),
    /// Lets the definition go.
    Release,
}

/// Every reason.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// Objects are still there.
    Remaining(usize),
}

impl Brain for CrdFinalizer {
    const DEF: Def = Def {
        name: "crd-finalizer",
        root: DEFINITIONS,
        root_kind: "CustomResourceDefinition",
        watches: &[
            Watch { collection: COLLECTION, roots: |_, event| vec![event.key.clone()] },
            Watch::every(instance_roots),
        ],
        resync: None,
    };
    type Desired = Desired;
    type Observed = Observed;
    type Step = Step;
    type Why = Why;

    fn observe(view: &View, key: &Key, _: Time) -> Option<(Desired, Observed)> {
        let definition = view.get_key(key)?;
        let has_finalizer = has_finalizer(&definition, FINALIZER);
        if has_finalizer != definition.meta().is_deleting() {
            return None;
        }
        let object = definition.tree();
        let collection = format!("{}/{}", object.text(&["spec", "group"]), object.text(&["spec", "names", "plural"]));
        let observed = if has_finalizer { instances(view, &collection) } else { Observed::default() };
        let desired = Desired {
            target: Target::of(&definition),
            object,
            has_finalizer,
            finalizers_with: finalizers_with(&definition, FINALIZER),
            finalizers_without: finalizers_without(&definition, FINALIZER),
        };
        Some((desired, observed))
    }

    fn refused(observed: &mut Observed, refusal: &Refusal) {
        if refusal.verb == "deletecollection" {
            observed.failure = Some(refusal.message.clone());
        }
    }

    fn reconcile(desired: &Desired, observed: &Observed, now: Time) -> Outcome<Step, Why> {
        if !desired.has_finalizer {
            return Outcome::rest().step(Step::Hold);
        }
        if observed.count == 0 || !condition::is_true(&desired.object, "Established") {
            return Outcome::rest().step(Step::Release);
        }
        let mut outcome = Outcome::rest().note(Why::Remaining(observed.count));
        let mut new = desired.object.clone();
        if condition::set(&mut new, terminating(observed), now) {
            outcome = outcome.step(Step::Tell(new));
        }
        match &observed.resource {
            Some(resource) if observed.undeleted > 0 => outcome.step(Step::Empty(resource.clone())),
            _ => outcome,
        }
    }

    fn check(desired: &Desired, observed: &Observed, outcome: &Outcome<Step, Why>) -> Result<(), String> {
        let is_served = condition::is_true(&desired.object, "Established");
        match outcome.steps.contains(&Step::Release) && observed.count > 0 && is_served {
            true => Err("a definition whose objects are there is let go".to_owned()),
            false => Ok(()),
        }
    }

    fn perform(step: Step, desired: &Desired, _: &Observed) -> Action {
        match step {
            Step::Hold => desired.target.set_finalizers(DEFINITIONS, &desired.finalizers_with),
            Step::Release => desired.target.set_finalizers(DEFINITIONS, &desired.finalizers_without),
            Step::Tell(object) => Action::Update { resource: DEFINITIONS, subresource: "status", object },
            Step::Empty(resource) => Action::DeleteCollection {
                resource,
                namespace: String::new(),
                propagation: Some(Propagation::Background),
            },
        }
    }

    fn explain(Why::Remaining(count): Why) -> Note {
        Note::quiet("InstanceDeletionInProgress", format!("{count} objects remain"))
    }
}

fn terminating(observed: &Observed) -> Condition<'static> {
    if let Some(failure) = &observed.failure {
        let message = format!("could not issue all deletes: {failure}");
        return Condition::new("Terminating", "True", "InstanceDeletionFailed", message);
    }
    let message = "CustomResource deletion is in progress";
    Condition::new("Terminating", "True", "InstanceDeletionInProgress", message)
}

fn instances(view: &View, collection: &str) -> Observed {
    let is_undeleted = |(item, entry): (&std::sync::Arc<str>, &std::sync::Arc<store::Entry>)| {
        !Object::new(Key::new(collection, item.clone()), entry.clone()).meta().is_deleting()
    };
    Observed {
        resource: served::by_collection(view, collection).map(|served| served.resource),
        count: view.snapshot().count(collection),
        undeleted: view.snapshot().items(collection).filter(|item| is_undeleted(*item)).count(),
        failure: None,
    }
}

/// An object concerns its definition only while that is being deleted.
fn instance_roots(view: &View, event: &Event) -> Vec<Key> {
    let Some((group, plural)) = event.key.collection.split_once('/') else { return Vec::new() };
    let key = key(COLLECTION, "", &format!("{plural}.{group}"));
    let is_deleting = view.get_key(&key).is_some_and(|definition| definition.meta().is_deleting());
    if is_deleting { vec![key] } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::World;
    use brain::Controller;
    use serde_json::json;

    fn world() -> World {
        let mut world = World::new([Controller::of::<CrdFinalizer>()]);
        world.put(
            COLLECTION,
            json!({"apiVersion": "apiextensions.k8s.io/v1", "metadata": {"name": "boats.sea.io"},
                "spec": {"group": "sea.io", "scope": "Namespaced", "names": {"plural": "boats", "kind": "Boat"},
                    "versions": [{"name": "v1", "served": true, "storage": true}]},
                "status": {"conditions": [{"type": "Established", "status": "True"}]}}),
        );
        for name in ["one", "two"] {
            world.put("sea.io/boats", json!({"metadata": {"name": name, "namespace": "a"}}));
        }
        world
    }

    #[test]
    fn objects_go_before_their_definition() {
        for mut world in [world(), world().crashing()] {
            assert_eq!(world.settle(), ["patch customresourcedefinitions boats.sea.io"]);
            world.edit("sea.io/boats", "a", "two", |o| o.put(&["metadata", "finalizers"], json!(["x.io/wait"])));
            world.delete(COLLECTION, "", "boats.sea.io", None);
            assert_eq!(
                world.follow(),
                ["update status customresourcedefinitions boats.sea.io", "deletecollection boats *"]
            );
            assert_eq!(world.names("sea.io/boats"), ["a/two"]);
            world.edit("sea.io/boats", "a", "two", |o| o.put(&["metadata", "finalizers"], json!([])));
            assert_eq!(world.follow(), ["patch customresourcedefinitions boats.sea.io"]);
            assert!(world.names(COLLECTION).is_empty());
        }
    }

    #[test]
    fn one_without_objects_goes_at_once() {
        let mut world = world();
        world.remove("sea.io/boats", "a", "one");
        world.remove("sea.io/boats", "a", "two");
        world.settle();
        world.delete(COLLECTION, "", "boats.sea.io", None);
        assert_eq!(world.follow(), ["patch customresourcedefinitions boats.sea.io"]);
    }
}
