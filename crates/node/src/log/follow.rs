//! Reads a log from a place to its end, and on as it grows.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use apiserver::LogOptions;
use bytes::Bytes;
use contract::{ContainerRuntime, ContainerState, Events};
use tokio::sync::mpsc;

use super::bell::{Bell, Bells};
use super::files::{self, LogFile};
use super::record::{RECORD_BYTES_MAX, Show};
use super::tail;

/// Read from a file at once: memory is twice this and one record a reader.
const CHUNK_BYTES: usize = 64 * 1024;
/// Pieces between the reader and whoever takes them. When they are full the reader waits.
const PIECES_MAX: usize = 2;
/// How often a log is looked at that nothing was heard of: what no bell rings for (other file systems, no more watches
/// on this machine) is seen all the same.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What is read.
pub(crate) struct Reading {
    /// What knows whether the container still runs.
    pub runtime: Arc<dyn ContainerRuntime>,
    /// The container.
    pub id: String,
    /// Its newest file.
    pub path: PathBuf,
    /// What is wanted.
    pub options: LogOptions,
}

impl Reading {
    /// Begins; the text comes by the channel. Dropping it ends the reading.
    pub async fn begin(self, bells: Option<Bells>) -> io::Result<mpsc::Receiver<Bytes>> {
        let (path, options) = (self.path.clone(), self.options.clone());
        let cursor = on_file_thread(move || Cursor::open(path, &options)).await?;
        let (pieces, text) = mpsc::channel(PIECES_MAX);
        tokio::spawn(async move {
            // The reader has gone, or the disk fails: either way the text ends here.
            let outcome = self.run(cursor, &pieces, bells).await;
            if let Err(error) = outcome {
                tracing::debug!(container = self.id, %error, "a log cannot be read to its end");
            }
        });
        Ok(text)
    }

    async fn run(&self, mut cursor: Cursor, pieces: &mpsc::Sender<Bytes>, bells: Option<Bells>) -> io::Result<()> {
        if !self.options.follow {
            return cursor.drain(pieces).await.map(drop);
        }
        // Listened to before anything is looked at: what changes meanwhile rings.
        let mut events = self.runtime.events();
        let mut bell = self.path.parent().zip(bells).and_then(|(directory, bells)| bells.hang(directory).ok());
        loop {
            let is_over = self.is_over().await;
            cursor = cursor.drain(pieces).await?;
            if is_over || cursor.show.is_full() || pieces.is_closed() {
                return Ok(());
            }
            tokio::select! {
                () = rung(&mut bell) => {}
                () = self.ended(&mut events) => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
                () = pieces.closed() => return Ok(()),
            }
        }
    }

    /// Whether nothing more will be written.
    async fn is_over(&self) -> bool {
        let status = self.runtime.container_status(&self.id).await;
        status.map_or_else(|error| error.is_not_found(), |status| status.state == ContainerState::Exited)
    }

    /// Resolves when something happened to the container.
    async fn ended(&self, events: &mut Events) {
        loop {
            match events.next().await {
                Ok(Some(event)) if !event.kind.is_about(&self.id) => {}
                _ => return,
            }
        }
    }
}

async fn rung(bell: &mut Option<Bell>) {
    match bell {
        Some(bell) => bell.rung().await,
        None => std::future::pending().await,
    }
}

/// A place in a log.
struct Cursor {
    path: PathBuf,
    /// The file being read, and those that are known to come after it.
    files: std::collections::VecDeque<LogFile>,
    at: u64,
    /// The beginning of a record whose end was not read yet.
    torn: Vec<u8>,
    show: Show,
}

impl Cursor {
    fn open(path: PathBuf, options: &LogOptions) -> io::Result<Cursor> {
        let mut files = files::open_all(&path)?;
        let (first, at) = match options.tail_lines {
            Some(lines) => tail::start(&files, lines)?,
            None => (0, 0),
        };
        files.drain(..first);
        Ok(Cursor { path, files: files.into(), at, torn: Vec::new(), show: Show::new(options) })
    }

    /// Sends everything there is. Errors when nobody takes it.
    async fn drain(mut self, pieces: &mpsc::Sender<Bytes>) -> io::Result<Cursor> {
        loop {
            let (cursor, text) = on_file_thread(move || {
                let text = self.read()?;
                Ok((self, text))
            })
            .await?;
            self = cursor;
            let Some(text) = text else { return Ok(self) };
            if !text.is_empty() && pieces.send(text).await.is_err() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            if self.show.is_full() {
                return Ok(self);
            }
        }
    }

