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
        name: "use",
        title: "Use of the arcs that heads are labelled for".to_owned(),
        reading: "The loss of a masked word without the one weight to its partner less that without an equal weight elsewhere, \
            over the arcs that are not at the best offset, with 95 % intervals: to the right of 0 the arcs are used."
            .to_owned(),
        chart: Chart::Forest(Forest {
            scale: "loss more than without another weight, in nats a word".to_owned(),
            shares: false,
            nothing: Some(0.0),
            marks: vec!["use".to_owned()],
            rows: tested,
        }),
    }]
}
