//! A label of an attention head with its evidence, and the numbers behind it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::evidence::{Comparison, Direction, MarginTest, Reach, Specificity, TagComparison, UseTest};
use crate::stats::block_test::Estimate;
use crate::stats::interval::Interval;

/// A measured score with its interval, its baseline and its standard error.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MeasuredScore {
    /// The score; `None` where nothing in the corpus was eligible.
    pub score: Option<f64>,
    /// 95 % interval of the score.
    pub ci95: Option<Interval>,
    /// The chance level of the score, or the baseline that the score is compared with.
    pub baseline: Option<f64>,
    /// The score with its standard error; `None` if there are too few blocks for a test.
    pub estimate: Option<Estimate>,
}

/// A label of an attention head with its evidence.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Label {
    /// Name of the label, such as `first-special`.
    pub label: String,
    /// Measured score: the value of `number`.
    pub score: f64,
    /// 95 % interval of `score`; null where the score rests on fewer than 10 blocks.
    pub ci95: Option<Interval>,
    /// The chance level of the score, or the baseline that the score is compared with.
    pub baseline: Option<f64>,
    /// Threshold that `score` must reach.
    pub threshold: f64,
    /// Distance of `score` beyond `threshold`, in units of `1 - threshold`. A label that rests on another label has at most that
    /// label's margin.
    pub margin: f64,
    /// Rule that gives the label, as text: a number, `>` or `>=`, and its threshold.
    pub rule: String,
    /// Name of the number that the rule compares with its threshold; of several numbers, the one with the smallest margin.
    #[serde(default)]
    pub number: String,
    /// Whether the score is above the threshold, but not significantly: another corpus of the kind might not give the label. If
    /// the model could not read the corpus (`corpus.health`), every label is borderline.
    pub borderline: bool,
    /// Whether the label nearly ties with the head's first label: it is as firm, and the intervals of their margins overlap.
    /// False for the first label.
    #[serde(default)]
    pub tied: bool,
    /// Label of the same head that this label refines, if any. This label is listed after that label, and never ties with it.
    #[serde(default)]
    pub rests_on: Option<String>,
    /// Direction of the attention, for labels of relations and links; null for other labels.
    pub direction: Option<Direction>,
    /// The block test of the score against the threshold, which decides whether the label is firm.
    #[serde(default)]
    pub test: MarginTest,
    /// Comparison of the attention head with the best fixed offset; null for labels that are not syntactic.
    pub versus_offset: Option<Comparison>,
    /// The strongest baseline that the label of a relation beats; null for other labels.
    pub beyond: Option<Reach>,
    /// Accuracy on the relation against other arcs of the same sentences; null for labels that are not syntactic, and for `all`.
    #[serde(default)]
    pub specific: Option<Specificity>,
    /// Comparison with the word-class baseline; null for labels that are not syntactic, and where no word of the relation has a
    /// UPOS tag.
    pub versus_tags: Option<TagComparison>,
    /// Test of whether the model uses the arcs of a syntactic label; null unless the study `knockout` tested it.
    #[serde(default)]
    pub knockout: Option<UseTest>,
}

/// A label that an attention head does not have, with the score's distance from the threshold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Near {
    /// Name of the label, such as `first-special`.
    pub label: String,
    /// Measured score that the rule compares with `threshold`.
    pub score: f64,
    /// 95 % interval of `score`.
    pub ci95: Option<Interval>,
    /// Threshold that `score` would have to reach.
    pub threshold: f64,
    /// `threshold` less `score`; not above 0 where only significance is lacking.
    pub shortfall: f64,
    /// Rule that would give the label, as text: a number, `>` or `>=`, and its threshold.
    pub rule: String,
}

impl Label {
    /// Name of `baseline` in words.
    pub fn baseline_name(&self) -> &'static str {
        match self.beyond {
            Some(reach) if reach >= Reach::Place => "best rule of place",
            _ if self.direction.is_some() => "best offset",
            _ => "chance",
        }
    }

    /// The strongest baseline that a firm label beats. `None` for a borderline label, which is not shown to beat a
    /// baseline.
    pub fn beaten_baseline(&self) -> Option<Reach> {
        self.beyond.filter(|_| !self.borderline)
    }

    /// The comparison with the word-class baseline, if the whole interval of its difference is below 0; else
    /// `None`.
    pub fn word_class_deficit(&self) -> Option<&TagComparison> {
        self.versus_tags.as_ref().filter(|tags| tags.ci95.is_some_and(|ci95| ci95.high() < 0.0))
    }

    /// Whether this label nearly ties with `first`, the head's label with the larger margin. Both are then firm or
    /// both borderline, and the intervals of their margins overlap.
    pub(super) fn ties_with(&self, first: &Self) -> bool {
        let margin_at =
            |label: &Self, end: fn(Interval) -> f64| margin(label.ci95.map_or(label.score, end), label.threshold);
        let can_tie = self.rests_on.is_none() && self.borderline == first.borderline;
        can_tie && margin_at(self, Interval::high) >= margin_at(first, Interval::low)
    }
}

/// The distance of `score` beyond `threshold`, in units of `1 - threshold`.
pub(super) fn margin(score: f64, threshold: f64) -> f64 {
    // A threshold of 1 or more leaves no room above: the margin is then at most 0.
    let room = 1.0 - threshold;
    if room > 0.0 { (score - threshold) / room } else { (score - threshold).min(0.0) }
}

impl From<Label> for Near {
    fn from(Label { label, score, ci95, threshold, rule, .. }: Label) -> Self {
        Self { label, score, ci95, threshold, shortfall: threshold - score, rule }
    }
}
