//! Random-effects meta-analysis of a number over several corpora: its mean, its spread between them, and its prediction for
//! another corpus.

use super::block_test::student_critical;
use super::interval::Interval;

/// Minimum number of corpora for a prediction interval. With fewer, it has less than three degrees of freedom, and is too
/// wide to inform.
pub const MIN_CORPORA: usize = 5;

/// Minimum standard error of an estimate in one corpus. Numbers without variation in a corpus would otherwise have infinite
/// weight.
const MIN_STANDARD_ERROR: f64 = 1e-6;

/// Mean of a number that differs between corpora (DerSimonian & Laird 1986).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RandomEffects {
    pub mean: f64,
    pub standard_error: f64,
    /// Standard deviation of the number between corpora, in excess of what sampling within the corpora explains.
    pub tau: f64,
    pub corpora: usize,
}

impl RandomEffects {
    /// Combines estimates of a number, one per corpus, given as `(estimate, standard error)`; `None` for fewer than two.
    ///
    /// For `K` estimates `y` with standard errors `s`, the weights `w = 1 / s²` give `Q = sum w (y - mean)²` and
    /// `tau² = max(0, (Q - (K - 1)) / (sum w - sum w² / sum w))`. The mean has the weights `1 / (s² + tau²)`; its standard
    /// error is `1 / sqrt(sum of these weights)`.
    pub fn new(estimates: &[(f64, f64)]) -> Option<Self> {
        if estimates.len() < 2 {
            return None;
        }
        let variances: Vec<f64> = estimates.iter().map(|(_, error)| error.max(MIN_STANDARD_ERROR).powi(2)).collect();
        let weighted = |tau_squared: f64| {
            let weights = variances.iter().map(|variance| 1.0 / (variance + tau_squared));
            let total: f64 = weights.clone().sum();
            let mean = weights.clone().zip(estimates).map(|(weight, (value, _))| weight * value).sum::<f64>() / total;
            (weights.collect::<Vec<f64>>(), total, mean)
        };
        let (weights, total, mean) = weighted(0.0);
        let spread: f64 =
            weights.iter().zip(estimates).map(|(weight, (value, _))| weight * (value - mean).powi(2)).sum();
        let squares: f64 = weights.iter().map(|weight| weight * weight).sum();
        let tau_squared = ((spread - (estimates.len() - 1) as f64) / (total - squares / total)).max(0.0);
        let (_, total, mean) = weighted(tau_squared);
        let corpora = estimates.len();
        Some(Self { mean, standard_error: total.recip().sqrt(), tau: tau_squared.sqrt(), corpora })
    }

    /// 95 % prediction interval of the number in a further corpus of this kind: `mean ± t sqrt(tau² + SE²)`. For `K`
    /// corpora, `t` has `K - 2` degrees of freedom (Higgins, Thompson & Spiegelhalter 2009). `None` for fewer than
    /// [`MIN_CORPORA`] corpora.
    pub fn prediction(&self) -> Option<Interval> {
        let reach = || student_critical((self.corpora - 2) as f64) * self.tau.hypot(self.standard_error);
        (self.corpora >= MIN_CORPORA).then(|| Interval(self.mean - reach(), self.mean + reach()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_corpora_by_hand() {
        // Weights 400, mean .2, Q = 400 · .04 = 16; tau² = (16 - 4) / (2000 - 400) = .0075, SE² = .01 / 5 = .002, and t(3) = 3.182446.
        let found = RandomEffects::new(&[0.1, 0.1, 0.2, 0.3, 0.3].map(|value| (value, 0.05))).unwrap();
        assert!((found.mean - 0.2).abs() < 1e-12 && (found.tau - 0.0075_f64.sqrt()).abs() < 1e-12, "{found:?}");
        assert!((found.standard_error - 0.002_f64.sqrt()).abs() < 1e-12, "{found:?}");
        let Interval(low, high) = found.prediction().unwrap();
        let reach = 3.182_446_305 * 0.0095_f64.sqrt();
        assert!((low - (0.2 - reach)).abs() < 1e-8 && (high - (0.2 + reach)).abs() < 1e-8, "{low} {high}");
    }

    #[test]
    fn corpora_that_agree_have_no_spread_of_their_own() {
        let found = RandomEffects::new(&[(0.2, 0.1); 4]).unwrap();
        assert_eq!(found.tau, 0.0);
        assert!((found.standard_error - 0.05).abs() < 1e-12);
        // Four are too few to say where a fifth will be, and one has no spread.
        assert!(found.prediction().is_none() && RandomEffects::new(&[(0.2, 0.1)]).is_none());
        assert!(RandomEffects::new(&[(0.2, 0.0); 5]).unwrap().prediction().unwrap().low() > 0.199);
    }
}
