//! Heads, labels and numbers as figures and pages show them.

use std::collections::BTreeMap;

use itertools::Itertools;

use super::palette::Hue;
use crate::model::grid::HeadPlace;
use crate::report::{HeadReport, Report};
use crate::stats::interval::Interval;
use crate::studies::registry;
use crate::study::labels::{
    ABSENT, ABSENT_LEGEND_ENTRY, Detector, REMOVED, REMOVED_LEGEND_ENTRY, UNLABELLED, UNLABELLED_LEGEND_ENTRY,
};
use crate::study::section::HeadCard;
use crate::study::show::figure::Mark;
use crate::study::show::wording::decimal;

/// A head as a grid shows it: code and marks of its first label, its colour, and a tooltip.
pub struct HeadCell {
    /// Code of the head's first label, a few letters.
    pub code: String,
    /// Marks after the code, such as the mark of a borderline label ([`Report::head_marks`]).
    pub marks: String,
    pub hue: Hue,
    /// Text of the tooltip: the place of the head, and its labels.
    pub tooltip: String,
}

/// A label as a grid shows it: code, colour and label family.
pub struct GridLabel {
    pub code: String,
    pub hue: Hue,
    /// Label family: `offset:k` for `offset:-2`.
    pub family: String,
}

/// Code, colour and family of a label. A label that this version does not know is its own code and family.
pub fn grid_label(label: &str) -> GridLabel {
    let from_detector = |detector: &Detector| GridLabel {
        code: detector.code_of_label(label).into_owned(),
        hue: Hue::from_ansi(detector.style.colour),
        family: detector.explanation.name.to_owned(),
    };
    let unknown = || {
        let signs =
            [(UNLABELLED, UNLABELLED_LEGEND_ENTRY), (ABSENT, ABSENT_LEGEND_ENTRY), (REMOVED, REMOVED_LEGEND_ENTRY)];
        let code = signs.iter().find(|(name, _)| *name == label).map_or(label, |(_, [sign, _])| sign);
        GridLabel { code: code.to_owned(), hue: Hue::Grey, family: label.to_owned() }
    };
    registry::detector_of_label(label).map_or_else(unknown, from_detector)
}

impl HeadCell {
    pub fn new(report: &Report, head: &HeadReport) -> Self {
        let GridLabel { mut code, hue, .. } = grid_label(&head.primary);
        if let Some([sign, _]) = head.unlabelled_legend_entry() {
            sign.clone_into(&mut code);
        }
        let qualifications = [
            (head.labels.first().is_some_and(|label| label.borderline), ", borderline"),
            (head.is_undecided(), ", undecided"),
            (head.labels.iter().any(|label| label.tied), ", tied"),
            (report.writes_constant(head), ", writes a constant"),
        ];
        let qualifications: String = qualifications.iter().filter(|(holds, _)| *holds).map(|(_, text)| *text).collect();
        let mut words = format!("{}: {}{qualifications}", head.place, head.primary);
        if head.labels.len() > 1 {
            words = format!("{words}; also {}", head.labels.iter().skip(1).map(|label| &label.label).join(", "));
        }
        Self { code, marks: report.head_marks(head), hue, tooltip: words }
    }
}

/// A label family with the number of heads that have its labels.
pub struct LabelFamily {
    /// Name of the label family, as its detector has it.
    pub name: String,
    /// Code that stands for the family's labels in the grid. `None` if the labels have different codes, or if the code equals
    /// `name`.
    pub code: Option<String>,
    pub hue: Hue,
    /// Sentence that says what a label of this family means.
    pub meaning: &'static str,
    /// Number of heads whose first label is in the family.
    pub primary_count: usize,
    /// Number of heads in each layer that have a label of this family, as their first or a further label.
    pub heads_by_layer: Vec<usize>,
}

/// Label families that some head has, in the order of the detectors; then unknown ones, then entries for heads without a label.
pub fn label_families(report: &Report) -> Vec<LabelFamily> {
    let order: BTreeMap<&str, usize> =
        registry::detectors().enumerate().map(|(place, detector)| (detector.explanation.name, place)).collect();
    let mut found: BTreeMap<(usize, String), LabelFamily> = BTreeMap::new();
    for head in &report.heads {
        let labels = head.labels.iter().map(|label| label.label.as_str());
        let none = head.labels.is_empty().then_some(&*head.primary);
        let mut seen = Vec::new();
        for label in labels.chain(none) {
            let GridLabel { code, hue, family } = grid_label(label);
            let place = order.get(family.as_str()).copied();
            let without = [UNLABELLED, ABSENT, REMOVED].iter().position(|none| *none == label);
            let place = place.unwrap_or(order.len() + without.map_or(0, |place| place + 1));
            let entry = found.entry((place, family.clone())).or_insert_with(|| LabelFamily {
                code: None,
                hue,
                meaning: registry::find_entry(label).map_or("", |entry| entry.explanation.measures),
                primary_count: 0,
                heads_by_layer: vec![0; report.model.layers],
                name: family.clone(),
            });
            let has_parameter = family.contains('<') || family.ends_with(":k");
            entry.code = (!has_parameter && code != family).then_some(code);
            entry.primary_count += usize::from(label == head.primary);
            if !seen.contains(&family) {
                entry.heads_by_layer[head.place.layer] += 1;
                seen.push(family);
            }
        }
    }
    found.into_values().collect()
}

