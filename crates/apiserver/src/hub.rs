//! Wakes those who wait for a collection to change, and nobody else.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use store::{Collection, Revision, Store};
use tokio::sync::watch;

/// One doorbell a collection, and one for the store as a whole.
pub struct Hub {
    bells: Mutex<BTreeMap<Collection, watch::Sender<Revision>>>,
    any: watch::Sender<Revision>,
}

impl Hub {
    /// A hub that listens to `store`.
    pub fn new(store: &dyn Store) -> Arc<Hub> {
        let hub = Arc::new(Hub { bells: Mutex::default(), any: watch::Sender::new(store.snapshot().revision()) });
        let listener = Arc::clone(&hub);
        store.listen(Box::new(move |revision, collections| listener.ring(revision, collections)));
        hub
    }

    fn ring(&self, revision: Revision, collections: &[Collection]) {
        let bells = self.bells.lock().unwrap_or_else(PoisonError::into_inner);
        for bell in collections.iter().filter_map(|collection| bells.get(collection)) {
            bell.send_replace(revision);
        }
        self.any.send_replace(revision);
    }

    /// A receiver that sees every later change of `collection`.
    pub fn subscribe(&self, collection: &Collection) -> watch::Receiver<Revision> {
        let mut bells = self.bells.lock().unwrap_or_else(PoisonError::into_inner);
        let bell = bells.entry(Arc::clone(collection)).or_insert_with(|| watch::Sender::new(Revision(0)));
        bell.subscribe()
    }

    /// A receiver that sees every later change of anything.
    pub fn subscribe_any(&self) -> watch::Receiver<Revision> {
        self.any.subscribe()
    }
}
