//! Container logs in the format of CRI: one line `time stream tag text`, where the tag is `F` for the end of a line
//! and `P` for a part of one; put aside by size.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clock::Clock;
use stdx::Time;

use contract::LogLimits;

/// Bytes of a line kept together; longer ones are cut into parts. The limit of CRI runtimes.
const LINE_BYTES_MAX: usize = 16 << 10;

/// The open log of a container.
pub(crate) struct Log {
    path: PathBuf,
    limits: LogLimits,
    file: File,
    written: u64,
    /// What came of the current line of each stream.
    pending: [Vec<u8>; 2],
    /// When a file was last put aside: two never have the same name.
    rotated_at: Time,
}

/// Which output a text came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    fn name(self) -> &'static str {
        match self {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        }
    }
}

impl Log {
    /// Opens the log, continuing one that is there.
    pub(crate) fn open(path: &Path, limits: LogLimits) -> io::Result<Log> {
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        let file = open(path)?;
        let written = file.metadata()?.len();
        Ok(Log {
            path: path.to_owned(),
            limits,
            file,
            written,
            pending: [Vec::new(), Vec::new()],
            rotated_at: Time::EPOCH,
        })
    }

    /// Takes output. A failure to write loses lines rather than stopping the container.
    pub(crate) fn take(&mut self, stream: Stream, bytes: &[u8], clock: &dyn Clock) {
        let now = clock.now();
        let mut out = Vec::with_capacity(bytes.len() + 128);
        let mut pending = std::mem::take(&mut self.pending[stream as usize]);
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, ended) = match piece.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (piece, false),
            };
            pending.extend(text);
            while pending.len() > LINE_BYTES_MAX {
                let rest = pending.split_off(LINE_BYTES_MAX);
                line(&mut out, now, stream, 'P', &pending);
                pending = rest;
            }
            if ended {
                line(&mut out, now, stream, 'F', &pending);
                pending.clear();
            }
            if self.written + out.len() as u64 >= self.limits.file_bytes_max.max(1) {
                self.write(&out, now);
                out.clear();
            }
        }
        self.pending[stream as usize] = pending;
        self.write(&out, now);
    }

    /// Writes out lines that were never ended.
    pub(crate) fn finish(&mut self, clock: &dyn Clock) {
        let now = clock.now();
        for stream in [Stream::Stdout, Stream::Stderr] {
            let pending = std::mem::take(&mut self.pending[stream as usize]);
            if !pending.is_empty() {
                let mut out = Vec::new();
                line(&mut out, now, stream, 'F', &pending);
                self.write(&out, now);
            }
        }
    }

    fn write(&mut self, bytes: &[u8], now: Time) {
        if bytes.is_empty() {
            return;
        }
        if self.file.write_all(bytes).is_ok() {
            self.written += bytes.len() as u64;
        }
        if self.written >= self.limits.file_bytes_max.max(1) {
            // On failure the file grows on, and the next write tries again.
            let _ = self.rotate(now);
        }
    }

    /// Puts the file aside under the time and removes the oldest.
    fn rotate(&mut self, now: Time) -> io::Result<()> {
        let next = self.rotated_at.after(std::time::Duration::from_micros(1));
        self.rotated_at = now.max(next);
        let name = contract::name_aside(&self.path, self.rotated_at);
        fs::rename(&self.path, &name)?;
        self.file = open(&self.path)?;
        self.written = 0;
        contract::keep_newest(&self.path, self.limits.files_max)
    }
}

fn open(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    OpenOptions::new().create(true).append(true).mode(0o640).custom_flags(libc::O_NOFOLLOW).open(path)
}

fn line(out: &mut Vec<u8>, now: Time, stream: Stream, tag: char, text: &[u8]) {
    out.extend(format!("{} {} {tag} ", now.to_rfc3339_micros(), stream.name()).as_bytes());
    out.extend(text);
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock() -> clock::ManualClock {
        clock::ManualClock::at(Time::parse("2026-11-30T02:25:50.5Z").unwrap())
    }

    #[test]
    fn lines_and_parts() {
        let long = "x".repeat(LINE_BYTES_MAX);
        let stamp = "2026-11-30T02:25:50.500000Z";
        for (chunks, expected) in [
            (vec!["one\ntwo\n"], format!("{stamp} stdout F one\n{stamp} stdout F two\n")),
            (vec!["o", "ne\n\n"], format!("{stamp} stdout F one\n{stamp} stdout F \n")),
            (vec!["unended"], format!("{stamp} stdout F unended\n")),
            (vec![&long, "y\n"], format!("{stamp} stdout P {long}\n{stamp} stdout F y\n")),
            (vec![&long, "\n"], format!("{stamp} stdout F {long}\n")),
            (vec![], String::new()),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("a/0.log");
            let mut log = Log::open(&path, LogLimits::default()).unwrap();
            for chunk in chunks {
                log.take(Stream::Stdout, chunk.as_bytes(), &clock());
            }
            log.finish(&clock());
            assert_eq!(fs::read_to_string(&path).unwrap(), expected);
        }
    }

    #[test]
    fn files_are_put_aside_and_the_oldest_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.log");
        let mut log = Log::open(&path, LogLimits { file_bytes_max: 50, files_max: 3 }).unwrap();
        let clock = clock();
        for number in 0..10 {
            log.take(Stream::Stderr, format!("line number {number}\n").as_bytes(), &clock);
            clock.advance(std::time::Duration::from_secs(1));
        }
        let old = contract::rotated(&path).unwrap();
        assert_eq!(old.len(), 2);
        assert!(fs::read_to_string(&old[1]).unwrap().ends_with("stderr F line number 9\n"));
        assert!(fs::read_to_string(&old[0]).unwrap().contains("line number 8"));
    }
}
