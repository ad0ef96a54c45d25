//! Formulas and explanations of the metrics on repeated random tokens.

use super::sums::{
    AFTER_TWIN_KEY, BEFORE_TWIN_KEY, DETECTOR_NAMES, KEY_KINDS, KEY_OFFSETS, MASKED_TWIN_KEY, RepeatExposure,
    RepeatHeadSums, TWIN_KEY,
};
use crate::study::metrics::explanation::Explanation;
use crate::study::metrics::metric::{self, Fraction, Metric, MetricKeys};

/// Sums of one head from which its metrics are computed, in one jackknife block or in all.
pub struct RepeatInputs<'a> {
    pub exposure: &'a RepeatExposure,
    pub sums: &'a RepeatHeadSums,
    /// Copying score of the head's weights. `None` for a single block, since the weights belong to no block.
    pub copying: Option<f64>,
}

type RepeatMetric = Metric<for<'a> fn(&RepeatInputs<'a>, usize) -> Fraction>;

impl RepeatInputs<'_> {
    /// Values of all metrics of the head. Some metrics have several, such as one per offset.
    pub fn metric_values(&self) -> Vec<Fraction> {
        metric::cells(METRICS, |metric, cell| (metric.value)(self, cell))
    }

    /// Chance levels, in the order of `metric_values`: each metric's own definition, or else its value under uniform
    /// attention. The copying score has a chance level only over all blocks (`of_all`).
    pub fn chance_levels(exposure: &RepeatExposure, of_all: bool) -> Vec<Fraction> {
        let (uniform, offset, detected) = (exposure.uniform, exposure.offset_uniform, exposure.detected_uniform);
        let even = RepeatHeadSums { mass: uniform, null: uniform, offset, detected, ..RepeatHeadSums::default() };
        let inputs = RepeatInputs { exposure, sums: &even, copying: of_all.then_some(0.0) };
        metric::cells(METRICS, |metric, cell| metric.chance.unwrap_or(metric.value)(&inputs, cell))
    }

    /// Value computed for a kind of target key; `part` is an index in [`KEY_METRIC_PARTS`].
    fn key_metric_value(&self, kind: usize, part: usize) -> Fraction {
        let (mass, null) = (self.sums.mass[kind].value(), self.sums.null[kind].value());
        let sum = match KEY_METRIC_PARTS[part] {
            "score" => mass - null,
            "mass" => mass,
            "null" => null,
            _ => self.sums.argmax[kind] as f64,
        };
        self.mean_over_queries(kind, sum)
    }

    /// As `key_metric_value`, under uniform attention, where each key is equally likely to be the most attended.
    fn key_metric_chance(&self, kind: usize, part: usize) -> Fraction {
        if KEY_METRIC_PARTS[part] == "argmax" {
            self.mean_over_queries(kind, self.exposure.uniform[kind].value())
        } else {
            self.key_metric_value(kind, part)
        }
    }

    /// Divides a sum by the number of queries with this kind of target key.
    fn mean_over_queries(&self, kind: usize, sum: f64) -> Fraction {
        let sequences = self.exposure.sequences[usize::from(kind == MASKED_TWIN_KEY)];
        Fraction::mean(sum, self.exposure.queries[kind], sequences)
    }
}

/// Names of the values computed for each kind of target key.
const KEY_METRIC_PARTS: [&str; 4] = ["score", "mass", "null", "argmax"];

const BY_PART: MetricKeys = MetricKeys::Several(KEY_METRIC_PARTS.len(), |place| KEY_METRIC_PARTS[place].to_owned());

/// Texts that the explanations of all kinds of target keys have in common.
const TARGET_KEY_EXPLANATION: Explanation = Explanation {
    name: "",
    measures: "",
    formula: "score = mass - null: mass = mean of A[i, key], null = mean over the same queries of the mean of \
        A[i, j] over text j at least 4 from the key and 8 from i; argmax = share of them whose most attended token is the \
        key",
    chance: "score 0; mass, null and argmax 1/v",
    source: "",
    caveats: "On random tokens, so that nothing but the tokens tells the key from others; on text a head may use them \
        otherwise.",
};

/// Returns the metric of one kind of target key, with all of [`KEY_METRIC_PARTS`].
const fn key_metric<const KEY: usize>(explanation: Explanation) -> RepeatMetric {
    RepeatMetric::keyed(BY_PART, |inputs, part| inputs.key_metric_value(KEY, part))
        .with_chance(|inputs, part| inputs.key_metric_chance(KEY, part))
        .with_explanation(explanation)
}

const _: () = assert!(KEY_KINDS == 4 && TWIN_KEY == 0, "the table has a metric for each kind of key");

