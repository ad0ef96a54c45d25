//! Settings of a tokenizer, from files beside its vocabulary.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokenizers::AddedToken;

use crate::model::files::names::{
    ADDED_TOKENS, MAX_CONFIG_BYTES, MAX_TOKENIZER_BYTES, SPECIAL_TOKENS, TOKENIZER, TOKENIZER_CONFIG,
};
use crate::model::files::{ModelFile, TokenizerFiles};
use crate::system::errors::ErrorExt;

/// Settings of a tokenizer that its vocabulary does not hold.
pub(super) struct TokenizerConfig {
    /// Settings of `tokenizer_config.json`, extended by `special_tokens_map.json`.
    pub values: Map<String, Value>,
    /// Tokens that files list in addition to the vocabulary, by id.
    pub added_tokens: BTreeMap<u32, AddedToken>,
    /// Special tokens listed in `tokenizer_config.json` that have no role, unlike the separator or the mask token;
    /// `None` if it has no such list.
    pub extra_special_tokens: Option<Vec<AddedToken>>,
    /// The tokenizer's class in transformers, without the suffix `Fast`; `None` if no file names it.
    pub class: Option<String>,
    /// Architecture family of the model: its `model_type`.
    pub model_type: String,
    /// Id of the beginning-of-text token: `bos_token_id` of the model's `config.json`.
    pub bos_token_id: Option<u32>,
    /// The file of the settings, for messages.
    path: PathBuf,
}

impl TokenizerConfig {
    /// Reads the settings of a tokenizer from the files that it may have, and from the model's `config.json`, `config`.
    pub fn read(files: &TokenizerFiles, config: &ModelFile, model_type: &str) -> Result<Self> {
        let object = |name: &str| files.get(name).map(read_json::<Map<String, Value>>).transpose();
        let mut values = object(TOKENIZER_CONFIG)?.unwrap_or_default();
        let mut added: BTreeMap<u32, AddedToken> = BTreeMap::new();
        let path = files.get(TOKENIZER_CONFIG).map_or(Path::new(TOKENIZER_CONFIG), ModelFile::path).to_owned();
        let lists = ["extra_special_tokens", "additional_special_tokens"].into_iter().filter_map(|key| values.get(key));
        let lists = lists.filter(|list| list.is_array() || list.is_null());
        let lists = lists.map(|list| list.as_array().into_iter().flatten().filter_map(added_token).collect::<Vec<_>>());
        // An empty list gives way to the list under the older key.
        let extra = lists.reduce(|list, older| if list.is_empty() { older } else { list });
        // The older files count only if the newer key is missing, as in transformers.
        if let Some(tokens) = values.get("added_tokens_decoder") {
            added = serde_json::from_value(tokens.clone())
                .with_context(|| format!("`{}`: added_tokens_decoder cannot be used", path.display()))
                .with_file(path.display())?;
        } else {
            values.extend(object(SPECIAL_TOKENS)?.unwrap_or_default());
            if let Some(file) = files.get(ADDED_TOKENS) {
                for (token, id) in read_json::<BTreeMap<String, u32>>(file)? {
                    let special = ROLE_KEYS
                        .iter()
                        .any(|name| named_token(&values, name).is_some_and(|(other, _)| other == token));
                    added.insert(id, AddedToken::from(token, special));
                }
            }
        }
        let config: Map<String, Value> =
            serde_json::from_str(&config.text(MAX_CONFIG_BYTES)?).cannot("use", config.path().display())?;
        let text = |values: &Map<String, Value>, key: &str| values.get(key).and_then(Value::as_str).map(str::to_owned);
        let class = text(&values, "tokenizer_class").or_else(|| text(&config, "tokenizer_class"));
        let class = class.map(|class| class.strip_suffix("Fast").unwrap_or(&class).to_owned());
        let beginning = config.get("bos_token_id").and_then(Value::as_u64).and_then(|id| u32::try_from(id).ok());
        Ok(Self {
            values,
            added_tokens: added,
            extra_special_tokens: extra,
            class,
            model_type: model_type.to_owned(),
            bos_token_id: beginning,
            path,
        })
    }

