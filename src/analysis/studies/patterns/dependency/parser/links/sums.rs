//! Sampled sequences with user-defined links, kept until models are fitted. Their memory is bounded.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::kept_links::{LinkedSequence, ObservedLinks};
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::LayerClasses;
use crate::passes::observer::{Event, Sums};
use crate::passes::setup::PassSetup;
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::Merge;
use crate::studies::patterns::dependency::parser::lexical_baseline::KeptEmbeddings;

/// Maximum memory of the attention weights kept per model, in bytes (docs/BOUNDS.md).
pub const MAX_KEPT_BYTES: u64 = 1 << 30;

/// Maximum memory of one sequence's attention weights, in bytes, so that at least four sequences fit.
pub const MAX_SEQUENCE_BYTES: u64 = MAX_KEPT_BYTES / 4;

/// Sampled sequences with links, by sequence index. They are kept whole, since models are fitted to sequences.
///
/// The first sequences of the corpus are kept, up to [`MAX_KEPT_BYTES`] in all. The selection does not depend on the order
/// in which workers see the sequences: a sequence that is preceded by too many bytes never fits.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LinkParserSums {
    grid: HeadGrid,
    classes: LayerClasses,
    from: FromToken,
    pub sequences: BTreeMap<u64, LinkedSequence>,
    /// Number of sequences with scored links, whether or not they were kept.
    pub seen: u64,
    /// Index of the first sequence that exceeds [`MAX_KEPT_BYTES`]. Neither this sequence nor later ones are kept. `None`
    /// if all fit.
    end: Option<u64>,
    /// Word embeddings of the kept tokens.
    pub embeddings: KeptEmbeddings,
    /// Memory in bytes of each sequence that the workers of a pass have seen, by sequence index.
    #[serde(skip)]
    sizes: Arc<Mutex<BTreeMap<u64, u64>>>,
    /// Buffer for the pairs' weights after the average product correction.
    #[serde(skip)]
    corrected: Vec<f64>,
}

impl LinkParserSums {
    pub fn new(grid: HeadGrid, classes: LayerClasses, from: FromToken) -> Self {
        Self { grid, classes, from, ..Self::default() }
    }

    /// Also keeps the word embeddings of the sequences' tokens.
    pub fn with_embeddings(self) -> Self {
        Self { embeddings: KeptEmbeddings::new_enabled(), ..self }
    }

    /// Whether the sequence with this index comes before the first that exceeds [`MAX_KEPT_BYTES`].
    fn may_keep(&self, index: u64) -> bool {
        self.end.is_none_or(|end| index < end)
    }

    /// Drops the first sequence that takes the total memory over `most` bytes, and all later ones. `sizes` has the bytes of
    /// each sequence.
    fn truncate_to_bytes(&mut self, sizes: &BTreeMap<u64, u64>, most: u64) {
        let mut total = 0_u64;
        let end = sizes.iter().find(|(_, bytes)| {
            total = total.saturating_add(**bytes);
            total > most
        });
        self.end = self.end.into_iter().chain(end.map(|(&index, _)| index)).min();
        if let Some(end) = self.end {
            drop(self.sequences.split_off(&end));
        }
    }

    /// Memory in bytes of each kept sequence, by sequence index.
    pub fn sequence_bytes(&self) -> BTreeMap<u64, u64> {
        self.sequences.iter().map(|(&index, sequence)| (index, sequence.attention_bytes())).collect()
    }
}

impl Merge for LinkParserSums {
    fn merge(&mut self, other: &Self) {
        let same = (self.grid, &self.classes, self.from) == (other.grid, &other.classes, other.from);
        assert!(same, "sums of one analysis");
        self.seen += other.seen;
        self.end = self.end.into_iter().chain(other.end).min();
        for (&index, sequence) in &other.sequences {
            self.sequences.entry(index).or_insert_with(|| sequence.clone());
        }
        self.embeddings.merge(&other.embeddings);
        self.truncate_to_bytes(&self.sequence_bytes(), MAX_KEPT_BYTES);
    }
}

impl Sums for LinkParserSums {
    /// Index of the sequence in the corpus, and its links while attention is being stored.
    type SequenceState = (u64, ObservedLinks);

    fn begin_pass(&mut self, known: &PassSetup<'_>) {
        self.embeddings.begin_pass(known);
    }

