//! Effect of removing each head on the training loss or the loss of a task, with tests and verdict.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::grid::HeadPlace;
use crate::stats::interval::Interval;
use crate::stats::significance::{q_of_those_above, q_of_those_tested};
use crate::study::labels::evidence::LABEL_Q;
use crate::study::show::figure::{Chart, Forest, ForestRow, Mark};
use crate::study::{Estimates, EstimationContext, Policy};
use crate::system::counted::{counted, plural};

/// Verdict on removing a head. `negligible` is a separate field, for an effect can be both significant and negligible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The loss rises: `q` is at most `settings.policy.label_q`.
    Helpful,
    /// The loss falls: `q` is at most `settings.policy.label_q`.
    Harmful,
    /// Neither a rise nor a fall is significant, and the effect is shown to be negligible.
    Negligible,
    /// No test is significant: the head is not shown to be helpful, harmful or negligible.
    Undecided,
}

/// How many heads have each verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verdicts {
    /// Heads that are helpful.
    pub helpful: u64,
    /// Heads that are harmful.
    pub harmful: u64,
    /// Heads that are negligible.
    pub negligible: u64,
    /// Heads that are undecided.
    pub undecided: u64,
    /// Heads among the helpful and the harmful ones that are negligible as well.
    #[serde(default)]
    pub also_negligible: u64,
}

/// The effect of one head.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeadEffect {
    /// The head.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// The loss without the head less that with it, per scored token, or per item of a task, in nats.
    pub effect: Option<f64>,
    /// Its 95 % interval.
    pub ci95: Option<Interval>,
    /// The two-sided p-value of the block test against 0; null where there is no standard error.
    #[schemars(range(min = 0, max = 1))]
    pub p: Option<f64>,
    /// `p` corrected by Benjamini & Hochberg for all heads.
    #[schemars(range(min = 0, max = 1))]
    pub q: Option<f64>,
    /// The p-value of the equivalence test (TOST): the larger of the two one-sided p-values against the ends of the band; null
    /// where there is no standard error.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1))]
    pub p_negligible: Option<f64>,
    /// Twice `p_negligible`, corrected by Benjamini & Hochberg for all heads with an effect within the band; null for others.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1))]
    pub q_negligible: Option<f64>,
    /// Verdict on removing the head; null where the head was not removed by itself (`settings.ablation.effect_of`), or the task
    /// allows no verdict.
    pub verdict: Option<Verdict>,
    /// Whether the effect is negligible: `q_negligible` is at most `settings.policy.label_q`. Helpful and harmful heads can be
    /// negligible.
    #[serde(default)]
    pub negligible: bool,
    /// Whether the run removed the head (`--remove`): every loss is without it, its effect is 0, and no test is about it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub removed: bool,
}

pub fn head_effects(
    metric: &str,
    estimates: &Estimates,
    band: Option<f64>,
    context: &EstimationContext,
) -> Vec<HeadEffect> {
    let head = |place: usize| {
        let (effect, ci95, estimate) = estimates.of_metric(place, metric);
        let estimate = estimate.filter(|_| context.takes_part(place));
        HeadEffect {
            place: context.grid.place(place),
            effect,
            ci95,
            p: estimate.map(|estimate| estimate.p_different(0.0)),
            q: None,
            p_negligible: estimate.zip(band).map(|(estimate, band)| estimate.p_between(-band, band)),
            q_negligible: None,
            verdict: effect.filter(|_| context.takes_part(place)).map(|_| Verdict::Undecided),
            negligible: false,
            removed: !context.takes_part(place) && context.has(place),
        }
    };
    let mut heads: Vec<HeadEffect> = (0..context.grid.count()).map(head).collect();
    correct(&mut heads, band);
    heads
}

/// Sets the q-values of two families of tests: difference from 0, over all heads, and equivalence, over heads with an effect in
/// the band.
fn correct(heads: &mut [HeadEffect], band: Option<f64>) {
    let p: Vec<Option<f64>> = heads.iter().map(|head| head.p).collect();
    heads.iter_mut().zip(q_of_those_tested(&p)).for_each(|(head, q)| head.q = q);
    let is_within = |head: &HeadEffect| head.effect.zip(band).is_some_and(|(effect, band)| effect.abs() < band);
    let within: Vec<Option<f64>> = heads.iter().map(|head| head.p_negligible.filter(|_| is_within(head))).collect();
    heads.iter_mut().zip(q_of_those_above(&within)).for_each(|(head, q)| head.q_negligible = q);
}

