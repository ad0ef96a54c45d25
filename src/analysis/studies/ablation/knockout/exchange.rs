//! The attention of a query word dealt out anew: its masses on other words go round, and the one on its partner stays or is
//! exchanged (docs/methodology/knockout.md).

use std::ops::Range;

use sha2::{Digest, Sha256};

use crate::model::forward::attention::AttentionView;
use crate::model::forward::gates::AttentionRows;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    query: usize,
    partner: usize,
    /// The word whose distance from the query word is nearest to the partner's, the first of several.
    as_far: usize,
    /// All words but the query word and its partner, in the order in which each takes the mass of the one before it.
    round: Vec<usize>,
}

impl Exchange {
    /// The exchange for an arc whose query word sees `seen`, ascending; `None` without the partner or a third word among them.
    pub fn new(sentence: u64, query: usize, partner: usize, seen: &[usize]) -> Option<Self> {
        if !seen.contains(&partner) {
            return None;
        }
        let mut round: Vec<usize> = seen.iter().copied().filter(|&word| word != query && word != partner).collect();
        let distance = |word: usize| word.abs_diff(query);
        let as_far = round.iter().copied().min_by_key(|&word| distance(word).abs_diff(distance(partner)))?;
        round.sort_by_cached_key(|word| Sha256::digest(format!("headscope/use/0/{sentence}/{query}/{word}")));
        Some(Self { query, partner, as_far, round })
    }

    /// The rows of the query word's tokens: while the partner keeps its mass, then while it has that of the word as far away.
    ///
    /// A word's mass is spread evenly over its tokens. Special tokens and the query word keep theirs, so a row keeps its sum.
    pub fn rows(&self, attention: AttentionView<'_>, words: &[Range<usize>]) -> [AttentionRows; 2] {
        let mut rows = [AttentionRows::new(), AttentionRows::new()];
        for token in words[self.query].clone() {
            let own = attention.row(token);
            let mut masses: Vec<f64> = words.iter().map(|word| mass(&own[word.clone()])).collect();
            let before = masses.clone();
            let last = self.round.iter().cycle().skip(self.round.len() - 1);
            self.round.iter().zip(last).for_each(|(&word, &last)| masses[word] = before[last]);
            rows[0].insert(token, self.spread(own, &masses, words));
            masses.swap(self.partner, self.as_far);
            rows[1].insert(token, self.spread(own, &masses, words));
        }
        rows
    }

    /// The row `own` with these masses of the other words, `[words]`.
    #[expect(clippy::cast_possible_truncation, reason = "weights are float32")]
    fn spread(&self, own: &[f32], masses: &[f64], words: &[Range<usize>]) -> Vec<f32> {
        let mut row = own.to_vec();
        for &word in self.round.iter().chain([&self.partner]) {
            let tokens = words[word].clone();
            row[tokens.clone()].fill((masses[word] / tokens.len() as f64) as f32);
        }
        row
    }
}

fn mass(weights: &[f32]) -> f64 {
    weights.iter().map(|&weight| f64::from(weight)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `[CLS] a b1 b2 c d [SEP]`, words 0 to 3.
    const WORDS: [Range<usize>; 4] = [1..2, 2..4, 4..5, 5..6];
    const ROW: [f32; 7] = [0.1, 0.2, 0.05, 0.15, 0.3, 0.08, 0.12];

    fn rows(exchange: &Exchange) -> [Vec<(usize, Vec<f32>)>; 2] {
        let weights = ROW.repeat(7);
        let both = exchange.rows(AttentionView::new(0, 0, 7, &weights), &WORDS);
        both.map(|rows| rows.into_iter().collect())
    }

    fn assert_near(found: &[f32], expected: &[f32]) {
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-7), "{found:?} {expected:?}");
    }

    #[test]
    fn an_example_by_hand() {
        // hashlib.sha256(b"headscope/use/0/7/0/2") begins with 0e17d9, that of word 3 with be7df0.
        let exchange = Exchange::new(7, 0, 1, &[0, 1, 2, 3]).unwrap();
        // Of the words 2 and 3, both farther from word 0 than word 1, word 2 is nearer.
        assert_eq!(exchange, Exchange { query: 0, partner: 1, as_far: 2, round: vec![2, 3] });
        let [kept, exchanged] = rows(&exchange);
        // Word 1 keeps its mass of 0.2, now even over its tokens; the words 2 and 3 swap 0.3 and 0.08.
        assert_eq!((kept[0].0, kept.len(), exchanged.len()), (1, 1, 1));
        assert_near(&kept[0].1, &[0.1, 0.2, 0.1, 0.1, 0.08, 0.3, 0.12]);
        // Then word 1 has the 0.08 of word 2, and that its 0.2.
        assert_near(&exchanged[0].1, &[0.1, 0.2, 0.04, 0.04, 0.2, 0.3, 0.12]);
    }

    #[test]
    fn all_tokens_of_a_query_word_are_patched() {
        // Word 0 is as far from word 1 as word 2 is.
        let exchange = Exchange::new(7, 1, 2, &[0, 1, 2, 3]).unwrap();
        assert_eq!(exchange.as_far, 0);
        let [kept, exchanged] = rows(&exchange);
        let tokens = |rows: &[(usize, Vec<f32>)]| rows.iter().map(|(token, _)| *token).collect::<Vec<_>>();
        assert_eq!((tokens(&kept), tokens(&exchanged)), (vec![2, 3], vec![2, 3]));
        for row in 0..2 {
            // Its own two weights are uneven and stay so. Word 0 has the mass of word 3 and then that of word 2.
            assert_near(&kept[row].1, &[0.1, 0.08, 0.05, 0.15, 0.3, 0.2, 0.12]);
            assert_near(&exchanged[row].1, &[0.1, 0.3, 0.05, 0.15, 0.08, 0.2, 0.12]);
        }
    }

    #[test]
    fn masses_go_round_in_the_order_of_their_hashes() {
        let exchange = Exchange::new(12, 1, 4, &[0, 1, 2, 3, 4, 5]).unwrap();
        // The hashes of the words 0, 3, 5 and 2 begin with 1565bf, 899aad, e2fe94 and eb8abd.
        assert_eq!(exchange.round, [0, 3, 5, 2]);
        let words: Vec<Range<usize>> = (0..6).map(|word| word..word + 1).collect();
        let weights = [0.1, 0.1, 0.2, 0.3, 0.05, 0.25].repeat(6);
        let [kept, _] = exchange.rows(AttentionView::new(0, 0, 6, &weights), &words);
        // Each has the mass of the one before it, the first that of the last.
        assert_near(&kept[&1], &[0.2, 0.1, 0.25, 0.1, 0.05, 0.3]);
    }

    #[test]
    fn a_third_word_is_needed() {
        assert_eq!(Exchange::new(0, 0, 1, &[0, 1]), None);
        assert_eq!(Exchange::new(0, 0, 1, &[0, 1, 2]).unwrap().round, [2]);
        // What the query does not see takes no part, and a partner that it does not see has no weight to lose.
        assert_eq!(Exchange::new(0, 0, 2, &[0, 1, 3]), None);
        assert_eq!(Exchange::new(0, 0, 1, &[0, 1, 3]).unwrap().round, [3]);
    }
}
