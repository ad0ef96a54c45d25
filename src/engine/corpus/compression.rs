//! Compressed files, recognised by their names.

use std::path::{Path, PathBuf};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    None,
    /// gzip (RFC 1952), one or more members.
    Gzip,
    /// Zstandard (RFC 8878), one or more frames.
    Zstd,
}

impl Compression {
    const EXTENSIONS: [(&str, Self); 2] = [("gz", Self::Gzip), ("zst", Self::Zstd)];

    /// The number of bytes that identify every format.
    pub(super) const LONGEST_MAGIC: usize = 4;

    /// How such a file begins: RFC 1952, 2.3.1, and RFC 8878, 3.1.1.
    const fn magic(self) -> &'static [u8] {
        match self {
            Self::None => b"",
            Self::Gzip => b"\x1f\x8b",
            Self::Zstd => b"\x28\xb5\x2f\xfd",
        }
    }

    /// Whether a file of this kind may have these first bytes, which may be too few to decide.
    pub(super) fn may_begin(self, start: &[u8]) -> bool {
        self.magic().iter().zip(start).all(|(expected, byte)| expected == byte)
    }

    pub(super) fn of_bytes(start: &[u8]) -> bool {
        Self::EXTENSIONS.iter().any(|(_, compression)| start.starts_with(compression.magic()))
    }

    /// The name of the program and its format; `None` where there is none.
    pub(super) fn name(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Gzip => Some("gzip"),
            Self::Zstd => Some("zstd"),
        }
    }

    /// The compression that a file's name tells, and its name without that extension.
    pub(super) fn of(path: &Path) -> (Self, PathBuf) {
        let extension = lower_extension(path);
        match Self::EXTENSIONS.iter().find(|(known, _)| *known == extension) {
            Some(&(_, compression)) => (compression, path.with_extension("")),
            None => (Self::None, path.to_owned()),
        }
    }
}

/// The extension of a file name in lower case; empty if it has none.
pub(super) fn lower_extension(path: &Path) -> String {
    path.extension().map(|extension| extension.to_string_lossy().to_lowercase()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressed_bytes_are_told_by_their_beginning() {
        let told = Compression::of_bytes;
        assert!(told(b"\x1f\x8b\x08") && told(b"\x28\xb5\x2f\xfd\x24"));
        assert!(!told(b"") && !told(b"\xe9t\xe9") && !told(b"\x1f"));
        assert!(Compression::Gzip.may_begin(b"\x1f") && Compression::Zstd.may_begin(b""));
        assert!(!Compression::Gzip.may_begin(b"one") && !Compression::Zstd.may_begin(b"\x1f\x8b"));
    }
}
