//! Formulas and explanations of the metrics of study `norms`.

use super::observe::{NormSums, SINK_KIND_COUNT, SINK_NAMES};
use super::shares::{FractionsByBlock, OutputShares};
use super::sums::NormExposure;
use crate::stats::exact::ExactSum;
use crate::study::metrics::explanation::{DEFINED_HERE, Explanation};
use crate::study::metrics::metric::{self, Fraction, Metric, MetricKeys};

/// Sums of one head from which its metrics are computed, in one jackknife block or in all.
pub struct NormInputs<'a> {
    pub exposure: &'a NormExposure,
    /// Denominators over all blocks. If the corpus lacks a kind of sink, its metrics have no value, instead of 0.
    pub corpus_exposure: &'a NormExposure,
    pub sums: &'a NormSums<ExactSum>,
    /// Sums of all heads in the head's layer, for shares of the layer's output.
    pub layer_sums: &'a [NormSums<ExactSum>],
    /// Shares of variance of the head's output vectors.
    pub shares: &'a OutputShares,
    /// Index of the jackknife block. The index after the last block stands for all blocks.
    pub block_index: usize,
}

type NormMetric = Metric<fn(&NormInputs<'_>, usize) -> Fraction>;

impl NormInputs<'_> {
    /// Values of all metrics of the head. Some metrics have several, such as one per offset.
    pub fn metric_values(&self) -> Vec<Fraction> {
        metric::cells(METRICS, |metric, cell| (metric.value)(self, cell))
    }

    /// Chance levels of all metrics of the head, in the order of [`metric_values`](Self::metric_values).
    pub fn chance_levels(&self) -> Vec<Fraction> {
        metric::cells(METRICS, |metric, cell| metric.chance.map_or(Fraction::NONE, |chance| chance(self, cell)))
    }

    /// Ratio of two sums over text queries.
    fn ratio_over_queries(&self, numerator: ExactSum, denominator: ExactSum) -> Fraction {
        self.with_query_evidence(Fraction::new(numerator.value(), denominator.value()))
    }

    /// Attaches the numbers of text queries and of sentences that a fraction rests on.
    fn with_query_evidence(&self, fraction: Fraction) -> Fraction {
        fraction.with_evidence(self.exposure.queries, self.exposure.families)
    }

    /// Mean over text queries, except queries whose attended values are all 0.
    fn mean_over_queries(&self, sum: ExactSum) -> Fraction {
        self.mean_over_remaining_queries(self.sums.without_norm, sum)
    }

    /// Divides `sum` by the number of text queries minus `left_out`.
    fn mean_over_remaining_queries(&self, left_out: ExactSum, sum: ExactSum) -> Fraction {
        self.with_query_evidence(Fraction::new(sum.value(), self.exposure.queries as f64 - left_out.value()))
    }

    /// Mean over the text queries with a text token at one offset; `slot` is the index of the offset, -8 first.
    fn mean_at_offset(&self, slot: usize, sum: ExactSum) -> Fraction {
        let (queries, sentences) = (self.exposure.offset_queries[slot], self.exposure.offset_families[slot]);
        let counted = queries as f64 - self.sums.offset_silent[slot].value();
        Fraction::new(sum.value(), counted).with_evidence(queries, sentences)
    }

    /// Mean over the text queries that see one kind of sink. No value if the corpus lacks that kind.
    fn mean_over_sink_queries(&self, sink: usize, sum: ExactSum) -> Fraction {
        let (queries, sentences) = (self.exposure.sink_queries[sink], self.exposure.sink_families[sink]);
        let counted = queries as f64 - self.sums.sink_silent[sink].value();
        self.if_sink_is_present(sink, Fraction::new(sum.value(), counted).with_evidence(queries, sentences))
    }

    /// Returns the fraction; none if the corpus lacks this kind of sink.
    fn if_sink_is_present(&self, sink: usize, fraction: Fraction) -> Fraction {
        if self.corpus_exposure.sinks[sink] > 0 { fraction } else { Fraction::NONE }
    }

    /// Jackknife pseudo-value of a share in this block, or the share over all blocks.
    fn block_share(&self, shares: &FractionsByBlock) -> Fraction {
        self.with_query_evidence(shares[self.block_index])
    }
}

