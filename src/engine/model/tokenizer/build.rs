//! A tokenizer of each set of files, with the defaults that transformers has for it.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::models::wordlevel::WordLevel;
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::normalizers::BertNormalizer;
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
    BoundedModel, BoundedNormalizer, BoundedPreTokenizer, Tokenizer, ensure_bounded, ensure_few, ensure_short_tokens,
};
use super::config::{Kind, TokenizerConfig, named};
use super::marks::each;
use crate::model::files::ModelFile;
use crate::model::files::names::{LONGEST_TOKENIZER, TOKENIZER_CONFIG};
use crate::system::errors::Facts;

/// A tokenizer that is in one file.
///
/// A class that cuts words as BERT's does has its own switches, as in transformers: those that `tokenizer_config.json`
/// names and the defaults of the class, whatever the file says. A class that puts special tokens around a text does so
/// if the file has none, as in transformers 5.
pub(super) fn whole(file: &ModelFile, settings: &TokenizerConfig) -> Result<Tokenizer> {
    let path = file.path();
    let at = path.display();
    let bytes = file.text(LONGEST_TOKENIZER)?.into_bytes();
    ensure_bounded(&bytes).cannot("read tokenizer", &at)?;
    let mut tokenizer = Tokenizer::from_bytes(bytes).map_err(|error| {
        let line = error.downcast_ref::<serde_json::Error>().map_or(0, serde_json::Error::line);
        anyhow!("{error}").in_line(line as u64).cannot("read tokenizer", &at)
    })?;
    if let ModelWrapper::BPE(bpe) = &tokenizer.get_model().model
        && let Some(dropout) = bpe.dropout.filter(|dropout| *dropout > 0.0)
    {
        let error = anyhow!("tokenizer `{at}` has a BPE dropout of {dropout}: its tokens are drawn by lot");
        return Err(error.about(at).of_value(dropout).hint_after("; ", "set it to null"));
    }
    let kind = settings.kind();
    if kind == Some(Kind::WordPiece)
        && let Some(NormalizerWrapper::BertNormalizer(normalizer)) =
            tokenizer.get_normalizer().map(BoundedNormalizer::whole)
    {
        let mut wanted = bert_normalizer(settings)?;
        wanted.clean_text = normalizer.clean_text;
        tokenizer.with_normalizer(Some(wanted)).map_err(|error| anyhow!("{error}").cannot("use tokenizer", &at))?;
    }
    if kind == Some(Kind::ByteLevel)
        && let Some(prefix_space) = settings.switch("add_prefix_space")?
        && let Some(mut pre_tokenizer) = tokenizer.get_pre_tokenizer().cloned()
    {
        each(&mut pre_tokenizer.0, &mut |part| {
            if let PreTokenizerWrapper::ByteLevel(byte_level) = part {
                byte_level.add_prefix_space = prefix_space;
            }
        });
        tokenizer.with_pre_tokenizer(Some(pre_tokenizer));
    }
    let special = tokenizer.get_post_processor().map_or(0, |processor| processor.added_tokens(false));
    if special == 0
        && let Some(defaults) = defaults(settings)
    {
        surround(&mut tokenizer, settings, defaults, path)?;
    }
    Ok(tokenizer)
}

/// The normalizer of a class that cuts words as BERT's does; the defaults are those of transformers.
fn bert_normalizer(settings: &TokenizerConfig) -> Result<BertNormalizer> {
    let chinese = settings.switch("tokenize_chinese_chars")?.unwrap_or(true);
    let lowercase = settings.switch("do_lower_case")?.unwrap_or(true);
    Ok(BertNormalizer::new(true, chinese, settings.switch("strip_accents")?, lowercase))
}