pub const METRICS: &[RepeatMetric] = &[
    key_metric::<TWIN_KEY>(Explanation {
        name: "repeat_same",
        measures: "How much a random token attends to its twin, the same token in the other copy.",
        source: "Duplicate-token heads: Wang et al. 2022 (arXiv:2211.00593), section 3; the null is ours.",
        ..TARGET_KEY_EXPLANATION
    }),
    key_metric::<AFTER_TWIN_KEY>(Explanation {
        name: "repeat_next",
        measures: "How much a random token attends to the token after its twin.",
        source: "Prefix matching of induction heads: Olsson et al. 2022 (arXiv:2209.11895); the null is ours.",
        ..TARGET_KEY_EXPLANATION
    }),
    key_metric::<BEFORE_TWIN_KEY>(Explanation {
        name: "repeat_previous",
        measures: "How much a random token attends to the token before its twin.",
        source: "The mirror of prefix matching, which a model without a causal mask can have; defined here.",
        ..TARGET_KEY_EXPLANATION
    }),
    key_metric::<MASKED_TWIN_KEY>(Explanation {
        name: "repeat_masked",
        measures: "How much a mask in the second copy attends to the token that it stands for, in the first.",
        source: "Defined here: without the token itself only the context tells where its twin is.",
        caveats: "Null where the tokenizer has no mask token. Eight masks a sequence, one at a time.",
        ..TARGET_KEY_EXPLANATION
    }),
    RepeatMetric::keyed(
        MetricKeys::Several(KEY_OFFSETS.len(), |place| KEY_OFFSETS[place].to_string()),
        |inputs, place| {
            let RepeatExposure { offset_queries, sequences, .. } = inputs.exposure;
            Fraction::mean(inputs.sums.offset[place].value(), offset_queries[place], sequences[0])
        },
    )
    .with_explanation(Explanation {
        name: "random_offset",
        measures: "How much a random token attends to the token before or after it.",
        formula: "random_offset[k] = mean of A[i, i+k] over text i with i+k in the text, on the random tokens",
        chance: "1/v",
        source: "offset_mass (Clark et al. 2019, section 3.1) where the tokens tell nothing; defined here.",
        caveats: "A head that attends to a neighbour on text and not here does not go by position alone.",
    }),
    RepeatMetric::keyed(
        MetricKeys::Several(DETECTOR_NAMES.len(), |place| DETECTOR_NAMES[place].to_owned()),
        |inputs, place| {
            Fraction::mean(inputs.sums.detected[place].value(), inputs.exposure.detected, inputs.exposure.detected)
        },
    )
    .with_explanation(Explanation {
        name: "head_detector",
        measures: "The scores by which TransformerLens detects heads, on the random tokens: the share of a decoder's \
            attention that is where such a head has it.",
        formula: "mean over the sequences of (sum of A[i, j] over the pairs of the head) / (sum of all A[i, j]); the \
            pairs are j = i - 1 of previous_token_head; j < i with the same token of duplicate_token_head; those with \
            j - 1 < i the same token of induction_head",
        chance: "the same of even attention",
        source: "transformer_lens.head_detector.detect_head, 4.3.0, with its defaults (`error_measure=\"mul\"`), whose \
            names these are.",
        caveats: "To compare with TransformerLens: first copies have no twin before them and count all the same, so \
            that no head has 1; attention to the first token counts; and no label rests on it. `repeat_next` and the \
            others are of the queries that can find something, beside other keys. Null in encoders.",
    }),
    RepeatMetric::single(|inputs, _| inputs.copying.map_or(Fraction::NONE, |copying| Fraction::new(copying, 1.0)))
        .with_explanation(Explanation {
            name: "copying",
            measures: "Whether what the head writes looks like the token that it read, as far as its weights alone \
                tell: 1 if each part of a word embedding comes back with the same sign, -1 if with the other.",
            formula: "copying = Re(sum λ) / sum |λ| over the eigenvalues λ of W_O E^T E W_V, E the word embeddings \
                less their mean, times the projection to hidden states where there is one",
            chance: "0: the eigenvalues of a random product are as often on the one side as on the other",
            source: "Copying of OV circuits: Elhage et al. 2021 (transformer-circuits.pub), \"Summarizing OV/QK \
                matrices\".",
            caveats: "Of weights alone, so there is no interval: no sentence has a part in it. Layer normalisation, \
                positions and the layers between the embeddings and the head are left out, so it says least of late \
                layers. Null above layer 0 of decoders: there it is negative of induction heads that copy (`copy_rank` \
                measures that). Of encoders it says nothing of what a later layer reads either.",
        }),
];
