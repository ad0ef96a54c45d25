//! Report section `direct`: parts of the logit difference between answer and foil that heads and other blocks write.

use std::fmt::{self, Write};

use itertools::Itertools;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sums::{DirectSums, ItemEffects};
use crate::model::forward::visitor::ResidualPart;
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::stats::block_test::Jackknife;
use crate::stats::interval::Interval;
use crate::study::metrics::estimates::{Estimates, EstimationContext};
use crate::study::section::{HeadCard, Section, View, ViewContext, stored};
use crate::study::show::wording::{aligned_table, plus_minus, signed_decimal};
use crate::study::show::{Chart, Figure, Forest, ForestRow, InBrief, Mark, Summary, TableRows};
use crate::system::counts::format_count;

/// Maximum number of heads in the table of the summary.
const MAX_TABLE_HEADS: usize = 10;

/// Logit difference between answer and foil, as a sum of direct effects of heads and other parts; means over items.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DirectResult {
    /// Number of items scored, over which effects are averaged.
    pub items: u64,
    /// Number of sampling units: items with the same `family` or document are one unit, and an item that names none is its own.
    pub units: u64,
    /// Number of items in the file that cannot be scored (`settings.task.skipped` has the reasons).
    pub items_skipped: u64,
    /// Logit difference between answer and foil, as the model outputs it.
    pub score: PartEffect,
    /// Sum of all direct effects: the logit difference, before any bound on the logits.
    pub sum: PartEffect,
    /// Direct effect of the input embeddings on the logit difference.
    pub embeddings: PartEffect,
    /// Direct effect of the biases of the final norm and of the prediction head.
    pub constants: PartEffect,
    /// Direct effects of attention heads, feed-forward block and biases, layer by layer.
    pub layers: Vec<LayerEffects>,
    /// Direct effect of each head, layer by layer; the value is the head's metric `direct_effect`.
    pub heads: Vec<HeadDirectEffect>,
}

/// Mean effect over items, with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PartEffect {
    /// Mean effect, in nats; null if there are no items.
    pub effect: Option<f64>,
    /// 95 % interval of `effect`; null where fewer than 10 blocks have an item, or their numbers of items are very unequal.
    pub ci95: Option<Interval>,
}

/// Direct effects of the parts of one layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LayerEffects {
    pub layer: usize,
    /// Direct effect of all attention heads of the layer together.
    pub heads: PartEffect,
    /// Direct effect of the layer's feed-forward block.
    pub feed_forward: PartEffect,
    /// Direct effect of the biases of attention and feed-forward block.
    pub biases: PartEffect,
}

/// Direct effect of one head on the logit difference between answer and foil.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeadDirectEffect {
    /// Head whose output has the effect.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// Direct effect of the head on the logit difference.
    #[serde(flatten)]
    pub effect: PartEffect,
}

impl DirectResult {
    /// Builds the section from sums over items (`sums`) and the heads' metrics (`estimates`).
    pub fn new(sums: &DirectSums, items_skipped: u64, estimates: &Estimates, context: &EstimationContext) -> Self {
        let (grid, total) = (sums.grid, sums.blocks.total());
        let mean = |part: &dyn Fn(&ItemEffects) -> f64| {
            let items = sums.blocks.map_blocks(|items| items.items as f64);
            let mean = Jackknife::new(&sums.blocks.map_blocks(part), &items);
            PartEffect { effect: Some(mean.value()).filter(|mean| mean.is_finite()), ci95: mean.interval() }
        };
        let effect_of = |part: ResidualPart| mean(&|items| items.effect_of(part, grid));
        let layer = |layer: usize| LayerEffects {
            layer,
            heads: mean(&|items| (0..grid.heads).map(|head| items.effect_of_head(grid.index(layer, head))).sum()),
            feed_forward: effect_of(ResidualPart::FeedForward { layer }),
            biases: effect_of(ResidualPart::Biases { layer }),
        };
        let head = |place: usize| {
            let (effect, ci95, _) = estimates.metric_estimate(place, "direct_effect");
            HeadDirectEffect { place: context.grid.head_place(place), effect: PartEffect { effect, ci95 } }
        };
        Self {
            items: total.items,
            units: total.units,
            items_skipped,
            score: mean(&|items| items.score.value()),
            sum: mean(&ItemEffects::sum_of_effects),
            embeddings: effect_of(ResidualPart::Embeddings),
            constants: mean(&ItemEffects::effect_of_output_biases),
            layers: (0..grid.layers).map(layer).collect(),
            heads: (0..grid.head_count()).map(head).collect(),
        }
    }

    /// Lists the heads by falling absolute direct effect.
    pub fn heads_by_abs_effect(&self) -> Vec<&HeadDirectEffect> {
        let size = |head: &HeadDirectEffect| head.effect.effect.map_or(0.0, f64::abs);
        let known = self.heads.iter().filter(|head| head.effect.effect.is_some());
        known.sorted_by(|a, b| size(b).total_cmp(&size(a))).collect()
    }

    /// Sums direct effects over layers: `[all heads, all feed-forward blocks, all biases]`.
    pub fn effects_by_kind(&self) -> [f64; 3] {
        let kinds: [fn(&LayerEffects) -> PartEffect; 3] =
            [|layer| layer.heads, |layer| layer.feed_forward, |layer| layer.biases];
        kinds.map(|kind| self.layers.iter().filter_map(|layer| kind(layer).effect).sum())
    }

