//! The files of a corpus, in order, from the inputs that the user named.

pub mod input;

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail, ensure};
use itertools::Itertools as _;

use super::formats::Format;
use crate::system::counts::plural;
use crate::system::errors::ErrorExt;
use crate::system::files::{input as reading, output};
use input::{FileKind, Input, explain_open_error};

/// A file of the corpus, opened when the files before it have been read.
pub(super) struct CorpusFile {
    /// Name of the file in reports, without its folder.
    pub name: String,
    /// Path of the file as messages give it.
    pub path: Arc<str>,
    pub kind: FileKind,
    /// Stored size in bytes, if it is known before reading.
    pub bytes: Option<u64>,
    pub source: Source,
}

/// Origin of a corpus file's bytes.
pub(super) enum Source {
    /// File that is opened when its turn comes, so that a thousand files are not open at once.
    Path(PathBuf),
    /// Stream that can be read only once, such as standard input or a pipe.
    Stream(Box<dyn Read + Send>),
    /// Bytes of a corpus in memory.
    Bytes(Cow<'static, [u8]>),
}

impl CorpusFile {
    pub(super) fn from_bytes(name: &str, bytes: Cow<'static, [u8]>, kind: FileKind) -> Self {
        let (length, source) = (bytes.len() as u64, Source::Bytes(bytes));
        Self { name: name.to_owned(), path: name.into(), kind, bytes: Some(length), source }
    }

    /// A copy of this entry for a second reading; `None` if the file can be read only once.
    pub(super) fn copy_for_rereading(&self) -> Option<Self> {
        let source = match &self.source {
            Source::Path(path) => Source::Path(path.clone()),
            Source::Stream(_) => return None,
            Source::Bytes(bytes) => Source::Bytes(bytes.clone()),
        };
        Some(Self { name: self.name.clone(), path: Arc::clone(&self.path), source, ..*self })
    }
}

impl Source {
    pub(super) fn open(self) -> io::Result<Box<dyn Read + Send>> {
        Ok(match self {
            Self::Path(path) => Box::new(reading::open(&path)?),
            Self::Stream(stream) => stream,
            Self::Bytes(bytes) => Box::new(Cursor::new(bytes)),
        })
    }

    /// Opens `bytes` bytes of the file from byte offset `start` on.
    pub(super) fn open_at(&self, start: u64, bytes: u64) -> io::Result<Box<dyn Read + Send>> {
        Ok(match self {
            Self::Path(path) => {
                let mut file = reading::open(path)?;
                file.seek(SeekFrom::Start(start))?;
                Box::new(file.take(bytes))
            }
            Self::Stream(_) => return Err(io::Error::new(io::ErrorKind::NotSeekable, "it can be read only once")),
            Self::Bytes(all) => {
                let mut cursor = Cursor::new(all.clone());
                cursor.set_position(start);
                Box::new(cursor.take(bytes))
            }
        })
    }
}

/// Identity of an input file, which shows whether a file is given twice.
#[derive(PartialEq, Eq, Hash)]
enum InputIdentity {
    Stdin,
    Embedded(&'static str),
    /// Device and inode, so that hard links count as one file.
    #[cfg(unix)]
    Inode(u64, u64),
    #[cfg(not(unix))]
    Path(PathBuf),
}

impl InputIdentity {
    /// Identity of the file that `metadata` describes.
    #[cfg(unix)]
    #[expect(clippy::unnecessary_wraps, reason = "elsewhere a path has to be resolved")]
    fn from_metadata(_path: &Path, metadata: &Metadata) -> io::Result<Self> {
        use std::os::unix::fs::MetadataExt;
        Ok(Self::Inode(metadata.dev(), metadata.ino()))
    }

