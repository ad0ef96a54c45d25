//! The figure of how heads choose: one bar a head, stacked by what each part adds.

use super::section::{Choice, HeadChoice};
use crate::study::show::figure::{Chart, Figure, Stack, Stacks};

pub(super) fn figures(choice: &Choice) -> Vec<Figure> {
    if choice.heads.iter().all(|head| head.is_even) {
        return Vec::new();
    }
    let stack = |head: &HeadChoice| {
        let share = |value: Option<f64>| value.map_or(0.0, |value| value.clamp(0.0, 1.0));
        let rebuilt = &head.rebuilt;
        let ends = [rebuilt.special, rebuilt.position, rebuilt.position_token].map(share);
        let mut reached = 0.0_f64;
        let parts = ends.map(|end| {
            let more = (end - reached).max(0.0);
            reached += more;
            more
        });
        let context = if head.is_even { 0.0 } else { 1.0 - reached };
        Stack { place: head.place, parts: parts.into_iter().chain([context]).collect() }
    };
    vec![Figure {
        name: "choice",
        title: "How heads choose".to_owned(),
        reading: format!(
            "For each head the share of its distance from even attention that comes back from inputs without context, stacked: \
             from special tokens alone, what position adds, what the token adds to both, and what needs context. Heads without a bar attend evenly. \
             Fitted on {} and {} tokens, used on the other half.",
            choice.fitted_on[0], choice.fitted_on[1]
        ),
        chart: Chart::Stacks(Stacks {
            scale: "share of the distance from even attention".to_owned(),
            parts: ["special tokens", "position", "token", "context"].map(str::to_owned).to_vec(),
            stacks: choice.heads.iter().map(stack).collect(),
        }),
    }]
}
