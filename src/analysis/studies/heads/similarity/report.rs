//! Data of the report section `similarity`: distances and similarity of all pairs of attention heads, clusters, comparisons.

use itertools::Itertools;
use nalgebra::{DMatrix, SymmetricEigen};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::compare::{
    Comparison, HeadPairs, SimilarityDirection, Stratum, layer_strata, neighbour_layer_strata, permutation_test,
};
use super::measure::{PairsByBlock, cka, mean_hellinger_distance, median};
use super::sums::{LayerAgreement, SimilaritySums};
use super::weights::Weighed;
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::stats::block_test::Jackknife;
use crate::stats::exact::ExactSum;
use crate::stats::interval::Interval;
use crate::stats::ranks::spearman;
use crate::study::EstimationContext;

/// Maximum number of closest pairs in the report.
const MAX_LISTED_PAIRS: usize = 10;

/// Minimum stability of a kept cluster: the share of resamples in which all its heads are in one cluster.
const MIN_STABILITY: f64 = 0.8;

/// Similarity of attention heads, by where they attend (distance) and by what they write (CKA).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Similarity {
    /// Number of sentences with a text token, counting one per sentence family (equal or grouped sentences).
    pub sentences: u64,
    /// Number of text tokens, whose rows of attention are compared.
    pub tokens: u64,
    /// Number of batches of tokens over which CKA is computed: sets of at least four text tokens, all from different sentences.
    pub batches: u64,
    /// Number of text tokens in the batches. Further sentences of a sentence family, and batches of fewer than four tokens, are
    /// left out.
    pub batched_tokens: u64,
    /// For each attention head, layer by layer, the Hellinger distance of its attention from that of each head before it.
    #[schemars(schema_with = "share_rows")]
    pub distance: Vec<Vec<f64>>,
    /// For each attention head, layer by layer, the debiased linear CKA of its output with the output of each head before it.
    /// Null where one of the two outputs is constant, or if there is no batch.
    pub cka: Vec<Vec<Option<f64>>>,
    /// For each attention head, layer by layer, its Hellinger distance from uniform attention; empty in reports of 0.1.
    #[serde(default)]
    pub from_even: Vec<f64>,
    /// Median distance of all pairs of heads; null without pairs.
    pub median_distance: Option<f64>,
    /// Spearman's rank correlation of distance and CKA over all pairs of heads: near -1 if heads that attend alike write alike.
    #[schemars(range(min = -1, max = 1))]
    pub distance_with_cka: Option<f64>,
    /// Pairs of heads with the smallest distances, the closest first; at most ten.
    pub closest: Vec<ClosePair>,
    /// Clusters of heads that attend alike: average linkage of the distances, cut at half of the median distance.
    pub clusters: Vec<Cluster>,
    /// Comparison of pairs of heads within one layer with pairs across two neighbouring layers: layers 0 and 1, 2 and 3, and so
    /// on.
    pub same_layer: Comparisons,
    /// Comparison, within each layer, of pairs of heads that share their first label with pairs that do not. Heads without a
    /// label share none.
    pub same_label: Comparisons,
    /// Comparison, within each layer, of pairs of heads that share keys and values with pairs that do not. Absent if each head
    /// has its own keys and values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Comparisons")]
    pub same_key_value_group: Option<Comparisons>,
    /// Mean distance and CKA of pairs of heads, by the difference of their layers, from 0 (one layer) on.
    pub apart: Vec<Apart>,
    /// Map of the heads as points of the plane; null for fewer than three heads, or if all distances are 0.
    pub map: Option<Map>,
    /// Disagreement of the heads of each layer (Li et al. 2018).
    pub disagreement: Vec<LayerDisagreement>,
    /// Spectra and composition of the weights; null without access to the weights, or if attention scores are not bilinear.
    pub weights: Option<Weighed>,
}

fn share_rows(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let row = schemars::json_schema!({ "type": "array", "items": { "type": "number", "minimum": 0, "maximum": 1 } });
    schemars::json_schema!({ "type": "array", "items": row })
}

/// Pair of attention heads with a small distance.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClosePair {
    /// The two attention heads, the earlier one first.
    pub heads: [HeadPlace; 2],
    /// Hellinger distance between the attention of the two heads.
    #[schemars(range(min = 0, max = 1))]
    pub distance: f64,
    /// 95 % interval of `distance`.
    pub distance_ci95: Option<Interval>,
    /// Debiased linear CKA of the two heads' outputs.
    pub cka: Option<f64>,
    /// 95 % interval of `cka`.
    pub cka_ci95: Option<Interval>,
}

