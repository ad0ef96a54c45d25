//! Bounds on sentences and corpora, each checked before memory is spent (docs/CORPORA.md, "Bounds").

use anyhow::{Result, ensure};

use crate::system::errors::ErrorExt;

/// Maximum length of a line, in bytes. A line is held in memory whole, so a file without line ends is refused instead of
/// filling the memory. The longest sentences have some ten kilobytes.
pub const MAX_LINE_BYTES: usize = 16 << 20;

/// Maximum size of a sentence, in bytes: its words with their annotations, or its running text. A tokenizer takes up to 500
/// bytes of memory per byte of text (measured on a text of dots). No encoder takes more than some ten kilobytes of text at
/// once.
pub const MAX_SENTENCE_BYTES: usize = 1 << 20;

/// Maximum number of words in a sentence: no encoder takes more than some thousand tokens.
pub const MAX_WORDS: usize = 100_000;

/// Maximum number of distinct dependency relations in a corpus. Each takes up to 16 bytes per attention head in every block of
/// the sums, and kilobytes of the report. Universal Dependencies has 37, some hundred with all subtypes.
pub const MAX_RELATIONS: usize = 1000;

/// Maximum length of the name of a relation, link type or word class, in bytes; names stand in the report and in its tables.
pub const MAX_RELATION_BYTES: usize = 256;

/// Hint on a link type or word class whose name exceeds [`MAX_RELATION_BYTES`].
pub(super) const SHORTER_NAME_HINT: &str = "give it a shorter name: it stands in labels and tables";

/// Maximum number of link types in a corpus: each takes up to 90 bytes per attention head in every block of the sums.
pub const MAX_LINK_TYPES: usize = 100;

/// Maximum number of links in a sentence: a protein of 1,000 residues has some 3,000 contacts.
pub const MAX_LINKS: usize = 100_000;

/// Maximum number of links in a file of links, which take 16 bytes of memory each. Training sets of protein contacts have
/// some 10 million.
pub const MAX_FILE_LINKS: usize = 1 << 24;

/// Maximum number of word pairs that a link rule may test in one sentence: about a second's work.
pub const MAX_RULE_PAIRS: usize = 10_000_000;

/// Maximum length of `# global.generated` (the name of a corpus generator), in bytes; it stands in the report.
pub const MAX_GENERATOR_BYTES: usize = 256;

/// Maximum length of a sentence id, in bytes. A longer id is dropped without an error, since no result depends on ids.
pub(super) const MAX_ID_BYTES: usize = 256;

/// Maximum number of entries (distinct sentences and family names) in the hash table that finds repeated sentences. They fill
/// 2^22 slots to 7/8, just before the table would grow: 71 MB at 17 bytes a slot, and half as much again during the last growth.
pub const MAX_REMEMBERED_DIGESTS: usize = 7 << 19;

/// End of the error messages about a sentence that exceeds a bound.
const OVERSIZE_REASON: &str = "no encoder takes that much";

/// Numbers of words and bytes of a sentence that is being read.
#[derive(Default)]
pub(super) struct SentenceSize {
    words: usize,
    bytes: usize,
}

impl SentenceSize {
    /// Counts a word and the bytes of its form and annotations (`pieces`). Fails above [`MAX_WORDS`] or [`MAX_SENTENCE_BYTES`].
    pub(super) fn add<'a>(&mut self, pieces: impl IntoIterator<Item = &'a str>) -> Result<()> {
        self.words += 1;
        self.bytes += pieces.into_iter().map(str::len).sum::<usize>();
        self.ensure_fits()
    }

    /// Counts the bytes of the spelling (`surface`) of a multiword token. Fails above [`MAX_SENTENCE_BYTES`].
    pub(super) fn add_surface(&mut self, surface: &str) -> Result<()> {
        self.bytes += surface.len();
        self.ensure_fits()
    }

    /// Fails above [`MAX_WORDS`] or [`MAX_SENTENCE_BYTES`].
    fn ensure_fits(&self) -> Result<()> {
        let fits = || {
            ensure!(self.words <= MAX_WORDS, "the sentence has more than {MAX_WORDS} words: {OVERSIZE_REASON}");
            ensure!(
                self.bytes <= MAX_SENTENCE_BYTES,
                "the words of the sentence have more than {MAX_SENTENCE_BYTES} bytes with their annotations: {OVERSIZE_REASON}"
            );
            Ok(())
        };
        fits().hint_after(", ", "split it into sentences")
    }
}

/// Maximum ratio of decompressed to compressed bytes of a corpus file. Text compresses to a tenth, and treebanks to a twentieth.
pub(super) const MAX_DECOMPRESSION_RATIO: u64 = 256;

/// Number of decompressed bytes up to which [`MAX_DECOMPRESSION_RATIO`] is not checked: 64 MiB, which take a second to
/// process.
pub(super) const UNCHECKED_DECOMPRESSED_BYTES: u64 = 64 << 20;
