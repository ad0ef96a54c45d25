//! The word that an attention head chooses as the target of a link.

use crate::sequences::fold::words::WordAttention;
use crate::study::instruments::partners::{Partners, index_of_largest};
use crate::study::labels::evidence::Direction;

#[derive(Clone, Copy)]
pub struct LinkChoice<'a> {
    pub attention: &'a WordAttention,
    pub partners: &'a Partners,
    pub direction: Direction,
    /// Whether the weights of both directions are averaged, for undirected links.
    pub is_undirected: bool,
}

impl LinkChoice<'_> {
    /// The word among `others` with the largest weight, in a decoder relative to uniform attention. Ties go to the first.
    pub fn best_word(&self, word: usize, others: &[usize]) -> Option<usize> {
        let others = others.iter().copied();
        if self.is_undirected {
            return index_of_largest(others, |other| self.raw_weight(word, other));
        }
        index_of_largest(others, |other| self.partners.weight(self.attention, self.direction, word, other))
    }

    /// The weight between two words, not corrected for uniform attention.
    fn raw_weight(&self, word: usize, other: usize) -> f64 {
        let Self { attention, direction, is_undirected: is_both_ways, .. } = *self;
        match direction.is_forward() {
            _ if is_both_ways => f64::midpoint(attention.get(word, other), attention.get(other, word)),
            true => attention.get(word, other),
            false => attention.get(other, word),
        }
    }

    /// The largest raw weight on a candidate. It is the weight of `best`, except in a decoder, whose weights are compared
    /// relative to uniform attention.
    pub fn largest_weight(&self, word: usize, best: usize, candidates: &[usize]) -> f64 {
        if self.partners.is_causal {
            return candidates.iter().map(|&other| self.raw_weight(word, other)).fold(0.0, f64::max);
        }
        self.raw_weight(word, best)
    }
}
