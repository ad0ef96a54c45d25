//! The section `edges` of the report: the shifts of all edges, the strongest of them, chains, and what an untrained model has.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sums::{EdgeEstimate, EdgeSums, Edges, LEAST_SHIFT, all_excesses, measured};
use crate::model::grid::HeadPlace;
use crate::passes::ablation::Replacement;
use crate::stats::interval::Interval;
use crate::study::labels::evidence::{LABEL_Q, MIN_QUERIES, MIN_SENTENCES};
use crate::study::section::stored;
use crate::study::{EstimationContext, Policy};
use crate::system::counted::counted;

const LISTED: usize = 20;

/// How far the attention of later heads shifts when an earlier head is removed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EdgesReport {
    /// The replacement of removed heads.
    pub removal: Option<Replacement>,
    /// Sentences with a token of text; none of a model of one layer.
    pub sentences: u64,
    /// Tokens of text: the rows of attention that were compared.
    pub tokens: u64,
    /// Pairs of a head, the source, and a head of a later layer, the target.
    pub pairs: u64,
    /// Those whose target's attention does not shift at all: they have no excess.
    pub without_shift: u64,
    /// Those that are above chance: a shift of at least 0.0001, and an excess above the percentile of `untrained` with a q of at
    /// most `settings.policy.label_q`, in a sample that is large enough.
    pub above: u64,
    /// The edges of an untrained model.
    pub untrained: Untrained,
    /// The shifts between each two layers.
    pub layers: Vec<LayerPair>,
    /// The edges of the largest excess, by the lower end of its interval, the largest first; at most twenty.
    pub strongest: Vec<Edge>,
    /// The strongest edges of each head, layer by layer.
    pub heads: Vec<HeadEdges>,
    /// Paths of edges that are above, each of them the strongest downstream edge of its source and the strongest upstream
    /// edge of its target; the longest first, then by their first heads.
    pub chains: Vec<Vec<HeadPlace>>,
}

/// The shifts of the heads of one layer by removing those of an earlier one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LayerPair {
    /// The layer of the sources, counted from 0.
    pub source: usize,
    /// The layer of the targets.
    pub target: usize,
    /// `[sources, targets]`: the mean over tokens of text of the squared Hellinger distance of the target's attention with
    /// the source and without.
    #[schemars(schema_with = "shares")]
    pub shift: Vec<Vec<f64>>,
    /// `[sources, targets]`: the same with everything between held, so that the source is missing in the residual stream alone;
    /// empty where it was not measured.
    #[schemars(schema_with = "shares")]
    #[serde(default)]
    pub direct: Vec<Vec<f64>>,
    /// `[sources, targets]`: `ln shift` less the mean of its row and of its column, plus the mean of all; null where the
    /// shift is 0.
    pub excess: Vec<Vec<Option<f64>>>,
    /// `[sources, targets]`: the q-value of the excess being above the percentile of the untrained model's; null where it is not,
    /// and where the shift is below 0.0001.
    #[schemars(schema_with = "shares_or_null")]
    pub q: Vec<Vec<Option<f64>>>,
}

fn shares(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let row = schemars::json_schema!({ "type": "array", "items": { "type": "number", "minimum": 0, "maximum": 1 } });
    schemars::json_schema!({ "type": "array", "items": row })
}

fn shares_or_null(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let share = schemars::json_schema!({ "type": ["number", "null"], "minimum": 0, "maximum": 1 });
    schemars::json_schema!({ "type": "array", "items": { "type": "array", "items": share } })
}

impl EdgesReport {
    pub fn new(sums: &EdgeSums, untrained: &EdgeSums, context: &EstimationContext) -> Self {
        let null = Untrained::new(all_excesses(untrained));
        let null_edges = measured(untrained, null.percentile, context);
        let found = measured(sums, null.percentile, context);
        let (edges, total) = (Edges(context.grid), sums.blocks.total());
        let mut layers = Vec::new();
        let mut ranked = Vec::new();
        for between in edges.layers().filter(|_| !found.is_empty()) {
            let found = &found[edges.between(between)];
            layers.push(LayerPair::new(between, found, context.grid.heads));
            let edge = |(place, measured): (usize, &EdgeEstimate)| Edge::new(edges.ends(between, place), measured);
            ranked.extend(found.iter().enumerate().filter_map(edge));
        }
        ranked.sort_by(|a: &Edge, b| b.surely().total_cmp(&a.surely()));
        let of_head = |place: usize| {
            let place = context.grid.place(place);
            let strongest = |end: fn(&Edge) -> HeadPlace| ranked.iter().find(|edge| end(edge) == place).copied();
            HeadEdges { place, upstream: strongest(|edge| edge.target), downstream: strongest(|edge| edge.source) }
        };
        Self {
            removal: sums.conditions.removal,
            sentences: total.sentences,
            tokens: total.rows,
            pairs: edges.count() as u64,
            without_shift: found.iter().filter(|measured| measured.excess.is_none()).count() as u64,
            above: 0,
            untrained: null.tested(&null_edges),
            layers,
            heads: (0..context.grid.count()).map(of_head).collect(),
            strongest: ranked.iter().take(LISTED).copied().collect(),
            chains: Vec::new(),
        }
    }

