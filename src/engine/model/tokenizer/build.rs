//! Builds a tokenizer from each set of files, with transformers' defaults. Some tokenizer classes cut words that another
//! program finds: `MeCab` and similar ones for Japanese (`BertJapaneseTokenizer`), a word segmenter for Vietnamese
//! (`PhobertTokenizer`). A treebank already has words, so this module has only the steps within words.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Error, Result, anyhow, bail, ensure};
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::models::wordlevel::WordLevel;
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::normalizers::{BertNormalizer, Lowercase, NFKC, Sequence as Normalizers};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::pre_tokenizers::whitespace::WhitespaceSplit;
use tokenizers::processors::bert::BertProcessing;
use tokenizers::processors::roberta::RobertaProcessing;
use tokenizers::{AddedToken, ModelWrapper, NormalizerWrapper, PostProcessor, SplitDelimiterBehavior};

use super::bounds::{
    BoundedModel, BoundedNormalizer, BoundedPreTokenizer, Tokenizer, ensure_bounded_file, ensure_short_added_tokens,
    ensure_short_tokens,
};
use super::codes::{self, BpeCodes};
use super::config::{TokenizerConfig, TokenizerKind, named_token};
use super::marks::for_each_part;
use crate::model::files::ModelFile;
use crate::model::files::names::{MAX_TOKENIZER_BYTES, TOKENIZER_CONFIG};
use crate::system::errors::ErrorExt;

/// Returns a function that turns the library's error about a vocabulary into an error that names the file `path`.
fn unusable_file_error(path: &Path) -> impl Fn(tokenizers::Error) -> Error + Copy {
    move |error| anyhow!("{error}").cannot("use vocabulary", path.display())
}

/// Builds the tokenizer of a `tokenizer.json`. Fails if the file exceeds a bound, or the tokenizer drops BPE merges at random.
///
/// For a class that cuts words as BERT's does, switches in `tokenizer_config.json` and the class's defaults take precedence
/// over `tokenizer.json`, as in transformers. A class with special tokens around a text adds them if the file has none, as in
/// transformers 5.
pub(super) fn read_tokenizer_json(file: &ModelFile, settings: &TokenizerConfig) -> Result<Tokenizer> {
    let path = file.path();
    let path_text = path.display();
    let bytes = file.text(MAX_TOKENIZER_BYTES)?.into_bytes();
    ensure_bounded_file(&bytes).cannot("read tokenizer", &path_text)?;
    let mut tokenizer = Tokenizer::from_bytes(bytes).map_err(|error| {
        let line = error.downcast_ref::<serde_json::Error>().map_or(0, serde_json::Error::line);
        anyhow!("{error}").with_line(line as u64).cannot("read tokenizer", &path_text)
    })?;
    if let ModelWrapper::BPE(bpe) = &tokenizer.get_model().model
        && let Some(dropout) = bpe.dropout.filter(|dropout| *dropout > 0.0)
    {
        let error = anyhow!("tokenizer `{path_text}` has a BPE dropout of {dropout}: its tokens are drawn by lot");
        return Err(error.with_file(path_text).with_value(dropout).hint_after("; ", "set it to null"));
    }
    let kind = settings.kind();
    if kind == Some(TokenizerKind::WordPiece)
        && let Some(NormalizerWrapper::BertNormalizer(normalizer)) =
            tokenizer.get_normalizer().map(|normalizer| &normalizer.normalizer)
    {
        let mut chosen = bert_normalizer(settings)?;
        chosen.clean_text = normalizer.clean_text;
        tokenizer
            .with_normalizer(Some(chosen))
            .map_err(|error| anyhow!("{error}").cannot("use tokenizer", &path_text))?;
    }
    if kind == Some(TokenizerKind::ByteLevel)
        && let Some(prefix_space) = settings.boolean_setting("add_prefix_space")?
        && let Some(mut pre_tokenizer) = tokenizer.get_pre_tokenizer().cloned()
    {
        for_each_part(&mut pre_tokenizer.0, &mut |part| {
            if let PreTokenizerWrapper::ByteLevel(byte_level) = part {
                byte_level.add_prefix_space = prefix_space;
            }
        });
        tokenizer.with_pre_tokenizer(Some(pre_tokenizer));
    }
    let special = tokenizer.get_post_processor().map_or(0, |processor| processor.added_tokens(false));
    if special == 0
        && let Some(kind) = kind
    {
        set_special_token_template(&mut tokenizer, settings, default_special_tokens(kind, settings), path)?;
    }
    Ok(tokenizer)
}

