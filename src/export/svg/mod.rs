//! Writer of SVG shapes and texts; equal figures give equal bytes.

use std::fmt::Write;

use itertools::Itertools;

use super::palette::Ink;
use crate::system::printable::escape_controls;

/// Place where a figure is shown, which decides its colours and its width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// A separate file, such as for a paper: literal colours on a white background.
    StandaloneFile,
    /// The page, which has the colours of both themes.
    Page,
    /// The card of a head on the page. A figure there is as narrow as a phone's screen.
    Card,
}

/// Part of a text that lies at the given x coordinate: its start, middle or end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

/// Font size of texts, in pixels.
pub const TEXT_SIZE_PX: f64 = 12.0;
/// Font size of small texts, in pixels.
pub const SMALL_TEXT_SIZE_PX: f64 = 10.5;

pub struct Svg {
    medium: Medium,
    body: String,
    /// Bounding box of all texts in the figure.
    text_extent: TextExtent,
}

impl Svg {
    pub fn new(medium: Medium) -> Self {
        Self { medium, body: String::new(), text_extent: TextExtent::NONE }
    }

    /// Returns the SVG document with the size `[width, height]` in pixels, or larger if a text reaches beyond.
    /// `title` and `text` describe the document to screen readers.
    pub fn into_document(self, size: [f64; 2], title: &str, text: &str) -> String {
        let [left, top, width, height] = self.text_extent.view_box(size).map(format_length);
        let (title, text) = (escape_text(title), escape_text(text));
        let head = match self.medium {
            Medium::StandaloneFile => format!(
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"{left} {top} {width} \
                 {height}\" font-family=\"sans-serif\">\n<title>{title}</title>\n<desc>{text}</desc>\n<rect x=\"{left}\" y=\"{top}\" \
                 width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n",
            ),
            Medium::Page | Medium::Card => format!(
                "<svg role=\"img\" width=\"{width}\" viewBox=\"{left} {top} {width} {height}\" aria-label=\"{title}\">\n\
                 <desc>{text}</desc>\n",
            ),
        };
        format!("{head}{}</svg>\n", self.body)
    }

    /// Adds a line of SVG markup.
    fn add_markup(&mut self, line: std::fmt::Arguments<'_>) {
        self.body.write_fmt(line).expect("writing to a string does not fail");
        self.body.push('\n');
    }

    /// Colour of an ink: a hex colour in a file, a variable of the style sheet on a page.
    fn ink_colour(&self, ink: Ink) -> String {
        match self.medium {
            Medium::StandaloneFile => ink.colours()[0].to_owned(),
            Medium::Page | Medium::Card => format!("var(--{})", ink.name()),
        }
    }

