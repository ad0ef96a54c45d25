//! The section `pruning` of the report: the loss without more and more heads, and what negligible heads are worth
//! together; and the orders in which heads go.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::grid::{HeadGrid, HeadPlace};
use crate::model::parameters::Objective;
use crate::passes::ablation::Replacement;
use crate::passes::observer::requests::{HeadSet, heads_at};
use crate::sequences::derived::task::TaskKind;
use crate::stats::block_test::Jackknife;
use crate::stats::blocks::PerBlock;
use crate::stats::interval::Interval;
use crate::studies::ablation::losses::{Items, Losses, RightShare, unit};
use crate::studies::ablation::removal::{Loss, RemovalSums, Removals};
use crate::study::section::{PruningOrder, ROUNDING, ShareOf, stored};
use crate::study::{EstimationContext, Ranking};
use crate::system::parallel::in_parallel;

/// How much the loss rises when heads go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Curves {
    /// Sentences with a scored token: those in blocks of odd number.
    pub sentences: u64,
    /// The task that the losses are of; null where nothing was predicted.
    #[serde(default)]
    pub objective: Option<Objective>,
    /// The kind of the items, where the losses are of a task of the user's own: an item is a token of it, a unit a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "TaskKind")]
    pub task: Option<TaskKind>,
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
    /// The share of predictions of the task that are right with all heads; absent of losses of tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "RightShare")]
    pub right: Option<RightShare>,
    /// One for each order: by effect and by what else heads are ranked by, chosen on the blocks of even number, and at
    /// random.
    pub orders: Vec<Curve>,
    /// Interaction of the heads that are called negligible; null where there are none.
    pub interaction: Option<Interaction>,
    /// How many heads share their keys and values, which go only with the last of them; absent where each head has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "usize")]
    pub heads_per_key_value_group: Option<usize>,
    /// Whether layers share their weights, so that a head goes in all layers that have it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub layers_share_weights: bool,
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
    /// The share of predictions of the task that are right, likewise; absent of losses of tokens.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub right: Vec<f64>,
    /// The 95 % intervals of its change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub right_change_ci95: Vec<Option<Interval>>,
    /// The share of heads that can go, by the rise of the loss that is allowed: shares of the loss, of what all heads are worth, and of
    /// a task by the fall of the share right. A loss that may be below 0 has no shares.
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

/// The measures that have shares: the score of a class is a log-probability, and other items have differences, which may be negative.
fn shares(task: Option<TaskKind>) -> &'static [ShareOf] {
    match task {
        None => &[ShareOf::Loss, ShareOf::AllHeads],
        Some(kind) if kind.is_of_classes() => &ShareOf::ALL,
        Some(_) => &[ShareOf::AllHeads, ShareOf::Right],
    }
}

impl Curves {
    pub fn new<Q: Loss>(sums: &RemovalSums<Orders, Q>, context: &EstimationContext) -> Self {
        let total = sums.blocks.total();
        let (tokens, task) = (total.tokens(), sums.conditions.task);
        let scored = tokens > 0;
        let loss = total.loss(None) / tokens as f64;
        let curves = sums.removals.rankings.iter().map(|order| Curve::new(order, sums, &total, context));
        let curves: Vec<Curve> = if scored { curves.collect() } else { Vec::new() };
        Self {
            sentences: total.units(),
            objective: sums.conditions.objective,
            task,
            removal: sums.conditions.removal,
            constants: sums.constants.clone(),
            masked_tokens: tokens,
            loss: scored.then_some(loss),
            // Every order ends without any head.
            loss_without_heads: curves.first().and_then(|curve| curve.loss.last().copied()),
            right: task.map(|_| {
                let blocks = Jackknife::new(&sums.per_block(|one| one.right(None)), &sums.per_block(Q::predictions));
                RightShare::new(total.right(None) / total.predictions(), blocks, total.units())
            }),
            orders: curves,
            interaction: (scored && !sums.removals.negligible.is_empty())
                .then(|| Interaction::new(sums, &total, context)),
            heads_per_key_value_group: None,
            layers_share_weights: !sums.removals.first_layers.is_empty(),
        }
    }