/// Builds the normaliser of a tokenizer class that cuts words as BERT's does, with transformers' defaults.
fn bert_normalizer(settings: &TokenizerConfig) -> Result<BertNormalizer> {
    let chinese = settings.boolean_setting("tokenize_chinese_chars")?.unwrap_or(true);
    let lowercase = settings.boolean_setting("do_lower_case")?.unwrap_or(true);
    Ok(BertNormalizer::new(true, chinese, settings.boolean_setting("strip_accents")?, lowercase))
}

/// Builds BERT's tokenizer from a `vocab.txt`, with the defaults of transformers' `BertTokenizer` and `MPNetTokenizer`.
pub(super) fn build_wordpiece(file: &ModelFile, settings: &TokenizerConfig) -> Result<Tokenizer> {
    let path = file.path();
    settings.ensure_kind(TokenizerKind::WordPiece, path)?;
    let unusable = unusable_file_error(path);
    let vocabulary = WordPiece::read_bytes(&file.bytes(MAX_TOKENIZER_BYTES)?).map_err(unusable)?;
    ensure_short_tokens(vocabulary.keys()).cannot("use vocabulary", path.display())?;
    let unknown = settings.special_token("unk_token", "[UNK]");
    ensure!(
        vocabulary.contains_key(&unknown),
        anyhow!("vocabulary `{}` has no token `{unknown}`, which stands for unknown words", path.display())
            .with_file(path.display())
            .with_value(&unknown)
            .hint("is it whole?")
    );
    let model = WordPiece::builder().vocab(vocabulary).unk_token(unknown).build().map_err(unusable)?;
    let mut tokenizer = Tokenizer::new(ModelWrapper::from(model).into());
    tokenizer.with_normalizer(Some(bert_normalizer(settings)?)).map_err(unusable)?;
    tokenizer.with_pre_tokenizer(Some(BoundedPreTokenizer(BertPreTokenizer.into())));
    add_class_specials(tokenizer, settings, TokenizerKind::WordPiece, path)
}

/// Builds ESM's tokenizer from a `vocab.txt` with one residue per line. Each letter is a token, and white space is ignored. The
/// defaults are as in transformers' `EsmTokenizer`.
pub(super) fn build_residues(file: &ModelFile, settings: &TokenizerConfig) -> Result<Tokenizer> {
    let path = file.path();
    let unusable = unusable_file_error(path);
    let text = file.text(MAX_TOKENIZER_BYTES)?;
    let tokens: Vec<String> = text.lines().map(|token| token.trim().to_owned()).collect();
    ensure_short_tokens(&tokens).cannot("use vocabulary", path.display())?;
    let vocabulary = tokens.into_iter().zip(0..).collect();
    let unknown = settings.special_token("unk_token", ESM_SPECIALS.unknown);
    let model = WordLevel::builder().vocab(vocabulary).unk_token(unknown).build().map_err(unusable)?;
    let mut tokenizer = Tokenizer::new(ModelWrapper::from(model).into());
    let parts = vec![WhitespaceSplit.into(), split_by_pattern(".").map_err(unusable)?];
    tokenizer.with_pre_tokenizer(Some(BoundedPreTokenizer(Sequence::new(parts).into())));
    add_class_specials(tokenizer, settings, TokenizerKind::Residues, path)
}

/// Builds RoBERTa's tokenizer from `vocab.json` and `merges.txt`, with the defaults of `RobertaTokenizer` and `DebertaTokenizer`.
pub(super) fn build_byte_level_bpe(
    vocabulary: &ModelFile,
    merges: &ModelFile,
    settings: &TokenizerConfig,
) -> Result<Tokenizer> {
    let path = vocabulary.path();
    settings.ensure_kind(TokenizerKind::ByteLevel, path)?;
    let shown = format!("`{}` and `{}`", path.display(), merges.path().display());
    let unusable =
        |error: tokenizers::Error| anyhow!("cannot use vocabulary {shown}: {error}").with_file(path.display());
    let ids: BTreeMap<String, u32> = serde_json::from_str(&vocabulary.text(MAX_TOKENIZER_BYTES)?)
        .with_context(|| format!("cannot use vocabulary {shown}"))
        .with_file(path.display())?;
    ensure_short_tokens(ids.keys()).cannot("use vocabulary", path.display())?;
    let merges = parse_merges(&merges.text(MAX_TOKENIZER_BYTES)?).cannot("use merges", merges.path().display())?;
    let model =
        BPE::builder().vocab_and_merges(ids.into_iter().collect::<Vocab>(), merges).build().map_err(unusable)?;
    let mut tokenizer = Tokenizer::new(ModelWrapper::from(model).into());
    let prefix_space = settings.boolean_setting("add_prefix_space")?.unwrap_or(false);
    let byte_level = ByteLevel::default().add_prefix_space(prefix_space);
    tokenizer.with_pre_tokenizer(Some(BoundedPreTokenizer(byte_level.into())));
    add_class_specials(tokenizer, settings, TokenizerKind::ByteLevel, path)
}

