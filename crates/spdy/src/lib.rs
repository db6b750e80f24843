//! SPDY/3.1, as far as Kubernetes speaks it: `kubectl port-forward` within a WebSocket, older programs without one, and
//! nodes with CRI runtimes. Streams that the client opens, each with headers and bytes both ways: [`carry`] is the
//! server's side, [`dial`] the client's.
//!
//! Neither side knows windows. What holds a fast side up is the connection itself: a stream whose bytes nobody takes
//! stops the reading of all, as it does upstream.

mod dictionary;
mod frame;
mod headers;

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, watch};

use frame::{INVALID_STREAM, REFUSED_STREAM, Received, Sent};
use headers::{Headers, Packer, Unpacker};

/// Streams of one connection that are open: two for each connection forwarded.
const STREAMS_MAX: usize = 512;
/// Frames that wait to be written, each at most [`CHUNK_BYTES`] long.
const FRAMES_MAX: usize = 16;
/// Pieces of one stream that wait to be taken.
const PIECES_MAX: usize = 4;
/// Most bytes of one frame of ours.
pub const CHUNK_BYTES: usize = 32 * 1024;
/// How often a sign of life is sent: sending to a peer that has gone fails.
const PING_EVERY: Duration = Duration::from_secs(5);

/// One stream. Dropping it unfinished resets it.
pub struct Stream {
    /// Its headers, by names in lower case.
    pub headers: BTreeMap<String, String>,
    /// Bytes from the peer; their end is the peer's end of the stream.
    pub input: mpsc::Receiver<Bytes>,
    /// Bytes to the peer.
    pub output: Output,
}

/// The way to the peer.
pub struct Output {
    stream: u32,
    frames: mpsc::Sender<Sent>,
    is_given_up: watch::Receiver<bool>,
    is_finished: bool,
}

/// The peer has given the stream up, or has gone.
#[derive(Debug)]
pub struct GivenUp;

impl Output {
    /// Sends bytes, at most [`CHUNK_BYTES`].
    pub async fn send(&mut self, bytes: Bytes) -> Result<(), GivenUp> {
        let frame = Sent::Data { stream: self.stream, bytes, is_last: false };
        tokio::select! {
            sent = self.frames.send(frame) => sent.map_err(|_| GivenUp),
            () = given_up(&mut self.is_given_up) => Err(GivenUp),
        }
    }

    /// Ends this side of the stream.
    pub async fn finish(mut self) {
        self.is_finished = true;
        let frame = Sent::Data { stream: self.stream, bytes: Bytes::new(), is_last: true };
        // A peer that has gone needs no end.
        let _ = self.frames.send(frame).await;
    }

    /// Resolves when the peer gives the stream up or has gone.
    pub fn given_up(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut told = self.is_given_up.clone();
        async move { given_up(&mut told).await }
    }
}

async fn given_up(told: &mut watch::Receiver<bool>) {
    // The sender goes with the connection.
    let _ = told.wait_for(|given_up| *given_up).await;
}

impl Drop for Output {
    fn drop(&mut self) {
        if !self.is_finished {
            // Without room the connection is as good as broken.
            let _ = self.frames.try_send(Sent::Reset { stream: self.stream, status: REFUSED_STREAM });
        }
    }
}

/// Carries a server's connection until it ends; the streams that the client opens go to `opened`.
pub async fn carry(io: impl AsyncRead + AsyncWrite, opened: mpsc::Sender<Stream>) -> io::Result<()> {
    let (frames, outgoing) = mpsc::channel(FRAMES_MAX);
    let connection = Connection::new(frames, Some(opened));
    run(io, connection, outgoing).await
}

/// Opens streams with these headers on a client's connection, in this order, at most 16. The future carries the
/// connection until it ends.
pub fn dial(
    io: impl AsyncRead + AsyncWrite,
    streams: Vec<BTreeMap<String, String>>,
) -> (Vec<Stream>, impl Future<Output = io::Result<()>>) {
    let (frames, outgoing) = mpsc::channel(FRAMES_MAX);
    let mut connection = Connection::new(frames.clone(), None);
    // A client's streams have odd numbers. They are opened before anybody can write into them, while there is room.
    let open = |(stream, headers): (u32, Headers)| {
        frames.try_send(Sent::Open { stream, headers: headers.clone() }).ok()?;
        Some(connection.begin(stream, headers, false))
    };
    let opened = (1..).step_by(2).zip(streams).map_while(open).collect();
    (opened, run(io, connection, outgoing))
}

async fn run(
    io: impl AsyncRead + AsyncWrite,
    connection: Connection,
    outgoing: mpsc::Receiver<Sent>,
) -> io::Result<()> {
    let (reader, writer) = tokio::io::split(io);
    let first_ping = if connection.is_server() { 2 } else { 1 };
    tokio::select! {
        ended = connection.listen(reader) => ended,
        ended = speak(writer, outgoing, first_ping) => ended,
    }
}

