//! A study's section of the report.

use std::any::Any;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::labels::evidence::{Direction, UseTest};
use super::labels::policy::Policy;
use super::metrics::estimates::Estimates;
use super::metrics::number::Number;
use super::show::figure::Figure;
use super::show::in_brief::InBrief;
use super::show::summary::Summary;
use super::show::table::TableRows;
use super::tracked::RelationScores;
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::passes::ablation::Replacement;
use crate::passes::control::ControlKind;
use crate::sequences::reading::Context;

/// The part that a study adds to a report beside metrics and labels.
pub trait Section: Any + Send + Sync {
    /// Adds to the section a fact that is known only after all studies have measured.
    fn add_late_fact(&mut self, _known: &LateFact<'_>) {}

    /// The view of the section: all that is shown of it, and all that other parts of the program read from it.
    fn view(&self, known: ViewContext<'_>) -> View<'_>;

    /// Part of a head's card that the section adds.
    fn head_card(&self, _head: HeadPlace, _known: ViewContext<'_>) -> HeadCard {
        HeadCard::default()
    }

    /// The first defect of a section that does not fit a model with this grid, as text; `None` if the section fits.
    fn defect(&self, _grid: HeadGrid) -> Option<String> {
        None
    }
}

/// Output of a section: texts, figures and tables to show, and results that other parts of the program read.
#[derive(Default)]
pub struct View<'a> {
    /// Whether the corpus has nothing that the study is about. The summary then leaves the study out.
    pub lacks_subject: bool,
    /// The study's sentence for the opening of a report, or the shortage of text that prevents it; empty for most
    /// studies.
    pub in_brief: InBrief,
    /// The study's text in the summary, in whole lines; empty if it has none.
    pub summary: Summary,
    /// Figures of the study's results; empty if there are no results to draw.
    pub figures: Vec<Figure>,
    /// Flat tables of the study's results, named as in the report; without rows if there are no results.
    pub tables: Vec<TableRows<'a>>,
    /// Numbers by which two analyses can be compared, without the metrics.
    pub numbers: Vec<Number<'a>>,
    /// For each relation that the study scores, the accuracy of each attention head.
    pub relation_scores: Vec<RelationScores>,
    /// Tests of whether the model uses the arcs that a label claims for its head.
    pub use_tests: Vec<LabelUse>,
    /// Attention heads, each with the number of its typical sentence in the corpus.
    pub typical_sentences: Vec<(HeadPlace, u64)>,
    /// Orders in which heads were removed one after another.
    pub pruning: Vec<PruningOrder>,
    /// Whether the model is significantly above the baseline of the task; `None` in all studies but the one that
    /// tests it.
    pub is_above_baseline: Option<bool>,
}

impl View<'_> {
    /// A view with only this summary.
    pub fn from_summary(summary: impl Into<Summary>) -> Self {
        Self { summary: summary.into(), ..Self::default() }
    }
}

/// A fact that completes a study's section, and is known only after all studies have measured.
pub enum LateFact<'a> {
    /// The metrics of all studies.
    Estimates(&'a Estimates),
    /// The label policy. Sections repeat their tests with its thresholds, and set their verdicts.
    Policy(&'a Policy),
    /// Kind of a control that was run, and the study's sections from the control runs, one for each seed.
    Control(ControlKind, &'a [&'a dyn Section]),
    /// First label of every head, `[layers * heads]`, for sections that name heads.
    Labels(&'a [String]),
    /// The report will be written with rounded numbers. Sections then drop tests of heads that no policy could label.
    Rounded,
}

/// Facts of a run that are needed to display its sections.
#[derive(Clone, Debug, Default)]
pub struct SectionFacts {
    /// Text unit that a decoder read. If it is a document, the sections count windows as sentences.
    pub read: Context,
    /// Number of masking patterns that were run; each of the seven patterns masks every seventh word. `None` if no
    /// head was removed.
    pub phases: Option<u8>,
    /// First label of every attention head.
    pub labels: BTreeMap<HeadPlace, String>,
    /// Whether the model is significantly above the baseline of the task; `None` without a task.
    pub is_above_baseline: Option<bool>,
}

/// The label policy, and the facts of the run, by which a section is shown.
#[derive(Clone, Copy)]
pub struct ViewContext<'a> {
    pub policy: &'a Policy,
    pub run: &'a SectionFacts,
}

