//! The index of a corpus: the place of each segment of sentences, so that a shard reads only its own part.
//!
//! | bytes | what they are |
//! |---|---|
//! | first line | `MAGIC` and `FORMAT_VERSION` |
//! | for each segment | a [`Segment`] by [postcard](https://postcard.jamesmunns.com/wire-format), and its SHA-256 |
//! | then | the contents by postcard, as `IndexWriter::finish` has them |
//! | last 40 | SHA-256 of the contents, and their length as 8 little-endian bytes |
//!
//! Each count is checked against the remaining bytes before its sequence is read, so reading allocates little more than these
//! bytes.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::{Error, Result, anyhow, ensure};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::bounds::MAX_LINE_BYTES;
use super::family::{RepeatCounts, UnitMarks};
use super::files::CorpusFile;
use super::formats::Format;
use super::formats::reader::DocumentName;
use super::lines::Compression;
use super::sentence::SentenceGroup;
use crate::system::counts::format_count;
use crate::system::errors::ErrorExt;
use crate::system::files::input;

#[cfg(test)]
mod tests;

/// Number of sentences in a segment. Packs, windows, pairs and documents end at each multiple of it, so that a segment is
/// computed from its own sentences alone, on any machine.
pub const SEGMENT_SENTENCES: u64 = 256;

/// Beginning of every index, before the version of its format.
const MAGIC: &str = "headscope index ";

/// Version of the index format, raised when the bytes, or the rules for finding sentences and families, change after a release.
const FORMAT_VERSION: u32 = 2;

/// Length of a SHA-256, in bytes.
const DIGEST_BYTES: usize = 32;
/// Length of the last field of an index, the length of its contents, in bytes.
const LENGTH_BYTES: usize = 8;

/// Maximum bytes of a 64-bit number in postcard, which stores seven bits a byte.
const MAX_NUMBER_BYTES: u64 = 10;

/// Minimum length of a segment's record, in bytes: three numbers of one byte, and the digest.
const MIN_RECORD_BYTES: u64 = 3 + DIGEST_BYTES as u64;

/// Maximum length of the contents of an index, in bytes: enough for 4 billion sentences or half a million files. A segment
/// takes at most 4 bytes of it (the length of its record, below 256 MiB), a file some hundred.
const MAX_CONTENTS_BYTES: u64 = 64 << 20;

/// Minimum length of a file's entry in the contents, in bytes: its SHA-256 in hexadecimal with a length byte (65), and five
/// more fields of at least one byte.
const MIN_FILE_ENTRY_BYTES: u64 = 65 + 5;

/// Maximum length of a segment's record in a corpus of `files` files, in bytes. The segment has at most `files + 1` pieces.
/// Only two of them can begin within a file, and so hold entity fields or a document name, each read from one line.
fn max_record_bytes(files: u64) -> u64 {
    const FAMILY_BYTES: u64 = 1 + MAX_NUMBER_BYTES;
    const PIECE_BYTES: u64 = 8 * MAX_NUMBER_BYTES + DIGEST_BYTES as u64 + 2 * (2 + MAX_NUMBER_BYTES);
    let pieces = files.saturating_add(1).saturating_mul(PIECE_BYTES);
    (2 * MAX_LINE_BYTES as u64 + SEGMENT_SENTENCES * FAMILY_BYTES + 3 * MAX_NUMBER_BYTES + DIGEST_BYTES as u64)
        .saturating_add(pieces)
}

/// Maximum of every count in an index, low enough that sums of counts cannot overflow.
const MAX_COUNT: u64 = 1 << 62;

/// A file of the corpus as the index stores it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct IndexedFile {
    pub name: String,
    pub format: Format,
    pub is_compressed: bool,
    pub bytes: u64,
    pub sha256: String,
    pub generated: Option<String>,
}

/// Segment of consecutive sentences: [`SEGMENT_SENTENCES`] of them, fewer in the last segment.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Segment {
    families_before: u64,
    families: Vec<FamilyId>,
    pub pieces: Vec<Piece>,
}

/// Family of a sentence as the index stores it. The common case, a sentence that begins the next family, takes a single
/// byte.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
enum FamilyId {
    /// The sentence begins a family whose number follows the latest one.
    Next,
    /// The sentence begins a family with this number.
    Begins(u64),
    /// The sentence joins the family with this number, which began with an earlier sentence.
    Of(u64),
}

