//! Bars of heads, stacked of parts, layers in order.

use crate::export::palette::{Hue, Ink};
use crate::export::svg::{Anchor, Medium, SMALL, Svg, width_of};
use crate::study::show::figure::{Figure, Stack, Stacks};

/// The colours of the parts, from the bottom.
const HUES: [Hue; 4] = [Hue::Orange, Hue::Sky, Hue::Purple, Hue::Green];

/// The height of a bar of all, and the margin of the scale.
const HEIGHT: f64 = 180.0;
const LEFT: f64 = 46.0;
const TOP: f64 = 40.0;

const GAP: f64 = 8.0;

pub fn draw(figure: &Figure, Stacks { scale, parts, stacks }: &Stacks, medium: Medium) -> String {
    let mut svg = Svg::new(medium);
    // As wide as a page, however many heads there are.
    let wide = (860.0 / stacks.len().max(1) as f64).clamp(3.0, 18.0);
    let base = TOP + HEIGHT;
    let right = stacks.last().map_or(LEFT, |last| place(stacks, last, wide) + wide);
    for quarter in 0..=4_u8 {
        let (share, y) = (f64::from(quarter) / 4.0, base - HEIGHT * f64::from(quarter) / 4.0);
        svg.line([LEFT, y], [right, y], Ink::Guide, 1.0);
        svg.text([LEFT - 6.0, y + 4.0], Anchor::End, SMALL, Ink::Muted, &format!("{:.0} %", 100.0 * share));
    }
    for stack in stacks {
        let x = place(stacks, stack, wide);
        let shares: Vec<String> =
            parts.iter().zip(&stack.parts).map(|(name, part)| format!("{name} {:.0} %", 100.0 * part)).collect();
        svg.group(&format!("{}: {}", stack.place, shares.join(", ")), |svg| {
            let mut y = base;
            for (part, hue) in stack.parts.iter().zip(HUES) {
                let height = HEIGHT * part;
                y -= height;
                svg.rect([x + 0.5, y], [wide - 1.0, height], Ink::Label(hue));
            }
        });
        let name = stack.place.head.to_string();
        if width_of(&name, SMALL) <= wide {
            svg.text([x + wide / 2.0, base + 14.0], Anchor::Middle, SMALL, Ink::Muted, &name);
        }
        if stack.place.head == 0 {
            let name = format!("L{}", stack.place.layer);
            svg.text([x, base + 28.0], Anchor::Start, SMALL, Ink::Text, &name);
        }
    }
    let mut x = LEFT;
    for (name, hue) in parts.iter().zip(HUES) {
        svg.rect([x, TOP - 28.0], [11.0, 11.0], Ink::Label(hue));
        svg.text([x + 16.0, TOP - 19.0], Anchor::Start, SMALL, Ink::Text, name);
        x += 16.0 + width_of(name, SMALL) + 16.0;
    }
    svg.text([0.0, TOP - 38.0], Anchor::Start, SMALL, Ink::Muted, scale);
    svg.finish([right.max(x) + 8.0, base + 36.0], &figure.title, &figure.reading)
}

fn place(stacks: &[Stack], stack: &Stack, wide: f64) -> f64 {
    let heads = stacks.iter().filter(|other| other.place.layer == 0).count();
    LEFT + (stack.place.layer * heads + stack.place.head) as f64 * wide + stack.place.layer as f64 * GAP
}
