//! Report sections `in_context` and `in_context_effect`: losses of both copies of random tokens, and each head's effect on them.

use std::fmt::{self, Write};

use itertools::Itertools;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sums::{CopyLosses, CopySums, RemovalCopySums};
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::passes::ablation::Replacement;
use crate::stats::block_test::Jackknife;
use crate::stats::interval::Interval;
use crate::stats::significance::q_values_above_margin;
use crate::study::labels::evidence::LABEL_Q;
use crate::study::section::{HeadCard, Section, View, ViewContext, stored};
use crate::study::show::figure::{Chart, Figure, Forest, ForestRow, Mark};
use crate::study::show::wording::{aligned_table, decimal, plus_minus, signed_decimal, significance_text};
use crate::study::{Estimates, EstimationContext, InBrief, Policy, Summary};
use crate::system::counts::{format_count, plural};

#[expect(clippy::struct_field_names, reason = "the keys of the report")]
/// How much better a decoder predicts random tokens when it has read them before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gain {
    /// Number of sequences of random tokens that occur twice; 0 if the vocabulary or the number of positions is too small.
    pub sequences: u64,
    /// Number of scored tokens of each copy: all but its first.
    pub tokens: u64,
    /// Loss of the first copy of the random tokens.
    pub first: NatsPerToken,
    /// Loss of the second copy of the random tokens.
    pub second: NatsPerToken,
    /// Loss of the first copy minus loss of the second; 0 if having read the tokens before makes no difference.
    pub gain: NatsPerToken,
}

/// Mean over the scored tokens of a copy, with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NatsPerToken {
    /// Mean in nats per token; null if nothing was scored.
    pub mean: Option<f64>,
    /// 95 % interval of `mean`.
    pub ci95: Option<Interval>,
}

impl Gain {
    pub fn new(sums: &CopySums) -> Self {
        let total = sums.blocks.total();
        let tokens = sums.blocks.map_blocks(|losses| losses.tokens() as f64);
        let mean = |nats: fn(&CopyLosses) -> f64| NatsPerToken {
            mean: (total.tokens() > 0).then(|| nats(&total) / total.tokens() as f64),
            ci95: Jackknife::new(&sums.blocks.map_blocks(nats), &tokens).interval(),
        };
        Self {
            sequences: total.copies[1].sentences,
            tokens: total.tokens(),
            first: mean(|losses| losses.summed_losses(None)[0]),
            second: mean(|losses| losses.summed_losses(None)[1]),
            gain: mean(|losses| losses.gain(None)),
        }
    }

    fn write_summary(&self, out: &mut Summary) -> fmt::Result {
        let Self { tokens, first, second, gain, .. } = self;
        if *tokens == 0 {
            return writeln!(out, "In-context copying was not measured, for there are no sequences of random tokens.");
        }
        writeln!(
            out,
            "In-context copying, over random tokens that come twice: the loss is {first} nats a token in the first copy and {second} \
             in the second, {gain} less for having read them before. Scored are {tokens} tokens of each copy, each behind the same \
             token in both."
        )
    }
}

/// Formats the mean with half of its 95 % interval: `10.943 ±0.312`.
impl fmt::Display for NatsPerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(mean) = self.mean else { return f.write_str("-") };
        write!(f, "{mean:.3}")?;
        self.ci95.map_or(Ok(()), |ci95| write!(f, " ±{:.3}", ci95.half_width()))
    }
}

stored!(Gain as in_context);

impl Section for Gain {
    fn view(&self, _: ViewContext<'_>) -> View<'_> {
        View::from_summary(Summary::from_writer(|out| self.write_summary(out)))
    }
}

/// Maximum number of heads in the table of the summary.
const MAX_LISTED_HEADS: usize = 8;

/// Effect of removing each head on a decoder's gain from having read the same random tokens before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GainEffects {
    /// Replacement for removed heads; null if nothing was scored.
    pub removal: Option<Replacement>,
    /// Mean losses with all heads removed.
    pub without_heads: CopyLoss,
    /// Result for each head, layer by layer.
    pub heads: Vec<HeadInContext>,
}

/// Mean losses over the tokens of both copies of random tokens, in nats; null if nothing was scored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CopyLoss {
    /// Mean loss of the first copy.
    pub first: Option<f64>,
    /// Mean loss of the second copy.
    pub second: Option<f64>,
    /// `first` minus `second`.
    pub gain: Option<f64>,
}

