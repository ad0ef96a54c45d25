//! The heads with their labels: layers down, heads across.

use crate::export::heads::{HeadCell, LabelFamily, families};
use crate::export::palette::Ink;
use crate::export::svg::{Anchor, Medium, SMALL, Svg, TEXT, clipped, width_of};
use crate::report::Report;
use crate::system::counted::{counted, plural};

/// The size of a cell, and of the margin for the layers' names.
const WIDTH: f64 = 74.0;
const HEIGHT: f64 = 34.0;
const MARGIN: f64 = 34.0;

pub fn draw(report: &Report, medium: Medium) -> String {
    let (layers, heads) = (report.model.layers, report.model.heads);
    let mut svg = Svg::new(medium);
    for head in 0..heads {
        let x = MARGIN + (head as f64 + 0.5) * WIDTH;
        svg.text([x, 16.0], Anchor::Middle, TEXT, Ink::Muted, &format!("H{head}"));
    }
    for layer in 0..layers {
        let y = 24.0 + (layer as f64 + 0.5) * HEIGHT + 4.0;
        svg.text([MARGIN - 8.0, y], Anchor::End, TEXT, Ink::Muted, &format!("L{layer}"));
    }
    for head in &report.heads {
        let cell = HeadCell::of(report, head);
        let at = [MARGIN + head.place.head as f64 * WIDTH, 24.0 + head.place.layer as f64 * HEIGHT];
        svg.group(&cell.words, |svg| cell_at(svg, at, &cell));
    }
    let width = (MARGIN + heads as f64 * WIDTH).max(420.0) + 4.0;
    let bottom = legend(&mut svg, &families(report), [MARGIN, 24.0 + layers as f64 * HEIGHT + 24.0], width);
    let labelled = report.heads.iter().filter(|head| !head.labels.is_empty()).count();
    let text = format!(
        "{labelled} of {} {} a label.",
        counted(report.present_heads().count(), "head"),
        plural(&labelled, "has", "have")
    );
    svg.finish([width, bottom], "The first label of each head", &text)
}

fn cell_at(svg: &mut Svg, [x, y]: [f64; 2], cell: &HeadCell) {
    let ink = Ink::Label(cell.hue);
    svg.rect([x + 1.0, y + 1.0], [WIDTH - 2.0, HEIGHT - 2.0], ink);
    let text = clipped(&cell.code, 10);
    let size = if width_of(&text, TEXT) > WIDTH - 8.0 { SMALL } else { TEXT };
    let middle = x + WIDTH / 2.0;
    let up = if cell.marks.is_empty() { 21.0 } else { 16.0 };
    svg.text([middle, y + up], Anchor::Middle, size, ink.text_on(), &text);
    if !cell.marks.is_empty() {
        svg.text([middle, y + 28.0], Anchor::Middle, SMALL, ink.text_on(), &cell.marks);
    }
}

/// The families of the labels with how many heads have each first; where the legend ends.
fn legend(svg: &mut Svg, families: &[LabelFamily], [left, mut y]: [f64; 2], right: f64) -> f64 {
    let mut x = left;
    for LabelFamily { name, code, hue, first, .. } in families {
        let code = code.as_ref().map_or_else(String::new, |code| format!(" ({code})"));
        let text = format!("{name}{code}: {first}");
        let width = 16.0 + width_of(&text, SMALL) + 14.0;
        if x + width > right && x > left {
            (x, y) = (left, y + 18.0);
        }
        svg.rect([x, y - 9.0], [11.0, 11.0], Ink::Label(*hue));
        svg.text([x + 16.0, y], Anchor::Start, SMALL, Ink::Text, &text);
        x += width;
    }
    let notes = [
        "?: borderline   ~: near tie for the first label   +2: two more labels",
        "? alone: too little to say   .: no role found",
    ];
    for note in notes {
        y += 16.0;
        svg.text([left, y + 4.0], Anchor::Start, SMALL, Ink::Muted, note);
    }
    y + 14.0
}
