//! The sections `cluster_effect` and `cluster_drift` of the report.

use std::fmt::{self, Write};

use comfy_table::{CellAlignment, Table};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sets::{ClusterDrifts, ClusterLosses, Clusters, all_but};
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::model::parameters::Objective;
use crate::stats::block_test::Jackknife;
use crate::stats::blocks::PerBlock;
use crate::stats::interval::Interval;
use crate::studies::ablation::removal::{PerToken, Quantity, RemovalSums};
use crate::study::labels::policy::Policy;
use crate::study::metrics::estimates::EstimationContext;
use crate::study::section::{Section, stored};
use crate::study::show::summary::Summary;
use crate::study::show::wording::plain_table;
use crate::system::counted::counted;

/// An effect within this share of that of all heads is negligible, as for single heads.
const BAND: f64 = 0.01;

#[derive(Deserialize)]
pub struct EffectSection {
    pub cluster_effect: Effects,
}

#[derive(Deserialize)]
pub struct DriftSection {
    pub cluster_drift: Drifts,
}

/// What the model loses without clusters of heads that look alike, in nats a masked token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Effects {
    /// Sentences with a scored token, the first of each family alone.
    pub sentences: u64,
    /// The task that the losses are of; null where nothing was predicted.
    #[serde(default)]
    pub objective: Option<Objective>,
    /// Tokens that were scored: masked ones, or of a discriminator all of the text.
    pub masked_tokens: u64,
    /// The rise of the loss that is negligible: one per cent of the rise without all heads; null where nothing was removed.
    pub band: Option<f64>,
    /// The clusters, by their first heads.
    pub clusters: Vec<ClusterEffects>,
}

/// What is lost without one cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterEffects {
    /// The rises of the loss.
    #[serde(flatten)]
    pub removed: Removed,
    /// Whether its heads stand in for each other.
    pub verdict: Interplay,
    /// Whether the loss without all but one of them is inside the band: one of them will do.
    pub one_will_do: bool,
}

/// Whether the heads of a cluster stand in for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Interplay {
    /// More is lost without all of them than without each by itself, added up: the interval of the difference is above 0.
    StandIn,
    /// Less is lost: the interval is below 0.
    Share,
    /// Neither: the interval has 0.
    NotSeen,
}

impl Interplay {
    fn of(difference: &Change) -> Self {
        match difference.ci95 {
            Some(ci95) if ci95.low() > 0.0 => Self::StandIn,
            Some(ci95) if ci95.high() < 0.0 => Self::Share,
            _ => Self::NotSeen,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::StandIn => "stand in for each other",
            Self::Share => "less than their sum",
            Self::NotSeen => "no difference seen",
        }
    }
}

/// How far the output moves without clusters of heads that look alike, as 1 - cos.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Drifts {
    /// Sentences with a token of text, the first of each family alone.
    pub sentences: u64,
    /// Tokens of text.
    pub tokens: u64,
    /// The clusters, by their first heads.
    pub clusters: Vec<Removed>,
}

/// A change with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// The change.
    pub value: f64,
    /// Its 95 % interval.
    pub ci95: Option<Interval>,
}

/// What changes without a cluster, without its heads one by one, and without all but one of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Removed {
    /// The heads, layer by layer.
    pub heads: Vec<HeadPlace>,
    /// Without all of them.
    pub together: Change,
    /// Without each of them alone.
    pub alone: Vec<Change>,
    /// The sum of those.
    pub sum: Change,
    /// The first less that.
    pub difference: Change,
    /// Without all but each of them, which is kept.
    pub all_but: Vec<Change>,
    /// The mean of those: which one is kept is not chosen.
    pub all_but_one: Change,
}

/// The clusters of these sums.
fn removed(sums: &RemovalSums<Clusters, impl Quantity + PerToken>, context: &EstimationContext) -> Vec<Removed> {
    let counts = sums.per_block(|block| block.tokens() as f64);
    let without = |places: &[usize]| {
        let variant = sums.variant_without(places);
        sums.per_block(|block| block.change(variant))
    };
    let total = counts.iter().sum::<f64>();
    if total == 0.0 {
        return Vec::new();
    }
    let change = |blocks: &PerBlock| Change {
        value: blocks.iter().sum::<f64>() / total,
        ci95: Jackknife::new(blocks, &counts).interval(),
    };
    let each = |of: &dyn Fn(usize) -> f64| -> PerBlock { std::array::from_fn(of) };
    let cluster = |places: &Vec<usize>| {
        let together = without(places);
        let alone: Vec<PerBlock> = places.iter().map(|&place| without(&[place])).collect();
        let rests: Vec<PerBlock> = (0..places.len()).map(|kept| without(&all_but(places, kept))).collect();
        let sum = each(&|block| alone.iter().map(|blocks| blocks[block]).sum());
        let mean = each(&|block| rests.iter().map(|blocks| blocks[block]).sum::<f64>() / rests.len() as f64);
        Removed {
            heads: places.iter().map(|&place| context.grid.place(place)).collect(),
            together: change(&together),
            sum: change(&sum),
            difference: change(&each(&|block| together[block] - sum[block])),
            alone: alone.iter().map(change).collect(),
            all_but: rests.iter().map(change).collect(),
            all_but_one: change(&mean),
        }
    };
    sums.removals.0.iter().map(cluster).collect()
}

