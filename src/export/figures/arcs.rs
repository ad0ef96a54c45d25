//! Sentences with arcs from each word to where its attention goes.

use itertools::Itertools;

use crate::export::palette::Ink;
use crate::export::svg::{Anchor, Medium, SMALL_TEXT_SIZE_PX, Svg, TEXT_SIZE_PX, text_width, truncate_text};
use crate::study::show::figure::{Arc, ArcMatch, ArcSentence, Arcs};

/// Maximum number of characters of a word; longer words are cut.
const MAX_WORD_CHARACTERS: usize = 14;
/// Horizontal space between words, in pixels.
const WORD_GAP_PX: f64 = 9.0;
/// Vertical space under the words, in pixels.
const SPACE_BELOW_PX: f64 = 8.0;
/// Height of a sentence's heading, which stands above the words, in pixels.
const HEADING_HEIGHT_PX: f64 = 16.0;

/// Ink and dash pattern of each [`ArcMatch`], in the order of drawing.
const MATCH_STYLES: [(ArcMatch, Ink, &str); 3] =
    [(ArcMatch::Neutral, Ink::Muted, ""), (ArcMatch::Wrong, Ink::Second, "4 3"), (ArcMatch::Right, Ink::Accent, "")];

/// Stroke widths of arcs in pixels, each as (minimum weight of the arc, width), the largest weight first.
const WEIGHT_STROKE_WIDTHS: [(f64, f64); 3] = [(0.5, 2.6), (0.2, 1.6), (0.0, 0.8)];

/// Draws sentences one below the other, with a title and a guide to reading them.
pub fn draw_sentences([title, reading]: [&str; 2], arcs: &Arcs, medium: Medium) -> String {
    let mut svg = Svg::new(medium);
    let (mut width, mut y) = (240.0_f64, 0.0);
    for sentence in &arcs.sentences {
        let [right, bottom] = draw_sentence(&mut svg, sentence, y);
        (width, y) = (width.max(right), bottom + 14.0);
    }
    let words = arcs.sentences.iter().map(describe_arcs).join(" ");
    // On the page the reading stands beside the figure.
    let reading = if medium == Medium::StandaloneFile { format!("{reading} ") } else { String::new() };
    svg.into_document([width, y], title, &(reading + &words))
}

/// Draws a sentence from `top` downwards; returns its right and bottom end in pixels, `[right, bottom]`.
fn draw_sentence(svg: &mut Svg, sentence: &ArcSentence, top: f64) -> [f64; 2] {
    let ArcSentence { caption: about, units, arcs, gold } = sentence;
    let texts: Vec<String> = units.iter().map(|unit| truncate_text(unit, MAX_WORD_CHARACTERS)).collect();
    let mut right = 4.0;
    let middles: Vec<f64> = texts
        .iter()
        .map(|text| {
            let (left, width) = (right, text_width(text, TEXT_SIZE_PX));
            right += width + WORD_GAP_PX;
            (left + width / 2.0).round()
        })
        .collect();
    let highest = arcs.iter().map(|arc| arc_height(arc.from, arc.to)).fold(0.0, f64::max);
    let base = top + HEADING_HEIGHT_PX + 8.0 + highest + TEXT_SIZE_PX;
    svg.text([4.0, top + 12.0], Anchor::Start, SMALL_TEXT_SIZE_PX, Ink::Muted, about);
    for (stand, ink, dashes) in MATCH_STYLES {
        for (place, (least, width)) in WEIGHT_STROKE_WIDTHS.into_iter().enumerate() {
            let heavier = |weight: f64| WEIGHT_STROKE_WIDTHS[..place].iter().any(|(other, _)| weight >= *other);
            let drawn = arcs.iter().filter(|arc| arc.outcome == stand && arc.weight >= least && !heavier(arc.weight));
            let path: String =
                drawn.map(|arc| arc_path(&middles, [arc.from, arc.to], base - TEXT_SIZE_PX, -1.0)).collect();
            svg.path(&path, ink, width, dashes);
        }
    }
    svg.centred_texts(&middles.iter().copied().zip(texts).collect::<Vec<_>>(), base, TEXT_SIZE_PX, Ink::Text);
    let under: String = gold.iter().map(|&ends| arc_path(&middles, ends, base + SPACE_BELOW_PX, 1.0)).collect();
    svg.path(&under, Ink::Muted, 1.2, "2 2");
    let deepest = gold.iter().map(|&[from, to]| arc_height(from, to)).fold(0.0, f64::max);
    [right.max(8.0 + text_width(about, SMALL_TEXT_SIZE_PX)), base + SPACE_BELOW_PX + deepest]
}

/// Height of an arc between two words, in pixels; it grows with their distance.
fn arc_height(from: usize, to: usize) -> f64 {
    8.0 + 9.0 * (from.abs_diff(to).max(1) as f64).powf(0.7)
}

