//! Downloads a blob into the store: from where an earlier try ended, checked while it comes.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::sync::Arc;

use bytes::Bytes;
use http::{StatusCode, header};
use rustix::fs::{FlockOperation, flock};
use tokio::sync::mpsc;

use super::connect::Answer;
use super::session::Session;
use super::{Progress, ProgressFn};
use crate::digest::{Digest, Hasher};
use crate::error::ImageError;
use crate::manifest::Descriptor;
use crate::store::Layout;

/// Pieces between the connection and the disk; with the pieces' own size, at most about 1 MiB of memory.
const PIECES_AHEAD: usize = 8;
/// A try that brought this much starts the count of tries anew: a large blob may need many over a bad line.
const GOOD_TRY_BYTES: u64 = 1 << 20;
const COPY_BYTES: usize = 128 * 1024;

/// A file that receives a blob, and the digest of what it has.
struct Receiver {
    file: File,
    hasher: Hasher,
    bytes: u64,
}

/// Why a try ended.
enum Ended {
    /// All bytes are there.
    Whole,
    /// Fewer than all; the next try goes on.
    Early(ImageError),
}

/// Downloads `blob` unless the store has it.
pub(super) async fn download(
    session: &Session,
    layout: &Arc<crate::store::Inner>,
    blob: &Descriptor,
    bytes_max: u64,
    progress: &ProgressFn,
) -> Result<(), ImageError> {
    let what = format!("{}: blob {}", session.shown(), blob.digest);
    if blob.size > bytes_max {
        return Err(ImageError::TooLarge(format!("{what}: {} bytes, more than {bytes_max}", blob.size)));
    }
    let flight = layout.flight(&blob.digest);
    let _alone = flight.lock().await;
    let store = Arc::clone(layout);
    let digest = blob.digest.clone();
    let opened = blocking(move || Receiver::open(&store.layout, &digest)).await?;
    let Some(mut receiver) = opened else {
        progress(Progress { digest: &blob.digest, done_bytes: blob.size, total_bytes: blob.size });
        return Ok(());
    };
    if receiver.bytes > blob.size {
        receiver = receiver.restart(&blob.digest).await?;
    }
    receiver = fill(session, receiver, blob, &what, progress).await?;
    let (store, digest) = (Arc::clone(layout), blob.digest.clone());
    blocking(move || receiver.publish(&store.layout, &what, &digest)).await
}

/// Tries until all bytes are there.
async fn fill(
    session: &Session,
    mut receiver: Receiver,
    blob: &Descriptor,
    what: &str,
    progress: &ProgressFn,
) -> Result<Receiver, ImageError> {
    let limits = session.limits();
    let (mut attempt, mut pause) = (1, limits.retry_pause);
    loop {
        let before = receiver.bytes;
        let ended;
        (receiver, ended) = try_once(session, receiver, blob, what, progress).await?;
        let Ended::Early(error) = ended else { return Ok(receiver) };
        if receiver.bytes.saturating_sub(before) >= GOOD_TRY_BYTES {
            (attempt, pause) = (1, limits.retry_pause);
        } else if attempt >= limits.attempts_max {
            return Err(error.about(what));
        }
        attempt += 1;
        tracing::debug!(what, bytes = receiver.bytes, failure = error.message(), "the download goes on");
        tokio::time::sleep(pause.min(limits.retry_pause_max)).await;
        pause = pause.saturating_mul(2);
    }
}

async fn try_once(
    session: &Session,
    mut receiver: Receiver,
    blob: &Descriptor,
    what: &str,
    progress: &ProgressFn,
) -> Result<(Receiver, Ended), ImageError> {
    if receiver.bytes == blob.size {
        return Ok((receiver, Ended::Whole));
    }
    let mut answer = session.blob(blob.digest.as_str(), receiver.bytes).await?;
    if receiver.bytes > 0 && starts_at(&answer) != Some(receiver.bytes) {
        receiver = receiver.restart(&blob.digest).await?;
        if answer.status != StatusCode::OK {
            let text = format!("the registry answers a range with {}", answer.status);
            return Ok((receiver, Ended::Early(ImageError::unavailable(what, text))));
        }
    }
    let (pieces, queue) = mpsc::channel(PIECES_AHEAD);
    let (digest, total_bytes) = (&blob.digest, blob.size);
    let receiver_bytes = receiver.bytes;
    let writer = tokio::task::spawn_blocking(move || receiver.write_all(queue, total_bytes));
    let mut failure = None;
    let (mut sent_bytes, mut told_bytes) = (receiver_bytes, receiver_bytes);
    loop {
        if sent_bytes - told_bytes >= GOOD_TRY_BYTES {
            progress(Progress { digest, done_bytes: sent_bytes, total_bytes });
            told_bytes = sent_bytes;
        }
        match answer.next().await {
            Ok(None) => break,
            Err(error) => {
                failure = Some(error);
                break;
            }
            // The writer ends early where the disk fails or too much comes; it tells why.
            Ok(Some(piece)) => {
                sent_bytes += piece.len() as u64;
                if pieces.send(piece).await.is_err() {
                    break;
                }
            }
        }
    }
    drop(pieces);
    let written = writer.await.map_err(|error| ImageError::unavailable(what, error))?;
    let receiver = written.map_err(|error| ImageError::stream(what, error))?;
    progress(Progress { digest, done_bytes: receiver.bytes, total_bytes });
    if receiver.bytes == total_bytes {
        return Ok((receiver, Ended::Whole));
    }
    let early = || ImageError::unavailable(what, format!("{} of {total_bytes} bytes came", receiver.bytes));
    let ended = Ended::Early(failure.unwrap_or_else(early));
    Ok((receiver, ended))
}

