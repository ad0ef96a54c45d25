//! A study's section of the report.

use std::any::Any;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use super::labels::evidence::{Direction, UseTest};
use super::labels::policy::Policy;
use super::metrics::estimates::Estimates;
use super::metrics::number::Number;
use super::show::figure::Figure;
use super::show::in_brief::InBrief;
use super::show::summary::Summary;
use super::show::table::TableRows;
use super::tracked::Tracked;
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::passes::ablation::Replacement;
use crate::passes::control::ControlKind;
use crate::sequences::reading::Context;

/// The part that a study adds to a report beside metrics and labels.
pub trait Section: Any + Send + Sync {
    /// Completes the section with facts that are known only after all studies have measured.
    fn complete(&mut self, _known: &Completion<'_>) {}

    /// All that is shown of the section and used of it by other parts of the program.
    fn view(&self, known: Known<'_>) -> View<'_>;

    fn of_head(&self, _head: HeadPlace, _known: Known<'_>) -> HeadCard {
        HeadCard::default()
    }

    /// The first thing that it lacks, if it is incomplete.
    fn defect(&self, _grid: HeadGrid) -> Option<String> {
        None
    }
}

/// The view of a section: what every medium shows of it, and what other parts of the program use.
#[derive(Default)]
pub struct View<'a> {
    /// Whether the corpus has nothing that the study is about; the summary passes over it then.
    pub lacks_subject: bool,
    /// The sentence of the study among the few that open a report, and a shortage of text; neither for most studies.
    pub in_brief: InBrief,
    /// Its words for the summary, in whole lines; empty if it has none.
    pub summary: Summary,
    /// The figures of its results; none where there is nothing to draw.
    pub figures: Vec<Figure>,
    /// The flat tables of its results, under the names of the report; without rows where there are none.
    pub tables: Vec<TableRows<'a>>,
    /// The numbers beside the metrics by which two analyses can be compared.
    pub numbers: Vec<Number<'a>>,
    /// How well each head follows each relation that the study knows.
    pub tracked: Vec<Tracked>,
    /// The tests of whether the model uses the arcs that labels are about.
    pub tests_of_use: Vec<LabelUse>,
    /// Heads with the place in the corpus of the sentence that is typical of each.
    pub typical: Vec<(HeadPlace, u64)>,
    pub pruning: Vec<PruningOrder>,
    /// Whether the model is shown to be above the baseline of the task, from the study that tests it.
    pub is_above_baseline: Option<bool>,
}

impl View<'_> {
    pub fn saying(summary: impl Into<Summary>) -> Self {
        Self { summary: summary.into(), ..Self::default() }
    }
}

/// A fact that is known only after all studies have measured.
pub enum Completion<'a> {
    Estimates(&'a Estimates),
    /// The thresholds: what depends on them is corrected.
    Policy(&'a Policy),
    /// The section of the same study in a control of this kind with each seed.
    Control(ControlKind, &'a [&'a dyn Section]),
    /// The first label of every head, `[layers * heads]`, for places that name heads.
    Labels(&'a [String]),
    /// How many heads of a layer, one after the other, share their keys and values; not of models whose heads have their own.
    SharedKeys(usize),
    /// The report is written with fewer digits than there are: sections drop what no policy asks for.
    Rounded,
}

/// Facts of a run that its sections are shown with.
#[derive(Clone, Debug, Default)]
pub struct SectionFacts {
    /// The unit that a decoder read: sections count windows of documents as sentences.
    pub read: Context,
    /// How many of the seven ways to mask every seventh word of a sentence were run; `None` where no head was removed.
    pub phases: Option<u8>,
    /// The first label of every head.
    pub labels: BTreeMap<HeadPlace, String>,
    /// Whether the model is shown to be above the baseline of the task; `None` without a task.
    pub is_above_baseline: Option<bool>,
}

/// Policy and facts by which a section is shown.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    pub policy: &'a Policy,
    pub run: &'a SectionFacts,
}

impl<'a> Known<'a> {
    /// Without facts of the run, on which neither tests nor numbers depend.
    pub fn new(policy: &'a Policy) -> Self {
        static NONE: SectionFacts =
            SectionFacts { read: Context::Sentence, phases: None, labels: BTreeMap::new(), is_above_baseline: None };
        Self { policy, run: &NONE }
    }
}

#[derive(Default)]
pub struct HeadCard {
    pub lines: Vec<String>,
    /// Its part of the sentence on the head: verb phrases whose subject is the head, each with its number.
    pub clauses: Vec<String>,
    /// Figures, which say on the page what the lines say elsewhere.
    pub figures: Vec<Figure>,
    /// The heads that it is related to, which say on the page what the lines say elsewhere.
    pub neighbours: Vec<Neighbour>,
    /// The lines as a table, where they are alike.
    pub table: Option<CardTable>,
}

