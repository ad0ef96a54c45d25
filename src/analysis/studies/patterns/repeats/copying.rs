//! Copying scores: whether a head's output resembles the token that it attends to, judged from the weights alone.

use nalgebra::DMatrix;

use crate::linalg::matmul::{Matrix, MatrixMut, multiply};
use crate::linalg::spectra::{positive_eigenvalue_share, to_dmatrix};
use crate::model::forward::Encoder;
use crate::model::grid::HeadGrid;
use crate::system::parallel::{core_count, parallel_map};

/// Number of embeddings whose outer products are summed in f32. These partial sums are added in f64.
const ROWS_AT_ONCE: usize = 512;

/// Copying score of each head, `[layers * heads]`: `Re(sum λ) / sum |λ|`. The `λ` are the eigenvalues of `W_O EᵀE W_V`,
/// with `E` the mean-centred embeddings. `None` if the model gives no access to its weights.
pub fn copying_scores(encoder: &dyn Encoder, grid: HeadGrid) -> Option<Vec<Option<f64>>> {
    let embeddings = encoder.word_embeddings()?;
    let layers = (0..grid.layers).map(|layer| encoder.head_weights(layer)).collect::<Option<Vec<_>>>()?;
    let square = scatter_matrix(embeddings.matrix());
    let square = match encoder.embedding_projection().map(to_dmatrix) {
        Some(projection) => projection.transpose() * (square * &projection),
        None => square,
    };
    let of_layer = parallel_map(core_count(), layers, |weights| {
        let (output, read) = (to_dmatrix(weights.output), &square * to_dmatrix(weights.value));
        let dim = read.ncols() / grid.heads;
        let score =
            |head: usize| positive_eigenvalue_share(output.rows(head * dim, dim) * read.columns(head * dim, dim));
        (0..grid.heads).map(score).collect::<Vec<_>>()
    });
    Some(of_layer.concat())
}

/// Computes `EᵀE` of the mean-centred embeddings `E`, `[width, width]`.
fn scatter_matrix(embeddings: Matrix<'_>) -> DMatrix<f64> {
    let (count, width) = (embeddings.rows(), embeddings.columns());
    let mut mean = vec![0.0; width];
    let row = |row: usize| (0..width).map(move |column| embeddings.get(row, column));
    (0..count).for_each(|at| mean.iter_mut().zip(row(at)).for_each(|(sum, value)| *sum += f64::from(value)));
    mean.iter_mut().for_each(|sum| *sum /= count as f64);
    let parts = parallel_map(core_count(), (0..count).step_by(ROWS_AT_ONCE), |first| {
        let rows = ROWS_AT_ONCE.min(count - first);
        #[expect(clippy::cast_possible_truncation, reason = "products of parts are summed in f32")]
        let centred = |at: usize| row(at).zip(&mean).map(|(value, mean)| (f64::from(value) - mean) as f32);
        let centred: Vec<f32> = (first..first + rows).flat_map(centred).collect();
        let mut part = vec![0.0; width * width];
        let centred = Matrix::new(&centred, rows, width);
        multiply(MatrixMut::new(&mut part, width, width), centred.transposed(), centred);
        part
    });
    let mut sum = DMatrix::zeros(width, width);
    for part in parts {
        sum.iter_mut().zip(&part).for_each(|(sum, &part)| *sum += f64::from(part));
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scatter_by_hand() {
        // The mean is (2, 1): (-1, 0), (1, 0) and (0, 0) are left, then (0, 3) and (0, -3).
        let embeddings = [1.0, 1.0, 3.0, 1.0, 2.0, 1.0, 2.0, 4.0, 2.0, -2.0];
        let found = scatter_matrix(Matrix::new(&embeddings, 5, 2));
        assert_eq!(found.as_slice(), [2.0, 0.0, 0.0, 18.0]);
    }
}
