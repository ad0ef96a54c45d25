//! Report section `task`: accuracy of the model on a user's task, effect of each attention head, and metrics of removed heads.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use itertools::Itertools;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::grid::HeadPlace;
use crate::passes::ablation::{Replacement, equivalence_margin};
use crate::sequences::derived::task::TaskKind;
use crate::stats::block_test::Jackknife;
use crate::stats::interval::Interval;
use crate::studies::ablation::losses::{Item, Items, RightShare, TaskSums};
use crate::studies::ablation::verdicts::{HeadEffect, Verdicts, head_effects, is_zero};
use crate::study::labels::evidence::LABEL_Q;
use crate::study::metrics::metric::{Fraction, HeadMetric};
use crate::study::section::stored;
use crate::study::upstream::Obstacle;
use crate::study::{Estimates, EstimationContext, Explanation, Policy};
use crate::system::parallel::parallel_map;

/// Chance accuracy on items with two alternatives.
const TWO_CHOICE_CHANCE: f64 = 0.5;

/// Accuracy and loss of the model on a user's task, and the effect of removing each head.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskResult {
    /// Kind of the task's items; null if no item was scored.
    pub kind: Option<TaskKind>,
    /// Replacement for removed heads; null if no item was scored.
    pub removal: Option<Replacement>,
    /// Number of scored items.
    pub items: u64,
    /// Number of sampling units: items with the same `family` or document are one unit, and an item that names none is its own.
    pub units: u64,
    /// Number of items in the file that cannot be scored (`settings.task.skipped` has the reasons).
    pub items_skipped: u64,
    /// Accuracy with all heads: share of items that are right, or of words in a tagging task.
    pub right: RightShare,
    /// Accuracy without any skill: the share of the most frequent class for tasks with classes, else 1/2.
    #[schemars(range(min = 0, max = 1))]
    pub baseline: f64,
    /// One-sided p-value of the block test that `right` is above `baseline`; null if there are too few blocks for the test.
    #[schemars(range(min = 0, max = 1))]
    pub p_above_baseline: Option<f64>,
    /// Share of items, or of tagged words, with the most frequent answer; null for tasks whose items share no answers.
    #[schemars(range(min = 0, max = 1))]
    pub most_frequent_answer: Option<f64>,
    /// Reason why no head has a verdict; null if heads may have one.
    pub obstacle: Option<Obstacle>,
    /// Minus the mean score of an item with all heads, in nats. For triples, losses and effects are in cosines.
    pub loss: Option<f64>,
    /// 95 % interval of `loss`.
    pub loss_ci95: Option<Interval>,
    /// Mean loss of an item with all heads removed.
    pub loss_without_heads: Option<f64>,
    /// Share of items that are right with all heads removed.
    pub right_without_heads: Option<f64>,
    /// Equivalence margin: the largest effect on `loss` that counts as negligible, by the rule of `effect.band` (a share of the
    /// effect of removing all heads).
    pub band: Option<f64>,
    /// Number of heads that the checkpoint lacks.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub absent_heads: usize,
    /// Number of heads with each verdict.
    pub verdicts: Verdicts,
    /// Effect of each head on the task (metric `task_effect`), layer by layer. Standard errors are in each head's metrics. The
    /// effect is null if the head was not removed alone (`settings.ablation.effect_of`).
    pub heads: Vec<HeadOnTask>,
    /// Results for each group (condition) of items.
    pub groups: Vec<GroupResult>,
}

/// Effect of removing one head on a user's task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeadOnTask {
    /// Effect on the loss of the task.
    #[serde(flatten)]
    pub on_loss: HeadEffect,
    /// Metric `task_right_effect`: accuracy without the head minus the accuracy with it; null if the head was not removed
    /// alone.
    pub right_effect: Option<f64>,
    /// 95 % interval of `right_effect`.
    pub right_ci95: Option<Interval>,
}

/// Results on the items of one group (condition) of a user's task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GroupResult {
    /// Name of the group in the task file.
    pub group: String,
    /// Number of scored items in the group.
    pub items: u64,
    /// Number of sampling units whose first item is in the group.
    pub units: u64,
    /// Mean loss of an item of the group with all heads, in the unit of `task.loss`.
    pub loss: Option<f64>,
    /// Accuracy on the items of the group: share of items, or of tagged words, that are right.
    pub right: RightShare,
    /// Effect of removing each head on the loss of the group, layer by layer; null for a head that was not removed alone.
    pub effects: Vec<Option<f64>>,
    /// 95 % interval of each of `effects`; null if fewer than 10 blocks have an item of the group.
    pub ci95: Vec<Option<Interval>>,
}

/// The items of a task for which `includes` is true.
struct ItemSelection<'a, F> {
    sums: &'a TaskSums,
    /// All items of the task.
    total: &'a Items,
    /// Returns whether an item is selected.
    includes: F,
}

