//! Table of the metrics of study `choice`.

use super::rebuilt::{
    BlockDistances, POSITION_TOKEN_VARIANT, POSITION_VARIANT, SPECIAL_VARIANT, TOKEN_VARIANT, VARIANTS,
};
use crate::stats::exact::ExactSum;
use crate::study::metrics::explanation::Explanation;
use crate::study::metrics::metric::{self, Fraction, Metric, MetricKeys};

/// Minimum mean squared Hellinger distance from uniform attention for which shares are reported. Untrained heads have .0002
/// to .002, trained heads at least .05 (docs/methodology/choice.md).
pub const MIN_MEAN_DISTANCE: f64 = 0.01;

pub const REBUILT_OVER_SPECIAL_METRIC: &str = "rebuilt_over_special";

/// Indices in [`VARIANTS`] of the inputs that keep the position alone, or the token alone.
const POSITION_OR_TOKEN_VARIANTS: [usize; 2] = [POSITION_VARIANT, TOKEN_VARIANT];

/// Sums of one head from which the metrics are computed.
pub struct ChoiceInputs<'a> {
    pub block: &'a BlockDistances,
    /// Index of the head.
    pub head: usize,
    /// Whether the head's attention is so close to uniform that no share is reported.
    pub is_uniform: bool,
}

/// Whether a head's mean distance from uniform attention is below [`MIN_MEAN_DISTANCE`].
pub fn attends_uniformly(total: &BlockDistances, head: usize) -> bool {
    total.heads[head].even.value() < MIN_MEAN_DISTANCE * total.rows as f64
}

impl ChoiceInputs<'_> {
    /// Values of all metrics of the head. A metric with variants, such as `rebuilt`, has one value for each.
    pub fn metric_values(&self) -> Vec<Fraction> {
        metric::cells(METRICS, |metric, cell| (metric.value)(self, cell))
    }

    /// Attaches the numbers of attention rows and sentences that a fraction rests on.
    fn with_row_counts(&self, fraction: Fraction) -> Fraction {
        fraction.with_evidence(self.block.rows, self.block.sentences)
    }

    /// Returns `distance(d, variants)` divided by `d`. The summed distance of the head's attention is `d` from uniform
    /// attention, and `variants[v]` from the head's attention on the inputs of [`VARIANTS`]`[v]`.
    fn share_of_uniform(&self, distance: impl Fn(f64, &[f64; VARIANTS.len()]) -> f64) -> Fraction {
        if self.is_uniform {
            return Fraction::NONE;
        }
        let sums = &self.block.heads[self.head];
        let even = sums.even.value();
        self.with_row_counts(Fraction::new(distance(even, &sums.variants.map(ExactSum::value)), even))
    }
}

/// Chance level of each metric, in the order of [`ChoiceInputs::metric_values`]. By chance, a head attends uniformly on
/// inputs without context.
pub fn chance_levels(block: &BlockDistances) -> Vec<Fraction> {
    let rows = block.rows as f64;
    let cell = |chance: f64| Fraction::new(chance * rows, rows).with_evidence(block.rows, block.sentences);
    let chances = VARIANTS.map(|_| 0.0).into_iter().chain(POSITION_OR_TOKEN_VARIANTS.map(|_| 0.0)).chain([1.0, 0.0]);
    chances.map(cell).collect()
}

const VARIANT_KEYS: MetricKeys = MetricKeys::Several(VARIANTS.len(), |variant| VARIANTS[variant].to_owned());

type ChoiceMetric = Metric<for<'a> fn(&ChoiceInputs<'a>, usize) -> Fraction>;

pub const METRICS: &[ChoiceMetric] = &[
    ChoiceMetric::keyed(VARIANT_KEYS, |inputs, variant| inputs.share_of_uniform(|even, variants| even - variants[variant])).with_explanation(
        Explanation {
            name: "rebuilt",
            measures: "Share of a head's distance from even attention that comes back when its queries and keys are \
                made of inputs without context: of nothing but special tokens, of the position, of the token, of both, \
                or of both in keys or in queries alone.",
            formula: "1 - sum d²(A_i, Ã_i) / sum d²(A_i, U_i) over rows of text, d² = ½ sum_j (√a_j - √b_j)², U even \
                over the keys that the query sees, Ã the head's attention from inputs m (special), m + P (position), m \
                + E B (token), m + P + E B (position_token), the last in keys or in queries alone (keys, queries); \
                fitted on one half of the blocks, used on the other",
            chance: "0: even attention. Below 0 where it is worse than that",
            source: "Defined here; d is the Hellinger distance.",
            caveats: "Null where the mean d²(A, U) is below .01, as in untrained heads, and where a half has fewer \
                than 10 tokens of text for each dimension of embeddings. What is not linear in the embedding, or \
                belongs to a token at a place, counts as context.",
        },
    ),
    ChoiceMetric::keyed(MetricKeys::Several(POSITION_OR_TOKEN_VARIANTS.len(), |place| VARIANTS[POSITION_OR_TOKEN_VARIANTS[place]].to_owned()), |inputs, place| {
        inputs.share_of_uniform(|_, variants| variants[SPECIAL_VARIANT] - variants[POSITION_OR_TOKEN_VARIANTS[place]])
    })
    .with_explanation(Explanation {
        name: REBUILT_OVER_SPECIAL_METRIC,
        measures: "Share of a head's distance from even attention that position alone, or the token alone, brings back \
            beyond special tokens.",
        formula: "rebuilt.position - rebuilt.special, and rebuilt.token - rebuilt.special",
        chance: "0: position, or token, adds nothing to special tokens",
        source: "Defined here.",
        caveats: "Special tokens have a part of their own in every variant, so that a head that looks at them alone \
            has 0 here.",
    }),
    ChoiceMetric::single(|inputs, _| inputs.share_of_uniform(|_, variants| variants[POSITION_TOKEN_VARIANT])).with_explanation(Explanation {
        name: "context",
        measures: "Share of a head's distance from even attention that follows neither from which token stands where, \
            nor from the two together: what the layers below have made of the tokens.",
        formula: "1 - rebuilt.position_token",
        chance: "1: even attention",
        source: "Defined here.",
        caveats: "It falls with the size of the corpus that the parts are fitted on, which the section `choice` says.",
    }),
    ChoiceMetric::single(|inputs, _| {
        let (even, rows) = (inputs.block.heads[inputs.head].even.value(), inputs.block.rows as f64);
        inputs.with_row_counts(Fraction::new(even, rows))
    })
    .with_explanation(Explanation {
        name: "distance_from_even",
        measures: "How far a head's attention is from even attention over the keys that the query sees.",
        formula: "mean over rows of text of d²(A_i, U_i), the squared Hellinger distance",
        chance: "0",
        source: "Defined here: what `rebuilt` is a share of.",
        caveats: "",
    }),
];
