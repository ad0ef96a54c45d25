//! Distances, similarity of outputs, clusters and comparisons of heads from sums, with intervals over blocks of sentences.

use std::num::NonZeroUsize;

use itertools::Itertools;
use kodama::{Method, Step, linkage};

use super::compare::HeadPairs;
use super::sums::SimilarityTotals;
use crate::stats::block_test::Jackknife;
use crate::stats::blocks::{BLOCKS, Blocks, PerBlock};
use crate::stats::draws::bootstrap_block_counts;
use crate::stats::interval::Interval;
use crate::study::show::figure::TreeJoin;
use crate::system::parallel::parallel_map;

/// Sums over pairs of heads in each block, from which intervals are computed.
pub struct PairsByBlock<'a>(pub &'a Blocks<SimilarityTotals>);

impl PairsByBlock<'_> {
    /// Number of attention rows per block.
    fn attention_rows(&self) -> PerBlock {
        self.0.map_blocks(|block| block.rows as f64)
    }

    /// Summed squared distance of a pair of heads per block; `pair` is its index in [`HeadPairs`].
    fn squared_distances(&self, pair: usize) -> PerBlock {
        self.0.map_blocks(|block| block.distances.get(pair).map_or(0.0, |sum| sum.value()))
    }

    /// Whether both heads are nearer to each other than to uniform attention, by the 95 % intervals of the
    /// differences.
    pub fn are_nearer_than_uniform(&self, [a, b]: [usize; 2]) -> bool {
        let (square, rows) = (self.squared_distances(HeadPairs::pair_index(a, b)), self.attention_rows());
        [a, b].into_iter().all(|head| {
            let even = self.0.map_blocks(|block| block.from_even.get(head).map_or(0.0, |sum| sum.value()));
            let excess: PerBlock = std::array::from_fn(|block| square[block] - even[block]);
            Jackknife::new(&excess, &rows).interval().is_some_and(|ci95| ci95.high() < 0.0)
        })
    }

    /// Summed HSIC of two heads per block; `a` and `b` may be equal.
    fn summed_hsic(&self, a: usize, b: usize) -> PerBlock {
        let place = HeadPairs::pair_index_with_self(a, b);
        self.0.map_blocks(|block| block.covariances.get(place).map_or(0.0, |sum| sum.value()))
    }

    /// 95 % interval of the Hellinger distance of two heads.
    pub fn distance_ci95(&self, [a, b]: [usize; 2]) -> Option<Interval> {
        let (squares, rows) = (self.squared_distances(HeadPairs::pair_index(a, b)), self.attention_rows());
        let all = |blocks: &PerBlock| blocks.iter().sum::<f64>();
        let (whole, count) = (all(&squares), all(&rows));
        let without = |block: usize| {
            (rows[block] > 0.0).then(|| mean_hellinger_distance(whole - squares[block], count - rows[block]))
        };
        Jackknife::from_leave_one_out(mean_hellinger_distance(whole, count), (0..BLOCKS).map(without).collect(), &rows)
            .interval()
    }

    /// 95 % interval of the CKA of two heads' outputs; `None` if an output is constant.
    pub fn cka_ci95(&self, [a, b]: [usize; 2]) -> Option<Interval> {
        let by_block = [(a, b), (a, a), (b, b)].map(|(a, b)| self.summed_hsic(a, b));
        let all = by_block.map(|blocks| blocks.iter().sum::<f64>());
        let ratio = |[both, first, second]: [f64; 3]| cka(both, first, second);
        let present = |block: usize| by_block[1][block] != 0.0 && by_block[2][block] != 0.0;
        let without = |block: usize| {
            present(block).then(|| ratio(std::array::from_fn(|part| all[part] - by_block[part][block]))).flatten()
        };
        Jackknife::from_leave_one_out(ratio(all)?, (0..BLOCKS).map(without).collect(), &self.attention_rows())
            .interval()
    }

    /// Finds clusters of heads by `distances` over all blocks, as `(indices of the heads, ascending, stability)`.
    ///
    /// Stability is the share of non-empty resamples of the blocks in which all heads of the cluster are together. It
    /// is `None` without resamples.
    pub fn find_clusters(
        &self,
        distances: &[f64],
        heads: usize,
        threads: NonZeroUsize,
    ) -> Vec<(Vec<usize>, Option<f64>)> {
        let groups = clusters_of_heads(distances, heads);
        let squares: Vec<PerBlock> = (0..distances.len()).map(|pair| self.squared_distances(pair)).collect();
        let rows = self.attention_rows();
        let draws = if groups.is_empty() { 0 } else { RESAMPLE_COUNT };
        let resamples = parallel_map(threads, bootstrap_block_counts(draws), |counts| {
            let total = |blocks: &PerBlock| blocks.iter().zip(&counts).map(|(value, count)| value * count).sum::<f64>();
            let all = total(&rows);
            // A resample of empty blocks alone, possible with few sentences, has no distances.
            (all > 0.0).then(|| {
                let distances: Vec<f64> =
                    squares.iter().map(|squares| mean_hellinger_distance(total(squares), all)).collect();
                let of_head = cluster_of_head(&distances, heads);
                let together = |places: &Vec<usize>| places.iter().all(|&place| of_head[place] == of_head[places[0]]);
                groups.iter().map(together).collect::<Vec<_>>()
            })
        });
        let resamples: Vec<Vec<bool>> = resamples.into_iter().flatten().collect();
        let share = |number: usize| {
            let together = resamples.iter().filter(|together| together[number]).count();
            (!resamples.is_empty()).then(|| together as f64 / resamples.len() as f64)
        };
        groups.iter().cloned().enumerate().map(|(number, places)| (places, share(number))).collect()
    }
}

