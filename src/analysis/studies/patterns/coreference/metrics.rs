//! The metrics of coreference: one table.

use super::anaphors::{BASELINES, KINDS};
use super::sums::{Block, KindSums, WAYS, ways};
use crate::model::grid::visibility::Visibility;
use crate::study::metrics::explanation::Explanation;
use crate::study::metrics::metric::{Fraction, Keys, Metric};

/// The right choices of a head in a block, or in all of them, beside what they are held against.
pub struct CoreferenceInputs<'a> {
    block: &'a Block,
    visibility: Visibility,
    best: [usize; KINDS.len()],
    /// The right choices of each kind and way.
    right: [[f64; WAYS.len()]; KINDS.len()],
}

/// The baseline that is right most often, of each kind; the first of equals.
pub fn best_baselines(total: &Block) -> [usize; KINDS.len()] {
    std::array::from_fn(|kind| {
        let right = &total[kind].baselines;
        (0..BASELINES.len()).rev().max_by_key(|&baseline| right[baseline]).expect("there are baselines")
    })
}

impl<'a> CoreferenceInputs<'a> {
    /// A head whose queries see these keys; `best` are the baselines that it is held against.
    pub fn head((block, visibility): (&'a Block, Visibility), best: [usize; KINDS.len()], head: usize) -> Self {
        Self {
            block,
            visibility,
            best,
            right: std::array::from_fn(|kind| block[kind].heads[head].map(|right| right as f64)),
        }
    }

    /// A head that takes any candidate as likely as another.
    pub fn chance((block, visibility): (&'a Block, Visibility), best: [usize; KINDS.len()]) -> Self {
        Self { block, visibility, best, right: std::array::from_fn(|kind| [block[kind].chance.value(); WAYS.len()]) }
    }

    /// Every cell of the table.
    pub fn values(&self) -> Vec<Fraction> {
        METRICS.iter().flat_map(|metric| metric.keys.places().map(|cell| (metric.value)(self, cell))).collect()
    }

    /// A cell, of what is right less what `other` has.
    fn less(&self, cell: usize, other: impl Fn(&KindSums, usize) -> u64) -> Fraction {
        let (kind, way) = (cell / WAYS.len(), cell % WAYS.len());
        if !ways(self.visibility).contains(&way) {
            return Fraction::NONE;
        }
        let sums = &self.block[kind];
        let right = self.right[kind][way] - other(sums, self.best[kind]) as f64;
        Fraction::new(right, sums.anaphors as f64).over(sums.anaphors, sums.windows)
    }
}

/// The key of a kind of anaphors and a way.
pub fn key(kind: usize, way: usize) -> String {
    format!("{}:{}", KINDS[kind], WAYS[way])
}

const BY_KIND: Keys = Keys::Each(KINDS.len() * WAYS.len(), |cell| key(cell / WAYS.len(), cell % WAYS.len()));

const SOURCE: &str = "Clark et al. 2019, section 4.3, whose code for it was not released: candidates, kinds and baselines as they stand here.";

/// A metric, cell by cell.
type CoreferenceMetric = Metric<for<'a> fn(&CoreferenceInputs<'a>, usize) -> Fraction>;

/// All metrics of coreference, in the order of the report.
pub const METRICS: &[CoreferenceMetric] = &[
    Metric {
        explanation: Explanation {
            name: "coreference_accuracy",
            measures: "How often, of the head words of all mentions before an anaphor, the one that it attends to most, or \
                that attends to it most, heads a mention of the same entity.",
            formula: "share of anaphors whose chosen candidate is right: the candidate c with the largest W[anaphor, c] \
                (anaphor->antecedent) or W[c, anaphor] (antecedent->anaphor), W the attention between words; of all anaphors, \
                by the UPOS of the head word, and of those none of whose antecedents has the same lemma",
            chance: "right candidates / candidates",
            source: SOURCE,
            caveats: "Windows of whole sentences, with gold mentions. A head that finds the same word again is right for most \
                names and nouns: compare coreference_gain and the kind other-lemma. In a decoder antecedent->anaphor is null: no \
                antecedent sees its anaphor.",
        },
        keys: BY_KIND,
        value: |seen, cell| seen.less(cell, |_, _| 0),
        chance: None,
    },
    Metric {
        explanation: Explanation {
            name: "coreference_gain",
            measures: "How much more often a head is right about an anaphor than the best rule without a head.",
            formula: "coreference_accuracy less the accuracy of the best of three rules on the same anaphors: the nearest candidate; the \
                nearest with the same lemma, else the nearest; the nearest that agrees in Number, Gender and Person where \
                both are annotated, else the nearest",
            chance: "right candidates / candidates, less the accuracy of the best rule",
            source: SOURCE,
            caveats: "The rule is the best on those very anaphors, which only makes the comparison stricter.",
        },
        keys: BY_KIND,
        value: |seen, cell| seen.less(cell, |sums, best| sums.baselines[best]),
        chance: None,
    },
];
