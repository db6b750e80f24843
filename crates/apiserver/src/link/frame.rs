//! Frames: several streams over one connection. A byte says of which stream, four how long, then the bytes. An empty
//! frame ends its stream.

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Longest frame: what is read of a process at once is half of it.
pub const FRAME_BYTES_MAX: usize = 64 * 1024;

/// Which stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Stdin = 0,
    Stdout = 1,
    Stderr = 2,
    /// How it ended, JSON.
    Exit = 3,
    /// Columns and rows of the terminal, two bytes each.
    Resize = 4,
}

/// One piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: Kind,
    pub bytes: Bytes,
}

impl Kind {
    fn of(byte: u8) -> Option<Kind> {
        [Kind::Stdin, Kind::Stdout, Kind::Stderr, Kind::Exit, Kind::Resize].into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// The next frame; `None` at the end.
pub async fn read(from: &mut (impl AsyncRead + Unpin)) -> std::io::Result<Option<Frame>> {
    let mut head = [0; 5];
    if from.read(&mut head[..1]).await? == 0 {
        return Ok(None);
    }
    from.read_exact(&mut head[1..]).await?;
    let [kind, length @ ..] = head;
    let broken = |what: &'static str| std::io::Error::new(std::io::ErrorKind::InvalidData, what);
    let kind = Kind::of(kind).ok_or_else(|| broken("a frame of no known stream"))?;
    let length = u32::from_be_bytes(length) as usize;
    if length > FRAME_BYTES_MAX {
        return Err(broken("a frame is too long"));
    }
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes).await?;
    Ok(Some(Frame { kind, bytes: bytes.into() }))
}

/// Writes bytes as one frame or several; nothing at all as the empty one.
pub async fn write(to: &mut (impl AsyncWrite + Unpin), kind: Kind, bytes: &[u8]) -> std::io::Result<()> {
    let mut left = bytes;
    loop {
        let (piece, rest) = left.split_at(left.len().min(FRAME_BYTES_MAX));
        let length = u32::try_from(piece.len()).unwrap_or(0).to_be_bytes();
        let mut whole = Vec::with_capacity(piece.len() + 5);
        whole.push(kind as u8);
        whole.extend(length);
        whole.extend(piece);
        to.write_all(&whole).await?;
        left = rest;
        if left.is_empty() {
            return to.flush().await;
        }
    }
}