/// Debiased linear CKA of the outputs of two heads. The arguments are the summed HSIC of both heads (`covariance`)
/// and of each head with itself. `None` where a head's outputs have no variance, or without a batch.
pub fn cka(covariance: f64, a: f64, b: f64) -> Option<f64> {
    (a > 0.0 && b > 0.0).then(|| covariance / (a * b).sqrt())
}

/// Distance at which clusters are cut, as a share of the median distance over all pairs of heads.
pub const CUT_SHARE_OF_MEDIAN: f64 = 0.5;

/// Number of bootstrap resamples for the stability of clusters. With 200, a share of 80 % has a standard error of 3
/// points.
pub const RESAMPLE_COUNT: usize = 200;

/// Median; `None` without a distance.
pub fn median(distances: &[f64]) -> Option<f64> {
    let sorted = distances.iter().copied().sorted_by(f64::total_cmp).collect_vec();
    let half = sorted.len() / 2;
    let upper = sorted.get(half)?;
    Some(if sorted.len() % 2 == 1 { *upper } else { f64::midpoint(sorted[half - 1], *upper) })
}

/// Merges of the heads in average-linkage clustering by `distances`, in order of rising height.
pub fn tree_joins(distances: &[f64], heads: usize) -> Vec<TreeJoin> {
    // `kodama` expects the pairs row by row.
    let rows = (0..heads).flat_map(|row| (row + 1..heads).map(move |column| HeadPairs::pair_index(row, column)));
    let mut condensed: Vec<f64> = rows.map(|place| distances[place]).collect();
    let joined = linkage(&mut condensed, heads, Method::Average);
    let join = |step: &Step<f64>| TreeJoin { members: [step.cluster1, step.cluster2], height: step.dissimilarity };
    joined.steps().iter().map(join).collect()
}

/// Returns the cluster of each head, `[heads]`, as the index of the cluster's first head. Clusters come from average
/// linkage, cut at [`CUT_SHARE_OF_MEDIAN`] times the median distance.
pub fn cluster_of_head(distances: &[f64], heads: usize) -> Vec<usize> {
    let Some(median) = median(distances) else { return (0..heads).collect() };
    // `kodama` numbers joins after the heads.
    let mut clusters: Vec<Vec<usize>> = (0..heads).map(|head| vec![head]).collect();
    let mut of_head: Vec<usize> = (0..heads).collect();
    for TreeJoin { members: [first, second], height } in tree_joins(distances, heads) {
        let mut both = std::mem::take(&mut clusters[first]);
        both.append(&mut clusters[second]);
        if height <= CUT_SHARE_OF_MEDIAN * median {
            let first = *both.iter().min().expect("a cluster has heads");
            both.iter().for_each(|&head| of_head[head] = first);
        }
        clusters.push(both);
    }
    of_head
}

/// Clusters of at least two heads, each with its heads' indices.
pub fn clusters_of_heads(distances: &[f64], heads: usize) -> Vec<Vec<usize>> {
    let of_head = cluster_of_head(distances, heads);
    let members = |first: usize| -> Vec<usize> { (0..heads).filter(|&head| of_head[head] == first).collect() };
    (0..heads).map(members).filter(|members| members.len() > 1).collect()
}

/// Root of the mean squared Hellinger distance over `rows`, clipped to 0 and 1; `square` is the summed squared
/// distance.
pub fn mean_hellinger_distance(square: f64, rows: f64) -> f64 {
    (square / rows).clamp(0.0, 1.0).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_by_hand() {
        // Heads on a line at 0, 1, 10, 12, 30: of ten distances the median is 11.5, so what is joined is at most 5.75 apart.
        let at = [0.0, 1.0, 10.0, 12.0, 30.0_f64];
        let distances: Vec<f64> = HeadPairs(5).pairs().map(|[a, b]| (at[a] - at[b]).abs()).collect();
        assert_eq!(median(&distances), Some(11.5));
        assert_eq!(cluster_of_head(&distances, 5), [0, 0, 2, 2, 4]);
        assert_eq!(clusters_of_heads(&distances, 5), [vec![0, 1], vec![2, 3]]);
        assert_eq!((median(&[]), cluster_of_head(&[], 1)), (None, vec![0]));
    }

    #[test]
    fn all_alike_are_one_cluster() {
        assert_eq!(clusters_of_heads(&[0.0; 3], 3), [vec![0, 1, 2]]);
        assert_eq!(clusters_of_heads(&[0.5; 3], 3), [[0; 0]; 0]);
    }
}
