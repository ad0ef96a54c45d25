//! The lines of one file: decompressed by its extension, bounded in length, checked to be UTF-8. Bytes are hashed and
//! counted as stored, before decompression.

use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, anyhow, ensure};
use flate2::read::MultiGzDecoder;
use sha2::{Digest, Sha256};

use super::bounds::{MAX_DECOMPRESSION_RATIO, MAX_LINE_BYTES, UNCHECKED_DECOMPRESSED_BYTES};
use super::sentence::Origin;
use crate::system::errors::ErrorExt;
use crate::system::files::digest::hex;
use crate::system::files::input::ensure_no_lfs_pointer;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    None,
    /// gzip (RFC 1952), with one or more members.
    Gzip,
    /// Zstandard (RFC 8878), with one or more frames.
    Zstd,
}

impl Compression {
    /// File name extensions with the compression that each implies.
    const EXTENSIONS: [(&str, Self); 2] = [("gz", Self::Gzip), ("zst", Self::Zstd)];

    /// Length of the longest magic number of a compression, in bytes. The first bytes of a file, up to this length,
    /// identify its compression.
    pub(super) const MAX_MAGIC_BYTES: usize = 4;

    /// Magic number of the compression, with which its files begin: RFC 1952, 2.3.1, and RFC 8878, 3.1.1. Empty for
    /// uncompressed files.
    const fn magic(self) -> &'static [u8] {
        match self {
            Self::None => b"",
            Self::Gzip => b"\x1f\x8b",
            Self::Zstd => b"\x28\xb5\x2f\xfd",
        }
    }

    /// Whether a file that begins with `start` may have this compression; true if `start` is too short to decide.
    pub(super) fn matches_start(self, start: &[u8]) -> bool {
        self.magic().iter().zip(start).all(|(expected, byte)| expected == byte)
    }

    /// Whether a file that begins with `start` is compressed by gzip or Zstandard.
    pub(super) fn is_compressed(start: &[u8]) -> bool {
        Self::EXTENSIONS.iter().any(|(_, compression)| start.starts_with(compression.magic()))
    }

    pub(super) fn name(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Gzip => Some("gzip"),
            Self::Zstd => Some("zstd"),
        }
    }

    /// Compression by the extension of a path, and the path without that extension.
    pub(super) fn from_path(path: &Path) -> (Self, PathBuf) {
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

/// Reader of a file's stored bytes, before decompression, which hashes and counts them.
struct StoredBytes {
    source: Box<dyn Read + Send>,
    hash: Sha256,
    /// Number of bytes read so far from all files of the corpus, before decompression; shared by their readers.
    total_bytes_read: Arc<AtomicU64>,
    /// Number of bytes read so far from this file, before decompression.
    bytes_read: u64,
    /// Whether the source failed. The error of the decompressor then does not mean damaged data.
    has_failed: bool,
    /// First bytes of the file, kept to recognise its compression.
    start: Vec<u8>,
}

impl Read for StoredBytes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer).inspect_err(|error| {
            // The reader repeats an interrupted read.
            self.has_failed |= error.kind() != io::ErrorKind::Interrupted;
        })?;
        self.hash.update(&buffer[..read]);
        let missing = Compression::MAX_MAGIC_BYTES - self.start.len();
        self.start.extend(buffer[..read].iter().take(missing));
        self.total_bytes_read.fetch_add(read as u64, Ordering::Relaxed);
        self.bytes_read += read as u64;
        Ok(read)
    }
}

/// Reader that decompresses the stored bytes of a file.
enum Decoder {
    Plain(StoredBytes),
    Gzip(MultiGzDecoder<StoredBytes>),
    Zstd(zstd::Decoder<'static, BufReader<StoredBytes>>),
}

impl Decoder {
    /// The stored bytes from which the decoder reads.
    fn stored_bytes(&mut self) -> &mut StoredBytes {
        match self {
            Self::Plain(stored) => stored,
            Self::Gzip(decoder) => decoder.get_mut(),
            Self::Zstd(decoder) => decoder.get_mut().get_mut(),
        }
    }
}

impl Read for Decoder {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stored) => stored.read(buffer),
            Self::Gzip(decoder) => decoder.read(buffer),
            Self::Zstd(decoder) => decoder.read(buffer),
        }
    }
}

