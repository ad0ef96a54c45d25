//! Lines over how many heads are gone, with their intervals as bands.

use super::scale::Scale;
use crate::export::palette::Ink;
use crate::export::svg::{Anchor, Medium, SMALL, Svg, width_of};
use crate::study::show::figure::{Curve, Curves, Figure};

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 62.0;
const TOP: f64 = 12.0;

/// The ink of each line and its dashes; lines that stand beside the others are grey.
const LINES: [(Ink, &str); 4] = [(Ink::Accent, ""), (Ink::Second, "7 3"), (Ink::Text, "2 3"), (Ink::Text, "9 3 2 3")];

pub fn draw(figure: &Figure, curves: &Curves, medium: Medium) -> String {
    let Curves { across, upward, curves } = curves;
    let mut svg = Svg::new(medium);
    let most = curves.iter().map(|curve| curve.points.len()).max().unwrap_or(1).saturating_sub(1);
    let x = Scale::new([0.0, most as f64].into_iter(), [LEFT, LEFT + WIDTH], 8);
    let values = curves.iter().flat_map(|curve| &curve.points).map(|point| point.value);
    let y = Scale::new(values, [TOP + HEIGHT, TOP], 6);
    for (at, text) in y.ticks(|number, digits| format!("{number:.digits$}")) {
        svg.line([LEFT, at], [LEFT + WIDTH, at], Ink::Guide, 1.0);
        svg.text([LEFT - 8.0, at + 4.0], Anchor::End, SMALL, Ink::Muted, &text);
    }
    for (at, text) in x.ticks(|number, digits| format!("{number:.digits$}")) {
        svg.text([at, TOP + HEIGHT + 16.0], Anchor::Middle, SMALL, Ink::Muted, &text);
    }
    svg.text([LEFT + WIDTH / 2.0, TOP + HEIGHT + 34.0], Anchor::Middle, SMALL, Ink::Muted, across);
    let at = |place: usize, value: f64| [x.at(place as f64), y.at(value)];
    let (mut line, mut legend) = (0, LEFT + 12.0);
    let (beside, main): (Vec<&Curve>, Vec<&Curve>) = curves.iter().partition(|curve| curve.beside);
    for curve in beside.iter().chain(&main) {
        let (ink, dashes) = if curve.beside { (Ink::Muted, "1 4") } else { LINES[line % LINES.len()] };
        let points: Vec<[f64; 2]> =
            curve.points.iter().enumerate().map(|(place, point)| at(place, point.value)).collect();
        svg.group(&curve.name, |svg| {
            band(svg, curve, ink, &at);
            svg.polyline(&points, ink, if curve.beside { 1.2 } else { 2.0 }, dashes);
        });
        line += usize::from(!curve.beside);
    }
    for (place, curve) in main.iter().enumerate() {
        let (ink, dashes) = LINES[place % LINES.len()];
        legend = entry(&mut svg, legend, ink, dashes, &curve.name);
    }
    if !beside.is_empty() {
        let names: Vec<&str> = beside.iter().map(|curve| curve.name.as_str()).collect();
        let name = if names.len() > 1 { "at random, each order".to_owned() } else { names.concat() };
        entry(&mut svg, legend, Ink::Muted, "1 4", &name);
    }
    svg.text([LEFT, TOP + HEIGHT + 54.0 + 18.0], Anchor::Start, SMALL, Ink::Muted, upward);
    svg.finish([LEFT + WIDTH + 20.0, TOP + HEIGHT + 80.0], &figure.title, &figure.reading)
}

/// The intervals of a line, from the first point that has one to the last.
fn band(svg: &mut Svg, curve: &Curve, ink: Ink, at: &impl Fn(usize, f64) -> [f64; 2]) {
    let known = || curve.points.iter().enumerate().filter_map(|(place, point)| Some((place, point.ci95?)));
    if curve.beside || known().count() < 2 {
        return;
    }
    let low = known().map(|(place, ci95)| at(place, ci95.low()));
    let high = known().map(|(place, ci95)| at(place, ci95.high()));
    let outline: Vec<[f64; 2]> = low.chain(high.collect::<Vec<_>>().into_iter().rev()).collect();
    svg.polygon(&outline, ink, 0.15);
}

/// A line of the legend; where the next begins.
fn entry(svg: &mut Svg, x: f64, ink: Ink, dashes: &str, name: &str) -> f64 {
    let y = TOP + HEIGHT + 50.0;
    svg.polyline(&[[x, y], [x + 26.0, y]], ink, 2.0, dashes);
    svg.text([x + 32.0, y + 4.0], Anchor::Start, SMALL, Ink::Text, name);
    x + 32.0 + width_of(name, SMALL) + 18.0
}
