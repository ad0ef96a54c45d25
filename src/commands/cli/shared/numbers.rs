//! Parsers for numeric arguments, with errors in plain words.

use std::ops::RangeInclusive;

/// Parser for a whole number within `bounds`.
pub fn whole_number_parser<N: TryFrom<u64>>(bounds: RangeInclusive<u64>) -> impl Fn(&str) -> Result<N, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| bounds.contains(number));
        number.and_then(|number| N::try_from(number).ok()).ok_or_else(|| expected_range_text(text, &bounds))
    }
}

/// Parser for a whole number of at least `least`.
pub fn whole_number_parser_from<N: TryFrom<u64>>(least: u64) -> impl Fn(&str) -> Result<N, String> + Clone {
    whole_number_parser(least..=u64::MAX)
}

/// Error text that names the numbers which are expected.
fn expected_range_text(text: &str, bounds: &RangeInclusive<u64>) -> String {
    let (least, most) = (bounds.start(), bounds.end());
    if *most < u64::MAX {
        return format!("a whole number from {least} to {most} is expected");
    }
    let is_large = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    let small = text.parse().is_ok_and(|number: u64| number < *least);
    let hint = if is_large && !small { ", and a smaller one" } else { "" };
    format!("a whole number of {least} or more is expected{hint}")
}

/// Reads a number of bytes, with or without a unit: `8GB`, `500 MB`, `2GiB`.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let expected = || "a number of bytes is expected, as in 8GB or 500MB".to_owned();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
    let (number, unit) = text.split_at(digits);
    let unit = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" => 1_000,
        "m" | "mb" => 1_000_000,
        "g" | "gb" => 1_000_000_000,
        "t" | "tb" => 1_000_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tib" => 1_u64 << 40,
        _ => return Err(expected()),
    };
    let bytes = number.parse::<f64>().map_err(|_| expected())? * unit as f64;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the bounds, and whole bytes")]
    let rounded_down = (1.0..1e18).contains(&bytes).then_some(bytes as u64);
    rounded_down.ok_or_else(expected)
}

/// As [`parse_bytes`], but also accepts `0`.
pub fn parse_bytes_with_zero(text: &str) -> Result<u64, String> {
    if text == "0" { Ok(0) } else { parse_bytes(text).map_err(|expected| format!("{expected}, or 0")) }
}

/// Reads a percentage above 0, such as `1%` or `1`, and returns it as a share.
pub fn parse_percentage(text: &str) -> Result<f64, String> {
    let percent = text.strip_suffix('%').unwrap_or(text).trim().parse().ok();
    let percent = percent.filter(|percent: &f64| *percent > 0.0 && percent.is_finite());
    percent.map(|percent| percent / 100.0).ok_or_else(|| "a share above 0 in per cent is expected, as in 1%".to_owned())
}

pub fn parse_number(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| "a number is expected".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_units() {
        let read = |text: &str| parse_bytes(text).ok();
        assert_eq!(["8GB", "1.5 mb", "2GiB", "7"].map(read), [8_000_000_000, 1_500_000, 1 << 31, 7].map(Some));
        for wrong in ["", "GB", "-1", "8 apples", "0", "1e9", "99999999TB"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        assert_eq!((parse_bytes_with_zero("0"), parse_bytes_with_zero("2MB")), (Ok(0), Ok(2_000_000)));
        assert_eq!(parse_bytes_with_zero("-1").unwrap_err(), "a number of bytes is expected, as in 8GB or 500MB, or 0");
    }

    #[test]
    fn numbers_out_of_bounds_are_refused_in_words() {
        assert_eq!((whole_number_parser_from::<u64>(1)("7"), whole_number_parser::<u8>(1..=7)("7")), (Ok(7), Ok(7)));
        for wrong in ["0", "-1", "x", "", "1.5"] {
            assert_eq!(
                whole_number_parser_from::<u32>(1)(wrong).unwrap_err(),
                "a whole number of 1 or more is expected",
                "{wrong}"
            );
        }
        assert_eq!(
            whole_number_parser_from::<u32>(1)("4294967296").unwrap_err(),
            "a whole number of 1 or more is expected, and a smaller one"
        );
        assert_eq!(
            whole_number_parser::<u16>(1..=1024)("1025").unwrap_err(),
            "a whole number from 1 to 1024 is expected"
        );
        assert_eq!((parse_number("1e-5"), parse_number("much").is_err()), (Ok(1e-5), true));
    }
}
