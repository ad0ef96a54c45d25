//! The steps of a tokenizer; each checks its input before the library processes it.
//! The library ignores errors of a normaliser, so a step [breaks off](abort_with) instead.

use std::collections::HashMap;
use std::iter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Error, anyhow, ensure};
use serde::Deserialize;
use tokenizers::models::TrainerWrapper;
use tokenizers::{
    DecoderWrapper, Model, ModelWrapper, NormalizedString, Normalizer, NormalizerWrapper, PostProcessorWrapper,
    PreTokenizedString, PreTokenizer, PreTokenizerWrapper, Token, TokenizerImpl,
};

use super::file::MAX_TOKEN_BYTES;
use crate::model::tokenizer::codes::{BpeCodes, CONTINUATION_MARK};
use crate::system::panics::abort_with;
use crate::system::time_limit;

/// A tokenizer of the crate `tokenizers` whose normaliser, pre-tokenizer and model refuse what may take too much time or
/// memory.
pub(in crate::model::tokenizer) type Tokenizer =
    TokenizerImpl<BoundedModel, BoundedNormalizer, BoundedPreTokenizer, PostProcessorWrapper, DecoderWrapper>;

/// Maximum length of a normalised text, in bytes: four times the longest text that is tokenised. The library holds two
/// or three copies of the text, each of 17 bytes per byte of text.
const MAX_NORMALIZED_BYTES: usize = 4 << 20;

/// Maximum growth of a text by normalisation: (factor, additional bytes). In Unicode's compatibility forms, an Arabic ligature
/// grows elevenfold, more than any other character (Unicode Standard Annex 15).
const MAX_GROWTH: (usize, usize) = (64, 1 << 10);

/// Length in bytes up to which most parts of a normaliser need no estimate of their result's length. A replacement has at
/// most [`MAX_TOKEN_BYTES`], so the result stays within [`MAX_NORMALIZED_BYTES`].
const MAX_PIECE_BYTES: usize = MAX_NORMALIZED_BYTES / MAX_TOKEN_BYTES;

/// A normaliser that breaks off if its result would be too long to tokenise.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "NormalizerWrapper")]
pub(in crate::model::tokenizer) struct BoundedNormalizer {
    /// The whole normaliser, which may be a nested sequence.
    pub normalizer: NormalizerWrapper,
    /// Parts of the normaliser in order, with nested sequences flattened.
    pub parts: Vec<NormalizerWrapper>,
}

impl<T: Into<NormalizerWrapper>> From<T> for BoundedNormalizer {
    fn from(normalizer: T) -> Self {
        let mut parts = Vec::new();
        let whole = normalizer.into();
        flatten(&whole, &mut parts);
        Self { normalizer: whole, parts }
    }
}

/// Appends the innermost parts of a normaliser to `parts`, in order.
fn flatten(normalizer: &NormalizerWrapper, parts: &mut Vec<NormalizerWrapper>) {
    match normalizer {
        NormalizerWrapper::Sequence(sequence) => sequence.as_ref().iter().for_each(|part| flatten(part, parts)),
        part => parts.push(part.clone()),
    }
}

impl Normalizer for BoundedNormalizer {
    fn normalize(&self, text: &mut NormalizedString) -> tokenizers::Result<()> {
        let (times, more) = MAX_GROWTH;
        let bytes = text.len_original();
        let most = MAX_NORMALIZED_BYTES.min(bytes.saturating_mul(times).saturating_add(more));
        for part in &self.parts {
            time_limit::abort_if_over();
            if estimate_bytes(part, text.get()) > MAX_NORMALIZED_BYTES {
                abort_with(too_long_error(bytes, MAX_NORMALIZED_BYTES));
            }
            part.normalize(text)?;
            if text.len() > most {
                abort_with(too_long_error(bytes, most));
            }
        }
        Ok(())
    }
}

/// Returns the error that a text of `bytes` bytes grows beyond `most` bytes in the normaliser.
fn too_long_error(bytes: usize, most: usize) -> Error {
    anyhow!("of {bytes} bytes of text its normaliser makes more than {most}, the most that are tokenised")
}

/// Estimates the number of bytes that one part of a normaliser may make of a text; 0 if the number is certainly small.
fn estimate_bytes(part: &NormalizerWrapper, text: &str) -> usize {
    match part {
        // A match may be empty: at most one before each character, and one at the end.
        NormalizerWrapper::Replace(replace) => {
            let matches = text.chars().count() + 1;
            text.len().saturating_add(matches.saturating_mul(replace.content.len()))
        }
        NormalizerWrapper::Prepend(prepend) => text.len() + prepend.prepend.len(),
        _ if text.len() <= MAX_PIECE_BYTES => 0,
        // Other parts work on few characters at a time, so the result is as long as the results of the pieces together.
        part => {
            let piece_bytes = |piece: &str| {
                let mut piece = NormalizedString::from(piece);
                part.normalize(&mut piece).map_or(0, |()| piece.len())
            };
            let mut sum = 0;
            let mut pieces = split_into_pieces(text);
            while let Some(piece) = pieces.next().filter(|_| sum <= MAX_NORMALIZED_BYTES) {
                sum += piece_bytes(piece);
            }
            sum
        }
    }
}

/// Splits a text into pieces of at most [`MAX_PIECE_BYTES`] bytes.
fn split_into_pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    iter::from_fn(move || {
        let end = (0..=MAX_PIECE_BYTES.min(rest.len())).rev().find(|&end| rest.is_char_boundary(end))?;
        let (piece, others) = rest.split_at(end);
        rest = others;
        (!piece.is_empty()).then_some(piece)
    })
}

