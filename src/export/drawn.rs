//! The metrics of one head that studies have drawn on its card: a bar for each offset, or a number beside the largest of all heads.

use crate::report::{HeadReport, Report};
use crate::study::columns;
use crate::study::metrics::metric::{Column, Keys, cell_names};
use crate::study::show::figure::{Bar, Bars, Chart, Figure, Forest, ForestRow, Mark};

/// The figures of a head, in the order of the studies; none of a metric that it has no value of.
pub fn metrics(report: &Report, head: &HeadReport) -> Vec<Figure> {
    let drawn = report.sections.0.iter().flat_map(|(study, _)| {
        let columns = columns(*study);
        study.card().drawn.iter().filter_map(move |(id, title)| {
            let column = *columns.iter().find(|column| column.id == *id)?;
            let chart = match column.keys {
                Keys::Single => beside_largest(report, head, column)?,
                Keys::Each(..) => by_key(report, head, column)?,
            };
            let reading = format!("{title}, of {}, with 95 % intervals.", head.place);
            Some(Figure { name: id, title: (*title).to_owned(), reading, chart })
        })
    });
    drawn.collect()
}

/// The number of a head above the largest number of any head, in a forest whose line is nothing.
fn beside_largest(report: &Report, head: &HeadReport, Column { id, .. }: Column) -> Option<Chart> {
    let mark = |head: &HeadReport| {
        let ci95 = head.ci95.get(id, None).copied().flatten();
        Mark::of(head.metrics.get(id, None).copied().flatten(), ci95)
    };
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
    Some(Chart::Forest(Forest {
        scale: String::new(),
        shares: false,
        nothing: Some(0.0),
        marks: vec![head.place.to_string()],
        rows: std::iter::once(own).chain(other).collect(),
    }))
}

/// The numbers of a head by key, each beside its chance level.
fn by_key(report: &Report, head: &HeadReport, column: Column) -> Option<Chart> {
    let bar = |name: String| {
        let key = name.split_once('.').map(|(_, key)| key)?.to_owned();
        let at = Some(key.as_str());
        let value = head.metrics.get(column.id, at).copied().flatten()?;
        let ci95 = head.ci95.get(column.id, at).copied().flatten();
        let own = head.chance.get(column.id, at).copied().flatten();
        let level = own.or(report.chance.get(column.id, at).copied().flatten());
        Some(Bar { name: key.replace('-', "−"), mark: Some(Mark { value, ci95 }), level })
    };
    let bars: Vec<Bar> = cell_names(&[column]).filter_map(bar).collect();
    let has_levels = bars.iter().any(|bar| bar.level.is_some());
    (!bars.is_empty()).then(|| {
        Chart::Bars(Bars {
            across: "offset".to_owned(),
            level: if has_levels { "chance".to_owned() } else { String::new() },
            shares: true,
            bars,
        })
    })
}
