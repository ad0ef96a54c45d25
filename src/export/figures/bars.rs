//! Bars side by side on one scale from 0, each with its interval and the level that it stands beside.

use super::forest::tick;
use super::scale::Scale;
use crate::export::palette::Ink;
use crate::export::svg::{Anchor, Medium, SMALL, Svg, width_of};
use crate::stats::interval::Interval;
use crate::study::show::figure::{Bar, Bars, Figure};

const TOP: f64 = 8.0;

const RIGHT: f64 = 8.0;

pub fn draw(figure: &Figure, Bars { across, level, shares, bars }: &Bars, medium: Medium) -> String {
    let mut svg = Svg::new(medium);
    // A card is as narrow as a phone.
    let (least, height, ticks) = if medium == Medium::Card { (17.0, 60.0, 2) } else { (34.0, 180.0, 5) };
    let wide = bars.iter().map(|bar| width_of(&bar.name, SMALL) + 3.0).fold(least, f64::max);
    let base = TOP + height;
    let numbers = bars.iter().flat_map(|bar| {
        let mark = bar.mark.into_iter().flat_map(|mark| [mark.value, mark.ci95.map_or(mark.value, Interval::high)]);
        mark.chain(bar.level)
    });
    let scale = Scale::new(numbers.chain([0.0]), [base, TOP], ticks);
    let ticks = scale.ticks(|number, digits| tick(number, digits, *shares));
    let left = ticks.iter().map(|(_, text)| width_of(text, SMALL)).fold(0.0, f64::max) + 6.0;
    let right = left + wide * bars.len() as f64;
    for (y, text) in ticks {
        svg.line([left, y], [right, y], Ink::Guide, 1.0);
        svg.text([left - 4.0, y + 4.0], Anchor::End, SMALL, Ink::Muted, &text);
    }
    let at = |place: usize| left + wide * (place as f64 + 0.5);
    // One path for all bars, and one for all lines: a page has such a figure for every head.
    let path = |of: &dyn Fn(f64, &Bar) -> Option<String>| -> String {
        bars.iter().enumerate().filter_map(|(place, bar)| of(at(place), bar)).collect()
    };
    let upright = |x: f64, from: f64, to: f64| format!("M{x:.1} {:.1}V{:.1}", scale.at(from), scale.at(to));
    svg.path(&path(&|x, bar| Some(upright(x, 0.0, bar.mark?.value))), Ink::Accent, wide * 0.7, "");
    let interval = |x: f64, bar: &Bar| bar.mark?.ci95.map(|ci95| upright(x, ci95.low(), ci95.high()));
    svg.path(&path(&interval), Ink::Text, 1.0, "");
    let beside = |x: f64, bar: &Bar| Some(format!("M{:.1} {:.1}h{wide:.1}", x - wide / 2.0, scale.at(bar.level?)));
    svg.path(&path(&beside), Ink::Text, 1.5, "");
    let names: Vec<(f64, String)> = bars.iter().enumerate().map(|(place, bar)| (at(place), bar.name.clone())).collect();
    svg.words(&names, base + 13.0, SMALL, Ink::Muted);
    let about = if level.is_empty() { across.clone() } else { format!("{across}; line: {level}") };
    svg.text([f64::midpoint(left, right), base + 28.0], Anchor::Middle, SMALL, Ink::Muted, &about);
    svg.finish([right + RIGHT, base + 34.0], &figure.title, &figure.reading)
}
