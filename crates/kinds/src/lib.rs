//! Every built-in kind, declared once: one file each under `src/<group>/`, one line in the table.
//!
//! From a [`KindDef`] follow routes, discovery, storage keys, OpenAPI, strict field checking, pruning, defaulting,
//! validation, tables, selectors, subresources, generation bumps and more; nothing else lists kinds. A
//! CustomResourceDefinition becomes the same `KindDef` (law 8) and enters the same [`Catalog`].

mod admissionregistration;
mod apiextensions;
pub mod apply_order;
mod apps;
mod builder;
mod catalog;
mod check;
pub mod column;
mod coordination;
mod core;
mod def;
mod difference;
mod discovery;
mod events;
mod fill;
pub mod halves;
pub mod object_meta;
pub mod priority;
mod rbac;
mod table;
mod workload;

pub use catalog::{Catalog, Group};
pub use def::{
    BuiltInRules, Cell, Column, Converged, Conversion, Health, KindDef, Resource, Rules, ScalePaths, Scope,
    SelectableField, SelectorAt, Subresource, Text, UpdateOf,
};
pub use object_meta::{validate_object_meta, validate_object_meta_update};
pub use table::built_in;
