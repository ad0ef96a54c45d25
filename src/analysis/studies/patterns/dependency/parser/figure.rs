//! The figure of the parser: what each layer carries.

use super::section::{LayerPart, ParserReport};
use crate::study::show::figure::{Chart, Figure, Forest, ForestRow, Mark};
use crate::study::show::wording::percent;
use crate::system::counted::counted;

pub(super) fn figures(parser: &ParserReport) -> Vec<Figure> {
    let ParserReport { sentences, words, accuracies, layers, .. } = parser;
    let Some(attention) = accuracies.first().filter(|_| !layers.is_empty()) else { return Vec::new() };
    let row = |part: &LayerPart| ForestRow {
        name: format!("L{}", part.layer),
        note: format!("{} without", percent(part.without)),
        marks: vec![Mark::of(part.lost.difference, part.lost.ci95)],
    };
    let chart = Chart::Forest(Forest {
        scale: "words less that are right without the layer".to_owned(),
        shares: true,
        nothing: Some(0.0),
        marks: vec!["lost".to_owned()],
        rows: layers.iter().map(row).collect(),
    });
    vec![Figure {
        name: "parser",
        title: "What each layer carries of the heads of words".to_owned(),
        reading: format!(
            "A linear reading of the attention of all heads finds the head of {} per cent of {} ({}). Fitted again without a \
             layer it finds as much less as its row says, with 95 % intervals: what the other layers do not have as well.",
            percent(attention.share.accuracy),
            counted(*words, "word"),
            counted(*sentences, "sentence")
        ),
        chart,
    }]
}
