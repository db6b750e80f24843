//! Watchers with small appetites beside the run, one a collection: they fetch a few events at a time, resume now and
//! then, fall behind and are overtaken by compaction. What they got must have the nine properties of a watch.

use std::collections::BTreeMap;

use store::suite::watch::{Delivery, Watch, check};
use store::{Collection, Event, ReadError, Revision, Store};

use crate::dice::Dice;

/// A watch is looked at after so many answers and goes on as a new one: the look compares every answer with all that
/// happened, so its cost grows with the square.
const DELIVERIES_MAX: usize = 40;
/// Most events a watcher asks for.
const APPETITE_MAX: u64 = 6;

/// A watch, and what happened meanwhile in its collection, as the oracles were told.
struct Watching {
    watch: Watch,
    history: Vec<Event>,
}

/// All watchers.
#[derive(Default)]
pub struct Watchers {
    by_collection: BTreeMap<Collection, Watching>,
    /// How many answers they had.
    pub deliveries: u64,
}

impl Watching {
    fn begin(collection: &Collection, after: Revision) -> Watching {
        let watch = Watch { collection: collection.clone(), prefix: String::new(), after, deliveries: Vec::new() };
        Watching { watch, history: Vec::new() }
    }

    fn through(&self) -> Revision {
        self.watch.deliveries.last().map_or(self.watch.after, |delivery| delivery.through)
    }

    fn judged(&self) -> Result<(), String> {
        let (collection, after) = (&self.watch.collection, self.watch.after);
        check(&self.watch, &self.history).map_err(|broken| format!("a watch of {collection} after {after}: {broken:?}"))
    }

    /// Goes on behind what it has got; what lies before is no longer needed.
    fn renewed(&mut self) {
        self.watch.after = self.through();
        self.watch.deliveries.clear();
        let after = self.watch.after;
        self.history.retain(|event| event.revision > after);
    }

    fn fetch(&mut self, store: &dyn Store, dice: &Dice) -> Result<(), String> {
        let limit = 1 + dice.below(APPETITE_MAX) as usize;
        match store.events(&self.watch.collection, self.through(), limit) {
            Ok((events, through)) => self.watch.deliveries.push(Delivery { events, through }),
            Err(ReadError::Compacted { .. }) => {
                self.judged()?;
                *self = Watching::begin(&self.watch.collection, store.snapshot().revision());
            }
            Err(ReadError::Future { newest }) => {
                return Err(format!("{} is the future, at {newest}", self.through()));
            }
        }
        if self.watch.deliveries.len() < DELIVERIES_MAX {
            return Ok(());
        }
        self.judged()?;
        self.renewed();
        Ok(())
    }
}

impl Watchers {
    /// What happened after `after`, up to the newest revision of `store`; lets some of the watchers fetch.
    pub fn told(&mut self, store: &dyn Store, after: Revision, events: &[Event], seed: u64) -> Result<(), String> {
        for event in events {
            let collection = &event.key.collection;
            let begin = || Watching::begin(collection, after);
            self.by_collection.entry(collection.clone()).or_insert_with(begin).history.push(event.clone());
        }
        let dice = Dice::about(seed, "watchers", after.0);
        for watching in self.by_collection.values_mut().filter(|_| dice.percent(30)) {
            self.deliveries += 1;
            watching.fetch(store, &dice)?;
        }
        Ok(())
    }

    /// The store is another process: what it showed last may never have been told.
    pub fn restarted(&mut self) -> Result<(), String> {
        std::mem::take(&mut self.by_collection).values().try_for_each(Watching::judged)
    }
}
