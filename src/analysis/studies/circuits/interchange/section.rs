//! Report section `interchange`: score lost by corrupting an item's text, and the share that each head restores or destroys.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sums::{ExchangedItem, ExchangedItems, InterchangeSums};
use crate::model::grid::HeadPlace;
use crate::sequences::derived::task::ExchangedPositions;
use crate::stats::block_test::{Estimate, Jackknife};
use crate::stats::interval::Interval;
use crate::stats::significance::q_values_above_margin;
use crate::study::labels::evidence::{LABEL_Q, MIN_QUERIES, MIN_SENTENCES};
use crate::study::labels::policy::Policy;
use crate::study::metrics::estimates::{Estimates, EstimationContext};
use crate::study::section::stored;

/// Share of the gap that a head must exceed for a verdict: 5 %. The gap is the score lost by corrupting the text.
const MIN_SHARE_OF_GAP: f64 = 0.05;

/// Number of standard errors by which the summed gap must exceed 0 before shares of it are given.
///
/// At 4 standard errors a ratio is off by about a quarter. Below, its jackknife interval no longer covers the truth
/// (Efron & Tibshirani 1993, chapter 11).
const MIN_GAP_STANDARD_ERRORS: f64 = 4.0;

/// Activation patching: effect of exchanging head contexts between the texts of a task and their corrupted texts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InterchangeResult {
    /// Positions at which contexts are exchanged; null if no item was run.
    pub positions: Option<ExchangedPositions>,
    /// Number of items that were run with their corrupted text.
    pub items: u64,
    /// Number of sampling units: items with the same `family` or document are one unit, and an item that names none is its own.
    pub units: u64,
    /// Number of items in the file that were not run (`settings.task.interchange.skipped` has the reasons).
    pub items_skipped: u64,
    /// Number of items and tokens for each corruption, sorted by the name of the corruption.
    pub corruptions: Vec<CorruptionOfItems>,
    /// Gap: mean fall of an item's score through the corruption, in nats; null if no item was run.
    pub gap: Option<f64>,
    /// 95 % interval of `gap`; null where fewer than 10 blocks have an item, or their numbers of items are very unequal.
    pub gap_ci95: Option<Interval>,
    /// Whether `gap` is at least 4 standard errors above 0; otherwise no head has a share of it.
    pub gap_is_shown: bool,
    /// Share of items whose score the corruption does not lower; null if no item was run.
    #[schemars(range(min = 0, max = 1))]
    pub not_lowered: Option<f64>,
    /// Number of heads with each verdict.
    pub verdicts: VerdictCounts,
    /// Results for each head, layer by layer.
    pub heads: Vec<ExchangedHead>,
}

/// Number of items and tokens for one corruption, a kind of change that the task file names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CorruptionOfItems {
    /// Name of the corruption in the task file; null if it has none.
    pub name: Option<String>,
    /// Number of items with the corruption.
    pub items: u64,
    /// Number of tokens in the items' texts, without special tokens.
    pub tokens: u64,
    /// Number of tokens of the items' texts that differ in the corrupted texts.
    pub changed: u64,
}

/// Verdict on what a head carries from a text to its corrupted version. The gap (`gap`) is the score lost by corrupting the
/// text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExchangeVerdict {
    /// The head both restores and destroys more than 5 % of the gap.
    Carries,
    /// The head restores more than 5 % of the gap.
    Restores,
    /// The head destroys more than 5 % of the gap.
    Needed,
    /// The head restores or destroys less than -5 % of the gap: it acts against the answer.
    Opposes,
}

/// Number of heads with each verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerdictCounts {
    /// Number of heads that carry the answer.
    pub carries: u64,
    /// Number of heads that restore the answer, but are not needed.
    pub restores: u64,
    /// Number of heads that are needed, but do not restore the answer.
    pub needed: u64,
    /// Number of heads that oppose the answer, with or without another verdict.
    pub opposes: u64,
}

