//! Distances, similarity of outputs, clusters and comparisons of heads from sums, with intervals over blocks of sentences.

use std::num::NonZeroUsize;

use kodama::{Method, Step, linkage};

use super::compare::HeadPairs;
use super::sums::{SimilaritySums, SimilarityTotals};
use crate::stats::block_test::Jackknife;
use crate::stats::blocks::{BLOCKS, Blocks, PerBlock};
use crate::stats::draws::block_counts;
use crate::stats::interval::Interval;
use crate::study::metrics::estimates::EstimationContext;
use crate::study::show::figure::TreeJoin;
use crate::system::parallel::in_parallel;

pub struct MeasuredPairs {
    /// Hellinger distance between the attention of each pair of heads; empty without a text token.
    pub distances: Vec<f64>,
    /// Debiased linear CKA between the outputs of each pair of heads; `None` where a head has no variance, or without a batch.
    pub cka: Vec<Option<f64>>,
    pub median: Option<f64>,
    pub groups: Vec<HeadCluster>,
}

pub struct PairsByBlock<'a>(pub &'a Blocks<SimilarityTotals>);

impl PairsByBlock<'_> {
    fn rows(&self) -> PerBlock {
        self.0.each(|block| block.rows as f64)
    }

    fn squares(&self, pair: usize) -> PerBlock {
        self.0.each(|block| block.distances.get(pair).map_or(0.0, |sum| sum.value()))
    }

    /// Whether the 95 % intervals show two heads to be nearer to each other than either is to uniform attention.
    pub fn are_nearer_than_even(&self, [a, b]: [usize; 2]) -> bool {
        let (square, rows) = (self.squares(HeadPairs::index(a, b)), self.rows());
        [a, b].into_iter().all(|head| {
            let even = self.0.each(|block| block.from_even.get(head).map_or(0.0, |sum| sum.value()));
            let excess: PerBlock = std::array::from_fn(|block| square[block] - even[block]);
            Jackknife::new(&excess, &rows).interval().is_some_and(|ci95| ci95.high() < 0.0)
        })
    }

    fn covariances(&self, a: usize, b: usize) -> PerBlock {
        let place = HeadPairs::index_with_self(a, b);
        self.0.each(|block| block.covariances.get(place).map_or(0.0, |sum| sum.value()))
    }

    pub fn distance_ci95(&self, [a, b]: [usize; 2]) -> Option<Interval> {
        let (squares, rows) = (self.squares(HeadPairs::index(a, b)), self.rows());
        let all = |of: &PerBlock| of.iter().sum::<f64>();
        let (whole, count) = (all(&squares), all(&rows));
        let without = |block: usize| (rows[block] > 0.0).then(|| distance(whole - squares[block], count - rows[block]));
        Jackknife::of(distance(whole, count), (0..BLOCKS).map(without).collect(), &rows).interval()
    }

    pub fn cka_ci95(&self, [a, b]: [usize; 2]) -> Option<Interval> {
        let by_block = [(a, b), (a, a), (b, b)].map(|(a, b)| self.covariances(a, b));
        let all = by_block.map(|blocks| blocks.iter().sum::<f64>());
        let of = |[both, first, second]: [f64; 3]| cka(both, first, second);
        let present = |block: usize| by_block[1][block] != 0.0 && by_block[2][block] != 0.0;
        let without = |block: usize| {
            present(block).then(|| of(std::array::from_fn(|part| all[part] - by_block[part][block]))).flatten()
        };
        Jackknife::of(of(all)?, (0..BLOCKS).map(without).collect(), &self.rows()).interval()
    }
}

fn cka(covariance: f64, a: f64, b: f64) -> Option<f64> {
    (a > 0.0 && b > 0.0).then(|| covariance / (a * b).sqrt())
}

impl MeasuredPairs {
    pub fn new(sums: &SimilaritySums, context: &EstimationContext) -> Self {
        let (total, heads) = (sums.blocks.total(), sums.grid.count());
        let pairs = HeadPairs(heads);
        if total.rows == 0 {
            return Self { distances: Vec::new(), cka: Vec::new(), median: None, groups: Vec::new() };
        }
        let distances: Vec<f64> = total.distances.iter().map(|sum| distance(sum.value(), total.rows as f64)).collect();
        let covariance = |a, b| total.covariances.get(HeadPairs::index_with_self(a, b)).map_or(0.0, |sum| sum.value());
        let cka = pairs.all().map(|[a, b]| cka(covariance(a, b), covariance(a, a), covariance(b, b))).collect();
        let by_block = PairsByBlock(&sums.blocks);
        let squares: Vec<PerBlock> = (0..pairs.count()).map(|pair| by_block.squares(pair)).collect();
        let groups = resampled((&squares, &by_block.rows()), &distances, heads, context.threads);
        Self { median: median(&distances), distances, cka, groups }
    }
}

/// Distance at which clusters are cut, as a share of the median distance of all pairs.
pub const CUT: f64 = 0.5;

