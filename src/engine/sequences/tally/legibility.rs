//! Whether a tokenizer could read a corpus, as counts: for the health of the input.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::tokenizer::{ModelTokenizer, script_of};
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::merge_fields;

/// Counts of how the tokenizer read the words of the encoded sentences.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Legibility {
    /// Characters of words.
    pub characters: u64,
    /// Letters of words.
    pub letters: u64,
    /// Letters of scripts in which the vocabulary has no words, by script.
    pub foreign: BTreeMap<String, u64>,
    /// Words whose capitals are lower-cased although the vocabulary is cased.
    pub lower_cased: u64,
    /// Sentences of one token of text.
    pub of_one_token: u64,
    /// Sentences with a word that no entry is as long as, and that is one unknown token: of vocabularies of letters or k-mers.
    pub unparted: u64,
}

merge_fields!(Legibility { characters, letters, foreign, lower_cased, of_one_token, unparted });

impl Legibility {
    /// Counts a sequence that `tokenizer` made of a sentence.
    pub fn add(&mut self, sequence: &Sequence, tokenizer: &ModelTokenizer) {
        let mut is_unparted = false;
        for (place, span) in sequence.words.iter().enumerate() {
            let word = sequence.form(place);
            self.lower_cased += u64::from(tokenizer.lower_cases() && word.contains(char::is_uppercase));
            self.add_characters(word, tokenizer);
            let is_unknown = span.len() == 1 && Some(sequence.ids[span.start()]) == tokenizer.unknown;
            let is_longer = |length| word.chars().nth(length).is_some();
            is_unparted |= is_unknown && tokenizer.entry_length.is_some_and(is_longer);
        }
        self.unparted += u64::from(is_unparted);
        self.of_one_token += u64::from(sequence.text().nth(1).is_none());
    }

    fn add_characters(&mut self, word: &str, tokenizer: &ModelTokenizer) {
        for c in word.chars() {
            self.characters += u64::from(!c.is_whitespace());
            let Some(script) = script_of(c) else { continue };
            self.letters += 1;
            if !tokenizer.scripts.know(script) {
                *self.foreign.entry(script.to_owned()).or_default() += 1;
            }
        }
    }
}
