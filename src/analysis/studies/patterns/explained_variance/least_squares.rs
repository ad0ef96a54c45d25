//! Least squares, computed from sums of products (docs/methodology/explained-variance.md).

use nalgebra::{DMatrix, SymmetricEigen};

/// Symmetric matrix of sums of products of variables, `[variables, variables]`. Its lower half is stored row by row.
#[derive(Clone, Debug, PartialEq)]
pub struct GramMatrix(pub Vec<f64>);

/// Index of cell (`a`, `b`) in the stored lower half of a symmetric matrix.
pub const fn lower_half_index(a: usize, b: usize) -> usize {
    let (row, column) = if a < b { (b, a) } else { (a, b) };
    row * (row + 1) / 2 + column
}

impl GramMatrix {
    /// Sum of products of the variables `a` and `b`.
    pub fn cell(&self, a: usize, b: usize) -> f64 {
        self.0[lower_half_index(a, b)]
    }

    /// Sums of products of a selection of variables, `[selected, selected]`.
    fn submatrix(&self, variables: &[usize]) -> DMatrix<f64> {
        let size = variables.len();
        DMatrix::from_fn(size, size, |row, column| self.cell(variables[row], variables[column]))
    }

    /// Subtracts the sums in `others`, cell by cell.
    pub fn subtract(&self, others: &Self) -> Self {
        Self(self.0.iter().zip(&others.0).map(|(sum, other)| sum - other).collect())
    }

    /// Whether a variable's sum of squares is larger than the rounding error of the matrix's largest sum of squares.
    pub fn is_varying(&self, variable: usize) -> bool {
        self.cell(variable, variable) > RELATIVE_TOLERANCE * self.largest_square()
    }

    /// Largest diagonal cell: the largest sum of squares of a variable.
    fn largest_square(&self) -> f64 {
        (0..)
            .map(|row| lower_half_index(row, row))
            .map_while(|place| self.0.get(place))
            .fold(0.0, |most, &cell| most.max(cell))
    }
}

/// Rounding error of a sum of squares, as a share of the matrix's largest sum of squares. Sums over 10^6 cells are accurate
/// to about 1e-12.
const RELATIVE_TOLERANCE: f64 = 1e-10;

/// Least-squares fit of any response on a selection of variables. The pseudo-inverse selects the smallest among equally
/// good coefficients, so predictions do not depend on the order of variables.
#[derive(Clone, Debug, PartialEq)]
pub struct LeastSquaresFit {
    /// Indices of the selected variables.
    variables: Vec<usize>,
    /// Pseudo-inverse of the sums of products, `[selected, selected]`. Eigenvalues below [`RELATIVE_TOLERANCE`] times
    /// the largest count as 0.
    inverse: DMatrix<f64>,
}

impl LeastSquaresFit {
    /// Computes the pseudo-inverse from the sums of products in `gram`.
    pub fn new(gram: &GramMatrix, variables: impl IntoIterator<Item = usize>) -> Self {
        let variables: Vec<usize> = variables.into_iter().collect();
        let SymmetricEigen { eigenvectors, eigenvalues } = gram.submatrix(&variables).symmetric_eigen();
        let least = RELATIVE_TOLERANCE * eigenvalues.iter().copied().fold(0.0, f64::max);
        let reciprocals = eigenvalues.map(|value| if value > least { value.recip() } else { 0.0 });
        let inverse = &eigenvectors * DMatrix::from_diagonal(&reciprocals) * eigenvectors.transpose();
        Self { variables, inverse }
    }

