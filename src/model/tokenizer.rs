//! A model's tokenizer: which files it is made of, and how one is built of each set, as transformers does.
//!
//! `tokenizer.json` is a whole tokenizer; `vocab.txt` is a vocabulary of `WordPiece`, `vocab.json` and `merges.txt` one
//! of byte-level BPE, and what they leave open is in `tokenizer_config.json` or has the defaults of the family.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokenizers::models::bpe::BPE;
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::normalizers::BertNormalizer;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::processors::bert::BertProcessing;
use tokenizers::{
    AddedToken, Decoder, EncodeInput, Encoding, InputSequence, ModelWrapper, NormalizerWrapper, Tokenizer,
    TruncationDirection,
};
use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};

use super::source::FileStore;

pub(super) const TOKENIZER: &str = "tokenizer.json";
const WORDPIECE_VOCABULARY: &str = "vocab.txt";
const BPE_VOCABULARY: &str = "vocab.json";
const BPE_MERGES: &str = "merges.txt";
const CONFIG: &str = "tokenizer_config.json";
const SPECIAL_TOKENS: &str = "special_tokens_map.json";
const ADDED_TOKENS: &str = "added_tokens.json";

/// Files that make a tokenizer, the best first: the first set that is complete is taken.
const SETS: [&[&str]; 3] = [&[TOKENIZER], &[WORDPIECE_VOCABULARY], &[BPE_VOCABULARY, BPE_MERGES]];

/// What may stand beside them.
const SETTINGS: [&str; 3] = [CONFIG, SPECIAL_TOKENS, ADDED_TOKENS];

/// Models of sentencepiece, by the names they have in transformers.
const SENTENCEPIECE: [&str; 4] = ["sentencepiece.bpe.model", "spiece.model", "spm.model", "tokenizer.model"];

/// Which of the files that a model has, `names`, are its tokenizer; `None` if none are.
pub(super) fn wanted(names: &BTreeSet<String>) -> Option<Vec<&'static str>> {
    let there = |name: &&&'static str| names.contains(**name);
    let set = SETS.iter().find(|set| set.iter().all(|name| names.contains(*name)))?;
    Some(set.iter().chain(SETTINGS.iter().filter(there)).copied().collect())
}

/// What is there instead of a tokenizer, and why it is none; whether transformers can make one of it.
pub(super) fn instead(names: &BTreeSet<String>) -> Option<(String, bool)> {
    if let Some(name) = SENTENCEPIECE.into_iter().find(|name| names.contains(*name)) {
        return Some((format!("{name} is there, a sentencepiece model, which is not read"), true));
    }
    let there = [BPE_VOCABULARY, BPE_MERGES].into_iter().find(|name| names.contains(*name))?;
    let lacking = if there == BPE_VOCABULARY { BPE_MERGES } else { BPE_VOCABULARY };
    Some((format!("{there} is there, which is half a tokenizer: it needs {lacking} too"), false))
}

/// The files of one tokenizer by their names; the one that holds the vocabulary comes first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenizerFiles(Vec<(&'static str, PathBuf)>);

impl TokenizerFiles {
    /// Fetches those that are [`wanted`].
    pub(super) fn fetch(wanted: &[&'static str], files: &dyn FileStore) -> Result<Self> {
        let fetch = |name: &&'static str| files.file(name).map(|path| path.map(|path| (*name, path))).transpose();
        wanted.iter().filter_map(fetch).collect::<Result<_>>().map(Self)
    }

    /// The tokenizer's files in a folder.
    ///
    /// # Errors
    ///
    /// If there are none.
    pub fn find(folder: &Path) -> Result<Self> {
        let names = fs::read_dir(folder)
            .with_context(|| format!("cannot read `{}`", folder.display()))?
            .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
            .collect();
        let wanted = wanted(&names).with_context(|| format!("there is no tokenizer in `{}`", folder.display()))?;
        Ok(Self(wanted.into_iter().map(|name| (name, folder.join(name))).collect()))
    }

    /// Each file by its name.
    pub fn iter(&self) -> impl Iterator<Item = &(&'static str, PathBuf)> {
        self.0.iter()
    }

    fn path(&self, name: &str) -> Option<&Path> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, path)| path.as_path())
    }
}