    pub fn rect(&mut self, [x, y]: [f64; 2], [width, height]: [f64; 2], fill: Ink) {
        let fill = self.ink_colour(fill);
        let [x, y, width, height] = [x, y, width, height].map(format_length);
        self.add_markup(format_args!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{fill}\"/>"
        ));
    }

    pub fn line(&mut self, from: [f64; 2], to: [f64; 2], stroke: Ink, width: f64) {
        let stroke = self.ink_colour(stroke);
        let ([x1, y1], [x2, y2], width) = (from.map(format_length), to.map(format_length), format_length(width));
        self.add_markup(format_args!(
            "<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" stroke=\"{stroke}\" stroke-width=\"{width}\"/>"
        ));
    }

    pub fn polyline(&mut self, points: &[[f64; 2]], stroke: Ink, width: f64, dashes: &str) {
        self.stroke(format_args!("polyline points=\"{}\"", point_list(points)), stroke, width, dashes);
    }

    fn stroke(&mut self, shape: std::fmt::Arguments<'_>, stroke: Ink, width: f64, dashes: &str) {
        let (stroke, width) = (self.ink_colour(stroke), format_length(width));
        let dashes = if dashes.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{dashes}\"") };
        self.add_markup(format_args!("<{shape} fill=\"none\" stroke=\"{stroke}\" stroke-width=\"{width}\"{dashes}/>"));
    }

    /// Adds a filled polygon with this opacity, 0 to 1.
    pub fn polygon(&mut self, points: &[[f64; 2]], fill: Ink, opacity: f64) {
        let (fill, points) = (self.ink_colour(fill), point_list(points));
        let opacity =
            if opacity < 1.0 { format!(" fill-opacity=\"{}\"", format_length(opacity)) } else { String::new() };
        self.add_markup(format_args!("<polygon points=\"{points}\" fill=\"{fill}\"{opacity}/>"));
    }

    /// Adds a curve from one point to another, bent towards `bend`. It is solid if `dashes` is empty.
    pub fn curve(&mut self, [from, bend, to]: [[f64; 2]; 3], stroke: Ink, width: f64, dashes: &str) {
        let ([x1, y1], [xb, yb], [x2, y2]) = (from.map(format_length), bend.map(format_length), to.map(format_length));
        self.path(&format!("M{x1} {y1}Q{xb} {yb} {x2} {y2}"), stroke, width, dashes);
    }

    /// Adds a stroked path in SVG's path syntax, unless it is empty. The stroke is solid if `dashes` is empty.
    pub fn path(&mut self, path: &str, stroke: Ink, width: f64, dashes: &str) {
        if !path.is_empty() {
            self.stroke(format_args!("path d=\"{path}\""), stroke, width, dashes);
        }
    }

    /// Adds texts on one line, each as (x of its middle, text); `y` is their base line.
    pub fn centred_texts(&mut self, words: &[(f64, String)], y: f64, size: f64, ink: Ink) {
        let fill = self.ink_colour(ink);
        for (x, text) in words {
            let width = text_width(&escape_controls(text), size);
            self.text_extent.add_text([x - width / 2.0, y], width, size);
        }
        let word =
            |(x, text): &(f64, String)| format!("<tspan x=\"{}\">{}</tspan>", format_length(*x), escape_text(text));
        let words: String = words.iter().map(word).collect();
        let [y, size] = [y, size].map(format_length);
        self.add_markup(format_args!(
            "<text y=\"{y}\" font-size=\"{size}\" fill=\"{fill}\" text-anchor=\"middle\">{words}</text>"
        ));
    }

    pub fn circle(&mut self, [x, y]: [f64; 2], radius: f64, fill: Ink, stroke: Ink) {
        let (fill, stroke) = (self.ink_colour(fill), self.ink_colour(stroke));
        let [x, y, radius] = [x, y, radius].map(format_length);
        self.add_markup(format_args!(
            "<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\" fill=\"{fill}\" stroke=\"{stroke}\" stroke-width=\"1.5\"/>"
        ));
    }

    /// Adds a text on one line; `y` is its base line.
    pub fn text(&mut self, [x, y]: [f64; 2], anchor: Anchor, size: f64, ink: Ink, text: &str) {
        let width = text_width(&escape_controls(text), size);
        let (share_before, anchor) = match anchor {
            Anchor::Start => (0.0, ""),
            Anchor::Middle => (0.5, " text-anchor=\"middle\""),
            Anchor::End => (1.0, " text-anchor=\"end\""),
        };
        self.text_extent.add_text([x - share_before * width, y], width, size);
        let (fill, text) = (self.ink_colour(ink), escape_text(text));
        let [x, y, size] = [x, y, size].map(format_length);
        self.add_markup(format_args!(
            "<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\" fill=\"{fill}\"{anchor}>{text}</text>"
        ));
    }

    /// Draws a group of shapes with `title` as its tooltip.
    pub fn group(&mut self, title: &str, draw: impl FnOnce(&mut Self)) {
        let title = escape_text(title);
        self.add_markup(format_args!("<g><title>{title}</title>"));
        draw(self);
        self.add_markup(format_args!("</g>"));
    }
}

/// Formats points for the attribute `points`: `x,y x,y`.
fn point_list(points: &[[f64; 2]]) -> String {
    points.iter().map(|point| point.map(format_length).join(",")).join(" ")
}

/// Formats a length with at most two decimals. An infinite one, which no figure has, is 0.
fn format_length(value: f64) -> String {
    let rounded = (value * 100.0).round() / 100.0;
    // Minus zero is zero.
    if rounded.is_finite() { format!("{}", rounded + 0.0) } else { "0".to_owned() }
}

/// Escapes foreign text, so that no browser, editor or terminal interprets it.
pub fn escape_text(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in escape_controls(text).chars() {
        match c {
            '&' => shown.push_str("&amp;"),
            '<' => shown.push_str("&lt;"),
            '>' => shown.push_str("&gt;"),
            '"' => shown.push_str("&quot;"),
            '\'' => shown.push_str("&#39;"),
            _ => shown.push(c),
        }
    }
    shown
}

