//! Frames of SPDY/3.1, as far as they are needed.

use std::io;

use bytes::{BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::headers::Headers;

/// Control frames carry headers and numbers.
const CONTROL_BYTES_MAX: usize = 64 * 1024;
/// Clients send what they read at once, 32 KiB.
const DATA_BYTES_MAX: usize = 1024 * 1024;
/// A stream's number, below the bit that marks control frames.
const STREAM_MASK: u32 = 0x7fff_ffff;
const VERSION: u16 = 3;
const FLAG_FIN: u8 = 1;

/// What the peer sends.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// A new stream; its headers are packed.
    Open { stream: u32, headers: Bytes, is_last: bool },
    /// A reply, or more headers of a stream, packed.
    Headers { stream: u32, headers: Bytes, is_last: bool },
    /// Bytes of a stream.
    Data { stream: u32, bytes: Bytes, is_last: bool },
    /// A stream is given up.
    Reset { stream: u32 },
    /// To be sent back.
    Ping { id: u32 },
    /// No more streams come.
    GoAway,
    /// Of no use here.
    Other,
}

/// What we send.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// A new stream.
    Open { stream: u32, headers: Headers },
    /// A stream is taken.
    Reply { stream: u32 },
    /// Bytes of a stream.
    Data { stream: u32, bytes: Bytes, is_last: bool },
    /// A stream is given up, with a status of the protocol.
    Reset { stream: u32, status: u32 },
    /// A sign of life, or the answer to one.
    Ping { id: u32 },
}

