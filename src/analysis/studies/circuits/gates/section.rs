//! The section `gates` of the report: the fits of both folds, how far they agree, and the sets of kept heads alone.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sums::{FoldFits, KeptSet, KeptSets};
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::model::parameters::Objective;
use crate::passes::ablation::{Conditions, Replacement};
use crate::passes::gate_fits::{GateFit, KEPT_FROM};
use crate::sequences::derived::task::TaskKind;
use crate::stats::agreement::CategoryAgreement;
use crate::stats::block_test::Jackknife;
use crate::stats::blocks::PerBlock;
use crate::stats::interval::Interval;
use crate::studies::ablation::removal::{Loss, RemovalSums};
use crate::study::labels::evidence::{MIN_QUERIES, MIN_SENTENCES};
use crate::study::labels::policy::Policy;
use crate::study::metrics::estimates::EstimationContext;
use crate::study::section::{ShareOf, stored};
use crate::study::upstream::Obstacle;

/// The rise of the loss below which heads do the task together, as a share: one per cent, the least budget of `pruning`.
pub const ALLOWED: f64 = 0.01;

/// Gates of all heads, fitted together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GatesResult {
    /// The replacement of a head whose gate is 0; null where nothing was scored.
    pub removal: Option<Replacement>,
    /// The task that the losses are of; null where nothing was predicted.
    pub objective: Option<Objective>,
    /// The kind of the items, where the losses are of a task of the user's own: an item is a token of it, a unit a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "TaskKind")]
    pub task: Option<TaskKind>,
    /// Sentences with a scored token.
    pub sentences: u64,
    /// Tokens that were scored: masked ones, or of a discriminator all of the text.
    pub masked_tokens: u64,
    /// The mean loss of such a token with all heads, in nats.
    pub loss: Option<f64>,
    /// The loss with all heads removed.
    pub loss_without_heads: Option<f64>,
    /// Both halves of the sample, the blocks of even number first.
    pub folds: Vec<FoldOfGates>,
    /// How far a fit of one half agrees with a fit of the other on the heads that it keeps; null where a half has no fit.
    pub folds_agree: Option<FitAgreement>,
    /// Each head, layer by layer.
    pub heads: Vec<GatedHead>,
    /// The sets of kept heads alone; null where there are none to score.
    pub alone: Option<SetsAlone>,
    /// Whether the heads of the sets do the task together.
    pub together: bool,
    /// Why that is not said; null where it is.
    pub obstacle: Option<NoSet>,
}

/// The fits to one half of the sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FoldOfGates {
    /// Its blocks: `even` or `odd`.
    pub blocks: String,
    /// Its scored tokens, or items.
    pub masked_tokens: u64,
    /// Its mean loss with all heads, in nats; null where nothing was scored.
    pub loss: Option<f64>,
    /// The loss with all heads removed.
    pub loss_without_heads: Option<f64>,
    /// The price of a whole head, in nats: the band of `negligible` over this half.
    pub price: Option<f64>,
    /// The fits, by their starts.
    pub fits: Vec<FittedHeads>,
    /// How far two of these fits agree on the heads that they keep; null of fewer than two.
    pub starts_agree: Option<FitAgreement>,
    /// The heads that four of five fits keep, layer by layer.
    pub set: Vec<HeadPlace>,
}

/// A fit from one start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FittedHeads {
    /// The number of the start, from 0.
    pub start: u64,
    /// The minimised objective: loss plus the price of all gates, in nats.
    pub objective: f64,
    /// The loss alone.
    pub loss: f64,
    /// The gates that are .5 or more.
    pub kept: usize,
    /// How often the loss and its derivatives were computed.
    pub evaluations: u64,
    /// Whether the fit ended in a minimum, and not because evaluations did.
    pub converged: bool,
    /// The gate of each head, layer by layer; null of a head that is not there.
    pub gates: Vec<Option<f64>>,
}

/// How far fits agree on the heads that they keep, as means over pairs of fits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FitAgreement {
    /// The share of heads that both keep or both do not.
    #[schemars(range(min = 0, max = 1))]
    pub share: f64,
    /// Cohen's kappa: 0 as far as by chance, 1 on all heads; null where each pair has a fit that keeps all heads or none.
    pub kappa: Option<f64>,
}

/// A head in all fits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GatedHead {
    /// The head.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// How many fits keep it; null of a head that is not there, and without fits.
    pub kept: Option<usize>,
    /// How many of the fits to even blocks keep it.
    pub kept_even: Option<usize>,
    /// How many of the fits to odd blocks keep it.
    pub kept_odd: Option<usize>,
    /// Its mean gate in the fits to even blocks.
    pub gate_even: Option<f64>,
    /// Its mean gate in the fits to odd blocks.
    pub gate_odd: Option<f64>,
}

