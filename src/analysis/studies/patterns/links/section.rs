//! The section `links` of the report: results on each type of links, corrected for the number of tests, with tables and a
//! figure.

use std::cmp::Reverse;
use std::fmt::{self, Write};

use itertools::Itertools;
use serde::Serialize;

use super::link::{BestRule, LINK_REACHES, LeadTest, LinkMetrics, MARGIN};
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::stats::block_test::TAIL_SHARE;
use crate::stats::significance::q_values_above_margin;
use crate::study::labels::evidence::{Direction, LABEL_Q, MIN_QUERIES, MIN_SENTENCES, MarginTest, Reach};
use crate::study::labels::{
    self, Assessment, Label, MeasuredScore, Policy, ThresholdBound, assess, best_of_each_label,
    correct_for_multiple_tests,
};
use crate::study::metrics::metric::Denominator;
use crate::study::metrics::number::{Number, Part};
use crate::study::section::{HeadCard, LateFact, Section, View, ViewContext, downcast_section, stored};
use crate::study::show::wording::{
    TableColumn, column_table, percent, plus_minus_percent, significance_text, whole_percent, with_interval,
};
use crate::study::show::{Chart, Figure, Forest, ForestRow, Mark, Shortage};
use crate::study::{Caveat, CaveatSubject, InBrief, Summary, TableRows, Unit};
use crate::system::counts::{format_count, plural};
use crate::system::printable::one_line;

/// Results on all types of links of a corpus, by name.
#[derive(Clone, Debug, PartialEq)]
pub struct LinksSection {
    /// Results on each type of links; empty for a corpus without links.
    pub links: Vec<LinkMetrics>,
}

stored!(LinksSection { links: Vec<LinkMetrics> });

pub(super) const CAVEATS: &[Caveat] = &[Caveat {
    id: "given-links",
    text: "The best head of a type of links is the best of many tried: its `accuracy` is biased upwards, `heldout_accuracy` is not. \
        Where the corpus names candidates, that a head finds these by itself is not shown.",
    subject: CaveatSubject::Certainty,
    applies: |labels| !downcast_section::<LinksSection>(labels.section).links.is_empty(),
}];

impl LinksSection {
    /// Returns a sentence on the attention head that leads most over position rules, with the accuracies of the best rules.
    /// If no type of links has enough sources for tests, returns how much text is missing.
    fn in_brief(&self, policy: &Policy) -> InBrief {
        let Some(links) = self
            .testable_links(policy)
            .into_iter()
            .max_by(|a, b| a.lead_over_place_rule().total_cmp(&b.lead_over_place_rule()))
        else {
            let shortage = self.links.iter().max_by_key(|links| links.count).and_then(|links| {
                let &LinkMetrics { count, sentences, .. } = links;
                let evidence = Denominator { count, sentences, ..Denominator::default() };
                Shortage::for_labels("a label of links".to_owned(), &evidence, policy)
            });
            return InBrief { shortage, ..InBrief::default() };
        };
        let LinkMetrics { place, accuracy, by_place, by_class, by_class_rules, .. } = links;
        let [accuracy, place_rule, class_rule] = [*accuracy, by_place.accuracy, by_class.accuracy].map(whole_percent);
        let class_rules =
            by_class_rules.as_ref().map(|rules| format!(", class rules for {}", whole_percent(rules.accuracy)));
        let class_rules = class_rules.unwrap_or_default();
        InBrief::from_finding(format!(
            "{place} is the best head for links of {}: right for {accuracy} of its sources, where the best rule of place is right for \
             {place_rule}, the best of the same class for {class_rule}{class_rules}.",
            one_line(&links.title())
        ))
    }

    /// Types of links with enough sources and sentences for tests, most frequent first.
    fn testable_links(&self, policy: &Policy) -> Vec<&LinkMetrics> {
        let testable = self.links.iter().filter(|links| has_enough_sources(links, policy));
        testable.sorted_by_key(|links| Reverse(links.count)).collect()
    }

