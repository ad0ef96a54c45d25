//! The corpus as a report describes it: its files and counts, and the properties of its text.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::corpus::{CorpusIdentity, FileIdentity, Format, MAX_REMEMBERED_DIGESTS, RepeatCounts, TakenDocuments, Unit};
use crate::sequences::reading::WindowTally;
use crate::sequences::tally::{FileTally, SkipReason, Tally, WordSkip};
use crate::stats::block_test::{MIN_BLOCKS_FOR_TEST, MIN_EFFECTIVE_BLOCKS};
use crate::stats::blocks::BLOCKS;
use crate::study::health::Health;
use crate::study::metrics::metric::{Denominator, Metrics};
use crate::system::counts::plural;

/// The corpus that a model was run over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CorpusInfo {
    /// The names of the given files and folders, joined by ` + `; `-` is standard input.
    pub name: String,
    /// Number of sentences analysed.
    pub sentences: u64,
    /// Tokens of the analysed sentences, special tokens included.
    pub tokens: u64,
    /// Words of the analysed sentences: syntactic words of CoNLL-U, the tokenizer's own words of plain text.
    pub words: u64,
    /// Tokens of the longest sentence, or of the longest window where sentences were read in windows.
    pub longest: u64,
    /// Counts of the sentences or windows that a decoder read; absent for an encoder, which reads each sentence by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ContextInfo")]
    pub context: Option<ContextInfo>,
    /// Sentences left out, by reason. Every reason is listed.
    pub skipped: BTreeMap<SkipReason, u64>,
    /// Words left out of analysed sentences, by reason. Every reason is listed; absent in reports of headscope 0.1.
    #[serde(default)]
    pub words_left_out: BTreeMap<WordSkip, u64>,
    /// Words whose syntactic head is left out, so that their arcs are not scored; absent in reports of headscope 0.1.
    #[serde(default)]
    pub heads_left_out: u64,
    /// Tokens that belong to several words, as `didn't` may; absent in reports of headscope 0.1.
    #[serde(default)]
    pub shared_tokens: u64,
    /// Sentences of plain text that were cut to the token limit.
    pub truncated: u64,
    /// Analysed sentences, given as words, in which some word has no annotated syntactic head.
    pub unannotated: u64,
    /// Files and folders in the given folders that were ignored, since they are no corpus files.
    pub passed_over: u64,
    /// The files in the order they were read; sentences are numbered across files.
    pub files: Vec<CorpusFileInfo>,
    /// Pairs of files whose bytes are the same, so that their sentences count twice; absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repeated: Vec<[String; 2]>,
    /// Sampling unit of the 64 jackknife blocks.
    pub unit: Unit,
    /// Number of different sampling units, copies counting once; absent in older reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    pub units: Option<u64>,
    /// Documents that `--limit` took, out of all; absent without `--limit`, or if documents are not the sampling unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "TakenDocuments")]
    pub documents: Option<TakenDocuments>,
    /// Checks of whether the model could read the corpus, each with its threshold of the policy; empty in reports of headscope
    /// 0.1.
    #[serde(default)]
    pub health: Health,
    /// Properties of the text, such as its share of unknown tokens; absent in reports of headscope 0.1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<TextInfo>,
}

/// Sequences that a decoder read: sentences, or windows of consecutive sentences of a document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ContextInfo {
    /// Number of sequences: of sentences, or of windows.
    pub sequences: u64,
    /// Sentences per sequence.
    pub sentences: MeanAndLargest,
    /// Tokens per sequence, special tokens included.
    pub tokens: MeanAndLargest,
}

/// Number of sentences or tokens per sequence: its mean and its maximum over all sequences.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeanAndLargest {
    /// Mean number of sentences or tokens per sequence.
    pub mean: f64,
    /// Largest number of sentences or tokens in one sequence.
    pub largest: u64,
}

impl ContextInfo {
    fn new(tally: &Tally) -> Self {
        let sentences = WindowTally {
            windows: tally.sentences,
            sentences: tally.sentences,
            most_sentences: 1,
            tokens: tally.tokens,
            longest: tally.longest,
        };
        let read = tally.windows_read().unwrap_or(sentences);
        let per_window = |sum: u64, largest: u64| MeanAndLargest { mean: sum as f64 / read.windows as f64, largest };
        let sentences = per_window(read.sentences, read.most_sentences);
        Self { sequences: read.windows, sentences, tokens: per_window(read.tokens, read.longest) }
    }
}