/// Consecutive lines of one file whose sentences are in one segment.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Piece {
    /// Number of the file in the corpus, counted from 0.
    pub file: usize,
    pub sentences: u64,
    /// Number of the file's sentences before the piece.
    pub before: u64,
    /// Offset of the piece in the decompressed file, in bytes.
    pub start: u64,
    /// Length of the piece in decompressed bytes.
    pub bytes: u64,
    /// Number of the file's lines before the piece.
    pub lines_before: u64,
    /// SHA-256 of the decompressed bytes of the piece.
    pub sha256: [u8; DIGEST_BYTES],
    /// Document in which the piece begins, as the index in the corpus of the document's first sentence.
    pub document: u64,
    /// Number of documents that began before the piece.
    pub documents_before: u64,
    /// Field names of entity annotations that the file declared before the piece.
    pub entity_fields: Option<Box<str>>,
    /// Name of the document that the sentence before the piece belongs to, in formats that name each sentence's document.
    pub document_name: Option<DocumentName>,
}

impl Segment {
    pub(super) fn new(families_before: u64) -> Self {
        Self { families_before, ..Self::default() }
    }

    pub(super) fn is_full(&self) -> bool {
        self.families.len() as u64 == SEGMENT_SENTENCES
    }

    /// Adds a piece and the families of its sentences. Returns `families_before` plus the number of families that begin in
    /// the piece.
    pub(super) fn add_piece(&mut self, piece: Piece, families: &[SentenceGroup], mut families_before: u64) -> u64 {
        for family in families {
            self.families.push(match family {
                SentenceGroup { number, is_first: false } => FamilyId::Of(*number),
                SentenceGroup { number, .. } if *number == families_before => FamilyId::Next,
                SentenceGroup { number, .. } => FamilyId::Begins(*number),
            });
            families_before += u64::from(family.is_first);
        }
        self.pieces.push(piece);
        families_before
    }

    fn read(bytes: &[u8], sentences: u64, files: usize) -> Result<Self> {
        let (families_before, rest) = parse(bytes)?;
        let (families, rest) = parse_sequence(rest, SEGMENT_SENTENCES)?;
        let (pieces, rest) = parse_sequence(rest, files as u64 + 1)?;
        let segment = Self { families_before, families, pieces };
        ensure!(rest.is_empty() && segment.is_valid(sentences, files), damaged_error());
        Ok(segment)
    }

    /// Whether the segment has `sentences` sentences, its pieces lie in the first `files` files, and all its counts are in
    /// bounds.
    fn is_valid(&self, sentences: u64, files: usize) -> bool {
        let is_bounded = |piece: &Piece| {
            let counts = [piece.sentences, piece.before, piece.lines_before, piece.documents_before];
            counts.iter().all(|&count| count < MAX_COUNT)
        };
        self.families_before < MAX_COUNT
            && self.families.len() as u64 == sentences
            && self.pieces.iter().all(|piece| piece.file < files && is_bounded(piece))
            && self.pieces.iter().map(|piece| u128::from(piece.sentences)).sum::<u128>() == self.families.len() as u128
    }

    pub(super) fn families(&self) -> Vec<SentenceGroup> {
        let mut next = self.families_before;
        let family = |id: &FamilyId| {
            let family = match *id {
                FamilyId::Next => SentenceGroup::new(next),
                FamilyId::Begins(number) => SentenceGroup::new(number),
                FamilyId::Of(number) => SentenceGroup { number, is_first: false },
            };
            next += u64::from(family.is_first);
            family
        };
        self.families.iter().map(family).collect()
    }
}

/// Writer of an index: the segments in order, then the contents.
pub(super) struct IndexWriter<W> {
    writer: W,
    /// Length in bytes of the record of each segment written so far.
    record_lengths: Vec<u64>,
}

impl<W: FnMut(&[u8]) -> Result<()>> IndexWriter<W> {
    pub(super) fn new(mut write: W) -> Result<Self> {
        write(format!("{MAGIC}{FORMAT_VERSION}\n").as_bytes())?;
        Ok(Self { writer: write, record_lengths: Vec::new() })
    }

    pub(super) fn add_segment(&mut self, segment: &Segment) -> Result<()> {
        let record = seal(segment)?;
        self.record_lengths.push(record.len() as u64);
        (self.writer)(&record)
    }

