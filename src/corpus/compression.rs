//! Compressed files, told by their names.

use std::path::{Path, PathBuf};

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// gzip (RFC 1952), one or more members.
    Gzip,
    /// Zstandard (RFC 8878), one or more frames.
    Zstd,
}

impl Compression {
    const EXTENSIONS: [(&str, Self); 2] = [("gz", Self::Gzip), ("zst", Self::Zstd)];

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