/// Effect of removing one head on the losses of repeated random tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeadInContext {
    /// Head that is removed.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// Metric `in_context_effect` of the head: how much smaller the gain is without it, in nats per token.
    pub effect: Option<f64>,
    /// 95 % interval of `effect`.
    pub ci95: Option<Interval>,
    /// Metric `copy_effect` of the head: how much the loss of the second copy rises without it, in nats per token.
    pub copy_effect: Option<f64>,
    /// 95 % interval of `copy_effect`.
    pub copy_ci95: Option<Interval>,
    /// One-sided p-value that `effect` and `copy_effect` are both above 0: the larger of their two p-values (intersection–union
    /// test).
    pub p: Option<f64>,
    /// q-value that `effect` and `copy_effect` are both above 0: twice `p`, corrected by Benjamini & Hochberg. Only heads with
    /// both estimates above 0 are tested; null for other heads.
    pub q: Option<f64>,
    /// Mean losses without the head.
    pub without: CopyLoss,
}

impl CopyLoss {
    fn new(losses: &CopyLosses, variant: Option<usize>) -> Self {
        let tokens = losses.tokens();
        if tokens == 0 {
            return Self::default();
        }
        let [first, second] = losses.summed_losses(variant).map(|loss| loss / tokens as f64);
        Self { first: Some(first), second: Some(second), gain: Some(first - second) }
    }
}

impl HeadInContext {
    /// Costs of removing the head, in nats per token, as text with intervals: `[fall of the loss difference between the two
    /// copies, rise of the second copy's loss]`.
    fn cost_texts(&self) -> [String; 2] {
        [(self.effect, self.ci95), (self.copy_effect, self.copy_ci95)]
            .map(|(cost, ci95)| decimal(cost.unwrap_or(0.0), 3) + &plus_minus(ci95, 3))
    }
}

impl GainEffects {
    fn in_brief(&self, policy: &Policy) -> InBrief {
        if self.removal.is_none() {
            return InBrief::default();
        }
        let heads = format_count(self.heads_by_effect().len(), "head");
        let copying_heads = self.copying_heads(policy);
        let found = match copying_heads.first() {
            None => {
                format!("Copying from the context: of {heads} none is shown to have a part in it, each removed alone.")
            }
            Some(first) => {
                let has = plural(&copying_heads.len(), "has", "have");
                let [gain, copy] = first.cost_texts();
                format!(
                    "Copying from the context: of {heads} {} {has} a part in it; without {} the most goes: {gain} nats a token of the \
                     gain, and the second copy loses {copy} more.",
                    copying_heads.len(),
                    first.place
                )
            }
        };
        InBrief::from_finding(found)
    }

    pub fn new(sums: &RemovalCopySums, estimates: &Estimates, context: &EstimationContext) -> Self {
        let total = sums.blocks.total();
        let head = |place: usize| {
            let number = |metric: &str| {
                let (value, ci95, estimate) = estimates.metric_estimate(place, metric);
                (value, ci95, estimate.filter(|_| context.is_active_head(place)).map(|estimate| estimate.p_above(0.0)))
            };
            let [(effect, ci95, p_gain), (copy_effect, copy_ci95, p_copy)] =
                ["in_context_effect", "copy_effect"].map(number);
            let p = p_gain.zip(p_copy).map(|(gain, copy)| gain.max(copy));
            let (place, without) = (context.grid.head_place(place), CopyLoss::new(&total, Some(place)));
            HeadInContext { place, effect, ci95, copy_effect, copy_ci95, p, q: None, without }
        };
        let mut heads: Vec<HeadInContext> = (0..context.grid.head_count()).map(head).collect();
        let is_above = |effect: Option<f64>| effect.is_some_and(|effect| effect > 0.0);
        let are_both_above = |head: &HeadInContext| is_above(head.effect) && is_above(head.copy_effect);
        let above: Vec<Option<f64>> = heads.iter().map(|head| head.p.filter(|_| are_both_above(head))).collect();
        heads.iter_mut().zip(q_values_above_margin(&above)).for_each(|(head, q)| head.q = q);
        Self {
            removal: sums.conditions.removal.filter(|_| total.tokens() > 0),
            // The last variant has no head.
            without_heads: CopyLoss::new(&total, Some(context.grid.head_count())),
            heads,
        }
    }

    /// Heads by falling effect.
    pub fn heads_by_effect(&self) -> Vec<&HeadInContext> {
        let heads = self.heads.iter().filter(|head| head.effect.is_some());
        heads.sorted_by(|a, b| b.effect.partial_cmp(&a.effect).expect("effects are numbers")).collect()
    }

