//! Plain bytes of a layer or archive, whatever it is packed with, within limits.

use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Read};
use std::rc::Rc;

use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

use crate::digest::{Digest, Hasher};
use crate::error::{Exceeded, Malformed};
use crate::limits::Limits;

/// How far back a zstd stream may refer, which is what its decoder must remember. 8 MiB: what the format asks every
/// decoder to support, and all that compressors use unless told otherwise.
const ZSTD_WINDOW_BYTES_MAX: u64 = 8 << 20;
/// Reads of the packed file.
const BUFFER_BYTES: usize = 64 * 1024;

/// What a stream is packed with, by its first bytes: media types are not always true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    Plain,
    Gzip,
    Zstd,
}

impl Packing {
    fn of(head: &[u8]) -> Packing {
        match head {
            [0x1f, 0x8b, 8, ..] => Packing::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Packing::Zstd,
            // A skippable frame, by which zstd streams may begin.
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Packing::Zstd,
            _ => Packing::Plain,
        }
    }
}

/// The plain bytes of `packed`.
pub(crate) fn unpacked<'a>(packed: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let mut source = BufReader::with_capacity(BUFFER_BYTES, packed);
    Ok(match Packing::of(source.fill_buf()?) {
        Packing::Plain => Box::new(source),
        Packing::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(source)),
        Packing::Zstd => Box::new(Frames { state: Frame::Between(source, Box::new(decoder())) }),
    })
}

fn decoder() -> FrameDecoder {
    let mut decoder = FrameDecoder::new();
    decoder.set_max_window_size(ZSTD_WINDOW_BYTES_MAX);
    decoder
}

enum Frame<R: Read> {
    Between(BufReader<R>, Box<FrameDecoder>),
    Within(Box<StreamingDecoder<BufReader<R>, FrameDecoder>>),
    Broken,
}

/// A sequence of zstd frames.
struct Frames<R: Read> {
    state: Frame<R>,
}

impl<R: Read> Frames<R> {
    /// Begins the next frame, unless the stream is at its end.
    fn begin(mut source: BufReader<R>, decoder: Box<FrameDecoder>) -> io::Result<Frame<R>> {
        if source.fill_buf()?.is_empty() {
            return Ok(Frame::Between(source, decoder));
        }
        match StreamingDecoder::new_with_decoder(source, *decoder) {
            Ok(stream) => Ok(Frame::Within(Box::new(stream))),
            Err(error) => Err(Malformed::io(format!("zstd: {error}"))),
        }
    }
}

impl<R: Read> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match std::mem::replace(&mut self.state, Frame::Broken) {
                Frame::Within(mut stream) => {
                    let count = stream.read(buffer)?;
                    if count > 0 || buffer.is_empty() {
                        self.state = Frame::Within(stream);
                        return Ok(count);
                    }
                    let (source, decoder) = stream.into_parts();
                    self.state = Frame::Between(source, Box::new(decoder));
                }
                Frame::Between(mut source, decoder) => {
                    skip_skippable(&mut source)?;
                    self.state = Frames::begin(source, decoder)?;
                    if matches!(self.state, Frame::Between(..)) {
                        return Ok(0);
                    }
                }
                Frame::Broken => return Err(Malformed::io("zstd: damaged earlier")),
            }
        }
    }
}

/// Passes over frames that carry no data.
fn skip_skippable<R: Read>(source: &mut BufReader<R>) -> io::Result<()> {
    loop {
        let head = source.fill_buf()?;
        // A head torn by the end of the buffer is left to the decoder, which refuses what it cannot read.
        let [0x50..=0x5f, 0x2a, 0x4d, 0x18, a, b, c, d, ..] = *head else { return Ok(()) };
        let length = u64::from(u32::from_le_bytes([a, b, c, d])) + 8;
        let skipped = io::copy(&mut source.by_ref().take(length), &mut io::sink())?;
        if skipped < length {
            return Err(Malformed::io("zstd: cut off"));
        }
    }
}

/// Counts what passes.
pub(crate) struct Counted<R> {
    inner: R,
    count: Rc<Cell<u64>>,
}

impl<R: Read> Counted<R> {
    /// A reader and its counter.
    pub fn new(inner: R) -> (Counted<R>, Rc<Cell<u64>>) {
        let count = Rc::new(Cell::new(0));
        (Counted { inner, count: Rc::clone(&count) }, count)
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.count.set(self.count.get() + count as u64);
        Ok(count)
    }
}

