//! Reads tar streams entry by entry: ustar, GNU's long names, PAX. Nothing in the stream is trusted.

use std::io::{self, Read};

use crate::error::{Exceeded, Malformed};

const BLOCK_BYTES: usize = 512;
/// Of a long name or a PAX header: what Go's reader allows.
const EXTENSION_BYTES_MAX: u64 = 1 << 20;
/// Extensions before one entry: a long name, a long link, a PAX header; twice over.
const EXTENSIONS_MAX: usize = 6;

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Directory,
    Symlink,
    Hardlink,
    Char,
    Block,
    Fifo,
}

/// One entry; its data, if it is a file, is read from the [`Tape`].
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub path: Vec<u8>,
    pub link: Vec<u8>,
    pub kind: Kind,
    /// Permission bits with set-user-id, set-group-id and sticky.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// Seconds and nanoseconds.
    pub mtime: (i64, u32),
    pub size: u64,
    pub device: (u32, u32),
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// A tar stream at the beginning of an entry, or within its data.
pub(crate) struct Tape<R> {
    inner: R,
    /// Of the current entry's data, still to be read.
    data_bytes: u64,
    /// After it, to the next block.
    padding_bytes: u64,
}

/// What extensions said about the entry that follows them.
#[derive(Default)]
struct Extensions {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
    uid: Option<u64>,
    gid: Option<u64>,
    mtime: Option<(i64, u32)>,
    xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    sparse: bool,
}

impl<R: Read> Tape<R> {
    pub fn new(inner: R) -> Tape<R> {
        Tape { inner, data_bytes: 0, padding_bytes: 0 }
    }

    pub fn into_inner(self) -> R {
        self.inner
    }

    /// The next entry; none at the end of the archive. What was not read of the last one's data is passed over.
    pub fn next_entry(&mut self) -> io::Result<Option<Entry>> {
        let mut extensions = Extensions::default();
        for _ in 0..=EXTENSIONS_MAX {
            self.skip_rest()?;
            let Some(header) = self.read_header()? else { return Ok(None) };
            self.begin_data(match header.entry_type().as_byte() {
                b'1'..=b'6' => 0,
                _ => extensions.size.filter(|_| !is_extension(&header)).map_or_else(|| size(&header), Ok)?,
            });
            match header.entry_type().as_byte() {
                b'L' => extensions.path = Some(self.read_name()?),
                b'K' => extensions.link = Some(self.read_name()?),
                b'x' | b'X' => extensions.read_pax(&self.read_extension()?)?,
                // What is said once for all entries is not used by builders of images, nor by their readers.
                b'g' => drop(self.read_extension()?),
                _ => return self.entry(&header, extensions).map(Some),
            }
        }
        Err(Malformed::io("too many headers before one entry"))
    }

    fn begin_data(&mut self, bytes: u64) {
        self.data_bytes = bytes;
        self.padding_bytes = (BLOCK_BYTES as u64 - bytes % BLOCK_BYTES as u64) % BLOCK_BYTES as u64;
    }

    fn skip_rest(&mut self) -> io::Result<()> {
        let rest = self.data_bytes.saturating_add(self.padding_bytes);
        (self.data_bytes, self.padding_bytes) = (0, 0);
        let skipped = io::copy(&mut self.inner.by_ref().take(rest), &mut io::sink())?;
        if skipped < rest { Err(cut_off()) } else { Ok(()) }
    }

    fn read_header(&mut self) -> io::Result<Option<tar::Header>> {
        let mut block = [0u8; BLOCK_BYTES];
        // An archive may end without its two blocks of zeros, but only between entries.
        if !read_block(&mut self.inner, &mut block)? || block.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let header = tar::Header::from_byte_slice(&block).clone();
        let stated = number(&header.as_old().cksum)?;
        if checksums(&block).contains(&stated) {
            Ok(Some(header))
        } else {
            Err(Malformed::io("a header's checksum is wrong"))
        }
    }

