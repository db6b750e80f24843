//! A plan: what apply would do, and what would come of it. Its JSON form is versioned and documented in docs/plan.md.

use std::collections::BTreeSet;
use std::sync::Arc;

use kinds::KindDef;
use serde::{Deserialize, Serialize};
use store::Key;

use crate::change::{Action, Change, Reference};
use crate::consequence::{Aftermath, Consequence, Dip, Outlook, Unplaced, is_settled};
use crate::declared::{self, Wish};
use crate::fork::{Fork, World};
use crate::settle::{Limits, Rest, Troupe};

/// The version of the form.
pub const API_VERSION: &str = "setpoint.dev/v1alpha1";

/// What apply would do, and what would come of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// The state that it was worked out on.
    pub revision: String,
    /// What becomes of each declared object, in the order in which apply goes through them.
    pub changes: Vec<Change>,
    /// What controllers do then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub consequences: Vec<Consequence>,
    /// Consequences that the user may not read.
    #[serde(default)]
    pub hidden: usize,
    /// Workloads that have fewer available replicas on the way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dips: Vec<Dip>,
    /// Pods that find no node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unplaced: Vec<Unplaced>,
    /// What went wrong on the way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
    /// Whether what is declared comes to be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outlook: Vec<Outlook>,
    /// How it ended.
    pub rest: RestReport,
}

/// Something that went wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Warning {
    /// `apps/replicasets/default/web-5d4c`.
    pub about: String,
    /// CamelCase.
    pub reason: String,
    /// One sentence.
    pub message: String,
}

/// How the run on virtual time ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RestReport {
    /// Everything came to rest.
    pub reached: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Virtual seconds that passed.
    pub seconds: u64,
    /// Decisions of controllers.
    pub turns: usize,
    /// Requests to the fork.
    pub requests: usize,
}

/// How many objects have which fate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// To be made, replaced ones too.
    pub add: usize,
    /// To be changed in place.
    pub change: usize,
    /// To be deleted, replaced ones too.
    pub destroy: usize,
    /// Refused.
    pub refused: usize,
}

impl Plan {
    /// How many objects have which fate.
    pub fn summary(&self) -> Summary {
        let mut summary = Summary::default();
        for change in &self.changes {
            match change.action {
                Action::Create => summary.add += 1,
                Action::Update => summary.change += 1,
                Action::Delete => summary.destroy += 1,
                Action::Replace => {
                    summary.add += 1;
                    summary.destroy += 1;
                }
                Action::Refuse => summary.refused += 1,
                Action::Keep => {}
            }
        }
        summary
    }

    /// Whether everything is as declared.
    pub fn is_empty(&self) -> bool {
        self.summary() == Summary::default()
    }

    /// What the plan does to declared objects, without what every other write moves (revisions, consequences): two
    /// plans with the same essence do the same.
    pub fn essence(&self) -> Vec<Change> {
        // Values that are not shown cannot be compared: such an object must be the very one.
        let is_hidden = |change: &Change| change.fields.iter().any(|field| field.sensitive);
        let plain = |change: &Change| Change {
            resource_version: if is_hidden(change) { change.resource_version.clone() } else { String::new() },
            warnings: Vec::new(),
            ownership: Vec::new(),
            unchanged: 0,
            ..change.clone()
        };
        self.changes.iter().filter(|change| change.action != Action::Keep).map(plain).collect()
    }

    /// The objects that go away without being declared to, by kind and owner: a plan that adds to them is another plan.
    pub fn losses(&self) -> BTreeSet<(String, String, Option<Reference>)> {
        let lost = self.consequences.iter().filter(|consequence| consequence.action == Action::Delete);
        lost.map(|c| (c.kind.clone(), c.namespace.clone(), c.owner.clone())).collect()
    }
}

/// Works out what would happen.
pub fn plan(world: &World, wish: &Wish, limits: Limits) -> Plan {
    let mut troupe = Troupe::new(Fork::of(world), world.view.clone(), limits);
    let told = declared::perform(&mut troupe, wish);
    let direct: BTreeSet<Key> = told.iter().filter_map(|(key, _)| key.clone()).collect();
    let (base, catalog) = (world.view.snapshot().clone(), troupe.fork.catalog());
    let rest = troupe.run_to_rest(&|view| is_settled(view, &catalog, &base, &direct));
    let catalog = troupe.fork.catalog();
    let readable = |kind: &KindDef, namespace: &str| troupe.fork.may_read(&wish.user, kind, namespace);
    let aftermath =
        Aftermath { before: &world.view, troupe: &troupe, catalog: &catalog, direct: &direct, may_read: &readable };
    let (consequences, hidden) = aftermath.consequences();
    let warning = |(key, reason, message): &(Key, &'static str, String)| Warning {
        about: key.to_string(),
        reason: (*reason).to_owned(),
        message: message.clone(),
    };
    Plan {
        revision: base.revision().0.to_string(),
        consequences,
        hidden,
        dips: aftermath.dips(),
        unplaced: aftermath.unplaced(),
        warnings: troupe.warnings.iter().filter(|(key, ..)| aftermath.is_readable(key)).map(warning).collect(),
        outlook: aftermath.outlook(),
        rest: report(&troupe, world, rest),
        changes: told.into_iter().map(|(_, change)| change).collect(),
    }
}

fn report(troupe: &Troupe, world: &World, rest: Rest) -> RestReport {
    let seconds = troupe.fork.now().since(world.now).as_secs();
    let message = match (troupe.faults.first(), rest) {
        (Some(fault), _) => format!("the plan is not to be trusted: {fault}"),
        (None, Rest::Reached) => String::new(),
        (None, Rest::Stuck) => "nothing more happens, though not everything is as declared".to_owned(),
        (None, Rest::Horizon) => format!("not everything is as declared after {seconds} s"),
        (None, Rest::TooManyTurns) => format!("no end after {} decisions: controllers may fight", troupe.turns),
    };
    RestReport { reached: message.is_empty(), message, seconds, turns: troupe.turns, requests: troupe.fork.requests() }
}

impl Fork {
    /// Whether a user may read the objects of a kind in a namespace.
    fn may_read(&self, user: &Arc<admit::UserInfo>, kind: &KindDef, namespace: &str) -> bool {
        let asked = admit::Attributes {
            user: Arc::clone(user),
            verb: "list".to_owned(),
            group: kind.group.to_string(),
            version: kind.version.to_string(),
            resource: kind.plural.to_string(),
            namespace: namespace.to_owned(),
            ..admit::Attributes::default()
        };
        self.authorizer().authorize(&self.snapshot(), &asked).is_allowed()
    }
}