    /// Writes the contents at the end of the index, and returns the number of segments. Fails if the contents are too long.
    pub(super) fn finish(mut self, files: &[IndexedFile], repeats: RepeatCounts, marks: UnitMarks) -> Result<usize> {
        let segments = self.record_lengths.len();
        let mut contents = seal(&(env!("CARGO_PKG_VERSION"), files, repeats, marks, &self.record_lengths))?;
        let length = (contents.len() - DIGEST_BYTES) as u64;
        let files = files.len();
        let too_long = || {
            anyhow!(
                "of {files} files and {segments} segments an index would have {length} bytes beside its records, and \
                 {MAX_CONTENTS_BYTES} are read"
            )
        };
        ensure!(length <= MAX_CONTENTS_BYTES, too_long().hint("put several files into one"));
        contents.extend(length.to_le_bytes());
        (self.writer)(&contents)?;
        Ok(segments)
    }
}

/// Serialises a value by postcard and appends its SHA-256.
fn seal(value: &impl Serialize) -> Result<Vec<u8>> {
    let mut bytes = postcard::to_stdvec(value)?;
    let digest = Sha256::digest(&bytes);
    bytes.extend_from_slice(&digest);
    Ok(bytes)
}

/// Returns the value without the SHA-256 that follows it. Fails if the digest is not that of the value.
fn unseal(bytes: &[u8]) -> Result<&[u8]> {
    let (value, digest) = bytes.split_last_chunk::<DIGEST_BYTES>().ok_or_else(damaged_error)?;
    ensure!(Sha256::digest(value)[..] == *digest, damaged_error());
    Ok(value)
}

/// Parses a postcard value. Returns the value and the remaining bytes.
fn parse<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<(T, &'a [u8])> {
    postcard::take_from_bytes(bytes).map_err(|_| damaged_error())
}

/// Parses a postcard sequence of at most `most` items. Returns the items and the remaining bytes. Fails on more items,
/// before allocating any.
fn parse_sequence<'a, T: Deserialize<'a>>(bytes: &'a [u8], most: u64) -> Result<(Vec<T>, &'a [u8])> {
    let (count, mut rest) = parse::<u64>(bytes)?;
    ensure!(count <= most, damaged_error());
    let mut items = Vec::with_capacity(usize::try_from(count)?);
    for _ in 0..count {
        let item;
        (item, rest) = parse(rest)?;
        items.push(item);
    }
    Ok((items, rest))
}

fn damaged_error() -> Error {
    anyhow!("it is damaged or cut short").hint(REINDEX_HINT)
}

/// Hint on a damaged or outdated index.
const REINDEX_HINT: &str = "make it again with `headscope index`";

/// Index of a corpus, open for reading.
#[derive(Debug)]
pub struct Index {
    /// Path of the index as messages show it.
    display_path: String,
    file: Mutex<File>,
    pub(super) indexed_files: Vec<IndexedFile>,
    pub(super) repeats: RepeatCounts,
    pub(super) marks: UnitMarks,
    /// Byte offset in the index of each segment's record, followed by the end of the last record.
    record_offsets: Vec<u64>,
}

impl Index {
    /// Opens an index. Fails if it is damaged, or another version of the program made it.
    pub fn open(path: &Path) -> Result<Self> {
        let shown = path.display().to_string();
        Self::read(path, shown.clone()).cannot("use the index", &shown)
    }

