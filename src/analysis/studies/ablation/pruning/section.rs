//! Report section `pruning`: loss as more and more heads are removed, interaction of negligible heads, and orders of removal.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::grid::{HeadGrid, HeadPlace};
use crate::model::parameters::Objective;
use crate::passes::ablation::Replacement;
use crate::passes::observer::requests::{HeadSet, head_set_at};
use crate::sequences::derived::task::TaskKind;
use crate::stats::block_test::Jackknife;
use crate::stats::blocks::PerBlock;
use crate::stats::interval::Interval;
use crate::studies::ablation::losses::{Items, Losses, RightShare, loss_unit};
use crate::studies::ablation::removal::{LossQuantity, RemovalSums, Removals};
use crate::study::section::{PruningOrder, ROUNDING_TOLERANCE, ShareOf, stored};
use crate::study::{EstimationContext, Ranking};
use crate::system::parallel::parallel_map;

/// Rise of the loss as heads are removed one after another, in several orders.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Curves {
    /// Number of sentences with a scored token, in odd-numbered blocks.
    pub sentences: u64,
    /// Prediction objective whose loss is measured; null if nothing was predicted.
    #[serde(default)]
    pub objective: Option<Objective>,
    /// Kind of items, if the loss is of a user's task. Then `masked_tokens` counts items, and `sentences` counts sampling units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "TaskKind")]
    pub task: Option<TaskKind>,
    /// Replacement for removed heads; null in reports of version 0.1.
    #[serde(default)]
    pub removal: Option<Replacement>,
    /// Constant that replaces each head, layer by layer, one value per head dimension; absent for other kinds of removal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub constants: Option<Vec<Vec<f32>>>,
    /// Number of scored tokens: masked tokens, all text tokens for a discriminator, or all but the first for a decoder.
    pub masked_tokens: u64,
    /// Mean loss of a scored token with all heads, in nats; null if nothing was scored.
    pub loss: Option<f64>,
    /// Mean loss of a scored token with all heads removed, in nats.
    #[serde(default)]
    pub loss_without_heads: Option<f64>,
    /// Share of the task's predictions that are right with all heads; absent for losses of tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "RightShare")]
    pub right: Option<RightShare>,
    /// Pruning curve of each order of removal. Orders are random, or chosen on the even-numbered blocks by `effect` and other
    /// criteria.
    pub orders: Vec<Curve>,
    /// Effect of removing all negligible heads together, compared with the sum of their single effects; null if no head is
    /// negligible.
    pub interaction: Option<Interaction>,
    /// Number of query heads that share keys and values; absent if each head has its own. Shared keys and values go when the
    /// group's last head is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "usize")]
    pub heads_per_key_value_group: Option<usize>,
    /// Whether layers share their weights, so that a head is removed in all layers that share it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub layers_share_weights: bool,
}

/// Loss as heads are removed one after another in one order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Curve {
    /// Criterion of the order: `effect`, `gradient`, `task`, or `random:` with the seed.
    pub by: String,
    /// Heads in order of removal.
    pub heads: Vec<HeadPlace>,
    /// Mean loss without the first head, without the first two, and so on, in nats.
    pub loss: Vec<f64>,
    /// 95 % interval of the rise of the loss at each step: each of `loss` minus the loss with all heads.
    pub rise_ci95: Vec<Option<Interval>>,
    /// Accuracy after each removal: share of the task's predictions that are right. Absent for losses of tokens.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub right: Vec<f64>,
    /// 95 % interval of the change of accuracy at each step: each of `right` minus the accuracy with all heads. Absent for
    /// losses of tokens.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub right_change_ci95: Vec<Option<Interval>>,
    /// Share of heads that can be removed, for each allowed rise of the loss or, for a task, fall of the accuracy. Tasks whose
    /// loss may be negative have no entries for a rise relative to the loss.
    pub can_go: Vec<CanGo>,
}

/// Share of heads that can be removed before the loss rises, or the accuracy falls, by more than a given amount.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CanGo {
    /// Quantity that the allowed rise or fall is a share of.
    #[serde(default)]
    pub of: ShareOf,
    /// Allowed rise of the loss, or fall of the accuracy if `of` is `right`, as a share of the quantity `of`.
    pub rise: f64,
    /// Share of all heads that can be removed: the heads of the order before the first rise (or fall) above the allowed one.
    #[schemars(range(min = 0, max = 1))]
    pub share: f64,
    /// 95 % interval of `share`. The low end stops before the first rise that is not significantly below the allowed one. The
    /// high end stops before the first rise that is significantly above it. Null with fewer than 10 scored blocks, or very
    /// unequal ones.
    #[serde(default)]
    pub ci95: Option<Interval>,
}

