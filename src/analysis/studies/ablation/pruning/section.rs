//! The section `pruning` of the report: the loss without more and more heads, and what negligible heads are worth together.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sums::PruningSums;
use crate::model::grid::HeadPlace;
use crate::model::parameters::Objective;
use crate::passes::ablation::Replacement;
use crate::sequences::reading::Context;
use crate::stats::block_test::Jackknife;
use crate::stats::interval::Interval;
use crate::studies::ablation::losses::Losses;
use crate::studies::ablation::removal::PerToken;
use crate::study::metrics::estimates::EstimationContext;
use crate::study::section::{PruningOrder, stored};
use crate::study::upstream::Ranking;
use crate::system::parallel::in_parallel;

pub struct PruningSection {
    pub pruning: Curves,
}

/// How much the loss rises when heads go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Curves {
    /// Sentences with a scored token: those in blocks of odd number.
    pub sentences: u64,
    /// The unit counted as a sentence: a window where a decoder read documents.
    #[serde(skip)]
    pub read: Context,
    /// The task that the losses are of; null where nothing was predicted.
    #[serde(default)]
    pub objective: Option<Objective>,
    /// The replacement of a removed head; null in reports of 0.1.
    #[serde(default)]
    pub removal: Option<Replacement>,
    /// The constant that replaces each head, layer by layer, with a value for each of its dimensions; absent for other kinds of
    /// removal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub constants: Option<Vec<Vec<f32>>>,
    /// Tokens that were scored: masked ones, or of a discriminator all of the text.
    pub masked_tokens: u64,
    /// The mean loss of such a token with all heads, in nats.
    pub loss: Option<f64>,
    /// The loss without any head.
    #[serde(default)]
    pub loss_without_heads: Option<f64>,
    /// One for each order: by effect and by what else heads are ranked by, chosen on the blocks of even number, and at
    /// random.
    pub orders: Vec<Curve>,
    /// Interaction of the heads that are called negligible; null where there are none.
    pub interaction: Option<Interaction>,
    /// How many heads share their keys and values, which go only with the last of them; absent where each head has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "usize")]
    pub heads_per_key_value_group: Option<usize>,
}

/// The loss without the first heads of an order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Curve {
    /// The criterion of the order: `effect`, `gradient`, or `random:` with the seed.
    pub by: String,
    /// The heads in the order in which they go.
    pub heads: Vec<HeadPlace>,
    /// The mean loss without the first head, without the first two, and so on, in nats.
    pub loss: Vec<f64>,
    /// The 95 % intervals of the rise above the loss with all heads.
    pub rise_ci95: Vec<Option<Interval>>,
    /// The share of heads that can go, by the rise of the loss that is allowed: shares of the loss, then of what all heads are
    /// worth.
    pub can_go: Vec<CanGo>,
}

/// The share of heads that can go.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CanGo {
    /// The loss that the allowed rise is a share of.
    #[serde(default)]
    pub of: ShareOf,
    /// The rise that is allowed, as a share of that.
    pub rise: f64,
    /// The longest beginning of the order at all points of which the loss rises by no more, as a share of all heads.
    #[schemars(range(min = 0, max = 1))]
    pub share: f64,
    /// Its 95 % interval over the blocks that are scored: from the longest beginning at all points of which the rise is surely
    /// below what is allowed, to the longest at no point of which it is surely above. Null where fewer than 10 blocks are
    /// scored.
    #[serde(default)]
    pub ci95: Option<Interval>,
}

/// The loss that an allowed rise is a share of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ShareOf {
    /// The loss with all heads.
    #[default]
    Loss,
    /// The loss without any head less that with all.
    AllHeads,
}

impl ShareOf {
    /// Both, in the order of the report.
    pub const ALL: [Self; 2] = [Self::Loss, Self::AllHeads];

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Loss => "the loss",
            Self::AllHeads => "what all heads are worth",
        }
    }
}

