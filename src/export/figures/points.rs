//! A map of heads: those that are alike stand side by side.

use super::scale::Scale;
use crate::export::heads::HeadCell;
use crate::export::palette::Ink;
use crate::export::svg::{Anchor, Medium, SMALL, Svg, width_of};
use crate::report::Report;
use crate::study::show::figure::{Figure, Points};

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 520.0;
const EDGE: f64 = 44.0;
const RADIUS: f64 = 6.0;

pub fn draw(report: &Report, figure: &Figure, map: &Points, medium: Medium) -> String {
    let mut svg = Svg::new(medium);
    let axis = |of: usize| map.points.iter().map(move |point| point[of]);
    // The pixels of a unit, the same on both axes, because distances are.
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
    let places: Vec<[f64; 2]> = map.points.iter().map(|&point| place(point)).collect();
    let names: Vec<String> = report.heads.iter().map(|head| head.place.to_string()).collect();
    let beside = beside(&places, &names);
    for ((head, &point), name) in report.heads.iter().zip(&places).zip(beside) {
        let cell = HeadCell::of(report, head);
        svg.group(&cell.words, |svg| {
            svg.circle(point, RADIUS, Ink::Label(cell.hue), Ink::Muted);
            if let Some((at, anchor)) = name {
                svg.text(at, anchor, SMALL, Ink::Text, &head.place.to_string());
            }
        });
    }
    let legend = format!("{}; names where there is room", map.distance);
    svg.text([8.0, HEIGHT + 14.0], Anchor::Start, SMALL, Ink::Muted, &legend);
    svg.finish([WIDTH, HEIGHT + 24.0], &figure.title, &figure.reading)
}

/// The place of each point's name: right of it, left, above or below, the first place without overlap with a point or a
/// name; `None` if there is no such place.
fn beside(points: &[[f64; 2]], names: &[String]) -> Vec<Option<([f64; 2], Anchor)>> {
    // The occupied boxes, by their left, top, right and bottom.
    let mut taken: Vec<[f64; 4]> = points.iter().map(|[x, y]| around([*x, *y], [2.0 * RADIUS, 2.0 * RADIUS])).collect();
    let place = |(&[x, y], name): (&[f64; 2], &String)| {
        let width = width_of(name, SMALL);
        let (side, above) = (RADIUS + 2.0 + width / 2.0, RADIUS + 2.0 + SMALL / 2.0);
        let middles = [[x + side, y], [x - side, y], [x, y - above], [x, y + above]];
        let found = middles.into_iter().find_map(|middle| {
            let own = around(middle, [width, SMALL]);
            taken.iter().all(|other| !meet(&own, other)).then_some((middle, own))
        });
        let (middle, own) = found?;
        taken.push(own);
        // The base line is below the middle of letters by about a third of their size.
        Some(([middle[0], middle[1] + SMALL / 3.0], Anchor::Middle))
    };
    points.iter().zip(names).map(place).collect()
}

fn around([x, y]: [f64; 2], [width, height]: [f64; 2]) -> [f64; 4] {
    [x - width / 2.0, y - height / 2.0, x + width / 2.0, y + height / 2.0]
}

fn meet(a: &[f64; 4], b: &[f64; 4]) -> bool {
    a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3]
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_where_there_is_room() {
        // Two points side by side: the name of the first goes to the left; in the middle of a crowd there is no room.
        let found = beside(&[[0.0, 0.0], [14.0, 0.0]], &["L0H0", "L0H1"].map(str::to_owned));
        let at = |place: usize| found[place].unwrap().0[0];
        assert!(at(0) < -6.0 && at(1) > 20.0, "{found:?}");
        let crowd: Vec<[f64; 2]> = (0..9_u8).map(|at| [f64::from(at % 3) * 12.0, f64::from(at / 3) * 12.0]).collect();
        assert!(beside(&crowd, &["L0H0"; 9].map(str::to_owned))[4].is_none());
    }
}
