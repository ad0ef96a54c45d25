//! Models of the residues of proteins or nucleic acids: how this program recognises them, and splits sequences for their
//! tokenizer.
//!
//! In any architecture family, the vocabulary shows what the tokens are. A vocabulary of residues has the twenty amino acids as
//! single capitals and little else (ESM, `ProtBERT`, `ProtT5`). A vocabulary of k-mers has all words of length k over an
//! alphabet (the 3-mers of DNABERT).

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bounds::Tokenizer;
use super::entries::VocabularyEntries;

/// The letters of the twenty amino acids of the genetic code.
const AMINO_ACIDS: &str = "ACDEFGHIKLMNPQRSTVWY";

/// Maximum number of entries in a vocabulary of residues: the twenty amino acids, letters for ambiguous residues, gaps and
/// stops.
const MAX_RESIDUE_ENTRIES: usize = 64;

/// Minimum share of all possible k-mers that a vocabulary of k-mers must contain. At least this share of its entries must
/// be k-mers.
const MIN_KMER_SHARE: f64 = 0.9;

/// Largest recognised k: there are a million 10-mers of four nucleotides.
const MAX_KMER_LENGTH: usize = 10;

/// How a sequence of residues is split for a tokenizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub enum Parting {
    /// Letters one after the other, as a FASTA file has them.
    Letters,
    /// A space between letters.
    Spaced,
    /// Words of `length` letters with a space between them, one every `stride` letters.
    Kmers {
        /// Number of letters of a word.
        length: usize,
        /// Number of letters from the beginning of a word to the beginning of the next.
        stride: usize,
    },
}

impl fmt::Display for Parting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Letters => f.write_str("letters"),
            Self::Spaced => f.write_str("spaced"),
            Self::Kmers { length, stride: 1 } => write!(f, "kmer:{length}"),
            Self::Kmers { length, stride } => write!(f, "kmer:{length}:{stride}"),
        }
    }
}

impl FromStr for Parting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "expected letters, spaced, kmer:K or kmer:K:STRIDE, as in kmer:3".to_owned();
        let number = |text: &str| text.parse().ok().filter(|number| (1..=1024).contains(number)).ok_or_else(wrong);
        let parts: Vec<&str> = text.split(':').collect();
        match parts[..] {
            ["letters"] => Ok(Self::Letters),
            ["spaced"] => Ok(Self::Spaced),
            ["kmer", length] => Ok(Self::Kmers { length: number(length)?, stride: 1 }),
            ["kmer", length, stride] => Ok(Self::Kmers { length: number(length)?, stride: number(stride)? }),
            _ => Err(wrong()),
        }
    }
}

impl TryFrom<String> for Parting {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Parting> for String {
    fn from(parting: Parting) -> Self {
        parting.to_string()
    }
}

impl Parting {
    /// Appends `letters` to `parts`, split for a tokenizer. A space follows each part, except with `Letters`.
    pub(super) fn append_split(self, letters: &str, parts: &mut String) {
        let (length, stride) = match self {
            Self::Letters => return parts.push_str(letters),
            Self::Spaced => (1, 1),
            Self::Kmers { length, stride } => (length, stride),
        };
        let starts: Vec<usize> = letters.char_indices().map(|(at, _)| at).chain([letters.len()]).collect();
        // A sequence shorter than a word is left as it is.
        let length = length.min(starts.len() - 1).max(1);
        for word in starts.windows(length + 1).step_by(stride) {
            parts.push_str(&letters[word[0]..word[length]]);
            parts.push(' ');
        }
    }

