//! The score term that depends on the distance between two tokens, in the layout of the packed encoder.

use std::sync::Arc;

use super::kernels::add_to;
use crate::linalg::matmul::{Matrix, MatrixMut, multiply, multiply_add};
use crate::model::config::PositionEmbedding;
use crate::model::parameters::{DisentangledTerms, Layer, Parameters, PositionBias};

/// The score term of one layer that depends on the distance between two tokens. Distances are key position minus query
/// position. Tables run from the most negative distance to the largest, so that the entries for one query are adjacent.
pub(super) enum DistanceTerm {
    /// A bias for each distance, `[heads, 2 * reach + 1]`. Distances beyond `reach`, in either direction, have the bias of
    /// `reach`.
    Buckets { table: Arc<Vec<f32>>, reach: usize },
    /// ALiBi: subtracts the absolute distance times the slope of the attention head; `slopes` is `[heads]`.
    Slopes { slopes: Vec<f32> },
    /// DeBERTa: the query's product with a distance vector from `keys`, plus the key's product with one from `queries`. Both
    /// tables are `[heads, head_dim, rows]`. `row_by_distance` has the table row of each distance, here query position minus
    /// key position, from the most negative one on.
    Disentangled {
        /// Vectors that are multiplied by queries; `None` in models without these products.
        keys: Option<Vec<f32>>,
        /// Distance vectors that are multiplied by keys; `None` in models without a product of key and distance.
        queries: Option<Vec<f32>>,
        row_by_distance: Arc<[usize]>,
        rows: usize,
        head_dim: usize,
    },
    /// The query's product with an embedding of the distance; if `keys`, also the key's product. `table` is
    /// `[head_dim, 2 * reach - 1]`.
    Embedding { table: Vec<f32>, reach: usize, head_dim: usize, keys: bool },
}

impl DistanceTerm {
    /// Moves the weights for distances out of the stored layers of `parameters`. Returns one term per stored layer; `None`
    /// for a layer without such weights.
    pub fn take_from_layers(parameters: &mut Parameters) -> Vec<Option<Self>> {
        let Parameters { config, layers, .. } = parameters;
        let (heads, head_dim, reach) = (config.num_attention_heads, config.head_dim(), config.max_position_embeddings);
        let keys = config.position_embedding_type == PositionEmbedding::RelativeKeyQuery;
        // Layers that share a bias share its table.
        let mut latest_table: Option<(Arc<PositionBias>, Arc<Vec<f32>>)> = None;
        let mut table_of = |bias: &Arc<PositionBias>, reach: usize| match &latest_table {
            Some((latest_bias, table)) if Arc::ptr_eq(latest_bias, bias) => Arc::clone(table),
            _ => {
                let reach = reach.cast_signed();
                let distances = |head: usize| (-reach..=reach).map(move |distance| (head, distance));
                let value = |(head, distance)| bias.score_term((head, heads), distance);
                let table = Arc::new((0..heads).flat_map(distances).map(value).collect::<Vec<f32>>());
                latest_table = Some((Arc::clone(bias), Arc::clone(&table)));
                table
            }
        };
        // All layers share one table of places.
        let mut all_places: Option<Arc<[usize]>> = None;
        let distance_term = |layer: &mut Layer| {
            if let Some(DisentangledTerms { position_keys: keys, position_queries: queries, distance_rows: places }) =
                layer.disentangled.take()
            {
                let rows = places.rows();
                let by_head = |table: Vec<f32>| {
                    let width = heads * head_dim;
                    let column = |column: usize| (0..rows).map(move |row| row * width + column);
                    (0..width).flat_map(column).map(|at| table[at]).collect()
                };
                let longest = config.max_positioned_tokens().cast_signed();
                let places = all_places
                    .get_or_insert_with(|| (1 - longest..longest).map(|distance| places.row(distance)).collect());
                let (keys, queries, places) = (keys.map(by_head), queries.map(by_head), Arc::clone(places));
                return Some(Self::Disentangled { keys, queries, row_by_distance: places, rows, head_dim });
            }
            if let Some(bias) = layer.position_bias.take() {
                return Some(match &*bias {
                    &PositionBias::Buckets { longest_distance: reach, .. } => {
                        Self::Buckets { table: table_of(&bias, reach), reach }
                    }
                    PositionBias::Slopes { slopes } => Self::Slopes { slopes: slopes.clone() },
                });
            }
            let table = layer.distances.take()?;
            // The checkpoint has distances as query less key, one per row.
            let column = |dimension: usize| table[dimension..].iter().step_by(head_dim).rev().copied();
            Some(Self::Embedding { table: (0..head_dim).flat_map(column).collect(), reach, head_dim, keys })
        };
        layers.iter_mut().map(distance_term).collect()
    }

