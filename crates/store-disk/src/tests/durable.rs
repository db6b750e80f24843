//! What is durable and what is not, and what happens when the medium fails.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use store::model::State;
use store::suite::{commit, items};
use store::{Key, Keyspace, Precondition, Revision, Store, TxnError};

use super::{ByHand, by_hand, open, put, put_in, sim, tight};
use crate::vfs::{Call, Medium, RecordVfs, SimVfs, Trouble, Vfs};
use crate::{Disk, Mutant, OpenError, Options};

fn restarted(vfs: &Arc<SimVfs>) -> Arc<SimVfs> {
    Arc::new(SimVfs::new(vfs.medium().crashed(&mut || false, false)))
}

#[test]
fn volatile_writes_do_not_touch_the_medium() {
    let vfs = Arc::new(RecordVfs::new(sim()));
    let store = ByHand(Disk::open_on(vfs.clone(), by_hand()).expect("it opens"));
    let volatile = |index: u32| commit(&store, put_in(Keyspace::Volatile, "lease", &index.to_string()));
    volatile(0).expect("the first one reserves revisions and marks the collection");
    let calls = vfs.len();
    (1..5000).for_each(|index| drop(volatile(index).expect("committed")));
    assert_eq!(vfs.len(), calls, "not a single call");
}

#[test]
fn volatile_revisions_are_not_handed_out_twice() {
    let vfs = sim();
    let options = Options { reserve_revisions: 10, ..by_hand() };
    let store = open(&vfs, &options);
    let mut last = Revision(0);
    for round in 0..25u32 {
        last = commit(&store, put_in(Keyspace::Volatile, "lease", &round.to_string())).expect("committed").revision;
    }
    store.0.abandon();
    let store = open(&restarted(&vfs), &options);
    assert!(store.snapshot().revision() >= last, "power loss");
    store.0.close().expect("closes");
}

#[test]
fn a_clean_restart_does_not_skip_revisions() {
    let vfs = sim();
    let store = open(&vfs, &by_hand());
    commit(&store, put_in(Keyspace::Volatile, "lease", "1")).expect("committed");
    let last = put(&store, "a", "1").expect("committed").revision;
    store.0.close().expect("closes");
    let store = open(&restarted(&vfs), &by_hand());
    assert_eq!(store.snapshot().revision(), last);
    assert_eq!(store.0.torn_tail(), None);
}

#[test]
fn nothing_is_shown_before_it_is_durable() {
    let vfs = sim();
    let disk = open(&vfs, &by_hand()).0;
    let acked = Arc::new(AtomicU64::new(0));
    let count = acked.clone();
    let ack = move |outcome: Result<_, _>| {
        assert!(outcome.is_ok());
        count.fetch_add(1, Ordering::SeqCst);
    };
    disk.submit(put_in(Keyspace::Durable, "a", "1"), Box::new(ack.clone()));
    // A volatile write and an empty transaction wait for what is before them.
    disk.submit(put_in(Keyspace::Volatile, "v", "1"), Box::new(ack.clone()));
    disk.submit(store::Txn::default(), Box::new(ack));
    assert_eq!((acked.load(Ordering::SeqCst), disk.snapshot().revision()), (0, Revision::FIRST));
    assert!(disk.flush());
    assert_eq!((acked.load(Ordering::SeqCst), disk.snapshot().revision()), (3, Revision(3)));
}

fn failing(trouble: Trouble) {
    let vfs = sim();
    let told = Arc::new(Mutex::new(Vec::new()));
    let into = told.clone();
    let on_fatal = move |why: &str| into.lock().expect("no panic").push(why.to_owned());
    let options = Options { on_fatal: Some(Arc::new(on_fatal)), ..by_hand() };
    let store = open(&vfs, &options);
    put(&store, "a", "before").expect("committed");
    let before = store.snapshot();
    vfs.trouble(trouble);
    let mut refused = 0;
    for round in 0..4 {
        match put(&store, "b", &format!("during {round}")) {
            Ok(_) => assert_eq!(refused, 0, "{trouble:?}: acknowledged after an error"),
            Err(TxnError::Stopped(_)) => refused += 1,
            Err(error) => panic!("{trouble:?}: {error:?}"),
        }
    }
    assert!(refused >= 3, "{trouble:?}: the store has stopped");
    assert_eq!(told.lock().expect("no panic").len(), 1, "{trouble:?}: told once");
    assert_eq!(store.snapshot().get("c", "a"), before.get("c", "a"), "reads go on");
    assert!(store.0.close().is_err(), "{trouble:?}");
    let shown = items(&store.snapshot());
    let again = open(&restarted(&vfs), &by_hand());
    assert_eq!(items(&again.snapshot()), shown, "{trouble:?}: what was shown is there");
}

#[test]
fn an_error_of_the_medium_stops_everything() {
    for nth in 1..=2 {
        failing(Trouble { sync_fails_in: Some(nth), ..Trouble::default() });
        failing(Trouble { append_fails_in: Some(nth), ..Trouble::default() });
    }
    failing(Trouble { room_bytes: Some(0), ..Trouble::default() });
    failing(Trouble { room_bytes: Some(70), ..Trouble::default() });
}

