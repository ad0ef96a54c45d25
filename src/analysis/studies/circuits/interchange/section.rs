//! The section `interchange` of the report: what the corruption destroys, and how much of that each head restores and destroys.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sums::{ExchangedItem, InterchangeSums, Items};
use crate::model::grid::HeadPlace;
use crate::sequences::derived::task::ExchangedPositions;
use crate::stats::block_test::{Estimate, Jackknife};
use crate::stats::interval::Interval;
use crate::stats::significance::q_of_those_above;
use crate::study::labels::evidence::{LABEL_Q, MIN_QUERIES, MIN_SENTENCES};
use crate::study::labels::policy::Policy;
use crate::study::metrics::estimates::{Estimates, EstimationContext};
use crate::study::section::stored;

/// The share of the gap that a head must exceed for a verdict: 5 %.
const MARGIN: f64 = 0.05;

/// The standard errors above 0 of the summed gap below which no share of it is given: with a denominator of 4 standard errors a ratio
/// strays by a quarter of itself, with fewer its jackknife interval no longer covers (Efron & Tibshirani 1993, chapter 11).
const GAP_ERRORS: f64 = 4.0;

/// Results of exchanging the contexts of heads between the texts of a task and their corrupted texts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InterchangeResult {
    /// Where contexts are exchanged; null where no item was run.
    pub positions: Option<ExchangedPositions>,
    /// Items that were run with their corrupted text.
    pub items: u64,
    /// Families or documents that they are of; each item is one where the file names none.
    pub units: u64,
    /// Items of the file that were not (`settings.task.interchange.skipped` has the reasons).
    pub items_skipped: u64,
    /// The corruptions by name.
    pub corruptions: Vec<CorruptionOfItems>,
    /// How much the corruption lowers the score of an item, in nats: its mean.
    pub gap: Option<f64>,
    /// Its 95 % interval.
    pub gap_ci95: Option<Interval>,
    /// Whether the gap is 4 standard errors above 0, without which no head has a share of it.
    pub gap_is_shown: bool,
    /// The share of items whose score the corruption does not lower.
    #[schemars(range(min = 0, max = 1))]
    pub not_lowered: Option<f64>,
    /// How many heads have each verdict.
    pub verdicts: VerdictCounts,
    /// Each head, layer by layer.
    pub heads: Vec<ExchangedHead>,
}

/// The items of one corruption.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CorruptionOfItems {
    /// Its name in the file; null where it has none.
    pub name: Option<String>,
    /// Items.
    pub items: u64,
    /// Tokens of their texts, together; special ones do not count.
    pub tokens: u64,
    /// How many of these are others in the corrupted texts.
    pub changed: u64,
}

/// A verdict on a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExchangeVerdict {
    /// It restores and is needed.
    Carries,
    /// It restores more than 5 % of the gap.
    Restores,
    /// It destroys more than 5 % of the gap.
    Needed,
    /// It restores or destroys less than -5 % of the gap.
    Opposes,
}

/// How many heads have each verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerdictCounts {
    /// Heads that carry.
    pub carries: u64,
    /// Heads that restore, and are not needed.
    pub restores: u64,
    /// Heads that are needed, and do not restore.
    pub needed: u64,
    /// Heads that oppose, whatever else they do.
    pub opposes: u64,
}

/// A head whose contexts are exchanged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExchangedHead {
    /// The head.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// Its metric `restored`.
    pub restored: Option<f64>,
    /// Its 95 % interval.
    pub restored_ci95: Option<Interval>,
    /// The tests of it.
    pub restored_tests: ShareTests,
    /// Its metric `destroyed`.
    pub destroyed: Option<f64>,
    /// Its 95 % interval.
    pub destroyed_ci95: Option<Interval>,
    /// The tests of it.
    pub destroyed_tests: ShareTests,
    /// Its verdicts: none where nothing is shown.
    pub verdicts: Vec<ExchangeVerdict>,
}

/// Tests of a share of the gap against 5 % of it in either direction: of the sum over items of change and margin, since the test of
/// the ratio itself rejects too seldom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShareTests {
    /// The one-sided p-value of being above 5 %; null where there is no standard error.
    #[schemars(range(min = 0, max = 1))]
    pub p_above: Option<f64>,
    /// Twice that, corrected by Benjamini & Hochberg for both shares of all heads that are above 5 %; null where this is not.
    #[schemars(range(min = 0, max = 1))]
    pub q_above: Option<f64>,
    /// The one-sided p-value of being below -5 %.
    #[schemars(range(min = 0, max = 1))]
    pub p_below: Option<f64>,
    /// As `q_above`, for the shares below -5 %.
    #[schemars(range(min = 0, max = 1))]
    pub q_below: Option<f64>,
}

/// The mean over items of a number, left out block by block.
fn mean(sums: &InterchangeSums, part: impl Fn(&ExchangedItem) -> f64) -> Jackknife {
    let items = sums.per_block(|items: &Items| items.len() as f64);
    Jackknife::new(&sums.per_block(|items: &Items| items.values().map(&part).sum()), &items)
}