pub struct Neighbour {
    /// How it is related: a phrase before its name.
    pub how: &'static str,
    pub place: HeadPlace,
    /// How strongly, in a few words.
    pub strength: String,
}

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
    pub fn saying(self, clauses: impl IntoIterator<Item = String>) -> Self {
        Self { clauses: clauses.into_iter().collect(), ..self }
    }
}

/// An order in which heads were removed one after the other, with the loss each time.
#[derive(Clone, Debug, PartialEq)]
pub struct PruningOrder {
    pub by: String,
    pub removal: Replacement,
    /// The heads, the first to go first, each with its constant where that replaces it.
    pub heads: Vec<(HeadPlace, Option<Vec<f32>>)>,
    /// The loss with all heads, in `unit`.
    pub loss: f64,
    /// Nats, or what a task is scored in.
    pub unit: &'static str,
    /// The loss without the first head, without the first two, and so on.
    pub without: Vec<f64>,
    /// The share of a task's predictions that are right, with all heads, then without the first and so on.
    pub right: Option<(f64, Vec<f64>)>,
    /// How many heads can go by each measure of loss, within each rise of the report.
    pub budgets: Vec<(ShareOf, f64, usize)>,
    /// Whether the model is shown to be above the baseline of the task; `None` of a loss of tokens.
    pub is_above_baseline: Option<bool>,
}

impl PruningOrder {
    /// How many heads can go until more is lost than this share of a measure; `None` if that has no shares.
    pub fn can_go(&self, rise: f64, of: ShareOf) -> Option<usize> {
        let mut known = self.budgets.iter().filter(|(measure, ..)| *measure == of).peekable();
        known.peek()?;
        // The report counted by sums that are exact.
        if let Some(&(.., count)) = known.find(|(_, allowed, _)| (allowed - rise).abs() < ROUNDING) {
            return Some(count);
        }
        let bare = self.without.last().copied().unwrap_or(self.loss);
        let within = |lost: &mut dyn Iterator<Item = f64>, allowed: f64| {
            lost.take_while(|lost| *lost <= allowed + ROUNDING).count()
        };
        let (loss, right) = (self.loss, self.right.as_ref());
        let rises = &mut self.without.iter().map(|without| without - loss);
        Some(match of {
            ShareOf::Loss => within(rises, rise * loss),
            ShareOf::AllHeads => within(rises, rise * (bare - loss)),
            ShareOf::Right => {
                let (right, without) = right?;
                within(&mut without.iter().map(|without| right - without), rise * right)
            }
        })
    }
}

/// Differences of shares are rounded by less than this.
pub const ROUNDING: f64 = 1e-9;

/// A measure of loss that is allowed to change by a share of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ShareOf {
    /// The loss with all heads.
    #[default]
    Loss,
    /// The loss without any head less that with all.
    AllHeads,
    /// The share of predictions of a task that are right with all heads, which may fall.
    Right,
}

impl ShareOf {
    pub const ALL: [Self; 3] = [Self::Loss, Self::AllHeads, Self::Right];

    pub fn words(self) -> &'static str {
        match self {
            Self::Loss => "the loss",
            Self::AllHeads => "what all heads are worth",
            Self::Right => "the share right",
        }
    }
}

/// A syntactic label put to the test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LabelUse {
    /// The head.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// The label that it had when it was tested.
    pub label: String,
    /// The direction of the label.
    pub direction: Direction,
    /// The test.
    #[serde(flatten)]
    pub test: UseTest,
}

pub type Entry<'a> = (&'static str, &'a dyn erased_serde::Serialize);

/// The values of the keys of sections in a saved report, each of the type that its section has under it.
pub type KeyValues = BTreeMap<&'static str, Box<dyn Any>>;

/// A section as it stands in a report: under keys of its own. [`stored!`](crate::stored) implements it.
pub trait Stored: Section + Sized {
    const KEYS: &'static [&'static str] = &[];

    fn entries(&self) -> Vec<Entry<'_>> {
        Vec::new()
    }

    fn schema(_: &mut SchemaGenerator) -> Vec<(&'static str, Schema)> {
        Vec::new()
    }

    /// The value of one of the keys, of its JSON.
    /// Fails if it is another thing. Panics if it is of no key.
    fn part(key: &str, _json: &str) -> serde_json::Result<Box<dyn Any>> {
        unreachable!("{key} is no key of the section")
    }

    /// The section, of the values of its keys.
    /// Fails with the first key that is not there.
    fn of_parts(parts: &mut KeyValues) -> Result<Self, &'static str>;
}

