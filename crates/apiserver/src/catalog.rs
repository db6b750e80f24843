//! The kinds served follow the CustomResourceDefinitions stored.

use std::sync::{Arc, Weak};

use kinds::Catalog;
use store::{Collection, Snapshot};

use crate::app::App;

const DEFINITIONS: &str = "apiextensions.k8s.io/customresourcedefinitions";

/// The built-in kinds and those that established definitions declare.
pub fn read(snapshot: &Snapshot) -> Catalog {
    let custom = snapshot.range(DEFINITIONS, "", "").flat_map(|(_, entry)| {
        let definition = serde_json::from_slice(&entry.value).unwrap_or_default();
        kinds::custom::served(&definition)
    });
    Catalog::built_in().with_custom(custom.map(Arc::new))
}

/// Publishes a new catalog whenever the definitions change, until the app is gone.
pub fn follow(app: &Arc<App>) {
    let collection: Collection = DEFINITIONS.into();
    let mut changes = app.hub.subscribe(&collection);
    let weak: Weak<App> = Arc::downgrade(app);
    tokio::spawn(async move {
        while changes.changed().await.is_ok() {
            let Some(app) = weak.upgrade() else { return };
            app.publish(read(&app.snapshot()));
        }
    });
}
