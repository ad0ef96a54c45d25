//! The outcome of `headscope compare`, as `--json` prints it. docs/REPORT.md, "Comparing", explains each key.

use schemars::JsonSchema;
use serde::Serialize;

use crate::commands::saved::sides::described::{Described, Fact};
use crate::commands::saved::sides::standing::{IdleHead, LabelStanding};
use crate::model::grid::HeadPlace;
use crate::stats::agreement::{CategoryAgreement, ShareByChance};
use crate::stats::interval::Interval;
use crate::study::labels::evidence::Reach;

/// Raised when a key changes its meaning or goes away; new keys alone do not raise it.
pub const SCHEMA_VERSION: u32 = 1;

/// Whether the labels of heads are stable between two analyses.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "headscope compare")]
pub struct CompareOutcome {
    /// The version of this schema.
    pub schema_version: u32,
    /// Whether some label, or how some head chooses, was gained, lost or changed.
    pub changed: bool,
    /// How the corpora differ, in words; null where both analyses are over the same text.
    pub corpora: Option<String>,
    /// The caveat on comparing heads by place; null where the weights are the same, heads were matched, or `--matched` says
    /// that one model was trained on from the other.
    pub lineage: Option<String>,
    /// How heads were matched; null where they are compared by place.
    pub matched: Option<MatchedHeads>,
    /// The heads that do nothing on one side alone: their roles on the other are lost or gained.
    pub idle: Vec<IdleHead>,
    /// Why no label is firm on a side whose model could not read the corpus, in words; null where both could.
    pub unread: Option<String>,
    /// Why nothing could be tested: the sampling units of a side that has too few; null where tests were possible.
    pub too_few_units: Option<String>,
    /// The first analysis.
    pub a: Described,
    /// The second analysis.
    pub b: Described,
    /// How far the two agree on heads.
    pub agreement: HeadAgreement,
    /// Number of heads per outcome, by their labels.
    pub heads_by_outcome: OutcomeCounts,
    /// Number of heads per outcome, by how they choose; null where no side says how any head does.
    pub choices_by_outcome: Option<OutcomeCounts>,
    /// Number of labels per outcome, without the labels of how heads choose.
    pub labels_by_outcome: OutcomeCounts,
    /// The labels of `labels_by_outcome` that cannot be told, by where they are firm.
    pub untold: UntoldCounts,
    /// One object for each head, layer by layer.
    pub heads: Vec<HeadComparison>,
    /// One object for each family of labels that some head has on either side.
    pub families: Vec<FamilyComparison>,
    /// Facts about the runs that the two do not share.
    pub not_shared: Vec<Fact>,
}

/// How far two analyses agree on heads.
#[derive(Clone, Copy, Serialize, JsonSchema)]
pub struct HeadAgreement {
    /// On the first label of each head, `primary` of a report: firm or borderline, or `unlabelled`.
    pub first_label: CategoryAgreement,
    /// On the whole set of its firm labels; heads without one have an empty set.
    pub firm_labels: CategoryAgreement,
    /// On the label of how it chooses, firm or borderline, or none; null where no side says how any head does.
    pub choice: Option<CategoryAgreement>,
}

/// The fate of a label, or of a head by all its labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// The label is firm on both sides. Of a head: some label is, and none was gained or lost.
    Kept,
    /// It is out of reach in the first analysis and firm in the second. Of a head: the first has no firm label of it.
    Gained,
    /// It is firm in the first analysis and out of reach in the second. Of a head: the second has no firm label of it.
    Lost,
    /// A label was gained or lost, and both sides of the head have a firm one.
    Changed,
    /// One side at least could not decide: `doubt` says why. Of a head: this is so of all its labels.
    CouldNotTell,
    /// Neither side of the head has a label, firm or borderline.
    None,
}

