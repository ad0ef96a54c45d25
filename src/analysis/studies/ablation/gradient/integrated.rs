//! Derivatives along the path on which all heads come in together: what each head has of the loss that all are worth.

use std::fmt::{self, Write};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sums::Derivatives;
use crate::model::grid::HeadPlace;
use crate::stats::block_test::Scale;
use crate::stats::interval::Interval;
use crate::stats::significance::benjamini_hochberg;
use crate::study::metrics::estimates::{Estimates, EstimationContext};
use crate::study::show::summary::Summary;

pub const INTEGRATED: &str = "integrated_gradient";

/// The share of the loss difference that the sum over heads may miss before the summary asks for more steps.
const MOST_MISSED: f64 = 0.01;

/// Integrated gradients: the effect of each head where all of them come in together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Integrated {
    /// Points of the path at which derivatives were taken.
    pub steps: u64,
    /// The mean loss of a scored token without any head, in nats.
    pub loss_without_heads: f64,
    /// The loss without any head less that with all: the limit of the metric's sum with many steps.
    pub loss_difference: f64,
    /// The sum of `integrated_gradient` over all heads.
    pub sum: f64,
    /// The completeness error: how far the sum is from the difference, as a share of its size; null if that is 0.
    #[schemars(range(min = 0))]
    pub completeness_error: Option<f64>,
    /// Each head, layer by layer.
    pub heads: Vec<IntegratedHead>,
}

/// Integrated gradient of one head.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IntegratedHead {
    /// The head.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// `integrated_gradient`, in nats.
    pub integrated_gradient: Option<f64>,
    /// Its 95 % interval.
    pub ci95: Option<Interval>,
    /// The two-sided p-value of the block test of its being other than 0.
    #[schemars(range(min = 0, max = 1))]
    pub p: Option<f64>,
    /// `p` corrected by Benjamini & Hochberg for all heads.
    #[schemars(range(min = 0, max = 1))]
    pub q: Option<f64>,
}

impl Integrated {
    /// The section that these sums over all blocks give; `None` where the path was not followed.
    pub fn new(total: &Derivatives, estimates: &Estimates, context: &EstimationContext) -> Option<Self> {
        let tokens = total.tokens_on_path() as f64;
        if tokens == 0.0 {
            return None;
        }
        let known = estimates.denominators.get(INTEGRATED, None).copied().unwrap_or_default();
        let head = |place: usize| {
            let value = estimates.heads[place].get(INTEGRATED, None).copied().flatten();
            let error = estimates.standard_errors[place].get(INTEGRATED, None).copied().flatten();
            let estimate = value.zip(error).and_then(|(value, error)| known.estimate(value, error, Scale::Real));
            IntegratedHead {
                place: context.grid.place(place),
                integrated_gradient: value,
                ci95: estimates.ci95[place].get(INTEGRATED, None).copied().flatten(),
                p: estimate.map(|estimate| estimate.p_different(0.0)),
                q: None,
            }
        };
        let mut heads: Vec<IntegratedHead> = (0..context.grid.count()).map(head).collect();
        let tested: Vec<f64> = heads.iter().filter_map(|head| head.p).collect();
        let corrected = heads.iter_mut().filter(|head| head.p.is_some()).zip(benjamini_hochberg(&tested));
        corrected.for_each(|(head, q)| head.q = Some(q));
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
            "\nIntegrated gradients, all heads coming in together in {steps} steps: the loss falls by {loss_difference:.4} nats a token, \
             from {loss_without_heads:.4} without any head, and the heads sum up to {sum:.4}{}.",
            completeness_error.map_or_else(String::new, |error| format!(", off by {:.2} %", 100.0 * error))
        )?;
        if completeness_error.is_some_and(|error| error > MOST_MISSED) {
            writeln!(out, "That is more than {:.0} %: give more steps (--gradient-steps).", 100.0 * MOST_MISSED)?;
        }
        Ok(())
    }
}
