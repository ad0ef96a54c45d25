//! Bounds on sentences and corpora, each checked before memory is spent (docs/CORPORA.md, "Bounds").

use anyhow::{Result, ensure};

use crate::system::errors::Facts;

/// The longest line that is read, in bytes, so that a file without line ends is refused instead of filling the memory.
/// A line is held in memory whole, and the longest sentences have some ten kilobytes.
pub const MAX_LINE_BYTES: usize = 16 << 20;

/// The most bytes of the words of a sentence, annotations included, and of running text that is given to a tokenizer at once, which
/// takes up to 500 bytes of memory for one of text (measured on dots). No encoder takes more than some ten kilobytes.
pub const MAX_SENTENCE_BYTES: usize = 1 << 20;

/// The most words of a sentence: no encoder takes more than some thousand tokens.
pub const MAX_WORDS: usize = 100_000;

/// The most different relations of a corpus; each takes up to 16 bytes per head in every block of the sums, and some
/// kilobytes of the report. Universal Dependencies has 37, and some hundred with the subtypes of all its languages.
pub const MAX_RELATIONS: usize = 1000;

/// The longest name of a relation, in bytes; names stand in the report and in its tables.
pub const MAX_RELATION_BYTES: usize = 256;

/// The most different types of links of a corpus: each takes up to 90 bytes per head in every block of the sums.
pub const MAX_LINK_TYPES: usize = 100;

/// The most links of a sentence: a protein of 1,000 residues has some 3,000 contacts.
pub const MAX_LINKS: usize = 100_000;

/// The most links of a file of links, which is held in memory, 16 bytes each: a training set of contacts has some 10 million.
pub const MAX_FILE_LINKS: usize = 1 << 24;

/// The most pairs of words of a sentence that a rule of links is held against: a second's work.
pub const MAX_RULE_PAIRS: usize = 10_000_000;

/// The longest name of what generated a corpus, in bytes; it stands in the report.
pub const MAX_GENERATOR_BYTES: usize = 256;

/// The longest name of a sentence that is kept, in bytes: longer ones are left out, for nothing depends on them.
pub(super) const MAX_ID_BYTES: usize = 256;

/// The most different sentences, and names of families, that are remembered: so many fill a hash table of 2^22 places to the seven
/// eighths at which it grows, 71 MB at 17 bytes a place, and half as much again while it grows for the last time.
pub const MAX_REMEMBERED: usize = 7 << 19;

const TOO_MUCH: &str = "no encoder takes that much";

#[derive(Default)]
pub(super) struct SentenceSize {
    words: usize,
    bytes: usize,
}

impl SentenceSize {
    /// Counts one more word, with these pieces of it kept.
    pub(super) fn add<'a>(&mut self, pieces: impl IntoIterator<Item = &'a str>) -> Result<()> {
        self.words += 1;
        self.bytes += pieces.into_iter().map(str::len).sum::<usize>();
        self.ensure_fits()
    }

    pub(super) fn add_surface(&mut self, surface: &str) -> Result<()> {
        self.bytes += surface.len();
        self.ensure_fits()
    }

    fn ensure_fits(&self) -> Result<()> {
        let fits = || {
            ensure!(self.words <= MAX_WORDS, "the sentence has more than {MAX_WORDS} words: {TOO_MUCH}");
            ensure!(
                self.bytes <= MAX_SENTENCE_BYTES,
                "the words of the sentence have more than {MAX_SENTENCE_BYTES} bytes with their annotations: {TOO_MUCH}"
            );
            Ok(())
        };
        fits().hint_after(", ", "split it into sentences")
    }
}

/// How many times its compressed bytes a corpus may have. Text compresses to a tenth, and treebanks to a twentieth.
pub(super) const LARGEST_RATIO: u64 = 256;

/// The decompressed bytes that are read of any compressed corpus, 64 MiB: a second's work.
pub(super) const SMALLEST_UNPACKED: u64 = 64 << 20;
