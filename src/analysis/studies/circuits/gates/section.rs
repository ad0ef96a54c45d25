//! Report section `gates`: gate fits on both halves of the sample, their agreement, and scores of the kept heads alone.

use std::collections::BTreeSet;

use itertools::Itertools;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sums::{FoldFits, KeptHeadSet, KeptHeadSets};
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::model::parameters::Objective;
use crate::passes::ablation::{PassConditions, Replacement};
use crate::passes::gate_fits::{GateFit, MIN_KEPT_GATE};
use crate::sequences::derived::task::TaskKind;
use crate::stats::agreement::CategoryAgreement;
use crate::stats::block_test::Jackknife;
use crate::stats::blocks::PerBlock;
use crate::stats::interval::Interval;
use crate::studies::ablation::removal::{LossQuantity, RemovalSums};
use crate::study::labels::evidence::{MIN_QUERIES, MIN_SENTENCES};
use crate::study::labels::policy::Policy;
use crate::study::metrics::estimates::EstimationContext;
use crate::study::section::{ShareOf, stored};
use crate::study::upstream::Obstacle;

/// Largest rise of the loss with which the kept heads are said to do the task together. It is 1 % of a reference
/// quantity ([`SetsAlone::of`]): the smallest rise that `pruning` allows.
pub const MAX_LOSS_RISE: f64 = 0.01;

/// Gates of all heads (0 to 1), fitted together for a low loss with few open gates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GatesResult {
    /// Replacement for a head whose gate is 0; null if nothing was scored.
    pub removal: Option<Replacement>,
    /// Prediction objective whose loss is fitted; null if nothing was predicted.
    pub objective: Option<Objective>,
    /// Kind of items, if the loss is of a user's task. Then `masked_tokens` counts items, and `sentences` counts sampling units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "TaskKind")]
    pub task: Option<TaskKind>,
    /// Number of sentences with a scored token.
    pub sentences: u64,
    /// Number of scored tokens: masked tokens, all text tokens for a discriminator, or all but the first for a decoder.
    pub masked_tokens: u64,
    /// Mean loss of a scored token with all heads, in nats; null if nothing was scored.
    pub loss: Option<f64>,
    /// Mean loss of a scored token with all heads removed, in nats.
    pub loss_without_heads: Option<f64>,
    /// Fits to each half of the sample: even-numbered blocks, then odd-numbered blocks.
    pub folds: Vec<FoldOfGates>,
    /// Agreement on kept heads between a fit to one half and a fit to the other; null if a half has no fit.
    pub folds_agree: Option<FitAgreement>,
    /// Results for each head, layer by layer.
    pub heads: Vec<GatedHead>,
    /// Loss when all heads outside a set of kept heads (`folds.*.set`) are removed; null if no set was scored.
    pub alone: Option<SetsAlone>,
    /// Verdict that the kept heads do the task together: on enough text, `alone.rise_ci95` ends below `alone.margin`.
    pub together: bool,
    /// Reason why `together` is false; null if it is true.
    pub obstacle: Option<NoSet>,
}

/// Gate fits to one half of the sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FoldOfGates {
    /// Blocks of the half: `even` or `odd`.
    pub blocks: String,
    /// Number of scored tokens, or items, in this half of the sample.
    pub masked_tokens: u64,
    /// Mean loss with all heads, over this half of the sample, in nats; null if nothing was scored.
    pub loss: Option<f64>,
    /// Mean loss with all heads removed, over this half of the sample, in nats; null if nothing was scored.
    pub loss_without_heads: Option<f64>,
    /// Penalty for one fully open gate, in nats: the equivalence margin of `negligible` on this half. Null if nothing was
    /// scored.
    pub price: Option<f64>,
    /// Gate fits to this half, one from each starting point, in the order of `start`.
    pub fits: Vec<FittedHeads>,
    /// Agreement on kept heads between fits to this half from different starting points; null if there are fewer than two fits.
    pub starts_agree: Option<FitAgreement>,
    /// Heads that at least four of the five fits keep, layer by layer.
    pub set: Vec<HeadPlace>,
}