/// The number is not one of a stream.
pub(super) const INVALID_STREAM: u32 = 2;
/// There are too many.
pub(super) const REFUSED_STREAM: u32 = 3;

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// The next frame; `None` at an end between frames.
pub(super) async fn receive(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Received>> {
    let mut head = [0; 8];
    if from.read(&mut head[..1]).await? == 0 {
        return Ok(None);
    }
    from.read_exact(&mut head[1..]).await?;
    let [first, second, third, fourth, flags, a, b, c] = head;
    let length = usize::try_from(u32::from_be_bytes([0, a, b, c])).unwrap_or(usize::MAX);
    let word = u32::from_be_bytes([first, second, third, fourth]);
    let is_control = word & !STREAM_MASK != 0;
    if length > if is_control { CONTROL_BYTES_MAX } else { DATA_BYTES_MAX } {
        return Err(malformed("a frame is too long"));
    }
    let mut body = BytesMut::zeroed(length);
    from.read_exact(&mut body).await?;
    let (body, is_last) = (body.freeze(), flags & FLAG_FIN != 0);
    if !is_control {
        return Ok(Some(Received::Data { stream: word, bytes: body, is_last }));
    }
    let [version, kind] = [u16::from_be_bytes([first & 0x7f, second]), u16::from_be_bytes([third, fourth])];
    if version != VERSION {
        return Err(malformed("another version of SPDY"));
    }
    control(kind, &body, is_last).map(Some)
}

fn control(kind: u16, body: &Bytes, is_last: bool) -> io::Result<Received> {
    let cut = || malformed("a frame is cut");
    let number = |at: usize| {
        let bytes = body.get(at..at + 4).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
        bytes.map(|bytes| u32::from_be_bytes(bytes) & STREAM_MASK).ok_or_else(cut)
    };
    let after = |at: usize| if body.len() < at { Err(cut()) } else { Ok(body.slice(at..)) };
    Ok(match kind {
        // Number, number of the stream it belongs to, priority, slot.
        1 => Received::Open { stream: number(0)?, headers: after(10)?, is_last },
        // A reply has the form of further headers.
        2 | 8 => Received::Headers { stream: number(0)?, headers: after(4)?, is_last },
        3 => Received::Reset { stream: number(0)? },
        6 => {
            let id = body.first_chunk().map(|bytes| u32::from_be_bytes(*bytes)).ok_or_else(cut)?;
            Received::Ping { id }
        }
        7 => Received::GoAway,
        // Settings, and windows, which our peers do not keep to either.
        _ => Received::Other,
    })
}

impl Sent {
    /// The frame's bytes; headers come packed.
    pub fn encode(&self, headers: &[u8], into: &mut BytesMut) {
        match self {
            Sent::Open { stream, .. } => {
                put_head(into, 1, 0, 10 + headers.len());
                into.put_u32(*stream);
                // It belongs to no other stream, and is as important as any.
                into.put_slice(&[0; 6]);
                into.put_slice(headers);
            }
            Sent::Reply { stream } => {
                put_head(into, 2, 0, 4 + headers.len());
                into.put_u32(*stream);
                into.put_slice(headers);
            }
            Sent::Data { stream, bytes, is_last } => {
                into.put_u32(*stream);
                put_length(into, if *is_last { FLAG_FIN } else { 0 }, bytes.len());
                into.put_slice(bytes);
            }
            Sent::Reset { stream, status } => {
                put_head(into, 3, 0, 8);
                into.put_u32(*stream);
                into.put_u32(*status);
            }
            Sent::Ping { id } => {
                put_head(into, 6, 0, 4);
                into.put_u32(*id);
            }
        }
    }
}

fn put_head(into: &mut BytesMut, kind: u16, flags: u8, length: usize) {
    into.put_u16(0x8000 | VERSION);
    into.put_u16(kind);
    put_length(into, flags, length);
}

fn put_length(into: &mut BytesMut, flags: u8, length: usize) {
    // Bounded far below 24 bits by whoever sends.
    let length = u32::try_from(length).unwrap_or(0) & 0x00ff_ffff;
    into.put_u32(u32::from(flags) << 24 | length);
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(mut bytes: &[u8]) -> io::Result<Option<Received>> {
        receive(&mut bytes).await
    }

    #[tokio::test]
    async fn frames_are_read() {
        let open = [&[0x80, 3, 0, 1, 1, 0, 0, 11, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0][..], b"h"].concat();
        let headers = Bytes::from_static(b"h");
        assert_eq!(read(&open).await.expect("read"), Some(Received::Open { stream: 5, headers, is_last: true }));
        let data = [&[0, 0, 0, 7, 0, 0, 0, 2][..], b"hi"].concat();
        let bytes = Bytes::from_static(b"hi");
        assert_eq!(read(&data).await.expect("read"), Some(Received::Data { stream: 7, bytes, is_last: false }));
        assert_eq!(read(&[0x80, 3, 0, 6, 0, 0, 0, 4, 0, 0, 0, 9]).await.expect("read"), Some(Received::Ping { id: 9 }));
        assert_eq!(read(&[0x80, 3, 0, 4, 0, 0, 0, 0]).await.expect("read"), Some(Received::Other));
        assert_eq!(read(&[]).await.expect("an end"), None);
    }

    #[tokio::test]
    async fn what_is_cut_or_too_long_is_refused() {
        for bytes in [
            &[0x80, 3, 0][..],
            &[0x80, 3, 0, 1, 0, 0, 0, 2, 0, 0],
            &[0x80, 3, 0, 1, 0, 0, 0, 9, 0, 0, 0, 5, 0, 0, 0, 0, 0],
            &[0x80, 2, 0, 6, 0, 0, 0, 4, 0, 0, 0, 9],
            &[0x80, 3, 0, 1, 0, 255, 0, 0],
            &[0, 0, 0, 1, 0, 255, 255, 255],
        ] {
            assert!(read(bytes).await.is_err(), "{bytes:?}");
        }
    }

    #[tokio::test]
    async fn frames_are_written() {
        let mut out = BytesMut::new();
        Sent::Data { stream: 3, bytes: Bytes::from_static(b"x"), is_last: true }.encode(&[], &mut out);
        Sent::Ping { id: 2 }.encode(&[], &mut out);
        Sent::Reset { stream: 3, status: REFUSED_STREAM }.encode(&[], &mut out);
        let mut from = &out[..];
        let bytes = Bytes::from_static(b"x");
        assert_eq!(receive(&mut from).await.expect("read"), Some(Received::Data { stream: 3, bytes, is_last: true }));
        assert_eq!(receive(&mut from).await.expect("read"), Some(Received::Ping { id: 2 }));
        assert_eq!(receive(&mut from).await.expect("read"), Some(Received::Reset { stream: 3 }));
        assert_eq!(receive(&mut from).await.expect("read"), None);
    }
}