    /// Heads whose effect is significant under `policy`.
    fn copying_heads(&self, policy: &Policy) -> Vec<&HeadInContext> {
        let most = policy.rule(&LABEL_Q).unwrap_or(1.0);
        self.heads_by_effect().into_iter().filter(|head| head.q.is_some_and(|q| q <= most)).collect()
    }

    fn write_summary(&self, out: &mut Summary) -> fmt::Result {
        // If nothing was scored, the section `in_context` says so.
        let Some(removal) = self.removal else { return Ok(()) };
        let bare = self.without_heads.gain.map_or_else(|| "-".to_owned(), |gain| format!("{gain:.3}"));
        writeln!(
            out,
            "In-context copying with heads removed one at a time (by {}), in nats a token, ± half of the 95 % interval: how much \
             of the gain goes away (less where the first copy loses more, too), how much more the second copy loses, q of both being \
             above 0 (a head has a part in copying), and the loss of the second copy then. Without any head the gain is {bare}.\n",
            removal.name(),
        )?;
        out.add_table(table(self.heads_by_effect().into_iter().take(MAX_LISTED_HEADS)));
        Ok(())
    }
}

fn table<'a>(heads: impl Iterator<Item = &'a HeadInContext>) -> comfy_table::Table {
    let row = |HeadInContext { place, effect, ci95, copy_effect, copy_ci95, q, without, .. }: &HeadInContext| {
        let shown = |(effect, ci95): (&Option<f64>, &Option<Interval>)| {
            effect.map_or_else(|| "-".to_owned(), |effect| signed_decimal(effect, 3) + &plus_minus(*ci95, 3))
        };
        let [effect, copy] = [(effect, ci95), (copy_effect, copy_ci95)].map(shown);
        let q = q.map_or_else(|| "-".to_owned(), significance_text);
        let second = without.second.map_or_else(|| "-".to_owned(), |second| format!("{second:.3}"));
        [place.to_string(), effect, copy, q, second]
    };
    aligned_table(["without", "gain lost", "second copy loses", "q", "second copy"], heads.map(row), 1..)
}

stored!(GainEffects as in_context_effect);

impl Section for GainEffects {
    fn view(&self, ViewContext { policy, .. }: ViewContext<'_>) -> View<'_> {
        View {
            in_brief: self.in_brief(policy),
            summary: Summary::from_writer(|out| self.write_summary(out)),
            figures: figures(self),
            ..View::default()
        }
    }

    fn head_card(&self, place: HeadPlace, ViewContext { policy, .. }: ViewContext<'_>) -> HeadCard {
        let is_at_place = |head: &&HeadInContext| head.place == place;
        let Some(head) = self.heads.iter().find(is_at_place).filter(|head| head.effect.is_some()) else {
            return HeadCard::default();
        };
        let [gain, copy] = head.cost_texts();
        let q = head.q.map_or_else(String::new, |q| format!(" (q {})", significance_text(q)));
        let card = HeadCard::from_iter([format!(
            "without it {gain} nats a token of the gain from copying go away, and the second copy loses {copy} more{q}"
        )]);
        let has_part = self.copying_heads(policy).iter().any(|head| head.place == place);
        let clause = format!("has a part in copying from the context ({copy} nats a token of the second copy)");
        card.with_clauses(has_part.then_some(clause))
    }

    fn defect(&self, grid: HeadGrid) -> Option<String> {
        grid.stray_head_defect("in_context_effect", self.heads.iter().map(|head| head.place))
    }
}

/// Maximum number of heads in the figure.
const MAX_DRAWN_HEADS: usize = 12;

fn figures(effects: &GainEffects) -> Vec<Figure> {
    if effects.removal.is_none() {
        return Vec::new();
    }
    let rows = effects.heads_by_effect().into_iter().take(MAX_DRAWN_HEADS).map(|head| ForestRow {
        name: head.place.to_string(),
        note: String::new(),
        marks: vec![Mark::from_value(head.effect, head.ci95)],
    });
    let scale = "gain that goes away without the head, in nats a token";
    let chart = Chart::Forest(Forest::with_zero_line(scale, ["effect"], rows.collect()));
    vec![Figure {
        name: "in-context-effect",
        title: "What copying from the context loses without a head".to_owned(),
        reading: "Random tokens that come twice lose less in the second copy than in the first: how much of the difference, in nats \
                  a token, goes away with one head removed, with 95 % intervals."
            .to_owned(),
        chart,
    }]
}
