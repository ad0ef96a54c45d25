//! Eigenvalues of products of weight matrices.

use nalgebra::{Complex, DMatrix};

use super::matmul::Matrix;

/// Copies a matrix into an f64 matrix of `nalgebra`.
pub fn to_dmatrix(weights: Matrix<'_>) -> DMatrix<f64> {
    DMatrix::from_fn(weights.rows(), weights.columns(), |row, column| f64::from(weights.get(row, column)))
}

/// The smallest number of values whose sum reaches `share` of the total of all `values`. Values are 0 or more, except for
/// rounding.
pub fn count_for_share(share: f64, mut values: Vec<f64>) -> usize {
    values.sort_by(|a, b| b.total_cmp(a));
    let total: f64 = values.iter().sum();
    let mut sum = 0.0;
    let counted = values.iter().take_while(|&&value| {
        let is_below = sum < share * total;
        sum += value;
        is_below
    });
    counted.count()
}

/// The share of positive eigenvalues of a square matrix: the real part of the sum of eigenvalues, divided by the sum of
/// their moduli. `None` if all are 0, or if the algorithm does not converge.
pub fn positive_eigenvalue_share(matrix: DMatrix<f64>) -> Option<f64> {
    /// Maximum number of steps per row. A matrix takes about two steps per eigenvalue, so a larger number means no
    /// convergence.
    const MAX_STEPS_PER_ROW: usize = 100;
    let steps = MAX_STEPS_PER_ROW * matrix.nrows();
    let eigenvalues = nalgebra::Schur::try_new(matrix, f64::EPSILON, steps)?.complex_eigenvalues();
    let moduli: f64 = eigenvalues.iter().map(|value: &Complex<f64>| value.re.hypot(value.im)).sum();
    let real: f64 = eigenvalues.iter().map(|value| value.re).sum();
    (moduli > 0.0).then_some(real / moduli)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_by_hand() {
        assert_eq!(count_for_share(0.9, vec![1.0, 8.0, 1.0]), 2);
        assert_eq!(count_for_share(0.9, vec![1.0; 10]), 9);
        assert_eq!(count_for_share(0.9, vec![0.0; 3]), 0);
        assert_eq!(count_for_share(1.0, vec![5.0]), 1);
    }

    #[test]
    fn eigenvalues_by_hand() {
        let share =
            |rows: usize, values: &[f64]| positive_eigenvalue_share(DMatrix::from_row_slice(rows, rows, values));
        assert_eq!(share(2, &[2.0, 0.0, 0.0, 3.0]), Some(1.0));
        assert!((share(2, &[3.0, 5.0, 0.0, -1.0]).unwrap() - 0.5).abs() < 1e-12);
        // A turn by a right angle: i and -i.
        assert!(share(2, &[0.0, -1.0, 1.0, 0.0]).unwrap().abs() < 1e-12);
        assert_eq!(share(2, &[0.0; 4]), None);
    }
}
