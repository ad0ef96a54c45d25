//! The tokenizer classes of transformers that are built from a sentencepiece model, and how each class builds its tokenizer.
//! They follow transformers 5 (`models/*/tokenization_*.py`, `convert_from_spm` in `convert_slow_tokenizer.py`).

use anyhow::{Result, anyhow, ensure};
use itertools::Itertools;
use tokenizers::NormalizerWrapper;
use tokenizers::PreTokenizerWrapper;
use tokenizers::normalizers::replace::ReplacePattern;
use tokenizers::normalizers::{Lowercase, NFC, NFKD, Precompiled, Replace, Strip, StripAccents};
use tokenizers::pre_tokenizers::metaspace::{Metaspace, PrependScheme};
use tokenizers::pre_tokenizers::punctuation::Punctuation;
use tokenizers::pre_tokenizers::whitespace::WhitespaceSplit;
use tokenizers::tokenizer::normalizer::SplitDelimiterBehavior;

use super::proto::SentencePieceModel;
use crate::model::tokenizer::config::{ROLE_KEYS, TokenizerConfig, named_token};
use crate::system::errors::ErrorExt;

/// A tokenizer class of transformers that is built from a sentencepiece model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SentencePieceClass {
    Albert,
    BigBird,
    Camembert,
    DebertaV2,
    Llama,
    RemBert,
    T5,
    XlmRoberta,
}

/// Tokenizer classes: (name in transformers, class, families by `model_type` whose default it is).
const CLASSES: [(&str, SentencePieceClass, &[&str]); 8] = [
    ("AlbertTokenizer", SentencePieceClass::Albert, &["albert"]),
    ("BigBirdTokenizer", SentencePieceClass::BigBird, &["big_bird"]),
    ("CamembertTokenizer", SentencePieceClass::Camembert, &["camembert"]),
    ("DebertaV2Tokenizer", SentencePieceClass::DebertaV2, &["deberta-v2"]),
    ("LlamaTokenizer", SentencePieceClass::Llama, &[]),
    ("RemBertTokenizer", SentencePieceClass::RemBert, &["rembert"]),
    ("T5Tokenizer", SentencePieceClass::T5, &["t5", "mt5"]),
    // transformers 5 names no class for XLM-RoBERTa-XL; transformers 4 takes XLM-RoBERTa's.
    ("XLMRobertaTokenizer", SentencePieceClass::XlmRoberta, &["xlm-roberta", "xlm-roberta-xl"]),
];

/// Maximum number of T5 sentinels that are added to a vocabulary; T5 has 100.
const MAX_SENTINELS: u64 = 1 << 16;

impl SentencePieceClass {
    /// Finds a tokenizer's class by its name or, if no file names it, by the model's family. Fails at an unknown class; the
    /// error lists the known classes.
    pub fn find(settings: &TokenizerConfig) -> Result<Self> {
        let family = settings.model_type.as_str();
        let entry = CLASSES.iter().find(|(name, _, families)| settings.is_of_class(name, families));
        entry.map(|(_, class, _)| *class).ok_or_else(|| {
            let origin = settings.class.as_deref().map_or_else(
                || format!("model_type {family}, which has no class of its own for one"),
                |class| format!("class {class}"),
            );
            let names = CLASSES.iter().map(|(name, ..)| name).join(", ");
            let error = anyhow!("it is a sentencepiece model of {origin} (read as it is: {names})");
            error.with_value(settings.class.as_deref().unwrap_or(family))
        })
    }

    /// Returns the class's default special tokens, in the order of [`ROLE_KEYS`]; an empty text for each role that the class
    /// lacks.
    fn default_special_tokens(self) -> [&'static str; 7] {
        match self {
            Self::Albert | Self::RemBert => ["[CLS]", "[SEP]", "<unk>", "[SEP]", "<pad>", "[CLS]", "[MASK]"],
            Self::BigBird => ["<s>", "</s>", "<unk>", "[SEP]", "<pad>", "[CLS]", "[MASK]"],
            Self::Camembert | Self::XlmRoberta => ["<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"],
            Self::DebertaV2 => ["[CLS]", "[SEP]", "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"],
            Self::Llama => ["<s>", "</s>", "<unk>", "", "", "", ""],
            Self::T5 => ["", "</s>", "<unk>", "", "<pad>", "", ""],
        }
    }

