//! Agreement of two raters on the categories of things: Cohen's kappa, and the agreement expected by chance.

use std::collections::BTreeMap;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use schemars::JsonSchema;
use serde::Serialize;

use super::interval::Interval;

/// 97.5th percentile of the standard normal distribution.
const Z_975: f64 = 1.959_963_984_540_054;

/// Agreement of two raters on the category of each thing, such as two reports on the first label of each attention head.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CategoryAgreement {
    /// Number of things, such as attention heads, that both raters put into a category.
    pub things: usize,
    /// Share of the things that both raters put into the same category, from 0 to 1; null if `things` is 0.
    pub share: Option<f64>,
    /// 95 % interval of `share` if the things were drawn independently (Wilson 1927); null if `things` is 0.
    pub share_ci95: Option<Interval>,
    /// Expected `share` of independent raters: the product of the raters' shares of a category, summed over categories. Null if
    /// `things` is 0.
    pub expected: Option<f64>,
    /// Cohen's kappa, `(share - expected) / (1 - expected)` (Cohen 1960). Null if `things` is 0, or if a rater uses a single
    /// category: `share` then equals `expected` whatever the other rater says.
    pub kappa: Option<f64>,
    /// 95 % interval of `kappa`: `share_ci95` on the scale of kappa, with the raters' shares of categories taken as known. The
    /// lower end is at least the lowest kappa that these shares allow, from -1 to 0 (Cohen 1960). Null if `kappa` is null.
    pub kappa_ci95: Option<Interval>,
}

impl CategoryAgreement {
    /// Computes the agreement of two raters from their pairs of categories, one pair for each thing.
    pub fn new<C: Ord>(pairs: &[(C, C)]) -> Self {
        let things = pairs.len();
        if things == 0 {
            return Self { things, share: None, share_ci95: None, expected: None, kappa: None, kappa_ci95: None };
        }
        let count = things as f64;
        let agreements = pairs.iter().filter(|(a, b)| a == b).count();
        let mut category_counts: BTreeMap<&C, [usize; 2]> = BTreeMap::new();
        for (a, b) in pairs {
            category_counts.entry(a).or_default()[0] += 1;
            category_counts.entry(b).or_default()[1] += 1;
        }
        // A sum of integers, so that the share of a single category is exactly 1.
        let products: usize = category_counts.values().map(|[a, b]| a * b).sum();
        let (share, expected, ci95) =
            (agreements as f64 / count, products as f64 / (count * count), wilson_interval(agreements, things));
        let kappa_of = |share: f64| (share - expected) / (1.0 - expected);
        let has_both = |side: usize| category_counts.values().filter(|of| of[side] > 0).count() > 1;
        let is_defined = has_both(0) && has_both(1);
        // The least possible number of agreements, given how often each side uses each category.
        let fewest: usize = category_counts.values().map(|[a, b]| (a + b).saturating_sub(things)).sum();
        let lowest = kappa_of(fewest as f64 / count);
        Self {
            things,
            share: Some(share),
            share_ci95: Some(ci95),
            expected: Some(expected),
            kappa: is_defined.then(|| kappa_of(share)),
            kappa_ci95: is_defined.then(|| Interval(kappa_of(ci95.low()).max(lowest), kappa_of(ci95.high()))),
        }
    }
}

/// Number of random orders from which the agreement by chance is computed.
const SHUFFLES: usize = 1000;

/// Seed of the random orders: the year of the Hungarian method (Kuhn 1955).
const SHUFFLES_SEED: u64 = 1955;

/// Agreement by chance: share of things that both raters put into the same category, with one rater's categories shuffled.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ShareByChance {
    /// Mean share of things with the same category, over 1,000 random orders; 0 if there are no things.
    pub mean: f64,
    /// Share of things with the same category in the middle 95 % of the random orders, `[low, high]`.
    pub range95: Interval,
}

impl ShareByChance {
    /// Computes the agreement by chance from the two raters' categories of each thing. Each random order shuffles one
    /// rater's categories within groups of `size` consecutive things. Without things, the shares are 0.
    pub fn new<C: PartialEq>(pairs: &[(C, C)], size: usize) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(SHUFFLES_SEED);
        let mut order: Vec<usize> = (0..pairs.len()).collect();
        let share = |_| {
            order.chunks_mut(size).for_each(|group| group.shuffle(&mut random));
            let agreements = order.iter().zip(pairs).filter(|&(&other, (a, _))| *a == pairs[other].1).count();
            agreements as f64 / pairs.len().max(1) as f64
        };
        let mut shares: Vec<f64> = (0..SHUFFLES).map(share).collect();
        shares.sort_by(f64::total_cmp);
        let tail_count = SHUFFLES / 40;
        let range95 = Interval(shares[tail_count], shares[SHUFFLES - 1 - tail_count]);
        Self { mean: shares.iter().sum::<f64>() / SHUFFLES as f64, range95 }
    }
}

