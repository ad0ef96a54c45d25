//! Formulas and explanations of the shares of explained variance, and the label of heads that attend to fixed positions.

use anstyle::AnsiColor;

use super::cues::CUE_GROUPS;
use super::positions::{PlaceHeadSums, PlaceSums};
use super::sentence::{ALL_KEYS, KEY_SET_COUNT, TEXT_KEYS};
use super::shares::{ALL_CUES_INDEX, GROUP_COUNT, KeySetShares, MIN_VARIANCE, alone_index, unique_index};
use super::sums::KeySetSums;
use crate::stats::blocks::BLOCKS;
use crate::study::labels::evidence::LABEL_Q;
use crate::study::labels::policy::Threshold;
use crate::study::labels::{Detector, LabelStyle, VerbPhrase, assess_all};
use crate::study::metrics::explanation::{DEFINED_HERE, Explanation};
use crate::study::metrics::metric::{self, Fraction, Metric, MetricKeys};

/// Sums and shares of one head from which its metrics are computed, in one jackknife block or in all.
pub(super) struct ExplainedInputs<'a> {
    /// Explained shares of all heads, per key set: all keys, or the other text tokens.
    pub shares: &'a [KeySetShares; KEY_SET_COUNT],
    pub sums: &'a [KeySetSums; KEY_SET_COUNT],
    /// Products of attention rows at equal positions of two sequences: `[all blocks, this block]`.
    pub places: [&'a PlaceSums; 2],
    /// Index of the head. `None` for the chance level.
    pub head: Option<usize>,
    /// Index of the jackknife block. `None` for all blocks.
    pub block: Option<usize>,
}

impl ExplainedInputs<'_> {
    /// Values of all metrics of the head. Some metrics have several, such as one per group of cues.
    pub fn metric_values(&self) -> Vec<Fraction> {
        metric::cells(METRICS, |metric, cell| (metric.value)(self, cell))
    }

    /// Share explained over the key set with index `form`; `share` is an index in [`Shares`](super::shares::Shares).
    fn explained_share(&self, form: usize, share: usize) -> Fraction {
        let KeySetSums { rows, sentences, .. } = self.sums[form];
        let fraction = match self.head {
            Some(head) => self.shares[form].heads[head][share][self.block.unwrap_or(BLOCKS)],
            // If attention is independent of the cues, coefficients fitted to other blocks explain nothing.
            None if rows > 0 && self.shares[form].has_cues[share] => Fraction::new(0.0, rows as f64),
            None => Fraction::NONE,
        };
        fraction.with_evidence(rows, sentences)
    }

    /// Divides a sum over pairs of sequences by the squared norms of their attention rows.
    fn recurring_share(&self, numerator: impl Fn(&PlaceHeadSums) -> f64) -> Fraction {
        let [total, block] = self.places;
        let rows = block.rows as f64;
        let fraction = match self.head {
            _ if !total.has_enough_pairs() => Fraction::NONE,
            None => Fraction::new(0.0, rows),
            // Even attention, or a head of another class of layers.
            Some(head) if total.heads[head].squares.value() <= MIN_VARIANCE * total.rows as f64 => Fraction::NONE,
            Some(head) => {
                let sums = block.heads.get(head).copied().unwrap_or_default();
                Fraction::new(numerator(&sums), sums.squares.value())
            }
        };
        fraction.with_evidence(block.rows, block.sentences)
    }
}

const BY_KEY_SET: MetricKeys = MetricKeys::Several(KEY_SET_COUNT, |form| ["all-keys", "text"][form].to_owned());
const BY_GROUP: MetricKeys = MetricKeys::Several(GROUP_COUNT, |group| CUE_GROUPS[group].name.to_owned());

const CHANCE: &str = "0: in a block the cues are fitted to all others, so that cues which have nothing to do with the attention \
    explain nothing, or a little less";
const CAVEATS: &str = "Least squares explain what is linear in the cues; a head can depend on one in another way. Cues that \
    the corpus lacks are left out: `explained_variance.cues` of the report names those used.";
const UNIQUE_SHARE_CAVEATS: &str = "What several groups say alike is in none of their shares: these do not add up to what all explain. Below 0 where the \
    coefficients of the group do not hold for other sentences.";

const EXPLAINED_BY_PLACE: &str = "explained_by_place";
/// Name of the metric for the part of metric [`EXPLAINED_BY_PLACE`] that offsets do not explain.
const PLACE_OVER_OFFSETS: &str = "explained_by_place_over_offsets";

const PLACE_CAVEATS: &str = "Null unless half of the sequences behind one of another group are as long as that, up to a tenth. Sequences of \
    one family have like tokens at like places, which makes it larger.";

