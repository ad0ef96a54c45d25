//! How much of the gold tree is in the maximum spanning tree of a head's attention (METHODOLOGY, "Trees").

use serde::{Deserialize, Serialize};

use crate::attention::WordAttention;
use crate::corpus::Head;
use crate::encode::Arc;

use super::dependency::{PUNCT, base};

/// The undirected edges of a gold tree, punctuation removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GoldEdges {
    /// The positions of the words that are not punctuation, ascending.
    words: Vec<usize>,
    /// For each of those its gold head, as an index into `words`, if that is not punctuation or the root.
    heads: Vec<Option<usize>>,
}

impl GoldEdges {
    /// Drops punctuation, roots and words without annotation from `tree`.
    #[must_use]
    pub fn new(tree: &[Arc]) -> Self {
        let words: Vec<usize> = (0..tree.len()).filter(|&word| base(&tree[word].relation) != PUNCT).collect();
        let heads = words
            .iter()
            .map(|&word| match tree[word].head {
                Head::Word(head) => words.binary_search(&head).ok(),
                Head::Root | Head::Unknown => None,
            })
            .collect();
        Self { words, heads }
    }

    /// The number of gold edges.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.heads.iter().flatten().count() as u64
    }

    fn contains(&self, a: usize, b: usize) -> bool {
        self.heads[a] == Some(b) || self.heads[b] == Some(a)
    }

    /// The gold edges between words that are adjacent in the sentence as it stands: the baseline.
    #[must_use]
    pub fn in_chain(&self) -> u64 {
        let adjacent = |word: usize| self.words[word] - self.words[word - 1] == 1 && self.contains(word - 1, word);
        (1..self.words.len()).filter(|&word| adjacent(word)).count() as u64
    }

    /// The gold edges that the maximum spanning tree over `max(W, W^T)` has.
    ///
    /// Prim's algorithm from the first word; among equal weights the lowest index joins first, to the word that joined
    /// earlier.
    #[must_use]
    pub fn in_spanning_tree(&self, attention: &WordAttention) -> u64 {
        let words = &self.words;
        if self.count() == 0 {
            return 0;
        }
        let weight = |a: usize, b: usize| attention.get(words[a], words[b]).max(attention.get(words[b], words[a]));
        // For each word outside the tree, the best edge into it: (weight, end inside the tree).
        let mut outside: Vec<(usize, f64, usize)> = (1..words.len()).map(|word| (word, weight(0, word), 0)).collect();
        let mut hits = 0;
        while !outside.is_empty() {
            let mut best = 0;
            for candidate in 1..outside.len() {
                if outside[candidate].1 > outside[best].1 {
                    best = candidate;
                }
            }
            // `remove` keeps the order, so that the lowest index stays first among equals.
            let (joined, _, inside) = outside.remove(best);
            hits += u64::from(self.contains(inside, joined));
            for (word, best_weight, end) in &mut outside {
                let through = weight(joined, *word);
                if through > *best_weight {
                    (*best_weight, *end) = (through, joined);
                }
            }
        }
        hits
    }
}

/// How many gold edges were found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeSums {
    /// Gold edges.
    pub edges: u64,
    /// Those in the chain of adjacent words.
    pub chain_hits: u64,
    /// Those in each head's spanning tree; `[layers * heads]`.
    pub hits: Vec<u64>,
}

impl TreeSums {
    /// Adds another block's counts.
    pub fn merge(&mut self, other: &Self) {
        self.edges += other.edges;
        self.chain_hits += other.chain_hits;
        self.hits.iter_mut().zip(&other.hits).for_each(|(sum, hits)| *sum += hits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attention::{AttentionView, FromToken};

    fn arc(head: Option<usize>, relation: &str) -> Arc {
        Arc { head: head.map_or(Head::Root, Head::Word), relation: relation.to_owned() }
    }

    /// `dogs , loudly barked`: dogs <- barked, `,` <- dogs, loudly <- barked, barked is the root.
    fn gold() -> GoldEdges {
        GoldEdges::new(&[arc(Some(3), "nsubj"), arc(Some(0), "punct"), arc(Some(3), "advmod"), arc(None, "root")])
    }

    fn found(weights: &[f32; 16]) -> u64 {
        let mut words = WordAttention::default();
        words.fold(AttentionView::new(0, 0, 4, weights), &[0..1, 1..2, 2..3, 3..4], FromToken::Mean);
        gold().in_spanning_tree(&words)
    }

    #[test]
    fn punctuation_and_roots_are_no_edges() {
        assert_eq!(gold().count(), 2);
        // loudly barked are adjacent; dogs and loudly are not, with the comma between.
        assert_eq!(gold().in_chain(), 1);
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
