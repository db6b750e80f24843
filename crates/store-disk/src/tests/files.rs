//! Backups, restores, checks, and damage to the files.

use std::path::Path;
use std::sync::Arc;

use store::suite::{Dice, items};
use store::{ReadError, Revision, Store};

use super::{by_hand, open, put, sim, tight};
use crate::vfs::{Medium, SimVfs};
use crate::{BackupError, Disk, OpenError, Options, RESTORE_SKIPS, fsck, fsck_on, inspect, restore};

fn filled(directory: &Path, options: &Options) -> Disk {
    let disk = Disk::open(directory, options.clone()).expect("it opens");
    for round in 0..200u32 {
        put(&disk, &format!("item-{}", round % 50), &round.to_string().repeat(20)).expect("committed");
    }
    disk
}

#[test]
fn a_backup_of_a_running_store_is_restored_on_a_fresh_machine() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let at = |name: &str| directory.path().join(name);
    let disk = filled(&at("data"), &Options::default());
    let info = disk.backup(&at("backup")).expect("backed up");
    let state = items(&disk.snapshot());
    put(&disk, "later", "not in the backup").expect("committed");
    assert_eq!((info.revision, info.items), (Revision(201), 50));
    assert_eq!(inspect(&at("backup")).expect("whole"), info);
    let refused = restore(&at("backup"), &at("data"), &Options::default());
    assert!(matches!(refused, Err(BackupError::NotEmpty { .. })));
    restore(&at("backup"), &at("fresh"), &Options::default()).expect("restored");
    let fresh = Disk::open(&at("fresh"), Options::default()).expect("it opens");
    assert_eq!(items(&fresh.snapshot()), state);
    assert_eq!(fresh.snapshot().revision(), Revision(201 + RESTORE_SKIPS));
    // Whoever saw what the backup does not have must list anew.
    let resumed = fresh.events(&"c".into(), disk.snapshot().revision(), 10);
    assert!(matches!(resumed, Err(ReadError::Compacted { .. })));
    put(&fresh, "life", "goes on").expect("committed");
    fresh.close().expect("closes");
    let report = fsck(&at("fresh")).expect("readable");
    assert_eq!((report.damage, report.items, report.transactions), (None, 51, 1));
}

#[test]
fn a_damaged_backup_is_refused() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let at = |name: &str| directory.path().join(name);
    let disk = Disk::open(&at("data"), Options::default()).expect("it opens");
    put(&disk, "a", "1").expect("committed");
    disk.backup(&at("backup")).expect("backed up");
    let whole = std::fs::read(at("backup")).expect("read");
    for bit in 0..whole.len() * 8 {
        let mut flipped = whole.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(at("flipped"), &flipped).expect("written");
        assert!(matches!(inspect(&at("flipped")), Err(BackupError::Damaged { .. })), "bit {bit}");
    }
    for length in 0..whole.len() {
        std::fs::write(at("short"), &whole[..length]).expect("written");
        assert!(matches!(inspect(&at("short")), Err(BackupError::Damaged { .. })), "length {length}");
    }
    let refused = restore(&at("flipped"), &at("fresh"), &Options::default());
    assert!(refused.is_err() && !at("fresh").exists(), "nothing was begun");
}

#[test]
fn a_backup_does_not_replace_a_whole_file_by_half_a_one() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let disk = filled(&directory.path().join("data"), &Options::default());
    let backup = directory.path().join("backup");
    let first = disk.backup(&backup).expect("backed up");
    std::fs::write(directory.path().join("backup.unfinished"), "left by a crash").expect("written");
    put(&disk, "new", "1").expect("committed");
    let second = disk.backup(&backup).expect("backed up");
    assert!(second.revision > first.revision);
    assert_eq!(inspect(&backup).expect("whole"), second);
}

/// A store with several segments and a checkpoint, closed.
fn closed_medium() -> Medium {
    let vfs = sim();
    let options = Options { limits: tight(), segment_bytes: 220, checkpoint_bytes: 1, sum_every: 4, ..by_hand() };
    let store = open(&vfs, &options);
    for round in 0..14u32 {
        put(&store, &format!("{}", round % 5), &round.to_string()).expect("committed");
        if round == 11 {
            store.0.checkpoint().expect("checkpointed");
        }
    }
    store.0.close().expect("closes");
    vfs.medium()
}