    /// Runs the tests for each of [`LINK_REACHES`], and computes their q-values. The tests at one reach are one family, over
    /// all attention heads, directions and types with enough sources. Leads that are not large enough get no q-value and are
    /// not counted.
    fn set_q_values(&mut self, policy: &Policy) {
        let min_count = policy.count(&MIN_QUERIES);
        for (step, reach) in LINK_REACHES.into_iter().enumerate() {
            let mut tests: Vec<(LeadTest, Option<f64>)> = Vec::new();
            for links in &self.links {
                let enough = has_enough_sources(links, policy);
                for leads in links.by_head.iter().flat_map(|head| [&head.leads.from, &head.leads.to]).flatten() {
                    let (test, is_above) = links.test_leads(leads, reach, (policy, min_count));
                    tests.push((test, test.p.filter(|_| is_above && enough)));
                }
            }
            let p: Vec<Option<f64>> = tests.iter().map(|(_, p)| *p).collect();
            let heads = self.links.iter_mut().flat_map(|links| &mut links.by_head);
            let leads = heads.flat_map(|head| head.leads.both_mut()).flatten();
            for ((leads, (test, _)), q) in leads.zip(tests).zip(q_values_above_margin(&p)) {
                *leads.tests_mut()[step] = LeadTest { q, ..test };
            }
        }
    }

    fn write_summary(&self, out: &mut Summary, policy: &Policy) -> fmt::Result {
        if self.links.is_empty() {
            return Ok(());
        }
        let (sources, sentences) = (policy.count(&MIN_QUERIES), policy.count(&MIN_SENTENCES));
        let least = format!("{} in {}", format_count(sources, "source"), format_count(sentences, "sentence"));
        let tested = self.testable_links(policy);
        if tested.is_empty() {
            let most = self.links.iter().max_by_key(|links| links.count).map_or(0, |links| links.count);
            return writeln!(
                out,
                "No type of links has {least}, the fewest that are tested; the most sources of one type are {most}."
            );
        }
        writeln!(
            out,
            "Best head of each type of links with at least {least}, in % of sources, ± half of the 95 % interval; `held-out` is of \
             the best head of one half of the sentences on the other half, `to special` the share of sources for which a special \
             token has more weight than every candidate:\n"
        )?;
        out.table_with_optional_columns(column_table(&COLUMNS, &tested), COLUMN_DROP_ORDER);
        let hidden: u64 = tested.iter().map(|links| links.out_of_sight).sum();
        if hidden > 0 {
            writeln!(out, "\nNot scored: {} whose target is no candidate.", format_count(hidden, "link"))?;
        }
        let unscored: u64 = tested.iter().map(|links| links.no_choice).sum();
        if unscored > 0 {
            writeln!(
                out,
                "Not scored: {} whose candidates are all targets, or none.",
                format_count(unscored, "source")
            )?;
        }
        tested.iter().filter_map(|links| links.pairs_line()).try_for_each(|line| writeln!(out, "{line}"))?;
        self.write_label_counts(out, policy)?;
        let rare = self.links.len() - tested.len();
        if rare > 0 {
            let (is, types) = (plural(&rare, "is", "are"), format_count(rare, "rarer type"));
            writeln!(out, "{types} of links {is} in the report and {is} not tested.")?;
        }
        Ok(())
    }

