//! Attention between words (docs/methodology/dependency.md). It is one head's attention between tokens, summed over the
//! tokens of the key word and pooled over the tokens of the query word.

use std::ops::Range;

use multiversion::multiversion;

use crate::model::forward::attention::AttentionView;
use crate::sequences::span::WordSpan;

/// How the tokens of a split word are pooled, when the word is the query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FromToken {
    /// The mean over the word's tokens (Clark et al. 2019, section 4.1, as the paper words it).
    #[default]
    Mean,
    /// The word's first token (what the code of Clark et al. 2019 does).
    First,
}

/// Attention between words, `[words, words]`, without special tokens. The buffer is reused from head to head.
#[derive(Clone, Debug, Default)]
pub struct WordAttention {
    words: usize,
    weights: Vec<f64>,
    runs: Vec<WordRun>,
}

/// Consecutive words with consecutive tokens. Either each word has one token, or the run is a single word with several or
/// shared tokens.
#[derive(Clone, Debug)]
struct WordRun {
    words: Range<usize>,
    tokens: Range<usize>,
    /// Span of the run's single word if it shares a token with another word; else `None`.
    shared: Option<WordSpan>,
}

/// Groups consecutive words into as few [`WordRun`]s as possible, which replace the contents of `runs`.
fn cut_into_runs(spans: &[WordSpan], runs: &mut Vec<WordRun>) {
    runs.clear();
    for (word, span) in spans.iter().enumerate() {
        let is_next = |run: &WordRun| {
            run.shared.is_none() && run.words.len() == run.tokens.len() && run.tokens.end == span.tokens.start
        };
        match runs.last_mut() {
            Some(run) if span.len() == 1 && span.is_whole() && is_next(run) => {
                run.words.end += 1;
                run.tokens.end += 1;
            }
            _ => {
                let shared = (!span.is_whole()).then(|| span.clone());
                runs.push(WordRun { words: word..word + 1, tokens: span.tokens.clone(), shared });
            }
        }
    }
}

impl WordAttention {
    /// Folds attention between tokens to attention between words. Attention to a split word is the sum over its tokens.
    /// Attention from it is the mean over its tokens, or that of its first token (Clark et al. 2019, section 4.1).
    ///
    /// `spans` has the tokens of each word. Tokens outside words, such as special tokens, are dropped without
    /// renormalisation. A shared token counts for each of its words in proportion to the word's share, as a key and as a
    /// query.
    pub fn fold(&mut self, view: AttentionView<'_>, spans: &[WordSpan], from: FromToken) {
        self.words = spans.len();
        self.weights.resize(spans.len() * spans.len(), 0.0);
        cut_into_runs(spans, &mut self.runs);
        for (span, row) in spans.iter().zip(self.weights.chunks_exact_mut(spans.len().max(1))) {
            row.fill(0.0);
            let mut add = |query: usize, share: f64| add_token_row(row, &self.runs, view.row(query), share);
            match from {
                FromToken::First => add(span.start(), 1.0),
                FromToken::Mean => {
                    let size = span.share_sum();
                    span.shares().for_each(|(query, share)| add(query, share / size));
                }
            }
        }
    }

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

/// Adds the attention of one token to the row of its word: the token's `weights`, summed over each word's tokens, times
/// `share`.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
fn add_token_row(row: &mut [f64], runs: &[WordRun], weights: &[f32], share: f64) {
    for WordRun { words, tokens, shared } in runs {
        let (cells, weights) = (&mut row[words.clone()], &weights[tokens.clone()]);
        if let Some(span) = shared {
            let own = span.shares().zip(weights).map(|((_, share), &weight)| share * f64::from(weight));
            cells[0] += own.sum::<f64>() * share;
        } else if let [cell] = cells {
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
        folded.fold(AttentionView::new(0, 0, 5, &WEIGHTS), &WordSpan::whole_words([1..3, 3..4]), from);
        folded
    }

    #[test]
    fn words_with_tokens_of_no_word_between_them_are_apart() {
        let view = AttentionView::new(0, 0, 5, &WEIGHTS);
        let mut words = WordAttention::default();
        words.fold(view, &WordSpan::whole_words([1..2, 3..4]), FromToken::Mean);
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

    /// `[CLS] un ##do+it's [SEP]`: the words are un and half of token 2, a quarter of it, and the rest of it with token 3.
    #[test]
    fn a_shared_token_is_dealt_out() {
        let spans = [(1..3, 1.0, 0.5), (2..3, 0.25, 0.25), (2..4, 0.25, 1.0)];
        let spans = spans.map(|(tokens, first, last)| WordSpan { tokens, first_share: first, last_share: last });
        let mut words = WordAttention::default();
        words.fold(AttentionView::new(0, 0, 5, &WEIGHTS), &spans, FromToken::Mean);
        // To the words by token: [0.625, 0.0625, 0.3125], [0.125, 0.0625, 0.0625], [0.3125, 0.09375, 0.59375].
        let mean = |a: [f64; 3], b: [f64; 3], share: f64| [0, 1, 2].map(|to| a[to] + (b[to] - a[to]) * share);
        let of = [[0.625, 0.0625, 0.3125], [0.125, 0.0625, 0.0625], [0.3125, 0.09375, 0.59375]];
        for (word, expected) in [mean(of[0], of[1], 1.0 / 3.0), of[1], mean(of[1], of[2], 0.8)].iter().enumerate() {
            words.row(word).iter().zip(expected).for_each(|(a, b)| assert!((a - b).abs() < 1e-12, "{word}: {a} {b}"));
        }
        words.fold(AttentionView::new(0, 0, 5, &WEIGHTS), &spans, FromToken::First);
        assert_eq!((words.row(0), words.row(2)), (&of[0][..], &of[1][..]));
    }

    proptest! {
        /// A word's row has the mean mass that its tokens' rows have on all words.
        #[test]
        fn folding_keeps_row_mass(
            lengths in prop::collection::vec(1..4_usize, 1..6),
            raw in prop::collection::vec(0.0..1.0_f32, 15 * 15),
        ) {
            let mut start = 0;
            let spans =
                WordSpan::whole_words(lengths.iter().map(|&length| { start += length; start - length..start }));
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
                let tokens: f64 = span.tokens.clone().flat_map(|token| view.row(token)).map(|&weight| f64::from(weight)).sum();
                prop_assert!((mass - tokens / span.len() as f64).abs() < 1e-9);
                prop_assert!((mass - 1.0).abs() < 1e-5);
            }
        }
    }
}
