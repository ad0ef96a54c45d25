//! The outcome of `headscope compare --numbers`, as `--json` prints it. docs/REPORT.md, "Comparing", explains each key.

use schemars::JsonSchema;
use serde::Serialize;

use crate::commands::saved::compare::firm_count_text;
use crate::commands::saved::sides::description::{Described, Fact, LeftAside, Valued};
use crate::commands::saved::sides::head_state::{self, IdleHead};
use crate::model::grid::HeadPlace;
use crate::stats::interval::Interval;
use crate::study::metrics::number::Part;
use crate::study::metrics::unit::{PerUnit, Unit};
use crate::system::counts::{format_count, plural};
use crate::system::printable::one_line;

/// Version of the outcome's schema, raised when a key changes its meaning or goes away; new keys alone do not raise it.
pub const SCHEMA_VERSION: u32 = 3;

/// Labels and numbers that changed between two analyses, beyond chance.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "headscope compare --numbers")]
pub struct NumbersOutcome {
    /// Version of this document's schema, raised when a key changes its meaning or goes away.
    pub schema_version: u32,
    /// Whether `labels`, `relations` or `metrics` has an entry, or a head in `idle` has `firm_labels`.
    pub changed: bool,
    /// Sentence on how the corpora differ; null if both analyses are over the same text.
    pub corpora: Option<String>,
    /// Results of the two analyses on their tasks, a sentence each; null unless both have a task.
    pub task: Option<[String; 2]>,
    /// Reason why no label is firm in an analysis whose model could not read the corpus; null if both models could.
    pub unread: Option<String>,
    /// Number of sampling units of each analysis that has too few for a test, such as `9 documents (a test takes 10) in a`;
    /// null if both have enough.
    pub too_few_units: Option<String>,
    /// File, model and corpus of the first analysis.
    pub a: Described,
    /// File, model and corpus of the second analysis.
    pub b: Described,
    /// Test of the differences: paired by blocks, or by the intervals of both analyses.
    pub method: Method,
    /// Largest q-value at which a number counts as changed: the false-discovery rate.
    pub rate: f64,
    /// Why a paired test would be more sensitive, and how to get one; null where none is possible, or the test is paired.
    pub pairing: Option<String>,
    /// Largest difference that does not count as a change, per unit.
    pub tolerances: PerUnit<f64>,
    /// Parts that were asked for by `--only` (labels, relations, metrics); empty if all were.
    pub only: Vec<Part>,
    /// Number of labels and numbers that were compared, whichever parts were asked for.
    pub compared: Compared,
    /// Labels that changed: firm in one analysis and significantly below their threshold in the other. Largest difference of
    /// scores first.
    pub labels: Vec<LabelChange>,
    /// Labels that are firm in one analysis only and are not shown to have changed. Either the test in the other cannot tell,
    /// or the metric of the label is not shown to differ. Such labels do not count as changes; `headscope compare` without
    /// `--numbers` says more.
    pub one_sided: Vec<OneSidedLabel>,
    /// Heads that do nothing in exactly one analysis. Their firm labels in the other are lost or gained, and count as changes.
    pub idle: Vec<IdleHeadLabels>,
    /// Heads with a metric or accuracy that differs, the head with most of them first. If `only` names parts, only their
    /// numbers count.
    pub heads: Vec<HeadChanges>,
    /// Accuracies on relations that differ, largest difference first.
    pub relations: Vec<Change>,
    /// Metrics of heads that differ, largest difference first. For this order, each difference is divided by the default
    /// tolerance of its unit (shares, nats or tokens).
    pub metrics: Vec<Change>,
    /// Labels, numbers and sections that were not compared, with the reasons.
    pub left_aside: Vec<LeftAside>,
    /// Settings and facts in which the two runs differ. Such differences do not count as changes.
    pub not_shared: Vec<Fact>,
}

/// Test of the differences between two analyses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Block test of the paired differences: both analyses are over equal sentences.
    PairedByBlock,
    /// Test by the intervals of both analyses: their sentences differ, or are not known to be equal.
    ByIntervals,
}

/// Number of labels and numbers that were compared.
#[derive(Serialize, JsonSchema)]
pub struct Compared {
    /// Number of labels that are firm in at least one analysis, without `broad` and key-choice labels (`chooses:*`).
    pub firm_labels: usize,
    /// Number of firm labels that were compared.
    pub labels: usize,
    /// Number of compared accuracies of heads on relations.
    pub relations: usize,
    /// Number of compared metrics of heads.
    pub metrics: usize,
    /// Number of compared accuracies and metrics together, over which q-values are corrected.
    pub numbers: usize,
}

