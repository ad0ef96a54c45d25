//! Effect of removing each head on the model's prediction loss or the loss of a task, with tests and verdict.

use itertools::Itertools;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::grid::HeadPlace;
use crate::stats::interval::Interval;
use crate::stats::significance::{q_values_above_margin, q_values_of_present};
use crate::study::labels::evidence::LABEL_Q;
use crate::study::show::figure::{Chart, Forest, ForestRow, Mark};
use crate::study::{Estimates, EstimationContext, Policy};
use crate::system::counts::{format_count, plural};

/// Verdict on removing a head. `negligible` is also a separate field: an effect can be both significant and negligible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The loss rises without the head: `q` is at most `settings.policy.label_q`.
    Helpful,
    /// The loss falls without the head: `q` is at most `settings.policy.label_q`.
    Harmful,
    /// Neither a rise nor a fall is significant, and the effect is shown to be negligible.
    Negligible,
    /// No test is significant: the head is not shown to be helpful, harmful or negligible.
    Undecided,
}

/// Number of heads with each verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verdicts {
    /// Number of helpful heads.
    pub helpful: u64,
    /// Number of harmful heads.
    pub harmful: u64,
    /// Number of heads whose verdict is negligible.
    pub negligible: u64,
    /// Number of undecided heads.
    pub undecided: u64,
    /// Number of helpful or harmful heads whose effect is negligible as well.
    #[serde(default)]
    pub also_negligible: u64,
}

/// Effect of removing one head on the loss.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeadEffect {
    /// Head that is removed.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// Loss without the head minus loss with it, per scored token or task item, in nats.
    pub effect: Option<f64>,
    /// 95 % interval of `effect`.
    pub ci95: Option<Interval>,
    /// Two-sided p-value of the block test of `effect` against 0; null if there is no standard error.
    #[schemars(range(min = 0, max = 1))]
    pub p: Option<f64>,
    /// `p` corrected by Benjamini & Hochberg for all heads.
    #[schemars(range(min = 0, max = 1))]
    pub q: Option<f64>,
    /// p-value of the equivalence test (TOST): the larger p-value against either end of the band. Null without a standard error.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1))]
    pub p_negligible: Option<f64>,
    /// q-value: twice `p_negligible`, corrected by Benjamini & Hochberg for all heads with an effect within the band; null for
    /// other heads.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1))]
    pub q_negligible: Option<f64>,
    /// Verdict on removing the head. Null if not removed alone (`settings.ablation.effect_of`), or if the task allows none.
    pub verdict: Option<Verdict>,
    /// Whether the effect is negligible: `q_negligible` is at most `settings.policy.label_q`. Helpful and harmful heads can be
    /// negligible.
    #[serde(default)]
    pub negligible: bool,
    /// Whether the head is removed throughout the run (`--remove`). Every loss is then without it, its effect is 0, and it is not
    /// tested.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub removed: bool,
}

/// Effect of removing each head on the loss `metric`, with tests against 0 and against `band`, the equivalence
/// margin. `None` for `band` leaves out the equivalence test.
pub fn head_effects(
    metric: &str,
    estimates: &Estimates,
    band: Option<f64>,
    context: &EstimationContext,
) -> Vec<HeadEffect> {
    let head = |place: usize| {
        let (effect, ci95, estimate) = estimates.metric_estimate(place, metric);
        let estimate = estimate.filter(|_| context.is_active_head(place));
        HeadEffect {
            place: context.grid.head_place(place),
            effect,
            ci95,
            p: estimate.map(|estimate| estimate.p_different(0.0)),
            q: None,
            p_negligible: estimate.zip(band).map(|(estimate, band)| estimate.p_between(-band, band)),
            q_negligible: None,
            verdict: effect.filter(|_| context.is_active_head(place)).map(|_| Verdict::Undecided),
            negligible: false,
            removed: !context.is_active_head(place) && context.has_head(place),
        }
    };
    let mut heads: Vec<HeadEffect> = (0..context.grid.head_count()).map(head).collect();
    set_q_values(&mut heads, band);
    heads
}

/// Sets the q-values of two families of tests. One tests the difference from 0, over all heads; the other tests
/// equivalence, over heads with an effect within the equivalence margins ±`band`.
fn set_q_values(heads: &mut [HeadEffect], band: Option<f64>) {
    let p: Vec<Option<f64>> = heads.iter().map(|head| head.p).collect();
    heads.iter_mut().zip(q_values_of_present(&p)).for_each(|(head, q)| head.q = q);
    let is_within = |head: &HeadEffect| head.effect.zip(band).is_some_and(|(effect, band)| effect.abs() < band);
    let within: Vec<Option<f64>> = heads.iter().map(|head| head.p_negligible.filter(|_| is_within(head))).collect();
    heads.iter_mut().zip(q_values_above_margin(&within)).for_each(|(head, q)| head.q_negligible = q);
}