    pub fn judge(&mut self, policy: &Policy) {
        let enough = self.tokens >= policy.count(&MIN_QUERIES) && self.sentences >= policy.count(&MIN_SENTENCES);
        let significant = |q: Option<f64>| q.is_some_and(|q| policy.rule(&LABEL_Q).is_none_or(|most| q <= most));
        // A q is of an edge that has the shift, and whose excess is above the percentile.
        let above = |q: Option<f64>| enough && significant(q);
        let cells = self.layers.iter().flat_map(|pair| pair.q.iter().flatten());
        self.above = cells.filter(|q| above(**q)).count() as u64;
        self.untrained.above = self.untrained.q.iter().filter(|q| above(Some(**q))).count() as u64;
        let of_heads = self.heads.iter_mut().flat_map(|head| [&mut head.upstream, &mut head.downstream]).flatten();
        for edge in self.strongest.iter_mut().chain(of_heads) {
            edge.above = above(edge.q);
        }
        self.chains = chains(&self.heads);
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
    pub fn edges(&self) -> impl Iterator<Item = EdgeRow> {
        let head = |layer: usize, head: usize| HeadPlace { layer, head };
        let rows = self.shift.iter().zip(&self.excess).zip(&self.q).enumerate();
        rows.flat_map(move |(source, ((shift, excess), q))| {
            let cells = shift.iter().zip(excess).zip(q).enumerate();
            cells.map(move |(target, ((&shift, &excess), &q))| {
                let direct = self.direct.get(source).map(|row| row[target]);
                let ratio = direct.filter(|_| shift >= LEAST_SHIFT).map(|direct| direct / shift);
                let (source, target) = (head(self.source, source), head(self.target, target));
                EdgeRow { source, target, shift, direct, ratio, excess, q }
            })
        })
    }

    fn new((source, target): (usize, usize), found: &[EdgeEstimate], heads: usize) -> Self {
        Self {
            source,
            target,
            shift: rows(found, heads, |measured| measured.shift),
            direct: if found.iter().all(|measured| measured.direct.is_some()) {
                rows(found, heads, |measured| measured.direct.unwrap_or_default())
            } else {
                Vec::new()
            },
            excess: rows(found, heads, |measured| measured.excess),
            q: rows(found, heads, |measured| measured.q),
        }
    }

    pub fn is_whole(&self, heads: usize) -> bool {
        fn is_square<T>(rows: &[Vec<T>], heads: usize) -> bool {
            rows.len() == heads && rows.iter().all(|row| row.len() == heads)
        }
        (self.direct.is_empty() || is_square(&self.direct, heads))
            && is_square(&self.shift, heads)
            && is_square(&self.excess, heads)
            && is_square(&self.q, heads)
    }
}

/// One thing of each edge between two layers, `[sources, targets]`.
fn rows<T>(found: &[EdgeEstimate], heads: usize, of: fn(&EdgeEstimate) -> T) -> Vec<Vec<T>> {
    found.chunks_exact(heads).map(|row| row.iter().map(of).collect()).collect()
}

stored!(EdgesReport as edges);

/// The least ratio of an edge that is drawn as direct. A shift is a squared distance: of two displacements at right angles, one by
/// the residual stream and one through other blocks, the first is the larger one from a ratio of 1/2 on.
pub const MOSTLY_DIRECT: f64 = 0.5;

/// An edge: what removing one head does to the attention of a later one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Edge {
    /// The head that is removed.
    pub source: HeadPlace,
    /// The head whose attention shifts.
    pub target: HeadPlace,
    /// The shift.
    #[schemars(range(min = 0, max = 1))]
    pub shift: f64,
    /// Its 95 % interval.
    pub shift_ci95: Option<Interval>,
    /// The direct shift: with everything between held, so that only the residual stream lacks the source.
    #[schemars(range(min = 0, max = 1))]
    #[serde(default)]
    pub direct: Option<f64>,
    /// The direct shift over the shift: above 1 where other paths oppose it; null where the shift is below 0.0001.
    #[schemars(range(min = 0))]
    #[serde(default)]
    pub ratio: Option<f64>,
    /// Its 95 % interval.
    #[serde(default)]
    pub ratio_ci95: Option<Interval>,
    /// The excess.
    pub excess: f64,
    /// Its 95 % interval.
    pub excess_ci95: Option<Interval>,
    /// The one-sided p-value of the block test of the excess being above the percentile of the untrained model's; null where the
    /// shift is below 0.0001.
    #[schemars(range(min = 0, max = 1))]
    pub p: Option<f64>,
    /// Twice `p` corrected by Benjamini & Hochberg for all edges whose excess is above that percentile; null for others.
    #[schemars(range(min = 0, max = 1))]
    pub q: Option<f64>,
    /// Whether it is above chance: q is at most `settings.policy.label_q`, and the sample is large enough.
    pub above: bool,
}

