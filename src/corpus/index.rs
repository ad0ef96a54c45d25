//! The index of a corpus: where each segment of its sentences stands, so that a shard reads its own part alone.
//!
//! | bytes | what they are |
//! |---|---|
//! | first line | `MAGIC` and `FORMAT_VERSION` |
//! | for each segment | a [`Segment`] by [postcard](https://postcard.jamesmunns.com/wire-format), and its SHA-256 |
//! | then | `Contents` by postcard |
//! | last 40 | SHA-256 of the contents, and their length as 8 bytes, the least first |
//!
//! Whoever takes some segments reads the contents and the records of these.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::compression::Compression;
use super::family::Repeats;
use super::files::CorpusFile;
use super::format::Format;
use super::sentence::Family;
use crate::system::input;

/// Whatever is done to sentences in the order of the corpus stays within so many of them: packs, windows, pairs and documents
/// never cross a multiple of it. What is computed for a segment depends on nothing outside it, and segments can be computed
/// anywhere.
pub const SEGMENT_SENTENCES: u64 = 256;

const MAGIC: &str = "headscope index ";

/// Raised whenever what is written changes, or the way in which sentences and their families are told.
const FORMAT_VERSION: u32 = 1;

const DIGEST_BYTES: usize = 32;
const LENGTH_BYTES: usize = 8;

/// The longest record or contents that are read, in bytes: 256 MiB. Contents have some 3 bytes for each segment, a record has
/// less than a kilobyte, but for the name of a document or the fields of entities, which may be as long as a line.
const LONGEST: u64 = 256 << 20;

/// What an index counts is below it, so that whatever is counted on from there stays a number.
const COUNTABLE: u64 = 1 << 62;

/// All but the segments.
#[derive(Serialize, Deserialize)]
struct Contents {
    /// The version of the program, which may tell sentences otherwise than the next.
    program: String,
    files: Vec<IndexedFile>,
    repeats: Repeats,
    /// Bytes of the record of each segment, its digest included.
    lengths: Vec<u64>,
}

/// A file as it was when it was indexed.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct IndexedFile {
    pub name: String,
    pub format: Format,
    pub is_compressed: bool,
    pub bytes: u64,
    pub sha256: String,
    pub generated: Option<String>,
}

/// A segment: [`SEGMENT_SENTENCES`] sentences in a row; the last has as many as are left.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Segment {
    /// How many families begin before it.
    families_before: u64,
    kin: Vec<Kin>,
    /// Where its sentences stand, in order.
    pub pieces: Vec<Piece>,
}

/// The family of a sentence, in a byte where it is the next new one.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Kin {
    /// It begins with the sentence, and has the next number.
    Next,
    /// It begins with the sentence, and has another number.
    Begins(u64),
    /// It began before.
    Of(u64),
}

/// The part of a segment that is in one file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Piece {
    /// The file, counted from 0.
    pub file: usize,
    pub sentences: u64,
    /// Sentences of the file before it.
    pub before: u64,
    /// Bytes of the file before it, decompressed.
    pub start: u64,
    /// Its bytes, decompressed.
    pub bytes: u64,
    /// Lines of the file before it.
    pub lines_before: u64,
    pub sha256: [u8; DIGEST_BYTES],
    /// The document under way where it begins.
    pub document: u64,
    /// What the file has declared before it of the fields of entities.
    pub entity_fields: Option<Box<str>>,
    /// The document of the sentence before it, where sentences name theirs.
    pub document_name: Option<DocumentName>,
}

/// The name of a document, as [`Name`](super::reader::Name), in a form that says which it is.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum DocumentName {
    Text(Box<str>),
    Number(i64),
}

impl Segment {
    /// An empty one, before which so many families begin.
    pub(super) fn new(families_before: u64) -> Self {
        Self { families_before, ..Self::default() }
    }

    /// Whether it has all the sentences that it can have.
    pub(super) fn is_full(&self) -> bool {
        self.kin.len() as u64 == SEGMENT_SENTENCES
    }

    /// Adds a piece with the families of its sentences; how many families begin before whatever is next.
    pub(super) fn add(&mut self, piece: Piece, families: &[Family], mut families_before: u64) -> u64 {
        for family in families {
            self.kin.push(match family {
                Family { number, is_first: false } => Kin::Of(*number),
                Family { number, .. } if *number == families_before => Kin::Next,
                Family { number, .. } => Kin::Begins(*number),
            });
            families_before += u64::from(family.is_first);
        }
        self.pieces.push(piece);
        families_before
    }

