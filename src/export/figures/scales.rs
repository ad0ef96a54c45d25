//! Axis scales with ticks at round numbers, and the figures that use them: bars, forest plots and curves.

use itertools::Itertools;

use crate::export::heads::number_with_interval;
use crate::export::palette::Ink;
use crate::export::svg::{Anchor, Medium, SMALL_TEXT_SIZE_PX, Svg, text_width, truncate_text};
use crate::stats::interval::Interval;
use crate::study::show::figure::{Bar, Bars, Curve, Curves, Figure, Forest, ForestRow, Mark};

/// A linear scale from the numbers `least` to `most` to the pixels `from` to `to`, with a tick at each `step`.
pub struct Scale {
    least: f64,
    most: f64,
    from: f64,
    to: f64,
    step: f64,
}

impl Scale {
    /// Scale that covers the finite numbers, on the pixels between `from` and `to`, with about `ticks` ticks.
    pub fn new(numbers: impl Iterator<Item = f64>, [from, to]: [f64; 2], ticks: usize) -> Self {
        let [least, most] = Self::finite_ends(numbers);
        let step = round_step((most - least) / ticks.max(1) as f64);
        // A number that is round up to its last bit counts as round.
        let (least, most) = ((least / step + 1e-9).floor() * step, (most / step - 1e-9).ceil() * step);
        Self { least, most, from, to, step }
    }

    /// Minimum and maximum of the finite numbers, `[least, most]`; widened if they are equal, `[0, 1]` without numbers.
    pub fn finite_ends(numbers: impl Iterator<Item = f64>) -> [f64; 2] {
        let finite = numbers.filter(|number| number.is_finite());
        let (mut least, mut most) = finite
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), number| (least.min(number), most.max(number)));
        if least > most {
            (least, most) = (0.0, 1.0);
        }
        if most - least < 1e-9 {
            (least, most) = (least - 0.5, most + 0.5);
        }
        [least, most]
    }

    /// Position of a number on the scale, in pixels.
    pub fn position(&self, number: f64) -> f64 {
        self.from + (number - self.least) / (self.most - self.least) * (self.to - self.from)
    }

    /// Positions and texts of the ticks, in per cent if the numbers are `shares`.
    pub fn ticks(&self, shares: bool) -> Vec<(f64, String)> {
        let digits = decimals_of_step(self.step);
        let percent = digits.saturating_sub(2);
        // Half a step beyond the end, because sums are not exact; a scale has at most the requested ticks, plus two.
        let numbers = (0_u32..64).map(|place| self.least + f64::from(place) * self.step);
        let numbers = numbers.take_while(|number| *number < self.most + self.step / 2.0);
        let tick = |number: f64| {
            // No minus before a zero.
            let number = if number.abs() < self.step / 2.0 { 0.0 } else { number };
            let text = if shares { format!("{:.percent$} %", number * 100.0) } else { format!("{number:.digits$}") };
            (self.position(number), text)
        };
        numbers.map(tick).collect()
    }
}

/// The least number of the form 1, 2 or 5 times a power of ten that is at least `least`.
fn round_step(least: f64) -> f64 {
    let mut power = 1e-12;
    loop {
        for factor in [1.0, 2.0, 5.0] {
            if power * factor >= least * (1.0 - 1e-9) {
                return power * factor;
            }
        }
        power *= 10.0;
    }
}

/// Number of decimals that ticks with this round step need.
fn decimals_of_step(step: f64) -> usize {
    let (mut step, mut digits) = (step, 0);
    while step < 0.999 && digits < 12 {
        (step, digits) = (step * 10.0, digits + 1);
    }
    digits
}