/// Effect of exchanging one head's contexts between texts and corrupted texts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExchangedHead {
    /// Head whose contexts are exchanged.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// Share of `gap` that the corrupted text regains with the head's contexts from the clean text; null unless `gap_is_shown`.
    pub restored: Option<f64>,
    /// 95 % interval of `restored`.
    pub restored_ci95: Option<Interval>,
    /// Tests of `restored` against ±5 %.
    pub restored_tests: ShareTests,
    /// Share of `gap` that the clean text loses with the head's contexts from the corrupted text; null unless `gap_is_shown`.
    pub destroyed: Option<f64>,
    /// 95 % interval of `destroyed`.
    pub destroyed_ci95: Option<Interval>,
    /// Tests of `destroyed` against ±5 %.
    pub destroyed_tests: ShareTests,
    /// Verdicts on the head; empty if none is significant.
    pub verdicts: Vec<ExchangeVerdict>,
}

/// Block tests of a share of `gap` against 5 % and -5 %. They test the score change minus (or plus) 5 % of the gap against 0,
/// since a test of the ratio rejects too seldom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShareTests {
    /// One-sided p-value that the share is above 5 %; null if there is no standard error, or if `gap_is_shown` is false.
    #[schemars(range(min = 0, max = 1))]
    pub p_above: Option<f64>,
    /// q-value: `2 p_above`, corrected by Benjamini & Hochberg over all restored and destroyed shares above 5 %. Null if this
    /// share is not above 5 %, or `p_above` is null.
    #[schemars(range(min = 0, max = 1))]
    pub q_above: Option<f64>,
    /// One-sided p-value that the share is below -5 %; null if there is no standard error, or if `gap_is_shown` is false.
    #[schemars(range(min = 0, max = 1))]
    pub p_below: Option<f64>,
    /// q-value: `2 p_below`, corrected like `q_above` over all shares below -5 %. Null if this share is not below -5 %, or
    /// `p_below` is null.
    #[schemars(range(min = 0, max = 1))]
    pub q_below: Option<f64>,
}

/// Mean of `part` over items, with its jackknife over blocks.
fn item_mean(sums: &InterchangeSums, part: impl Fn(&ExchangedItem) -> f64) -> Jackknife {
    let items = sums.per_block(|items: &ExchangedItems| items.len() as f64);
    Jackknife::new(&sums.per_block(|items: &ExchangedItems| items.values().map(&part).sum()), &items)
}

impl InterchangeResult {
    /// Builds the section from the sums, without the heads' metrics, which `with_metrics` adds.
    pub fn new(sums: &InterchangeSums, items_skipped: u64, context: &EstimationContext) -> Self {
        let total = sums.blocks.total();
        let gap = item_mean(sums, ExchangedItem::gap);
        let is_shown = |gap: Estimate| gap.value > 0.0 && gap.value >= MIN_GAP_STANDARD_ERRORS * gap.standard_error;
        let gap_is_shown = gap.estimate().is_some_and(is_shown);
        let not_lowered = total.values().filter(|item| item.gap() <= 0.0).count();
        let tests = |change: &dyn Fn(&ExchangedItem) -> f64| {
            let above = item_mean(sums, |item| change(item) - MIN_SHARE_OF_GAP * item.gap());
            let below = item_mean(sums, |item| change(item) + MIN_SHARE_OF_GAP * item.gap());
            // Until they are corrected, `q_above` and `q_below` are the p-values of those beyond the margin.
            let p_above = above.p_above(0.0).filter(|_| gap_is_shown);
            let p_below = below.estimate().map(|below| below.p_below(0.0)).filter(|_| gap_is_shown);
            let (q_above, q_below) = (p_above.filter(|_| above.value() > 0.0), p_below.filter(|_| below.value() < 0.0));
            ShareTests { p_above, q_above, p_below, q_below }
        };
        let head = |place: usize| ExchangedHead {
            place: context.grid.head_place(place),
            restored: None,
            restored_ci95: None,
            restored_tests: tests(&|item| item.restored_score(place)),
            destroyed: None,
            destroyed_ci95: None,
            destroyed_tests: tests(&|item| item.destroyed_score(place)),
            verdicts: Vec::new(),
        };
        let mut heads: Vec<ExchangedHead> = (0..context.grid.head_count()).map(head).collect();
        correct_p_values(&mut heads, |tests| &mut tests.q_above);
        correct_p_values(&mut heads, |tests| &mut tests.q_below);
        Self {
            positions: total.values().next().map(|item| item.positions),
            items: total.len() as u64,
            units: total.values().filter(|item| item.is_first).count() as u64,
            items_skipped,
            corruptions: items_by_corruption(&total),
            gap: Some(gap.value()).filter(|gap| gap.is_finite()),
            gap_ci95: gap.interval(),
            gap_is_shown,
            not_lowered: (!total.is_empty()).then(|| not_lowered as f64 / total.len() as f64),
            verdicts: VerdictCounts::default(),
            heads,
        }
    }