/// A model's tokenizer, with its own padding and truncation switched off.
#[derive(Clone, Debug)]
pub struct ModelTokenizer {
    /// For running text.
    text: Tokenizer,
    /// For words split beforehand, where that is another one.
    words: Option<Tokenizer>,
    separator: Option<u32>,
    /// For each id whether its surface is all Unicode punctuation.
    punctuation: Vec<bool>,
    splits_at_spaces: bool,
}

impl ModelTokenizer {
    /// Loads a tokenizer; `config` is the model's `config.json`, which may name its class, and `rows` is the number of
    /// rows of the token embedding.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, is of a class that is not known, the special tokens are not in the vocabulary, or a
    /// token has no row in the embedding.
    pub fn load(files: &TokenizerFiles, config: &Path, rows: usize) -> Result<Self> {
        let settings = Settings::read(files, config)?;
        let [(name, path), others @ ..] = files.0.as_slice() else { bail!("a tokenizer without files") };
        let mut text = match (*name, others) {
            (WORDPIECE_VOCABULARY, _) => wordpiece(path, &settings)?,
            (BPE_VOCABULARY, [(BPE_MERGES, merges), ..]) => byte_level_bpe(path, merges, &settings)?,
            _ => whole(path, &settings)?,
        };
        text.with_padding(None);
        text.with_truncation(None).map_err(|error| anyhow!("cannot use tokenizer `{}`: {error}", path.display()))?;
        ensure_fits(&text, rows, path)?;
        Ok(Self {
            separator: separator(&text, &settings)?,
            punctuation: punctuation_table(&text),
            splits_at_spaces: splits_at_spaces(&text),
            words: for_words(&text),
            text,
        })
    }

    /// Encodes running text, with the special tokens around it if `special`.
    ///
    /// # Errors
    ///
    /// If the tokenizer fails.
    pub fn encode_text(&self, text: &str, special: bool) -> Result<Encoding> {
        self.text.encode(text, special).map_err(failed)
    }

    /// Encodes words that were split beforehand, with the special tokens around them: as transformers does with
    /// `is_split_into_words=True`, and, for byte-level BPE, `add_prefix_space=True`, without which all words but the
    /// first would be cut as if they continued the word before.
    ///
    /// # Errors
    ///
    /// If the tokenizer fails.
    pub fn encode_words(&self, words: &[&str]) -> Result<Encoding> {
        let input = EncodeInput::Single(InputSequence::from(words));
        self.words.as_ref().unwrap_or(&self.text).encode(input, true).map_err(failed)
    }

    /// Puts the special tokens around a text that was encoded without them, cut to `tokens` tokens.
    ///
    /// # Errors
    ///
    /// If the tokenizer fails.
    pub fn cut(&self, mut bare: Encoding, tokens: usize) -> Result<Encoding> {
        bare.truncate(tokens, 0, TruncationDirection::Right);
        self.text.post_process(bare, None, true).map_err(failed)
    }

    /// The token of an id, as the vocabulary has it.
    #[must_use]
    pub fn token(&self, id: u32) -> Option<String> {
        self.text.id_to_token(id)
    }

    /// The id of the separator: `[SEP]`, `</s>`.
    #[must_use]
    pub fn separator(&self) -> Option<u32> {
        self.separator
    }

    /// Whether all characters of a token are Unicode punctuation (general category P), what marks it as the beginning
    /// or the continuation of a word left out.
    #[must_use]
    pub fn is_punctuation(&self, id: u32) -> bool {
        self.punctuation.get(id as usize).copied().unwrap_or(false)
    }

    /// A place in `text` up to which it has at least `tokens` tokens, found without encoding it; `None` if there is
    /// none, or it cannot be told.
    ///
    /// Where the tokenizer splits at spaces, a part between spaces that has a letter or digit of ASCII has a token of
    /// its own at least.
    #[must_use]
    pub fn enough(&self, text: &str, tokens: usize) -> Option<usize> {
        let sure = |part: &&str| part.bytes().any(|byte| byte.is_ascii_alphanumeric());
        let parts = self.splits_at_spaces.then(|| text.split(' '))?;
        let last = parts.filter(sure).nth(tokens.checked_sub(1)?)?;
        Some(last.as_ptr() as usize - text.as_ptr() as usize + last.len())
    }
}

