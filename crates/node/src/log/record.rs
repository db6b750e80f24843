//! One record of a log, and what of it is shown.

use apiserver::{LogOptions, LogStream};
use meta::Time;

/// The longest record read: the runtime keeps 16 KiB of a line together, others may keep more.
pub(super) const RECORD_BYTES_MAX: usize = 64 * 1024;

/// `time stream tag text`.
#[derive(Debug, PartialEq)]
pub(super) struct Record<'r> {
    time: &'r str,
    stream: &'r str,
    /// The line ends with it; otherwise the next record of the stream goes on with the line.
    pub ends_line: bool,
    text: &'r [u8],
}

impl<'r> Record<'r> {
    /// Reads a record without its end of line; `None` for what is none.
    pub fn parse(bytes: &'r [u8]) -> Option<Record<'r>> {
        let mut parts = bytes.splitn(4, |byte| *byte == b' ');
        let mut word = || std::str::from_utf8(parts.next()?).ok();
        let (time, stream, tag) = (word()?, word()?, word()?);
        // Tags may be several, with colons between them; the first says it.
        let ends_line = match tag.split(':').next()? {
            "F" => true,
            "P" => false,
            _ => return None,
        };
        Some(Record { time, stream, ends_line, text: parts.next()? })
    }
}

/// Shows what is wanted of the records that it is given, in order.
#[derive(Debug)]
pub(super) struct Show {
    since: Option<Time>,
    stream: LogStream,
    has_times: bool,
    bytes_left: u64,
    is_mid_line: bool,
}

impl Show {
    pub fn new(options: &LogOptions) -> Show {
        Show {
            since: options.since,
            stream: options.stream,
            has_times: options.timestamps,
            bytes_left: options.limit_bytes.unwrap_or(u64::MAX),
            is_mid_line: false,
        }
    }

    /// Whether the limit is reached.
    pub fn is_full(&self) -> bool {
        self.bytes_left == 0
    }

    /// Adds what is shown of a record. What is no record (a write that a crash cut) is passed over.
    pub fn put(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let Some(record) = Record::parse(bytes) else { return };
        if !self.wants(&record) {
            return;
        }
        if self.has_times && !self.is_mid_line {
            self.add(time_of(record.time).as_bytes(), out);
            self.add(b" ", out);
        }
        self.add(record.text, out);
        if record.ends_line {
            self.add(b"\n", out);
        }
        self.is_mid_line = !record.ends_line;
    }

    fn wants(&mut self, record: &Record<'_>) -> bool {
        let of_stream = match self.stream {
            LogStream::All => true,
            LogStream::Stdout => record.stream == "stdout",
            LogStream::Stderr => record.stream == "stderr",
        };
        if let Some(since) = self.since {
            if Time::parse(record.time).is_some_and(|time| time < since) {
                return false;
            }
            // Times only grow: what follows is new enough.
            self.since = None;
        }
        of_stream
    }

    fn add(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let room = usize::try_from(self.bytes_left).unwrap_or(usize::MAX).min(bytes.len());
        out.extend(bytes.get(..room).unwrap_or_default());
        self.bytes_left -= room as u64;
    }
}

/// With nine digits behind the second, as upstream writes it.
fn time_of(time: &str) -> String {
    let Some((whole, rest)) = time.split_once('.') else {
        return time.strip_suffix('Z').map_or_else(|| time.to_owned(), |whole| format!("{whole}.000000000Z"));
    };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    format!("{whole}.{:0<9}{}", &rest[..digits], &rest[digits..])
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "2026-11-30T00:00:01.500000Z stdout F one\n\
        2026-11-30T00:00:02.000000Z stderr P t\n\
        2026-11-30T00:00:02.000000Z stderr F wo  words\n\
        torn\n\
        2026-11-30T00:00:03Z stdout F \n";

    fn shown(options: &LogOptions) -> String {
        let (mut show, mut out) = (Show::new(options), Vec::new());
        for line in LOG.lines() {
            show.put(line.as_bytes(), &mut out);
        }
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn what_is_wanted_is_shown() {
        let none = LogOptions::default;
        let check = |options: LogOptions, expected: &str| assert_eq!(shown(&options), expected, "{options:?}");
        check(none(), "one\ntwo  words\n\n");
        check(LogOptions { stream: LogStream::Stdout, ..none() }, "one\n\n");
        check(LogOptions { stream: LogStream::Stderr, ..none() }, "two  words\n");
        check(LogOptions { limit_bytes: Some(6), ..none() }, "one\ntw");
        check(LogOptions { since: Time::parse("2026-11-30T00:00:02Z"), ..none() }, "two  words\n\n");
        check(LogOptions { since: Time::parse("2026-12-30T00:00:02Z"), ..none() }, "");
        check(
            LogOptions { timestamps: true, ..none() },
            "2026-11-30T00:00:01.500000000Z one\n2026-11-30T00:00:02.000000000Z two  words\n\
             2026-11-30T00:00:03.000000000Z \n",
        );
    }

    #[test]
    fn times_of_other_runtimes_are_kept() {
        assert_eq!(time_of("2026-11-30T00:00:01.123456789+01:00"), "2026-11-30T00:00:01.123456789+01:00");
        assert_eq!(time_of("2026-11-30T00:00:01.1Z"), "2026-11-30T00:00:01.100000000Z");
    }
}