/// Writes frames in the order in which they come. A server's pings are even, a client's odd.
async fn speak(
    mut writer: impl AsyncWrite + Unpin,
    mut frames: mpsc::Receiver<Sent>,
    first_ping: u32,
) -> io::Result<()> {
    let (mut packer, mut bytes) = (Packer::new()?, BytesMut::new());
    let mut ping = tokio::time::interval(PING_EVERY);
    ping.reset();
    let mut id = first_ping;
    loop {
        let frame = tokio::select! {
            frame = frames.recv() => frame,
            _ = ping.tick() => {
                let this = id;
                id = id.wrapping_add(2);
                Some(Sent::Ping { id: this })
            }
        };
        let Some(frame) = frame else { return Ok(()) };
        let headers = match &frame {
            Sent::Open { headers, .. } => packer.write(headers)?,
            Sent::Reply { .. } => packer.write(&Headers::new())?,
            _ => Vec::new(),
        };
        frame.encode(&headers, &mut bytes);
        writer.write_all(&bytes).await?;
        writer.flush().await?;
        bytes.clear();
    }
}

/// What is kept of an open stream.
struct Open {
    /// Gone when the peer has ended its side.
    input: Option<mpsc::Sender<Bytes>>,
    give_up: watch::Sender<bool>,
}

struct Connection {
    frames: mpsc::Sender<Sent>,
    /// Where a server puts the streams that its client opens.
    opened: Option<mpsc::Sender<Stream>>,
    streams: BTreeMap<u32, Open>,
    unpacker: Unpacker,
    last: u32,
}

impl Connection {
    fn new(frames: mpsc::Sender<Sent>, opened: Option<mpsc::Sender<Stream>>) -> Connection {
        Connection { frames, opened, streams: BTreeMap::new(), unpacker: Unpacker::new(), last: 0 }
    }

    fn is_server(&self) -> bool {
        self.opened.is_some()
    }

    async fn listen(mut self, mut reader: impl AsyncRead + Unpin) -> io::Result<()> {
        while let Some(frame) = frame::receive(&mut reader).await? {
            match frame {
                Received::Open { stream, headers, is_last } => self.open(stream, &headers, is_last).await?,
                Received::Headers { stream, headers, is_last } => {
                    // Read in any case: the next block builds on it.
                    self.unpacker.read(&headers)?;
                    self.end_input(stream, is_last);
                }
                Received::Data { stream, bytes, is_last } => {
                    self.take(stream, bytes).await;
                    self.end_input(stream, is_last);
                }
                Received::Reset { stream } => {
                    if let Some(open) = self.streams.remove(&stream) {
                        open.give_up.send_replace(true);
                    }
                }
                Received::Ping { id } if id.is_multiple_of(2) != self.is_server() => {
                    self.send(Sent::Ping { id }).await?
                }
                Received::Ping { .. } | Received::GoAway | Received::Other => {}
            }
        }
        Ok(())
    }