/// Makes sure that every token has a row in an embedding of `rows` rows.
fn ensure_fits(tokenizer: &Tokenizer, rows: usize, path: &Path) -> Result<()> {
    let largest = tokenizer.get_vocab(true).into_iter().max_by_key(|(_, id)| *id);
    if let Some((token, id)) = largest {
        ensure!(
            (id as usize) < rows,
            "tokenizer `{}` does not fit the model: its token `{}` has id {id}, config.json says vocab_size {rows}",
            path.display(),
            token.escape_debug(),
        );
    }
    Ok(())
}

#[allow(clippy::needless_pass_by_value, reason = "as `map_err` hands it over")]
fn failed(error: tokenizers::Error) -> anyhow::Error {
    anyhow!("the tokenizer failed: {error}")
}

/// What the files beside a vocabulary say.
struct Settings {
    /// `tokenizer_config.json`, and what `special_tokens_map.json` adds to it.
    values: Map<String, Value>,
    /// Tokens with ids of their own beside the vocabulary, by id.
    added: BTreeMap<u32, AddedToken>,
    /// The tokenizer's class in transformers without `Fast`, where a file names it.
    class: Option<String>,
    /// `model_type` of the model.
    model_type: Option<String>,
    /// Where the settings are, for messages.
    path: PathBuf,
}

impl Settings {
    fn read(files: &TokenizerFiles, config: &Path) -> Result<Self> {
        let object = |name: &str| files.path(name).map(read_json::<Map<String, Value>>).transpose();
        let mut values = object(CONFIG)?.unwrap_or_default();
        let mut added: BTreeMap<u32, AddedToken> = BTreeMap::new();
        let path = files.path(CONFIG).unwrap_or(Path::new(CONFIG)).to_owned();
        // As in transformers: the older files count only where the newer key is not there.
        if let Some(tokens) = values.get("added_tokens_decoder") {
            added = serde_json::from_value(tokens.clone())
                .with_context(|| format!("`{}`: added_tokens_decoder cannot be used", path.display()))?;
        } else {
            values.extend(object(SPECIAL_TOKENS)?.unwrap_or_default());
            if let Some(path) = files.path(ADDED_TOKENS) {
                for (token, id) in read_json::<BTreeMap<String, u32>>(path)? {
                    let special =
                        NAMED.iter().any(|name| named(&values, name).is_some_and(|(other, _)| other == token));
                    added.insert(id, AddedToken::from(token, special));
                }
            }
        }
        let config: Map<String, Value> = if config.is_file() { read_json(config)? } else { Map::new() };
        let text = |values: &Map<String, Value>, key: &str| values.get(key).and_then(Value::as_str).map(str::to_owned);
        let class = text(&values, "tokenizer_class").or_else(|| text(&config, "tokenizer_class"));
        let class = class.map(|class| class.strip_suffix("Fast").unwrap_or(&class).to_owned());
        Ok(Self { values, added, class, model_type: text(&config, "model_type"), path })
    }

    /// A switch; an error if it is something else. `None` where it is null or not there.
    fn switch(&self, key: &str) -> Result<Option<bool>> {
        match self.values.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(*value)),
            Some(other) => bail!("`{}`: {key} is {other}: expected true or false", self.path.display()),
        }
    }

    /// The name of a special token, its own or the `default`.
    fn special(&self, name: &str, default: &str) -> String {
        named(&self.values, name).map_or_else(|| default.to_owned(), |(content, _)| content.to_owned())
    }

    /// Refuses a class that cuts words in another way than those in `known`.
    fn ensure_class(&self, known: &[&str], file: &Path) -> Result<()> {
        match &self.class {
            Some(class) if !known.contains(&class.as_str()) => bail!(
                "`{}` belongs to a tokenizer of class {class}, which is read as {TOKENIZER} only (read as it is: {}): \
                 if transformers has {class} as a fast tokenizer, save it with AutoTokenizer.save_pretrained",
                file.display(),
                known.join(", "),
            ),
            _ => Ok(()),
        }
    }
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let bytes = fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    serde_json::from_slice(&bytes).with_context(|| format!("cannot use `{}`", path.display()))
}