/// Parses the token pairs of a `merges.txt`, one pair per line, in order of priority. Fails if a line is no pair.
fn parse_merges(text: &str) -> Result<Vec<(String, String)>> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.starts_with("#version"));
    let pair = |(number, line): (usize, &str)| {
        let pair = line.split_once(' ').filter(|(_, second)| !second.contains(' '));
        let (first, second) =
            pair.with_context(|| format!("line {} is no pair of tokens", number + 1)).with_line(number as u64 + 1)?;
        Ok((first.to_owned(), second.to_owned()))
    };
    lines.map(pair).collect()
}

/// Builds transformers' `BertJapaneseTokenizer` for given words: compatibility forms (NFKC), then pieces by `WordPiece`, or
/// characters.
pub(super) fn build_japanese(file: &ModelFile, settings: &TokenizerConfig) -> Result<Tokenizer> {
    let path = file.path();
    let unusable = unusable_file_error(path);
    let vocabulary = WordPiece::read_bytes(&file.bytes(MAX_TOKENIZER_BYTES)?).map_err(unusable)?;
    ensure_short_tokens(vocabulary.keys()).cannot("use vocabulary", path.display())?;
    let unknown = settings.special_token("unk_token", BERT_SPECIALS.unknown);
    let subwords = settings.values.get("subword_tokenizer_type").and_then(serde_json::Value::as_str);
    let is_of_characters = match subwords {
        None | Some("wordpiece") => false,
        Some("character") => true,
        Some(other) => {
            let error = anyhow!("subword_tokenizer_type is `{other}`: wordpiece and character are read");
            bail!(error.with_value(other).cannot("use vocabulary", path.display()))
        }
    };
    let model: ModelWrapper = if is_of_characters {
        let vocabulary = vocabulary.into_iter().collect();
        WordLevel::builder().vocab(vocabulary).unk_token(unknown).build().map_err(unusable)?.into()
    } else {
        WordPiece::builder().vocab(vocabulary).unk_token(unknown).build().map_err(unusable)?.into()
    };
    let mut tokenizer = Tokenizer::new(model.into());
    let lowercase = settings.boolean_setting("do_lower_case")?.unwrap_or(false);
    let mut parts: Vec<PreTokenizerWrapper> = Vec::new();
    let mut normalizers: Vec<NormalizerWrapper> = Vec::new();
    if settings.required_word_splitter(false).is_some() {
        normalizers.push(NFKC.into());
        normalizers.extend(lowercase.then(|| Lowercase.into()));
    } else {
        normalizers.push(BertNormalizer::new(true, false, None, lowercase).into());
        normalizers.extend(is_of_characters.then(|| NFKC.into()));
        parts.push(BertPreTokenizer.into());
    }
    if is_of_characters {
        parts.push(split_by_pattern("(?s).").map_err(unusable)?);
    }
    tokenizer.with_normalizer(Some(BoundedNormalizer::from(Normalizers::new(normalizers)))).map_err(unusable)?;
    if !parts.is_empty() {
        tokenizer.with_pre_tokenizer(Some(BoundedPreTokenizer(Sequence::new(parts).into())));
    }
    add_class_specials(tokenizer, settings, TokenizerKind::Japanese, path)
}

