//! For every word of a sentence, the word that it attends to most and the word that attends to it most.

use multiversion::multiversion;

use crate::linalg::lanes::LANES;
use crate::linalg::search::{first_at_least, largest};
use crate::sequences::fold::words::WordAttention;

/// The syntactic head that one attention head predicts for each word. The buffers are reused from sentence to
/// sentence.
#[derive(Clone, Debug, Default)]
pub struct Predictions {
    /// One word's attention to other words, padded to whole SIMD vectors, `[width]`.
    others: Vec<f64>,
    /// Largest weight on each word so far, `[width]`.
    largest_weights: Vec<f64>,
    /// Index of the word that gives each word its largest weight so far, `[width]`.
    largest_weight_rows: Vec<u64>,
    /// Predicted syntactic heads of each word, `[words]`, one for each direction of
    /// [`Direction::BOTH`](crate::study::labels::evidence::Direction::BOTH).
    heads: Vec<[usize; 2]>,
}

impl Predictions {
    /// The syntactic heads that `attention` predicts for each word, `[words]`, one for each direction of
    /// [`Direction::BOTH`](crate::study::labels::evidence::Direction::BOTH).
    ///
    /// A word's weight on itself is left out, since a word is not its own syntactic head. Ties go to the lowest
    /// index.
    pub fn predict(&mut self, attention: &WordAttention) -> &[[usize; 2]] {
        let words = attention.words();
        let width = words.next_multiple_of(LANES);
        self.others.clear();
        self.others.resize(width, EXCLUDED_WEIGHT);
        self.largest_weights.clear();
        self.largest_weights.resize(width, EXCLUDED_WEIGHT);
        self.largest_weight_rows.clear();
        self.largest_weight_rows.resize(width, 0);
        self.heads.clear();
        self.heads.resize(words, [0; 2]);
        predict(attention, &mut self.others, &mut self.largest_weights, &mut self.largest_weight_rows, &mut self.heads);
        &self.heads
    }
}

/// Weight of a word on itself and of padding, below every real weight.
const EXCLUDED_WEIGHT: f64 = f64::NEG_INFINITY;

/// Writes the syntactic heads that `attention` predicts for each word into `heads`; the other arguments are buffers.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
#[expect(clippy::cast_possible_truncation, reason = "indices of words, widened to the size of a weight")]
fn predict(
    attention: &WordAttention,
    others: &mut [f64],
    most: &mut [f64],
    chosen: &mut [u64],
    heads: &mut [[usize; 2]],
) {
    for (word, heads) in heads.iter_mut().enumerate() {
        let row = attention.row(word);
        others[..row.len()].copy_from_slice(row);
        others[word] = EXCLUDED_WEIGHT;
        heads[0] = first_at_least(others, largest(others));
        for ((weight, most), chosen) in others.iter().zip(&mut *most).zip(&mut *chosen) {
            let better = *weight > *most;
            *most = if better { *weight } else { *most };
            *chosen = if better { word as u64 } else { *chosen };
        }
    }
    for (heads, chosen) in heads.iter_mut().zip(chosen) {
        heads[1] = *chosen as usize;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::forward::attention::AttentionView;
    use crate::sequences::fold::words::FromToken;
    use crate::sequences::span::WordSpan;

    fn words(weights: &[f32], count: usize) -> WordAttention {
        let mut folded = WordAttention::default();
        let spans = WordSpan::whole_words((0..count).map(|word| word..word + 1));
        folded.fold(AttentionView::new(0, 0, count, weights), &spans, FromToken::Mean);
        folded
    }

    #[test]
    fn predictions_leave_the_word_itself_out() {
        let attention = words(&[0.75, 0.125, 0.125, 0.25, 0.5, 0.25, 0.0, 0.375, 0.625], 3);
        // Rows without the diagonal: word 0 ties between 1 and 2, word 1 between 0 and 2: the lowest wins; 2 -> 1.
        // Columns without the diagonal: into 0 most from 1, into 1 most from 2, into 2 most from 1.
        assert_eq!(Predictions::default().predict(&attention), [[1, 1], [0, 2], [1, 1]]);
    }
}