    fn begin(&mut self, sequence: &Sequence) -> Option<Self::SequenceState> {
        let seen = ObservedLinks::new(sequence, &self.classes, self.from, self.grid.head_count())?;
        self.seen += 1;
        let (bytes, index) = (seen.kept.attention_bytes(), sequence.index);
        if bytes > MAX_SEQUENCE_BYTES || !self.may_keep(index) {
            return None;
        }
        self.sizes.lock().unwrap_or_else(PoisonError::into_inner).insert(index, bytes);
        self.embeddings.keep_embeddings(seen.kept.words.iter().flatten());
        Some((index, seen))
    }

    fn observe(&mut self, (index, seen): &mut Self::SequenceState, event: &mut Event<'_>) {
        match event {
            Event::Head(input) => {
                let view = input.attention();
                let place = (self.grid.index(view.layer, view.head), self.classes.class_index(view.layer));
                seen.keep_attention(place, input.word_attention(self.from), &mut self.corrected);
            }
            Event::PackEnd => {
                self.sequences.insert(*index, std::mem::take(&mut seen.kept));
                let sizes = Arc::clone(&self.sizes);
                let sizes = sizes.lock().unwrap_or_else(PoisonError::into_inner);
                self.truncate_to_bytes(&sizes, MAX_KEPT_BYTES);
            }
            _ => {}
        }
    }

    fn fits(&self, grid: HeadGrid, from: FromToken, classes: &LayerClasses) -> bool {
        (self.grid, self.from, &self.classes) == (grid, from, classes)
            && self.sequences.len() as u64 <= self.seen
            && self.sequences.values().all(|sequence| sequence.fits(grid.head_count()))
            && self.embeddings.are_valid()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn empty() -> LinkParserSums {
        LinkParserSums::new(HeadGrid { layers: 1, heads: 1 }, LayerClasses::default(), FromToken::Mean)
    }

    /// The numbers of sequences that are kept of some that are met in an order, by workers that see parts of them.
    fn kept(sizes: &[u64], parts: &[Vec<u64>], most: u64) -> Vec<u64> {
        let nothing =
            LinkedSequence { block: 0, is_first: true, words: Vec::new(), classes: Vec::new(), links: Vec::new() };
        let size = |index: u64| sizes[usize::try_from(index).unwrap()];
        let mut whole = empty();
        for part in parts {
            let mut sums = empty();
            let mut seen = BTreeMap::new();
            for &index in part {
                if sums.may_keep(index) {
                    seen.insert(index, size(index));
                    sums.sequences.insert(index, nothing.clone());
                    sums.truncate_to_bytes(&seen, most);
                }
            }
            whole.end = whole.end.into_iter().chain(sums.end).min();
            whole.sequences.append(&mut sums.sequences);
            let known = whole.sequences.keys().map(|&index| (index, size(index))).collect();
            whole.truncate_to_bytes(&known, most);
        }
        whole.sequences.into_keys().collect()
    }

    #[test]
    fn the_first_that_have_room_are_kept() {
        assert_eq!(kept(&[3, 4, 5, 1], &[vec![0, 1, 2, 3]], 8), [0, 1]);
        // The third is met first; the fourth has no room behind it, though it is small.
        assert_eq!(kept(&[3, 4, 5, 1], &[vec![2, 3], vec![1, 0]], 8), [0, 1]);
        assert_eq!(kept(&[3, 4, 5, 1], &[vec![3, 1], vec![2, 0]], 20), [0, 1, 2, 3]);
    }

    proptest! {
        /// Whoever sees which of them in which order, the same are kept.
        #[test]
        fn workers_keep_the_same(
            sizes in prop::collection::vec(1..9_u64, 1..12),
            most in 1..40_u64,
            order in Just((0..12_u64).collect::<Vec<_>>()).prop_shuffle(),
            workers in 1..4_usize,
        ) {
            let order: Vec<u64> = order.into_iter().filter(|&index| index < sizes.len() as u64).collect();
            let parts: Vec<Vec<u64>> = order.chunks(order.len().div_ceil(workers)).map(<[u64]>::to_vec).collect();
            let all: Vec<u64> = (0..sizes.len() as u64).collect();
            prop_assert_eq!(kept(&sizes, &parts, most), kept(&sizes, &[all], most));
        }
    }
}