/// Cards of a head from all studies, each with the name of the study.
pub fn card_parts(report: &Report, head: HeadPlace) -> impl Iterator<Item = (&'static str, HeadCard)> {
    let parts = report.sections.0.iter();
    parts.map(move |(study, section)| (study.card().name, section.head_card(head, report.view_context())))
}

/// Value and interval of a head's metric, at `key` if the metric has several values. `None` without a value.
pub fn metric_mark(head: &HeadReport, id: &str, key: Option<&str>) -> Option<Mark> {
    let ci95 = head.ci95.get(id, key).copied().flatten();
    Mark::from_value(head.metrics.get(id, key).copied().flatten(), ci95)
}

/// Chance level of a metric: that of the head if chance differs between heads, else that of all heads.
/// Returns `None` if the metric has no chance level.
pub fn chance_level(report: &Report, head: &HeadReport, id: &str, key: Option<&str>) -> Option<f64> {
    let own = head.chance.get(id, key).copied().flatten();
    own.or(report.chance.get(id, key).copied().flatten())
}

/// Number of decimals that shows numbers of a range with width `span` to about three digits.
pub fn decimals_for_span(span: f64) -> usize {
    [(100.0, 0), (10.0, 1), (1.0, 2), (0.1, 3)]
        .into_iter()
        .find(|(least, _)| span >= *least)
        .map_or(4, |(_, digits)| digits)
}

/// Formats a number with `digits` decimals, without a zero before the point and without a minus before a zero.
pub fn short_decimal(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    let (minus, text) = text.strip_prefix('-').map_or(("", text.as_str()), |rest| ("−", rest));
    let is_zero = text.chars().all(|c| "0.".contains(c));
    let text = if digits > 0 { text.strip_prefix('0').unwrap_or(text) } else { text };
    format!("{}{text}", if is_zero { "" } else { minus })
}

/// Formats a number with its interval; with `shares` in per cent.
pub fn number_with_interval(Mark { value, ci95 }: Mark, shares: bool) -> String {
    let (factor, unit) = if shares { (100.0, " %") } else { (1.0, "") };
    let digits = if shares { 1 } else { ci95.map_or(3, |ci95| decimals_for_span(10.0 * ci95.half_width()).max(2)) };
    let scaled = |value: f64| decimal(value * factor, digits);
    let interval = |ci95: Interval| format!(" [{}, {}]", scaled(ci95.low()), scaled(ci95.high()));
    format!("{}{unit}{}", scaled(value), ci95.map_or_else(String::new, interval))
}

/// Smallest half-width of an interval. A smaller one is rounding error, and counts as 0.
const ROUNDING_WIDTH: f64 = 1e-9;

/// Formats a number with the half-width of its interval in units of the last digit: `.124(9)` is 0.124 ± 0.009.
/// The number has three decimals if there is no interval, or the interval has no width.
pub fn concise_with_uncertainty(value: f64, ci95: Option<Interval>) -> String {
    let half_width = ci95.map_or(0.0, Interval::half_width);
    // A smaller half-width is rounding error: it would be (0) in units of the fourth decimal.
    let half_width = if half_width < ROUNDING_WIDTH { 0.0 } else { half_width };
    // Number of decimals that show the first digit of the half-width, at most 4.
    let digits = [(30.0, 0), (3.0, 0), (0.3, 1), (0.03, 2), (0.003, 3)];
    let digits = digits.into_iter().find(|(least, _)| half_width >= *least).map_or(4, |(_, digits)| digits);
    let (digits, units) =
        if half_width > 0.0 { (digits, half_width * 10_f64.powi(digits.try_into().unwrap_or(0))) } else { (3, 0.0) };
    let text = short_decimal(value, digits);
    if half_width > 0.0 { format!("{text}({:.0})", (units - 1e-6).ceil()) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(low: f64, high: f64) -> Interval {
        serde_json::from_value(serde_json::json!([low, high])).unwrap()
    }

    #[test]
    fn numbers_are_short() {
        let numbers = [(0.1239, 3), (-0.5, 1), (-0.0001, 2), (12.0, 0), (1.5, 1), (0.2, 0)];
        assert_eq!(
            numbers.map(|(value, digits)| short_decimal(value, digits)),
            [".124", "−.5", ".00", "12", "1.5", "0"]
        );
    }

    #[test]
    fn intervals_stand_in_units_of_the_last_digit() {
        let shown = |value: f64, half: f64| concise_with_uncertainty(value, Some(interval(value - half, value + half)));
        assert_eq!(shown(0.1239, 0.009), ".124(9)");
        assert_eq!(shown(0.1239, 0.02), ".124(20)");
        assert_eq!(shown(2.71, 0.5), "2.7(5)");
        assert_eq!(shown(270.0, 45.0), "270(45)");
        assert_eq!(shown(-0.25, 0.0004), "−.2500(4)");
        // An interval is never 0 in brackets: rounded up, or none.
        assert_eq!([shown(-1e-8, 1e-8), shown(-1e-12, 1e-11)], [".0000(1)", ".000"]);
        assert_eq!(
            (concise_with_uncertainty(0.5, None), concise_with_uncertainty(0.5, Some(interval(0.5, 0.5)))),
            (".500".to_owned(), ".500".to_owned())
        );
    }

    #[test]
    fn marks_have_their_intervals() {
        let mark = Mark { value: 0.25, ci95: Some(interval(0.2, 0.3)) };
        assert_eq!(
            (number_with_interval(mark, true), number_with_interval(mark, false)),
            ("25.0 % [20.0, 30.0]".to_owned(), "0.250 [0.200, 0.300]".to_owned())
        );
    }
}
