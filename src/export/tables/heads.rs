//! The table of heads: the first label of each with its evidence, how it chooses, what removing it costs, the sentence on it.

use crate::report::{HeadReport, Report};
use crate::stats::interval::Interval;
use crate::study::labels::Label;
use crate::study::show::table::{Cell, Table};

/// The metric of the effect of a head.
const EFFECT: &str = "loss_effect";

/// A row for each head; columns of how heads choose and of effects are there if that was measured.
///
/// Columns: `layer`, `head`, `name`, in some models `key_value_group`, `primary`, of that label `score`, `ci95_low`, `ci95_high`,
/// `baseline`, `threshold` and `q`, all `labels` and those of them that are `borderline`, `chooses` with its score
/// `chooses_share`, its interval and whether it is `chooses_borderline`, `loss_effect` in nats with its interval, and
/// `description`, the sentence.
pub fn heads(report: &Report) -> Table {
    let with_choice = report.sections.0.iter().any(|(study, _)| !study.card().choices.is_empty());
    let row = |head: &HeadReport| {
        let mut row = of_labels(head);
        if with_choice {
            row.extend(of_choice(head.chooses.as_ref()));
        }
        row.extend(of_effect(head));
        row.push(("description", Cell::Text(head.description.clone())));
        row.into_iter().map(|(column, cell)| (column.to_owned(), cell)).collect()
    };
    Table::new("heads", report.heads.iter().map(row).collect())
}

type NamedCell = (&'static str, Cell);

fn of_labels(head: &HeadReport) -> Vec<NamedCell> {
    let whole = |number: usize| Cell::Integer(i64::try_from(number).unwrap_or(i64::MAX));
    let names = |wanted: fn(&&Label) -> bool| {
        let names = head.labels.iter().filter(wanted).map(|label| label.label.as_str());
        Cell::Text(names.collect::<Vec<_>>().join(" "))
    };
    let first = head.labels.first();
    let group = head.key_value_group.map(|group| ("key_value_group", whole(group)));
    let place = [
        ("layer", whole(head.place.layer)),
        ("head", whole(head.place.head)),
        ("name", Cell::Text(head.place.to_string())),
    ];
    let label = [
        ("primary", Cell::Text(head.primary.clone())),
        ("score", Cell::from(first.map(|label| label.score))),
        ("ci95_low", end(first.and_then(|label| label.ci95), Interval::low)),
        ("ci95_high", end(first.and_then(|label| label.ci95), Interval::high)),
        ("baseline", Cell::from(first.and_then(|label| label.baseline))),
        ("threshold", Cell::from(first.map(|label| label.threshold))),
        ("q", Cell::from(first.and_then(|label| label.test.q))),
        ("labels", names(|_| true)),
        ("borderline", names(|label| label.borderline)),
    ];
    place.into_iter().chain(group).chain(label).collect()
}

fn of_choice(chooses: Option<&Label>) -> [NamedCell; 5] {
    let ci95 = chooses.and_then(|label| label.ci95);
    [
        ("chooses", chooses.map_or(Cell::Empty, |label| Cell::Text(label.label.clone()))),
        ("chooses_share", Cell::from(chooses.map(|label| label.score))),
        ("chooses_ci95_low", end(ci95, Interval::low)),
        ("chooses_ci95_high", end(ci95, Interval::high)),
        ("chooses_borderline", chooses.map_or(Cell::Empty, |label| Cell::Flag(label.borderline))),
    ]
}

/// None where effects were not measured.
fn of_effect(head: &HeadReport) -> Vec<NamedCell> {
    let Some(effect) = head.metrics.by_name().get(EFFECT).map(|effect| **effect) else { return Vec::new() };
    let ci95 = head.ci95.by_name().get(EFFECT).and_then(|ci95| **ci95);
    vec![
        ("loss_effect", Cell::from(effect)),
        ("loss_effect_ci95_low", end(ci95, Interval::low)),
        ("loss_effect_ci95_high", end(ci95, Interval::high)),
    ]
}

fn end(ci95: Option<Interval>, of: fn(Interval) -> f64) -> Cell {
    Cell::from(ci95.map(of))
}