impl<'a> ViewContext<'a> {
    /// A context without facts of the run. It suffices for the tests, the numbers and the baseline result of a view,
    /// which do not depend on such facts.
    pub fn new(policy: &'a Policy) -> Self {
        static NO_FACTS: SectionFacts =
            SectionFacts { read: Context::Sentence, phases: None, labels: BTreeMap::new(), is_above_baseline: None };
        Self { policy, run: &NO_FACTS }
    }
}

/// Part of a head's card that a section adds.
#[derive(Default)]
pub struct HeadCard {
    pub lines: Vec<String>,
    /// Verb phrases for the sentence about the head, which is their subject. Each has a number in it.
    pub clauses: Vec<String>,
    /// Figures, which the page shows instead of `lines`.
    pub figures: Vec<Figure>,
    /// Related heads, which the page shows instead of `lines`.
    pub neighbours: Vec<RelatedHead>,
    /// The content of `lines` as a table, if the lines are alike; `None` otherwise.
    pub table: Option<CardTable>,
}

/// An attention head to which the card of another head refers, such as the head that attends most like it.
pub struct RelatedHead {
    /// Phrase for the relation between the two heads, printed before the related head's name: `looks most like`.
    pub relation: &'static str,
    pub place: HeadPlace,
    /// Strength of the relation in a few words: `distance 0.123`.
    pub strength: String,
}

/// A table on the card of a head.
pub struct CardTable {
    pub columns: &'static [&'static str],
    pub rows: Vec<Vec<String>>,
}

impl FromIterator<String> for HeadCard {
    fn from_iter<I: IntoIterator<Item = String>>(lines: I) -> Self {
        Self { lines: lines.into_iter().collect(), ..Self::default() }
    }
}

impl HeadCard {
    /// This card with these [clauses](Self::clauses).
    pub fn with_clauses(self, clauses: impl IntoIterator<Item = String>) -> Self {
        Self { clauses: clauses.into_iter().collect(), ..self }
    }
}

/// An order in which attention heads were removed one after another, with the loss after each removal.
#[derive(Clone, Debug, PartialEq)]
pub struct PruningOrder {
    /// Criterion by which heads were ordered: `effect`, `gradient`, `task`, or `random:` with the seed.
    pub criterion: String,
    pub removal: Replacement,
    /// Heads in the order of removal, each with the constant that replaces its output; `None` for other kinds of
    /// removal.
    pub heads: Vec<(HeadPlace, Option<Vec<f32>>)>,
    /// Loss of the model with all heads, in `unit`.
    pub loss: f64,
    /// Unit of the loss: nats, or the unit in which a task is scored.
    pub unit: &'static str,
    /// Loss after each removal, in `unit`, `[heads]`: without the first of `heads`, without the first two, and so on.
    pub losses_without: Vec<f64>,
    /// Share of a task's predictions that are right, as `(with all heads, after each removal)`. `None` for losses
    /// of tokens.
    pub accuracies: Option<(f64, Vec<f64>)>,
    /// Number of heads that can be removed within a limit, as `(measure, rise, number of heads)`. The loss may rise, or
    /// the accuracy fall, by at most the share `rise` of the measure.
    pub budgets: Vec<(ShareOf, f64, usize)>,
    /// Whether the model is significantly above the baseline of the task; `None` for losses of tokens.
    pub is_above_baseline: Option<bool>,
}

