//! Pseudo-values: numbers that are no ratios of sums, expressed as ratios, so that they get intervals like all others.

use super::metric::Fraction;
use crate::stats::blocks::BLOCKS;

/// A jackknife replicate: a number computed without one block, and the other blocks' share of the number's denominator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Replicate {
    /// The number, computed without the block.
    pub value: f64,
    /// Share of the number's denominator that lies in all blocks but the one left out.
    pub remaining_share: f64,
}

/// Computes pseudo-values as ratios: one for each block, followed by the ratio over the corpus (`whole` / 1). Panics
/// unless `replicates` has one entry for each block.
///
/// Let `θ_(b)` be the number without block `b`, and `w_b` the block's share of the denominator. The block's ratio is
/// `(x - θ_(b) (1 - w_b)) / w_b`. Here `x` is the sum of `θ_(b) (1 - w_b)` over blocks with a replicate, divided by
/// their number minus one.
///
/// The ratio of the sums over all blocks but `b` is then `θ_(b)`. So any number can be jackknifed and resampled like
/// ratios of sums (Efron & Tibshirani 1993, section 11.5).
pub fn pseudo_values(whole: Option<f64>, replicates: &[Option<Replicate>]) -> Vec<Fraction> {
    assert_eq!(replicates.len(), BLOCKS, "one for each block");
    let add_replicate =
        |sum: (f64, f64), Replicate { value, remaining_share: rest }: &Replicate| (sum.0 + 1.0, sum.1 + value * rest);
    let (count, sum) = replicates.iter().flatten().fold((0.0, 0.0), add_replicate);
    let mean = sum / (count - 1.0);
    let fraction_of_block = |replicate: &Option<Replicate>| match replicate {
        Some(Replicate { value, remaining_share: rest }) if mean.is_finite() => {
            Fraction::new(mean - value * rest, 1.0 - rest)
        }
        _ => Fraction::NONE,
    };
    let all = whole.map_or(Fraction::NONE, |value| Fraction::new(value, 1.0));
    replicates.iter().map(fraction_of_block).chain([all]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_blocks_but_one_have_the_value_without_it() {
        let rests: Vec<f64> = (0..BLOCKS).map(|block| 1.0 - (1 + block) as f64 / 2080.0).collect();
        let values: Vec<f64> = (0..BLOCKS).map(|block| 0.5 + 0.001 * (block % 7) as f64).collect();
        let without: Vec<_> =
            values.iter().zip(&rests).map(|(&value, &rest)| Some(Replicate { value, remaining_share: rest })).collect();
        let fractions = pseudo_values(Some(0.5), &without);
        assert_eq!(fractions[BLOCKS].value(), Some(0.5));
        let sum = |of: fn(&Fraction) -> f64| fractions[..BLOCKS].iter().map(of).sum::<f64>();
        let (above, below) = (sum(Fraction::numerator), sum(Fraction::denominator));
        assert!((below - 1.0).abs() < 1e-12);
        for (block, value) in values.iter().enumerate() {
            let (rest_above, rest_below) =
                (above - fractions[block].numerator(), below - fractions[block].denominator());
            assert!((rest_above / rest_below - value).abs() < 1e-9);
        }
    }

    #[test]
    fn a_block_without_a_value_has_none() {
        let mut without = vec![Some(Replicate { value: 0.5, remaining_share: 0.9 }); BLOCKS];
        without[3] = None;
        let fractions = pseudo_values(None, &without);
        assert_eq!((fractions[3].value(), fractions[BLOCKS].value()), (None, None));
        assert!(fractions[4].value().is_some());
    }
}