/// Draws a bar chart, with the reference level of each bar that has one.
pub fn draw_bars(
    figure: &Figure,
    Bars { x_label: across, level_name: level, is_in_percent: shares, bars }: &Bars,
    medium: Medium,
) -> String {
    const TOP_MARGIN_PX: f64 = 8.0;
    const RIGHT_MARGIN_PX: f64 = 8.0;
    let mut svg = Svg::new(medium);
    // A card is as narrow as a phone.
    let (least, height, ticks) = if medium == Medium::Card { (17.0, 60.0, 2) } else { (34.0, 180.0, 5) };
    let wide = bars.iter().map(|bar| text_width(&bar.name, SMALL_TEXT_SIZE_PX) + 3.0).fold(least, f64::max);
    let base = TOP_MARGIN_PX + height;
    let numbers = bars.iter().flat_map(|bar| {
        let mark = bar.mark.into_iter().flat_map(|mark| [mark.value, mark.ci95.map_or(mark.value, Interval::high)]);
        mark.chain(bar.reference_level)
    });
    let scale = Scale::new(numbers.chain([0.0]), [base, TOP_MARGIN_PX], ticks);
    let ticks = scale.ticks(*shares);
    let left = ticks.iter().map(|(_, text)| text_width(text, SMALL_TEXT_SIZE_PX)).fold(0.0, f64::max) + 6.0;
    let right = left + wide * bars.len() as f64;
    for (y, text) in ticks {
        svg.line([left, y], [right, y], Ink::Guide, 1.0);
        svg.text([left - 4.0, y + 4.0], Anchor::End, SMALL_TEXT_SIZE_PX, Ink::Muted, &text);
    }
    let at = |place: usize| left + wide * (place as f64 + 0.5);
    // One path for all bars, and one for all lines: a page has such a figure for every head.
    let path = |of: &dyn Fn(f64, &Bar) -> Option<String>| -> String {
        bars.iter().enumerate().filter_map(|(place, bar)| of(at(place), bar)).collect()
    };
    let upright = |x: f64, from: f64, to: f64| format!("M{x:.1} {:.1}V{:.1}", scale.position(from), scale.position(to));
    svg.path(&path(&|x, bar| Some(upright(x, 0.0, bar.mark?.value))), Ink::Accent, wide * 0.7, "");
    let interval = |x: f64, bar: &Bar| bar.mark?.ci95.map(|ci95| upright(x, ci95.low(), ci95.high()));
    svg.path(&path(&interval), Ink::Text, 1.0, "");
    let beside = |x: f64, bar: &Bar| {
        Some(format!("M{:.1} {:.1}h{wide:.1}", x - wide / 2.0, scale.position(bar.reference_level?)))
    };
    svg.path(&path(&beside), Ink::Text, 1.5, "");
    let names: Vec<(f64, String)> = bars.iter().enumerate().map(|(place, bar)| (at(place), bar.name.clone())).collect();
    svg.centred_texts(&names, base + 13.0, SMALL_TEXT_SIZE_PX, Ink::Muted);
    let about = if level.is_empty() { across.clone() } else { format!("{across}; line: {level}") };
    svg.text([f64::midpoint(left, right), base + 28.0], Anchor::Middle, SMALL_TEXT_SIZE_PX, Ink::Muted, &about);
    svg.into_document([right + RIGHT_MARGIN_PX, base + 34.0], &figure.title, &figure.reading)
}

/// Mark in a forest plot: its drawing function, called with the position of the mark, and its ink.
type MarkShape = (fn(&mut Svg, [f64; 2], Ink), Ink);

/// Marks of a row in a forest plot. The first is the measured value; the others are for comparison.
const MARK_SHAPES: [MarkShape; 4] = [
    (|svg, at, ink| svg.circle(at, 3.5, ink, ink), Ink::Accent),
    (|svg, [x, y], ink| svg.polygon(&[[x - 4.5, y], [x, y - 4.5], [x + 4.5, y], [x, y + 4.5]], ink, 1.0), Ink::Second),
    (|svg, [x, y], ink| svg.rect([x - 3.0, y - 3.0], [6.0, 6.0], ink), Ink::Muted),
    (|svg, [x, y], ink| svg.polygon(&[[x - 4.0, y + 3.5], [x, y - 4.0], [x + 4.0, y + 3.5]], ink, 1.0), Ink::Text),
];

