//! Ranks, and the correlation of two rankings.

use statrs::statistics::{Data, OrderStatistics, RankTieBreaker};

/// Spearman's rank correlation of two lists; tied values get the mean of their ranks (Kendall & Gibbons 1990, chapters 1
/// and 3). `None` if all values of a list are equal, or if one is NaN. Panics if the lists differ in length.
pub fn spearman(these: &[f64], those: &[f64]) -> Option<f64> {
    assert_eq!(these.len(), those.len(), "pairs");
    if these.iter().chain(those).any(|value| value.is_nan()) {
        return None;
    }
    let middle = f64::midpoint(1.0, these.len() as f64);
    let centred = |values: &[f64]| -> Vec<f64> {
        let ranks = Data::new(values.to_vec()).ranks(RankTieBreaker::Average);
        ranks.into_iter().map(|rank| rank - middle).collect()
    };
    let (these, those) = (centred(these), centred(those));
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let spread = (product(&these, &these) * product(&those, &those)).sqrt();
    (spread > 0.0).then(|| product(&these, &those) / spread)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn correlations_by_hand() {
        assert_eq!(spearman(&[1.0, 5.0, 7.0], &[-3.0, -2.0, 100.0]), Some(1.0));
        assert_eq!(spearman(&[1.0, 5.0, 7.0], &[3.0, 2.0, -1.0]), Some(-1.0));
        // Ranks 1 2 3 4 and 2 1 4 3: 1 - 6 * 4 / (4 * 15).
        assert!((spearman(&[0.1, 0.2, 0.3, 0.4], &[2.0, 1.0, 9.0, 8.0]).unwrap() - 0.6).abs() < 1e-15);
        // Ranks 1 2.5 2.5 4 and 1 2 3 4: 4.5 / sqrt(4.5 * 5).
        let tied = spearman(&[0.0, 3.0, 3.0, 4.0], &[1.0, 2.0, 3.0, 4.0]).unwrap();
        assert!((tied - 4.5 / 22.5_f64.sqrt()).abs() < 1e-15, "{tied}");
    }

    #[test]
    fn nothing_goes_with_what_does_not_vary() {
        assert_eq!(spearman(&[2.0; 3], &[1.0, 2.0, 3.0]), None);
        assert_eq!(spearman(&[1.0], &[1.0]), None);
        assert_eq!(spearman(&[], &[]), None);
        assert_eq!(spearman(&[1.0, f64::NAN], &[1.0, 2.0]), None);
    }

    proptest! {
        #[test]
        fn order_alone_counts(pairs in prop::collection::vec((0..6_i8, -40..40_i8), 2..30)) {
            let (these, those): (Vec<f64>, Vec<f64>) =
                pairs.iter().map(|&(a, b)| (f64::from(a), f64::from(b))).unzip();
            let found = spearman(&these, &those);
            prop_assert_eq!(found, spearman(&those, &these));
            let curved: Vec<f64> = those.iter().map(|value| (value / 10.0).exp()).collect();
            prop_assert_eq!(found, spearman(&these, &curved));
            let turned: Vec<f64> = those.iter().map(|value| -value).collect();
            prop_assert!(found.is_none_or(|rho| (rho + spearman(&these, &turned).unwrap()).abs() < 1e-12));
            prop_assert!(found.is_none_or(|rho| rho.abs() <= 1.0 + 1e-12));
        }
    }
}