/// Cluster of attention heads that attend alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cluster {
    /// Attention heads of the cluster, layer by layer.
    pub heads: Vec<HeadPlace>,
    /// First label of each head of the cluster.
    pub labels: Vec<String>,
    /// Largest distance between two heads of the cluster.
    #[schemars(range(min = 0, max = 1))]
    pub widest: f64,
    /// The mean CKA over pairs of heads of the cluster; null where a pair has none.
    pub mean_cka: Option<f64>,
    /// Share of 200 resamples of the blocks in which all heads of the cluster are together.
    #[schemars(range(min = 0, max = 1))]
    pub together: Option<f64>,
    /// Whether every two heads are nearer to each other than either is to uniform attention, by the 95 % interval.
    #[serde(default)]
    pub nearer_than_even: bool,
    /// Whether the cluster is kept: `together` is at least 0.8, and `nearer_than_even` holds. Other clusters may be chance, or
    /// heads with uniform attention.
    pub kept: bool,
}

/// Pairs of heads within one group compared with other pairs, by attention and by outputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparisons {
    /// Comparison by the distance of attention: the lower, the more alike. Null if no pair is within a group, or if all pairs
    /// are.
    pub distance: Option<Comparison>,
    /// Comparison by the CKA of outputs: the higher, the more alike. Null if `distance` is null, or if a pair has no CKA.
    pub cka: Option<Comparison>,
}

/// Mean similarity of all pairs of heads whose layers are a given number of layers apart.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Apart {
    /// Difference between the layers of the two heads; 0 for pairs within one layer.
    pub layers: usize,
    /// Number of pairs with this layer difference.
    pub pairs: u64,
    /// Mean Hellinger distance between the attention of the two heads.
    pub distance: f64,
    /// Mean CKA of the two heads' outputs; null where a pair has none.
    pub cka: Option<f64>,
}

/// Disagreement of a layer's heads: the negative mean similarity over all pairs, pairs of a head with itself included.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LayerDisagreement {
    /// Number of the layer, counted from 0.
    pub layer: usize,
    /// Disagreement in values, from -1 (all alike) to 0: the negative mean cosine of two heads' value vectors for a token.
    #[schemars(range(min = -1, max = 0))]
    pub subspace: f64,
    /// 95 % interval of `subspace`.
    pub subspace_ci95: Option<Interval>,
    /// Disagreement in attended positions, from -1 (all on one key) to 0: the negative mean inner product of two heads'
    /// attention rows.
    #[schemars(range(min = -1, max = 0))]
    pub position: f64,
    /// 95 % interval of `position`.
    pub position_ci95: Option<Interval>,
    /// Disagreement in contexts (weighted sums of values), from -1 (all alike) to 0: the negative mean cosine of two heads'
    /// contexts.
    #[schemars(range(min = -1, max = 0))]
    pub output: f64,
    /// 95 % interval of `output`.
    pub output_ci95: Option<Interval>,
}

/// Arranges a value for each pair of heads as rows: for each head, the values of its pairs with all heads before
/// it.
fn rows_of_pairs<T: Clone>(values: &[T], heads: usize) -> Vec<Vec<T>> {
    let row = |head: usize| values.get(HeadPairs::pair_index(0, head)..).and_then(|from| from.get(..head));
    if values.is_empty() { Vec::new() } else { (0..heads).map(|head| row(head).unwrap_or_default().to_vec()).collect() }
}

/// Mean of the values; `None` if a value is missing, or without values.
fn mean(mut values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let (sum, count) = values.try_fold((0.0, 0.0), |(sum, count), value| Some((sum + value?, count + 1.0)))?;
    (count > 0.0).then(|| sum / count)
}