/// The keys under which special tokens are named.
const NAMED: [&str; 7] = ["unk_token", "sep_token", "pad_token", "cls_token", "mask_token", "bos_token", "eos_token"];

/// A special token by the key that names it: a string, or an object with the string as `content`; then the object too.
fn named<'a>(values: &'a Map<String, Value>, key: &str) -> Option<(&'a str, Option<&'a Value>)> {
    let token = values.get(key)?;
    match token.as_str() {
        Some(content) => Some((content, None)),
        None => token.get("content")?.as_str().map(|content| (content, Some(token))),
    }
}

/// A tokenizer that is in one file.
///
/// Switches that `tokenizer_config.json` names win over it, as in transformers.
fn whole(path: &Path, settings: &Settings) -> Result<Tokenizer> {
    let at = path.display();
    let bytes = fs::read(path).with_context(|| format!("cannot read tokenizer `{at}`"))?;
    let mut tokenizer =
        Tokenizer::from_bytes(bytes).map_err(|error| anyhow!("cannot read tokenizer `{at}`: {error}"))?;
    if let ModelWrapper::BPE(bpe) = tokenizer.get_model()
        && let Some(dropout) = bpe.dropout.filter(|dropout| *dropout > 0.0)
    {
        bail!("tokenizer `{at}` has a BPE dropout of {dropout}: its tokens are drawn by lot; set it to null");
    }
    if let Some(NormalizerWrapper::BertNormalizer(normalizer)) = tokenizer.get_normalizer() {
        let mut wanted = *normalizer;
        if settings.class.as_deref().is_none_or(|class| WORDPIECE_CLASSES.contains(&class)) {
            wanted.lowercase = settings.switch("do_lower_case")?.unwrap_or(wanted.lowercase);
            wanted.handle_chinese_chars =
                settings.switch("tokenize_chinese_chars")?.unwrap_or(wanted.handle_chinese_chars);
            if settings.values.contains_key("strip_accents") {
                wanted.strip_accents = settings.switch("strip_accents")?;
            }
        }
        tokenizer.with_normalizer(Some(wanted)).map_err(|error| anyhow!("cannot use tokenizer `{at}`: {error}"))?;
    }
    if settings.class.as_deref().is_some_and(|class| BYTE_LEVEL_CLASSES.contains(&class))
        && let Some(prefix_space) = settings.switch("add_prefix_space")?
        && let Some(mut pre_tokenizer) = tokenizer.get_pre_tokenizer().cloned()
    {
        each(&mut pre_tokenizer, &mut |part| {
            if let PreTokenizerWrapper::ByteLevel(byte_level) = part {
                byte_level.add_prefix_space = prefix_space;
            }
        });
        tokenizer.with_pre_tokenizer(Some(pre_tokenizer));
    }
    if tokenizer.get_post_processor().is_none() {
        let (cls, sep) = around(&tokenizer, settings);
        surround(&mut tokenizer, &cls, &sep, path)?;
    }
    Ok(tokenizer)
}

/// Classes that cut words as BERT's does.
const WORDPIECE_CLASSES: [&str; 5] =
    ["BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer", "MPNetTokenizer", "MobileBertTokenizer"];

/// Classes that cut words as RoBERTa's does.
const BYTE_LEVEL_CLASSES: [&str; 2] = ["RobertaTokenizer", "LongformerTokenizer"];

