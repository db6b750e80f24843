//! Fixed cases: one promise each.

use std::sync::{Arc, Mutex};

use super::{MakeRig, commit, items};
use crate::{
    Change, Collection, Committed, Key, Keyspace, Limits, Op, Precondition, ReadError, Revision, Store, Txn, TxnError,
};

macro_rules! cases {
    ($($case:ident,)+) => {
        /// All of them, by name.
        pub(super) const CASES: &[(&str, fn(MakeRig<'_>))] = &[$((stringify!($case), $case),)+];
    };
}

cases! {
    revisions_count_transactions,
    the_revision_is_stamped_into_the_value,
    a_deletion_shows_its_last_value,
    preconditions_guard,
    nothing_of_a_refused_transaction_stays,
    invalid_transactions_are_refused,
    old_revisions_can_be_read_exactly,
    a_transaction_is_never_cut,
    compaction_drops_the_past_and_no_living_item,
    the_past_is_bounded,
    a_busy_collection_leaves_a_quiet_one_alone,
    listeners_hear_what_changed,
    a_restart_keeps_what_is_durable,
    revisions_survive_a_restart_also_volatile_ones,
    an_item_that_became_volatile_stays_gone,
}

pub(super) fn run(make: MakeRig<'_>) {
    CASES.iter().for_each(|(_, case)| case(make));
}

fn key(item: &str) -> Key {
    Key::new("c", item)
}

fn put(item: &str, value: &str) -> Op {
    put_at(key(item), value, Keyspace::Durable)
}

fn put_at(key: Key, value: &str, keyspace: Keyspace) -> Op {
    Op::Put { key, value: value.to_owned().into(), annex: "".into(), stamp_at: None, keyspace }
}

fn delete(item: &str) -> Op {
    Op::Delete { key: key(item), last: None }
}

fn txn(ops: Vec<Op>) -> Txn {
    Txn { preconditions: Vec::new(), ops }
}

fn done(store: &dyn Store, ops: Vec<Op>) -> Committed {
    commit(store, txn(ops)).unwrap_or_else(|error| panic!("refused: {error:?}"))
}

fn value(store: &dyn Store, item: &str) -> Option<String> {
    let snapshot = store.snapshot();
    snapshot.get("c", item).map(|entry| String::from_utf8_lossy(&entry.value).into_owned())
}

fn c() -> Collection {
    "c".into()
}

fn revisions_count_transactions(make: MakeRig<'_>) {
    let rig = make(Limits::default());
    let store = rig.store();
    assert_eq!(done(store, vec![put("a", "1"), put("b", "1")]).revision, Revision(2));
    assert_eq!(done(store, vec![delete("absent")]).revision, Revision(2), "nothing changed, no revision");
    assert_eq!(done(store, vec![]).revision, Revision(2));
    let again = done(store, vec![put("a", "1"), delete("b")]);
    assert_eq!(again.revision, Revision(3));
    let entry = again.entries[0].as_ref().expect("a put makes an entry");
    assert_eq!((entry.created, entry.modified), (Revision(2), Revision(3)));
    assert_eq!(again.entries[1], None);
    assert_eq!(store.snapshot().revision(), Revision(3));
    assert_eq!(store.snapshot().count("c"), 1);
}

fn the_revision_is_stamped_into_the_value(make: MakeRig<'_>) {
    let rig = make(Limits::default());
    let stamped = |value: &str, at| {
        let op = Op::Put {
            key: key("a"),
            value: value.to_owned().into(),
            annex: "".into(),
            stamp_at: Some(at),
            keyspace: Keyspace::Durable,
        };
        commit(rig.store(), txn(vec![op]))
    };
    assert!(stamped("{\"rv\":\"\"}", 7).is_ok());
    assert_eq!(value(rig.store(), "a").as_deref(), Some("{\"rv\":\"2\"}"));
    assert!(stamped("", 0).is_ok());
    assert_eq!(value(rig.store(), "a").as_deref(), Some("3"));
    assert!(matches!(stamped("abc", 4), Err(TxnError::Invalid(_))));
}

fn a_deletion_shows_its_last_value(make: MakeRig<'_>) {
    let rig = make(Limits::default());
    let store = rig.store();
    done(store, vec![put("a", "old"), put("b", "old")]);
    let last = Op::Delete { key: key("a"), last: Some(("gone at ".to_owned().into(), Some(8))) };
    done(store, vec![last, delete("b")]);
    let (events, through) = store.events(&c(), Revision(2), 10).expect("not compacted");
    assert_eq!(through, Revision(3));
    let seen: Vec<(Change, &[u8], Revision)> =
        events.iter().map(|event| (event.change, &*event.entry.value, event.entry.modified)).collect();
    assert_eq!(seen, [(Change::Deleted, &b"gone at 3"[..], Revision(3)), (Change::Deleted, b"old", Revision(3))]);
    assert!(events.iter().all(|event| event.previous.as_ref().is_some_and(|entry| *entry.value == *b"old")));
}

fn preconditions_guard(make: MakeRig<'_>) {
    let rig = make(Limits::default());
    let store = rig.store();
    done(store, vec![put("ns/a", "1")]);
    done(store, vec![put("nt/a", "1")]);
    let check = |precondition: Precondition, holds: bool| {
        let outcome = commit(store, Txn { preconditions: vec![precondition.clone()], ops: vec![] });
        let expected = if holds { Ok(Revision(3)) } else { Err(TxnError::Failed(precondition)) };
        assert_eq!(outcome.map(|committed| committed.revision), expected);
    };
    check(Precondition::Absent(key("ns/a")), false);
    check(Precondition::Absent(key("ns/b")), true);
    check(Precondition::ModifiedAt(key("ns/a"), Revision(2)), true);
    check(Precondition::ModifiedAt(key("ns/a"), Revision(3)), false);
    check(Precondition::ModifiedAt(key("ns/b"), Revision(2)), false);
    let unchanged =
        |prefix, revision| Precondition::UnchangedSince { prefix: key(prefix), revision: Revision(revision) };
    check(unchanged("ns/", 2), true);
    check(unchanged("ns/", 1), false);
    check(unchanged("nt/", 2), false);
    check(unchanged("", 3), true);
    check(unchanged("", 4), false);
    store.compact(Revision(3));
    check(unchanged("ns/", 2), false);
}

fn nothing_of_a_refused_transaction_stays(make: MakeRig<'_>) {
    let rig = make(Limits::default());
    done(rig.store(), vec![put("a", "1")]);
    let guard = Precondition::Absent(key("a"));
    let refused = Txn { preconditions: vec![guard.clone()], ops: vec![put("b", "1"), delete("a")] };
    assert_eq!(commit(rig.store(), refused), Err(TxnError::Failed(guard)));
    assert_eq!((value(rig.store(), "a").as_deref(), value(rig.store(), "b")), (Some("1"), None));
    assert_eq!(rig.store().events(&c(), Revision(2), 9), Ok((vec![], Revision(2))));
}

fn invalid_transactions_are_refused(make: MakeRig<'_>) {
    let limits =
        Limits { value_bytes_max: 10, key_bytes_max: 5, txn_ops_max: 3, txn_bytes_max: 30, ..Limits::default() };
    let rig = make(limits);
    let check = |ops: Vec<Op>, valid: bool| {
        let outcome = commit(rig.store(), txn(ops));
        assert_eq!(matches!(outcome, Err(TxnError::Invalid(_))), !valid, "{outcome:?}");
    };
    check(vec![put("a", "0123456789")], true);
    check(vec![put("a", "0123456789x")], false);
    check(vec![put("1234", "")], true);
    check(vec![put("12345", "")], false);
    check(vec![put("1", ""), put("2", ""), put("3", "")], true);
    check(vec![put("1", ""), put("2", ""), put("3", ""), put("4", "")], false);
    check(vec![put("1", "0123456789"), put("2", "0123456789"), put("3", "0123456789")], false);
    check(vec![put("1", ""), delete("1")], false);
    assert_eq!(rig.store().snapshot().revision(), Revision(4));
}

fn old_revisions_can_be_read_exactly(make: MakeRig<'_>) {
    let rig = make(Limits { history_events_max: 200, roots_max: 4, ..Limits::default() });
    let store = rig.store();
    let mut states = vec![(store.snapshot().revision(), items(&store.snapshot()))];
    for round in 0..120u32 {
        let item = format!("{}", round % 7);
        let op = if round % 5 == 4 { delete(&item) } else { put(&item, &round.to_string()) };
        done(store, vec![op]);
        states.push((store.snapshot().revision(), items(&store.snapshot())));
    }
    for (revision, state) in states.iter().rev().chain(&states) {
        let snapshot = store.snapshot_at(*revision).expect("kept");
        assert_eq!((snapshot.revision(), items(&snapshot)), (*revision, state.clone()));
    }
    let newest = store.snapshot().revision();
    assert_eq!(store.snapshot_at(newest.next()).err(), Some(ReadError::Future { newest }));
    assert_eq!(store.snapshot_at(Revision(0)).err(), Some(ReadError::Compacted { oldest: Revision::FIRST }));
}

fn a_transaction_is_never_cut(make: MakeRig<'_>) {
    let rig = make(Limits::default());
    let store = rig.store();
    done(store, vec![put("a", "1"), put("b", "1"), put("d", "1")]);
    done(store, vec![put("a", "2")]);
    done(store, vec![put("a", "3"), put("b", "3")]);
    let fetch = |after, limit| {
        let (events, through) = store.events(&c(), Revision(after), limit).expect("not compacted");
        (events.len(), through.0)
    };
    assert_eq!(fetch(1, 1), (3, 2), "a whole transaction, over the limit");
    assert_eq!(fetch(1, 3), (3, 2));
    assert_eq!(fetch(1, 4), (4, 3));
    assert_eq!(fetch(1, 5), (4, 3), "the third would be cut");
    assert_eq!(fetch(1, 6), (6, 4));
    assert_eq!(fetch(2, 1), (1, 3));
    assert_eq!(fetch(4, 1), (0, 4));
    let other = store.events(&"other".into(), Revision(2), 5);
    assert_eq!(other, Ok((vec![], Revision(4))), "a quiet collection moves on too");
    assert_eq!(store.events(&c(), Revision(5), 5), Err(ReadError::Future { newest: Revision(4) }));
}

fn compaction_drops_the_past_and_no_living_item(make: MakeRig<'_>) {
    let rig = make(Limits::default());
    let store = rig.store();
    for round in 0..20u32 {
        done(store, vec![put("old", "only once"), put(&round.to_string(), "x")]);
    }
    let before = items(&store.snapshot());
    store.compact(Revision(11));
    assert_eq!(store.snapshot_at(Revision(10)).err(), Some(ReadError::Compacted { oldest: Revision(11) }));
    assert_eq!(store.snapshot_at(Revision(11)).expect("the base stays").count("c"), 11);
    let compacted = Err(ReadError::Compacted { oldest: Revision(11) });
    assert_eq!(store.events(&c(), Revision(10), 5), compacted);
    assert_eq!(store.events(&"quiet".into(), Revision(10), 5), compacted);
    assert_eq!(store.events(&c(), Revision(11), 2).expect("resumable").1, Revision(12));
    store.compact(Revision(5));
    assert_eq!(store.snapshot_at(Revision(10)).err(), Some(ReadError::Compacted { oldest: Revision(11) }));
    store.compact(Revision(u64::MAX));
    assert_eq!(items(&store.snapshot()), before);
    assert_eq!(items(&store.snapshot_at(Revision(21)).expect("the newest")), before);
    assert_eq!(done(store, vec![put("new", "1")]).revision, Revision(22));
    assert_eq!(store.events(&c(), Revision(21), 5).expect("goes on").0.len(), 1);
}

fn the_past_is_bounded(make: MakeRig<'_>) {
    let check = |limits: Limits, kept_max: u64| {
        let rig = make(limits);
        let store = rig.store();
        (0..100).for_each(|_| drop(done(store, vec![put("a", &"x".repeat(1000)), put("b", "")])));
        let newest = store.snapshot().revision().0;
        let readable = (0..=newest).filter(|revision| store.snapshot_at(Revision(*revision)).is_ok()).count() as u64;
        assert!((2..=kept_max).contains(&readable), "{readable} revisions kept");
        let oldest = Revision(newest + 1 - readable);
        assert!(store.events(&c(), oldest, 1000).is_ok_and(|(events, _)| events.len() as u64 == 2 * (readable - 1)));
        assert!(store.events(&c(), Revision(oldest.0 - 1), 1).is_err());
        assert_eq!(store.snapshot().count("c"), 2);
    };
    check(Limits { history_events_max: 20, ..Limits::default() }, 11);
    check(Limits { history_bytes_max: 20_000, ..Limits::default() }, 20);
}

fn a_busy_collection_leaves_a_quiet_one_alone(make: MakeRig<'_>) {
    let rig = make(Limits { history_events_max: 10, ..Limits::default() });
    let store = rig.store();
    let quiet = Key::new("quiet", "a");
    done(store, vec![put_at(quiet.clone(), "1", Keyspace::Durable)]);
    let seen = store.snapshot().revision();
    (0..50).for_each(|_| drop(done(store, vec![put("busy", "x")])));
    let last = done(store, vec![put_at(quiet.clone(), "2", Keyspace::Durable)]).revision;
    let (events, through) = store.events(&quiet.collection, seen, 10).expect("it lost nothing");
    assert_eq!((events.len(), events[0].revision, through), (1, last, last));
    assert!(store.events(&c(), seen, 10).is_err(), "the busy one did");
}

type Heard = (u64, Vec<String>);

fn listeners_hear_what_changed(make: MakeRig<'_>) {
    let rig = make(Limits::default());
    let heard = Arc::new(Mutex::new(Vec::<Heard>::new()));
    let (sender, receiver) = std::sync::mpsc::channel();
    let into = heard.clone();
    rig.store().listen(Box::new(move |revision, collections| {
        let names = collections.iter().map(|name| name.to_string()).collect();
        into.lock().expect("no panic").push((revision.0, names));
        let _ = sender.send(());
    }));
    done(rig.store(), vec![put("a", "1"), put("b", "1"), put_at(Key::new("d", "x"), "1", Keyspace::Durable)]);
    done(rig.store(), vec![delete("nothing")]);
    done(rig.store(), vec![put("a", "2")]);
    // An engine may call from another thread, after the acknowledgement.
    receiver.recv().expect("called");
    receiver.recv().expect("called twice");
    let heard = heard.lock().expect("no panic").clone();
    assert_eq!(heard, [(2, vec!["c".to_owned(), "d".to_owned()]), (3, vec!["c".to_owned()])]);
}

fn a_restart_keeps_what_is_durable(make: MakeRig<'_>) {
    let mut rig = make(Limits::default());
    done(rig.store(), vec![put("a", "1"), put("b", "1"), put_at(Key::new("v", "x"), "1", Keyspace::Volatile)]);
    done(rig.store(), vec![put("a", "2"), delete("b")]);
    let before = rig.store().snapshot();
    if !rig.restart() {
        return;
    }
    let after = rig.store().snapshot();
    assert_eq!(after.get("c", "a"), before.get("c", "a"));
    assert_eq!((after.count("c"), after.count("v")), (1, 0));
    // Durable collections resume across the restart; volatile ones must be listed anew.
    let (events, through) = rig.store().events(&c(), Revision(2), 10).expect("resumed");
    assert_eq!((events.len(), through), (2, after.revision()));
    assert!(matches!(rig.store().events(&"v".into(), Revision(2), 10), Err(ReadError::Compacted { .. })));
    assert!(rig.store().events(&"v".into(), after.revision(), 10).is_ok());
}

fn revisions_survive_a_restart_also_volatile_ones(make: MakeRig<'_>) {
    let mut rig = make(Limits::default());
    for life in 0..4 {
        done(rig.store(), vec![put("a", "1")]);
        let volatile = || put_at(Key::new("v", "x"), "1", Keyspace::Volatile);
        let last = (0..10).map(|_| done(rig.store(), vec![volatile()]).revision).max();
        if !rig.restart() {
            return;
        }
        let next = done(rig.store(), vec![put("b", "1")]).revision;
        assert!(Some(next) > last, "life {life}: {next} follows {last:?}");
    }
}

fn an_item_that_became_volatile_stays_gone(make: MakeRig<'_>) {
    let mut rig = make(Limits::default());
    done(rig.store(), vec![put("a", "durable"), put_at(key("b"), "volatile", Keyspace::Volatile)]);
    done(rig.store(), vec![put_at(key("a"), "volatile", Keyspace::Volatile), put("b", "durable")]);
    if !rig.restart() {
        return;
    }
    assert_eq!((value(rig.store(), "a"), value(rig.store(), "b").as_deref()), (None, Some("durable")));
    let snapshot = rig.store().snapshot();
    assert_eq!(snapshot.get("c", "b").map(|entry| entry.created), Some(Revision(2)));
}