    fn read_extension(&mut self) -> io::Result<Vec<u8>> {
        if self.data_bytes > EXTENSION_BYTES_MAX {
            return Err(Exceeded::io(format!("an extended header of more than {EXTENSION_BYTES_MAX} bytes")));
        }
        let (mut bytes, expected) = (Vec::new(), self.data_bytes);
        self.read_to_end(&mut bytes)?;
        if bytes.len() as u64 == expected { Ok(bytes) } else { Err(cut_off()) }
    }

    fn read_name(&mut self) -> io::Result<Vec<u8>> {
        let bytes = self.read_extension()?;
        Ok(bytes.split(|byte| *byte == 0).next().unwrap_or_default().to_vec())
    }

    fn entry(&mut self, header: &tar::Header, extensions: Extensions) -> io::Result<Entry> {
        if extensions.sparse {
            return Err(Malformed::io("sparse entries are not supported"));
        }
        let path = extensions.path.unwrap_or_else(|| header.path_bytes().into_owned());
        let kind = match header.entry_type().as_byte() {
            // Before ustar, a directory was told by its name.
            b'0' | 0 | b'7' if path.ends_with(b"/") => Kind::Directory,
            b'0' | 0 | b'7' => Kind::File,
            b'1' => Kind::Hardlink,
            b'2' => Kind::Symlink,
            b'3' => Kind::Char,
            b'4' => Kind::Block,
            b'5' => Kind::Directory,
            b'6' => Kind::Fifo,
            b'S' => return Err(Malformed::io("sparse entries are not supported")),
            other => return Err(Malformed::io(format!("unhandled tar header type {:?}", char::from(other)))),
        };
        let fields = header.as_old();
        Ok(Entry {
            link: extensions.link.unwrap_or_else(|| header.link_name_bytes().unwrap_or_default().into_owned()),
            // Twelve bits; what is above them tells the kind, which the type does already.
            mode: (number(&fields.mode)? & 0o7777) as u32,
            uid: id(extensions.uid, &fields.uid)?,
            gid: id(extensions.gid, &fields.gid)?,
            mtime: match extensions.mtime {
                Some(time) => time,
                None => (number(&fields.mtime)?, 0),
            },
            size: if kind == Kind::File { self.data_bytes } else { 0 },
            device: match kind {
                Kind::Char | Kind::Block => device(header)?,
                _ => (0, 0),
            },
            xattrs: extensions.xattrs,
            kind,
            path,
        })
    }
}

/// The data of the current entry.
impl<R: Read> Read for Tape<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.by_ref().take(self.data_bytes).read(buffer)?;
        if count == 0 && self.data_bytes > 0 && !buffer.is_empty() {
            return Err(cut_off());
        }
        self.data_bytes -= count as u64;
        Ok(count)
    }
}

fn cut_off() -> io::Error {
    Malformed::io("the archive is cut off")
}

fn is_extension(header: &tar::Header) -> bool {
    matches!(header.entry_type().as_byte(), b'L' | b'K' | b'x' | b'X' | b'g')
}

/// A number of a header: octal digits within spaces and zeros, nothing for 0; or, for what does not fit, a signed
/// number of 256 as base, told by its first bit.
fn number(field: &[u8]) -> io::Result<i64> {
    let wrong = || Malformed::io("a number of its header is malformed");
    if let Some((first, rest)) = field.split_first()
        && first & 0x80 != 0
    {
        // The second bit is the sign; it fills what is above.
        let start = if first & 0x40 != 0 { i128::from(first | 0x80) - 256 } else { i128::from(first & 0x3f) };
        let wide = rest.iter().try_fold(start, |sum, byte| sum.checked_mul(256)?.checked_add(i128::from(*byte)));
        return wide.and_then(|wide| i64::try_from(wide).ok()).ok_or_else(wrong);
    }
    let digits = text(field).ok_or_else(wrong)?.trim_matches([' ', '\0']);
    if digits.is_empty() { Ok(0) } else { i64::from_str_radix(digits, 8).map_err(|_| wrong()) }
}

