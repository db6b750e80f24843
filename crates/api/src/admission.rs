//! The bridge to the admission steps: what they see of a request, and their side effects as part of its transaction.

use admit::admission::{Case, Effects, Operation, Request as Asked, World as Seen};
use admit::{Attributes, chain, policy, rbac};
use meta::{ApiError, Gvk};
use serde_json::Value;
use store::{Keyspace, Op, Precondition};

use crate::{World, encode};

/// One request as admission sees it.
pub(crate) struct Review<'r> {
    pub attributes: &'r Attributes,
    pub operation: Operation,
    pub kind: &'r Gvk,
    pub old: Option<&'r Value>,
    pub dry_run: bool,
}

impl Review<'_> {
    /// Runs the mutating and then the validating steps.
    pub fn admit(&self, world: World<'_>, new: Option<&mut Value>, effects: &mut Effects) -> Result<(), ApiError> {
        self.with_case(world, |case| match new {
            Some(new) => {
                mutate(case, new, effects)?;
                chain::validate(case, Some(new), effects)?;
                self.refuse_escalation(case, world, new)?;
                policy::validate(case, Some(new), effects)
            }
            None => {
                chain::validate(case, None, effects)?;
                policy::validate(case, None, effects)
            }
        })
    }

    /// Nobody grants what they do not hold.
    fn refuse_escalation(&self, case: &Case<'_>, world: World<'_>, new: &Value) -> Result<(), ApiError> {
        let asked = self.attributes;
        if asked.group != rbac::GROUP || !asked.subresource.is_empty() {
            return Ok(());
        }
        let view = world.authorizer.view(world.snapshot);
        match asked.resource.as_str() {
            "roles" | "clusterroles" => rbac::check_role(&view, asked, case.world.may, self.old, new),
            "rolebindings" | "clusterrolebindings" => rbac::check_binding(&view, asked, case.world.may, self.old, new),
            _ => Ok(()),
        }
    }

    /// Charges quotas; the last step.
    pub fn charge(&self, world: World<'_>, new: &Value, effects: &mut Effects) -> Result<(), ApiError> {
        self.with_case(world, |case| chain::charge(case, Some(new), effects))
    }

    fn with_case<T>(&self, world: World<'_>, run: impl FnOnce(&Case<'_>) -> T) -> T {
        /// Length of the random part of a token volume's name.
        const SUFFIX_LENGTH: usize = 5;
        let suffix = || world.ids.suffix(SUFFIX_LENGTH);
        let may = |asked: &Attributes| world.authorizer.authorize(world.snapshot, asked).is_allowed();
        let request = Asked {
            attributes: self.attributes,
            operation: self.operation,
            kind: self.kind,
            dry_run: self.dry_run,
            options: &Value::Null,
        };
        let seen =
            Seen { snapshot: world.snapshot, catalog: world.catalog, now: world.now, suffix: &suffix, may: &may };
        run(&Case { request, world: seen, old: self.old })
    }
}

/// The mutating steps, built in and declared. What policies changed is looked at once more by all who may care.
fn mutate(case: &Case<'_>, new: &mut Value, effects: &mut Effects) -> Result<(), ApiError> {
    chain::mutate(case, new, effects)?;
    if policy::mutate(case, new, policy::Round::First)? {
        chain::mutate(case, new, effects)?;
        policy::mutate(case, new, policy::Round::Again)?;
    }
    Ok(())
}

/// What admission writes besides, as parts of the request's own transaction.
pub(crate) fn side_writes(effects: &Effects, snapshot: &store::Snapshot) -> impl Iterator<Item = (Precondition, Op)> {
    effects.writes.iter().map(|write| {
        let (value, stamp_at) = encode(&write.object);
        let annex = snapshot.get_key(&write.key).map(|entry| entry.annex.clone()).unwrap_or_default();
        let key = write.key.clone();
        let op = Op::Put { key, value, annex, stamp_at: Some(stamp_at), keyspace: Keyspace::Durable };
        (Precondition::ModifiedAt(write.key.clone(), write.read_at), op)
    })
}
