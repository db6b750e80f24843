//! The table: one line a kind, sorted by group, kind and version.

use std::sync::Arc;

use crate::KindDef;
use crate::core;

/// Declares a kind.
type Declare = fn() -> KindDef;

/// One line a kind; the table's test keeps it sorted and complete.
#[rustfmt::skip]
const TABLE: &[Declare] = &[
    core::binding::def,
    core::component_status::def,
    core::config_map::def,
    core::endpoints::def,
    core::namespace::def,
    core::secret::def,
    core::service::def,
    core::service_account::def,
];

/// Every built-in kind.
pub fn built_in() -> Vec<Arc<KindDef>> {
    TABLE.iter().map(|declare| Arc::new(declare())).collect()
}