    pub fn pruned_layers(&self) -> Vec<PrunedLayer<'_>> {
        let mut layers = Vec::new();
        for curve in &self.orders {
            for budget @ &CanGo { of, rise, .. } in &curve.can_go {
                let removed = curve.count(budget);
                layers.extend(curve.within(budget).into_iter().map(|(layer, heads)| {
                    let heads = heads.iter().map(usize::to_string).collect::<Vec<_>>().join(" ");
                    PrunedLayer { by: &curve.by, removal: self.removal, of, rise, removed, layer, heads }
                }));
            }
        }
        layers
    }

    pub fn exported(&self, is_above_baseline: Option<bool>) -> Vec<PruningOrder> {
        let Some((loss, removal)) = self.loss.zip(self.removal) else { return Vec::new() };
        // The heads of an order in the order of the model: their constants are so.
        let exported = |curve: &Curve| {
            let Curve { by, heads, loss: without, right: right_without, can_go, .. } = curve;
            let all = BTreeSet::from_iter(heads);
            let constant = |head: &HeadPlace| self.constants.as_ref()?.get(all.iter().position(|one| *one == head)?);
            let heads = heads.iter().map(|head| (*head, constant(head).cloned())).collect();
            let right = self.right.and_then(|right| Some((right.share?, right_without.clone())));
            let budgets = can_go.iter().map(|budget| (budget.of, budget.rise, curve.count(budget))).collect();
            PruningOrder {
                by: by.clone(),
                removal,
                heads,
                loss,
                unit: unit(self.task),
                without: without.clone(),
                right,
                budgets,
                is_above_baseline,
            }
        };
        self.orders.iter().map(exported).collect()
    }
}

impl Curve {
    fn new<Q: Loss>(order: &Ranking, sums: &RemovalSums<Orders, Q>, total: &Q, context: &EstimationContext) -> Self {
        let variant = |count: usize| sums.variant_without(sums.removals.gone(order, count, context.grid));
        let variants: Vec<usize> = (1..=order.places.len()).map(variant).collect();
        let task = sums.conditions.task;
        let mean = |variant: &usize| total.loss(Some(*variant)) / total.tokens() as f64;
        let right = |variant: &usize| total.right(Some(*variant)) / total.predictions();
        let (tokens, predictions) = (sums.per_block(|block| block.tokens() as f64), sums.per_block(Q::predictions));
        let intervals = |denominator: &PerBlock, change: &(dyn Fn(&Q, usize) -> f64 + Sync)| {
            in_parallel(context.threads, variants.iter().copied(), |variant| {
                Jackknife::new(&sums.per_block(|block| change(block, variant)), denominator).interval()
            })
        };
        let can_go = shares(task).iter().flat_map(|&of| RISES.map(|rise| can_go(sums, &variants, of, rise)));
        Self {
            by: order.by.clone(),
            heads: order.places.iter().map(|&place| context.grid.place(place)).collect(),
            loss: variants.iter().map(mean).collect(),
            rise_ci95: intervals(&tokens, &|block, variant| block.change(variant)),
            right: task.iter().flat_map(|_| variants.iter().map(right)).collect(),
            right_change_ci95: task.map_or_else(Vec::new, |_| {
                intervals(&predictions, &|block, variant| block.right(Some(variant)) - block.right(None))
            }),
            can_go: can_go.collect(),
        }
    }

