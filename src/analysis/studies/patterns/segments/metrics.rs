//! Formulas and explanations of the metrics on pairs of sentences.

use super::design::SegmentHeadSums;
use super::sums::SegmentExposure;
use crate::stats::exact::ExactSum;
use crate::study::metrics::explanation::Explanation;
use crate::study::metrics::metric::{self, Fraction, Metric};

/// A metric of one attention head, computed from denominators and sums.
type SegmentMetric = Metric<fn(&SegmentExposure, &SegmentHeadSums<ExactSum>) -> Fraction>;

/// Values of all metrics of one attention head, in one jackknife block or in all.
pub fn metric_values(exposure: &SegmentExposure, sums: &SegmentHeadSums<ExactSum>) -> Vec<Fraction> {
    metric::cells(METRICS, |metric, _| (metric.value)(exposure, sums))
}

/// Chance levels of all metrics: their values under uniform attention, unless a metric has a chance level defined otherwise.
pub fn chance_levels(exposure: &SegmentExposure) -> Vec<Fraction> {
    let uniform = SegmentHeadSums { same: exposure.same, any: exposure.any, ..SegmentHeadSums::default() };
    metric::cells(METRICS, |metric, _| metric.chance.unwrap_or(metric.value)(exposure, &uniform))
}

/// A part of the sum of squares as a share of the total sum of squares.
fn variation_share(exposure: &SegmentExposure, part: ExactSum, total: ExactSum) -> Fraction {
    Fraction::new(part.value(), total.value()).with_evidence(exposure.rows, exposure.first)
}

/// Chance level of a share of variation: 0, because the share already has the expectation under noise subtracted.
fn zero_chance(exposure: &SegmentExposure, _: &SegmentHeadSums<ExactSum>) -> Fraction {
    Fraction::mean(0.0, exposure.rows, exposure.first)
}

const VARIATION_FORMULA: &str = "least squares over all cells A[i, j] of a pair, each row less its mean; columns first, then \
    offsets -8 to 8 and two far ones, then same sentence (1, other sentence -1, special tokens 0); sum over pairs of \
    (explained - degrees of freedom * residual mean square) / sum over pairs of the total sum of squares";
const NOISE_CHANCE: &str = "0: what noise would explain is taken off";

pub const METRICS: &[SegmentMetric] = &[
    SegmentMetric::single(|exposure, sums| {
        Fraction::new(sums.same.value(), sums.any.value()).with_evidence(exposure.queries, exposure.first)
    })
    .with_explanation(Explanation {
        name: "same_segment_share",
        measures: "How much of the attention between different tokens of text stays within the sentence, in pairs of \
            sentences.",
        formula: "sum of A[i, j] over text i != j of one sentence / the same over any text i != j",
        chance: "chance.same_segment_share: near one half, more where the two sentences are of unequal length",
        source: "The block pattern of Kovaleva et al. 2019 (arXiv:1908.08593), section 4.1, as a share; defined here.",
        caveats: "A head that attends to neighbours is near 1 without knowing of sentences: segment_r2 is beyond that.",
    }),
    SegmentMetric::single(|exposure, sums| variation_share(exposure, sums.column, sums.total)).with_chance(zero_chance).with_explanation(Explanation {
        name: "column_r2",
        measures: "The part of the variation of the attention over pairs of sentences that goes with the key: the same \
            for every query.",
        formula: VARIATION_FORMULA,
        chance: NOISE_CHANCE,
        source: "The vertical pattern of Kovaleva et al. 2019 (arXiv:1908.08593), section 4.1; the measure is ours.",
        caveats: "Large where few keys take most of the attention, as special tokens do. Below 0 is 0.",
    }),
    SegmentMetric::single(|exposure, sums| variation_share(exposure, sums.offset, sums.total)).with_chance(zero_chance).with_explanation(Explanation {
        name: "offset_r2",
        measures: "The part of that variation that goes with how far the key is from the query, beyond its column.",
        formula: VARIATION_FORMULA,
        chance: NOISE_CHANCE,
        source: "The diagonal pattern of Kovaleva et al. 2019 (arXiv:1908.08593), section 4.1; the measure is ours.",
        caveats: "Offsets beyond 8 on either side are one each. Below 0 is 0.",
    }),
    SegmentMetric::single(|exposure, sums| variation_share(exposure, sums.segment, sums.total)).with_chance(zero_chance).with_explanation(Explanation {
        name: "segment_r2",
        measures: "The part of that variation that goes with whether query and key are of one sentence, beyond column \
            and offset; negative where the other sentence is attended to.",
        formula: VARIATION_FORMULA,
        chance: NOISE_CHANCE,
        source: "The block pattern of Kovaleva et al. 2019 (arXiv:1908.08593), section 4.1; the measure is ours.",
        caveats: "Offsets come first and take what near keys have in common, so of short sentences little is left.",
    }),
];
