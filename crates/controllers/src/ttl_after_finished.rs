//! A Job with `ttlSecondsAfterFinished` is deleted that long after it has ended.
//!
//! Owns: nothing but the deletion, bound to the revision it decided on, so that a longer time to live set meanwhile
//! counts. At rest: the Job has not ended, has no time to live, or lives on.

use std::time::Duration;

use brain::{Action, Brain, Def, Note, Outcome, Propagation, View, Watch};
use meta::{ObjectExt, Time, condition};
use store::Key;

use crate::job::{COLLECTION, JOBS};
use crate::target::Target;

/// The controller.
pub struct TtlAfterFinishedController;

/// When the Job shall go.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    until: Time,
}

/// The Job.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    target: Target,
}

/// Every effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Deletes the Job, its pods first.
    Delete,
}

/// Every reason.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// Its time is over.
    Expired,
}

impl Brain for TtlAfterFinishedController {
    const DEF: Def = Def {
        name: "ttl-after-finished",
        root: JOBS,
        root_kind: "Job",
        watches: &[Watch { collection: COLLECTION, roots: |_, event| vec![event.key.clone()] }],
        resync: None,
    };
    type Desired = Desired;
    type Observed = Observed;
    type Step = Step;
    type Why = Why;

    fn observe(view: &View, key: &Key, _: Time) -> Option<(Desired, Observed)> {
        let object = view.get_key(key).filter(|job| !job.meta().is_deleting())?;
        let job = object.tree();
        let ttl = u64::try_from(job.int(&["spec", "ttlSecondsAfterFinished"])?).ok()?;
        let ends = ["Complete", "Failed"].map(|type_| condition::find(&job, type_));
        let end = ends.into_iter().flatten().find(|end| end.text(&["status"]) == "True")?;
        let until = Time::parse(end.text(&["lastTransitionTime"]))?.after(Duration::from_secs(ttl));
        Some((Desired { until }, Observed { target: Target::of(&object) }))
    }

    fn reconcile(desired: &Desired, _: &Observed, now: Time) -> Outcome<Step, Why> {
        match desired.until <= now {
            true => Outcome::rest().step(Step::Delete).note(Why::Expired),
            false => Outcome::rest().wake_at(desired.until),
        }
    }

    fn check(_: &Desired, _: &Observed, _: &Outcome<Step, Why>) -> Result<(), String> {
        Ok(())
    }

    fn perform(Step::Delete: Step, _: &Desired, observed: &Observed) -> Action {
        observed.target.delete_guarded(JOBS, Some(Propagation::Foreground))
    }

    fn explain(Why::Expired: Why) -> Note {
        Note::quiet("TtlExpired", "the Job's time to live after its end is over")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::{START, World};
    use brain::Controller;
    use serde_json::{Value, json};

    fn put(world: &mut World, name: &str, ttl: Value, condition: &str) {
        let conditions = json!([{"type": condition, "status": "True", "lastTransitionTime": START.to_rfc3339()}]);
        world.put(
            COLLECTION,
            json!({"metadata": {"name": name, "namespace": "a"}, "spec": {"ttlSecondsAfterFinished": ttl},
                "status": {"conditions": conditions}}),
        );
    }

    #[test]
    fn ended_jobs_go_in_time() {
        let mut world = World::new([Controller::of::<TtlAfterFinishedController>()]);
        put(&mut world, "now", json!(0), "Complete");
        put(&mut world, "later", json!(60), "Failed");
        put(&mut world, "never", Value::Null, "Complete");
        put(&mut world, "running", json!(0), "Suspended");
        assert_eq!(world.settle(), ["delete jobs a/now Foreground"]);
        world.advance(59);
        assert_eq!(world.follow(), Vec::<String>::new());
        world.advance(1);
        assert_eq!(world.follow(), ["delete jobs a/later Foreground"]);
    }
}
