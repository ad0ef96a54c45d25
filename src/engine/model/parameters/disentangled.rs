//! Scores between what tokens are and where they are, DeBERTa's (He et al. 2021, section 3.1).

use anyhow::Result;

use super::parts::{Linear, Norm};
use crate::linalg::matmul::{Matrix, MatrixMut, multiply};
use crate::model::config::{Config, Places};
use crate::model::families::DisentangledNames;
use crate::model::weights::Tensors;

/// The terms of a layer's scores between the content of one token and the distance of two.
#[derive(Clone, Debug, PartialEq)]
pub struct Disentangled {
    /// `[places, heads * head_dim]`: what the query of a token is multiplied by.
    pub keys: Option<Vec<f32>>,
    /// `[places, heads * head_dim]`: what the key of a token is multiplied by.
    pub queries: Option<Vec<f32>>,
    pub places: Places,
}

/// The embeddings of places, from which each layer has its own: `[places, hidden]`.
pub(super) fn places(tensors: &impl Tensors, names: &DisentangledNames, config: &Config) -> Result<Vec<f32>> {
    let (hidden, epsilon) = (config.hidden_size, config.layer_norm_eps);
    let mut table = tensors.tensor(&format!("{}.weight", names.table), &[names.places.rows(), hidden])?;
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

impl Disentangled {
    /// Multiplies the embeddings of places by a layer's projections; `projection` loads one by its name and if it has a bias.
    pub(super) fn load(
        places: &[f32],
        names: &DisentangledNames,
        projection: impl Fn(&'static str, bool) -> Result<Linear>,
    ) -> Result<Self> {
        let rows = names.places.rows();
        let project = |name: &'static str, biased: bool| -> Result<Vec<f32>> {
            let Linear { weight, bias } = projection(name, biased)?;
            let (inputs, outputs) = (places.len() / rows, bias.len());
            let mut product: Vec<f32> = bias.iter().copied().cycle().take(rows * outputs).collect();
            let mut bare = vec![0.0; rows * outputs];
            let weight = Matrix::new(&weight, outputs, inputs).transposed();
            multiply(MatrixMut::new(&mut bare, rows, outputs), Matrix::new(places, rows, inputs), weight);
            product.iter_mut().zip(bare).for_each(|(sum, bare)| *sum += bare);
            Ok(product)
        };
        Ok(Self {
            keys: names.keys.map(|name| project(name, names.keys_biased)).transpose()?,
            queries: names.queries.map(|name| project(name, true)).transpose()?,
            places: names.places,
        })
    }
}
