//! The outcome of `headscope compare`, as `--json` prints it. docs/REPORT.md, "Comparing", explains each key.

use schemars::JsonSchema;
use serde::Serialize;

use crate::commands::saved::sides::described::{Described, Fact};
use crate::commands::saved::sides::standing::{IdleHead, LabelStanding};
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
    /// Version of the schema of this document.
    pub schema_version: u32,
    /// Whether some head has lost, gained or changed a label, or a label of how it chooses.
    pub changed: bool,
    /// How the corpora differ, in words; null where both analyses are over the same text.
    pub corpora: Option<String>,
    /// Caveat that heads are compared by layer and number although the models may be unrelated; null where the weights are the
    /// same, heads were matched, or `--matched` says that one model was trained on from the other.
    pub lineage: Option<String>,
    /// Statistics of matched heads (`--match`); null where heads are compared by layer and number.
    pub matched: Option<MatchedHeads>,
    /// Heads that do nothing in exactly one analysis; their roles in the other are lost or gained.
    pub idle: Vec<IdleHead>,
    /// Why no label is firm in an analysis whose model could not read the corpus, in words; null where both could.
    pub unread: Option<String>,
    /// Number of sampling units of each analysis that has too few for a test, in words; null where tests were possible.
    pub too_few_units: Option<String>,
    /// File, model and corpus of the first analysis.
    pub a: Described,
    /// File, model and corpus of the second analysis.
    pub b: Described,
    /// Agreement of the two analyses on the labels of each head.
    pub agreement: HeadAgreement,
    /// Number of heads per outcome (kept, gained, lost and so on), by all their labels.
    pub heads_by_outcome: OutcomeCounts,
    /// Number of heads per outcome, by their labels of how they choose; null where neither analysis has such labels.
    pub choices_by_outcome: Option<OutcomeCounts>,
    /// Number of labels per outcome, summed over heads, without labels of how heads choose.
    pub labels_by_outcome: OutcomeCounts,
    /// Number of labels whose outcome could not be told, by the analyses in which they are firm.
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
    /// Agreement on each head's label of how it chooses, firm or borderline, or none; null where neither analysis has any.
    pub choice: Option<CategoryAgreement>,
}

/// Outcome of a label between two analyses, or of a head by all its labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// Label: it is firm in both analyses. Head: some label was kept, and none was gained or lost.
    Kept,
    /// Label: it is out of reach in the first analysis and firm in the second. Head: it has no firm label in the first.
    Gained,
    /// Label: it is firm in the first analysis and out of reach in the second. Head: it has no firm label in the second.
    Lost,
    /// Head: a label was gained or lost, and it has a firm label in both analyses.
    Changed,
    /// Label: at least one analysis cannot decide, for the reason in `doubt`. Head: this holds of all its labels.
    CouldNotTell,
    /// Head: it has no label, firm or borderline, in either analysis.
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

/// Number of labels, or of heads, per outcome.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OutcomeCounts {
    /// Number of labels or heads that were kept.
    pub kept: usize,
    /// Number of labels that were gained, or of heads that gained their first firm label.
    pub gained: usize,
    /// Number of labels that were lost, or of heads that lost every firm label.
    pub lost: usize,
    /// Number of heads that gained or lost a label and have a firm one in both analyses; 0 for labels.
    pub changed: usize,
    /// Number that could not be told. Labels include those firm in neither analysis, which the printed count omits (`untold`).
    pub could_not_tell: usize,
    /// Number of heads without a label in either analysis; 0 for labels.
    pub none: usize,
}

/// Number of labels whose outcome could not be told, by the analyses in which they are firm.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UntoldCounts {
    /// Labels firm in the first analysis alone: firm no more in the second, and not shown to be lost.
    pub firm_in_a: usize,
    /// Labels firm in the second analysis alone, and not shown to be gained.
    pub firm_in_b: usize,
    /// Labels firm in neither analysis: borderline in one or both.
    pub firm_in_neither: usize,
    /// Labels firm in both analyses, under different thresholds or token counts.
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
    /// Outcome of the head, by all its labels.
    pub outcome: Fate,
    /// First label of the head in the first analysis, firm or borderline, or `unlabelled`. A head that does nothing there has
    /// `absent`, `removed` or `constant` (`idle`).
    pub primary_a: String,
    /// First label of the head's partner in the second analysis; as `primary_a`.
    pub primary_b: String,
    /// Every label that the head has in either analysis, firm or borderline, in alphabetical order.
    pub labels: Vec<LabelComparison>,
    /// How the head chooses where to attend; null where neither analysis has a label of that.
    pub choice: Option<ChoiceComparison>,
}

/// How a head chooses where to attend, compared between two analyses.
#[derive(Serialize, JsonSchema)]
pub struct ChoiceComparison {
    /// Outcome of the head, by its labels of how it chooses.
    pub outcome: Fate,
    /// Label of how the head chooses in the first analysis, firm or borderline; null without one.
    pub a: Option<String>,
    /// Label of how the head chooses in the second analysis, firm or borderline; null without one.
    pub b: Option<String>,
    /// All labels of how the head chooses, from either analysis.
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
    /// Standing of the head for the label, such as firm or borderline.
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
    /// Strongest baseline that a label of a relation, firm or borderline, beats; null of other labels, and without word classes.
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

/// Statistics of matched heads, and agreement by chance: with the heads of b in random order within layers.
#[derive(Clone, Copy, Serialize, JsonSchema)]
pub struct MatchedHeads {
    /// Number of heads of a whose partner has another number in b.
    pub moved: usize,
    /// Number of heads whose partner is the same over either half of the sentences.
    pub halves_agree: usize,
    /// Share of heads with the same first label by chance, in random order.
    pub first_label: ShareByChance,
    /// Share of heads with the same set of firm labels by chance, in random order.
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
