//! Report section `gradient`: first-order effect of each head, and its rank correlation with the effect of removal.

use std::fmt::{self, Write};

use itertools::Itertools;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sums::{Derivatives, GradientSums, METRICS};
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::model::parameters::Objective;
use crate::passes::ablation::{PassConditions, Replacement};
use crate::sequences::derived::task::TaskKind;
use crate::sequences::reading::Context;
use crate::stats::interval::Interval;
use crate::stats::significance::q_values_of_present;
use crate::studies::ablation::removal::scored_counts_text;
use crate::studies::ablation::verdicts::shorten_to_both_ends;
use crate::study::metrics::by_block::RankCorrelation;
use crate::study::section::{LateFact, Section, View, ViewContext, stored};
use crate::study::show::wording::{aligned_table, empty_sample_reason, plus_minus, signed_decimal};
use crate::study::{Estimates, EstimationContext, Summary};
use crate::system::counts::format_count;

const HALF_TABLE_ROWS: usize = 5;

/// Metrics that derivatives approximate: the effects of removing a head on the loss of tokens and on the loss of a
/// task.
const REMOVAL_METRICS: [&str; 2] = ["loss_effect", "task_effect"];

/// First-order effect of each head on the model's training objective or on a user's task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gradients {
    /// Output of a head whose gate is closed; null if nothing was scored.
    pub removal: Option<Replacement>,
    /// Prediction objective whose loss is differentiated; null if nothing was predicted.
    #[serde(default)]
    pub objective: Option<Objective>,
    /// Kind of items, if the loss is of a user's task. Then `masked_tokens` counts items, and `sentences` counts sampling units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "TaskKind")]
    pub task: Option<TaskKind>,
    /// Number of sentences with a scored token.
    pub sentences: u64,
    /// Number of sentences of the sample without a token to score.
    pub sentences_left_out: u64,
    /// Number of scored tokens: masked tokens, all text tokens for a discriminator, or all but the first for a decoder.
    pub masked_tokens: u64,
    /// Mean loss of a scored token, in nats; null if nothing was scored.
    pub loss: Option<f64>,
    /// Importance and first-order effect of each head, layer by layer. Standard errors are in the head's metrics.
    pub heads: Vec<HeadGradient>,
    /// Rank correlations, over heads, between metrics of derivatives and the effect of removal; empty if no effect was measured.
    pub rank_correlations: Vec<Agreement>,
    /// Integrated gradients; absent unless requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integrated: Option<Integrated>,
}

/// Importance and first-order effect of one head.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeadGradient {
    /// Head with the gate that derivatives are taken by: gate 1 passes the head's output, gate 0 its replacement.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// Metric `gradient_importance`: mean absolute derivative of a sentence's or item's loss by the head's gate, in nats.
    pub importance: Option<f64>,
    /// Metric `first_order_effect`: rise of the loss without the head, by linear extrapolation, in nats per scored token or
    /// item.
    pub first_order_effect: Option<f64>,
    /// 95 % interval of `first_order_effect`.
    pub first_order_ci95: Option<Interval>,
}

/// Rank correlation, over heads, between a metric of derivatives and the effect of removal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Agreement {
    /// Name of the gradient metric: `gradient_importance`, `first_order_effect` or `integrated_gradient`.
    pub metric: String,
    /// Name of the effect of removal that `metric` is compared with: `loss_effect` or, for a task, `task_effect`.
    pub with: String,
    /// Spearman's rank correlation over all heads, with the two metrics estimated on blocks of opposite parity.
    #[serde(flatten)]
    pub correlation: RankCorrelation,
}

impl Gradients {
    pub fn new(sums: &GradientSums, left_out: u64, estimates: &Estimates, context: &EstimationContext) -> Self {
        let total = sums.blocks.total();
        let head = |place: usize| {
            let (importance, ..) = estimates.metric_estimate(place, "gradient_importance");
            let (first_order_effect, first_order_ci95, _) = estimates.metric_estimate(place, "first_order_effect");
            HeadGradient { place: context.grid.head_place(place), importance, first_order_effect, first_order_ci95 }
        };
        let PassConditions { removal, objective, task, .. } = sums.conditions;
        Self {
            removal,
            objective,
            task,
            sentences: total.sentences,
            sentences_left_out: left_out,
            masked_tokens: total.tokens,
            loss: (total.tokens > 0).then(|| total.loss.value() / total.tokens as f64),
            heads: (0..context.grid.head_count()).map(head).collect(),
            rank_correlations: Vec::new(),
            integrated: Integrated::new(&total, estimates, context),
        }
    }

