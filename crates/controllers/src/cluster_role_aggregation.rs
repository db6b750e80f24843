//! A ClusterRole with an aggregation rule has the rules of all ClusterRoles that it selects.
//!
//! Owns: `rules` of such roles, whole. At rest: they are the union of the selected roles' rules, in the order of the
//! roles' names, each once. Roles that aggregate may be selected too; a role never selects itself.

use brain::{Action, Brain, Def, Note, Object, Outcome, Resource, View, Watch};
use meta::labels::Selector;
use meta::{ObjectExt, Time};
use serde_json::Value;
use store::{Event, Key};

const ROLES: Resource = Resource::new("rbac.authorization.k8s.io", "v1", "clusterroles");
const COLLECTION: &str = "rbac.authorization.k8s.io/clusterroles";

/// The controller.
pub struct ClusterRoleAggregationController;

/// The rules that the role shall have.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    rules: Vec<Value>,
}

/// The role.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    object: Value,
}

/// Every effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Writes the rules.
    Write,
}

/// Every reason: none, the objects say it all.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {}

impl Brain for ClusterRoleAggregationController {
    const DEF: Def = Def {
        name: "clusterrole-aggregation",
        root: ROLES,
        root_kind: "ClusterRole",
        watches: &[Watch { collection: COLLECTION, roots }],
        resync: None,
    };
    type Desired = Desired;
    type Observed = Observed;
    type Step = Step;
    type Why = Why;

    fn observe(view: &View, key: &Key, _: Time) -> Option<(Desired, Observed)> {
        let object = view.get_key(key)?.tree();
        object.at(&["aggregationRule"]).filter(|rule| !rule.is_null())?;
        let selectors = object.items(&["aggregationRule", "clusterRoleSelectors"]).iter();
        let mut rules: Vec<Value> = Vec::new();
        let selectors: Vec<Selector> = selectors.filter_map(|s| Selector::from_label_selector(Some(s)).ok()).collect();
        // By selector, then by name, as upstream collects them.
        for selector in &selectors {
            let is_selected = |role: &Object| role.key != *key && selector.matches(&role.meta().labels);
            for role in view.list(COLLECTION, "").into_iter().filter(is_selected) {
                for rule in role.tree().items(&["rules"]) {
                    if !rules.contains(rule) {
                        rules.push(rule.clone());
                    }
                }
            }
        }
        Some((Desired { rules }, Observed { object }))
    }

    fn reconcile(desired: &Desired, observed: &Observed, _: Time) -> Outcome<Step, Why> {
        match observed.object.items(&["rules"]) == desired.rules {
            true => Outcome::rest(),
            false => Outcome::rest().step(Step::Write),
        }
    }

    fn check(_: &Desired, observed: &Observed, outcome: &Outcome<Step, Why>) -> Result<(), String> {
        match !outcome.steps.is_empty() && observed.object.at(&["aggregationRule"]).is_none() {
            true => Err("a role that aggregates nothing is written".to_owned()),
            false => Ok(()),
        }
    }

    fn perform(Step::Write: Step, desired: &Desired, observed: &Observed) -> Action {
        let mut object = observed.object.clone();
        object.put(&["rules"], desired.rules.clone());
        Action::Update { resource: ROLES, subresource: "", object }
    }

    fn explain(why: Why) -> Note {
        match why {}
    }
}

/// A role concerns itself and every role that may select it.
fn roots(view: &View, event: &Event) -> Vec<Key> {
    let aggregates = |role: &Object| role.tree().at(&["aggregationRule"]).is_some_and(|rule| !rule.is_null());
    view.list(COLLECTION, "").into_iter().filter(aggregates).map(|role| role.key).chain([event.key.clone()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::World;
    use brain::Controller;
    use serde_json::json;

    fn role(name: &str, labels: Value, verbs: &[&str]) -> Value {
        let rules: Vec<Value> = verbs.iter().map(|verb| json!({"verbs": [verb]})).collect();
        json!({"metadata": {"name": name, "labels": labels}, "rules": rules})
    }

    fn world() -> World {
        let mut world = World::new([Controller::of::<ClusterRoleAggregationController>()]);
        let selectors = json!([{"matchLabels": {"to-view": "true"}}, {"matchLabels": {"to-edit": "true"}}]);
        let mut edit = role("edit", json!({}), &[]);
        edit.put(&["aggregationRule", "clusterRoleSelectors"], selectors);
        world.put(COLLECTION, edit);
        world.put(COLLECTION, role("b", json!({"to-view": "true", "to-edit": "true"}), &["get", "list"]));
        world.put(COLLECTION, role("a", json!({"to-edit": "true"}), &["list", "create"]));
        world.put(COLLECTION, role("c", json!({}), &["delete"]));
        world
    }

    fn verbs(world: &World) -> Vec<String> {
        let edit = world.get(COLLECTION, "", "edit").unwrap();
        edit.items(&["rules"]).iter().map(|rule| rule["verbs"][0].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn rules_are_the_union_of_the_selected() {
        for mut world in [world(), world().crashing()] {
            assert_eq!(world.settle(), ["update clusterroles edit"]);
            assert_eq!(verbs(&world), ["get", "list", "create"]);
            world.remove(COLLECTION, "", "b");
            assert_eq!(world.follow(), ["update clusterroles edit"]);
            assert_eq!(verbs(&world), ["list", "create"]);
        }
    }
}