/// Builds transformers' `PhobertTokenizer` or `BertweetTokenizer` for given words; white space separates the words of a text.
pub(super) fn build_fast_bpe(
    vocabulary: &ModelFile,
    merges: &ModelFile,
    settings: &TokenizerConfig,
) -> Result<Tokenizer> {
    let path = vocabulary.path();
    let ids = codes::parse_vocabulary(&vocabulary.text(MAX_TOKENIZER_BYTES)?);
    ensure_short_tokens(ids.keys()).cannot("use vocabulary", path.display())?;
    ensure!(
        ids.len() > codes::LEADING_SPECIAL_TOKENS.len(),
        anyhow!("vocabulary `{}` is empty", path.display()).with_file(path.display())
    );
    let codes = BpeCodes::parse(&merges.text(MAX_TOKENIZER_BYTES)?).cannot("use merges", merges.path().display())?;
    let unknown = settings.special_token("unk_token", ROBERTA_SPECIALS.unknown);
    let model = WordLevel::builder().vocab(ids.into_iter().collect()).unk_token(unknown).build();
    let model = model.map_err(unusable_file_error(path))?;
    let mut model = BoundedModel::from(ModelWrapper::from(model));
    model.codes = Some(Arc::new(codes));
    let mut tokenizer = Tokenizer::new(model);
    tokenizer.with_pre_tokenizer(Some(BoundedPreTokenizer(WhitespaceSplit.into())));
    // The mask gets an id after the pieces, which do not list it.
    let mask = AddedToken::from(settings.special_token("mask_token", ROBERTA_SPECIALS.mask), true);
    let defaults = default_special_tokens(TokenizerKind::Codes, settings);
    add_tokens(&mut tokenizer, settings, defaults, path)?;
    tokenizer.add_special_tokens([mask]).map_err(unusable_file_error(path))?;
    set_special_token_template(&mut tokenizer, settings, defaults, path)?;
    Ok(tokenizer)
}

/// Builds a pre-tokenizer that makes each match of a pattern a separate word.
fn split_by_pattern(pattern: &str) -> tokenizers::Result<PreTokenizerWrapper> {
    Ok(Split::new(SplitPattern::Regex(pattern.to_owned()), SplitDelimiterBehavior::Isolated, false)?.into())
}

/// Adds the special tokens of the tokenizer's class: to the vocabulary, and around each text.
fn add_class_specials(
    mut tokenizer: Tokenizer,
    settings: &TokenizerConfig,
    kind: TokenizerKind,
    path: &Path,
) -> Result<Tokenizer> {
    let defaults = default_special_tokens(kind, settings);
    add_tokens(&mut tokenizer, settings, defaults, path)?;
    set_special_token_template(&mut tokenizer, settings, defaults, path)?;
    Ok(tokenizer)
}

/// Default special tokens of a tokenizer class. Each is used unless a file names another token.
struct DefaultSpecials {
    /// Special token before a text, such as `[CLS]`.
    first: &'static str,
    /// Special token after a text, such as `[SEP]`.
    separator: &'static str,
    unknown: &'static str,
    padding: &'static str,
    mask: &'static str,
    /// Whether a mask in a text absorbs the space before it.
    mask_absorbs_space: bool,
    /// Whether two separators stand between the texts of a pair, and both texts have segment 0.
    has_pair_separators: bool,
}

const BERT_SPECIALS: DefaultSpecials = DefaultSpecials {
    first: "[CLS]",
    separator: "[SEP]",
    unknown: "[UNK]",
    padding: "[PAD]",
    mask: "[MASK]",
    mask_absorbs_space: false,
    has_pair_separators: false,
};

const ROBERTA_SPECIALS: DefaultSpecials = DefaultSpecials {
    first: "<s>",
    separator: "</s>",
    unknown: "<unk>",
    padding: "<pad>",
    mask: "<mask>",
    mask_absorbs_space: false,
    has_pair_separators: true,
};

/// Special tokens of MPNet: RoBERTa's special tokens, in a vocabulary that also has BERT's.
const MPNET_SPECIALS: DefaultSpecials =
    DefaultSpecials { unknown: "[UNK]", mask_absorbs_space: true, has_pair_separators: false, ..ROBERTA_SPECIALS };

const ESM_SPECIALS: DefaultSpecials =
    DefaultSpecials { first: "<cls>", separator: "<eos>", has_pair_separators: false, ..ROBERTA_SPECIALS };

/// Special tokens of DeBERTa version 1: BERT's special tokens, although it cuts words as RoBERTa does.
const DEBERTA_SPECIALS: DefaultSpecials = DefaultSpecials { has_pair_separators: true, ..BERT_SPECIALS };

/// Returns the default special tokens of a tokenizer's class.
fn default_special_tokens(kind: TokenizerKind, settings: &TokenizerConfig) -> &'static DefaultSpecials {
    match kind {
        TokenizerKind::WordPiece if settings.is_of_class("MPNetTokenizer", &["mpnet"]) => &MPNET_SPECIALS,
        TokenizerKind::ByteLevel if settings.is_of_class("DebertaTokenizer", &["deberta"]) => &DEBERTA_SPECIALS,
        TokenizerKind::WordPiece | TokenizerKind::Japanese => &BERT_SPECIALS,
        TokenizerKind::ByteLevel | TokenizerKind::Codes => &ROBERTA_SPECIALS,
        TokenizerKind::Residues => &ESM_SPECIALS,
    }
}

