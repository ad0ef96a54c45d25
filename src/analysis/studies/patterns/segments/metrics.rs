//! Metric table of the study `segments`.

use super::design::SegmentHeadSums;
use super::sums::SegmentExposure;
use crate::stats::exact::ExactSum;
use crate::study::metrics::explanation::Explanation;
use crate::study::metrics::metric::{self, Fraction, Metric};

/// Input of the metrics of one attention head: its sums with their denominators, in one block or in the whole corpus.
pub struct SegmentInputs<'a> {
    pub exposure: &'a SegmentExposure,
    pub sums: &'a SegmentHeadSums<ExactSum>,
}

impl SegmentInputs<'_> {
    pub fn values(&self) -> Vec<Fraction> {
        metric::cells(METRICS, |metric, _| (metric.value)(self))
    }

    /// Returns every metric's chance level, its value under uniform attention.
    pub fn chances(exposure: &SegmentExposure) -> Vec<Fraction> {
        let even = SegmentHeadSums { same: exposure.same, any: exposure.any, ..SegmentHeadSums::default() };
        let inputs = SegmentInputs { exposure, sums: &even };
        metric::cells(METRICS, |metric, _| metric.chance.unwrap_or(metric.value)(&inputs))
    }

    fn variation_share(&self, part: ExactSum) -> Fraction {
        Fraction::new(part.value(), self.sums.total.value()).over(self.exposure.rows, self.exposure.first)
    }
}

/// Returns the chance level 0 of shares of variation: they exclude what noise explains.
fn zero_chance(inputs: &SegmentInputs<'_>) -> Fraction {
    Fraction::mean(0.0, inputs.exposure.rows, inputs.exposure.first)
}

const VARIATION: &str = "least squares over all cells A[i, j] of a pair, each row less its mean; columns first, then \
    offsets -8 to 8 and two far ones, then same sentence (1, other sentence -1, special tokens 0); sum over pairs of \
    (explained - degrees of freedom * residual mean square) / sum over pairs of the total sum of squares";
const NOISE: &str = "0: what noise would explain is taken off";

type SegmentMetric = Metric<fn(&SegmentInputs<'_>) -> Fraction>;

pub const METRICS: &[SegmentMetric] = &[
    SegmentMetric::single(|inputs| {
        Fraction::new(inputs.sums.same.value(), inputs.sums.any.value()).over(inputs.exposure.queries, inputs.exposure.first)
    })
    .explained(Explanation {
        name: "same_segment_share",
        measures: "How much of the attention between different tokens of text stays within the sentence, in pairs of \
            sentences.",
        formula: "sum of A[i, j] over text i != j of one sentence / the same over any text i != j",
        chance: "chance.same_segment_share: near one half, more where the two sentences are of unequal length",
        source: "The block pattern of Kovaleva et al. 2019 (arXiv:1908.08593), section 4.1, as a share; defined here.",
        caveats: "A head that attends to neighbours is near 1 without knowing of sentences: segment_r2 is beyond that.",
    }),
    SegmentMetric::single(|inputs| inputs.variation_share(inputs.sums.column)).with_chance(zero_chance).explained(Explanation {
        name: "column_r2",
        measures: "The part of the variation of the attention over pairs of sentences that goes with the key: the same \
            for every query.",
        formula: VARIATION,
        chance: NOISE,
        source: "The vertical pattern of Kovaleva et al. 2019 (arXiv:1908.08593), section 4.1; the measure is ours.",
        caveats: "Large where few keys take most of the attention, as special tokens do. Below 0 is 0.",
    }),
    SegmentMetric::single(|inputs| inputs.variation_share(inputs.sums.offset)).with_chance(zero_chance).explained(Explanation {
        name: "offset_r2",
        measures: "The part of that variation that goes with how far the key is from the query, beyond its column.",
        formula: VARIATION,
        chance: NOISE,
        source: "The diagonal pattern of Kovaleva et al. 2019 (arXiv:1908.08593), section 4.1; the measure is ours.",
        caveats: "Offsets beyond 8 on either side are one each. Below 0 is 0.",
    }),
    SegmentMetric::single(|inputs| inputs.variation_share(inputs.sums.segment)).with_chance(zero_chance).explained(Explanation {
        name: "segment_r2",
        measures: "The part of that variation that goes with whether query and key are of one sentence, beyond column \
            and offset; negative where the other sentence is attended to.",
        formula: VARIATION,
        chance: NOISE,
        source: "The block pattern of Kovaleva et al. 2019 (arXiv:1908.08593), section 4.1; the measure is ours.",
        caveats: "Offsets come first and take what near keys have in common, so of short sentences little is left.",
    }),
];