/// Effect of removing heads together, compared with the sum of their effects when removed one at a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interaction {
    /// Heads with a negligible effect, layer by layer.
    pub heads: Vec<HeadPlace>,
    /// Effect of removing all of `heads` together, in nats per scored token.
    pub together: f64,
    /// Sum of the effects of removing each of `heads` alone.
    pub sum: f64,
    /// `together` minus `sum`: above 0 if heads do the work of removed ones.
    pub difference: f64,
    /// 95 % interval of `difference`.
    pub ci95: Option<Interval>,
}

/// Largest allowed rises of the loss while heads are removed, as shares of the loss with all heads or of the rise
/// without any head. Both references are used, since 10 % of the loss can be 50 % of that rise. For a task, the shares
/// also limit the fall of the accuracy, relative to the accuracy with all heads.
pub const LOSS_RISE_LIMITS: [f64; 3] = [0.01, 0.05, 0.10];

/// Quantities relative to which the allowed rise of the loss, or fall of the accuracy, is measured.
///
/// The loss itself is a reference only for tokens, and for items with classes, whose losses are negative
/// log-probabilities. The loss of other items is a difference, which may be negative.
fn rise_references(task: Option<TaskKind>) -> &'static [ShareOf] {
    match task {
        None => &[ShareOf::Loss, ShareOf::AllHeads],
        Some(kind) if kind.has_class_labels() => &ShareOf::ALL,
        Some(_) => &[ShareOf::AllHeads, ShareOf::Right],
    }
}

impl Curves {
    pub fn new<Q: LossQuantity>(sums: &RemovalSums<Orders, Q>, context: &EstimationContext) -> Self {
        let total = sums.blocks.total();
        let (tokens, task) = (total.tokens(), sums.conditions.task);
        let scored = tokens > 0;
        let loss = total.total_loss(None) / tokens as f64;
        let curves = sums.removals.rankings.iter().map(|order| Curve::new(order, sums, &total, context));
        let curves: Vec<Curve> = if scored { curves.collect() } else { Vec::new() };
        Self {
            sentences: total.sampling_units(),
            objective: sums.conditions.objective,
            task,
            removal: sums.conditions.removal,
            constants: sums.constants.clone(),
            masked_tokens: tokens,
            loss: scored.then_some(loss),
            // Every order ends without any head.
            loss_without_heads: curves.first().and_then(|curve| curve.loss.last().copied()),
            right: task.map(|_| {
                let blocks = Jackknife::new(
                    &sums.per_block(|one| one.correct_count(None)),
                    &sums.per_block(Q::prediction_count),
                );
                RightShare::new(total.correct_count(None) / total.prediction_count(), blocks, total.sampling_units())
            }),
            orders: curves,
            interaction: (scored && !sums.removals.negligible.is_empty())
                .then(|| Interaction::new(sums, &total, context)),
            heads_per_key_value_group: context.query_heads_per_group,
            layers_share_weights: !sums.removals.first_layers.is_empty(),
        }
    }

    /// The heads that each order removes in each layer, for each allowed rise of the loss or fall of the accuracy.
    pub fn pruned_layers(&self) -> Vec<PrunedLayer<'_>> {
        let mut layers = Vec::new();
        for curve in &self.orders {
            for budget @ &CanGo { of, rise, .. } in &curve.can_go {
                let removed = curve.removable_count(budget);
                layers.extend(curve.removable_by_layer(budget).into_iter().map(|(layer, heads)| {
                    let heads = heads.iter().join(" ");
                    PrunedLayer { by: &curve.by, removal: self.removal, of, rise, removed, layer, heads }
                }));
            }
        }
        layers
    }

    /// Pruning orders for export, each with the loss after every removal. Each carries `is_above_baseline`: whether the
    /// model beats the baseline of its task.
    pub fn pruning_orders(&self, is_above_baseline: Option<bool>) -> Vec<PruningOrder> {
        let Some((loss, removal)) = self.loss.zip(self.removal) else { return Vec::new() };
        // Constants are listed in the order of the model, not in the order of removal.
        let exported = |curve: &Curve| {
            let Curve { by, heads, loss: without, right: right_without, can_go, .. } = curve;
            let all = BTreeSet::from_iter(heads);
            let constant = |head: &HeadPlace| self.constants.as_ref()?.get(all.iter().position(|one| *one == head)?);
            let heads = heads.iter().map(|head| (*head, constant(head).cloned())).collect();
            let right = self.right.and_then(|right| Some((right.share?, right_without.clone())));
            let budgets = can_go.iter().map(|budget| (budget.of, budget.rise, curve.removable_count(budget))).collect();
            PruningOrder {
                criterion: by.clone(),
                removal,
                heads,
                loss,
                unit: loss_unit(self.task),
                losses_without: without.clone(),
                accuracies: right,
                budgets,
                is_above_baseline,
            }
        };
        self.orders.iter().map(exported).collect()
    }
}