    /// What is shown of the next chunk; `None` at the end of what is written.
    fn read(&mut self) -> io::Result<Option<Bytes>> {
        let mut buffer = vec![0; CHUNK_BYTES];
        let Some(file) = self.files.front() else {
            // Nothing was written so far.
            self.files = files::open_all(&self.path)?.into();
            return Ok((!self.files.is_empty()).then(Bytes::new));
        };
        let read = file.read_at(&mut buffer, self.at)?;
        if read > 0 {
            self.at += read as u64;
            return Ok(Some(self.take(&buffer[..read])));
        }
        let next = match self.files.get(1) {
            Some(_) => None,
            None => match files::after(&self.path, file)? {
                Some(next) => Some(next),
                None => return Ok(None),
            },
        };
        // It was put aside, so nothing more is written to it; but something may have been since it was read.
        let read = file.read_at(&mut buffer, self.at)?;
        self.files.extend(next);
        if read > 0 {
            self.at += read as u64;
            return Ok(Some(self.take(&buffer[..read])));
        }
        self.files.pop_front();
        (self.at, self.torn) = (0, Vec::new());
        Ok(Some(Bytes::new()))
    }

    fn take(&mut self, bytes: &[u8]) -> Bytes {
        let mut out = Vec::with_capacity(bytes.len());
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            match piece.strip_suffix(b"\n") {
                Some(end) if self.torn.is_empty() => self.show.put(end, &mut out),
                Some(end) => {
                    self.torn.extend(end);
                    self.show.put(&self.torn, &mut out);
                    self.torn.clear();
                }
                // What is longer is no record.
                None if self.torn.len() > RECORD_BYTES_MAX => {}
                None => self.torn.extend(piece),
            }
        }
        out.into()
    }
}

/// Files may be slow: not on a thread that others need.
async fn on_file_thread<T: Send + 'static>(step: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(step).await.map_err(io::Error::other)?
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn text_of(cursor: &mut Cursor) -> String {
        let mut text = Vec::new();
        while let Some(piece) = cursor.read().expect("read") {
            text.extend(piece);
        }
        String::from_utf8(text).expect("text")
    }

    fn append(path: &Path, text: &str) {
        use std::io::Write;
        let mut file = std::fs::File::options().create(true).append(true).open(path).expect("opened");
        file.write_all(text.as_bytes()).expect("written");
    }

    #[test]
    fn a_cursor_goes_on_through_files_that_are_put_aside() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("0.log");
        let mut cursor = Cursor::open(path.clone(), &LogOptions::default()).expect("opened");
        assert_eq!(text_of(&mut cursor), "");
        append(&path, "t stdout F one\nt std");
        assert_eq!(text_of(&mut cursor), "one\n");
        append(&path, "out F two\n");
        assert_eq!(text_of(&mut cursor), "two\n");
        append(&path, "t stdout F three\n");
        for stamp in ["1", "2"] {
            std::fs::rename(&path, directory.path().join(format!("0.log.{stamp}"))).expect("put aside");
            append(&path, &format!("t stdout F after {stamp}\n"));
        }
        assert_eq!(text_of(&mut cursor), "three\nafter 1\nafter 2\n");
        std::fs::rename(&path, directory.path().join("0.log.3")).expect("put aside");
        assert_eq!(text_of(&mut cursor), "");
        append(&path, "t stdout F after 3\n");
        assert_eq!(text_of(&mut cursor), "after 3\n");
    }

    #[test]
    fn a_cursor_begins_at_the_last_lines() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("0.log");
        append(&directory.path().join("0.log.1"), "t stdout F one\nt stdout F two\n");
        append(&path, "t stdout P th\nt stdout F ree\n");
        for (lines, expected) in
            [(None, "one\ntwo\nthree\n"), (Some(2), "two\nthree\n"), (Some(1), "three\n"), (Some(0), "")]
        {
            let options = LogOptions { tail_lines: lines, ..LogOptions::default() };
            let mut cursor = Cursor::open(path.clone(), &options).expect("opened");
            assert_eq!(text_of(&mut cursor), expected, "{lines:?}");
        }
    }
}
