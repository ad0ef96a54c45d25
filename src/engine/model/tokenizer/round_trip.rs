//! The round trip of a vocabulary: how many of its entries the tokenizer encodes as one token, the entry itself.
//!
//! A vocabulary does not say how text was cut into its entries; with the wrong defaults, all text becomes unknown tokens. So
//! the tokenizer encodes each entry that is a whole word or character on its own. The entry is *given back* if it becomes one
//! token, itself. It is *lost* if it becomes the unknown token, or several words. Entries that become other known pieces of one
//! word are not lost: byte-pair encoding never produces some entries, and lower-casing may be intended.

use anyhow::{Result, anyhow};
use itertools::Itertools;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokenizers::Encoding;

use super::bounds::Tokenizer;
use super::entries::{VocabularyEntries, VocabularyEntry};
use crate::system::errors::ErrorExt;
use crate::system::panics::catch_panic;

/// Maximum share of lost entries. bert-base-uncased loses 1 of 23,694 entries with its own tokenizer; a vocabulary of chemical
/// reactions loses 545 of 576 with BERT's default tokenizer.
const MAX_LOST_SHARE: f64 = 0.1;

/// Maximum share of lower-cased entries: entries with capitals that the tokenizer reads in lower case. Above it, the vocabulary
/// counts as cased. BERT's uncased vocabularies have no entries with capitals, its cased ones over a quarter.
const MAX_LOWER_CASED_SHARE: f64 = 0.1;

/// Minimum number of entries for a verdict on the tokenizer; vocabularies of proteins have only twenty residues.
const MIN_JUDGED_ENTRIES: u64 = 10;

/// Test of a tokenizer on its own vocabulary: how many entries it encodes as one token, the entry itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RoundTrip {
    /// Number of entries encoded: whole words and characters, neither special nor reserved tokens. Of a vocabulary of more than
    /// 4,096 tokens, an evenly spread part is encoded.
    pub entries: u64,
    /// Number of characters of all encoded entries, without spaces; 0 in reports of version 0.1.
    #[serde(default)]
    pub characters: u64,
    /// Number of entries encoded as one token, the entry itself.
    pub given_back: u64,
    /// Number of entries with capitals that were encoded in lower case, as known pieces of one word.
    pub lower_cased: u64,
    /// Number of entries encoded as the unknown token, or as several words.
    pub lost: u64,
    /// Example of an entry in `lost`, else of an entry in `lower_cased`, with its tokens; null if both are 0.
    pub example: Option<ReadEntry>,
}

/// An entry of a vocabulary, and the tokens that its tokenizer makes of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReadEntry {
    /// Entry as the vocabulary writes it.
    pub entry: String,
    /// Tokens that the tokenizer makes of the entry.
    pub tokens: Vec<String>,
}

impl RoundTrip {
    /// Whether the tokenizer loses too large a share of its vocabulary entries.
    pub fn loses_too_many(&self) -> bool {
        self.exceeds_share(self.lost, MAX_LOST_SHARE)
    }

    /// Whether the vocabulary has capitals, and the tokenizer lower-cases its input.
    pub fn lower_cases(&self) -> bool {
        self.exceeds_share(self.lower_cased, MAX_LOWER_CASED_SHARE)
    }

    /// Whether `entries` is more than `share` of all read entries; false if too few were read.
    fn exceeds_share(&self, entries: u64, share: f64) -> bool {
        self.entries >= MIN_JUDGED_ENTRIES && entries as f64 > share * self.entries as f64
    }

    /// Returns the mean number of characters of an entry; `None` if no entry was read.
    pub fn characters_per_entry(&self) -> Option<f64> {
        (self.characters > 0).then(|| self.characters as f64 / self.entries as f64)
    }

    /// Describes the example entry and its tokens in a clause; empty without an example.
    fn describe_example(&self) -> String {
        let Some(ReadEntry { entry, tokens }) = &self.example else { return String::new() };
        const MAX_SHOWN_TOKENS: usize = 6;
        let first = tokens.iter().take(MAX_SHOWN_TOKENS).map(|token| format!("`{}`", token.escape_debug()));
        let quoted = first.chain((tokens.len() > MAX_SHOWN_TOKENS).then(|| "...".to_owned())).join(" ");
        format!("of `{}` it makes {quoted}", entry.escape_debug())
    }

