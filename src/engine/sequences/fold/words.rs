//! Attention between words: one head's attention between tokens, folded (docs/methodology/dependency.md).

use std::ops::Range;

use multiversion::multiversion;

use crate::model::forward::attention::AttentionView;

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
    runs: Vec<WordRun>,
}

/// Words that follow each other, as do their tokens: any number of words of one token each, or one word of several.
#[derive(Clone, Debug)]
struct WordRun {
    words: Range<usize>,
    tokens: Range<usize>,
}

/// Cuts words into as few runs as there can be, into `runs`.
fn cut_into_runs(spans: &[Range<usize>], runs: &mut Vec<WordRun>) {
    runs.clear();
    for (word, span) in spans.iter().enumerate() {
        match runs.last_mut() {
            Some(run) if span.len() == 1 && run.words.len() == run.tokens.len() && run.tokens.end == span.start => {
                run.words.end += 1;
                run.tokens.end += 1;
            }
            _ => runs.push(WordRun { words: word..word + 1, tokens: span.clone() }),
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
    pub fn words(&self) -> usize {
        self.words
    }

    /// Attention from word `from` to word `to`.
    pub fn get(&self, from: usize, to: usize) -> f64 {
        self.weights[from * self.words + to]
    }

    /// The attention of word `from` to each word, `[words]`.
    pub fn row(&self, from: usize) -> &[f64] {
        &self.weights[from * self.words..][..self.words]
    }
}

/// Adds `share` times a token's attention to each word.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
fn add_folded(row: &mut [f64], runs: &[WordRun], weights: &[f32], share: f64) {
    for WordRun { words, tokens } in runs {
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
    fn words_with_tokens_of_no_word_between_them_are_apart() {
        let view = AttentionView::new(0, 0, 5, &WEIGHTS);
        let mut words = WordAttention::default();
        words.fold(view, &[1..2, 3..4], FromToken::Mean);
        let expected = [1, 3].map(|from| [1, 3].map(|to| f64::from(WEIGHTS[from * 5 + to])));
        assert_eq!([0, 1].map(|from| [0, 1].map(|to| words.get(from, to))), expected);
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