/// The process stops at an error, the next one goes on on the same machine, and then the power fails. What was shown
/// and what is there then.
pub fn after_trouble(trouble: Trouble, mutant: Option<Mutant>) -> (State, Result<State, OpenError>) {
    let options = Options { mutant, ..by_hand() };
    let vfs = sim();
    let store = open(&vfs, &options);
    put(&store, "a", "before").expect("committed");
    vfs.trouble(trouble);
    assert!(put(&store, "b", "refused").is_err());
    store.0.abandon();
    gone_on(&vfs, &options)
}

/// The next process goes on on the same machine, and then the power fails.
fn gone_on(vfs: &SimVfs, options: &Options) -> (State, Result<State, OpenError>) {
    let same_machine = Arc::new(SimVfs::new(vfs.medium().killed()));
    let store = open(&same_machine, options);
    put(&store, "c", "after").expect("committed");
    let shown = items(&store.snapshot());
    store.0.abandon();
    let again = Disk::open_on(restarted(&same_machine), by_hand());
    (shown, again.map(|disk| items(&disk.snapshot())))
}

#[test]
fn what_a_failed_sync_left_in_memory_is_not_built_upon() {
    let troubles = [
        Trouble { sync_fails_in: Some(1), ..Trouble::default() },
        Trouble { append_fails_in: Some(1), ..Trouble::default() },
    ];
    for trouble in troubles {
        let (shown, found) = after_trouble(trouble, None);
        assert_eq!(found.expect("it opens"), shown, "{trouble:?}");
    }
}

/// A process is killed between write and sync; the next one reads what it wrote, cannot sync it and ends; a third
/// goes on; then the power fails.
pub fn after_a_start_that_failed(mutant: Option<Mutant>) -> (State, Result<State, OpenError>) {
    let options = Options { mutant, ..by_hand() };
    let record = Arc::new(RecordVfs::new(sim()));
    let store = ByHand(Disk::open_on(record.clone(), options.clone()).expect("it opens"));
    put(&store, "a", "before").expect("committed");
    put(&store, "b", "not synced").expect("committed");
    store.0.abandon();
    let calls = record.calls();
    let killed_at = calls.iter().rposition(|call| matches!(call, Call::Sync(_))).expect("it synced");
    let mut medium = Medium::default();
    calls[..killed_at].iter().for_each(|call| medium.apply(call).expect("it was possible before"));
    let vfs = Arc::new(SimVfs::new(medium));
    vfs.trouble(Trouble { sync_fails_in: Some(1), ..Trouble::default() });
    let failed = Disk::open_on(vfs.clone(), options.clone());
    assert!(matches!(failed, Err(OpenError::Io { .. })), "a start that cannot sync ends");
    gone_on(&vfs, &options)
}

#[test]
fn what_a_failed_start_left_in_memory_is_made_durable_by_the_next() {
    let (shown, found) = after_a_start_that_failed(None);
    assert_eq!(shown.len(), 3, "what was read may be shown");
    assert_eq!(found.expect("it opens"), shown);
}

#[test]
fn one_process_at_a_time() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let first = Disk::open(directory.path(), Options::default()).expect("it opens");
    assert!(matches!(Disk::open(directory.path(), Options::default()), Err(OpenError::Locked { .. })));
    assert!(matches!(crate::fsck(directory.path()), Err(OpenError::Locked { .. })));
    drop(first);
    assert!(Disk::open(directory.path(), Options::default()).is_ok());
}

#[test]
fn watches_resume_across_a_restart() {
    let vfs = sim();
    let store = open(&vfs, &by_hand());
    for round in 0..20u32 {
        put(&store, "a", &round.to_string()).expect("committed");
    }
    store.0.abandon();
    let store = open(&restarted(&vfs), &by_hand());
    let (events, through) = store.events(&"c".into(), Revision(5), 100).expect("resumed");
    assert_eq!((events.len(), through), (16, Revision(21)));
    assert!(events.iter().all(|event| event.previous.is_some()));
}

#[test]
fn checkpoints_keep_the_history_and_drop_the_log_before_it() {
    let vfs = Arc::new(RecordVfs::new(sim()));
    let options = Options { limits: tight(), segment_bytes: 500, checkpoint_bytes: 1, ..by_hand() };
    let store = ByHand(Disk::open_on(vfs.clone(), options.clone()).expect("it opens"));
    for round in 0..100u32 {
        put(&store, &format!("{}", round % 10), &"x".repeat(50)).expect("committed");
        store.0.checkpoint().expect("checkpointed");
    }
    let names = vfs.list().expect("listed");
    assert!(names.len() < 8, "the log is bounded: {names:?}");
    assert_eq!(names.iter().filter(|name| name.starts_with("state-")).count(), 1);
    let state = items(&store.snapshot());
    let oldest = Revision(store.snapshot().revision().0 - 8);
    let events = store.events(&"c".into(), oldest, 100).expect("kept");
    store.0.abandon();
    let store = ByHand(Disk::open_on(vfs.clone(), options).expect("it opens"));
    assert_eq!(items(&store.snapshot()), state);
    assert_eq!(store.events(&"c".into(), oldest, 100), Ok(events), "also after the restart");
    let renames = vfs.calls().iter().filter(|call| matches!(call, Call::Rename(..))).count();
    assert!(renames > 10, "there were checkpoints");
}