    /// Identity of the file at `path`.
    #[cfg(not(unix))]
    fn from_metadata(path: &Path, _metadata: &Metadata) -> io::Result<Self> {
        path.canonicalize().map(Self::Path)
    }
}

/// Lists the files of all inputs in reading order, and counts the ignored entries of folders. Ignored are subfolders,
/// hidden files, pipes, and files whose extension belongs to no corpus format or not to the requested one. Fails if a file
/// is given twice or cannot be opened.
pub(super) fn from_inputs(inputs: &[Input]) -> Result<(Vec<CorpusFile>, u64)> {
    let mut files = FileList::default();
    let mut passed_over = 0;
    for input in inputs {
        match input {
            Input::Stdin(format) => {
                let kind = FileKind::uncompressed(*format);
                let source = Source::Stream(Box::new(reading::stdin().context("cannot read standard input")?));
                let file = CorpusFile { name: input.name(), path: "-".into(), kind, bytes: None, source };
                files.add(InputIdentity::Stdin, "standard input", || Ok(file))?;
            }
            Input::Embedded(name, bytes, kind) => {
                let file = CorpusFile::from_bytes(name, Cow::Borrowed(bytes), *kind);
                files.add(InputIdentity::Embedded(name), &format!("corpus `{name}`"), || Ok(file))?;
            }
            Input::File(path, kind) => files.add_path(path, *kind)?,
            Input::Folder(path, format) => {
                let (of_folder, others) = folder_files(path, *format)?;
                passed_over += others;
                of_folder.iter().try_for_each(|(path, kind)| files.add_path(path, *kind))?;
            }
        }
    }
    Ok((files.files, passed_over))
}

/// Corpus files in reading order, each at most once. A file given twice would count as evidence twice, and both halves of a
/// held-out split could contain it.
#[derive(Default)]
struct FileList {
    files: Vec<CorpusFile>,
    /// Name of each listed file in messages, by its identity.
    names_by_identity: HashMap<InputIdentity, String>,
}

impl FileList {
    /// Adds the file that `open` opens. Fails if a file of this identity is already listed; `shown` is the file's name in
    /// messages.
    fn add(&mut self, identity: InputIdentity, shown: &str, open: impl FnOnce() -> Result<CorpusFile>) -> Result<()> {
        if let Some(first) = self.names_by_identity.get(&identity) {
            let same_file = || format!("for it is the same file as {first}");
            let why = if first == shown { "and its sentences would count twice".to_owned() } else { same_file() };
            bail!(anyhow!("{shown} is given twice, {why}").hint("name it once"));
        }
        self.names_by_identity.insert(identity, shown.to_owned());
        self.files.push(open()?);
        Ok(())
    }

    /// Adds the file at `path`. Fails if it cannot be opened, or if it is already listed.
    fn add_path(&mut self, path: &Path, kind: FileKind) -> Result<()> {
        let shown = path.display().to_string();
        let metadata = fs::metadata(path).map_err(|error| explain_open_error(path, error))?;
        ensure!(!metadata.is_dir(), anyhow!("corpus `{shown}` is a folder").with_file(&shown));
        let identity = InputIdentity::from_metadata(path, &metadata).cannot("open corpus", &shown)?;
        let added = self.add(identity, &format!("corpus `{shown}`"), || {
            // Opened before any other work, so that errors come early.
            let opened = reading::open(path).cannot("open corpus", &shown)?;
            let (bytes, source) = if metadata.is_file() {
                (Some(metadata.len()), Source::Path(path.to_owned()))
            } else {
                // A pipe gives its bytes only to its first reader.
                (None, Source::Stream(Box::new(opened)))
            };
            let name = path.file_name().map_or_else(|| shown.clone(), |name| name.to_string_lossy().into_owned());
            Ok(CorpusFile { name, path: shown.as_str().into(), kind, bytes, source })
        });
        added.with_file(&shown)
    }
}

/// Lists the corpus files of a folder, sorted by the bytes of their names, and counts all other entries except incomplete
/// outputs. A dangling link is listed as a file, so that opening it reports the error.
fn folder_files(path: &Path, format: Option<Format>) -> Result<(Vec<(PathBuf, FileKind)>, u64)> {
    let shown = path.display();
    let (mut files, mut passed_over) = (Vec::new(), 0);
    for entry in fs::read_dir(path).cannot("read corpus folder", &shown)? {
        let entry = entry.cannot("read corpus folder", &shown)?;
        if output::is_temporary(&entry.file_name()) {
            continue;
        }
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        let kind = FileKind::from_path(&entry.path()).filter(|kind| format.is_none_or(|format| kind.format == format));
        let is_other_entry = || fs::metadata(entry.path()).is_ok_and(|metadata| !metadata.is_file());
        match kind {
            Some(kind) if !is_hidden && !is_other_entry() => files.push((entry.path(), kind)),
            _ => passed_over += 1,
        }
    }
    if files.is_empty() {
        let formats = format.map_or(Format::ALL.to_vec(), |format| vec![format]);
        let extensions = formats.iter().flat_map(|format| format.extensions());
        let extensions = extensions.map(|extension| format!(".{extension}")).join(", ");
        let error = anyhow!(
            "corpus folder `{shown}` has no file whose extension is one of {extensions} (also with .gz or .zst): it has \
             {passed_over} other {}, and folders within a folder are not looked into",
            plural(&passed_over, "file or folder", "files or folders"),
        );
        return Err(error.with_file(shown));
    }
    files.sort_by(|(a, _), (b, _)| a.file_name().cmp(&b.file_name()));
    Ok((files, passed_over))
}
