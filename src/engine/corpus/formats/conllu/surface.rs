//! The text of a sentence of CoNLL-U, made of what its lines say of it.

use anyhow::{Result, anyhow, ensure};

use crate::corpus::bounds::SentenceSize;
use crate::corpus::sentence::Word;
use crate::corpus::sentence::written::{Written, WrittenPiece};
use crate::system::errors::Facts;
use crate::system::printable::excerpt;

/// ID, FORM, LEMMA, UPOS, XPOS, FEATS, HEAD, DEPREL, DEPS, MISC.
pub(super) const COLUMNS: usize = 10;

/// The pieces of a sentence's text, as its lines come.
#[derive(Default)]
pub(super) struct Surface {
    pieces: Vec<WrittenPiece>,
    words: usize,
}

impl Surface {
    /// Takes the line of a multiword token that `before` words came before.
    /// Fails if its words are not the next ones.
    pub fn multiword(&mut self, columns: &[&str; COLUMNS], before: usize, size: &mut SentenceSize) -> Result<()> {
        let [id, form, .., misc] = *columns;
        let expected = before + 1;
        let ends = id.split_once('-').and_then(|(first, last)| Some((number(first)?, number(last)?)));
        let last = ends.filter(|&(first, last)| first == expected && last >= first && self.words <= before);
        let other = || {
            let error = anyhow!("column 1 (ID) is `{}`: expected a range from {expected} on", excerpt(id));
            error.of_value(id).hint("put the line of a multiword token before the lines of its words")
        };
        let (_, last) = last.ok_or_else(other)?;
        // A treebank without its text has underscores, and its words stand for themselves.
        if !matches!(form, "_" | "") {
            size.add_surface(form)?;
            let (surface, words) = (Some(form.to_owned()), last - before);
            self.pieces.push(WrittenPiece { surface, words, space_after: space_after(misc) });
            self.words = last;
        }
        Ok(())
    }

    /// Takes the line of a word that `before` words came before.
    pub fn word(&mut self, before: usize, space_after: bool) {
        if before >= self.words {
            self.pieces.push(WrittenPiece::word(space_after));
            self.words = before + 1;
        }
    }

    /// Fails if the last multiword token has words that are not there.
    pub fn ensure_whole(&self, words: usize) -> Result<()> {
        let lacking = || anyhow!("a multiword token ends with word {}, and the sentence with word {words}", self.words);
        ensure!(self.words <= words, lacking());
        Ok(())
    }

    /// The text: `text` if the pieces stand in it from left to right, else the pieces side by side.
    pub fn written(&self, words: &[Word], text: Option<&str>) -> Written {
        let forms: Vec<&str> = words.iter().map(|word| word.form.as_str()).collect();
        let aligned = text.and_then(|text| Written::aligned(text, &forms, &self.pieces).ok());
        aligned.unwrap_or_else(|| Written::joined(&forms, &self.pieces))
    }
}

/// Whether MISC leaves white space after a token.
pub(super) fn space_after(misc: &str) -> bool {
    !misc.split('|').any(|entry| entry == "SpaceAfter=No")
}

/// A number from 1 as CoNLL-U writes it: digits without a sign or leading zeros.
pub(super) fn number(text: &str) -> Option<usize> {
    let plain = text.starts_with(|first: char| matches!(first, '1'..='9'));
    text.parse().ok().filter(|_| plain)
}
