//! A model's tokenizer, built from any set of files (`build.rs`), as transformers does. The library may panic at files of
//! unknown origin, so [`catch_panic`] turns panics in calls of it into errors.
//!
//! `tokenizer.json` is a whole tokenizer. `vocab.txt` is a vocabulary of `WordPiece`; `vocab.json` with `merges.txt` is one of
//! byte-level BPE. `spm.model` and similar files are sentencepiece models (`sentencepiece/`). For all but `tokenizer.json`,
//! other settings come from `tokenizer_config.json` (`config.rs`) or are the defaults of the class.

mod bounds;
mod build;
mod codes;
mod config;
mod entries;
mod marks;
mod properties;
pub mod residues;
pub mod round_trip;
mod sentencepiece;

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, anyhow, bail};
use tokenizers::models::wordlevel::WordLevel;
use tokenizers::pre_tokenizers::whitespace::WhitespaceSplit;
use tokenizers::{EncodeInput, Encoding, InputSequence, ModelWrapper, TruncationDirection};

use super::files::names::{BPE_CODES, BPE_MERGES, BPE_VOCABULARY, SENTENCEPIECE_FILES, WORDPIECE_VOCABULARY};
use super::files::{ModelFile, TokenizerFiles};
use crate::system::errors::{ErrorClass, ErrorExt};
use crate::system::panics::catch_panic;
use crate::system::time_limit;
use bounds::{BoundedModel, BoundedNormalizer, BoundedPreTokenizer, Tokenizer};
use config::{TokenizerConfig, TokenizerKind};
use entries::VocabularyEntries;
pub use entries::{Scripts, script_of};
use properties::{
    BeginningToken, bos_token_id, has_tokens_within_words, needs_joining_space, separator_id, unknown_id,
    word_tokenizer,
};
use round_trip::RoundTrip;

/// How the tokenizer reads text in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenizerOptions {
    /// Whether each given word is looked up as one entry of the vocabulary.
    pub tokens_as_words: bool,
    /// How sequences of residues are split for the tokenizer; `None`: as the vocabulary suggests.
    pub residues: Option<residues::Parting>,
}

/// A model's tokenizer, with its own padding and truncation switched off.
#[derive(Clone, Debug)]
pub struct ModelTokenizer {
    /// File with the tokenizer's vocabulary, for messages.
    path: PathBuf,
    /// The tokenizer of running text.
    text_tokenizer: Tokenizer,
    /// The tokenizer of words that were split beforehand; `None` if `text` serves for them too.
    word_tokenizer: Option<Tokenizer>,
    /// Number of rows of the token embedding; all token ids must be smaller.
    embedding_rows: usize,
    /// The id of `[SEP]` or `</s>`.
    pub separator: Option<u32>,
    /// The id of `[MASK]` or `<mask>`.
    pub mask: Option<u32>,
    /// The id of the unknown token: `[UNK]`, `<unk>`.
    pub unknown: Option<u32>,
    /// For each token id, whether the token's text is all Unicode punctuation.
    punctuation: Vec<bool>,
    /// Whether no token spans a space.
    splits_at_spaces: bool,
    /// Whether a text that follows another text needs a space before it, as part of its first token.
    pub needs_joining_space: bool,
    /// How sequences are split for the tokenizer, if its tokens are residues of proteins or nucleic acids; `None` if they are
    /// words.
    pub parting: Option<residues::Parting>,
    /// Id of the beginning-of-text token; `None` if no file names one.
    named_beginning_id: Option<u32>,
    /// Program that must split a text into words first; `None` if the tokenizer itself splits texts.
    word_splitter: Option<String>,
    /// The special token that a run puts before each text.
    beginning_token: BeginningToken,
    /// Numbers of vocabulary entries that the tokenizer gives back, lower-cases or loses when it reads them.
    pub round_trip: RoundTrip,
    /// Number of vocabulary entries in each script.
    pub scripts: Scripts,
    /// Length of nearly all vocabulary entries, in characters: 1 for letters, k for k-mers. `None` if too few share one length.
    pub entry_length: Option<usize>,
    /// All entries of the vocabulary except special tokens, with their ids; empty if there are more than 100.
    pub small_vocabulary: Vec<(u32, String)>,
    /// Whether each given word is looked up as one vocabulary entry.
    pub looks_up_words: bool,
}