impl Curve {
    fn new<Q: LossQuantity>(
        order: &Ranking,
        sums: &RemovalSums<Orders, Q>,
        total: &Q,
        context: &EstimationContext,
    ) -> Self {
        let variant = |count: usize| sums.variant_removing(sums.removals.removed_at_step(order, count, context.grid));
        let variants: Vec<usize> = (1..=order.places.len()).map(variant).collect();
        let task = sums.conditions.task;
        let mean = |variant: &usize| total.total_loss(Some(*variant)) / total.tokens() as f64;
        let right = |variant: &usize| total.correct_count(Some(*variant)) / total.prediction_count();
        let (tokens, predictions) =
            (sums.per_block(|block| block.tokens() as f64), sums.per_block(Q::prediction_count));
        let intervals = |denominator: &PerBlock, change: &(dyn Fn(&Q, usize) -> f64 + Sync)| {
            parallel_map(context.threads, variants.iter().copied(), |variant| {
                Jackknife::new(&sums.per_block(|block| change(block, variant)), denominator).interval()
            })
        };
        let can_go = rise_references(task)
            .iter()
            .flat_map(|&of| LOSS_RISE_LIMITS.map(|rise| removable_share(sums, &variants, of, rise)));
        Self {
            by: order.by.clone(),
            heads: order.places.iter().map(|&place| context.grid.head_place(place)).collect(),
            loss: variants.iter().map(mean).collect(),
            rise_ci95: intervals(&tokens, &|block, variant| block.change(variant)),
            right: task.iter().flat_map(|_| variants.iter().map(right)).collect(),
            right_change_ci95: task.map_or_else(Vec::new, |_| {
                intervals(&predictions, &|block, variant| {
                    block.correct_count(Some(variant)) - block.correct_count(None)
                })
            }),
            can_go: can_go.collect(),
        }
    }

    /// Removable heads by layer, as indices within the layer, for one allowed rise or fall (`budget`).
    pub fn removable_by_layer(&self, budget: &CanGo) -> BTreeMap<usize, BTreeSet<usize>> {
        let mut by_layer: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for &HeadPlace { layer, head } in self.heads.iter().take(self.removable_count(budget)) {
            by_layer.entry(layer).or_default().insert(head);
        }
        by_layer
    }

    /// Number of heads that can be removed before the loss rises, or the accuracy falls, by more than `budget` allows.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share is from 0 to 1")]
    pub fn removable_count(&self, budget: &CanGo) -> usize {
        // The share of a saved report is rounded.
        (budget.share * self.heads.len() as f64).round() as usize
    }

    /// The removal steps of the order, each with the loss after the step.
    pub fn step_rows(&self) -> impl Iterator<Item = PruningStep<'_>> {
        let points = self.heads.iter().zip(&self.loss).zip(&self.rise_ci95).enumerate();
        points.map(|(gone, ((&place, &loss), &rise_ci95))| {
            let right = self.right.get(gone).copied();
            let right_change_ci95 = self.right_change_ci95.get(gone).copied().flatten();
            PruningStep { by: &self.by, removed: gone + 1, place, loss, rise_ci95, right, right_change_ci95 }
        })
    }
}

/// Share of heads that can be removed before the loss rises (or the accuracy falls) by more than `rise`, a share of the
/// reference quantity `of`. Each of `variants` removes one head more than the one before; the last removes all heads.
fn removable_share<Q: LossQuantity>(
    sums: &RemovalSums<Orders, Q>,
    variants: &[usize],
    of: ShareOf,
    rise: f64,
) -> CanGo {
    let Some(&last) = variants.last() else { return CanGo { of, rise, share: 0.0, ci95: None } };
    let denominator = sums.per_block(|block| match of {
        ShareOf::Loss | ShareOf::AllHeads => block.tokens() as f64,
        ShareOf::Right => block.prediction_count(),
    });
    // Rise of the loss (or fall of the share right) minus the allowed one, at each step.
    let excess = |&variant: &usize| {
        let excess = |block: &Q| match of {
            ShareOf::Loss => block.change(variant) - rise * block.total_loss(None),
            ShareOf::AllHeads => block.change(variant) - rise * block.change(last),
            ShareOf::Right => (1.0 - rise) * block.correct_count(None) - block.correct_count(Some(variant)),
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
        share: share(&|point| point.value() <= ROUNDING_TOLERANCE),
        ci95: has_intervals
            .then(|| Interval(surely(|excess| excess.high() <= 0.0), surely(|excess| excess.low() <= 0.0))),
    }
}

#[derive(Serialize)]
pub struct PruningStep<'a> {
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
    fn new<Q: LossQuantity>(sums: &RemovalSums<Orders, Q>, total: &Q, context: &EstimationContext) -> Self {
        let places = &sums.removals.negligible;
        let all = sums.variant_removing(places);
        let each: Vec<usize> = places.iter().map(|&place| sums.variant_removing(&[place])).collect();
        let of_each = |losses: &Q| each.iter().map(|&variant| losses.change(variant)).sum::<f64>();
        let mean = |sum: f64| sum / total.tokens() as f64;
        let (together, sum) = (mean(total.change(all)), mean(of_each(total)));
        let more = sums.per_block(|losses| losses.change(all) - of_each(losses));
        let ci95 = Jackknife::new(&more, &sums.per_block(|losses| losses.tokens() as f64)).interval();
        let heads = places.iter().map(|&place| context.grid.head_place(place)).collect();
        Self { heads, together, sum, difference: together - sum, ci95 }
    }
}

