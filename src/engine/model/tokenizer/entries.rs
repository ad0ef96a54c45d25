//! The entries of a vocabulary that are whole words or characters, and the scripts of its words.

use std::collections::BTreeMap;

use itertools::Itertools;
use unicode_script::{Script, UnicodeScript};

use super::bounds::Tokenizer;
use super::marks::BoundaryMarks;

/// The entries of a vocabulary that are whole words or characters. Special tokens, reserved entries, and pieces of words or
/// characters are left out.
pub(super) struct VocabularyEntries {
    /// Whole words and characters, ascending by id; of a large vocabulary, an evenly spread sample.
    pub whole_entries: Vec<VocabularyEntry>,
    /// Scripts of all entries except special and reserved ones; pieces of words and characters are included.
    pub scripts: Scripts,
    /// All entries with their ids, including pieces of words; empty if there are more than [`MAX_SMALL_VOCABULARY`].
    pub small_vocabulary: Vec<(u32, String)>,
}

/// An entry of a vocabulary that is a whole word or character.
pub(super) struct VocabularyEntry {
    pub id: u32,
    /// The entry as the vocabulary writes it.
    pub token: String,
    /// The text of the entry, with its leading space if it has one.
    pub text: String,
}

/// Maximum number of examined entries, spread evenly over the vocabulary. A share of 0.9 then has a standard error of half a
/// percentage point, and reading takes about 20 ms.
const MAX_SAMPLED_IDS: usize = 1 << 12;

/// Maximum number of entries of a small vocabulary, where each token counts as a separate class: residues, or 3-mers of four
/// letters.
const MAX_SMALL_VOCABULARY: usize = 100;

/// Minimum share of entries with one common length at which a vocabulary counts as one of letters or k-mers, as in
/// [`super::residues`].
const MIN_COMMON_LENGTH_SHARE: f64 = 0.9;

impl VocabularyEntries {
    /// Reads the entries of a vocabulary, ascending by id, or a sample of a large one. `unknown` is the id of the unknown token.
    pub fn read(tokenizer: &Tokenizer, unknown: Option<u32>) -> Self {
        let marks = BoundaryMarks::read(tokenizer);
        let special = tokenizer.get_added_tokens_decoder();
        let all = tokenizer.get_vocab(false).into_iter().map(|(token, id)| (id, token)).sorted_unstable().collect_vec();
        let step = all.len().div_ceil(MAX_SAMPLED_IDS).max(1);
        let is_text =
            |(id, token): &(u32, String)| unknown != Some(*id) && !special.contains_key(id) && !is_reserved(token);
        let entry =
            |(id, token): (u32, String)| marks.standalone_text(&token).map(|text| VocabularyEntry { id, token, text });
        let scripts =
            Scripts::from_texts(all.iter().filter(|entry| is_text(entry)).map(|(_, token)| marks.token_text(token)));
        let first: Vec<_> = all.iter().filter(|entry| is_text(entry)).take(MAX_SMALL_VOCABULARY + 1).cloned().collect();
        let few = if first.len() > MAX_SMALL_VOCABULARY { Vec::new() } else { first };
        Self {
            whole_entries: all.into_iter().step_by(step).filter(is_text).filter_map(entry).collect(),
            scripts,
            small_vocabulary: few,
        }
    }

    /// Returns the length in characters that nearly all entries share: 1 for letters, k for k-mers. `None` if the commonest
    /// length has less than the share [`MIN_COMMON_LENGTH_SHARE`] of the entries.
    pub fn common_length(&self) -> Option<usize> {
        let lengths = self.whole_entries.iter().map(|entry| entry.text.trim_start_matches(' ').chars().count());
        let (length, entries) = lengths.counts().into_iter().max_by_key(|&(length, entries)| (entries, length))?;
        (entries as f64 >= MIN_COMMON_LENGTH_SHARE * self.whole_entries.len() as f64).then_some(length)
    }

    /// Maps the text of each entry, without leading spaces, to its id.
    pub fn ids_by_text(&self) -> BTreeMap<&str, u32> {
        self.whole_entries.iter().map(|entry| (entry.text.trim_start_matches(' '), entry.id)).collect()
    }
}