    /// Whether it can be a segment of a corpus of so many files.
    fn is_of(&self, files: usize) -> bool {
        let countable =
            |piece: &Piece| [piece.sentences, piece.before, piece.lines_before].iter().all(|&count| count < COUNTABLE);
        self.families_before < COUNTABLE
            && self.kin.len() as u64 <= SEGMENT_SENTENCES
            && self.pieces.iter().all(|piece| piece.file < files && countable(piece))
            && self.pieces.iter().map(|piece| u128::from(piece.sentences)).sum::<u128>() == self.kin.len() as u128
    }

    /// The families of its sentences.
    pub(super) fn families(&self) -> Vec<Family> {
        let mut next = self.families_before;
        let family = |kin: &Kin| {
            let family = match *kin {
                Kin::Next => Family::alone(next),
                Kin::Begins(number) => Family::alone(number),
                Kin::Of(number) => Family { number, is_first: false },
            };
            next += u64::from(family.is_first);
            family
        };
        self.kin.iter().map(family).collect()
    }
}

/// An index as it is written: segments in order, then all else.
pub(super) struct Records<W> {
    write: W,
    lengths: Vec<u64>,
}

impl<W: FnMut(&[u8]) -> Result<()>> Records<W> {
    pub(super) fn new(mut write: W) -> Result<Self> {
        write(format!("{MAGIC}{FORMAT_VERSION}\n").as_bytes())?;
        Ok(Self { write, lengths: Vec::new() })
    }

    pub(super) fn add(&mut self, segment: &Segment) -> Result<()> {
        let record = sealed(segment)?;
        self.lengths.push(record.len() as u64);
        (self.write)(&record)
    }

    /// Ends the index; how many segments it has.
    pub(super) fn finish(mut self, files: Vec<IndexedFile>, repeats: Repeats) -> Result<usize> {
        let (program, segments) = (env!("CARGO_PKG_VERSION").to_owned(), self.lengths.len());
        let mut contents = sealed(&Contents { program, files, repeats, lengths: self.lengths })?;
        let length = (contents.len() - DIGEST_BYTES) as u64;
        contents.extend(length.to_le_bytes());
        (self.write)(&contents)?;
        Ok(segments)
    }
}

/// A value by postcard, and its digest.
fn sealed(value: &impl Serialize) -> Result<Vec<u8>> {
    let mut bytes = postcard::to_stdvec(value)?;
    let digest = Sha256::digest(&bytes);
    bytes.extend_from_slice(&digest);
    Ok(bytes)
}

/// The same value again, if its digest is right.
fn unsealed<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T> {
    let (value, digest) = bytes.split_at_checked(bytes.len().saturating_sub(DIGEST_BYTES)).context(DAMAGED)?;
    ensure!(Sha256::digest(value)[..] == *digest, DAMAGED);
    postcard::from_bytes(value).context(DAMAGED)
}

const DAMAGED: &str = "it is damaged or cut short: make it again with `headscope index`";

/// An index that is open.
#[derive(Debug)]
pub struct Index {
    /// Its path, for messages.
    shown: String,
    file: Mutex<File>,
    pub(super) files: Vec<IndexedFile>,
    pub(super) repeats: Repeats,
    /// Where each record begins, and where the last ends.
    bounds: Vec<u64>,
}

impl Index {
    /// Opens the index at `path`.
    ///
    /// # Errors
    ///
    /// If it cannot be read, is none, is damaged, or another version of the program made it.
    pub fn open(path: &Path) -> Result<Self> {
        let shown = path.display().to_string();
        Self::read(path, shown.clone()).with_context(|| format!("cannot use the index `{shown}`"))
    }

    fn read(path: &Path, shown: String) -> Result<Self> {
        let mut file = input::open(path)?;
        let mut beginning = [0; MAGIC.len() + 2];
        ensure!(
            file.read_exact(&mut beginning).is_ok() && beginning.starts_with(MAGIC.as_bytes()),
            "it is not what `headscope index` writes"
        );
        let expected = format!("{MAGIC}{FORMAT_VERSION}\n");
        ensure!(beginning == *expected.as_bytes(), "it has another format: make it again with `headscope index`");
        let end = file.seek(SeekFrom::End(0))?.checked_sub(LENGTH_BYTES as u64).context(DAMAGED)?;
        file.seek(SeekFrom::Start(end))?;
        let mut length = [0; LENGTH_BYTES];
        file.read_exact(&mut length)?;
        let length = u64::from_le_bytes(length).checked_add(DIGEST_BYTES as u64).filter(|length| *length <= LONGEST);
        let start = length.and_then(|length| end.checked_sub(length)).context(DAMAGED)?;
        let contents: Vec<u8> = stretch(&mut file, start, end)?;
        let Contents { program, files, repeats, lengths } = unsealed(&contents)?;
        let this = env!("CARGO_PKG_VERSION");
        ensure!(program == this, "version {program} made it, and this is {this}: make it again with `headscope index`");
        let mut bounds = vec![beginning.len() as u64];
        for length in lengths {
            let end = bounds.last().and_then(|end| end.checked_add(length)).filter(|_| length <= LONGEST);
            bounds.push(end.context(DAMAGED)?);
        }
        ensure!(bounds.last() == Some(&start), DAMAGED);
        Ok(Self { shown, file: Mutex::new(file), files, repeats, bounds })
    }

