//! Paths within a layer.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::error::{Exceeded, Malformed};

/// What the kernel takes.
const PATH_BYTES_MAX: usize = 4096;
/// Of one name.
const NAME_BYTES_MAX: usize = 255;
/// Of directories in one another. Real trees have at most about fifty; removing one holds a descriptor a level.
pub(super) const DEPTH_MAX: usize = 200;

const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";
/// AUFS's own notes, which mean nothing to others.
const NOTES: &[u8] = b".wh..wh.";

/// A clean path relative to the layer's root: no empty, `.` or `..` parts. Empty for the root itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LayerPath(PathBuf);

/// What a name says about layers below.
#[derive(Debug, PartialEq)]
pub(super) enum Whiteout {
    None,
    Ignored,
    Opaque(LayerPath),
    Hides(LayerPath),
}

impl LayerPath {
    /// Reads an entry's path. An absolute one is taken from the layer's root, one that climbs is refused.
    pub fn parse(bytes: &[u8]) -> io::Result<LayerPath> {
        if bytes.len() > PATH_BYTES_MAX {
            return Err(Exceeded::io(format!("a path of more than {PATH_BYTES_MAX} bytes")));
        }
        if bytes.contains(&0) {
            return Err(Malformed::io("a zero in its path"));
        }
        let parts: Vec<&[u8]> = bytes.split(|byte| *byte == b'/').filter(|part| !matches!(*part, b"" | b".")).collect();
        if parts.contains(&&b".."[..]) {
            return Err(Malformed::io("its path leads out of the layer"));
        }
        if parts.len() > DEPTH_MAX {
            return Err(Exceeded::io(format!("a path of more than {DEPTH_MAX} parts")));
        }
        if parts.iter().any(|part| part.len() > NAME_BYTES_MAX) {
            return Err(Exceeded::io(format!("a name of more than {NAME_BYTES_MAX} bytes")));
        }
        Ok(LayerPath(parts.into_iter().map(OsStr::from_bytes).collect()))
    }

    pub fn as_path(&self) -> &Path {
        &self.0
    }

    /// The directory and the name in it; none for the root.
    pub fn split(&self) -> Option<(LayerPath, &OsStr)> {
        Some((LayerPath(self.0.parent()?.to_path_buf()), self.0.file_name()?))
    }

    /// The path and all above it, from the top.
    pub fn prefixes(&self) -> Vec<LayerPath> {
        let mut all: Vec<LayerPath> = self.0.ancestors().map(|path| LayerPath(path.to_path_buf())).collect();
        // The root exists.
        all.pop();
        all.reverse();
        all
    }

    /// Whether the name stands for an absence.
    pub fn whiteout(&self) -> io::Result<Whiteout> {
        let Some((directory, name)) = self.split() else { return Ok(Whiteout::None) };
        let name = name.as_bytes();
        if name == OPAQUE {
            return Ok(Whiteout::Opaque(directory));
        }
        if name.starts_with(NOTES) {
            return Ok(Whiteout::Ignored);
        }
        match name.strip_prefix(WHITEOUT) {
            None => Ok(Whiteout::None),
            Some(b"" | b"." | b"..") => Err(Malformed::io("a whiteout that hides nothing or too much")),
            Some(hidden) => Ok(Whiteout::Hides(LayerPath(directory.0.join(OsStr::from_bytes(hidden))))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cleaned_or_refused() {
        let check = |text: &str, expected: Option<&str>| {
            let found = LayerPath::parse(text.as_bytes()).ok();
            assert_eq!(found.as_ref().map(LayerPath::as_path), expected.map(Path::new), "{text}");
        };
        check("a/b", Some("a/b"));
        check("./a//b/.", Some("a/b"));
        check("/etc/passwd", Some("etc/passwd"));
        check("./", Some(""));
        check("/", Some(""));
        check("a/../b", None);
        check("../b", None);
        check("a/..", None);
        check("...", Some("..."));
        check("a\0b", None);
        check(&"a/".repeat(201), None);
        check(&"n".repeat(256), None);
    }

    #[test]
    fn whiteouts_are_told_from_names() {
        let path = |text: &str| LayerPath::parse(text.as_bytes()).unwrap();
        let check = |text: &str, expected: Option<Whiteout>| assert_eq!(path(text).whiteout().ok(), expected, "{text}");
        check("a/.wh.b", Some(Whiteout::Hides(path("a/b"))));
        check(".wh.b", Some(Whiteout::Hides(path("b"))));
        check("a/.wh..wh..opq", Some(Whiteout::Opaque(path("a"))));
        check(".wh..wh..opq", Some(Whiteout::Opaque(path(""))));
        check("a/.wh..wh.plnk", Some(Whiteout::Ignored));
        check("a/.wh", Some(Whiteout::None));
        check("a/b.wh.", Some(Whiteout::None));
        check("a/.wh.", None);
        check("a/.wh..", None);
        check("a/.wh...", None);
        check("", Some(Whiteout::None));
    }
}
