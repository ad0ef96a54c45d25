//! The kind of text of a corpus, as far as labels suffer from it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::corpus::{MAX_REMEMBERED, Repeats};
use crate::sequences::tally::Tally;
use crate::stats::blocks::BLOCKS;
use crate::system::counted::plural;

/// The kind of text of a corpus.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TextInfo {
    /// Tokens of text, of the sentences analysed: special tokens left out.
    pub tokens: u64,
    /// Those that stand for whatever the vocabulary lacks.
    pub unknown_tokens: u64,
    /// Their share; null without any token of text.
    #[schemars(range(min = 0, max = 1))]
    pub unknown_share: Option<f64>,
    /// Tokens of text for each word.
    pub tokens_per_word: Option<f64>,
    /// Letters of scripts in which the vocabulary has no words, by script; absent if there are none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub foreign_letters: BTreeMap<String, u64>,
    /// Words for each sentence analysed.
    pub words_per_sentence: Option<f64>,
    /// Sentences read, skipped ones included.
    pub sentences_read: u64,
    /// Different sentences among those: two are equal if their words are.
    pub different_sentences: u64,
    /// Those that occur more than once.
    pub repeated_sentences: u64,
    /// Their share; null without any sentence.
    #[schemars(range(min = 0, max = 1))]
    pub repeated_share: Option<f64>,
    /// Families of sentences: equal ones, and those that the corpus says belong together, are one.
    pub families: u64,
    /// Sentences read when no more could be remembered, each of which counts as different and as a family.
    pub not_remembered: u64,
}

/// A share from which on something is remarked: leaving out 5 % of what a share rests on can move it by 5 points, the largest
/// standard error that the fewest queries of a label allow (`min_queries`).
const NOTABLE: f64 = 0.05;

/// The most tokens per word that are not remarked: with `f` of them, of two tokens side by side within words and between
/// them `(f - 1) / f` are within one, which is one half.
const MOST_TOKENS_PER_WORD: f64 = 2.0;

/// The fewest words per sentence that are not remarked: of `n` words `n - 2` have a neighbour on both sides, which is one
/// half.
const FEWEST_WORDS_PER_SENTENCE: f64 = 4.0;

impl TextInfo {
    pub fn new(repeats: Repeats, tally: &Tally) -> Self {
        let Repeats { read, different, repeated, families, not_remembered, .. } = repeats;
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

    /// Whether many tokens are unknown to the vocabulary.
    pub fn is_unknown(&self) -> bool {
        self.unknown_share.is_some_and(|share| share > NOTABLE)
    }

    /// Whether words are cut into many tokens.
    pub fn is_cut_up(&self) -> bool {
        self.tokens_per_word.is_some_and(|tokens| tokens > MOST_TOKENS_PER_WORD)
    }

    /// Whether its sentences are hardly any.
    pub fn is_no_running_text(&self) -> bool {
        self.words_per_sentence.is_some_and(|words| words < FEWEST_WORDS_PER_SENTENCE)
    }

    /// Whether many sentences are copies of others.
    pub fn is_repetitive(&self) -> bool {
        ratio(self.sentences_read - self.different_sentences.min(self.sentences_read), self.sentences_read)
            .is_some_and(|copies| copies > NOTABLE)
    }

    /// Whether there are fewer families than blocks.
    pub fn is_small(&self) -> bool {
        self.families < BLOCKS as u64
    }

    /// The facts to know before the labels, a sentence each without its full stop; mostly there are none. What the corpus is
    /// made of is a sentence of words, or a protein of residues.
    pub fn remarks(&self, [sentence, word]: [&str; 2]) -> Vec<String> {
        let Self { sentences_read, different_sentences, families, not_remembered, .. } = *self;
        let percent = |share: Option<f64>| share.unwrap_or(0.0) * 100.0;
        let mut remarks = Vec::new();
        if self.is_unknown() {
            remarks.push(format!(
                "{:.1} % of its tokens of text are unknown to the vocabulary",
                percent(self.unknown_share)
            ));
        }
        if self.is_cut_up() {
            remarks.push(format!("its {word}s have {:.1} tokens each", self.tokens_per_word.unwrap_or(0.0)));
        }
        if self.is_no_running_text() {
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
                "its {different_sentences} different {sentence}s are variants of {families} {sentence}s, and tests count the variants of one as one (a family)"
            ));
        }
        if not_remembered > 0 {
            remarks.push(format!(
                "of its {sentence}s {not_remembered} {} read when {MAX_REMEMBERED} were remembered: equal ones among them \
                 were not found",
                plural(&not_remembered, "was", "were")
            ));
        }
        remarks
    }
}

pub fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
