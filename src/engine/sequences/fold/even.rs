//! Uniform attention: every key that a query sees has equal weight.

use super::words::FromToken;
use crate::model::forward::attention::AttentionView;
use crate::model::grid::visibility::Visibility;
use crate::sequences::span::WordSpan;

/// Uniform attention over a sequence: `A[i, j] = 1 / v(i)` for the `v(i)` keys `j` that query `i` sees, and 0 for all other
/// keys.
#[derive(Clone, Copy, Debug)]
pub struct UniformAttention {
    visibility: Visibility,
    tokens: usize,
}

impl UniformAttention {
    pub fn new(visibility: Visibility, tokens: usize) -> Self {
        Self { visibility, tokens }
    }

    pub fn is_causal(self) -> bool {
        self.visibility.is_causal()
    }

    /// Weight of each key that the query sees, `1 / v(query)`.
    #[inline]
    pub fn weight(self, query: usize) -> f64 {
        1.0 / self.visibility.visible_count(query, self.tokens) as f64
    }

    /// Entropy of the query's row of uniform attention, in nats: the logarithm of the number of visible keys.
    #[inline]
    pub fn entropy(self, query: usize) -> f64 {
        (self.visibility.visible_count(query, self.tokens) as f64).ln()
    }

    /// Whether each of two words sees the other, with split words pooled as `from` says.
    pub fn see_each_other(self, a: &WordSpan, b: &WordSpan, from: FromToken) -> bool {
        self.word_weight(a, b, from) > 0.0 && self.word_weight(b, a, from) > 0.0
    }

    /// Uniform attention from one word to another, folded like attention in [`WordAttention`](super::words::WordAttention).
    pub fn word_weight(self, query: &WordSpan, key: &WordSpan, from: FromToken) -> f64 {
        let of_token = |token: usize| {
            let keys = self.visibility.visible_keys(token, self.tokens);
            let count = keys.len() as f64;
            key.share_in(keys) / count
        };
        match from {
            FromToken::First => of_token(query.start()),
            // Every token of the word gives an equal weight.
            FromToken::Mean if self.visibility.is_full(self.tokens) => of_token(query.start()),
            FromToken::Mean => {
                query.shares().map(|(token, share)| share * of_token(token)).sum::<f64>() / query.share_sum()
            }
        }
    }
}

/// Buffers for the rows of uniform attention, reused from sequence to sequence.
#[derive(Clone, Debug, Default)]
pub struct UniformRows {
    weights: Vec<f32>,
    entropies: Vec<f32>,
}

impl UniformRows {
    /// Fills the buffers with the rows of uniform attention, and views them as the attention of one head.
    #[expect(clippy::cast_possible_truncation, reason = "attention is f32")]
    pub fn view(&mut self, even: UniformAttention) -> AttentionView<'_> {
        let tokens = even.tokens;
        self.weights.clear();
        self.weights.resize(tokens * tokens, 0.0);
        for (query, row) in self.weights.chunks_exact_mut(tokens).enumerate() {
            row[even.visibility.visible_keys(query, tokens)].fill(even.weight(query) as f32);
        }
        self.entropies.clear();
        self.entropies.extend((0..tokens).map(|query| even.entropy(query) as f32));
        AttentionView::from_strided(0, 0, tokens, &self.weights, &self.entropies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequences::fold::words::WordAttention;
    use proptest::prelude::*;

    proptest! {
        /// Rows sum to 1, and words have what folding the rows gives them.
        #[test]
        fn words_are_folded_rows(
            lengths in prop::collection::vec(1..4_usize, 1..8),
            (before, after) in (prop::option::of(0..6_usize), prop::option::of(0..6_usize)),
            (first, shared) in any::<(bool, bool)>(),
        ) {
            let mut start = 1;
            let mut spans =
                WordSpan::whole_words(lengths.iter().map(|&length| { start += length; start - length..start }));
            // A last word in part of the last token, which the word before it then shares.
            if shared {
                let last = spans.last_mut().unwrap();
                last.last_share = 0.75;
                last.first_share = if last.len() == 1 { 0.75 } else { 1.0 };
                spans.push(WordSpan { tokens: start - 1..start, first_share: 0.25, last_share: 0.25 });
            }
            let from = if first { FromToken::First } else { FromToken::Mean };
            let even = UniformAttention::new(Visibility { before, after }, start + 1);
            let mut rows = UniformRows::default();
            let view = rows.view(even);
            prop_assert!(view.rows().all(|row| (row.iter().sum::<f32>() - 1.0).abs() < 1e-6));
            for query in 0..view.tokens() {
                prop_assert!((view.entropy(query) - even.entropy(query)).abs() < 1e-6);
                let first = if even.visibility.sees(query, 0) { even.weight(query) } else { 0.0 };
                prop_assert!((f64::from(view.row(query)[0]) - first).abs() < 1e-6);
            }
            let mut words = WordAttention::default();
            words.fold(view, &spans, from);
            for (query, of_query) in spans.iter().enumerate() {
                for (key, of_key) in spans.iter().enumerate() {
                    prop_assert!((words.get(query, key) - even.word_weight(of_query, of_key, from)).abs() < 1e-6);
                }
            }
        }
    }
}
