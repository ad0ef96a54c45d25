//! Sentences of a corpus: running text, or words with their gold annotations.

pub(super) mod links;
pub(super) mod written_text;

use std::fmt;
use std::sync::Arc;

use anyhow::{Error, anyhow};

use super::annotation::Annotation;
use crate::system::counts::format_count;
use crate::system::errors::ErrorExt;
use links::LinkSet;
use written_text::WrittenText;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sentence {
    /// Position among the sentences read from all files, counted from 0; sentences that are skipped later count too.
    pub index: u64,
    pub origin: Origin,
    /// Sentence index at which this sentence's document begins. A document never continues into the next file.
    pub document: u64,
    /// Number of the sentence's document among the documents read, counted from 0; `None` unless documents are the sampling
    /// unit.
    pub document_number: Option<u64>,
    /// Group of related sentences, called a family in corpora, to which this sentence belongs; a group counts as one
    /// observation.
    pub family: SentenceGroup,
    /// Id of the sentence in the corpus (`# sent_id` in CoNLL-U), at most 256 bytes; `None` without an id.
    pub id: Option<Arc<str>>,
    /// Field names of [`Annotation::entity`] that `# global.Entity` declares, joined by `-` as in `etype-identity`; `None`
    /// without a declaration.
    pub entity_fields: Option<Arc<str>>,
    pub content: Content,
    /// Links between words of the sentence, one set per link type.
    pub links: Vec<LinkSet>,
    /// Text of the sentence as written, with the byte range of each word. `None` for running text, or if the corpus gives
    /// words alone.
    pub written: Option<WrittenText>,
    /// Number of words in the first text of a pair; `None` for a single text.
    pub first_text_word_count: Option<usize>,
    pub follows_without_space: bool,
}

impl Sentence {
    /// Makes a sentence that belongs to no corpus file; messages call its file `name`.
    pub fn standalone(name: &str, content: Content) -> Self {
        Self { origin: Origin { file: 0, path: name.into(), line: 1 }, ..Self::new(content) }
    }

    pub(super) fn new(content: Content) -> Self {
        Self { content, ..Self::default() }
    }
}

/// Membership of a sentence in a group of related sentences, called a family, which counts as one observation. A sentence
/// joins the group of an earlier sentence with equal words, or else of one with an equal family name. Any other sentence
/// begins a new group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentenceGroup {
    /// Number of the group, which decides the jackknife block. Groups are numbered from 0 in the order of their first
    /// sentences. If documents are the sampling unit, the number is that of the document in which the group begins.
    pub number: u64,
    /// Whether the sentence is the first of its group.
    pub is_first: bool,
}

impl SentenceGroup {
    pub fn new(number: u64) -> Self {
        Self { number, is_first: true }
    }
}

impl Default for SentenceGroup {
    fn default() -> Self {
        Self::new(0)
    }
}

/// File and line of a sentence; displayed as `FILE:LINE`, as compilers print it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Number of the file in the corpus, counted from 0.
    pub file: usize,
    /// Path of the file as messages show it.
    pub path: Arc<str>,
    /// Line on which the sentence begins, counted from 1.
    pub line: u64,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.path, self.line)
    }
}

/// Text or words of a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Running text, which the tokenizer splits into words.
    Text(String),
    /// Pre-split words, with their gold dependency tree where it is annotated.
    Words(Vec<Word>),
}

impl Default for Content {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

impl Content {
    /// Number of bytes of the running text, or of the word forms together.
    pub fn bytes(&self) -> u64 {
        let bytes = match self {
            Self::Text(text) => text.len(),
            Self::Words(words) => words.iter().map(|word| word.form.len()).sum(),
        };
        bytes as u64
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    pub form: String,
    pub head: TreeHead,
    /// Universal Dependencies relation to the syntactic head, with its subtype if any (`nsubj:pass`).
    pub relation: String,
    pub annotation: Annotation,
}

impl Word {
    pub fn new(form: impl Into<String>, head: TreeHead, relation: impl Into<String>) -> Self {
        Self { form: form.into(), head, relation: relation.into(), annotation: Annotation::default() }
    }
}

/// Syntactic head of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeHead {
    /// No syntactic head: the word is a root (HEAD 0 in CoNLL-U).
    Root,
    /// Position of the syntactic head in the sentence, counted from 0.
    Word(usize),
    /// Syntactic head not annotated (`_` in CoNLL-U).
    Unknown,
}

impl TreeHead {
    /// Index of the syntactic head in the sentence; `None` for a root or an unknown head.
    pub fn word(self) -> Option<usize> {
        if let Self::Word(word) = self { Some(word) } else { None }
    }

    /// Maps the position of a syntactic head by `to`; a root and an unknown head stay.
    #[must_use]
    pub fn map_word(self, to: impl FnOnce(usize) -> usize) -> Self {
        self.word().map_or(self, |word| Self::Word(to(word)))
    }
}

/// Checks that syntactic heads are in range and free of cycles. The error is `(word, problem)`, the word by its index.
pub(super) fn check_tree(words: &[Word]) -> Result<(), (usize, Error)> {
    let next = |word: usize| words[word].head.word();
    for word in 0..words.len() {
        if next(word) == Some(word) {
            let error = anyhow!("is {}, the word itself", word + 1).with_value(word + 1);
            return Err((word, error.hint("the head of a root is 0")));
        }
        if let Some(head) = next(word).filter(|&head| head >= words.len()) {
            let error = anyhow!("is {}, but the sentence has {}", head + 1, format_count(words.len(), "word"));
            return Err((word, error.with_value(head + 1)));
        }
    }
    // The walk that met each word first: a walk that meets itself has found a cycle.
    let mut met_by = vec![None; words.len()];
    for start in 0..words.len() {
        let mut at = Some(start);
        while let Some(word) = at {
            if met_by[word] == Some(start) {
                return Err((word, anyhow!("leads into a cycle: {}", describe_cycle(word, next))));
            }
            if met_by[word].is_some() {
                break;
            }
            met_by[word] = Some(start);
            at = next(word);
        }
    }
    Ok(())
}

/// Describes the cycle of syntactic heads through `word`, as in `2 -> 5 -> 2`; at most a dozen words are shown.
fn describe_cycle(word: usize, next: impl Fn(usize) -> Option<usize>) -> String {
    const MAX_SHOWN_WORDS: usize = 12;
    let mut shown = vec![(word + 1).to_string()];
    let mut at = next(word);
    while let Some(other) = at {
        if shown.len() == MAX_SHOWN_WORDS {
            shown.push("...".to_owned());
            break;
        }
        shown.push((other + 1).to_string());
        at = next(other).filter(|_| other != word);
    }
    shown.join(" -> ")
}
