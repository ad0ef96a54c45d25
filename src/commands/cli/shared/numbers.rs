//! Numbers of the command line, refused in words.

use std::ops::RangeInclusive;

/// Reads a whole number in these bounds.
pub fn whole<N: TryFrom<u64>>(bounds: RangeInclusive<u64>) -> impl Fn(&str) -> Result<N, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| bounds.contains(number));
        number.and_then(|number| N::try_from(number).ok()).ok_or_else(|| expected(text, &bounds))
    }
}

/// The same of a number that has no largest.
pub fn from<N: TryFrom<u64>>(least: u64) -> impl Fn(&str) -> Result<N, String> + Clone {
    whole(least..=u64::MAX)
}

fn expected(text: &str, bounds: &RangeInclusive<u64>) -> String {
    let (least, most) = (bounds.start(), bounds.end());
    if *most < u64::MAX {
        return format!("a whole number from {least} to {most} is expected");
    }
    let is_large = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    let small = text.parse().is_ok_and(|number: u64| number < *least);
    let hint = if is_large && !small { ", and a smaller one" } else { "" };
    format!("a whole number of {least} or more is expected{hint}")
}

/// Reads a number.
pub fn number(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| "a number is expected".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_out_of_bounds_are_refused_in_words() {
        assert_eq!((from::<u64>(1)("7"), whole::<u8>(1..=7)("7")), (Ok(7), Ok(7)));
        for wrong in ["0", "-1", "x", "", "1.5"] {
            assert_eq!(from::<u32>(1)(wrong).unwrap_err(), "a whole number of 1 or more is expected", "{wrong}");
        }
        assert_eq!(
            from::<u32>(1)("4294967296").unwrap_err(),
            "a whole number of 1 or more is expected, and a smaller one"
        );
        assert_eq!(whole::<u16>(1..=1024)("1025").unwrap_err(), "a whole number from 1 to 1024 is expected");
        assert_eq!((number("1e-5"), number("much").is_err()), (Ok(1e-5), true));
    }
}
