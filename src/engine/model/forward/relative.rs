//! The term that the distance of two tokens adds to their score, in the layout of the packed encoder.

use crate::linalg::matmul::{Matrix, MatrixMut, multiply};
use crate::model::config::PositionEmbedding;
use crate::model::parameters::{Parameters, PositionBias};

/// The term that the distance of two tokens, key less query, adds to their score. The tables run from the most
/// negative distance to the largest, so that what a query's row needs lies in a row.
pub(super) enum Relative {
    /// The same in all layers: `[heads, 2 * reach - 1]`.
    Bias { table: Vec<f32>, reach: usize },
    /// The query's product with an embedding of the distance, `[head_dim, 2 * reach - 1]` for each of the stored
    /// layers; the key's product too, if `keys`.
    Embedding { tables: Vec<Vec<f32>>, reach: usize, head_dim: usize, keys: bool },
}

impl Relative {
    /// Takes from `parameters` what depends on distances, if anything does.
    pub fn take(parameters: &mut Parameters) -> Option<Self> {
        let Parameters { config, position_bias, layers, .. } = parameters;
        let reach = config.max_position_embeddings;
        if let Some(PositionBias { weight }) = position_bias.take() {
            let heads = config.num_attention_heads;
            let distances =
                |head: usize| (1..2 * reach).map(move |place| (head, place.cast_signed() - reach.cast_signed()));
            let value = |(head, distance)| weight[PositionBias::bucket(distance) * heads + head];
            let table = (0..heads).flat_map(distances).map(value).collect();
            return Some(Self::Bias { table, reach });
        }
        if config.position_embedding_type == PositionEmbedding::Absolute {
            return None;
        }
        let head_dim = config.head_dim();
        // The checkpoint has distances as query less key, and by rows.
        let turned = |table: Vec<f32>| {
            let column = |dimension: usize| table[dimension..].iter().step_by(head_dim).rev().copied();
            (0..head_dim).flat_map(column).collect()
        };
        let tables = layers.iter_mut().map(|layer| layer.distances.take().map(turned).unwrap_or_default()).collect();
        let keys = config.position_embedding_type == PositionEmbedding::RelativeKeyQuery;
        Some(Self::Embedding { tables, reach, head_dim, keys })
    }

    /// Adds to the scores of one head of the `place`-th stored layer over a sentence.
    ///
    /// `scores` are `[n, stride]`, and their first `n` columns count. `query` and `key` are `[n, head_dim]`; queries
    /// are multiplied by the `scale` of the scores already, keys are not.
    pub fn add(&self, place: usize, head: usize, scores: Scores<'_>, query: Matrix, key: Matrix, work: &mut Vec<f32>) {
        let Scores { values, n, stride, scale } = scores;
        let rows = values.chunks_exact_mut(stride).enumerate();
        match self {
            Self::Bias { table, reach } => {
                let table = &table[head * (2 * reach - 1)..][..2 * reach - 1];
                rows.for_each(|(i, row)| add(&mut row[..n], &table[reach - 1 - i..]));
            }
            Self::Embedding { tables, reach, head_dim, keys } => {
                // Distances of more than n - 1 do not occur.
                let span = 2 * n - 1;
                let table = Matrix::strided(&tables[place][reach - n..], *head_dim, span, 2 * reach - 1);
                work.resize(n * span, 0.0);
                multiply(MatrixMut::new(work, n, span), query, table);
                for ((i, row), products) in rows.zip(work.chunks_exact(span)) {
                    add(&mut row[..n], &products[n - 1 - i..]);
                }
                if *keys {
                    multiply(MatrixMut::new(work, n, span), key, table);
                    for (i, row) in values.chunks_exact_mut(stride).enumerate() {
                        for (j, score) in row[..n].iter_mut().enumerate() {
                            *score += scale * work[j * span + j + n - 1 - i];
                        }
                    }
                }
            }
        }
    }
}

/// The scores of one head over a sentence, before the softmax.
pub(super) struct Scores<'a> {
    /// `[n, stride]`
    pub values: &'a mut [f32],
    /// Tokens.
    pub n: usize,
    /// Rows begin this many values apart.
    pub stride: usize,
    /// The factor of the products of query and key: 1 over the square root of `head_dim`.
    pub scale: f32,
}

fn add(row: &mut [f32], values: &[f32]) {
    for (score, value) in row.iter_mut().zip(values) {
        *score += value;
    }
}