/// The sets of both halves alone, each scored on the other half: the gates of its heads are 1, all others 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SetsAlone {
    /// The heads of both sets, layer by layer.
    pub in_both: Vec<HeadPlace>,
    /// The heads of one of them.
    pub in_one: Vec<HeadPlace>,
    /// The rise of the loss above that with all heads, in nats.
    pub rise: f64,
    /// Its 95 % interval.
    pub rise_ci95: Option<Interval>,
    /// The change of the share right; absent of losses of tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "f64")]
    pub right_change: Option<f64>,
    /// Its 95 % interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Interval")]
    pub right_change_ci95: Option<Interval>,
    /// The loss that the margin is a share of.
    pub of: ShareOf,
    /// The margin: the interval of the rise ends below it where the heads do the task together.
    pub margin: f64,
    /// The rise with random sets of as many heads in their place, one after the other.
    pub random_rises: Vec<f64>,
}

/// Why no heads are said to do the task together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NoSet {
    /// A half of the sample has no scored token or item.
    NothingScored,
    /// In a half of the sample the loss does not rise when all heads are removed.
    NothingLost,
    /// The model is not shown to be right more often than without any skill.
    NotAboveBaseline,
    /// One answer is right for more than 60 % of the items.
    OneAnswer,
    /// There are fewer tokens or sentences, items or units than the policy asks for.
    TooFew,
    /// The rise has no interval: fewer than 10 blocks, or very unequal ones.
    NoInterval,
    /// The interval of the rise does not end below the margin.
    RiseNotBelow,
}

impl From<Obstacle> for NoSet {
    fn from(obstacle: Obstacle) -> Self {
        match obstacle {
            Obstacle::NotAboveBaseline => Self::NotAboveBaseline,
            Obstacle::OneAnswer => Self::OneAnswer,
            Obstacle::TooFewUnits => Self::TooFew,
        }
    }
}

impl GatesResult {
    /// The section that these fits give, the ones of even blocks first, and these sums of their sets alone.
    pub fn new<Q: Loss>(fits: [&FoldFits; 2], sums: &RemovalSums<KeptSets, Q>, context: &EstimationContext) -> Self {
        let total = sums.blocks.total();
        let Conditions { removal, objective, task } = fits[0].conditions;
        let known = fits.map(FoldFits::known);
        let units: u64 = known.iter().map(|known| known.units).sum();
        let mean = |of: fn(&FoldFits) -> f64| {
            let sum: f64 = fits.iter().map(|fold| of(fold) * fold.known().units as f64).sum();
            (units > 0).then(|| sum / units as f64)
        };
        let loss = mean(|fold| fold.known().loss);
        let loss_without_heads = mean(|fold| fold.known().loss_without_heads);
        let obstacle = if known.iter().any(|known| known.units == 0) {
            Some(NoSet::NothingScored)
        } else if known.iter().any(|known| known.band == 0.0) {
            Some(NoSet::NothingLost)
        } else {
            sums.removals.obstacle.map(NoSet::from)
        };
        let sets: Option<&[KeptSet; 2]> = sums.removals.folds.first_chunk();
        let worth = loss.zip(loss_without_heads);
        Self {
            removal,
            objective,
            task,
            sentences: total.units(),
            masked_tokens: units,
            loss,
            loss_without_heads,
            folds: [("even", 0), ("odd", 1)]
                .map(|(blocks, fold)| FoldOfGates::new(blocks, fits[fold], sets.map(|sets| &sets[fold]), context.grid))
                .into(),
            folds_agree: FitAgreement::of(
                fits[0].each().flat_map(|(_, here)| fits[1].each().map(move |(_, there)| (here, there))),
            ),
            heads: (0..context.grid.count()).map(|place| GatedHead::new(place, fits, context.grid)).collect(),
            alone: sets.zip(worth).map(|(sets, worth)| SetsAlone::new(sets, worth, sums, context.grid)),
            together: false,
            obstacle,
        }
    }

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

    pub fn fits(&self) -> usize {
        self.folds.iter().map(|fold| fold.fits.len()).sum()
    }
}

impl FoldOfGates {
    fn new(blocks: &str, fold: &FoldFits, set: Option<&KeptSet>, grid: HeadGrid) -> Self {
        let known = fold.known();
        let scored = |value: f64| (known.units > 0).then_some(value);
        let fitted = |(start, fit): (u64, &GateFit)| {
            let GateFit { gates, objective, loss, evaluations, converged } = fit.clone();
            let kept = gates.iter().flatten().filter(|&&gate| gate >= KEPT_FROM).count();
            FittedHeads { start, objective, loss, kept, evaluations, converged, gates }
        };
        let each: Vec<&GateFit> = fold.each().map(|(_, fit)| fit).collect();
        let pairs = each.iter().enumerate().flat_map(|(number, &a)| each[number + 1..].iter().map(move |&b| (a, b)));
        Self {
            blocks: blocks.to_owned(),
            masked_tokens: known.units,
            loss: scored(known.loss),
            loss_without_heads: scored(known.loss_without_heads),
            price: scored(known.band),
            fits: fold.each().map(fitted).collect(),
            starts_agree: FitAgreement::of(pairs),
            set: set.map_or_else(Vec::new, |set| heads(&set.kept, grid)),
        }
    }
}