    fn write_summary(&self, out: &mut Summary, read: Context) -> fmt::Result {
        let Self { masked_tokens, sentences, heads, rank_correlations, integrated, .. } = self;
        let (Some(removal), Some(loss)) = (self.removal, self.loss) else {
            let why = empty_sample_reason("a token to score", read);
            return writeln!(out, "No token could be scored, so there is no gradient: {why}.");
        };
        let [token, sentence] = if self.task.is_some() { ["item"; 2] } else { ["token", "sentence"] };
        writeln!(
            out,
            "Gradients of the heads' gates (towards the {}): loss of {}, {loss:.3} nats \
             per {token}. Importance: mean absolute derivative of one {sentence}. First order: rise of the loss per {token} without the \
             head, by linear extrapolation. Largest and smallest importance, ± half of the 95 % interval:\n",
            removal.name(),
            scored_counts_text([*masked_tokens, *sentences], self.objective, self.task, read),
        )?;
        let importance = |head: &HeadGradient| head.importance.unwrap_or(0.0);
        let order = heads.iter().sorted_by(|a, b| importance(b).total_cmp(&importance(a))).collect_vec();
        out.add_table(table(&order, integrated.as_ref()));
        if let Some(integrated) = integrated {
            integrated.write_summary(out)?;
        }
        if !rank_correlations.is_empty() {
            writeln!(
                out,
                "\nRank correlation with the effect of removing each head (Spearman, all {} heads; metric and effect from opposite \
                 halves of the text, averaged over both assignments), with its 95 % interval:",
                heads.len()
            )?;
            for Agreement { metric, correlation, .. } in rank_correlations {
                let name = metric.replace('_', " ");
                match correlation {
                    RankCorrelation { rho: Some(rho), ci95: Some(Interval(low, high)) } => {
                        writeln!(out, "{name} {rho:.2} [{low:.2}, {high:.2}]")?;
                    }
                    RankCorrelation { rho: Some(rho), ci95: None } => writeln!(out, "{name} {rho:.2}")?,
                    RankCorrelation { rho: None, .. } => writeln!(out, "{name} none: all heads are alike")?,
                }
            }
        }
        Ok(())
    }
}

fn table(heads: &[&HeadGradient], integrated: Option<&Integrated>) -> comfy_table::Table {
    let cell = |value: Option<f64>, ci95: Option<Interval>| {
        value.map_or_else(|| "-".to_owned(), |value| signed_decimal(value, 4) + &plus_minus(ci95, 4))
    };
    let header = ["head", "importance", "first order"].into_iter().chain(integrated.map(|_| "integrated"));
    let row = |HeadGradient { place, importance, first_order_effect, first_order_ci95 }: &&HeadGradient| {
        let importance = importance.map_or_else(|| "-".to_owned(), |importance| format!("{importance:.4}"));
        let along_path = integrated.and_then(|integrated| integrated.heads.iter().find(|head| head.place == *place));
        let along_path = along_path.map(|head| cell(head.integrated_gradient, head.ci95));
        let cells = [place.to_string(), importance, cell(*first_order_effect, *first_order_ci95)];
        cells.into_iter().chain(along_path).collect()
    };
    aligned_table(header, shorten_to_both_ends(heads.iter().map(row).collect(), HALF_TABLE_ROWS), 1..)
}

stored!(Gradients as gradient);

impl Section for Gradients {
    fn add_late_fact(&mut self, completion: &LateFact<'_>) {
        let LateFact::Estimates(all) = completion else { return };
        let metric = REMOVAL_METRICS[usize::from(self.task.is_some())];
        let Some(exact) = all.metrics_by_block.get(metric).filter(|_| self.masked_tokens > 0) else { return };
        let agreement = |derivative: &'static str| {
            let correlation = all.metrics_by_block.get(derivative)?.rank_correlation_across_folds(exact);
            Some(Agreement { metric: derivative.to_owned(), with: metric.to_owned(), correlation })
        };
        self.rank_correlations = METRICS.iter().filter_map(|one| agreement(one.explanation.name)).collect();
    }

    fn view(&self, ViewContext { run, .. }: ViewContext<'_>) -> View<'_> {
        View::from_summary(Summary::from_writer(|out| self.write_summary(out, run.read)))
    }

    fn defect(&self, grid: HeadGrid) -> Option<String> {
        let Gradients { heads, integrated, .. } = self;
        let of_path = integrated.as_ref().map(|found| found.heads.iter().map(|head| head.place));
        let of_path = of_path.and_then(|heads| grid.missing_head_defect("gradient.heads", heads));
        grid.missing_head_defect("gradient.heads", heads.iter().map(|head| head.place)).or(of_path)
    }
}

