//! Who owns which field: `metadata.managedFields`, and the writes that change it.
//!
//! A manager is known by name, operation, apiVersion (updaters only) and subresource. Every write other than an
//! apply goes through [`update`] after defaulting; an apply goes through [`apply`], after which the caller
//! defaults and then calls [`settle`], so that a write that changes nothing keeps the old times.

mod apply;
mod blank;
mod conflict;
mod last_applied;
mod ledger;
mod prune;
mod scale;
mod settle;
mod update;

use meta::{ObjectExt as _, Time};
use schema::Schema;
use serde_json::Value;

pub use apply::{Applied, apply, check};
pub use conflict::{ApplyError, Conflict};
pub use last_applied::LAST_APPLIED;
pub use ledger::{Ledger, ManagerId, Operation, Owned};
pub use scale::{scale_to_parent, scale_to_subresource};
pub use settle::settle;
pub use update::{strip, update};

use crate::fields::FieldSet;

/// One write: who, through which door, when.
#[derive(Clone, Copy)]
pub struct Writer<'a> {
    /// The schema of the object in `api_version`.
    pub schema: &'a Schema,
    /// The field manager's name; empty reads as `unknown`.
    pub manager: &'a str,
    /// The request's version, e.g. `apps/v1`.
    pub api_version: &'a str,
    /// The subresource written through (`status`, `scale`); empty for the object itself.
    pub subresource: &'a str,
    /// The time of the write.
    pub now: Time,
    /// Fields that a write through this door resets and therefore never owns, with all that is below them.
    pub reset: Option<&'a FieldSet>,
    /// Conversion to the versions of other managers. Without it their sets are read as if they were of this
    /// version, which is right for kinds of one version.
    pub versions: Option<&'a dyn Versions>,
}

/// Conversion of an object between the versions of its kind.
pub trait Versions {
    /// The object in another version, with that version's schema; `None` when there is no such version (any more),
    /// which ends the ownership of the managers that used it.
    fn convert(&self, object: &Value, api_version: &str) -> Option<(Value, &Schema)>;
}

impl Writer<'_> {
    fn id(&self, operation: Operation) -> ManagerId {
        ManagerId::new(self.manager, operation, self.api_version, self.subresource)
    }

    /// The object in the version of a manager, and its schema: `None` when it is the writer's own.
    fn foreign<'v>(&'v self, api_version: &str) -> Option<&'v dyn Versions> {
        self.versions.filter(|_| api_version != self.api_version)
    }
}

/// `metadata.managedFields`, when it is there.
fn entries(object: &Value) -> Option<&Value> {
    object.at(&["metadata", "managedFields"])
}

#[cfg(test)]
mod tests;