    /// Writes the numbers of firm and of borderline link labels, and how many firm ones reach [`Reach::Class`] and
    /// [`Reach::All`]. Writes nothing without labels.
    fn write_label_counts(&self, out: &mut Summary, policy: &Policy) -> fmt::Result {
        let places = self.links.iter().flat_map(|links| (0..links.by_head.len()).map(move |place| (links, place)));
        let mut assessed: Vec<Vec<Assessment>> =
            places.map(|(links, place)| assess_on_links(links, place, policy)).collect();
        correct_for_multiple_tests(assessed.iter_mut().flatten(), policy);
        let labels =
            assessed.into_iter().flat_map(best_of_each_label).filter(|found| found.meets_rule).map(|found| found.label);
        let (borderline, firm): (Vec<Label>, Vec<Label>) = labels.partition(|label| label.borderline);
        if firm.is_empty() && borderline.is_empty() {
            return Ok(());
        }
        let reaching = |least: Reach| firm.iter().filter(|label| label.beyond >= Some(least)).count();
        writeln!(
            out,
            "Labels of links: {} firm, {} borderline. Firm ones beyond rules of the same class: {}; beyond every rule: {}.",
            firm.len(),
            borderline.len(),
            reaching(Reach::Class),
            reaching(Reach::All),
        )
    }

    fn figures(&self, policy: &Policy) -> Vec<Figure> {
        let tested = self.testable_links(policy);
        if tested.is_empty() {
            return Vec::new();
        }
        let row = |links: &LinkMetrics| {
            let held_out = |rule: &BestRule| Mark::from_value(rule.heldout_accuracy, rule.heldout_ci95);
            ForestRow {
                name: format!("{} ({})", links.title(), links.count),
                note: format!("{} {}", links.place, links.direction.name()),
                marks: vec![
                    Mark::from_value(links.heldout_accuracy, links.ci95.heldout_accuracy),
                    held_out(&links.by_place),
                    held_out(&links.by_class),
                    links.by_class_rules.as_ref().and_then(held_out),
                ],
            }
        };
        let marks = ["best head", "rule of place", "same class", "class rules"];
        let rows = tested.into_iter().map(row).collect();
        vec![Figure {
            name: "links",
            title: "Links beside rules without a head".to_owned(),
            reading: "For each type of links the share of sources whose target is found by the head and the rules that are best: \
                chosen on one half of the sentences and scored on the other, with 95 % intervals. The head that is named is the best \
                on all of them."
                .to_owned(),
            chart: Chart::Forest(Forest::in_percent("sources whose target is found, held out", marks, rows)),
        }]
    }

    /// Returns the tables of the export: types of links, attention heads on each type, rules, and the table for a paper.
    fn tables(&self, policy: &Policy) -> Vec<TableRows<'_>> {
        /// Row of table `links_by_head` or `link_rules`: the entry of an attention head or a rule for one type of
        /// links, with the type's name.
        #[derive(Serialize)]
        struct LinkEntryRow<'a, T> {
            #[serde(rename = "type")]
            name: &'a str,
            #[serde(flatten)]
            entry: &'a T,
        }
        fn entry_rows<'a, T>(links: &'a LinkMetrics, entries: &'a [T]) -> impl Iterator<Item = LinkEntryRow<'a, T>> {
            entries.iter().map(|entry| LinkEntryRow { name: &links.name, entry })
        }
        vec![
            TableRows::new("links", &self.links),
            TableRows::new("links_by_head", self.links.iter().flat_map(|links| entry_rows(links, &links.by_head))),
            TableRows::new("link_rules", self.links.iter().flat_map(|links| entry_rows(links, &links.rules))),
            table_for_paper(self.testable_links(policy), policy),
        ]
    }
}

impl LinkMetrics {
    fn numbers(&self, enough: bool) -> Vec<Number<'_>> {
        let number = |(head, direction): (usize, Direction)| {
            let entry = &self.by_head[head];
            entry.leads.get(direction).is_some().then(|| Number {
                part: Part::Relations,
                head,
                subject: self.name.clone(),
                name: accuracy_name(&self.name, direction),
                unit: Unit::Shares,
                base_number: None,
                value: *entry.accuracy.get(direction),
                ci95: *entry.ci95.get(direction),
                blocks: self.blocks,
                effective_blocks: self.effective_blocks,
                trials: Some(self.count),
                has_enough_evidence: enough,
                jackknife: entry.left_out.get(direction).as_ref(),
            })
        };
        (0..self.by_head.len()).cartesian_product(Direction::BOTH_OF_LINKS).filter_map(number).collect()
    }
}

