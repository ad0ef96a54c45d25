//! Properties of a tokenizer that no file states. They follow from its parts, or from its encoding of a short text.

use anyhow::{Result, anyhow};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::{Encoding, ModelWrapper, TruncationDirection};

use super::bounds::Tokenizer;
use super::config::{TokenizerConfig, named_token};
use super::marks::for_each_part;

/// Returns the id of the separator: the token that `sep_token` names or, without that setting, the special token at the end of
/// a text. `None` if there is no such token. Fails if encoding fails.
pub(super) fn separator_id(tokenizer: &Tokenizer, settings: &TokenizerConfig) -> Result<Option<u32>> {
    if let Some((name, _)) = named_token(&settings.values, "sep_token") {
        return Ok(tokenizer.token_to_id(name));
    }
    // Not an empty text, where a single special token could stand before or after it.
    let around =
        tokenizer.encode("a", true).map_err(|error| anyhow!("the tokenizer fails on the text `a`: {error}"))?;
    let last = around.get_special_tokens_mask().iter().rposition(|&mask| mask == 1).filter(|&place| place > 0);
    Ok(last.filter(|&place| place + 1 == around.len()).map(|place| around.get_ids()[place]))
}

/// Returns the id of the unknown token; `None` if there is none. The vocabulary's model names the token. For a unigram model,
/// the settings name it, or it is `<unk>` or `[UNK]`.
pub(super) fn unknown_id(tokenizer: &Tokenizer, settings: &TokenizerConfig) -> Option<u32> {
    let token = match &tokenizer.get_model().model {
        ModelWrapper::WordPiece(model) => Some(model.unk_token.as_str()),
        ModelWrapper::WordLevel(model) => Some(model.unk_token.as_str()),
        ModelWrapper::BPE(model) => model.unk_token.as_deref(),
        ModelWrapper::Unigram(_) => match named_token(&settings.values, "unk_token") {
            Some((name, _)) => Some(name),
            // The second one is DeBERTa's.
            None => ["<unk>", "[UNK]"].into_iter().find(|token| tokenizer.token_to_id(token).is_some()),
        },
    };
    token.and_then(|token| tokenizer.token_to_id(token))
}

/// Makes the tokenizer for words that were split beforehand, with a space before each word. `None` if `text` serves for such
/// words.
pub(super) fn word_tokenizer(text: &Tokenizer) -> Option<Tokenizer> {
    let mut pre_tokenizer = text.get_pre_tokenizer()?.clone();
    let mut changed = false;
    for_each_part(&mut pre_tokenizer.0, &mut |part| {
        if let PreTokenizerWrapper::ByteLevel(byte_level) = part {
            changed |= !byte_level.add_prefix_space;
            byte_level.add_prefix_space = true;
        }
    });
    changed.then(|| {
        let mut words = text.clone();
        words.with_pre_tokenizer(Some(pre_tokenizer));
        words
    })
}

/// Whether no token spans a space: the pre-tokenizer splits at spaces, and no added token contains one.
pub(super) fn has_tokens_within_words(tokenizer: &Tokenizer) -> bool {
    let mut splits = false;
    if let Some(pre_tokenizer) = tokenizer.get_pre_tokenizer() {
        for_each_part(&mut pre_tokenizer.0.clone(), &mut |part| {
            splits |= match part {
                PreTokenizerWrapper::BertPreTokenizer(_)
                | PreTokenizerWrapper::Whitespace(_)
                | PreTokenizerWrapper::WhitespaceSplit(_) => true,
                PreTokenizerWrapper::ByteLevel(byte_level) => byte_level.use_regex,
                PreTokenizerWrapper::Metaspace(metaspace) => metaspace.get_split(),
                _ => false,
            }
        });
    }
    splits && tokenizer.get_added_tokens_decoder().values().all(|token| !token.content.contains(' '))
}

/// The special token before a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BeginningToken {
    /// The special token that the tokenizer itself puts before a text, if any.
    Unchanged,
    /// The token with this id. It is added only if the tokenizer itself puts no special token before a text.
    Token(u32),
    /// No special token before a text.
    Nothing,
}

/// Returns the id of the beginning-of-text token: the token that `bos_token` names, or else `bos_token_id`. `None` without
/// either.
pub(super) fn bos_token_id(tokenizer: &Tokenizer, settings: &TokenizerConfig, rows: usize) -> Option<u32> {
    let by_name = named_token(&settings.values, "bos_token").and_then(|(name, _)| tokenizer.token_to_id(name));
    let by_id = settings.bos_token_id.filter(|&id| (id as usize) < rows && tokenizer.id_to_token(id).is_some());
    by_name.or(by_id)
}

impl BeginningToken {
    /// Changes the beginning of an encoded text. `Token` puts its token there unless the text begins with a special token,
    /// `Nothing` removes a special token from there, and `Unchanged` leaves the text as it is.
    pub fn apply(self, mut encoding: Encoding, tokenizer: &Tokenizer) -> Encoding {
        let has_own = encoding.get_special_tokens_mask().first() == Some(&1);
        match self {
            Self::Token(id) if !has_own => {
                let tokens = vec![tokenizer.id_to_token(id).unwrap_or_default()];
                let (one, nothing, ranges) = (vec![1], Vec::new(), std::iter::empty().collect());
                let (words, offsets) = (vec![None], vec![(0, 0)]);
                let first = Encoding::new(vec![id], vec![0], tokens, words, offsets, one.clone(), one, nothing, ranges);
                Encoding::merge([first, encoding], false)
            }
            Self::Nothing if has_own => {
                encoding.truncate(encoding.len() - 1, 0, TruncationDirection::Left);
                encoding
            }
            _ => encoding,
        }
    }
}

/// Whether a text that follows another text needs a space before it, as part of its first token. Byte-level BPE needs it,
/// because it cuts `a a` into `a` and `Ġa`. Tokenizers that cut at white space, or treat the beginning of every text as the
/// beginning of a word, do not.
pub(super) fn needs_joining_space(tokenizer: &Tokenizer) -> bool {
    let ids =
        |text: &str| tokenizer.encode(text, false).map(|encoding| encoding.get_ids().to_vec()).unwrap_or_default();
    let (first, with_space, both) = (ids("a"), ids(" a"), ids("a a"));
    let after_first = |text: Vec<u32>| [first.clone(), text].concat();
    both != after_first(first.clone()) && both == after_first(with_space)
}