/// Whether an entry stands for no text: a special token in brackets, a reserved entry (`[unused7]`, `madeupword0001` of
/// fairseq), or a byte of sentencepiece (`<0x0A>`).
fn is_reserved(entry: &str) -> bool {
    let between = |open: char, close: char| entry.strip_prefix(open).and_then(|rest| rest.strip_suffix(close));
    let is_name = |text: &str| text.contains(|c: char| c.is_alphanumeric());
    between('<', '>').is_some_and(is_name)
        || between('[', ']').is_some_and(|text| text.starts_with("unused") || BERT_SPECIAL_NAMES.contains(&text))
        || entry.starts_with("madeupword")
        || entry.ends_with("NOTUSED")
}

/// Names of special tokens in BERT vocabularies. Entries with these names in brackets count as special for every tokenizer
/// class.
const BERT_SPECIAL_NAMES: [&str; 7] = ["PAD", "UNK", "CLS", "SEP", "MASK", "BOS", "EOS"];

/// Number of a vocabulary's entries in each script.
#[derive(Clone, Debug, Default)]
pub struct Scripts {
    /// Number of entries of each script: `[all entries, entries with at least two letters]`.
    counts_by_script: BTreeMap<&'static str, [usize; 2]>,
    /// The number of entries that have a letter.
    entries_with_letter: usize,
}

/// Number of entries with at least two letters at which a vocabulary counts as having words of a script. In a small
/// vocabulary, the share [`MIN_WORD_ENTRY_SHARE`] suffices. A vocabulary without words of a script may still have its
/// alphabet. Of its 28,000 entries, bert-base-uncased has 8 with at least two letters in Cyrillic and 4 in Greek.
const MIN_WORD_ENTRIES: usize = 100;
/// Sufficient share in a small vocabulary, among all entries with a letter, in place of [`MIN_WORD_ENTRIES`].
const MIN_WORD_ENTRY_SHARE: f64 = 0.01;

/// Number of entries of any length at which a vocabulary counts as having words of a script, if single letters of that
/// script are words. In a small vocabulary, the share [`MIN_CHARACTER_SHARE`] suffices. The 1,000 most frequent
/// characters make up about nine tenths of Chinese text (Da 2004). bert-base-uncased knows no Chinese: its 488 entries
/// in Han are 1.8 % of all entries with letters.
const MIN_CHARACTER_ENTRIES: usize = 1000;
/// Sufficient share in a small vocabulary, among all entries with a letter, in place of [`MIN_CHARACTER_ENTRIES`].
const MIN_CHARACTER_SHARE: f64 = 0.02;

impl Scripts {
    /// Counts the texts of entries by script; the first letter of a text decides its script.
    pub(super) fn from_texts(texts: impl Iterator<Item = String>) -> Self {
        let mut scripts = Self::default();
        for text in texts {
            let mut letters = text.chars().filter_map(script_of);
            let Some(script) = letters.next() else { continue };
            scripts.entries_with_letter += 1;
            let [all, of_several_letters] = scripts.counts_by_script.entry(script).or_default();
            *all += 1;
            *of_several_letters += usize::from(letters.next().is_some());
        }
        scripts
    }

    /// Whether the vocabulary has enough entries in a script to read words of that script.
    pub fn covers(&self, script: &str) -> bool {
        let enough = |count: usize, fewest: usize, share: f64| {
            count > 0 && count as f64 >= (share * self.entries_with_letter as f64).min(fewest as f64)
        };
        self.counts_by_script.get(script).is_some_and(|&[all, of_several_letters]| {
            enough(of_several_letters, MIN_WORD_ENTRIES, MIN_WORD_ENTRY_SHARE)
                || enough(all, MIN_CHARACTER_ENTRIES, MIN_CHARACTER_SHARE)
        })
    }
}

/// Returns the script of a letter; `None` for other characters, and for letters that several scripts share.
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
        Scripts::from_texts(texts).covers(script)
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