/// A label that changed: firm in one analysis and significantly below its threshold in the other.
#[derive(Serialize, JsonSchema)]
pub struct LabelChange {
    /// Layer and number of the head.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// Name of the label, such as `syntactic:obj`.
    pub label: String,
    /// Score of the label in the first analysis, with its interval and threshold.
    pub a: Standing,
    /// Score of the label in the second analysis, with its interval and threshold.
    pub b: Standing,
    /// Name of the metric that differs: the metric behind the score in the analysis where the label is firm.
    pub number: String,
    /// q-value of the difference in the metric `number`.
    pub q: f64,
}

/// A label that is firm in one analysis only, without being shown to have changed.
#[derive(Serialize, JsonSchema)]
pub struct OneSidedLabel {
    /// Layer and number of the head.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// Name of the label, such as `syntactic:obj`.
    pub label: String,
    /// Score of the label in the first analysis, with its interval and threshold.
    pub a: Standing,
    /// Score of the label in the second analysis, with its interval and threshold.
    pub b: Standing,
}

/// A head that does nothing in exactly one analysis, with its firm labels in the other.
#[derive(Debug, Serialize, JsonSchema)]
pub struct IdleHeadLabels {
    /// Layer and number of the head, the analysis in which it does nothing, and why.
    #[serde(flatten)]
    pub head: IdleHead,
    /// Labels of the head that are firm in the other analysis.
    pub firm_labels: Vec<String>,
}

/// Score of a head for a label in one analysis, with interval and threshold.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Standing {
    /// Whether the label is firm: the score is significantly above the threshold.
    pub firm: bool,
    /// Name of the metric behind the score. If the label has several rules, the analyses may have different metrics here.
    pub number: String,
    /// Score of the label in this analysis, on the label's own scale.
    pub score: f64,
    /// 95 % interval of the score; null where there is none.
    pub ci95: Option<Interval>,
    /// Threshold that the score has to reach.
    pub threshold: f64,
}

/// A head with numbers that differ between two analyses.
#[derive(Serialize, JsonSchema)]
pub struct HeadChanges {
    /// Layer and number of the head.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// Number of the head's metrics and accuracies that differ.
    pub changed: usize,
    /// Number of the head's metrics and accuracies that were compared.
    pub compared: usize,
    /// Largest difference among the metrics and accuracies of the head.
    pub largest: LargestChange,
}

/// Largest difference between two analyses among the metrics and accuracies of a head.
#[derive(Serialize, JsonSchema)]
pub struct LargestChange {
    /// Name of the compared number: a metric, or the accuracy on a relation.
    pub number: String,
    /// Unit of the values: shares, nats or tokens.
    pub unit: Unit,
    /// Value in the second analysis less the value in the first.
    pub difference: f64,
    /// q-value of the difference.
    pub q: f64,
}

/// A metric or accuracy of a head that differs between two analyses.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Change {
    /// Layer and number of the head.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// Name of the compared number: a metric, or the accuracy on a relation.
    pub number: String,
    /// Unit of the values: shares, nats or tokens.
    pub unit: Unit,
    /// Value in the first analysis, with its interval.
    pub a: Valued,
    /// Value in the second analysis, with its interval.
    pub b: Valued,
    /// Value in the second analysis less the value in the first.
    pub difference: f64,
    /// Standard error of the difference; 0 where nothing varies.
    pub standard_error: f64,
    /// p-value of the test that the difference exceeds the tolerance.
    pub p: f64,
    /// The p-value corrected by Benjamini & Hochberg for all numbers compared.
    pub q: f64,
}

impl Method {
    fn phrase(self) -> &'static str {
        match self {
            Self::PairedByBlock => "the same sentences, pairwise by blocks",
            Self::ByIntervals => "by their intervals",
        }
    }
}