    async fn send(&self, frame: Sent) -> io::Result<()> {
        self.frames.send(frame).await.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    async fn open(&mut self, stream: u32, headers: &[u8], is_last: bool) -> io::Result<()> {
        let headers = self.unpacker.read(headers)?;
        self.streams.retain(|_, open| !open.is_over());
        let Some(opened) = self.opened.clone().filter(|_| !stream.is_multiple_of(2) && stream > self.last) else {
            return self.send(Sent::Reset { stream, status: INVALID_STREAM }).await;
        };
        self.last = stream;
        if self.streams.len() >= STREAMS_MAX {
            return self.send(Sent::Reset { stream, status: REFUSED_STREAM }).await;
        }
        self.send(Sent::Reply { stream }).await?;
        let begun = self.begin(stream, headers, is_last);
        opened.send(begun).await.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn begin(&mut self, stream: u32, headers: Headers, is_last: bool) -> Stream {
        let ((sender, input), (give_up, is_given_up)) = (mpsc::channel(PIECES_MAX), watch::channel(false));
        let output = Output { stream, frames: self.frames.clone(), is_given_up, is_finished: false };
        self.streams.insert(stream, Open { input: (!is_last).then_some(sender), give_up });
        Stream { headers, input, output }
    }

    async fn take(&self, stream: u32, bytes: Bytes) {
        let input = self.streams.get(&stream).and_then(|open| open.input.as_ref());
        if let Some(input) = input.filter(|_| !bytes.is_empty()) {
            // What nobody reads any more is dropped.
            let _ = input.send(bytes).await;
        }
    }

    fn end_input(&mut self, stream: u32, is_last: bool) {
        if is_last && let Some(open) = self.streams.get_mut(&stream) {
            open.input = None;
        }
    }
}

impl Open {
    /// Nobody reads and nobody writes any more.
    fn is_over(&self) -> bool {
        self.give_up.receiver_count() == 0 && self.input.as_ref().is_none_or(mpsc::Sender::is_closed)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, DuplexStream};

    use super::*;

    struct Client {
        io: DuplexStream,
        packer: Packer,
    }

    impl Client {
        async fn open(&mut self, stream: u32, headers: &[(&str, &str)]) {
            let headers: Headers = headers.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            let packed = self.packer.write(&headers).expect("packed");
            let length = u32::try_from(packed.len() + 10).expect("short");
            let head = [&[0x80, 3, 0, 1][..], &length.to_be_bytes(), &stream.to_be_bytes(), &[0; 6], &packed].concat();
            self.io.write_all(&head).await.expect("written");
        }

        async fn data(&mut self, stream: u32, bytes: &'static [u8], is_last: bool) {
            let mut out = BytesMut::new();
            Sent::Data { stream, bytes: bytes.into(), is_last }.encode(&[], &mut out);
            self.io.write_all(&out).await.expect("written");
        }

        async fn kind(&mut self) -> u16 {
            let mut head = [0; 8];
            self.io.read_exact(&mut head).await.expect("a frame");
            let length = u32::from_be_bytes([0, head[5], head[6], head[7]]);
            let mut body = vec![0; usize::try_from(length).expect("short")];
            self.io.read_exact(&mut body).await.expect("a frame");
            u16::from_be_bytes([head[2], head[3]])
        }
    }

    fn start() -> (Client, mpsc::Receiver<Stream>) {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (sender, opened) = mpsc::channel(4);
        tokio::spawn(carry(theirs, sender));
        (Client { io: ours, packer: Packer::new().expect("a packer") }, opened)
    }

    #[tokio::test]
    async fn a_stream_carries_bytes_both_ways_and_ends() {
        let (mut client, mut opened) = start();
        client.open(1, &[("StreamType", "data")]).await;
        let mut stream = opened.recv().await.expect("a stream");
        assert_eq!(stream.headers["streamtype"], "data");
        assert_eq!(client.kind().await, 2, "it is taken");
        client.data(1, b"ab", false).await;
        client.data(1, b"c", true).await;
        assert_eq!(stream.input.recv().await.as_deref(), Some(&b"ab"[..]));
        assert_eq!(stream.input.recv().await.as_deref(), Some(&b"c"[..]));
        assert_eq!(stream.input.recv().await, None);
        stream.output.send(Bytes::from_static(b"x")).await.expect("sent");
        stream.output.finish().await;
        let frames = [frame::receive(&mut client.io).await, frame::receive(&mut client.io).await];
        let [first, last] = frames.map(|frame| frame.expect("read"));
        assert_eq!(first, Some(Received::Data { stream: 1, bytes: Bytes::from_static(b"x"), is_last: false }));
        assert_eq!(last, Some(Received::Data { stream: 1, bytes: Bytes::new(), is_last: true }));
    }

    #[tokio::test]
    async fn numbers_and_numbers_of_streams_are_checked() {
        let (mut client, mut opened) = start();
        client.open(2, &[]).await;
        assert_eq!(client.kind().await, 3, "even numbers are ours");
        client.open(5, &[]).await;
        assert_eq!(client.kind().await, 2);
        let kept = opened.recv().await.expect("a stream");
        client.open(3, &[]).await;
        assert_eq!(client.kind().await, 3, "numbers only grow");
        drop(kept);
        assert_eq!(client.kind().await, 3, "what is dropped is reset");
        client.io.write_all(&[0x80, 3, 0, 6, 0, 0, 0, 4, 0, 0, 0, 9]).await.expect("written");
        assert_eq!(frame::receive(&mut client.io).await.expect("read"), Some(Received::Ping { id: 9 }));
    }

    #[tokio::test]
    async fn both_sides_understand_each_other() {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (sender, mut opened) = mpsc::channel(4);
        tokio::spawn(carry(theirs, sender));
        let headers = |kind: &str| BTreeMap::from([("streamtype".to_owned(), kind.to_owned())]);
        let (streams, carrying) = dial(ours, vec![headers("error"), headers("data")]);
        tokio::spawn(carrying);
        let [mut error, data] = <[Stream; 2]>::try_from(streams).ok().expect("two");
        for kind in ["error", "data"] {
            let mut stream = opened.recv().await.expect("a stream");
            assert_eq!(stream.headers["streamtype"], kind);
            if kind == "error" {
                stream.output.send(Bytes::from_static(b"why")).await.expect("sent");
                stream.output.finish().await;
                assert_eq!(error.input.recv().await.as_deref(), Some(&b"why"[..]));
                assert_eq!(error.input.recv().await, None);
                continue;
            }
            let Stream { mut output, .. } = data;
            output.send(Bytes::from_static(b"in")).await.expect("sent");
            output.finish().await;
            assert_eq!(stream.input.recv().await.as_deref(), Some(&b"in"[..]));
            assert_eq!(stream.input.recv().await, None);
            break;
        }
    }

    #[tokio::test]
    async fn a_stream_that_is_given_up_says_so() {
        let (mut client, mut opened) = start();
        client.open(1, &[]).await;
        let stream = opened.recv().await.expect("a stream");
        client.io.write_all(&[0x80, 3, 0, 3, 0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 5]).await.expect("written");
        stream.output.given_up().await;
    }
}
