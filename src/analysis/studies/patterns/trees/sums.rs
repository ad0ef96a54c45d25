//! The sums of spanning trees, per block of sentences.

use serde::{Deserialize, Serialize};

use super::spanning::{GoldEdges, TreeBuffers};
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::LayerClasses;
use crate::passes::observer::{Event, Sums};
use crate::sequences::fold::lifts::Lifts;
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::{Blocks, block_of, merge_fields};

/// Gold edges that were found in one block of sentences, or in several pooled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeCounts {
    /// Gold edges.
    pub edges: u64,
    /// Sentences with any, the first of each family alone.
    pub sentences: u64,
    /// The edges in the chain of adjacent words.
    pub chain_hits: u64,
    /// The edges in each head's spanning tree; `[layers * heads]`.
    pub hits: Vec<u64>,
}

impl TreeCounts {
    fn new(grid: HeadGrid) -> Self {
        Self { hits: vec![0; grid.count()], ..Self::default() }
    }
}

merge_fields!(TreeCounts { edges, sentences, chain_hits, hits });

/// The counts of all blocks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TreeSums {
    grid: HeadGrid,
    classes: LayerClasses,
    from: FromToken,
    /// The sums of each block.
    pub blocks: Blocks<TreeCounts>,
    #[serde(skip)]
    buffers: TreeBuffers,
}

impl TreeSums {
    /// Empty sums for a model with `grid` heads, whose queries see these keys, words folded by `from`.
    pub fn new(grid: HeadGrid, classes: LayerClasses, from: FromToken) -> Self {
        Self { grid, classes, from, blocks: Blocks::new(TreeCounts::new(grid)), buffers: TreeBuffers::default() }
    }
}

/// The block and the gold edges of a sequence.
#[derive(Debug)]
pub struct TreeState {
    block: usize,
    /// The gold edges of each sentence with any.
    gold: Vec<GoldEdges>,
    /// The factors of each class of layers.
    lifts: Vec<Lifts>,
}

merge_fields!(TreeSums[grid, classes, from] { blocks });

impl Sums for TreeSums {
    type SequenceState = TreeState;

    fn begin(&mut self, sequence: &Sequence) -> Option<TreeState> {
        let of_tree = |tree| sequence.candidates().into_iter().map(|sentence| GoldEdges::new(tree, sentence)).collect();
        let mut gold: Vec<GoldEdges> = sequence.tree.as_deref().map_or_else(Vec::new, of_tree);
        gold.retain(|sentence| sentence.count() > 0);
        let block = block_of(sequence.family.number);
        let counts = &mut self.blocks[block];
        for sentence in &gold {
            counts.edges += sentence.count();
            counts.sentences += u64::from(sequence.family.is_first);
            counts.chain_hits += sentence.in_chain();
        }
        let kinds = self.classes.kinds().iter();
        let lifts = kinds.map(|&visibility| Lifts::new(sequence, visibility, self.from)).collect();
        Some(TreeState { block, gold, lifts })
    }

    fn observe(&mut self, TreeState { block, gold, lifts }: &mut TreeState, event: &mut Event<'_>) {
        let Event::Head(input) = event else { return };
        if gold.is_empty() {
            return;
        }
        let head = self.grid.index(input.view.layer, input.view.head);
        let lifts = &lifts[self.classes.of(input.view.layer)];
        let words = input.words(self.from);
        for sentence in gold {
            self.blocks[*block].hits[head] += sentence.in_spanning_tree(words, lifts, &mut self.buffers);
        }
    }

    fn fits(&self, grid: HeadGrid, from: FromToken, classes: &LayerClasses) -> bool {
        (self.grid, self.from, &self.classes) == (grid, from, classes)
            && self.blocks.fit(|counts| counts.hits.len() == grid.count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequences::test_support::sentence;

    #[test]
    fn a_sentence_without_an_edge_is_not_counted() {
        let mut sums = TreeSums::new(HeadGrid { layers: 1, heads: 1 }, LayerClasses::default(), FromToken::Mean);
        // One word has no edge, four have three.
        for sentence in [sentence(0, 1, "root"), sentence(1, 4, "nsubj")] {
            assert!(sums.begin(&sentence).is_some());
        }
        let TreeCounts { edges, sentences, .. } = sums.blocks.total();
        assert_eq!((edges, sentences), (3, 1));
    }
}