fn size(header: &tar::Header) -> io::Result<u64> {
    u64::try_from(number(&header.as_old().size)?).map_err(|_| Malformed::io("its size is negative"))
}

fn device(header: &tar::Header) -> io::Result<(u32, u32)> {
    let fields = header.as_ustar().map(|h| (h.dev_major, h.dev_minor));
    let Some((major, minor)) = fields.or_else(|| header.as_gnu().map(|h| (h.dev_major, h.dev_minor))) else {
        return Ok((0, 0));
    };
    let half = |field: &[u8]| u32::try_from(number(field)?).map_err(|_| Malformed::io("no number of a device"));
    Ok((half(&major)?, half(&minor)?))
}

fn id(extended: Option<u64>, plain: &[u8]) -> io::Result<u32> {
    let wide = match extended {
        Some(id) => i64::try_from(id).unwrap_or(i64::MAX),
        None => number(plain)?,
    };
    u32::try_from(wide).map_err(|_| Malformed::io(format!("{wide} is no id of a user or group")))
}

/// Reads a whole block; false at the end of the stream.
fn read_block(reader: &mut impl Read, block: &mut [u8; BLOCK_BYTES]) -> io::Result<bool> {
    let mut bytes = Vec::with_capacity(BLOCK_BYTES);
    reader.by_ref().take(BLOCK_BYTES as u64).read_to_end(&mut bytes)?;
    match bytes.len() {
        0 => Ok(false),
        BLOCK_BYTES => {
            block.copy_from_slice(&bytes);
            Ok(true)
        }
        _ => Err(cut_off()),
    }
}

/// The sum of a header's bytes, its own field taken as spaces: of unsigned bytes, and of signed ones, as some
/// old writers had it.
fn checksums(block: &[u8; BLOCK_BYTES]) -> [i64; 2] {
    let bytes = || block.iter().enumerate().map(|(at, byte)| if (148..156).contains(&at) { b' ' } else { *byte });
    [bytes().map(i64::from).sum(), bytes().map(|byte| i64::from(byte.cast_signed())).sum()]
}

impl Extensions {
    /// Reads PAX records: `length key=value\n`, where the length counts itself.
    fn read_pax(&mut self, mut rest: &[u8]) -> io::Result<()> {
        let wrong = || Malformed::io("a PAX record is malformed");
        while !rest.is_empty() && rest != [0] {
            let space = rest.iter().take(20).position(|byte| *byte == b' ').ok_or_else(wrong)?;
            let (digits, _) = rest.split_at(space);
            let length: usize = text(digits).and_then(|digits| digits.parse().ok()).ok_or_else(wrong)?;
            let record = rest.get(space + 1..length).and_then(|record| record.strip_suffix(b"\n")).ok_or_else(wrong)?;
            let equals = record.iter().position(|byte| *byte == b'=').ok_or_else(wrong)?;
            let (key, value) = record.split_at(equals);
            self.set(key, value.get(1..).unwrap_or_default()).ok_or_else(wrong)?;
            rest = rest.get(length..).unwrap_or_default();
        }
        Ok(())
    }

