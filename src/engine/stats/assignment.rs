//! The assignment problem: pairs `n` rows with `n` columns at the least total cost.

/// Assigns each of `n` rows a different column, so that the sum of costs is minimal; returns the column of each row.
/// `costs`, `[n, n]`, must be finite. The Hungarian method (Kuhn 1955) by shortest augmenting paths (Jonker & Volgenant
/// 1987), in time `n³`.
pub fn least_cost_assignment(costs: &[f64], n: usize) -> Vec<usize> {
    assert_eq!(costs.len(), n * n, "a cost for each pair");
    // Rows and columns count from 1; column 0 stands for the row that has no column yet, and row 0 for no row.
    let (mut row_price, mut column_price, mut row_of) = (vec![0.0; n + 1], vec![0.0; n + 1], vec![0; n + 1]);
    for row in 1..=n {
        row_of[0] = row;
        let (mut cheapest, mut previous_column) = (vec![f64::INFINITY; n + 1], vec![0; n + 1]);
        let mut is_reached = vec![false; n + 1];
        let mut column = 0;
        while row_of[column] != 0 {
            is_reached[column] = true;
            let current_row = row_of[column];
            let (mut step, mut next) = (f64::INFINITY, 0);
            for other in (1..=n).filter(|&other| !is_reached[other]) {
                let reduced = costs[(current_row - 1) * n + other - 1] - row_price[current_row] - column_price[other];
                if reduced < cheapest[other] {
                    (cheapest[other], previous_column[other]) = (reduced, column);
                }
                if cheapest[other] < step {
                    (step, next) = (cheapest[other], other);
                }
            }
            for other in 0..=n {
                if is_reached[other] {
                    row_price[row_of[other]] += step;
                    column_price[other] -= step;
                } else {
                    cheapest[other] -= step;
                }
            }
            column = next;
        }
        while column != 0 {
            row_of[column] = row_of[previous_column[column]];
            column = previous_column[column];
        }
    }
    let mut column_of = vec![0; n];
    (1..=n).for_each(|column| column_of[row_of[column] - 1] = column - 1);
    column_of
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The cheapest of each row would be the first column twice: 1 + 2 is dearer than 2 + 0.
    #[test]
    fn an_assignment_by_hand() {
        assert_eq!(least_cost_assignment(&[1.0, 2.0, 0.0, 2.0], 2), [1, 0]);
        assert_eq!(least_cost_assignment(&[], 0), [0; 0]);
    }

    /// The least cost of rows from `row` on, of all ways to give them columns that are free.
    fn least(costs: &[f64], n: usize, row: usize, taken: &mut Vec<usize>) -> f64 {
        if row == n {
            return 0.0;
        }
        let mut found = f64::INFINITY;
        for column in 0..n {
            if !taken.contains(&column) {
                taken.push(column);
                found = found.min(costs[row * n + column] + least(costs, n, row + 1, taken));
                taken.pop();
            }
        }
        found
    }

    proptest! {
        #[test]
        fn no_other_order_is_cheaper(n in 1..6_usize, costs in prop::collection::vec(-4..9_i32, 25)) {
            let costs: Vec<f64> = costs[..n * n].iter().map(|&cost| f64::from(cost)).collect();
            let mut found = least_cost_assignment(&costs, n);
            let sum: f64 = found.iter().enumerate().map(|(row, column)| costs[row * n + column]).sum();
            prop_assert_eq!(sum, least(&costs, n, 0, &mut Vec::new()));
            found.sort_unstable();
            prop_assert_eq!(found, (0..n).collect::<Vec<_>>());
        }
    }
}