impl PruningOrder {
    /// Number of heads that can be removed, in this order, while the loss rises (or the accuracy falls) by at most the
    /// share `rise` of the quantity `measure`. `None` if the order has no limits relative to `measure`.
    pub fn removable_heads(&self, rise: f64, measure: ShareOf) -> Option<usize> {
        let mut budgets = self.budgets.iter().filter(|(limited, ..)| *limited == measure).peekable();
        budgets.peek()?;
        // The counts of the report come from exact sums.
        if let Some(&(.., count)) = budgets.find(|(_, allowed, _)| (allowed - rise).abs() < ROUNDING_TOLERANCE) {
            return Some(count);
        }
        let count_within = |rises: &mut dyn Iterator<Item = f64>, allowed: f64| {
            rises.take_while(|rise| *rise <= allowed + ROUNDING_TOLERANCE).count()
        };
        let loss = self.loss;
        let loss_without_heads = self.losses_without.last().copied().unwrap_or(loss);
        let rises = &mut self.losses_without.iter().map(|without| without - loss);
        Some(match measure {
            ShareOf::Loss => count_within(rises, rise * loss),
            ShareOf::AllHeads => count_within(rises, rise * (loss_without_heads - loss)),
            ShareOf::Right => {
                let (right, without) = self.accuracies.as_ref()?;
                count_within(&mut without.iter().map(|without| right - without), rise * right)
            }
        })
    }
}

/// Upper bound of the rounding errors in differences of shares.
pub const ROUNDING_TOLERANCE: f64 = 1e-9;

/// Reference quantity of a limit: the loss may rise, or the accuracy may fall, by a given share of this quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ShareOf {
    /// Loss with all attention heads.
    #[default]
    Loss,
    /// Loss without any attention head less the loss with all of them.
    AllHeads,
    /// Share of a task's predictions that are right (accuracy) with all attention heads; here the accuracy may fall.
    Right,
}

impl ShareOf {
    pub const ALL: [Self; 3] = [Self::Loss, Self::AllHeads, Self::Right];

    /// The measure as a noun phrase, such as "the loss".
    pub fn noun_phrase(self) -> &'static str {
        match self {
            Self::Loss => "the loss",
            Self::AllHeads => "what all heads are worth",
            Self::Right => "the share right",
        }
    }
}

/// Test of whether the model uses the arcs of a syntactic label.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LabelUse {
    /// The attention head, by layer and number in the layer.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// Label that was tested, such as `syntactic:obj`; labelling the report anew under another policy keeps this entry.
    pub label: String,
    /// Direction of the label: whether the dependent or the syntactic head of an arc is the query.
    pub direction: Direction,
    /// Effect of the label's arcs on the loss, with its test.
    #[serde(flatten)]
    pub test: UseTest,
}

/// Values of the keys of all sections in a saved report, by key. Each value has the type that [`StoredKey::parse`] gave
/// it.
pub type KeyValues = BTreeMap<&'static str, Box<dyn Any>>;

/// A key of the report under which a section, or a part of it, is stored.
pub struct StoredKey<S> {
    pub name: &'static str,
    /// Returns the part of a section that is stored under the key.
    pub value: fn(&S) -> &dyn erased_serde::Serialize,
    pub schema: fn(&mut SchemaGenerator) -> Schema,
    /// Parses the value of the key from JSON. Fails if the JSON does not have the value's type.
    pub parse: ParseValue,
}

/// Function that parses the value of a key from JSON; the value has the type of the key.
pub type ParseValue = fn(&str) -> serde_json::Result<Box<dyn Any>>;

impl<S> StoredKey<S> {
    /// A key whose value has the type `T`; `value` gets the key's value from a section.
    pub const fn new<T: DeserializeOwned + JsonSchema + 'static>(
        name: &'static str,
        value: fn(&S) -> &dyn erased_serde::Serialize,
    ) -> Self {
        let parse = |json: &str| -> serde_json::Result<Box<dyn Any>> { Ok(Box::new(serde_json::from_str::<T>(json)?)) };
        Self { name, value, schema: |generator| generator.subschema_for::<T>(), parse }
    }
}

/// A section with the keys under which it stands in a report; [`stored!`](crate::stored) implements this trait.
pub trait Stored: Section + Sized {
    const KEYS: &'static [StoredKey<Self>] = &[];

    /// Builds the section from the values of its keys. Fails with the first missing key.
    fn from_values(values: &mut KeyValues) -> Result<Self, &'static str>;
}

