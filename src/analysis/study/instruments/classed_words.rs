//! Attention to words by their classes: parts of speech, or classes named by the user (docs/methodology/classes.md).

use super::position::QueryKeyPair;
use crate::corpus::Annotation;
use crate::model::grid::visibility::Visibility;
use crate::sequences::fold::even::UniformAttention;
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::sequences::span::WordSpan;

/// The words of a sentence, each with the number of its class, if it has a class. The study decides what the
/// numbers mean.
#[derive(Clone, Debug)]
pub struct ClassedWords {
    /// Index in the sentence of the first word in `classes`: 0, or 1 in a decoder, whose first word is left out.
    pub first_word: usize,
    /// Class number of each word, `[words]`; `None` for a word without a class.
    pub classes: Vec<Option<usize>>,
    /// Tokens of each word.
    spans: Vec<WordSpan>,
    /// Weights of uniform attention in the sequence.
    uniform: UniformAttention,
    /// Whether every word sees all other words.
    pub sees_all_words: bool,
    from: FromToken,
}

impl ClassedWords {
    /// Collects a sentence's words with their classes; `visibility` says which keys each query sees. `None` if no
    /// word has a class.
    pub fn new(
        sequence: &Sequence,
        visibility: Visibility,
        from: FromToken,
        class: impl FnMut(&Annotation) -> Option<usize>,
    ) -> Option<Self> {
        let counted = sequence.counted_words();
        let classes: Vec<Option<usize>> = sequence.annotations.iter().skip(counted.start).map(class).collect();
        if classes.iter().all(Option::is_none) {
            return None;
        }
        let n = sequence.ids.len();
        let (spans, even) = (sequence.words[counted.clone()].to_vec(), UniformAttention::new(visibility, n));
        Some(Self {
            first_word: counted.start,
            classes,
            spans,
            uniform: even,
            sees_all_words: visibility.is_full(n),
            from,
        })
    }

    /// Indices of all words but `word`.
    pub fn other_words(&self, word: usize) -> impl Iterator<Item = usize> + use<> {
        (0..self.classes.len()).filter(move |&other| other != word)
    }

    /// Weight of uniform attention from the word `query` to the word `key`.
    pub fn uniform_weight(&self, query: usize, key: usize) -> f64 {
        self.uniform.word_weight(&self.spans[query], &self.spans[key], self.from)
    }

    /// Adds to `masses`, `[classes]`, the uniform attention that the words of each class receive from other words.
    pub fn add_uniform_masses(&self, masses: &mut [f64]) {
        let words = self.classes.len();
        let from_others = |key: usize| {
            if self.sees_all_words {
                // Every query gives the key equal attention.
                return (words - 1) as f64 * self.uniform_weight(key, key);
            }
            self.other_words(key).map(|query| self.uniform_weight(query, key)).sum()
        };
        self.add_by_class((0..words).map(from_others), masses);
    }

    /// Adds one number for each word (`numbers`, in order) to the sum of the word's class in `masses`, `[classes]`.
    pub fn add_by_class(&self, numbers: impl IntoIterator<Item = f64>, masses: &mut [f64]) {
        for (class, number) in self.classes.iter().zip(numbers) {
            if let Some(class) = class {
                masses[*class] += number;
            }
        }
    }

    /// All pairs of two different words, weighted as by uniform attention. The target of a pair is the class of its
    /// key.
    pub fn word_pairs(&self) -> impl Iterator<Item = QueryKeyPair> {
        let pair = |query: usize, key: usize| {
            let target = self.classes[key].map(|class| (class, 1.0));
            QueryKeyPair { query, key, weight: self.uniform_weight(query, key), target }
        };
        (0..self.classes.len()).flat_map(move |query| self.other_words(query).map(move |key| pair(query, key)))
    }
}
