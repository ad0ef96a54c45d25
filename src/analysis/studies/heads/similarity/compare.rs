//! Pairs of heads, and a permutation test within strata of whether pairs within one group are more alike than other pairs.

use std::ops::Range;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::grid::HeadGrid;

/// Number of random permutations. With the observed assignment, 10,000 assignments of heads to groups are compared.
const PERMUTATION_COUNT: usize = 9999;

/// The seed of the permutations: the year of the first permutation test (Fisher 1935).
const PERMUTATION_SEED: u64 = 1935;

/// Pairs of attention heads within one group, compared with the other pairs of their stratum.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Number of pairs of heads within one group.
    pub pairs: u64,
    /// Mean of the compared number (distance or CKA) over pairs within one group.
    pub same: f64,
    /// Mean of the compared number (distance or CKA) over the other pairs.
    pub others: f64,
    /// One-sided permutation p-value: the share of 10,000 assignments in which pairs within one group are at least as alike.
    /// Each assigns the heads of a stratum to groups of unchanged size; the real assignment is included.
    #[schemars(range(min = 0, max = 1))]
    pub p: f64,
}

/// Whether a pair of heads is similar if its value is small (a distance) or large (CKA).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimilarityDirection {
    Smaller,
    Larger,
}

/// Indices of heads that the permutations exchange with each other. Only pairs of heads within one stratum are
/// compared.
pub type Stratum = Vec<usize>;

/// One stratum for the heads of each layer.
pub fn layer_strata(grid: HeadGrid) -> Vec<Stratum> {
    (0..grid.layers).map(|layer| stratum_of_layers(grid, layer..layer + 1)).collect()
}

/// One stratum for the heads of each two neighbouring layers: 0 and 1, 2 and 3, and so on. A last layer without a
/// partner is left out.
pub fn neighbour_layer_strata(grid: HeadGrid) -> Vec<Stratum> {
    (1..grid.layers).step_by(2).map(|second| stratum_of_layers(grid, second - 1..second + 1)).collect()
}

fn stratum_of_layers(grid: HeadGrid, layers: Range<usize>) -> Stratum {
    (layers.start * grid.heads..layers.end * grid.heads).collect()
}

/// Permutation test of the pairs within one group against the other pairs of their stratum. `values` has a value
/// for each pair, in the order of [`HeadPairs`].
///
/// A head without a group forms no pair within a group. `None` if a pair has no value, if no pair is within a
/// group, or if all pairs are.
pub fn permutation_test(
    values: &[Option<f64>],
    groups: &[Option<usize>],
    strata: &[Stratum],
    alike: SimilarityDirection,
) -> Option<Comparison> {
    let values: Vec<f64> = values.iter().copied().collect::<Option<_>>()?;
    let value = |[a, b]: [usize; 2]| values[HeadPairs::pair_index(a, b)];
    let is_same = |[a, b]: &[usize; 2]| groups[*a].is_some() && groups[*a] == groups[*b];
    let pairs = |stratum: &Stratum| {
        let heads = |[a, b]: [usize; 2]| [stratum[a], stratum[b]];
        HeadPairs(stratum.len()).pairs().map(heads).collect::<Vec<_>>()
    };
    let all: Vec<[usize; 2]> = strata.iter().flat_map(pairs).collect();
    let same: Vec<[usize; 2]> = all.iter().copied().filter(is_same).collect();
    let (count, others) = (same.len(), all.len() - same.len());
    if count == 0 || others == 0 {
        return None;
    }
    // Permuting the heads under fixed pairs is equivalent to permuting the groups.
    let sum = |heads: &[usize]| same.iter().map(|&[a, b]| value([heads[a], heads[b]])).sum::<f64>();
    let own: Vec<usize> = (0..groups.len()).collect();
    let (found, total) = (sum(&own), all.iter().map(|&pair| value(pair)).sum::<f64>());
    // Tolerance for sums that differ only by the order of addition.
    let slack = 1e-12 * total.abs();
    let mut random = ChaCha8Rng::seed_from_u64(PERMUTATION_SEED);
    let mut dealt = strata.to_vec();
    let mut heads = own;
    let as_alike = (0..PERMUTATION_COUNT).filter(|_| {
        for (stratum, dealt) in strata.iter().zip(&mut dealt) {
            dealt.shuffle(&mut random);
            stratum.iter().zip(dealt).for_each(|(&place, head)| heads[place] = *head);
        }
        match alike {
            SimilarityDirection::Smaller => sum(&heads) <= found + slack,
            SimilarityDirection::Larger => sum(&heads) >= found - slack,
        }
    });
    let p = (1 + as_alike.count()) as f64 / (1 + PERMUTATION_COUNT) as f64;
    Some(Comparison { pairs: count as u64, same: found / count as f64, others: (total - found) / others as f64, p })
}

