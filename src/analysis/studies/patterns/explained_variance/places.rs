//! Places: how much of a head's attention other sequences have at the same places, whatever tokens stand there. For centred rows `x` and
//! `y` of a sequence and the one before it in its pack, of another group and of like length, the mean of `x y` is the square of the mean
//! row, without the noise of a mean over few sequences (docs/methodology/explained-variance.md).

use serde::{Deserialize, Serialize};

use crate::model::grid::visibility::Visibility;
use crate::sequences::fold::text::TextAttention;
use crate::stats::blocks::merge_fields;
use crate::stats::exact::ExactSum;

/// The sums of one head over pairs of sequences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceHeadSums {
    /// The products of both rows.
    pub shared: ExactSum,
    /// The part of them that offsets explain.
    pub offsets: ExactSum,
    /// The mean of their squares.
    pub squares: ExactSum,
}

merge_fields!(PlaceHeadSums { shared, offsets, squares });

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceSums {
    /// Sequences behind one of another group.
    pub followers: u64,
    /// Sequences whose length is like that of the one before.
    pub pairs: u64,
    /// Rows of these that the other has, too.
    pub rows: u64,
    /// Sequences among them, the first of each family alone.
    pub sentences: u64,
    /// `[layers * heads]`, empty until there is a pair.
    pub heads: Vec<PlaceHeadSums>,
}

merge_fields!(PlaceSums { followers, pairs, rows, sentences, heads });

impl PlaceSums {
    /// Whether most sequences are as long as the one before, so that their places can be compared.
    pub fn are_aligned(&self) -> bool {
        self.pairs > 0 && 2 * self.pairs >= self.followers
    }

    /// Whether no part exceeds its whole, as it may in a file.
    pub fn fits(&self, heads: usize) -> bool {
        self.pairs <= self.followers
            && self.sentences <= self.pairs
            && self.heads.len() == if self.pairs > 0 { heads } else { 0 }
    }
}

/// A head's attention between the tokens of text of a sequence, `[tokens, tokens]`; none from a token to itself.
#[derive(Clone, Debug, PartialEq)]
pub struct TextRows {
    tokens: usize,
    weights: Vec<f32>,
}

impl TextRows {
    pub fn new(places: &[usize], text: &TextAttention) -> Self {
        let row = |&query: &usize| places.iter().map(move |&key| text.row(query)[key]);
        Self { tokens: places.len(), weights: places.iter().flat_map(row).collect() }
    }

    fn row(&self, token: usize) -> &[f32] {
        &self.weights[token * self.tokens..][..self.tokens]
    }

    /// The products over the tokens that both have: of both rows, the part that offsets explain, and the mean of their squares.
    pub fn products(&self, other: &Self, visibility: Visibility) -> [f64; 3] {
        let common = self.tokens.min(other.tokens);
        let (mut shared, mut squares) = (0.0, 0.0);
        // The cells at each offset, and the sums of both sequences over them.
        let mut diagonals = vec![[0.0; 3]; 2 * common];
        for query in 0..common {
            let keys = || visibility.keys(query, common).filter(|&key| key != query);
            let count = keys().count() as f64;
            let [mine, theirs] = [self.row(query), other.row(query)];
            let [mass, their_mass] = [mine, theirs].map(|row| keys().map(|key| f64::from(row[key])).sum::<f64>());
            if mass <= 0.0 || their_mass <= 0.0 {
                continue;
            }
            for key in keys() {
                let own = f64::from(mine[key]) / mass - 1.0 / count;
                let others = f64::from(theirs[key]) / their_mass - 1.0 / count;
                shared += own * others;
                squares += f64::midpoint(own * own, others * others);
                let [cells, sum, other_sum] = &mut diagonals[common + key - query];
                (*cells, *sum, *other_sum) = (*cells + 1.0, *sum + own, *other_sum + others);
            }
        }
        let explained = diagonals.iter().filter(|[cells, ..]| *cells > 0.0);
        [shared, explained.map(|[cells, own, others]| own * others / cells).sum(), squares]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(weights: [[f32; 3]; 3]) -> TextRows {
        TextRows { tokens: 3, weights: weights.concat() }
    }

    #[test]
    fn products_by_hand() {
        let products = |a: [[f32; 3]; 3], b| rows(a).products(&rows(b), Visibility::ALL);
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
        close(rows(causal).products(&rows(causal), Visibility::CAUSAL), [0.5, 0.25 / 2.0 + 0.25, 0.5]);
    }
}
