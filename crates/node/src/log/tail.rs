//! Where the last lines of a log begin: read backwards, a block at a time.

use std::io;

use super::files::LogFile;
use super::record::{RECORD_BYTES_MAX, Record};

/// Read at once.
const BLOCK_BYTES: usize = 64 * 1024;

/// The file (by its place) and the byte where the last `lines` lines begin.
pub(super) fn start(files: &[LogFile], lines: u64) -> io::Result<(usize, u64)> {
    let mut count = Count { left: lines, has_seen: false };
    let end = files.len().saturating_sub(1);
    if lines == 0 {
        let at = files.last().map_or(Ok(0), LogFile::bytes)?;
        return Ok((end, at));
    }
    for (index, file) in files.iter().enumerate().rev() {
        if let Some(at) = start_in(file, &mut count)? {
            // Just behind the file's last record means the next file.
            return Ok((index, at));
        }
    }
    Ok((0, 0))
}

/// Lines still to be found, going backwards over records.
struct Count {
    left: u64,
    has_seen: bool,
}

impl Count {
    /// Takes the record before those already seen; true when the lines wanted begin right behind it.
    fn take(&mut self, record: &[u8]) -> bool {
        let Some(record) = Record::parse(record) else { return false };
        if record.ends_line && self.has_seen {
            self.left -= 1;
            if self.left == 0 {
                return true;
            }
        }
        self.has_seen = true;
        false
    }
}

/// Where in this file the lines begin; `None` when they begin before it.
fn start_in(file: &LogFile, count: &mut Count) -> io::Result<Option<u64>> {
    // `held` are the bytes from `from`; what comes behind them has been looked at.
    let (mut from, mut held) = (file.bytes()?, Vec::new());
    loop {
        let at = loop {
            // A record's end is its own; the one before it ends the record before.
            let body = held.strip_suffix(b"\n").unwrap_or(&held);
            match body.iter().rposition(|byte| *byte == b'\n') {
                Some(newline) => break newline + 1,
                None if from == 0 => break 0,
                // No record is that long: it is passed over in pieces.
                None if held.len() > RECORD_BYTES_MAX => break held.len().saturating_sub(RECORD_BYTES_MAX),
                None => from = prepend(file, from, &mut held)?,
            }
        };
        if held.is_empty() {
            return Ok(None);
        }
        let record = held.get(at..).unwrap_or_default();
        let end = from + held.len() as u64;
        if count.take(record.strip_suffix(b"\n").unwrap_or(record)) {
            return Ok(Some(end));
        }
        held.truncate(at);
    }
}

/// Reads the block before `from`; the new beginning is returned.
fn prepend(file: &LogFile, from: u64, held: &mut Vec<u8>) -> io::Result<u64> {
    let bytes = from.min(BLOCK_BYTES as u64);
    let mut block = vec![0; usize::try_from(bytes).unwrap_or(BLOCK_BYTES)];
    let (start, mut filled) = (from - bytes, 0);
    while filled < block.len() {
        match file.read_at(&mut block[filled..], start + filled as u64)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => filled += read,
        }
    }
    block.append(held);
    *held = block;
    Ok(start)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::super::files::open_all;
    use super::*;

    fn from_start(path: &Path, lines: u64) -> String {
        let files = open_all(path).expect("files");
        let (index, at) = start(&files, lines).expect("a start");
        let mut text = String::new();
        for (file, from) in files.iter().skip(index).zip([at].into_iter().chain(std::iter::repeat(0))) {
            let mut buffer = vec![0; usize::try_from(file.bytes().expect("bytes") - from).expect("fits")];
            let read = file.read_at(&mut buffer, from).expect("read");
            assert_eq!(read, buffer.len());
            text.push_str(&String::from_utf8(buffer).expect("text"));
        }
        text
    }

    /// Lines of records, over files; the text of the last lines is that of the last lines.
    fn check(files: &[Vec<Vec<String>>], wanted: u64) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("0.log");
        let write = |line: &Vec<String>| -> String {
            let end = line.len().saturating_sub(1);
            let record =
                |(at, text): (usize, &String)| format!("t stdout {} {text}\n", if at == end { "F" } else { "P" });
            line.iter().enumerate().map(record).collect()
        };
        for (at, lines) in files.iter().enumerate() {
            let name = if at + 1 == files.len() { path.clone() } else { directory.path().join(format!("0.log.{at}")) };
            std::fs::write(name, lines.iter().map(write).collect::<String>()).expect("written");
        }
        let all: Vec<&Vec<String>> = files.iter().flatten().collect();
        let skipped = all.len().saturating_sub(usize::try_from(wanted).expect("fits"));
        let expected: String = all[skipped..].iter().map(|line| write(line)).collect();
        assert_eq!(from_start(&path, wanted), expected, "{wanted}");
    }

    #[test]
    fn a_long_log() {
        let line = |at: usize| vec![format!("{at} {}", "x".repeat(at % 700))];
        let files: Vec<Vec<Vec<String>>> = (0..3).map(|file| (0..700).map(|at| line(at + file)).collect()).collect();
        for wanted in [0, 1, 2, 699, 700, 701, 1_400, 2_100, 5_000] {
            check(&files, wanted);
        }
    }

    #[test]
    fn what_is_no_record_is_passed_over() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("0.log");
        let text = format!("t stdout F one\n{}t stdout F two\ntorn", "z".repeat(200_000) + "\n");
        std::fs::write(&path, text).expect("written");
        let found = from_start(&path, 1);
        assert!(found.ends_with("\nt stdout F two\ntorn") && !found.contains("one"), "what is no record is not shown");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn the_last_lines(
            files in prop::collection::vec(
                prop::collection::vec(prop::collection::vec("[a-z ]{0,20}", 1..3), 0..6), 1..4,
            ),
            wanted in 0..15_u64,
        ) {
            check(&files, wanted);
        }
    }
}
