//! The section `direct` of the report: the parts of the difference of logits of answer and foil.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sums::{DirectSums, ItemEffects, LogitPart};
use crate::model::grid::HeadPlace;
use crate::stats::block_test::Jackknife;
use crate::stats::blocks::PerBlock;
use crate::stats::interval::Interval;
use crate::study::metrics::estimates::{Estimates, EstimationContext};
use crate::study::section::stored;

pub struct DirectSection {
    pub direct: DirectResult,
}

/// The parts of the difference of logits of answer and foil, as means over items; they sum up to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DirectResult {
    /// Items.
    pub items: u64,
    /// Families or documents that they are of; each item is one where the file names none.
    pub units: u64,
    /// Items of the file that cannot be scored (`settings.task.skipped` has the reasons).
    pub items_skipped: u64,
    /// The difference of logits, as the model has them.
    pub score: PartEffect,
    /// The sum of all parts: the difference of logits before they are bounded, where they are.
    pub sum: PartEffect,
    /// Direct effect of the embeddings.
    pub embeddings: PartEffect,
    /// Direct effect of the biases of the final norm and of the prediction head.
    pub constants: PartEffect,
    /// The parts of each layer.
    pub layers: Vec<LayerEffects>,
    /// Each head, layer by layer; the effect is the head's metric `direct_effect`.
    pub heads: Vec<HeadDirectEffect>,
}

/// A mean over items.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PartEffect {
    /// The mean, in nats; null without items.
    pub effect: Option<f64>,
    /// Its 95 % interval.
    pub ci95: Option<Interval>,
}

/// The parts of a layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LayerEffects {
    pub layer: usize,
    /// All of its heads.
    pub heads: PartEffect,
    /// Its feed-forward block.
    pub feed_forward: PartEffect,
    /// The biases of both blocks.
    pub biases: PartEffect,
}

/// A head.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeadDirectEffect {
    /// The head.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// Its effect.
    #[serde(flatten)]
    pub effect: PartEffect,
}

impl DirectResult {
    /// The section that these sums give; `estimates` are the metrics of the same.
    pub fn new(sums: &DirectSums, items_skipped: u64, estimates: &Estimates, context: &EstimationContext) -> Self {
        let (grid, total) = (sums.grid, sums.blocks.total());
        let mean = |part: &dyn Fn(&ItemEffects) -> f64| {
            let per_block = |part: &dyn Fn(&ItemEffects) -> f64| -> PerBlock {
                std::array::from_fn(|block| part(&sums.blocks[block]))
            };
            let found = Jackknife::new(&per_block(part), &per_block(&|items| items.items as f64));
            PartEffect { effect: Some(found.all()).filter(|mean| mean.is_finite()), ci95: found.interval() }
        };
        let of = |part: LogitPart| mean(&|items| items.of(part, grid));
        let layer = |layer: usize| LayerEffects {
            layer,
            heads: mean(&|items| {
                (0..grid.heads).map(|head| items.of(LogitPart::Head(grid.index(layer, head)), grid)).sum()
            }),
            feed_forward: of(LogitPart::FeedForward(layer)),
            biases: of(LogitPart::Biases(layer)),
        };
        let head = |place: usize| {
            let effect = estimates.heads[place].get("direct_effect", None).copied().flatten();
            let ci95 = estimates.ci95[place].get("direct_effect", None).copied().flatten();
            HeadDirectEffect { place: context.grid.place(place), effect: PartEffect { effect, ci95 } }
        };
        Self {
            items: total.items,
            units: total.units,
            items_skipped,
            score: mean(&|items| items.score.value()),
            sum: mean(&ItemEffects::sum),
            embeddings: of(LogitPart::Embeddings),
            constants: of(LogitPart::Constants),
            layers: (0..grid.layers).map(layer).collect(),
            heads: (0..grid.count()).map(head).collect(),
        }
    }

    /// The heads by falling size of their effects.
    pub fn ranked(&self) -> Vec<&HeadDirectEffect> {
        let mut order: Vec<_> = self.heads.iter().filter(|head| head.effect.effect.is_some()).collect();
        let size = |head: &HeadDirectEffect| head.effect.effect.map_or(0.0, f64::abs);
        order.sort_by(|a, b| size(b).total_cmp(&size(a)));
        order
    }

    /// The effects of all heads, of all feed-forward blocks and of all biases of layers.
    pub fn of_kinds(&self) -> [f64; 3] {
        let kinds: [fn(&LayerEffects) -> PartEffect; 3] =
            [|layer| layer.heads, |layer| layer.feed_forward, |layer| layer.biases];
        kinds.map(|kind| self.layers.iter().filter_map(|layer| kind(layer).effect).sum())
    }
}

stored!(DirectSection { direct: DirectResult });