    /// Whether a mask in a text absorbs the space before it, unless a file says otherwise.
    pub fn mask_absorbs_space(self) -> bool {
        matches!(self, Self::BigBird | Self::Camembert)
    }

    /// Returns (vocabulary: pieces with their scores in the order of the class's ids, id of the unknown token).
    pub fn vocabulary(
        self,
        model: SentencePieceModel,
        settings: &TokenizerConfig,
    ) -> Result<(Vec<(String, f64)>, usize)> {
        let special = |role: &str| (self.role_token(settings, role).unwrap_or_default(), 0.0);
        let own_unknown = usize::try_from(model.unknown).unwrap_or(0);
        let pieces = model.pieces.into_iter().map(|piece| (piece.text, f64::from(piece.score)));
        let unknown = special("unk_token");
        Ok(match self {
            // The class has fairseq's ids, with four special tokens before the pieces; sentencepiece has three.
            Self::XlmRoberta => {
                let first = ["bos_token", "pad_token", "eos_token", "unk_token"].map(special);
                (first.into_iter().chain(pieces.skip(3)).chain([special("mask_token")]).collect(), 3)
            }
            Self::Camembert => {
                let unused = |token: &str, score| (token.to_owned(), score);
                let first = [
                    unused("<s>NOTUSED", 0.0),
                    special("pad_token"),
                    unused("</s>NOTUSED", 0.0),
                    unknown.clone(),
                    unused("<unk>NOTUSED", -100.0),
                ];
                let tokens: Vec<_> = first.into_iter().chain(pieces.skip(1)).chain([special("mask_token")]).collect();
                let id = tokens.iter().position(|(token, _)| *token == unknown.0).unwrap_or(0);
                (tokens, id)
            }
            Self::T5 => {
                let sentinels = list_sentinels(settings)?.into_iter().rev().map(|token| (token, 0.0));
                (pieces.chain(sentinels).collect(), 2)
            }
            Self::Albert => (pieces.collect(), 1),
            Self::RemBert => (pieces.collect(), 2),
            Self::BigBird | Self::DebertaV2 | Self::Llama => {
                let tokens: Vec<_> = pieces.collect();
                let fallback = if self == Self::BigBird { 100 } else { own_unknown };
                let id = tokens.iter().position(|token| *token == unknown).unwrap_or(fallback);
                (tokens, id)
            }
        })
    }

    /// Builds the normalisers of a text, in order. `replacements` are the sentencepiece model's replacements of characters, if
    /// any.
    pub fn normalizers(
        self,
        replacements: Option<Precompiled>,
        settings: &TokenizerConfig,
    ) -> Result<Vec<NormalizerWrapper>> {
        let switch =
            |key: &str, default: bool| Ok::<_, anyhow::Error>(settings.boolean_setting(key)?.unwrap_or(default));
        let mut all: Vec<NormalizerWrapper> = vec![];
        match self {
            Self::Camembert | Self::T5 | Self::XlmRoberta => all.extend(replacements.map(Into::into)),
            Self::Albert | Self::RemBert => {
                all.extend([replace("``", "\"")?, replace("''", "\"")?]);
                if self == Self::RemBert {
                    all.push(replace(regex(" {2,}"), " ")?);
                }
                if !switch("keep_accents", self == Self::RemBert)? {
                    all.extend([NFKD.into(), StripAccents.into()]);
                }
                if switch("do_lower_case", self == Self::Albert)? {
                    all.push(Lowercase.into());
                }
                all.extend(replacements.map(Into::into));
            }
            Self::BigBird => all.push(replace(regex(" {2,}"), "▁")?),
            Self::DebertaV2 => {
                if switch("do_lower_case", false)? {
                    all.push(Lowercase.into());
                }
                all.extend([replace(regex(r"\s{2,}|[\n\r\t]"), " ")?, NFC.into(), Strip::new(false, true).into()]);
            }
            Self::Llama => {}
        }
        Ok(all)
    }

