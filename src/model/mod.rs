//! A pretrained model: where it comes from, what it is, its tokenizer and its encoder.

pub mod config;
pub mod families;
pub mod forward;
pub mod grid;
#[cfg(feature = "hub")]
mod hub;
pub mod initial;
mod missing;
pub mod parameters;
pub mod source;
pub mod tokenizer;
pub mod weights;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow};
use sha2::{Digest, Sha256};

use crate::system::digest::hex;
use families::Architecture;
use forward::Encoder;
use forward::packed::PackedEncoder;
use grid::HeadGrid;
use initial::Initial;
use parameters::Parameters;
use source::ModelFiles;
use tokenizer::ModelTokenizer;
use weights::Checkpoint;

/// A model that is ready to run.
pub struct Model {
    /// Hub id, name in the box, or the folder's name.
    pub id: String,
    /// The Hub commit; `None` for a folder.
    pub revision: Option<String>,
    /// Its family, sizes and options.
    pub architecture: Architecture,
    /// Whether the checkpoint has a masked-LM head beside the encoder.
    pub masked_lm_head: bool,
    /// The tokenizer, with its own padding and truncation switched off.
    pub tokenizer: ModelTokenizer,
    /// The forward pass.
    pub encoder: Box<dyn Encoder>,
}

impl Model {
    /// Loads a model from its files.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, the architecture is not supported, or the weights or the tokenizer
    /// do not fit `config.json`.
    pub fn load(files: ModelFiles) -> Result<Self> {
        let architecture = Architecture::read(&files.config)?;
        let tokenizer = ModelTokenizer::load(&files.tokenizer, &files.config, architecture.config.vocab_size)?;
        let checkpoint = Checkpoint::open(&files.weights, architecture.family.prefix)?;
        let masked_lm_head = checkpoint.has(architecture.family.masked_lm.dense);
        let parameters = Parameters::load(&checkpoint, &architecture)?;
        let encoder = Box::new(PackedEncoder::new(parameters));
        let ModelFiles { id, revision, .. } = files;
        Ok(Self { id, revision, architecture, masked_lm_head, tokenizer, encoder })
    }

    /// How many layers and heads there are.
    #[must_use]
    pub fn grid(&self) -> HeadGrid {
        let config = &self.architecture.config;
        HeadGrid { layers: config.num_hidden_layers, heads: config.num_attention_heads }
    }

    /// The same architecture before training: fresh weights by the family's own initialisation.
    ///
    /// # Errors
    ///
    /// If `initializer_range` of `config.json` is no standard deviation.
    pub fn untrained(&self, seed: u64) -> Result<Box<dyn Encoder>> {
        let initial = Initial::new(self.architecture.config.initializer_range, seed)?;
        Ok(Box::new(PackedEncoder::new(Parameters::load(&initial, &self.architecture)?)))
    }
}

/// SHA-256 of a model's files, lower-case hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hashes {
    /// Of `config.json`.
    pub config: String,
    /// Of the weights; of several files, as if they were one, in the order of their names.
    pub weights: String,
    /// Of each file of the tokenizer, by its name.
    pub tokenizer: BTreeMap<String, String>,
}

/// Hashes on their way: hundreds of megabytes of weights are hashed while the model already runs.
pub struct Fingerprint(JoinHandle<Result<Hashes>>);

impl Fingerprint {
    /// Begins to hash a model's files.
    #[must_use]
    pub fn start(files: &ModelFiles) -> Self {
        let (config, weights, tokenizer) = (files.config.clone(), files.weights.clone(), files.tokenizer.clone());
        let unpacked = files.unpacked.clone();
        let hash = move || {
            // Not before all is read.
            let _unpacked = unpacked;
            let hash = |(name, path): &(&str, PathBuf)| Ok(((*name).to_owned(), sha256(std::slice::from_ref(path))?));
            let tokenizer = tokenizer.iter().map(hash).collect::<Result<_>>()?;
            Ok(Hashes { config: sha256(&[config])?, weights: sha256(&weights)?, tokenizer })
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
