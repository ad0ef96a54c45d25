//! Gold tree edges that are also in the maximum spanning tree of an attention head (docs/methodology/trees.md).

use std::ops::Range;

use multiversion::multiversion;

use crate::corpus::relation::{PUNCTUATION_RELATION, base_relation};
use crate::linalg::lanes::LANES;
use crate::linalg::search::{first_at_least, largest};
use crate::sequences::fold::lifts::LiftFactors;
use crate::sequences::fold::words::WordAttention;
use crate::sequences::sequence::GoldArc;

/// Undirected edges of the gold dependency tree of one sentence, without punctuation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GoldEdges {
    /// Indices of the words that are not punctuation, ascending.
    words: Vec<usize>,
    /// Index in `words` of each word's gold syntactic head. `None` for roots, and if the head is punctuation.
    heads: Vec<Option<usize>>,
}

impl GoldEdges {
    /// Reads the edges of one sentence, given by its range of words. Punctuation, roots and words without annotation have
    /// no edge to a head.
    pub fn new(tree: &[GoldArc], sentence: Range<usize>) -> Self {
        let words: Vec<usize> =
            sentence.filter(|&word| base_relation(&tree[word].relation) != PUNCTUATION_RELATION).collect();
        let head = |&word: &usize| words.binary_search(&tree[word].head.word()?).ok();
        let heads = words.iter().map(head).collect();
        Self { words, heads }
    }

    /// Number of gold edges.
    pub fn edge_count(&self) -> u64 {
        self.heads.iter().flatten().count() as u64
    }

    /// Whether there is an edge between the words with indices `a` and `b` in `words`.
    fn has_edge(&self, a: usize, b: usize) -> bool {
        self.heads[a] == Some(b) || self.heads[b] == Some(a)
    }

    /// Number of gold edges between words that are adjacent in the sentence, punctuation included: the baseline's hits.
    pub fn adjacent_edge_count(&self) -> u64 {
        let adjacent = |word: usize| self.words[word] - self.words[word - 1] == 1 && self.has_edge(word - 1, word);
        (1..self.words.len()).filter(|&word| adjacent(word)).count() as u64
    }

    /// Number of gold edges in the maximum spanning tree over `max(W, Wᵀ)`, where `W` is the attention times `lifts`.
    /// In a decoder, `lifts` divides attention by uniform attention; in an encoder, all its factors are 1.
    ///
    /// Prim's algorithm from the first word. Of several words with the largest weight, the one with the lowest index
    /// joins the tree. Of several edges from this word with that weight, the tree gets the one to the word that joined
    /// it earliest.
    pub fn count_in_spanning_tree(
        &self,
        attention: &WordAttention,
        lifts: &LiftFactors,
        buffers: &mut TreeBuffers,
    ) -> u64 {
        if self.edge_count() == 0 {
            return 0;
        }
        buffers.compute_weights(&self.words, attention, lifts);
        let TreeBuffers { weights, best_weights: best, tree_ends: inside, closed } = buffers;
        grow_spanning_tree(self.words.len(), weights, best, inside, closed);
        let inner_end = |word: usize| usize::try_from(inside[word]).expect("the index of a word");
        (1..self.words.len()).filter(|&word| self.has_edge(inner_end(word), word)).count() as u64
    }
}

/// Buffers of Prim's algorithm, reused from sentence to sentence. Rows have a length of `width`: the number of words,
/// padded to whole SIMD vectors.
#[derive(Clone, Debug, Default)]
pub struct TreeBuffers {
    /// Edge weights `max(W, Wᵀ)` between words that are not punctuation, `[words, width]`. `W` is the attention times the lift
    /// factors: in a decoder, attention divided by uniform attention; in an encoder, attention itself.
    weights: Vec<f64>,
    /// Largest weight of an edge into the tree, for each word outside the tree, `[width]`.
    best_weights: Vec<f64>,
    /// Index of the tree word at the other end of the edge in `best_weights`, for each word outside the tree,
    /// `[width]`.
    tree_ends: Vec<u64>,
    /// Number added to a word's edge weights, `[width]`: 0 for words outside the tree, minus infinity for words in it and
    /// for padding.
    closed: Vec<f64>,
}