/// Why it cannot be told what became of a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Doubt {
    /// The thresholds of the label differ between the two policies.
    OtherThresholds,
    /// The study that gives the label did not run on one side.
    NotMeasured,
    /// One side has fewer queries or sentences than a label asks for (`min_queries`, `min_sentences`, `syntactic_min_count`),
    /// or no score at all.
    TooLittle,
    /// The label is borderline on one side or on both: the score is above the threshold, but not significantly.
    Borderline,
    /// The label is firm on one side; on the other the score is below the threshold, but not significantly, or another label of
    /// the head excludes this one.
    WithinReach,
    /// The label is firm on one side; on the other the score is below the threshold and rests on too few blocks for a test.
    Untested,
    /// The model could not read the corpus on one side or on both (`corpus.health`).
    Unread,
    /// The label is about frequencies of tokens, which each side counted in a corpus of another size (`--counts` gives both the same).
    OtherCounts,
}

/// Counts per outcome.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OutcomeCounts {
    /// Kept.
    pub kept: usize,
    /// Gained.
    pub gained: usize,
    /// Lost.
    pub lost: usize,
    /// Changed; of labels 0.
    pub changed: usize,
    /// Could not be told; of labels also those that are firm on neither side, which the printed count leaves out (`untold`).
    pub could_not_tell: usize,
    /// Without a label on either side; of labels 0.
    pub none: usize,
}

/// Labels whose fate could not be told, by where they are firm.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UntoldCounts {
    /// In the first analysis alone: they are firm no more, and it is not shown that they are lost.
    pub firm_in_a: usize,
    /// In the second analysis alone.
    pub firm_in_b: usize,
    /// In neither: they are borderline in one or both.
    pub firm_in_neither: usize,
    /// In both, by other thresholds.
    pub firm_in_both: usize,
}

/// A head in both analyses.
#[derive(Serialize, JsonSchema)]
pub struct HeadComparison {
    /// The head of the first analysis.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// Its partner in the second.
    pub partner: HeadPlace,
    /// The fate of its labels.
    pub outcome: Fate,
    /// Its first label in the first analysis, firm or borderline, or `unlabelled`; `absent`, `removed` or `constant` of a head that
    /// does nothing there (`idle`).
    pub primary_a: String,
    /// The first label in the second.
    pub primary_b: String,
    /// Every label that it has on either side, firm or borderline, in the order of the alphabet.
    pub labels: Vec<LabelComparison>,
    /// How it chooses; null where neither side says.
    pub choice: Option<ChoiceComparison>,
}

/// How a head chooses in both analyses.
#[derive(Serialize, JsonSchema)]
pub struct ChoiceComparison {
    /// The fate of its way of choosing.
    pub outcome: Fate,
    /// The label of the first analysis, firm or borderline; null without one.
    pub a: Option<String>,
    /// The label in the second.
    pub b: Option<String>,
    /// All labels of how the head chooses, on either side.
    pub labels: Vec<LabelComparison>,
}

/// A label of a head in both analyses.
#[derive(Serialize, JsonSchema)]
pub struct LabelComparison {
    /// The label.
    pub label: String,
    /// Its family.
    pub family: String,
    /// The fate of the label.
    pub outcome: Fate,
    /// Why it cannot be told; null where it can.
    pub doubt: Option<Doubt>,
    /// The evidence in the first analysis; null where the head could not be assessed.
    pub a: Option<LabelEvidence>,
    /// The evidence in the second.
    pub b: Option<LabelEvidence>,
}

/// The evidence for or against a label on one side.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LabelEvidence {
    /// How the head stands to the label.
    pub standing: LabelStanding,
    /// The number that the rule holds against its threshold.
    pub number: String,
    /// The score.
    pub score: f64,
    /// Its 95 % interval.
    pub ci95: Option<Interval>,
    /// The threshold that it has to reach.
    pub threshold: f64,
    /// The q-value of the label; null where the score is below its threshold, or there is no test.
    pub q: Option<f64>,
    /// How far a syntactic label reaches, firm or borderline; null of others, and where the corpus has no word classes.
    pub beyond: Option<Reach>,
}

