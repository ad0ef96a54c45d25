//! A writer of SVG: shapes and text, with the same bytes for the same figure.

mod letters;

use std::fmt::Write;

use super::palette::Ink;
use crate::system::printable::printable;
use letters::Extent;

pub use letters::width_of;

/// The medium of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// Alone, for a paper: its colours are in it, on white.
    Alone,
    /// The page, which has the colours of both themes.
    Page,
    /// The card of a head on the page, which is as narrow as a phone.
    Card,
}

/// The anchor of a text at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// It begins there.
    Start,
    /// Its middle is there.
    Middle,
    /// It ends there.
    End,
}

/// The ordinary size of letters, in pixels.
pub const TEXT: f64 = 12.0;

/// The small size of letters.
pub const SMALL: f64 = 10.5;

/// A figure that is being drawn.
pub struct Svg {
    medium: Medium,
    body: String,
    /// The room that its texts take.
    texts: Extent,
}

impl Svg {
    /// An empty one.
    pub fn new(medium: Medium) -> Self {
        Self { medium, body: String::new(), texts: Extent::NONE }
    }

    /// The document, `width` by `height` pixels, or larger where a text reaches beyond that; `title` is its name to those who cannot see
    /// it, `text` what it shows.
    pub fn finish(self, size: [f64; 2], title: &str, text: &str) -> String {
        let [left, top, width, height] = self.texts.within(size).map(number);
        let (title, text) = (escaped(title), escaped(text));
        let head = match self.medium {
            Medium::Alone => format!(
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

    fn add(&mut self, line: std::fmt::Arguments<'_>) {
        self.body.write_fmt(line).expect("writing to a string does not fail");
        self.body.push('\n');
    }

    fn colour(&self, ink: Ink) -> String {
        match self.medium {
            Medium::Alone => ink.light().to_owned(),
            Medium::Page | Medium::Card => format!("var(--{})", ink.name()),
        }
    }

    /// A filled rectangle.
    pub fn rect(&mut self, [x, y]: [f64; 2], [width, height]: [f64; 2], fill: Ink) {
        let fill = self.colour(fill);
        let [x, y, width, height] = [x, y, width, height].map(number);
        self.add(format_args!("<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{fill}\"/>"));
    }

    /// A line of this width in pixels.
    pub fn line(&mut self, from: [f64; 2], to: [f64; 2], stroke: Ink, width: f64) {
        let stroke = self.colour(stroke);
        let ([x1, y1], [x2, y2], width) = (from.map(number), to.map(number), number(width));
        self.add(format_args!(
            "<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" stroke=\"{stroke}\" stroke-width=\"{width}\"/>"
        ));
    }

    /// A line through points, dashed or not.
    pub fn polyline(&mut self, points: &[[f64; 2]], stroke: Ink, width: f64, dashes: &str) {
        let (stroke, points, width) = (self.colour(stroke), joined(points), number(width));
        let dashes = if dashes.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{dashes}\"") };
        self.add(format_args!(
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{stroke}\" stroke-width=\"{width}\"{dashes}/>"
        ));
    }

    /// A filled shape through points, so far opaque.
    pub fn polygon(&mut self, points: &[[f64; 2]], fill: Ink, opacity: f64) {
        let (fill, points) = (self.colour(fill), joined(points));
        let opacity = if opacity < 1.0 { format!(" fill-opacity=\"{}\"", number(opacity)) } else { String::new() };
        self.add(format_args!("<polygon points=\"{points}\" fill=\"{fill}\"{opacity}/>"));
    }

    /// A curve from one point to another, bent towards `bend`, dashed or not.
    pub fn curve(&mut self, [from, bend, to]: [[f64; 2]; 3], stroke: Ink, width: f64, dashes: &str) {
        let ([x1, y1], [xb, yb], [x2, y2]) = (from.map(number), bend.map(number), to.map(number));
        self.path(&format!("M{x1} {y1}Q{xb} {yb} {x2} {y2}"), stroke, width, dashes);
    }

    /// A line along a path that SVG has a language for, dashed or not; nothing of an empty one.
    pub fn path(&mut self, path: &str, stroke: Ink, width: f64, dashes: &str) {
        if path.is_empty() {
            return;
        }
        let (stroke, width) = (self.colour(stroke), number(width));
        let dashes = if dashes.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{dashes}\"") };
        self.add(format_args!(
            "<path d=\"{path}\" fill=\"none\" stroke=\"{stroke}\" stroke-width=\"{width}\"{dashes}/>"
        ));
    }

    /// Texts on one line, each with its middle at a place; `y` is their base line.
    pub fn words(&mut self, words: &[(f64, String)], y: f64, size: f64, ink: Ink) {
        let fill = self.colour(ink);
        for (x, text) in words {
            let width = width_of(&printable(text), size);
            self.texts.add([x - width / 2.0, y], width, size);
        }
        let word = |(x, text): &(f64, String)| format!("<tspan x=\"{}\">{}</tspan>", number(*x), escaped(text));
        let words: String = words.iter().map(word).collect();
        let [y, size] = [y, size].map(number);
        self.add(format_args!(
            "<text y=\"{y}\" font-size=\"{size}\" fill=\"{fill}\" text-anchor=\"middle\">{words}</text>"
        ));
    }

    /// A circle, filled with one ink and drawn with another.
    pub fn circle(&mut self, [x, y]: [f64; 2], radius: f64, fill: Ink, stroke: Ink) {
        let (fill, stroke) = (self.colour(fill), self.colour(stroke));
        let [x, y, radius] = [x, y, radius].map(number);
        self.add(format_args!(
            "<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\" fill=\"{fill}\" stroke=\"{stroke}\" stroke-width=\"1.5\"/>"
        ));
    }

    /// A text on one line; `y` is its base line.
    pub fn text(&mut self, [x, y]: [f64; 2], anchor: Anchor, size: f64, ink: Ink, text: &str) {
        let width = width_of(&printable(text), size);
        let before = match anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => width / 2.0,
            Anchor::End => width,
        };
        self.texts.add([x - before, y], width, size);
        let (fill, text) = (self.colour(ink), escaped(text));
        let [x, y, size] = [x, y, size].map(number);
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        self.add(format_args!("<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\" fill=\"{fill}\"{anchor}>{text}</text>"));
    }

    /// Draws a group with a text of its own as its tooltip.
    pub fn group(&mut self, title: &str, draw: impl FnOnce(&mut Self)) {
        let title = escaped(title);
        self.add(format_args!("<g><title>{title}</title>"));
        draw(self);
        self.add(format_args!("</g>"));
    }
}