type ExplainedMetric = Metric<fn(&ExplainedInputs<'_>, usize) -> Fraction>;

pub(super) const METRICS: &[ExplainedMetric] = &[
    ExplainedMetric::keyed(BY_KEY_SET, |inputs, form| inputs.explained_share(form, ALL_CUES_INDEX)).with_explanation(Explanation {
            name: "explained_all",
            measures: "How much of what varies within the rows of a head's attention all known cues explain together.",
            formula: "1 - sum_b (Y_b - 2 β' b_b + β' G_b β) / sum_b Y_b, in block b: G_b the sum of x x', b_b of x y, Y_b of y², over \
                queries i in T, all centred within the row, and β = G^+ b over all other blocks; all-keys: y = A[i, j] over all \
                keys; text: y = A[i, j] over the sum of the row, j in T without i",
            chance: CHANCE,
            source: DEFINED_HERE,
            caveats: CAVEATS,
        }),
    ExplainedMetric::keyed(BY_GROUP, |inputs, group| inputs.explained_share(ALL_KEYS, alone_index(group))).with_explanation(Explanation {
        name: "explained_alone",
        measures: "How much of a head's attention over all keys each group of cues explains alone.",
        formula: "explained_all[all-keys] by the cues of the group",
        chance: CHANCE,
        source: DEFINED_HERE,
        caveats: CAVEATS,
    }),
    ExplainedMetric::keyed(BY_GROUP, |inputs, group| inputs.explained_share(ALL_KEYS, unique_index(group))).with_explanation(Explanation {
        name: "explained_unique",
        measures: "How much of a head's attention over all keys each group of cues explains that the others do not.",
        formula: "explained_all[all-keys] less the same by the cues of all other groups",
        chance: CHANCE,
        source: DEFINED_HERE,
        caveats: UNIQUE_SHARE_CAVEATS,
    }),
    ExplainedMetric::keyed(BY_GROUP, |inputs, group| inputs.explained_share(TEXT_KEYS, alone_index(group))).with_explanation(Explanation {
        name: "explained_text_alone",
        measures: "How much of a head's attention between tokens of text each group of cues explains alone.",
        formula: "explained[text] by the cues of the group",
        chance: CHANCE,
        source: DEFINED_HERE,
        caveats: CAVEATS,
    }),
    ExplainedMetric::keyed(BY_GROUP, |inputs, group| inputs.explained_share(TEXT_KEYS, unique_index(group))).with_explanation(Explanation {
        name: "explained_text_unique",
        measures: "How much of a head's attention between tokens of text each group of cues explains that the others do not.",
        formula: "explained[text] less the same by the cues of all other groups",
        chance: CHANCE,
        source: DEFINED_HERE,
        caveats: UNIQUE_SHARE_CAVEATS,
    }),
    ExplainedMetric::single(|inputs, _| inputs.recurring_share(|sums| sums.shared.value())).with_explanation(Explanation {
        name: EXPLAINED_BY_PLACE,
        measures: "How much of a head's attention between tokens of text other sequences have at the same places, whatever tokens \
            stand there.",
        formula: "sum x y / sum (x² + y²) / 2 over rows that a sequence and the one before it in its pack both have, x and y \
            their A[i, j] over the sum of the row, j in T without i, of the places that both have, centred within the row",
        chance: "0: what heads attend to depends on the tokens alone",
        source: DEFINED_HERE,
        caveats: PLACE_CAVEATS,
    }),
    ExplainedMetric::single(|inputs, _| inputs.recurring_share(|sums| sums.shared.value() - sums.offsets.value())).with_explanation(
        Explanation {
            name: PLACE_OVER_OFFSETS,
            measures: "How much of a head's attention other sequences have at the same places, beyond what they have at the same offsets.",
            formula: "explained_by_place less the same with x and y replaced by their means at each offset j - i",
            chance: "0: a head that goes by offsets, or by tokens",
            source: DEFINED_HERE,
            caveats: PLACE_CAVEATS,
        },
    ),
];

const MIN_PLACE_SHARE: Threshold =
    Threshold::rule("place_share", 0.5, "smallest `explained_by_place` of `place`: most of what varies within rows");

const MIN_PLACE_OVER_OFFSETS: Threshold = Threshold::rule(
    "place_over_offsets",
    0.1,
    "smallest `explained_by_place_over_offsets` of `place`: a head that goes by offsets has 0",
);

pub(super) const PLACE_DETECTOR: Detector = Detector {
    thresholds: &[&MIN_PLACE_SHARE, &MIN_PLACE_OVER_OFFSETS, &LABEL_Q],
    phrase: VerbPhrase::Fixed("attends to fixed places, whatever tokens stand there"),
    style: LabelStyle::new(Some("place"), AnsiColor::Cyan),
    assess: |evidence, policy| {
        let scores = [(EXPLAINED_BY_PLACE, &MIN_PLACE_SHARE), (PLACE_OVER_OFFSETS, &MIN_PLACE_OVER_OFFSETS)];
        let scores = scores.map(|(name, least)| (name.to_owned(), evidence.metric(name, None), policy.rule(least)));
        assess_all("place", scores).into_iter().collect()
    },
    ..Detector::new_role(Explanation {
        name: "place",
        measures: "In sequences of like length the head attends to the same places, whatever tokens stand there.",
        formula: "explained_by_place >= {place_share} and explained_by_place_over_offsets >= {place_over_offsets}, by blocks, the larger \
            p, q <= {label_q}",
        chance: "0: attention that depends on the tokens alone; offsets are subtracted",
        source: "Defined here.",
        caveats: "In a family of sequences with like tokens at like places, a head that goes by tokens has it, too.",
    })
};
