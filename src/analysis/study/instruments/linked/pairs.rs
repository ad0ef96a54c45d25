//! Undirected links: the pairs of words that a head's attention joins most, such as contacts in proteins. Weights have the
//! average product correction (Dunn et al. 2008; for attention Rao et al. 2021).

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Range;

use itertools::Itertools;
use serde::{Deserialize, Serialize};

use super::sources::LinkedWords;
use crate::corpus::LinkSet;
use crate::sequences::fold::words::WordAttention;
use crate::stats::blocks::{Merge, merge_fields};

/// The candidate pairs of a sentence for undirected links.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkedPairs {
    /// Words of the sentence.
    words: Range<usize>,
    /// Candidate pairs as `(word, other, is_linked)`, ascending.
    pairs: Vec<(usize, usize, bool)>,
}

impl LinkedWords<'_> {
    /// The candidate pairs in the sentence of the links; `None` if the sentence has no candidate pair.
    pub fn pairs(&self, links: &LinkSet) -> Option<LinkedPairs> {
        let words = self.sentence_of(links)?;
        let is_named = |word: usize| links.candidates.as_ref().is_none_or(|named| named.contains(&word));
        let others =
            |word: usize| (word + links.link_type.min_distance.max(1)..words.end).filter(move |&other| is_named(other));
        let linked = |word: usize, other: usize| links.targets.get(&word).is_some_and(|to| to.contains(&other));
        let named = words.clone().filter(|&word| is_named(word));
        let pairs: Vec<(usize, usize, bool)> = named
            .flat_map(|word| others(word).map(move |other| (word, other)))
            .filter(|&(word, other)| self.can_be_candidate(word, other, None))
            .map(|(word, other)| (word, other, linked(word, other)))
            .collect();
        (!pairs.is_empty()).then_some(LinkedPairs { words, pairs })
    }
}

impl LinkedPairs {
    pub fn word_count(&self) -> usize {
        self.words.len()
    }

    /// Number of pairs that are taken as predicted links: as many as the sentence has words, or all pairs if there are
    /// fewer.
    pub fn predicted_link_count(&self) -> usize {
        self.words.len().min(self.pairs.len())
    }

    /// Expected number of linked pairs if the predicted links were chosen at random.
    pub fn expected_linked_count(&self) -> f64 {
        (self.predicted_link_count() * self.linked_count()) as f64 / self.pairs.len() as f64
    }

    /// The candidate pairs as `(word, other, is_linked)`, ascending.
    pub fn pairs(&self) -> &[(usize, usize, bool)] {
        &self.pairs
    }

    pub fn linked_count(&self) -> usize {
        self.pairs.iter().filter(|(.., is_linked)| *is_linked).count()
    }

    /// Writes the weight of each candidate pair into `corrected`, after the average product correction.
    pub fn corrected_weights(&self, attention: &WordAttention, corrected: &mut Vec<f64>) {
        let Range { start, end } = self.words;
        let weight = |word: usize, other: usize| f64::midpoint(attention.get(word, other), attention.get(other, word));
        let sums: Vec<f64> = (start..end).map(|word| (start..end).map(|other| weight(word, other)).sum()).collect();
        let total: f64 = sums.iter().sum();
        corrected.clear();
        let corrected_weight = |&(word, other, _): &(usize, usize, bool)| {
            let expected = sums[word - start] * sums[other - start] / total;
            if total > 0.0 { weight(word, other) - expected } else { 0.0 }
        };
        corrected.extend(self.pairs.iter().map(corrected_weight));
    }

    /// Number of linked pairs among the predicted links, the pairs with the largest `weights`; ties go to the first
    /// pair.
    pub fn hit_count(&self, weights: &[f64]) -> u64 {
        let by_weight = |a: &usize, b: &usize| -> Ordering { weights[*b].total_cmp(&weights[*a]).then(a.cmp(b)) };
        let mut order: Vec<usize> = (0..self.pairs.len()).collect();
        let taken = self.predicted_link_count();
        if taken < order.len() {
            order.select_nth_unstable_by(taken, by_weight);
        }
        order[..taken].iter().filter(|&&pair| self.pairs[pair].2).count() as u64
    }

    /// Whether the pairs are ascending and fit a sentence of `words` words. Pairs read from a file are untrusted.
    pub fn fits(&self, words: usize) -> bool {
        let is_pair = |&(word, other, _): &(usize, usize, bool)| {
            self.words.contains(&word) && word < other && other < self.words.end
        };
        let are_ascending = self.pairs.is_sorted_by(|a, b| (a.0, a.1) < (b.0, b.1));
        self.words.end <= words && !self.pairs.is_empty() && are_ascending && self.pairs.iter().all(is_pair)
    }
}

