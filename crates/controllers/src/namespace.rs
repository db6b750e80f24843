//! A namespace that is being deleted is emptied, pods first, and let go when nothing is left in it.
//!
//! Owns: the finalizer `kubernetes` in `spec.finalizers`, the five deletion conditions of `status` and the phase
//! `Terminating`. Content is deleted a collection at a time, never object by object; what has finalizers or grace is
//! waited for. Pods go before everything else (KEP-5080), so that policies, secrets and volumes outlive their users.
//! At rest: the namespace is not being deleted, or all content is being deleted already and the conditions say what
//! is left. Never touches objects outside the namespace, nor other finalizers.

use std::collections::BTreeMap;
use std::time::Duration;

use brain::{Action, Brain, Def, Note, Outcome, Propagation, Refusal, Resource, View, Watch};
use meta::condition::Condition;
use meta::{ObjectExt, Time, condition};
use serde_json::Value;
use store::{Event, Key};
use view::Object;

use crate::namespace_roots::{self, NAMESPACES};
use crate::served;

const FINALIZER: &str = "kubernetes";
const PODS: &str = "core/pods";
/// From this age of the deletion on, what is left is told before more is deleted: a delete that fails again and again
/// must not keep the reason from the user.
const PATIENCE: Duration = Duration::from_secs(10);
/// Fewer objects than this are counted exactly in the conditions. More are counted anew when half of them are gone:
/// a namespace of ten thousand pods is not to be written ten thousand times while they go.
const COUNTED_EXACTLY_MAX: usize = 16;

/// The controller.
pub struct NamespaceController;

/// A namespace that shall go.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    /// The namespace as seen.
    object: Value,
    /// When its deletion began.
    since: Time,
}

/// What is left in it, by collection.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Observed {
    contents: BTreeMap<String, Content>,
    failure: Option<String>,
}

/// The objects of one collection.
#[derive(Clone, Debug, PartialEq, Default)]
struct Content {
    /// Where they are served; `None` when no definition serves them (any more).
    resource: Option<Resource>,
    count: usize,
    /// How many of them are not being deleted yet.
    undeleted: usize,
    /// How many hold which finalizer.
    finalizers: BTreeMap<String, usize>,
}

/// Every effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Deletes all objects of one kind.
    Empty(Resource),
    /// Writes phase and conditions.
    Tell(Value),
    /// Gives up the finalizer: the namespace goes.
    Finalize,
}

/// Every reason.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// Objects are still there.
    Remaining(usize),
    /// Nothing is left.
    Empty,
}

impl Brain for NamespaceController {
    const DEF: Def = Def {
        name: "namespace",
        root: NAMESPACES,
        root_kind: "Namespace",
        watches: &[
            Watch { collection: "core/namespaces", roots: |_, event| vec![event.key.clone()] },
            Watch::every(content_roots),
        ],
        resync: None,
    };
    type Desired = Desired;
    type Observed = Observed;
    type Step = Step;
    type Why = Why;

    fn observe(view: &View, key: &Key, _: Time) -> Option<(Desired, Observed)> {
        let namespace = view.get_key(key)?;
        let since = namespace.meta().deletion_timestamp?;
        let object = namespace.tree();
        if !finalizers(&object).any(|f| f == FINALIZER) {
            return None;
        }
        Some((Desired { object, since }, Observed { contents: contents(view, &key.item), failure: None }))
    }

    fn refused(observed: &mut Observed, refusal: &Refusal) {
        if refusal.verb == "deletecollection" {
            observed.failure = Some(refusal.message.clone());
        }
    }

    fn reconcile(desired: &Desired, observed: &Observed, now: Time) -> Outcome<Step, Why> {
        if observed.contents.is_empty() {
            return Outcome::rest().step(Step::Finalize).note(Why::Empty);
        }
        let emptied = emptied_next(&observed.contents);
        let total = observed.contents.values().map(|content| content.count).sum();
        let mut outcome = Outcome::rest().note(Why::Remaining(total));
        let impatient_at = desired.since.after(PATIENCE);
        if emptied.is_empty() || now >= impatient_at || observed.failure.is_some() {
            outcome.steps.extend(told(&desired.object, observed, now).map(Step::Tell));
        } else {
            outcome = outcome.wake_at(impatient_at);
        }
        outcome.steps.extend(emptied.into_iter().map(Step::Empty));
        outcome
    }

