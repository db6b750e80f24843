//! The grammar of objects: which fields a type has, how each is merged, defaulted, checked and put on the wire.
//!
//! Built-in types come from a compact facts file (`cargo xtask schema`), custom ones from a
//! CustomResourceDefinition; both become the same [`Schema`], so that decoding, pruning, defaulting, validation,
//! merging and publishing are each written once.

mod conform;
pub mod crd;
pub mod defaults;
mod facts;
pub mod json;
mod navigate;
pub mod openapi;
pub mod proto;
pub mod prune;
mod shape;
mod special;
mod text;
pub mod validate;

pub use conform::{Conformed, Mode, TypeError, conform, conform_as};
pub use facts::{builtin, builtin_names};
pub use shape::{Facets, Field, IntFormat, Link, ListKind, Rule, Schema, Shape, StringFormat, Struct, Zero};
pub use validate::pattern::Compiled;