impl<F: Fn(&Item) -> bool> ItemSelection<'_, F> {
    /// Ratio over the selected items of the whole corpus.
    fn overall_ratio(&self, ratio: impl Fn(&mut dyn Iterator<Item = &Item>) -> Fraction) -> Fraction {
        ratio(&mut self.total.values().filter(|item| (self.includes)(item)))
    }

    /// Ratio over the selected items, with its jackknife over blocks.
    fn jackknife(&self, ratio: impl Fn(&mut dyn Iterator<Item = &Item>) -> Fraction) -> Jackknife {
        let items = |block: usize| self.sums.blocks[block].values();
        Fraction::jackknife(|block| ratio(&mut items(block).filter(|item| (self.includes)(item))))
    }

    /// Accuracy on the selected items.
    fn accuracy(&self) -> RightShare {
        let ratio = |items: &mut dyn Iterator<Item = &Item>| prediction_share(items, |item| item.correct_count(None));
        let all = self.overall_ratio(ratio);
        RightShare::new(all.value().unwrap_or(f64::NAN), self.jackknife(ratio), all.evidence().sentences)
    }
}

/// Loss of items, with all heads (`None`) or in an ablation variant.
fn mean_loss(items: &mut dyn Iterator<Item = &Item>, variant: Option<usize>) -> Fraction {
    ratio_of_sums(items, |item| -item.score(variant), |_| 1.0)
}

impl TaskResult {
    pub fn new(sums: &TaskSums, items_skipped: u64, estimates: &Estimates, context: &EstimationContext) -> Self {
        let total = &sums.blocks.total();
        let all = ItemSelection { sums, total, includes: |_: &Item| true };
        let bare = Some(sums.variant_removing(&(0..sums.head_count()).collect::<Vec<_>>()));
        let basis = all.overall_ratio(|items| mean_loss(items, None)).evidence();
        let loss_of = |variant| all.overall_ratio(|items| mean_loss(items, variant)).value();
        let (whole, without) = (loss_of(None), loss_of(bare));
        let kind = sums.conditions.task;
        let most_frequent = most_frequent_answer(total);
        let class = most_frequent.filter(|_| kind.is_some_and(TaskKind::has_class_labels));
        // Number of the item's predictions that are right by chance, without reading the item.
        let baseline = |item: &Item| {
            class.map_or(TWO_CHOICE_CHANCE, |(class, _)| {
                item.truths.get(&class).map_or(0.0, |&predictions| predictions as f64)
            })
        };
        let above = |item: &Item| item.correct_count(None) - baseline(item);
        let band =
            whole.zip(without).map(|(whole, without)| equivalence_margin(without - whole, context.grid.head_count()));
        let heads = head_effects("task_effect", estimates, band, context).into_iter().enumerate();
        let on_task = |(place, on_loss): (usize, HeadEffect)| {
            let (right_effect, right_ci95, _) = estimates.metric_estimate(place, "task_right_effect");
            HeadOnTask { on_loss, right_effect, right_ci95 }
        };
        Self {
            kind,
            removal: sums.conditions.removal,
            items: basis.count,
            units: basis.sentences,
            items_skipped,
            right: all.accuracy(),
            baseline: class.map_or(TWO_CHOICE_CHANCE, |(_, share)| share),
            p_above_baseline: all.jackknife(|items| prediction_share(items, above)).p_above(0.0),
            most_frequent_answer: most_frequent.map(|(_, share)| share),
            obstacle: None,
            loss: whole,
            loss_ci95: all.jackknife(|items| mean_loss(items, None)).interval(),
            loss_without_heads: without,
            right_without_heads: all
                .overall_ratio(|items| prediction_share(items, |item| item.correct_count(bare)))
                .value(),
            band,
            absent_heads: context.absent_heads.len(),
            verdicts: Verdicts::default(),
            heads: heads.map(on_task).collect(),
            groups: group_results(sums, total, context),
        }
    }

    /// Indices of the heads with a negligible effect.
    pub fn negligible_heads(&self) -> Vec<usize> {
        self.heads.iter().positions(|head| head.on_loss.negligible).collect()
    }

    /// Whether the accuracy is significantly above the baseline under `policy`.
    pub fn is_above_baseline(&self, policy: &Policy) -> bool {
        let most = policy.rule(&LABEL_Q).unwrap_or(1.0);
        self.p_above_baseline.is_some_and(|p| p <= most)
    }
}

/// The most frequent answer (lowest id on ties) and its share of items or tagged words, as `(answer id, share)`.
/// `None` if there are no answers.
fn most_frequent_answer(items: &Items) -> Option<(u32, f64)> {
    let truths = items.values().flat_map(|item| &item.truths).map(|(&truth, &count)| (truth, count));
    let counts = truths.into_grouping_map().sum();
    let all: u64 = counts.values().sum();
    let (answer, most) = counts.into_iter().max_by_key(|&(truth, count)| (count, Reverse(truth)))?;
    Some((answer, most as f64 / all as f64))
}