    fn check(_: &Desired, observed: &Observed, outcome: &Outcome<Step, Why>) -> Result<(), String> {
        let is_other = |step: &Step| matches!(step, Step::Empty(resource) if resource.collection() != PODS);
        if outcome.steps.contains(&Step::Finalize) && !observed.contents.is_empty() {
            return Err("a namespace with content is let go".to_owned());
        }
        match observed.contents.contains_key(PODS) && outcome.steps.iter().any(is_other) {
            true => Err("other content is deleted before the pods are gone".to_owned()),
            false => Ok(()),
        }
    }

    fn perform(step: Step, desired: &Desired, _: &Observed) -> Action {
        let mut object = desired.object.clone();
        match step {
            Step::Empty(resource) => Action::DeleteCollection {
                resource,
                namespace: object.name().to_owned(),
                propagation: Some(Propagation::Background),
            },
            Step::Tell(status) => {
                object.put(&["status"], status);
                Action::Update { resource: NAMESPACES, subresource: "status", object }
            }
            Step::Finalize => {
                let left: Vec<Value> =
                    finalizers(&desired.object).filter(|f| *f != FINALIZER).map(Value::from).collect();
                object.put(&["spec", "finalizers"], left);
                Action::Update { resource: NAMESPACES, subresource: "finalize", object }
            }
        }
    }

    fn explain(why: Why) -> Note {
        match why {
            Why::Remaining(count) => Note::quiet("NamespaceContentRemaining", format!("{count} objects remain")),
            Why::Empty => Note::quiet("NamespaceEmpty", "no content is left"),
        }
    }
}

fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    object.items(&["spec", "finalizers"]).iter().filter_map(Value::as_str)
}

/// Content concerns its namespace only while that is being deleted.
fn content_roots(view: &View, event: &Event) -> Vec<Key> {
    let is_deleting = |key: &Key| view.get_key(key).is_some_and(|namespace| namespace.meta().is_deleting());
    namespace_roots::of_object(view, event).into_iter().filter(is_deleting).collect()
}

fn contents(view: &View, namespace: &str) -> BTreeMap<String, Content> {
    let prefix = format!("{namespace}/");
    let mut contents = BTreeMap::new();
    for collection in view.snapshot().collections() {
        let mut content = Content::default();
        for (item, entry) in view.snapshot().range(collection, &prefix, "") {
            content.count_in(&Object::new(Key::new(collection.clone(), item.clone()), entry.clone()));
        }
        if content.count > 0 {
            content.resource = served::by_collection(view, collection).map(|served| served.resource);
            contents.insert(collection.to_string(), content);
        }
    }
    contents
}

impl Content {
    fn count_in(&mut self, object: &Object) {
        self.count += 1;
        self.undeleted += usize::from(!object.meta().is_deleting());
        for finalizer in &object.meta().finalizers {
            *self.finalizers.entry(finalizer.to_string()).or_default() += 1;
        }
    }
}

/// The kinds to delete now: the pods alone while there are any.
fn emptied_next(contents: &BTreeMap<String, Content>) -> Vec<Resource> {
    let has_pods = contents.contains_key(PODS);
    let due =
        contents.iter().filter(|(collection, content)| content.undeleted > 0 && (!has_pods || *collection == PODS));
    due.filter_map(|(_, content)| content.resource.clone()).collect()
}

/// The status with phase and conditions, if it says something else than what stands there.
fn told(object: &Value, observed: &Observed, now: Time) -> Option<Value> {
    let mut new = object.clone();
    new.put(&["status", "phase"], "Terminating");
    for condition in conditions(observed) {
        if !is_near_enough(condition::find(object, condition.type_), &condition, observed) {
            condition::set(&mut new, condition, now);
        }
    }
    (new != *object).then(|| new["status"].take())
}