/// Reader of the lines of a file, numbered from 1, without their line ends.
pub(super) struct Lines {
    /// Number of the file in its corpus, counted from 0.
    file: usize,
    /// Path of the file as messages show it.
    path: Arc<str>,
    source: BufReader<Decoder>,
    compression: Compression,
    /// Number of the line that was read last, counted from 1; 0 before the first.
    number: u64,
    /// Bytes of the line that was read last, with its line end.
    buffer: Vec<u8>,
    /// Number of decompressed bytes read so far.
    position: u64,
    /// Offset in decompressed bytes at which the current digest began, and the digest so far; `None` without a digest.
    piece: Option<(u64, Sha256)>,
}

impl Lines {
    /// Makes the reader of `source`, which is file number `file` of its corpus and has the name `path` in messages. The
    /// reader adds the bytes that it reads, before decompression, to `read`.
    pub(super) fn new(
        file: usize,
        path: Arc<str>,
        source: Box<dyn Read + Send>,
        compression: Compression,
        read: Arc<AtomicU64>,
    ) -> io::Result<Self> {
        let stored = StoredBytes {
            source,
            hash: Sha256::new(),
            total_bytes_read: read,
            bytes_read: 0,
            has_failed: false,
            start: Vec::new(),
        };
        let decoder = match compression {
            Compression::None => Decoder::Plain(stored),
            Compression::Gzip => Decoder::Gzip(MultiGzDecoder::new(stored)),
            Compression::Zstd => Decoder::Zstd(zstd::Decoder::new(stored)?),
        };
        let source = BufReader::with_capacity(1 << 16, decoder);
        Ok(Self { file, path, source, compression, number: 0, buffer: Vec::new(), position: 0, piece: None })
    }

    /// Adds `lines` to all line numbers, for a reader that starts after the first `lines` lines of its file.
    pub(super) fn with_preceding_lines(mut self, lines: u64) -> Self {
        self.number = lines;
        self
    }

    /// Starts a digest of the following lines. Returns the numbers of decompressed bytes and of lines before them.
    pub(super) fn start_digest(&mut self) -> (u64, u64) {
        self.piece = Some((self.position, Sha256::new()));
        (self.position, self.number)
    }

    /// Ends the current digest. Returns the number of decompressed bytes since its start, and their SHA-256.
    pub(super) fn finish_digest(&mut self) -> (u64, [u8; 32]) {
        let (start, hash) = self.piece.take().unwrap_or_default();
        (self.position - start, hash.finalize().into())
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// File and line number of the line that was read last.
    pub(super) fn origin(&self) -> Origin {
        Origin { file: self.file, path: Arc::clone(&self.path), line: self.number }
    }

    /// The first byte of the next line, which stays unread; `None` at the end.
    pub(super) fn first_byte(&mut self) -> Result<Option<u8>> {
        loop {
            let first = self.source.fill_buf().map(|bytes| bytes.first().copied());
            match first {
                Ok(first) => return Ok(first),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.read_error(error)),
            }
        }
    }

    /// Reads the next line, without its line end (LF or CR LF) and without a byte order mark; `None` at the end. Fails if it is
    /// too long or not UTF-8.
    pub(super) fn next(&mut self) -> Result<Option<&str>> {
        self.buffer.clear();
        // One byte more than the longest line distinguishes a line that is too long from one that just fits.
        let mut bounded = (&mut self.source).take(MAX_LINE_BYTES as u64 + 1);
        let read = bounded.read_until(b'\n', &mut self.buffer).map_err(|error| self.read_error(error))?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        self.position += read as u64;
        if let Some((_, hash)) = &mut self.piece {
            hash.update(&self.buffer);
        }
        self.ensure_plausible_ratio()?;
        self.decode_line(read).at_line(&self.path, self.number).map(Some)
    }