/// Draws a forest plot: estimates with their intervals, a row for each subject.
pub fn draw_forest(figure: &Figure, forest: &Forest, medium: Medium) -> String {
    let Forest { scale: what, is_in_percent: shares, no_effect: nothing, marks, rows } = forest;
    let mut svg = Svg::new(medium);
    let (across, letters, ticks) = if medium == Medium::Card { (150.0, 15, 2) } else { (480.0, 28, 5) };
    let (name, note) =
        (|row: &ForestRow| truncate_text(&row.name, letters), |row: &ForestRow| truncate_text(&row.note, letters));
    let widest = |of: &dyn Fn(&ForestRow) -> String| {
        rows.iter().map(|row| text_width(&of(row), SMALL_TEXT_SIZE_PX)).fold(0.0, f64::max)
    };
    let (names, notes) = (widest(&name), widest(&note));
    let left = names + notes + 24.0;
    let ends = rows.iter().flat_map(|row| &row.marks).flatten().flat_map(|mark| {
        [Some(mark.value), mark.ci95.map(Interval::low), mark.ci95.map(Interval::high)].into_iter().flatten()
    });
    let scale = Scale::new(ends.chain(*nothing), [left, left + across], ticks);
    let (height, top) = (8.0 + 6.0 * marks.len() as f64, 14.0 + 18.0 * usize::from(marks.len() > 1) as f64);
    let bottom = top + height * rows.len() as f64;
    if marks.len() > 1 {
        draw_legend(&mut svg, marks, if medium == Medium::Card { 0.0 } else { left });
    }
    for (x, text) in scale.ticks(*shares) {
        svg.line([x, top], [x, bottom], Ink::Guide, 1.0);
        svg.text([x, bottom + 15.0], Anchor::Middle, SMALL_TEXT_SIZE_PX, Ink::Muted, &text);
    }
    if let Some(nothing) = nothing {
        svg.line([scale.position(*nothing), top], [scale.position(*nothing), bottom], Ink::Muted, 1.5);
    }
    for (place, row) in rows.iter().enumerate() {
        let y = top + height * (place as f64 + 0.5);
        svg.group(&row_tooltip(forest, row), |svg| {
            svg.text([names, y + 4.0], Anchor::End, SMALL_TEXT_SIZE_PX, Ink::Text, &name(row));
            svg.text([names + 10.0, y + 4.0], Anchor::Start, SMALL_TEXT_SIZE_PX, Ink::Muted, &note(row));
            for (at, (mark, (shape, ink))) in row.marks.iter().zip(MARK_SHAPES).enumerate() {
                let Some(mark) = mark else { continue };
                let y = y + 6.0 * (at as f64 - (marks.len() as f64 - 1.0) / 2.0);
                if let Some(ci95) = mark.ci95 {
                    svg.line([scale.position(ci95.low()), y], [scale.position(ci95.high()), y], ink, 1.5);
                }
                shape(svg, [scale.position(mark.value), y], ink);
            }
        });
    }
    let mut below = bottom + 20.0;
    if !what.is_empty() {
        below = bottom + 42.0;
        svg.text([left + across / 2.0, bottom + 32.0], Anchor::Middle, SMALL_TEXT_SIZE_PX, Ink::Muted, what);
    }
    svg.into_document([left + across + 24.0, below], &figure.title, &figure.reading)
}

/// Draws a legend that names the marks, from `left` to the right.
fn draw_legend(svg: &mut Svg, marks: &[String], left: f64) {
    let mut x = left;
    for (mark, (shape, ink)) in marks.iter().zip(MARK_SHAPES) {
        shape(svg, [x + 4.0, 10.0], ink);
        svg.text([x + 14.0, 14.0], Anchor::Start, SMALL_TEXT_SIZE_PX, Ink::Text, mark);
        x += text_width(mark, SMALL_TEXT_SIZE_PX) + 28.0;
    }
}

/// Tooltip of a row of a forest plot: its name, note and marks.
fn row_tooltip(forest: &Forest, row: &ForestRow) -> String {
    let mark = |(name, mark): (&String, &Option<Mark>)| {
        mark.map(|mark| format!("{name} {}", number_with_interval(mark, forest.is_in_percent)))
    };
    format!("{} {}: {}", row.name, row.note, forest.marks.iter().zip(&row.marks).filter_map(mark).join(", "))
}

/// Height of the area with curves, in pixels.
const CURVES_HEIGHT_PX: f64 = 300.0;
/// Top end of the area with curves, in pixels.
const CURVES_TOP_PX: f64 = 12.0;

/// Ink and dash pattern of each curve, as (ink, `stroke-dasharray`). Curves for comparison are grey.
const CURVE_STROKES: [(Ink, &str); 4] =
    [(Ink::Accent, ""), (Ink::Second, "7 3"), (Ink::Text, "2 3"), (Ink::Text, "9 3 2 3")];