/// Sets the verdict of each head that was removed alone, and counts the verdicts. No test is significant if
/// `enough` is false (too few tokens or sentences).
pub fn set_verdicts<'a>(
    heads: impl IntoIterator<Item = &'a mut HeadEffect>,
    enough: bool,
    policy: &Policy,
) -> Verdicts {
    let max_q = policy.rule(&LABEL_Q).unwrap_or(1.0);
    let significant = |q: Option<f64>| enough && q.is_some_and(|q| q <= max_q);
    let mut verdicts = Verdicts::default();
    for head in heads {
        let Some(effect) = head.effect.filter(|_| head.verdict.is_some()) else { continue };
        head.negligible = significant(head.q_negligible);
        let verdict = match (significant(head.q), head.negligible) {
            (true, _) if effect > 0.0 => Verdict::Helpful,
            (true, _) if effect < 0.0 => Verdict::Harmful,
            (_, true) => Verdict::Negligible,
            _ => Verdict::Undecided,
        };
        head.verdict = Some(verdict);
        *match verdict {
            Verdict::Helpful => &mut verdicts.helpful,
            Verdict::Harmful => &mut verdicts.harmful,
            Verdict::Negligible => &mut verdicts.negligible,
            Verdict::Undecided => &mut verdicts.undecided,
        } += 1;
        verdicts.also_negligible += u64::from(head.negligible && verdict != Verdict::Negligible);
    }
    verdicts
}

impl HeadEffect {
    /// Effect of removing the head alone. `None` if the head was not removed alone, or if it is removed throughout
    /// the run.
    pub fn single_removal_effect(&self) -> Option<f64> {
        self.effect.filter(|_| !self.removed)
    }

    pub fn verdict_text(&self) -> String {
        let verdict = self.verdict.map_or("not judged", Verdict::name);
        let also = if self.negligible && self.verdict != Some(Verdict::Negligible) { ", negligible" } else { "" };
        format!("{verdict}{also}")
    }
}

/// Whether a count is 0; reports leave such a count out.
pub fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// Lists the heads that were removed alone with their effects, the largest first.
pub fn ranked_by_effect<T>(heads: &[T], effect_of: impl Fn(&T) -> &HeadEffect) -> Vec<(f64, &T)> {
    let effects = heads.iter().filter_map(|head| Some((effect_of(head).single_removal_effect()?, head)));
    effects.sorted_by(|a, b| b.0.total_cmp(&a.0)).collect()
}

/// Number of heads that a forest plot shows at each end of the ranking.
const HALF_FOREST_ROWS: usize = 12;

/// Draws ranked heads as a forest plot, and writes how many heads in the middle are left out.
pub fn effect_forest(scale: &str, order: &[&HeadEffect]) -> (Chart, String) {
    let row = |head: &HeadEffect| ForestRow {
        name: head.place.to_string(),
        note: head.verdict_text(),
        marks: vec![Mark::from_value(head.effect, head.ci95)],
    };
    let last = order.len().saturating_sub(HALF_FOREST_ROWS).max(HALF_FOREST_ROWS);
    let shown = order.iter().enumerate().filter(|(rank, _)| *rank < HALF_FOREST_ROWS || *rank >= last);
    let left_out = match order.len().saturating_sub(2 * HALF_FOREST_ROWS) {
        0 => String::new(),
        heads => format!(" {} in between {} left out.", format_count(heads, "head"), plural(&heads, "is", "are")),
    };
    let rows = shown.map(|(_, head)| row(head)).collect();
    (Chart::Forest(Forest::with_zero_line(scale, ["effect"], rows)), left_out)
}

/// Shortens a table to `2 * rows_per_end` rows: the first `rows_per_end`, a row that counts the omitted ones, and the
/// last `rows_per_end - 1`.
pub fn shorten_to_both_ends(mut rows: Vec<Vec<String>>, rows_per_end: usize) -> Vec<Vec<String>> {
    if rows.len() > 2 * rows_per_end {
        let last = rows.len() + 1 - rows_per_end;
        rows.splice(rows_per_end..last, [vec!["...".to_owned(), format!("{} more", last - rows_per_end)]]);
    }
    rows
}

impl Verdicts {
    pub fn counts_text(self) -> String {
        let Self { helpful, harmful, negligible, undecided, .. } = self;
        let named = [(helpful, "helpful"), (harmful, "harmful"), (negligible, "negligible"), (undecided, "undecided")];
        let named = named.iter().filter(|(count, _)| *count > 0);
        named.map(|(count, verdict)| format!("{count} {} {verdict}", plural(count, "is", "are"))).join(", ")
    }
}

impl Verdict {
    pub fn name(self) -> &'static str {
        match self {
            Self::Helpful => "helpful",
            Self::Harmful => "harmful",
            Self::Negligible => "negligible",
            Self::Undecided => "undecided",
        }
    }
}