/// SVG path of an arc between the middles of two words, above (-1) or below (1) a base line, with an arrow at its end.
fn arc_path(middles: &[f64], [from, to]: [usize; 2], base: f64, side: f64) -> String {
    // Shifted, so that incoming and outgoing arcs of a word do not meet.
    let aside = if to > from { 3.0 } else { -3.0 };
    let (start, end) = (middles[from] + aside, middles[to] - aside);
    // A cubic curve reaches three quarters of the way to its control points.
    let bend = base + side * arc_height(from, to) / 0.75;
    let (base, bend, tip) = (base.round(), bend.round(), 4.0 * side);
    // The attention of a word to itself is a loop.
    let (left, right) = if from == to { (start - 9.0, end + 9.0) } else { (start, end) };
    format!("M{start} {base}C{left} {bend} {right} {bend} {end} {base}m-3 {tip} 3 {0} 3 {tip}", -tip)
}

/// Text on a sentence's arcs for screen readers: the strongest ones and, if there are many, how many are as expected.
fn describe_arcs(sentence: &ArcSentence) -> String {
    /// Maximum number of arcs that the text describes one by one.
    const MAX_DESCRIBED_ARCS: usize = 6;
    let ArcSentence { caption: about, units, arcs, .. } = sentence;
    let expected = arcs.iter().filter(|arc| arc.outcome == ArcMatch::Right).count();
    let is_counted = arcs.len() > MAX_DESCRIBED_ARCS && expected > 0;
    let listed = arcs.iter().filter(|arc| !is_counted || arc.outcome != ArcMatch::Right);
    let listed = listed.sorted_by(|a, b| b.weight.total_cmp(&a.weight));
    let arc = |Arc { from, to, weight, outcome: stand }: &Arc| {
        let note = if *stand == ArcMatch::Wrong { ", not as expected" } else { "" };
        format!("{} to {} {weight:.2}{note}", units[*from], units[*to])
    };
    let counted = is_counted.then(|| format!("{expected} of {} as expected", arcs.len()));
    let parts = counted.into_iter().chain(listed.take(MAX_DESCRIBED_ARCS).map(arc)).join("; ");
    format!("{about}: {parts}.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentence(arcs: &[(usize, usize, f64, ArcMatch)]) -> ArcSentence {
        let arcs = arcs.iter().map(|&(from, to, weight, stand)| Arc { from, to, weight, outcome: stand }).collect();
        let units = (0..9).map(|unit| format!("w{unit}")).collect();
        ArcSentence { caption: "typical".to_owned(), units, arcs, gold: vec![[0, 1]] }
    }

    #[test]
    fn arcs_are_drawn_by_stand_and_weight() {
        let arcs = [(0, 2, 0.9, ArcMatch::Right), (1, 0, 0.3, ArcMatch::Wrong), (3, 3, 0.1, ArcMatch::Neutral)];
        let arcs = Arcs { sentences: vec![sentence(&arcs)] };
        let svg = draw_sentences(["title", "reading"], &arcs, Medium::StandaloneFile);
        for (ink, line) in [(Ink::Accent, "2.6"), (Ink::Second, "1.6"), (Ink::Muted, "0.8")] {
            let line = format!("stroke=\"{}\" stroke-width=\"{line}\"", ink.colours()[0]);
            assert_eq!(svg.matches(&line).count(), 1, "{line}");
        }
        assert!(
            svg.contains("<desc>reading typical: w0 to w2 0.90; w1 to w0 0.30, not as expected; w3 to w3 0.10.</desc>")
        );
        assert!(!draw_sentences(["title", "reading"], &arcs, Medium::Page).contains("<desc>reading"));
        assert_eq!(svg.matches("<tspan").count(), 9);
    }

    #[test]
    fn an_arc_ends_with_an_arrow_where_it_goes() {
        let middles = [10.0, 50.0];
        assert_eq!(arc_path(&middles, [0, 1], 100.0, -1.0), "M13 100C13 77 47 77 47 100m-3 -4 3 4 3 -4");
        assert_eq!(arc_path(&middles, [1, 0], 100.0, -1.0), "M47 100C47 77 13 77 13 100m-3 -4 3 4 3 -4");
        assert_eq!(arc_path(&middles, [0, 1], 100.0, 1.0), "M13 100C13 123 47 123 47 100m-3 4 3 -4 3 4");
        assert_eq!(arc_path(&middles, [1, 1], 100.0, -1.0), "M47 100C38 77 62 77 53 100m-3 -4 3 4 3 -4");
    }

    #[test]
    fn of_many_arcs_those_as_expected_are_counted() {
        let many: Vec<_> =
            (0..8).map(|unit| (unit, 8, 0.5, if unit < 6 { ArcMatch::Right } else { ArcMatch::Wrong })).collect();
        let words = describe_arcs(&sentence(&many));
        let expected = "typical: 6 of 8 as expected; w6 to w8 0.50, not as expected; w7 to w8 0.50, not as expected.";
        assert_eq!(words, expected);
    }
}
