//! The text of a token, without the marks with which a vocabulary shows word boundaries.

use itertools::Itertools;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{Decoder, ModelWrapper, NormalizerWrapper};
use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};

use super::bounds::Tokenizer;
use super::codes::CONTINUATION_MARK;

/// How a vocabulary marks the position of a token in its word.
pub(super) struct BoundaryMarks {
    /// How tokens that begin a word are marked.
    start: WordStart,
    /// Mark at the end of a token that ends a word, such as `</w>`; `None` if the vocabulary has no such mark.
    word_end_mark: Option<String>,
    /// Mark `@@` at the end of every token of a word except the last; `None` if the vocabulary has no such mark.
    continuation_mark: Option<&'static str>,
}

/// How a vocabulary distinguishes tokens that begin a word from tokens that continue one.
enum WordStart {
    /// `##` and similar marks before a token that continues a word.
    Continuation(String),
    /// Bytes are written as letters; the letter for a space precedes a token that begins a word.
    ByteLevel,
    /// `▁` and similar marks before a token that begins a word.
    Prefix(char),
    /// No marks: every token counts as the beginning of a word.
    None,
}

impl BoundaryMarks {
    /// Finds how a tokenizer's vocabulary marks the start and end of words, from its model, normaliser and pre-tokenizer.
    pub fn read(tokenizer: &Tokenizer) -> Self {
        let (mut start, mut end) = (WordStart::None, None);
        let joint = tokenizer.get_model().codes.is_some().then_some(CONTINUATION_MARK);
        match &tokenizer.get_model().model {
            ModelWrapper::WordPiece(model) => {
                let start = WordStart::Continuation(model.continuing_subword_prefix.clone());
                return Self { start, word_end_mark: end, continuation_mark: joint };
            }
            ModelWrapper::BPE(model) => end = model.end_of_word_suffix.clone().filter(|mark| !mark.is_empty()),
            ModelWrapper::WordLevel(_) | ModelWrapper::Unigram(_) => {}
        }
        // Llama's and Gemma's files have the mark only in their normaliser.
        let puts_mark = |part: &NormalizerWrapper| match part {
            NormalizerWrapper::Replace(replace) => replace.content.starts_with(SENTENCEPIECE_SPACE),
            NormalizerWrapper::Prepend(prepend) => prepend.prepend.starts_with(SENTENCEPIECE_SPACE),
            _ => false,
        };
        if tokenizer.get_normalizer().is_some_and(|normalizer| normalizer.parts.iter().any(puts_mark)) {
            start = WordStart::Prefix(SENTENCEPIECE_SPACE);
        }
        if let Some(pre_tokenizer) = tokenizer.get_pre_tokenizer() {
            for_each_part(&mut pre_tokenizer.0.clone(), &mut |part| match part {
                PreTokenizerWrapper::ByteLevel(_) => start = WordStart::ByteLevel,
                PreTokenizerWrapper::Metaspace(metaspace) => start = WordStart::Prefix(metaspace.get_replacement()),
                _ => {}
            });
        }
        Self { start, word_end_mark: end, continuation_mark: joint }
    }

    /// Whether the vocabulary's marks show that a token begins a word.
    fn begins_word(&self, token: &str) -> bool {
        match &self.start {
            WordStart::Continuation(mark) => !token.starts_with(mark.as_str()),
            WordStart::ByteLevel => token.starts_with(BYTE_LEVEL_SPACE),
            WordStart::Prefix(mark) => token.starts_with(*mark),
            WordStart::None => true,
        }
    }

    /// Returns the text of a token, without leading spaces.
    fn surface_text(&self, token: &str) -> String {
        self.token_text(token).trim_start_matches(' ').to_owned()
    }

    /// Returns the text of a token. Bytes that form no whole character become U+FFFD.
    pub fn token_text(&self, token: &str) -> String {
        let text = match &self.start {
            WordStart::Continuation(mark) => {
                token.strip_prefix(mark.as_str()).filter(|rest| !rest.is_empty()).unwrap_or(token).to_owned()
            }
            WordStart::ByteLevel => {
                ByteLevel::default().decode_chain(vec![token.to_owned()]).unwrap_or_default().concat()
            }
            WordStart::Prefix(mark) => token.strip_prefix(*mark).map_or(token.to_owned(), |rest| format!(" {rest}")),
            WordStart::None => token.to_owned(),
        };
        let mark = self.word_end_mark.as_deref().or(self.continuation_mark);
        let bare = mark.and_then(|mark| text.strip_suffix(mark).map(str::to_owned));
        bare.filter(|bare| !bare.is_empty()).unwrap_or(text)
    }

    /// Returns the text of a token that a tokenizer can produce on its own. `None` for a piece of a word or character, which
    /// occurs only next to other pieces.
    pub fn standalone_text(&self, token: &str) -> Option<String> {
        let is_whole = match (&self.start, &self.word_end_mark) {
            _ if self.continuation_mark.is_some_and(|joint| token.ends_with(joint)) => false,
            (_, Some(end)) => token.ends_with(end.as_str()),
            // A word may follow something other than a space.
            (WordStart::ByteLevel, None) => true,
            (_, None) => self.begins_word(token),
        };
        let text = is_whole.then(|| self.token_text(token))?;
        (!text.trim().is_empty() && !text.contains('\u{fffd}')).then_some(text)
    }
}

