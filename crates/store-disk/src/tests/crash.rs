//! The crash enumerator finds nothing in the engine. (`cargo xtask crash` runs it at length.)

use std::sync::Arc;

use store::suite::commit;
use store::{Keyspace, Store};

use super::{by_hand, open, put_in, sim};
use crate::crash::enumerate;
use crate::frame::{FRAME_HEADER, SEGMENT_HEADER};
use crate::vfs::{Medium, SimVfs};
use crate::{Disk, Mutant, OpenError, Options};

#[test]
fn no_crash_loses_what_was_acknowledged() {
    let report = enumerate(1, 4000);
    assert!(report.failures.is_empty(), "{report}");
    assert!(report.exhausted > 100 && report.second_crashes > 1000, "{report}");
}

/// What a start says to a log whose first frame has a wrong length.
pub fn told_of_a_wrong_length(mutant: Option<Mutant>) -> String {
    let options = Options { mutant, ..by_hand() };
    let vfs = sim();
    let store = open(&vfs, &options);
    for value in ["1", "2"] {
        commit(&store, put_in(Keyspace::Durable, "a", value)).expect("committed");
    }
    assert_eq!(store.snapshot().count("c"), 1);
    store.0.close().expect("closes");
    let files = vfs.medium().files().map(|(name, content)| (name.to_owned(), content.to_vec())).collect::<Vec<_>>();
    let shortened = files.into_iter().map(|(name, mut content)| {
        assert!(content.len() > SEGMENT_HEADER + FRAME_HEADER, "the only file is the log");
        content[SEGMENT_HEADER + 4] -= 1;
        (name, content)
    });
    let vfs = Arc::new(SimVfs::new(Medium::from_files(shortened)));
    match Disk::open_on(vfs, options) {
        Err(OpenError::Damaged(damage)) => damage.what,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it opened"),
    }
}
