//! The tally: the sequences of a corpus, and the sentences that were left out, with the reasons.

mod legibility;

use std::collections::BTreeMap;

use anyhow::Error;
use serde::{Deserialize, Serialize};

use super::reading::WindowTally;
use super::sequence::Sequence;
use crate::corpus::TreeHead;
use crate::stats::blocks::{Merge, merge_fields};
use crate::system::errors::Facts;

pub use legibility::Legibility;

#[cfg(test)]
mod tests;

/// Why a sentence was left out of the analysis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SkipReason {
    /// More tokens than the limit.
    TooManyTokens,
    /// Some word has no token of its own: the tokenizer made nothing of it.
    WordWithoutTokens,
    /// The sentence has no word, or the tokenizer made nothing of all of it.
    NoTokens,
}

impl SkipReason {
    /// All reasons, in the order of the report.
    pub const ALL: [Self; 3] = [Self::TooManyTokens, Self::WordWithoutTokens, Self::NoTokens];

    /// The reason in words, to follow a number of sentences.
    pub fn describe(self) -> &'static str {
        match self {
            Self::TooManyTokens => "with more tokens than the limit",
            Self::WordWithoutTokens => "with a word that the tokenizer makes nothing of",
            Self::NoTokens => "without any token of text",
        }
    }

    /// An error for this reason with the way out, where there is one.
    pub fn with_way_out(self, error: Error) -> Error {
        match self {
            Self::TooManyTokens => {
                error.hint("cut plain text with --truncate, or raise --max-tokens if the model has more positions")
            }
            Self::WordWithoutTokens | Self::NoTokens => error,
        }
    }
}

/// Why a word was left out of its sentence, which was analysed without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WordSkip {
    /// The surface of its multiword token has no character of it, as the French "au" has none of "le".
    NoCharacters,
    /// The tokenizer made nothing of it.
    NoTokens,
}

impl WordSkip {
    /// All reasons, in the order of the report.
    pub const ALL: [Self; 2] = [Self::NoCharacters, Self::NoTokens];

    /// The reason in words, to follow a number of words.
    pub fn describe(self) -> &'static str {
        match self {
            Self::NoCharacters => "that no character of the multiword token belongs to",
            Self::NoTokens => "that the tokenizer makes nothing of",
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOutWords {
    /// Their number, by reason.
    pub skipped: BTreeMap<WordSkip, u64>,
    /// Words whose head is one of them.
    pub heads: u64,
    /// The first that the tokenizer made nothing of, by its place in its sentence.
    #[serde(skip)]
    pub unread: Option<(usize, String)>,
}

impl LeftOutWords {
    pub(super) fn add(&mut self, reason: WordSkip) {
        *self.skipped.entry(reason).or_default() += 1;
    }
}

merge_fields!(LeftOutWords { skipped, heads });

/// The corpus in numbers: how much of it was encoded, and how much was not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Sentences encoded.
    pub sentences: u64,
    /// Tokens of the encoded sentences, special tokens included; in windows, which have them instead, tokens of text.
    pub tokens: u64,
    /// Tokens of text of the encoded sentences.
    pub text_tokens: u64,
    /// Unknown tokens of text: those in the place of text outside the vocabulary.
    pub unknown: u64,
    /// Words of the encoded sentences.
    pub words: u64,
    /// Tokens of the longest encoded sentence.
    pub longest: u64,
    /// Sentences left out, by reason.
    pub skipped: BTreeMap<SkipReason, u64>,
    /// Words left out of the encoded sentences.
    #[serde(default)]
    pub left_out: LeftOutWords,
    /// Tokens of the encoded sentences that are of several words.
    #[serde(default)]
    pub shared_tokens: u64,
    /// Whether the words of the encoded sentences could be read.
    #[serde(default)]
    pub legibility: Legibility,
    /// Sentences of plain text that were cut to the limit.
    pub truncated: u64,
    /// Sentences encoded that were given as words of which not every one has an annotated head.
    pub unannotated: u64,
    /// Sentences encoded that were given as words of which not every one has a universal part of speech.
    pub untagged: u64,
    /// Files and folders in the given folders that are no corpus files; the fewest that were there when a part of the corpus
    /// was opened, for the run itself may write some.
    #[serde(default)]
    pub passed_over: u64,
    /// The windows that the sentences were read in; nothing where each was read by itself.
    #[serde(default)]
    pub windows: WindowTally,
    pub files: Vec<FileTally>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileTally {
    pub sentences: u64,
    /// Tokens of the encoded sentences, special tokens included.
    pub tokens: u64,
    pub words: u64,
    /// Sentences left out.
    pub skipped: u64,
}

merge_fields!(FileTally { sentences, tokens, words, skipped });

impl Tally {
    pub fn merge(&mut self, other: &Self) {
        self.sentences += other.sentences;
        self.tokens += other.tokens;
        self.text_tokens += other.text_tokens;
        self.unknown += other.unknown;
        self.words += other.words;
        self.longest = self.longest.max(other.longest);
        self.truncated += other.truncated;
        self.unannotated += other.unannotated;
        self.untagged += other.untagged;
        self.passed_over = self.passed_over.min(other.passed_over);
        Merge::merge(&mut self.skipped, &other.skipped);
        self.left_out.merge(&other.left_out);
        self.shared_tokens += other.shared_tokens;
        self.legibility.merge(&other.legibility);
        self.windows.merge(&other.windows);
        self.files.merge(&other.files);
    }

    pub fn in_windows(&self) -> Option<WindowTally> {
        Some(self.windows).filter(|windows| windows.windows > 0)
    }

    /// Tokens of what went through the model, and of the longest sequence of it, special tokens included.
    pub fn read(&self) -> (u64, u64) {
        self.in_windows().map_or((self.tokens, self.longest), |windows| (windows.tokens, windows.longest))
    }

    fn file(&mut self, number: usize) -> &mut FileTally {
        if self.files.len() <= number {
            self.files.resize(number + 1, FileTally::default());
        }
        &mut self.files[number]
    }

    /// Counts a sequence that was made of a sentence of this file, with its special tokens if `special`; `unknown` is the token
    /// for what the vocabulary lacks.
    pub(super) fn count(
        &mut self,
        file: usize,
        sequence: &Sequence,
        (special, unknown): (bool, Option<u32>),
        left_out: &LeftOutWords,
    ) {
        self.left_out.merge(left_out);
        self.shared_tokens += sequence.shared_tokens();
        let words = sequence.words.len() as u64;
        self.sentences += 1;
        for token in sequence.text() {
            self.text_tokens += 1;
            self.unknown += u64::from(Some(token.id) == unknown);
        }
        let tokens = if special { sequence.ids.len() } else { sequence.text().count() } as u64;
        self.tokens += tokens;
        self.words += words;
        self.longest = self.longest.max(tokens);
        let without = sequence.tree.iter().flatten().filter(|arc| arc.head == TreeHead::Unknown).count() as u64;
        self.unannotated += u64::from(without > left_out.heads);
        let is_untagged = || sequence.annotations.iter().any(|annotation| annotation.upos.is_none());
        self.untagged += u64::from(!sequence.forms.is_empty() && is_untagged());
        let file = self.file(file);
        file.sentences += 1;
        file.tokens += tokens;
        file.words += words;
    }

    pub(super) fn skip(&mut self, file: usize, reason: SkipReason) {
        *self.skipped.entry(reason).or_default() += 1;
        self.file(file).skipped += 1;
    }
}
