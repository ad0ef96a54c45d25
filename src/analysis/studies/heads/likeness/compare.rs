//! Whether heads of one group are more alike than others, by permutation.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pairs::HeadPairs;

/// The ways in which heads are dealt out to groups anew: with the real one ten thousand.
const PERMUTATIONS: usize = 9999;

/// The seed of the permutations: the year of the first of them (Fisher 1935).
const SEED: u64 = 1935;

/// A number of pairs of one group beside that of all others.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Pairs of one group.
    pub pairs: u64,
    /// The mean over pairs of one group.
    pub same: f64,
    /// The mean over the other pairs.
    pub others: f64,
    /// The share of 10,000 ways to deal out the heads to groups of these sizes, the real one among them, in which pairs of
    /// one group are at least as alike: one-sided.
    #[schemars(range(min = 0, max = 1))]
    pub p: f64,
}

/// The order of similarity: which of two numbers says that heads are more alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadSimilarity {
    /// The lower one: a distance.
    Low,
    /// The higher one: a likeness.
    High,
}

/// Holds pairs of heads of one group against the others; `values` are in the order of [`HeadPairs`], heads without a group have
/// none in common. `None` where there are no pairs of the one or of the other kind, or a pair has no value.
pub fn compare(values: &[Option<f64>], groups: &[Option<usize>], alike: HeadSimilarity) -> Option<Comparison> {
    let values: Vec<f64> = values.iter().copied().collect::<Option<_>>()?;
    let pairs = HeadPairs(groups.len());
    let is_same = |groups: &[Option<usize>], [a, b]: [usize; 2]| groups[a].is_some() && groups[a] == groups[b];
    let same: Vec<[usize; 2]> = pairs.all().filter(|&pair| is_same(groups, pair)).collect();
    let (count, others) = (same.len(), values.len() - same.len());
    if count == 0 || others == 0 {
        return None;
    }
    // Dealing out heads to groups is dealing out the places of groups to heads.
    let sum = |heads: &[usize]| same.iter().map(|&[a, b]| values[HeadPairs::index(heads[a], heads[b])]).sum::<f64>();
    let mut heads: Vec<usize> = (0..groups.len()).collect();
    let (found, total) = (sum(&heads), values.iter().sum::<f64>());
    // Numbers that differ only by the order of addition are equal.
    let slack = 1e-12 * total.abs();
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    let as_alike = (0..PERMUTATIONS).filter(|_| {
        heads.shuffle(&mut random);
        match alike {
            HeadSimilarity::Low => sum(&heads) <= found + slack,
            HeadSimilarity::High => sum(&heads) >= found - slack,
        }
    });
    let p = (1 + as_alike.count()) as f64 / (1 + PERMUTATIONS) as f64;
    Some(Comparison { pairs: count as u64, same: found / count as f64, others: (total - found) / others as f64, p })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_that_are_alike_are_told() {
        let groups: Vec<Option<usize>> = (0..12).map(|head| Some(head / 4)).collect();
        let near = |[a, b]: [usize; 2]| Some(if a / 4 == b / 4 { 0.1 } else { 0.5 + 0.001 * (a + b) as f64 });
        let values: Vec<_> = HeadPairs(12).all().map(near).collect();
        let found = compare(&values, &groups, HeadSimilarity::Low).unwrap();
        assert_eq!((found.pairs, found.p), (18, 1e-4));
        assert!((found.same - 0.1).abs() < 1e-12 && found.others > 0.5);
        assert_eq!(compare(&values, &groups, HeadSimilarity::High).unwrap().p, 1.0);
        // Equal values are equally alike however they are dealt out.
        assert_eq!(compare(&[Some(0.3); 66], &groups, HeadSimilarity::Low).unwrap().p, 1.0);
        assert_eq!(compare(&values, &[Some(0); 12], HeadSimilarity::Low), None);
        assert_eq!(compare(&values, &[None; 12], HeadSimilarity::Low), None);
        assert_eq!(compare(&[None; 66], &groups, HeadSimilarity::Low), None);
    }

    #[test]
    fn chance_is_called_alike_one_time_in_twenty() {
        let groups: Vec<Option<usize>> = (0..12).map(|head| Some(head / 4)).collect();
        let mut state = 1_u64;
        let mut noise = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f64
        };
        let alike = (0..200).filter(|_| {
            let values: Vec<_> = (0..66).map(|_| Some(noise())).collect();
            compare(&values, &groups, HeadSimilarity::Low).unwrap().p <= 0.05
        });
        // 10 are expected, with a standard deviation of 3.1.
        assert!((1..=19).contains(&alike.count()));
    }
}
