//! Factors that make the rows of causal attention comparable with each other.

use std::ops::Range;

use super::even::Even;
use super::words::FromToken;
use crate::model::grid::visibility::Visibility;
use crate::sequences::sequence::Sequence;

/// A factor for each word's row of attention, `[words]`, by which even attention over what is seen gives every word before it
/// the same weight in every row.
///
/// A row of causal attention sums to 1 over as many keys as there are up to its query, so the weights of a column, which
/// come from different rows, fall with the distance whatever the head does: without the factor the even head takes the
/// word after `d` for the head of `d` (METHODOLOGY, "Causal attention"). Where queries see keys on both sides all factors
/// are 1.
#[derive(Clone, Debug, PartialEq)]
pub struct RowScales(Vec<f64>);

impl RowScales {
    /// The factors of a sequence, of whose keys queries see these: `1 / mean(1 / v(i))` over the tokens `i` that speak for a
    /// word.
    pub fn new(sequence: &Sequence, visibility: Visibility, from: FromToken) -> Self {
        let even = Even::new(visibility, sequence.ids.len());
        let scale = |word: &Range<usize>| match from {
            _ if !visibility.is_causal() => 1.0,
            FromToken::First => 1.0 / even.share(word.start),
            FromToken::Mean => word.len() as f64 / word.clone().map(|token| even.share(token)).sum::<f64>(),
        };
        Self(sequence.words.iter().map(scale).collect())
    }

    /// The factor of a word's row.
    #[inline]
    pub fn of(&self, word: usize) -> f64 {
        self.0[word]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequences::fold::even::EvenRows;
    use crate::sequences::fold::words::WordAttention;
    use crate::sequences::test_support::sentence;

    #[test]
    fn columns_of_even_causal_attention_are_even() {
        // A first token, a word of two tokens and two words of one.
        let sequence = Sequence { words: vec![1..3, 3..4, 4..5], ..sentence(0, 4, "dep") };
        for from in [FromToken::Mean, FromToken::First] {
            let mut words = WordAttention::default();
            words.fold(EvenRows::default().view(Even::new(Visibility::CAUSAL, 6)), &sequence.words, from);
            let scales = RowScales::new(&sequence, Visibility::CAUSAL, from);
            let scaled = |word: usize, key: usize| words.get(word, key) * scales.of(word);
            assert!((scaled(1, 0) - scaled(2, 0)).abs() < 1e-6 && words.get(1, 0) > words.get(2, 0));
            assert!((scaled(2, 1) * 2.0 - scaled(2, 0)).abs() < 1e-6);
            assert_eq!(RowScales::new(&sequence, Visibility::ALL, from), RowScales(vec![1.0; 3]));
        }
    }
}
