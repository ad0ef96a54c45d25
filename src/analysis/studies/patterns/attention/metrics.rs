//! Formulas and explanations of the attention metrics.

use super::tokens::{TokenExposure, TokenSums};
use crate::stats::exact::ExactSum;
use crate::study::metrics::explanation::{DEFINED_HERE, Explanation};
use crate::study::metrics::metric::{self, EligibleCounts, Fraction, Metric, MetricKeys};

/// A metric of one head. Its function takes denominators, sums and the index of one of its values, such as an offset.
type AttentionMetric = Metric<fn(&TokenExposure, &TokenSums<ExactSum>, usize) -> Fraction>;

/// Values of all metrics of one head, in one jackknife block or in all. Some metrics have several, such as one per offset.
pub fn metric_values(exposure: &TokenExposure, sums: &TokenSums<ExactSum>) -> Vec<Fraction> {
    metric::cells(METRICS, |metric, cell| (metric.value)(exposure, sums, cell))
}

/// Chance levels, in the order of [`metric_values`]: by the metric's own chance function, or else its value under uniform
/// attention.
pub fn chance_levels(exposure: &TokenExposure, uniform: &TokenSums<ExactSum>) -> Vec<Fraction> {
    metric::cells(METRICS, |metric, cell| metric.chance.unwrap_or(metric.value)(exposure, uniform, cell))
}

/// Mean over the queries that see a text token at an offset; `slot` is the index of the offset, -8 first.
fn mean_at_offset(exposure: &TokenExposure, slot: usize, sum: ExactSum) -> Fraction {
    Fraction::mean(sum.value(), exposure.offset_queries[slot], exposure.offset_sentences[slot])
}

/// Ratio of two sums over queries; `eligible` counts the queries and sentences that it rests on.
fn ratio_of_sums(numerator: ExactSum, denominator: ExactSum, eligible: EligibleCounts) -> Fraction {
    Fraction::new(numerator.value(), denominator.value()).with_evidence(eligible.count, eligible.sentences)
}