/// Order in which lists have all pairs of this number of heads: by the later head, then by the earlier.
#[derive(Clone, Copy, Debug)]
pub struct HeadPairs(pub usize);

impl HeadPairs {
    /// Number of pairs of two different heads.
    pub fn pair_count(self) -> usize {
        self.0 * self.0.saturating_sub(1) / 2
    }

    /// Number of pairs, pairs of a head with itself included.
    pub fn pair_count_with_self(self) -> usize {
        self.0 * (self.0 + 1) / 2
    }

    pub fn pairs(self) -> impl Iterator<Item = [usize; 2]> {
        (0..self.0).flat_map(|later| (0..later).map(move |earlier| [earlier, later]))
    }

    /// Index of a pair of different heads in lists of pairs.
    pub fn pair_index(a: usize, b: usize) -> usize {
        let (earlier, later) = (a.min(b), a.max(b));
        later * later.saturating_sub(1) / 2 + earlier
    }

    /// Index of a pair of heads in lists that include the pairs of a head with itself.
    pub fn pair_index_with_self(a: usize, b: usize) -> usize {
        let (earlier, later) = (a.min(b), a.max(b));
        later * (later + 1) / 2 + earlier
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three groups of four heads, dealt out over all of them.
    fn groups() -> Vec<Option<usize>> {
        (0..12).map(|head| Some(head / 4)).collect()
    }

    fn one_stratum() -> [Stratum; 1] {
        [(0..12).collect()]
    }

    #[test]
    fn groups_that_are_alike_are_told() {
        let (groups, strata) = (groups(), one_stratum());
        let near = |[a, b]: [usize; 2]| Some(if a / 4 == b / 4 { 0.1 } else { 0.5 + 0.001 * (a + b) as f64 });
        let values: Vec<_> = HeadPairs(12).pairs().map(near).collect();
        let found = permutation_test(&values, &groups, &strata, SimilarityDirection::Smaller).unwrap();
        assert_eq!((found.pairs, found.p), (18, 1e-4));
        assert!((found.same - 0.1).abs() < 1e-12 && found.others > 0.5);
        assert_eq!(permutation_test(&values, &groups, &strata, SimilarityDirection::Larger).unwrap().p, 1.0);
        // Equal values are equally alike however they are dealt out.
        assert_eq!(permutation_test(&[Some(0.3); 66], &groups, &strata, SimilarityDirection::Smaller).unwrap().p, 1.0);
        assert_eq!(permutation_test(&values, &[Some(0); 12], &strata, SimilarityDirection::Smaller), None);
        assert_eq!(permutation_test(&values, &[None; 12], &strata, SimilarityDirection::Smaller), None);
        assert_eq!(permutation_test(&[None; 66], &groups, &strata, SimilarityDirection::Smaller), None);
    }

    /// Two layers of three heads, of which the first of each is of one group: by hand.
    #[test]
    fn pairs_of_other_strata_do_not_count() {
        let grid = HeadGrid { layers: 2, heads: 3 };
        assert_eq!(layer_strata(grid), [[0, 1, 2], [3, 4, 5]]);
        assert_eq!(neighbour_layer_strata(grid), [[0, 1, 2, 3, 4, 5]]);
        assert_eq!(neighbour_layer_strata(HeadGrid { layers: 3, heads: 1 }), [[0, 1]]);
        // The first two heads of each layer are of one group, and nearest to each other.
        let group = |head: usize| Some(usize::from(head % 3 == 2));
        let groups: Vec<Option<usize>> = (0..6).map(group).collect();
        let value = |[a, b]: [usize; 2]| match (a / 3 == b / 3, group(a) == group(b)) {
            (true, true) => 0.2,
            (true, false) => 0.6,
            (false, _) => 0.9,
        };
        let values: Vec<_> = HeadPairs(6).pairs().map(|pair| Some(value(pair))).collect();
        let found = permutation_test(&values, &groups, &layer_strata(grid), SimilarityDirection::Smaller).unwrap();
        assert_eq!(found.pairs, 2);
        assert!((found.same - 0.2).abs() < 1e-12 && (found.others - 0.6).abs() < 1e-12);
        // In each layer one of three ways to deal out puts them together: one in nine.
        assert!((found.p - 1.0 / 9.0).abs() < 0.01, "{}", found.p);
        // Heads of one layer are 0.2, 0.6 and 0.6 apart, of two 0.9: of the 20 ways to deal out six heads to two layers two are
        // as good.
        let of_layer: Vec<Option<usize>> = (0..6).map(|head| Some(head / 3)).collect();
        let found =
            permutation_test(&values, &of_layer, &neighbour_layer_strata(grid), SimilarityDirection::Smaller).unwrap();
        assert!(found.pairs == 6 && (found.p - 0.1).abs() < 0.01, "{}", found.p);
    }

    #[test]
    fn chance_is_called_alike_one_time_in_twenty() {
        let groups = groups();
        let mut state = 1_u64;
        let mut noise = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f64
        };
        let alike = (0..200).filter(|_| {
            let values: Vec<_> = (0..66).map(|_| Some(noise())).collect();
            permutation_test(&values, &groups, &one_stratum(), SimilarityDirection::Smaller).unwrap().p <= 0.05
        });
        // 10 are expected, with a standard deviation of 3.1.
        assert!((1..=19).contains(&alike.count()));
    }