impl InterchangeResult {
    /// The section that these sums give, without the metrics of heads.
    pub fn new(sums: &InterchangeSums, items_skipped: u64, context: &EstimationContext) -> Self {
        let total = sums.blocks.total();
        let gap = mean(sums, ExchangedItem::gap);
        let is_shown = |gap: Estimate| gap.value > 0.0 && gap.value >= GAP_ERRORS * gap.standard_error;
        let gap_is_shown = gap.estimate().is_some_and(is_shown);
        let not_lowered = total.values().filter(|item| item.gap() <= 0.0).count();
        let tests = |change: &dyn Fn(&ExchangedItem) -> f64| {
            let above = mean(sums, |item| change(item) - MARGIN * item.gap());
            let below = mean(sums, |item| change(item) + MARGIN * item.gap());
            // Until they are corrected, `q_above` and `q_below` are the p-values of those beyond the margin.
            let p_above = above.p_above(0.0).filter(|_| gap_is_shown);
            let p_below = below.estimate().map(|below| below.p_below(0.0)).filter(|_| gap_is_shown);
            let (q_above, q_below) = (p_above.filter(|_| above.all() > 0.0), p_below.filter(|_| below.all() < 0.0));
            ShareTests { p_above, q_above, p_below, q_below }
        };
        let head = |place: usize| ExchangedHead {
            place: context.grid.place(place),
            restored: None,
            restored_ci95: None,
            restored_tests: tests(&|item| item.restored(place)),
            destroyed: None,
            destroyed_ci95: None,
            destroyed_tests: tests(&|item| item.destroyed(place)),
            verdicts: Vec::new(),
        };
        let mut heads: Vec<ExchangedHead> = (0..context.grid.count()).map(head).collect();
        correct(&mut heads, |tests| &mut tests.q_above);
        correct(&mut heads, |tests| &mut tests.q_below);
        Self {
            positions: total.values().next().map(|item| item.positions),
            items: total.len() as u64,
            units: total.values().filter(|item| item.is_first).count() as u64,
            items_skipped,
            corruptions: corruptions(&total),
            gap: Some(gap.all()).filter(|gap| gap.is_finite()),
            gap_ci95: gap.interval(),
            gap_is_shown,
            not_lowered: (!total.is_empty()).then(|| not_lowered as f64 / total.len() as f64),
            verdicts: VerdictCounts::default(),
            heads,
        }
    }

    pub fn with_metrics(mut self, estimates: &Estimates) -> Self {
        for (place, head) in self.heads.iter_mut().enumerate() {
            let value = |metric: &str| estimates.heads[place].get(metric, None).copied().flatten();
            let ci95 = |metric: &str| estimates.ci95[place].get(metric, None).copied().flatten();
            (head.restored, head.restored_ci95) = (value("restored"), ci95("restored"));
            (head.destroyed, head.destroyed_ci95) = (value("destroyed"), ci95("destroyed"));
        }
        self
    }

    /// Whether its items have several corruptions, so that a verdict would hold for none of them.
    pub fn is_mixed(&self) -> bool {
        self.corruptions.len() > 1
    }

    pub fn judge(&mut self, policy: &Policy) {
        use ExchangeVerdict::{Carries, Needed, Opposes, Restores};
        let most = policy.rule(&LABEL_Q).unwrap_or(1.0);
        let enough = self.items >= policy.count(&MIN_QUERIES) && self.units >= policy.count(&MIN_SENTENCES);
        let enough = enough && !self.is_mixed();
        let is_shown = |q: Option<f64>| enough && q.is_some_and(|q| q <= most);
        for ExchangedHead { restored_tests, destroyed_tests, verdicts, .. } in &mut self.heads {
            let both = [restored_tests, destroyed_tests];
            let does = match both.each_ref().map(|tests| is_shown(tests.q_above)) {
                [true, true] => Some(Carries),
                [true, false] => Some(Restores),
                [false, true] => Some(Needed),
                [false, false] => None,
            };
            let opposes = both.iter().any(|tests| is_shown(tests.q_below)).then_some(Opposes);
            *verdicts = does.into_iter().chain(opposes).collect();
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

/// Puts q-values in place of the p-values of both shares of all heads.
fn correct(heads: &mut [ExchangedHead], of: impl Fn(&mut ShareTests) -> &mut Option<f64>) {
    let both = |head: &mut ExchangedHead| [*of(&mut head.restored_tests), *of(&mut head.destroyed_tests)];
    let p: Vec<Option<f64>> = heads.iter_mut().flat_map(both).collect();
    for (head, q) in heads.iter_mut().zip(q_of_those_above(&p).chunks_exact(2)) {
        (*of(&mut head.restored_tests), *of(&mut head.destroyed_tests)) = (q[0], q[1]);
    }
}

fn corruptions(items: &Items) -> Vec<CorruptionOfItems> {
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

impl ExchangeVerdict {
    pub fn words(self) -> &'static str {
        match self {
            Self::Carries => "carries",
            Self::Restores => "restores",
            Self::Needed => "needed",
            Self::Opposes => "opposes",
        }
    }
}

stored!(InterchangeResult as interchange);
