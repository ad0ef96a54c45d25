//! Corpus arguments of the command line, and the format and compression that a file name implies.

use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::{Context, Error, Result, anyhow, bail};

use crate::corpus::formats::Format;
use crate::corpus::lines::{Compression, lower_extension};
use crate::system::embedded;
use crate::system::errors::ErrorExt;

/// Format and compression of a corpus file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileKind {
    pub format: Format,
    pub compression: Compression,
}

impl FileKind {
    pub(in crate::corpus) fn uncompressed(format: Format) -> Self {
        Self { format, compression: Compression::None }
    }

    /// Infers format and compression from a file name (`b.txt.gz`); `None` if no format has its extension.
    pub fn from_path(path: &Path) -> Option<Self> {
        let (compression, bare) = Compression::from_path(path);
        let extension = lower_extension(&bare);
        let format = Format::ALL.into_iter().find(|format| format.extensions().contains(&extension.as_str()))?;
        Some(Self { format, compression })
    }
}

/// One corpus argument of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Standard input, uncompressed.
    Stdin(Format),
    File(PathBuf, FileKind),
    /// Corpus files of a folder; if a format is given, only the files of that format.
    Folder(PathBuf, Option<Format>),
    /// Corpus embedded in the program: its name, bytes and kind.
    Embedded(&'static str, &'static [u8], FileKind),
}

impl Input {
    /// Parses a corpus argument: `-` is standard input, `box:...` an embedded corpus; `format` overrides the file's extension.
    /// Fails if the format is unknown. A missing file is an error of [`Corpus::open`](crate::corpus::Corpus::open).
    pub fn parse(path: &Path, format: Option<Format>) -> Result<Self> {
        if let Some(embedded) = embedded::corpus(path) {
            let (name, bytes) = embedded?;
            if format.is_some_and(|format| format != Format::Conllu) {
                bail!(anyhow!("`{name}` is CoNLL-U").hint("leave out --format"));
            }
            return Ok(Self::Embedded(name, bytes, FileKind::uncompressed(Format::Conllu)));
        }
        if path == Path::new("-") {
            let stdin = format.map(Self::Stdin).context("standard input has no extension to tell the format by");
            return stdin.hint(Self::format_choices());
        }
        if path.is_dir() {
            return Ok(Self::Folder(path.to_owned(), format));
        }
        let kind = match format {
            Some(format) => Some(FileKind { format, compression: Compression::from_path(path).0 }),
            // An unreadable file has no format here; opening it reports the error.
            None => FileKind::from_path(path)
                .or_else(|| fs::metadata(path).is_err().then_some(FileKind::uncompressed(Format::Conllu))),
        };
        let shown = path.display();
        let unknown = || format!("cannot tell the format of `{shown}` by its extension");
        let file = kind.map(|kind| Self::File(path.to_owned(), kind)).with_context(unknown).with_file(shown);
        file.with_value(path.extension().unwrap_or_default().display()).hint(Self::format_choices())
    }

    fn format_choices() -> String {
        let names = Format::ALL.map(Format::name);
        let (last, others) = names.split_last().expect("there are formats");
        format!("say --format {} or {last}", others.join(", "))
    }

    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::File(path, _) | Self::Folder(path, _) => Some(path),
            Self::Stdin(_) | Self::Embedded(..) => None,
        }
    }

    /// Whether the input may hold running text; only running text can be cut to the token limit (`--truncate`).
    pub fn may_have_text(&self) -> bool {
        let format = match self {
            Self::Stdin(format) => Some(*format),
            Self::File(_, kind) | Self::Embedded(_, _, kind) => Some(kind.format),
            Self::Folder(_, format) => *format,
        };
        format.is_none_or(|format| format.reader().may_have_text)
    }

    /// Whether the input can be read again from its beginning; standard input, pipes and devices cannot.
    pub fn can_be_read_again(&self) -> bool {
        match self {
            Self::Stdin(_) => false,
            // `Corpus::open` reports a missing file.
            Self::File(path, _) => fs::metadata(path).map_or(true, |metadata| metadata.is_file()),
            Self::Folder(..) | Self::Embedded(..) => true,
        }
    }

    /// Fails unless all inputs can be read twice. The check comes before any input is opened, since opening a pipe waits for a
    /// writer.
    pub(in crate::corpus) fn ensure_files(inputs: &[Self]) -> Result<()> {
        let Some(once) = inputs.iter().find(|input| !input.can_be_read_again()) else { return Ok(()) };
        let shown = once.path().map_or_else(|| "standard input".into(), |path| path.display().to_string());
        Err(anyhow!("`{shown}` can be read only once: an index is of files")
            .with_file(&shown)
            .hint("write it to a file"))
    }

    pub(in crate::corpus) fn name(&self) -> String {
        match self {
            Self::Stdin(_) => "-".to_owned(),
            Self::Embedded(name, ..) => (*name).to_owned(),
            Self::File(path, _) | Self::Folder(path, _) => {
                // A path that ends in `.` or `..` has no file name.
                let resolved = path.file_name().map(PathBuf::from).or_else(|| path.canonicalize().ok());
                let name = resolved.as_deref().and_then(Path::file_name);
                name.map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
            }
        }
    }
}

/// Explains why the corpus file at `path` cannot be opened: a broken link, a missing file, or the cause that `error` gives.
pub(super) fn explain_open_error(path: &Path, error: io::Error) -> Error {
    let shown = path.display();
    match fs::read_link(path) {
        Ok(target) => {
            let broken = format!("corpus `{shown}` is a link to `{}`, which leads to no file", target.display());
            Error::new(error).context(broken).with_file(shown)
        }
        Err(_) if error.kind() == io::ErrorKind::NotFound => {
            anyhow!("no such corpus file or folder: `{shown}`").with_file(shown)
        }
        Err(_) => Error::new(error).cannot("open corpus", shown),
    }
}
