//! The figure of in-context copying: the heads without which most of the gain goes away.

use super::section::Gain;
use crate::study::show::figure::{Chart, Figure, Forest, ForestRow, Mark};

/// Heads that are shown.
const SHOWN: usize = 12;

pub(super) fn figures(gain: &Gain) -> Vec<Figure> {
    let (Some(first), Some(second)) = (gain.whole.first, gain.whole.second) else { return Vec::new() };
    let rows = gain.ranked().into_iter().take(SHOWN).map(|head| ForestRow {
        name: head.place.to_string(),
        note: String::new(),
        marks: vec![Mark::of(head.effect, head.ci95)],
    });
    let chart = Chart::Forest(Forest {
        scale: "gain that goes away without the head, in nats a token".to_owned(),
        shares: false,
        nothing: Some(0.0),
        marks: vec!["effect".to_owned()],
        rows: rows.collect(),
    });
    vec![Figure {
        name: "in-context",
        title: "What copying from the context loses without a head".to_owned(),
        reading: format!(
            "Random tokens that come twice lose {first:.3} nats a token in the first copy and {second:.3} in the second: how much of \
             the difference goes away with one head removed, with 95 % intervals."
        ),
        chart,
    }]
}
