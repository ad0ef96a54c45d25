//! From what was named as a corpus to the files that are read: their formats, and what is in a folder.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};

use super::Format;
use crate::system::{boxed, input};

/// How the bytes of a file become sentences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
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

    /// The compression that a file's name tells, and its name without that extension.
    fn of(path: &Path) -> (Self, PathBuf) {
        let extension = lower_extension(path);
        match Self::EXTENSIONS.iter().find(|(known, _)| *known == extension) {
            Some(&(_, compression)) => (compression, path.with_extension("")),
            None => (Self::None, path.to_owned()),
        }
    }
}

impl Kind {
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
    File(PathBuf, Kind),
    /// The files of a folder whose extension tells a format, only those of one format if that is given.
    Folder(PathBuf, Option<Format>),
    /// Bytes that the program has in it.
    Embedded(&'static str, &'static [u8], Kind),
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
            return Ok(Self::Embedded(name, bytes, Kind { format: Format::Conllu, compression: Compression::None }));
        }
        if path == Path::new("-") {
            let say = || format!("standard input has no extension to tell the format by: say {}", Self::choices());
            return format.map(Self::Stdin).ok_or_else(say);
        }
        if path.is_dir() {
            return Ok(Self::Folder(path.to_owned(), format));
        }
        let kind = match format {
            Some(format) => Some(Kind { format, compression: Compression::of(path).0 }),
            None => Kind::of(path),
        };
        kind.map(|kind| Self::File(path.to_owned(), kind)).ok_or_else(|| {
            let shown = path.display();
            if path.exists() {
                format!("cannot tell the format of `{shown}` by its extension: say {}", Self::choices())
            } else {
                format!("no such corpus file or folder: `{shown}`")
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
            Self::Stdin(format) | Self::File(_, Kind { format, .. }) | Self::Embedded(_, _, Kind { format, .. }) => {
                Some(*format)
            }
            Self::Folder(_, format) => *format,
        };
        format != Some(Format::Conllu)
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

/// One file of a corpus, known to be there.
pub(super) struct CorpusFile {
    /// Its name without folders, for the report.
    pub name: String,
    /// Its path, for messages.
    pub path: Arc<str>,
    pub kind: Kind,
    /// Its size as stored, where that is known beforehand.
    pub bytes: Option<u64>,
    pub source: Source,
}

/// Where the bytes of a file come from.
pub(super) enum Source {
    /// Opened when its turn comes, so that a thousand files are not open at once.
    Path(PathBuf),
    /// What can be opened only once: standard input, a pipe.
    Stream(Box<dyn Read + Send>),
    Bytes(Cow<'static, [u8]>),
}

impl Source {
    pub(super) fn open(self) -> io::Result<Box<dyn Read + Send>> {
        Ok(match self {
            Self::Path(path) => Box::new(input::open(&path)?),
            Self::Stream(stream) => stream,
            Self::Bytes(bytes) => Box::new(Cursor::new(bytes)),
        })
    }
}

/// All files of all inputs, in the order they are read, and how many files of folders are passed over.
///
/// A folder's files come by name, byte by byte. Folders within it, hidden files and files whose extension tells no
/// format (or another than the one asked for) are passed over.
pub(super) fn files(inputs: &[Input]) -> Result<(Vec<CorpusFile>, u64)> {
    let (mut files, mut passed_over) = (Vec::new(), 0);
    for input in inputs {
        match input {
            Input::Stdin(format) => files.push(CorpusFile {
                name: input.name(),
                path: "-".into(),
                kind: Kind { format: *format, compression: Compression::None },
                bytes: None,
                source: Source::Stream(Box::new(input::stdin().context("cannot read standard input")?)),
            }),
            Input::Embedded(name, bytes, kind) => files.push(CorpusFile {
                name: (*name).to_owned(),
                path: (*name).into(),
                kind: *kind,
                bytes: Some(bytes.len() as u64),
                source: Source::Bytes(Cow::Borrowed(bytes)),
            }),
            Input::File(path, kind) => files.push(file(path, *kind)?),
            Input::Folder(path, format) => {
                let (found, others) = folder(path, *format)?;
                passed_over += others;
                for (path, kind) in found {
                    files.push(file(&path, kind)?);
                }
            }
        }
    }
    refuse_repetition(inputs, &files)?;
    Ok((files, passed_over))
}

fn file(path: &Path, kind: Kind) -> Result<CorpusFile> {
    let shown = path.display().to_string();
    let opened = match input::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => bail!("no such corpus file: `{shown}`"),
        Err(error) => return Err(error).with_context(|| format!("cannot open corpus `{shown}`")),
    };
    let metadata = opened.metadata().with_context(|| format!("cannot open corpus `{shown}`"))?;
    ensure!(!metadata.is_dir(), "corpus `{shown}` is a folder");
    let (bytes, source) = if metadata.is_file() {
        (Some(metadata.len()), Source::Path(path.to_owned()))
    } else {
        // A pipe gives its bytes to whoever opens it first.
        (None, Source::Stream(Box::new(opened)))
    };
    let name = path.file_name().map_or_else(|| shown.clone(), |name| name.to_string_lossy().into_owned());
    Ok(CorpusFile { name, path: shown.into(), kind, bytes, source })
}

/// The corpus files of a folder by name, and the number of entries that are none.
fn folder(path: &Path, format: Option<Format>) -> Result<(Vec<(PathBuf, Kind)>, u64)> {
    let shown = path.display();
    let unreadable = || format!("cannot read corpus folder `{shown}`");
    let (mut found, mut passed_over) = (Vec::new(), 0);
    for entry in fs::read_dir(path).with_context(unreadable)? {
        let entry = entry.with_context(unreadable)?;
        let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        let kind = Kind::of(&entry.path()).filter(|kind| format.is_none_or(|format| kind.format == format));
        match kind {
            Some(kind) if !hidden && !entry.path().is_dir() => found.push((entry.path(), kind)),
            _ => passed_over += 1,
        }
    }
    if found.is_empty() {
        let formats = format.map_or(Format::ALL.to_vec(), |format| vec![format]);
        let known: Vec<String> =
            formats.iter().flat_map(|format| format.extensions()).map(|known| format!(".{known}")).collect();
        bail!(
            "corpus folder `{shown}` has no file whose extension is one of {} (also with .gz or .zst): it has \
             {passed_over} other files or folders, and folders within a folder are not looked into",
            known.join(", "),
        );
    }
    found.sort_by(|(a, _), (b, _)| a.file_name().cmp(&b.file_name()));
    Ok((found, passed_over))
}

/// The same sentences twice would count as evidence twice, and the halves of the held-out selection would overlap.
fn refuse_repetition(inputs: &[Input], files: &[CorpusFile]) -> Result<()> {
    let standard_inputs = inputs.iter().filter(|input| matches!(input, Input::Stdin(_))).count();
    ensure!(standard_inputs <= 1, "standard input is given twice as a corpus");
    let mut seen = BTreeSet::new();
    for file in files {
        if let Source::Path(path) = &file.source
            && let Ok(real) = path.canonicalize()
        {
            ensure!(seen.insert(real), "corpus `{}` is given twice", file.path);
        }
    }
    Ok(())
}
