//! Counted things in words, with singular and plural.

use std::fmt::Display;

/// So many things, whose plural ends in -s: `1 head`, `2 heads`.
pub fn counted<N: Copy + Display + PartialEq + From<u8>>(number: N, one: &str) -> String {
    let ending = plural(&number, "", "s");
    format!("{number} {one}{ending}")
}

/// The words for this many things: a noun with another plural than -s, a verb, or several of these.
pub fn plural<N: PartialEq + From<u8>, W>(number: &N, one: W, many: W) -> W {
    if *number == N::from(1) { one } else { many }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_told_of_in_the_singular() {
        assert_eq!([0, 1, 2].map(|number: usize| counted(number, "head")), ["0 heads", "1 head", "2 heads"]);
        assert_eq!([0, 1, 21].map(|number: u64| plural(&number, "is", "are")), ["are", "is", "are"]);
    }
}
