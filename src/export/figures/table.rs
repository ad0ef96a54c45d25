//! Numbers of a figure as a table, for readers who prefer it to a drawing.

use crate::export::heads::number_with_interval;
use crate::report::Report;
use crate::study::show::figure::{Arc, ArcMatch, ArcSentence, Arcs, Bar, Chart, Curve, Figure, Mark, Stack, TreeJoin};

/// Returns the numbers of a figure as (column names, rows); the first cell of a row names its subject.
pub fn figure_table(report: &Report, figure: &Figure) -> (Vec<String>, Vec<Vec<String>>) {
    let cell = |mark: Option<Mark>, shares: bool| {
        mark.map_or_else(|| "–".to_owned(), |mark| number_with_interval(mark, shares))
    };
    match &figure.chart {
        Chart::Forest(forest) => {
            let columns = [String::new(), String::new()].into_iter().chain(forest.marks.iter().cloned());
            let rows = forest.rows.iter().map(|row| {
                let marks = row.marks.iter().map(|mark| cell(*mark, forest.is_in_percent));
                [row.name.clone(), row.note.clone()].into_iter().chain(marks).collect()
            });
            (columns.collect(), rows.collect())
        }
        Chart::Curves(curves) => {
            let names = curves.curves.iter().map(|curve| curve.name.clone());
            let columns = std::iter::once(curves.x_label.clone()).chain(names).collect();
            let most = curves.curves.iter().map(|curve| curve.points.len()).max().unwrap_or(0);
            let row = |place: usize| {
                let point = |curve: &Curve| cell(curve.points.get(place).copied(), false);
                std::iter::once(place.to_string()).chain(curves.curves.iter().map(point)).collect()
            };
            (columns, (0..most).map(row).collect())
        }
        Chart::Edges(edges) => {
            let kinds = (!edges.kinds.is_empty()).then_some("kind");
            let columns = ["edge", "excess", "among the strongest"].into_iter().chain(kinds).map(str::to_owned);
            let rows = edges.edges.iter().map(|edge| {
                let name = format!("{} → {}", edge.source, edge.target);
                let kind = edges.kinds.iter().find(|kind| kind.line == edge.line).map(|kind| kind.name.to_owned());
                let strongest = if edge.is_strongest { "yes" } else { "no" }.to_owned();
                [name, cell(Some(edge.mark), false), strongest].into_iter().chain(kind).collect()
            });
            (columns.collect(), rows.collect())
        }
        Chart::Arcs(arcs) => arc_table(arcs),
        Chart::Bars(bars) => {
            let level = (!bars.level_name.is_empty()).then(|| bars.level_name.clone());
            let row = |Bar { name, mark, reference_level: beside }: &Bar| {
                let beside = level.iter().map(|_| cell(Mark::from_value(*beside, None), bars.is_in_percent));
                [name.clone(), cell(*mark, bars.is_in_percent)].into_iter().chain(beside).collect()
            };
            let columns = [bars.x_label.clone(), String::new()].into_iter().chain(level.clone());
            (columns.collect(), bars.bars.iter().map(row).collect())
        }
        Chart::Stacks(stacks) => {
            let columns = std::iter::once("head".to_owned()).chain(stacks.parts.iter().cloned()).collect();
            let row = |stack: &Stack| {
                let parts = stack.parts.iter().map(|part| format!("{:.0} %", 100.0 * part));
                std::iter::once(stack.place.to_string()).chain(parts).collect()
            };
            (columns, stacks.stacks.iter().map(row).collect())
        }
        Chart::Points(points) => {
            let columns = ["head", "label", "group", "across", "upward"].map(str::to_owned).to_vec();
            let group = |place: usize| points.groups.iter().position(|group| group.contains(&place));
            let row = |(place, [x, y]): (usize, &[f64; 2])| {
                let head = report.heads.get(place).map(|head| [head.place.to_string(), head.primary.clone()]);
                let group = group(place).map_or_else(|| "–".to_owned(), |group| (group + 1).to_string());
                head.into_iter().flatten().chain([group, format!("{x:.3}"), format!("{y:.3}")]).collect()
            };
            (columns, points.points.iter().enumerate().map(row).collect())
        }
        Chart::Tree(tree) => {
            let columns = ["join", "of", "and", "height"].map(str::to_owned).to_vec();
            let heads = report.heads.len();
            let name = |place: usize| {
                let head = report.heads.get(place).map(|head| head.place.to_string());
                head.unwrap_or_else(|| format!("join {}", place.saturating_sub(heads) + 1))
            };
            let row = |(place, TreeJoin { members: [a, b], height }): (usize, &TreeJoin)| {
                vec![(place + 1).to_string(), name(*a), name(*b), format!("{height:.3}")]
            };
            (columns, tree.joins.iter().enumerate().map(row).collect())
        }
    }
}

/// Returns the arcs of sentences as (column names, rows), a row for each arc.
pub fn arc_table(arcs: &Arcs) -> (Vec<String>, Vec<Vec<String>>) {
    let columns = ["sentence", "from", "to", "attention", "as expected"].map(str::to_owned).to_vec();
    let of = |ArcSentence { caption: about, units, arcs, .. }: &ArcSentence| -> Vec<Vec<String>> {
        let row = |Arc { from, to, weight, outcome: stand }: &Arc| {
            let stand = match stand {
                ArcMatch::Right => "yes",
                ArcMatch::Wrong => "no",
                ArcMatch::Neutral => "–",
            };
            vec![about.clone(), units[*from].clone(), units[*to].clone(), format!("{weight:.3}"), stand.to_owned()]
        };
        arcs.iter().map(row).collect()
    };
    (columns, arcs.sentences.iter().flat_map(of).collect())
}
