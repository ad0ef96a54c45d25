//! A forest plot: rows of numbers with their 95 % intervals on one scale.

use super::scale::Scale;
use crate::export::heads::number;
use crate::export::palette::Ink;
use crate::export::svg::{Anchor, Medium, SMALL, Svg, clipped, width_of};
use crate::stats::interval::Interval;
use crate::study::show::figure::{Figure, Forest, ForestRow, Mark};

/// The shape of a mark and its ink: the first is what the figure is about, the others stand beside it.
type Shape = (fn(&mut Svg, [f64; 2], Ink), Ink);

const SHAPES: [Shape; 4] = [(disc, Ink::Accent), (diamond, Ink::Second), (square, Ink::Muted), (triangle, Ink::Text)];

pub fn draw(figure: &Figure, forest: &Forest, medium: Medium) -> String {
    let Forest { scale: what, shares, nothing, marks, rows } = forest;
    let mut svg = Svg::new(medium);
    let (across, letters, ticks) = if medium == Medium::Card { (150.0, 15, 2) } else { (480.0, 28, 5) };
    let (name, note) = (|row: &ForestRow| clipped(&row.name, letters), |row: &ForestRow| clipped(&row.note, letters));
    let widest =
        |of: &dyn Fn(&ForestRow) -> String| rows.iter().map(|row| width_of(&of(row), SMALL)).fold(0.0, f64::max);
    let (names, notes) = (widest(&name), widest(&note));
    let left = names + notes + 24.0;
    let ends = rows.iter().flat_map(|row| &row.marks).flatten().flat_map(|mark| {
        [Some(mark.value), mark.ci95.map(Interval::low), mark.ci95.map(Interval::high)].into_iter().flatten()
    });
    let scale = Scale::new(ends.chain(*nothing), [left, left + across], ticks);
    let (height, top) = (8.0 + 6.0 * marks.len() as f64, 14.0 + 18.0 * usize::from(marks.len() > 1) as f64);
    let bottom = top + height * rows.len() as f64;
    if marks.len() > 1 {
        legend(&mut svg, marks, if medium == Medium::Card { 0.0 } else { left });
    }
    for (x, text) in scale.ticks(|number, digits| tick(number, digits, *shares)) {
        svg.line([x, top], [x, bottom], Ink::Guide, 1.0);
        svg.text([x, bottom + 15.0], Anchor::Middle, SMALL, Ink::Muted, &text);
    }
    if let Some(nothing) = nothing {
        svg.line([scale.at(*nothing), top], [scale.at(*nothing), bottom], Ink::Muted, 1.5);
    }
    for (place, row) in rows.iter().enumerate() {
        let y = top + height * (place as f64 + 0.5);
        svg.group(&words(forest, row), |svg| {
            svg.text([names, y + 4.0], Anchor::End, SMALL, Ink::Text, &name(row));
            svg.text([names + 10.0, y + 4.0], Anchor::Start, SMALL, Ink::Muted, &note(row));
            for (at, (mark, (shape, ink))) in row.marks.iter().zip(SHAPES).enumerate() {
                let Some(mark) = mark else { continue };
                let y = y + 6.0 * (at as f64 - (marks.len() as f64 - 1.0) / 2.0);
                if let Some(ci95) = mark.ci95 {
                    svg.line([scale.at(ci95.low()), y], [scale.at(ci95.high()), y], ink, 1.5);
                }
                shape(svg, [scale.at(mark.value), y], ink);
            }
        });
    }
    let mut below = bottom + 20.0;
    if !what.is_empty() {
        below = bottom + 42.0;
        svg.text([left + across / 2.0, bottom + 32.0], Anchor::Middle, SMALL, Ink::Muted, what);
    }
    svg.finish([left + across + 24.0, below], &figure.title, &figure.reading)
}

fn legend(svg: &mut Svg, marks: &[String], left: f64) {
    let mut x = left;
    for (mark, (shape, ink)) in marks.iter().zip(SHAPES) {
        shape(svg, [x + 4.0, 10.0], ink);
        svg.text([x + 14.0, 14.0], Anchor::Start, SMALL, Ink::Text, mark);
        x += width_of(mark, SMALL) + 28.0;
    }
}

pub fn tick(number: f64, digits: usize, shares: bool) -> String {
    let percent = digits.saturating_sub(2);
    if shares { format!("{:.percent$} %", number * 100.0) } else { format!("{number:.digits$}") }
}

fn words(forest: &Forest, row: &ForestRow) -> String {
    let mark =
        |(name, mark): (&String, &Option<Mark>)| mark.map(|mark| format!("{name} {}", number(mark, forest.shares)));
    let marks: Vec<String> = forest.marks.iter().zip(&row.marks).filter_map(mark).collect();
    format!("{} {}: {}", row.name, row.note, marks.join(", "))
}

fn disc(svg: &mut Svg, at: [f64; 2], ink: Ink) {
    svg.circle(at, 3.5, ink, ink);
}

fn diamond(svg: &mut Svg, [x, y]: [f64; 2], ink: Ink) {
    svg.polygon(&[[x - 4.5, y], [x, y - 4.5], [x + 4.5, y], [x, y + 4.5]], ink, 1.0);
}

fn square(svg: &mut Svg, [x, y]: [f64; 2], ink: Ink) {
    svg.rect([x - 3.0, y - 3.0], [6.0, 6.0], ink);
}

fn triangle(svg: &mut Svg, [x, y]: [f64; 2], ink: Ink) {
    svg.polygon(&[[x - 4.0, y + 3.5], [x, y - 4.0], [x + 4.0, y + 3.5]], ink, 1.0);
}
