//! The table: one line a kind, sorted by group, kind and version.

use std::sync::Arc;

use crate::KindDef;

/// Declares a kind.
type Declare = fn() -> KindDef;

/// One line a kind; the table's test keeps it sorted and complete.
#[rustfmt::skip]
const TABLE: &[Declare] = &[
];

/// Every built-in kind.
pub fn built_in() -> Vec<Arc<KindDef>> {
    TABLE.iter().map(|declare| Arc::new(declare())).collect()
}
