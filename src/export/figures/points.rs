//! A map of heads: those that are alike stand side by side.

use super::scale::Scale;
use crate::export::heads::Cell;
use crate::export::palette::Ink;
use crate::export::svg::{Anchor, Medium, SMALL, Svg};
use crate::report::Report;
use crate::studies::figure::{Figure, Points};

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 520.0;
const EDGE: f64 = 44.0;

pub fn draw(report: &Report, figure: &Figure, map: &Points, medium: Medium) -> String {
    let mut svg = Svg::new(medium);
    let axis = |of: usize| map.points.iter().map(move |point| point[of]);
    // Both axes alike, as distances are: so many pixels a unit.
    let extent = |of: usize| Extent::new(axis(of));
    let (across, upward) = (extent(0), extent(1));
    let unit = ((WIDTH - 2.0 * EDGE) / across.width()).min((HEIGHT - 2.0 * EDGE) / upward.width());
    let place =
        |[x, y]: [f64; 2]| [WIDTH / 2.0 + (x - across.middle()) * unit, HEIGHT / 2.0 - (y - upward.middle()) * unit];
    for group in &map.groups {
        let points: Vec<[f64; 2]> =
            group.iter().filter_map(|&head| map.points.get(head)).map(|&at| place(at)).collect();
        let mean = |of: usize| points.iter().map(|point| point[of]).sum::<f64>() / points.len().max(1) as f64;
        let middle = [mean(0), mean(1)];
        points.iter().for_each(|&point| svg.line(middle, point, Ink::Muted, 1.5));
    }
    for (head, &point) in report.heads.iter().zip(&map.points) {
        let ([x, y], cell) = (place(point), Cell::of(head));
        svg.group(&cell.words, |svg| {
            svg.circle([x, y], 6.0, Ink::Label(cell.hue), Ink::Muted);
            svg.text([x + 8.0, y + 4.0], Anchor::Start, SMALL, Ink::Text, &head.name);
        });
    }
    svg.text([8.0, HEIGHT + 14.0], Anchor::Start, SMALL, Ink::Muted, &map.distance);
    svg.finish([WIDTH, HEIGHT + 24.0], &figure.title, &figure.reading)
}

/// From the least number to the most.
struct Extent([f64; 2]);

impl Extent {
    fn new(numbers: impl Iterator<Item = f64>) -> Self {
        Self(Scale::ends(numbers))
    }

    fn width(&self) -> f64 {
        self.0[1] - self.0[0]
    }

    fn middle(&self) -> f64 {
        f64::midpoint(self.0[0], self.0[1])
    }
}