impl Similarity {
    pub fn new(sums: &SimilaritySums, context: &EstimationContext) -> Self {
        let (total, grid) = (sums.blocks.total(), sums.grid);
        let heads = grid.head_count();
        // Without a token of text, no two heads can be compared.
        let pairs = HeadPairs(if total.rows == 0 { 0 } else { heads });
        let distances: Vec<f64> =
            total.distances.iter().map(|sum| mean_hellinger_distance(sum.value(), total.rows as f64)).collect();
        let covariance =
            |a, b| total.covariances.get(HeadPairs::pair_index_with_self(a, b)).map_or(0.0, |sum| sum.value());
        let pair_cka = |[a, b]: [usize; 2]| cka(covariance(a, b), covariance(a, a), covariance(b, b));
        let cka: Vec<Option<f64>> = pairs.pairs().map(pair_cka).collect();
        let by_block = PairsByBlock(&sums.blocks);
        let index = |[a, b]: [usize; 2]| HeadPairs::pair_index(a, b);
        let places = |pair: [usize; 2]| pair.map(|place| grid.head_place(place));
        let ranked = pairs.pairs().sorted_by(|&a, &b| distances[index(a)].total_cmp(&distances[index(b)]));
        let close = |pair: [usize; 2]| ClosePair {
            heads: places(pair),
            distance: distances[index(pair)],
            distance_ci95: by_block.distance_ci95(pair),
            cka: cka[index(pair)],
            cka_ci95: by_block.cka_ci95(pair),
        };
        let clusters =
            by_block.find_clusters(&distances, heads, context.threads).into_iter().map(|(members, together)| {
                let pairs = || HeadPairs(members.len()).pairs().map(|pair| pair.map(|at| members[at]));
                let within = || pairs().map(index);
                let nearer_than_even = pairs().all(|pair| by_block.are_nearer_than_uniform(pair));
                Cluster {
                    heads: members.iter().map(|&place| grid.head_place(place)).collect(),
                    labels: Vec::new(),
                    widest: within().map(|pair| distances[pair]).fold(0.0, f64::max),
                    mean_cka: mean(within().map(|pair| cka[pair])),
                    together,
                    nearer_than_even,
                    kept: nearer_than_even && together.is_some_and(|share| share >= MIN_STABILITY),
                }
            });
        let layers_apart = |layers: usize| {
            let there = || pairs.pairs().filter(move |[a, b]| b / grid.heads - a / grid.heads == layers).map(index);
            let pairs = there().count() as u64;
            let distance = mean(there().map(|pair| distances.get(pair).copied()))?;
            Some(Apart { layers, pairs, distance, cka: mean(there().map(|pair| cka[pair])) })
        };
        let all_cka: Option<Vec<f64>> = cka.iter().copied().collect();
        let of_layer: Vec<Option<usize>> = (0..heads).map(|place| Some(grid.layer_and_head(place).0)).collect();
        let similarity = Self {
            sentences: total.sentences,
            tokens: total.rows,
            batches: total.batches,
            batched_tokens: total.batched,
            from_even: total
                .from_even
                .iter()
                .map(|square| mean_hellinger_distance(square.value(), total.rows as f64))
                .collect(),
            median_distance: median(&distances),
            distance_with_cka: all_cka.and_then(|cka| spearman(&distances, &cka)),
            closest: ranked.take(MAX_LISTED_PAIRS).map(close).collect(),
            clusters: clusters.collect(),
            same_layer: comparisons(&distances, &cka, &of_layer, &neighbour_layer_strata(grid)),
            same_label: Comparisons::default(),
            same_key_value_group: None,
            apart: (0..grid.layers).filter_map(layers_apart).collect(),
            map: Map::new(&distances, pairs.0),
            disagreement: layer_disagreements(sums),
            weights: sums.weighed.clone(),
            distance: rows_of_pairs(&distances, heads),
            cka: rows_of_pairs(&cka, heads),
        };
        let same_key_value_group =
            context.query_heads_per_group.and_then(|shared| similarity.compare_key_value_groups(shared));
        Self { same_key_value_group, ..similarity }
    }

    /// Compares heads that share keys and values with other heads of their layer; `shared` consecutive heads share
    /// them. `None` if no token was seen.
    pub fn compare_key_value_groups(&self, shared: usize) -> Option<Comparisons> {
        let grid = self.grid()?;
        let groups: Vec<Option<usize>> = (0..grid.head_count()).map(|place| Some(place / shared)).collect();
        Some(comparisons(&self.distance.concat(), &self.cka.concat(), &groups, &layer_strata(grid)))
    }

    /// Indices of the heads of each kept cluster.
    pub fn kept_clusters(&self, grid: HeadGrid) -> Vec<Vec<usize>> {
        let places = |cluster: &Cluster| cluster.heads.iter().map(|head| grid.index(head.layer, head.head)).collect();
        self.clusters.iter().filter(|cluster| cluster.kept).map(places).collect()
    }
}

pub fn comparisons(distance: &[f64], cka: &[Option<f64>], groups: &[Option<usize>], strata: &[Stratum]) -> Comparisons {
    if distance.is_empty() {
        return Comparisons::default();
    }
    let distances: Vec<Option<f64>> = distance.iter().copied().map(Some).collect();
    Comparisons {
        distance: permutation_test(&distances, groups, strata, SimilarityDirection::Smaller),
        cka: permutation_test(cka, groups, strata, SimilarityDirection::Larger),
    }
}