fn conditions(observed: &Observed) -> [Condition<'static>; 5] {
    let fine = |type_, reason, message: &'static str| Condition::new(type_, "False", reason, message);
    let failure = observed.failure.as_ref().map(|failure| {
        let message = format!("Failed to delete all resource types, 1 remaining: {failure}");
        Condition::new("NamespaceDeletionContentFailure", "True", "ContentDeletionFailed", message)
    });
    [
        fine("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
        fine(
            "NamespaceDeletionGroupVersionParsingFailure",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        failure.unwrap_or(fine(
            "NamespaceDeletionContentFailure",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        )),
        remaining_condition(observed),
        finalizer_condition(observed),
    ]
}

fn remaining_condition(observed: &Observed) -> Condition<'static> {
    let mut lines: Vec<String> =
        observed.contents.iter().map(|(collection, content)| line(collection, content.count)).collect();
    lines.sort();
    let message = format!("Some resources are remaining: {}", lines.join(", "));
    Condition::new("NamespaceContentRemaining", "True", "SomeResourcesRemain", message)
}

fn line(collection: &str, count: usize) -> String {
    let (group, plural) = collection.split_once('/').unwrap_or(("", collection));
    let group = if group == "core" { "" } else { group };
    format!("{plural}.{group} has {count} resource instances")
}

fn finalizer_condition(observed: &Observed) -> Condition<'static> {
    const TYPE: &str = "NamespaceFinalizersRemaining";
    let held = finalizers_held(observed);
    if held.is_empty() {
        return Condition::new(TYPE, "False", "ContentHasNoFinalizers", "All content-preserving finalizers finished");
    }
    let lines: Vec<String> = held.iter().map(|(name, count)| format!("{name} in {count} resource instances")).collect();
    let message = format!("Some content in the namespace has finalizers remaining: {}", lines.join(", "));
    Condition::new(TYPE, "True", "SomeFinalizersRemain", message)
}

fn finalizers_held(observed: &Observed) -> BTreeMap<&str, usize> {
    let mut held: BTreeMap<&str, usize> = BTreeMap::new();
    for (finalizer, count) in observed.contents.values().flat_map(|content| &content.finalizers) {
        *held.entry(finalizer).or_default() += count;
    }
    held
}

/// Whether the condition that stands there differs in large counts only, and by less than half.
fn is_near_enough(old: Option<&Value>, new: &Condition<'_>, observed: &Observed) -> bool {
    let total: usize = observed.contents.values().map(|content| content.count).sum();
    let Some(old) = old.filter(|old| old.text(&["status"]) == new.status && total > COUNTED_EXACTLY_MAX) else {
        return false;
    };
    let (old_text, old_sum) = without_counts(old.text(&["message"]));
    let (new_text, new_sum) = without_counts(&new.message);
    old.text(&["reason"]) == new.reason && old_text == new_text && old_sum / 2 < new_sum && new_sum <= old_sum
}

