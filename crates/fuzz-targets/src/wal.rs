//! The log on the medium: whatever it holds, opening it says what is wrong or gives a state that once was.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use clock::SeededIds;
use store::suite::commit;
use store::{Key, Keyspace, Op, Revision, Snapshot, Store, Txn};
use store_disk::vfs::{Medium, SimVfs, Vfs};
use store_disk::{Disk, Flushing, Options, fsck_on};

/// Files of a store, and the states that they passed through by revision.
struct History {
    files: Vec<(String, Vec<u8>)>,
    states: BTreeMap<u64, State>,
}

type State = BTreeMap<(String, String), Bytes>;

static HISTORY: LazyLock<History> = LazyLock::new(make_history);

fn options() -> Options {
    Options {
        flushing: Flushing::ByHand,
        ids: Arc::new(SeededIds::new(1)),
        segment_bytes: 2_048,
        checkpoint_bytes: 4_096,
        sum_every: 4,
        ..Options::default()
    }
}

fn make_history() -> History {
    let vfs = Arc::new(SimVfs::new(Medium::default()));
    let shared: Arc<dyn Vfs> = vfs.clone();
    let disk = ByHand(Disk::open_on(shared, options()).expect("an empty medium opens"));
    let mut states = BTreeMap::from([(disk.snapshot().revision().0, state(&disk.snapshot()))]);
    for at in 0..40u8 {
        let key = Key::new("core/configmaps", format!("default/{}", at % 7));
        let keyspace = if at % 5 == 4 { Keyspace::Volatile } else { Keyspace::Durable };
        let value = Bytes::from(vec![at; 60]);
        let op = match at % 6 {
            5 => Op::Delete { key, last: None },
            _ => Op::Put { key, value, annex: Bytes::from_static(b"annex"), stamp_at: None, keyspace },
        };
        let _ = commit(&disk, Txn { preconditions: Vec::new(), ops: vec![op] });
        if at == 20 {
            disk.0.checkpoint().expect("a checkpoint");
        }
        states.insert(disk.snapshot().revision().0, state(&disk.snapshot()));
    }
    let files = vfs.medium().files().map(|(name, bytes)| (name.to_owned(), bytes.to_vec())).collect();
    History { files, states }
}

fn state(snapshot: &Snapshot) -> State {
    let collections = snapshot.collections().map(|collection| collection.to_string()).collect::<Vec<_>>();
    let items = collections.iter().flat_map(|collection| {
        snapshot.items(collection).map(|(item, entry)| ((collection.clone(), item.to_string()), entry.value.clone()))
    });
    items.collect()
}

/// Flushes whenever something is submitted.
struct ByHand(Disk);

impl Store for ByHand {
    fn snapshot(&self) -> Snapshot {
        self.0.snapshot()
    }
    fn snapshot_at(&self, revision: Revision) -> Result<Snapshot, store::ReadError> {
        self.0.snapshot_at(revision)
    }
    fn submit(&self, txn: Txn, ack: store::Ack) {
        self.0.submit(txn, ack);
        while self.0.flush() {}
    }
    fn events(
        &self,
        collection: &store::Collection,
        after: Revision,
        limit: usize,
    ) -> Result<(Vec<store::Event>, Revision), store::ReadError> {
        self.0.events(collection, after, limit)
    }
    fn listen(&self, listener: store::Listener) {
        self.0.listen(listener);
    }
    fn compact(&self, through: Revision) {
        self.0.compact(through);
    }
}

/// The first byte chooses: the rest is a file of the store, or a list of damages to a store's files.
pub fn replay(data: &[u8]) {
    let Some((how, rest)) = data.split_first() else { return };
    let mut files = HISTORY.files.clone();
    match usize::from(*how) {
        255 => {
            let at = rest.first().map_or(0, |byte| usize::from(*byte)) % files.len();
            files[at].1 = rest.get(1..).unwrap_or_default().to_vec();
        }
        _ => rest.chunks_exact(4).for_each(|damage| damage_file(&mut files, damage)),
    }
    let vfs = Arc::new(SimVfs::new(Medium::from_files(files)));
    let checked = fsck_on(&*vfs).is_ok_and(|report| report.damage.is_none());
    let shared: Arc<dyn Vfs> = vfs;
    let opened = Disk::open_on(shared, options());
    assert_eq!(opened.is_ok(), checked, "the check and the start agree: {:?}", opened.err());
    let Ok(disk) = opened else { return };
    let found = state(&disk.snapshot());
    // A file made out of nothing may tell another history; damages may only shorten this one.
    if *how != 255 {
        assert!(was_once(&found), "a state that never was: {found:?}");
    }
}

/// Volatile items come and go with restarts: the rest must be that of one revision.
fn was_once(found: &State) -> bool {
    let of = |state: &State| -> BTreeMap<(String, String), Bytes> {
        state
            .iter()
            .filter(|(_, value)| value.first().is_none_or(|at| at % 5 != 4))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect()
    };
    let found = of(found);
    HISTORY.states.values().any(|state| of(state) == found)
}

/// File, offset, byte: flips bits, or cuts the file where the byte is 0.
fn damage_file(files: &mut [(String, Vec<u8>)], damage: &[u8]) {
    let [file, high, low, bits] = damage else { return };
    let count = files.len();
    let Some((_, bytes)) = files.get_mut(usize::from(*file) % count) else { return };
    let at = usize::from(*high) * 256 + usize::from(*low);
    match (bytes.get_mut(at), bits) {
        (Some(_), 0) => bytes.truncate(at),
        (Some(byte), bits) => *byte ^= bits,
        (None, _) => {}
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = (0..HISTORY.files.len())
        .map(|at| [&[255, u8::try_from(at).unwrap_or(0)][..], &HISTORY.files[at].1].concat())
        .collect();
    seeds.extend([vec![0], vec![0, 0, 0, 9, 1], vec![0, 1, 0, 40, 0], vec![0, 2, 1, 0, 128, 1, 0, 3, 7], vec![255, 0]]);
    seeds
}
