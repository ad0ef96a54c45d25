//! The text of a token, without the marks of the vocabulary.

use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{Decoder, ModelWrapper};
use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};

use super::bounds::Tokenizer;
use super::each;

/// How a vocabulary writes where in a word a token stands.
enum Marks {
    /// `##` and similar marks before a token that continues a word.
    Continuation(String),
    /// Bytes as letters, a space among them before what begins a word.
    ByteLevel,
    /// `▁` and similar marks before a token that begins a word.
    Begin(char),
    None,
}

impl Marks {
    fn of(tokenizer: &Tokenizer) -> Self {
        if let ModelWrapper::WordPiece(model) = &tokenizer.get_model().model {
            return Self::Continuation(model.continuing_subword_prefix.clone());
        }
        let mut marks = Self::None;
        if let Some(pre_tokenizer) = tokenizer.get_pre_tokenizer() {
            each(&mut pre_tokenizer.0.clone(), &mut |part| match part {
                PreTokenizerWrapper::ByteLevel(_) => marks = Self::ByteLevel,
                PreTokenizerWrapper::Metaspace(metaspace) => marks = Self::Begin(metaspace.get_replacement()),
                _ => {}
            });
        }
        marks
    }

    /// Whether a token stands at the beginning of a word.
    fn begins_word(&self, token: &str) -> bool {
        match self {
            Self::Continuation(mark) => !token.starts_with(mark.as_str()),
            Self::ByteLevel => token.starts_with(BYTE_LEVEL_SPACE),
            Self::Begin(mark) => token.starts_with(*mark),
            Self::None => true,
        }
    }

    /// The text of a token.
    fn surface(&self, token: &str) -> String {
        match self {
            Self::Continuation(mark) => {
                token.strip_prefix(mark.as_str()).filter(|rest| !rest.is_empty()).unwrap_or(token).to_owned()
            }
            Self::ByteLevel => {
                // Bytes that are no whole character become U+FFFD, which is no punctuation.
                let decoded = ByteLevel::default().decode_chain(vec![token.to_owned()]).unwrap_or_default().concat();
                decoded.trim_start_matches(' ').to_owned()
            }
            Self::Begin(mark) => token.strip_prefix(*mark).unwrap_or(token).to_owned(),
            Self::None => token.to_owned(),
        }
    }
}

/// The letter that encodes the byte of a space.
const BYTE_LEVEL_SPACE: char = 'Ġ';

/// The ids of the tokens that begin a word and hold a letter, ascending; none in brackets.
pub(super) fn word_beginnings(tokenizer: &Tokenizer) -> Vec<u32> {
    let marks = Marks::of(tokenizer);
    let is_word = |token: &str| {
        let bracketed =
            [('[', ']'), ('<', '>')].iter().any(|&(open, close)| token.starts_with(open) && token.ends_with(close));
        !bracketed && marks.begins_word(token) && marks.surface(token).chars().any(char::is_alphabetic)
    };
    let vocabulary = tokenizer.get_vocab(true);
    let mut ids: Vec<u32> = vocabulary.into_iter().filter(|(token, _)| is_word(token)).map(|(_, id)| id).collect();
    ids.sort_unstable();
    ids
}

/// Whether the surface of each id of the vocabulary is all Unicode punctuation.
pub(super) fn punctuation_table(tokenizer: &Tokenizer) -> Vec<bool> {
    let marks = Marks::of(tokenizer);
    let vocabulary = tokenizer.get_vocab(true);
    let mut table = Vec::new();
    for (token, id) in vocabulary {
        if is_punctuation(&marks.surface(&token)) {
            let id = id as usize;
            table.resize(table.len().max(id + 1), false);
            table[id] = true;
        }
    }
    table
}

fn is_punctuation(surface: &str) -> bool {
    !surface.is_empty() && surface.chars().all(|c| c.general_category_group() == GeneralCategoryGroup::Punctuation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surfaces_have_no_marks() {
        let continuation = || Marks::Continuation("##".to_owned());
        for (marks, token, surface) in [
            (continuation(), "##.", "."),
            // Literally in a text.
            (continuation(), "##", "##"),
            (continuation(), "▁.", "▁."),
            (Marks::ByteLevel, "Ġ.", "."),
            (Marks::ByteLevel, "Ġ", ""),
            (Marks::ByteLevel, "âĢ¦", "…"),
            (Marks::ByteLevel, "âĢ", "\u{fffd}"),
            (Marks::Begin('▁'), "▁.", "."),
            (Marks::Begin('▁'), "▁", ""),
            (Marks::None, "##.", "##."),
        ] {
            assert_eq!(marks.surface(token), surface, "{token}");
        }
        let begins = |marks: Marks| ["##a", "a", "Ġa", "▁a"].map(|token| marks.begins_word(token));
        assert_eq!(begins(continuation()), [false, true, true, true]);
        assert_eq!(begins(Marks::ByteLevel), [false, false, true, false]);
        assert_eq!(begins(Marks::Begin('▁')), [false, false, false, true]);
        assert!(is_punctuation("…") && is_punctuation("?!") && is_punctuation("。"));
        assert!(!is_punctuation("") && !is_punctuation("\u{fffd}") && !is_punctuation("$") && !is_punctuation("a."));
    }
}