/// A message with its counts taken out and summed. Words that are digits only are counts.
fn without_counts(message: &str) -> (Vec<&str>, u64) {
    let (counts, words): (Vec<&str>, Vec<&str>) = message.split(' ').partition(|word| word.parse::<u64>().is_ok());
    (words, counts.iter().filter_map(|count| count.parse::<u64>().ok()).fold(0, u64::saturating_add))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::World;
    use brain::Controller;
    use serde_json::json;

    fn world() -> World {
        let mut world = World::new([Controller::of::<NamespaceController>()]);
        for name in ["shop", "shopping"] {
            world.put(
                "core/namespaces",
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name},
                    "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}),
            );
        }
        world
    }

    fn fill(world: &mut World, collection: &str, name: &str, more: Value) {
        let mut object = json!({"apiVersion": "v1", "metadata": {"name": name, "namespace": "shop"}});
        for (field, value) in more.as_object().unwrap() {
            match field.as_str() {
                "finalizers" => object.put(&["metadata", "finalizers"], value.clone()),
                field => object.put(&[field], value.clone()),
            }
        }
        world.put(collection, object);
    }

    fn message(world: &World, type_: &str) -> String {
        let namespace = world.get("core/namespaces", "", "shop").unwrap();
        condition::find(&namespace, type_).map(|c| c.text(&["message"]).to_owned()).unwrap_or_default()
    }

    #[test]
    fn an_empty_namespace_goes_at_once_and_a_living_one_is_left_alone() {
        let mut world = world();
        fill(&mut world, "core/configmaps", "a", json!({}));
        assert_eq!(world.settle(), Vec::<String>::new());
        world.remove("core/configmaps", "shop", "a");
        world.delete("core/namespaces", "", "shop", None);
        assert_eq!(world.follow(), ["update finalize namespaces shop"]);
        assert_eq!(world.names("core/namespaces"), ["shopping"]);
    }

    #[test]
    fn pods_go_first_then_everything_then_the_namespace() {
        for mut world in [world(), world().crashing()] {
            fill(&mut world, "core/pods", "web", json!({"spec": {"nodeName": "n1"}}));
            fill(&mut world, "core/pods", "new", json!({}));
            fill(&mut world, "core/configmaps", "a", json!({}));
            fill(&mut world, "core/secrets", "b", json!({}));
            world.put("core/secrets", json!({"apiVersion": "v1", "metadata": {"name": "c", "namespace": "shopping"}}));
            world.delete("core/namespaces", "", "shop", None);
            assert_eq!(world.follow(), ["deletecollection pods shop/*", "update status namespaces shop"]);
            assert_eq!(
                message(&world, "NamespaceContentRemaining"),
                "Some resources are remaining: configmaps. has 1 resource instances, pods. has 1 resource instances, \
                 secrets. has 1 resource instances"
            );
            world.remove("core/pods", "shop", "web");
            let expected = [
                "deletecollection configmaps shop/*",
                "deletecollection secrets shop/*",
                "update finalize namespaces shop",
            ];
            assert_eq!(world.follow(), expected);
            assert_eq!(world.names("core/secrets"), ["shopping/c"]);
        }
    }

    #[test]
    fn what_holds_the_namespace_is_told() {
        let mut world = world();
        fill(&mut world, "core/configmaps", "a", json!({"finalizers": ["x.io/wait", "x.io/too"]}));
        fill(&mut world, "core/configmaps", "b", json!({"finalizers": ["x.io/wait"]}));
        world.delete("core/namespaces", "", "shop", None);
        assert_eq!(world.follow(), ["deletecollection configmaps shop/*", "update status namespaces shop"]);
        assert_eq!(
            message(&world, "NamespaceFinalizersRemaining"),
            "Some content in the namespace has finalizers remaining: x.io/too in 1 resource instances, x.io/wait in 2 \
             resource instances"
        );
        world.edit("core/configmaps", "shop", "a", |o| o.put(&["metadata", "finalizers"], json!([])));
        assert_eq!(world.follow(), ["update status namespaces shop"]);
        world.edit("core/configmaps", "shop", "b", |o| o.put(&["metadata", "finalizers"], json!([])));
        assert_eq!(world.follow(), ["update finalize namespaces shop"]);
    }

    #[test]
    fn a_refused_deletion_is_told() {
        let mut world = world();
        fill(&mut world, "core/configmaps", "a", json!({}));
        world.deny.push("deletecollection configmaps".to_owned());
        world.delete("core/namespaces", "", "shop", None);
        world.settle_once();
        world.advance(1);
        world.settle_once();
        assert_eq!(
            message(&world, "NamespaceDeletionContentFailure"),
            "Failed to delete all resource types, 1 remaining: deletecollection configmaps is forbidden"
        );
        world.deny.clear();
        world.advance(1);
        world.settle_once();
        assert_eq!(world.names("core/namespaces"), ["shopping"]);
    }

    #[test]
    fn large_counts_are_written_when_they_halve() {
        let mut world = world();
        for n in 0..100 {
            fill(&mut world, "core/configmaps", &format!("a{n:03}"), json!({"finalizers": ["x.io/wait"]}));
        }
        world.delete("core/namespaces", "", "shop", None);
        world.settle();
        let mut writes = 0;
        for n in 0..100 {
            world.edit("core/configmaps", "shop", &format!("a{n:03}"), |o| {
                o.put(&["metadata", "finalizers"], json!([]))
            });
            writes += world.follow().iter().filter(|line| line.starts_with("update status")).count();
        }
        assert!((15..25).contains(&writes), "{writes}");
        assert_eq!(world.names("core/namespaces"), ["shopping"]);
    }

    #[test]
    fn counts_are_told_from_words() {
        let (words, sum) = without_counts("pods. has 12 resource instances, jobs.batch has 3 resource instances");
        assert_eq!((words.len(), sum), (8, 15));
    }
}
