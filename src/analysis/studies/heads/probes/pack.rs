//! Word vectors of a pack of sequences, layer by layer: a pack has enough words for efficient matrix products.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::model::forward::WordEmbeddings;
use crate::model::forward::rows::Rows;
use crate::model::forward::visitor::Needs;
use crate::model::grid::HeadGrid;
use crate::passes::observer::{Event, HeadInput};
use crate::sequences::sequence::Sequence;
use crate::sequences::span::WordSpan;

/// Activations that the probes read: contexts of heads and inputs of layers.
pub const PROBE_NEEDS: Needs = Needs { attention: false, contexts: true, layer_inputs: true, ..Needs::ATTENTION };

/// The place of a word's row in a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowPlace {
    /// Index of the word's group in the pack.
    pub group: usize,
    /// Index of the word's row in its group.
    pub row: usize,
}

/// State of a sequence: its words that have a class, and its index among the pack's sequences with such words.
#[derive(Debug)]
pub struct PackState {
    number: usize,
    words: Vec<WordRow>,
}

/// A word that has a class, with its row in the pack.
#[derive(Debug)]
pub struct WordRow {
    pub row_place: RowPlace,
    pub tokens: WordSpan,
}

/// Words of a pack that are summed or scored together. The vector of a word is the mean over its tokens.
#[derive(Clone, Debug, Default)]
pub struct WordGroup<K> {
    /// The property that the words of the group share, such as their fold.
    pub key: K,
    pub word_count: usize,
    /// Distinct word embeddings, `[kinds, embedding]`. Words with equal tokens are of one kind and share an
    /// embedding.
    pub embeddings: Vec<f32>,
    /// Index of each word's embedding in `embeddings`, `[words]`. Empty if the encoder gives no access to
    /// embeddings.
    pub kind_of_word: Vec<usize>,
    /// Embeddings of the word before and of the word after each word, `[words, 2, embedding]`; zeros at the ends of a sequence.
    pub neighbours: Vec<f32>,
    /// Index in `embeddings` of each kind of word. The key has the word's token ids and, for words that share a
    /// token, their shares in the tokens.
    kind_indices: HashMap<Box<[u32]>, usize>,
    /// Input vectors of the current layer, `[words, hidden]`.
    pub inputs: Vec<f32>,
    /// Contexts of all heads of the current layer, `[words, heads * head_dim]`.
    pub contexts: Vec<f32>,
}

/// Word vectors of a pack of sequences, in groups of words.
#[derive(Clone, Debug, Default)]
pub struct WordPack<K> {
    pub groups: Vec<WordGroup<K>>,
    /// Number of sequences of the pack that have begun and have a word with a class.
    sequence_count: usize,
}

impl<K> WordGroup<K> {
    /// Number of kinds of words in the group. Words with equal tokens, and equal shares in them, are of one kind and share an
    /// embedding.
    pub fn kind_count(&self) -> usize {
        self.kind_indices.len()
    }

    /// Adds the embeddings of a word and of its neighbours.
    fn add_embeddings(&mut self, embeddings: &WordEmbeddings, Sequence { ids, words, .. }: &Sequence, word: usize) {
        let Self { embeddings: all, kind_of_word: kinds, neighbours, kind_indices, .. } = self;
        let span = &words[word];
        let mut key = Cow::Borrowed(&ids[span.tokens.clone()]);
        if !span.is_whole() {
            // Words with equal tokens and shares are of one kind. Shares are coded as ids above all token ids.
            let shares = [span.first_share, span.last_share].into_iter().flat_map(f64::to_le_bytes);
            key.to_mut().extend(shares.map(|byte| u32::MAX - u32::from(byte)));
        }
        let kind = kind_indices.get(&*key).copied().unwrap_or_else(|| {
            let start = all.len();
            all.resize(start + embeddings.width(), 0.0);
            write_mean(&mut all[start..], span, |token| embeddings.get(ids[token]));
            kind_indices.insert(key.as_ref().into(), kind_indices.len());
            kind_indices.len() - 1
        });
        kinds.push(kind);
        for beside in [word.checked_sub(1), Some(word + 1)] {
            let start = neighbours.len();
            neighbours.resize(start + embeddings.width(), 0.0);
            if let Some(span) = beside.and_then(|beside| words.get(beside)) {
                write_mean(&mut neighbours[start..], span, |token| embeddings.get(ids[token]));
            }
        }
    }
}

