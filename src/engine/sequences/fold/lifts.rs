//! Lift: attention between words divided by uniform attention, which makes the weights of causal attention comparable.

use super::even::UniformAttention;
use super::words::FromToken;
use crate::model::grid::visibility::Visibility;
use crate::sequences::sequence::Sequence;
use crate::sequences::span::WordSpan;

/// Factors that turn attention between words into lift, which is attention divided by uniform attention over the visible
/// keys.
///
/// Under causal attention, a query with fewer visible keys gives each more weight. A word of several tokens gets the
/// attention of all of them. Without the factors, a word's syntactic head by uniform attention would always be the
/// next word, or the longest word before it (docs/methodology/causal.md). For bidirectional attention, all factors are
/// 1.
#[derive(Clone, Debug, PartialEq)]
pub struct LiftFactors {
    words: usize,
    /// Reciprocal of uniform attention from each query to each key, `[words, words]`; 0 for keys that the query does
    /// not see. Empty for bidirectional attention.
    factors: Vec<f64>,
}

impl LiftFactors {
    /// Computes the lift factors between the words of a sequence, whose queries see the keys that `visibility` allows.
    pub fn new(sequence: &Sequence, visibility: Visibility, from: FromToken) -> Self {
        Self::from_spans(&sequence.words, UniformAttention::new(visibility, sequence.ids.len()), from)
    }

    /// Computes the lift factors between words, given by their token spans, from uniform attention over their sequence.
    pub fn from_spans(spans: &[WordSpan], even: UniformAttention, from: FromToken) -> Self {
        let factor = |query, key| match even.word_weight(query, key, from) {
            weight if weight > 0.0 => 1.0 / weight,
            _ => 0.0,
        };
        let rows = spans.iter().filter(|_| even.is_causal());
        let factors = rows.flat_map(|query| spans.iter().map(move |key| factor(query, key))).collect();
        Self { words: spans.len(), factors }
    }

    /// Factor for the attention from word `query` to word `key`.
    #[inline]
    pub fn get(&self, query: usize, key: usize) -> f64 {
        self.factors.get(query * self.words + key).copied().unwrap_or(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequences::fold::even::UniformRows;
    use crate::sequences::fold::words::WordAttention;
    use crate::sequences::test_support::sentence;

    #[test]
    fn the_lift_of_the_even_head_is_1_wherever_it_sees() {
        // A first token, a word of two tokens and two words of one.
        let sequence = Sequence { words: WordSpan::whole_words([1..3, 3..4, 4..5]), ..sentence(0, 4, "dep") };
        for visibility in [Visibility::CAUSAL, Visibility::causal_window(2)] {
            for from in [FromToken::Mean, FromToken::First] {
                let mut words = WordAttention::default();
                words.fold(UniformRows::default().view(UniformAttention::new(visibility, 6)), &sequence.words, from);
                let lifts = LiftFactors::new(&sequence, visibility, from);
                let lift = |query: usize, key: usize| words.get(query, key) * lifts.get(query, key);
                for (query, key) in [(1, 0), (2, 1), (2, 0)] {
                    let seen = words.get(query, key) > 0.0;
                    assert_eq!(seen, (query, key) != (2, 0) || visibility == Visibility::CAUSAL);
                    assert!((lift(query, key) - f64::from(seen)).abs() < 1e-6, "{query} {key}");
                }
                assert_eq!(lift(0, 2), 0.0);
                let both_sides = LiftFactors::new(&sequence, Visibility::ALL, from);
                assert_eq!((both_sides.get(0, 2), both_sides.get(2, 2)), (1.0, 1.0));
            }
        }
    }
}
