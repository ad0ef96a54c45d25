//! Numbers as figures and pages show them.

use crate::stats::interval::Interval;
use crate::study::show::figure::Mark;
use crate::study::show::wording::decimal;

/// The decimals that distinguish numbers with this difference: three digits.
pub fn decimals(span: f64) -> usize {
    [(100.0, 0), (10.0, 1), (1.0, 2), (0.1, 3)]
        .into_iter()
        .find(|(least, _)| span >= *least)
        .map_or(4, |(_, digits)| digits)
}

/// A number with this many decimals, without a zero before the point and without a minus before a zero.
pub fn short(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    let (minus, text) = text.strip_prefix('-').map_or(("", text.as_str()), |rest| ("−", rest));
    let is_zero = text.chars().all(|c| "0.".contains(c));
    let text = if digits > 0 { text.strip_prefix('0').unwrap_or(text) } else { text };
    format!("{}{text}", if is_zero { "" } else { minus })
}

/// A number with its interval; shares in per cent.
pub fn shown(Mark { value, ci95 }: Mark, shares: bool) -> String {
    let (factor, unit) = if shares { (100.0, " %") } else { (1.0, "") };
    let digits = if shares { 1 } else { ci95.map_or(3, |ci95| decimals(10.0 * ci95.half_width()).max(2)) };
    let number = |value: f64| decimal(value * factor, digits);
    let interval = |ci95: Interval| format!(" [{}, {}]", number(ci95.low()), number(ci95.high()));
    format!("{}{unit}{}", number(value), ci95.map_or_else(String::new, interval))
}

/// An interval of less than this half of its width has none.
const NO_WIDTH: f64 = 1e-9;

/// A number with half of its interval's width in brackets, in units of its last digit: `.124(9)` is 0.124 ± 0.009. It
/// has three decimals if there is no interval, or the interval has no width.
pub fn concise(value: f64, ci95: Option<Interval>) -> String {
    let half = ci95.map_or(0.0, Interval::half_width);
    // Less is rounding: it would be (0) in units of the fourth decimal.
    let half = if half < NO_WIDTH { 0.0 } else { half };
    // The decimals that show the first digit of the half, at most 4.
    let digits = [(30.0, 0), (3.0, 0), (0.3, 1), (0.03, 2), (0.003, 3)];
    let digits = digits.into_iter().find(|(least, _)| half >= *least).map_or(4, |(_, digits)| digits);
    let (digits, units) =
        if half > 0.0 { (digits, half * 10_f64.powi(digits.try_into().unwrap_or(0))) } else { (3, 0.0) };
    let text = short(value, digits);
    if half > 0.0 { format!("{text}({:.0})", (units - 1e-6).ceil()) } else { text }
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
        assert_eq!(numbers.map(|(value, digits)| short(value, digits)), [".124", "−.5", ".00", "12", "1.5", "0"]);
    }

    #[test]
    fn intervals_stand_in_units_of_the_last_digit() {
        let shown = |value: f64, half: f64| concise(value, Some(interval(value - half, value + half)));
        assert_eq!(shown(0.1239, 0.009), ".124(9)");
        assert_eq!(shown(0.1239, 0.02), ".124(20)");
        assert_eq!(shown(2.71, 0.5), "2.7(5)");
        assert_eq!(shown(270.0, 45.0), "270(45)");
        assert_eq!(shown(-0.25, 0.0004), "−.2500(4)");
        // An interval is never 0 in brackets: rounded up, or none.
        assert_eq!([shown(-1e-8, 1e-8), shown(-1e-12, 1e-11)], [".0000(1)", ".000"]);
        assert_eq!(
            (concise(0.5, None), concise(0.5, Some(interval(0.5, 0.5)))),
            (".500".to_owned(), ".500".to_owned())
        );
    }

    #[test]
    fn marks_have_their_intervals() {
        let mark = Mark { value: 0.25, ci95: Some(interval(0.2, 0.3)) };
        assert_eq!(
            (shown(mark, true), shown(mark, false)),
            ("25.0 % [20.0, 30.0]".to_owned(), "0.250 [0.200, 0.300]".to_owned())
        );
    }
}