impl ModelTokenizer {
    /// Loads the tokenizer of a model. `model_type` is the model's family, and `rows` the number of rows of its token
    /// embedding. The model's `config.json`, `config`, may name the tokenizer's class. Fails if a file cannot be read, the
    /// class is unknown, a special token is not in the vocabulary, or a token has no row in the embedding.
    pub fn load(files: &TokenizerFiles, config: &ModelFile, model_type: &str, rows: usize) -> Result<Self> {
        let settings = TokenizerConfig::read(files, config, model_type)?;
        let files: Vec<_> = files.iter().collect();
        let [(name, file), others @ ..] = files.as_slice() else { bail!("a tokenizer without files") };
        let path = file.path();
        let kind = settings.kind();
        let build = || {
            let mut text = match (*name, others) {
                (WORDPIECE_VOCABULARY, [(BPE_CODES, merges), ..]) => build::build_fast_bpe(file, merges, &settings)?,
                (WORDPIECE_VOCABULARY, _) if kind == Some(TokenizerKind::Residues) => {
                    build::build_residues(file, &settings)?
                }
                (WORDPIECE_VOCABULARY, _) if kind == Some(TokenizerKind::Japanese) => {
                    build::build_japanese(file, &settings)?
                }
                (WORDPIECE_VOCABULARY, _) => build::build_wordpiece(file, &settings)?,
                (BPE_VOCABULARY, [(BPE_MERGES, merges), ..]) => build::build_byte_level_bpe(file, merges, &settings)?,
                (name, _) if SENTENCEPIECE_FILES.contains(&name) => {
                    sentencepiece::build_sentencepiece(file, &settings)?
                }
                _ => build::read_tokenizer_json(file, &settings)?,
            };
            text.with_padding(None);
            text.with_truncation(None).map_err(|error| anyhow!("{error}").cannot("use tokenizer", path.display()))?;
            ensure_fits(&text, rows, path)?;
            let unknown = unknown_id(&text, &settings);
            let entries = VocabularyEntries::read(&text, unknown);
            let letters = (kind == Some(TokenizerKind::Residues)).then_some(residues::Parting::Letters);
            let loaded = Self {
                path: path.to_owned(),
                embedding_rows: rows,
                separator: separator_id(&text, &settings)?,
                mask: build::mask_id(&text, &settings),
                round_trip: round_trip::measure(&text, &entries, unknown),
                entry_length: entries.common_length(),
                looks_up_words: false,
                unknown,
                punctuation: marks::punctuation_table(&text),
                splits_at_spaces: has_tokens_within_words(&text),
                needs_joining_space: needs_joining_space(&text),
                named_beginning_id: bos_token_id(&text, &settings, rows),
                beginning_token: BeginningToken::Unchanged,
                word_splitter: settings.required_word_splitter(files.iter().any(|(name, _)| *name == BPE_CODES)),
                parting: letters.or_else(|| residues::Parting::detect(&text, &entries)),
                scripts: entries.scripts,
                small_vocabulary: entries.small_vocabulary,
                word_tokenizer: word_tokenizer(&text),
                text_tokenizer: text,
            };
            // The special tokens around a text must fit the embedding as well, or every sentence would fail.
            loaded.encode_text("", true)?;
            Ok(loaded)
        };
        let shown = path.display().to_string();
        let place = move |error: Error| error.cannot("use tokenizer", &shown).class(ErrorClass::Model);
        let bytes = files.iter().map(|(_, file)| file.size()).sum();
        time_limit::within_time_limit(bytes, place, || catch_panic(build)).cannot("use tokenizer", path.display())?
    }

