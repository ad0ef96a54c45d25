//! Metric table of the study `coreference`, and the label of attention heads that find antecedents.

use anstyle::AnsiColor;
use itertools::Itertools;

use super::anaphors::{ALL_ANAPHORS_KIND, ANAPHOR_KINDS, BASELINES, OTHER_LEMMA_KIND};
use super::sums::{DIRECTION_NAMES, KindBlock, KindSums, scored_directions};
use crate::model::grid::visibility::Visibility;
use crate::study::Explanation;
use crate::study::labels::evidence::LABEL_Q;
use crate::study::labels::{Detector, LabelStyle, Parameter, Threshold, ThresholdBound, VerbPhrase, assess};
use crate::study::metrics::metric::{self, Fraction, Metric, MetricKeys};

/// Counts of one attention head from which its metrics are computed, in one block or the whole corpus.
pub struct CoreferenceInputs<'a> {
    pub block: &'a KindBlock,
    pub visibility: Visibility,
    /// Index in [`BASELINES`] of the most accurate rule for each kind of anaphors.
    pub best_baselines: [usize; ANAPHOR_KINDS.len()],
    /// Number of anaphors whose antecedent the head finds, by kind and direction.
    pub hits: [[f64; DIRECTION_NAMES.len()]; ANAPHOR_KINDS.len()],
}

/// Returns the index in [`BASELINES`] of the most accurate rule for each kind of anaphors. Among equals, the first rule in
/// the list.
pub fn best_baselines(total: &KindBlock) -> [usize; ANAPHOR_KINDS.len()] {
    std::array::from_fn(|kind| {
        let hits = &total[kind].baselines;
        (0..BASELINES.len()).rev().max_by_key(|&baseline| hits[baseline]).expect("there are baselines")
    })
}

impl CoreferenceInputs<'_> {
    /// Values of all metrics of the head: for each metric, one value for each kind of anaphors and direction
    /// ([`cell_key`]).
    pub fn metric_values(&self) -> Vec<Fraction> {
        metric::cells(METRICS, |metric, cell| (metric.value)(self, cell))
    }

    /// Accuracy of the attention head minus that of a baseline, for the kind of anaphors and the direction with index
    /// `cell`. `other` returns the baseline's number of right choices, given the sums and the index of the best rule.
    fn accuracy_lead(&self, cell: usize, other: impl Fn(&KindSums, usize) -> u64) -> Fraction {
        let (kind, direction) = (cell / DIRECTION_NAMES.len(), cell % DIRECTION_NAMES.len());
        if !scored_directions(self.visibility).contains(&direction) {
            return Fraction::NONE;
        }
        let sums = &self.block[kind];
        let right = self.hits[kind][direction] - other(sums, self.best_baselines[kind]) as f64;
        Fraction::mean(right, sums.anaphors, sums.windows)
    }
}

/// Returns the key of a metric's value for one kind of anaphors and one direction, such as `all:anaphor->antecedent`.
fn cell_key(kind: usize, direction: usize) -> String {
    format!("{}:{}", ANAPHOR_KINDS[kind], DIRECTION_NAMES[direction])
}

const KIND_KEYS: MetricKeys = MetricKeys::Several(ANAPHOR_KINDS.len() * DIRECTION_NAMES.len(), |cell| {
    cell_key(cell / DIRECTION_NAMES.len(), cell % DIRECTION_NAMES.len())
});

const SOURCE: &str = "Clark et al. 2019, section 4.3, whose code for it was not released: candidates, kinds and baselines as they stand here.";

