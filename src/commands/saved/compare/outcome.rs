//! The outcome of `headscope compare`, as `--json` prints it. docs/REPORT.md, "Comparing", explains each key.

use schemars::JsonSchema;
use serde::Serialize;

use crate::commands::saved::sides::description::{Described, Fact};
use crate::commands::saved::sides::head_state::{IdleHead, LabelStanding};
use crate::model::grid::HeadPlace;
use crate::stats::agreement::{CategoryAgreement, ShareByChance};
use crate::stats::interval::Interval;
use crate::study::labels::evidence::Reach;

/// Version of the outcome's schema, raised when a key changes its meaning or goes away; new keys alone do not raise it.
pub const SCHEMA_VERSION: u32 = 1;

/// Comparison of two analyses: whether the labels of their attention heads are stable.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "headscope compare")]
pub struct CompareOutcome {
    /// Version of this document's schema, raised when a key changes its meaning or goes away.
    pub schema_version: u32,
    /// Whether some head has lost or gained a label, key-choice labels (`chooses:*`) included.
    pub changed: bool,
    /// Sentence on how the corpora differ; null if both analyses are over the same text.
    pub corpora: Option<String>,
    /// Caveat that heads are compared by layer and number although the models may be unrelated; null where the weights are the
    /// same, heads were matched, or `--matched` says that one model was trained on from the other.
    pub lineage: Option<String>,
    /// Statistics of matched heads (`--match`); null where heads are compared by layer and number.
    pub matched: Option<MatchedHeads>,
    /// Heads that do nothing in exactly one analysis; their roles in the other are lost or gained.
    pub idle: Vec<IdleHead>,
    /// Reason why no label is firm in an analysis whose model could not read the corpus; null if both models could.
    pub unread: Option<String>,
    /// Number of sampling units of each analysis that has too few for a test, such as `9 documents (a test takes 10) in a`;
    /// null if both have enough.
    pub too_few_units: Option<String>,
    /// File, model and corpus of the first analysis.
    pub a: Described,
    /// File, model and corpus of the second analysis.
    pub b: Described,
    /// Agreement of the two analyses on the labels of each head.
    pub agreement: HeadAgreement,
    /// Number of heads per `outcome` (kept, gained, lost and so on), without key-choice labels (`chooses:*`).
    pub heads_by_outcome: OutcomeCounts,
    /// Number of heads per outcome of their key-choice labels (`chooses:*`); null if neither analysis has such labels.
    pub choices_by_outcome: Option<OutcomeCounts>,
    /// Number of labels per outcome, summed over heads, without key-choice labels (`chooses:*`).
    pub labels_by_outcome: OutcomeCounts,
    /// Numbers of labels with outcome `could_not_tell`, by the analyses in which they are firm. Key-choice labels (`chooses:*`)
    /// are not counted.
    pub untold: UntoldCounts,
    /// One object for each attention head, layer by layer.
    pub heads: Vec<HeadComparison>,
    /// One object for each label family, such as `syntactic:<relation>`, that some head has in either analysis.
    pub families: Vec<FamilyComparison>,
    /// Settings and facts in which the two runs differ.
    pub not_shared: Vec<Fact>,
}

/// Agreement of two analyses on the labels of each head.
#[derive(Clone, Copy, Serialize, JsonSchema)]
pub struct HeadAgreement {
    /// Agreement on each head's first label (`primary` of a report), firm or borderline, or `unlabelled`.
    pub first_label: CategoryAgreement,
    /// Agreement on each head's set of firm labels, which may be empty.
    pub firm_labels: CategoryAgreement,
    /// Agreement on each head's key-choice label (`chooses:*`), firm or borderline, or none; null if neither analysis has any.
    pub choice: Option<CategoryAgreement>,
}