/// Completeness error above which the summary asks for more integration steps: 1 % of the loss difference.
const MAX_COMPLETENESS_ERROR: f64 = 0.01;

/// Integrated gradients: effect of each head while the gates of all heads open together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Integrated {
    /// Number of points on the path at which derivatives were taken.
    pub steps: u64,
    /// Mean loss of a scored token with all heads removed, in nats.
    pub loss_without_heads: f64,
    /// Loss without any head minus loss with all heads: the limit of `sum` for many steps.
    pub loss_difference: f64,
    /// Sum of `integrated_gradient` over all heads.
    pub sum: f64,
    /// Completeness error: distance of `sum` from `loss_difference`, as a share of the latter's size; null if that is 0.
    #[schemars(range(min = 0))]
    pub completeness_error: Option<f64>,
    /// Integrated gradient of each head, layer by layer.
    pub heads: Vec<IntegratedHead>,
}

/// Integrated gradient of one head.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IntegratedHead {
    /// Head with the gate that derivatives are taken by: gate 1 passes the head's output, gate 0 its replacement.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// Metric `integrated_gradient`: the head's part in the fall of the loss as all gates open together, in nats per scored
    /// token or item.
    pub integrated_gradient: Option<f64>,
    /// 95 % interval of `integrated_gradient`.
    pub ci95: Option<Interval>,
    /// Two-sided p-value of the block test of `integrated_gradient` against 0.
    #[schemars(range(min = 0, max = 1))]
    pub p: Option<f64>,
    /// `p` corrected by Benjamini & Hochberg for all heads.
    #[schemars(range(min = 0, max = 1))]
    pub q: Option<f64>,
}

impl Integrated {
    pub fn new(total: &Derivatives, estimates: &Estimates, context: &EstimationContext) -> Option<Self> {
        let tokens = total.integrated_tokens() as f64;
        if tokens == 0.0 {
            return None;
        }
        let head = |place: usize| {
            let (integrated_gradient, ci95, estimate) = estimates.metric_estimate(place, "integrated_gradient");
            let p = estimate.map(|estimate| estimate.p_different(0.0));
            IntegratedHead { place: context.grid.head_place(place), integrated_gradient, ci95, p, q: None }
        };
        let mut heads: Vec<IntegratedHead> = (0..context.grid.head_count()).map(head).collect();
        let p: Vec<Option<f64>> = heads.iter().map(|head| head.p).collect();
        heads.iter_mut().zip(q_values_of_present(&p)).for_each(|(head, q)| head.q = q);
        let closed = total.closed_loss.value() / tokens;
        let loss_difference = closed - total.loss.value() / tokens;
        let sum: f64 = heads.iter().filter_map(|head| head.integrated_gradient).sum();
        let missed = (sum - loss_difference).abs() / loss_difference.abs();
        Some(Self {
            steps: total.points / total.sequences,
            loss_without_heads: closed,
            loss_difference,
            sum,
            completeness_error: missed.is_finite().then_some(missed),
            heads,
        })
    }

    pub fn write_summary(&self, out: &mut Summary) -> fmt::Result {
        let Self { steps, loss_without_heads, loss_difference, sum, completeness_error, .. } = self;
        writeln!(
            out,
            "\nIntegrated gradients, all heads coming in together in {}: the loss falls by {loss_difference:.4} nats a token, \
             from {loss_without_heads:.4} without any head, and the heads sum up to {sum:.4}{}.",
            format_count(*steps, "step"),
            completeness_error.map_or_else(String::new, |error| format!(", off by {:.2} %", 100.0 * error))
        )?;
        if completeness_error.is_some_and(|error| error > MAX_COMPLETENESS_ERROR) {
            writeln!(
                out,
                "That is more than {:.0} %: give more steps (--gradient-steps).",
                100.0 * MAX_COMPLETENESS_ERROR
            )?;
        }
        Ok(())
    }
}
