//! A container's last words: the file it may write, or the end of its log.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// Longest message: upstream's limit.
const MESSAGE_BYTES_MAX: u64 = 4_096;
/// How much of the log stands in for a message: upstream's limits.
const LOG_BYTES_MAX: u64 = 2_048;
const LOG_LINES_MAX: usize = 80;
/// The log file is larger than what it says by a prefix of some fifty bytes a line; this much of it is looked at.
const TAIL_BYTES_MAX: u64 = LOG_BYTES_MAX + 64 * LOG_LINES_MAX as u64;

/// The last words of a container that has ended.
pub(crate) fn last_words(message: &Path, log: &Path, policy: &str, code: i32) -> String {
    let mut text = String::new();
    if let Ok(file) = File::open(message) {
        let mut bytes = Vec::new();
        // What cannot be read was not said.
        let _ = file.take(MESSAGE_BYTES_MAX).read_to_end(&mut bytes);
        text = String::from_utf8_lossy(&bytes).into_owned();
    }
    if text.is_empty() && policy == "FallbackToLogsOnError" && code != 0 {
        text = tail(log).unwrap_or_default();
    }
    text
}

/// The end of a log without its prefixes.
fn tail(log: &Path) -> std::io::Result<String> {
    let mut file = File::open(log)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES_MAX)))?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES_MAX).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let cut = if length > TAIL_BYTES_MAX { text.split_once('\n').map_or("", |(_, rest)| rest) } else { &text };
    let lines: Vec<&str> = cut.lines().map(said).collect();
    let mut told = lines[lines.len().saturating_sub(LOG_LINES_MAX)..].join("\n");
    if !told.is_empty() {
        told.push('\n');
    }
    let limit = usize::try_from(LOG_BYTES_MAX).unwrap_or(usize::MAX);
    let mut from = told.len().saturating_sub(limit);
    while !told.is_char_boundary(from) {
        from += 1;
    }
    Ok(told.split_off(from))
}

/// `<time> <stream> <P|F> <text>` says `<text>`.
fn said(line: &str) -> &str {
    line.splitn(4, ' ').nth(3).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_first_then_the_log() {
        let directory = tempfile::tempdir().expect("a directory");
        let (message, log) = (directory.path().join("m"), directory.path().join("l"));
        std::fs::write(&log, "2026-11-30T00:00:00Z stdout F one\n2026-11-30T00:00:00Z stderr F two words\n")
            .expect("log");
        let check = |policy: &str, code: i32, expected: &str| {
            assert_eq!(last_words(&message, &log, policy, code), expected, "{policy} {code}");
        };
        check("File", 1, "");
        check("FallbackToLogsOnError", 0, "");
        check("FallbackToLogsOnError", 1, "one\ntwo words\n");
        std::fs::write(&message, "because").expect("message");
        check("FallbackToLogsOnError", 1, "because");
        std::fs::remove_file(&message).expect("removed");
        std::fs::write(&log, "x F F y\n".repeat(3_000)).expect("log");
        assert_eq!(last_words(&message, &log, "FallbackToLogsOnError", 1), "y\n".repeat(80));
    }
}