    /// Fails on a decompression bomb: a file with more than [`MAX_DECOMPRESSION_RATIO`] decompressed bytes per stored byte.
    fn ensure_plausible_ratio(&mut self) -> Result<()> {
        if self.position <= UNCHECKED_DECOMPRESSED_BYTES {
            return Ok(());
        }
        let stored = self.source.get_mut().stored_bytes().bytes_read;
        let most = stored.saturating_mul(MAX_DECOMPRESSION_RATIO).max(UNCHECKED_DECOMPRESSED_BYTES);
        ensure!(
            self.compression == Compression::None || self.position <= most,
            anyhow!(
                "{stored} compressed bytes have become more than {most}: no text is compressed to a {MAX_DECOMPRESSION_RATIO}th"
            )
            .at_line(&self.path, self.number)
            .hint("decompress it first if it is meant so")
        );
        Ok(())
    }

    /// Decodes the line in the buffer, which has `read` bytes with its line end. Fails if it is too long, not UTF-8 or a
    /// git LFS pointer.
    fn decode_line(&self, read: usize) -> Result<&str> {
        ensure!(
            read <= MAX_LINE_BYTES,
            "the line has more than {MAX_LINE_BYTES} bytes: a corpus has a sentence or a word to a line"
        );
        let mut line = self.buffer.strip_suffix(b"\n").unwrap_or(&self.buffer);
        line = line.strip_suffix(b"\r").unwrap_or(line);
        if self.number == 1 {
            ensure_no_lfs_pointer(line)?;
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        match std::str::from_utf8(line) {
            Ok(line) => Ok(line),
            Err(_) if self.number == 1 && Compression::is_compressed(line) => {
                Err(anyhow!("these are compressed bytes")
                    .hint("the file's name must end in .gz or .zst, standard input is to be decompressed first"))
            }
            Err(error) => {
                let (number, byte) = (error.valid_up_to() + 1, line[error.valid_up_to()]);
                let problem = anyhow!("not UTF-8 (byte {number} of the line is 0x{byte:02x})");
                Err(problem.hint("convert the file to UTF-8 first"))
            }
        }
    }

    fn read_error(&mut self, error: io::Error) -> anyhow::Error {
        let stored = self.source.get_mut().stored_bytes();
        let (failed, is_compressed) = (stored.has_failed, self.compression.matches_start(&stored.start));
        let Self { path, number, compression, .. } = self;
        let error = match compression.name().filter(|_| !failed) {
            None => anyhow!(error).context(format!("cannot read `{path}` after line {number}")),
            Some(name) if !is_compressed => anyhow!("`{path}` is not compressed by {name} as its name says")
                .hint("name it without that extension, or compress it"),
            Some(name) => {
                let problem = if error.kind() == io::ErrorKind::UnexpectedEof {
                    anyhow!("`{path}` is cut short after line {number}, its {name} data has no end")
                } else {
                    anyhow!("`{path}` is damaged after line {number}, its {name} data cannot be decompressed ({error})")
                };
                problem.hint("get or compress it again")
            }
        };
        error.with_line(*number).with_file(path)
    }

    /// SHA-256 of all stored bytes of the file, in lower-case hexadecimal; reads the bytes that are still unread.
    pub(super) fn into_sha256(mut self) -> Result<String> {
        let stored = self.source.get_mut().stored_bytes();
        io::copy(stored, &mut io::sink()).cannot("read", &self.path)?;
        Ok(hex(&std::mem::take(&mut stored.hash).finalize()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressed_bytes_are_told_by_their_beginning() {
        let told = Compression::is_compressed;
        assert!(told(b"\x1f\x8b\x08") && told(b"\x28\xb5\x2f\xfd\x24"));
        assert!(!told(b"") && !told(b"\xe9t\xe9") && !told(b"\x1f"));
        assert!(Compression::Gzip.matches_start(b"\x1f") && Compression::Zstd.matches_start(b""));
        assert!(!Compression::Gzip.matches_start(b"one") && !Compression::Zstd.matches_start(b"\x1f\x8b"));
    }
}
