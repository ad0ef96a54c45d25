//! Inputs without context that replace a layer's inputs: a mean input, plus the regression's terms for position and
//! token.
//!
//! A replaced input is a sum of at most three vectors, its parts: the mean, a term for the position and a term for the
//! embedding. Tokens share parts, so linear maps are computed once per part and not once per token.

use std::collections::BTreeMap;

use super::fit::{FoldFit, LayerFit};
use super::pack::{MeanInput, PackedToken, TokenPack};
use crate::linalg::matmul::{Matrix, MatrixMut, multiply};
use crate::model::forward::WordEmbeddings;

/// Replaced inputs of the tokens in a pack: the distinct parts, and which of them each token sums.
#[derive(Clone, Debug, Default)]
pub struct ReplacedInputs {
    /// Distinct vectors that replaced inputs sum, `[parts, hidden]`: means and terms for positions as they occur, then
    /// terms for embeddings.
    pub parts: Vec<f32>,
    /// Rows of `parts` that each token sums, `[tokens]`.
    tokens: Vec<TokenParts>,
}

/// Indices of the rows of [`ReplacedInputs::parts`] whose sum is one token's replaced input.
#[derive(Clone, Copy, Debug)]
struct TokenParts {
    /// Row of [`ReplacedInputs::parts`] with the mean input.
    base_part: usize,
    /// Rows of [`ReplacedInputs::parts`] with the regression's terms, `[position, embedding]`. `None` for first and special
    /// tokens, whose replaced input is the mean alone.
    text_parts: Option<[usize; 2]>,
}

/// Index in [`TokenParts::text_parts`] of the regression's term for the position.
pub const POSITION_PART: usize = 0;
/// Index in [`TokenParts::text_parts`] of the regression's term for the embedding.
pub const EMBEDDING_PART: usize = 1;

/// Row in [`ReplacedInputs::parts`] by (fold, key). The key of a position's term is the position; the key of a mean is
/// its kind and token id.
type PartIndices<K> = BTreeMap<(usize, K), usize>;

impl ReplacedInputs {
    /// Computes the replaced inputs of one layer. Each sequence uses the regression fitted on the fold without it.
    pub fn compute(&mut self, layer: usize, pack: &TokenPack, folds: &[FoldFit; 2], embeddings: &WordEmbeddings) {
        let fit_of = |fold: usize| &folds[1 - fold].layers[layer];
        let Self { parts, tokens } = self;
        let hidden = folds[0].layers[layer].mean.len();
        parts.clear();
        tokens.clear();
        let (mut bases, mut positions): (PartIndices<(MeanInput, u32)>, PartIndices<usize>) = Default::default();
        let (mut indices_by_id, mut centred): ([BTreeMap<u32, usize>; 2], [Vec<f32>; 2]) = Default::default();
        let mut push_part = |row: &[f32]| {
            parts.extend_from_slice(row);
            parts.len() / hidden - 1
        };
        for token in &pack.tokens {
            let fold = token.block % 2;
            let fit = fit_of(fold);
            // All text tokens share a mean, and so do all first tokens.
            let mean_key = (token.base, if token.base == MeanInput::Special { token.id } else { 0 });
            let base = *bases.entry((fold, mean_key)).or_insert_with(|| push_part(mean_input(fit, token)));
            let text_parts = (token.base == MeanInput::Text).then(|| {
                let position = position_part(fit, token.position);
                let next = indices_by_id[fold].len();
                let embedding = *indices_by_id[fold].entry(token.id).or_insert_with(|| {
                    let (values, mean) = (embeddings.get(token.id), &folds[1 - fold].mean_embedding);
                    centred[fold].extend(values.iter().zip(mean).map(|(value, mean)| value - mean));
                    next
                });
                [*positions.entry((fold, token.position)).or_insert_with(|| push_part(position)), embedding]
            });
            tokens.push(TokenParts { base_part: base, text_parts });
        }
        // Parts of embeddings come last, fold by fold.
        let first = parts.len() / hidden;
        let firsts = [first, first + indices_by_id[0].len()];
        for (token, places) in pack.tokens.iter().zip(tokens) {
            places.text_parts.iter_mut().for_each(|[_, embedding]| *embedding += firsts[token.block % 2]);
        }
        let width = embeddings.width();
        for (fold, centred) in centred.iter().enumerate().filter(|(_, centred)| !centred.is_empty()) {
            let (start, count) = (parts.len(), centred.len() / width);
            parts.resize(start + count * hidden, 0.0);
            let weights = Matrix::new(&fit_of(fold).weights, width, hidden);
            let rows = MatrixMut::new(&mut parts[start..], count, hidden);
            multiply(rows, Matrix::new(centred, count, width), weights);
        }
    }

    /// Mean input that replaces a token's input, `[hidden]`.
    pub fn base_input(&self, token: usize, hidden: usize) -> &[f32] {
        &self.parts[self.tokens[token].base_part * hidden..][..hidden]
    }

    /// Writes a linear map of each token's replaced input to `rows`, `[tokens, width]`. The input of a text token is
    /// its mean plus the terms in `added` ([`POSITION_PART`], [`EMBEDDING_PART`]). `mapped_parts` has the map of each
    /// part, `[parts, width]`.
    pub fn write_rows(&self, added: &[usize], mapped_parts: &[f32], width: usize, rows: &mut Vec<f32>) {
        let part = |place: usize| &mapped_parts[place * width..][..width];
        rows.clear();
        for TokenParts { base_part: base, text_parts } in &self.tokens {
            let start = rows.len();
            rows.extend_from_slice(part(*base));
            for place in text_parts.iter().flat_map(|places| added.iter().map(|&added| places[added])) {
                rows[start..].iter_mut().zip(part(place)).for_each(|(sum, value)| *sum += value);
            }
        }
    }
}

/// Mean input that replaces a token's input, `[hidden]`: the mean over the tokens of its kind, `token.base`.
fn mean_input<'a>(fit: &'a LayerFit, token: &PackedToken) -> &'a [f32] {
    match token.base {
        MeanInput::Text => &fit.mean,
        MeanInput::First => &fit.first_token,
        // A special token that the other fold lacks gets the mean of text.
        MeanInput::Special => fit.specials.get(&token.id).unwrap_or(&fit.mean),
    }
}

/// Regression's term for a position, `[hidden]`. Positions beyond the longest sequence of the fitted fold get the term
/// of its last position.
fn position_part(fit: &LayerFit, position: usize) -> &[f32] {
    let width = fit.mean.len();
    let last = fit.positions.len() / width - 1;
    &fit.positions[position.min(last) * width..][..width]
}