fn with_file(medium: &Medium, mut change: impl FnMut(&str, &[u8]) -> Option<Vec<u8>>) -> Medium {
    let files = medium.files().filter_map(|(name, content)| Some((name.to_owned(), change(name, content)?)));
    Medium::from_files(files.collect::<Vec<_>>())
}

#[test]
fn every_flipped_bit_is_detected() {
    let medium = closed_medium();
    let whole = items(&open(&Arc::new(SimVfs::new(medium.clone())), &by_hand()).snapshot());
    let names: Vec<(String, usize)> = medium.files().map(|(name, bytes)| (name.to_owned(), bytes.len())).collect();
    assert!(names.len() > 3, "{names:?}");
    let mut dropped = 0;
    for (name, length) in &names {
        for bit in 0..length * 8 {
            let flipped = with_file(&medium, |file, content| {
                let mut content = content.to_vec();
                if file == name {
                    content[bit / 8] ^= 1 << (bit % 8);
                }
                Some(content)
            });
            let vfs = Arc::new(SimVfs::new(flipped));
            let report = fsck_on(&*vfs).expect("readable");
            match report.damage {
                Some(damage) => {
                    assert_eq!(damage.file, format!("simulated/{name}"), "bit {bit}");
                    assert!(matches!(Disk::open_on(vfs, by_hand()), Err(OpenError::Damaged(_))));
                }
                None => {
                    // The last seal holds nothing: it may go, but not unnoticed.
                    assert!(report.torn_tail.is_some(), "{name}, bit {bit}: not noticed");
                    assert_eq!(items(&open(&vfs, &by_hand()).snapshot()), whole, "{name}, bit {bit}");
                    dropped += 1;
                }
            }
        }
    }
    assert_eq!(dropped, crate::frame::FRAME_HEADER * 8, "only the last seal is dropped");
}

#[test]
fn every_missing_or_shortened_file_is_detected() {
    let medium = closed_medium();
    let names: Vec<(String, usize)> = medium.files().map(|(name, bytes)| (name.to_owned(), bytes.len())).collect();
    let last = names.iter().filter(|(name, _)| name.starts_with("log-")).map(|(name, _)| name.clone()).max();
    for (name, length) in &names {
        let missing = with_file(&medium, |file, content| (file != name).then(|| content.to_vec()));
        let report = fsck_on(&SimVfs::new(missing)).expect("readable");
        assert!(report.damage.is_some(), "{name} is missing");
        for cut in 0..*length {
            let short =
                |file: &str, content: &[u8]| Some(content[..if file == name { cut } else { content.len() }].to_vec());
            let report = fsck_on(&SimVfs::new(with_file(&medium, short))).expect("readable");
            // Cut exactly between two frames, or inside the last, the end of the log looks like a torn one.
            let may_look_torn = Some(name) == last.as_ref();
            assert!(report.damage.is_some() || may_look_torn, "{name} is cut to {cut}");
        }
    }
}

#[test]
fn damage_is_told_with_place_and_remedy() {
    let medium = closed_medium();
    let first = medium.files().map(|(name, _)| name.to_owned()).find(|name| name.starts_with("log-")).expect("a log");
    let flipped = with_file(&medium, |file, content| {
        let mut content = content.to_vec();
        if file == first {
            content[70] ^= 1;
        }
        Some(content)
    });
    let Err(error) = Disk::open_on(Arc::new(SimVfs::new(flipped)), by_hand()) else { panic!("it opened") };
    let text = error.to_string();
    for part in [first.as_str(), "byte 64", "header of a frame", "restore the newest backup"] {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
}

#[test]
fn arbitrary_bytes_are_an_error_or_a_store() {
    let medium = closed_medium();
    let mut dice = Dice::new(1);
    for _ in 0..3000 {
        let noise: Vec<u8> = (0..dice.index(300)).map(|_| dice.roll() as u8).collect();
        let (target, at) = (dice.index(5), dice.index(500));
        let mut index = 0;
        let changed = with_file(&medium, |_, content| {
            let mut content = content.to_vec();
            if index == target {
                content.truncate(at);
                content.extend_from_slice(&noise);
            }
            index += 1;
            Some(content)
        });
        let _ = fsck_on(&SimVfs::new(changed)).expect("a finding, not a failure");
    }
}