impl FitAgreement {
    /// The mean agreement of these pairs of fits; `None` of none.
    fn of<'a>(pairs: impl Iterator<Item = (&'a GateFit, &'a GateFit)>) -> Option<Self> {
        let kept = |(a, b): (&GateFit, &GateFit)| {
            let places = 0..a.gates.len();
            let both: Vec<(bool, bool)> = places.filter_map(|place| a.keeps(place).zip(b.keeps(place))).collect();
            CategoryAgreement::of(&both)
        };
        let found: Vec<CategoryAgreement> = pairs.map(kept).collect();
        let mean = |values: Vec<f64>| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
        let share = mean(found.iter().filter_map(|pair| pair.share).collect())?;
        Some(Self { share, kappa: mean(found.iter().filter_map(|pair| pair.kappa).collect()) })
    }
}

impl GatedHead {
    fn new(place: usize, fits: [&FoldFits; 2], grid: HeadGrid) -> Self {
        let [kept_even, kept_odd] = fits.map(|fold| fold.kept(place));
        let gate = |fold: &FoldFits| {
            let gates: Option<Vec<f64>> = fold.each().map(|(_, fit)| fit.gates[place]).collect();
            gates.filter(|gates| !gates.is_empty()).map(|gates| gates.iter().sum::<f64>() / gates.len() as f64)
        };
        let [gate_even, gate_odd] = fits.map(gate);
        let halves = [kept_even, kept_odd];
        let kept = halves.iter().any(Option::is_some).then(|| halves.iter().flatten().sum());
        Self { place: grid.place(place), kept, kept_even, kept_odd, gate_even, gate_odd }
    }
}

impl SetsAlone {
    fn new<Q: Loss>(
        sets: &[KeptSet; 2],
        (loss, loss_without_heads): (f64, f64),
        sums: &RemovalSums<KeptSets, Q>,
        grid: HeadGrid,
    ) -> Self {
        // In blocks of either parity the set of the other is alone; nothing changes where no head is gone.
        let changes = |others: &dyn Fn(&KeptSet) -> Vec<usize>, change: &dyn Fn(&Q, usize) -> f64| -> PerBlock {
            let variants = [&sets[1], &sets[0]].map(|set| {
                let others = others(set);
                (!others.is_empty()).then(|| sums.variant_without(&others))
            });
            std::array::from_fn(|block| variants[block % 2].map_or(0.0, |without| change(&sums.blocks[block], without)))
        };
        let tokens = sums.per_block(|block| block.tokens() as f64);
        let rise = |others: &dyn Fn(&KeptSet) -> Vec<usize>| {
            Jackknife::new(&changes(others, &|block, without| block.change(without)), &tokens)
        };
        let others = |set: &KeptSet| set.without(&set.kept);
        let alone = rise(&others);
        let task = sums.conditions.task;
        let of_right = task.map(|_| {
            let change = |block: &Q, without| block.right(Some(without)) - block.right(None);
            Jackknife::new(&changes(&others, &change), &sums.per_block(Q::predictions))
        });
        // The loss of other items may be below 0.
        let of = if task.is_none_or(TaskKind::is_of_classes) { ShareOf::Loss } else { ShareOf::AllHeads };
        let basis = if of == ShareOf::Loss { loss } else { loss_without_heads - loss };
        let [even, odd] = sets.each_ref().map(|set| set.kept.iter().copied().collect::<BTreeSet<_>>());
        Self {
            in_both: heads(&even.intersection(&odd).copied().collect::<Vec<_>>(), grid),
            in_one: heads(&even.symmetric_difference(&odd).copied().collect::<Vec<_>>(), grid),
            rise: alone.all(),
            rise_ci95: alone.interval(),
            right_change: of_right.as_ref().map(Jackknife::all),
            right_change_ci95: of_right.as_ref().and_then(Jackknife::interval),
            of,
            margin: ALLOWED * basis,
            random_rises: (0..sets[0].random.len())
                .map(|number| rise(&|set| set.without(&set.random[number])).all())
                .collect(),
        }
    }
}

fn heads(places: &[usize], grid: HeadGrid) -> Vec<HeadPlace> {
    places.iter().map(|&place| grid.place(place)).collect()
}

stored!(GatesResult as gates);