/// BERT's tokenizer of a `vocab.txt`; its defaults are those of transformers' `BertTokenizer` and `MPNetTokenizer`.
pub(super) fn wordpiece(file: &ModelFile, settings: &TokenizerConfig) -> Result<Tokenizer> {
    let path = file.path();
    settings.ensure_kind(Kind::WordPiece, path)?;
    let unusable = |error: tokenizers::Error| anyhow!("{error}").cannot("use vocabulary", path.display());
    let bytes = file.bytes(LONGEST_TOKENIZER)?;
    let vocabulary = WordPiece::read_bytes(&bytes).map_err(unusable)?;
    ensure_short_tokens(vocabulary.keys()).cannot("use vocabulary", path.display())?;
    let unknown = settings.special("unk_token", "[UNK]");
    ensure!(
        vocabulary.contains_key(&unknown),
        anyhow!("vocabulary `{}` has no token `{unknown}`, which stands for unknown words", path.display())
            .about(path.display())
            .of_value(&unknown)
            .hint("is it whole?")
    );
    let model = WordPiece::builder().vocab(vocabulary).unk_token(unknown).build().map_err(unusable)?;
    let mut tokenizer = Tokenizer::new(BoundedModel::from(ModelWrapper::from(model)));
    tokenizer.with_normalizer(Some(bert_normalizer(settings)?)).map_err(unusable)?;
    tokenizer.with_pre_tokenizer(Some(BoundedPreTokenizer(BertPreTokenizer.into())));
    let defaults = if settings.is_mpnet() { &MPNET } else { &BERT };
    add_tokens(&mut tokenizer, settings, defaults, path)?;
    surround(&mut tokenizer, settings, defaults, path)?;
    Ok(tokenizer)
}

/// ESM's tokenizer of a `vocab.txt`, a residue a line: each letter is a token, and white space between them means nothing. Its
/// defaults are those of transformers' `EsmTokenizer`.
pub(super) fn residues(file: &ModelFile, settings: &TokenizerConfig) -> Result<Tokenizer> {
    let path = file.path();
    let unusable = |error: tokenizers::Error| anyhow!("{error}").cannot("use vocabulary", path.display());
    let text = file.text(LONGEST_TOKENIZER)?;
    let tokens: Vec<String> = text.lines().map(|token| token.trim().to_owned()).collect();
    ensure_short_tokens(&tokens).cannot("use vocabulary", path.display())?;
    let vocabulary = tokens.into_iter().zip(0..).collect();
    let unknown = settings.special("unk_token", ESM.unknown);
    let model = WordLevel::builder().vocab(vocabulary).unk_token(unknown).build().map_err(unusable)?;
    let mut tokenizer = Tokenizer::new(BoundedModel::from(ModelWrapper::from(model)));
    let letter = SplitPattern::Regex(".".to_owned());
    let split = Split::new(letter, SplitDelimiterBehavior::Isolated, false).map_err(unusable)?;
    let parts = [PreTokenizerWrapper::WhitespaceSplit(WhitespaceSplit), PreTokenizerWrapper::Split(split)];
    tokenizer.with_pre_tokenizer(Some(BoundedPreTokenizer(Sequence::new(parts.into()).into())));
    add_tokens(&mut tokenizer, settings, &ESM, path)?;
    surround(&mut tokenizer, settings, &ESM, path)?;
    Ok(tokenizer)
}