impl Section for LinksSection {
    fn add_late_fact(&mut self, known: &LateFact<'_>) {
        if let LateFact::Policy(policy) = known {
            self.set_q_values(policy);
        }
    }

    fn view(&self, ViewContext { policy, .. }: ViewContext<'_>) -> View<'_> {
        View {
            in_brief: self.in_brief(policy),
            lacks_subject: self.links.is_empty(),
            summary: Summary::from_writer(|out| self.write_summary(out, policy)),
            figures: self.figures(policy),
            tables: self.tables(policy),
            numbers: self.links.iter().flat_map(|links| links.numbers(has_enough_sources(links, policy))).collect(),
            ..View::default()
        }
    }

    fn head_card(&self, place: HeadPlace, ViewContext { policy, .. }: ViewContext<'_>) -> HeadCard {
        let best = self.testable_links(policy).into_iter().filter(|links| links.place == place);
        best.map(LinkMetrics::best_head_line).collect()
    }

    fn defect(&self, grid: HeadGrid) -> Option<String> {
        let is_whole = |links: &LinkMetrics| {
            let mut leads = links.by_head.iter().flat_map(|head| [&head.leads.from, &head.leads.to]).flatten();
            grid.equals_all_heads(links.by_head.iter().map(|head| head.place))
                && grid.first_outside([links.place]).is_none()
                && leads.all(|leads| leads.rules.len() == links.rules.len())
        };
        let broken = self.links.iter().find(|links| !is_whole(links))?;
        Some(format!("the links `{}` do not list every head with every rule", broken.name))
    }
}

/// Returns the name of the accuracy on a type of links in one direction, as printed in label rules.
fn accuracy_name(links: &str, direction: Direction) -> String {
    format!("accuracy({links}, {})", direction.name())
}

/// Whether a type of links has enough sources and sentences for tests.
fn has_enough_sources(links: &LinkMetrics, policy: &Policy) -> bool {
    links.count >= policy.count(&MIN_QUERIES) && links.sentences >= policy.count(&MIN_SENTENCES)
}

/// Assesses the attention head with index `place` on one type of links, once per direction. Empty if the type has too few
/// sources or sentences.
pub(super) fn assess_on_links(links: &LinkMetrics, place: usize, policy: &Policy) -> Vec<Assessment> {
    if !has_enough_sources(links, policy) {
        return Vec::new();
    }
    let (head, baseline) = (&links.by_head[place], links.by_place.accuracy);
    let of_direction = |direction: Direction| {
        let (score, leads) = (*head.accuracy.get(direction), head.leads.get(direction).as_ref()?);
        let margin = policy.rule(&MARGIN)?;
        let measured = MeasuredScore {
            score,
            ci95: *head.ci95.get(direction),
            baseline: Some(baseline),
            ..MeasuredScore::default()
        };
        let metric = accuracy_name(&links.name, direction);
        let label = format!("link:{}", links.name);
        let mut assessment = assess(&label, &metric, measured, ThresholdBound::AtLeast, Some(baseline + margin))?;
        let lead_over_place = links.rules.iter().zip(&leads.rules).find(|(rule, _)| rule.rule == links.by_place.rule);
        let estimate = lead_over_place.and_then(|(_, &lead)| links.estimate_lead(lead));
        assessment.p_below_threshold = estimate.map(|estimate| estimate.p_below(margin));
        let standard_error = estimate.map(|estimate| estimate.standard_error);
        let label = &mut assessment.label;
        label.test = MarginTest { standard_error, p: leads.over_place.p, q: None };
        label.direction = Some(direction);
        let (value_of, most): (fn(&LeadTest) -> Option<f64>, f64) =
            policy.rule(&LABEL_Q).map_or((|test| test.p, TAIL_SHARE), |most| (|test: &LeadTest| test.q, most));
        let steps = [(Reach::Class, &leads.over_class), (Reach::All, &leads.over_all)];
        let reached = steps.iter().take_while(|(_, test)| value_of(test).is_some_and(|value| value <= most));
        label.beyond = Some(reached.last().map_or(Reach::Place, |(reach, _)| *reach));
        Some(assessment)
    };
    Direction::BOTH_OF_LINKS.into_iter().filter_map(of_direction).collect()
}

const COLUMNS: [TableColumn<LinkMetrics>; 11] = [
    ("links", true, |links| one_line(&links.title())),
    ("sources", false, |links| links.count.to_string()),
    ("head", true, |links| links.place.to_string()),
    ("direction", true, |links| links.direction.name().to_owned()),
    ("accuracy", false, |links| percent(Some(links.accuracy)) + &plus_minus_percent(links.ci95.accuracy)),
    ("held-out", false, |links| percent(links.heldout_accuracy) + &plus_minus_percent(links.ci95.heldout_accuracy)),
    ("place", false, |links| format_rule(&links.by_place)),
    ("same class", false, |links| format_rule(&links.by_class)),
    ("class rules", false, |links| percent(links.by_class_rules.as_ref().map(|rules| rules.accuracy))),
    ("to special", false, |links| percent(links.best_head().and_then(|head| *head.to_special.get(links.direction)))),
    ("q", false, |links| {
        let leads = links.best_head().and_then(|head| head.leads.get(links.direction).as_ref());
        leads.and_then(|leads| leads.over_place.q).map_or_else(|| "-".to_owned(), significance_text)
    }),
];

/// Indices of [`COLUMNS`] dropped when the table is too wide, first to last.
const COLUMN_DROP_ORDER: &[usize] = &[9, 1, 8, 3, 7, 6, 4, 10, 5];

/// Formats the best rule of a group with its accuracy.
fn format_rule(best: &BestRule) -> String {
    format!("{}: {}", best.rule, percent(Some(best.accuracy)))
}

/// Row of the table for a paper: a type of links with its best attention head.
#[derive(Serialize)]
struct PaperRow {
    links: String,
    sources: u64,
    /// Best attention head of the type, and its direction.
    head: String,
    /// Accuracy of the best attention head, with its interval.
    accuracy: String,
    place: f64,
    same_class: f64,
    held_out: Option<f64>,
    /// Whether the best attention head has a firm label of the type in this direction.
    firm: bool,
}

/// Returns the table for a paper, with a row for each tested type of links.
fn table_for_paper(tested: Vec<&LinkMetrics>, policy: &Policy) -> TableRows<'static> {
    let row = |links: &LinkMetrics| PaperRow {
        links: links.title(),
        sources: links.count,
        head: format!("{} {}", links.place, links.direction.name()),
        accuracy: with_interval(links.accuracy, links.ci95.accuracy, 3),
        place: links.by_place.accuracy,
        same_class: links.by_class.accuracy,
        held_out: links.heldout_accuracy,
        firm: is_best_head_firm(links, policy),
    };
    TableRows::new("paper_links", tested.into_iter().map(row).collect::<Vec<_>>())
}

/// Whether the best attention head has a firm label for the type, by the corrected q-value.
fn is_best_head_firm(links: &LinkMetrics, policy: &Policy) -> bool {
    let place = links.by_head.iter().position(|head| head.place == links.place);
    let assessed = place.map_or_else(Vec::new, |place| assess_on_links(links, place, policy));
    let leads = links.best_head().and_then(|head| head.leads.get(links.direction).as_ref());
    let test = leads.map_or([None; 2], |leads| [leads.over_place.p, leads.over_place.q]);
    labels::has_firm_label(&assessed, links.direction, test, policy)
}
