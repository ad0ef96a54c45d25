//! Attention to fixed positions: how much of a head's attention recurs at the same positions of another sequence, with
//! other tokens.
//!
//! Each sequence is compared with the sequence before it in the pack. The two must be similar in length and in
//! different groups of related sentences. If `x` and `y` are their centred attention rows at one position, the mean of
//! `x y` over pairs estimates the squared norm of the mean row. Noise that the two sequences do not share averages out
//! (docs/methodology/explained-variance.md).

use serde::{Deserialize, Serialize};

use crate::model::grid::visibility::Visibility;
use crate::sequences::fold::text::TextAttention;
use crate::stats::blocks::merge_fields;
use crate::stats::exact::ExactSum;

/// Sums of one head over pairs of adjacent sequences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceHeadSums {
    /// Dot products of centred attention rows: row `i` of one sequence with row `i` of the sequence before it.
    pub shared: ExactSum,
    /// Part of `shared` that is explained by the offset from query to key.
    pub offsets: ExactSum,
    /// Squared norms of the centred attention rows, averaged over the two sequences of each pair.
    pub squares: ExactSum,
}

merge_fields!(PlaceHeadSums { shared, offsets, squares });

/// Counts of pairs of adjacent sequences, and products of their attention rows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceSums {
    /// Number of sequences preceded in their pack by a sequence of another group of related sentences.
    pub followers: u64,
    /// Number of pairs: followers that have about as many tokens as the sequence before.
    pub pairs: u64,
    /// Number of compared attention rows: positions that both sequences of a pair have.
    pub rows: u64,
    /// Number of pairs whose second sequence is the first of its group of related sentences.
    pub sentences: u64,
    /// Sums of each head, `[layers * heads]`; empty until there is a pair.
    pub heads: Vec<PlaceHeadSums>,
}

merge_fields!(PlaceSums { followers, pairs, rows, sentences, heads });

impl PlaceSums {
    /// Whether at least half of the `followers` have a partner of similar length. Otherwise rows cannot be compared.
    pub fn has_enough_pairs(&self) -> bool {
        self.pairs > 0 && 2 * self.pairs >= self.followers
    }

    /// Whether the counts are possible and there are sums for `heads` attention heads. Sums from a file may fail this.
    pub fn fits(&self, heads: usize) -> bool {
        self.pairs <= self.followers
            && self.sentences <= self.pairs
            && self.heads.len() == if self.pairs > 0 { heads } else { 0 }
    }
}

/// Attention of one head between the text tokens of a sequence, `[tokens, tokens]`. The diagonal is 0.
#[derive(Clone, Debug, PartialEq)]
pub struct TextAttentionRows {
    tokens: usize,
    /// Attention weights, `[tokens, tokens]`.
    weights: Vec<f32>,
}

impl TextAttentionRows {
    /// Copies the attention between the tokens at the positions `places`.
    pub fn new(places: &[usize], text: &TextAttention) -> Self {
        let row = |&query: &usize| places.iter().map(move |&key| text.row(query)[key]);
        Self { tokens: places.len(), weights: places.iter().flat_map(row).collect() }
    }

    /// Attention of one text token to all text tokens.
    fn row(&self, token: usize) -> &[f32] {
        &self.weights[token * self.tokens..][..self.tokens]
    }

    /// Products of the centred attention rows of both sequences, over the positions that both have:
    /// `[shared, offsets, squares]` of [`PlaceHeadSums`].
    pub fn row_products(&self, other: &Self, visibility: Visibility) -> [f64; 3] {
        let common_tokens = self.tokens.min(other.tokens);
        let (mut shared, mut squares) = (0.0, 0.0);
        // Per offset: the number of cells, and both sequences' sums over them.
        let mut by_offset = vec![[0.0; 3]; 2 * common_tokens];
        for query in 0..common_tokens {
            let keys = || visibility.visible_keys(query, common_tokens).filter(|&key| key != query);
            let count = keys().count() as f64;
            let [rows, other_rows] = [self.row(query), other.row(query)];
            let [mass, other_mass] = [rows, other_rows].map(|row| keys().map(|key| f64::from(row[key])).sum::<f64>());
            if mass <= 0.0 || other_mass <= 0.0 {
                continue;
            }
            for key in keys() {
                let deviation = f64::from(rows[key]) / mass - 1.0 / count;
                let other_deviation = f64::from(other_rows[key]) / other_mass - 1.0 / count;
                shared += deviation * other_deviation;
                squares += f64::midpoint(deviation * deviation, other_deviation * other_deviation);
                let [cells, sum, other_sum] = &mut by_offset[common_tokens + key - query];
                (*cells, *sum, *other_sum) = (*cells + 1.0, *sum + deviation, *other_sum + other_deviation);
            }
        }
        let explained = by_offset.iter().filter(|[cells, ..]| *cells > 0.0);
        [shared, explained.map(|[cells, sum, other_sum]| sum * other_sum / cells).sum(), squares]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(weights: [[f32; 3]; 3]) -> TextAttentionRows {
        TextAttentionRows { tokens: 3, weights: weights.concat() }
    }

    #[test]
    fn products_by_hand() {
        let products = |a: [[f32; 3]; 3], b| rows(a).row_products(&rows(b), Visibility::ALL);
        let close = |found: [f64; 3], expected: [f64; 3]| {
            assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?} {expected:?}");
        };
        // Both go to the second token, and from there to the first: 1/2 of two cells in each row. Offsets -1 and 1 have two cells
        // each, in which there are 1/2 twice, and 1/2 and -1/2; -2 and 2 have one with -1/2 each.
        let second = [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]];
        close(products(second, second), [1.5, 0.5 + 0.0 + 0.25 + 0.25, 1.5]);
        // The other goes to the third and the first: opposite in two rows, and alike in the second.
        let outer = [[0.0, 0.0, 2.0], [2.0, 0.0, 0.0], [2.0, 0.0, 0.0]];
        close(products(second, outer), [-0.5, 0.0 + 0.0 - 0.25 - 0.25, 1.5]);
        // A row without attention is no row, and an even one has nothing to share.
        let even = [[0.0, 1.0, 1.0], [0.0; 3], [1.0, 1.0, 0.0]];
        close(products(second, even), [0.0, 0.0, 0.5]);
        // In a decoder the second token sees one other, which has all there is.
        let causal = [[0.0; 3], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]];
        close(rows(causal).row_products(&rows(causal), Visibility::CAUSAL), [0.5, 0.25 / 2.0 + 0.25, 0.5]);
    }
}