/// Outcome of comparing two analyses, for one label of a head or for a head with all its labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// For a label: firm in both analyses. For a head: a label is kept, and none is gained or lost.
    Kept,
    /// For a label: firm in the second analysis, and significantly below its threshold in the first, or the head does nothing
    /// there. For a head: a label is gained, and none is firm in the first analysis.
    Gained,
    /// For a label: firm in the first analysis, and significantly below its threshold in the second, or the head does nothing
    /// there. For a head: a label is lost, and none is firm in the second analysis.
    Lost,
    /// For a head only: a label is gained or lost, and both analyses have a firm label of the head.
    Changed,
    /// For a label: at least one analysis cannot decide, for the reason in `doubt`. For a head: every label has this outcome.
    CouldNotTell,
    /// For a head only: `labels` is empty, since neither analysis has such a label of the head, firm or borderline.
    None,
}

/// Reason why the outcome of a label cannot be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Doubt {
    /// The thresholds of the label differ between the two policies.
    OtherThresholds,
    /// The study that gives the label did not run in one analysis.
    NotMeasured,
    /// One analysis has too few queries or sentences (`min_queries`, `min_sentences`, `syntactic_min_count`), or no score.
    TooLittle,
    /// The label is borderline in one analysis or in both: the score is above the threshold, but not significantly.
    Borderline,
    /// The label is firm in one analysis. In the other it is not significantly below the threshold, or another label excludes it.
    WithinReach,
    /// The label is firm in one analysis. In the other the score is below the threshold and rests on too few blocks for a test.
    Untested,
    /// The model could not read the corpus in one analysis or in both (`corpus.health`).
    Unread,
    /// The label rests on token counts, which the analyses took from corpora of different sizes (`--counts` gives both the same).
    OtherCounts,
}

/// Number of labels per outcome; in `heads_by_outcome` and `choices_by_outcome`, number of heads.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OutcomeCounts {
    /// Number of kept labels. In counts of heads: heads with a kept label, and none gained or lost.
    pub kept: usize,
    /// Number of gained labels. In counts of heads: heads that gained a label and have no firm one in the first analysis.
    pub gained: usize,
    /// Number of lost labels. In counts of heads: heads that lost a label and have no firm one in the second analysis.
    pub lost: usize,
    /// Number of heads that gained or lost a label and have a firm label in both analyses. Always 0 in counts of labels.
    pub changed: usize,
    /// Number of labels or heads with outcome `could_not_tell`. Labels firm in neither analysis are included here, but not in
    /// the printed count (`untold`).
    pub could_not_tell: usize,
    /// Number of heads with outcome `none`: no compared label, firm or borderline, in either analysis. Always 0 in counts of
    /// labels.
    pub none: usize,
}

/// Numbers of labels with outcome `could_not_tell`, by the analyses in which they are firm: one, both or neither.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UntoldCounts {
    /// Number of labels firm in the first analysis only, and not shown to be lost.
    pub firm_in_a: usize,
    /// Number of labels firm in the second analysis only, and not shown to be gained.
    pub firm_in_b: usize,
    /// Number of labels firm in neither analysis: borderline in one or both.
    pub firm_in_neither: usize,
    /// Number of labels firm in both analyses, under different thresholds or token counts.
    pub firm_in_both: usize,
}

/// An attention head, compared between two analyses.
#[derive(Serialize, JsonSchema)]
pub struct HeadComparison {
    /// Layer and number of the head in the first analysis.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// Layer and number of the head's partner in the second analysis.
    pub partner: HeadPlace,
    /// Outcome of the head, which sums up the outcomes in `labels`.
    pub outcome: Fate,
    /// First label of the head in the first analysis, firm or borderline, or `unlabelled`. For a head that does nothing there,
    /// the reason: `absent`, `removed` or `constant` (it writes a constant).
    pub primary_a: String,
    /// First label of the head's partner in the second analysis; as `primary_a`.
    pub primary_b: String,
    /// Every label of the head in either analysis, firm or borderline, in alphabetical order. Not listed are `broad`, and the
    /// key-choice labels (`chooses:*`) in `choice`.
    pub labels: Vec<LabelComparison>,
    /// How the head chooses where to attend, by its labels `chooses:*`; null if it has none in either analysis.
    pub choice: Option<ChoiceComparison>,
}