    /// Returns the error that the tokenizer in the file `path` loses too many entries of its vocabulary.
    pub(super) fn error(&self, path: &str) -> anyhow::Error {
        let Self { entries, given_back, .. } = self;
        let error = anyhow!(
            "tokenizer `{path}` gives back {given_back} of the {entries} entries of its vocabulary: {}",
            self.describe_example()
        );
        let way_out = "say how the model's text was cut: `\"do_lower_case\": false` or another setting in \
                       tokenizer_config.json, or a tokenizer.json; or give --tokens-as-words, and a corpus whose words are \
                       entries of the vocabulary (`words` of JSON lines, or plain text with spaces between them)";
        let error = error.with_file(path).hint(way_out);
        if self.example.as_ref().is_some_and(|example| example.entry.chars().any(is_japanese)) {
            let class = "for Japanese put `\"tokenizer_class\": \"BertJapaneseTokenizer\", \"word_tokenizer_type\": \"mecab\"` \
                         there, and give a corpus of words, as in CoNLL-U";
            return error.hint_after("; ", class);
        }
        error
    }

    /// Returns a note if the vocabulary is cased, and the tokenizer lower-cases its input; `None` otherwise.
    pub fn note(&self) -> Option<String> {
        let Self { entries, lower_cased, .. } = self;
        self.lower_cases().then(|| {
            format!(
                "{lower_cased} of {entries} entries of the vocabulary have capitals, and the tokenizer lower-cases what it \
                 reads, as transformers does by default: {}; if the model is cased, put `\"do_lower_case\": false` into \
                 tokenizer_config.json",
                self.describe_example()
            )
        })
    }
}

/// Encodes each entry of a tokenizer's vocabulary, and counts the outcomes. `unknown` is the id of the unknown token. If the
/// tokenizer fails on an entry, all counts are 0; the first sentence of the run then reports the failure.
pub(super) fn measure(tokenizer: &Tokenizer, entries: &VocabularyEntries, unknown: Option<u32>) -> RoundTrip {
    let mut counts = RoundTrip::default();
    let mut worst = Outcome::Pieces;
    for VocabularyEntry { id, token, text } in &entries.whole_entries {
        let Ok(Ok((outcome, tokens))) = catch_panic(|| encode_entry(tokenizer, unknown, *id, text)) else {
            return RoundTrip::default();
        };
        counts.entries += 1;
        counts.characters += text.chars().filter(|c| !c.is_whitespace()).count() as u64;
        match outcome {
            Outcome::GivenBack => counts.given_back += 1,
            Outcome::LowerCased => counts.lower_cased += 1,
            Outcome::Lost => counts.lost += 1,
            Outcome::Pieces => {}
        }
        if outcome > worst {
            worst = outcome;
            counts.example = Some(ReadEntry { entry: token.clone(), tokens });
        }
    }
    counts
}

/// The outcome of encoding one vocabulary entry, worst last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// The tokenizer encodes the vocabulary entry as one token, the entry itself.
    GivenBack,
    /// Encoded as known pieces of one word.
    Pieces,
    /// The vocabulary entry has capitals, and is encoded as known pieces of one word, in lower case.
    LowerCased,
    /// Encoded as the unknown token, or as several words.
    Lost,
}

/// Encodes one entry, with and without its leading space, because some tokenizers add or remove a space before a text. Returns
/// the outcome, and the tokens unless the entry is encoded as itself.
fn encode_entry(tokenizer: &Tokenizer, unknown: Option<u32>, id: u32, text: &str) -> Result<(Outcome, Vec<String>)> {
    let encode = |text: &str| tokenizer.encode(text, false).map_err(|error| anyhow!("{error}"));
    let is_given_back = |encoding: &Encoding| encoding.get_ids() == [id];
    let encoding = encode(text)?;
    let bare = text.trim_start_matches(' ');
    if is_given_back(&encoding) || (bare.len() < text.len() && is_given_back(&encode(bare)?)) {
        return Ok((Outcome::GivenBack, Vec::new()));
    }
    let tokens = encoding.get_tokens().to_vec();
    let (ids, is_one_word) = (encoding.get_ids(), encoding.get_word_ids().iter().all_equal());
    let is_known = !ids.is_empty() && ids.iter().all(|id| unknown != Some(*id));
    let outcome = if !is_one_word || !is_known {
        Outcome::Lost
    } else if has_capitals(bare) && !tokens.iter().any(|token| has_capitals(token)) {
        Outcome::LowerCased
    } else {
        Outcome::Pieces
    };
    Ok((outcome, tokens))
}

/// Whether a character is a Chinese character, which BERT's tokenizer sets apart, or belongs to a Japanese syllabary.
fn is_japanese(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}')
}

fn has_capitals(text: &str) -> bool {
    text.chars().any(char::is_uppercase)
}
