//! The numbers of a figure as a table, for those who read rather than look.

use crate::export::numbers::shown;
use crate::studies::figure::{Chart, Curve, Figure, Mark};

/// The names of the columns, and the rows; the first cell of a row says what it is about.
pub fn table(figure: &Figure) -> (Vec<String>, Vec<Vec<String>>) {
    let cell = |mark: Option<Mark>, shares: bool| mark.map_or_else(|| "–".to_owned(), |mark| shown(mark, shares));
    match &figure.chart {
        Chart::Forest(forest) => {
            let columns = [String::new(), String::new()].into_iter().chain(forest.marks.iter().cloned());
            let rows = forest.rows.iter().map(|row| {
                let marks = row.marks.iter().map(|mark| cell(*mark, forest.shares));
                [row.name.clone(), row.note.clone()].into_iter().chain(marks).collect()
            });
            (columns.collect(), rows.collect())
        }
        Chart::Curves(curves) => {
            let names = curves.curves.iter().map(|curve| curve.name.clone());
            let columns = std::iter::once(curves.across.clone()).chain(names).collect();
            let most = curves.curves.iter().map(|curve| curve.points.len()).max().unwrap_or(0);
            let row = |place: usize| {
                let point = |curve: &Curve| cell(curve.points.get(place).copied(), false);
                std::iter::once(place.to_string()).chain(curves.curves.iter().map(point)).collect()
            };
            (columns, (0..most).map(row).collect())
        }
        Chart::Edges(edges) => {
            let columns = ["edge", "excess", "among the strongest"].map(str::to_owned).to_vec();
            let rows = edges.edges.iter().map(|edge| {
                let name = format!("{} → {}", edge.source, edge.target);
                vec![name, cell(Some(edge.mark), false), if edge.strongest { "yes" } else { "no" }.to_owned()]
            });
            (columns, rows.collect())
        }
    }
}