/// One file of the corpus, with the counts of its sentences.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CorpusFileInfo {
    /// The file's name, or `-` for standard input.
    pub name: String,
    /// Format that the file was read as.
    pub format: Format,
    /// SHA-256 of the whole file as it is stored, compressed or not.
    #[schemars(extend("pattern" = "^[0-9a-f]{64}$"))]
    pub sha256: String,
    /// The generator of the file's sentences; absent if the file does not say that they were generated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generated: Option<String>,
    /// Number of the file's sentences that were analysed.
    pub sentences: u64,
    /// Tokens of the file's analysed sentences. They include special tokens, unless the sentences were read in windows.
    pub tokens: u64,
    /// Words of the file's analysed sentences.
    pub words: u64,
    /// Number of the file's sentences that were left out of the analysis.
    pub skipped: u64,
}

impl CorpusInfo {
    /// Number of sentences in which a word lacks an annotated syntactic head; `None` if that is true of no
    /// sentence, or of every sentence.
    pub fn partly_annotated_sentences(&self) -> Option<u64> {
        Some(self.unannotated).filter(|&sentences| 0 < sentences && sentences < self.sentences)
    }

    /// Describes a corpus from which at least one sentence was analysed, after its last sentence was read.
    pub fn new(identity: CorpusIdentity, tally: &Tally, health: Health, is_decoder: bool) -> Self {
        let count = |reason: SkipReason| (reason, tally.skipped.get(&reason).copied().unwrap_or(0));
        let left_out = |reason: WordSkip| (reason, tally.left_out.skipped.get(&reason).copied().unwrap_or(0));
        let file = |(number, FileIdentity { name, format, sha256, generated }): (usize, FileIdentity)| {
            let FileTally { sentences, tokens, words, skipped } = tally.files.get(number).copied().unwrap_or_default();
            CorpusFileInfo { name, format, sha256, generated, sentences, tokens, words, skipped }
        };
        let (tokens, longest) = tally.token_totals();
        let repeated = identity.equal_files().into_iter().map(|pair| pair.map(|file| file.name.clone())).collect();
        Self {
            name: identity.name,
            sentences: tally.sentences,
            tokens,
            words: tally.words,
            longest,
            context: is_decoder.then(|| ContextInfo::new(tally)),
            skipped: SkipReason::ALL.map(count).into(),
            words_left_out: WordSkip::ALL.map(left_out).into(),
            heads_left_out: tally.left_out.heads,
            shared_tokens: tally.shared_tokens,
            truncated: tally.truncated,
            unannotated: tally.unannotated,
            passed_over: tally.passed_over,
            repeated,
            unit: identity.unit,
            units: Some(identity.repeats.units),
            documents: identity.documents,
            health,
            text: Some(TextInfo::new(identity.repeats, tally)),
            files: identity.files.into_iter().enumerate().map(file).collect(),
        }
    }

    /// Describes the shortage if the corpus has too few sampling units for a test, or if unequal sizes leave every
    /// metric too few effective blocks; else `None`. `piece` is the noun for a sentence, such as `protein`.
    pub fn unit_shortage_text(&self, denominators: &Metrics<Denominator>, piece: &str) -> Option<String> {
        let units = self.units?;
        let [one, many] = self.unit.nouns(piece);
        let counted = format!("{units} {}", plural(&units, one, many));
        if units < MIN_BLOCKS_FOR_TEST as u64 {
            return Some(format!("{counted} (a test takes {MIN_BLOCKS_FOR_TEST})"));
        }
        let effective = denominators.cells().map(|(_, known)| known.effective_blocks).reduce(f64::max)?;
        let unequal =
            || format!("{counted}, as good as {effective:.1} of equal size (a test takes {MIN_EFFECTIVE_BLOCKS})");
        (effective < MIN_EFFECTIVE_BLOCKS).then(unequal)
    }
}

/// Properties of the text of a corpus: how the tokenizer read it, and how often sentences recur.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TextInfo {
    /// Tokens of text in the sentences analysed, without special tokens.
    pub tokens: u64,
    /// Unknown tokens, which stand for text that the vocabulary lacks.
    pub unknown_tokens: u64,
    /// Share of the tokens of text that are unknown; null without any token of text.
    #[schemars(range(min = 0, max = 1))]
    pub unknown_share: Option<f64>,
    /// Mean number of tokens of text per word; null without words.
    pub tokens_per_word: Option<f64>,
    /// Letters of scripts in which the vocabulary has no words, by script; absent if there are none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub foreign_letters: BTreeMap<String, u64>,
    /// Mean number of words per analysed sentence; null without sentences.
    pub words_per_sentence: Option<f64>,
    /// Sentences read, skipped ones included.
    pub sentences_read: u64,
    /// Number of different sentences among the sentences read; sentences with the same words are equal.
    pub different_sentences: u64,
    /// Sentences read that occur more than once, each occurrence counted.
    pub repeated_sentences: u64,
    /// The share of sentences that occur more than once; null without any sentence.
    #[schemars(range(min = 0, max = 1))]
    pub repeated_share: Option<f64>,
    /// Number of groups of sentences that tests count as one observation: equal sentences, and sentences that the corpus says
    /// belong together.
    pub families: u64,
    /// Sentences read after the memory for finding duplicates was full; each counts as different and as a group by itself.
    pub not_remembered: u64,
}