    /// Adds the distance term to the scores of one head over a sentence. `query` has the scaled queries and `key` the keys,
    /// `[n, head_dim]` each.
    pub fn add_to_scores(&self, head: usize, scores: Scores<'_>, query: Matrix, key: Matrix, work: &mut Vec<f32>) {
        let Scores { values, n, stride, scale } = scores;
        let rows = values.chunks_exact_mut(stride).enumerate();
        match self {
            Self::Buckets { table, reach } => {
                let table = &table[head * (2 * reach + 1)..][..=2 * reach];
                for (i, row) in rows {
                    let row = &mut row[..n];
                    let (near, far) = (i.saturating_sub(*reach), n.min(i + reach + 1));
                    row[..near].iter_mut().for_each(|score| *score += table[0]);
                    row[far..].iter_mut().for_each(|score| *score += table[2 * reach]);
                    add_to(&mut row[near..far], &table[reach + near - i..]);
                }
            }
            Self::Slopes { slopes } => {
                let slope = slopes[head];
                for (i, row) in rows {
                    for (j, score) in row[..n].iter_mut().enumerate() {
                        *score -= slope * i.abs_diff(j) as f32;
                    }
                }
            }
            Self::Disentangled { keys, queries, row_by_distance: places, rows: table_rows, head_dim } => {
                let (places, first, span) = sentence_distance_rows(places, n);
                work.resize(n * span, 0.0);
                let table_products = |table: &[f32], vectors: Matrix, work: &mut [f32]| {
                    let table = head_table(table, head, [*head_dim, *table_rows], [first, span]);
                    multiply(MatrixMut::new(work, n, span), vectors, table);
                };
                if let Some(table) = keys {
                    table_products(table, query, work);
                    for ((i, row), products) in rows.zip(work.chunks_exact(span)) {
                        let places = places[i..i + n].iter().rev();
                        row[..n].iter_mut().zip(places).for_each(|(score, place)| *score += products[place - first]);
                    }
                }
                if let Some(table) = queries {
                    table_products(table, key, work);
                    for (i, row) in values.chunks_exact_mut(stride).enumerate() {
                        for (j, score) in row[..n].iter_mut().enumerate() {
                            *score += scale * work[j * span + places[i + n - 1 - j] - first];
                        }
                    }
                }
            }
            Self::Embedding { table, reach, head_dim, keys } => {
                // Distances of more than n - 1 do not occur.
                let span = 2 * n - 1;
                let table = Matrix::with_row_stride(&table[reach - n..], *head_dim, span, 2 * reach - 1);
                work.resize(n * span, 0.0);
                multiply(MatrixMut::new(work, n, span), query, table);
                for ((i, row), products) in rows.zip(work.chunks_exact(span)) {
                    add_to(&mut row[..n], &products[n - 1 - i..]);
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

    /// Backward pass of [`DistanceTerm::add_to_scores`]: adds to the derivatives with respect to queries and keys. On
    /// entry, `scores` holds the derivatives with respect to scores.
    pub fn backward(&self, head: usize, scores: &Scores<'_>, [query, key]: [&mut [f32]; 2], work: &mut Vec<f32>) {
        let &Scores { ref values, n, stride, scale } = scores;
        let mut accumulate =
            |table: Matrix<'_>, derivatives: &mut [f32], place: &dyn Fn(usize, usize) -> [usize; 2], factor: f32| {
                work.clear();
                work.resize(n * table.columns(), 0.0);
                for (i, row) in values.chunks_exact(stride).enumerate() {
                    for (j, derivative) in row[..n].iter().enumerate() {
                        let [vector, column] = place(i, j);
                        work[vector * table.columns() + column] += factor * derivative;
                    }
                }
                let products = Matrix::new(work, n, table.columns());
                multiply_add(MatrixMut::new(derivatives, n, table.rows()), products, table.transposed());
            };
        match self {
            // These terms depend on no query or key.
            Self::Buckets { .. } | Self::Slopes { .. } => {}
            Self::Disentangled { keys, queries, row_by_distance: places, rows, head_dim } => {
                let (places, first, span) = sentence_distance_rows(places, n);
                let head_part = |table| head_table(table, head, [*head_dim, *rows], [first, span]);
                if let Some(table) = keys {
                    accumulate(head_part(table), query, &|i, j| [i, places[i + n - 1 - j] - first], 1.0);
                }
                if let Some(table) = queries {
                    accumulate(head_part(table), key, &|i, j| [j, places[i + n - 1 - j] - first], scale);
                }
            }
            Self::Embedding { table, reach, head_dim, keys } => {
                let table = Matrix::with_row_stride(&table[reach - n..], *head_dim, 2 * n - 1, 2 * reach - 1);
                accumulate(table, query, &|i, j| [i, j + n - 1 - i], 1.0);
                if *keys {
                    accumulate(table, key, &|i, j| [j, j + n - 1 - i], scale);
                }
            }
        }
    }
}

/// Returns the table rows for a sentence of `n` tokens, as `(rows, first, count)`. `rows[i + n - 1 - j]` is the table row of
/// distance `i - j`. All are among the `count` table rows from `first` on.
fn sentence_distance_rows(places: &[usize], n: usize) -> (&[usize], usize, usize) {
    let places = &places[places.len() / 2 + 1 - n..][..2 * n - 1];
    (places, places[0], places[2 * n - 2] - places[0] + 1)
}

/// Returns a head's vectors for the `span` table rows from `first` on, `[head_dim, span]`, from a table
/// `[heads, head_dim, rows]`.
fn head_table(table: &[f32], head: usize, [head_dim, rows]: [usize; 2], [first, span]: [usize; 2]) -> Matrix<'_> {
    let values = &table[head * head_dim * rows + first..(head + 1) * head_dim * rows];
    Matrix::with_row_stride(values, head_dim, span, rows)
}

/// The scores of one head over a sentence of `n` tokens, before the softmax.
pub(super) struct Scores<'a> {
    /// Scores of each query, `[n, stride]`.
    pub values: &'a mut [f32],
    /// Number of tokens in the sentence.
    pub n: usize,
    /// Number of values from one row of scores to the next.
    pub stride: usize,
    /// Factor by which query–key products are multiplied.
    pub scale: f32,
}
