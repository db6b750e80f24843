//! A CustomResourceDefinition's names are accepted when nobody else in its group has them, and then its kind is served.
//!
//! Owns: `status.acceptedNames` and the conditions `NamesAccepted` and `Established`. Once established a definition
//! stays so; a change to names that are taken keeps the accepted ones. `status.storedVersions` is kept by every write
//! of the definition itself, not here. At rest: the status says what follows from the names in the group.

use std::collections::BTreeSet;

use brain::{Action, Brain, Def, Note, Outcome, Resource, View, Watch};
use meta::condition::Condition;
use meta::{ObjectExt, Time, condition};
use serde_json::Value;
use store::{Event, Key};

const COLLECTION: &str = "apiextensions.k8s.io/customresourcedefinitions";
pub(crate) const DEFINITIONS: Resource = Resource::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");

/// The controller.
pub struct CrdStatusController;

/// The definition as seen.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    object: Value,
}

/// The names that definitions of the group have been given.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Observed {
    resources: BTreeSet<String>,
    kinds: BTreeSet<String>,
}

/// Every effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Writes the status.
    Tell(Value),
}

/// Every reason.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// A name is taken.
    Conflict(String),
}

impl Brain for CrdStatusController {
    const DEF: Def = Def {
        name: "crd-naming",
        root: DEFINITIONS,
        root_kind: "CustomResourceDefinition",
        watches: &[Watch { collection: COLLECTION, roots: group_roots }],
        resync: None,
    };
    type Desired = Desired;
    type Observed = Observed;
    type Step = Step;
    type Why = Why;

    fn observe(view: &View, key: &Key, _: Time) -> Option<(Desired, Observed)> {
        let object = view.get_key(key)?.tree();
        let group = object.text(&["spec", "group"]).to_owned();
        let mut observed = Observed::default();
        for other in view.list(COLLECTION, "").iter().map(|other| other.tree()) {
            if other.text(&["spec", "group"]) == group {
                observed.take_in(&other);
            }
        }
        Some((Desired { object }, observed))
    }

    fn reconcile(desired: &Desired, observed: &Observed, now: Time) -> Outcome<Step, Why> {
        let object = &desired.object;
        let (names, conflict) = accepted(object, observed);
        let mut new = object.clone();
        if names.as_object().is_some_and(|names| !names.is_empty()) {
            new.put(&["status", "acceptedNames"], names);
        }
        condition::set(&mut new, names_condition(conflict.as_ref()), now);
        if !condition::is_true(object, "Established") {
            condition::set(&mut new, established_condition(conflict.is_none()), now);
        }
        let mut outcome = Outcome::rest();
        outcome.notes.extend(conflict.map(|(_, message)| Why::Conflict(message)));
        if new != *object { outcome.step(Step::Tell(new)) } else { outcome }
    }

    fn check(desired: &Desired, _: &Observed, outcome: &Outcome<Step, Why>) -> Result<(), String> {
        let was = condition::is_true(&desired.object, "Established");
        let is_lost = |Step::Tell(new): &Step| was && !condition::is_true(new, "Established");
        match outcome.steps.iter().any(is_lost) {
            true => Err("a kind that is served stops being served".to_owned()),
            false => Ok(()),
        }
    }

    fn perform(Step::Tell(object): Step, _: &Desired, _: &Observed) -> Action {
        Action::Update { resource: DEFINITIONS, subresource: "status", object }
    }

    fn explain(Why::Conflict(message): Why) -> Note {
        Note::quiet("NamesConflict", message)
    }
}

impl Observed {
    fn take_in(&mut self, definition: &Value) {
        let names = definition.at(&["status", "acceptedNames"]).cloned().unwrap_or_default();
        let short = names.items(&["shortNames"]).iter().filter_map(Value::as_str);
        let resources = [names.text(&["plural"]), names.text(&["singular"])].into_iter().chain(short);
        self.resources.extend(resources.filter(|name| !name.is_empty()).map(str::to_owned));
        let kinds = [names.text(&["kind"]), names.text(&["listKind"])];
        self.kinds.extend(kinds.into_iter().filter(|name| !name.is_empty()).map(str::to_owned));
    }
}