/// Sets the verdict of each head that was removed by itself, and counts the verdicts. No test is significant unless `enough`.
pub fn judge<'a>(heads: impl IntoIterator<Item = &'a mut HeadEffect>, enough: bool, policy: &Policy) -> Verdicts {
    let most = policy.rule(&LABEL_Q).unwrap_or(1.0);
    let significant = |q: Option<f64>| enough && q.is_some_and(|q| q <= most);
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
        *verdicts.of(verdict) += 1;
        verdicts.also_negligible += u64::from(head.negligible && verdict != Verdict::Negligible);
    }
    verdicts
}

impl HeadEffect {
    /// The effect of removing the head by itself; `None` if the head was not removed by itself, or is absent from the whole run.
    pub fn of_its_own(&self) -> Option<f64> {
        self.effect.filter(|_| !self.removed)
    }

    pub fn words(&self) -> String {
        let verdict = self.verdict.map_or("not judged", Verdict::name);
        let also = if self.negligible && self.verdict != Some(Verdict::Negligible) { ", negligible" } else { "" };
        format!("{verdict}{also}")
    }
}

pub fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// The heads that were removed by themselves, with their effects, the largest first.
pub fn ranked<T>(heads: &[T], of: impl Fn(&T) -> &HeadEffect) -> Vec<(f64, &T)> {
    let mut order: Vec<_> = heads.iter().filter_map(|head| Some((of(head).of_its_own()?, head))).collect();
    order.sort_by(|a, b| b.0.total_cmp(&a.0));
    order
}

/// Number of heads that a forest plot shows at each end of the ranking.
const DRAWN: usize = 12;

/// Forest plot of ranked heads, and a sentence on the number of heads left out in the middle.
pub fn forest(scale: &str, order: &[&HeadEffect]) -> (Chart, String) {
    let row = |head: &HeadEffect| ForestRow {
        name: head.place.to_string(),
        note: head.words(),
        marks: vec![Mark::of(head.effect, head.ci95)],
    };
    let last = order.len().saturating_sub(DRAWN).max(DRAWN);
    let shown = order.iter().enumerate().filter(|(rank, _)| *rank < DRAWN || *rank >= last);
    let left_out = match order.len().saturating_sub(2 * DRAWN) {
        0 => String::new(),
        heads => format!(" {} in between {} left out.", counted(heads, "head"), plural(&heads, "is", "are")),
    };
    let rows = shown.map(|(_, head)| row(head)).collect();
    (Chart::Forest(Forest::around_zero(scale, ["effect"], rows)), left_out)
}

/// At most `2 * each` rows: longer lists keep `each` rows at the beginning and `each - 1` at the end, around a row that counts the others.
pub fn from_both_ends(mut rows: Vec<Vec<String>>, each: usize) -> Vec<Vec<String>> {
    if rows.len() > 2 * each {
        let last = rows.len() + 1 - each;
        rows.splice(each..last, [vec!["...".to_owned(), format!("{} more", last - each)]]);
    }
    rows
}

impl Verdicts {
    pub fn words(self) -> String {
        let Self { helpful, harmful, negligible, undecided, .. } = self;
        let named = [(helpful, "helpful"), (harmful, "harmful"), (negligible, "negligible"), (undecided, "undecided")];
        let named = named.iter().filter(|(count, _)| *count > 0);
        let named: Vec<String> =
            named.map(|(count, verdict)| format!("{count} {} {verdict}", plural(count, "is", "are"))).collect();
        named.join(", ")
    }

    fn of(&mut self, verdict: Verdict) -> &mut u64 {
        match verdict {
            Verdict::Helpful => &mut self.helpful,
            Verdict::Harmful => &mut self.harmful,
            Verdict::Negligible => &mut self.negligible,
            Verdict::Undecided => &mut self.undecided,
        }
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
