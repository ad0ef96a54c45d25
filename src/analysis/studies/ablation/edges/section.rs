//! Report section `edges`: shifts of all edges, strongest edges, chains of edges, and edges of an untrained model.

use std::collections::BTreeMap;

use itertools::Itertools;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sums::{Edge, EdgeEstimate, EdgeIndex, EdgeSums, MIN_TESTED_SHIFT, estimate_edges, excess_log_shifts};
use crate::model::grid::HeadPlace;
use crate::passes::ablation::Replacement;
use crate::study::EstimationContext;
use crate::study::section::stored;
use crate::system::counts::format_count;

/// Maximum number of edges in the report's list of strongest edges.
const MAX_LISTED_EDGES: usize = 20;

/// How far the attention of later heads shifts when an earlier head is removed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EdgesReport {
    /// Replacement for removed heads.
    pub removal: Option<Replacement>,
    /// Number of sentences with a text token; 0 for a model of one layer.
    pub sentences: u64,
    /// Number of text tokens, whose attention rows are compared.
    pub tokens: u64,
    /// Number of edges: pairs of a head (source) and a head of a later layer (target).
    pub pairs: u64,
    /// Number of edges whose target's attention does not shift at all; such edges have no excess.
    pub without_shift: u64,
    /// Number of edges above chance: the shift is at least 0.0001, and the excess is significantly above `untrained.percentile`
    /// (`q` at most `settings.policy.label_q`). It is 0 if the sample is too small.
    pub above: u64,
    /// Edges of an untrained model, which set the chance level.
    pub untrained: Untrained,
    /// Shifts between the heads of each two layers.
    pub layers: Vec<LayerPair>,
    /// Edges whose shift most exceeds the product of both heads' average shifts, at most 20. They are sorted by the lower end
    /// of the interval of `excess`, the largest first.
    pub strongest: Vec<Edge>,
    /// Strongest edges of each head, layer by layer.
    pub heads: Vec<HeadEdges>,
    /// Paths of edges above chance. Each edge is its source's strongest downstream edge and its target's strongest upstream edge.
    /// Longest first, then by first head.
    pub chains: Vec<Vec<HeadPlace>>,
}

/// Shifts of the heads of one layer when heads of an earlier layer are removed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LayerPair {
    /// Layer of the removed heads (sources), from 0.
    pub source: usize,
    /// Layer of the heads whose attention shifts (targets), from 0.
    pub target: usize,
    /// `[sources, targets]`: squared Hellinger distance of the target's attention with and without the source, mean over tokens.
    #[schemars(schema_with = "share_rows")]
    pub shift: Vec<Vec<f64>>,
    /// `[sources, targets]`: shift through the residual stream alone. All other heads and feed-forward blocks keep their
    /// baseline outputs. Empty if not measured.
    #[schemars(schema_with = "share_rows")]
    #[serde(default)]
    pub direct: Vec<Vec<f64>>,
    /// `[sources, targets]`: `ln shift` minus its row mean and its column mean, plus the overall mean; null if the shift is 0.
    pub excess: Vec<Vec<Option<f64>>>,
    /// `[sources, targets]`: q-value that `excess` is above `untrained.percentile`. Null for an excess at or below it, or a
    /// shift below 0.0001.
    #[schemars(schema_with = "share_or_null_rows")]
    pub q: Vec<Vec<Option<f64>>>,
}

fn share_rows(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let row = schemars::json_schema!({ "type": "array", "items": { "type": "number", "minimum": 0, "maximum": 1 } });
    schemars::json_schema!({ "type": "array", "items": row })
}

fn share_or_null_rows(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let share = schemars::json_schema!({ "type": ["number", "null"], "minimum": 0, "maximum": 1 });
    schemars::json_schema!({ "type": "array", "items": { "type": "array", "items": share } })
}

