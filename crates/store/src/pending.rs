//! What an engine must make durable, and what it reads back.

use std::sync::Arc;

use bytes::Bytes;

use crate::{Change, Collection, Committed, Entry, Event, Key, Revision};

/// A transaction on the pending head.
#[derive(Clone, Debug)]
pub struct Pending {
    /// What its writer will be told.
    pub committed: Committed,
    pub(crate) events: Arc<[Event]>,
}

/// One change to make durable.
#[derive(Clone, Copy, Debug)]
pub enum Record<'p> {
    /// The item is now this.
    Put {
        /// Which item.
        key: &'p Key,
        /// What it is.
        entry: &'p Entry,
    },
    /// The item is gone.
    Delete {
        /// Which item.
        key: &'p Key,
        /// Its last value as watchers see it, where that is not the stored one.
        last: Option<&'p Bytes>,
    },
}

/// One change as read back from the log.
#[derive(Clone, Debug)]
pub enum Replayed {
    /// The item became this.
    Put {
        /// Which item.
        key: Key,
        /// Its value, already stamped.
        value: Bytes,
        /// Its annex.
        annex: Bytes,
        /// The revision that made the item.
        created: Revision,
    },
    /// The item went.
    Delete {
        /// Which item.
        key: Key,
        /// Its last value as watchers see it, where that is not the stored one.
        last: Option<Bytes>,
    },
}

impl Pending {
    /// The revision at which it becomes visible. A transaction that changed nothing has that of its predecessor.
    pub fn revision(&self) -> Revision {
        self.committed.revision
    }

    /// Everything it changes, in order.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// What must be durable before it is acknowledged; none if it touches volatile items only.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        self.events.iter().filter_map(record)
    }

    /// The collections in which it writes volatile items, possibly repeated.
    pub fn volatile_collections(&self) -> impl Iterator<Item = &Collection> {
        self.events.iter().filter(|event| !event.entry.is_durable()).map(|event| &event.key.collection)
    }
}

fn record(event: &Event) -> Option<Record<'_>> {
    let was_durable = event.previous.as_ref().is_some_and(|previous| previous.is_durable());
    let is_durable = event.entry.is_durable();
    match event.change {
        Change::Created | Change::Modified if is_durable => Some(Record::Put { key: &event.key, entry: &event.entry }),
        Change::Deleted if was_durable => Some(Record::Delete { key: &event.key, last: last(event) }),
        // A durable item that became volatile: the durable one must not come back at the next start.
        Change::Modified if was_durable => Some(Record::Delete { key: &event.key, last: None }),
        _ => None,
    }
}

fn last(event: &Event) -> Option<&Bytes> {
    let stored = event.previous.as_ref().map(|previous| &previous.value);
    (stored != Some(&event.entry.value)).then_some(&event.entry.value)
}
