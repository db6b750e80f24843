//! Objects together with their schema, as server-side apply sees them: which fields a value holds, how two values
//! differ field by field, what a partial value makes of a whole one.

mod check;
mod compare;
mod extract;
mod keys;
mod merge;
mod normal;
mod reconcile;
mod remove;
mod shape;

use schema::Schema;
use serde_json::Value;

pub use check::{Fault, print_faults};
pub use compare::Comparison;
pub(crate) use keys::step_of;
pub(crate) use reconcile::{name_members, reconcile};
pub(crate) use shape::{Atom, ListType, Type};

use crate::fields::FieldSet;

/// What a value contradicts its schema in: wrong types, undeclared fields, duplicate or missing list keys. Empty
/// when it is a valid partial object.
pub fn check(schema: &Schema, value: &Value) -> Vec<Fault> {
    check::check(Type::Object(schema), value)
}

/// The fields that a value holds, which its applier therefore owns: leaves, list items, and containers that are
/// atomic, empty maps or null.
pub fn extract(schema: &Schema, value: &Value) -> FieldSet {
    extract::extract(Type::Object(schema), value)
}

/// How `new` differs from `old`. Null is a value; what is absent is absent.
pub fn compare(schema: &Schema, old: &Value, new: &Value) -> Comparison {
    compare::compare(Type::Object(schema), old, new)
}

/// Merges a partial object into a whole one. `config` must have passed [`check`]; duplicates in `live` are
/// tolerated. Nothing is ever removed; lists take the order of `config` where the two disagree.
pub fn merge(schema: &Schema, live: &mut Value, config: &Value) {
    merge::merge(Type::Object(schema), live, config);
}

/// Removes the members of `set`. A map or list that loses everything becomes null.
pub fn remove_items(schema: &Schema, value: &mut Value, set: &FieldSet) {
    remove::remove(Type::Object(schema), value, set);
}

/// Drops fields that are null where the schema has no null, because there null reads as absent.
pub fn drop_nulls(schema: &Schema, value: &mut Value) {
    normal::drop_nulls(Type::Object(schema), value);
}

#[cfg(test)]
mod tests;
