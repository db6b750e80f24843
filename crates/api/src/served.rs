//! The kinds that a state serves: the built-in ones and those of its CustomResourceDefinitions.

use std::sync::Arc;

use kinds::Catalog;
use store::Snapshot;

/// The collection of the definitions.
pub const DEFINITIONS: &str = "apiextensions.k8s.io/customresourcedefinitions";

/// The built-in kinds of a catalog and those that the established definitions of a state declare.
pub fn served(catalog: &Catalog, snapshot: &Snapshot) -> Catalog {
    let custom = snapshot.items(DEFINITIONS).flat_map(|(_, entry)| {
        let definition = meta::stored::read(&entry.value).unwrap_or_default();
        kinds::custom::served(&definition)
    });
    catalog.with_custom(custom.map(Arc::new))
}
