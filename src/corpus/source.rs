//! A corpus: its files one after the other, as one iterator of sentences.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::vec;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::input::{self, Compression, CorpusFile, Input, Kind, Source};
use super::lines::Lines;
use super::{Format, Sentence, conllu, jsonl, text};

/// A corpus opened for reading: an iterator of its sentences in order. After an error it ends.
pub struct Corpus {
    name: String,
    /// Those whose turn has not come.
    files: vec::IntoIter<CorpusFile>,
    current: Option<(FileName, Lines)>,
    done: Vec<FileIdentity>,
    passed_over: u64,
    bytes: Option<u64>,
    bytes_read: Arc<AtomicU64>,
    next_index: u64,
    failed: bool,
}

/// A file without its hash, which is not known yet.
struct FileName {
    name: String,
    format: Format,
}

/// What identifies a corpus in a report: nothing of it is a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorpusIdentity {
    /// The names of what was given, joined by ` + `: of files, of folders, `-` for standard input.
    pub name: String,
    /// Its files in order.
    pub files: Vec<FileIdentity>,
    /// Files and folders in the given folders that are no corpus files.
    pub passed_over: u64,
}

/// What identifies one file of a corpus.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileIdentity {
    /// The file's name, or `-` for standard input.
    pub name: String,
    /// The format it was read as.
    pub format: Format,
    /// SHA-256 of all its bytes as they are stored, compressed or not, lower-case hexadecimal.
    pub sha256: String,
}

impl Corpus {
    /// Opens all that was named, to be read in that order.
    ///
    /// # Errors
    ///
    /// If a file is not there or cannot be opened, a folder has no corpus file, or a file is given twice.
    pub fn open(inputs: &[Input]) -> Result<Self> {
        let (files, passed_over) = input::files(inputs)?;
        let name = inputs.iter().map(Input::name).collect::<Vec<_>>().join(" + ");
        Ok(Self::of(name, files, passed_over))
    }

    /// A corpus of one file that is in memory; `name` stands in the report and in error messages.
    #[must_use]
    pub fn from_bytes(name: &str, bytes: impl Into<Cow<'static, [u8]>>, format: Format) -> Self {
        let bytes = bytes.into();
        let file = CorpusFile {
            name: name.to_owned(),
            path: name.into(),
            kind: Kind { format, compression: Compression::None },
            bytes: Some(bytes.len() as u64),
            source: Source::Bytes(bytes),
        };
        Self::of(name.to_owned(), vec![file], 0)
    }

    fn of(name: String, files: Vec<CorpusFile>, passed_over: u64) -> Self {
        Self {
            name,
            bytes: files.iter().map(|file| file.bytes).sum(),
            files: files.into_iter(),
            current: None,
            done: Vec::new(),
            passed_over,
            bytes_read: Arc::default(),
            next_index: 0,
            failed: false,
        }
    }

    /// The names of what was given, without folders.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The size of all files as stored, in bytes, where it is known beforehand.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        self.bytes
    }

    /// A counter of the bytes read so far, for progress.
    #[must_use]
    pub fn bytes_read(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.bytes_read)
    }

    /// Reads whatever was not asked for, so that the hashes cover the whole corpus, and says what was read.
    ///
    /// # Errors
    ///
    /// If the rest cannot be read.
    pub fn into_identity(mut self) -> Result<CorpusIdentity> {
        self.close()?;
        while self.advance()? {
            self.close()?;
        }
        Ok(CorpusIdentity { name: self.name, files: self.done, passed_over: self.passed_over })
    }

    /// Opens the next file; false if there is none.
    fn advance(&mut self) -> Result<bool> {
        let Some(CorpusFile { name, path, kind, source, .. }) = self.files.next() else { return Ok(false) };
        let shown = Arc::clone(&path);
        let lines = source
            .open()
            .and_then(|source| Lines::new(self.done.len(), path, source, kind.compression, self.bytes_read()))
            .with_context(|| format!("cannot open corpus `{shown}`"))?;
        self.current = Some((FileName { name, format: kind.format }, lines));
        Ok(true)
    }

    /// Closes the file that is open, if there is one, and remembers what it was.
    fn close(&mut self) -> Result<()> {
        if let Some((FileName { name, format }, lines)) = self.current.take() {
            self.done.push(FileIdentity { name, format, sha256: lines.into_sha256()? });
        }
        Ok(())
    }

    fn read(&mut self) -> Result<Option<Sentence>> {
        loop {
            let Some((FileName { format, .. }, lines)) = &mut self.current else {
                if self.advance()? {
                    continue;
                }
                return Ok(None);
            };
            let sentence = match format {
                Format::Conllu => conllu::next(lines)?,
                Format::Text => text::next(lines)?,
                Format::Jsonl => jsonl::next(lines)?,
            };
            if let Some((origin, content)) = sentence {
                let index = self.next_index;
                self.next_index += 1;
                return Ok(Some(Sentence { index, origin, content }));
            }
            self.close()?;
        }
    }
}

impl Iterator for Corpus {
    type Item = Result<Sentence>;

    fn next(&mut self) -> Option<Self::Item> {
        // What follows an error may be the middle of a broken sentence: nobody is to read on.
        let read = if self.failed { None } else { self.read().transpose() };
        self.failed |= matches!(read, Some(Err(_)));
        read
    }
}
