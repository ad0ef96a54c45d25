//! The figure of the effects: the heads that the loss rises most without, and least.

use super::section::{Effects, HeadEffect};
use crate::model::parameters::Objective;
use crate::study::show::figure::{Chart, Figure, Forest, ForestRow, Mark};
use crate::system::counted::{counted, plural};

/// Heads that are shown from either end.
const SHOWN: usize = 12;

pub(super) fn figures(effects: &Effects) -> Vec<Figure> {
    let Effects {
        objective,
        masked_tokens,
        loss: Some(loss),
        loss_without_heads: Some(bare),
        band: Some(band),
        heads,
        ..
    } = effects
    else {
        return Vec::new();
    };
    let tokens = objective.unwrap_or(Objective::MaskedTokens).tokens();
    let mut order: Vec<(f64, &HeadEffect)> = heads.iter().filter_map(|head| Some((head.effect?, head))).collect();
    order.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (count, last) = (order.len(), order.len().saturating_sub(SHOWN).max(SHOWN));
    let shown = order.iter().enumerate().filter(|(rank, _)| *rank < SHOWN || *rank >= last);
    let row = |head: &HeadEffect| ForestRow {
        name: head.place.to_string(),
        note: head.words(),
        marks: vec![Mark::of(head.effect, head.ci95)],
    };
    let left_out = count.saturating_sub(2 * SHOWN);
    let are = plural(&left_out, "is", "are");
    let left_out = match left_out {
        0 => String::new(),
        heads => format!(" {} in between {are} left out.", counted(heads, "head")),
    };
    let chart = Chart::Forest(Forest {
        scale: "rise of the loss without the head, in nats a token".to_owned(),
        shares: false,
        nothing: Some(0.0),
        marks: vec!["effect".to_owned()],
        rows: shown.map(|(_, (_, head))| row(head)).collect(),
    });
    vec![Figure {
        name: "effects",
        title: "What the model loses without each head".to_owned(),
        reading: format!(
            "The loss of {masked_tokens} {tokens} with one head removed less that with all heads ({loss:.3} nats a token; {bare:.3} \
             without any head), with 95 % intervals. A head surely within {band:.4} of the line at 0 is negligible.{left_out}"
        ),
        chart,
    }]
}
