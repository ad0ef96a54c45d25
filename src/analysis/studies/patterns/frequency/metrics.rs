//! Formulas and explanations of the metrics of attention to rare tokens.

use super::sums::{FrequencyExposure, FrequencyHeadSums};
use crate::study::instruments::position::TargetRates;
use crate::study::labels::content::{POSITION_FACTOR, expected, over_chance, over_position};
use crate::study::metrics::explanation::{DEFINED_HERE, Explanation};
use crate::study::metrics::metric::{EligibleCounts, Fraction, Metric};

/// Sums of one head from which its metrics are computed, in one jackknife block or in all.
pub(super) struct FrequencyInputs<'a> {
    pub exposure: &'a FrequencyExposure,
    pub sums: &'a FrequencyHeadSums,
    /// Sums of the head over all blocks.
    pub corpus_sums: &'a FrequencyHeadSums,
    /// Probability that the key at each offset is one of the sentence's rarest tokens, for `argmax` and for `mass`.
    pub rates: &'a [TargetRates; 2],
}

pub(super) type FrequencyMetric = Metric<for<'a> fn(&FrequencyInputs<'a>, usize) -> Fraction>;

impl FrequencyInputs<'_> {
    /// Number of queries whose most attended token is among the rarest, expected from the head's offsets alone.
    fn expected_argmax(&self) -> f64 {
        self.rates[0].expected_score_part(&self.sums.argmax_profile, &self.corpus_sums.argmax_profile)
    }

    /// Attention to the sentence's rarest tokens, expected from the head's offsets alone.
    fn expected_mass(&self) -> f64 {
        self.rates[1].expected_score_part(&self.sums.mass_profile, &self.corpus_sums.mass_profile)
    }

    /// Metric `rare_argmax` minus a baseline, which is given as a sum over queries.
    fn rare_argmax_lead(&self, baseline: f64) -> Fraction {
        self.mean_over_common_queries(self.sums.argmax as f64 - baseline)
    }

    /// Divides `sum` by the number of queries that see one of their sentence's rarest tokens and are not among these themselves
    /// ([`FrequencyExposure::others`]).
    fn mean_over_common_queries(&self, sum: f64) -> Fraction {
        self.exposure.others.mean(sum)
    }
}

/// Mean frequency shift: `sum` over the `queries` that attend to other text tokens. The evidence counts include
/// eligible queries that attend to none.
fn mean_shift(sum: f64, queries: u64, EligibleCounts { count, sentences }: EligibleCounts) -> Fraction {
    Fraction::new(sum, queries as f64).with_evidence(count, sentences)
}

const VOITA_SOURCE: &str = "Voita et al. 2019, section 5.3: rare tokens.";
const RAREST_CAVEATS: &str = "R are the sentence's tokens of least count in the corpus. A sentence does not count if they are among the \
    500 commonest tokens, so a corpus of few words has no value.";

pub(super) const METRICS: &[FrequencyMetric] = &[
    FrequencyMetric::single(|inputs, _| inputs.mean_over_common_queries(inputs.sums.argmax as f64))
        .with_chance(|inputs, _| inputs.mean_over_common_queries(inputs.exposure.argmax.value()))
        .with_explanation(Explanation {
            name: "rare_argmax",
            measures: "How often the most attended token of text is one of the rarest of the sentence.",
            formula: "share of i in T without R whose argmax_j A[i, j] is in R, j in T",
            chance: "|R|/|T|",
            source: VOITA_SOURCE,
            caveats: RAREST_CAVEATS,
        }),
    FrequencyMetric::single(|inputs, _| inputs.mean_over_common_queries(inputs.expected_argmax()))
        .with_chance(|inputs, _| inputs.mean_over_common_queries(inputs.exposure.argmax.value()))
        .with_explanation(expected!("rare_argmax")),
    FrequencyMetric::single(|inputs, _| inputs.rare_argmax_lead(inputs.exposure.argmax.value()))
        .with_chance(|inputs, _| inputs.mean_over_common_queries(0.0))
        .with_explanation(over_chance!("rare_argmax")),
    FrequencyMetric::single(|inputs, _| inputs.rare_argmax_lead(POSITION_FACTOR * inputs.expected_argmax()))
        .with_chance(|inputs, _| {
            inputs.mean_over_common_queries((1.0 - POSITION_FACTOR) * inputs.exposure.argmax.value())
        })
        .with_explanation(over_position!("rare_argmax")),
    FrequencyMetric::single(|inputs, _| inputs.mean_over_common_queries(inputs.sums.mass.value()))
        .with_chance(|inputs, _| inputs.mean_over_common_queries(inputs.exposure.mass.value()))
        .with_explanation(Explanation {
            name: "rare_mass",
            measures: "How much a token attends to the rarest tokens of the sentence.",
            formula: "mean over i in T without R of the sum of A[i, j] over j in R",
            chance: "|R|/v",
            source: VOITA_SOURCE,
            caveats: RAREST_CAVEATS,
        }),
    FrequencyMetric::single(|inputs, _| inputs.mean_over_common_queries(inputs.expected_mass()))
        .with_chance(|inputs, _| inputs.mean_over_common_queries(inputs.exposure.mass.value()))
        .with_explanation(expected!("rare_mass")),
    FrequencyMetric::single(|inputs, _| {
        mean_shift(inputs.sums.shift.value(), inputs.sums.shifted, inputs.exposure.queries)
    })
    .with_chance(|inputs, _| mean_shift(0.0, inputs.exposure.queries.count, inputs.exposure.queries))
    .with_explanation(Explanation {
        name: "frequency_shift",
        measures: "How much more common the attended tokens are than the others of the sentence; below 0 they are \
                rarer.",
        formula: "mean over i in T of (sum_j A[i, j] u_j) / (sum_j A[i, j]) - mean_j u_j, j in T without i; u_j \
                the share of occurrences in the corpus that are of rarer tokens, and half of that of tokens as common",
        chance: "0",
        source: DEFINED_HERE,
        caveats: "Punctuation is the commonest of all: a head that goes there goes to common tokens.",
    }),
    FrequencyMetric::single(|inputs, _| {
        mean_shift(inputs.sums.shift_rare.value(), inputs.sums.shifted_rare, inputs.exposure.rarest)
    })
    .with_chance(|inputs, _| mean_shift(0.0, inputs.exposure.rarest.count, inputs.exposure.rarest))
    .with_explanation(Explanation {
        name: "frequency_shift_rare",
        measures: "The `frequency_shift` from the rarest tokens of the sentence: how much a head goes from rare \
                words to common ones.",
        formula: "as frequency_shift, over i in R",
        chance: "0",
        source: DEFINED_HERE,
        caveats: RAREST_CAVEATS,
    }),
];