/// Heads removed together beside the same heads removed one at a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interaction {
    /// The heads that are called negligible, layer by layer.
    pub heads: Vec<HeadPlace>,
    /// The effect of removing all of them, in nats a masked token.
    pub together: f64,
    /// The sum of their effects, each of one head removed alone.
    pub sum: f64,
    /// The first less the second: above 0 where heads do the work of others that are gone.
    pub difference: f64,
    /// The 95 % interval of that.
    pub ci95: Option<Interval>,
}

/// The rises that are allowed: one, five and ten per cent, of the loss and of what all heads are worth. Most of the loss is
/// there without any head, so that a tenth of it can be half of what they are worth.
pub const RISES: [f64; 3] = [0.01, 0.05, 0.10];

impl Curves {
    /// The section that these sums give.
    pub fn new(sums: &PruningSums, context: &EstimationContext) -> Self {
        let total = sums.blocks.total();
        let (tokens, loss) = (total.tokens, total.whole.value() / total.tokens as f64);
        let scored = tokens > 0;
        let curves = sums.removals.rankings.iter().map(|order| Curve::new(order, sums, &total, context));
        let curves: Vec<Curve> = if scored { curves.collect() } else { Vec::new() };
        Self {
            sentences: total.sentences,
            read: Context::default(),
            objective: sums.conditions.objective,
            removal: sums.conditions.removal,
            constants: sums.constants.clone(),
            masked_tokens: tokens,
            loss: scored.then_some(loss),
            // Every order ends without any head.
            loss_without_heads: curves.first().and_then(|curve| curve.loss.last().copied()),
            orders: curves,
            interaction: (scored && !sums.removals.negligible.is_empty())
                .then(|| Interaction::new(sums, &total, context)),
            heads_per_key_value_group: None,
        }
    }
}

impl Curve {
    fn new(order: &Ranking, sums: &PruningSums, total: &Losses, context: &EstimationContext) -> Self {
        let points = 1..=order.places.len();
        let variants: Vec<usize> = points.map(|count| sums.variant_without(&order.places[..count])).collect();
        let mean = |sum: f64| sum / total.tokens as f64;
        let loss: Vec<f64> = variants.iter().map(|&variant| mean(total.without[variant].value())).collect();
        let tokens = sums.per_block(|losses| losses.tokens as f64);
        let rise_ci95 = in_parallel(context.threads, variants.iter().copied(), |variant| {
            Jackknife::new(&sums.per_block(|losses| losses.change(variant)), &tokens).interval()
        });
        let heads = order.places.iter().map(|&place| context.grid.place(place)).collect();
        let can_go = ShareOf::ALL.iter().flat_map(|&of| RISES.map(|rise| can_go(sums, &variants, of, rise)));
        Self { by: order.by.clone(), heads, loss, rise_ci95, can_go: can_go.collect() }
    }
}

/// How many of the heads can go that each variant is without one more of; the last is without any.
fn can_go(sums: &PruningSums, variants: &[usize], of: ShareOf, rise: f64) -> CanGo {
    let Some(&last) = variants.last() else { return CanGo { of, rise, share: 0.0, ci95: None } };
    let tokens = sums.per_block(|losses| losses.tokens as f64);
    // The rise less what is allowed, at each point.
    let excess = |&variant: &usize| {
        let allowed = |losses: &Losses| match of {
            ShareOf::Loss => rise * losses.whole.value(),
            ShareOf::AllHeads => rise * losses.change(last),
        };
        Jackknife::new(&sums.per_block(|losses| losses.change(variant) - allowed(losses)), &tokens)
    };
    let points: Vec<Jackknife> = variants.iter().map(excess).collect();
    let share = |stays: &dyn Fn(&Jackknife) -> bool| {
        points.iter().take_while(|point| stays(point)).count() as f64 / points.len() as f64
    };
    let has_intervals = points.iter().all(|point| point.interval().is_some());
    let surely = |is: fn(Interval) -> bool| share(&|point| point.interval().is_some_and(is));
    CanGo {
        of,
        rise,
        share: share(&|point| point.all() <= 0.0),
        ci95: has_intervals
            .then(|| Interval(surely(|excess| excess.high() <= 0.0), surely(|excess| excess.low() <= 0.0))),
    }
}

