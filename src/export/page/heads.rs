//! Parts of the page of a report: the grid of heads, their cards, the sections of the studies, and every metric of every head.

use itertools::Itertools;
use minijinja::context;
use minijinja::value::{Serde, Value};
use serde::Serialize;

use crate::evaluation::askable::ModelTraits;
use crate::export::card::CONSTANT_HEAD_SENTENCE;
use crate::export::figures;
use crate::export::heads::{
    HeadCell, LabelFamily, card_parts, chance_level, concise_with_uncertainty, grid_label, label_families, metric_mark,
    number_with_interval,
};
use crate::export::palette::{Hue, Ink};
use crate::export::svg::Medium;
use crate::report::in_brief::strongest_relation;
use crate::report::roles::{RoleCounts, firm_heads_by_margin, shortage_lines};
use crate::report::{Caveat, HeadReport, Report};
use crate::stats::interval::Interval;
use crate::studies::registry::{self, STUDIES};
use crate::study::labels::evidence::{Direction, Reach};
use crate::study::labels::{BORDERLINE_MARK, Label, Near, Verdict};
use crate::study::metrics::metric::{Column, Denominator, MetricKeys, cell_names};
use crate::study::section::{CardTable, HeadCard, RelatedHead, Section, View};
use crate::study::show::figure::{Bar, Bars, Chart, Figure, Forest, ForestRow, Mark};
use crate::study::show::wording::{decimal, signed_decimal, significance_text, word_class_deficit_text};
use crate::study::{AnyStudy, Labelling, columns};
use crate::system::counts::format_count;

/// Row of a table of labels on the page, as texts.
#[derive(Serialize)]
struct LabelRow {
    label: String,
    score: String,
    /// Baseline of the score; a dash without one.
    beside: String,
    threshold: String,
    /// Whether the label is firm or borderline, then further evidence, separated by commas.
    sure: String,
}

/// Name of a label's colour in the style sheet of the page.
pub fn css_colour(hue: Hue) -> String {
    Ink::Label(hue).name()
}

pub fn head_grid(report: &Report) -> Value {
    let cell = |head: &HeadReport| {
        let HeadCell { code, marks, hue: of, tooltip: mut words } = HeadCell::new(report, head);
        let chooses = head.chooses.as_ref().map_or_else(String::new, |label| {
            let mark = if label.borderline { BORDERLINE_MARK } else { "" };
            words.extend(["; ", &label.label]);
            format!("{}{mark}", grid_label(&label.label).code)
        });
        let families = if head.labels.is_empty() {
            head.primary.clone()
        } else {
            head.labels.iter().map(|label| grid_label(&label.label).family).join(" ")
        };
        let name = head.place.to_string();
        context! { name, code, marks, hue => css_colour(of), words, families, chooses }
    };
    report.heads.chunks(report.model.heads).map(|layer| layer.iter().map(cell).collect::<Value>()).collect()
}

pub fn family_rows(report: &Report) -> Value {
    let row =
        |LabelFamily { name, code, hue: of, meaning, primary_count: first, heads_by_layer: by_layer }: LabelFamily| {
            context! { name, code, hue => css_colour(of), first, heads => by_layer.iter().sum::<usize>(), meaning }
        };
    label_families(report).into_iter().map(row).collect()
}

/// Name of the head whose card stands first, and a sentence that says why.
pub fn first_card(report: &Report) -> (String, String) {
    let of_relation = strongest_relation(report).filter(|(_, label)| label.beaten_baseline() == Some(Reach::Tags));
    let (place, why) = match (of_relation, firm_heads_by_margin(report).first()) {
        (Some((place, label)), _) => {
            (place, format!("of all relations, {} has the strongest evidence, and is beyond word classes", label.label))
        }
        (None, Some(head)) => {
            (head.place, format!("of all firm roles, {} is the furthest above its threshold", head.primary))
        }
        (None, None) => (report.heads[0].place, "no head has a firm role".to_owned()),
    };
    (place.to_string(), format!("The first card is that of {place}: {why}."))
}

/// Sentences on how many heads have a firm role, and how many labels are borderline.
pub fn firm_roles_sentence(report: &Report) -> String {
    let roles = RoleCounts::new(report);
    [roles.to_string(), roles.borderline_labels_sentence()].join(" ").trim_end().to_owned()
}