    fn read(path: &Path, shown: String) -> Result<Self> {
        let mut file = input::open_regular_file(path)?;
        let mut beginning = [0; MAGIC.len() + 2];
        ensure!(
            file.read_exact(&mut beginning).is_ok() && beginning.starts_with(MAGIC.as_bytes()),
            "it is not what `headscope index` writes"
        );
        let expected = format!("{MAGIC}{FORMAT_VERSION}\n");
        ensure!(beginning == *expected.as_bytes(), anyhow!("it has another format").hint(REINDEX_HINT));
        let end = file.seek(SeekFrom::End(0))?.checked_sub(LENGTH_BYTES as u64).ok_or_else(damaged_error)?;
        file.seek(SeekFrom::Start(end))?;
        let mut length = [0; LENGTH_BYTES];
        file.read_exact(&mut length)?;
        let length = Some(u64::from_le_bytes(length)).filter(|length| *length <= MAX_CONTENTS_BYTES);
        let start =
            length.and_then(|length| end.checked_sub(length + DIGEST_BYTES as u64)).ok_or_else(damaged_error)?;
        let records = start.checked_sub(beginning.len() as u64).ok_or_else(damaged_error)?;
        let contents: Vec<u8> = read_range(&mut file, start, end)?;
        let contents = unseal(&contents)?;
        let (program, rest) = parse::<String>(contents)?;
        let this = env!("CARGO_PKG_VERSION");
        ensure!(program == this, anyhow!("version {program} made it, and this is {this}").hint(REINDEX_HINT));
        let (files, rest) = parse_sequence::<IndexedFile>(rest, rest.len() as u64 / MIN_FILE_ENTRY_BYTES)?;
        let (repeats, rest) = parse::<RepeatCounts>(rest)?;
        let (marks, rest) = parse::<UnitMarks>(rest)?;
        let (lengths, rest) = parse_sequence::<u64>(rest, records / MIN_RECORD_BYTES)?;
        // A corpus without sentences still has one segment.
        let segments = lengths.len() as u64;
        let has_all = segments == repeats.read.div_ceil(SEGMENT_SENTENCES) || repeats.read == 0 && segments == 1;
        ensure!(rest.is_empty() && has_all, damaged_error());
        let mut bounds = vec![beginning.len() as u64];
        let possible = MIN_RECORD_BYTES..=max_record_bytes(files.len() as u64);
        for length in lengths {
            let end = bounds.last().and_then(|end| end.checked_add(length)).filter(|_| possible.contains(&length));
            bounds.push(end.ok_or_else(damaged_error)?);
        }
        ensure!(bounds.last() == Some(&start), damaged_error());
        Ok(Self {
            display_path: shown,
            file: Mutex::new(file),
            indexed_files: files,
            repeats,
            marks,
            record_offsets: bounds,
        })
    }

    pub(super) fn segment_count(&self) -> u64 {
        self.record_offsets.len() as u64 - 1
    }

    pub(super) fn read_segment(&self, number: u64) -> Result<Segment> {
        let read = || -> Result<Segment> {
            let segment = usize::try_from(number)?;
            let (start, end) = (self.record_offsets[segment], self.record_offsets[segment + 1]);
            let record = read_range(&mut self.file.lock().unwrap_or_else(PoisonError::into_inner), start, end)?;
            // The last segment may be shorter.
            let sentences = (self.repeats.read - number * SEGMENT_SENTENCES).min(SEGMENT_SENTENCES);
            Segment::read(unseal(&record)?, sentences, self.indexed_files.len())
        };
        read().cannot("use the index", &self.display_path)
    }

    /// Fails unless `files` agree with the indexed files in name, format, compression and size.
    pub(super) fn ensure_matches(&self, files: &[CorpusFile]) -> Result<()> {
        let shown = &self.display_path;
        let mismatch = |error: Error| error.with_file(shown).hint(SAME_FILES_HINT);
        let (indexed, count) = (format_count(self.indexed_files.len(), "file"), files.len());
        let other_count = || anyhow!("the index `{shown}` is of {indexed}, and the corpus has {count}");
        ensure!(count == self.indexed_files.len(), mismatch(other_count()));
        for (IndexedFile { name, format: then, is_compressed, bytes, .. }, file) in self.indexed_files.iter().zip(files)
        {
            let (path, now) = (&file.path, file.kind.format);
            let is_same_file = *name == file.name && *is_compressed == (file.kind.compression != Compression::None);
            let other_file =
                || anyhow!("the index `{shown}` has `{name}` ({then}) where the corpus has `{path}` ({now})");
            ensure!(is_same_file, mismatch(other_file()));
            let other_format =
                || anyhow!("the index `{shown}` was made of `{path}` as {then}, and here it is read as {now}");
            ensure!(*then == now, mismatch(other_format()));
            ensure!(file.bytes == Some(*bytes), self.changed_error(path));
        }
        Ok(())
    }

    pub(super) fn changed_error(&self, path: &str) -> Error {
        let changed = anyhow!("corpus `{path}` has changed since the index `{}` was made of it", self.display_path);
        changed.with_file(path).hint("make the index again with `headscope index`")
    }
}

/// Hint on files that differ from the indexed ones.
const SAME_FILES_HINT: &str =
    "name the same files, with the same --format, to `headscope index` and here, or make the index again";

/// Reads the bytes of a file from `start` to `end`.
fn read_range(file: &mut File, start: u64, end: u64) -> Result<Vec<u8>> {
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = vec![0; usize::try_from(end - start)?];
    file.read_exact(&mut bytes).map_err(|_| damaged_error())?;
    Ok(bytes)
}
