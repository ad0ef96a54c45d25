//! Properties of a tokenizer that no file names outright: they follow from its parts, or from what it makes of a short text.

use anyhow::{Result, anyhow};
use tokenizers::ModelWrapper;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;

use super::bounds::Tokenizer;
use super::config::{TokenizerConfig, named};
use super::marks::each;

/// The separator: what `sep_token` names, else the special token after a text.
pub(super) fn separator(tokenizer: &Tokenizer, settings: &TokenizerConfig) -> Result<Option<u32>> {
    if let Some((name, _)) = named(&settings.values, "sep_token") {
        return Ok(tokenizer.token_to_id(name));
    }
    // Around an empty text a single special token could stand before it or after it.
    let around =
        tokenizer.encode("a", true).map_err(|error| anyhow!("the tokenizer fails on the text `a`: {error}"))?;
    let last = around.get_special_tokens_mask().iter().rposition(|&mask| mask == 1).filter(|&place| place > 0);
    Ok(last.filter(|&place| place + 1 == around.len()).map(|place| around.get_ids()[place]))
}

/// The unknown token: what the model of the vocabulary puts there; a unigram model does not tell it.
pub(super) fn unknown(tokenizer: &Tokenizer, settings: &TokenizerConfig) -> Option<u32> {
    let token = match &tokenizer.get_model().model {
        ModelWrapper::WordPiece(model) => Some(model.unk_token.as_str()),
        ModelWrapper::WordLevel(model) => Some(model.unk_token.as_str()),
        ModelWrapper::BPE(model) => model.unk_token.as_deref(),
        ModelWrapper::Unigram(_) => match named(&settings.values, "unk_token") {
            Some((name, _)) => Some(name),
            // DeBERTa's is the second.
            None => ["<unk>", "[UNK]"].into_iter().find(|token| tokenizer.token_to_id(token).is_some()),
        },
    };
    token.and_then(|token| tokenizer.token_to_id(token))
}

/// The tokenizer for words split beforehand, where it is another one: with a space before each of them.
pub(super) fn for_words(text: &Tokenizer) -> Option<Tokenizer> {
    let mut pre_tokenizer = text.get_pre_tokenizer()?.clone();
    let mut changed = false;
    each(&mut pre_tokenizer.0, &mut |part| {
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

/// Whether no token reaches over a space: the pre-tokenizer splits there, and no added token has one inside.
pub(super) fn splits_at_spaces(tokenizer: &Tokenizer) -> bool {
    let mut splits = false;
    if let Some(pre_tokenizer) = tokenizer.get_pre_tokenizer() {
        each(&mut pre_tokenizer.0.clone(), &mut |part| {
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
