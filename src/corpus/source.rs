//! The bytes of a corpus: a file or standard input, read line by line and hashed on the way.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use super::{Format, Sentence, conllu, text};
use crate::digest::hex;

/// A corpus opened for reading: an iterator of its sentences in order.
pub struct Corpus {
    format: Format,
    lines: Lines,
    next_index: u64,
    bytes: Option<u64>,
}

/// What identifies a corpus in a report: nothing of it is a path.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct CorpusIdentity {
    /// The file's name, or `-` for standard input.
    pub name: String,
    /// The format it was read as.
    pub format: Format,
    /// SHA-256 of all its bytes, lower-case hexadecimal.
    pub sha256: String,
}

impl Corpus {
    /// Opens `path` (`-` for standard input) to be read as `format`.
    ///
    /// # Errors
    ///
    /// If there is no such file, or it is a folder, or cannot be opened.
    pub fn open(path: &Path, format: Format) -> Result<Self> {
        if path == Path::new("-") {
            return Ok(Self::new("-", Box::new(io::stdin()), format, None));
        }
        let shown = path.display();
        let metadata = match path.metadata() {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => bail!("no such corpus file: `{shown}`"),
            Err(error) => return Err(error).with_context(|| format!("cannot open corpus `{shown}`")),
        };
        if metadata.is_dir() {
            bail!("corpus `{shown}` is a folder: give one of its files");
        }
        let file = File::open(path).with_context(|| format!("cannot open corpus `{shown}`"))?;
        let bytes = metadata.is_file().then_some(metadata.len());
        let name = path.file_name().map_or_else(|| shown.to_string(), |name| name.to_string_lossy().into_owned());
        let mut corpus = Self::new(&name, Box::new(file), format, bytes);
        path.clone_into(&mut corpus.lines.path);
        Ok(corpus)
    }

    /// Reads a corpus from any source; `name` stands in the report and in error messages.
    #[must_use]
    pub fn new(name: &str, source: Box<dyn Read + Send>, format: Format, bytes: Option<u64>) -> Self {
        Self { format, lines: Lines::new(name, source), next_index: 0, bytes }
    }

    /// The size in bytes, where it is known beforehand.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        self.bytes
    }

    /// A counter of the bytes read so far, for progress.
    #[must_use]
    pub fn bytes_read(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.lines.read)
    }

    /// Reads whatever was not asked for, so that the hash covers the whole corpus, and says what was read.
    ///
    /// # Errors
    ///
    /// If the rest cannot be read.
    pub fn into_identity(mut self) -> Result<CorpusIdentity> {
        self.lines.drain()?;
        let digest = self.lines.hash.finalize();
        Ok(CorpusIdentity { name: self.lines.name, format: self.format, sha256: hex(&digest) })
    }
}

impl Iterator for Corpus {
    type Item = Result<Sentence>;

    fn next(&mut self) -> Option<Self::Item> {
        let sentence = match self.format {
            Format::Conllu => conllu::next(&mut self.lines, self.next_index),
            Format::Text => text::next(&mut self.lines, self.next_index),
        };
        self.next_index += 1;
        sentence.transpose()
    }
}

/// The lines of a corpus, numbered from 1, without their line ends.
pub(super) struct Lines {
    name: String,
    path: PathBuf,
    source: BufReader<Box<dyn Read + Send>>,
    hash: Sha256,
    read: Arc<AtomicU64>,
    number: u64,
    buffer: Vec<u8>,
}

impl Lines {
    fn new(name: &str, source: Box<dyn Read + Send>) -> Self {
        Self {
            name: name.to_owned(),
            path: PathBuf::from(name),
            source: BufReader::with_capacity(1 << 16, source),
            hash: Sha256::new(),
            read: Arc::default(),
            number: 0,
            buffer: Vec::new(),
        }
    }

    /// The 1-based number of the line that was read last.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// `FILE:LINE` of a line, as compilers print it.
    pub(super) fn at(&self, line: u64) -> String {
        format!("{}:{line}", self.path.display())
    }

    /// The next line, without `\n` or `\r\n` and without a byte order mark; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<&str>> {
        self.buffer.clear();
        let read = self
            .source
            .read_until(b'\n', &mut self.buffer)
            .with_context(|| format!("cannot read {} after line {}", self.path.display(), self.number))?;
        if read == 0 {
            return Ok(None);
        }
        self.hash.update(&self.buffer);
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        self.number += 1;
        let mut line = self.buffer.strip_suffix(b"\n").unwrap_or(&self.buffer);
        line = line.strip_suffix(b"\r").unwrap_or(line);
        if self.number == 1 {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        match std::str::from_utf8(line) {
            Ok(line) => Ok(Some(line)),
            Err(error) => bail!(
                "{}: not UTF-8 (byte {} of the line is 0x{:02x}): convert the file to UTF-8 first",
                self.at(self.number),
                error.valid_up_to() + 1,
                line[error.valid_up_to()],
            ),
        }
    }

    fn drain(&mut self) -> Result<()> {
        let mut chunk = vec![0; 1 << 16];
        loop {
            let read = self.source.read(&mut chunk).with_context(|| format!("cannot read {}", self.path.display()))?;
            if read == 0 {
                return Ok(());
            }
            self.hash.update(&chunk[..read]);
        }
    }
}