/// Gate fit: gates of all heads after the minimisation from one starting point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FittedHeads {
    /// Number of the starting point, 0 to 4.
    pub start: u64,
    /// Minimised objective, in nats: loss plus the penalty for open gates (`price`).
    pub objective: f64,
    /// Loss at the fitted gates, without the penalty for open gates, in nats.
    pub loss: f64,
    /// Number of kept heads, whose gate is at least 0.5.
    pub kept: usize,
    /// Number of times the loss and its derivatives were computed.
    pub evaluations: u64,
    /// Whether the fit reached a minimum before evaluations ran out.
    pub converged: bool,
    /// Gate of each head, layer by layer; null for a head that is absent.
    pub gates: Vec<Option<f64>>,
}

/// Agreement of two fits on which heads they keep; means over pairs of fits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FitAgreement {
    /// Share of heads that both fits keep or both drop.
    #[schemars(range(min = 0, max = 1))]
    pub share: f64,
    /// Cohen's kappa of two fits: 0 for chance, 1 for full agreement. Pairs in which a fit keeps all heads or none are left
    /// out; null if no pair is left.
    pub kappa: Option<f64>,
}

/// Results for one head over all gate fits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GatedHead {
    /// Head that the gate belongs to.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// Number of fits that keep the head; null if the head is absent, or if there are no fits.
    pub kept: Option<usize>,
    /// Number of fits to even-numbered blocks that keep the head.
    pub kept_even: Option<usize>,
    /// Number of fits to odd-numbered blocks that keep the head.
    pub kept_odd: Option<usize>,
    /// Mean gate of the head in the fits to even-numbered blocks.
    pub gate_even: Option<f64>,
    /// Mean gate of the head in the fits to odd-numbered blocks.
    pub gate_odd: Option<f64>,
}

/// Loss with only kept heads. Each half of the sample is scored with the heads in the `set` of the other half: their gates are
/// 1, all other gates 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SetsAlone {
    /// Heads in the sets of both halves, layer by layer.
    pub in_both: Vec<HeadPlace>,
    /// Heads in the set of exactly one half, layer by layer.
    pub in_one: Vec<HeadPlace>,
    /// Rise of the mean loss above the loss with all heads, in nats.
    pub rise: f64,
    /// 95 % interval of `rise`; null where fewer than 10 blocks were scored, or very unequal ones.
    pub rise_ci95: Option<Interval>,
    /// Change of the task's accuracy from the accuracy with all heads; absent for losses of tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "f64")]
    pub right_change: Option<f64>,
    /// 95 % interval of `right_change`; absent for losses of tokens, and where fewer than 10 blocks were scored, or very
    /// unequal ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Interval")]
    pub right_change_ci95: Option<Interval>,
    /// Quantity that `margin` is a share of.
    pub of: ShareOf,
    /// Margin in nats: the heads do the task together if the interval of `rise` ends below it.
    pub margin: f64,
    /// `rise` with random sets in place of the kept sets, each at least as large, in nats; one value per draw.
    pub random_rises: Vec<f64>,
}

/// Reason why no heads are said to do the task together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NoSet {
    /// A half of the sample has no scored token or item.
    NothingScored,
    /// In a half of the sample the loss does not rise when all heads are removed.
    NothingLost,
    /// The accuracy of the model is not significantly above the baseline without any skill.
    NotAboveBaseline,
    /// One answer is right for more than 60 % of the items.
    OneAnswer,
    /// There are fewer scored tokens or sentences (task: items or units) than the policy asks for.
    TooFew,
    /// The rise of the loss has no interval: there are fewer than 10 blocks, or very unequal ones.
    NoInterval,
    /// The interval of the loss's rise does not end below the margin.
    RiseNotBelow,
}

