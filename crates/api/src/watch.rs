//! GET with `watch`: what a stream begins with and which events it shows.

use std::sync::Arc;

use kinds::KindDef;
use meta::ApiError;
use store::{Change, Collection, Entry, Event, Revision};

use crate::list::{Matcher, matching, parse_version, wait_not_needed};
use crate::{Answer, Body, Request, World};

/// A stream to be served. The shell sends the start, then what [`WatchAnswer::show`] makes of the collection's events.
pub struct WatchAnswer {
    /// The kind at the version asked for.
    pub kind: Arc<KindDef>,
    /// The collection to follow.
    pub collection: Collection,
    /// Names of shown items start with this.
    pub prefix: String,
    /// What the stream begins with.
    pub start: WatchStart,
    /// Whether to send bookmarks now and then.
    pub bookmarks: bool,
    /// After how many seconds to end; 0 leaves it to the server.
    pub timeout_seconds: u64,
    matcher: Matcher,
}

/// What a stream begins with.
pub struct WatchStart {
    /// ADDED events for what is there.
    pub initial: Vec<Arc<Entry>>,
    /// Then a bookmark that says so (`k8s.io/initial-events-end`).
    pub marks_end: bool,
    /// Then every event after this revision.
    pub after: Revision,
}

/// One event as one watcher sees it.
pub struct WatchEvent {
    /// `ADDED`, `MODIFIED` or `DELETED`.
    pub kind: &'static str,
    /// The object.
    pub entry: Arc<Entry>,
}

pub(crate) fn watch(world: World<'_>, request: &Request) -> Result<Answer, ApiError> {
    let options = &request.options.list;
    let matcher = Matcher::of(request)?;
    let asked = parse_version(&options.resource_version)?;
    wait_not_needed(world, asked)?;
    let target = &request.target;
    let wants_state = match options.send_initial_events {
        Some(wanted) => wanted,
        // Without a revision, or with "0", a stream begins with what is there.
        None => asked.is_none_or(|revision| revision.0 == 0),
    };
    let now = world.snapshot.revision();
    let initial = match wants_state {
        true => matching(world.snapshot, target, &matcher, "").map(|(_, entry)| Arc::clone(entry)).collect(),
        false => Vec::new(),
    };
    let after = match asked {
        Some(revision) if revision.0 > 0 && !wants_state => revision,
        _ => now,
    };
    let answer = WatchAnswer {
        kind: Arc::clone(&target.kind),
        collection: target.kind.collection(),
        prefix: target.prefix(),
        start: WatchStart { initial, marks_end: options.send_initial_events == Some(true) && options.bookmarks, after },
        bookmarks: options.bookmarks,
        timeout_seconds: options.timeout_seconds,
        matcher,
    };
    Ok(Answer { code: 200, body: Body::Watch(Box::new(answer)), warnings: Vec::new() })
}

impl WatchAnswer {
    /// What the watcher sees of an event: an object that begins to match is ADDED, one that ceases to is DELETED.
    pub fn show(&self, event: &Event) -> Option<WatchEvent> {
        if !event.key.item.starts_with(&self.prefix) {
            return None;
        }
        let matched = event.previous.as_ref().is_some_and(|entry| self.matcher.matches(entry));
        let matches = event.change != Change::Deleted && self.matcher.matches(&event.entry);
        let kind = match (matched, matches) {
            (false, true) => "ADDED",
            (true, true) => "MODIFIED",
            (true, false) => "DELETED",
            (false, false) => return None,
        };
        Some(WatchEvent { kind, entry: Arc::clone(&event.entry) })
    }
}
