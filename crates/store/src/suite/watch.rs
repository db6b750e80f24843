//! What a watch must be: the nine properties that etcd's robustness tests check, over what was delivered and
//! everything that happened. A pure checker, apart from the code it checks; the simulator uses it too.

use std::collections::BTreeSet;

use crate::{Change, Collection, Event, Revision};

/// One answer to a watcher.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// Events, oldest first.
    pub events: Vec<Event>,
    /// The revision up to which the watcher has now seen everything.
    pub through: Revision,
}

/// A watch and all that it delivered.
#[derive(Clone, Debug)]
pub struct Watch {
    /// What it watched.
    pub collection: Collection,
    /// Which items it watched.
    pub prefix: String,
    /// Where it began: it wants everything after this.
    pub after: Revision,
    /// What it got, in order.
    pub deliveries: Vec<Delivery>,
}

/// Which promise was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// Revisions never go back.
    Ordered,
    /// No event comes twice.
    Unique,
    /// No event between the first and the last is missing.
    Reliable,
    /// All events of one transaction come in one delivery.
    Atomic,
    /// The first event is the first one after the revision it began at.
    Resumable,
    /// Whoever is told a revision has seen everything up to it.
    Bookmarkable,
    /// Only what was asked for comes.
    Filtered,
    /// The previous value is the one before.
    Previous,
    /// What came into being is called created, and nothing else is; the value is the one written.
    IsCreate,
}

impl Watch {
    fn wants(&self, event: &Event) -> bool {
        event.key.collection == self.collection && event.key.item.starts_with(&self.prefix)
    }

    fn delivered(&self) -> impl Iterator<Item = &Event> {
        self.deliveries.iter().flat_map(|delivery| &delivery.events)
    }
}

/// Checks a watch against the whole history, which is in order.
///
/// # Errors
/// The first property that does not hold.
pub fn check(watch: &Watch, history: &[Event]) -> Result<(), Broken> {
    let wanted: Vec<&Event> =
        history.iter().filter(|event| watch.wants(event) && event.revision > watch.after).collect();
    let properties: [(Broken, bool); 9] = [
        (Broken::Ordered, is_ordered(watch)),
        (Broken::Unique, is_unique(watch)),
        (Broken::Filtered, watch.delivered().all(|event| watch.wants(event))),
        (Broken::Resumable, is_resumable(watch, &wanted)),
        (Broken::Atomic, is_atomic(watch, &wanted)),
        (Broken::Reliable, is_reliable(watch, &wanted)),
        (Broken::Bookmarkable, is_bookmarkable(watch, &wanted)),
        (Broken::Previous, all_match(watch, &wanted, |got, was| got.previous == was.previous)),
        (Broken::IsCreate, all_match(watch, &wanted, |got, was| got.change == was.change && got.entry == was.entry)),
    ];
    match properties.into_iter().find(|(_, holds)| !holds) {
        Some((broken, _)) => Err(broken),
        None => Ok(()),
    }
}

fn is_ordered(watch: &Watch) -> bool {
    let revisions: Vec<Revision> = watch.delivered().map(|event| event.revision).collect();
    let through: Vec<Revision> = watch.deliveries.iter().map(|delivery| delivery.through).collect();
    revisions.is_sorted() && through.is_sorted()
}

fn is_unique(watch: &Watch) -> bool {
    let mut seen = BTreeSet::new();
    watch.delivered().all(|event| seen.insert((event.revision, &event.key)))
}

fn is_resumable(watch: &Watch, wanted: &[&Event]) -> bool {
    match watch.delivered().next() {
        Some(first) => wanted.first().is_some_and(|event| event.revision == first.revision),
        None => true,
    }
}

/// Also the newest transaction must be whole: it is not "still to come".
fn is_atomic(watch: &Watch, wanted: &[&Event]) -> bool {
    watch.deliveries.iter().all(|delivery| {
        let revisions: BTreeSet<Revision> = delivery.events.iter().map(|event| event.revision).collect();
        revisions.iter().all(|revision| {
            let got = delivery.events.iter().filter(|event| event.revision == *revision).count();
            got == wanted.iter().filter(|event| event.revision == *revision).count()
        })
    })
}

