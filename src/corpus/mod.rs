//! Corpora: one reader per format, each an iterator of [`Sentence`]s that streams.

pub mod conllu;
mod source;
pub mod text;

use std::fmt;

pub use source::{Corpus, CorpusIdentity};

/// A sentence as the corpus has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentence {
    /// 0-based position in the corpus, skipped sentences counted.
    pub index: u64,
    /// The 1-based line on which the sentence starts.
    pub line: u64,
    /// The words or the running text.
    pub content: Content,
}

/// What is known about a sentence's inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Running text; the tokenizer finds the words.
    Text(String),
    /// Words that were split by hand, with their gold dependency tree.
    Tree(Vec<Word>),
}

/// A syntactic word of a gold tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// The surface form.
    pub form: String,
    /// What the word depends on.
    pub head: Head,
    /// Universal Dependencies relation to the head, with subtype if there is one (`nsubj:pass`).
    pub relation: String,
}

/// The head of a word in a dependency tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    /// Head 0 in CoNLL-U: the word is a root.
    Root,
    /// The 0-based position of the head word in the sentence.
    Word(usize),
    /// `_` in CoNLL-U: not annotated.
    Unknown,
}

/// A corpus file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// CoNLL-U, Universal Dependencies' ten columns.
    Conllu,
    /// One sentence per line, a blank line between documents.
    Text,
}

impl Format {
    /// All formats with the file extensions they are guessed from.
    pub const EXTENSIONS: &[(&str, Format)] =
        &[("conllu", Format::Conllu), ("conll", Format::Conllu), ("txt", Format::Text), ("text", Format::Text)];
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Conllu => "conllu",
            Format::Text => "text",
        })
    }
}