/// BERT's tokenizer of a `vocab.txt`; its defaults are those of transformers' `BertTokenizer` and `MPNetTokenizer`.
fn wordpiece(path: &Path, settings: &Settings) -> Result<Tokenizer> {
    settings.ensure_class(&WORDPIECE_CLASSES, path)?;
    let unusable = |error: tokenizers::Error| anyhow!("cannot use vocabulary `{}`: {error}", path.display());
    let bytes = fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    let vocabulary = WordPiece::read_bytes(&bytes).map_err(unusable)?;
    let unknown = settings.special("unk_token", "[UNK]");
    ensure!(
        vocabulary.contains_key(&unknown),
        "vocabulary `{}` has no token `{unknown}`, which stands for unknown words: is it whole?",
        path.display(),
    );
    let model = WordPiece::builder().vocab(vocabulary).unk_token(unknown).build().map_err(unusable)?;
    let mut tokenizer = Tokenizer::new(model);
    let chinese = settings.switch("tokenize_chinese_chars")?.unwrap_or(true);
    let lowercase = settings.switch("do_lower_case")?.unwrap_or(true);
    let normalizer = BertNormalizer::new(true, chinese, settings.switch("strip_accents")?, lowercase);
    tokenizer.with_normalizer(Some(normalizer)).map_err(unusable)?;
    tokenizer.with_pre_tokenizer(Some(BertPreTokenizer));
    let mpnet = match &settings.class {
        Some(class) => class == "MPNetTokenizer",
        None => settings.model_type.as_deref() == Some("mpnet"),
    };
    let defaults = if mpnet { MPNET } else { BERT };
    add_tokens(&mut tokenizer, settings, &defaults, path)?;
    surround(
        &mut tokenizer,
        &settings.special("cls_token", defaults.first),
        &settings.special("sep_token", defaults.separator),
        path,
    )?;
    Ok(tokenizer)
}

/// RoBERTa's tokenizer of a `vocab.json` and a `merges.txt`; its defaults are those of transformers'
/// `RobertaTokenizer`.
fn byte_level_bpe(vocabulary: &Path, merges: &Path, settings: &Settings) -> Result<Tokenizer> {
    settings.ensure_class(&BYTE_LEVEL_CLASSES, vocabulary)?;
    let shown = format!("`{}` and `{}`", vocabulary.display(), merges.display());
    let unusable = |error: tokenizers::Error| anyhow!("cannot use vocabulary {shown}: {error}");
    let (Some(vocabulary_path), Some(merges_path)) = (vocabulary.to_str(), merges.to_str()) else {
        bail!("cannot use vocabulary {shown}: their path is not UTF-8");
    };
    let model = BPE::from_file(vocabulary_path, merges_path).build().map_err(unusable)?;
    let mut tokenizer = Tokenizer::new(model);
    let prefix_space = settings.switch("add_prefix_space")?.unwrap_or(false);
    tokenizer.with_pre_tokenizer(Some(ByteLevel::default().add_prefix_space(prefix_space)));
    add_tokens(&mut tokenizer, settings, &ROBERTA, vocabulary)?;
    surround(
        &mut tokenizer,
        &settings.special("cls_token", ROBERTA.first),
        &settings.special("sep_token", ROBERTA.separator),
        vocabulary,
    )?;
    Ok(tokenizer)
}

/// The special tokens of a family, where no file names them.
struct Defaults {
    first: &'static str,
    separator: &'static str,
    unknown: &'static str,
    padding: &'static str,
    mask: &'static str,
    /// Whether a mask in a text takes the space before it along.
    mask_takes_space: bool,
}

const BERT: Defaults = Defaults {
    first: "[CLS]",
    separator: "[SEP]",
    unknown: "[UNK]",
    padding: "[PAD]",
    mask: "[MASK]",
    mask_takes_space: false,
};

const ROBERTA: Defaults = Defaults {
    first: "<s>",
    separator: "</s>",
    unknown: "<unk>",
    padding: "<pad>",
    mask: "<mask>",
    mask_takes_space: false,
};

/// MPNet has RoBERTa's special tokens, in a vocabulary that holds BERT's too.
const MPNET: Defaults = Defaults { unknown: "[UNK]", mask_takes_space: true, ..ROBERTA };