    /// Builds the pre-tokenizers that cut a text into words, in order.
    pub fn pre_tokenizers(self, settings: &TokenizerConfig) -> Result<Vec<PreTokenizerWrapper>> {
        let prefix_space = settings.boolean_setting("add_prefix_space")?.unwrap_or(true) || self == Self::T5;
        let prepend = match (prefix_space, self) {
            (true, Self::Llama) if !settings.boolean_setting("legacy")?.unwrap_or(false) => PrependScheme::First,
            (true, _) => PrependScheme::Always,
            (false, Self::DebertaV2) => PrependScheme::First,
            (false, _) => PrependScheme::Never,
        };
        let metaspace = Metaspace::new('▁', prepend, self != Self::Llama).into();
        Ok(match self {
            Self::Albert | Self::Camembert | Self::T5 | Self::XlmRoberta => vec![WhitespaceSplit.into(), metaspace],
            Self::DebertaV2 if settings.boolean_setting("split_by_punct")?.unwrap_or(false) => {
                vec![Punctuation::new(SplitDelimiterBehavior::Isolated).into(), metaspace]
            }
            Self::BigBird | Self::DebertaV2 | Self::Llama | Self::RemBert => vec![metaspace],
        })
    }

    /// Returns the templates of special tokens, `[around a text, around a pair of texts]`. `$A` and `$B` stand for the texts.
    /// In each part, a colon precedes the segment.
    pub fn templates(self, settings: &TokenizerConfig) -> Result<[Vec<String>; 2]> {
        // Roles of special tokens and texts; parts without a segment have segment 0.
        let by_role = match self {
            Self::Albert | Self::BigBird | Self::DebertaV2 | Self::RemBert => {
                ["cls_token $A sep_token", "cls_token $A sep_token $B:1 sep_token:1"]
            }
            Self::Camembert | Self::XlmRoberta => {
                ["bos_token $A eos_token", "bos_token $A eos_token eos_token $B eos_token"]
            }
            Self::T5 => ["$A eos_token", "$A eos_token $B eos_token"],
            Self::Llama => ["bos_token $A eos_token", "bos_token $A eos_token bos_token:1 $B:1 eos_token:1"],
        };
        let mut left_out = Vec::new();
        for (key, role) in [("add_bos_token", "bos_token"), ("add_eos_token", "eos_token")] {
            if self == Self::Llama && !settings.boolean_setting(key)?.unwrap_or(false) {
                left_out.push(role);
            }
        }
        let part = |part: &str| {
            let (role, segment) = part.split_once(':').unwrap_or((part, "0"));
            let token = if role.starts_with('$') { Some(role.to_owned()) } else { self.role_token(settings, role) };
            (!left_out.contains(&role)).then(|| format!("{}:{segment}", token.unwrap_or_default()))
        };
        Ok(by_role.map(|template| template.split(' ').filter_map(part).collect()))
    }

    /// Returns the special token with the role `role`: from a file, or else the class's default. `None` without either.
    pub fn role_token(self, settings: &TokenizerConfig, role: &str) -> Option<String> {
        let place = || ROLE_KEYS.iter().position(|known| *known == role);
        let default = || place().map(|place| self.default_special_tokens()[place]).filter(|token| !token.is_empty());
        named_token(&settings.values, role).map(|(token, _)| token).or_else(default).map(str::to_owned)
    }
}

/// Lists T5's sentinels, which stand for gaps in a text; the setting `extra_ids` is their number. Fails if that is no valid
/// number.
pub(super) fn list_sentinels(settings: &TokenizerConfig) -> Result<Vec<String>> {
    let setting = settings.values.get("extra_ids").filter(|setting| !setting.is_null());
    let count = setting.map_or(Some(100), serde_json::Value::as_u64).filter(|count| *count <= MAX_SENTINELS);
    ensure!(
        count.is_some(),
        anyhow!(
            "extra_ids is {}: expected a whole number of at most {MAX_SENTINELS}",
            setting.map(ToString::to_string).unwrap_or_default()
        )
    );
    Ok((0..count.unwrap_or(0)).map(|place| format!("<extra_id_{place}>")).collect())
}

/// Builds a normaliser that replaces each match of `pattern` by the text `by`.
fn replace(pattern: impl Into<ReplacePattern>, by: &str) -> Result<NormalizerWrapper> {
    Ok(Replace::new(pattern, by).map_err(|error| anyhow!("{error}"))?.into())
}

fn regex(pattern: &str) -> ReplacePattern {
    ReplacePattern::Regex(pattern.to_owned())
}
