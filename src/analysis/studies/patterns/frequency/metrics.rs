//! Table of the metrics of study `frequency`.

use super::sums::{FrequencyExposure, FrequencyHeadSums};
use crate::study::instruments::position::Rates;
use crate::study::labels::content::{TIMES_EXPECTED, expected, over_chance, over_position};
use crate::study::metrics::explanation::{Explanation, OURS};
use crate::study::metrics::metric::{Eligible, Fraction, Metric};

/// Sums of one head, in one block or in all blocks, with their denominators.
pub(super) struct FrequencyInputs<'a> {
    pub exposure: &'a FrequencyExposure,
    pub sums: &'a FrequencyHeadSums,
    pub whole: &'a FrequencyHeadSums,
    /// Rates at which offsets alone find the rarest tokens, `[by argmax, by mass]`.
    pub rates: &'a [Rates; 2],
}

pub(super) type FrequencyMetric = Metric<for<'a> fn(&FrequencyInputs<'a>, usize) -> Fraction>;

impl FrequencyInputs<'_> {
    /// Number of queries whose most attended token is among the sentence's rarest, as expected from offsets alone.
    fn expected_argmax(&self) -> f64 {
        self.rates[0].expected(&self.sums.argmax_profile, &self.whole.argmax_profile)
    }

    /// Attention to the rarest tokens, as expected from offsets alone.
    fn expected_mass(&self) -> f64 {
        self.rates[1].expected(&self.sums.mass_profile, &self.whole.mass_profile)
    }

    /// Metric `rare_argmax` less a baseline, both as sums over queries.
    fn rare_argmax_over(&self, baseline: f64) -> Fraction {
        self.of_others(self.sums.argmax as f64 - baseline)
    }

    fn of_others(&self, sum: f64) -> Fraction {
        self.exposure.others.mean(sum)
    }

    /// Mean over queries with attention to other text tokens. In the chance baseline, all queries have some.
    fn of_queries(&self, sum: f64, queries: u64) -> Fraction {
        let Eligible { count, sentences } = self.exposure.queries;
        Fraction::new(sum, queries as f64).over(count, sentences)
    }

    fn of_rarest(&self, sum: f64, queries: u64) -> Fraction {
        let Eligible { count, sentences } = self.exposure.rarest;
        Fraction::new(sum, queries as f64).over(count, sentences)
    }
}

const VOITA: &str = "Voita et al. 2019, section 5.3: rare tokens.";
const COUNTED: &str = "R are the sentence's tokens of least count in the corpus; sentences of which they are among the \
    500 commonest tokens do not count, so that a corpus of few words has no value.";

pub(super) const METRICS: &[FrequencyMetric] = &[
    FrequencyMetric::single(|seen, _| seen.of_others(seen.sums.argmax as f64))
        .with_chance(|seen, _| seen.of_others(seen.exposure.argmax.value()))
        .explained(Explanation {
            name: "rare_argmax",
            measures: "How often the most attended token of text is one of the rarest of the sentence.",
            formula: "share of i in T without R whose argmax_j A[i, j] is in R, j in T",
            chance: "|R|/|T|",
            source: VOITA,
            caveats: COUNTED,
        }),
    FrequencyMetric::single(|seen, _| seen.of_others(seen.expected_argmax()))
        .with_chance(|seen, _| seen.of_others(seen.exposure.argmax.value()))
        .explained(expected!("rare_argmax")),
    FrequencyMetric::single(|seen, _| seen.rare_argmax_over(seen.exposure.argmax.value()))
        .with_chance(|seen, _| seen.of_others(0.0))
        .explained(over_chance!("rare_argmax")),
    FrequencyMetric::single(|seen, _| seen.rare_argmax_over(TIMES_EXPECTED * seen.expected_argmax()))
        .with_chance(|seen, _| seen.of_others((1.0 - TIMES_EXPECTED) * seen.exposure.argmax.value()))
        .explained(over_position!("rare_argmax")),
    FrequencyMetric::single(|seen, _| seen.of_others(seen.sums.mass.value()))
        .with_chance(|seen, _| seen.of_others(seen.exposure.mass.value()))
        .explained(Explanation {
            name: "rare_mass",
            measures: "How much a token attends to the rarest tokens of the sentence.",
            formula: "mean over i in T without R of the sum of A[i, j] over j in R",
            chance: "|R|/v",
            source: VOITA,
            caveats: COUNTED,
        }),
    FrequencyMetric::single(|seen, _| seen.of_others(seen.expected_mass()))
        .with_chance(|seen, _| seen.of_others(seen.exposure.mass.value()))
        .explained(expected!("rare_mass")),
    FrequencyMetric::single(|seen, _| seen.of_queries(seen.sums.shift.value(), seen.sums.shifted))
        .with_chance(|seen, _| seen.of_queries(0.0, seen.exposure.queries.count))
        .explained(Explanation {
            name: "frequency_shift",
            measures: "How much more common the attended tokens are than the others of the sentence; below 0 they are \
                rarer.",
            formula: "mean over i in T of (sum_j A[i, j] u_j) / (sum_j A[i, j]) - mean_j u_j, j in T without i; u_j \
                the share of occurrences in the corpus that are of rarer tokens, and half of that of tokens as common",
            chance: "0",
            source: OURS,
            caveats: "Punctuation is the commonest of all: a head that goes there goes to common tokens.",
        }),
    FrequencyMetric::single(|seen, _| seen.of_rarest(seen.sums.shift_rare.value(), seen.sums.shifted_rare))
        .with_chance(|seen, _| seen.of_rarest(0.0, seen.exposure.rarest.count))
        .explained(Explanation {
            name: "frequency_shift_rare",
            measures: "The `frequency_shift` from the rarest tokens of the sentence: how much a head goes from rare \
                words to common ones.",
            formula: "as frequency_shift, over i in R",
            chance: "0",
            source: OURS,
            caveats: COUNTED,
        }),
];