    /// Adds each head's metrics `restored` and `destroyed`, with their intervals.
    pub fn with_metrics(mut self, estimates: &Estimates) -> Self {
        for (place, head) in self.heads.iter_mut().enumerate() {
            (head.restored, head.restored_ci95, _) = estimates.metric_estimate(place, "restored");
            (head.destroyed, head.destroyed_ci95, _) = estimates.metric_estimate(place, "destroyed");
        }
        self
    }

    /// Whether the items have several corruptions, so that a verdict would hold for none of them.
    pub fn has_several_corruptions(&self) -> bool {
        self.corruptions.len() > 1
    }

    /// Gives each head the verdicts that are significant under `policy`.
    pub fn judge(&mut self, policy: &Policy) {
        use ExchangeVerdict::{Carries, Needed, Opposes, Restores};
        let max_q = policy.rule(&LABEL_Q).unwrap_or(1.0);
        let enough = self.items >= policy.count(&MIN_QUERIES) && self.units >= policy.count(&MIN_SENTENCES);
        let enough = enough && !self.has_several_corruptions();
        let is_shown = |q: Option<f64>| enough && q.is_some_and(|q| q <= max_q);
        for ExchangedHead { restored_tests, destroyed_tests, verdicts, .. } in &mut self.heads {
            let tests_of_both = [restored_tests, destroyed_tests];
            let verdict = match tests_of_both.each_ref().map(|tests| is_shown(tests.q_above)) {
                [true, true] => Some(Carries),
                [true, false] => Some(Restores),
                [false, true] => Some(Needed),
                [false, false] => None,
            };
            let opposes = tests_of_both.iter().any(|tests| is_shown(tests.q_below)).then_some(Opposes);
            *verdicts = verdict.into_iter().chain(opposes).collect();
        }
        let count = |verdict| self.heads.iter().filter(|head| head.verdicts.contains(&verdict)).count() as u64;
        self.verdicts = VerdictCounts {
            carries: count(Carries),
            restores: count(Restores),
            needed: count(Needed),
            opposes: count(Opposes),
        };
    }
}

/// Turns the p-values of all heads' restored and destroyed shares into q-values.
fn correct_p_values(heads: &mut [ExchangedHead], p_of: impl Fn(&mut ShareTests) -> &mut Option<f64>) {
    let both_p = |head: &mut ExchangedHead| [*p_of(&mut head.restored_tests), *p_of(&mut head.destroyed_tests)];
    let p: Vec<Option<f64>> = heads.iter_mut().flat_map(both_p).collect();
    for (head, q) in heads.iter_mut().zip(q_values_above_margin(&p).chunks_exact(2)) {
        (*p_of(&mut head.restored_tests), *p_of(&mut head.destroyed_tests)) = (q[0], q[1]);
    }
}

/// Counts the items and tokens of each kind of corruption, in order of its name.
fn items_by_corruption(items: &ExchangedItems) -> Vec<CorruptionOfItems> {
    let mut named: BTreeMap<&Option<String>, CorruptionOfItems> = BTreeMap::new();
    for ExchangedItem { corruption, tokens: [tokens, changed], .. } in items.values() {
        let empty = || CorruptionOfItems { name: corruption.clone(), items: 0, tokens: 0, changed: 0 };
        let of_name = named.entry(corruption).or_insert_with(empty);
        of_name.items += 1;
        of_name.tokens += tokens;
        of_name.changed += changed;
    }
    named.into_values().collect()
}

stored!(InterchangeResult as interchange);