/// The plain bytes of a packed file: hashed, and cut off where they become more than the limits allow.
pub(crate) struct Plain<'a> {
    inner: Box<dyn Read + 'a>,
    packed: Rc<Cell<u64>>,
    plain_bytes: u64,
    plain_bytes_max: u64,
    expansion_max: u64,
    expansion_free_bytes: u64,
    hasher: Hasher,
}

impl<'a> Plain<'a> {
    /// Unpacks `file`, up to `plain_bytes_max`.
    pub fn new(file: impl Read + 'a, limits: &Limits, plain_bytes_max: u64) -> io::Result<Plain<'a>> {
        let (counted, packed) = Counted::new(file);
        Ok(Plain {
            inner: unpacked(counted)?,
            packed,
            plain_bytes: 0,
            plain_bytes_max,
            expansion_max: limits.expansion_max,
            expansion_free_bytes: limits.expansion_free_bytes,
            hasher: Hasher::sha256(),
        })
    }

    /// Reads to the end and tells the digest and the number of all plain bytes.
    pub fn finish(mut self) -> io::Result<(Digest, u64)> {
        io::copy(&mut self, &mut io::sink())?;
        Ok((self.hasher.finish(), self.plain_bytes))
    }

    fn check(&self) -> io::Result<()> {
        if self.plain_bytes > self.plain_bytes_max {
            return Err(Exceeded::io(format!("unpacks to more than {} bytes", self.plain_bytes_max)));
        }
        let allowed = self.packed.get().saturating_mul(self.expansion_max).max(self.expansion_free_bytes);
        if self.plain_bytes > allowed {
            let packed = self.packed.get();
            return Err(Exceeded::io(format!(
                "{packed} bytes unpack to more than {} times as many",
                self.expansion_max
            )));
        }
        Ok(())
    }
}

impl Read for Plain<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.hasher.update(buffer.get(..count).unwrap_or_default());
        self.plain_bytes += count as u64;
        self.check()?;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
    }

    fn read(packed: &[u8], limits: &Limits) -> io::Result<(Vec<u8>, Digest)> {
        let mut plain = Plain::new(packed, limits, limits.unpacked_bytes_max)?;
        let mut out = Vec::new();
        plain.read_to_end(&mut out)?;
        Ok((out, plain.finish()?.0))
    }

    #[test]
    fn every_packing_gives_the_same_bytes() {
        let text: Vec<u8> = (0..300_000u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        let (a, b) = text.split_at(400_001);
        let skip = [&[0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"xyz"].concat();
        let forms = [
            text.clone(),
            gzip(&text),
            [gzip(a), gzip(b)].concat(),
            zstd(&text),
            [skip.clone(), zstd(a), skip.clone(), zstd(b), skip].concat(),
        ];
        for packed in forms {
            let (plain, digest) = read(&packed, &Limits::default()).unwrap();
            assert!(plain == text);
            assert_eq!(digest, Digest::of(&text));
        }
    }

    #[test]
    fn what_is_cut_or_damaged_is_refused() {
        for whole in [gzip(&[7; 100_000]), zstd(&(0..100_000u32).flat_map(u32::to_le_bytes).collect::<Vec<u8>>())] {
            assert!(read(&whole[..whole.len() - 5], &Limits::default()).is_err());
            let mut damaged = whole.clone();
            let middle = damaged.len() / 2;
            damaged[middle] ^= 0xff;
            damaged[middle + 1] ^= 0xff;
            let found = read(&damaged, &Limits::default());
            assert!(found.is_err() || found.unwrap().1 != read(&whole, &Limits::default()).unwrap().1);
        }
    }

    #[test]
    fn bombs_are_bounded() {
        let limits = Limits {
            expansion_max: 50,
            expansion_free_bytes: 1 << 20,
            unpacked_bytes_max: 8 << 20,
            ..Limits::default()
        };
        for bomb in [gzip(&vec![0; 4 << 20]), zstd(&vec![0; 4 << 20])] {
            let error = read(&bomb, &limits).err().unwrap();
            assert!(error.to_string().contains("50 times"), "{error}");
        }
        let error = read(&vec![1; 9 << 20], &limits).err().unwrap();
        assert!(error.to_string().contains("more than 8388608 bytes"), "{error}");
    }
}
