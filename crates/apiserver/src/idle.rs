//! When a connection has nothing to do, and when its peer takes nothing: both end it, so that nobody holds a place by
//! being silent.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use client::{Body, BoxError};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tokio::time::Sleep;

/// How long a connection may go without a request, from its beginning and between requests (upstream's limits).
const FIRST_TIMEOUT: Duration = Duration::from_secs(32);
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// How long a peer may take nothing of what is sent. Far longer than any network's hiccup; what waits for it (a list's
/// objects, a chunk of a watch) cannot be freed before.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);
/// The same for a connection that carries a terminal: people stop the output to read it, or for lunch.
const LONG_STALL_TIMEOUT: Duration = Duration::from_secs(4 * 60 * 60);

/// The requests of one connection that are not answered to the end.
#[derive(Clone)]
pub struct Busy(watch::Sender<usize>);

/// One of them; it counts until it is dropped.
pub struct Turn(watch::Sender<usize>);

impl Busy {
    /// None.
    pub fn new() -> Busy {
        Busy(watch::Sender::new(0))
    }

    /// One more.
    pub fn turn(&self) -> Turn {
        self.0.send_modify(|count| *count += 1);
        Turn(self.0.clone())
    }

    /// Resolves when there was none for too long.
    pub async fn idle(&self) {
        let mut count = self.0.subscribe();
        let mut patience = FIRST_TIMEOUT;
        // The channel lives as long as `self`: waiting cannot fail.
        while tokio::time::timeout(patience, count.wait_for(|count| *count > 0)).await.is_ok() {
            let _ = count.wait_for(|count| *count == 0).await;
            patience = IDLE_TIMEOUT;
        }
    }
}

impl Turn {
    /// Ends with the last byte of `body`.
    pub fn until_end_of(self, body: Body) -> Keeping<Turn> {
        Keeping::new(body, self)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count = count.saturating_sub(1));
    }
}

/// A body that keeps something until its end: that its request counts, a place.
pub struct Keeping<T> {
    body: Body,
    _kept: T,
}

impl<T> Keeping<T> {
    /// Keeps `kept` as long as `body`.
    pub fn new(body: Body, kept: T) -> Keeping<T> {
        Keeping { body, _kept: kept }
    }
}

impl<T: Unpin> http_body::Body for Keeping<T> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}

/// How long one connection's peer may take nothing: a minute, until it is extended.
#[derive(Clone, Default)]
pub struct Patience(Arc<AtomicBool>);

impl Patience {
    /// From now on the peer may stop for hours.
    pub fn extend(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn timeout(&self) -> Duration {
        if self.0.load(Ordering::Relaxed) { LONG_STALL_TIMEOUT } else { STALL_TIMEOUT }
    }
}

/// A stream whose writes fail once the peer has taken nothing for as long as its [`Patience`] lasts.
pub struct Impatient<S> {
    stream: S,
    patience: Patience,
    /// Runs while a write waits.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> Impatient<S> {
    /// Around a stream.
    pub fn new(stream: S, patience: Patience) -> Impatient<S> {
        Impatient { stream, patience, stalled: None }
    }

    fn judge<T>(&mut self, written: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let timeout = self.patience.timeout();
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        std::task::ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer takes nothing")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Impatient<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Impatient<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.judge(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.judge(flushed, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = Pin::new(&mut self.stream).poll_shutdown(context);
        self.judge(ended, context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_after_its_last_request() {
        let busy = Busy::new();
        let begun = tokio::time::Instant::now();
        busy.idle().await;
        assert_eq!(begun.elapsed(), FIRST_TIMEOUT);
        let turn = busy.turn();
        let far = IDLE_TIMEOUT * 100;
        let begun = tokio::time::Instant::now();
        let end_of_turn = async {
            tokio::time::sleep(far).await;
            drop(turn);
        };
        tokio::join!(busy.idle(), end_of_turn);
        assert_eq!(begun.elapsed(), far + IDLE_TIMEOUT);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_takes_nothing_is_left() {
        let (ours, _theirs) = tokio::io::duplex(16);
        let patience = Patience::default();
        let mut ours = Impatient::new(ours, patience.clone());
        for (is_extended, expected) in [(false, STALL_TIMEOUT), (true, LONG_STALL_TIMEOUT)] {
            if is_extended {
                patience.extend();
            }
            let begun = tokio::time::Instant::now();
            let error = ours.write_all(&[0; 17]).await.expect_err("nobody reads");
            assert_eq!((error.kind(), begun.elapsed()), (io::ErrorKind::TimedOut, expected));
            ours.stalled = None;
        }
    }
}