/// Cuts a text of more than `most` characters to its beginning, followed by an ellipsis.
pub fn truncate_text(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

/// The advance widths of the characters from U+0020 to U+007E in thousandths of the font's size, in `DejaVu` Sans 2.37
/// (its table `hmtx`), which is the `sans-serif` of most Linux systems.
/// The widths of Arial, Helvetica, Liberation Sans, Roboto and Segoe UI are smaller.
///
/// The font of the viewer is unknown. With the widest of the common fonts, texts are at most as wide as estimated.
#[rustfmt::skip]
const ADVANCE_WIDTHS: [u16; 95] = [
    318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337, 636, 636, 636, 636, 636, 636, 636, 636,
    636, 636, 337, 337, 838, 838, 838, 531, 1000, 684, 686, 698, 770, 632, 575, 775, 752, 295, 295, 656, 557, 863, 748, 787,
    603, 787, 695, 635, 611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838, 500, 500, 613, 635, 550, 635, 615, 352, 635,
    634, 278, 278, 579, 278, 974, 634, 612, 635, 635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838,
];

/// Extent of letters above the base line, as a share of the font's size: `ascent` of `DejaVu` Sans (its table `hhea`).
const ASCENT: f64 = 0.928;
/// Extent of letters below the base line, as a share of the font's size: `descent` of `DejaVu` Sans (its table `hhea`).
const DESCENT: f64 = 0.236;

/// Estimates the width of a text on one line, in pixels.
pub fn text_width(text: &str, size: f64) -> f64 {
    let of_letter = |c: char| match u32::from(c) {
        code @ 0x20..=0x7e => f64::from(ADVANCE_WIDTHS[code as usize - 0x20]) / 1000.0,
        // Dashes, ellipses, arrows; the widest letters of Latin, Greek and Cyrillic.
        0x7f..0x1100 | 0x2000..0x2e80 => 1.0,
        // Pictures, in the fonts that have them.
        0x1f000.. => 1.3,
        // Scripts whose letters have a whole em.
        _ => 1.05,
    };
    text.chars().map(of_letter).sum::<f64>() * size
}

/// Margin left and right of texts in a figure, in pixels.
const TEXT_MARGIN_PX: f64 = 4.0;

/// Smallest box around the texts of a figure: its left, top, right and bottom end.
#[derive(Clone, Copy)]
pub(super) struct TextExtent([f64; 4]);

impl TextExtent {
    /// Box around no text.
    pub(super) const NONE: Self = Self([f64::INFINITY, f64::INFINITY, f64::NEG_INFINITY, f64::NEG_INFINITY]);

    /// Extends the box by a text of this width whose base line begins at `[left, base]`.
    pub(super) fn add_text(&mut self, [left, base]: [f64; 2], width: f64, size: f64) {
        // A place that is infinite is drawn as 0.
        if !(left.is_finite() && base.is_finite()) {
            return;
        }
        let Self([x1, y1, x2, y2]) = *self;
        self.0 = [x1.min(left), y1.min(base - ASCENT * size), x2.max(left + width), y2.max(base + DESCENT * size)];
    }

    /// View box of a figure, `[left, top, width, height]`, which has at least this size and contains all texts.
    pub(super) fn view_box(self, [width, height]: [f64; 2]) -> [f64; 4] {
        let Self([x1, y1, x2, y2]) = self;
        let [left, top] = [x1 - TEXT_MARGIN_PX, y1].map(|end| end.floor().min(0.0));
        [left, top, (x2 + TEXT_MARGIN_PX).ceil().max(width) - left, y2.ceil().max(height) - top]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_short_and_finite() {
        let shown = [0.0, -0.001, 1.0, 1.234, 1.236, 1e3, f64::NAN, f64::INFINITY].map(format_length);
        assert_eq!(shown, ["0", "0", "1", "1.23", "1.24", "1000", "0", "0"]);
    }

    #[test]
    fn text_from_elsewhere_is_text() {
        assert_eq!(escape_text("<b a=\"'&\u{202e}\n\u{1b}"), "&lt;b a=&quot;&#39;&amp;\\u{202e}\n\\u{1b}");
        let mut svg = Svg::new(Medium::StandaloneFile);
        svg.group("</title><script>", |svg| svg.text([1.0, 2.5], Anchor::End, TEXT_SIZE_PX, Ink::Text, "]]>&"));
        let text = svg.into_document([10.0, 20.0], "a<b", "c");
        assert!(text.contains("<title>&lt;/title&gt;&lt;script&gt;</title>"), "{text}");
        assert!(text.contains(r#"text-anchor="end">]]&gt;&amp;</text>"#), "{text}");
        assert!(!text.contains("var("), "a figure alone has its colours in it");
    }

    #[test]
    fn long_texts_are_cut() {
        assert_eq!((truncate_text("abc", 3), truncate_text("abcd", 3)), ("abc".to_owned(), "ab…".to_owned()));
    }

    #[test]
    fn widths_are_those_of_the_letters() {
        // L .557, 0 .636 twice, H .752.
        assert!((text_width("L0H0", 10.0) - 25.81).abs() < 1e-9);
        assert_eq!((text_width("", 12.0), text_width("…", 12.0)), (0.0, 12.0));
        assert!(text_width("猫", 10.0) >= 10.0 && text_width("\u{1f408}", 10.0) > 10.0);
    }

    #[test]
    fn a_figure_has_room_for_its_texts() {
        assert_eq!(TextExtent::NONE.view_box([10.0, 20.0]), [0.0, 0.0, 10.0, 20.0]);
        let mut extent = TextExtent::NONE;
        extent.add_text([4.0, 12.0], 5.0, 10.0);
        assert_eq!(extent.view_box([13.0, 20.0]), [0.0, 0.0, 13.0, 20.0], "what fits changes nothing");
        // From -7.2 to 20.8, and from 2 - 9.28 to 12 + 2.36.
        extent.add_text([-3.2, 2.0], 20.0, 10.0);
        assert_eq!(extent.view_box([10.0, 12.0]), [-8.0, -8.0, 29.0, 23.0]);
    }
}
