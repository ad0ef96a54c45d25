//! Study `trees`: the number of gold tree edges that are also in the maximum spanning tree of an attention head
//! (docs/methodology/trees.md).

pub mod spanning;

use serde::{Deserialize, Serialize};

use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::LayerClasses;
use crate::passes::observer::{Event, Sums};
use crate::passes::pass::Pass;
use crate::sequences::fold::lifts::LiftFactors;
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::{Blocks, block_of, merge_fields};
use crate::study::metrics::metric::{self, Fraction, HeadMetric};
use crate::study::section::NoSection;
use crate::study::{Card, Estimates, EstimationContext, Explanation, ObservedPasses, PassSpec, Study, columns};
use spanning::{GoldEdges, TreeBuffers};

pub struct Trees;

const METRICS: &[HeadMetric<TreeCounts>] = &[HeadMetric::<TreeCounts>::single(|counts, head| {
    let hits = head.map_or(counts.chain_hits, |head| counts.hits[head]);
    Fraction::mean(hits as f64, counts.edges, counts.sentences)
})
.with_explanation(Explanation {
    name: "uuas",
    measures: "How much of the undirected gold tree is in the maximum spanning tree of the head's attention.",
    formula: "share of gold edges in the maximum spanning tree over max(W, W^T), punctuation and roots left out; in a decoder \
        W is over that of the even head",
    chance: "the chain of adjacent words (chance.uuas)",
    source: "Undirected unlabelled attachment score: Klein & Manning 2004; from attention: Raganato & Tiedemann 2018.",
    caveats: "The chain of neighbours already has about two edges in five of English.",
})];

impl Study for Trees {
    type Section = NoSection;

    const CARD: Card = Card {
        name: "trees",
        allows_absent_heads: true,
        question: "How much of the gold tree is in the spanning tree of each head's attention?",
        needs: "a corpus with dependency trees",
        is_default: true,
        metrics: || metric::explanations_with_keys(METRICS),
        range: |_| 0.0..=1.0,
        is_share_metric: |_| true,
        needs_language: true,
        ..Card::EMPTY
    };

    fn passes(&self) -> Vec<PassSpec> {
        vec![PassSpec::new(Pass::PLAIN, |subject| {
            TreeSums::new(subject.grid, subject.classes.clone(), subject.from_token)
        })]
    }

    fn measure(&self, observed: &ObservedPasses<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        let sums: &TreeSums = observed.first_sums();
        (Estimates::from_blocks(&columns(self), context, &sums.blocks, metric::table_values(METRICS)), NoSection)
    }
}

/// Counts of gold tree edges in one jackknife block, or in all blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeCounts {
    /// Number of gold edges.
    pub edges: u64,
    /// Number of sentences with gold edges. Related sentences count once.
    pub sentences: u64,
    /// Number of gold edges between adjacent words: the hits of a baseline that joins adjacent words.
    pub chain_hits: u64,
    /// Number of gold edges in each attention head's maximum spanning tree, `[layers * heads]`.
    pub hits: Vec<u64>,
}

merge_fields!(TreeCounts { edges, sentences, chain_hits, hits });

/// Counts of gold tree edges in all jackknife blocks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TreeSums {
    grid: HeadGrid,
    classes: LayerClasses,
    from: FromToken,
    pub blocks: Blocks<TreeCounts>,
    #[serde(skip)]
    buffers: TreeBuffers,
}

impl TreeSums {
    pub fn new(grid: HeadGrid, classes: LayerClasses, from: FromToken) -> Self {
        let blocks = Blocks::new(TreeCounts { hits: vec![0; grid.head_count()], ..TreeCounts::default() });
        Self { grid, classes, from, blocks, buffers: TreeBuffers::default() }
    }
}

/// The sequence being observed, with its gold edges.
#[derive(Debug)]
pub struct TreeState {
    block: usize,
    /// Gold edges of each sentence in the sequence.
    gold: Vec<GoldEdges>,
    /// Lift factors for each distinct attention mask of the layers: reciprocals of a decoder's uniform attention between words;
    /// all 1 for a bidirectional mask.
    lifts: Vec<LiftFactors>,
}

merge_fields!(TreeSums[grid, classes, from] { blocks });

impl Sums for TreeSums {
    type SequenceState = TreeState;

    fn begin(&mut self, sequence: &Sequence) -> Option<TreeState> {
        let edges =
            |tree| sequence.counted_words_by_sentence().into_iter().map(move |sentence| GoldEdges::new(tree, sentence));
        let gold = sequence.tree.as_deref().into_iter().flat_map(edges);
        let gold: Vec<GoldEdges> = gold.filter(|sentence| sentence.edge_count() > 0).collect();
        let block = block_of(sequence.family.number);
        let counts = &mut self.blocks[block];
        for sentence in &gold {
            counts.edges += sentence.edge_count();
            counts.sentences += u64::from(sequence.family.is_first);
            counts.chain_hits += sentence.adjacent_edge_count();
        }
        let visibilities = self.classes.visibilities().iter();
        let lifts = visibilities.map(|&visibility| LiftFactors::new(sequence, visibility, self.from)).collect();
        Some(TreeState { block, gold, lifts })
    }

    fn observe(&mut self, TreeState { block, gold, lifts }: &mut TreeState, event: &mut Event<'_>) {
        let Event::Head(input) = event else { return };
        if gold.is_empty() {
            return;
        }
        let head = self.grid.index(input.view.layer, input.view.head);
        let lifts = &lifts[self.classes.class_index(input.view.layer)];
        let words = input.word_attention(self.from);
        for sentence in gold {
            self.blocks[*block].hits[head] += sentence.count_in_spanning_tree(words, lifts, &mut self.buffers);
        }
    }

    fn fits(&self, grid: HeadGrid, from: FromToken, classes: &LayerClasses) -> bool {
        (self.grid, self.from, &self.classes) == (grid, from, classes)
            && self.blocks.is_valid(|counts| counts.hits.len() == grid.head_count())
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
