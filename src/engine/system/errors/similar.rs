//! The known name most similar to an unknown one, for "did you mean".

/// Minimum similarity of a suggested name, from 0 to 1. For comparison, `acme/tiny-bert` and `acme/small-gpt` have a
/// similarity of 0.71.
const MIN_SIMILARITY: f64 = 0.8;

/// Minimum length of a common substring that is unlikely to be due to chance, in characters.
const MIN_SUBSTRING_CHARS: usize = 3;

/// Finds the known name that is most similar to `wanted`, the first one on a tie; `None` if none is similar enough. The
/// Jaro-Winkler similarity finds typing errors. If it finds no name, similarity is the length of the longest common substring,
/// divided by the shorter name's: `subject` finds `nsubj` by `subj`.
pub fn closest_name<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let known: Vec<&str> = known.into_iter().collect();
    let lower = wanted.to_lowercase();
    let best_by = |likeness: fn(&str, &str) -> f64| {
        let similar = known.iter().map(|name| (likeness(&name.to_lowercase(), &lower), *name));
        let similar = similar.filter(|(likeness, _)| *likeness >= MIN_SIMILARITY);
        similar.reduce(|best, next| if next.0 > best.0 { next } else { best }).map(|(_, name)| name)
    };
    best_by(strsim::jaro_winkler).or_else(|| best_by(common_substring_share))
}

/// Length of the longest common substring, divided by the length of the shorter name; 0 for less than [`MIN_SUBSTRING_CHARS`]
/// characters.
fn common_substring_share(a: &str, b: &str) -> f64 {
    let common = longest_common_substring(a, b);
    let shorter = a.chars().count().min(b.chars().count());
    if common >= MIN_SUBSTRING_CHARS { common as f64 / shorter as f64 } else { 0.0 }
}

/// Length of the longest common substring, in characters.
fn longest_common_substring(a: &str, b: &str) -> usize {
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
            assert_eq!(closest_name(wanted, relations), found, "{wanted}");
        }
        assert_eq!(closest_name("acme/tiny-bert", ["acme/small-gpt"]), None);
    }

    #[test]
    fn a_run_by_hand() {
        assert_eq!((longest_common_substring("nsubj", "subject"), longest_common_substring("ab", "ba")), (4, 1));
    }
}
