//! The figure of edges: the heads of all layers and the strongest edges between them.

use std::collections::BTreeMap;

use super::section::EdgesReport;
use super::strongest::{Edge, MOSTLY_DIRECT};
use crate::study::show::figure::{Chart, Edge as Line, EdgeKind, EdgeLine, Edges, Figure, Mark};
use crate::study::show::wording::sequences;
use crate::system::counted::{counted, plural};

pub(super) fn figures(report: &EdgesReport) -> Vec<Figure> {
    let EdgesReport { tokens, sentences, read, pairs, above: count, strongest, heads, .. } = report;
    let is_strongest =
        |edge: &Edge| strongest.iter().any(|other| (other.source, other.target) == (edge.source, edge.target));
    let of_heads = heads.iter().filter_map(|head| head.upstream);
    let above = of_heads.chain(strongest.iter().copied()).filter(|edge| edge.above);
    let shown: BTreeMap<_, Edge> = above.map(|edge| ((edge.source, edge.target), edge)).collect();
    if shown.is_empty() {
        return Vec::new();
    }
    let mut shown: Vec<Edge> = shown.into_values().collect();
    shown.sort_by(|a, b| b.surely().total_cmp(&a.surely()).then((a.source, a.target).cmp(&(b.source, b.target))));
    let line = |edge: Edge| Line {
        source: edge.source,
        target: edge.target,
        mark: Mark { value: edge.excess, ci95: edge.excess_ci95 },
        strongest: is_strongest(&edge),
        line: if edge.is_direct() == Some(false) { EdgeLine::Dashed } else { EdgeLine::Solid },
    };
    let is_known = shown.iter().any(|edge| edge.is_direct().is_some());
    let kind = |line, name, meaning| EdgeKind { line, name, meaning };
    let kinds = [
        kind(EdgeLine::Solid, "direct", format!("the residual stream alone shifts at least {MOSTLY_DIRECT} as much")),
        kind(
            EdgeLine::Dashed,
            "mediated",
            "less than that: heads and feed-forward blocks between matter more".to_owned(),
        ),
    ];
    vec![Figure {
        name: "edges",
        title: "Which later heads look elsewhere without each head".to_owned(),
        reading: format!(
            "An edge goes from a head that is removed to a later one whose attention shifts by more than both heads' means \
             make expected (over {} of {}). Of {} {count} {} above chance; {} of these {} \
             drawn: the strongest, in colour, and of each head the strongest that goes to it.",
            counted(*tokens, "token"),
            sequences(*sentences, *read),
            counted(*pairs, "edge"),
            plural(count, "is", "are"),
            shown.len(),
            plural(&shown.len(), "is", "are")
        ),
        chart: Chart::Edges(Edges {
            width: "width of an edge: its excess, in ln of the shift".to_owned(),
            kinds: if is_known { kinds.into() } else { Vec::new() },
            edges: shown.into_iter().map(line).collect(),
        }),
    }]
}