    /// Returns, for each response, the sum of squares explained in test data: `2 β'b - β'G β`. It is below 0 if the fit is
    /// worse than none.
    ///
    /// The coefficients `β` follow from `training_products`. `G` is `gram` and `b` is `products`, both from test data. Both
    /// products are of each variable with each response, `[all variables, responses]`.
    pub fn explained_squares(
        &self,
        training_products: &DMatrix<f64>,
        gram: &GramMatrix,
        products: &DMatrix<f64>,
    ) -> Vec<f64> {
        let Self { variables, inverse } = self;
        let coefficients = inverse * training_products.select_rows(variables);
        let gradients = products.select_rows(variables) * 2.0 - gram.submatrix(variables) * &coefficients;
        let responses = coefficients.column_iter().zip(gradients.column_iter());
        responses.map(|(coefficients, gradient)| coefficients.dot(&gradient)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn gram(variables: &[Vec<f64>]) -> GramMatrix {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        GramMatrix(
            variables.iter().enumerate().flat_map(|(row, a)| variables[..=row].iter().map(|b| dot(a, b))).collect(),
        )
    }

    fn products(variables: &[Vec<f64>], target: &[f64]) -> DMatrix<f64> {
        let of = |one: &Vec<f64>| one.iter().zip(target).map(|(a, b)| a * b).sum::<f64>();
        DMatrix::from_iterator(variables.len(), 1, variables.iter().map(of))
    }

    /// The squares that variables explain where they are fitted.
    fn within(gram: &GramMatrix, variables: impl IntoIterator<Item = usize>, products: &DMatrix<f64>) -> f64 {
        LeastSquaresFit::new(gram, variables).explained_squares(products, gram, products)[0]
    }

    #[test]
    fn a_fit_by_hand() {
        // (1, 0, 0) and (1, 1, 0) span the first two axes: 9 + 16 of (3, 4, 5) are explained.
        let variables = [vec![1.0, 0.0, 0.0], vec![1.0, 1.0, 0.0]];
        let right = products(&variables, &[3.0, 4.0, 5.0]);
        let gram = gram(&variables);
        for (cues, squares) in [(&[0, 1][..], 25.0), (&[0], 9.0), (&[1], 24.5)] {
            assert!((within(&gram, cues.iter().copied(), &right) - squares).abs() < 1e-12, "{cues:?}");
        }
    }

    #[test]
    fn a_fit_to_other_data_by_hand() {
        // 2 x is fitted: of (1, -1) = x that leaves as much as there is, of (3, -3) the square of x.
        let (x, fitted) = ([vec![1.0, -1.0]], [2.0, -2.0]);
        let (gram, fitted) = (gram(&x), products(&x, &fitted));
        let of = |target: [f64; 2]| {
            LeastSquaresFit::new(&gram, [0]).explained_squares(&fitted, &gram, &products(&x, &target))[0]
        };
        assert_eq!([of([1.0, -1.0]), of([3.0, -3.0])], [0.0, 16.0]);
        // Worse than no fit: of (-1, 1) there is 2, and 18 is left.
        assert_eq!(of([-1.0, 1.0]), -16.0);
    }

    #[test]
    fn what_others_say_already_changes_no_fit() {
        // The third is the difference of the first two, the fourth is nothing.
        let variables = [vec![1.0, 2.0, 2.0], vec![0.0, 1.0, 5.0], vec![1.0, 1.0, -3.0], vec![0.0; 3]];
        let right = products(&variables, &[1.0, 1.0, 1.0]);
        let gram = gram(&variables);
        let all = within(&gram, 0..4, &right);
        for some in [[0, 2], [2, 1], [1, 0]] {
            assert!((within(&gram, some, &right) - all).abs() < 1e-12);
        }
        assert_eq!([0, 1, 2, 3].map(|variable| gram.is_varying(variable)), [true, true, true, false]);
    }

    /// Two variables that are equal in the fit each have half of the coefficient, which tells where they differ.
    #[test]
    fn the_smallest_coefficients_are_taken() {
        let fitted_on = [vec![1.0, -1.0], vec![1.0, -1.0]];
        let (fit, fitted) = (LeastSquaresFit::new(&gram(&fitted_on), [0, 1]), products(&fitted_on, &[2.0, -2.0]));
        let scored_on = [vec![1.0, -1.0], vec![0.0, 0.0]];
        let explained = fit.explained_squares(&fitted, &gram(&scored_on), &products(&scored_on, &[2.0, -2.0]))[0];
        // x is fitted where 2 x is: 2 of 8 are left.
        assert!((explained - 6.0).abs() < 1e-12);
    }

    proptest! {
        /// Where they are fitted, more variables never explain less, nor more than there is, in whatever order.
        #[test]
        fn explained_squares_grow_to_all_there_are(
            cells in prop::collection::vec(-3.0..3.0_f64, 30),
            target in prop::collection::vec(-3.0..3.0_f64, 6),
        ) {
            let variables: Vec<Vec<f64>> = cells.chunks(6).map(<[f64]>::to_vec).collect();
            let (gram, right) = (gram(&variables), products(&variables, &target));
            let squares: f64 = target.iter().map(|value| value * value).sum();
            let mut before = 0.0;
            for count in 1..=variables.len() {
                let explained = within(&gram, 0..count, &right);
                let backwards = within(&gram, (0..count).rev(), &right);
                prop_assert!((explained - backwards).abs() < 1e-6 * (1.0 + squares));
                prop_assert!(explained >= before - 1e-9 && explained <= squares + 1e-6);
                before = explained;
            }
        }
    }
}