/// Points as SVG lists them.
fn joined(points: &[[f64; 2]]) -> String {
    points.iter().map(|point| point.map(number).join(",")).collect::<Vec<_>>().join(" ")
}

/// A length with at most two decimals. An infinite one, which no figure has, is 0.
fn number(value: f64) -> String {
    let rounded = (value * 100.0).round() / 100.0;
    // Minus zero is zero.
    if rounded.is_finite() { format!("{}", rounded + 0.0) } else { "0".to_owned() }
}

/// Foreign text, escaped: no browser, editor or reader of the source obeys any of it.
pub fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in printable(text).chars() {
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

/// The text, or its beginning where it has more than `most` characters.
pub fn clipped(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_short_and_finite() {
        let shown = [0.0, -0.001, 1.0, 1.234, 1.236, 1e3, f64::NAN, f64::INFINITY].map(number);
        assert_eq!(shown, ["0", "0", "1", "1.23", "1.24", "1000", "0", "0"]);
    }

    #[test]
    fn text_from_elsewhere_is_text() {
        assert_eq!(escaped("<b a=\"'&\u{202e}\n\u{1b}"), "&lt;b a=&quot;&#39;&amp;\\u{202e}\n\\u{1b}");
        let mut svg = Svg::new(Medium::Alone);
        svg.group("</title><script>", |svg| svg.text([1.0, 2.5], Anchor::End, TEXT, Ink::Text, "]]>&"));
        let text = svg.finish([10.0, 20.0], "a<b", "c");
        assert!(text.contains("<title>&lt;/title&gt;&lt;script&gt;</title>"), "{text}");
        assert!(text.contains(r#"text-anchor="end">]]&gt;&amp;</text>"#), "{text}");
        assert!(!text.contains("var("), "a figure alone has its colours in it");
    }

    #[test]
    fn long_texts_are_cut() {
        assert_eq!((clipped("abc", 3), clipped("abcd", 3)), ("abc".to_owned(), "ab…".to_owned()));
    }
}
