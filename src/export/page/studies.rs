//! The sections of the studies, the studies that were not run, and every metric of every head as tables.

use minijinja::context;
use minijinja::value::{Serde, Value};
use serde::Serialize;

use crate::evaluation::askable::Askable;
use crate::export::figures;
use crate::export::heads::concise;
use crate::export::svg::Medium;
use crate::report::{Caveat, Report};
use crate::stats::interval::Interval;
use crate::studies::registry::{self, STUDIES};
use crate::study::labels::Verdict;
use crate::study::metrics::metric::Denominator;
use crate::study::section::{Section, View};
use crate::study::show::figure::Figure;
use crate::study::{AnyStudy, Labelling, columns};
use crate::system::counted::counted;

#[derive(Serialize)]
pub struct StudySection {
    name: &'static str,
    question: &'static str,
    pub caveats: Vec<Caveat>,
    figures: Vec<Value>,
    summary: String,
}

#[derive(Serialize)]
pub struct StudyBeyond {
    names: Vec<&'static str>,
    /// A sentence without its subject, the model.
    why: String,
}

/// The studies of a report that have something to show beside metrics and labels.
pub fn of(report: &Report) -> Vec<StudySection> {
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
        let ids: Vec<&str> = study.card().caveats_of(&labelling).iter().map(|caveat| caveat.id).collect();
        let caveats = report.caveats.iter().filter(|caveat| ids.contains(&caveat.id.as_str())).cloned().collect();
        let drawn = |figure: Figure| {
            let (columns, rows) = figures::table(report, &figure);
            let svg = Value::from_safe_string(figures::draw(report, &figure, Medium::Page));
            let Figure { title, reading, .. } = figure;
            context! { numbers => context! { caption => &title, columns, rows }, title, reading, svg }
        };
        let View { figures, summary, .. } = section.view(policy);
        StudySection {
            name: study.card().name,
            question: study.card().question,
            caveats,
            figures: figures.into_iter().map(drawn).collect(),
            summary: summary.fit(Some(WIDTH)).trim_end().to_owned(),
        }
    };
    let mut sections: Vec<StudySection> = report.sections.0.iter().map(section).collect();
    sections.retain(|section| !(section.figures.is_empty() && section.summary.is_empty()));
    sections
}

/// The width of what studies say in words, in columns: room for every column of their tables.
const WIDTH: usize = 160;

/// The studies that a report does not have and that can be asked of its model; and those that cannot, each with the reason.
pub fn missing(report: &Report) -> (Vec<Value>, Vec<StudyBeyond>) {
    let askable = Askable::of(&report.model);
    let (mut missing, mut beyond) = (Vec::new(), Vec::<StudyBeyond>::new());
    let ran = |name: &str| report.sections.0.iter().any(|(study, _)| study.card().name == name);
    for study in STUDIES.iter().filter(|study| !ran(study.card().name)) {
        let card = study.card();
        match askable.beyond_or_without_loss(*study) {
            None => missing.push(context! { name => card.name, question => card.question }),
            Some(why) => match beyond.iter_mut().find(|other| other.why == why) {
                Some(other) => other.names.push(card.name),
                None => beyond.push(StudyBeyond { names: vec![card.name], why }),
            },
        }
    }
    (missing, beyond)
}

/// A metric with its cells: one, or one for each key.
#[derive(Serialize)]
struct MetricTables {
    name: String,
    measures: &'static str,
    rests_on: String,
    tables: Vec<Value>,
}

/// The tables of all metrics that some head has a value of, study by study.
pub fn by_study(report: &Report) -> Vec<Value> {
    let mut tables = tables(report);
    let group = |(study, _): &(&'static dyn AnyStudy, Box<dyn Section>)| {
        let own: Vec<&str> = columns(*study).into_iter().map(|column| column.id).collect();
        let metrics: Vec<MetricTables> = tables.extract_if(.., |metric| own.contains(&metric.name.as_str())).collect();
        let numbers = metrics.iter().map(|metric| metric.tables.len()).sum::<usize>();
        let numbers = counted(numbers, "metric");
        (!metrics.is_empty()).then(|| context! { study => study.card().name, numbers, metrics => Serde(metrics) })
    };
    report.sections.0.iter().filter_map(group).collect()
}

/// The tables in the order of the report.
fn tables(report: &Report) -> Vec<MetricTables> {
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
            value.map_or_else(|| "–".to_owned(), |value| concise(value, ci95))
        };
        let beside = chance.map_or_else(String::new, |chance| {
            format!("chance {}", concise(chance, ci95.get(name).copied().copied().flatten()))
        });
        let rows = known.chunks(report.model.heads).map(|layer| layer.iter().map(cell).collect::<Value>());
        let table = context! { name, beside, rows => rows.collect::<Value>() };
        if let Some(metric) = metrics.last_mut().filter(|metric| metric.name == id) {
            metric.tables.push(table);
            continue;
        }
        metrics.push(MetricTables {
            name: id.to_owned(),
            measures: registry::find(name).map_or("", |entry| entry.explanation.measures),
            rests_on: denominators.get(name).map_or_else(String::new, |on| rests_on(**on)),
            tables: vec![table],
        });
    }
    metrics
}

fn rests_on(Denominator { count, sentences, .. }: Denominator) -> String {
    format!("It rests on {} in {}.", counted(count, "case"), counted(sentences, "sentence"))
}
