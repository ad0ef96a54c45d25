//! The figure of in-context copying: the heads without which most of the gain goes away.

use super::effect::GainEffects;
use crate::study::show::figure::{Chart, Figure, Forest, ForestRow, Mark};

/// Heads that are shown.
const SHOWN: usize = 12;

pub(super) fn figures(effects: &GainEffects) -> Vec<Figure> {
    if effects.removal.is_none() {
        return Vec::new();
    }
    let rows = effects.ranked().into_iter().take(SHOWN).map(|head| ForestRow {
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
        name: "in-context-effect",
        title: "What copying from the context loses without a head".to_owned(),
        reading: "Random tokens that come twice lose less in the second copy than in the first: how much of the difference, in nats \
                  a token, goes away with one head removed, with 95 % intervals."
            .to_owned(),
        chart,
    }]
}