impl EdgesReport {
    pub fn new(sums: &EdgeSums, untrained: &EdgeSums, context: &EstimationContext) -> Self {
        let null = Untrained::new(excess_log_shifts(untrained));
        let null_edges = estimate_edges(untrained, null.percentile, context);
        let null_q = null_edges.iter().filter_map(EdgeEstimate::q).sorted_by(f64::total_cmp).collect();
        let found = estimate_edges(sums, null.percentile, context);
        let (edges, total) = (EdgeIndex(context.grid), sums.blocks.total());
        let pairs = edges.layer_pairs().filter(|_| !found.is_empty());
        let layers =
            pairs.map(|pair| LayerPair::new(pair, &found[edges.range_between(pair)], context.grid.heads)).collect();
        let ranked = found.iter().filter_map(|estimate| estimate.edge);
        let ranked = ranked.sorted_by(|a, b| b.excess_lower_bound().total_cmp(&a.excess_lower_bound())).collect_vec();
        let of_head = |place: usize| {
            let place = context.grid.head_place(place);
            let strongest = |end: fn(&Edge) -> HeadPlace| ranked.iter().find(|edge| end(edge) == place).copied();
            HeadEdges { place, upstream: strongest(|edge| edge.target), downstream: strongest(|edge| edge.source) }
        };
        Self {
            removal: sums.conditions.removal,
            sentences: total.sentences,
            tokens: total.rows,
            pairs: edges.count() as u64,
            without_shift: found.iter().filter(|estimate| estimate.edge.is_none()).count() as u64,
            above: 0,
            untrained: Untrained { q: null_q, ..null },
            layers,
            heads: (0..context.grid.head_count()).map(of_head).collect(),
            strongest: ranked.iter().take(MAX_LISTED_EDGES).copied().collect(),
            chains: Vec::new(),
        }
    }
}

#[derive(Serialize)]
pub struct EdgeRow {
    source: HeadPlace,
    target: HeadPlace,
    shift: f64,
    direct: Option<f64>,
    ratio: Option<f64>,
    excess: Option<f64>,
    q: Option<f64>,
}

impl LayerPair {
    pub fn edge_rows(&self) -> impl Iterator<Item = EdgeRow> {
        let head = |layer: usize, head: usize| HeadPlace { layer, head };
        let rows = self.shift.iter().zip(&self.excess).zip(&self.q).enumerate();
        rows.flat_map(move |(source, ((shift, excess), q))| {
            let cells = shift.iter().zip(excess).zip(q).enumerate();
            cells.map(move |(target, ((&shift, &excess), &q))| {
                let direct = self.direct.get(source).map(|row| row[target]);
                let ratio = direct.filter(|_| shift >= MIN_TESTED_SHIFT).map(|direct| direct / shift);
                let (source, target) = (head(self.source, source), head(self.target, target));
                EdgeRow { source, target, shift, direct, ratio, excess, q }
            })
        })
    }

    fn new((source, target): (usize, usize), found: &[EdgeEstimate], heads: usize) -> Self {
        Self {
            source,
            target,
            shift: arrange_by_source(found, heads, |estimate| estimate.shift),
            direct: if found.iter().all(|estimate| estimate.direct.is_some()) {
                arrange_by_source(found, heads, |estimate| estimate.direct.unwrap_or_default())
            } else {
                Vec::new()
            },
            excess: arrange_by_source(found, heads, |estimate| estimate.edge.map(|edge| edge.excess)),
            q: arrange_by_source(found, heads, EdgeEstimate::q),
        }
    }

    pub fn has_all_heads(&self, heads: usize) -> bool {
        fn is_square<T>(rows: &[Vec<T>], heads: usize) -> bool {
            rows.len() == heads && rows.iter().all(|row| row.len() == heads)
        }
        (self.direct.is_empty() || is_square(&self.direct, heads))
            && is_square(&self.shift, heads)
            && is_square(&self.excess, heads)
            && is_square(&self.q, heads)
    }
}

/// Arranges one value per edge between two layers as `[sources, targets]`; `heads` is the number of heads per
/// layer.
fn arrange_by_source<T>(estimates: &[EdgeEstimate], heads: usize, value: fn(&EdgeEstimate) -> T) -> Vec<Vec<T>> {
    estimates.chunks_exact(heads).map(|row| row.iter().map(value).collect()).collect()
}

stored!(EdgesReport as edges);

/// Strongest edges to and from one head, by the lower end of the interval of their excess.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeadEdges {
    /// Head that the edges belong to.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// Strongest edge to the head; null in the first layer, or if no removal shifts the head's attention.
    pub upstream: Option<Edge>,
    /// Strongest edge from the head; null in the last layer, or if removing the head shifts no attention.
    pub downstream: Option<Edge>,
}

