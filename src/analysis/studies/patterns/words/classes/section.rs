//! The section `classes` of the report: attention of each head to classes of words.

use std::collections::BTreeSet;
use std::fmt::{self, Write};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sums::MAX_CLASSES;
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::stats::block_test::{Jackknife, Scale};
use crate::stats::interval::Interval;
use crate::study::labels::content::{CONTENT_MASS, POSITION_FACTOR, assess_content_leads};
use crate::study::labels::evidence::EvidenceGap;
use crate::study::labels::{Assessment, MeasuredScore, Policy};
use crate::study::metrics::metric::Denominator;
use crate::study::metrics::number::{Number, Part};
use crate::study::metrics::unit::Unit;
use crate::study::section::{Section, View, ViewContext, stored};
use crate::study::show::wording::{TableColumn, column_table, percent, plus_minus_percent};
use crate::study::show::{InBrief, Shortage, Summary, TableRows};
use crate::system::counts::plural;
use crate::system::printable::{excerpt, one_line};

/// Classes of the words of a corpus, with each attention head's attention to them.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassesSection {
    /// Results on each class of words; empty for a corpus without classes.
    pub classes: Vec<ClassMetrics>,
    /// Kinds of word classes, such as `token`.
    pub class_kinds: Vec<ClassKind>,
}

stored!(ClassesSection { classes: Vec<ClassMetrics>, class_kinds: Vec<ClassKind> });

/// Kind of word classes, such as `token`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClassKind {
    /// Name of the kind: a key or column of the corpus, or `token` for the tokens of a small vocabulary.
    pub key: String,
    /// Number of classes of this kind in the corpus; 0 if `is_crowded` is true.
    pub classes: u64,
    /// Whether the kind has more than 100 classes, so that none is measured; absent if false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_crowded: bool,
}

/// Attention of every head to words of one class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClassMetrics {
    /// Kind of the class, such as `token`.
    pub key: String,
    /// Name of the class, without its kind.
    pub class: String,
    /// Number of words of the class.
    pub words: u64,
    /// Denominator: all words of sentences in which some word has a class of this kind.
    pub queries: Denominator,
    /// Attention of each head to the class.
    pub by_head: Vec<ClassHead>,
}

/// Attention of one head to words of one class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClassHead {
    /// Attention head whose attention to the class is measured.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// Mean over query words of the attention to other words of the class.
    pub mass: Ratio,
    /// Value of `mass` under uniform attention.
    #[schemars(range(min = 0, max = 1))]
    pub chance: Option<f64>,
    /// Value of `mass` that the head's preference for offsets alone predicts, whatever the class of the words there.
    #[schemars(range(min = 0, max = 1))]
    pub expected: Option<f64>,
    /// Lead over uniform attention: `mass - chance`.
    pub over_chance: Ratio,
    /// Lead over the head's preference for offsets: `mass - 1.25 expected`.
    pub over_position: Ratio,
}

/// Mean of a mass or a lead over query words, with its uncertainty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ratio {
    /// Mean over query words of the mass or lead in question. Null without query words.
    #[schemars(range(min = -POSITION_FACTOR, max = 1))]
    pub value: Option<f64>,
    /// 95 % interval of `value`. Null if fewer than 10 blocks have a query word.
    pub ci95: Option<Interval>,
    /// Standard error of `value`, by leaving out one block at a time. Null if `ci95` is.
    #[schemars(range(min = 0))]
    pub standard_error: Option<f64>,
    /// Jackknife replicates of `value`, each without one block, for the block test of two analyses.
    #[serde(skip)]
    pub left_out: Option<Jackknife>,
}

impl ClassMetrics {
    /// Key and name of the class as printed.
    pub fn title(&self) -> String {
        format!("{}={}", self.key, self.class)
    }