/// A family of labels in both analyses.
#[derive(Serialize, JsonSchema)]
pub struct FamilyComparison {
    /// The family.
    pub family: String,
    /// Heads with a firm label of it in the first analysis.
    pub heads_a: usize,
    /// Heads with one in the second.
    pub heads_b: usize,
    /// Heads with one in both.
    pub heads_both: usize,
    /// The fates of its labels.
    #[serde(flatten)]
    pub outcomes: OutcomeCounts,
    /// How far the two agree on which heads have a firm label of it.
    pub agreement: CategoryAgreement,
}

impl HeadComparison {
    /// All labels of the head; labels of how it chooses come last.
    pub fn all_labels(&self) -> impl Iterator<Item = &LabelComparison> {
        self.labels.iter().chain(self.choice.iter().flat_map(|choice| &choice.labels))
    }
}

impl LabelComparison {
    pub fn firm(&self) -> [bool; 2] {
        [&self.a, &self.b].map(|side| side.as_ref().is_some_and(|of| of.standing == LabelStanding::Firm))
    }

    pub fn reach(&self) -> [Option<Reach>; 2] {
        [&self.a, &self.b].map(|side| side.as_ref().and_then(|of| of.beyond))
    }
}

impl UntoldCounts {
    pub fn firm(self) -> usize {
        self.firm_in_a + self.firm_in_b + self.firm_in_both
    }

    pub fn of<'a>(labels: impl IntoIterator<Item = &'a LabelComparison>) -> Self {
        let mut counts = Self::default();
        for label in labels.into_iter().filter(|label| label.outcome == Fate::CouldNotTell) {
            *match label.firm() {
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
    pub fn of(fates: impl IntoIterator<Item = Fate>) -> Self {
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

    pub fn any_change(&self) -> bool {
        self.gained + self.lost + self.changed > 0
    }
}

impl Fate {
    pub fn words(self) -> &'static str {
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
    pub fn words(self) -> &'static str {
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

/// How heads were matched, and the agreement by chance, with the heads of b in random order within layers.
#[derive(Clone, Copy, Serialize, JsonSchema)]
pub struct MatchedHeads {
    /// Heads of a whose partner has another place in b.
    pub moved: usize,
    /// Heads whose partner is the same by either half of the sentences.
    pub halves_agree: usize,
    /// The share of heads with the same first label.
    pub first_label: ShareByChance,
    /// The share of heads with the same firm labels.
    pub firm_labels: ShareByChance,
}

/// A finding on which `compare` ends with status 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailOn {
    Any,
    Lost,
    Gained,
    /// A label is firm in the first analysis and not in the second: lost, or not shown to be.
    NoLongerFirm,
    Corpora,
    Never,
}

impl FailOn {
    /// Whether the finding is about labels of the first analysis, so that it is undecided if none of them could be tested.
    pub fn is_of_lost(self) -> bool {
        matches!(self, Self::Lost | Self::NoLongerFirm)
    }

    /// Whether the comparison has this finding. Labels of how heads choose count like others.
    pub fn is_met(self, outcome: &CompareOutcome) -> bool {
        let any = |wanted: &[Fate]| {
            outcome.heads.iter().flat_map(HeadComparison::all_labels).any(|label| wanted.contains(&label.outcome))
        };
        match self {
            Self::Any => any(&[Fate::Lost, Fate::Gained]),
            Self::Lost => any(&[Fate::Lost]),
            Self::Gained => any(&[Fate::Gained]),
            Self::NoLongerFirm => {
                let mut labels = outcome.heads.iter().flat_map(HeadComparison::all_labels);
                labels.any(|label| label.firm() == [true, false])
            }
            Self::Corpora => outcome.corpora.is_some(),
            Self::Never => false,
        }
    }
}
