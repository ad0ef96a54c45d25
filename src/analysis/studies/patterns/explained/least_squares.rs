//! How much of a variable is explained by others, from sums of products (METHODOLOGY, "What explains a head").

/// A symmetric matrix of sums of products, `[size, size]`, its lower half row after row.
#[derive(Clone, Debug, PartialEq)]
pub struct Gram(Vec<f64>);

/// The place of a pair in the lower half of a symmetric matrix.
pub const fn pair(a: usize, b: usize) -> usize {
    let (row, column) = if a < b { (b, a) } else { (a, b) };
    row * (row + 1) / 2 + column
}

impl Gram {
    /// A matrix of which `cells` is the lower half, row after row.
    pub fn new(cells: Vec<f64>) -> Self {
        Self(cells)
    }

    /// The sum of the products of two variables.
    pub fn at(&self, a: usize, b: usize) -> f64 {
        self.0[pair(a, b)]
    }

    /// The difference of the sums and the sums in `others`.
    pub fn less(&self, others: &Self) -> Self {
        Self(self.0.iter().zip(&others.0).map(|(sum, other)| sum - other).collect())
    }

    /// The largest sum of squares.
    fn largest(&self) -> f64 {
        (0..).map(|row| pair(row, row)).map_while(|place| self.0.get(place)).fold(0.0, |most, &cell| most.max(cell))
    }
}

/// The residual of a variable, as a share of the largest sum of squares, below which it is a combination of earlier
/// ones: sums of products of 10^6 cells are good to about 1e-12.
const NOTHING_LEFT: f64 = 1e-10;

/// The Cholesky factor of the sums of some variables, without those that are combinations of others.
///
/// Leaving these out changes no fit, so the squares that are explained are those by the pseudo-inverse.
#[derive(Clone, Debug, PartialEq)]
pub struct Factor {
    /// The variables that are kept.
    kept: Vec<usize>,
    /// The row of the factor of each of them, which ends with the diagonal.
    rows: Vec<Vec<f64>>,
}

impl Factor {
    /// The factor of the sums of `variables`.
    pub fn new(gram: &Gram, variables: impl IntoIterator<Item = usize>) -> Self {
        let least = NOTHING_LEFT * gram.largest();
        let (mut kept, mut rows): (Vec<usize>, Vec<Vec<f64>>) = (Vec::new(), Vec::new());
        for variable in variables {
            let products: Vec<f64> = kept.iter().map(|&other| gram.at(variable, other)).collect();
            let mut row = solve(&rows, &products);
            let left = gram.at(variable, variable) - row.iter().map(|cell| cell * cell).sum::<f64>();
            if left > least {
                row.push(left.sqrt());
                kept.push(variable);
                rows.push(row);
            }
        }
        Self { kept, rows }
    }

    /// The variables that are kept.
    pub fn kept(&self) -> &[usize] {
        &self.kept
    }

    /// The sum of squares of a variable that the others explain, from its sum of products with each of all variables.
    pub fn explained(&self, products: &[f64]) -> f64 {
        let products: Vec<f64> = self.kept.iter().map(|&variable| products[variable]).collect();
        solve(&self.rows, &products).iter().map(|cell| cell * cell).sum()
    }
}

/// The solution of a lower triangular system.
fn solve(rows: &[Vec<f64>], right: &[f64]) -> Vec<f64> {
    let mut solution: Vec<f64> = Vec::with_capacity(rows.len() + 1);
    for (row, right) in rows.iter().zip(right) {
        let known: f64 = row.iter().zip(&solution).map(|(cell, solved)| cell * solved).sum();
        solution.push((right - known) / row[solution.len()]);
    }
    solution
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn gram(variables: &[Vec<f64>]) -> Gram {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        Gram::new(
            variables.iter().enumerate().flat_map(|(row, a)| variables[..=row].iter().map(|b| dot(a, b))).collect(),
        )
    }

    fn products(variables: &[Vec<f64>], target: &[f64]) -> Vec<f64> {
        variables.iter().map(|one| one.iter().zip(target).map(|(a, b)| a * b).sum()).collect()
    }

    #[test]
    fn a_fit_by_hand() {
        // (1, 0, 0) and (1, 1, 0) span the first two axes: 9 + 16 of (3, 4, 5) are explained.
        let variables = [vec![1.0, 0.0, 0.0], vec![1.0, 1.0, 0.0]];
        let right = products(&variables, &[3.0, 4.0, 5.0]);
        let gram = gram(&variables);
        assert_eq!(Factor::new(&gram, [0, 1]).explained(&right), 25.0);
        assert_eq!(Factor::new(&gram, [0]).explained(&right), 9.0);
        assert_eq!(Factor::new(&gram, [1]).explained(&right), 24.5);
        assert_eq!(Factor::new(&gram, []).explained(&right), 0.0);
    }

    #[test]
    fn what_others_say_already_is_left_out() {
        // The third is the difference of the first two, the fourth is nothing.
        let variables = [vec![1.0, 2.0, 2.0], vec![0.0, 1.0, 5.0], vec![1.0, 1.0, -3.0], vec![0.0; 3]];
        let right = products(&variables, &[1.0, 1.0, 1.0]);
        let gram = gram(&variables);
        let all = Factor::new(&gram, 0..4);
        assert_eq!(all.kept(), [0, 1]);
        for order in [[0, 2], [2, 1], [1, 0]] {
            assert!((Factor::new(&gram, order).explained(&right) - all.explained(&right)).abs() < 1e-12);
        }
    }

    proptest! {
        /// More variables never explain less, nor more than there is, in whatever order.
        #[test]
        fn explained_squares_grow_to_all_there_are(
            cells in prop::collection::vec(-3.0..3.0_f64, 30),
            target in prop::collection::vec(-3.0..3.0_f64, 6),
        ) {
            let variables: Vec<Vec<f64>> = cells.chunks(6).map(<[f64]>::to_vec).collect();
            let (gram, right) = (gram(&variables), products(&variables, &target));
            let squares: f64 = target.iter().map(|value| value * value).sum();
            let mut before = 0.0;
            for count in 0..=variables.len() {
                let explained = Factor::new(&gram, 0..count).explained(&right);
                let backwards = Factor::new(&gram, (0..count).rev()).explained(&right);
                prop_assert!((explained - backwards).abs() < 1e-6 * (1.0 + squares));
                prop_assert!(explained >= before - 1e-9 && explained <= squares + 1e-6);
                before = explained;
            }
        }
    }
}