const BY_SINK: MetricKeys = MetricKeys::Several(SINK_KIND_COUNT, |sink| SINK_NAMES[sink].to_owned());

/// Index in [`SINK_NAMES`] of the first special token of a sequence, such as `[CLS]`.
const FIRST_SPECIAL_SINK: usize = 0;
/// Index in [`SINK_NAMES`] of separators.
const SEPARATOR_SINK: usize = 1;
/// Index in [`SINK_NAMES`] of punctuation.
const PUNCTUATION_SINK: usize = 2;
/// Index in [`SINK_NAMES`] of the first token of a decoder's input.
const FIRST_TOKEN_SINK: usize = 3;

const KOBAYASHI_SOURCE: &str = "Kobayashi et al. 2020, section 2.2 and 4, at the token level of Clark et al. 2019.";
const OWN_NORMS_CHANCE: &str = "uniform attention with the head's own norms: in `chance` of the head";
const NO_CHANCE_LEVEL: &str = "none: what a head without any preference for keys writes depends on its values";
const CANCELLATION_CAVEAT: &str = "Norms ignore that vectors cancel: see cancellation. The value bias is part of every norm, \
    whatever is attended to.";
const NO_BIAS_CAVEAT: &str = "The value bias is left out.";

pub const METRICS: &[NormMetric] = &[
    NormMetric::keyed(MetricKeys::ONE_PER_OFFSET, |inputs, slot| inputs.mean_at_offset(slot, inputs.sums.offset_mass[slot]))
        .with_chance(|inputs, slot| inputs.mean_at_offset(slot, inputs.sums.uniform_offset_mass[slot]))
        .with_explanation(Explanation {
            name: "norm_offset_mass",
            measures: "How much of what a head adds up for a token comes from the token k places away, by norms, for \
                each k of -8..8.",
            formula: "norm_offset_mass[k] = mean of N[i, i+k] over i in T with i+k in T, \
                N[i, j] = A[i, j] |f_j| / sum_k A[i, k] |f_k|, f_j = v_j W_O",
            chance: OWN_NORMS_CHANCE,
            source: KOBAYASHI_SOURCE,
            caveats: CANCELLATION_CAVEAT,
        }),
    NormMetric::single(|inputs, _| inputs.mean_over_queries(inputs.sums.window_mass))
        .with_chance(|inputs, _| inputs.mean_over_queries(inputs.sums.uniform_window_mass))
        .with_explanation(Explanation {
            name: "norm_window_mass",
            measures: "The same of the two tokens on either side.",
            formula: "mean over i in T of the sum of N[i, j] over 0 < |i-j| <= 2, j in T",
            chance: OWN_NORMS_CHANCE,
            source: DEFINED_HERE,
            caveats: CANCELLATION_CAVEAT,
        }),
    NormMetric::single(|inputs, _| inputs.mean_over_sink_queries(FIRST_SPECIAL_SINK, inputs.sums.sink_mass[FIRST_SPECIAL_SINK]))
        .with_chance(|inputs, _| inputs.mean_over_sink_queries(FIRST_SPECIAL_SINK, inputs.sums.uniform_sink_mass[FIRST_SPECIAL_SINK]))
        .with_explanation(Explanation {
            name: "norm_first_special_mass",
            measures: "The same of the first special token ([CLS]).",
            formula: "mean over i in T that see it of N[i, first special]",
            chance: OWN_NORMS_CHANCE,
            source: KOBAYASHI_SOURCE,
            caveats: CANCELLATION_CAVEAT,
        }),
    NormMetric::single(|inputs, _| inputs.mean_over_sink_queries(SEPARATOR_SINK, inputs.sums.sink_mass[SEPARATOR_SINK]))
        .with_chance(|inputs, _| inputs.mean_over_sink_queries(SEPARATOR_SINK, inputs.sums.uniform_sink_mass[SEPARATOR_SINK]))
        .with_explanation(Explanation {
            name: "norm_separator_mass",
            measures: "The same of the separators ([SEP]).",
            formula: "mean over i in T that see one of the sum of N[i, j] over separators j",
            chance: OWN_NORMS_CHANCE,
            source: KOBAYASHI_SOURCE,
            caveats: CANCELLATION_CAVEAT,
        }),
    NormMetric::single(|inputs, _| inputs.mean_over_queries(inputs.sums.sink_mass[PUNCTUATION_SINK]))
        .with_chance(|inputs, _| inputs.mean_over_queries(inputs.sums.uniform_sink_mass[PUNCTUATION_SINK]))
        .with_explanation(Explanation {
            name: "norm_punctuation_mass",
            measures: "The same of punctuation.",
            formula: "mean over i in T of the sum of N[i, j] over tokens j that are all Unicode punctuation (category P)",
            chance: OWN_NORMS_CHANCE,
            source: "Kobayashi et al. 2020, section 4, who count periods and commas only.",
            caveats: CANCELLATION_CAVEAT,
        }),
    NormMetric::single(|inputs, _| inputs.mean_over_sink_queries(FIRST_TOKEN_SINK, inputs.sums.sink_mass[FIRST_TOKEN_SINK]))
        .with_chance(|inputs, _| inputs.mean_over_sink_queries(FIRST_TOKEN_SINK, inputs.sums.uniform_sink_mass[FIRST_TOKEN_SINK]))
        .with_explanation(Explanation {
            name: "norm_first_token_mass",
            measures: "The same of the first token, in a decoder.",
            formula: "mean over i in T that see it of N[i, first token]",
            chance: OWN_NORMS_CHANCE,
            source: "Kobayashi et al. 2020, sections 2.2 and 4, of the sinks of Xiao et al. 2024.",
            caveats: CANCELLATION_CAVEAT,
        }),
    NormMetric::single(|inputs, _| inputs.mean_over_remaining_queries(inputs.sums.output_ratio_silent, inputs.sums.output_ratio)).with_explanation(
        Explanation {
            name: "output_ratio",
            measures: "How large what a head writes is beside what it is added to.",
            formula: "mean over i in T of |o_i| / |x_i|, o_i = sum_j A[i, j] f_j, x_i the residual stream below the layer",
            chance: NO_CHANCE_LEVEL,
            source: "After the mixing ratio of Kobayashi et al. 2021, for a single head.",
            caveats: "Where layers are normalised after the sum, x_i has the scale of that normalisation: compare within \
                a model, and rather within a layer.",
        },
    ),
    NormMetric::single(|inputs, _| inputs.ratio_over_queries(inputs.sums.output, inputs.sums.spent))
        .with_chance(|inputs, _| inputs.ratio_over_queries(inputs.sums.uniform_output, inputs.sums.uniform_spent))
        .with_explanation(Explanation {
            name: "cancellation",
            measures: "How much is left of what a head adds up: 1 if all its vectors point the same way, near 0 if they \
                cancel.",
            formula: "(sum over i in T of |o_i|) / (sum over i in T of sum_j A[i, j] |f_j|)",
            chance: OWN_NORMS_CHANCE,
            source: DEFINED_HERE,
            caveats: "The value bias points the same way in every vector: a large one takes it to 1.",
        }),
    NormMetric::single(|inputs, _| {
        let layer: f64 = inputs.layer_sums.iter().map(|head| head.bare_output.value()).sum();
        inputs.with_query_evidence(Fraction::new(inputs.sums.bare_output.value(), layer / inputs.layer_sums.len() as f64))
    })
    .with_chance(|inputs, _| Fraction::new(inputs.exposure.queries as f64, inputs.exposure.queries as f64))
    .with_explanation(Explanation {
        name: "output_share",
        measures: "How much a head writes, as a multiple of the mean head of its layer.",
        formula: "mean over i in T of |o°_i|, divided by its mean over the heads of the layer",
        chance: "1: all heads write alike",
        source: "Sandoval-Segura et al. 2026 compare heads so, by the norm before the output projection.",
        caveats: NO_BIAS_CAVEAT,
    }),
    NormMetric::single(|inputs, _| inputs.block_share(&inputs.shares.constant)).with_explanation(Explanation {
        name: "constant_share",
        measures: "How much of what a head writes is the same for every token of the corpus.",
        formula: "|mean o°|² / mean |o°|², over i in T of all sentences",
        chance: NO_CHANCE_LEVEL,
        source: DEFINED_HERE,
        caveats: NO_BIAS_CAVEAT,
    }),
    NormMetric::single(|inputs, _| inputs.block_share(&inputs.shares.sentence)).with_explanation(Explanation {
        name: "sentence_share",
        measures: "How much of the variance of what a head writes lies between sentences: 1 if it writes the same to \
            all tokens of a sentence.",
        formula: "B / (B + W): W = the mean square of o° within sentences, B = the unbiased variance component \
            between them",
        chance: NO_CHANCE_LEVEL,
        source: "An analysis of variance with one random factor: Searle, Casella & McCulloch 1992, section 3.6.",
        caveats: "B is unbiased, so it can come out below 0. The value bias is left out, as it is of every variance.",
    }),
    NormMetric::keyed(BY_SINK, |inputs, sink| {
        inputs.if_sink_is_present(sink, inputs.ratio_over_queries(inputs.sums.sink_product[sink], inputs.sums.square))
    })
    .with_chance(|inputs, sink| {
        inputs.if_sink_is_present(sink, inputs.ratio_over_queries(inputs.sums.uniform_sink_product[sink], inputs.sums.uniform_square))
    })
    .with_explanation(Explanation {
        name: "sink_part",
        measures: "How much of what a head writes comes from a kind of sink, for each of first-special, \
            separator, punctuation and first-token.",
        formula: "(sum over i in T of <s_i, o°_i>) / (sum over i in T of |o°_i|²), \
            s_i = sum of A[i, j] f°_j over the sinks j",
        chance: "uniform attention with the head's own values: in `chance` of the head",
        source: "Defined here: the projection of a part on the whole, which adds up to 1 over all keys. \
            After Kobayashi et al. 2020, whose norms do not.",
        caveats: "Below 0 where the sinks' vectors point against what is written, above 1 where the rest does. \
            The value bias is left out.",
    }),
    NormMetric::keyed(BY_SINK, |inputs, sink| inputs.if_sink_is_present(sink, inputs.block_share(&inputs.shares.sink_constant[sink])))
        .with_explanation(Explanation {
            name: "sink_constant_share",
            measures: "How much of what comes from a kind of sink is the same for every token of the corpus.",
            formula: "n |mean s|² / sum |s_i|², over i in T of all sentences",
            chance: NO_CHANCE_LEVEL,
            source: DEFINED_HERE,
            caveats: NO_BIAS_CAVEAT,
        }),
    NormMetric::keyed(BY_SINK, |inputs, sink| inputs.if_sink_is_present(sink, inputs.block_share(&inputs.shares.sink_sentence[sink])))
        .with_explanation(Explanation {
            name: "sink_sentence_share",
            measures: "How much of what comes from a kind of sink differs between sentences and is the same within them.",
            formula: "(sum over sentences of n_s |mean of s in the sentence|² - n |mean s|²) / sum |s_i|²",
            chance: NO_CHANCE_LEVEL,
            source: DEFINED_HERE,
            caveats: "With sink_constant_share and what differs within sentences it adds up to 1. In short sentences \
                the mean of few tokens also differs between sentences: compare sentence_share, which is corrected \
                for that. The value bias is left out.",
        }),
];