/// A head that goes.
#[derive(Serialize)]
pub struct Step<'a> {
    by: &'a str,
    /// How many have gone, with this one.
    removed: usize,
    #[serde(flatten)]
    place: HeadPlace,
    loss: f64,
    rise_ci95: Option<Interval>,
}

/// The heads of a layer that go within a budget.
#[derive(Serialize)]
pub struct PrunedLayer<'a> {
    by: &'a str,
    removal: Option<Replacement>,
    of: ShareOf,
    rise: f64,
    /// How many heads go in all layers.
    removed: usize,
    layer: usize,
    /// Their numbers, separated by spaces.
    heads: String,
}

impl Curves {
    /// The heads that can go, by order, budget and layer.
    pub fn pruned_layers(&self) -> Vec<PrunedLayer<'_>> {
        let mut layers = Vec::new();
        for Curve { by, heads, can_go, .. } in &self.orders {
            for &CanGo { of, rise, share, .. } in can_go {
                let of_all = |count: &usize| *count as f64 / heads.len() as f64;
                let removed = (1..=heads.len()).take_while(|count| of_all(count) <= share).count();
                let mut by_layer: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
                for &HeadPlace { layer, head } in &heads[..removed] {
                    by_layer.entry(layer).or_default().insert(head);
                }
                layers.extend(by_layer.into_iter().map(|(layer, heads)| {
                    let heads = heads.iter().map(usize::to_string).collect::<Vec<_>>().join(" ");
                    PrunedLayer { by, removal: self.removal, of, rise, removed, layer, heads }
                }));
            }
        }
        layers
    }
}

impl Curves {
    /// The orders, for whoever removes their heads.
    pub fn exported(&self) -> Vec<PruningOrder> {
        let Some((loss, removal)) = self.loss.zip(self.removal) else { return Vec::new() };
        // The heads of an order in the order of the model: their constants are so.
        let exported = |Curve { by, heads, loss: without, .. }: &Curve| {
            let all = BTreeSet::from_iter(heads);
            let constant =
                |head: &HeadPlace| self.constants.as_ref()?.get(all.iter().position(|place| *place == head)?);
            let heads = heads.iter().map(|head| (*head, constant(head).cloned())).collect();
            PruningOrder { by: by.clone(), removal, heads, loss, without: without.clone() }
        };
        self.orders.iter().map(exported).collect()
    }
}

impl Curve {
    /// The heads as they go, with the loss without them.
    pub fn steps(&self) -> impl Iterator<Item = Step<'_>> {
        let points = self.heads.iter().zip(&self.loss).zip(&self.rise_ci95).enumerate();
        points.map(|(gone, ((&place, &loss), &rise_ci95))| Step {
            by: &self.by,
            removed: gone + 1,
            place,
            loss,
            rise_ci95,
        })
    }
}

impl Interaction {
    fn new(sums: &PruningSums, total: &Losses, context: &EstimationContext) -> Self {
        let places = &sums.removals.negligible;
        let (all, each) = (
            sums.variant_without(places),
            places.iter().map(|&place| sums.variant_without(&[place])).collect::<Vec<_>>(),
        );
        let of_each = |losses: &Losses| each.iter().map(|&variant| losses.change(variant)).sum::<f64>();
        let mean = |sum: f64| sum / total.tokens as f64;
        let (together, sum) = (mean(total.change(all)), mean(of_each(total)));
        let more = sums.per_block(|losses| losses.change(all) - of_each(losses));
        let ci95 = Jackknife::new(&more, &sums.per_block(|losses| losses.tokens as f64)).interval();
        let heads = places.iter().map(|&place| context.grid.place(place)).collect();
        Self { heads, together, sum, difference: together - sum, ci95 }
    }
}

stored!(PruningSection { pruning: Curves });
