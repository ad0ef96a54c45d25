//! A pretrained model: where it comes from, what it is, its tokenizer and its encoder.

pub mod config;
pub mod encoder;
pub mod families;
#[cfg(feature = "hub")]
mod hub;
pub mod kernels;
pub mod matmul;
pub mod packed;
mod parallel;
pub mod parameters;
mod relative;
pub mod source;
pub mod tensor;
pub mod weights;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokenizers::Tokenizer;

use crate::digest::hex;
use crate::encode::{SentenceEncoder, punctuation_table};
use crate::observe::HeadGrid;
use config::Config;
use encoder::Encoder;
use families::{Architecture, Family};
use packed::PackedEncoder;
use parameters::Parameters;
use source::ModelFiles;
use weights::Checkpoint;

/// A model that is ready to run.
pub struct Model {
    /// Hub id, or the folder's name.
    pub id: String,
    /// The Hub commit; `None` for a folder.
    pub revision: Option<String>,
    /// The family of its architecture.
    pub family: Family,
    /// The architecture's sizes and options.
    pub config: Config,
    /// Whether the checkpoint has a masked-LM head beside the encoder.
    pub masked_lm_head: bool,
    /// The tokenizer, with its own padding and truncation switched off.
    pub tokenizer: Tokenizer,
    /// The forward pass.
    pub encoder: Box<dyn Encoder>,
    separator: Option<u32>,
    punctuation: Vec<bool>,
}

/// Separator tokens by the names they have where `tokenizer_config.json` does not say: BERT's and RoBERTa's.
const SEPARATORS: [&str; 2] = ["[SEP]", "</s>"];

impl Model {
    /// Loads a model from its files.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, the architecture is not supported, or the weights or the tokenizer
    /// do not fit `config.json`.
    pub fn load(files: ModelFiles) -> Result<Self> {
        let architecture = Architecture::read(&files.config)?;
        let tokenizer = read_tokenizer(&files.tokenizer, &architecture.config)?;
        let named = files.tokenizer_config.as_deref().map(separator_name).transpose()?.flatten();
        let separator = match named {
            Some(name) => tokenizer.token_to_id(&name),
            None => SEPARATORS.iter().find_map(|name| tokenizer.token_to_id(name)),
        };
        let checkpoint = Checkpoint::open(&files.weights, architecture.family.prefix)?;
        let masked_lm_head = checkpoint.has(architecture.family.masked_lm_head);
        let parameters = Parameters::load(&checkpoint, &architecture)?;
        let encoder = Box::new(PackedEncoder::new(parameters));
        let punctuation = punctuation_table(&tokenizer);
        let ModelFiles { id, revision, .. } = files;
        let Architecture { family, config, .. } = architecture;
        Ok(Self { id, revision, family, config, masked_lm_head, tokenizer, encoder, separator, punctuation })
    }

    /// How many layers and heads there are.
    #[must_use]
    pub fn grid(&self) -> HeadGrid {
        HeadGrid { layers: self.config.num_hidden_layers, heads: self.config.num_attention_heads }
    }

    /// An encoder of sentences for this model; see [`SentenceEncoder::new`].
    #[must_use]
    pub fn sentence_encoder(&self, max_tokens: usize, truncate: bool) -> SentenceEncoder<'_> {
        SentenceEncoder::new(&self.tokenizer, self.separator, &self.punctuation, max_tokens, truncate)
    }
}

fn read_tokenizer(path: &Path, config: &Config) -> Result<Tokenizer> {
    let at = path.display();
    let mut tokenizer = Tokenizer::from_file(path).map_err(|error| anyhow!("cannot read tokenizer `{at}`: {error}"))?;
    tokenizer.with_padding(None);
    tokenizer.with_truncation(None).map_err(|error| anyhow!("cannot use tokenizer `{at}`: {error}"))?;
    let largest = tokenizer.get_vocab(true).into_iter().max_by_key(|&(_, id)| id);
    if let Some((token, id)) = largest {
        ensure!(
            (id as usize) < config.vocab_size,
            "tokenizer `{at}` does not fit the model: its token `{}` has id {id}, config.json says vocab_size {}",
            token.escape_debug(),
            config.vocab_size,
        );
    }
    Ok(tokenizer)
}

/// `sep_token` of a `tokenizer_config.json`: a string, or an object with the string as `content`.
fn separator_name(path: &Path) -> Result<Option<String>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    let json: Value = serde_json::from_str(&text).with_context(|| format!("`{}` is not valid JSON", path.display()))?;
    let token = &json["sep_token"];
    Ok(token.as_str().or_else(|| token["content"].as_str()).map(str::to_owned))
}

/// SHA-256 of a model's files, lower-case hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hashes {
    /// Of `config.json`.
    pub config: String,
    /// Of the weights; of several files, as if they were one, in the order of their names.
    pub weights: String,
    /// Of the tokenizer.
    pub tokenizer: String,
}

/// Hashes on their way: hundreds of megabytes of weights are hashed while the model already runs.
pub struct Fingerprint(JoinHandle<Result<Hashes>>);

impl Fingerprint {
    /// Begins to hash a model's files.
    #[must_use]
    pub fn start(files: &ModelFiles) -> Self {
        let (config, weights, tokenizer) = (files.config.clone(), files.weights.clone(), files.tokenizer.clone());
        let hash = move || {
            Ok(Hashes { config: sha256(&[config])?, weights: sha256(&weights)?, tokenizer: sha256(&[tokenizer])? })
        };
        Self(std::thread::spawn(hash))
    }

    /// Waits for the hashes.
    ///
    /// # Errors
    ///
    /// If a file cannot be read.
    pub fn finish(self) -> Result<Hashes> {
        self.0.join().map_err(|_| anyhow!("hashing the model failed"))?
    }
}

/// Of the files' bytes, one file after the other.
fn sha256(paths: &[PathBuf]) -> Result<String> {
    let mut hash = Sha256::new();
    let mut chunk = vec![0; 1 << 20];
    for path in paths {
        let unreadable = || format!("cannot read `{}`", path.display());
        let mut file = File::open(path).with_context(unreadable)?;
        loop {
            match io::Read::read(&mut file, &mut chunk).with_context(unreadable)? {
                0 => break,
                read => hash.update(&chunk[..read]),
            }
        }
    }
    Ok(hex(&hash.finalize()))
}
