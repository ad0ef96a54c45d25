//! The tally: counts of the sequences of a corpus, and of the left-out sentences by reason.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::Error;
use serde::{Deserialize, Serialize};

use super::reading::WindowTally;
use super::sequence::Sequence;
use crate::corpus::TreeHead;
use crate::model::tokenizer::{ModelTokenizer, script_of};
use crate::stats::blocks::{Merge, merge_fields};
use crate::system::errors::ErrorExt;

#[cfg(test)]
mod tests;

/// Why a sentence was left out of the analysis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SkipReason {
    /// The sentence has more tokens than the limit.
    TooManyTokens,
    /// Some word has no token of its own: the tokenizer made nothing of it.
    WordWithoutTokens,
    /// The sentence has no word, or the tokenizer made nothing of all of it.
    NoTokens,
}

impl SkipReason {
    /// All reasons, in the order of the report.
    pub const ALL: [Self; 3] = [Self::TooManyTokens, Self::WordWithoutTokens, Self::NoTokens];

    /// Formats the reason to follow a number of sentences, as in `3 sentences without any token of text`.
    pub fn describe(self) -> &'static str {
        match self {
            Self::TooManyTokens => "with more tokens than the limit",
            Self::WordWithoutTokens => "with a word that the tokenizer makes nothing of",
            Self::NoTokens => "without any token of text",
        }
    }

    /// Adds the hint for this reason to an error, if the reason has one.
    pub fn with_hint(self, error: Error) -> Error {
        if self != Self::TooManyTokens {
            return error;
        }
        error.hint("cut plain text with --truncate, or raise --max-tokens if the model has more positions")
    }
}

impl std::error::Error for SkipReason {}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.describe())
    }
}

/// Why a word was left out of its sentence, which was analysed without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WordSkip {
    /// No character of its multiword token belongs to the word, as none of the French "au" belongs to "le".
    NoCharacters,
    /// The tokenizer made nothing of the word.
    NoTokens,
}

impl WordSkip {
    /// All reasons, in the order of the report.
    pub const ALL: [Self; 2] = [Self::NoCharacters, Self::NoTokens];

    /// Formats the reason to follow a number of words, as in `3 words that the tokenizer makes nothing of`.
    pub fn describe(self) -> &'static str {
        match self {
            Self::NoCharacters => "that no character of the multiword token belongs to",
            Self::NoTokens => "that the tokenizer makes nothing of",
        }
    }
}

/// Counts of words that were left out of analysed sentences.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOutWords {
    /// Number of left-out words, by reason.
    pub skipped: BTreeMap<WordSkip, u64>,
    /// Number of words whose syntactic head was left out.
    pub heads: u64,
    /// The first word that the tokenizer made nothing of: its index in the sentence, and its form.
    #[serde(skip)]
    pub unread: Option<(usize, String)>,
}

impl LeftOutWords {
    pub(super) fn add(&mut self, reason: WordSkip) {
        *self.skipped.entry(reason).or_default() += 1;
    }
}