/// Draws curves over the number of removed heads.
pub fn draw_curves(figure: &Figure, curves: &Curves, medium: Medium) -> String {
    const CURVES_WIDTH_PX: f64 = 560.0;
    const CURVES_LEFT_PX: f64 = 62.0;
    let Curves { x_label: across, y_label: upward, curves } = curves;
    let mut svg = Svg::new(medium);
    let most = curves.iter().map(|curve| curve.points.len()).max().unwrap_or(1).saturating_sub(1);
    let x = Scale::new([0.0, most as f64].into_iter(), [CURVES_LEFT_PX, CURVES_LEFT_PX + CURVES_WIDTH_PX], 8);
    let values = curves.iter().flat_map(|curve| &curve.points).map(|point| point.value);
    let y = Scale::new(values, [CURVES_TOP_PX + CURVES_HEIGHT_PX, CURVES_TOP_PX], 6);
    for (at, text) in y.ticks(false) {
        svg.line([CURVES_LEFT_PX, at], [CURVES_LEFT_PX + CURVES_WIDTH_PX, at], Ink::Guide, 1.0);
        svg.text([CURVES_LEFT_PX - 8.0, at + 4.0], Anchor::End, SMALL_TEXT_SIZE_PX, Ink::Muted, &text);
    }
    for (at, text) in x.ticks(false) {
        svg.text([at, CURVES_TOP_PX + CURVES_HEIGHT_PX + 16.0], Anchor::Middle, SMALL_TEXT_SIZE_PX, Ink::Muted, &text);
    }
    svg.text(
        [CURVES_LEFT_PX + CURVES_WIDTH_PX / 2.0, CURVES_TOP_PX + CURVES_HEIGHT_PX + 34.0],
        Anchor::Middle,
        SMALL_TEXT_SIZE_PX,
        Ink::Muted,
        across,
    );
    let at = |place: usize, value: f64| [x.position(place as f64), y.position(value)];
    let (mut line, mut legend) = (0, CURVES_LEFT_PX + 12.0);
    let (beside, main): (Vec<&Curve>, Vec<&Curve>) = curves.iter().partition(|curve| curve.is_reference);
    for curve in beside.iter().chain(&main) {
        let (ink, dashes) =
            if curve.is_reference { (Ink::Muted, "1 4") } else { CURVE_STROKES[line % CURVE_STROKES.len()] };
        let points: Vec<[f64; 2]> =
            curve.points.iter().enumerate().map(|(place, point)| at(place, point.value)).collect();
        svg.group(&curve.name, |svg| {
            draw_band(svg, curve, ink, &at);
            svg.polyline(&points, ink, if curve.is_reference { 1.2 } else { 2.0 }, dashes);
        });
        line += usize::from(!curve.is_reference);
    }
    for (place, curve) in main.iter().enumerate() {
        let (ink, dashes) = CURVE_STROKES[place % CURVE_STROKES.len()];
        legend = legend_entry(&mut svg, legend, ink, dashes, &curve.name);
    }
    if !beside.is_empty() {
        let names: Vec<&str> = beside.iter().map(|curve| curve.name.as_str()).collect();
        let name = if names.len() > 1 { "at random, each order".to_owned() } else { names.concat() };
        legend_entry(&mut svg, legend, Ink::Muted, "1 4", &name);
    }
    svg.text(
        [CURVES_LEFT_PX, CURVES_TOP_PX + CURVES_HEIGHT_PX + 54.0 + 18.0],
        Anchor::Start,
        SMALL_TEXT_SIZE_PX,
        Ink::Muted,
        upward,
    );
    svg.into_document(
        [CURVES_LEFT_PX + CURVES_WIDTH_PX + 20.0, CURVES_TOP_PX + CURVES_HEIGHT_PX + 80.0],
        &figure.title,
        &figure.reading,
    )
}

/// Draws the intervals of a curve as a band, from the first point that has an interval to the last.
fn draw_band(svg: &mut Svg, curve: &Curve, ink: Ink, at: &impl Fn(usize, f64) -> [f64; 2]) {
    let known = || curve.points.iter().enumerate().filter_map(|(place, point)| Some((place, point.ci95?)));
    if curve.is_reference || known().count() < 2 {
        return;
    }
    let low = known().map(|(place, ci95)| at(place, ci95.low()));
    let high = known().map(|(place, ci95)| at(place, ci95.high()));
    let outline: Vec<[f64; 2]> = low.chain(high.collect::<Vec<_>>().into_iter().rev()).collect();
    svg.polygon(&outline, ink, 0.15);
}

/// Draws a legend entry at `x`; returns the x at which the next one begins.
fn legend_entry(svg: &mut Svg, x: f64, ink: Ink, dashes: &str, name: &str) -> f64 {
    let y = CURVES_TOP_PX + CURVES_HEIGHT_PX + 50.0;
    svg.polyline(&[[x, y], [x + 26.0, y]], ink, 2.0, dashes);
    svg.text([x + 32.0, y + 4.0], Anchor::Start, SMALL_TEXT_SIZE_PX, Ink::Text, name);
    x + 32.0 + text_width(name, SMALL_TEXT_SIZE_PX) + 18.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_hold_all_numbers() {
        let shown = |numbers: &[f64]| -> Vec<String> {
            let scale = Scale::new(numbers.iter().copied(), [0.0, 100.0], 5);
            scale.ticks(false).into_iter().map(|(_, text)| text).collect()
        };
        assert_eq!(shown(&[0.02, 0.97]), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(shown(&[-0.013, 0.02]), ["-0.02", "-0.01", "0.00", "0.01", "0.02"]);
        assert_eq!(shown(&[f64::NAN]), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(shown(&[3.0, 3.0]).first().map(String::as_str), Some("2.4"));
        let scale = Scale::new([0.0, 1.0].into_iter(), [10.0, 20.0], 5);
        assert_eq!([0.0, 0.5, 1.0].map(|number| scale.position(number)), [10.0, 15.0, 20.0]);
    }
}