/// Cards of all heads, as data for the page's template.
pub fn head_cards(report: &Report) -> Value {
    let (controls, shortages) = (report.controls_by_kind(), shortage_lines(report));
    let card = |head: &HeadReport| {
        let kept = controls.iter().map(|(kind, runs)| {
            let kept = head.labels_in_all_controls(runs).join(", ");
            let kept = if kept.is_empty() { "none" } else { &kept };
            format!("Labels kept in the control {kind}, with every seed: {kept}.")
        });
        let is_constant = report.model.constant_heads.contains(&head.place);
        let constant = is_constant.then(|| CONSTANT_HEAD_SENTENCE.to_owned()).into_iter();
        let lines: Vec<String> = match (head.is_absent(), head.labels.is_empty()) {
            (true, _) => Vec::new(),
            (_, true) => constant.chain(shortages.clone()).collect(),
            _ => constant.chain(kept).collect(),
        };
        let parts: Vec<(&str, HeadCard)> = card_parts(report, head.place).collect();
        let neighbours = parts.iter().flat_map(|(_, part)| &part.neighbours);
        let neighbour = |RelatedHead { relation: how, place, strength }: &RelatedHead| {
            context! { how => *how, name => place.to_string(), strength }
        };
        let neighbours: Value = neighbours.map(neighbour).collect();
        // Figures and neighbours stand in place of a study's remarks.
        let with_remarks = parts.iter().filter(|(_, part)| part.figures.is_empty() && part.neighbours.is_empty());
        let studies: Value = with_remarks
            .flat_map(|(study, part)| part.lines.iter().map(move |line| context! { study => *study, line }))
            .collect();
        let tables = parts.iter().filter_map(|(_, part)| part.table.as_ref());
        let examples: Value =
            tables.map(|CardTable { columns, rows }| context! { columns => columns.to_vec(), rows }).collect();
        let figures =
            metric_figures(report, head).into_iter().chain(parts.into_iter().flat_map(|(_, part)| part.figures));
        context! {
            name => head.place.to_string(),
            primary => &head.primary,
            description => &head.description,
            labels => Serde(head.labels.iter().map(label_row).collect::<Vec<_>>()),
            nearest => head.nearest.iter().map(near_label_line).collect::<Value>(),
            chooses => head.chooses.as_ref().map(choice_label_line),
            lines,
            neighbours,
            studies,
            examples,
            figures => figures.map(|figure| draw_head_figure(report, figure)).collect::<Value>(),
        }
    };
    report.heads.iter().map(card).collect()
}

/// Draws a figure of a head's card.
fn draw_head_figure(report: &Report, figure: Figure) -> Value {
    // Figures of sentences are wide, and therefore folded.
    let opens = matches!(figure.chart, Chart::Arcs(_));
    let medium = if opens { Medium::Page } else { Medium::Card };
    let svg = Value::from_safe_string(figures::draw(report, &figure, medium));
    context! { opens, title => figure.title, reading => figure.reading, svg }
}

fn label_row(label: &Label) -> LabelRow {
    let mut sure = vec![if label.borderline { "borderline" } else { "firm" }.to_owned()];
    sure.extend(label.tied.then(|| "near tie".to_owned()));
    sure.extend(label.rests_on.as_ref().map(|rests_on| format!("of {rests_on}")));
    sure.extend(label.direction.map(Direction::name).map(str::to_owned));
    sure.extend(label.test.q.map(|q| format!("q {}", significance_text(q))));
    sure.extend(label.beaten_baseline().map(|reach| reach.noun_phrase().to_owned()));
    sure.extend(word_class_deficit_text(label));
    if let Some(specific) = &label.specific {
        let q = specific.q.map_or_else(String::new, |q| format!(", q {}", significance_text(q)));
        sure.push(format!("{} points over other arcs{q}", signed_decimal(100.0 * specific.difference, 1)));
    }
    if let Some((test, used)) = label.knockout.as_ref().and_then(|test| Some((test, test.used?))) {
        let q = test.q.map_or_else(String::new, |q| format!(" (q {})", significance_text(q)));
        sure.push(format!("{}{q}", if used { "its arcs are used" } else { "use of its arcs not shown" }));
    }
    LabelRow {
        label: label.label.clone(),
        score: number_with_interval(Mark { value: label.score, ci95: label.ci95 }, false),
        beside: label.baseline.map_or_else(|| "–".to_owned(), |baseline| decimal(baseline, 3)),
        threshold: format!("{:.3}", label.threshold),
        sure: sure.join(", "),
    }
}

fn choice_label_line(label: &Label) -> String {
    let LabelRow { label, score, sure, .. } = label_row(label);
    format!("{label} {score}, {sure}")
}

fn near_label_line(near: &Near) -> String {
    let score = number_with_interval(Mark { value: near.score, ci95: near.ci95 }, false);
    format!("{}, {score} where {} is asked for", near.label, near.rule)
}

