//! The section `edges` of the report: the shifts of all edges, the strongest of them, and chains.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::measure::{EdgeEstimate, LEAST_SHIFT, all_excesses, measured};
use super::pairs::Edges;
use super::strongest::{Edge, HeadEdges, chains};
use super::sums::EdgeSums;
use super::untrained::Untrained;
use crate::model::grid::HeadPlace;
use crate::passes::ablation::Replacement;
use crate::sequences::reading::Context;
use crate::study::labels::evidence::{LABEL_Q, MIN_QUERIES, MIN_SENTENCES};
use crate::study::labels::policy::Policy;
use crate::study::metrics::estimates::EstimationContext;
use crate::study::section::stored;

const LISTED: usize = 20;

pub struct EdgesSection {
    pub edges: EdgesReport,
}

/// How far the attention of later heads shifts when an earlier head is removed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EdgesReport {
    /// The replacement of removed heads.
    pub removal: Option<Replacement>,
    /// Sentences with a token of text; none of a model of one layer.
    pub sentences: u64,
    /// The unit counted as a sentence: a window where a decoder read documents.
    #[serde(skip)]
    pub read: Context,
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
    /// The first label of each head, once they are known, for the summary.
    #[serde(skip)]
    pub labels: BTreeMap<HeadPlace, String>,
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
            read: Context::default(),
            tokens: total.rows,
            pairs: edges.count() as u64,
            without_shift: found.iter().filter(|measured| measured.excess.is_none()).count() as u64,
            above: 0,
            untrained: null.tested(&null_edges),
            layers,
            heads: (0..context.grid.count()).map(of_head).collect(),
            strongest: ranked.iter().take(LISTED).copied().collect(),
            chains: Vec::new(),
            labels: BTreeMap::new(),
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

stored!(EdgesSection { edges: EdgesReport });
