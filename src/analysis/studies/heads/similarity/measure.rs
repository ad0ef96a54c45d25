//! Distances, similarity of outputs, clusters and comparisons from sums, with intervals over blocks of sentences.

use super::clusters::{HeadCluster, distance, median, resampled};
use super::pairs::HeadPairs;
use super::sums::{SimilaritySums, SimilarityTotals};
use crate::stats::block_test::Jackknife;
use crate::stats::blocks::{BLOCKS, Blocks, PerBlock};
use crate::stats::interval::Interval;
use crate::study::metrics::estimates::EstimationContext;

pub struct MeasuredPairs {
    /// The Hellinger distance of their attention; none without a token of text.
    pub distances: Vec<f64>,
    /// The debiased linear CKA of what they write; `None` where one of the two has no variance, or there is no batch.
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

    /// Whether two heads are shown, by the 95 % interval, to be nearer to each other than either is to even attention.
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

/// The CKA of two heads by their covariance and their variances; `None` unless both vary.
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
        let distances: Vec<f64> =
            total.distances.iter().map(|square| distance(square.value(), total.rows as f64)).collect();
        let covariance = |a, b| total.covariances.get(HeadPairs::index_with_self(a, b)).map_or(0.0, |sum| sum.value());
        let cka = pairs.all().map(|[a, b]| cka(covariance(a, b), covariance(a, a), covariance(b, b))).collect();
        let by_block = PairsByBlock(&sums.blocks);
        let squares: Vec<PerBlock> = (0..pairs.count()).map(|pair| by_block.squares(pair)).collect();
        let groups = resampled((&squares, &by_block.rows()), &distances, heads, context.threads);
        Self { median: median(&distances), distances, cka, groups }
    }
}
