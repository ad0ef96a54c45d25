//! Heads of layers, with edges between those that depend on one another: layers from left to right.

use crate::export::heads::{HeadCell, number};
use crate::export::palette::Ink;
use crate::export::svg::{Anchor, Medium, SMALL, Svg, clipped, width_of};
use crate::report::Report;
use crate::study::show::figure::{Edge, EdgeKind, EdgeLine, Edges, Figure};

const WIDTH: f64 = 62.0;
const HEIGHT: f64 = 24.0;
const LETTERS: usize = 8;
const TOP: f64 = 24.0;
/// The height of a line of the legend, and the length of its sample.
const ROW: f64 = 16.0;
const SAMPLE: f64 = 26.0;

pub fn draw(report: &Report, figure: &Figure, edges: &Edges, medium: Medium) -> String {
    let (layers, heads) = (report.model.layers, report.model.heads);
    // Room for edges beside the column of heads.
    let between = (900.0 / layers as f64).clamp(WIDTH + 34.0, WIDTH + 90.0);
    let corner = |layer: usize, head: usize| [layer as f64 * between, TOP + head as f64 * (HEIGHT + 6.0)];
    let mut svg = Svg::new(medium);
    for layer in 0..layers {
        let x = layer as f64 * between + WIDTH / 2.0;
        svg.text([x, 14.0], Anchor::Middle, SMALL, Ink::Muted, &format!("L{layer}"));
    }
    let most = edges.edges.iter().map(|edge| edge.mark.value).fold(0.0, f64::max);
    for Edge { source, target, mark, strongest, line } in edges.edges.iter().rev() {
        let ([x, y], [to, down]) = (corner(source.layer, source.head), corner(target.layer, target.head));
        let (from, to) = ([x + WIDTH, y + HEIGHT / 2.0], [to, down + HEIGHT / 2.0]);
        let width = 0.6 + 3.0 * (mark.value / most).clamp(0.0, 1.0);
        let bend = [
            f64::midpoint(from[0], to[0]),
            f64::midpoint(from[1], to[1]) - 6.0 * target.layer.saturating_sub(source.layer) as f64,
        ];
        svg.group(&format!("{source} to {target}: {}", number(*mark, false)), |svg| {
            svg.curve([from, bend, to], if *strongest { Ink::Accent } else { Ink::Muted }, width, dashes(*line));
        });
    }
    for head in &report.heads {
        let ([x, y], cell) = (corner(head.place.layer, head.place.head), HeadCell::of(report, head));
        let ink = Ink::Label(cell.hue);
        svg.group(&cell.words, |svg| {
            svg.rect([x, y], [WIDTH, HEIGHT], ink);
            svg.text([x + 4.0, y + 16.0], Anchor::Start, SMALL, ink.text_on(), &clipped(&cell.code, LETTERS));
        });
    }
    let bottom = TOP + heads as f64 * (HEIGHT + 6.0) + 18.0;
    svg.text([0.0, bottom], Anchor::Start, SMALL, Ink::Muted, &edges.width);
    let mut width = ((layers as f64 - 1.0) * between + WIDTH).max(width_of(&edges.width, SMALL));
    let mut below = bottom;
    for EdgeKind { line, name, meaning } in &edges.kinds {
        below += ROW;
        let meaning = format!("{name}: {meaning}");
        svg.polyline(&[[0.0, below - 4.0], [SAMPLE, below - 4.0]], Ink::Muted, 2.0, dashes(*line));
        svg.text([SAMPLE + 6.0, below], Anchor::Start, SMALL, Ink::Muted, &meaning);
        width = width.max(SAMPLE + 6.0 + width_of(&meaning, SMALL));
    }
    svg.finish([width + 4.0, below + 10.0], &figure.title, &figure.reading)
}

fn dashes(line: EdgeLine) -> &'static str {
    match line {
        EdgeLine::Solid => "",
        EdgeLine::Dashed => "5 3",
    }
}