/// Share of unknown tokens, or of copied sentences, above which the report remarks on them. Leaving 5 % of the
/// observations out moves a score by up to 5 points. Sampling error is as large: the standard error of a share over the
/// 100 queries that a label needs (`min_queries`) is at most 5 points.
const REMARK_THRESHOLD: f64 = 0.05;

/// Mean number of tokens per word above which the report remarks on split words. With 2 tokens per word, half of the
/// pairs of adjacent tokens lie within one word: `(f - 1) / f` with `f` tokens per word.
const MOST_TOKENS_PER_WORD: f64 = 2.0;

/// Mean number of words per sentence below which the report remarks on short sentences. With 4 words per sentence, half
/// of the words have a neighbour on both sides: `n - 2` of `n` words.
const FEWEST_WORDS_PER_SENTENCE: f64 = 4.0;

impl TextInfo {
    pub fn new(repeats: RepeatCounts, tally: &Tally) -> Self {
        let RepeatCounts { read, different, repeated, families, not_remembered, .. } = repeats;
        Self {
            tokens: tally.text_tokens,
            unknown_tokens: tally.unknown,
            unknown_share: ratio(tally.unknown, tally.text_tokens),
            tokens_per_word: ratio(tally.text_tokens, tally.words),
            foreign_letters: tally.legibility.foreign.clone(),
            words_per_sentence: ratio(tally.words, tally.sentences),
            sentences_read: read,
            different_sentences: different,
            repeated_sentences: repeated,
            repeated_share: ratio(repeated, read),
            families,
            not_remembered,
        }
    }

    /// Whether more than 5 % of the tokens of text are unknown.
    pub fn has_many_unknown_tokens(&self) -> bool {
        self.unknown_share.is_some_and(|share| share > REMARK_THRESHOLD)
    }

    /// Whether words have so many tokens on average that the report remarks on it.
    pub fn has_split_words(&self) -> bool {
        self.tokens_per_word.is_some_and(|tokens| tokens > MOST_TOKENS_PER_WORD)
    }

    /// Whether sentences are so short on average that the text is hardly running prose.
    pub fn has_short_sentences(&self) -> bool {
        self.words_per_sentence.is_some_and(|words| words < FEWEST_WORDS_PER_SENTENCE)
    }

    /// Whether more than 5 % of the sentences read are copies of other sentences.
    pub fn is_repetitive(&self) -> bool {
        ratio(self.sentences_read - self.different_sentences.min(self.sentences_read), self.sentences_read)
            .is_some_and(|copies| copies > REMARK_THRESHOLD)
    }

    /// Whether the corpus has fewer groups of dependent sentences than there are jackknife blocks (64).
    pub fn has_few_sentence_groups(&self) -> bool {
        self.families < BLOCKS as u64
    }

    /// Remarks on the text that the summary prints before the labels, as sentences without a full stop. `[sentence,
    /// word]` are the nouns for the pieces of the corpus: sentences of words, or proteins of residues.
    pub fn remarks(&self, [sentence, word]: [&str; 2]) -> Vec<String> {
        let Self { sentences_read, different_sentences, families, not_remembered, .. } = *self;
        let percent = |share: Option<f64>| share.unwrap_or(0.0) * 100.0;
        let mut remarks = Vec::new();
        if self.has_many_unknown_tokens() {
            remarks.push(format!(
                "{:.1} % of its tokens of text are unknown to the vocabulary",
                percent(self.unknown_share)
            ));
        }
        if self.has_split_words() {
            remarks.push(format!("a {word} has {:.1} tokens on average", self.tokens_per_word.unwrap_or(0.0)));
        }
        if self.has_short_sentences() {
            let words = self.words_per_sentence.unwrap_or(0.0);
            remarks.push(format!("its {sentence}s have {words:.1} {word}s each, which is hardly running text"));
        }
        if self.is_repetitive() {
            remarks.push(format!(
                "its {sentences_read} {sentence}s are {different_sentences} different {}: {:.1} % occur more than once",
                plural(&different_sentences, "one", "ones"),
                percent(self.repeated_share),
            ));
        }
        if families < different_sentences {
            remarks.push(format!(
                "the {different_sentences} different {sentence}s are variants of {families} originals, and tests count the variants of one original as one observation"
            ));
        }
        if not_remembered > 0 {
            remarks.push(format!(
                "of its {sentence}s {not_remembered} {} read when {MAX_REMEMBERED_DIGESTS} were remembered: equal ones among them \
                 were not found",
                plural(&not_remembered, "was", "were")
            ));
        }
        remarks
    }
}

/// `part` divided by `whole`; `None` if `whole` is 0.
pub fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
