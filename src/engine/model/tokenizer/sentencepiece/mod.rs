//! Builds a tokenizer from a sentencepiece model, as the model's class in transformers does.

mod class;
mod proto;

use std::path::Path;

use anyhow::{Context, Result, anyhow, bail, ensure};
use itertools::Itertools;
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::models::unigram::Unigram;
use tokenizers::normalizers::{Precompiled, Sequence as Normalizers};
use tokenizers::pre_tokenizers::sequence::Sequence as PreTokenizers;
use tokenizers::processors::template::TemplateProcessing;
use tokenizers::{AddedToken, ModelWrapper};

use super::bounds::{
    BoundedModel, BoundedPreTokenizer, Tokenizer, ensure_short_added_tokens, ensure_short_replacements,
    ensure_short_tokens, ensure_small_trie,
};
use super::build::ensure_id;
use super::config::{ROLE_KEYS, TokenizerConfig, named_token};
use crate::model::files::ModelFile;
use crate::model::files::names::{MAX_TOKENIZER_BYTES, TOKENIZER};
use crate::system::errors::ErrorExt;
use class::{SentencePieceClass, list_sentinels};
use proto::{Algorithm, CONTROL_TYPE, SentencePieceModel, USER_DEFINED_TYPE};

/// Builds a tokenizer from a sentencepiece model. Fails if the file is no such model, its class is unknown, or its tokens do
/// not fit the tokens in accompanying files.
pub(super) fn build_sentencepiece(file: &ModelFile, settings: &TokenizerConfig) -> Result<Tokenizer> {
    let path = file.path();
    let at = path.display();
    let unusable = |error: tokenizers::Error| anyhow!("{error}").cannot("use sentencepiece model", &at);
    let class = SentencePieceClass::find(settings)
        .cannot("use sentencepiece model", &at)
        .map_err(|error| error.hint(convert_hint(path)))?;
    let model = SentencePieceModel::parse(&file.bytes(MAX_TOKENIZER_BYTES)?)
        .cannot("read sentencepiece model", &at)
        .map_err(|error| error.hint("is it whole, and a model of sentencepiece?"))?;
    let own_tokens = list_model_tokens(class, &model, settings)?;
    let replacements = parse_replacements(&model).cannot("use sentencepiece model", &at)?;
    let normalizers = class.normalizers(replacements, settings)?;
    let mut tokenizer =
        Tokenizer::new(BoundedModel::from(build_model(class, model, settings).cannot("use sentencepiece model", &at)?));
    if !normalizers.is_empty() {
        tokenizer.with_normalizer(Some(Normalizers::new(normalizers))).map_err(unusable)?;
    }
    let pre_tokenizers = PreTokenizers::new(class.pre_tokenizers(settings)?);
    tokenizer.with_pre_tokenizer(Some(BoundedPreTokenizer(pre_tokenizers.into())));
    add_tokens(&mut tokenizer, class, own_tokens, settings, path)?;
    set_special_token_template(&mut tokenizer, class, settings).cannot("use sentencepiece model", &at)?;
    Ok(tokenizer)
}

/// Returns a hint for converting the sentencepiece model at `path` to `tokenizer.json`.
fn convert_hint(path: &Path) -> String {
    let folder = path.parent().unwrap_or(path).display().to_string();
    format!(
        "to make {TOKENIZER} of it, run in Python, and put it beside config.json:\n  \
         from transformers import AutoTokenizer\n  \
         AutoTokenizer.from_pretrained({folder:?}).save_pretrained(\"tokenizer\")"
    )
}

/// Builds the library's BPE or unigram model. Fails if the vocabulary was trained for another algorithm than that of its
/// tokenizer class.
fn build_model(
    class: SentencePieceClass,
    model: SentencePieceModel,
    settings: &TokenizerConfig,
) -> Result<ModelWrapper> {
    let algorithm = if class == SentencePieceClass::Llama { Algorithm::Bpe } else { Algorithm::Unigram };
    // transformers 5 always uses the class's algorithm, even if the model was trained for the other one.
    if model.algorithm != algorithm {
        bail!("{class:?} tokenizers cut text by {algorithm:?}, and this model is trained for {:?}", model.algorithm);
    }
    let (vocabulary, unknown) = class.vocabulary(model, settings)?;
    // Files beside the model can name special tokens of any length.
    ensure_short_tokens(vocabulary.iter().map(|(token, _)| token))?;
    if class != SentencePieceClass::Llama {
        ensure_small_trie(vocabulary.iter().map(|(token, _)| token.as_str()))?;
        return Ok(Unigram::from(vocabulary, Some(unknown), false).map_err(|error| anyhow!("{error}"))?.into());
    }
    let ids: Vocab = vocabulary.into_iter().map(|(token, _)| token).zip(0..).collect();
    let merges = list_merges(&ids);
    let bpe = BPE::builder().vocab_and_merges(ids, merges).fuse_unk(true).byte_fallback(true);
    Ok(bpe.build().map_err(|error| anyhow!("{error}"))?.into())
}

