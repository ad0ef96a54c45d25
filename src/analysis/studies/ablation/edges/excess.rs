//! The excess of a shift beyond the effect of its source on all heads of a layer, and the response of its target to all
//! sources.

/// The excess of each shift of `shifts`, `[sources, targets]`, all heads of two layers: `ln shift` less the mean of its row,
/// less the mean of its column, plus the mean of all: the residuals of the additive fit by least squares where
/// there is no shift of 0.
///
/// A shift of 0 has no logarithm: it is in no mean and has no excess.
pub fn excesses(shifts: &[f64], heads: usize) -> Vec<Option<f64>> {
    let logs: Vec<Option<f64>> = shifts.iter().map(|&shift| (shift > 0.0).then(|| shift.ln())).collect();
    let row = |source: usize| mean(logs[source * heads..][..heads].iter());
    let column = |target: usize| mean(logs[target..].iter().step_by(heads));
    let (rows, columns): (Vec<f64>, Vec<f64>) = ((0..heads).map(row).collect(), (0..heads).map(column).collect());
    let all = mean(logs.iter());
    let excess =
        |(place, log): (usize, &Option<f64>)| log.map(|log| log - rows[place / heads] - columns[place % heads] + all);
    logs.iter().enumerate().map(excess).collect()
}

fn mean<'a>(logs: impl Iterator<Item = &'a Option<f64>>) -> f64 {
    let (sum, count) = logs.flatten().fold((0.0, 0.0), |(sum, count), log| (sum + log, count + 1.0));
    sum / count
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_example_by_hand() {
        // The logarithms are 0, -1, -2, -7: the means of rows -0.5 and -4.5, of columns -1 and -4, of all -2.5.
        let shifts = [0.0, -1.0, -2.0, -7.0].map(f64::exp);
        let found: Vec<f64> = excesses(&shifts, 2).into_iter().map(Option::unwrap).collect();
        for (found, expected) in found.into_iter().zip([-1.0, 1.0, 1.0, -1.0]) {
            assert!((found - expected).abs() < 1e-12, "{found}");
        }
    }

    #[test]
    fn what_is_not_shifted_is_in_no_mean() {
        // The first head writes nothing; between the others it is as if it were not there.
        let shifts = [0.0, 0.0, 0.0, 1.0, 2.0, 4.0, 1.0, 4.0, 32.0];
        let found = excesses(&shifts, 3);
        assert_eq!(found[..3], [None; 3]);
        // In units of ln 2: 0 1 2 / 0 2 5; means of rows 1 and 7/3, of columns 0, 3/2 and 7/2, of all 5/3.
        let expected = [2.0 / 3.0, 1.0 / 6.0, -5.0 / 6.0, -2.0 / 3.0, -1.0 / 6.0, 5.0 / 6.0];
        for (found, expected) in found[3..].iter().zip(expected) {
            assert!((found.unwrap() - expected * 2.0_f64.ln()).abs() < 1e-12, "{found:?}");
        }
        assert_eq!(excesses(&[0.0; 4], 2), [None; 4]);
    }

    proptest! {
        /// Sources and targets that multiply leave nothing, and whatever is left has no mean by source or target.
        #[test]
        fn excess_is_what_does_not_multiply(
            sources in prop::collection::vec(0.01..1.0_f64, 3),
            targets in prop::collection::vec(0.01..1.0_f64, 3),
            noise in prop::collection::vec(0.1..1.0_f64, 9),
        ) {
            let product: Vec<f64> = (0..9).map(|place| sources[place / 3] * targets[place % 3]).collect();
            prop_assert!(excesses(&product, 3).into_iter().all(|excess| excess.unwrap().abs() < 1e-12));
            let shifts: Vec<f64> = product.iter().zip(&noise).map(|(shift, noise)| shift * noise).collect();
            let (found, of_noise) = (excesses(&shifts, 3), excesses(&noise, 3));
            for place in 0..9 {
                prop_assert!((found[place].unwrap() - of_noise[place].unwrap()).abs() < 1e-12);
            }
            let row: f64 = found[..3].iter().flatten().sum();
            prop_assert!(row.abs() < 1e-12);
        }
    }
}