/// How a head chooses where to attend, compared between two analyses.
#[derive(Serialize, JsonSchema)]
pub struct ChoiceComparison {
    /// Outcome of the head, which sums up the outcomes in `labels`.
    pub outcome: Fate,
    /// Key-choice label (`chooses:*`) of the head in the first analysis, firm or borderline; null if there is none.
    pub a: Option<String>,
    /// Key-choice label (`chooses:*`) of the head in the second analysis, firm or borderline; null if there is none.
    pub b: Option<String>,
    /// Every key-choice label (`chooses:*`) of the head in either analysis, firm or borderline.
    pub labels: Vec<LabelComparison>,
}

/// A label of an attention head, compared between two analyses.
#[derive(Serialize, JsonSchema)]
pub struct LabelComparison {
    /// Name of the label, such as `syntactic:obj`.
    pub label: String,
    /// Family of the label, such as `syntactic:<relation>`.
    pub family: String,
    /// Outcome of the label: kept, gained, lost, or could not tell.
    pub outcome: Fate,
    /// Reason why the outcome of the label cannot be told; null where it can.
    pub doubt: Option<Doubt>,
    /// Evidence for or against the label in the first analysis; null where the head could not be assessed.
    pub a: Option<LabelEvidence>,
    /// Evidence for or against the label in the second analysis; null where the head could not be assessed.
    pub b: Option<LabelEvidence>,
}

/// Evidence for or against a label of a head in one analysis.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LabelEvidence {
    /// Test result of the label, such as firm or borderline.
    pub standing: LabelStanding,
    /// Name of the metric that the label's rule compares with its threshold.
    pub number: String,
    /// Score of the label in this analysis, on the label's own scale.
    pub score: f64,
    /// 95 % interval of the score; null where there is none.
    pub ci95: Option<Interval>,
    /// Threshold that the score has to reach.
    pub threshold: f64,
    /// q-value of the label; null where the score is below its threshold, or there is no test.
    pub q: Option<f64>,
    /// Strongest baseline that the label beats; null if the score is below the threshold, or the label is not about relations
    /// or links.
    pub beyond: Option<Reach>,
}

/// A label family, compared between two analyses.
#[derive(Serialize, JsonSchema)]
pub struct FamilyComparison {
    /// Name of the label family, such as `syntactic:<relation>`.
    pub family: String,
    /// Number of heads with a firm label of the family in the first analysis.
    pub heads_a: usize,
    /// Number of heads with a firm label of the family in the second analysis.
    pub heads_b: usize,
    /// Number of heads with a firm label of the family in both analyses.
    pub heads_both: usize,
    /// Number of labels of the family per outcome, summed over heads.
    #[serde(flatten)]
    pub outcomes: OutcomeCounts,
    /// Agreement of the two analyses on which heads have a firm label of the family.
    pub agreement: CategoryAgreement,
}

impl CompareOutcome {
    /// Returns every label of every head, including key-choice labels (`chooses:*`).
    pub fn all_labels(&self) -> impl Iterator<Item = &LabelComparison> {
        self.heads.iter().flat_map(HeadComparison::all_labels)
    }
}

impl HeadComparison {
    /// Returns every label of the head; key-choice labels (`chooses:*`) come last.
    pub fn all_labels(&self) -> impl Iterator<Item = &LabelComparison> {
        self.labels.iter().chain(self.choice.iter().flat_map(|choice| &choice.labels))
    }
}

impl LabelComparison {
    /// Whether the label is firm in the first and in the second analysis, `[a, b]`.
    pub fn is_firm_by_side(&self) -> [bool; 2] {
        [&self.a, &self.b].map(|side| side.as_ref().is_some_and(|of| of.standing == LabelStanding::Firm))
    }

    /// Strongest baseline that the label beats in each analysis, `[a, b]`.
    /// `None` for labels whose evidence says nothing about baselines ([`LabelEvidence::beyond`]).
    pub fn beaten_baseline_by_side(&self) -> [Option<Reach>; 2] {
        [&self.a, &self.b].map(|side| side.as_ref().and_then(|of| of.beyond))
    }
}

