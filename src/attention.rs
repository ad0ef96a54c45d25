//! One head's attention over one sentence, borrowed from the encoder, and its folding to words.
//!
//! Nothing from here on knows about tensors: what looks at attention sees plain slices.

use std::ops::Range;

use multiversion::multiversion;

/// The attention of one head over one sentence: `n` rows (queries) of `n` weights (keys).
///
/// Each row sums to 1. There is no padding: `n` is the sentence's own number of tokens, special tokens included.
#[derive(Clone, Copy, Debug)]
pub struct AttentionView<'a> {
    /// Layer, counted from 0.
    pub layer: usize,
    /// Head within the layer, counted from 0.
    pub head: usize,
    tokens: usize,
    /// Rows begin this many weights apart; what lies between them is nobody's business.
    stride: usize,
    weights: &'a [f32],
    entropies: Option<&'a [f32]>,
}

impl<'a> AttentionView<'a> {
    /// Views `weights`, row-major `[tokens, tokens]`, as the attention of `head` in `layer`.
    ///
    /// # Panics
    ///
    /// If `weights` does not hold `tokens * tokens` values, or `tokens` is 0.
    #[must_use]
    pub fn new(layer: usize, head: usize, tokens: usize, weights: &'a [f32]) -> Self {
        assert!(tokens > 0, "a sentence has at least one token");
        assert_eq!(weights.len(), tokens * tokens, "attention is [tokens, tokens]");
        Self { layer, head, tokens, stride: tokens, weights, entropies: None }
    }

    /// Views rows that begin `stride` weights apart, by an encoder that knows the entropy of each row, in nats, from
    /// its softmax: `weights` is `[tokens, stride]`, of which the first `tokens` columns count.
    ///
    /// # Panics
    ///
    /// If the lengths do not fit, or there are no tokens.
    #[must_use]
    pub fn strided(layer: usize, head: usize, stride: usize, weights: &'a [f32], entropies: &'a [f32]) -> Self {
        let tokens = entropies.len();
        assert!(tokens > 0 && stride >= tokens, "a sentence has at least one token, and its rows do not overlap");
        assert_eq!(weights.len(), tokens * stride, "attention is [tokens, stride]");
        Self { layer, head, tokens, stride, weights, entropies: Some(entropies) }
    }

    /// The number of tokens `n`, special tokens included.
    #[must_use]
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// What token `query` attends to: `n` weights that sum to 1.
    #[must_use]
    pub fn row(&self, query: usize) -> &'a [f32] {
        &self.weights[query * self.stride..][..self.tokens]
    }

    /// The rows in order.
    pub fn rows(&self) -> impl Iterator<Item = &'a [f32]> {
        let tokens = self.tokens;
        self.weights.chunks(self.stride).map(move |row| &row[..tokens])
    }

    /// The entropy of a token's attention in nats: `-sum a ln a` with `0 ln 0 = 0`.
    #[must_use]
    pub fn entropy(&self, query: usize) -> f64 {
        if let Some(entropies) = self.entropies {
            return f64::from(entropies[query]);
        }
        let terms = self.row(query).iter().filter(|&&weight| weight > 0.0).map(|&weight| f64::from(weight));
        -terms.map(|weight| weight * weight.ln()).sum::<f64>()
    }
}

/// Which token speaks for a word that the tokenizer split, when the word is the query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FromToken {
    /// The mean over the word's tokens (Clark et al. 2019, section 4.1, as the paper words it).
    #[default]
    Mean,
    /// The word's first token (what the code of Clark et al. 2019 does).
    First,
}

/// A matrix of attention between words, `[words, words]`, special tokens dropped.
///
/// The buffer is reused from sentence to sentence.
#[derive(Clone, Debug, Default)]
pub struct WordAttention {
    words: usize,
    weights: Vec<f64>,
    runs: Vec<Run>,
}

/// Words that follow each other, as do their tokens: any number of words of one token each, or one word of several.
#[derive(Clone, Debug)]
struct Run {
    words: Range<usize>,
    tokens: Range<usize>,
}

/// Cuts words into as few runs as there can be, into `runs`.
fn cut_into_runs(spans: &[Range<usize>], runs: &mut Vec<Run>) {
    runs.clear();
    for (word, span) in spans.iter().enumerate() {
        match runs.last_mut() {
            Some(run) if span.len() == 1 && run.words.len() == run.tokens.len() && run.tokens.end == span.start => {
                run.words.end += 1;
                run.tokens.end += 1;
            }
            _ => runs.push(Run { words: word..word + 1, tokens: span.clone() }),
        }
    }
}

