//! The vectors of the words of a pack, layer by layer: enough words for efficient products of matrices.

use std::collections::HashMap;
use std::ops::Range;

use crate::model::forward::WordEmbeddings;
use crate::model::forward::rows::Rows;
use crate::model::grid::HeadGrid;
use crate::passes::observer::{Event, HeadInput};

/// The place of a word's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowPlace {
    /// The group, by its number.
    pub group: usize,
    /// The row in it.
    pub row: usize,
}

/// The state of a sequence: its number in the pack, and its words.
#[derive(Debug)]
pub struct PackState {
    number: usize,
    /// The words that have a row.
    pub words: Vec<WordRow>,
}

/// A word that has a row.
#[derive(Debug)]
pub struct WordRow {
    /// Where.
    pub at: RowPlace,
    /// Its tokens.
    pub tokens: Range<usize>,
}

/// Words of a pack that are summed, or scored, together: the vectors of each are the means over its tokens.
#[derive(Clone, Debug)]
pub struct WordGroup<K> {
    /// Their common key.
    pub key: K,
    /// How many there are.
    pub words: usize,
    /// The embeddings, `[kinds, embedding]`: words of the same tokens are of one kind.
    pub embeddings: Vec<f32>,
    /// The kind of each word; empty if the encoder gives no access to embeddings.
    pub kinds: Vec<usize>,
    /// The kinds by their tokens.
    known: HashMap<Box<[u32]>, usize>,
    /// The input of the layer, `[words, hidden]`.
    pub inputs: Vec<f32>,
    /// The contexts of all heads of the layer, `[words, heads * head_dim]`.
    pub contexts: Vec<f32>,
}

/// The words of a pack.
#[derive(Clone, Debug)]
pub struct Pack<K> {
    /// The words in groups.
    pub groups: Vec<WordGroup<K>>,
    /// Sequences.
    begun: usize,
}

impl<K> Default for Pack<K> {
    fn default() -> Self {
        Self { groups: Vec::new(), begun: 0 }
    }
}

impl<K> WordGroup<K> {
    /// How many kinds of words there are.
    pub fn count_kinds(&self) -> usize {
        self.known.len()
    }
}

impl<K: PartialEq> Pack<K> {
    /// Begins a sequence.
    pub fn begin(&mut self) -> PackState {
        self.begun += 1;
        PackState { number: self.begun - 1, words: Vec::new() }
    }

    /// A row for a word among those with this key.
    pub fn place(&mut self, key: K) -> RowPlace {
        let group = self.groups.iter().position(|group| group.key == key).unwrap_or_else(|| {
            let (embeddings, kinds, known) = (Vec::new(), Vec::new(), HashMap::new());
            let (inputs, contexts) = (Vec::new(), Vec::new());
            self.groups.push(WordGroup { key, words: 0, embeddings, kinds, known, inputs, contexts });
            self.groups.len() - 1
        });
        self.groups[group].words += 1;
        RowPlace { group, row: self.groups[group].words - 1 }
    }

    /// Keeps the embedding of a word that was placed last.
    pub fn embed(&mut self, at: RowPlace, embeddings: &WordEmbeddings, ids: &[u32]) {
        let WordGroup { embeddings: all, kinds, known, .. } = &mut self.groups[at.group];
        let kind = known.get(ids).copied().unwrap_or_else(|| {
            let start = all.len();
            all.resize(start + embeddings.width(), 0.0);
            mean(&mut all[start..], ids.iter().map(|&id| embeddings.of(id)));
            known.insert(ids.into(), known.len());
            known.len() - 1
        });
        kinds.push(kind);
    }

    /// Keeps the vectors of the words of a sequence; the layer if all its heads are seen in all sequences.
    pub fn observe(&mut self, state: &PackState, event: &Event<'_>, grid: HeadGrid) -> Option<usize> {
        match event {
            Event::HiddenStates { layer, states } if *layer < grid.layers => self.input(&state.words, *states),
            Event::Head(HeadInput { view, .. }) => {
                if let Some(context) = view.context {
                    self.context(&state.words, (view.head, grid.heads), context);
                }
                return (view.head + 1 == grid.heads && state.number + 1 == self.begun).then_some(view.layer);
            }
            _ => {}
        }
        None
    }

    /// Keeps what goes into a layer.
    fn input(&mut self, words: &[WordRow], states: Rows<'_>) {
        for WordRow { at, tokens } in words {
            let WordGroup { words, inputs, .. } = &mut self.groups[at.group];
            let width = states.width();
            inputs.resize(*words * width, 0.0);
            mean(&mut inputs[at.row * width..][..width], tokens.clone().map(|token| states.row(token)));
        }
    }

    /// Keeps the contexts of one head of the layer's `heads`.
    fn context(&mut self, words: &[WordRow], (head, heads): (usize, usize), context: Rows<'_>) {
        let width = context.width();
        for WordRow { at, tokens } in words {
            let WordGroup { words, contexts, .. } = &mut self.groups[at.group];
            contexts.resize(*words * heads * width, 0.0);
            let own = &mut contexts[(at.row * heads + head) * width..][..width];
            mean(own, tokens.clone().map(|token| context.row(token)));
        }
    }
}

/// The mean of some rows, in f64.
fn mean<'a>(into: &mut [f32], mut rows: impl ExactSizeIterator<Item = &'a [f32]>) {
    let count = rows.len();
    if count == 1 {
        into.copy_from_slice(rows.next().expect("one row"));
        return;
    }
    let mut sums = vec![0.0_f64; into.len()];
    for row in rows {
        sums.iter_mut().zip(row).for_each(|(sum, &value)| *sum += f64::from(value));
    }
    #[expect(clippy::cast_possible_truncation, reason = "the mean of float32 numbers is one")]
    into.iter_mut().zip(sums).for_each(|(mean, sum)| *mean = (sum / count as f64) as f32);
}
