//! The attention of one head over one sentence, borrowed from the encoder as plain slices, so that observers need no tensor
//! library.

use super::rows::Rows;

/// The attention of one head over a sentence of `n` tokens, unpadded: `n` rows (queries) of `n` weights (keys). Each row sums to
/// 1.
#[derive(Clone, Copy, Debug)]
pub struct AttentionView<'a> {
    pub layer: usize,
    pub head: usize,
    /// Attention weights, one row per query.
    weights: Rows<'a>,
    /// Entropy of each row in nats; `None` if it was not computed.
    entropies: Option<&'a [f32]>,
}

impl<'a> AttentionView<'a> {
    /// Views `weights`, `[tokens, tokens]` row-major. Panics if `weights` has another length, or there are no tokens.
    pub fn new(layer: usize, head: usize, tokens: usize, weights: &'a [f32]) -> Self {
        assert!(tokens > 0, "a sentence has at least one token");
        assert_eq!(weights.len(), tokens * tokens, "attention is [tokens, tokens]");
        Self { layer, head, weights: Rows::new(weights, tokens), entropies: None }
    }

    /// Views the first `tokens` columns of `weights`, `[tokens, stride]`. `entropies` has the entropy of each row in nats,
    /// `[tokens]`. Panics if the lengths do not fit, or there are no tokens.
    pub fn from_strided(layer: usize, head: usize, stride: usize, weights: &'a [f32], entropies: &'a [f32]) -> Self {
        let tokens = entropies.len();
        assert!(tokens > 0 && stride >= tokens, "a sentence has at least one token, and its rows do not overlap");
        assert_eq!(weights.len(), tokens * stride, "attention is [tokens, stride]");
        Self { layer, head, weights: Rows::strided(weights, tokens, tokens, stride), entropies: Some(entropies) }
    }

    /// Makes an empty view for a head whose attention no observer needs.
    pub fn without_rows(layer: usize, head: usize) -> Self {
        Self { layer, head, weights: Rows::new(&[], 1), entropies: None }
    }

    /// Returns the number of tokens in the sentence.
    pub fn tokens(&self) -> usize {
        self.weights.count()
    }

    /// Returns the attention of query `query`: a weight for each of the `n` keys, with sum 1.
    #[inline]
    pub fn row(&self, query: usize) -> &'a [f32] {
        self.weights.row(query)
    }

    pub fn rows(&self) -> impl Iterator<Item = &'a [f32]> + use<'a> {
        self.weights.iter()
    }

    /// The entropy of each attention row in nats; `None` if the encoder's softmax did not compute it.
    pub fn entropies(&self) -> Option<&'a [f32]> {
        self.entropies
    }

    /// Returns the entropy of the attention of query `query` in nats: `-sum a ln a` with `0 ln 0 = 0`.
    pub fn entropy(&self, query: usize) -> f64 {
        if let Some(entropies) = self.entropies {
            return f64::from(entropies[query]);
        }
        let terms = self.row(query).iter().filter(|&&weight| weight > 0.0).map(|&weight| f64::from(weight));
        -terms.map(|weight| weight * weight.ln()).sum::<f64>()
    }
}