impl Effects {
    /// The section that these sums give.
    pub fn new(sums: &ClusterLosses, context: &EstimationContext) -> Self {
        let total = sums.blocks.total();
        let found = removed(sums, context);
        let all: Vec<usize> = (0..context.grid.count()).collect();
        let rise = |variant: usize| sums.per_block(|losses| losses.change(variant)).iter().sum::<f64>();
        let band = (!found.is_empty()).then(|| BAND * rise(sums.variant_without(&all)) / total.tokens as f64);
        let cluster = |removed: Removed| {
            let inside = |ci95: Interval| band.is_some_and(|band| ci95.low() >= -band && ci95.high() <= band);
            let one_will_do = removed.all_but_one.ci95.is_some_and(inside);
            ClusterEffects { verdict: Interplay::of(&removed.difference), one_will_do, removed }
        };
        Self {
            sentences: total.sentences,
            objective: sums.conditions.objective,
            masked_tokens: total.tokens,
            band,
            clusters: found.into_iter().map(cluster).collect(),
        }
    }
}

impl Drifts {
    /// The section that these sums give.
    pub fn new(sums: &ClusterDrifts, context: &EstimationContext) -> Self {
        let total = sums.blocks.total();
        Self { sentences: total.sentences, tokens: total.tokens, clusters: removed(sums, context) }
    }
}

/// The columns that may go where there is no room: the sum, and the effect together.
const MAY_GO: &[usize] = &[2, 1];

/// One row for each cluster; what stands in the last column is given.
fn table<'a>(clusters: impl Iterator<Item = (&'a Removed, String)>, places: usize) -> Table {
    let mut table = plain_table();
    table.set_header(["without", "together", "sum of each", "difference", "all but one", ""]);
    let cell = |Change { value, ci95 }: &Change| {
        let spread = ci95.map_or_else(String::new, |ci95| format!(" ±{:.places$}", ci95.half_width()));
        format!("{value:+.places$}{spread}")
    };
    for (Removed { heads, together, sum, difference, all_but_one, .. }, last) in clusters {
        let heads: Vec<String> = heads.iter().map(ToString::to_string).collect();
        table.add_row([heads.join(" "), cell(together), cell(sum), cell(difference), cell(all_but_one), last]);
    }
    table.column_iter_mut().skip(1).take(4).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table
}

fn effects(
    Effects { sentences, objective, masked_tokens, band, clusters }: &Effects,
    out: &mut Summary,
) -> fmt::Result {
    let Some(band) = band else {
        return writeln!(out, "No cluster of heads held under resampling, so none was removed as a whole.");
    };
    let tokens = objective.unwrap_or(Objective::MaskedTokens).tokens();
    writeln!(
        out,
        "Clusters of heads that look alike, removed as a whole, head by head, and all but one (mean over which one is kept): \
         the rise of the loss in nats, over {masked_tokens} {tokens} of {}; within ±{band:.4} it is \
         negligible.\n",
        counted(*sentences, "sentence")
    )?;
    let words = |cluster: &ClusterEffects| {
        let one = if cluster.one_will_do { "; one of them will do" } else { "" };
        format!("{}{one}", cluster.verdict.word())
    };
    out.table_without(table(clusters.iter().map(|cluster| (&cluster.removed, words(cluster))), 4), MAY_GO);
    Ok(())
}

fn drifts(Drifts { sentences, tokens, clusters }: &Drifts, out: &mut Summary) -> fmt::Result {
    if clusters.is_empty() {
        return writeln!(out, "No cluster of heads held under resampling, so none was removed as a whole.");
    }
    writeln!(
        out,
        "Clusters of heads that look alike, removed as a whole, head by head, and all but one (mean over which one is kept): \
         how far the last hidden states of {} of {} turn, as 1 - cosine.\n",
        counted(*tokens, "token"),
        counted(*sentences, "sentence")
    )?;
    out.table_without(table(clusters.iter().map(|cluster| (cluster, String::new())), 5), MAY_GO);
    Ok(())
}

fn defect<'a>(name: &str, mut clusters: impl Iterator<Item = &'a Removed>, grid: HeadGrid) -> Option<String> {
    let strange = |removed: &&Removed| {
        let Removed { heads, alone, all_but, .. } = removed;
        grid.stray(heads.iter().copied()).is_some() || [alone.len(), all_but.len()] != [heads.len(); 2]
    };
    clusters
        .find(strange)
        .map(|_| format!("a cluster of `{name}` is not one of heads of the model, each removed and kept"))
}

stored!(EffectSection { cluster_effect: Effects });

impl Section for EffectSection {
    fn summary(&self, _: &Policy) -> Summary {
        Summary::written(|out| effects(&self.cluster_effect, out))
    }

    fn defect(&self, grid: HeadGrid) -> Option<String> {
        defect("cluster_effect", self.cluster_effect.clusters.iter().map(|cluster| &cluster.removed), grid)
    }
}

stored!(DriftSection { cluster_drift: Drifts });

impl Section for DriftSection {
    fn summary(&self, _: &Policy) -> Summary {
        Summary::written(|out| drifts(&self.cluster_drift, out))
    }

    fn defect(&self, grid: HeadGrid) -> Option<String> {
        defect("cluster_drift", self.cluster_drift.clusters.iter(), grid)
    }
}