fn is_reliable(watch: &Watch, wanted: &[&Event]) -> bool {
    let Some(last) = watch.delivered().last() else { return true };
    let got: Vec<(Revision, &str)> = watch.delivered().map(|event| (event.revision, &*event.key.item)).collect();
    let due = wanted.iter().take_while(|event| event.revision <= last.revision);
    got == due.map(|event| (event.revision, &*event.key.item)).collect::<Vec<_>>()
}

fn is_bookmarkable(watch: &Watch, wanted: &[&Event]) -> bool {
    let mut got = 0;
    watch.deliveries.iter().all(|delivery| {
        got += delivery.events.len();
        let due = wanted.iter().filter(|event| event.revision <= delivery.through).count();
        got == due
    })
}

fn all_match(watch: &Watch, wanted: &[&Event], same: impl Fn(&Event, &Event) -> bool) -> bool {
    watch.delivered().all(|got| {
        let was = wanted.iter().find(|event| event.revision == got.revision && event.key == got.key);
        was.is_some_and(|was| same(got, was)) && (got.change == Change::Created) == got.previous.is_none()
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Entry, Key};

    fn entry(revision: u64) -> Arc<Entry> {
        Arc::new(Entry::new(revision.to_string().into(), "".into(), Revision(2), Revision(revision)))
    }

    fn event(revision: u64, item: &str, previous: Option<u64>) -> Event {
        let change = if previous.is_some() { Change::Modified } else { Change::Created };
        let previous = previous.map(entry);
        Event { revision: Revision(revision), key: Key::new("c", item), change, entry: entry(revision), previous }
    }

    fn history() -> Vec<Event> {
        vec![
            event(2, "a", None),
            event(3, "a", Some(2)),
            event(4, "b", None),
            event(4, "c", None),
            event(5, "a", Some(3)),
        ]
    }

    fn check(change: impl Fn(&mut Watch), expected: Result<(), Broken>) {
        let parts = [history()[..1].to_vec(), history()[1..4].to_vec(), history()[4..].to_vec()];
        let through = [2, 4, 5];
        let deliveries = parts.into_iter().zip(through);
        let deliveries = deliveries.map(|(events, through)| Delivery { events, through: Revision(through) }).collect();
        let mut watch = Watch { collection: "c".into(), prefix: String::new(), after: Revision(1), deliveries };
        change(&mut watch);
        assert_eq!(super::check(&watch, &history()), expected);
    }

    #[test]
    fn each_broken_promise_is_noticed() {
        check(|_| (), Ok(()));
        check(|watch| watch.deliveries.swap(0, 1), Err(Broken::Ordered));
        check(|watch| watch.deliveries[1].events.insert(0, event(2, "a", None)), Err(Broken::Unique));
        check(|watch| drop(watch.deliveries[1].events.remove(0)), Err(Broken::Reliable));
        check(|watch| drop(watch.deliveries[1].events.pop()), Err(Broken::Atomic));
        check(|watch| drop(watch.deliveries.remove(0)), Err(Broken::Resumable));
        check(|watch| watch.deliveries[0].through = Revision(3), Err(Broken::Bookmarkable));
        check(|watch| watch.deliveries[0].events[0].key = Key::new("d", "a"), Err(Broken::Filtered));
        check(|watch| watch.deliveries[2].events[0].previous = Some(entry(2)), Err(Broken::Previous));
        check(|watch| watch.deliveries[2].events[0].change = Change::Created, Err(Broken::Previous));
        check(|watch| watch.deliveries[2].events[0].change = Change::Deleted, Err(Broken::IsCreate));
        check(|watch| watch.deliveries[2].events[0].entry = entry(3), Err(Broken::IsCreate));
    }
}
