//! The sentences of the sample, kept until the parser is fitted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::sentence::{KeptSentence, KeptWord, SeenSentence};
use crate::model::forward::WordEmbeddings;
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::LayerClasses;
use crate::passes::observer::{Demands, Event, Sums};
use crate::passes::setup::PassSetup;
use crate::sequences::fold::words::{FromToken, WordAttention};
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::Merge;

/// The sentences with a tree, by their numbers: what the parser learns from is no sum.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ParserSums {
    pub grid: HeadGrid,
    classes: LayerClasses,
    from: FromToken,
    /// The sentences by their places in the corpus.
    pub sentences: BTreeMap<u64, KeptSentence>,
    keeps_embeddings: bool,
    /// The embedding of each token of a word; empty where they are not kept.
    embeddings: BTreeMap<u32, Vec<f32>>,
    #[serde(skip)]
    table: Option<WordEmbeddings>,
    #[serde(skip)]
    folded: WordAttention,
}

impl ParserSums {
    /// Nothing yet, of a model with `grid` heads whose queries see these keys, words folded by `from`.
    pub fn new(grid: HeadGrid, classes: LayerClasses, from: FromToken) -> Self {
        Self {
            grid,
            classes,
            from,
            sentences: BTreeMap::new(),
            keeps_embeddings: false,
            embeddings: BTreeMap::new(),
            table: None,
            folded: WordAttention::default(),
        }
    }

    /// The sentences in blocks of even number, or in those of odd number.
    pub fn in_fold(&self, fold: usize) -> Vec<&KeptSentence> {
        self.sentences.values().filter(|sentence| sentence.block % 2 == fold).collect()
    }

    /// These sums, keeping the embeddings of words.
    pub fn with_embeddings(self) -> Self {
        Self { keeps_embeddings: true, ..self }
    }

    /// The length of an embedding; `None` where embeddings are not kept.
    pub fn embedding_width(&self) -> Option<usize> {
        self.embeddings.values().next().map(Vec::len)
    }

    /// The mean embedding of the tokens of a word; `None` where embeddings are not kept.
    pub fn embedding(&self, word: &KeptWord) -> Option<Vec<f64>> {
        let mut mean = vec![0.0; self.embedding_width()?];
        for token in &word.tokens {
            let embedding = self.embeddings.get(token)?;
            mean.iter_mut().zip(embedding).for_each(|(mean, &value)| *mean += f64::from(value));
        }
        mean.iter_mut().for_each(|value| *value /= word.tokens.len().max(1) as f64);
        Some(mean)
    }

    fn keep_embeddings(&mut self, sentence: &KeptSentence) {
        let Some(table) = self.table.as_ref().filter(|_| self.keeps_embeddings) else { return };
        for &token in sentence.words.iter().flat_map(|word| &word.tokens) {
            self.embeddings.entry(token).or_insert_with(|| table.of(token).to_vec());
        }
    }
}

impl Merge for ParserSums {
    fn merge(&mut self, other: &Self) {
        let same = (self.grid, &self.classes, self.from) == (other.grid, &other.classes, other.from);
        assert!(same, "sums of one analysis");
        for (&index, sentence) in &other.sentences {
            self.sentences.entry(index).or_insert_with(|| sentence.clone());
        }
        for (&token, embedding) in &other.embeddings {
            self.embeddings.entry(token).or_insert_with(|| embedding.clone());
        }
    }
}

/// The number of a sentence with a tree, and what was seen of it.
pub type ParserState = (u64, SeenSentence);

impl Sums for ParserSums {
    type SequenceState = ParserState;

    fn begin_pass(&mut self, known: &PassSetup<'_>) {
        self.table.clone_from(&known.embeddings);
    }

    fn demands(&self) -> Demands {
        Demands { keeps_attention: true, ..Demands::ATTENTION }
    }

    fn begin(&mut self, sequence: &Sequence) -> Option<ParserState> {
        let seen = SeenSentence::new(sequence, &self.classes, self.from, self.grid.count())?;
        self.keep_embeddings(&seen.kept);
        Some((sequence.index, seen))
    }

    fn observe(&mut self, (index, seen): &mut ParserState, event: &mut Event<'_>) {
        let input = match event {
            Event::Head(input) => input,
            Event::PackOver => {
                self.sentences.insert(*index, std::mem::take(&mut seen.kept));
                return;
            }
            _ => return,
        };
        let view = input.attention();
        let place = (self.grid.index(view.layer, view.head), self.classes.of(view.layer));
        seen.keep(place, view, self.from, &mut self.folded);
    }

    fn fits(&self, grid: HeadGrid, from: FromToken, classes: &LayerClasses) -> bool {
        let width = self.embedding_width();
        let is_embedding =
            |values: &Vec<f32>| Some(values.len()) == width && values.iter().all(|value| value.is_finite());
        (self.grid, self.from, &self.classes) == (grid, from, classes)
            && self.sentences.values().all(|sentence| sentence.fits(grid.count()))
            && self.embeddings.values().all(is_embedding)
    }
}