    /// A sentence on the head with the largest direct effect; `None` if the effect is not significantly different
    /// from 0.
    fn largest_effect_sentence(&self) -> Option<String> {
        let ranked = self.heads_by_abs_effect();
        let &HeadDirectEffect { place, effect } = *ranked.first()?;
        let is_above = effect.ci95?.low() > 0.0;
        if !is_above && effect.ci95?.high() >= 0.0 {
            return None;
        }
        Some(format!(
            "The logit of the answer is {} nats above the foil's; of {} {place} adds most to it directly, {effect} for the {}.",
            self.sum,
            format_count(ranked.len(), "head"),
            if is_above { "answer" } else { "foil" },
        ))
    }

    fn write_summary(&self, out: &mut Summary) -> fmt::Result {
        let [heads, feed_forward, biases] = self.effects_by_kind().map(|effect| signed_decimal(effect, 3));
        // Models that bound their logits answer with less.
        let is_bounded = self.sum.to_string() != self.score.to_string();
        let bounded = if is_bounded { format!(" before the bound, {} after it", self.score) } else { String::new() };
        writeln!(
            out,
            "Logit of the answer less the foil's, mean of {} of {}: {} nats{bounded}. Its parts: all heads {heads}, feed-forward blocks \
             {feed_forward}, embeddings {}, biases of layers {biases}, of the final norm and the prediction head {}.",
            format_count(self.items, "item"),
            format_count(self.units, "unit"),
            self.sum,
            self.embeddings,
            self.constants,
        )?;
        writeln!(out, "The heads that add most, to the answer (+) or the foil (-), ± half of the 95 % interval:\n")?;
        let row = |head: &HeadDirectEffect| [head.place.to_string(), head.effect.to_string()];
        let rows = self.heads_by_abs_effect().into_iter().take(MAX_TABLE_HEADS).map(row);
        out.add_table(aligned_table(["head", "direct effect"], rows, 1..));
        Ok(())
    }

    fn figure(&self) -> Option<Figure> {
        let row = |head: &HeadDirectEffect| ForestRow {
            name: head.place.to_string(),
            note: String::new(),
            marks: vec![Mark::from_value(head.effect.effect, head.effect.ci95)],
        };
        let rows: Vec<ForestRow> = self.heads_by_abs_effect().into_iter().map(row).collect();
        let is_drawn = !rows.is_empty();
        let (forest, left_out) =
            Forest::heads_with_zero_line("direct effect, in nats", &["direct effect"], rows, "effects");
        is_drawn.then(|| Figure {
            name: "direct",
            title: "What each head adds by itself to the answer".to_owned(),
            reading: format!(
                "The logit of the answer less the foil's is {} nats. Each row is the part that a head adds to it on the direct path, \
                 with its 95 % interval.{left_out}",
                self.sum
            ),
            chart: Chart::Forest(forest),
        })
    }
}

stored!(DirectResult as direct);

impl Section for DirectResult {
    fn view(&self, _: ViewContext<'_>) -> View<'_> {
        let DirectResult { heads, layers, .. } = self;
        let parts = layers.iter().flat_map(LayerEffects::rows);
        View {
            in_brief: InBrief { finding: self.largest_effect_sentence(), ..InBrief::default() },
            lacks_subject: self.items == 0,
            summary: Summary::from_writer(|out| self.write_summary(out)),
            figures: self.figure().into_iter().collect(),
            tables: vec![TableRows::new("direct_effects", heads), TableRows::new("direct_effects_by_layer", parts)],
            ..View::default()
        }
    }

    fn head_card(&self, place: HeadPlace, _: ViewContext<'_>) -> HeadCard {
        let head = self.heads.iter().find(|head| head.place == place);
        let effect = head.map(|head| head.effect.to_string()).filter(|_| self.items > 0);
        HeadCard::from_iter(effect.map(|effect| {
            format!("by itself it adds {effect} nats to the answer's logit less the foil's, of {}", self.sum)
        }))
    }

    fn defect(&self, grid: HeadGrid) -> Option<String> {
        let DirectResult { heads, layers, .. } = self;
        let is_whole = grid.equals_all_heads(heads.iter().map(|head| head.place))
            && layers.iter().map(|layer| layer.layer).eq(0..grid.layers);
        (!is_whole).then(|| "`direct` does not have each head and each layer of the model once, in order".to_owned())
    }
}

/// Row of the table `direct_effects_by_layer`: direct effect of one part of a layer.
#[derive(Serialize)]
struct LayerRow {
    layer: usize,
    part: &'static str,
    #[serde(flatten)]
    effect: PartEffect,
}

impl LayerEffects {
    fn rows(&self) -> impl Iterator<Item = LayerRow> {
        let &Self { layer, heads, feed_forward, biases } = self;
        let parts = [("heads", heads), ("feed_forward", feed_forward), ("biases", biases)];
        parts.into_iter().map(move |(part, effect)| LayerRow { layer, part, effect })
    }
}

/// Formats the effect with half of its 95 % interval: `+1.234 ±0.056`.
impl fmt::Display for PartEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(effect) = self.effect else { return f.write_str("-") };
        write!(f, "{}{}", signed_decimal(effect, 3), plus_minus(self.ci95, 3))
    }
}