/// Adds the tokens that files list in addition to the vocabulary, and marks special tokens. Both then stay whole where a text
/// contains them literally.
fn add_tokens(
    tokenizer: &mut Tokenizer,
    settings: &TokenizerConfig,
    defaults: &DefaultSpecials,
    path: &Path,
) -> Result<()> {
    ensure_short_added_tokens(settings.added_tokens.values()).cannot("use vocabulary", path.display())?;
    for (&id, token) in &settings.added_tokens {
        let content = token.content.clone();
        tokenizer.add_tokens([token.clone()]).map_err(unusable_file_error(path))?;
        ensure_id(tokenizer, &content, id, path)?;
    }
    let takes_space = defaults.mask_absorbs_space;
    let defaults = [
        ("unk_token", defaults.unknown),
        ("sep_token", defaults.separator),
        ("pad_token", defaults.padding),
        ("cls_token", defaults.first),
        ("mask_token", defaults.mask),
    ];
    let text_ends = ["bos_token", "eos_token"].into_iter().map(|name| (name, ""));
    for (name, default) in defaults.into_iter().chain(text_ends) {
        let (content, details) = named_token(&settings.values, name).unwrap_or((default, None));
        let is_listed = settings.added_tokens.values().any(|token| token.content == content);
        // A token that the vocabulary lacks would get an id without a row in the embedding.
        if is_listed || tokenizer.token_to_id(content).is_none() {
            continue;
        }
        let setting = |side: &str| details.and_then(|token| token[side].as_bool());
        let takes_space = name == "mask_token" && details.is_none() && takes_space;
        let token = AddedToken::from(content, true)
            .lstrip(setting("lstrip").unwrap_or(takes_space))
            .rstrip(setting("rstrip").unwrap_or(false));
        tokenizer.add_special_tokens([token]).map_err(unusable_file_error(path))?;
    }
    Ok(())
}

/// Fails unless the token `content` has the id `id`, which a file gives it in addition to the vocabulary.
pub(super) fn ensure_id(tokenizer: &Tokenizer, content: &str, id: u32, path: &Path) -> Result<()> {
    let actual = tokenizer.token_to_id(content);
    ensure!(
        actual == Some(id),
        anyhow!(
            "vocabulary `{}` does not fit its added tokens: `{}` is to have id {id}, and has {}",
            path.display(),
            content.escape_debug(),
            actual.map_or_else(|| "none".to_owned(), |actual| actual.to_string()),
        )
        .with_file(path.display())
        .with_value(content)
    );
    Ok(())
}

/// Returns the id of the mask token: the token that `mask_token` names, or else BERT's or RoBERTa's. `None` if the vocabulary
/// lacks it.
pub(super) fn mask_id(tokenizer: &Tokenizer, settings: &TokenizerConfig) -> Option<u32> {
    match named_token(&settings.values, "mask_token") {
        Some((name, _)) => tokenizer.token_to_id(name),
        None => {
            [&BERT_SPECIALS, &ROBERTA_SPECIALS].into_iter().find_map(|defaults| tokenizer.token_to_id(defaults.mask))
        }
    }
}

/// Puts the first special token before each text, and the separator after it. Fails if the vocabulary lacks either.
fn set_special_token_template(
    tokenizer: &mut Tokenizer,
    settings: &TokenizerConfig,
    defaults: &DefaultSpecials,
    path: &Path,
) -> Result<()> {
    let cls = settings.special_token("cls_token", defaults.first);
    let sep = settings.special_token("sep_token", defaults.separator);
    let id = |token: &str| {
        let result = tokenizer.token_to_id(token).with_context(|| {
            format!(
                "`{}` has no token `{}`, which stands at one end of each sentence: the special tokens are named by \
                 cls_token and sep_token in {TOKENIZER_CONFIG}",
                path.display(),
                token.escape_debug(),
            )
        });
        result.with_file(path.display())
    };
    let (first, last) = (id(&cls)?, id(&sep)?);
    let (cls, sep) = ((cls, first), (sep, last));
    if defaults.has_pair_separators {
        // The characters of a token stay as the pre-tokenizer has them.
        let processor = RobertaProcessing::new(sep, cls).trim_offsets(false);
        tokenizer.with_post_processor(Some(processor));
    } else {
        tokenizer.with_post_processor(Some(BertProcessing::new(sep, cls)));
    }
    Ok(())
}
