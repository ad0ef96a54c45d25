//! Attention between text tokens: one head's rows without special tokens and without each query's attention to itself.

use multiversion::multiversion;

use super::roles::{MAX_OFFSET_TOKENS, OFFSET_COUNT};
use crate::linalg::lanes::{LANES, sum_full_lanes};
use crate::model::forward::attention::AttentionView;
use crate::sequences::sequence::TokenKind;

/// A head's attention from each text token to the other text tokens. The rows of special tokens have no meaning. The
/// buffers are reused from head to head.
#[derive(Clone, Debug, Default)]
pub struct TextAttention {
    is_text: Vec<f32>,
    /// Length of a row, rounded up to whole vectors.
    padded_width: usize,
    /// Rows of attention weights, each between two runs of [`MAX_OFFSET_TOKENS`] zeros.
    rows: Vec<f32>,
    /// Sum of each row, `[tokens]`.
    row_sums: Vec<f64>,
}

impl TextAttention {
    /// Copies a head's attention over tokens of these kinds, with 0 for special tokens and for each query's attention to
    /// itself.
    pub fn fill(&mut self, view: AttentionView<'_>, kinds: &[TokenKind]) {
        self.is_text.clear();
        self.is_text.extend(kinds.iter().map(|kind| f32::from(u8::from(!kind.is_special()))));
        self.padded_width = kinds.len().next_multiple_of(LANES);
        self.rows.clear();
        self.rows.resize(kinds.len() * self.stride(), 0.0);
        self.row_sums.clear();
        self.row_sums.resize(kinds.len(), 0.0);
        let stride = self.stride();
        mask_special(&self.is_text, view, (&mut self.rows, stride), &mut self.row_sums);
    }

    /// Distance between the beginnings of two rows in `rows`.
    fn stride(&self) -> usize {
        MAX_OFFSET_TOKENS + self.padded_width + MAX_OFFSET_TOKENS
    }

    pub fn tokens(&self) -> usize {
        self.row_sums.len()
    }

    /// Attention weights from a text token to each token, `[tokens]` padded to whole vectors; 0 for the token itself,
    /// special tokens and the padding.
    pub fn row(&self, query: usize) -> &[f32] {
        &self.rows[query * self.stride() + MAX_OFFSET_TOKENS..][..self.padded_width]
    }

    /// Attention weights from a text token to the tokens at offsets -8 to 8; 0 where there is no other text token.
    pub fn offset_weights(&self, query: usize) -> &[f32; OFFSET_COUNT] {
        // The row begins after MAX_OFFSET_TOKENS zeros. So the weight at offset -MAX_OFFSET_TOKENS is at index `query`.
        self.rows[query * self.stride() + query..][..OFFSET_COUNT].try_into().expect("a slice of this length")
    }

    /// Sum of the attention weights from a text token to the other text tokens, at most 1.
    pub fn row_sum(&self, query: usize) -> f64 {
        self.row_sums[query]
    }
}

/// Copies the rows of text tokens with 0 for special tokens and for the query itself, and sums each row.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
fn mask_special<'a>(
    is_text: &'a [f32],
    view: AttentionView<'a>,
    (rows, stride): (&'a mut [f32], usize),
    masses: &'a mut [f64],
) {
    for (query, row) in rows.chunks_exact_mut(stride).enumerate() {
        if is_text[query] == 0.0 {
            continue;
        }
        let row = &mut row[MAX_OFFSET_TOKENS..stride - MAX_OFFSET_TOKENS];
        for ((kept, &weight), is_text) in row.iter_mut().zip(view.row(query)).zip(is_text) {
            *kept = weight * is_text;
        }
        row[query] = 0.0;
        masses[query] = sum_full_lanes(row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_only_other_tokens_of_text() {
        use TokenKind::{FirstSpecial, Punctuation, Separator, Text};
        let kinds = [FirstSpecial, Text, Punctuation, Text, Separator];
        let weights: Vec<f32> = (0..25_u8).map(|cell| f32::from(cell) / 64.0).collect();
        let mut text = TextAttention::default();
        // Buffers that were used before are as good as new ones.
        text.fill(AttentionView::new(0, 0, 1, &[1.0]), &[Text]);
        assert_eq!((text.row_sum(0), text.row(0)), (0.0, &[0.0; LANES][..]));
        text.fill(AttentionView::new(0, 0, 5, &weights), &kinds);
        assert_eq!(text.row(2)[..5], [0.0, 11.0 / 64.0, 0.0, 13.0 / 64.0, 0.0]);
        assert!(text.row(2)[5..].iter().all(|weight| *weight == 0.0));
        assert_eq!([1, 2, 3].map(|query| text.row_sum(query)), [15.0 / 64.0, 24.0 / 64.0, 33.0 / 64.0]);
        let window = text.offset_weights(3);
        assert_eq!(window[MAX_OFFSET_TOKENS - 3..=MAX_OFFSET_TOKENS], [0.0, 16.0 / 64.0, 17.0 / 64.0, 0.0]);
        assert!(
            window[..MAX_OFFSET_TOKENS - 3].iter().chain(&window[MAX_OFFSET_TOKENS + 1..]).all(|weight| *weight == 0.0)
        );
    }
}