    pub fn within(&self, budget: &CanGo) -> BTreeMap<usize, BTreeSet<usize>> {
        let mut by_layer: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for &HeadPlace { layer, head } in self.heads.iter().take(self.count(budget)) {
            by_layer.entry(layer).or_default().insert(head);
        }
        by_layer
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share is from 0 to 1")]
    pub fn count(&self, budget: &CanGo) -> usize {
        // The share of a saved report is rounded.
        (budget.share * self.heads.len() as f64).round() as usize
    }

    pub fn steps(&self) -> impl Iterator<Item = Step<'_>> {
        let points = self.heads.iter().zip(&self.loss).zip(&self.rise_ci95).enumerate();
        points.map(|(gone, ((&place, &loss), &rise_ci95))| {
            let right = self.right.get(gone).copied();
            let right_change_ci95 = self.right_change_ci95.get(gone).copied().flatten();
            Step { by: &self.by, removed: gone + 1, place, loss, rise_ci95, right, right_change_ci95 }
        })
    }
}

/// How many of the heads can go that each variant is without one more of; the last is without any.
fn can_go<Q: Loss>(sums: &RemovalSums<Orders, Q>, variants: &[usize], of: ShareOf, rise: f64) -> CanGo {
    let Some(&last) = variants.last() else { return CanGo { of, rise, share: 0.0, ci95: None } };
    let denominator = sums.per_block(|block| match of {
        ShareOf::Loss | ShareOf::AllHeads => block.tokens() as f64,
        ShareOf::Right => block.predictions(),
    });
    // What is lost less what is allowed, at each point.
    let excess = |&variant: &usize| {
        let excess = |block: &Q| match of {
            ShareOf::Loss => block.change(variant) - rise * block.loss(None),
            ShareOf::AllHeads => block.change(variant) - rise * block.change(last),
            ShareOf::Right => (1.0 - rise) * block.right(None) - block.right(Some(variant)),
        };
        Jackknife::new(&sums.per_block(excess), &denominator)
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
        share: share(&|point| point.all() <= ROUNDING),
        ci95: has_intervals
            .then(|| Interval(surely(|excess| excess.high() <= 0.0), surely(|excess| excess.low() <= 0.0))),
    }
}

#[derive(Serialize)]
pub struct Step<'a> {
    by: &'a str,
    removed: usize,
    #[serde(flatten)]
    place: HeadPlace,
    loss: f64,
    rise_ci95: Option<Interval>,
    right: Option<f64>,
    right_change_ci95: Option<Interval>,
}

#[derive(Serialize)]
pub struct PrunedLayer<'a> {
    by: &'a str,
    removal: Option<Replacement>,
    of: ShareOf,
    rise: f64,
    removed: usize,
    layer: usize,
    heads: String,
}

impl Interaction {
    fn new<Q: Loss>(sums: &RemovalSums<Orders, Q>, total: &Q, context: &EstimationContext) -> Self {
        let places = &sums.removals.negligible;
        let all = sums.variant_without(places);
        let each: Vec<usize> = places.iter().map(|&place| sums.variant_without(&[place])).collect();
        let of_each = |losses: &Q| each.iter().map(|&variant| losses.change(variant)).sum::<f64>();
        let mean = |sum: f64| sum / total.tokens() as f64;
        let (together, sum) = (mean(total.change(all)), mean(of_each(total)));
        let more = sums.per_block(|losses| losses.change(all) - of_each(losses));
        let ci95 = Jackknife::new(&more, &sums.per_block(|losses| losses.tokens() as f64)).interval();
        let heads = places.iter().map(|&place| context.grid.place(place)).collect();
        Self { heads, together, sum, difference: together - sum, ci95 }
    }
}

stored!(Curves as pruning);

pub type PruningSums = RemovalSums<Orders, Losses>;

pub type TaskPruningSums = RemovalSums<Orders, Items>;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Orders {
    pub rankings: Vec<Ranking>,
    /// The places of the heads that are called negligible, which also go one by one, and together.
    pub negligible: Vec<usize>,
    /// The first layer with the weights of each; empty where each has its own. Heads that share their weights go together.
    pub first_layers: Vec<usize>,
}

