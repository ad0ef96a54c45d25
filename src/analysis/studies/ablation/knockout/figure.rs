//! The figure of the use of arcs: each tested label with its interval.

use super::section::LabelUse;
use crate::study::show::figure::{Chart, Figure, Forest, ForestRow, Mark};

pub(super) fn figures(labels: &[LabelUse]) -> Vec<Figure> {
    let row = |LabelUse { place, label, direction, test }: &LabelUse| ForestRow {
        name: format!("{place} {label}"),
        note: format!("{} {}", direction.name(), if test.used == Some(true) { "used" } else { "not shown" }),
        marks: vec![Mark::of(test.loss, test.ci95)],
    };
    let tested: Vec<ForestRow> = labels.iter().filter(|label| label.test.used.is_some()).map(row).collect();
    if tested.is_empty() {
        return Vec::new();
    }
    vec![Figure {
        name: "knockout",
        title: "Use of the arcs that heads are labelled for".to_owned(),
        reading: "The loss of a masked word once the weights of the head on its partner and on a word as far away are \
            exchanged, less that before, with the weights on all other words dealt out at random in both, with 95 % intervals: \
            labels whose arcs are used lie to the right of 0."
            .to_owned(),
        chart: Chart::Forest(Forest {
            scale: "loss more once the weights are exchanged, in nats a word".to_owned(),
            shares: false,
            nothing: Some(0.0),
            marks: vec!["use".to_owned()],
            rows: tested,
        }),
    }]
}
