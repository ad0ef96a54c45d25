//! Labels by depth: the number of heads of each layer that have a label of each family.

use crate::export::heads::{LabelFamily, families};
use crate::export::palette::Ink;
use crate::export::svg::{Anchor, Medium, SMALL, Svg, width_of};
use crate::report::Report;
use crate::system::counted::counted;

const HEIGHT: f64 = 42.0;

pub fn draw(report: &Report, medium: Medium) -> String {
    let families = families(report);
    let mut svg = Svg::new(medium);
    let widest = families.iter().map(|family| width_of(&family.name, SMALL)).fold(0.0, f64::max);
    let left = widest + 14.0;
    let wide = (620.0 / report.model.layers as f64).clamp(18.0, 60.0);
    for (row, LabelFamily { name, hue, by_layer, .. }) in families.iter().enumerate() {
        let base = (row + 1) as f64 * HEIGHT;
        svg.text([left - 10.0, base - 4.0], Anchor::End, SMALL, Ink::Text, name);
        let right = left + report.model.layers as f64 * wide;
        svg.line([left, base], [right, base], Ink::Guide, 1.0);
        for (layer, count) in by_layer.iter().enumerate().filter(|(_, count)| **count > 0) {
            let height = (HEIGHT - 16.0) * *count as f64 / report.model.heads as f64;
            let x = left + layer as f64 * wide;
            svg.group(&format!("{name}, layer {layer}: {count} of {}", counted(report.model.heads, "head")), |svg| {
                svg.rect([x + 2.0, base - height], [wide - 4.0, height], Ink::Label(*hue));
                svg.line([x + 2.0, base - height], [x + wide - 2.0, base - height], Ink::Muted, 1.0);
                let at = [x + wide / 2.0, base - height - 2.0];
                svg.text(at, Anchor::Middle, SMALL, Ink::Text, &count.to_string());
            });
        }
    }
    let base = families.len() as f64 * HEIGHT + 16.0;
    for layer in 0..report.model.layers {
        let x = left + (layer as f64 + 0.5) * wide;
        svg.text([x, base], Anchor::Middle, SMALL, Ink::Muted, &format!("L{layer}"));
    }
    let width = left + report.model.layers as f64 * wide + 6.0;
    let text = format!("How many of the {} heads of each layer have a label of each family.", report.model.heads);
    svg.finish([width, base + 8.0], "Where labels are in depth", &text)
}