    /// Finds how to split sequences for a vocabulary of residues; `None` for any other vocabulary.
    pub(super) fn detect(tokenizer: &Tokenizer, entries: &VocabularyEntries) -> Option<Self> {
        let texts = entries.ids_by_text();
        let is_read_as = |text: &str, wanted: &[&str]| {
            let tokens = tokenizer.encode(text, false).ok()?;
            let ids: Option<Vec<u32>> = wanted.iter().map(|entry| texts.get(entry).copied()).collect();
            (tokens.get_ids() == ids?).then_some(())
        };
        let amino_acids = ["A", "C", "D", "E"];
        let entries: Vec<&str> = texts.keys().copied().collect();
        if are_residues(&entries) {
            let spaced = || is_read_as(&amino_acids.join(" "), &amino_acids).map(|()| Self::Spaced);
            return is_read_as(&amino_acids.concat(), &amino_acids).map(|()| Self::Letters).or_else(spaced);
        }
        let length = kmer_length(&entries)?;
        let examples: Vec<&str> = entries.iter().copied().filter(|text| is_kmer(text, length)).take(2).collect();
        is_read_as(&examples.join(" "), &examples).map(|()| Self::Kmers { length, stride: 1 })
    }
}

/// Whether vocabulary entries are residues: they include the twenty amino acids, and all are single letters or signs.
fn are_residues(entries: &[&str]) -> bool {
    let is_single =
        |entry: &&str| entry.chars().count() == 1 && !entry.contains(|c: char| c.is_lowercase() || c.is_numeric());
    let amino_acids = entries.iter().filter(|entry| entry.len() == 1 && AMINO_ACIDS.contains(**entry)).count();
    amino_acids == AMINO_ACIDS.len() && entries.len() <= MAX_RESIDUE_ENTRIES && entries.iter().all(is_single)
}

/// Whether an entry consists of `length` capital letters.
fn is_kmer(entry: &str, length: usize) -> bool {
    entry.len() == length && entry.bytes().all(|byte| byte.is_ascii_uppercase())
}

/// Returns the length of the k-mers in `entries`; `None` unless nearly all entries are k-mers of one length over some alphabet.
fn kmer_length(entries: &[&str]) -> Option<usize> {
    (2..=MAX_KMER_LENGTH).find(|&length| {
        let words: Vec<&&str> = entries.iter().filter(|entry| is_kmer(entry, length)).collect();
        let alphabet: BTreeSet<u8> = words.iter().flat_map(|word| word.bytes()).collect();
        let possible = (alphabet.len() as f64).powi(i32::try_from(length).unwrap_or(i32::MAX));
        let found = words.len() as f64;
        alphabet.len() > 1 && found >= MIN_KMER_SHARE * possible && found >= MIN_KMER_SHARE * entries.len() as f64
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parted(parting: &str, letters: &str) -> String {
        let mut parted = String::new();
        parting.parse::<Parting>().unwrap().append_split(letters, &mut parted);
        parted
    }

    #[test]
    fn a_sequence_is_parted_into_letters_and_words_of_letters() {
        assert_eq!(parted("letters", "MKTA"), "MKTA");
        assert_eq!(parted("spaced", "MKTA"), "M K T A ");
        assert_eq!(parted("kmer:3", "ACGTA"), "ACG CGT GTA ");
        assert_eq!(parted("kmer:3:3", "ACGTAC"), "ACG TAC ");
        assert_eq!([parted("kmer:3", "AC"), parted("kmer:3", "")], ["AC ", ""]);
    }

    #[test]
    fn a_parting_has_a_name() {
        for name in ["letters", "spaced", "kmer:3", "kmer:6:6"] {
            assert_eq!(name.parse::<Parting>().unwrap().to_string(), name);
        }
        for wrong in ["", "letter", "kmer", "kmer:", "kmer:0", "kmer:3:0", "kmer:3:1:1", "kmer:-3", "kmer:99999"] {
            assert!(wrong.parse::<Parting>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn vocabularies_of_residues_are_told_by_their_entries() {
        let amino_acids: Vec<&str> = AMINO_ACIDS.split("").filter(|letter| !letter.is_empty()).collect();
        let are = |more: &[&str]| are_residues(&[&amino_acids[..], more].concat());
        assert!(are(&[]) && are(&["X", "B", "U", "-", "."]));
        assert!(!are(&["the"]) && !are(&["a"]) && !are(&["1"]));
        assert!(!are_residues(&amino_acids[1..]));
        let words = |count: usize| -> Vec<String> {
            let letters = ["A", "C", "G", "T"];
            (0..count).map(|n| [letters[n / 16 % 4], letters[n / 4 % 4], letters[n % 4]].concat()).collect()
        };
        let length = |words: &[String]| kmer_length(&words.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!((length(&words(64)), length(&words(40))), (Some(3), None));
        assert_eq!(kmer_length(&["the", "and", "for"]), None);
    }
}
