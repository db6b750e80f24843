//! Every built-in kind, declared once: one file each under `src/<group>/`, one line in the table.
//!
//! From a [`KindDef`] follow routes, discovery, storage keys, OpenAPI, strict field checking, pruning, defaulting,
//! validation, tables, selectors, subresources, generation bumps and more; nothing else lists kinds. A
//! CustomResourceDefinition becomes the same `KindDef` (law 8) and enters the same [`Catalog`].

mod admissionregistration;
mod apiextensions;
mod apiregistration;
pub mod apply_order;
mod apps;
mod authentication;
mod authorization;
mod autoscaling;
mod batch;
mod builder;
mod catalog;
mod certificates;
mod check;
pub mod column;
mod coordination;
mod core;
pub mod custom;
mod def;
mod difference;
mod discovery;
mod events;
mod fill;
mod flowcontrol;
pub mod halves;
mod metrics;
mod networking;
mod node;
pub mod object_meta;
mod policy;
pub mod priority;
mod rbac;
mod resource;
mod scheduling;
mod setpoint;
mod storage;
mod storagemigration;
mod table;
mod workload;

pub use crate::core::{namespace, pod, service};
pub use authentication::token_request;
pub use batch::schedule;
pub use catalog::{Catalog, Group};
pub use def::{
    BuiltInRules, Cell, Column, Converged, Conversion, Health, KindDef, Resource, Rules, ScalePaths, Scope,
    SelectableField, SelectorAt, Subresource, Text, UpdateOf,
};
pub use object_meta::{validate_object_meta, validate_object_meta_update};
pub use scheduling::priority_class;
pub use storage::storage_class;
pub use table::built_in;
