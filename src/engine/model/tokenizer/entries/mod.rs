//! The entries of a vocabulary that stand for text of their own.

mod scripts;

use std::collections::BTreeMap;

use super::bounds::Tokenizer;
use super::marks::Marks;

pub use scripts::{Scripts, script_of};

/// The entries of a vocabulary that are whole words or characters, with their ids: no special token, none that is kept free,
/// and no piece of a word or of a character.
pub(super) struct Entries {
    whole: Vec<VocabularyEntry>,
    /// The scripts of all entries, pieces among them.
    scripts: Scripts,
    /// All entries, pieces among them, with their ids; empty where there are more than [`FEW`].
    few: Vec<(u32, String)>,
}

/// An entry of a vocabulary.
pub(super) struct VocabularyEntry {
    pub id: u32,
    /// As the vocabulary has it.
    pub token: String,
    /// Its text, with the space before it where it has one.
    pub text: String,
}

/// The most ids that are looked at, spread evenly over the vocabulary. The standard error of a share of nine in ten is half
/// a per cent then, and reading so many entries takes some 20 ms.
const MOST: usize = 1 << 12;

/// The most entries of a small vocabulary, whose tokens are classes of words by themselves: residues, or 3-mers of four letters.
const FEW: usize = 100;

/// The share of entries of one length in a vocabulary of letters or of k-mers, as in [`super::residues`].
const OF_ONE_LENGTH: f64 = 0.9;

impl Entries {
    /// The entries of a tokenizer's vocabulary, ascending by id; of a large one a part. `unknown` is the token for what the
    /// vocabulary lacks.
    pub fn of(tokenizer: &Tokenizer, unknown: Option<u32>) -> Self {
        let marks = Marks::of(tokenizer);
        let special = tokenizer.get_added_tokens_decoder();
        let mut all: Vec<(u32, String)> =
            tokenizer.get_vocab(false).into_iter().map(|(token, id)| (id, token)).collect();
        all.sort_unstable();
        let step = all.len().div_ceil(MOST).max(1);
        let is_text =
            |(id, token): &(u32, String)| unknown != Some(*id) && !special.contains_key(id) && !is_reserved(token);
        let entry = |(id, token): (u32, String)| marks.whole(&token).map(|text| VocabularyEntry { id, token, text });
        let texts = all.iter().filter(|entry| is_text(entry)).map(|(_, token)| marks.text(token));
        let scripts = Scripts::of(texts);
        let mut few: Vec<(u32, String)> = all.iter().filter(|entry| is_text(entry)).take(FEW + 1).cloned().collect();
        if few.len() > FEW {
            few.clear();
        }
        Self { whole: all.into_iter().step_by(step).filter(is_text).filter_map(entry).collect(), scripts, few }
    }

    pub fn iter(&self) -> impl Iterator<Item = &VocabularyEntry> {
        self.whole.iter()
    }

    pub fn few(&self) -> &[(u32, String)] {
        &self.few
    }

    pub fn scripts(&self) -> &Scripts {
        &self.scripts
    }

    /// The characters of an entry, where nine in ten have as many: letters, or k-mers of one length.
    pub fn length(&self) -> Option<usize> {
        let mut lengths: BTreeMap<usize, usize> = BTreeMap::new();
        self.iter()
            .for_each(|entry| *lengths.entry(entry.text.trim_start_matches(' ').chars().count()).or_default() += 1);
        let (length, entries) = lengths.into_iter().max_by_key(|(_, entries)| *entries)?;
        (entries as f64 >= OF_ONE_LENGTH * self.whole.len() as f64).then_some(length)
    }

    /// The id of each entry by its text.
    pub fn texts(&self) -> BTreeMap<&str, u32> {
        self.iter().map(|entry| (entry.text.trim_start_matches(' '), entry.id)).collect()
    }
}

/// Whether an entry has no text: a special token in brackets, a place kept free (`[unused7]`, `madeupword0001` of fairseq),
/// or a byte of sentencepiece (`<0x0A>`).
fn is_reserved(entry: &str) -> bool {
    let within = |open: char, close: char| entry.strip_prefix(open).and_then(|rest| rest.strip_suffix(close));
    let is_name = |text: &str| text.contains(|c: char| c.is_alphanumeric());
    within('<', '>').is_some_and(is_name)
        || within('[', ']').is_some_and(|text| text.starts_with("unused") || SPECIAL.contains(&text))
        || entry.starts_with("madeupword")
        || entry.ends_with("NOTUSED")
}

/// The names of special tokens in vocabularies of BERT, whatever the class of the tokenizer calls special.
const SPECIAL: [&str; 7] = ["PAD", "UNK", "CLS", "SEP", "MASK", "BOS", "EOS"];
