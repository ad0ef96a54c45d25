//! Every metric of every head, as tables that are heat maps where there is a script.

use serde::Serialize;

use crate::export::numbers::concise;
use crate::report::Report;
use crate::stats::interval::Interval;
use crate::studies::registry;
use crate::study::metrics::metric::Denominator;
use crate::study::section::Section;
use crate::study::{AnyStudy, columns};
use crate::system::counted::counted;

/// The metrics of a study.
#[derive(Serialize)]
pub struct MetricGroup {
    study: &'static str,
    /// So many, each number of those of several.
    numbers: String,
    metrics: Vec<MetricTables>,
}

/// A metric with its cells: one, or one for each key.
#[derive(Serialize)]
struct MetricTables {
    name: String,
    measures: &'static str,
    rests_on: String,
    tables: Vec<CellTable>,
}

/// One number of every head.
#[derive(Serialize)]
struct CellTable {
    name: String,
    beside: String,
    rows: Vec<Vec<String>>,
}

/// The tables of all metrics that some head has a value of, study by study.
pub fn by_study(report: &Report) -> Vec<MetricGroup> {
    let mut tables = tables(report);
    let group = |(study, _): &(&'static dyn AnyStudy, Box<dyn Section>)| {
        let own: Vec<&str> = columns(*study).into_iter().map(|column| column.id).collect();
        let metrics: Vec<MetricTables> = tables.extract_if(.., |metric| own.contains(&metric.name.as_str())).collect();
        let numbers = metrics.iter().map(|metric| metric.tables.len()).sum::<usize>();
        let numbers = counted(numbers, "metric");
        (!metrics.is_empty()).then_some(MetricGroup { study: study.card().name, numbers, metrics })
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
        let rows = known.chunks(report.model.heads).map(|layer| layer.iter().map(cell).collect()).collect();
        let table = CellTable { name: name.clone(), beside, rows };
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
