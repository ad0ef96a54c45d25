//! DeBERTa's disentangled attention: score terms between content and position (He et al. 2021, section 3.1).

use anyhow::Result;

use super::layer_parts::{Linear, Norm};
use crate::linalg::matmul::{Matrix, MatrixMut, multiply};
use crate::model::config::{Config, DistanceRowMap};
use crate::model::families::DisentangledNames;
use crate::model::weights::Tensors;

/// A layer's score terms between the content of one token and the distance to another token.
#[derive(Clone, Debug, PartialEq)]
pub struct DisentangledTerms {
    /// Position key of each row of the distance table, `[rows, heads * head_dim]`, to be multiplied by queries. `None`:
    /// scores have no such term.
    pub position_keys: Option<Vec<f32>>,
    /// Position query of each row of the distance table, `[rows, heads * head_dim]`, to be multiplied by keys. `None`:
    /// scores have no such term.
    pub position_queries: Option<Vec<f32>>,
    /// Mapping from distances to rows of `position_keys` and `position_queries`.
    pub distance_rows: DistanceRowMap,
}

/// Loads the table of distance embeddings, `[rows, hidden]`, which each layer projects to position keys and queries.
pub(super) fn load_distance_embeddings(
    tensors: &impl Tensors,
    names: &DisentangledNames,
    config: &Config,
) -> Result<Vec<f32>> {
    let (hidden, epsilon) = (config.hidden_size, config.layer_norm_eps);
    let mut table = tensors.tensor(&format!("{}.weight", names.table), &[names.distance_rows.rows(), hidden])?;
    if let Some(norm) = names.norm {
        let Norm { weight, bias } = Norm::load(tensors, norm, hidden, true)?;
        for row in table.chunks_exact_mut(hidden) {
            let mean = row.iter().map(|&x| f64::from(x)).sum::<f64>() / hidden as f64;
            let variance = row.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / hidden as f64;
            let scale = 1.0 / (variance + epsilon).sqrt();
            for ((x, weight), bias) in row.iter_mut().zip(&weight).zip(&bias) {
                #[expect(clippy::cast_possible_truncation, reason = "embeddings are f32")]
                let normal = ((f64::from(*x) - mean) * scale) as f32;
                *x = normal * weight + bias;
            }
        }
    }
    Ok(table)
}

impl DisentangledTerms {
    /// Projects the distance `embeddings` to a layer's position keys and queries. `projection` loads a linear layer,
    /// given its name and whether it has a bias.
    pub(super) fn load(
        embeddings: &[f32],
        names: &DisentangledNames,
        projection: impl Fn(&'static str, bool) -> Result<Linear>,
    ) -> Result<Self> {
        let rows = names.distance_rows.rows();
        let project = |name: &'static str, biased: bool| -> Result<Vec<f32>> {
            let Linear { weight, bias } = projection(name, biased)?;
            let (inputs, outputs) = (embeddings.len() / rows, bias.len());
            let mut product: Vec<f32> = bias.iter().copied().cycle().take(rows * outputs).collect();
            let mut unbiased = vec![0.0; rows * outputs];
            let weight = Matrix::new(&weight, outputs, inputs).transposed();
            multiply(MatrixMut::new(&mut unbiased, rows, outputs), Matrix::new(embeddings, rows, inputs), weight);
            product.iter_mut().zip(unbiased).for_each(|(sum, unbiased)| *sum += unbiased);
            Ok(product)
        };
        Ok(Self {
            position_keys: names.keys.map(|name| project(name, names.has_key_bias)).transpose()?,
            position_queries: names.queries.map(|name| project(name, true)).transpose()?,
            distance_rows: names.distance_rows,
        })
    }
}
