//! Sets of fields, and their wire form `FieldsV1`.
//!
//! A set is a tree: each step leads to a subtree and may itself be a member. `{"f:spec":{"f:replicas":{}}}` holds
//! one field; `"."` marks a step that is a member and has members below it.

mod element;
mod set;
mod wire;

pub use element::{PathElement, compare_values};
pub use set::{FieldSet, Path};

pub(crate) use element::print_path;
pub(crate) use set::Node;