type CoreferenceMetric = Metric<fn(&CoreferenceInputs<'_>, usize) -> Fraction>;

pub const METRICS: &[CoreferenceMetric] = &[
    CoreferenceMetric::keyed(KIND_KEYS, |inputs, cell| inputs.accuracy_lead(cell, |_, _| 0)).with_explanation(Explanation {
        name: "coreference_accuracy",
        measures: "How often, of the head words of all mentions before an anaphor, the one that it attends to most, or \
            that attends to it most, heads a mention of the same entity.",
        formula: "share of anaphors whose chosen candidate is right: the candidate c with the largest W[anaphor, c] \
            (anaphor->antecedent) or W[c, anaphor] (antecedent->anaphor), W the attention between words; of all anaphors, \
            by the UPOS of the head word, and of anaphors without an antecedent of their lemma",
        chance: "right candidates / candidates",
        source: SOURCE,
        caveats: "Windows of whole sentences, with gold mentions. A head that finds the same word again is right for most \
            names and nouns: compare coreference_gain and the kind other-lemma. In a decoder antecedent->anaphor is null: no \
            antecedent sees its anaphor.",
    }),
    CoreferenceMetric::keyed(KIND_KEYS, |inputs, cell| inputs.accuracy_lead(cell, |sums, best| sums.baselines[best])).with_explanation(
        Explanation {
            name: "coreference_gain",
            measures: "How much more often a head is right about an anaphor than the best rule without a head.",
            formula: "coreference_accuracy less the accuracy of the best of three rules on the same anaphors: the nearest candidate; the \
                nearest with the same lemma, else the nearest; the nearest that agrees in Number, Gender and Person where \
                both are annotated, else the nearest",
            chance: "right candidates / candidates, less the accuracy of the best rule",
            source: SOURCE,
            caveats: "The rule is the best on those very anaphors, which only makes the comparison stricter.",
        },
    ),
];

const MARGIN: Threshold = Threshold::rule(
    "coreference_margin",
    0.1,
    "smallest accuracy above the best rule of a coreference label, as a share; that of syntactic labels, Voita et al. 2019, \
        section 5.2",
);

pub(super) const COREFERENCE_DETECTOR: Detector = Detector {
    thresholds: &[&MARGIN, &LABEL_Q],
    parameter: Parameter::OneOf("coreference", || {
        [ALL_ANAPHORS_KIND, OTHER_LEMMA_KIND].map(|kind| ANAPHOR_KINDS[kind].to_owned()).to_vec()
    }),
    phrase: VerbPhrase::Fixed("finds the earlier mention of an entity"),
    style: LabelStyle::new(Some("coref"), AnsiColor::Green),
    assess: |evidence, policy| {
        let cells = [ALL_ANAPHORS_KIND, OTHER_LEMMA_KIND].into_iter().cartesian_product(0..DIRECTION_NAMES.len());
        let tested = cells.filter_map(|(kind, direction)| {
            let (label, key) = (format!("coreference:{}", ANAPHOR_KINDS[kind]), cell_key(kind, direction));
            let measured = evidence.metric("coreference_gain", Some(&key));
            let metric = format!("coreference_gain.{key}");
            assess(&label, &metric, measured, ThresholdBound::AtLeast, policy.rule(&MARGIN))
        });
        tested.collect()
    },
    ..Detector::new_role(Explanation {
        name: "coreference:<kind>",
        measures: "The head's attention points from a mention of an entity to an earlier mention of it, more often than any rule \
            that goes by nearness, by the same lemma or by agreement: of all anaphors, or of anaphors without an antecedent of \
            their lemma.",
        formula: "coreference_gain >= {coreference_margin} of the kind all or other-lemma, in either direction; by blocks of windows, q <= {label_q} over all heads, both kinds and both directions",
        chance: "0: the accuracy less that of the best rule on the same anaphors",
        source: "Clark et al. 2019, section 4.3: head 5-4 of BERT-base is right for 65 % of the mentions with an antecedent in \
            CoNLL-2012, where the nearest mention is for 27 %, the nearest with the same head word for 52 %. The margin is \
            that of syntactic labels.",
        caveats: "Mentions are given, not found. What cue the head goes by is not told: a head that finds the same token again \
            is ruled out only as far as the rule of the same lemma does.",
    })
};
