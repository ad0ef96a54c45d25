//! A corpus as it is named on the command line, and what its name tells.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Format, files};
use crate::system::boxed;

/// How the bytes of a file become sentences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileKind {
    /// What its lines say.
    pub format: Format,
    /// What is to be undone before there are lines.
    pub compression: Compression,
}

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
    fn of(path: &Path) -> (Self, PathBuf) {
        let extension = lower_extension(path);
        match Self::EXTENSIONS.iter().find(|(known, _)| *known == extension) {
            Some(&(_, compression)) => (compression, path.with_extension("")),
            None => (Self::None, path.to_owned()),
        }
    }
}

impl FileKind {
    /// What a file's name tells: `a.conllu`, `b.txt.gz`, `c.jsonl.zst`. `None` if it has no extension of a format.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        let (compression, bare) = Compression::of(path);
        let extension = lower_extension(&bare);
        let format = Format::ALL.into_iter().find(|format| format.extensions().contains(&extension.as_str()))?;
        Some(Self { format, compression })
    }
}

fn lower_extension(path: &Path) -> String {
    path.extension().map(|extension| extension.to_string_lossy().to_lowercase()).unwrap_or_default()
}

/// A corpus, or a part of one, as it is named on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Standard input, uncompressed.
    Stdin(Format),
    /// A file.
    File(PathBuf, FileKind),
    /// The files of a folder whose extension tells a format, only those of one format if that is given.
    Folder(PathBuf, Option<Format>),
    /// Bytes that the program has in it.
    Embedded(&'static str, &'static [u8], FileKind),
}

impl Input {
    /// Reads a path, `-` for standard input, `box:...` for what is in the box; `format` overrides what a file's extension tells.
    ///
    /// # Errors
    ///
    /// In words, if the format cannot be told. A file that is not there is for [`Corpus::open`](super::Corpus::open)
    /// to find.
    pub fn parse(path: &Path, format: Option<Format>) -> Result<Self, String> {
        if let Some(found) = boxed::corpus(path) {
            let (name, bytes) = found?;
            if format.is_some_and(|format| format != Format::Conllu) {
                return Err(format!("`{name}` is CoNLL-U: leave out --format"));
            }
            return Ok(Self::Embedded(
                name,
                bytes,
                FileKind { format: Format::Conllu, compression: Compression::None },
            ));
        }
        if path == Path::new("-") {
            let say = || format!("standard input has no extension to tell the format by: say {}", Self::choices());
            return format.map(Self::Stdin).ok_or_else(say);
        }
        if path.is_dir() {
            return Ok(Self::Folder(path.to_owned(), format));
        }
        let kind = match format {
            Some(format) => Some(FileKind { format, compression: Compression::of(path).0 }),
            None => FileKind::of(path),
        };
        kind.map(|kind| Self::File(path.to_owned(), kind)).ok_or_else(|| {
            let shown = path.display();
            match fs::metadata(path) {
                Ok(_) => format!("cannot tell the format of `{shown}` by its extension: say {}", Self::choices()),
                Err(error) => files::why_not(path, &error),
            }
        })
    }

    fn choices() -> String {
        let names = Format::ALL.map(Format::name);
        let (last, others) = names.split_last().expect("there are formats");
        format!("--format {} or {last}", others.join(", "))
    }

    /// Its path, unless it has none.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::File(path, _) | Self::Folder(path, _) => Some(path),
            Self::Stdin(_) | Self::Embedded(..) => None,
        }
    }

    /// Whether it may have running text, which can be cut.
    #[must_use]
    pub fn may_have_text(&self) -> bool {
        let format = match self {
            Self::Stdin(format)
            | Self::File(_, FileKind { format, .. })
            | Self::Embedded(_, _, FileKind { format, .. }) => Some(*format),
            Self::Folder(_, format) => *format,
        };
        format.is_none_or(|format| format.entry().may_have_text)
    }

    /// Whether it can be read once more from its beginning: standard input, pipes and devices cannot.
    #[must_use]
    pub fn can_be_read_again(&self) -> bool {
        match self {
            Self::Stdin(_) => false,
            // What is not there is for `Corpus::open` to say.
            Self::File(path, _) => fs::metadata(path).map_or(true, |metadata| metadata.is_file()),
            Self::Folder(..) | Self::Embedded(..) => true,
        }
    }

    /// Its name without folders, for the report.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Stdin(_) => "-".to_owned(),
            Self::Embedded(name, ..) => (*name).to_owned(),
            Self::File(path, _) | Self::Folder(path, _) => {
                // A path that ends in `.` or `..` has no name of its own.
                let real = path.file_name().map(PathBuf::from).or_else(|| path.canonicalize().ok());
                let name = real.as_deref().and_then(Path::file_name);
                name.map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
            }
        }
    }
}