/// The candidate pairs of all sentences with an equal number of words, counted by the distance of the two words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairsByDistance {
    /// Number of pairs that are taken as predicted links, summed over sentences.
    taken: u64,
    /// Number of pairs, and of linked pairs, at each distance of the two words: `[all, linked]`.
    counts: BTreeMap<usize, [u64; 2]>,
}

merge_fields!(PairsByDistance { taken, counts });

impl PairsByDistance {
    pub fn add(&mut self, pairs: &LinkedPairs) {
        self.taken += pairs.predicted_link_count() as u64;
        for &(word, other, is_linked) in &pairs.pairs {
            let [all, linked] = self.counts.entry(other - word).or_default();
            *all += 1;
            *linked += u64::from(is_linked);
        }
    }

    /// Expected number of linked pairs if pairs are chosen by distance, in this `order` of distances. Pairs with
    /// equal distance are chosen at random.
    pub fn expected_linked_count(&self, order: &[usize]) -> f64 {
        let (mut remaining, mut expected) = (self.taken, 0.0);
        for [all, linked] in order.iter().filter_map(|separation| self.counts.get(separation)) {
            let chosen = remaining.min(*all);
            expected += chosen as f64 * *linked as f64 / *all as f64;
            remaining -= chosen;
        }
        expected
    }

    /// Distances of these pairs, by falling share of linked pairs in `others`; ties go to the shorter distance.
    /// Distances that `others` lacks come last.
    pub fn distances_by_linked_share(&self, others: &Self) -> Vec<usize> {
        let rate = |separation: &usize| {
            others.counts.get(separation).map_or(-1.0, |[all, linked]| *linked as f64 / *all as f64)
        };
        self.counts.keys().copied().sorted_by(|a, b| rate(b).total_cmp(&rate(a))).collect()
    }

    /// Whether no count of linked or taken pairs exceeds the number of pairs. Sums read from a file are untrusted.
    pub fn is_consistent(&self) -> bool {
        let all: u64 = self.counts.values().map(|[all, _]| all).sum();
        self.taken <= all && self.counts.values().all(|[all, linked]| *all > 0 && linked <= all)
    }
}

/// The candidate pairs of one fold, by the number of words in the sentence.
pub type PairsByLength = BTreeMap<usize, PairsByDistance>;

/// Linked share of pairs that are chosen by distance alone: the baseline for undirected links. `None` if a fold has
/// no pair.
///
/// The distances with the largest linked share in the other fold come first; ties go to the shorter distance.
pub fn distance_baseline(folds: &[PairsByLength; 2]) -> Option<f64> {
    let pooled = folds.each_ref().map(|fold| {
        let mut pooled = PairsByDistance::default();
        fold.values().for_each(|pairs| pooled.merge(pairs));
        pooled
    });
    if pooled.iter().any(|pooled| pooled.counts.is_empty()) {
        return None;
    }
    let (mut expected, mut chosen) = (0.0, 0);
    for (fold, other) in [(0, 1), (1, 0)] {
        let order = pooled[fold].distances_by_linked_share(&pooled[other]);
        expected += folds[fold].values().map(|pairs| pairs.expected_linked_count(&order)).sum::<f64>();
        chosen += folds[fold].values().map(|pairs| pairs.taken).sum::<u64>();
    }
    Some(expected / chosen as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fold(words: usize, taken: u64, counts: &[(usize, [u64; 2])]) -> PairsByLength {
        BTreeMap::from([(words, PairsByDistance { taken, counts: counts.iter().copied().collect() })])
    }

    #[test]
    fn separations_by_hand() {
        // Four words each: three pairs at 1, two at 2, one at 3, of which four are taken.
        let even = fold(4, 4, &[(1, [3, 0]), (2, [2, 2]), (3, [1, 0])]);
        let odd = fold(4, 4, &[(1, [3, 2]), (2, [2, 1]), (3, [1, 1])]);
        // The even fold says 2, 1, 3: 1 of 2, then 2 of the 3 at 1, 4/3 of which are linked. The odd fold says 3, 1, 2: 0 + 0.
        let expected = (1.0 + 2.0 * 2.0 / 3.0 + 0.0) / 8.0;
        assert!((distance_baseline(&[even.clone(), odd]).unwrap() - expected).abs() < 1e-12);
        assert_eq!(distance_baseline(&[even.clone(), PairsByLength::new()]), None);
        // Of each fold the separations that the other has not come last: 1 and then 2; 1 and then 5.
        let other = fold(6, 2, &[(1, [1, 1]), (5, [1, 1])]);
        assert!((distance_baseline(&[even, other]).unwrap() - (1.0 + 2.0) / 6.0).abs() < 1e-12);
    }
}