#[test]
fn the_last_owner_may_let_go_in_an_acknowledgement() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let disk = Arc::new(Disk::open(directory.path(), Options::default()).expect("it opens"));
    let (sender, receiver) = std::sync::mpsc::channel();
    let last = disk.clone();
    let ack = move |outcome: Result<_, _>| {
        drop(last);
        let _ = sender.send(outcome.is_ok());
    };
    disk.submit(put_in(Keyspace::Durable, "a", "1"), Box::new(ack));
    drop(disk);
    assert_eq!(receiver.recv(), Ok(true));
}

#[test]
fn many_writers_see_one_order() {
    const WRITERS: u64 = 4;
    const ROUNDS: u64 = 60;
    let directory = tempfile::tempdir().expect("a temporary directory");
    let disk = Disk::open(directory.path(), Options::default()).expect("it opens");
    put(&disk, "counter", "0").expect("committed");
    let key = Key::new("c", "counter");
    let count_up = || {
        let mut done = 0;
        while done < ROUNDS {
            let snapshot = disk.snapshot();
            let entry = snapshot.get_key(&key).expect("it is there");
            let number: u64 =
                std::str::from_utf8(&entry.value).ok().and_then(|text| text.parse().ok()).expect("a number");
            let mut txn = put_in(Keyspace::Durable, "counter", &(number + 1).to_string());
            txn.preconditions.push(Precondition::ModifiedAt(key.clone(), entry.modified));
            match commit(&disk, txn) {
                Ok(committed) => {
                    assert!(disk.snapshot().revision() >= committed.revision, "acknowledged means visible");
                    done += 1;
                }
                Err(TxnError::Failed(_)) => (),
                Err(error) => panic!("{error:?}"),
            }
        }
    };
    std::thread::scope(|scope| (0..WRITERS).for_each(|_| drop(scope.spawn(count_up))));
    let total = (WRITERS * ROUNDS).to_string();
    assert_eq!(disk.snapshot().get_key(&key).map(|entry| entry.value.clone()), Some(total.clone().into()));
    disk.close().expect("closes");
    let again = Disk::open(directory.path(), Options::default()).expect("it opens");
    assert_eq!(again.snapshot().get_key(&key).map(|entry| entry.value.clone()), Some(total.into()));
}

#[test]
fn a_panicking_callback_stops_the_store_instead_of_hanging_it() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (sender, receiver) = std::sync::mpsc::channel();
    let sender = Mutex::new(sender);
    let on_fatal = move |why: &str| drop(sender.lock().expect("no panic").send(why.to_owned()));
    let options = Options { on_fatal: Some(Arc::new(on_fatal)), ..Options::default() };
    let disk = Disk::open(directory.path(), options).expect("it opens");
    disk.submit(put_in(Keyspace::Durable, "a", "1"), Box::new(|_| panic!("planted: a callback panics")));
    assert!(receiver.recv().is_ok_and(|why| why.contains("panicked")));
    assert!(matches!(put(&disk, "b", "1"), Err(TxnError::Stopped(_))));
}

#[test]
fn a_closed_store_takes_nothing_and_leaves_the_directory_alone() {
    let vfs = Arc::new(RecordVfs::new(sim()));
    let store = ByHand(Disk::open_on(vfs.clone(), by_hand()).expect("it opens"));
    put(&store, "a", "1").expect("committed");
    store.0.close().expect("closes");
    let calls = vfs.len();
    assert!(matches!(put(&store, "b", "1"), Err(TxnError::Stopped(_))));
    assert!(store.0.checkpoint().is_err());
    store.0.close().expect("closing again is nothing");
    assert_eq!(vfs.len(), calls);
    assert_eq!(store.snapshot().count("c"), 1, "reads still work");
}

#[test]
fn what_fails_on_a_write_that_waits_is_told_when_that_is_visible() {
    let vfs: Arc<dyn Vfs> = sim();
    let disk = Disk::open_on(vfs, by_hand()).expect("it opens");
    let (sender, told) = std::sync::mpsc::channel();
    let submit = |name: &'static str| {
        let mut txn = put_in(Keyspace::Durable, "a", name);
        txn.preconditions = vec![Precondition::Absent(Key::new("c", "a"))];
        let sender = sender.clone();
        disk.submit(txn, Box::new(move |outcome| sender.send((name, outcome.is_ok())).expect("heard")));
    };
    submit("first");
    submit("second");
    assert_eq!(told.try_recv().ok(), None, "whoever is told now reads a state without the reason");
    while disk.flush() {}
    assert_eq!(told.try_iter().collect::<Vec<_>>(), [("first", true), ("second", false)]);
    submit("third");
    assert_eq!(told.try_recv(), Ok(("third", false)), "nothing waits");
}