impl Orders {
    /// These orders, in which heads of layers that share their weights come one after the other: in the order of their mean ranks.
    pub fn new(rankings: Vec<Ranking>, negligible: Vec<usize>, first_layers: Vec<usize>, grid: HeadGrid) -> Self {
        let mut orders = Self { rankings: Vec::new(), negligible, first_layers };
        let together = |Ranking { by, places }: Ranking| {
            let mut groups: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
            for (rank, &place) in places.iter().enumerate() {
                groups.entry(orders.first_of(place, grid)).or_default().push((rank, place));
            }
            let mut groups: Vec<Vec<(usize, usize)>> = groups.into_values().collect();
            let mean = |of: &[(usize, usize)]| of.iter().map(|(rank, _)| *rank as f64).sum::<f64>() / of.len() as f64;
            groups.sort_by(|a, b| mean(a).total_cmp(&mean(b)));
            Ranking { by, places: groups.into_iter().flatten().map(|(_, place)| place).collect() }
        };
        orders.rankings = rankings.into_iter().map(together).collect();
        orders
    }

    fn first_of(&self, place: usize, grid: HeadGrid) -> usize {
        let (layer, head) = grid.at(place);
        grid.index(self.first_layers.get(layer).copied().unwrap_or(layer), head)
    }

    /// The heads that are gone when so many of an order are to go: with them those that share their weights.
    pub fn gone<'a>(&self, order: &'a Ranking, count: usize, grid: HeadGrid) -> &'a [usize] {
        let last = self.first_of(order.places[count - 1], grid);
        let more = order.places[count..].iter().take_while(|&&place| self.first_of(place, grid) == last);
        &order.places[..count + more.count()]
    }
}

impl Removals for Orders {
    fn variants(&self, grid: HeadGrid) -> Vec<HeadSet> {
        let Self { rankings, negligible, .. } = self;
        let prefixes = |order: &Ranking| -> Vec<HeadSet> {
            (1..=order.places.len()).map(|count| heads_at(grid, self.gone(order, count, grid))).collect()
        };
        let mut sets: BTreeSet<HeadSet> = rankings.iter().flat_map(prefixes).collect();
        sets.extend(negligible.iter().map(|&place| heads_at(grid, &[place])));
        sets.extend((!negligible.is_empty()).then(|| heads_at(grid, negligible)));
        sets.into_iter().collect()
    }

    fn fit(&self, grid: HeadGrid) -> bool {
        let are_first = self.first_layers.iter().enumerate().all(|(layer, first)| *first <= layer);
        are_first
            && [0, grid.layers].contains(&self.first_layers.len())
            && self.rankings.iter().all(|order| is_an_order(&order.places, grid.count()))
            && self.negligible.iter().all(|&place| place < grid.count())
    }
}

fn is_an_order(places: &[usize], heads: usize) -> bool {
    places.len() == heads && places.iter().collect::<BTreeSet<_>>().into_iter().copied().eq(0..heads)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three layers that share their weights.
    #[test]
    fn heads_that_share_their_weights_go_together() {
        let grid = HeadGrid { layers: 3, heads: 2 };
        let order = Ranking { by: "effect".to_owned(), places: vec![2, 4, 1, 3, 0, 5] };
        let shared = Orders::new(vec![order.clone()], Vec::new(), vec![0, 0, 0], grid);
        // 2, 4 and 0 have ranks 0, 1 and 4, the others 2, 3 and 5.
        assert_eq!(shared.rankings[0].places, [2, 4, 0, 1, 3, 5]);
        assert_eq!([1, 3, 4].map(|count| shared.gone(&shared.rankings[0], count, grid).len()), [3, 3, 6]);
        assert_eq!(shared.variants(grid).len(), 2);
        assert!(shared.fit(grid));
        let alone = Orders::new(vec![order.clone()], Vec::new(), Vec::new(), grid);
        assert_eq!((&alone.rankings[0], alone.variants(grid).len()), (&order, 6));
    }
}