    /// Assesses an attention head for the label of this class. `None` if there are too few queries or sentences.
    pub(super) fn assess(&self, head: &ClassHead, policy: &Policy) -> Option<Assessment> {
        if EvidenceGap::find(&self.queries, policy).is_some() {
            return None;
        }
        let measured = |ratio: &Ratio, baseline: Option<f64>| MeasuredScore {
            score: ratio.value,
            ci95: ratio.ci95,
            baseline,
            estimate: ratio
                .value
                .zip(ratio.standard_error)
                .and_then(|(value, standard_error)| self.queries.estimate(value, standard_error, Scale::Real)),
        };
        let blind = head.chance.map(|chance| (1.0 - POSITION_FACTOR) * chance);
        let leads = [measured(&head.over_chance, Some(0.0)), measured(&head.over_position, blind)];
        let name = self.title();
        assess_content_leads(&format!("class:{name}"), ("class_mass", Some(&name)), leads, policy.rule(&CONTENT_MASS))
    }

    /// Returns the head farthest above uniform attention to this class, among the heads that meet the label's rule.
    fn clearest_head(&self, policy: &Policy) -> Option<&ClassHead> {
        let fires = |head: &&ClassHead| self.assess(head, policy).is_some_and(|found| found.meets_rule);
        let lead = |head: &ClassHead| head.over_chance.value.unwrap_or_default();
        self.by_head.iter().filter(fires).max_by(|a, b| lead(a).total_cmp(&lead(b)))
    }

    fn numbers(&self, policy: &Policy) -> impl Iterator<Item = Number<'_>> {
        let enough = EvidenceGap::find(&self.queries, policy).is_none();
        let of = self.title();
        self.by_head.iter().enumerate().flat_map(move |(head, entry)| {
            let ratios = [
                ("class_mass", &entry.mass),
                ("class_mass_over_chance", &entry.over_chance),
                ("class_mass_over_position", &entry.over_position),
            ];
            ratios.map(|(metric, ratio)| Number {
                part: Part::Relations,
                head,
                subject: of.clone(),
                name: format!("{metric}[{of}]"),
                unit: Unit::Shares,
                base_number: (metric != "class_mass").then(|| format!("class_mass[{of}]")),
                value: ratio.value,
                ci95: ratio.ci95,
                blocks: usize::try_from(self.queries.blocks).unwrap_or_default(),
                effective_blocks: self.queries.effective_blocks,
                trials: None,
                has_enough_evidence: enough,
                jackknife: ratio.left_out.as_ref(),
            })
        })
    }
}

impl ClassesSection {
    /// Obstacles to labels of classes: too little text, or a kind of classes that no word has.
    fn in_brief(&self, policy: &Policy) -> InBrief {
        let largest = self.classes.iter().map(|class| class.queries).max_by_key(|known| (known.sentences, known.count));
        let shortage =
            largest.and_then(|largest| Shortage::for_labels("a label of classes".to_owned(), &largest, policy));
        let kind_without_words = self.class_kinds.iter().find(|kind| kind.classes == 0 && !kind.is_crowded);
        let found = kind_without_words.and_then(|kind| self.label_obstacle(kind, policy)).map(|none| none + ".");
        InBrief { finding: found, shortage, ..InBrief::default() }
    }

    /// Results on the classes of the kind `key`.
    fn classes_of<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a ClassMetrics> {
        self.classes.iter().filter(move |class| class.key == key)
    }

    /// Reason why classes of a kind cannot have labels. `None` if they can.
    fn label_obstacle(&self, kind: &ClassKind, policy: &Policy) -> Option<String> {
        let key = one_line(&kind.key);
        if kind.is_crowded {
            return Some(format!("Words have more than {MAX_CLASSES} classes of the kind {key}"));
        }
        let Some(class) = self.classes_of(&kind.key).next() else {
            return Some(format!("No word has a class of the kind {key}"));
        };
        let (count, [one, many], least) = EvidenceGap::find(&class.queries, policy)?.count_and_threshold();
        let (asked, things) = (policy.count(least), plural(&count, one, many));
        Some(format!(
            "Too little text for classes of the kind {key}: {count} {things}, where a label asks for {asked} (`{}`)",
            least.name
        ))
    }