/// Charts of the metrics that studies draw on a head's card, in report order; none for a metric without a value.
fn metric_figures(report: &Report, head: &HeadReport) -> Vec<Figure> {
    let drawn = report.sections.0.iter().flat_map(|(study, _)| {
        let columns = columns(*study);
        study.card().drawn_metrics.iter().filter_map(move |(id, title)| {
            let column = *columns.iter().find(|column| column.id == *id)?;
            let chart = match column.keys {
                MetricKeys::Single => forest_with_largest_head(report, head, column)?,
                MetricKeys::Several(..) => bars_by_key(report, head, column)?,
            };
            let reading = format!("{title}, of {}, with 95 % intervals.", head.place);
            Some(Figure { name: id, title: (*title).to_owned(), reading, chart })
        })
    });
    drawn.collect()
}

/// Forest plot of a metric with a line at 0: the head's value, and under it the largest value of any head.
/// Returns `None` if the head has no value.
fn forest_with_largest_head(report: &Report, head: &HeadReport, Column { id, .. }: Column) -> Option<Chart> {
    let mark = |head: &HeadReport| metric_mark(head, id, None);
    let value = |head: &HeadReport| mark(head).map_or(f64::NEG_INFINITY, |mark| mark.value);
    let row = |head: &HeadReport, note: &str| ForestRow {
        name: head.place.to_string(),
        note: note.to_owned(),
        marks: vec![mark(head)],
    };
    mark(head)?;
    let largest = report.heads.iter().max_by(|a, b| value(a).total_cmp(&value(b)))?;
    let other = (largest.place != head.place).then(|| row(largest, "the largest"));
    let own = row(head, if other.is_none() { "the largest" } else { "" });
    let rows = std::iter::once(own).chain(other).collect();
    Some(Chart::Forest(Forest::with_zero_line("", [head.place.to_string()], rows)))
}

/// Bar chart of a head's values of a metric by key, each with its chance level; `None` without a value.
fn bars_by_key(report: &Report, head: &HeadReport, column: Column) -> Option<Chart> {
    let bar = |name: String| {
        let (_, key) = name.split_once('.')?;
        let mark = Some(metric_mark(head, column.id, Some(key))?);
        let level = chance_level(report, head, column.id, Some(key));
        Some(Bar { name: key.replace('-', "−"), mark, reference_level: level })
    };
    let bars: Vec<Bar> = cell_names(&[column]).into_iter().filter_map(bar).collect();
    let has_levels = bars.iter().any(|bar| bar.reference_level.is_some());
    (!bars.is_empty()).then(|| {
        Chart::Bars(Bars {
            x_label: "offset".to_owned(),
            level_name: if has_levels { "chance".to_owned() } else { String::new() },
            is_in_percent: true,
            bars,
        })
    })
}

#[derive(Serialize)]
pub struct StudySection {
    name: &'static str,
    question: &'static str,
    pub caveats: Vec<Caveat>,
    figures: Vec<Value>,
    summary: String,
}

#[derive(Serialize)]
pub struct InapplicableStudies {
    names: Vec<&'static str>,
    /// Reason why the studies in `names` do not apply to the model: a phrase with the model as its subject.
    why: String,
}

/// The studies of a report that have something to show beside metrics and labels.
pub fn study_sections(report: &Report) -> Vec<StudySection> {
    let policy = &report.settings.policy;
    let verdicts: Vec<Verdict> = report
        .heads
        .iter()
        .map(|head| Verdict {
            primary: head.primary.clone(),
            labels: head.labels.clone(),
            nearest: head.nearest.clone(),
        })
        .collect();
    let section = |(study, section): &(&'static dyn AnyStudy, Box<dyn Section>)| {
        let labelling = Labelling { verdicts: &verdicts, policy, section: &**section };
        let ids: Vec<&str> = study.card().applicable_caveats(&labelling).iter().map(|caveat| caveat.id).collect();
        let caveats = report.caveats.iter().filter(|caveat| ids.contains(&caveat.id.as_str())).cloned().collect();
        let drawn = |figure: Figure| {
            let (columns, rows) = figures::figure_table(report, &figure);
            let svg = Value::from_safe_string(figures::draw(report, &figure, Medium::Page));
            let Figure { title, reading, .. } = figure;
            context! { numbers => context! { caption => &title, columns, rows }, title, reading, svg }
        };
        let View { figures, summary, .. } = section.view(report.view_context());
        StudySection {
            name: study.card().name,
            question: study.card().question,
            caveats,
            figures: figures.into_iter().map(drawn).collect(),
            summary: summary.fit(Some(SUMMARY_WIDTH_COLUMNS)).trim_end().to_owned(),
        }
    };
    let mut found: Vec<StudySection> = report.sections.0.iter().map(section).collect();
    found.retain(|section| !(section.figures.is_empty() && section.summary.is_empty()));
    found
}