/// RoBERTa's tokenizer of a `vocab.json` and a `merges.txt`; its defaults are those of transformers' `RobertaTokenizer` and
/// `DebertaTokenizer`.
pub(super) fn byte_level_bpe(
    vocabulary: &ModelFile,
    merges: &ModelFile,
    settings: &TokenizerConfig,
) -> Result<Tokenizer> {
    let path = vocabulary.path();
    settings.ensure_kind(Kind::ByteLevel, path)?;
    let shown = format!("`{}` and `{}`", path.display(), merges.path().display());
    let unusable = |error: tokenizers::Error| anyhow!("cannot use vocabulary {shown}: {error}").about(path.display());
    let ids: BTreeMap<String, u32> = serde_json::from_str(&vocabulary.text(LONGEST_TOKENIZER)?)
        .with_context(|| format!("cannot use vocabulary {shown}"))
        .about(path.display())?;
    ensure_short_tokens(ids.keys()).cannot("use vocabulary", path.display())?;
    let merges = merge_pairs(&merges.text(LONGEST_TOKENIZER)?).cannot("use merges", merges.path().display())?;
    let model =
        BPE::builder().vocab_and_merges(ids.into_iter().collect::<Vocab>(), merges).build().map_err(unusable)?;
    let mut tokenizer = Tokenizer::new(BoundedModel::from(ModelWrapper::from(model)));
    let prefix_space = settings.switch("add_prefix_space")?.unwrap_or(false);
    let byte_level = ByteLevel::default().add_prefix_space(prefix_space);
    tokenizer.with_pre_tokenizer(Some(BoundedPreTokenizer(byte_level.into())));
    let defaults = byte_level_defaults(settings);
    add_tokens(&mut tokenizer, settings, defaults, path)?;
    surround(&mut tokenizer, settings, defaults, path)?;
    Ok(tokenizer)
}

/// The pairs of a `merges.txt`, one a line, the first to be merged first.
fn merge_pairs(text: &str) -> Result<Vec<(String, String)>> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.starts_with("#version"));
    let pair = |(number, line): (usize, &str)| {
        let pair = line.split_once(' ').filter(|(_, second)| !second.contains(' '));
        let (first, second) =
            pair.with_context(|| format!("line {} is no pair of tokens", number + 1)).in_line(number as u64 + 1)?;
        Ok((first.to_owned(), second.to_owned()))
    };
    lines.map(pair).collect()
}

/// The special tokens of a family, where no file names them.
pub(super) struct Defaults {
    first: &'static str,
    separator: &'static str,
    pub unknown: &'static str,
    padding: &'static str,
    pub mask: &'static str,
    /// Whether a mask in a text takes the space before it along.
    mask_takes_space: bool,
    /// Whether there are two separators between the texts of a pair, which are of one segment.
    pairs_apart: bool,
}

pub(super) const BERT: Defaults = Defaults {
    first: "[CLS]",
    separator: "[SEP]",
    unknown: "[UNK]",
    padding: "[PAD]",
    mask: "[MASK]",
    mask_takes_space: false,
    pairs_apart: false,
};

const ROBERTA: Defaults = Defaults {
    first: "<s>",
    separator: "</s>",
    unknown: "<unk>",
    padding: "<pad>",
    mask: "<mask>",
    mask_takes_space: false,
    pairs_apart: true,
};

/// MPNet has RoBERTa's special tokens, in a vocabulary that holds BERT's too.
const MPNET: Defaults = Defaults { unknown: "[UNK]", mask_takes_space: true, pairs_apart: false, ..ROBERTA };

const ESM: Defaults = Defaults { first: "<cls>", separator: "<eos>", pairs_apart: false, ..ROBERTA };

/// `PhoBERT`'s and `BERTweet`'s.
pub(super) const PHOBERT: Defaults = ROBERTA;

/// DeBERTa's first version cuts words as RoBERTa does, and has BERT's special tokens.
const DEBERTA: Defaults = Defaults { pairs_apart: true, ..BERT };

fn byte_level_defaults(settings: &TokenizerConfig) -> &'static Defaults {
    if settings.is_deberta() { &DEBERTA } else { &ROBERTA }
}

/// The special tokens that a tokenizer's class has where no file names them; `None` if it is left as its file has it.
fn defaults(settings: &TokenizerConfig) -> Option<&'static Defaults> {
    match settings.kind()? {
        Kind::WordPiece if settings.is_mpnet() => Some(&MPNET),
        Kind::WordPiece | Kind::Japanese => Some(&BERT),
        Kind::ByteLevel => Some(byte_level_defaults(settings)),
        Kind::Codes => Some(&PHOBERT),
        Kind::Residues => Some(&ESM),
    }
}