    /// Returns a Boolean setting; `None` if it is null or missing. Fails if it is anything else.
    pub fn boolean_setting(&self, key: &str) -> Result<Option<bool>> {
        match self.values.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(*value)),
            Some(other) => {
                let shown = self.path.display();
                let error = anyhow!("`{shown}`: {key} is {other}: expected true or false").with_file(&shown);
                Err(error.with_value(other.as_str().unwrap_or(&other.to_string())))
            }
        }
    }

    /// Returns the special token under the key `name`, or `default` if no file has it.
    pub fn special_token(&self, name: &str, default: &str) -> String {
        named_token(&self.values, name).map_or_else(|| default.to_owned(), |(content, _)| content.to_owned())
    }

    /// Returns the kind of the tokenizer's class, or of the family's default class if no file names one. `None` if the
    /// class has no [`TokenizerKind`]; its settings are then left as in their file.
    pub fn kind(&self) -> Option<TokenizerKind> {
        let japanese_keys = ["word_tokenizer_type", "subword_tokenizer_type", "mecab_kwargs"];
        if self.class.as_deref().is_none_or(|class| class == "BertTokenizer")
            && japanese_keys.iter().any(|key| self.values.contains_key(*key))
        {
            return Some(TokenizerKind::Japanese);
        }
        TOKENIZER_CLASSES
            .iter()
            .find(|(class, _, families)| self.is_of_class(class, families))
            .map(|(_, kind, _)| *kind)
    }

    /// Names the program that must split a text into words first; `None` if the tokenizer itself splits texts. `has_codes` says
    /// whether `bpe.codes` is among the files.
    pub fn required_word_splitter(&self, has_codes: bool) -> Option<String> {
        let words = self.values.get("word_tokenizer_type").and_then(Value::as_str);
        match self.kind() {
            Some(TokenizerKind::Japanese) => words.filter(|words| *words != "basic").map(str::to_owned),
            _ if has_codes && self.class.as_deref() != Some("BertweetTokenizer") => Some("a word segmenter".to_owned()),
            _ => None,
        }
    }

    /// Whether the tokenizer's class is `class`. If no file names a class: whether the model is of one of `families`, whose
    /// default is `class`.
    pub fn is_of_class(&self, class: &str, families: &[&str]) -> bool {
        self.class.as_ref().map_or(families.contains(&self.model_type.as_str()), |own| own == class)
    }

    /// Fails if a file names a tokenizer class of another kind.
    pub fn ensure_kind(&self, kind: TokenizerKind, file: &Path) -> Result<()> {
        let names: Vec<&str> =
            TOKENIZER_CLASSES.iter().filter(|(_, other, _)| *other == kind).map(|(class, ..)| *class).collect();
        match &self.class {
            Some(class) if !names.contains(&class.as_str()) => {
                let way_out = format!(
                    "if transformers has {class} as a fast tokenizer, save it with AutoTokenizer.save_pretrained"
                );
                let error = anyhow!(
                    "`{}` belongs to a tokenizer of class {class}, which is read as {TOKENIZER} only (read as it is: {})",
                    file.display(),
                    names.join(", "),
                );
                Err(error.with_file(file.display()).with_value(class).hint(way_out))
            }
            _ => Ok(()),
        }
    }
}

/// Kinds of tokenizer classes that can be built from a vocabulary; each kind has its defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenizerKind {
    /// Cuts words as BERT does.
    WordPiece,
    /// Cuts words as RoBERTa does.
    ByteLevel,
    /// Cuts proteins into residues, as ESM does.
    Residues,
    /// Cuts words as Japanese BERTs do; another program, such as `MeCab`, splits text into words first.
    Japanese,
    /// Cuts words by `bpe.codes`, as `PhoBERT` and `BERTweet` do.
    Codes,
}

/// Tokenizer classes of transformers: (name, kind, `model_type` of each family that has this class by default).
const TOKENIZER_CLASSES: [(&str, TokenizerKind, &[&str]); 17] = [
    ("BertTokenizer", TokenizerKind::WordPiece, &["bert", "ernie", "megatron-bert", "visual_bert"]),
    ("DistilBertTokenizer", TokenizerKind::WordPiece, &["distilbert"]),
    ("ElectraTokenizer", TokenizerKind::WordPiece, &["electra"]),
    ("MPNetTokenizer", TokenizerKind::WordPiece, &["mpnet"]),
    ("MobileBertTokenizer", TokenizerKind::WordPiece, &[]),
    ("DPRContextEncoderTokenizer", TokenizerKind::WordPiece, &["dpr"]),
    ("DPRQuestionEncoderTokenizer", TokenizerKind::WordPiece, &["dpr"]),
    ("LayoutLMTokenizer", TokenizerKind::WordPiece, &["layoutlm"]),
    ("SqueezeBertTokenizer", TokenizerKind::WordPiece, &["squeezebert"]),
    ("SplinterTokenizer", TokenizerKind::WordPiece, &["splinter"]),
    (
        "RobertaTokenizer",
        TokenizerKind::ByteLevel,
        &["roberta", "data2vec-text", "ibert", "luke", "roberta-prelayernorm"],
    ),
    ("LongformerTokenizer", TokenizerKind::ByteLevel, &["longformer"]),
    ("DebertaTokenizer", TokenizerKind::ByteLevel, &["deberta"]),
    ("EsmTokenizer", TokenizerKind::Residues, &["esm"]),
    ("BertJapaneseTokenizer", TokenizerKind::Japanese, &[]),
    ("PhobertTokenizer", TokenizerKind::Codes, &[]),
    ("BertweetTokenizer", TokenizerKind::Codes, &[]),
];

/// Parses a file as JSON. Fails if it cannot be read or parsed; the error names the file.
fn read_json<T: DeserializeOwned>(file: &ModelFile) -> Result<T> {
    serde_json::from_str(&file.text(MAX_TOKENIZER_BYTES)?).cannot("use", file.path().display())
}

/// Parses a token in a list: a string, or an object with the token as `content`. `None` for any other value.
fn added_token(token: &Value) -> Option<AddedToken> {
    match token.as_str() {
        Some(content) => Some(AddedToken::from(content, true)),
        None => serde_json::from_value(token.clone()).ok(),
    }
}

/// Keys under which files name special tokens, in the order in which transformers adds the tokens to a vocabulary.
pub(super) const ROLE_KEYS: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// Returns (special token under `key`, object that holds it). The token is a string, without an object, or the `content` of an
/// object. `None` if the key is missing, or its value is neither.
pub(super) fn named_token<'a>(values: &'a Map<String, Value>, key: &str) -> Option<(&'a str, Option<&'a Value>)> {
    let token = values.get(key)?;
    match token.as_str() {
        Some(content) => Some((content, None)),
        None => token.get("content")?.as_str().map(|content| (content, Some(token))),
    }
}
