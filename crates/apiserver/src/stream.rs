//! Watches: a cursor in the store's history, read when the collection's bell rings. Nothing is queued for a slow
//! reader: it falls behind until its revision is compacted, and is told so.

use std::sync::Arc;
use std::time::Duration;

use api::{Representation, WatchAnswer};
use bytes::{BufMut, Bytes, BytesMut};
use client::{Body, BoxError};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use meta::ApiError;
use store::{Entry, ReadError, Revision};
use tokio::sync::{mpsc, watch};

use crate::app::App;

/// Events read at a time, and bytes gathered before they are sent.
const EVENTS_MAX: usize = 512;
const CHUNK_BYTES: usize = 64 * 1024;
/// Chunks between reader and socket. The cursor stops when they are full: this is the reader's whole buffer.
const CHUNKS_MAX: usize = 2;
/// How long a reader may take no chunk. A connection that takes nothing is ended sooner or about then; this is for a
/// reader that keeps its connection alive but grants its stream no window.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);
/// How often bookmarks tell a quiet watcher the revision it may resume from.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);
/// How long a watch lives that names no time (upstream: 30 minutes, up to double at random).
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(45 * 60);
/// Longest time that a watch may ask for.
const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The stream's body; it is fed by a task that ends with the reader.
pub fn body(app: &Arc<App>, answer: WatchAnswer, form: Representation) -> Body {
    let (chunks, receiver) = mpsc::channel(CHUNKS_MAX);
    let cursor = Cursor {
        changes: app.hub.subscribe(&answer.collection),
        stopping: app.stopping.subscribe(),
        app: Arc::clone(app),
        at: answer.start.after,
        answer,
        form,
        chunks,
        has_sent: false,
    };
    tokio::spawn(cursor.run());
    of_chunks(receiver)
}

/// A body of pieces as they come. Whoever feeds it sees by the channel that nobody reads any more.
pub fn of_chunks(chunks: mpsc::Receiver<Bytes>) -> Body {
    StreamBody::new(Receiver(chunks)).boxed_unsync()
}

struct Receiver(mpsc::Receiver<Bytes>);

impl futures_core::Stream for Receiver {
    type Item = Result<Frame<Bytes>, BoxError>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|chunk| chunk.map(|bytes| Ok(Frame::data(bytes))))
    }
}

struct Cursor {
    app: Arc<App>,
    answer: WatchAnswer,
    form: Representation,
    at: Revision,
    changes: watch::Receiver<Revision>,
    stopping: watch::Receiver<bool>,
    chunks: mpsc::Sender<Bytes>,
    has_sent: bool,
}

/// The reader has gone, or was told the end.
struct Ended;

impl Cursor {
    async fn run(mut self) {
        let timeout = match self.answer.timeout_seconds {
            0 => TIMEOUT_DEFAULT,
            seconds => Duration::from_secs(seconds).min(TIMEOUT_MAX),
        };
        // Whichever comes first ends the stream; the reader sees an orderly end and resumes from its last revision.
        let _ = tokio::time::timeout(timeout, self.follow()).await;
    }

    async fn follow(&mut self) -> Result<(), Ended> {
        self.send_initial().await?;
        let mut bookmark = tokio::time::interval(BOOKMARK_INTERVAL);
        bookmark.reset();
        loop {
            self.changes.mark_unchanged();
            self.send_events().await?;
            let bookmark_is_due = tokio::select! {
                changed = self.changes.changed() => changed.map(|()| false).map_err(|_| Ended)?,
                _ = bookmark.tick(), if self.answer.bookmarks => true,
                _ = self.stopping.changed() => return Err(Ended),
                () = self.chunks.closed() => return Err(Ended),
            };
            if bookmark_is_due {
                self.send_bookmark(false).await?;
            }
        }
    }

    async fn send_initial(&mut self) -> Result<(), Ended> {
        let initial = std::mem::take(&mut self.answer.start.initial);
        let mut chunk = BytesMut::new();
        for entry in initial {
            self.put_event(&mut chunk, "ADDED", &entry);
            if chunk.len() >= CHUNK_BYTES {
                self.send(chunk.split().freeze()).await?;
            }
        }
        self.send(chunk.freeze()).await?;
        if self.answer.start.marks_end { self.send_bookmark(true).await } else { Ok(()) }
    }

    async fn send_events(&mut self) -> Result<(), Ended> {
        loop {
            let (events, through) = match self.app.store.events(&self.answer.collection, self.at, EVENTS_MAX) {
                Ok(read) => read,
                Err(error) => return self.send_expired(error).await,
            };
            let is_last = events.len() < EVENTS_MAX;
            let mut chunk = BytesMut::new();
            for event in &events {
                let Some(shown) = self.answer.show(event) else { continue };
                self.put_event(&mut chunk, shown.kind, &shown.entry);
                if chunk.len() >= CHUNK_BYTES {
                    self.send(chunk.split().freeze()).await?;
                }
            }
            self.send(chunk.freeze()).await?;
            self.at = through;
            if is_last {
                return Ok(());
            }
        }
    }

    fn put_event(&mut self, chunk: &mut BytesMut, kind: &str, entry: &Entry) {
        let object = api::represent_event(&self.answer.kind, self.form, entry, self.app.clock.now(), !self.has_sent);
        self.has_sent = true;
        put_frame(chunk, kind, &object);
    }

    async fn send_bookmark(&mut self, ends_initial: bool) -> Result<(), Ended> {
        let mut chunk = BytesMut::new();
        let object = api::represent_bookmark(&self.answer.kind, self.form, self.at, ends_initial);
        put_frame(&mut chunk, "BOOKMARK", &object);
        self.send(chunk.freeze()).await
    }

    /// The history that the reader still needs is gone: it must list again.
    async fn send_expired(&mut self, error: ReadError) -> Result<(), Ended> {
        let message = match error {
            ReadError::Compacted { oldest } => format!("too old resource version: {} ({oldest})", self.at),
            ReadError::Future { newest } => format!("resource version {} is newer than {newest}", self.at),
        };
        let mut chunk = BytesMut::new();
        let status = serde_json::to_vec(&ApiError::expired(message).to_value()).unwrap_or_default();
        put_frame(&mut chunk, "ERROR", &status);
        self.send(chunk.freeze()).await?;
        Err(Ended)
    }

    async fn send(&self, chunk: Bytes) -> Result<(), Ended> {
        if chunk.is_empty() {
            return Ok(());
        }
        match tokio::time::timeout(STALL_TIMEOUT, self.chunks.send(chunk)).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(Ended),
        }
    }
}

fn put_frame(chunk: &mut BytesMut, kind: &str, object: &[u8]) {
    chunk.reserve(object.len() + 40);
    chunk.put_slice(b"{\"type\":\"");
    chunk.put_slice(kind.as_bytes());
    chunk.put_slice(b"\",\"object\":");
    chunk.put_slice(object);
    chunk.put_slice(b"}\n");
}