/// Implements [`Stored`] for a struct that is the value of one key, or for a struct whose fields are keys of the report.
#[macro_export]
macro_rules! stored {
    ($section:ty as $key:ident) => {
        impl $crate::study::section::Stored for $section {
            const KEYS: &'static [$crate::study::section::StoredKey<Self>] =
                &[$crate::study::section::StoredKey::new::<Self>(stringify!($key), |section| section)];

            fn from_values(values: &mut $crate::study::section::KeyValues) -> Result<Self, &'static str> {
                $crate::study::section::take_value(values, stringify!($key))
            }
        }
    };
    ($section:ty { $($key:ident: $value:ty),+ $(,)? }) => {
        impl $crate::study::section::Stored for $section {
            const KEYS: &'static [$crate::study::section::StoredKey<Self>] =
                &[$($crate::study::section::StoredKey::new::<$value>(stringify!($key), |section| &section.$key)),+];

            fn from_values(values: &mut $crate::study::section::KeyValues) -> Result<Self, &'static str> {
                Ok(Self { $($key: $crate::study::section::take_value(values, stringify!($key))?),+ })
            }
        }
    };
}
pub use crate::stored;

/// Removes and returns the value of a key, of the type that [`StoredKey::parse`] gave it. Fails with the name of a
/// missing key.
pub fn take_value<T: 'static>(values: &mut KeyValues, key: &'static str) -> Result<T, &'static str> {
    let value = values.remove(key).ok_or(key)?;
    Ok(*value.downcast().unwrap_or_else(|_| unreachable!("{key} was read as what it is")))
}

/// The empty section of a study that adds no section to the report.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSection;

impl Section for NoSection {
    fn view(&self, _: ViewContext<'_>) -> View<'_> {
        View::default()
    }
}

impl Stored for NoSection {
    fn from_values(_: &mut KeyValues) -> Result<Self, &'static str> {
        Ok(Self)
    }
}

/// The section as the type `S` of its study. Panics if the section belongs to another study.
pub fn downcast_section<S: Section>(section: &dyn Section) -> &S {
    (section as &dyn Any).downcast_ref().expect("a study gets back the section that it made")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::studies::registry::default_policy;

    #[test]
    fn heads_can_go_as_long_as_the_loss_stays() {
        // The second head brings back a part of what the first cost.
        let order = PruningOrder {
            criterion: "effect".to_owned(),
            removal: Replacement::Zero,
            heads: (0..4).map(|head| (HeadPlace { layer: 0, head }, None)).collect(),
            loss: 2.0,
            unit: "nats",
            losses_without: vec![2.05, 2.01, 2.3, 3.0],
            accuracies: None,
            budgets: vec![(ShareOf::Loss, 0.01, 1), (ShareOf::AllHeads, 0.01, 0)],
            is_above_baseline: None,
        };
        assert_eq!(order.removable_heads(0.01, ShareOf::Loss), Some(1), "as the report counted");
        let of_loss = [0.02, 0.03, 0.15, 0.5].map(|rise| order.removable_heads(rise, ShareOf::Loss));
        assert_eq!(of_loss, [0, 2, 3, 4].map(Some));
        let of_all = [0.06, 1.0].map(|rise| order.removable_heads(rise, ShareOf::AllHeads));
        assert_eq!((of_all, order.removable_heads(0.5, ShareOf::Right)), ([Some(2), Some(4)], None));
        // Of a task: 80 % are right, and may fall to 76 %.
        let right = Some((0.8, vec![0.82, 0.77, 0.75, 0.8]));
        let order = PruningOrder { accuracies: right, budgets: vec![(ShareOf::Right, 0.01, 1)], ..order };
        assert_eq!([ShareOf::Right, ShareOf::Loss].map(|of| order.removable_heads(0.05, of)), [Some(2), None]);
    }

    #[test]
    fn a_study_without_a_section_says_nothing() {
        assert!(NoSection::KEYS.is_empty());
        assert!(NoSection.view(ViewContext::new(&default_policy())).summary.is_empty());
        assert_eq!(NoSection.defect(HeadGrid { layers: 1, heads: 1 }), None);
    }
}
