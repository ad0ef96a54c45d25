//! Counts in words, with singular and plural, and ranges of numbers.

use std::fmt::Display;
use std::ops::Add;

use itertools::Itertools;

/// Formats a number with its noun, whose plural ends in -s: `1 head`, `2 heads`.
pub fn format_count<N: Copy + Display + PartialEq + From<u8>>(number: N, one: &str) -> String {
    let ending = plural(&number, "", "s");
    format!("{number} {one}{ending}")
}

/// Chooses between the singular and the plural form of a noun, verb or phrase.
pub fn plural<N: PartialEq + From<u8>, W>(number: &N, one: W, many: W) -> W {
    if *number == N::from(1) { one } else { many }
}

/// Joins words or clauses by commas, with an "and" before the last.
pub fn join_with_and<S: AsRef<str>>(parts: &[S]) -> String {
    let parts: Vec<&str> = parts.iter().map(AsRef::as_ref).collect();
    match &parts[..] {
        [others @ .., last] if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => parts.concat(),
    }
}

/// Formats ascending numbers, with consecutive ones as ranges: `3,7-9`. Job schedulers take array indices in this form.
pub fn format_ranges<N: Copy + Display + PartialEq + From<u8> + Add<Output = N>>(numbers: &[N]) -> String {
    let runs = numbers.chunk_by(|before, after| *before + N::from(1) == *after);
    let mut written = runs.map(|run| match run {
        [one] => one.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => unreachable!("a chunk has an entry"),
    });
    written.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_told_of_in_the_singular() {
        assert_eq!([0, 1, 2].map(|number: usize| format_count(number, "head")), ["0 heads", "1 head", "2 heads"]);
        assert_eq!([0, 1, 21].map(|number: u64| plural(&number, "is", "are")), ["are", "is", "are"]);
    }

    #[test]
    fn numbers_are_written_as_ranges() {
        assert_eq!(format_ranges::<u32>(&[]), "");
        assert_eq!(format_ranges(&[3_u32]), "3");
        assert_eq!(format_ranges(&[3_usize, 7, 8, 9, 11, 12]), "3,7-9,11-12");
    }
}