    fn write_summary(&self, out: &mut Summary, policy: &Policy) -> fmt::Result {
        let (mut tested, mut found) = (0, Vec::new());
        for kind in &self.class_kinds {
            if let Some(obstacle) = self.label_obstacle(kind, policy) {
                writeln!(out, "{obstacle}: no label was tested.")?;
                continue;
            }
            tested += self.classes_of(&kind.key).count();
            found.extend(self.classes_of(&kind.key).filter_map(|class| Some((class, class.clearest_head(policy)?))));
        }
        let left_over = tested - found.len();
        if found.is_empty() {
            let of =
                if left_over == 1 { "the one class".to_owned() } else { format!("any of the {left_over} classes") };
            return if left_over == 0 { Ok(()) } else { writeln!(out, "No head is shown to attend to words of {of}.") };
        }
        writeln!(
            out,
            "Head with most attention to words of each class beyond even attention, in % of its attention, ± half of the 95 % \
             interval; `offsets` is the attention that its offsets alone let expect:\n"
        )?;
        let columns: [TableColumn<(&ClassMetrics, &ClassHead)>; 6] = [
            ("class", true, |(class, _)| one_line(&class.title())),
            ("words", false, |(class, _)| class.words.to_string()),
            ("head", true, |(_, head)| head.place.to_string()),
            ("mass", false, |(_, head)| percent(head.mass.value) + &plus_minus_percent(head.mass.ci95)),
            ("even", false, |(_, head)| percent(head.chance)),
            ("offsets", false, |(_, head)| percent(head.expected)),
        ];
        out.add_table(column_table(&columns, &found.iter().collect::<Vec<_>>()));
        if left_over > 0 {
            let classes = plural(&left_over, "class", "classes");
            writeln!(out, "\nNo head is shown to attend to words of {left_over} other {classes}.")?;
        }
        Ok(())
    }

    fn tables(&self) -> Vec<TableRows<'_>> {
        #[derive(Serialize)]
        struct Row<'a> {
            key: &'a str,
            class: &'a str,
            #[serde(flatten)]
            head: &'a ClassHead,
        }
        let by_head = self.classes.iter().flat_map(|ClassMetrics { key, class, by_head, .. }| {
            by_head.iter().map(move |head| Row { key, class, head })
        });
        vec![TableRows::new("classes", &self.classes), TableRows::new("classes_by_head", by_head)]
    }
}

impl Section for ClassesSection {
    fn view(&self, ViewContext { policy, .. }: ViewContext<'_>) -> View<'_> {
        View {
            in_brief: self.in_brief(policy),
            lacks_subject: self.class_kinds.is_empty(),
            summary: Summary::from_writer(|out| self.write_summary(out, policy)),
            tables: self.tables(),
            numbers: self.classes.iter().flat_map(|class| class.numbers(policy)).collect(),
            ..View::default()
        }
    }

    fn defect(&self, grid: HeadGrid) -> Option<String> {
        if let Some(broken) =
            self.classes.iter().find(|class| !grid.equals_all_heads(class.by_head.iter().map(|head| head.place)))
        {
            return Some(format!("the class `{}` does not list every head", excerpt(&broken.title())));
        }
        let kinds: BTreeSet<&str> = self.class_kinds.iter().map(|kind| &*kind.key).collect();
        let names: BTreeSet<(&str, &str)> = self.classes.iter().map(|class| (&*class.key, &*class.class)).collect();
        let can_be = |&(key, class): &(&str, &str)| kinds.contains(key) && !class.is_empty();
        let is_kind = |key: &&str| !key.is_empty() && !key.contains('=');
        let are_distinct = [kinds.len(), names.len()] == [self.class_kinds.len(), self.classes.len()];
        (!are_distinct || !names.iter().all(can_be) || !kinds.iter().all(is_kind))
            .then(|| "`classes` are not different classes of the `class_kinds`, each with a name".to_owned())
    }
}