stored!(Curves as pruning);

pub type PruningSums = RemovalSums<Orders, Losses>;

pub type TaskPruningSums = RemovalSums<Orders, Items>;

/// Orders of heads in which heads are removed one after another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Orders {
    pub rankings: Vec<Ranking>,
    /// Indices of the heads with a negligible effect. They are also removed one at a time and all together.
    pub negligible: Vec<usize>,
    /// For each layer, the first layer with equal weights; empty if no layers share weights. Heads that share
    /// weights are removed together.
    pub first_layers: Vec<usize>,
}

impl Orders {
    /// Creates the orders from `rankings`. Heads that share weights are put next to each other, sorted by their
    /// mean rank.
    pub fn new(rankings: Vec<Ranking>, negligible: Vec<usize>, first_layers: Vec<usize>, grid: HeadGrid) -> Self {
        let mut orders = Self { rankings: Vec::new(), negligible, first_layers };
        let together = |Ranking { by, places }: Ranking| {
            let mut groups: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
            for (rank, &place) in places.iter().enumerate() {
                groups.entry(orders.first_head_sharing_weights(place, grid)).or_default().push((rank, place));
            }
            let mean_rank =
                |group: &[(usize, usize)]| group.iter().map(|(rank, _)| *rank as f64).sum::<f64>() / group.len() as f64;
            let groups = groups.into_values().sorted_by(|a, b| mean_rank(a).total_cmp(&mean_rank(b)));
            Ranking { by, places: groups.flatten().map(|(_, place)| place).collect() }
        };
        orders.rankings = rankings.into_iter().map(together).collect();
        orders
    }

    /// Index of the first head, in layer order, that shares its weights with head `place`; `place` itself if no
    /// layers share weights.
    fn first_head_sharing_weights(&self, place: usize, grid: HeadGrid) -> usize {
        let (layer, head) = grid.layer_and_head(place);
        grid.index(self.first_layers.get(layer).copied().unwrap_or(layer), head)
    }

    /// Indices of the heads that are removed at step `count` of an order. They are the first `count` heads, and the
    /// heads that share weights with the last of these.
    pub fn removed_at_step<'a>(&self, order: &'a Ranking, count: usize, grid: HeadGrid) -> &'a [usize] {
        let last = self.first_head_sharing_weights(order.places[count - 1], grid);
        let more =
            order.places[count..].iter().take_while(|&&place| self.first_head_sharing_weights(place, grid) == last);
        &order.places[..count + more.count()]
    }
}

impl Removals for Orders {
    fn variants(&self, grid: HeadGrid) -> Vec<HeadSet> {
        let Self { rankings, negligible, .. } = self;
        let prefixes = |order: &Ranking| -> Vec<HeadSet> {
            (1..=order.places.len()).map(|count| head_set_at(grid, self.removed_at_step(order, count, grid))).collect()
        };
        let mut sets: BTreeSet<HeadSet> = rankings.iter().flat_map(prefixes).collect();
        sets.extend(negligible.iter().map(|&place| head_set_at(grid, &[place])));
        sets.extend((!negligible.is_empty()).then(|| head_set_at(grid, negligible)));
        sets.into_iter().collect()
    }

    fn fits_grid(&self, grid: HeadGrid) -> bool {
        let are_first = self.first_layers.iter().enumerate().all(|(layer, first)| *first <= layer);
        are_first
            && [0, grid.layers].contains(&self.first_layers.len())
            && self.rankings.iter().all(|order| order.places.iter().copied().sorted().eq(0..grid.head_count()))
            && self.negligible.iter().all(|&place| place < grid.head_count())
    }
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
        assert_eq!([1, 3, 4].map(|count| shared.removed_at_step(&shared.rankings[0], count, grid).len()), [3, 3, 6]);
        assert_eq!(shared.variants(grid).len(), 2);
        assert!(shared.fits_grid(grid));
        let alone = Orders::new(vec![order.clone()], Vec::new(), Vec::new(), grid);
        assert_eq!((&alone.rankings[0], alone.variants(grid).len()), (&order, 6));
    }
}