impl UntoldCounts {
    /// Number of labels with unknown outcome that are firm in at least one analysis.
    pub fn firm_label_count(self) -> usize {
        self.firm_in_a + self.firm_in_b + self.firm_in_both
    }

    /// Counts the labels with unknown outcome ([`Fate::CouldNotTell`]) by the analyses in which they are firm.
    pub fn from_labels<'a>(labels: impl IntoIterator<Item = &'a LabelComparison>) -> Self {
        let mut counts = Self::default();
        for label in labels.into_iter().filter(|label| label.outcome == Fate::CouldNotTell) {
            *match label.is_firm_by_side() {
                [true, false] => &mut counts.firm_in_a,
                [false, true] => &mut counts.firm_in_b,
                [false, false] => &mut counts.firm_in_neither,
                [true, true] => &mut counts.firm_in_both,
            } += 1;
        }
        counts
    }
}

impl OutcomeCounts {
    /// Counts the labels or heads per outcome.
    pub fn from_fates(fates: impl IntoIterator<Item = Fate>) -> Self {
        let mut counts = Self::default();
        for fate in fates {
            *match fate {
                Fate::Kept => &mut counts.kept,
                Fate::Gained => &mut counts.gained,
                Fate::Lost => &mut counts.lost,
                Fate::Changed => &mut counts.changed,
                Fate::CouldNotTell => &mut counts.could_not_tell,
                Fate::None => &mut counts.none,
            } += 1;
        }
        counts
    }

    /// Whether some label or head was gained, lost or changed.
    pub fn has_change(&self) -> bool {
        self.gained + self.lost + self.changed > 0
    }
}

impl Fate {
    pub fn phrase(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Gained => "gained",
            Self::Lost => "lost",
            Self::Changed => "changed",
            Self::CouldNotTell => "could not tell",
            Self::None => "no label",
        }
    }
}

impl Doubt {
    pub fn phrase(self) -> &'static str {
        match self {
            Self::OtherThresholds => "other thresholds in the two policies",
            Self::NotMeasured => "the study did not run on one side",
            Self::TooLittle => "too few queries or sentences on one side",
            Self::Borderline => "borderline",
            Self::WithinReach => "not significantly below the threshold",
            Self::Untested => "too few blocks on one side",
            Self::Unread => "the model could not read the corpus on one side",
            Self::OtherCounts => "token counts of corpora of other sizes",
        }
    }
}

/// Statistics of matched heads, and their agreement by chance: each head with a random head of the same layer in the second
/// analysis.
#[derive(Clone, Copy, Serialize, JsonSchema)]
pub struct MatchedHeads {
    /// Number of heads whose partner has another number within the layer.
    pub moved: usize,
    /// Number of heads whose partner is also found over even-numbered and over odd-numbered sentences separately.
    pub halves_agree: usize,
    /// Share of heads with equal first labels if heads are paired at random within layers.
    pub first_label: ShareByChance,
    /// Share of heads with equal sets of firm labels if heads are paired at random within layers.
    pub firm_labels: ShareByChance,
}

/// A finding on which `compare` ends with status 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailOn {
    Any,
    Lost,
    Gained,
    /// A label is firm in the first analysis and not in the second, whether or not it is shown to be lost.
    NoLongerFirm,
    CorporaDiffer,
    Never,
}

impl FailOn {
    /// Whether the comparison has this finding. Key-choice labels (`chooses:*`) are included.
    pub fn is_met(self, outcome: &CompareOutcome) -> bool {
        let mut labels = outcome.all_labels();
        match self {
            Self::Any => labels.any(|label| [Fate::Lost, Fate::Gained].contains(&label.outcome)),
            Self::Lost => labels.any(|label| label.outcome == Fate::Lost),
            Self::Gained => labels.any(|label| label.outcome == Fate::Gained),
            Self::NoLongerFirm => labels.any(|label| label.is_firm_by_side() == [true, false]),
            Self::CorporaDiffer => outcome.corpora.is_some(),
            Self::Never => false,
        }
    }
}
