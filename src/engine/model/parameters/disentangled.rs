//! Scores between what tokens are and where they are, DeBERTa's (He et al. 2021, section 3.1).

use anyhow::Result;

use super::parts::{Linear, Norm};
use crate::linalg::matmul::{Matrix, MatrixMut, multiply};
use crate::model::families::DisentangledNames;
use crate::model::weights::Tensors;

/// The terms of a layer's scores between the content of one token and the distance of two.
#[derive(Clone, Debug, PartialEq)]
pub struct Disentangled {
    /// `[places, heads * head_dim]`: what the query of a token is multiplied by.
    pub keys: Option<Vec<f32>>,
    /// `[places, heads * head_dim]`: what the key of a token is multiplied by.
    pub queries: Option<Vec<f32>>,
    /// The place of each distance.
    pub places: Places,
}

/// The places of distances, query less key, in a table of twice `span` rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Places {
    /// Half of the rows.
    pub span: usize,
    /// Distances of more than half of this many share a place with others, the more the longer they are; `None`: every
    /// distance has its own.
    pub buckets: Option<usize>,
    /// The longest distance that the places were made for.
    pub furthest: usize,
}

impl Places {
    /// The row of a distance (`make_log_bucket_position` in Microsoft's code and transformers').
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounded up from a number above 0")]
    pub fn of(self, distance: isize) -> usize {
        let n = distance.unsigned_abs();
        let middle = self.buckets.map_or(usize::MAX, |buckets| buckets / 2);
        let place = if n <= middle {
            n
        } else {
            let whole = ((self.furthest - 1) as f64 / middle as f64).ln();
            ((n as f64 / middle as f64).ln() / whole * (middle - 1) as f64).ceil() as usize + middle
        };
        let (span, place) = (self.span.cast_signed(), place.min(2 * self.span).cast_signed());
        (if distance < 0 { span - place } else { span + place }).clamp(0, 2 * span - 1).cast_unsigned()
    }

    /// Rows of the table.
    pub fn rows(self) -> usize {
        2 * self.span
    }
}

/// The embeddings of places, from which each layer has its own: `[places, hidden]`.
pub(super) fn places(
    tensors: &impl Tensors,
    names: &DisentangledNames,
    (hidden, epsilon): (usize, f64),
) -> Result<Vec<f32>> {
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
    /// Multiplies the embeddings of places by a layer's projections, which `projection` loads by their names.
    pub(super) fn load(
        places: &[f32],
        names: &DisentangledNames,
        projection: impl Fn(&'static str) -> Result<Linear>,
    ) -> Result<Self> {
        let rows = names.places.rows();
        let project = |name: &'static str| -> Result<Vec<f32>> {
            let Linear { weight, bias } = projection(name)?;
            let (inputs, outputs) = (places.len() / rows, bias.len());
            let mut product: Vec<f32> = bias.iter().copied().cycle().take(rows * outputs).collect();
            let mut bare = vec![0.0; rows * outputs];
            let weight = Matrix::new(&weight, outputs, inputs).transposed();
            multiply(MatrixMut::new(&mut bare, rows, outputs), Matrix::new(places, rows, inputs), weight);
            product.iter_mut().zip(bare).for_each(|(sum, bare)| *sum += bare);
            Ok(product)
        };
        Ok(Self {
            keys: names.keys.map(project).transpose()?,
            queries: names.queries.map(project).transpose()?,
            places: names.places,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Places;

    #[test]
    fn places_of_distances() {
        let all = Places { span: 4, buckets: None, furthest: 4 };
        assert_eq!([-9, -4, -1, 0, 3, 4].map(|distance| all.of(distance)), [0, 0, 3, 4, 7, 7]);
        // Computed with transformers' `make_log_bucket_position(distance, 8, 24)`.
        let some = Places { span: 8, buckets: Some(8), furthest: 24 };
        let found = [0, 1, 4, 5, 6, 7, 8, 9, 12, 13, 22, 23].map(|distance| some.of(distance) - 8);
        assert_eq!(found, EXPECTED);
        let below = [1, 4, 5, 12, 23].map(|distance: isize| 8 - some.of(-distance));
        assert_eq!(below, [1, 4, 5, EXPECTED[8], 7]);
    }

    const EXPECTED: [usize; 12] = [0, 1, 4, 5, 5, 5, 6, 6, 6, 7, 7, 7];
}
