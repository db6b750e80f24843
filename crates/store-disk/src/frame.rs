//! Frames and segment headers: how the log lies on the medium.
//!
//! A frame is one group commit: one write, one sync. Its header says how far the segment was known to be durable
//! when it was written. That is what tells a torn tail from damage: a frame that cannot be read is a torn tail
//! unless something after it proves that it had been synced.

use crate::sum::{LogId, crc, mix};

/// Bytes of a frame's header.
pub const FRAME_HEADER: usize = 48;
/// Bytes of a segment's header.
pub const SEGMENT_HEADER: usize = 64;

const FRAME_MAGIC: u32 = 0x5e7f_a43e;
const SEGMENT_MAGIC: &[u8; 8] = b"setplog\n";
/// The layout's version; a reader refuses later ones.
pub const VERSION: u32 = 1;

/// What a frame's header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct FrameHeader {
    /// Bytes of the payload.
    pub length: u32,
    /// Checksum of the payload.
    pub payload_crc: u32,
    /// Where in the segment the frame stands.
    pub offset: u64,
    /// Up to where the segment was durable when the frame was written.
    pub synced: u64,
    /// The last revision in the frame, or before it if it has none.
    pub revision: u64,
    /// The chain before this frame.
    pub chain: u64,
}

/// Why bytes are not the frame that was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameFault {
    /// The bytes end before the frame does.
    Short,
    /// The header is not whole.
    Header,
    /// The payload is not whole.
    Payload,
    /// Header and payload are whole, but this is not the frame that follows.
    Order,
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// How checksums are made; the alternative is a mutant that the tests must notice.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HeaderCrc {
    /// Over every field.
    #[default]
    Whole,
    /// Planted fault: the length is left out.
    #[cfg(any(test, feature = "testing"))]
    WithoutLength,
}

fn header_crc(id: LogId, header: &[u8], over: HeaderCrc) -> u32 {
    match over {
        // Everything but the checksum's own place.
        HeaderCrc::Whole => crc(id, &[&header[..8], &header[12..FRAME_HEADER]]),
        #[cfg(any(test, feature = "testing"))]
        HeaderCrc::WithoutLength => crc(id, &[&header[..4], &header[12..FRAME_HEADER]]),
    }
}

impl FrameHeader {
    /// The chain after this frame.
    pub fn next_chain(&self) -> u64 {
        let content = u64::from(self.payload_crc) << 32 | u64::from(self.length);
        mix(mix(self.chain, content), mix(self.offset, self.revision))
    }

    /// Where the next frame stands.
    pub fn end(&self) -> u64 {
        self.offset + FRAME_HEADER as u64 + u64::from(self.length)
    }

    fn decode(bytes: &[u8]) -> FrameHeader {
        FrameHeader {
            length: u32_at(bytes, 4),
            payload_crc: u32_at(bytes, 12),
            offset: u64_at(bytes, 16),
            synced: u64_at(bytes, 24),
            revision: u64_at(bytes, 32),
            chain: u64_at(bytes, 40),
        }
    }
}

/// Completes a frame whose payload stands in `frame` behind the room for the header; returns the header.
pub fn finish(frame: &mut [u8], id: LogId, header: FrameHeader, over: HeaderCrc) -> FrameHeader {
    let (head, payload) = frame.split_at_mut(FRAME_HEADER);
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    let header = FrameHeader { length, payload_crc: crc(id, &[payload]), ..header };
    head[..4].copy_from_slice(&FRAME_MAGIC.to_le_bytes());
    head[4..8].copy_from_slice(&header.length.to_le_bytes());
    head[12..16].copy_from_slice(&header.payload_crc.to_le_bytes());
    head[16..24].copy_from_slice(&header.offset.to_le_bytes());
    head[24..32].copy_from_slice(&header.synced.to_le_bytes());
    head[32..40].copy_from_slice(&header.revision.to_le_bytes());
    head[40..48].copy_from_slice(&header.chain.to_le_bytes());
    let crc = header_crc(id, head, over);
    head[8..12].copy_from_slice(&crc.to_le_bytes());
    header
}

/// Reads the header at `at`, if there is a whole one that belongs there.
pub fn header_at(segment: &[u8], at: usize, id: LogId, over: HeaderCrc) -> Result<FrameHeader, FrameFault> {
    let bytes = segment.get(at..at.saturating_add(FRAME_HEADER)).ok_or(FrameFault::Short)?;
    let whole = u32_at(bytes, 0) == FRAME_MAGIC && u32_at(bytes, 8) == header_crc(id, bytes, over);
    let header = FrameHeader::decode(bytes);
    if whole && header.offset == at as u64 { Ok(header) } else { Err(FrameFault::Header) }
}

/// Reads the frame at `at` that follows on `chain`.
pub fn frame_at(
    segment: &[u8],
    at: usize,
    id: LogId,
    chain: u64,
    over: HeaderCrc,
) -> Result<(FrameHeader, &[u8]), FrameFault> {
    let header = header_at(segment, at, id, over)?;
    let from = at + FRAME_HEADER;
    let payload = segment.get(from..from.saturating_add(header.length as usize)).ok_or(FrameFault::Short)?;
    if crc(id, &[payload]) != header.payload_crc {
        return Err(FrameFault::Payload);
    }
    if header.chain != chain || header.synced > header.offset {
        return Err(FrameFault::Order);
    }
    Ok((header, payload))
}

