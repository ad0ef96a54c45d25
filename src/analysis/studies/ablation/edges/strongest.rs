//! The strongest edges, and chains of them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::measure::EdgeEstimate;
use crate::model::grid::HeadPlace;
use crate::stats::interval::Interval;

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
    /// The rank of edges: the lower end of the interval of the excess, which is the excess that is certain. The excess
    /// itself would put edges first whose shift comes from a few sentences.
    pub fn surely(&self) -> f64 {
        self.excess_ci95.map_or(self.excess, Interval::low)
    }

    /// Whether most of its shift is there with everything between held; `None` where the ratio is not known.
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

/// The longest paths of edges that are above chance, each of them the strongest downstream edge of its source and the strongest
/// upstream edge of its target: no head is in two chains. The longest first, then by their first heads.
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