merge_fields!(LeftOutWords { skipped, heads });

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    pub sentences: u64,
    /// Tokens of the encoded sentences, special tokens included; text tokens alone if sentences are read in windows.
    pub tokens: u64,
    pub text_tokens: u64,
    /// Unknown tokens, which stand for text outside the vocabulary.
    pub unknown: u64,
    pub words: u64,
    pub longest: u64,
    pub skipped: BTreeMap<SkipReason, u64>,
    #[serde(default)]
    pub left_out: LeftOutWords,
    /// Tokens of the encoded sentences that several words share.
    #[serde(default)]
    pub shared_tokens: u64,
    /// Counts of how well the tokenizer could read the encoded sentences.
    #[serde(default)]
    pub legibility: Legibility,
    /// Sentences of plain text that were cut to the token limit.
    pub truncated: u64,
    /// Encoded sentences of words in which some word has no annotated syntactic head.
    pub unannotated: u64,
    /// Encoded sentences of words in which some word has no universal part of speech.
    pub untagged: u64,
    /// Ignored files and folders, which are no corpus files: the least number over all shards, since a run may write some.
    #[serde(default)]
    pub passed_over: u64,
    #[serde(default)]
    pub windows: WindowTally,
    pub files: Vec<FileTally>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileTally {
    pub sentences: u64,
    pub tokens: u64,
    pub words: u64,
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

    /// Counts of the windows; `None` if each sentence was a sequence by itself.
    pub fn windows_read(&self) -> Option<WindowTally> {
        Some(self.windows).filter(|windows| windows.windows > 0)
    }

    /// `(all, longest)`: number of tokens in all sequences and in the longest one, special tokens included.
    pub fn token_totals(&self) -> (u64, u64) {
        self.windows_read().map_or((self.tokens, self.longest), |windows| (windows.tokens, windows.longest))
    }

    /// Counts of file number `number`; counts of a new file are zero.
    fn file_tally(&mut self, number: usize) -> &mut FileTally {
        if self.files.len() <= number {
            self.files.resize(number + 1, FileTally::default());
        }
        &mut self.files[number]
    }

    /// Counts the sequence of a sentence in file number `file`. Special tokens are counted if `special` is set; `unknown`
    /// is the id of the unknown token.
    pub(super) fn count_sequence(
        &mut self,
        file: usize,
        sequence: &Sequence,
        (special, unknown): (bool, Option<u32>),
        left_out: &LeftOutWords,
    ) {
        self.left_out.merge(left_out);
        self.shared_tokens += sequence.shared_token_count();
        let words = sequence.words.len() as u64;
        self.sentences += 1;
        for token in sequence.text_tokens() {
            self.text_tokens += 1;
            self.unknown += u64::from(Some(token.id) == unknown);
        }
        let tokens = if special { sequence.ids.len() } else { sequence.text_tokens().count() } as u64;
        self.tokens += tokens;
        self.words += words;
        self.longest = self.longest.max(tokens);
        let without_head = sequence.tree.iter().flatten().filter(|arc| arc.head == TreeHead::Unknown).count() as u64;
        self.unannotated += u64::from(without_head > left_out.heads);
        let is_untagged = || sequence.annotations.iter().any(|annotation| annotation.upos.is_none());
        self.untagged += u64::from(!sequence.forms.is_empty() && is_untagged());
        self.file_tally(file).merge(&FileTally { sentences: 1, tokens, words, skipped: 0 });
    }

    /// Counts a skipped sentence of file number `file`.
    pub(super) fn count_skip(&mut self, file: usize, reason: SkipReason) {
        *self.skipped.entry(reason).or_default() += 1;
        self.file_tally(file).skipped += 1;
    }
}

/// Counts of how the tokenizer read the words of the encoded sentences.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Legibility {
    pub characters: u64,
    pub letters: u64,
    /// Letters of scripts in which the vocabulary has no words, by script.
    pub foreign: BTreeMap<String, u64>,
    /// Words whose capitals are lower-cased although the vocabulary is cased.
    pub lower_cased: u64,
    pub of_one_token: u64,
    /// Sentences with a word longer than every vocabulary entry that is one unknown token (vocabularies of letters or k-mers).
    pub unparted: u64,
}

merge_fields!(Legibility { characters, letters, foreign, lower_cased, of_one_token, unparted });

impl Legibility {
    /// Counts the words of a sequence by how `tokenizer` read them.
    pub fn add(&mut self, sequence: &Sequence, tokenizer: &ModelTokenizer) {
        let mut is_unparted = false;
        for (place, span) in sequence.words.iter().enumerate() {
            let word = sequence.form(place);
            self.lower_cased += u64::from(tokenizer.lower_cases() && word.contains(char::is_uppercase));
            self.add_characters(word, tokenizer);
            let is_unknown = span.len() == 1 && Some(sequence.ids[span.start()]) == tokenizer.unknown;
            let is_longer = |length| word.chars().nth(length).is_some();
            is_unparted |= is_unknown && tokenizer.entry_length.is_some_and(is_longer);
        }
        self.unparted += u64::from(is_unparted);
        self.of_one_token += u64::from(sequence.text_tokens().nth(1).is_none());
    }

    fn add_characters(&mut self, word: &str, tokenizer: &ModelTokenizer) {
        for c in word.chars() {
            self.characters += u64::from(!c.is_whitespace());
            let Some(script) = script_of(c) else { continue };
            self.letters += 1;
            if !tokenizer.scripts.covers(script) {
                *self.foreign.entry(script.to_owned()).or_default() += 1;
            }
        }
    }
}