/// 95 % interval of the share `count / all` of independent things (Wilson 1927). Its width is above 0 even for the shares 0
/// and 1.
fn wilson_interval(count: usize, all: usize) -> Interval {
    let (share, all, z2) = (count as f64 / all as f64, all as f64, Z_975 * Z_975);
    let centre = share + z2 / (2.0 * all);
    let half = Z_975 * (share * (1.0 - share) / all + z2 / (4.0 * all * all)).sqrt();
    let [low, high] = [centre - half, centre + half].map(|end| end / (1.0 + z2 / all));
    // Except for rounding, the ends are 0 and 1 at the shares 0 and 1.
    Interval(low.max(0.0).min(share), high.min(1.0).max(share))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-9, "{found}, not {expected}");
    }

    /// Ten things, of which the two call 5 and 6 by one name: they agree on 4 + 3 of them, and would on
    /// .5 x .6 + .5 x .4 = .5 by chance.
    #[test]
    fn kappa_by_hand() {
        let pairs = [[('x', 'x'); 4].as_slice(), &[('x', 'y')], &[('y', 'x'); 2], &[('y', 'y'); 3]].concat();
        let found = CategoryAgreement::new(&pairs);
        assert_eq!(found.things, 10);
        close(found.share.unwrap(), 0.7);
        close(found.expected.unwrap(), 0.5);
        close(found.kappa.unwrap(), 0.4);
        // Wilson: (.7 + z^2/20 -+ z sqrt(.021 + z^2/400)) / (1 + z^2/10), z^2 = 3.841458820694124.
        let ci95 = found.share_ci95.unwrap();
        close(ci95.low(), 0.396_778_147_461_145_3);
        close(ci95.high(), 0.892_208_732_593_698_8);
        close(found.kappa_ci95.unwrap().low(), 2.0 * ci95.low() - 1.0);
        close(found.kappa_ci95.unwrap().high(), 2.0 * ci95.high() - 1.0);
    }

    #[test]
    fn agreement_without_disagreement_has_an_interval_and_one_category_no_kappa() {
        let all = CategoryAgreement::new(&[[('x', 'x'); 6], [('y', 'y'); 6]].concat());
        assert_eq!((all.share, all.kappa), (Some(1.0), Some(1.0)));
        // 12 of 12: 1 / (1 + z^2/12) = 0.7575.
        close(all.share_ci95.unwrap().low(), 1.0 / (1.0 + Z_975 * Z_975 / 12.0));
        assert_eq!(all.share_ci95.unwrap().high(), 1.0);
        let one = CategoryAgreement::new(&[('x', 'x'); 3]);
        assert_eq!((one.share, one.kappa, one.kappa_ci95), (Some(1.0), None, None));
        assert_eq!(CategoryAgreement::new::<char>(&[]).share, None);
        // Two single categories that differ: none agrees, and none would by chance.
        let other = CategoryAgreement::new(&[('x', 'y'); 3]);
        assert_eq!((other.share, other.expected, other.kappa), (Some(0.0), Some(0.0), None));
        // One side finds none: of three that the other calls x and one y three agree, as they would by chance.
        let none = CategoryAgreement::new(&[[('x', 'x'); 3].as_slice(), &[('x', 'y')]].concat());
        assert_eq!((none.share, none.expected, none.kappa, none.kappa_ci95), (Some(0.75), Some(0.75), None, None));
    }

    /// Ten things, of which both call the same one `y`: expected is .1 x .1 + .9 x .9 = .82. Of nine and nine at least eight are the
    /// same, so that kappa is at least (.8 - .82) / .18 = -1/9, while Wilson's interval begins at 1 / (1 + z^2/10) = .7225, for
    /// which it would be -.54.
    #[test]
    fn the_interval_of_kappa_ends_where_kappa_does() {
        let found = CategoryAgreement::new(&[[('x', 'x'); 9].as_slice(), &[('y', 'y')]].concat());
        let ci95 = found.kappa_ci95.unwrap();
        close(ci95.low(), -1.0 / 9.0);
        assert_eq!((found.kappa, ci95.high()), (Some(1.0), 1.0));
    }

    /// Two things, one `x` on both sides and one `y`: in half of the orders both agree, in the others neither does.
    #[test]
    fn a_share_by_chance_by_hand() {
        let found = ShareByChance::new(&[('x', 'x'), ('y', 'y')], 2);
        // The standard error over 1,000 orders is .016.
        assert!((found.mean - 0.5).abs() < 0.08, "{found:?}");
        assert_eq!(found.range95, Interval(0.0, 1.0));
        // Groups of one have one order.
        let found = ShareByChance::new(&[('x', 'x'), ('y', 'z')], 1);
        assert_eq!((found.mean, found.range95), (0.5, Interval(0.5, 0.5)));
    }

    proptest! {
        /// The names of categories and the order of the sides make no difference.
        #[test]
        fn sides_and_names_are_alike(pairs in prop::collection::vec((0..4_u8, 0..4_u8), 1..40)) {
            let found = CategoryAgreement::new(&pairs);
            let swapped: Vec<_> = pairs.iter().map(|(a, b)| (*b, *a)).collect();
            let renamed: Vec<_> = pairs.iter().map(|(a, b)| (9 - a, 9 - b)).collect();
            prop_assert_eq!(found, CategoryAgreement::new(&swapped));
            prop_assert_eq!(found, CategoryAgreement::new(&renamed));
            let ci95 = found.share_ci95.unwrap();
            prop_assert!((ci95.low()..=ci95.high()).contains(&found.share.unwrap()));
            prop_assert_eq!(found.kappa.is_some(), found.kappa_ci95.is_some());
            if let Some((kappa, of)) = found.kappa.zip(found.kappa_ci95) {
                // But for rounding.
                let ends = [-1.0, of.low(), kappa, of.high(), 1.0];
                prop_assert!(ends.windows(2).all(|pair| pair[0] <= pair[1] + 1e-12), "{ends:?}");
            }
        }
    }
}