impl NumbersOutcome {
    pub fn verdict(&self) -> String {
        let Self { labels, relations, metrics, only, .. } = self;
        let count = |part: Part, count: usize, [one, many]: [&str; 2]| {
            (only.is_empty() || only.contains(&part)).then(|| format!("{count} {}", plural(&count, one, many)))
        };
        let counts = [
            count(Part::Labels, labels.len() + self.idle_head_label_count(), ["label", "labels"]),
            count(Part::Relations, relations.len(), ["accuracy on relations", "accuracies on relations"]),
            count(Part::Metrics, metrics.len(), ["metric of heads", "metrics of heads"]),
        ];
        let counts: Vec<String> = counts.into_iter().flatten().collect();
        if let Some(units) = &self.too_few_units {
            format!("Could not tell: {units}")
        } else if self.changed {
            format!("Changed beyond chance: {}", counts.join(", "))
        } else if self.idle.is_empty() {
            "Nothing changed beyond chance".to_owned()
        } else {
            let heads = format_count(self.idle.len(), "head");
            format!(
                "No number changed beyond chance, but {heads} {} nothing on one side",
                plural(&self.idle.len(), "does", "do")
            )
        }
    }

    /// Number of firm labels whose head is absent, removed or constant in the other analysis.
    pub fn idle_head_label_count(&self) -> usize {
        self.idle.iter().map(|head| head.firm_labels.len()).sum()
    }

    /// Sentence on the heads that do nothing in exactly one analysis, at most `most` named per reason, with the number
    /// of their firm labels. `None` without such heads.
    pub fn idle_heads_sentence(&self, most: usize) -> Option<String> {
        let heads: Vec<IdleHead> = self.idle.iter().map(|head| head.head.clone()).collect();
        let words = head_state::idle_heads_sentence(&heads, most)?;
        Some(match self.idle_head_label_count() {
            0 => words,
            count => {
                let labels = format_count(count, "label");
                format!("{words} {labels} of these heads {} firm on the other side.", plural(&count, "is", "are"))
            }
        })
    }

    /// Sentence on which numbers were compared, and on when a number counts as changed. `q_at_most` is the text before the
    /// bound on q-values, such as `q <=`.
    pub fn numbers_sentence(&self, q_at_most: &str) -> String {
        let Self { compared, rate, tolerances: PerUnit { shares, nats, tokens }, method, .. } = self;
        if compared.numbers == 0 {
            return "No number could be compared.".to_owned();
        }
        format!(
            "Compared {} of heads and {} {} on relations, {}: changed where {q_at_most} {rate}, corrected for all {} of them, and \
             farther apart than {shares} of shares, {nats} nats or {tokens} tokens.",
            format_count(compared.metrics, "metric"),
            compared.relations,
            plural(&compared.relations, "accuracy", "accuracies"),
            method.phrase(),
            compared.numbers,
        )
    }

    pub fn labels_sentence(&self) -> String {
        let Compared { firm_labels, labels, .. } = self.compared;
        format!(
            "{}, {labels} compared: a label has changed where it fails its rule on the other side and the number of that rule changed, \
             too, or where its head does nothing there.",
            firm_count_text(firm_labels)
        )
    }

    /// Sentence on labels that are firm in one analysis only; `None` if there are none.
    pub fn one_sided_labels_sentence(&self) -> Option<String> {
        let count = self.one_sided.len();
        (count > 0).then(|| {
            format!(
                "{} {} firm on one side only, and it is not shown that {} changed: `headscope compare` says of every label \
                 whether it was kept, gained or lost, or why it cannot be told.",
                format_count(count, "label"),
                plural(&count, "is", "are"),
                plural(&count, "it", "they"),
            )
        })
    }
}

impl OneSidedLabel {
    pub fn in_words(&self) -> String {
        format!("{} {} ({} only)", self.place, one_line(&self.label), self.firm_side_name())
    }

    /// Analysis in which the label is firm: `a` or `b`.
    pub fn firm_side_name(&self) -> &'static str {
        if self.a.firm { "a" } else { "b" }
    }
}

impl LabelChange {
    /// Direction in which the label changed: `lost` or `gained`.
    pub fn change_direction(&self) -> &'static str {
        if self.a.firm { "lost" } else { "gained" }
    }

    /// Whether the label's score rests on another metric than `number` in `a` or `b`. If so, texts name the metric of each
    /// score.
    pub fn has_several_numbers(&self) -> bool {
        [&self.a, &self.b].iter().any(|side| side.number != self.number)
    }
}

impl Standing {
    /// Formats the score with its interval and threshold; with `named`, after the name of the metric.
    pub fn in_words(&self, named: bool, digits: usize) -> String {
        let name = if named { format!("{} ", one_line(&self.number)) } else { String::new() };
        let score = Valued { value: self.score, ci95: self.ci95 };
        format!("{name}{} of {:.3}", score.in_words(digits), self.threshold)
    }
}