/// Implements [`Stored`] for a struct that is the value of one key, or for a struct whose fields are keys of the report.
#[macro_export]
macro_rules! stored {
    ($section:ty as $key:ident) => {
        impl $crate::study::section::Stored for $section {
            const KEYS: &'static [&'static str] = &[stringify!($key)];

            fn entries(&self) -> Vec<$crate::study::section::Entry<'_>> {
                vec![(stringify!($key), self)]
            }

            fn schema(generator: &mut schemars::SchemaGenerator) -> Vec<(&'static str, schemars::Schema)> {
                vec![(stringify!($key), generator.subschema_for::<Self>())]
            }

            fn part(_: &str, json: &str) -> serde_json::Result<Box<dyn std::any::Any>> {
                Ok(Box::new(serde_json::from_str::<Self>(json)?))
            }

            fn of_parts(parts: &mut $crate::study::section::KeyValues) -> Result<Self, &'static str> {
                $crate::study::section::take(parts, stringify!($key))
            }
        }
    };
    ($section:ty { $($key:ident: $value:ty),+ $(,)? }) => {
        impl $crate::study::section::Stored for $section {
            const KEYS: &'static [&'static str] = &[$(stringify!($key)),+];

            fn entries(&self) -> Vec<$crate::study::section::Entry<'_>> {
                vec![$((stringify!($key), &self.$key)),+]
            }

            fn schema(generator: &mut schemars::SchemaGenerator) -> Vec<(&'static str, schemars::Schema)> {
                vec![$((stringify!($key), generator.subschema_for::<$value>())),+]
            }

            fn part(key: &str, json: &str) -> serde_json::Result<Box<dyn std::any::Any>> {
                match key {
                    $(stringify!($key) => Ok(Box::new(serde_json::from_str::<$value>(json)?)),)+
                    _ => unreachable!("{key} is no key of the section"),
                }
            }

            fn of_parts(parts: &mut $crate::study::section::KeyValues) -> Result<Self, &'static str> {
                Ok(Self { $($key: $crate::study::section::take(parts, stringify!($key))?),+ })
            }
        }
    };
}
pub use crate::stored;

/// Takes the value of a key, of the type that [`Stored::part`] gave it.
/// Fails with the key if it is not there.
pub fn take<T: 'static>(parts: &mut KeyValues, key: &'static str) -> Result<T, &'static str> {
    let value = parts.remove(key).ok_or(key)?;
    Ok(*value.downcast().unwrap_or_else(|_| unreachable!("{key} was read as what it is")))
}

/// The section of a study that has none.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSection;

impl Section for NoSection {
    fn view(&self, _: Known<'_>) -> View<'_> {
        View::default()
    }
}

impl Stored for NoSection {
    fn of_parts(_: &mut KeyValues) -> Result<Self, &'static str> {
        Ok(Self)
    }
}

/// The section as the type that its study made.
/// Panics if it belongs to another study.
pub fn section<S: Section>(section: &dyn Section) -> &S {
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
            by: "effect".to_owned(),
            removal: Replacement::Zero,
            heads: (0..4).map(|head| (HeadPlace { layer: 0, head }, None)).collect(),
            loss: 2.0,
            unit: "nats",
            without: vec![2.05, 2.01, 2.3, 3.0],
            right: None,
            budgets: vec![(ShareOf::Loss, 0.01, 1), (ShareOf::AllHeads, 0.01, 0)],
            is_above_baseline: None,
        };
        assert_eq!(order.can_go(0.01, ShareOf::Loss), Some(1), "as the report counted");
        let of_loss = [0.02, 0.03, 0.15, 0.5].map(|rise| order.can_go(rise, ShareOf::Loss));
        assert_eq!(of_loss, [0, 2, 3, 4].map(Some));
        let of_all = [0.06, 1.0].map(|rise| order.can_go(rise, ShareOf::AllHeads));
        assert_eq!((of_all, order.can_go(0.5, ShareOf::Right)), ([Some(2), Some(4)], None));
        // Of a task: 80 % are right, and may fall to 76 %.
        let right = Some((0.8, vec![0.82, 0.77, 0.75, 0.8]));
        let order = PruningOrder { right, budgets: vec![(ShareOf::Right, 0.01, 1)], ..order };
        assert_eq!([ShareOf::Right, ShareOf::Loss].map(|of| order.can_go(0.05, of)), [Some(2), None]);
    }

    #[test]
    fn a_study_without_a_section_says_nothing() {
        assert!(NoSection.entries().is_empty());
        assert!(NoSection.view(Known::new(&default_policy())).summary.is_empty());
        assert_eq!(NoSection.defect(HeadGrid { layers: 1, heads: 1 }), None);
    }
}