    fn set(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        let number = || text(value)?.parse::<u64>().ok();
        match key {
            b"path" => self.path = Some(name(value)?),
            b"linkpath" => self.link = Some(name(value)?),
            b"size" => self.size = Some(number()?),
            b"uid" => self.uid = Some(number()?),
            b"gid" => self.gid = Some(number()?),
            b"mtime" => self.mtime = Some(pax_time(text(value)?)?),
            _ => {
                if let Some(xattr) = key.strip_prefix(b"SCHILY.xattr.") {
                    self.xattrs.push((name(xattr)?, value.to_vec()));
                }
                self.sparse |= key.starts_with(b"GNU.sparse.");
            }
        }
        Some(())
    }
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// A name, in which a zero would end it early for the system.
fn name(bytes: &[u8]) -> Option<Vec<u8>> {
    (!bytes.is_empty() && !bytes.contains(&0)).then(|| bytes.to_vec())
}

/// Seconds with an optional fraction, possibly negative.
fn pax_time(text: &str) -> Option<(i64, u32)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let seconds: i64 = whole.parse().ok()?;
    let nanos: u32 = format!("{:0<9}", fraction.get(..fraction.len().min(9))?).parse().ok()?;
    // A negative time counts down; the system's counts up from the second below.
    if whole.starts_with('-') && nanos > 0 {
        return Some((seconds.checked_sub(1)?, 1_000_000_000 - nanos));
    }
    Some((seconds, nanos))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn walk(bytes: &[u8]) -> io::Result<Vec<(Entry, Vec<u8>)>> {
        let mut tape = Tape::new(bytes);
        let mut found = Vec::new();
        while let Some(entry) = tape.next_entry()? {
            let mut data = Vec::new();
            tape.read_to_end(&mut data)?;
            found.push((entry, data));
        }
        Ok(found)
    }

    fn archive(paths: &[&str]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for path in paths {
            let mut header = tar::Header::new_gnu();
            header.set_size(path.len() as u64);
            header.set_mode(0o104_755);
            builder.append_data(&mut header, path, path.as_bytes()).unwrap();
        }
        builder.into_inner().unwrap()
    }

    #[test]
    fn long_names_and_pax_are_read() {
        let long = "d/".repeat(200) + "f";
        let mut builder = tar::Builder::new(archive(&[]));
        let mut header = tar::Header::new_ustar();
        header.set_size(3);
        let records: [(&str, &[u8]); 5] = [
            ("path", b"x/y"),
            ("uid", b"4000000000"),
            ("mtime", b"-1.25"),
            ("SCHILY.xattr.user.a", b"\0\n=b"),
            ("comment", b"c"),
        ];
        builder.append_pax_extensions(records).unwrap();
        builder.append_data(&mut header, "short", &b"abc"[..]).unwrap();
        let mut bytes = builder.into_inner().unwrap();
        // The builder above stood on a finished archive; what follows its end is not looked at.
        assert!(walk(&bytes).unwrap().is_empty());
        let bytes = bytes.split_off(1024);
        let (entry, data) = walk(&bytes).unwrap().remove(0);
        assert_eq!((entry.path, data, entry.uid), (b"x/y".to_vec(), b"abc".to_vec(), 4_000_000_000));
        assert_eq!((entry.mtime, entry.xattrs), ((-2, 750_000_000), vec![(b"user.a".to_vec(), b"\0\n=b".to_vec())]));
        let (entry, data) = walk(&archive(&[&long])).unwrap().remove(0);
        assert_eq!((entry.path, data), (long.clone().into_bytes(), long.into_bytes()));
        assert_eq!(entry.mode, 0o4755);
    }

    #[test]
    fn damage_is_noticed() {
        let bytes = archive(&["a", "b"]);
        assert_eq!(walk(&bytes[..1024]).unwrap().len(), 1);
        for cut in [1, 511, 513, 1023, 1030, 1537] {
            assert!(walk(&bytes[..cut]).is_err(), "{cut}");
        }
        let mut damaged = bytes.clone();
        damaged[3] ^= 1;
        assert!(walk(&damaged).is_err());
        let mut huge = tar::Header::new_gnu();
        huge.set_entry_type(tar::EntryType::GNULongName);
        huge.set_size(u64::MAX / 2);
        huge.set_cksum();
        assert!(walk(huge.as_bytes()).unwrap_err().to_string().contains("more than 1048576 bytes"));
    }

    proptest! {
        #[test]
        fn nothing_panics(at in 0usize..1536, byte: u8, cut in 0usize..3000) {
            let mut bytes = archive(&["a", "b"]);
            bytes[at] = byte;
            bytes.truncate(cut);
            let _ = walk(&bytes);
        }

        #[test]
        fn pax_records_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = Extensions::default().read_pax(&bytes);
        }
    }
}
