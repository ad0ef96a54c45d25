//! The inputs of a layer without context: made of position, of the token, of both, or of neither.

use std::collections::BTreeMap;

use super::fit::{FoldFit, LayerFit};
use super::pack::{PackedToken, TokenPack, TokenPart};
use crate::linalg::matmul::{Matrix, MatrixMut, multiply};
use crate::model::forward::WordEmbeddings;

/// Rows in place of those that a layer makes queries and keys of, `[tokens, hidden]` each. Special tokens have their mean in all
/// of them.
#[derive(Clone, Debug, Default)]
pub struct ReplacedInputs {
    /// Every token of text alike.
    pub special: Vec<f32>,
    /// The part of the position.
    pub position: Vec<f32>,
    /// The part of the embedding.
    pub token: Vec<f32>,
    /// Both parts.
    pub position_token: Vec<f32>,
}

impl ReplacedInputs {
    /// Makes those of a layer: each sequence by the fold that it is not in.
    pub fn fill(&mut self, layer: usize, pack: &TokenPack, folds: &[FoldFit; 2], embeddings: &WordEmbeddings) {
        let Self { special, position, token: of_token, position_token } = self;
        let parts = [0, 1].map(|fold| TokenParts::new(layer, fold, pack, &folds[1 - fold], embeddings));
        for rows in [&mut *special, position, of_token, position_token] {
            rows.clear();
            rows.reserve(pack.inputs.len());
        }
        for token in &pack.tokens {
            let fit = &folds[1 - token.block % 2].layers[layer];
            special.extend_from_slice(base(fit, token));
            let at =
                (token.part == TokenPart::Text).then(|| (at_position(fit, token.position), &parts[token.block % 2]));
            let Some((at, parts)) = at else {
                let rows = [&mut *position, of_token, position_token];
                rows.into_iter().for_each(|rows| rows.extend_from_slice(base(fit, token)));
                continue;
            };
            let (mean, linear) = (&fit.mean, parts.of(token.id));
            position.extend(mean.iter().zip(at).map(|(mean, at)| mean + at));
            of_token.extend(mean.iter().zip(linear).map(|(mean, linear)| mean + linear));
            let both = mean.iter().zip(at).zip(linear);
            position_token.extend(both.map(|((mean, at), linear)| mean + at + linear));
        }
    }
}

/// The row of a token of which nothing is known but whether it is special.
fn base<'a>(fit: &'a LayerFit, token: &PackedToken) -> &'a [f32] {
    match token.part {
        TokenPart::Text => &fit.mean,
        TokenPart::First => &fit.first,
        // One that the other fold lacks is as text is.
        TokenPart::Special => fit.specials.get(&token.id).unwrap_or(&fit.mean),
    }
}

/// The part of a position; beyond the last one that the fold has, that one's.
fn at_position(fit: &LayerFit, position: usize) -> &[f32] {
    let width = fit.mean.len();
    let last = fit.positions.len() / width - 1;
    &fit.positions[position.min(last) * width..][..width]
}

/// The parts of the embeddings of a pack's tokens of text, in one fold.
struct TokenParts {
    kinds: BTreeMap<u32, usize>,
    /// `[kinds, hidden]`
    rows: Vec<f32>,
    width: usize,
}

impl TokenParts {
    fn new(layer: usize, fold: usize, pack: &TokenPack, fit: &FoldFit, embeddings: &WordEmbeddings) -> Self {
        let (mut kinds, mut centred) = (BTreeMap::new(), Vec::new());
        for token in pack.tokens.iter().filter(|token| token.part == TokenPart::Text && token.block % 2 == fold) {
            let next = kinds.len();
            kinds.entry(token.id).or_insert_with(|| {
                centred.extend(embeddings.of(token.id).iter().zip(&fit.embedding).map(|(value, mean)| value - mean));
                next
            });
        }
        let (count, width) = (kinds.len(), fit.layers[layer].mean.len());
        let mut rows = vec![0.0; count * width];
        // A pack may have text of one fold alone.
        if count > 0 {
            let weights = Matrix::new(&fit.layers[layer].weights, embeddings.width(), width);
            multiply(
                MatrixMut::new(&mut rows, count, width),
                Matrix::new(&centred, count, embeddings.width()),
                weights,
            );
        }
        Self { kinds, rows, width }
    }

    fn of(&self, id: u32) -> &[f32] {
        &self.rows[self.kinds[&id] * self.width..][..self.width]
    }
}