    /// Adapts the tokenizer to a run's options. It either looks up words as vocabulary entries, or cuts text as its files
    /// say and splits residues as the options say. Fails if it has to cut text but
    /// [loses too many](RoundTrip::loses_too_many) entries of its vocabulary.
    pub fn with_options(&self, options: TokenizerOptions) -> Result<Cow<'_, Self>> {
        if options.tokens_as_words {
            return self.clone().into_word_lookup().map(Cow::Owned);
        }
        if self.round_trip.loses_too_many() {
            return Err(self.round_trip.error(&self.path.display().to_string())).class(ErrorClass::Model);
        }
        Ok(match options.residues {
            Some(parting) => Cow::Owned(Self { parting: Some(parting), ..self.clone() }),
            None => Cow::Borrowed(self),
        })
    }

    /// Makes a tokenizer that looks up each word as one vocabulary entry; a word without entry becomes the unknown token. White
    /// space separates the words of running text. Fails if the library cannot build it.
    fn into_word_lookup(self) -> Result<Self> {
        let unknown = self.unknown.and_then(|id| self.text_tokenizer.id_to_token(id)).unwrap_or_default();
        let vocabulary = self.text_tokenizer.get_vocab(false).into_iter().collect();
        let model = WordLevel::builder().vocab(vocabulary).unk_token(unknown).build();
        let model = BoundedModel::from(ModelWrapper::from(model.map_err(|error| anyhow!("{error}"))?));
        let mut words = self.text_tokenizer;
        words.with_model(model);
        words.with_normalizer(None::<BoundedNormalizer>).map_err(|error| anyhow!("{error}"))?;
        words.with_pre_tokenizer(None::<BoundedPreTokenizer>);
        let mut text: Tokenizer = words.clone();
        text.with_pre_tokenizer(Some(BoundedPreTokenizer(WhitespaceSplit.into())));
        Ok(Self {
            splits_at_spaces: has_tokens_within_words(&text),
            needs_joining_space: false,
            looks_up_words: true,
            text_tokenizer: text,
            word_tokenizer: Some(words),
            ..self
        })
    }

    /// Encodes running text; if `special`, with the special tokens around it. Fails if the library fails.
    pub fn encode_text(&self, text: &str, special: bool) -> Result<Encoding> {
        self.run_encoding(special, || self.text_tokenizer.encode(text, special))
    }

    /// Encodes two running texts as a pair, with the special tokens around and between them. Fails if the tokenizer fails.
    pub fn encode_pair(&self, first: &str, second: &str) -> Result<Encoding> {
        self.run_encoding(true, || self.text_tokenizer.encode((first, second), true))
    }

    /// Encodes words that were split beforehand, with the special tokens around them, as transformers does with
    /// `is_split_into_words=True`. Byte-level BPE gets a space before each word (`add_prefix_space=True`); without that space,
    /// all words except the first would be cut as continuations of the previous word. Fails if the tokenizer fails.
    pub fn encode_words(&self, words: &[&str]) -> Result<Encoding> {
        let input = EncodeInput::Single(InputSequence::from(words));
        self.run_encoding(true, || self.word_tokenizer.as_ref().unwrap_or(&self.text_tokenizer).encode(input, true))
    }

    /// Encodes two lists of words as a pair of texts, with the special tokens around and between them. Fails if the
    /// tokenizer fails.
    pub fn encode_word_pair(&self, [first, second]: [&[&str]; 2]) -> Result<Encoding> {
        let input = EncodeInput::Dual(InputSequence::from(first), InputSequence::from(second));
        self.run_encoding(true, || self.word_tokenizer.as_ref().unwrap_or(&self.text_tokenizer).encode(input, true))
    }

    /// Truncates an encoding without special tokens to `tokens` tokens, then adds the special tokens. Fails if the library
    /// fails.
    pub fn truncate_encoding(&self, mut bare: Encoding, tokens: usize) -> Result<Encoding> {
        bare.truncate(tokens, 0, TruncationDirection::Right);
        self.run_encoding(true, || self.text_tokenizer.post_process(bare, None, true))
    }

    /// Runs `encode`, a call of the library. If `special`, it then adds or removes the beginning-of-text token as the run
    /// chose. Fails if the library fails or panics, or a token has no row in the embedding. The error names the tokenizer's
    /// file.
    fn run_encoding(&self, special: bool, encode: impl FnOnce() -> tokenizers::Result<Encoding>) -> Result<Encoding> {
        let outcome = catch_panic(encode).and_then(|outcome| outcome.map_err(|error| anyhow!("{error}")));
        let shown = self.path.display();
        let encoding =
            outcome.with_context(|| format!("tokenizer `{shown}` failed on a sentence")).with_file(&shown)?;
        let encoding = if special { self.beginning_token.apply(encoding, &self.text_tokenizer) } else { encoding };
        // Post-processors store ids, which need not be in the vocabulary.
        if let Some(index) = encoding.get_ids().iter().position(|id| *id as usize >= self.embedding_rows) {
            let token = encoding.get_tokens().get(index).map_or("", String::as_str);
            let error = misfit_error(&self.path, token, encoding.get_ids()[index], self.embedding_rows);
            return Err(error.hint("leave that token out of the text, or make the model's embedding as large"));
        }
        Ok(encoding)
    }

    /// Splits sequences of residues in a text for the tokenizer, and leaves any other text unchanged. A word that is already a
    /// vocabulary entry stays, so a text that is already split does not change.
    pub fn split_residues<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let Some(parting) = self.parting.filter(|parting| *parting != residues::Parting::Letters) else {
            return text.into();
        };
        if self.looks_up_words {
            return text.into();
        }
        let mask = self.mask.and_then(|id| self.token(id)).filter(|mask| !mask.is_empty());
        let spaced_text = mask.map_or(Cow::Borrowed(text), |mask| text.replace(&mask, &format!(" {mask} ")).into());
        let mut parts = String::with_capacity(2 * text.len());
        for part in spaced_text.split_whitespace() {
            if self.id(part).is_some() {
                parts.push_str(part);
                parts.push(' ');
            } else {
                parting.append_split(part, &mut parts);
            }
        }
        parts.truncate(parts.trim_end().len());
        parts.into()
    }

    /// Puts the beginning-of-text token before every text, unless the tokenizer's files already put a special token there.
    /// Fails if no file names that token.
    pub fn with_beginning_token(self) -> Result<Self> {
        let token = self.named_beginning_id.ok_or_else(|| {
            let way_out = "name it as `bos_token` in tokenizer_config.json, or as `bos_token_id` in config.json";
            let shown = self.path.display();
            anyhow!("tokenizer `{shown}` has no token for the beginning of text").with_file(&shown).hint(way_out)
        })?;
        Ok(Self { beginning_token: BeginningToken::Token(token), ..self })
    }

    /// Removes the special token before every text.
    pub fn without_beginning_token(self) -> Self {
        Self { beginning_token: BeginningToken::Nothing, ..self }
    }

    /// Returns the special token before each text; `None` if there is none. Fails if the library fails.
    pub fn beginning_token(&self) -> Result<Option<String>> {
        let around = self.encode_text("a", true)?;
        let is_special = around.get_special_tokens_mask().first() == Some(&1);
        Ok(around.get_tokens().first().filter(|_| is_special).cloned())
    }

    /// Returns the token of an id, as the vocabulary writes it.
    pub fn token(&self, id: u32) -> Option<String> {
        self.text_tokenizer.id_to_token(id)
    }

    /// Returns the id of a token, as the vocabulary writes it; `None` if the vocabulary lacks it.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.text_tokenizer.token_to_id(token)
    }

    /// Lists the ids of the tokens that begin a word and contain a letter, ascending. Special tokens are left out, and so are
    /// tokens in brackets, such as `[unused1]`, which have no text.
    pub fn word_start_ids(&self) -> Vec<u32> {
        let added = self.text_tokenizer.get_added_tokens_decoder();
        let special = |id: u32| self.unknown == Some(id) || added.get(&id).is_some_and(|token| token.special);
        marks::word_start_ids(&self.text_tokenizer).into_iter().filter(|&id| !special(id)).collect()
    }

    /// Whether a token's text, without the marks of word boundaries, consists of Unicode punctuation (general category P).
    pub fn is_punctuation(&self, id: u32) -> bool {
        self.punctuation.get(id as usize).copied().unwrap_or(false)
    }

    /// Names the program that must split a text into words first. `None` if the tokenizer itself splits texts.
    pub fn required_word_splitter(&self) -> Option<&str> {
        self.word_splitter.as_deref().filter(|_| !self.looks_up_words)
    }

    /// Whether each word is looked up or cut on its own, independent of its context in a text.
    pub fn reads_words_separately(&self) -> bool {
        self.looks_up_words || self.word_splitter.is_some()
    }

    /// Whether the tokenizer lower-cases words although its vocabulary has capitals.
    pub fn lower_cases(&self) -> bool {
        self.round_trip.lower_cases() && !self.looks_up_words
    }

    /// Returns the byte length of a prefix of `text` that has at least `tokens` tokens, found without encoding. `None` if no
    /// such prefix is known. In a tokenizer that splits at spaces, each part between spaces with an ASCII letter or digit has
    /// at least one token.
    pub fn prefix_with_tokens(&self, text: &str, tokens: usize) -> Option<usize> {
        let has_token = |part: &&str| part.bytes().any(|byte| byte.is_ascii_alphanumeric());
        let parts = self.splits_at_spaces.then(|| text.split(' '))?;
        let last = parts.filter(has_token).nth(tokens.checked_sub(1)?)?;
        Some(last.as_ptr() as usize - text.as_ptr() as usize + last.len())
    }
}

/// Fails if a token of the vocabulary has no row in an embedding of `rows` rows. Added tokens may lack a row; they are checked
/// only when a text contains them.
fn ensure_fits(tokenizer: &Tokenizer, rows: usize, path: &Path) -> Result<()> {
    let added = tokenizer.get_added_tokens_decoder();
    let vocabulary = tokenizer.get_vocab(false).into_iter().filter(|(_, id)| !added.contains_key(id));
    match vocabulary.max_by_key(|(_, id)| *id) {
        Some((token, id)) if id as usize >= rows => Err(misfit_error(path, &token, id, rows)),
        _ => Ok(()),
    }
}

/// Returns the error that a token of the tokenizer has no row in the embedding.
fn misfit_error(path: &Path, token: &str, id: u32, rows: usize) -> anyhow::Error {
    anyhow!(
        "tokenizer `{}` does not fit the model: its token `{}` has id {id}, config.json says vocab_size {rows}",
        path.display(),
        token.escape_debug(),
    )
    .with_file(path.display())
    .with_value(token)
}