/// Results for each group (condition) of items.
fn group_results(sums: &TaskSums, total: &Items, context: &EstimationContext) -> Vec<GroupResult> {
    let named: BTreeSet<&str> = total.values().filter_map(|item| item.group.as_deref()).collect();
    parallel_map(context.threads, named, |group| {
        let of_group = ItemSelection { sums, total, includes: |item: &Item| item.group.as_deref() == Some(group) };
        let heads = 0..context.grid.head_count();
        let losses = of_group.overall_ratio(|items| mean_loss(items, None));
        let effect = |head: usize| move |items: &mut dyn Iterator<Item = &Item>| mean_loss_rise(items, Some(head));
        let measured = |head: usize| Some(&of_group).filter(|_| sums.has_single_removal(head));
        GroupResult {
            group: group.to_owned(),
            items: losses.evidence().count,
            units: losses.evidence().sentences,
            loss: losses.value(),
            right: of_group.accuracy(),
            effects: heads.clone().map(|head| measured(head)?.overall_ratio(effect(head)).value()).collect(),
            ci95: heads.map(|head| measured(head)?.jackknife(effect(head)).interval()).collect(),
        }
    })
}

#[derive(Serialize)]
pub struct GroupEffect<'a> {
    group: &'a str,
    items: u64,
    right: Option<f64>,
    #[serde(flatten)]
    place: HeadPlace,
    effect: Option<f64>,
    ci95: Option<Interval>,
}

impl GroupResult {
    /// Lists the effect of each head on the group; `heads` must be in the order of `effects`.
    pub fn effect_rows<'a>(&'a self, heads: &'a [HeadOnTask]) -> impl Iterator<Item = GroupEffect<'a>> {
        heads.iter().zip(self.effects.iter().zip(&self.ci95)).map(|(head, (&effect, &ci95))| {
            let (group, items, right) = (self.group.as_str(), self.items, self.right.share);
            GroupEffect { group, items, right, place: head.on_loss.place, effect, ci95 }
        })
    }
}

stored!(TaskResult as task);

/// Mean rise of the loss (minus the score) per item when `head` is removed. Without a head it is 0, the chance level.
fn mean_loss_rise<'a>(items: impl Iterator<Item = &'a Item>, head: Option<usize>) -> Fraction {
    ratio_of_sums(items, |item| item.score(None) - item.score(head), |_| 1.0)
}

/// Sum of `part`, a number of predictions, divided by all predictions of the items. A tagging item has one prediction
/// per word; every other item has one.
fn prediction_share<'a>(items: impl Iterator<Item = &'a Item>, part: impl Fn(&Item) -> f64) -> Fraction {
    ratio_of_sums(items, part, Item::prediction_count)
}

/// Sum of `part` over the items, divided by the sum of `whole`.
fn ratio_of_sums<'a>(
    items: impl Iterator<Item = &'a Item>,
    part: impl Fn(&Item) -> f64,
    whole: fn(&Item) -> f64,
) -> Fraction {
    let (mut sum, mut all, mut count, mut units) = (0.0, 0.0, 0, 0);
    for item in items {
        sum += part(item);
        all += whole(item);
        count += 1;
        units += u64::from(item.is_first);
    }
    Fraction::new(sum, all).with_evidence(count, units)
}

/// Mean rise of the loss (minus the score) over all items when `head` is removed. Without a head it is 0, the chance
/// level.
pub fn overall_effect(items: &Items, head: Option<usize>) -> Fraction {
    mean_loss_rise(items.values(), head)
}

pub const METRICS: &[HeadMetric<Items>] = &[
    HeadMetric::single(overall_effect).with_explanation(Explanation {
        name: "task_effect",
        measures: "How much the loss of a task of the user's own rises when the head is removed.",
        formula: "task_effect = mean over items of (score with the head - score without it), in nats, of triples in cosines; the score of an item is \
            ln p(label), with a foil less ln p(foil), of tags its sum over words, of a cloze item ln p(answer) - ln p(foil), of a pair ln p(good) - ln p(bad), of a triple \
            cos(anchor, positive) - cos(anchor, negative); the loss is minus the mean score",
        chance: "0: the head is not missed",
        source: "Removal of single heads from a task: Michel et al. 2019 (arXiv:1905.10650), section 3; minimal pairs: Warstadt \
            et al. 2020 (arXiv:1912.00582); masked texts word by word: Kauf & Ivanova 2023 (arXiv:2305.10588).",
        caveats: "It holds for these items alone. Other heads can compensate, so several heads may matter together and none \
            alone. It depends on what stands for the head: `settings.ablation`.",
    }),
    HeadMetric::<Items>::single(|items, head| prediction_share(items.values(), |item| item.correct_count(head) - item.correct_count(None)))
        .with_explanation(Explanation {
            name: "task_right_effect",
            measures: "How much the share of items, or of tagged words, that the model has right changes when the head is removed.",
            formula: "task_right_effect = share of items, or of words, that are right without the head - the share with it; right is a score above 0, of \
                classes the label having the largest p",
            chance: "0: the head is not missed",
            source: "As `task_effect`: Michel et al. 2019 report the change in accuracy.",
            caveats: "Most heads change the score of an item without making it right or wrong, so this is coarser than `task_effect`.",
        }),
];
