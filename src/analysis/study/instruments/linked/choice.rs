//! The word that an attention head chooses as the target of a link.

use crate::sequences::fold::words::WordAttention;
use crate::study::instruments::partners::{Partners, index_of_largest};
use crate::study::labels::evidence::Direction;

/// How one attention head chooses the target of a link in one direction.
#[derive(Clone, Copy)]
pub struct LinkChoice<'a> {
    pub attention: &'a WordAttention,
    pub partners: &'a Partners,
    pub direction: Direction,
    /// Whether the weights of both directions are averaged, as for undirected links.
    pub is_undirected: bool,
}

impl LinkChoice<'_> {
    /// The word among `others` with the largest weight; ties go to the first. In a decoder, weights are compared as
    /// ratios to uniform attention.
    pub fn best_word(&self, word: usize, others: &[usize]) -> Option<usize> {
        let others = others.iter().copied();
        if self.is_undirected {
            return index_of_largest(others, |other| self.raw_weight(word, other));
        }
        index_of_largest(others, |other| self.partners.weight(self.attention, self.direction, word, other))
    }

    /// The weight between two words, without the correction for uniform attention.
    fn raw_weight(&self, word: usize, other: usize) -> f64 {
        let Self { attention, direction, is_undirected: is_both_ways, .. } = *self;
        match direction.is_forward() {
            _ if is_both_ways => f64::midpoint(attention.get(word, other), attention.get(other, word)),
            true => attention.get(word, other),
            false => attention.get(other, word),
        }
    }

    /// The largest raw weight between `word` and a candidate. In an encoder, it is the weight of the chosen word `best`. In a
    /// decoder, `best` is chosen by the ratio to uniform attention, so that another candidate can have a larger raw weight.
    pub fn largest_weight(&self, word: usize, best: usize, candidates: &[usize]) -> f64 {
        if self.partners.is_causal {
            return candidates.iter().map(|&other| self.raw_weight(word, other)).fold(0.0, f64::max);
        }
        self.raw_weight(word, best)
    }
}
