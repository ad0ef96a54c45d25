//! The scripts in which a vocabulary has words.

use std::collections::BTreeMap;

use unicode_script::{Script, UnicodeScript};

/// The scripts of a vocabulary, with the numbers of its entries in each.
#[derive(Clone, Debug, Default)]
pub struct Scripts {
    entries: BTreeMap<&'static str, ScriptEntries>,
    /// Entries that have a letter.
    all: usize,
}

/// The entries of a vocabulary in one script.
#[derive(Clone, Copy, Debug, Default)]
struct ScriptEntries {
    all: usize,
    /// Entries of at least two letters.
    of_several_letters: usize,
}

/// The least entries of several letters by which a vocabulary knows a script, and their share of a small vocabulary. A
/// vocabulary that has no words of a script may still have its alphabet: bert-base-uncased has 8 such entries in Cyrillic and 4
/// in Greek, of 28,000.
const FEWEST_OF_SEVERAL: usize = 100;
const SHARE_OF_SEVERAL: f64 = 0.01;

/// The least entries of any length, for scripts whose letters are words, and their share of a small vocabulary. The 1,000 most
/// frequent characters make up some nine tenths of Chinese text (Da 2004); bert-base-uncased knows no Chinese, and has 488 entries in
/// Han: 1.8 % of all with letters.
const FEWEST: usize = 1000;
const SHARE: f64 = 0.02;

impl Scripts {
    /// The scripts of these entries; an entry is of the script of its first letter.
    pub(super) fn of(texts: impl Iterator<Item = String>) -> Self {
        let mut scripts = Self::default();
        for text in texts {
            let mut letters = text.chars().filter_map(script_of);
            let Some(script) = letters.next() else { continue };
            scripts.all += 1;
            let entries = scripts.entries.entry(script).or_default();
            entries.all += 1;
            entries.of_several_letters += usize::from(letters.next().is_some());
        }
        scripts
    }

    /// Whether the vocabulary has more than a few entries in a script.
    pub fn know(&self, script: &str) -> bool {
        let enough = |count: usize, fewest: usize, share: f64| {
            count > 0 && count as f64 >= (share * self.all as f64).min(fewest as f64)
        };
        self.entries.get(script).is_some_and(|entries| {
            enough(entries.of_several_letters, FEWEST_OF_SEVERAL, SHARE_OF_SEVERAL)
                || enough(entries.all, FEWEST, SHARE)
        })
    }
}

/// The script of a letter; `None` of other characters, and of letters that several scripts share.
pub fn script_of(c: char) -> Option<&'static str> {
    if c.is_ascii() {
        return c.is_ascii_alphabetic().then(|| Script::Latin.full_name());
    }
    let is_of_one = |script: &Script| !matches!(script, Script::Common | Script::Inherited | Script::Unknown);
    c.is_alphabetic().then(|| c.script()).filter(is_of_one).map(Script::full_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(entries: &[(&str, usize)], script: &str) -> bool {
        let texts = entries.iter().flat_map(|&(text, count)| std::iter::repeat_n(text.to_owned(), count));
        Scripts::of(texts).know(script)
    }

    #[test]
    fn letters_have_scripts_and_signs_have_none() {
        let scripts = ["a", "é", "я", "λ", "語", "か", "1", "-", "\u{301}", "ー", "\u{20000}"]
            .map(|text| script_of(text.chars().next().unwrap()));
        let latin = Some("Latin");
        let expected = [
            latin,
            latin,
            Some("Cyrillic"),
            Some("Greek"),
            Some("Han"),
            Some("Hiragana"),
            None,
            None,
            None,
            None,
            Some("Han"),
        ];
        assert_eq!(scripts, expected);
    }

    #[test]
    fn an_alphabet_is_no_language() {
        // As in bert-base-uncased.
        let english = [("the", 26534), ("a", 229), ("я", 78), ("на", 8), ("語", 488)];
        assert_eq!(
            ["Latin", "Cyrillic", "Han", "Greek"].map(|script| known(&english, script)),
            [true, false, false, false]
        );
        // Vocabularies of words in several scripts, of Chinese characters, and of amino acids.
        assert!(known(&[("the", 50_000), ("και", 100)], "Greek"));
        assert!(known(&[("the", 50_000), ("語", 1000)], "Han"));
        assert!(known(&[("M", 20)], "Latin"));
        assert!(known(&[("語", 3800), ("か", 83)], "Hiragana"));
        // Few entries, and all of signs.
        assert!(known(&[("dog", 1), ("!", 500)], "Latin"));
        assert!(!known(&[("!", 500)], "Latin"));
    }
}