/// Makes the special tokens whole in a text that has them literally, and adds those that the vocabulary lacks.
fn add_tokens(tokenizer: &mut Tokenizer, settings: &Settings, defaults: &Defaults, path: &Path) -> Result<()> {
    let cannot = |error: tokenizers::Error| anyhow!("cannot use vocabulary `{}`: {error}", path.display());
    for (&id, token) in &settings.added {
        let content = token.content.clone();
        tokenizer.add_tokens([token.clone()]).map_err(cannot)?;
        let given = tokenizer.token_to_id(&content);
        ensure!(
            given == Some(id),
            "vocabulary `{}` does not fit its added tokens: `{}` is to have id {id}, and has {}",
            path.display(),
            content.escape_debug(),
            given.map_or_else(|| "none".to_owned(), |given| given.to_string()),
        );
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

/// The first special token and the separator that a tokenizer without a post-processor is to put around a text.
fn around(tokenizer: &Tokenizer, settings: &Settings) -> (String, String) {
    let known = |defaults: &&Defaults| tokenizer.token_to_id(defaults.first).is_some();
    let defaults = [&BERT, &ROBERTA].into_iter().find(known).unwrap_or(&BERT);
    (settings.special("cls_token", defaults.first), settings.special("sep_token", defaults.separator))
}

/// Puts `cls` before and `sep` after each text.
fn surround(tokenizer: &mut Tokenizer, cls: &str, sep: &str, path: &Path) -> Result<()> {
    let id = |token: &str| {
        tokenizer.token_to_id(token).with_context(|| {
            format!(
                "`{}` has no token `{}`, which stands at one end of each sentence: the special tokens are named by \
                 cls_token and sep_token in {CONFIG}",
                path.display(),
                token.escape_debug(),
            )
        })
    };
    let (cls, sep) = ((cls.to_owned(), id(cls)?), (sep.to_owned(), id(sep)?));
    tokenizer.with_post_processor(Some(BertProcessing::new(sep, cls)));
    Ok(())
}

/// The separator: what `sep_token` names, else the last of several special tokens around a text.
fn separator(tokenizer: &Tokenizer, settings: &Settings) -> Result<Option<u32>> {
    if let Some((name, _)) = named(&settings.values, "sep_token") {
        return Ok(tokenizer.token_to_id(name));
    }
    let empty = tokenizer.encode("", true).map_err(failed)?;
    Ok(empty.get_ids().iter().skip(1).last().copied())
}

/// The tokenizer for words split beforehand, where it is another one: with a space before each of them.
fn for_words(text: &Tokenizer) -> Option<Tokenizer> {
    let mut pre_tokenizer = text.get_pre_tokenizer()?.clone();
    let mut changed = false;
    each(&mut pre_tokenizer, &mut |part| {
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
fn splits_at_spaces(tokenizer: &Tokenizer) -> bool {
    let mut splits = false;
    if let Some(pre_tokenizer) = tokenizer.get_pre_tokenizer() {
        each(&mut pre_tokenizer.clone(), &mut |part| {
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

/// Shows every part of a pre-tokenizer.
fn each(pre_tokenizer: &mut PreTokenizerWrapper, show: &mut impl FnMut(&mut PreTokenizerWrapper)) {
    if let PreTokenizerWrapper::Sequence(parts) = pre_tokenizer {
        parts.as_mut().iter_mut().for_each(|part| each(part, show));
    } else {
        show(pre_tokenizer);
    }
}

/// How a vocabulary writes where in a word a token stands.
enum Marks {
    /// `##` and the like before what continues a word.
    Continuation(String),
    /// Bytes as letters, a space among them before what begins a word.
    ByteLevel,
    /// `▁` or the like before what begins a word.
    Begin(char),
    None,
}

impl Marks {
    fn of(tokenizer: &Tokenizer) -> Self {
        if let ModelWrapper::WordPiece(model) = tokenizer.get_model() {
            return Self::Continuation(model.continuing_subword_prefix.clone());
        }
        let mut marks = Self::None;
        if let Some(pre_tokenizer) = tokenizer.get_pre_tokenizer() {
            each(&mut pre_tokenizer.clone(), &mut |part| match part {
                PreTokenizerWrapper::ByteLevel(_) => marks = Self::ByteLevel,
                PreTokenizerWrapper::Metaspace(metaspace) => marks = Self::Begin(metaspace.get_replacement()),
                _ => {}
            });
        }
        marks
    }

    /// What a token stands for in the text.
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

/// For each id of the vocabulary whether the token's surface is all Unicode punctuation.
fn punctuation_table(tokenizer: &Tokenizer) -> Vec<bool> {
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
        assert!(is_punctuation("…") && is_punctuation("?!") && is_punctuation("。"));
        assert!(!is_punctuation("") && !is_punctuation("\u{fffd}") && !is_punctuation("$") && !is_punctuation("a."));
    }
}