/// Makes the special tokens whole in a text that has them literally, and adds those that the vocabulary lacks.
pub(super) fn add_tokens(
    tokenizer: &mut Tokenizer,
    settings: &TokenizerConfig,
    defaults: &Defaults,
    path: &Path,
) -> Result<()> {
    let cannot = |error: tokenizers::Error| anyhow!("{error}").cannot("use vocabulary", path.display());
    ensure_few(settings.added.values()).cannot("use vocabulary", path.display())?;
    for (&id, token) in &settings.added {
        let content = token.content.clone();
        tokenizer.add_tokens([token.clone()]).map_err(cannot)?;
        ensure_id(tokenizer, &content, id, path)?;
    }
    let takes_space = defaults.mask_takes_space;
    let defaults = [
        ("unk_token", defaults.unknown),
        ("sep_token", defaults.separator),
        ("pad_token", defaults.padding),
        ("cls_token", defaults.first),
        ("mask_token", defaults.mask),
    ];
    let also = ["bos_token", "eos_token"].into_iter().map(|name| (name, ""));
    for (name, default) in defaults.into_iter().chain(also) {
        let (content, details) = named(&settings.values, name).unwrap_or((default, None));
        let known = settings.added.values().any(|token| token.content == content);
        // One that the vocabulary lacks would get an id that the embedding has no row for.
        if known || tokenizer.token_to_id(content).is_none() {
            continue;
        }
        let strips = |side: &str| details.and_then(|token| token[side].as_bool());
        let takes_space = name == "mask_token" && details.is_none() && takes_space;
        let token = AddedToken::from(content, true)
            .lstrip(strips("lstrip").unwrap_or(takes_space))
            .rstrip(strips("rstrip").unwrap_or(false));
        tokenizer.add_special_tokens([token]).map_err(cannot)?;
    }
    Ok(())
}

/// Makes sure that a token has the id that the files beside a vocabulary give it.
pub(super) fn ensure_id(tokenizer: &Tokenizer, content: &str, id: u32, path: &Path) -> Result<()> {
    let given = tokenizer.token_to_id(content);
    ensure!(
        given == Some(id),
        anyhow!(
            "vocabulary `{}` does not fit its added tokens: `{}` is to have id {id}, and has {}",
            path.display(),
            content.escape_debug(),
            given.map_or_else(|| "none".to_owned(), |given| given.to_string()),
        )
        .about(path.display())
        .of_value(content)
    );
    Ok(())
}

/// The id of the mask: of the token that `mask_token` names, else of a family's default, if the vocabulary has it.
pub(super) fn mask(tokenizer: &Tokenizer, settings: &TokenizerConfig) -> Option<u32> {
    match named(&settings.values, "mask_token") {
        Some((name, _)) => tokenizer.token_to_id(name),
        None => [&BERT, &ROBERTA].into_iter().find_map(|defaults| tokenizer.token_to_id(defaults.mask)),
    }
}

/// Puts the first special token before each text and the separator after it.
pub(super) fn surround(
    tokenizer: &mut Tokenizer,
    settings: &TokenizerConfig,
    defaults: &Defaults,
    path: &Path,
) -> Result<()> {
    let cls = settings.special("cls_token", defaults.first);
    let sep = settings.special("sep_token", defaults.separator);
    let id = |token: &str| {
        let found = tokenizer.token_to_id(token).with_context(|| {
            format!(
                "`{}` has no token `{}`, which stands at one end of each sentence: the special tokens are named by \
                 cls_token and sep_token in {TOKENIZER_CONFIG}",
                path.display(),
                token.escape_debug(),
            )
        });
        found.about(path.display())
    };
    let ids = (id(&cls)?, id(&sep)?);
    let (cls, sep) = ((cls, ids.0), (sep, ids.1));
    if defaults.pairs_apart {
        // Which characters a token is of stays as the pre-tokenizer has it.
        let apart = RobertaProcessing::new(sep, cls).trim_offsets(false);
        tokenizer.with_post_processor(Some(apart));
    } else {
        tokenizer.with_post_processor(Some(BertProcessing::new(sep, cls)));
    }
    Ok(())
}