/// Lists the BPE merges, which sentencepiece does not store: every split of a piece into two other pieces. The order is by id of
/// the piece, then by length of the first part (`generate_merges` in transformers' `tokenization_utils_base.py`).
fn list_merges(ids: &Vocab) -> Vec<(String, String)> {
    let halves = |piece: &'_ str| {
        let cuts = piece.char_indices().skip(1).map(|(at, _)| piece.split_at(at));
        let into_pieces = cuts.filter(|(first, second)| ids.contains_key(*first) && ids.contains_key(*second));
        into_pieces.map(|(first, second)| (first.to_owned(), second.to_owned())).collect::<Vec<_>>()
    };
    ids.iter().sorted_unstable_by_key(|(_, id)| **id).flat_map(|(piece, _)| halves(piece)).collect()
}

/// Parses the sentencepiece model's replacements of characters; `None` if it has none. Fails if they are damaged or too long.
fn parse_replacements(model: &SentencePieceModel) -> Result<Option<Precompiled>> {
    let map = &model.replacements;
    if map.is_empty() {
        return Ok(None);
    }
    // The library allocates a trie of the stated length before it checks that length.
    let trie = map.first_chunk().map(|length| u32::from_le_bytes(*length) as usize);
    ensure!(
        trie.is_some_and(|trie| (4..=map.len() - 4).contains(&trie)),
        "its precompiled_charsmap has {} bytes, and says that {} of them are its trie",
        map.len(),
        trie.unwrap_or(0)
    );
    ensure_short_replacements(map)?;
    Precompiled::from(map).map(Some).map_err(|error| anyhow!("{error}"))
}

/// Lists the sentencepiece model's own tokens that stay whole wherever a text contains them.
fn list_model_tokens(
    class: SentencePieceClass,
    model: &SentencePieceModel,
    settings: &TokenizerConfig,
) -> Result<Vec<AddedToken>> {
    // A list in a file replaces the model's own tokens.
    if let Some(tokens) = &settings.extra_special_tokens {
        return Ok(tokens.clone());
    }
    let pieces = model.pieces.iter().filter(|piece| [CONTROL_TYPE, USER_DEFINED_TYPE].contains(&piece.kind));
    let token = |text: &str, special| AddedToken::from(text, special).normalized(false);
    let mut tokens: Vec<AddedToken> = pieces.map(|piece| token(&piece.text, piece.kind == CONTROL_TYPE)).collect();
    if class == SentencePieceClass::T5 && !tokens.iter().any(|token| token.content.contains("<extra_id_")) {
        tokens.extend(list_sentinels(settings)?.into_iter().map(|text| token(&text, true)));
    }
    Ok(tokens)
}

/// Marks tokens that stay whole where a text contains them, and adds tokens that the vocabulary lacks. The order is that of
/// transformers: tokens listed with ids, tokens with a role, the sentencepiece model's own tokens.
fn add_tokens(
    tokenizer: &mut Tokenizer,
    class: SentencePieceClass,
    own: Vec<AddedToken>,
    settings: &TokenizerConfig,
    path: &Path,
) -> Result<()> {
    let mut tokens: Vec<AddedToken> = settings.added_tokens.values().cloned().collect();
    let is_listed = |content: &str| settings.added_tokens.values().any(|token| token.content == content);
    let mut roles = vec![];
    for role in ROLE_KEYS {
        let Some(content) = class.role_token(settings, role) else { continue };
        if !is_listed(&content) {
            let details = named_token(&settings.values, role).and_then(|(_, details)| details);
            let flag = |key: &str, default: bool| details.and_then(|token| token[key].as_bool()).unwrap_or(default);
            let takes_space = role == "mask_token" && details.is_none() && class.mask_absorbs_space();
            let token = AddedToken::from(&content, true)
                .lstrip(flag("lstrip", takes_space))
                .rstrip(flag("rstrip", false))
                .single_word(flag("single_word", false))
                .normalized(flag("normalized", false));
            tokens.push(token);
        }
        roles.push(content);
    }
    tokens.extend(own.into_iter().filter(|token| !is_listed(&token.content)));
    for token in &mut tokens {
        token.special |= roles.contains(&token.content);
    }
    ensure_short_added_tokens(&tokens).cannot("use vocabulary", path.display())?;
    tokenizer.add_tokens(tokens).map_err(|error| anyhow!("{error}").cannot("use vocabulary", path.display()))?;
    settings.added_tokens.iter().try_for_each(|(id, token)| ensure_id(tokenizer, &token.content, *id, path))
}

/// Puts the class's special tokens around each text and each pair of texts.
fn set_special_token_template(
    tokenizer: &mut Tokenizer,
    class: SentencePieceClass,
    settings: &TokenizerConfig,
) -> Result<()> {
    let [single, pair] = class.templates(settings)?;
    let mut special = vec![];
    for piece in single.iter().chain(&pair).filter(|piece| !piece.starts_with('$')) {
        let token = piece.rsplit_once(':').map_or(piece.as_str(), |(token, _)| token);
        let id = tokenizer.token_to_id(token).with_context(|| format!("it has no token `{}`", token.escape_debug()))?;
        special.push((token.to_owned(), id));
    }
    let template = TemplateProcessing::builder()
        .try_single(single)
        .and_then(|builder| builder.try_pair(pair))
        .map_err(|error| anyhow!("{error}"))?
        .special_tokens(special)
        .build()
        .map_err(|error| anyhow!("{error}"))?;
    tokenizer.with_post_processor(Some(template));
    Ok(())
}

#[cfg(test)]
mod tests;