/// The offset that a partial answer begins at; 0 for a whole one.
fn starts_at(answer: &Answer) -> Option<u64> {
    match answer.status {
        StatusCode::OK => Some(0),
        StatusCode::PARTIAL_CONTENT => {
            let range = answer.header(header::CONTENT_RANGE)?.strip_prefix("bytes ")?;
            range.split_once('-')?.0.trim().parse().ok()
        }
        _ => None,
    }
}

impl Receiver {
    /// Opens the file for a blob, with what an earlier try left in it; none if the store has the blob. Waits while
    /// another process downloads the same one.
    fn open(layout: &Layout, digest: &Digest) -> Result<Option<Receiver>, ImageError> {
        let path = layout.partial(digest);
        let failed = |error| ImageError::disk(format!("open {}", path.display()), error);
        loop {
            if layout.blob(digest).exists() {
                return Ok(None);
            }
            let file = File::options().create(true).truncate(false).read(true).write(true).open(&path);
            let mut file = file.map_err(failed)?;
            flock(&file, FlockOperation::LockExclusive).map_err(|errno| failed(errno.into()))?;
            // Who held the lock may have finished, and the file has another name now.
            if !is_at(&file, &path) {
                continue;
            }
            let mut hasher = digest.hasher();
            let bytes = hash(&mut file, &mut hasher).map_err(failed)?;
            return Ok(Some(Receiver { file, hasher, bytes }));
        }
    }

    /// Writes pieces as they come, and no more than `total_bytes`.
    fn write_all(mut self, mut pieces: mpsc::Receiver<Bytes>, total_bytes: u64) -> io::Result<Receiver> {
        while let Some(piece) = pieces.blocking_recv() {
            if self.bytes + piece.len() as u64 > total_bytes {
                // What was written is as wrong as what came after it.
                self.file.set_len(0)?;
                return Err(crate::error::Malformed::io(format!(
                    "more than the {total_bytes} bytes that it should have"
                )));
            }
            self.file.write_all(&piece)?;
            self.hasher.update(&piece);
            self.bytes += piece.len() as u64;
        }
        Ok(self)
    }

    /// Begins anew.
    async fn restart(mut self, digest: &Digest) -> Result<Receiver, ImageError> {
        let hasher = digest.hasher();
        blocking(move || {
            let emptied = self.file.set_len(0).and_then(|()| self.file.rewind());
            emptied.map_err(|e| ImageError::disk("empty a partial download", e))?;
            Ok(Receiver { file: self.file, hasher, bytes: 0 })
        })
        .await
    }

    /// Makes the file a blob of the store, if it is what it should be; else it is emptied, and the next try begins
    /// anew.
    fn publish(self, layout: &Layout, what: &str, digest: &Digest) -> Result<(), ImageError> {
        let failed = |error| ImageError::disk(what, error);
        if let Err(error) = digest.compare(what, &self.hasher.finish()) {
            self.file.set_len(0).map_err(failed)?;
            return Err(error);
        }
        layout.step("sync")?;
        self.file.sync_all().map_err(failed)?;
        layout.publish(&layout.partial(digest), &layout.blob(digest))
    }
}

fn is_at(file: &File, path: &std::path::Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let (Ok(open), Ok(named)) = (file.metadata(), std::fs::metadata(path)) else { return false };
    (open.dev(), open.ino()) == (named.dev(), named.ino())
}

fn hash(file: &mut File, hasher: &mut Hasher) -> io::Result<u64> {
    let mut buffer = vec![0; COPY_BYTES];
    let mut bytes = 0;
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok(bytes);
        }
        hasher.update(buffer.get(..count).unwrap_or_default());
        bytes += count as u64;
    }
}

/// Runs what may wait for the disk where waiting is allowed.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ImageError> + Send + 'static,
) -> Result<T, ImageError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| ImageError::unavailable("a task of the image store ended", error))?
}
