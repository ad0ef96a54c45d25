//! Tokenizers that cut words which another program finds: `MeCab` and its like for Japanese (`BertJapaneseTokenizer`), a word
//! segmenter for Vietnamese (`PhobertTokenizer`). A treebank has the words already, so only what is done within them is here.

use std::sync::Arc;

use anyhow::{Result, anyhow, bail, ensure};
use tokenizers::models::wordlevel::WordLevel;
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::normalizers::{BertNormalizer, Lowercase, NFKC, Sequence as Normalizers};
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::pre_tokenizers::whitespace::WhitespaceSplit;
use tokenizers::{ModelWrapper, NormalizerWrapper, PreTokenizerWrapper, SplitDelimiterBehavior};

use super::bounds::{BoundedModel, BoundedNormalizer, BoundedPreTokenizer, Tokenizer, ensure_short_tokens};
use super::build::{BERT, PHOBERT, add_tokens, surround};
use super::codes::{self, Codes};
use super::config::TokenizerConfig;
use crate::model::files::ModelFile;
use crate::model::files::names::LONGEST_TOKENIZER;
use crate::system::errors::Facts;

/// The tokenizer of transformers' `BertJapaneseTokenizer` within words: their compatibility forms cut by `WordPiece` or into
/// characters.
pub(super) fn japanese(file: &ModelFile, settings: &TokenizerConfig) -> Result<Tokenizer> {
    let path = file.path();
    let unusable = |error: tokenizers::Error| anyhow!("{error}").cannot("use vocabulary", path.display());
    let vocabulary = WordPiece::read_bytes(&file.bytes(LONGEST_TOKENIZER)?).map_err(unusable)?;
    ensure_short_tokens(vocabulary.keys()).cannot("use vocabulary", path.display())?;
    let unknown = settings.special("unk_token", BERT.unknown);
    let subwords = settings.values.get("subword_tokenizer_type").and_then(serde_json::Value::as_str);
    let is_of_characters = match subwords {
        None | Some("wordpiece") => false,
        Some("character") => true,
        Some(other) => {
            let error = anyhow!("subword_tokenizer_type is `{other}`: wordpiece and character are read");
            bail!(error.of_value(other).cannot("use vocabulary", path.display()))
        }
    };
    let model: ModelWrapper = if is_of_characters {
        let vocabulary = vocabulary.into_iter().collect();
        WordLevel::builder().vocab(vocabulary).unk_token(unknown).build().map_err(&unusable)?.into()
    } else {
        WordPiece::builder().vocab(vocabulary).unk_token(unknown).build().map_err(unusable)?.into()
    };
    let mut tokenizer = Tokenizer::new(BoundedModel::from(model));
    let lowercase = settings.switch("do_lower_case")?.unwrap_or(false);
    let mut parts: Vec<PreTokenizerWrapper> = Vec::new();
    let mut normalizers: Vec<NormalizerWrapper> = Vec::new();
    if settings.needs_words_of(false).is_some() {
        normalizers.push(NFKC.into());
        normalizers.extend(lowercase.then(|| Lowercase.into()));
    } else {
        normalizers.push(BertNormalizer::new(true, false, None, lowercase).into());
        normalizers.extend(is_of_characters.then(|| NFKC.into()));
        parts.push(BertPreTokenizer.into());
    }
    if is_of_characters {
        let character = SplitPattern::Regex("(?s).".to_owned());
        parts.push(Split::new(character, SplitDelimiterBehavior::Isolated, false).map_err(unusable)?.into());
    }
    tokenizer.with_normalizer(Some(BoundedNormalizer::from(Normalizers::new(normalizers)))).map_err(unusable)?;
    if !parts.is_empty() {
        let parts = tokenizers::pre_tokenizers::sequence::Sequence::new(parts);
        tokenizer.with_pre_tokenizer(Some(BoundedPreTokenizer(parts.into())));
    }
    add_tokens(&mut tokenizer, settings, &BERT, path)?;
    surround(&mut tokenizer, settings, &BERT, path)?;
    Ok(tokenizer)
}

/// The tokenizer of transformers' `PhobertTokenizer` and `BertweetTokenizer` within words; white space
/// separates the words of a text.
pub(super) fn codes(vocabulary: &ModelFile, merges: &ModelFile, settings: &TokenizerConfig) -> Result<Tokenizer> {
    let path = vocabulary.path();
    let ids = codes::vocabulary(&vocabulary.text(LONGEST_TOKENIZER)?);
    ensure_short_tokens(ids.keys()).cannot("use vocabulary", path.display())?;
    ensure!(ids.len() > codes::FIRST.len(), anyhow!("vocabulary `{}` is empty", path.display()).about(path.display()));
    let codes = Codes::parse(&merges.text(LONGEST_TOKENIZER)?).cannot("use merges", merges.path().display())?;
    let unknown = settings.special("unk_token", PHOBERT.unknown);
    let model = WordLevel::builder().vocab(ids.into_iter().collect()).unk_token(unknown).build();
    let model = model.map_err(|error| anyhow!("{error}").cannot("use vocabulary", path.display()))?;
    let mut tokenizer = Tokenizer::new(BoundedModel::from(ModelWrapper::from(model)).cut_by(Arc::new(codes)));
    tokenizer.with_pre_tokenizer(Some(BoundedPreTokenizer(WhitespaceSplit.into())));
    // Beyond the pieces, which do not list it.
    let mask = tokenizers::AddedToken::from(settings.special("mask_token", PHOBERT.mask), true);
    add_tokens(&mut tokenizer, settings, &PHOBERT, path)?;
    tokenizer
        .add_special_tokens([mask])
        .map_err(|error| anyhow!("{error}").cannot("use vocabulary", path.display()))?;
    surround(&mut tokenizer, settings, &PHOBERT, path)?;
    Ok(tokenizer)
}