    /// Heads of one layer are alike, and heads of one label are in one layer: the label adds nothing.
    #[test]
    fn what_layers_have_in_common_is_not_the_label_s() {
        let grid = HeadGrid { layers: 4, heads: 6 };
        // Each layer has a label of its own, but for two heads of another one.
        let groups: Vec<Option<usize>> = (0..24).map(|head| Some(if head % 6 < 4 { head / 6 } else { 9 })).collect();
        let mut state = 3_u64;
        let mut noise = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            0.01 * (state >> 40) as f64 / f64::from(1 << 24)
        };
        let apart = |[a, b]: [usize; 2]| if a / 6 == b / 6 { 0.2 } else { 0.8 };
        let alike = (0..100).filter(|_| {
            let values: Vec<_> = HeadPairs(24).pairs().map(|pair| Some(apart(pair) + noise())).collect();
            permutation_test(&values, &groups, &layer_strata(grid), SimilarityDirection::Smaller).unwrap().p <= 0.05
        });
        // 5 are expected, with a standard deviation of 2.2.
        assert!(alike.count() <= 12);
    }

    #[test]
    fn every_pair_has_a_place() {
        let pairs = HeadPairs(5);
        let places: Vec<usize> = pairs.pairs().map(|[a, b]| HeadPairs::pair_index(b, a)).collect();
        assert_eq!(places, (0..pairs.pair_count()).collect::<Vec<_>>());
        let with_self = (0..5).flat_map(|later| (0..=later).map(move |earlier| (earlier, later)));
        let places: Vec<usize> = with_self.map(|(a, b)| HeadPairs::pair_index_with_self(a, b)).collect();
        assert_eq!(places, (0..pairs.pair_count_with_self()).collect::<Vec<_>>());
    }
}
