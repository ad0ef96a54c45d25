//! The outcome of `headscope compare --numbers`, as `--json` prints it. docs/REPORT.md, "Comparing", explains each key.

use schemars::JsonSchema;
use serde::Serialize;

use crate::commands::saved::compare::firm_in_words;
use crate::commands::saved::sides::described::{Described, Fact, LeftAside, Valued};
use crate::commands::saved::sides::standing::{self, IdleHead};
use crate::model::grid::HeadPlace;
use crate::stats::interval::Interval;
use crate::study::metrics::number::Part;
use crate::study::metrics::unit::{PerUnit, Unit};
use crate::system::counted::{counted, plural};
use crate::system::printable::one_line;

/// Raised when a key changes its meaning or goes away; new keys alone do not raise it.
pub const SCHEMA_VERSION: u32 = 3;

/// Changes between two analyses, beyond chance.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "headscope compare --numbers")]
pub struct NumbersOutcome {
    /// The version of this schema.
    pub schema_version: u32,
    /// Whether any of the three lists of changes has an entry, or an idle head a firm label.
    pub changed: bool,
    /// How the corpora differ, in words; null where both analyses are over the same text.
    pub corpora: Option<String>,
    /// The result of each side on its task, in a sentence; null unless both sides have a task.
    pub task: Option<[String; 2]>,
    /// Why no label is firm on a side whose model could not read the corpus, in words; null where both could.
    pub unread: Option<String>,
    /// Why nothing could be tested: the sampling units of a side that has too few; null where tests were possible.
    pub too_few_units: Option<String>,
    /// The first analysis.
    pub a: Described,
    /// The second analysis.
    pub b: Described,
    /// How differences were tested.
    pub method: Method,
    /// The largest q-value of a change: the rate of false discoveries.
    pub rate: f64,
    /// Why a paired test would be more sensitive, and how to get one; null where none is possible.
    pub pairing: Option<String>,
    /// Differences up to this size do not count, per unit.
    pub tolerances: PerUnit<f64>,
    /// The parts that were asked for; empty for all.
    pub only: Vec<Part>,
    /// How many things were compared, whatever was asked for.
    pub compared: Compared,
    /// Labels that are firm on one side and out of reach on the other, largest difference first.
    pub labels: Vec<LabelChange>,
    /// Labels that are firm on one side only and are not shown to have changed. Either the test on the other side cannot tell, or
    /// the number that they rest on does not differ. They are no changes; `headscope compare` without `--numbers` says more.
    pub one_sided: Vec<OneSidedLabel>,
    /// The heads that do nothing on one side alone. Their firm labels on the other side are lost or gained, and count as changes.
    pub idle: Vec<IdleHeadLabels>,
    /// Heads with a differing number among the parts asked for, the head with most differing numbers first.
    pub heads: Vec<HeadChanges>,
    /// Accuracies on relations that differ, largest difference first.
    pub relations: Vec<Change>,
    /// Metrics of heads that differ, largest difference first. Differences in several units are compared as multiples of the
    /// tolerance for two models that differ in precision alone.
    pub metrics: Vec<Change>,
    /// Parts that were not compared, and why.
    pub left_aside: Vec<LeftAside>,
    /// Facts about the runs that the two do not share. They are no changes.
    pub not_shared: Vec<Fact>,
}

/// How differences are tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Equal sentences: the block test of the differences.
    PairedByBlock,
    /// Different sentences, or not known to be equal: by the intervals of both.
    ByIntervals,
}

/// How many things were compared.
#[derive(Serialize, JsonSchema)]
pub struct Compared {
    /// Labels that are firm on either side, but for `broad` and for how heads choose.
    pub firm_labels: usize,
    /// The firm labels that were compared.
    pub labels: usize,
    /// Accuracies on relations.
    pub relations: usize,
    /// Metrics of heads.
    pub metrics: usize,
    /// All numbers together: the tests that are corrected for.
    pub numbers: usize,
}

/// A label that one side has firmly and that is out of reach on the other.
#[derive(Serialize, JsonSchema)]
pub struct LabelChange {
    /// The head.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// The label.
    pub label: String,
    /// The standing in the first analysis.
    pub a: Standing,
    /// The standing in the second analysis.
    pub b: Standing,
    /// The differing number that the label rests on, on the side where the label is firm.
    pub number: String,
    /// The q-value of the difference of that number.
    pub q: f64,
}

/// A label that one side has firmly and the other has not, without being shown to have changed.
#[derive(Serialize, JsonSchema)]
pub struct OneSidedLabel {
    /// The head.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// The label.
    pub label: String,
    /// The standing in the first analysis.
    pub a: Standing,
    /// The standing in the second analysis.
    pub b: Standing,
}

/// A head that does nothing on one side.
#[derive(Debug, Serialize, JsonSchema)]
pub struct IdleHeadLabels {
    /// The head, and why it does nothing.
    #[serde(flatten)]
    pub head: IdleHead,
    /// The labels that are firm on the other side.
    pub firm_labels: Vec<String>,
}

impl From<IdleHead> for IdleHeadLabels {
    fn from(head: IdleHead) -> Self {
        Self { head, firm_labels: Vec::new() }
    }
}