impl<K: Default + PartialEq> WordPack<K> {
    /// Begins a sequence of the pack, given its words that have a class. `None` if it has no such word.
    pub fn begin(&mut self, words: Vec<WordRow>) -> Option<PackState> {
        if words.is_empty() {
            return None;
        }
        self.sequence_count += 1;
        Some(PackState { number: self.sequence_count - 1, words })
    }

    /// Adds a row for a word to the group with this `key`, with the embeddings of the word and its neighbours if available.
    pub fn add_word(
        &mut self,
        key: K,
        embeddings: Option<&WordEmbeddings>,
        sequence: &Sequence,
        word: usize,
    ) -> WordRow {
        let group = self.groups.iter().position(|group| group.key == key).unwrap_or_else(|| {
            self.groups.push(WordGroup { key, ..WordGroup::default() });
            self.groups.len() - 1
        });
        let of_key = &mut self.groups[group];
        of_key.word_count += 1;
        if let Some(embeddings) = embeddings {
            of_key.add_embeddings(embeddings, sequence, word);
        }
        WordRow { row_place: RowPlace { group, row: of_key.word_count - 1 }, tokens: sequence.words[word].clone() }
    }

    /// Stores the vectors of a sequence's words. Returns the layer's index once all its heads were seen in all
    /// sequences of the pack; `None` before.
    pub fn observe(&mut self, state: &PackState, event: &Event<'_>, grid: HeadGrid) -> Option<usize> {
        match event {
            Event::HiddenStates { layer, states } if *layer < grid.layers => self.store_inputs(&state.words, *states),
            Event::Head(HeadInput { view, .. }) => {
                if let Some(context) = view.context {
                    self.store_contexts(&state.words, (view.head, grid.heads), context);
                }
                return (view.head + 1 == grid.heads && state.number + 1 == self.sequence_count).then_some(view.layer);
            }
            _ => {}
        }
        None
    }

    /// Stores the layer inputs of words.
    fn store_inputs(&mut self, words: &[WordRow], states: Rows<'_>) {
        for WordRow { row_place: at, tokens } in words {
            let WordGroup { word_count: words, inputs, .. } = &mut self.groups[at.group];
            let width = states.width();
            inputs.resize(*words * width, 0.0);
            write_mean(&mut inputs[at.row * width..][..width], tokens, |token| states.row(token));
        }
    }

    /// Stores the context of attention head `head`, one of the layer's `heads`, as a mean over the tokens of each word,
    /// weighted by the word's share in each token.
    fn store_contexts(&mut self, words: &[WordRow], (head, heads): (usize, usize), context: Rows<'_>) {
        let width = context.width();
        for WordRow { row_place: at, tokens } in words {
            let WordGroup { word_count: words, contexts, .. } = &mut self.groups[at.group];
            contexts.resize(*words * heads * width, 0.0);
            let own = &mut contexts[(at.row * heads + head) * width..][..width];
            write_mean(own, tokens, |token| context.row(token));
        }
    }
}

/// Writes the mean of the rows of a word's tokens, computed in f64 and weighted by the word's share in each token.
fn write_mean<'a>(into: &mut [f32], span: &WordSpan, row: impl Fn(usize) -> &'a [f32]) {
    if span.len() == 1 {
        into.copy_from_slice(row(span.start()));
        return;
    }
    let mut sums = vec![0.0_f64; into.len()];
    for (token, share) in span.shares() {
        sums.iter_mut().zip(row(token)).for_each(|(sum, &value)| *sum += share * f64::from(value));
    }
    let size = span.share_sum();
    #[expect(clippy::cast_possible_truncation, reason = "the mean of float32 numbers is one")]
    into.iter_mut().zip(sums).for_each(|(mean, sum)| *mean = (sum / size) as f32);
}
