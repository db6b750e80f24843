//! Keeps as many pods of one template as a ReplicationController asks for.
//!
//! It decides as [`crate::replica_set`] does, on another kind: its selector is a plain map, which is the template's
//! labels where it is absent, and its status does not count pods being deleted. Contract and rest are the same.

use brain::{Action, Brain, Def, Note, Outcome, Refusal, Resource, View, Watch};
use meta::labels::Selector;
use meta::{ObjectExt, Time};
use serde_json::Value;
use store::Key;

use crate::replica_set::{self, Desired, Flavor, Observed, Step, Why};
use crate::{pods, wakes};

const COLLECTION: &str = "core/replicationcontrollers";
const REPLICATION_CONTROLLERS: Resource = Resource::new("", "v1", "replicationcontrollers");

static FLAVOR: Flavor = Flavor {
    resource: REPLICATION_CONTROLLERS,
    api_version: "v1",
    kind: "ReplicationController",
    selector,
    counts_terminating: false,
};

/// The controller.
pub struct ReplicationControllerController;

/// Nothing selects nothing: an empty selector would take every pod of the namespace.
fn selector(spec: &Value) -> Selector {
    let pairs = spec.map(&["selector"]).or_else(|| spec.map(&["template", "metadata", "labels"]));
    pairs.filter(|pairs| !pairs.is_empty()).map_or_else(Selector::nothing, Selector::from_map)
}

impl Brain for ReplicationControllerController {
    const DEF: Def = Def {
        name: "replication",
        root: REPLICATION_CONTROLLERS,
        root_kind: "ReplicationController",
        watches: &[
            Watch { collection: COLLECTION, roots: |_, event| vec![event.key.clone()] },
            Watch {
                collection: pods::COLLECTION,
                roots: |view, event| wakes::of_child(view, event, "ReplicationController", COLLECTION, selector),
            },
        ],
        resync: None,
    };
    type Desired = Desired;
    type Observed = Observed;
    type Step = Step;
    type Why = Why;

    fn observe(view: &View, key: &Key, _: Time) -> Option<(Desired, Observed)> {
        replica_set::observe(view, key, &FLAVOR)
    }

    fn refused(observed: &mut Observed, refusal: &Refusal) {
        observed.refusal = Some(refusal.clone());
    }

    fn reconcile(desired: &Desired, observed: &Observed, now: Time) -> Outcome<Step, Why> {
        replica_set::reconcile(desired, observed, now)
    }

    fn check(desired: &Desired, observed: &Observed, outcome: &Outcome<Step, Why>) -> Result<(), String> {
        replica_set::check(desired, observed, outcome)
    }

    fn perform(step: Step, desired: &Desired, _: &Observed) -> Action {
        replica_set::perform(step, desired)
    }

    fn announce(step: &Step, _: &Desired) -> Option<Note> {
        replica_set::announce(step)
    }

    fn explain(why: Why) -> Note {
        replica_set::explain(why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    use crate::testing::{Cluster, the_same_after_crashes};
    use brain::Controller;
    use serde_json::json;

    fn controllers() -> Vec<Controller> {
        vec![Controller::of::<ReplicationControllerController>()]
    }

    fn replication_controller(replicas: i64) -> Value {
        json!({
            "apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "web"},
            "spec": {"replicas": replicas, "selector": {"app": "web"},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"image": "web:1"}]}}},
        })
    }

    #[test]
    fn pods_are_kept_at_their_number() {
        the_same_after_crashes(controllers, |cluster: &mut Cluster| {
            cluster.create(&REPLICATION_CONTROLLERS, replication_controller(3));
            cluster.run();
            let name = cluster.pods()[0].name().to_owned();
            cluster.set_pod_status(&name, json!({"phase": "Failed"}));
            cluster.run();
            cluster.edit(&REPLICATION_CONTROLLERS, "web", |rc| rc["spec"]["replicas"] = 2.into());
            cluster.run();
            let status = cluster.get(&REPLICATION_CONTROLLERS, "web")["status"].clone();
            assert_eq!(status["readyReplicas"], 2);
            assert_eq!(status.get("terminatingReplicas"), None);
            assert_eq!(cluster.pods().len(), 3, "the failed one stays");
        });
    }

    #[test]
    fn no_selector_is_the_templates_labels() {
        let spec = replication_controller(1)["spec"].clone();
        let mut without = spec.clone();
        without.remove(&["selector"]);
        let labels = BTreeMap::from([("app".to_owned(), "web".to_owned())]);
        for spec in [spec, without] {
            assert!(selector(&spec).matches(&labels) && !selector(&spec).matches(&BTreeMap::new()));
        }
        assert!(!selector(&json!({"selector": {}})).matches(&labels));
    }
}
