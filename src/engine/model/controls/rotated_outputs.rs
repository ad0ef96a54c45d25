//! Control model: a trained model whose attention heads write into random directions that later layers have not learnt to read
//! (docs/methodology/controls.md).

use nalgebra::DMatrix;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use sha2::{Digest, Sha256};

use crate::model::parameters::Parameters;

/// Rotates the output projection of each attention head at random in the space of hidden states. The rotation depends only on
/// seed, layer and head.
pub fn rotate_outputs(parameters: &mut Parameters, seed: u64) {
    let (hidden, heads) = (parameters.config.hidden_size, parameters.config.num_attention_heads);
    let (size, width) = (parameters.config.head_dim(), parameters.config.heads_width());
    for (number, layer) in parameters.layers.iter_mut().enumerate() {
        let weights = &mut layer.attention_output.weight;
        for head in 0..heads {
            let digest = Sha256::digest(format!("{seed} rotation L{number}H{head}"));
            let random = ChaCha8Rng::from_seed(digest.into());
            let normal: Vec<f64> = StandardNormal.sample_iter(random).take(hidden * size).collect();
            let index = |row: usize, column: usize| row * width + head * size + column;
            let cells = (0..hidden).flat_map(|row| (0..size).map(move |column| (row, column)));
            let weights_of_head: Vec<f64> =
                cells.clone().map(|(row, column)| f64::from(weights[index(row, column)])).collect();
            let rotated_weights = rotate_matrix(&weights_of_head, &normal, [hidden, size]);
            #[expect(clippy::cast_possible_truncation, reason = "weights are f32")]
            cells.zip(rotated_weights).for_each(|((row, column), value)| weights[index(row, column)] = value as f32);
        }
    }
}

/// Returns `Q M`, `[rows, columns]` row-major, for `M` = `matrix` and a uniform (Haar) random rotation or reflection
/// `Q`. `normal` supplies the randomness: `rows * columns` standard normal numbers.
///
/// `Q` itself is never formed. With the QR decomposition `M = U R`, `Q M = (Q U) R`, and `Q U` is a uniform random
/// matrix with orthonormal columns. The QR decomposition of a normal matrix yields such a matrix, once the diagonal of
/// its triangle is made positive (Mezzadri 2007).
///
/// Panics if there are more columns than rows, or if `matrix` or `normal` has another length.
fn rotate_matrix(matrix: &[f64], normal: &[f64], [rows, columns]: [usize; 2]) -> Vec<f64> {
    assert!(columns <= rows && matrix.len() == rows * columns && normal.len() == matrix.len(), "as many numbers");
    let triangle = DMatrix::from_row_slice(rows, columns, matrix).qr().r();
    let (mut directions, signs) = DMatrix::from_row_slice(rows, columns, normal).qr().unpack();
    for column in 0..columns {
        if signs[(column, column)] < 0.0 {
            directions.column_mut(column).neg_mut();
        }
    }
    (directions * triangle).transpose().as_slice().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_angles_stay() {
        // Columns (1, 0, 0) and (1, 1, 0): lengths 1 and √2, product 1.
        let normal = [0.3, -1.2, 0.8, 0.1, -0.4, 0.9];
        let turned = rotate_matrix(&[1.0, 1.0, 0.0, 1.0, 0.0, 0.0], &normal, [3, 2]);
        let column = |column: usize| [0, 1, 2].map(|row| turned[row * 2 + column]);
        let dot = |a: [f64; 3], b: [f64; 3]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let (first, second) = (column(0), column(1));
        for (found, expected) in [(dot(first, first), 1.0), (dot(second, second), 2.0), (dot(first, second), 1.0)] {
            assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        }
        // The first column is that of the normal numbers, of length 1.
        let length = (0.3_f64.powi(2) + 0.8_f64.powi(2) + 0.4_f64.powi(2)).sqrt();
        assert!((first[0].abs() - 0.3 / length).abs() < 1e-12, "{first:?}");
        // Nothing stays nothing.
        assert_eq!(rotate_matrix(&[0.0; 6], &normal, [3, 2]), [0.0; 6]);
    }

    #[test]
    fn directions_are_uniform() {
        // The mean square of a coordinate of a uniform direction in two dimensions is a half: here of 0, 1, ..., 359 degrees.
        let turned = (0..360).map(|degrees| {
            let (sine, cosine) = f64::from(degrees).to_radians().sin_cos();
            rotate_matrix(&[2.0, 0.0], &[cosine, sine], [2, 1])[0]
        });
        let turned: Vec<f64> = turned.collect();
        assert!((turned.iter().map(|x| x * x).sum::<f64>() / 360.0 - 2.0).abs() < 1e-9);
        assert!(turned.iter().sum::<f64>().abs() < 1e-9);
    }
}