/// Finds chains of edges above chance, the longest first, then by first head; no head is in two chains. Each edge
/// is its source's strongest downstream edge and its target's strongest upstream edge.
pub fn find_chains(heads: &[HeadEdges]) -> Vec<Vec<HeadPlace>> {
    let upstream: BTreeMap<HeadPlace, HeadPlace> =
        heads.iter().filter_map(|head| Some((head.place, head.upstream?.source))).collect();
    let downstream = heads.iter().filter_map(|head| head.downstream.filter(|edge| edge.above));
    let mutual = downstream.filter(|edge| upstream.get(&edge.target) == Some(&edge.source));
    let next: BTreeMap<HeadPlace, HeadPlace> = mutual.map(|edge| (edge.source, edge.target)).collect();
    let targets: Vec<&HeadPlace> = next.values().collect();
    let from = |&first: &HeadPlace| -> Vec<HeadPlace> {
        // A saved report may be invalid, so only edges to later layers are followed.
        let later = |place: &HeadPlace| next.get(place).copied().filter(|target| target.layer > place.layer);
        std::iter::successors(Some(first), later).collect()
    };
    let chains = next.keys().filter(|head| !targets.contains(head)).map(from);
    chains.sorted_by_key(|chain| (usize::MAX - chain.len(), chain[0])).collect()
}

pub const UNTRAINED_SEED: u64 = 0;

/// Rank of the percentile that sets the chance level. An edge above chance has a larger excess than this share of
/// an untrained model's edges.
const PERCENTILE_RANK: f64 = 0.95;

/// Maximum percentage that the summary prints for a shift's excess over chance. Above it, where `exp` may be infinite,
/// the summary says "more than 11 times".
const MAX_PERCENT: f64 = 1000.0;

/// Edges of an untrained model of the same shape, over the same sample.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Untrained {
    /// Seed of the untrained model's weights.
    pub seed: u64,
    /// Number of the untrained model's edges with a shift above 0.
    pub edges: u64,
    /// 95th percentile of the untrained model's `excess`, interpolated (type 7 of Hyndman & Fan 1996). Edges above chance
    /// significantly exceed it. Null if no edge has a shift.
    pub percentile: Option<f64>,
    /// Number of the untrained model's edges above chance, by the rule for the trained model.
    pub above: u64,
    /// q-values of the untrained model's tested edges, ascending.
    #[schemars(inner(range(min = 0, max = 1)))]
    pub q: Vec<f64>,
}

impl Untrained {
    pub fn new(excesses: impl IntoIterator<Item = Option<f64>>) -> Self {
        let excesses = excesses.into_iter().flatten().sorted_by(f64::total_cmp).collect_vec();
        let percentile = (!excesses.is_empty()).then(|| percentile_95(&excesses));
        Self { seed: UNTRAINED_SEED, edges: excesses.len() as u64, percentile, ..Self::default() }
    }

    pub fn chance_text(&self) -> String {
        let (Some(percentile), Some(more)) = (self.percentile, self.excess_text()) else {
            return "An untrained model of the same shape and sharpness has no shift, so there is nothing to compare with."
                .to_owned();
        };
        format!(
            "An edge is above chance if its shift is at least {MIN_TESTED_SHIFT} and the interval of its excess (in ln) is above \
             {percentile:+.2}, the 95th percentile of an untrained model of the same shape and sharpness ({} of its {} pass). \
             Such a shift is {more} the product of two averages: shifts by the earlier head in that layer, and shifts of the later head.",
            self.above,
            format_count(self.edges, "edge")
        )
    }

    /// Phrase that compares a shift at the bound for chance with the product of the two average shifts: `some 30 % more than`.
    /// `None` if the untrained model has no shift.
    fn excess_text(&self) -> Option<String> {
        self.percentile.map(|percentile| match 100.0 * percentile.exp_m1() {
            percent if percent <= MAX_PERCENT => format!("some {percent:.0} % more than"),
            _ => format!("more than {:.0} times", 1.0 + MAX_PERCENT / 100.0),
        })
    }
}

/// 95th percentile of ascending numbers, interpolated linearly between neighbours. Panics if there is no number.
fn percentile_95(ascending: &[f64]) -> f64 {
    let place = PERCENTILE_RANK * (ascending.len() - 1) as f64;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in the list")]
    let below = place as usize;
    let next = ascending[(below + 1).min(ascending.len() - 1)];
    ascending[below] + (place - place.floor()) * (next - ascending[below])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_by_hand() {
        // numpy.percentile([1, 2, 4], 95) is 3.8; of one number it is that.
        assert!((percentile_95(&[1.0, 2.0, 4.0]) - 3.8).abs() < 1e-12);
        assert_eq!(percentile_95(&[7.0]), 7.0);
        let untrained = Untrained::new([Some(2.0_f64.ln()), None, Some(2.0_f64.ln())]);
        assert_eq!((untrained.edges, untrained.excess_text().as_deref()), (2, Some("some 100 % more than")));
        // The exponential of such a number is infinite.
        let huge = Untrained::new([Some(1e30)]);
        assert_eq!(huge.excess_text().as_deref(), Some("more than 11 times"));
        assert_eq!(Untrained::new([None]).percentile, None);
    }
}