/// Width of the studies' summaries, in characters: enough for all columns of their tables.
const SUMMARY_WIDTH_COLUMNS: usize = 160;

/// Studies that the report lacks: (studies that apply to its model, other studies grouped by reason).
pub fn missing_studies(report: &Report) -> (Vec<Value>, Vec<InapplicableStudies>) {
    let askable = ModelTraits::from_info(&report.model);
    let (mut missing, mut beyond) = (Vec::new(), Vec::<InapplicableStudies>::new());
    let ran = |name: &str| report.sections.0.iter().any(|(study, _)| study.card().name == name);
    for study in STUDIES.iter().filter(|study| !ran(study.card().name)) {
        let card = study.card();
        match askable.refusal_reason_with_loss(*study) {
            None => missing.push(context! { name => card.name, question => card.question }),
            Some(why) => match beyond.iter_mut().find(|other| other.why == why) {
                Some(other) => other.names.push(card.name),
                None => beyond.push(InapplicableStudies { names: vec![card.name], why }),
            },
        }
    }
    (missing, beyond)
}

/// A metric with its tables of values by head: one table, or one for each of the metric's keys (such as an offset).
#[derive(Serialize)]
struct MetricTables {
    name: String,
    measures: &'static str,
    /// Sentence with the numbers of cases and sentences that the metric rests on; empty if there is no denominator.
    rests_on: String,
    tables: Vec<Value>,
}

/// Tables of all metrics that have a value for some head, study by study.
pub fn metrics_by_study(report: &Report) -> Vec<Value> {
    let mut tables = metric_tables(report);
    let group = |(study, _): &(&'static dyn AnyStudy, Box<dyn Section>)| {
        let own: Vec<&str> = columns(*study).into_iter().map(|column| column.id).collect();
        let metrics: Vec<MetricTables> = tables.extract_if(.., |metric| own.contains(&metric.name.as_str())).collect();
        let numbers = metrics.iter().map(|metric| metric.tables.len()).sum::<usize>();
        let numbers = format_count(numbers, "metric");
        (!metrics.is_empty()).then(|| context! { study => study.card().name, numbers, metrics => Serde(metrics) })
    };
    report.sections.0.iter().filter_map(group).collect()
}

/// Tables of all metrics that have a value for some head, in the order of the report.
fn metric_tables(report: &Report) -> Vec<MetricTables> {
    let known: Vec<Vec<(Option<f64>, Option<Interval>)>> = report
        .heads
        .iter()
        .map(|head| {
            head.metrics.cells().zip(head.ci95.cells()).map(|((_, value), (_, ci95))| (*value, *ci95)).collect()
        })
        .collect();
    let chance: Vec<(String, Option<f64>)> = report.chance.cells().map(|(name, value)| (name, *value)).collect();
    let (ci95, denominators) = (report.chance_ci95.by_name(), report.denominators.by_name());
    let mut metrics: Vec<MetricTables> = Vec::new();
    let is_measured = |place: usize| known.iter().any(|head| head.get(place).is_some_and(|(value, _)| value.is_some()));
    for (place, (name, chance)) in chance.iter().enumerate().filter(|(place, _)| is_measured(*place)) {
        let id = name.split('.').next().unwrap_or(name);
        let cell = |head: &Vec<(Option<f64>, Option<Interval>)>| {
            let (value, ci95) = head.get(place).copied().unwrap_or_default();
            value.map_or_else(|| "–".to_owned(), |value| concise_with_uncertainty(value, ci95))
        };
        let beside = chance.map_or_else(String::new, |chance| {
            format!("chance {}", concise_with_uncertainty(chance, ci95.get(name).copied().copied().flatten()))
        });
        let rows = known.chunks(report.model.heads).map(|layer| layer.iter().map(cell).collect::<Value>());
        let table = context! { name, beside, rows => rows.collect::<Value>() };
        if let Some(metric) = metrics.last_mut().filter(|metric| metric.name == id) {
            metric.tables.push(table);
            continue;
        }
        metrics.push(MetricTables {
            name: id.to_owned(),
            measures: registry::find_entry(name).map_or("", |entry| entry.explanation.measures),
            rests_on: denominators.get(name).map_or_else(String::new, |on| evidence_sentence(**on)),
            tables: vec![table],
        });
    }
    metrics
}

fn evidence_sentence(Denominator { count, sentences, .. }: Denominator) -> String {
    format!("It rests on {} in {}.", format_count(count, "case"), format_count(sentences, "sentence"))
}