/// How a head stands to a label.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Standing {
    /// Whether the label is firm there.
    pub firm: bool,
    /// The metric behind the score: on each side, the best of the label's rules.
    pub number: String,
    /// The score.
    pub score: f64,
    /// Its 95 % interval.
    pub ci95: Option<Interval>,
    /// The threshold that it has to reach.
    pub threshold: f64,
}

/// A head with differing numbers.
#[derive(Serialize, JsonSchema)]
pub struct HeadChanges {
    /// The head.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// How many of its numbers differ.
    pub changed: usize,
    /// How many of its numbers were compared.
    pub compared: usize,
    /// The largest difference.
    pub largest: LargestChange,
}

/// The number of a head that differs most.
#[derive(Serialize, JsonSchema)]
pub struct LargestChange {
    /// The number.
    pub number: String,
    /// Its unit.
    pub unit: Unit,
    /// The second value less the first.
    pub difference: f64,
    /// The q-value of the difference.
    pub q: f64,
}

/// A number that differs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Change {
    /// The head.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// The number: a metric, or the accuracy on a relation.
    pub number: String,
    /// Its unit.
    pub unit: Unit,
    /// The value in the first analysis.
    pub a: Valued,
    /// The value in the second analysis.
    pub b: Valued,
    /// The second value less the first.
    pub difference: f64,
    /// The standard error of the difference; 0 where nothing varies.
    pub standard_error: f64,
    /// The p-value of the test.
    pub p: f64,
    /// The p-value corrected by Benjamini & Hochberg for all numbers compared.
    pub q: f64,
}

impl Method {
    fn words(self) -> &'static str {
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
            count(Part::Labels, labels.len() + self.labels_of_idle(), ["label", "labels"]),
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
            let heads = counted(self.idle.len(), "head");
            format!(
                "No number changed beyond chance, but {heads} {} nothing on one side",
                plural(&self.idle.len(), "does", "do")
            )
        }
    }

    /// Number of firm labels whose head does nothing on the other side.
    pub fn labels_of_idle(&self) -> usize {
        self.idle.iter().map(|head| head.firm_labels.len()).sum()
    }

    /// One line on heads that do nothing on one side, at most `most` names per kind, with their labels; `None` if there are none.
    pub fn idle_in_words(&self, most: usize) -> Option<String> {
        let heads: Vec<IdleHead> = self.idle.iter().map(|head| head.head.clone()).collect();
        let words = standing::idle_in_words(&heads, most)?;
        Some(match self.labels_of_idle() {
            0 => words,
            count => {
                let labels = counted(count, "label");
                format!("{words} {labels} of these heads {} firm on the other side.", plural(&count, "is", "are"))
            }
        })
    }

    /// Sentence on the compared numbers and the criterion of a change; `at_most` are the words before the rate.
    pub fn numbers_in_words(&self, at_most: &str) -> String {
        let Self { compared, rate, tolerances: PerUnit { shares, nats, tokens }, method, .. } = self;
        if compared.numbers == 0 {
            return "No number could be compared.".to_owned();
        }
        format!(
            "Compared {} of heads and {} {} on relations, {}: changed where {at_most} {rate}, corrected for all {} of them, and \
             farther apart than {shares} of shares, {nats} nats or {tokens} tokens.",
            counted(compared.metrics, "metric"),
            compared.relations,
            plural(&compared.relations, "accuracy", "accuracies"),
            method.words(),
            compared.numbers,
        )
    }

    pub fn labels_in_words(&self) -> String {
        let Compared { firm_labels, labels, .. } = self.compared;
        format!(
            "{}, {labels} compared: a label has changed where it fails its rule on the other side and the number of that rule changed, \
             too, or where its head does nothing there.",
            firm_in_words(firm_labels)
        )
    }

    /// Sentence on labels that are firm on one side only, which points to `headscope compare`; `None` if there are none.
    pub fn one_sided_in_words(&self) -> Option<String> {
        let count = self.one_sided.len();
        (count > 0).then(|| {
            format!(
                "{} {} firm on one side only, and it is not shown that {} changed: `headscope compare` says of every label \
                 whether it was kept, gained or lost, or why it cannot be told.",
                counted(count, "label"),
                plural(&count, "is", "are"),
                plural(&count, "it", "they"),
            )
        })
    }
}

impl OneSidedLabel {
    pub fn in_words(&self) -> String {
        format!("{} {} ({} only)", self.place, one_line(&self.label), self.side())
    }

    pub fn side(&self) -> &'static str {
        if self.a.firm { "a" } else { "b" }
    }
}

impl LabelChange {
    /// The direction of the change: `lost` or `gained`.
    pub fn fate(&self) -> &'static str {
        if self.a.firm { "lost" } else { "gained" }
    }

    /// Whether the scores and the tested number are different metrics, which are then named.
    pub fn has_several_numbers(&self) -> bool {
        [&self.a, &self.b].iter().any(|side| side.number != self.number)
    }
}

impl Standing {
    /// The score with its interval and threshold; with `named`, after the name of the number.
    pub fn in_words(&self, named: bool, digits: usize) -> String {
        let name = if named { format!("{} ", one_line(&self.number)) } else { String::new() };
        let score = Valued { value: self.score, ci95: self.ci95 };
        format!("{name}{} of {:.3}", score.in_words(digits), self.threshold)
    }
}
