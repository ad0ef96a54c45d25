//! Sentences of a corpus: running text, or words with their gold annotations.

pub(super) mod links;
pub(super) mod written;

use std::fmt;
use std::sync::Arc;

use anyhow::{Error, anyhow};

use super::annotation::Annotation;
use crate::system::counted::counted;
use crate::system::errors::Facts;
use links::LinkSet;
use written::Written;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sentence {
    /// 0-based position in the corpus, over all its files, skipped sentences counted.
    pub index: u64,
    pub origin: Origin,
    /// Index of the first sentence of its document; a document ends with its file.
    pub document: u64,
    /// Number of its document, counted from 0 among the documents read; `None` where documents are not the sampling unit.
    pub document_number: Option<u64>,
    /// The group of sentences that count as one observation together with this one.
    pub family: SentenceFamily,
    /// Id in the corpus (`# sent_id` in CoNLL-U), at most 256 bytes.
    pub id: Option<Arc<str>>,
    /// Fields of [`Annotation::entity`] as `# global.Entity` declares them, joined by `-`: `etype-identity`.
    pub entity_fields: Option<Arc<str>>,
    pub content: Content,
    /// Links between its words, one set for each type.
    pub links: Vec<LinkSet>,
    /// Written text with the place of each word; `None` for running text, and if the corpus does not give it.
    pub written: Option<Written>,
    /// Number of words in the first text of a pair; `None` for a single text.
    pub first_text: Option<usize>,
    pub is_glued: bool,
}

impl Sentence {
    /// A sentence from outside a file; messages give `name` as its file.
    pub fn single(name: &str, content: Content) -> Self {
        Self { origin: Origin { file: 0, path: name.into(), line: 1 }, ..Self::new(content) }
    }

    pub(super) fn new(content: Content) -> Self {
        Self { content, ..Self::default() }
    }
}

/// A group of sentences that count as one observation. A sentence joins the family of an earlier one with equal words, else of an
/// earlier one with its family name, else begins a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentenceFamily {
    /// Number that decides the jackknife block. Families count from 0 as they begin. Where documents are the units, a family has
    /// the number of the document that it begins in.
    pub number: u64,
    pub is_first: bool,
}

impl SentenceFamily {
    pub fn alone(number: u64) -> Self {
        Self { number, is_first: true }
    }
}

impl Default for SentenceFamily {
    fn default() -> Self {
        Self::alone(0)
    }
}

/// The place of a sentence; displayed as `FILE:LINE`, as compilers print it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    pub file: usize,
    pub path: Arc<str>,
    /// The 1-based line on which the sentence starts.
    pub line: u64,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.path, self.line)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Running text; the tokenizer finds the words.
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
    /// Universal Dependencies relation to the head, with subtype if there is one (`nsubj:pass`).
    pub relation: String,
    pub annotation: Annotation,
}

impl Word {
    pub fn new(form: impl Into<String>, head: TreeHead, relation: impl Into<String>) -> Self {
        Self { form: form.into(), head, relation: relation.into(), annotation: Annotation::default() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeHead {
    /// Head 0 in CoNLL-U: the word is a root.
    Root,
    /// The 0-based position of the head word in the sentence.
    Word(usize),
    /// `_` in CoNLL-U: not annotated.
    Unknown,
}

impl TreeHead {
    pub fn word(self) -> Option<usize> {
        if let Self::Word(word) = self { Some(word) } else { None }
    }

    /// Maps the position of a head word by `to`.
    #[must_use]
    pub fn moved(self, to: impl FnOnce(usize) -> usize) -> Self {
        self.word().map_or(self, |word| Self::Word(to(word)))
    }
}

/// Checks that heads are in range and lead to a root; the error names the word, counted from 0, and the problem.
pub(super) fn check_tree(words: &[Word]) -> Result<(), (usize, Error)> {
    let next = |word: usize| words[word].head.word();
    for word in 0..words.len() {
        if next(word) == Some(word) {
            let error = anyhow!("is {}, the word itself", word + 1).of_value(word + 1);
            return Err((word, error.hint("the head of a root is 0")));
        }
        if let Some(head) = next(word).filter(|&head| head >= words.len()) {
            let error = anyhow!("is {}, but the sentence has {}", head + 1, counted(words.len(), "word"));
            return Err((word, error.of_value(head + 1)));
        }
    }
    // The walk that met each word first: a walk that meets itself has found a cycle.
    let mut met_by = vec![None; words.len()];
    for start in 0..words.len() {
        let mut at = Some(start);
        while let Some(word) = at {
            if met_by[word] == Some(start) {
                return Err((word, anyhow!("leads into a cycle: {}", cycle(word, next))));
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

/// A cycle of heads through `word` as text, `2 -> 5 -> 2`, at most a dozen words.
fn cycle(word: usize, next: impl Fn(usize) -> Option<usize>) -> String {
    const SHOWN: usize = 12;
    let mut shown = vec![(word + 1).to_string()];
    let mut at = next(word);
    while let Some(other) = at {
        if shown.len() == SHOWN {
            shown.push("...".to_owned());
            break;
        }
        shown.push((other + 1).to_string());
        at = next(other).filter(|_| other != word);
    }
    shown.join(" -> ")
}
