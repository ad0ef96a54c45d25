//! Sampled sentences with every attention head's weights, kept until the parser is fitted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::lexical_baseline::KeptEmbeddings;
use super::sentence::{KeptSentence, ObservedSentence};
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::LayerClasses;
use crate::passes::observer::{Demands, Event, Sums};
use crate::passes::setup::PassSetup;
use crate::sequences::fold::words::{FromToken, WordAttention};
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::Merge;

/// Sampled sentences with a tree, by sentence index. They are kept whole, since the parser is fitted to sentences.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ParserSums {
    pub grid: HeadGrid,
    classes: LayerClasses,
    from: FromToken,
    pub sentences: BTreeMap<u64, KeptSentence>,
    /// Word embeddings of the sentences' tokens.
    pub embeddings: KeptEmbeddings,
    /// Buffer for attention between words.
    #[serde(skip)]
    folded: WordAttention,
}

impl ParserSums {
    pub fn new(grid: HeadGrid, classes: LayerClasses, from: FromToken) -> Self {
        Self { grid, classes, from, ..Self::default() }
    }

    /// Returns the sentences of one fold: in blocks of even index (`fold` is 0) or of odd index (1).
    pub fn sentences_in_fold(&self, fold: usize) -> Vec<&KeptSentence> {
        self.sentences.values().filter(|sentence| sentence.block % 2 == fold).collect()
    }

    /// Also keeps the word embeddings of the sentences' tokens.
    pub fn with_embeddings(self) -> Self {
        Self { embeddings: KeptEmbeddings::new_enabled(), ..self }
    }
}

impl Merge for ParserSums {
    fn merge(&mut self, other: &Self) {
        let same = (self.grid, &self.classes, self.from) == (other.grid, &other.classes, other.from);
        assert!(same, "sums of one analysis");
        for (&index, sentence) in &other.sentences {
            self.sentences.entry(index).or_insert_with(|| sentence.clone());
        }
        self.embeddings.merge(&other.embeddings);
    }
}

impl Sums for ParserSums {
    /// Index of the sequence in the corpus, and its sentence.
    type SequenceState = (u64, ObservedSentence);

    fn begin_pass(&mut self, known: &PassSetup<'_>) {
        self.embeddings.begin_pass(known);
    }

    fn demands(&self) -> Demands {
        Demands { keeps_attention: true, ..Demands::ATTENTION }
    }

    fn begin(&mut self, sequence: &Sequence) -> Option<Self::SequenceState> {
        let seen = ObservedSentence::new(sequence, &self.classes, self.from, self.grid.head_count())?;
        self.embeddings.keep_embeddings(seen.kept.words.iter().flat_map(|word| &word.tokens));
        Some((sequence.index, seen))
    }

    fn observe(&mut self, (index, seen): &mut Self::SequenceState, event: &mut Event<'_>) {
        match event {
            Event::Head(input) => {
                let view = input.attention();
                let place = (self.grid.index(view.layer, view.head), self.classes.class_index(view.layer));
                seen.keep_attention(place, view, self.from, &mut self.folded);
            }
            Event::PackEnd => drop(self.sentences.insert(*index, std::mem::take(&mut seen.kept))),
            _ => {}
        }
    }

    fn fits(&self, grid: HeadGrid, from: FromToken, classes: &LayerClasses) -> bool {
        (self.grid, self.from, &self.classes) == (grid, from, classes)
            && self.sentences.values().all(|sentence| sentence.fits(grid.head_count()))
            && self.embeddings.are_valid()
    }
}
