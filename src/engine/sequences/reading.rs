//! How a corpus is read: how the tokenizer gets its words, and which text is one sequence of a decoder
//! (docs/methodology/causal.md).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::sequences::sequence::Sequence;
use crate::stats::blocks::Merge;

/// How a decoder reads a corpus: the text of each sequence, and the special token before it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reading {
    /// Text unit per sequence: a sentence, or a window of sentences.
    pub context: Context,
    /// Whether a beginning-of-text token was asked for (`--bos`).
    pub bos: Bos,
    /// The special token that each sequence begins with; null if a sequence begins with its text.
    pub begins_with: Option<String>,
}

/// The text that goes through a model as one sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Context {
    /// Each sentence by itself.
    #[default]
    Sentence,
    /// Windows of as many whole consecutive sentences of a document as fit, up to `max_tokens` tokens.
    Document,
}

/// How the words of a corpus are given to the tokenizer (docs/methodology/units.md, "Words in their text").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Spacing {
    /// Words within their sentence as it was written, like the training text of the model.
    #[default]
    Written,
    /// Words one by one, each with a space before it.
    Spaced,
}

impl Spacing {
    /// Spacing of older reports, which lack this field: words were tokenised one by one, each after a space.
    pub fn before() -> Self {
        Self::Spaced
    }
}

/// Whether the beginning-of-text token stands before each sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Bos {
    /// Beginning-of-text token only where the tokenizer itself puts one.
    #[default]
    Auto,
    /// Beginning-of-text token before every sequence, unless the tokenizer itself puts a special token there.
    Always,
    /// No special token before any sequence, even if the tokenizer itself puts one there.
    Never,
}

/// Default for the maximum number of tokens in a window. Some studies hold the attention of all heads over a window, whose size
/// is quadratic in the tokens. With 144 heads, it takes 151 MB per thread for 512 tokens, and 2.4 GB for Pythia's maximum of
/// 2,048.
pub const DEFAULT_WINDOW_TOKENS: usize = 512;

/// Counts of the windows of a corpus; zeros if each sentence is read by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowTally {
    pub windows: u64,
    pub sentences: u64,
    pub most_sentences: u64,
    /// Tokens of all windows, special tokens included.
    pub tokens: u64,
    pub longest: u64,
}

impl WindowTally {
    pub fn add(&mut self, window: &Sequence) {
        let (sentences, tokens) = (window.sentence_count() as u64, window.ids.len() as u64);
        self.merge(&Self { windows: 1, sentences, most_sentences: sentences, tokens, longest: tokens });
    }
}

impl Merge for WindowTally {
    fn merge(&mut self, other: &Self) {
        self.windows += other.windows;
        self.sentences += other.sentences;
        self.most_sentences = self.most_sentences.max(other.most_sentences);
        self.tokens += other.tokens;
        self.longest = self.longest.max(other.longest);
    }
}