impl GatesResult {
    /// Builds the section from the gate fits (`fits`: even-numbered blocks first) and the losses when only kept heads
    /// remain (`sums`).
    pub fn new<Q: LossQuantity>(
        fits: [&FoldFits; 2],
        sums: &RemovalSums<KeptHeadSets, Q>,
        context: &EstimationContext,
    ) -> Self {
        let total = sums.blocks.total();
        let PassConditions { removal, objective, task } = fits[0].conditions;
        let losses = fits.map(FoldFits::fitted_loss);
        let units: u64 = losses.iter().map(|loss| loss.units).sum();
        let mean = |value_of: fn(&FoldFits) -> f64| {
            let sum: f64 = fits.iter().map(|fold| value_of(fold) * fold.fitted_loss().units as f64).sum();
            (units > 0).then(|| sum / units as f64)
        };
        let loss = mean(|fold| fold.fitted_loss().loss);
        let loss_without_heads = mean(|fold| fold.fitted_loss().loss_without_heads);
        let obstacle = if losses.iter().any(|loss| loss.units == 0) {
            Some(NoSet::NothingScored)
        } else if losses.iter().any(|loss| loss.band == 0.0) {
            Some(NoSet::NothingLost)
        } else {
            sums.removals.obstacle.map(|obstacle| match obstacle {
                Obstacle::NotAboveBaseline => NoSet::NotAboveBaseline,
                Obstacle::OneAnswer => NoSet::OneAnswer,
                Obstacle::TooFewUnits => NoSet::TooFew,
            })
        };
        let sets: Option<&[KeptHeadSet; 2]> = sums.removals.folds.first_chunk();
        let worth = loss.zip(loss_without_heads);
        Self {
            removal,
            objective,
            task,
            sentences: total.sampling_units(),
            masked_tokens: units,
            loss,
            loss_without_heads,
            folds: [("even", 0), ("odd", 1)]
                .map(|(blocks, fold)| FoldOfGates::new(blocks, fits[fold], sets.map(|sets| &sets[fold]), context.grid))
                .into(),
            folds_agree: FitAgreement::from_pairs(fits[0].gate_fits().cartesian_product(fits[1].gate_fits())),
            heads: (0..context.grid.head_count()).map(|place| GatedHead::new(place, fits, context.grid)).collect(),
            alone: sets.zip(worth).map(|(sets, worth)| SetsAlone::new(sets, worth, sums, context.grid)),
            together: false,
            obstacle,
        }
    }

    /// Decides under `policy` whether the heads of the sets do the task together.
    pub fn judge(&mut self, policy: &Policy) {
        let Some(SetsAlone { rise_ci95, margin, .. }) = self.alone else { return };
        let enough = self.masked_tokens >= policy.count(&MIN_QUERIES) && self.sentences >= policy.count(&MIN_SENTENCES);
        self.obstacle = match rise_ci95 {
            _ if !enough => Some(NoSet::TooFew),
            None => Some(NoSet::NoInterval),
            Some(rise) if rise.high() < margin => None,
            Some(_) => Some(NoSet::RiseNotBelow),
        };
        self.together = self.obstacle.is_none();
    }

    /// Number of gate fits to both halves of the sample.
    pub fn fit_count(&self) -> usize {
        self.folds.iter().map(|fold| fold.fits.len()).sum()
    }
}

impl FoldOfGates {
    fn new(blocks: &str, fold: &FoldFits, set: Option<&KeptHeadSet>, grid: HeadGrid) -> Self {
        let known = fold.fitted_loss();
        let scored = |value: f64| (known.units > 0).then_some(value);
        let fitted = |(start, fit): (u64, &GateFit)| {
            let GateFit { gates, objective, loss, evaluations, converged } = fit.clone();
            let kept = gates.iter().flatten().filter(|&&gate| gate >= MIN_KEPT_GATE).count();
            FittedHeads { start, objective, loss, kept, evaluations, converged, gates }
        };
        Self {
            blocks: blocks.to_owned(),
            masked_tokens: known.units,
            loss: scored(known.loss),
            loss_without_heads: scored(known.loss_without_heads),
            price: scored(known.band),
            fits: fold.fits_by_start().map(fitted).collect(),
            starts_agree: FitAgreement::from_pairs(fold.gate_fits().tuple_combinations()),
            set: set.map_or_else(Vec::new, |set| head_places(&set.kept, grid)),
        }
    }
}

