//! The pairs of words that a head's attention joins most, for undirected links: contacts of proteins by their weights after the
//! average product correction (Dunn et al. 2008; of attention Rao et al. 2021).

use std::cmp::Ordering;
use std::ops::Range;

use super::sources::LinkedWords;
use crate::corpus::LinkSet;
use crate::sequences::fold::words::WordAttention;

/// The candidate pairs of one sentence.
#[derive(Debug)]
pub struct LinkedPairs {
    words: Range<usize>,
    /// Each with whether it is linked, ascending.
    pairs: Vec<(usize, usize, bool)>,
}

impl LinkedWords<'_> {
    /// The candidate pairs of the sentence that links are in; `None` if there is no pair.
    pub fn pairs(&self, links: &LinkSet) -> Option<LinkedPairs> {
        let words = self.sentence_of(links)?;
        let is_named = |word: usize| links.candidates.as_ref().is_none_or(|named| named.contains(&word));
        let others =
            |word: usize| (word + links.kind.min_distance.max(1)..words.end).filter(move |&other| is_named(other));
        let linked = |word: usize, other: usize| links.targets.get(&word).is_some_and(|to| to.contains(&other));
        let named = words.clone().filter(|&word| is_named(word));
        let pairs: Vec<(usize, usize, bool)> = named
            .flat_map(|word| others(word).map(move |other| (word, other)))
            .filter(|&(word, other)| self.is_seen(word, other, None))
            .map(|(word, other)| (word, other, linked(word, other)))
            .collect();
        (!pairs.is_empty()).then_some(LinkedPairs { words, pairs })
    }
}

impl LinkedPairs {
    /// How many pairs are taken: as many as the sentence has words.
    pub fn taken(&self) -> usize {
        self.words.len().min(self.pairs.len())
    }

    /// The linked pairs among as many drawn at random.
    pub fn chance(&self) -> f64 {
        let linked = self.pairs.iter().filter(|(.., is_linked)| *is_linked).count();
        (self.taken() * linked) as f64 / self.pairs.len() as f64
    }

    /// The linked pairs among those with the largest corrected weights, the first of equal ones; `corrected` is room.
    pub fn right(&self, attention: &WordAttention, corrected: &mut Vec<f64>) -> u64 {
        let Range { start, end } = self.words;
        let weight = |word: usize, other: usize| f64::midpoint(attention.get(word, other), attention.get(other, word));
        let sums: Vec<f64> = (start..end).map(|word| (start..end).map(|other| weight(word, other)).sum()).collect();
        let all: f64 = sums.iter().sum();
        corrected.clear();
        let value = |&(word, other, _): &(usize, usize, bool)| {
            let expected = sums[word - start] * sums[other - start] / all;
            if all > 0.0 { weight(word, other) - expected } else { 0.0 }
        };
        corrected.extend(self.pairs.iter().map(value));
        let by_weight = |a: &usize, b: &usize| -> Ordering { corrected[*b].total_cmp(&corrected[*a]).then(a.cmp(b)) };
        let mut order: Vec<usize> = (0..self.pairs.len()).collect();
        let taken = self.taken();
        if taken < order.len() {
            order.select_nth_unstable_by(taken, by_weight);
        }
        order[..taken].iter().filter(|&&pair| self.pairs[pair].2).count() as u64
    }
}
