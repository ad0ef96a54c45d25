//! The figure of dependence: the heads of all layers and the strongest edges between them.

use std::collections::BTreeMap;

use super::section::Dependence;
use super::strongest::Edge;
use crate::studies::figure::{Chart, Edge as Line, Edges, Figure, Mark};

pub(super) fn figures(dependence: &Dependence) -> Vec<Figure> {
    let Dependence { tokens, sentences, edges, above, strongest, heads, .. } = dependence;
    // Of each head the strongest edge that is more than chance, from it and to it.
    let of_heads = heads.iter().flat_map(|head| [head.upstream, head.downstream]).flatten().filter(|edge| edge.above);
    let shown: BTreeMap<_, Edge> =
        of_heads.chain(strongest.iter().copied()).map(|edge| ((edge.source, edge.target), edge)).collect();
    if shown.is_empty() {
        return Vec::new();
    }
    let mut shown: Vec<Edge> = shown.into_values().collect();
    shown.sort_by(|a, b| b.surely().total_cmp(&a.surely()).then((a.source, a.target).cmp(&(b.source, b.target))));
    let line = |edge: Edge| Line {
        source: edge.source,
        target: edge.target,
        mark: Mark { value: edge.excess, ci95: edge.excess_ci95 },
        above: edge.above,
    };
    vec![Figure {
        name: "dependence",
        title: "Which later heads look elsewhere without each head".to_owned(),
        reading: format!(
            "An edge goes from a head that is removed to a later one whose attention shifts by more than both heads' means \
             make expected (over {tokens} tokens of {sentences} sentences). Of {edges} edges {above} are above chance; {} are drawn: \
             the strongest, and of each head the strongest above chance, from it and to it. Edges not above chance are grey.",
            shown.len()
        ),
        chart: Chart::Edges(Edges {
            width: "width of an edge: its excess, in ln of the shift".to_owned(),
            edges: shown.into_iter().map(line).collect(),
        }),
    }]
}
