//! The figure of pruning: the loss without more and more heads.

use super::section::{CanGo, Curve, Curves};
use crate::model::parameters::Objective;
use crate::stats::interval::Interval;
use crate::study::show::figure::{Chart, Curve as Line, Curves as Lines, Figure, Mark};
use crate::study::show::wording::sequences;

pub(super) fn figures(pruning: &Curves) -> Vec<Figure> {
    let Some(loss) = pruning.loss else { return Vec::new() };
    let line = |curve: &Curve| {
        let whole = Mark { value: loss, ci95: None };
        // The interval of a rise, above the loss with all heads.
        let raised = |rise: Interval| rise.moved(loss);
        let without = curve.loss.iter().zip(&curve.rise_ci95);
        let without = without.map(|(&value, rise)| Mark { value, ci95: rise.map(raised) });
        let beside = curve.by.starts_with("random");
        let name = if beside { curve.by.clone() } else { format!("by {}", curve.by) };
        Line { name, beside, points: std::iter::once(whole).chain(without).collect() }
    };
    let can_go = pruning.orders.iter().filter(|curve| !curve.by.starts_with("random")).flat_map(|curve| {
        let words = |CanGo { of, rise, share, ci95 }: &CanGo| {
            let spread = ci95.map(|Interval(low, high)| format!(" [{:.0}, {:.0}]", 100.0 * low, 100.0 * high));
            let (share, spread) = (100.0 * share, spread.unwrap_or_default());
            format!("{share:.0} %{spread} with a rise of {:.0} % of {} by {}", 100.0 * rise, of.words(), curve.by)
        };
        curve.can_go.iter().map(words)
    });
    let can_go: Vec<String> = can_go.collect();
    vec![Figure {
        name: "pruning",
        title: "The loss without more and more heads".to_owned(),
        reading: format!(
            "Heads go one after the other; their order is from one half of the sample and the loss from the other ({} {} \
             of {}), with 95 % intervals of the rise; nothing is trained again. Heads that can go: {}.",
            pruning.masked_tokens,
            pruning.objective.unwrap_or(Objective::MaskedTokens).tokens(),
            sequences(pruning.sentences, pruning.read),
            can_go.join("; "),
        ),
        chart: Chart::Curves(Lines {
            across: "heads removed".to_owned(),
            upward: "upward: loss in nats a token".to_owned(),
            curves: pruning.orders.iter().map(line).collect(),
        }),
    }]
}