/// Metrics of the study, in report order.
pub const METRICS: &[AttentionMetric] = &[
    AttentionMetric::keyed(MetricKeys::ONE_PER_OFFSET, |exposure, sums, slot| mean_at_offset(exposure, slot, sums.offset_mass[slot]))
        .with_explanation(Explanation {
            name: "offset_mass",
            measures: "How much a token attends to the token k places away, for each k of -8..8; k = 0 is the token \
                itself.",
            formula: "offset_mass[k] = mean of A[i, i+k] over i in T that see i+k in T",
            chance: "1/v on average",
            source: "Clark et al. 2019, section 3.1, for k of -1, 0, 1.",
            caveats: "The denominator is the number of tokens that have such a neighbour, not all tokens as in the \
                notebook of Clark et al.",
        }),
    AttentionMetric::keyed(MetricKeys::ONE_PER_OFFSET, |exposure, sums, slot| {
        mean_at_offset(exposure, slot, sums.offset_argmax[slot])
    })
    // Under uniform attention each key is equally likely to be the most attended: 1/n, equal to its mass.
    .with_chance(|exposure, sums, slot| mean_at_offset(exposure, slot, sums.offset_mass[slot]))
    .with_explanation(Explanation {
        name: "offset_argmax",
        measures: "How often the token k places away is the most attended one.",
        formula: "offset_argmax[k] = share of i in T that see i+k in T whose argmax_j A[i, j] is i+k, j over all \
                keys",
        chance: "1/v on average, if every key is as likely to be the largest",
        source: "Voita et al. 2019, section 5.1.",
        caveats: "It does not say how large the largest weight is: see confidence.",
    }),
    AttentionMetric::single(|exposure, sums, _| exposure.queries.mean(sums.window_mass.value())).with_explanation(Explanation {
        name: "window_mass",
        measures: "How much a token attends to the two tokens on either side.",
        formula: "mean over i in T of the sum of A[i, j] over 0 < |i-j| <= 2, j in T",
        chance: "a little under 4/v",
        source: DEFINED_HERE,
        caveats: "",
    }),
    AttentionMetric::single(|exposure, sums, _| {
        ratio_of_sums(sums.distance, sums.distance_queries, exposure.queries)
    })
    .with_explanation(Explanation {
        name: "mean_distance",
        measures: "How far away, in tokens, the attention lies that stays on text.",
        formula: "mean over i in T of (sum_j A[i, j] |i-j|) / (sum_j A[i, j]), j in T",
        chance: "that of uniform attention: about a third of the sentence's length",
        source: DEFINED_HERE,
        caveats: "Attention to special tokens is left out, so for a head that attends mostly to them it rests on \
                little.",
    }),
    AttentionMetric::single(|exposure, sums, _| {
        exposure.first_special_queries.mean(sums.first_special_mass.value())
    })
    .with_explanation(Explanation {
        name: "first_special_mass",
        measures: "How much a token attends to the first special token ([CLS]).",
        formula: "mean over i in T that see it of A[i, first special]",
        chance: "1/v on average",
        source: "Clark et al. 2019, section 3.",
        caveats: "",
    }),
    AttentionMetric::single(|exposure, sums, _| exposure.first_token_queries.mean(sums.first_token_mass.value()))
        .with_explanation(Explanation {
            name: "first_token_mass",
            measures: "How much a token attends to the first token of what a decoder reads, special or not.",
            formula: "mean over i in T that see it of A[i, first token]; the first token is not in T",
            chance: "1/v on average",
            source: "Xiao et al. 2024, section 3.1, who call it an attention sink; Gu et al. 2025.",
            caveats: "The first token may be a word, as with GPT-2's tokenizer: attention to the place and to the word \
                are not told apart. It is null in encoders.",
        }),
    AttentionMetric::single(|exposure, sums, _| exposure.separator_queries.mean(sums.separator_mass.value()))
        .with_explanation(Explanation {
            name: "separator_mass",
            measures: "How much a token attends to the separators ([SEP]).",
            formula: "mean over i in T that see one of the sum of A[i, j] over separators j",
            chance: "the number of separators over v",
            source: "Clark et al. 2019, section 3.2.",
            caveats: "",
        }),
    AttentionMetric::single(|exposure, sums, _| exposure.separators.mean(sums.separator_self_mass.value()))
        .with_explanation(Explanation {
            name: "separator_self_mass",
            measures: "How much the separators attend to themselves and each other.",
            formula: "mean over separators i of the sum of A[i, j] over separators j",
            chance: "the number of separators over v",
            source: "Clark et al. 2019, section 3.2.",
            caveats: "There are far fewer separators than tokens: one or two in a sequence.",
        }),
    AttentionMetric::single(|exposure, sums, _| exposure.queries.mean(sums.punctuation_mass.value()))
        .with_explanation(Explanation {
            name: "punctuation_mass",
            measures: "How much a token attends to punctuation.",
            formula: "mean over i in T of the sum of A[i, j] over tokens j that are all Unicode punctuation (category P)",
            chance: "the share of tokens that are punctuation",
            source: "Clark et al. 2019, section 3.2, who count periods and commas only.",
            caveats: "",
        }),
    AttentionMetric::single(|exposure, sums, _| exposure.queries.mean(sums.entropy.value()))
        // From the definition: a sum over 1/n rounded to f32 would err in the eighth digit.
        .with_chance(|exposure, _, _| exposure.queries.mean(exposure.max_entropy.value()))
        .with_explanation(Explanation {
            name: "entropy",
            measures: "How widely a token's attention is spread, in nats.",
            formula: "mean over i in T of -sum_j A[i, j] ln A[i, j]",
            chance: "the mean of ln v",
            source: "Clark et al. 2019, section 3.3.",
            caveats: "It grows with the length of the sentence: compare entropy_ratio.",
        }),
    AttentionMetric::single(|exposure, sums, _| {
        ratio_of_sums(sums.entropy, exposure.max_entropy, exposure.queries)
    })
    .with_chance(|exposure, _, _| ratio_of_sums(exposure.max_entropy, exposure.max_entropy, exposure.queries))
    .with_explanation(Explanation {
        name: "entropy_ratio",
        measures: "How widely a token's attention is spread, as a share of the widest possible.",
        formula: "(sum over i in T of the row's entropy) / (sum over the same rows of ln v)",
        chance: "1",
        source: DEFINED_HERE,
        caveats: "",
    }),
    AttentionMetric::single(|exposure, sums, _| {
        ratio_of_sums(sums.first_special_entropy, exposure.first_special_max_entropy, exposure.first_specials)
    })
    .with_chance(|exposure, _, _| {
        ratio_of_sums(exposure.first_special_max_entropy, exposure.first_special_max_entropy, exposure.first_specials)
    })
    .with_explanation(Explanation {
        name: "first_special_entropy_ratio",
        measures: "How widely the first special token itself attends.",
        formula: "the entropy ratio of the first special token's rows",
        chance: "1",
        source: "Clark et al. 2019, section 3.3, who give the entropy from [CLS] in nats.",
        caveats: "There is one such row in a sentence.",
    }),
    AttentionMetric::single(|exposure, sums, _| exposure.queries.mean(sums.confidence.value())).with_explanation(Explanation {
        name: "confidence",
        measures: "How large the largest weight of a token's attention is.",
        formula: "mean over i in T of max_j A[i, j], j over all positions but separators",
        chance: "1/v on average",
        source: "Voita et al. 2019, section 4, who leave the end-of-sentence token out.",
        caveats: "",
    }),
];
