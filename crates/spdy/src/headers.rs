//! Blocks of headers: one compressed stream for each direction of a connection.

use std::collections::BTreeMap;
use std::io;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::dictionary::DICTIONARY;

/// One block, when it is unpacked: our clients send a few short words.
const BLOCK_BYTES_MAX: usize = 16 * 1024;
/// Headers of one block.
const HEADERS_MAX: usize = 64;
/// Grown by as much at a time.
const STEP_BYTES: usize = 1024;

/// Headers by their names in lower case.
pub(super) type Headers = BTreeMap<String, String>;

fn malformed(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

/// Reads blocks.
pub(super) struct Unpacker(Decompress);

impl Unpacker {
    pub fn new() -> Unpacker {
        Unpacker(Decompress::new(true))
    }

    /// The headers of the next block.
    pub fn read(&mut self, packed: &[u8]) -> io::Result<Headers> {
        parse(&self.unpack(packed)?)
    }

    fn unpack(&mut self, packed: &[u8]) -> io::Result<Vec<u8>> {
        let mut block = Vec::new();
        let begun = self.0.total_in();
        loop {
            let taken = usize::try_from(self.0.total_in() - begun).unwrap_or(usize::MAX);
            let rest = packed.get(taken..).unwrap_or_default();
            block.reserve(STEP_BYTES);
            let (before, length) = (self.0.total_in(), block.len());
            match self.0.decompress_vec(rest, &mut block, FlushDecompress::Sync) {
                Ok(Status::StreamEnd) => return Err(malformed("the headers' compression ended")),
                Ok(_) => {}
                Err(error) if error.needs_dictionary().is_some() => {
                    self.0.set_dictionary(&DICTIONARY).map_err(|error| malformed(error.to_string()))?;
                    continue;
                }
                Err(error) => return Err(malformed(error.to_string())),
            }
            if block.len() > BLOCK_BYTES_MAX {
                return Err(malformed("too many bytes of headers"));
            }
            if self.0.total_in() == before && block.len() == length {
                return Ok(block);
            }
        }
    }
}

fn parse(block: &[u8]) -> io::Result<Headers> {
    let mut rest = block;
    let count = number(&mut rest)?;
    if count > HEADERS_MAX {
        return Err(malformed("too many headers"));
    }
    let mut headers = Headers::new();
    for _ in 0..count {
        let (name, value) = (text(&mut rest)?, text(&mut rest)?);
        headers.insert(name.to_ascii_lowercase(), value);
    }
    Ok(headers)
}

fn number(rest: &mut &[u8]) -> io::Result<usize> {
    let (bytes, after) = rest.split_first_chunk().ok_or_else(|| malformed("headers are cut"))?;
    *rest = after;
    usize::try_from(u32::from_be_bytes(*bytes)).map_err(|_| malformed("headers are cut"))
}

fn text(rest: &mut &[u8]) -> io::Result<String> {
    let length = number(rest)?;
    let (bytes, after) = rest.split_at_checked(length).ok_or_else(|| malformed("headers are cut"))?;
    *rest = after;
    String::from_utf8(bytes.to_vec()).map_err(|_| malformed("a header is no text"))
}

/// Writes blocks.
pub(super) struct Packer(Compress);

impl Packer {
    pub fn new() -> io::Result<Packer> {
        let mut compress = Compress::new(Compression::fast(), true);
        compress.set_dictionary(&DICTIONARY).map_err(io::Error::other)?;
        Ok(Packer(compress))
    }

    /// The next block.
    pub fn write(&mut self, headers: &Headers) -> io::Result<Vec<u8>> {
        let mut block = Vec::new();
        let length = |count: usize| u32::try_from(count).unwrap_or(u32::MAX).to_be_bytes();
        block.extend(length(headers.len()));
        for word in headers.iter().flat_map(|(name, value)| [name, value]) {
            block.extend(length(word.len()));
            block.extend(word.as_bytes());
        }
        let (mut packed, begun) = (Vec::new(), self.0.total_in());
        loop {
            let taken = usize::try_from(self.0.total_in() - begun).unwrap_or(usize::MAX);
            packed.reserve(STEP_BYTES);
            self.0
                .compress_vec(block.get(taken..).unwrap_or_default(), &mut packed, FlushCompress::Sync)
                .map_err(io::Error::other)?;
            // Room that was left means that all is out.
            if packed.len() < packed.capacity() {
                return Ok(packed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> Headers {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn the_dictionary_is_the_known_one() {
        assert_eq!(DICTIONARY.len(), 1_423);
        let mut packer = Packer::new().expect("a packer");
        let block = packer.write(&Headers::new()).expect("packed");
        // Two bytes of zlib's head, then the dictionary's checksum.
        assert_eq!(block[2..6], 0xe3c6_a7c2_u32.to_be_bytes());
    }

    #[test]
    fn blocks_go_there_and_back() {
        let (mut packer, mut unpacker) = (Packer::new().expect("a packer"), Unpacker::new());
        let long = "x".repeat(5_000);
        for pairs in [&[][..], &[("streamtype", "data"), ("port", "80")], &[("a", ""), ("b", &long)], &[("port", "81")]]
        {
            let block = packer.write(&headers(pairs)).expect("packed");
            assert_eq!(unpacker.read(&block).expect("read"), headers(pairs));
        }
    }

    #[test]
    fn what_is_too_much_or_cut_is_refused() {
        let mut packer = Packer::new().expect("a packer");
        let bomb = packer.write(&headers(&[("a", &"x".repeat(1 << 20))])).expect("packed");
        assert!(bomb.len() < 16_384);
        assert!(Unpacker::new().read(&bomb).is_err());
        assert!(Unpacker::new().read(b"").is_err());
        assert!(Unpacker::new().read(b"nonsense").is_err());
        for block in [&b""[..], &[0, 0, 0, 1], &[0, 0, 0, 1, 0, 0, 0, 9, 1], &[255; 8]] {
            assert!(parse(block).is_err(), "{block:?}");
        }
    }
}