/// The strongest edges of one head, by the lower end of the interval of their excess.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeadEdges {
    /// The head.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// The strongest edge to it; null in the first layer, and where nothing shifts it.
    pub upstream: Option<Edge>,
    /// The strongest edge from it; null in the last layer, and where it shifts nothing.
    pub downstream: Option<Edge>,
}

impl Edge {
    /// The lower end of the interval of the excess, which is certain: the excess would put edges of a few sentences first.
    pub fn surely(&self) -> f64 {
        self.excess_ci95.map_or(self.excess, Interval::low)
    }

    pub fn is_direct(&self) -> Option<bool> {
        self.ratio.map(|ratio| ratio >= MOSTLY_DIRECT)
    }

    pub fn new([source, target]: [HeadPlace; 2], measured: &EdgeEstimate) -> Option<Self> {
        let EdgeEstimate { shift, shift_ci95, direct, ratio, ratio_ci95, excess, excess_ci95, p, q } = *measured;
        let excess = excess?;
        Some(Self {
            source,
            target,
            shift,
            shift_ci95,
            direct,
            ratio,
            ratio_ci95,
            excess,
            excess_ci95,
            p,
            q,
            above: false,
        })
    }
}

/// The chains of edges that are above chance, each of them the strongest downstream edge of its source and the
/// strongest upstream edge of its target; no head is in two of them. The longest first, then by their first heads.
pub fn chains(heads: &[HeadEdges]) -> Vec<Vec<HeadPlace>> {
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
    let mut chains: Vec<Vec<HeadPlace>> = next.keys().filter(|head| !targets.contains(head)).map(from).collect();
    chains.sort_by_key(|chain| (usize::MAX - chain.len(), chain[0]));
    chains
}

pub const SEED: u64 = 0;

/// The share of the untrained model's edges that have a smaller excess than one that is called above.
const SHARE: f64 = 0.95;

/// The largest excess over a product that is told in percent; the exponential of a larger one may be infinite.
const MOST_PERCENT: f64 = 1000.0;

/// The edges of an untrained model of the same shape, over the same sample.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Untrained {
    /// The seed of its weights.
    pub seed: u64,
    /// Its edges with a shift.
    pub edges: u64,
    /// The 95th percentile of their excesses, interpolated (type 7 of Hyndman & Fan 1996): the margin of the excess of every
    /// edge. Null without any.
    pub percentile: Option<f64>,
    /// Those that are above by the rule for the edges of the model.
    pub above: u64,
    /// The q-values of its edges that were tested, the smallest first.
    #[schemars(inner(range(min = 0, max = 1)))]
    pub q: Vec<f64>,
}

impl Untrained {
    pub fn new(excesses: impl IntoIterator<Item = Option<f64>>) -> Self {
        let mut excesses: Vec<f64> = excesses.into_iter().flatten().collect();
        excesses.sort_by(f64::total_cmp);
        let percentile = (!excesses.is_empty()).then(|| percentile(&excesses));
        Self { seed: SEED, edges: excesses.len() as u64, percentile, ..Self::default() }
    }

    pub fn tested(self, found: &[EdgeEstimate]) -> Self {
        let mut q: Vec<f64> = found.iter().filter_map(|edge| edge.q).collect();
        q.sort_by(f64::total_cmp);
        Self { q, ..self }
    }

    pub fn meaning(&self) -> String {
        let (Some(percentile), Some(more)) = (self.percentile, self.above_product()) else {
            return "An untrained model of the same shape and sharpness has no shift, so there is nothing to compare with."
                .to_owned();
        };
        format!(
            "An edge is above chance if its shift is at least {LEAST_SHIFT} and the interval of its excess (in ln) is above \
             {percentile:+.2}, the 95th percentile of an untrained model of the same shape and sharpness ({} of its {} pass). \
             Such a shift is {more} the product of two averages: shifts by the earlier head in that layer, and shifts of the later head.",
            self.above,
            counted(self.edges, "edge")
        )
    }

    fn above_product(&self) -> Option<String> {
        self.percentile.map(|percentile| match 100.0 * percentile.exp_m1() {
            percent if percent <= MOST_PERCENT => format!("some {percent:.0} % more than"),
            _ => format!("more than {:.0} times", 1.0 + MOST_PERCENT / 100.0),
        })
    }
}

/// The percentile of ascending numbers, at least one, between two of them in proportion.
fn percentile(ascending: &[f64]) -> f64 {
    let place = SHARE * (ascending.len() - 1) as f64;
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
        assert!((percentile(&[1.0, 2.0, 4.0]) - 3.8).abs() < 1e-12);
        assert_eq!(percentile(&[7.0]), 7.0);
        let untrained = Untrained::new([Some(2.0_f64.ln()), None, Some(2.0_f64.ln())]);
        assert_eq!((untrained.edges, untrained.above_product().as_deref()), (2, Some("some 100 % more than")));
        // The exponential of such a number is infinite.
        let huge = Untrained::new([Some(1e30)]);
        assert_eq!(huge.above_product().as_deref(), Some("more than 11 times"));
        assert_eq!(Untrained::new([None]).percentile, None);
    }
}