/// Disagreement of each layer's heads: means over attention rows, with jackknife intervals. Empty without rows.
fn layer_disagreements(sums: &SimilaritySums) -> Vec<LayerDisagreement> {
    let blocks = &sums.blocks;
    let total = blocks.total();
    let rows = blocks.map_blocks(|block| block.rows as f64);
    let layer = |(layer, all): (usize, &LayerAgreement)| {
        let mean = |part: fn(&LayerAgreement) -> ExactSum| {
            let by_block =
                blocks.map_blocks(|block| block.disagreement.get(layer).map_or(0.0, |sums| -part(sums).value()));
            let ci95 = Jackknife::new(&by_block, &rows).interval();
            // Negative, since pairs of a head with itself count 1; clamped against rounding.
            ((-part(all).value() / total.rows as f64).clamp(-1.0, 0.0), ci95)
        };
        let (subspace, subspace_ci95) = mean(|sums| sums.subspace);
        let (position, position_ci95) = mean(|sums| sums.position);
        let (output, output_ci95) = mean(|sums| sums.output);
        LayerDisagreement { layer, subspace, subspace_ci95, position, position_ci95, output, output_ci95 }
    };
    total.disagreement.iter().enumerate().map(layer).collect()
}

/// Map of attention heads as points of the plane, by classical scaling (Torgerson 1952).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Map {
    /// Point of each head, `[x, y]`, layer by layer.
    pub points: Vec<[f64; 2]>,
    /// For the two axes, the share in the sum of the positive eigenvalues: how much of the distances the axis shows.
    pub shown: [f64; 2],
}

impl Map {
    /// Computes the map from `distances`, in the order of `HeadPairs`. `None` for fewer than three heads, or if all
    /// distances are 0.
    pub fn new(distances: &[f64], heads: usize) -> Option<Self> {
        if heads < 3 {
            return None;
        }
        let square = |a: usize, b: usize| if a == b { 0.0 } else { distances[HeadPairs::pair_index(a, b)].powi(2) };
        let squares = DMatrix::from_fn(heads, heads, square);
        let (means, mean) = (squares.row_mean(), squares.mean());
        let centred = DMatrix::from_fn(heads, heads, |a, b| (means[a] + means[b] - mean - squares[(a, b)]) / 2.0);
        let SymmetricEigen { eigenvectors, eigenvalues } = centred.symmetric_eigen();
        let order = (0..heads).sorted_by(|&a, &b| eigenvalues[b].total_cmp(&eigenvalues[a])).collect_vec();
        let positive: f64 = eigenvalues.iter().filter(|value| **value > 0.0).sum();
        if positive <= 0.0 {
            return None;
        }
        let axis = |rank: usize| {
            let value = eigenvalues[order[rank]].max(0.0);
            let vector = eigenvectors.column(order[rank]);
            // The sign of an axis is arbitrary: the point farthest from the middle is on the positive side.
            let farthest = vector.iter().fold(0.0_f64, |far, &at| if at.abs() > far.abs() { at } else { far });
            let scale = value.sqrt() * farthest.signum();
            (vector.iter().map(|at| at * scale).collect::<Vec<_>>(), value / positive)
        };
        let ((first, first_shown), (second, second_shown)) = (axis(0), axis(1));
        let points = first.into_iter().zip(second).map(|(x, y)| [x, y]).collect();
        Some(Self { points, shown: [first_shown, second_shown] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_of_a_plane_are_found_again() {
        let at = [[0.0, 0.0], [4.0, 0.0], [0.0, 1.0], [4.0, 1.0], [9.0, 0.5_f64]];
        let apart =
            |points: &[[f64; 2]], [a, b]: [usize; 2]| (points[a][0] - points[b][0]).hypot(points[a][1] - points[b][1]);
        let distances: Vec<f64> = HeadPairs(5).pairs().map(|pair| apart(&at, pair)).collect();
        let map = Map::new(&distances, 5).unwrap();
        for (pair, distance) in HeadPairs(5).pairs().zip(distances) {
            assert!((apart(&map.points, pair) - distance).abs() < 1e-9);
        }
        assert!(map.points[4][0] > 5.0 && (map.shown[0] + map.shown[1] - 1.0).abs() < 1e-9);
        assert_eq!((Map::new(&[0.0; 3], 3), Map::new(&[1.0], 2)), (None, None));
    }
}
