//! Positive definite systems of equations by Cholesky's factorisation (Golub & Van Loan 2013, section 4.2).

/// The factor `U` of a positive definite matrix `Uᵀ U`; it is upper triangular.
#[derive(Clone, Debug, PartialEq)]
pub struct Cholesky {
    size: usize,
    /// The factor, `[size, size]`; the values below the diagonal have no meaning.
    upper: Vec<f64>,
}

impl Cholesky {
    /// Factorises a symmetric matrix, `[size, size]`, reading only its upper triangle. `None` if the matrix is not positive
    /// definite. Panics if `matrix` does not have `size * size` values.
    pub fn new(mut matrix: Vec<f64>, size: usize) -> Option<Self> {
        assert_eq!(matrix.len(), size * size, "a square matrix");
        for row in 0..size {
            let (done, rest) = matrix.split_at_mut((row + 1) * size);
            let pivot_row = &mut done[row * size..];
            let pivot = pivot_row[row];
            // The negation also rejects NaN.
            if !(pivot > 0.0 && pivot.is_finite()) {
                return None;
            }
            pivot_row[row..].iter_mut().for_each(|value| *value /= pivot.sqrt());
            for (below, values) in (row + 1..size).zip(rest.chunks_exact_mut(size)) {
                add_scaled(&mut values[below..], &pivot_row[below..], -pivot_row[below]);
            }
        }
        Some(Self { size, upper: matrix })
    }

    /// The values of a row, `[size]`; the values left of the diagonal have no meaning.
    fn row(&self, row: usize) -> &[f64] {
        &self.upper[row * self.size..][..self.size]
    }

    /// Solves `Uᵀ y = b`, with the factor `U`, for each column of `b`, `[size, columns]`; `y` replaces `b`. Panics if `b` has
    /// another shape.
    pub fn solve_lower(&self, b: &mut [f64], columns: usize) {
        assert_eq!(b.len(), self.size * columns, "as many rows as the matrix has");
        for row in 0..self.size {
            let (done, rest) = b.split_at_mut((row + 1) * columns);
            let solved_row = &mut done[row * columns..];
            let factors = self.row(row);
            solved_row.iter_mut().for_each(|value| *value /= factors[row]);
            for (factor, values) in factors[row + 1..].iter().zip(rest.chunks_exact_mut(columns.max(1))) {
                add_scaled(values, solved_row, -factor);
            }
        }
    }

    /// Solves `U x = y`, with the factor `U`, for each column of `y`, `[size, columns]`; `x` replaces `y`. Panics if `y` has
    /// another shape.
    pub fn solve_upper(&self, y: &mut [f64], columns: usize) {
        assert_eq!(y.len(), self.size * columns, "as many rows as the matrix has");
        for row in (0..self.size).rev() {
            let (before, after) = y.split_at_mut((row + 1) * columns);
            let current_row = &mut before[row * columns..];
            let factors = self.row(row);
            for (factor, values) in factors[row + 1..].iter().zip(after.chunks_exact(columns.max(1))) {
                add_scaled(current_row, values, -factor);
            }
            current_row.iter_mut().for_each(|value| *value /= factors[row]);
        }
    }
}

/// Adds a multiple of a vector: `into += factor * values`.
fn add_scaled(into: &mut [f64], values: &[f64], factor: f64) {
    into.iter_mut().zip(values).for_each(|(sum, value)| *sum += factor * value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_small_system_by_hand() {
        // [4 2; 2 5] is [2 1; 0 2]ᵀ [2 1; 0 2]; with the right side (8, 12) its solution is (1, 2).
        let factor = Cholesky::new(vec![4.0, 2.0, 99.0, 5.0], 2).unwrap();
        assert_eq!((factor.row(0), factor.row(1)[1]), (&[2.0, 1.0][..], 2.0));
        let mut b = vec![8.0, 12.0];
        factor.solve_lower(&mut b, 1);
        assert_eq!(b, [4.0, 4.0]);
        factor.solve_upper(&mut b, 1);
        assert_eq!(b, [1.0, 2.0]);
    }

    #[test]
    fn what_is_not_positive_definite_is_none() {
        assert_eq!(Cholesky::new(vec![1.0, 2.0, 2.0, 1.0], 2), None);
        assert_eq!(Cholesky::new(vec![0.0], 1), None);
        assert_eq!(Cholesky::new(vec![f64::NAN], 1), None);
    }

    proptest! {
        #[test]
        fn solutions_solve(size in 1..7_usize, values in prop::collection::vec(-2.0..2.0_f64, 49), columns in 1..4_usize) {
            let factor = |row: usize, column: usize| values[row * 7 + column] + if row == column { 4.0 } else { 0.0 };
            let cell = |place: usize| {
                let (row, column) = (place / size, place % size);
                (0..size).map(|inner| factor(row, inner) * factor(column, inner)).sum::<f64>()
            };
            let matrix: Vec<f64> = (0..size * size).map(cell).collect();
            let expected: Vec<f64> = (0..size * columns).map(|place| values[place] - 0.5).collect();
            let product = |place: usize| {
                let (row, column) = (place / columns, place % columns);
                (0..size).map(|inner| matrix[row * size + inner] * expected[inner * columns + column]).sum::<f64>()
            };
            let mut b: Vec<f64> = (0..size * columns).map(product).collect();
            if let Some(factor) = Cholesky::new(matrix.clone(), size) {
                factor.solve_lower(&mut b, columns);
                factor.solve_upper(&mut b, columns);
                let largest = b.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                prop_assert!(largest < 1e-6, "{largest}");
            }
        }
    }
}
