//! The crash enumerator finds nothing in the engine, and every planted fault. (`cargo xtask crash` runs it at length.)

use std::sync::Arc;

use store::suite::commit;
use store::{Keyspace, Store};

use super::{by_hand, open, put_in, sim};
use crate::crash::{enumerate, enumerate_mutant};
use crate::frame::{FRAME_HEADER, SEGMENT_HEADER};
use crate::vfs::{Medium, SimVfs};
use crate::{Disk, Mutant, OpenError, Options};

#[test]
fn no_crash_loses_what_was_acknowledged() {
    let report = enumerate(1, 4000);
    assert!(report.failures.is_empty(), "{report}");
    assert!(report.exhausted > 100 && report.second_crashes > 1000, "{report}");
}

#[test]
fn every_planted_fault_is_found() {
    // Each with a run that shows it soon; from another one it only takes longer.
    for (mutant, seed) in [
        (Mutant::SkipSync, 1),
        (Mutant::SkipDirSync, 125),
        (Mutant::AckBeforeSync, 79),
        (Mutant::RetrySync, 79),
        (Mutant::CheckpointBeforeSync, 110),
    ] {
        let report = enumerate_mutant(seed, 300_000, Some(mutant));
        assert!(!report.failures.is_empty(), "{mutant:?} was not found: {report}");
    }
}

/// What a start says to a log whose first frame has a wrong length.
fn told_of_a_wrong_length(mutant: Option<Mutant>) -> String {
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

/// The other checksums stand behind this one, so the mutant is told by what is said, not by what is lost.
#[test]
fn a_length_is_never_believed_unchecked() {
    let right = "the header of a frame is not whole";
    assert_eq!(told_of_a_wrong_length(None), right);
    assert_ne!(told_of_a_wrong_length(Some(Mutant::LengthUnchecked)), right, "the mutant was not found");
}
