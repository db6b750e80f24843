//! How objects change: patches, server-side apply and the ownership of fields, structural differences.
//!
//! Everything here is a pure function of JSON trees and their schema. Trees are at most as deep as JSON is read
//! (128 levels), which bounds the recursion of every walk.

pub mod csa;
pub mod diff;
pub mod fields;
mod go_text;
pub mod json_merge;
pub mod json_patch;
pub mod managed;
mod patch_error;
pub mod strategic;
#[cfg(test)]
mod test_schema;
pub mod typed;

pub use patch_error::{PatchError, PatchErrorKind};