/// Whether anything behind `at` proves that the segment was durable beyond `at`.
pub fn was_synced_beyond(segment: &[u8], at: usize, id: LogId, over: HeaderCrc) -> bool {
    let magic = FRAME_MAGIC.to_le_bytes();
    let rest = segment.get(at..).unwrap_or_default();
    let places = rest.windows(magic.len()).enumerate().filter(|(_, window)| *window == magic);
    places
        .skip_while(|(place, _)| *place == 0)
        .any(|(place, _)| header_at(segment, at + place, id, over).is_ok_and(|header| header.synced > at as u64))
}

/// What a segment's header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Which log.
    pub id: LogId,
    /// Which segment of it, counted from 1.
    pub number: u64,
    /// The last revision before the segment.
    pub revision: u64,
    /// The chain at its start.
    pub chain: u64,
}

impl SegmentHeader {
    /// Its bytes.
    pub fn encode(&self) -> [u8; SEGMENT_HEADER] {
        let mut bytes = [0; SEGMENT_HEADER];
        bytes[..8].copy_from_slice(SEGMENT_MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.id.0);
        bytes[32..40].copy_from_slice(&self.number.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.revision.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.chain.to_le_bytes());
        let crc = crc(self.id, &[&bytes[..12], &bytes[16..]]);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// From its bytes; `None` if they are not a whole header.
    pub fn decode(bytes: &[u8]) -> Option<(SegmentHeader, u32)> {
        let bytes = bytes.get(..SEGMENT_HEADER)?;
        let id = LogId(bytes.get(16..32)?.try_into().ok()?);
        let whole = bytes[..8] == *SEGMENT_MAGIC && u32_at(bytes, 12) == crc(id, &[&bytes[..12], &bytes[16..]]);
        let header =
            SegmentHeader { id, number: u64_at(bytes, 32), revision: u64_at(bytes, 40), chain: u64_at(bytes, 48) };
        whole.then_some((header, u32_at(bytes, 8)))
    }
}

/// The name of a segment's file.
pub fn segment_name(number: u64) -> String {
    format!("log-{number:016x}")
}

/// The number in a segment's file name.
pub fn segment_number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("log-").filter(|digits| digits.len() == 16)?;
    u64::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: LogId = LogId(*b"0123456789abcdef");

    fn frame(header: FrameHeader, payload: &[u8], over: HeaderCrc) -> Vec<u8> {
        let mut bytes = vec![0; FRAME_HEADER];
        bytes.extend_from_slice(payload);
        finish(&mut bytes, ID, header, over);
        bytes
    }

    #[test]
    fn every_flipped_bit_is_noticed_where_it_is() {
        let whole = frame(FrameHeader { chain: 7, ..FrameHeader::default() }, b"payload", HeaderCrc::Whole);
        assert!(frame_at(&whole, 0, ID, 7, HeaderCrc::Whole).is_ok());
        for bit in 0..whole.len() * 8 {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let expected = if bit / 8 < FRAME_HEADER { FrameFault::Header } else { FrameFault::Payload };
            assert_eq!(frame_at(&flipped, 0, ID, 7, HeaderCrc::Whole), Err(expected), "bit {bit}");
        }
        let mut flipped = frame(FrameHeader::default(), b"payload", HeaderCrc::WithoutLength);
        flipped[4] ^= 1;
        let mutant = header_at(&flipped, 0, ID, HeaderCrc::WithoutLength);
        assert!(mutant.is_ok(), "the mutant that leaves out the length is what this test is there to catch");
    }

    #[test]
    fn a_frame_stands_in_its_own_log_at_its_own_place_in_its_own_order() {
        let whole = frame(FrameHeader { chain: 7, ..FrameHeader::default() }, b"payload", HeaderCrc::Whole);
        let read = |bytes: &[u8], at, id, chain| frame_at(bytes, at, id, chain, HeaderCrc::Whole).err();
        assert_eq!(read(&whole, 0, ID, 8), Some(FrameFault::Order));
        assert_eq!(read(&whole, 0, LogId::default(), 7), Some(FrameFault::Header));
        assert_eq!(read(&[&[0], &whole[..]].concat(), 1, ID, 7), Some(FrameFault::Header));
        assert_eq!(read(&whole[..whole.len() - 1], 0, ID, 7), Some(FrameFault::Short));
        assert_eq!(read(&whole[..20], 0, ID, 7), Some(FrameFault::Short));
    }

    #[test]
    fn a_segment_header_reads_back() {
        let header = SegmentHeader { id: ID, number: 3, revision: 9, chain: 5 };
        let bytes = header.encode();
        assert_eq!(SegmentHeader::decode(&bytes), Some((header, VERSION)));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(SegmentHeader::decode(&flipped), None, "bit {bit}");
        }
        assert_eq!(segment_number(&segment_name(77)), Some(77));
    }
}