/// Number of bootstrap resamples for the stability of clusters: a share of 80 % has a standard error of 3 points.
pub const DRAWS: usize = 200;

#[derive(Clone, Debug, PartialEq)]
pub struct HeadCluster {
    /// Indices of the cluster's heads, ascending.
    pub places: Vec<usize>,
    /// Share of the non-empty resamples in which all heads of the cluster are together; `None` without resamples.
    pub together: Option<f64>,
}

pub fn median(distances: &[f64]) -> Option<f64> {
    let mut sorted = distances.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    let upper = sorted.get(half)?;
    Some(if sorted.len() % 2 == 1 { *upper } else { f64::midpoint(sorted[half - 1], *upper) })
}

pub fn joins(distances: &[f64], heads: usize) -> Vec<TreeJoin> {
    // `kodama` expects the pairs row by row.
    let rows = (0..heads).flat_map(|row| (row + 1..heads).map(move |column| HeadPairs::index(row, column)));
    let mut condensed: Vec<f64> = rows.map(|place| distances[place]).collect();
    let joined = linkage(&mut condensed, heads, Method::Average);
    let join = |step: &Step<f64>| TreeJoin { of: [step.cluster1, step.cluster2], height: step.dissimilarity };
    joined.steps().iter().map(join).collect()
}

/// Assigns each head to a cluster, named by its first head: average linkage, cut at [`CUT`] times the median distance.
pub fn assignment(distances: &[f64], heads: usize) -> Vec<usize> {
    let Some(median) = median(distances) else { return (0..heads).collect() };
    // `kodama` numbers joins after the heads.
    let mut clusters: Vec<Vec<usize>> = (0..heads).map(|head| vec![head]).collect();
    let mut of_head: Vec<usize> = (0..heads).collect();
    for TreeJoin { of: [first, second], height } in joins(distances, heads) {
        let mut both = std::mem::take(&mut clusters[first]);
        both.append(&mut clusters[second]);
        if height <= CUT * median {
            let first = *both.iter().min().expect("a cluster has heads");
            both.iter().for_each(|&head| of_head[head] = first);
        }
        clusters.push(both);
    }
    of_head
}

pub fn groups(distances: &[f64], heads: usize) -> Vec<Vec<usize>> {
    let of_head = assignment(distances, heads);
    let members = |first: usize| -> Vec<usize> { (0..heads).filter(|&head| of_head[head] == first).collect() };
    (0..heads).map(members).filter(|members| members.len() > 1).collect()
}

/// Finds clusters of heads and their stability over resampled blocks. `squares` has the summed squared distances by pair and
/// block, `rows` the number of attention rows by block.
pub fn resampled(
    (squares, rows): (&[PerBlock], &PerBlock),
    distances: &[f64],
    heads: usize,
    threads: NonZeroUsize,
) -> Vec<HeadCluster> {
    let groups = groups(distances, heads);
    let draws = if groups.is_empty() { 0 } else { DRAWS };
    let found = in_parallel(threads, block_counts(draws), |counts| {
        let total = |of: &PerBlock| of.iter().zip(&counts).map(|(value, count)| value * count).sum::<f64>();
        let all = total(rows);
        // A resample of empty blocks alone, possible with few sentences, has no distances.
        (all > 0.0).then(|| {
            let distances: Vec<f64> = squares.iter().map(|squares| distance(total(squares), all)).collect();
            let of_head = assignment(&distances, heads);
            let together = |places: &Vec<usize>| places.iter().all(|&place| of_head[place] == of_head[places[0]]);
            groups.iter().map(together).collect::<Vec<_>>()
        })
    });
    let found: Vec<Vec<bool>> = found.into_iter().flatten().collect();
    let group = |(number, places): (usize, Vec<usize>)| {
        let together = found.iter().filter(|together| together[number]).count();
        HeadCluster { places, together: (!found.is_empty()).then(|| together as f64 / found.len() as f64) }
    };
    groups.into_iter().enumerate().map(group).collect()
}

pub fn distance(square: f64, rows: f64) -> f64 {
    (square / rows).clamp(0.0, 1.0).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_by_hand() {
        // Heads on a line at 0, 1, 10, 12, 30: of ten distances the median is 11.5, so what is joined is at most 5.75 apart.
        let at = [0.0, 1.0, 10.0, 12.0, 30.0_f64];
        let distances: Vec<f64> = HeadPairs(5).all().map(|[a, b]| (at[a] - at[b]).abs()).collect();
        assert_eq!(median(&distances), Some(11.5));
        assert_eq!(assignment(&distances, 5), [0, 0, 2, 2, 4]);
        assert_eq!(groups(&distances, 5), [vec![0, 1], vec![2, 3]]);
        assert_eq!((median(&[]), assignment(&[], 1)), (None, vec![0]));
    }

    #[test]
    fn all_alike_are_one_cluster() {
        assert_eq!(groups(&[0.0; 3], 3), [vec![0, 1, 2]]);
        assert_eq!(groups(&[0.5; 3], 3), [[0; 0]; 0]);
    }
}
