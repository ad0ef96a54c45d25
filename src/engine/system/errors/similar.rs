//! The known name most like one that is not there, for "did you mean".

/// Likeness below which two names have little in common: `acme/tiny-bert` and `acme/small-gpt` have 0.71.
const ALIKE: f64 = 0.8;

/// The shortest run of letters that two names share by more than chance.
const SHARED: usize = 3;

/// The name most like `wanted`, the first of equals; `None` if none is alike. Names are compared by Jaro-Winkler
/// similarity, which finds slips. Where that finds none, a name counts that has most of its letters in one run with
/// `wanted`: `subject` has four of the five letters of `nsubj`.
pub fn closest<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let known: Vec<&str> = known.into_iter().collect();
    let lower = wanted.to_lowercase();
    let by = |likeness: fn(&str, &str) -> f64| {
        let alike = known.iter().map(|name| (likeness(&name.to_lowercase(), &lower), *name));
        let alike = alike.filter(|(likeness, _)| *likeness >= ALIKE);
        alike.reduce(|best, next| if next.0 > best.0 { next } else { best }).map(|(_, name)| name)
    };
    by(strsim::jaro_winkler).or_else(|| by(shared_run))
}

/// The share of the shorter of two names that stands in both in one run.
fn shared_run(a: &str, b: &str) -> f64 {
    let run = longest_common_run(a, b);
    let shorter = a.chars().count().min(b.chars().count());
    if run >= SHARED { run as f64 / shorter as f64 } else { 0.0 }
}

/// The length of the longest text that is part of both.
fn longest_common_run(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let (mut longest, mut ending_before) = (0, vec![0; b.len() + 1]);
    for c in a.chars() {
        let mut ending = vec![0; b.len() + 1];
        for (place, _) in b.iter().enumerate().filter(|(_, d)| **d == c) {
            ending[place + 1] = ending_before[place] + 1;
            longest = longest.max(ending[place + 1]);
        }
        ending_before = ending;
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_and_longer_words_find_their_names() {
        let relations = ["nsubj", "obj", "obl", "det", "case", "amod"];
        for (wanted, found) in [
            ("subject", Some("nsubj")),
            ("object", Some("obj")),
            ("determiner", Some("det")),
            ("nsbj", Some("nsubj")),
            ("Case", Some("case")),
            ("cases", Some("case")),
            ("preposition", None),
            ("", None),
        ] {
            assert_eq!(closest(wanted, relations), found, "{wanted}");
        }
        assert_eq!(closest("acme/tiny-bert", ["acme/small-gpt"]), None);
    }

    #[test]
    fn a_run_by_hand() {
        assert_eq!((longest_common_run("nsubj", "subject"), longest_common_run("ab", "ba")), (4, 1));
    }
}