impl WordAttention {
    /// Folds token attention to words: attention *to* a split word is the sum over its tokens,
    /// attention *from* it is the mean over its tokens or its first token's (Clark et al. 2019, section 4.1).
    ///
    /// `spans` are the words' token ranges; tokens outside every span (the special ones) are dropped,
    /// and nothing is renormalised.
    pub fn fold(&mut self, view: AttentionView<'_>, spans: &[Range<usize>], from: FromToken) {
        self.words = spans.len();
        self.weights.resize(spans.len() * spans.len(), 0.0);
        cut_into_runs(spans, &mut self.runs);
        for (span, row) in spans.iter().zip(self.weights.chunks_exact_mut(spans.len().max(1))) {
            row.fill(0.0);
            let queries = match from {
                FromToken::Mean => span.clone(),
                FromToken::First => span.start..span.start + 1,
            };
            let share = 1.0 / queries.len() as f64;
            queries.for_each(|query| add_folded(row, &self.runs, view.row(query), share));
        }
    }

    /// The number of words.
    #[must_use]
    pub fn words(&self) -> usize {
        self.words
    }

    /// Attention from word `from` to word `to`.
    #[must_use]
    pub fn get(&self, from: usize, to: usize) -> f64 {
        self.weights[from * self.words + to]
    }

    /// What word `from` attends to, `[words]`.
    #[must_use]
    pub fn row(&self, from: usize) -> &[f64] {
        &self.weights[from * self.words..][..self.words]
    }
}

/// Adds `share` times a token's attention to each word.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
fn add_folded(row: &mut [f64], runs: &[Run], weights: &[f32], share: f64) {
    for Run { words, tokens } in runs {
        let (cells, weights) = (&mut row[words.clone()], &weights[tokens.clone()]);
        if let [cell] = cells {
            *cell += weights.iter().map(|&weight| f64::from(weight)).sum::<f64>() * share;
        } else {
            cells.iter_mut().zip(weights).for_each(|(cell, &weight)| *cell += f64::from(weight) * share);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `[CLS] un ##do it [SEP]`: word 0 is tokens 1..3, word 1 is token 3.
    const WEIGHTS: [f32; 25] = [
        0.2, 0.2, 0.2, 0.2, 0.2, //
        0.0, 0.5, 0.25, 0.25, 0.0, //
        0.5, 0.0, 0.25, 0.0, 0.25, //
        0.0, 0.125, 0.375, 0.5, 0.0, //
        1.0, 0.0, 0.0, 0.0, 0.0,
    ];

    fn folded(from: FromToken) -> WordAttention {
        let mut folded = WordAttention::default();
        folded.fold(AttentionView::new(0, 0, 5, &WEIGHTS), &[1..3, 3..4], from);
        folded
    }

    #[test]
    fn to_a_split_word_is_the_sum_and_from_it_the_mean() {
        let words = folded(FromToken::Mean);
        // From un ##do: ((0.5 + 0.25) + (0 + 0.25)) / 2 to itself, (0.25 + 0) / 2 to it.
        assert_eq!(words.row(0), [0.5, 0.125]);
        // From it: 0.125 + 0.375 to un ##do.
        assert_eq!(words.row(1), [0.5, 0.5]);
    }

    #[test]
    fn the_first_token_may_speak_for_its_word() {
        assert_eq!(folded(FromToken::First).row(0), [0.75, 0.25]);
        assert_eq!(folded(FromToken::First).row(1), [0.5, 0.5]);
    }

    proptest! {
        /// A word's row has the mean mass that its tokens' rows have on all words.
        #[test]
        fn folding_keeps_row_mass(
            lengths in prop::collection::vec(1..4_usize, 1..6),
            raw in prop::collection::vec(0.0..1.0_f32, 15 * 15),
        ) {
            let mut start = 0;
            let spans: Vec<Range<usize>> = lengths.iter().map(|&length| { start += length; start - length..start }).collect();
            let mut weights = raw[..start * start].to_vec();
            for row in weights.chunks_exact_mut(start) {
                let sum: f32 = row.iter().sum::<f32>() + 1e-3;
                row.iter_mut().for_each(|weight| *weight = (*weight + 1e-3 / start as f32) / sum);
            }
            let view = AttentionView::new(0, 0, start, &weights);
            let mut words = WordAttention::default();
            words.fold(view, &spans, FromToken::Mean);
            for (word, span) in spans.iter().enumerate() {
                let mass: f64 = words.row(word).iter().sum();
                let tokens: f64 = span.clone().flat_map(|token| view.row(token)).map(|&weight| f64::from(weight)).sum();
                prop_assert!((mass - tokens / span.len() as f64).abs() < 1e-9);
                prop_assert!((mass - 1.0).abs() < 1e-5);
            }
        }
    }
}