/// A pre-tokenizer that breaks off between its parts when the time limit has passed.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub(in crate::model::tokenizer) struct BoundedPreTokenizer(pub PreTokenizerWrapper);

impl PreTokenizer for BoundedPreTokenizer {
    fn pre_tokenize(&self, text: &mut PreTokenizedString) -> tokenizers::Result<()> {
        fn apply(part: &PreTokenizerWrapper, text: &mut PreTokenizedString) -> tokenizers::Result<()> {
            time_limit::abort_if_over();
            match part {
                PreTokenizerWrapper::Sequence(parts) => parts.as_ref().iter().try_for_each(|part| apply(part, text)),
                part => part.pre_tokenize(text),
            }
        }
        apply(&self.0, text)
    }
}

/// Maximum length of a word that `WordPiece` cuts, in characters. It looks up every substring, about half the square of the
/// length. BERT cuts words of up to 100 characters.
const MAX_WORD_CHARS: usize = 1 << 10;

/// Maximum number of bytes that the library compares or copies for one word: 256 MiB, 256 for each byte of the longest text
/// that is tokenised.
const MAX_WORD_WORK_BYTES: usize = 1 << 28;

/// A tokenizer model that breaks off at a word that could take too much time or memory.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "ModelWrapper")]
pub(in crate::model::tokenizer) struct BoundedModel {
    pub model: ModelWrapper,
    /// Length of the longest token, in bytes; 0 for `WordPiece`, for which word lengths are bounded instead.
    max_token_bytes: usize,
    /// The `bpe.codes` that cut words into pieces for the model to look up; `None` if the model cuts words itself.
    pub codes: Option<Arc<BpeCodes>>,
}

impl From<ModelWrapper> for BoundedModel {
    fn from(model: ModelWrapper) -> Self {
        let longest = match &model {
            ModelWrapper::Unigram(model) => model.iter().map(|(token, _)| token.len()).max(),
            // `WordPiece` has a bound on words instead.
            ModelWrapper::WordPiece(_) => None,
            model => model.get_vocab().keys().map(String::len).max(),
        };
        Self { max_token_bytes: longest.unwrap_or_default(), model, codes: None }
    }
}

impl BoundedModel {
    /// Looks up the pieces of a word, all but the last with [`CONTINUATION_MARK`], and gives each token its offsets in the
    /// word.
    fn tokenize_pieces(&self, pieces: Vec<String>) -> tokenizers::Result<Vec<Token>> {
        let mut tokens = Vec::new();
        let mut start = 0;
        let last = pieces.len().saturating_sub(1);
        for (place, piece) in pieces.into_iter().enumerate() {
            let end = start + piece.len() - if place < last { CONTINUATION_MARK.len() } else { 0 };
            tokens
                .extend(self.model.tokenize(&piece)?.into_iter().map(|token| Token { offsets: (start, end), ..token }));
            start = end;
        }
        Ok(tokens)
    }

    /// Fails if cutting `word` into tokens may take too much time or memory.
    fn ensure_cheap_word(&self, word: &str) -> anyhow::Result<()> {
        let (bytes, longest) = (word.len(), self.max_token_bytes);
        if self.codes.is_some() {
            let characters = word.chars().count();
            ensure!(
                characters <= MAX_WORD_CHARS,
                "it has a word of {characters} characters: at most {MAX_WORD_CHARS} are cut"
            );
        }
        match &self.model {
            ModelWrapper::WordPiece(model) => {
                let (characters, most) = (word.chars().count(), model.max_input_chars_per_word);
                // A word that is too long for the model becomes the unknown token.
                ensure!(
                    characters <= MAX_WORD_CHARS || characters > most,
                    "it has a word of {characters} characters, and max_input_chars_per_word is {most}: at most \
                     {MAX_WORD_CHARS} are cut"
                );
            }
            // At each byte it copies and looks up every token that the rest of the word begins with.
            ModelWrapper::Unigram(_) => {
                let work = bytes.saturating_mul(longest.min(bytes).pow(2) / 2);
                ensure!(
                    work <= 8 * MAX_WORD_WORK_BYTES,
                    "it has a word of {bytes} bytes, and the vocabulary tokens of {longest}: to cut the one into the \
                     others may take too long"
                );
            }
            // Each token of a word is copied, and may be as long as the longest.
            ModelWrapper::BPE(_) | ModelWrapper::WordLevel(_) => ensure!(
                bytes.saturating_mul(longest) <= MAX_WORD_WORK_BYTES,
                "it has a word of {bytes} bytes, and the vocabulary tokens of {longest}: the one in the others may take \
                 too much memory"
            ),
        }
        Ok(())
    }
}

impl Model for BoundedModel {
    type Trainer = TrainerWrapper;

    fn tokenize(&self, word: &str) -> tokenizers::Result<Vec<Token>> {
        time_limit::abort_if_over();
        if let Err(error) = self.ensure_cheap_word(word) {
            abort_with(error);
        }
        match &self.codes {
            Some(codes) => self.tokenize_pieces(codes.split_word(word)),
            None => self.model.tokenize(word),
        }
    }

    fn token_to_id(&self, token: &str) -> Option<u32> {
        self.model.token_to_id(token)
    }

    fn id_to_token(&self, id: u32) -> Option<String> {
        self.model.id_to_token(id)
    }

    fn get_vocab(&self) -> HashMap<String, u32> {
        self.model.get_vocab()
    }

    fn get_vocab_size(&self) -> usize {
        self.model.get_vocab_size()
    }

    fn save(&self, folder: &Path, prefix: Option<&str>) -> tokenizers::Result<Vec<PathBuf>> {
        self.model.save(folder, prefix)
    }

    fn get_trainer(&self) -> TrainerWrapper {
        self.model.get_trainer()
    }
}