    /// How many segments there are.
    pub(super) fn segments(&self) -> u64 {
        self.bounds.len() as u64 - 1
    }

    /// A segment by its number, counted from 0.
    pub(super) fn segment(&self, number: u64) -> Result<Segment> {
        let read = || -> Result<Segment> {
            let at = usize::try_from(number)?;
            let (start, end) = (self.bounds[at], self.bounds[at + 1]);
            let record = stretch(&mut self.file.lock().unwrap_or_else(PoisonError::into_inner), start, end)?;
            let segment: Segment = unsealed(&record)?;
            ensure!(segment.is_of(self.files.len()), DAMAGED);
            Ok(segment)
        };
        read().with_context(|| format!("cannot use the index `{}`", self.shown))
    }

    /// Makes sure that these are the files that were indexed, as far as their names and sizes tell.
    pub(super) fn ensure_of(&self, files: &[CorpusFile]) -> Result<()> {
        let (shown, of) = (&self.shown, self.files.len());
        ensure!(files.len() == of, "the index `{shown}` is of {of} files, and the corpus has {}: {ANEW}", files.len());
        for (known, file) in self.files.iter().zip(files) {
            let is_compressed = file.kind.compression != Compression::None;
            if (&known.name, known.format, known.is_compressed) != (&file.name, file.kind.format, is_compressed) {
                bail!(
                    "the index `{shown}` has `{}` ({}) where the corpus has `{}` ({}): {ANEW}",
                    known.name,
                    known.format,
                    file.path,
                    file.kind.format
                );
            }
            if file.bytes != Some(known.bytes) {
                return Err(self.changed(&file.path));
            }
        }
        Ok(())
    }

    /// The error of a file that is not what was indexed.
    pub(super) fn changed(&self, path: &str) -> anyhow::Error {
        anyhow!("corpus `{path}` has changed since the index `{}` was made of it: {ANEW}", self.shown)
    }
}

const ANEW: &str = "make the index again with `headscope index`";

/// The bytes of a file from one place to another.
fn stretch(file: &mut File, start: u64, end: u64) -> Result<Vec<u8>> {
    let length = end - start;
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes)?;
    ensure!(bytes.len() as u64 == length, DAMAGED);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_told_again() {
        let family = |number, is_first| Family { number, is_first };
        // Two begin as counted, one is older, one could not be remembered, and the next is counted on.
        let families = [family(5, true), family(6, true), family(2, false), family(1 << 60, true), family(8, true)];
        let piece = Piece {
            file: 0,
            sentences: 5,
            before: 0,
            start: 0,
            bytes: 0,
            lines_before: 0,
            sha256: [0; 32],
            document: 0,
            entity_fields: None,
            document_name: None,
        };
        let mut segment = Segment::new(5);
        assert_eq!(segment.add(piece, &families, 5), 9);
        assert_eq!(segment.kin, [Kin::Next, Kin::Next, Kin::Of(2), Kin::Begins(1 << 60), Kin::Next]);
        assert_eq!(segment.families(), families);
    }

    #[test]
    fn what_is_no_index_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("corpus.index");
        let mut whole = Vec::new();
        let mut records = Records::new(|bytes: &[u8]| {
            whole.extend_from_slice(bytes);
            Ok(())
        })
        .unwrap();
        records.add(&Segment::default()).unwrap();
        assert_eq!(records.finish(Vec::new(), Repeats::default()).unwrap(), 1);
        let open = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            Index::open(&path)
        };
        assert_eq!(open(&whole).unwrap().segment(0).unwrap(), Segment::default());
        for place in 0..whole.len() {
            assert!(open(&whole[..place]).is_err(), "cut at {place}");
            let mut flipped = whole.clone();
            flipped[place] ^= 1;
            let found = open(&flipped).and_then(|index| index.segment(0));
            assert!(found.is_err(), "flipped at {place}");
        }
        let other = open(b"headscope index 0\nwhatever").unwrap_err();
        assert!(format!("{other:#}").ends_with("it has another format: make it again with `headscope index`"));
    }
}