impl TreeBuffers {
    /// Computes the edge weights between `words`, and resets the other buffers.
    fn compute_weights(&mut self, words: &[usize], attention: &WordAttention, lifts: &LiftFactors) {
        let width = words.len().next_multiple_of(LANES);
        // The padding at the end of a row needs no value: it is closed.
        self.weights.resize(words.len() * width, 0.0);
        for rows in lane_blocks(words.len()) {
            for columns in lane_blocks(rows.end) {
                for i in rows.clone() {
                    for j in columns.start..columns.end.min(i + 1) {
                        let (a, b) = (words[i], words[j]);
                        let weight = (attention.row(a)[b] * lifts.get(a, b)).max(attention.row(b)[a] * lifts.get(b, a));
                        self.weights[i * width + j] = weight;
                        self.weights[j * width + i] = weight;
                    }
                }
            }
        }
        self.closed.clear();
        self.closed.resize(words.len(), 0.0);
        self.closed.resize(width, f64::NEG_INFINITY);
        self.best_weights.clear();
        self.best_weights.resize(width, f64::NEG_INFINITY);
        self.tree_ends.clear();
        self.tree_ends.resize(width, 0);
    }
}

/// Splits `0..count` into consecutive ranges of [`LANES`]. A block with this many rows and columns fits the first-level
/// cache.
fn lane_blocks(count: usize) -> impl Iterator<Item = Range<usize>> {
    (0..count).step_by(LANES).map(move |start| start..count.min(start + LANES))
}

/// Runs Prim's algorithm from the first word. Afterwards, `inside` has the word that each other word is joined to.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
fn grow_spanning_tree(words: usize, weights: &[f64], best: &mut [f64], inside: &mut [u64], closed: &mut [f64]) {
    let width = best.len();
    let mut joined = 0;
    for _ in 1..words {
        best[joined] = f64::NEG_INFINITY;
        closed[joined] = f64::NEG_INFINITY;
        let edges = weights[joined * width..][..width].iter().zip(&*closed);
        for ((best, inside), (weight, closed)) in best.iter_mut().zip(&mut *inside).zip(edges) {
            let open_weight = weight + closed;
            let is_better = open_weight > *best;
            *best = if is_better { open_weight } else { *best };
            *inside = if is_better { joined as u64 } else { *inside };
        }
        joined = first_at_least(best, largest(best));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::TreeHead;
    use crate::model::forward::attention::AttentionView;
    use crate::model::grid::visibility::Visibility;
    use crate::sequences::fold::words::FromToken;
    use crate::sequences::span::WordSpan;
    use crate::sequences::test_support::sentence;

    fn arc(head: Option<usize>, relation: &str) -> GoldArc {
        GoldArc { head: head.map_or(TreeHead::Root, TreeHead::Word), relation: relation.to_owned() }
    }

    /// `dogs , loudly barked`: dogs <- barked, `,` <- dogs, loudly <- barked, barked is the root.
    fn gold() -> GoldEdges {
        let tree = [arc(Some(3), "nsubj"), arc(Some(0), "punct"), arc(Some(3), "advmod"), arc(None, "root")];
        GoldEdges::new(&tree, 0..4)
    }

    fn found(weights: &[f32; 16]) -> u64 {
        let mut words = WordAttention::default();
        words.fold(
            AttentionView::new(0, 0, 4, weights),
            &WordSpan::whole_words([0..1, 1..2, 2..3, 3..4]),
            FromToken::Mean,
        );
        let lifts = LiftFactors::new(&sentence(0, 4, "dep"), Visibility::ALL, FromToken::Mean);
        gold().count_in_spanning_tree(&words, &lifts, &mut TreeBuffers::default())
    }

    #[test]
    fn punctuation_and_roots_are_no_edges() {
        assert_eq!(gold().edge_count(), 2);
        // loudly barked are adjacent; dogs and loudly are not, with the comma between.
        assert_eq!(gold().adjacent_edge_count(), 1);
    }

    #[test]
    fn either_direction_makes_an_edge() {
        // dogs -> barked 0.5, barked -> loudly 0.5: both gold. The comma's large weights do not count.
        let weights = [
            0.0, 0.5, 0.0, 0.5, //
            0.0, 0.0, 1.0, 0.0, //
            0.25, 0.75, 0.0, 0.0, //
            0.0, 0.5, 0.5, 0.0,
        ];
        assert_eq!(found(&weights), 2);
    }

    #[test]
    fn the_heaviest_tree_may_miss_the_gold_one() {
        // dogs - loudly 0.9 and dogs - barked 0.8 make the tree; loudly - barked 0.1 would close a cycle.
        let weights = [
            0.1, 0.0, 0.9, 0.0, //
            1.0, 0.0, 0.0, 0.0, //
            0.9, 0.0, 0.0, 0.1, //
            0.8, 0.0, 0.1, 0.1,
        ];
        assert_eq!(found(&weights), 1);
    }
}