impl FitAgreement {
    /// Mean agreement over pairs of fits. `None` if there is no pair of fits.
    fn from_pairs<'a>(pairs: impl Iterator<Item = (&'a GateFit, &'a GateFit)>) -> Option<Self> {
        let agreement = |(a, b): (&GateFit, &GateFit)| {
            let places = 0..a.gates.len();
            let both: Vec<(bool, bool)> =
                places.filter_map(|place| a.keeps_head(place).zip(b.keeps_head(place))).collect();
            CategoryAgreement::new(&both)
        };
        let agreements: Vec<CategoryAgreement> = pairs.map(agreement).collect();
        let mean = |values: Vec<f64>| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
        let share = mean(agreements.iter().filter_map(|pair| pair.share).collect())?;
        Some(Self { share, kappa: mean(agreements.iter().filter_map(|pair| pair.kappa).collect()) })
    }
}

impl GatedHead {
    fn new(place: usize, fits: [&FoldFits; 2], grid: HeadGrid) -> Self {
        let [kept_even, kept_odd] = fits.map(|fold| fold.count_fits_keeping(place));
        let gate = |fold: &FoldFits| {
            let gates: Option<Vec<f64>> = fold.gate_fits().map(|fit| fit.gates[place]).collect();
            gates.filter(|gates| !gates.is_empty()).map(|gates| gates.iter().sum::<f64>() / gates.len() as f64)
        };
        let [gate_even, gate_odd] = fits.map(gate);
        let halves = [kept_even, kept_odd];
        let kept = halves.iter().any(Option::is_some).then(|| halves.iter().flatten().sum());
        Self { place: grid.head_place(place), kept, kept_even, kept_odd, gate_even, gate_odd }
    }
}

impl SetsAlone {
    fn new<Q: LossQuantity>(
        sets: &[KeptHeadSet; 2],
        (loss, loss_without_heads): (f64, f64),
        sums: &RemovalSums<KeptHeadSets, Q>,
        grid: HeadGrid,
    ) -> Self {
        // Blocks of one parity are scored with only the set of the other parity. Without a removed head, the change is 0.
        let changes = |others: &dyn Fn(&KeptHeadSet) -> Vec<usize>, change: &dyn Fn(&Q, usize) -> f64| -> PerBlock {
            let variants = [&sets[1], &sets[0]].map(|set| {
                let others = others(set);
                (!others.is_empty()).then(|| sums.variant_removing(&others))
            });
            std::array::from_fn(|block| variants[block % 2].map_or(0.0, |without| change(&sums.blocks[block], without)))
        };
        let tokens = sums.per_block(|block| block.tokens() as f64);
        let rise = |others: &dyn Fn(&KeptHeadSet) -> Vec<usize>| {
            Jackknife::new(&changes(others, &|block, without| block.change(without)), &tokens)
        };
        let others = |set: &KeptHeadSet| set.heads_to_remove(&set.kept);
        let alone = rise(&others);
        let task = sums.conditions.task;
        let right_jackknife = task.map(|_| {
            let change = |block: &Q, without| block.correct_count(Some(without)) - block.correct_count(None);
            Jackknife::new(&changes(&others, &change), &sums.per_block(Q::prediction_count))
        });
        // The loss of other items may be below 0.
        let share_of = if task.is_none_or(TaskKind::has_class_labels) { ShareOf::Loss } else { ShareOf::AllHeads };
        let basis = if share_of == ShareOf::Loss { loss } else { loss_without_heads - loss };
        let [even, odd] = sets.each_ref().map(|set| set.kept.iter().copied().collect::<BTreeSet<_>>());
        Self {
            in_both: head_places(even.intersection(&odd), grid),
            in_one: head_places(even.symmetric_difference(&odd), grid),
            rise: alone.value(),
            rise_ci95: alone.interval(),
            right_change: right_jackknife.as_ref().map(Jackknife::value),
            right_change_ci95: right_jackknife.as_ref().and_then(Jackknife::interval),
            of: share_of,
            margin: MAX_LOSS_RISE * basis,
            random_rises: (0..sets[0].random.len())
                .map(|number| rise(&|set| set.heads_to_remove(&set.random[number])).value())
                .collect(),
        }
    }
}

/// Layer and number of the heads with these indices.
fn head_places<'a>(places: impl IntoIterator<Item = &'a usize>, grid: HeadGrid) -> Vec<HeadPlace> {
    places.into_iter().map(|&place| grid.head_place(place)).collect()
}

stored!(GatesResult as gates);