/// Character that stands for a space in sentencepiece.
const SENTENCEPIECE_SPACE: char = '▁';

/// Letter that encodes the byte of a space in byte-level BPE.
const BYTE_LEVEL_SPACE: char = 'Ġ';

/// Lists the ids of the tokens that begin a word and contain a letter, ascending. Tokens in brackets are left out.
pub(super) fn word_start_ids(tokenizer: &Tokenizer) -> Vec<u32> {
    let marks = BoundaryMarks::read(tokenizer);
    let is_word = |token: &str| {
        let bracketed =
            [('[', ']'), ('<', '>')].iter().any(|&(open, close)| token.starts_with(open) && token.ends_with(close));
        !bracketed && marks.begins_word(token) && marks.surface_text(token).chars().any(char::is_alphabetic)
    };
    let words = tokenizer.get_vocab(true).into_iter().filter(|(token, _)| is_word(token));
    words.map(|(_, id)| id).sorted_unstable().collect()
}

/// Returns, for each id of the vocabulary, whether the token's text consists of Unicode punctuation.
pub(super) fn punctuation_table(tokenizer: &Tokenizer) -> Vec<bool> {
    let marks = BoundaryMarks::read(tokenizer);
    let mut table = Vec::new();
    let signs = tokenizer.get_vocab(true).into_iter().filter(|(token, _)| is_punctuation(&marks.surface_text(token)));
    for id in signs.map(|(_, id)| id as usize) {
        table.resize(table.len().max(id + 1), false);
        table[id] = true;
    }
    table
}

fn is_punctuation(surface: &str) -> bool {
    !surface.is_empty() && surface.chars().all(|c| c.general_category_group() == GeneralCategoryGroup::Punctuation)
}

/// Calls `visit` with every part of a pre-tokenizer that is no sequence of further parts.
pub(super) fn for_each_part(pre_tokenizer: &mut PreTokenizerWrapper, visit: &mut impl FnMut(&mut PreTokenizerWrapper)) {
    if let PreTokenizerWrapper::Sequence(parts) = pre_tokenizer {
        parts.as_mut().iter_mut().for_each(|part| for_each_part(part, visit));
    } else {
        visit(pre_tokenizer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(start: WordStart) -> BoundaryMarks {
        BoundaryMarks { start, word_end_mark: None, continuation_mark: None }
    }

    fn continuation() -> BoundaryMarks {
        marks(WordStart::Continuation("##".to_owned()))
    }

    fn suffixed() -> BoundaryMarks {
        BoundaryMarks { start: WordStart::None, word_end_mark: Some("</w>".to_owned()), continuation_mark: None }
    }

    fn joined() -> BoundaryMarks {
        BoundaryMarks { start: WordStart::None, word_end_mark: None, continuation_mark: Some("@@") }
    }

    #[test]
    fn surfaces_have_no_marks() {
        for (marks, token, surface) in [
            (continuation(), "##.", "."),
            // Literally in a text.
            (continuation(), "##", "##"),
            (continuation(), "▁.", "▁."),
            (marks(WordStart::ByteLevel), "Ġ.", "."),
            (marks(WordStart::ByteLevel), "Ġ", ""),
            (marks(WordStart::ByteLevel), "âĢ¦", "…"),
            (marks(WordStart::ByteLevel), "âĢ", "\u{fffd}"),
            (marks(WordStart::Prefix('▁')), "▁.", "."),
            (marks(WordStart::Prefix('▁')), "▁", ""),
            (marks(WordStart::None), "##.", "##."),
            (suffixed(), ".</w>", "."),
            (suffixed(), "</w>", "</w>"),
            (joined(), ".@@", "."),
        ] {
            assert_eq!(marks.surface_text(token), surface, "{token}");
        }
        let begins = |marks: BoundaryMarks| ["##a", "a", "Ġa", "▁a"].map(|token| marks.begins_word(token));
        assert_eq!(begins(continuation()), [false, true, true, true]);
        assert_eq!(begins(marks(WordStart::ByteLevel)), [false, false, true, false]);
        assert_eq!(begins(marks(WordStart::Prefix('▁'))), [false, false, false, true]);
        assert!(is_punctuation("…") && is_punctuation("?!") && is_punctuation("。"));
        assert!(!is_punctuation("") && !is_punctuation("\u{fffd}") && !is_punctuation("$") && !is_punctuation("a."));
    }

    #[test]
    fn only_whole_words_and_characters_can_be_given_back_alone() {
        let whole = |marks: BoundaryMarks, tokens: [&str; 3]| tokens.map(|token| marks.standalone_text(token));
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(whole(continuation(), ["##a", "a", "##"]), [None, some("a"), None]);
        assert_eq!(whole(marks(WordStart::ByteLevel), ["Ġa", "âĢ", "Ġ"]), [some(" a"), None, None]);
        assert_eq!(whole(marks(WordStart::Prefix('▁')), ["▁a", "a", "▁"]), [some(" a"), None, None]);
        assert_eq!(whole(suffixed(), ["a</w>", "a", "</w>"]), [some("a"), None, some("</w>")]);
        assert_eq!(whole(joined(), ["a", "a@@", "@@"]), [some("a"), None, None]);
    }
}
