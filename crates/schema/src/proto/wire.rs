//! The wire format: tags, varints, length-delimited fields.

use super::ProtoError;

/// One field as it stands on the wire.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Raw<'b> {
    /// Varint.
    Varint(u64),
    /// 64 bits, little endian.
    Fixed64(u64),
    /// Text, bytes or a message.
    Bytes(&'b [u8]),
    /// 32 bits, little endian; no known type uses it.
    Fixed32,
}

impl<'b> Raw<'b> {
    pub fn bytes(self) -> Result<&'b [u8], ProtoError> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(ProtoError::new("wrong wireType for a length-delimited field")),
        }
    }

    pub fn varint(self) -> Result<u64, ProtoError> {
        match self {
            Self::Varint(number) => Ok(number),
            _ => Err(ProtoError::new("wrong wireType for a varint field")),
        }
    }

    /// Text; bytes that are not UTF-8 become U+FFFD, as they do when Go writes them as JSON.
    pub fn text(self) -> Result<String, ProtoError> {
        Ok(String::from_utf8_lossy(self.bytes()?).into_owned())
    }
}

/// The fields of a message, in wire order.
pub(super) struct Fields<'b> {
    rest: &'b [u8],
}

impl<'b> Fields<'b> {
    pub fn of(message: &'b [u8]) -> Self {
        Self { rest: message }
    }

    /// The next field's number and content.
    pub fn next(&mut self) -> Result<Option<(u32, Raw<'b>)>, ProtoError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = varint(&mut self.rest)?;
        let number = u32::try_from(tag >> 3).ok().filter(|n| *n != 0).ok_or_else(|| illegal_tag(tag))?;
        let raw = match tag & 7 {
            0 => Raw::Varint(varint(&mut self.rest)?),
            1 => Raw::Fixed64(u64::from_le_bytes(self.take_array()?)),
            2 => {
                let length = varint(&mut self.rest)?;
                Raw::Bytes(self.take(usize::try_from(length).map_err(|_| truncated())?)?)
            }
            5 => {
                self.take(4)?;
                Raw::Fixed32
            }
            _ => return Err(illegal_tag(tag)),
        };
        Ok(Some((number, raw)))
    }

    fn take(&mut self, length: usize) -> Result<&'b [u8], ProtoError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or_else(truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    fn take_array(&mut self) -> Result<[u8; 8], ProtoError> {
        self.take(8)?.try_into().map_err(|_| truncated())
    }
}

fn truncated() -> ProtoError {
    ProtoError::new("unexpected EOF")
}

fn illegal_tag(tag: u64) -> ProtoError {
    ProtoError::new(format!("illegal tag {} (wire type {})", tag >> 3, tag & 7))
}

/// Takes a varint of at most 64 bits.
pub(super) fn varint(rest: &mut &[u8]) -> Result<u64, ProtoError> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first().ok_or_else(truncated)?;
        *rest = after;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(ProtoError::new("integer overflow"))
}

/// Writes fields.
#[derive(Default)]
pub(super) struct Writer {
    pub out: Vec<u8>,
}

impl Writer {
    fn raw_varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.out.push((number & 0x7f) as u8 | 0x80);
            number >>= 7;
        }
        self.out.push(number as u8);
    }

    fn tag(&mut self, number: u32, wire_type: u64) {
        self.raw_varint(u64::from(number) << 3 | wire_type);
    }

    pub fn varint(&mut self, number: u32, value: u64) {
        self.tag(number, 0);
        self.raw_varint(value);
    }

    pub fn fixed64(&mut self, number: u32, value: u64) {
        self.tag(number, 1);
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    pub fn bytes(&mut self, number: u32, bytes: &[u8]) {
        self.tag(number, 2);
        self.raw_varint(bytes.len() as u64);
        self.out.extend_from_slice(bytes);
    }
}