/// The names given, and why not all that are asked for (reason and message; the last conflict is the one told).
fn accepted(object: &Value, taken: &Observed) -> (Value, Option<(&'static str, String)>) {
    let asked = object.at(&["spec", "names"]).cloned().unwrap_or_default();
    let had = object.at(&["status", "acceptedNames"]).cloned().unwrap_or_default();
    let (mut names, mut conflict) = (had.clone(), None);
    let singles = [
        ("plural", "PluralConflict", &taken.resources),
        ("singular", "SingularConflict", &taken.resources),
        ("shortNames", "ShortNamesConflict", &taken.resources),
        ("kind", "KindConflict", &taken.kinds),
        ("listKind", "ListKindConflict", &taken.kinds),
    ];
    for (field, reason, taken) in singles {
        let refused = match field {
            "shortNames" => short_names_in_use(&asked, &had, taken),
            field => in_use(asked.text(&[field]), had.text(&[field]), taken),
        };
        match refused {
            Some(message) => conflict = Some((reason, message)),
            None => copy(&mut names, &asked, field),
        }
    }
    copy(&mut names, &asked, "categories");
    (names, conflict)
}

fn copy(names: &mut Value, asked: &Value, field: &str) {
    match asked.at(&[field]) {
        Some(value) => names.put(&[field], value.clone()),
        None => drop(names.remove(&[field])),
    }
}

fn in_use(asked: &str, had: &str, taken: &BTreeSet<String>) -> Option<String> {
    (asked != had && taken.contains(asked)).then(|| format!("{asked:?} is already in use"))
}

fn short_names_in_use(asked: &Value, had: &Value, taken: &BTreeSet<String>) -> Option<String> {
    let had = had.items(&["shortNames"]);
    let fresh = asked.items(&["shortNames"]).iter().filter(|name| !had.contains(name)).filter_map(Value::as_str);
    let errors: Vec<String> = fresh.filter_map(|name| in_use(name, "", taken)).collect();
    match errors.as_slice() {
        [] => None,
        [error] => Some(error.clone()),
        errors => Some(format!("[{}]", errors.join(", "))),
    }
}

fn names_condition(conflict: Option<&(&'static str, String)>) -> Condition<'static> {
    match conflict {
        Some((reason, message)) => Condition::new("NamesAccepted", "False", reason, message.clone()),
        None => Condition::new("NamesAccepted", "True", "NoConflicts", "no conflicts found"),
    }
}

fn established_condition(accepted: bool) -> Condition<'static> {
    match accepted {
        true => {
            let message = "the initial names have been accepted";
            Condition::new("Established", "True", "InitialNamesAccepted", message)
        }
        false => Condition::new("Established", "False", "NotAccepted", "not all names are accepted"),
    }
}

/// A definition's names concern all of its group.
fn group_roots(view: &View, event: &Event) -> Vec<Key> {
    let group = event.key.item.split_once('.').map_or("", |(_, group)| group);
    let definitions = view.snapshot().items(COLLECTION).map(|(name, _)| name);
    let of_group = definitions.filter(|name| name.split_once('.').is_some_and(|(_, g)| g == group));
    of_group.map(|name| Key::new(COLLECTION, name.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::World;
    use brain::Controller;
    use serde_json::json;

    fn define(world: &mut World, plural: &str, kind: &str, short: &[&str]) {
        let singular = kind.to_lowercase();
        world.put(
            COLLECTION,
            json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": format!("{plural}.sea.io")},
                "spec": {"group": "sea.io", "names": {"plural": plural, "singular": singular, "kind": kind,
                    "listKind": format!("{kind}List"), "shortNames": short}}}),
        );
    }

    fn states(world: &World, name: &str) -> [String; 3] {
        let object = world.get(COLLECTION, "", &format!("{name}.sea.io")).unwrap();
        let message = condition::find(&object, "NamesAccepted").map_or("", |c| c.text(&["message"])).to_owned();
        let status = |type_| condition::status(&object, type_).to_owned();
        [status("NamesAccepted"), status("Established"), message]
    }

    #[test]
    fn the_first_gets_the_names_and_the_second_waits_for_them() {
        for mut world in [
            World::new([Controller::of::<CrdStatusController>()]).crashing(),
            World::new([Controller::of::<CrdStatusController>()]),
        ] {
            define(&mut world, "boats", "Boat", &["b"]);
            world.settle();
            assert_eq!(states(&world, "boats"), ["True", "True", "no conflicts found"]);
            define(&mut world, "ships", "Ship", &["b", "boats", "s"]);
            world.follow();
            let message = "[\"b\" is already in use, \"boats\" is already in use]";
            assert_eq!(states(&world, "ships"), ["False", "False", message]);
            let names = world.get(COLLECTION, "", "ships.sea.io").unwrap();
            assert_eq!(names.text(&["status", "acceptedNames", "kind"]), "Ship");
            assert_eq!(names.at(&["status", "acceptedNames", "shortNames"]), None);
            world.remove(COLLECTION, "", "boats.sea.io");
            world.follow();
            assert_eq!(states(&world, "ships"), ["True", "True", "no conflicts found"]);
        }
    }

    #[test]
    fn a_later_conflict_does_not_stop_what_is_served() {
        let mut world = World::new([Controller::of::<CrdStatusController>()]);
        define(&mut world, "boats", "Boat", &[]);
        define(&mut world, "ships", "Ship", &[]);
        world.settle();
        world.edit(COLLECTION, "", "ships.sea.io", |o| o.put(&["spec", "names", "kind"], "Boat"));
        world.follow();
        assert_eq!(states(&world, "ships"), ["False", "True", "\"Boat\" is already in use"]);
    }

    #[test]
    fn other_groups_do_not_matter() {
        let mut world = World::new([Controller::of::<CrdStatusController>()]);
        define(&mut world, "boats", "Boat", &[]);
        world.put(
            COLLECTION,
            json!({"metadata": {"name": "boats.lake.io"}, "spec": {"group": "lake.io",
                "names": {"plural": "boats", "singular": "boat", "kind": "Boat", "listKind": "BoatList"}}}),
        );
        world.settle();
        let object = world.get(COLLECTION, "", "boats.lake.io").unwrap();
        assert!(condition::is_true(&object, "Established"));
    }
}
