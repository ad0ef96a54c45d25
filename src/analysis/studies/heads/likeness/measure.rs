//! Distances, similarity of outputs, clusters and comparisons from sums, with intervals over blocks of sentences.

use super::clusters::{HeadCluster, distance, median, resampled};
use super::pairs::HeadPairs;
use super::sums::{HeadSimilarity, LikenessSums};
use crate::stats::bootstrap::{Interval, PerBlock};
use crate::study::metrics::estimates::EstimationContext;

/// All pairs of heads, in the order of [`HeadPairs`].
pub struct MeasuredPairs {
    /// The Hellinger distance of their attention; none without a token of text.
    pub distances: Vec<f64>,
    /// The debiased linear CKA of what they write; `None` where one of the two has no variance, or there is no batch.
    pub cka: Vec<Option<f64>>,
    /// The median distance.
    pub median: Option<f64>,
    /// The clusters of heads that attend alike.
    pub groups: Vec<HeadCluster>,
}

/// Pairs with their blocks.
pub struct PairsByBlock<'a> {
    sums: &'a LikenessSums,
}

impl<'a> PairsByBlock<'a> {
    /// The blocks of these sums.
    pub fn new(sums: &'a LikenessSums) -> Self {
        Self { sums }
    }

    fn of(&self, part: impl Fn(&HeadSimilarity) -> f64) -> PerBlock {
        std::array::from_fn(|block| part(&self.sums.blocks[block]))
    }

    fn rows(&self) -> PerBlock {
        self.of(|block| block.rows as f64)
    }

    fn squares(&self, pair: usize) -> PerBlock {
        self.of(|block| block.distances.get(pair).map_or(0.0, |sum| sum.value()))
    }

    fn covariances(&self, a: usize, b: usize) -> PerBlock {
        let place = HeadPairs::index_with_self(a, b);
        self.of(|block| block.covariances.get(place).map_or(0.0, |sum| sum.value()))
    }

    /// The 95 % interval of the distance of two heads.
    pub fn distance_ci95(&self, [a, b]: [usize; 2], context: &EstimationContext) -> Option<Interval> {
        let squares = context.resamples.sums(&self.squares(HeadPairs::index(a, b)));
        let rows = context.resamples.sums(&self.rows());
        let enough = rows.blocks() > 1;
        let drawn = |draw: usize| (rows.at(draw) > 0.0).then(|| distance(squares.at(draw), rows.at(draw)));
        enough.then(|| context.resamples.interval(drawn)).flatten()
    }

    /// The 95 % interval of the CKA of two heads.
    pub fn cka_ci95(&self, [a, b]: [usize; 2], context: &EstimationContext) -> Option<Interval> {
        let [both, first, second] =
            [(a, b), (a, a), (b, b)].map(|(a, b)| context.resamples.sums(&self.covariances(a, b)));
        let enough = first.blocks() > 1 && second.blocks() > 1;
        let drawn = |draw: usize| cka(both.at(draw), first.at(draw), second.at(draw));
        enough.then(|| context.resamples.interval(drawn)).flatten()
    }
}

/// The CKA of two heads by their covariance and their variances; `None` unless both vary.
fn cka(covariance: f64, a: f64, b: f64) -> Option<f64> {
    (a > 0.0 && b > 0.0).then(|| covariance / (a * b).sqrt())
}

impl MeasuredPairs {
    /// The measures of these sums.
    pub fn new(sums: &LikenessSums, context: &EstimationContext) -> Self {
        let (total, heads) = (sums.blocks.total(), sums.grid.count());
        let pairs = HeadPairs(heads);
        if total.rows == 0 {
            return Self { distances: Vec::new(), cka: Vec::new(), median: None, groups: Vec::new() };
        }
        let distances: Vec<f64> =
            total.distances.iter().map(|square| distance(square.value(), total.rows as f64)).collect();
        let covariance = |a, b| total.covariances.get(HeadPairs::index_with_self(a, b)).map_or(0.0, |sum| sum.value());
        let cka = pairs.all().map(|[a, b]| cka(covariance(a, b), covariance(a, a), covariance(b, b))).collect();
        let by_block = PairsByBlock::new(sums);
        let squares: Vec<PerBlock> = (0..pairs.count()).map(|pair| by_block.squares(pair)).collect();
        let groups = resampled((&squares, &by_block.rows()), &distances, heads, (&context.resamples, context.threads));
        Self { median: median(&distances), distances, cka, groups }
    }
}
