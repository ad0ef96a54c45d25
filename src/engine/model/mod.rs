//! A pretrained model: its source, its identity, its tokenizer and its encoder.

pub mod adapter;
pub mod config;
pub mod controls;
pub mod families;
pub mod files;
pub mod forward;
pub mod grid;
#[cfg(feature = "hub")]
mod hub;
pub mod initial;
pub mod parameters;
pub mod source;
pub mod tokenizer;
pub mod weights;

use std::collections::{BTreeMap, BTreeSet};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, anyhow};

use adapter::Adapter;
use controls::rotated::turn_outputs;
use controls::sharp::{SharpnessSample, sharpened};
use families::Architecture;
use files::names::LONGEST_CONFIG;
use files::{AdapterFiles, ModelFile, ModelFiles, Pooling};
use forward::Encoder;
use forward::packed::PackedEncoder;
use grid::{HeadGrid, HeadPlace};
use initial::Initial;
use parameters::{Classified, Classifier, Labels, Objective, Parameters};
use tokenizer::ModelTokenizer;
use weights::left::LeftTensors;
use weights::{Checkpoint, Overlay};

use crate::system::errors::{Class, Facts};
use crate::system::machine::memory;

/// A model that is ready to run.
pub struct Model {
    /// Hub id, name in the box, or the folder's name.
    pub id: String,
    /// The Hub commit; `None` for a folder.
    pub revision: Option<String>,
    /// Its family, sizes and options.
    pub architecture: Architecture,
    /// The training task of the checkpoint's head, if it has one beside the encoder.
    pub objective: Option<Objective>,
    /// The labels of its head that classifies sequences, if that was loaded.
    pub labels: Option<Labels>,
    /// How it pools the last hidden states of a text, or why that is not known.
    pub pooling: Result<Pooling, String>,
    /// Why the head that the checkpoint has instead cannot be used.
    pub refused_head: Option<&'static str>,
    /// The name of the adapter that is merged into it.
    pub adapter: Option<String>,
    /// The tensors of the checkpoint that are no part of the encoder.
    pub left: Vec<LeftTensors>,
    /// The heads that write a constant whatever they attend to, layer by layer.
    pub constant_heads: Vec<HeadPlace>,
    /// The tokenizer, with its own padding and truncation switched off.
    pub tokenizer: ModelTokenizer,
    /// The forward pass.
    pub encoder: Box<dyn Encoder>,
    /// The files of its weights, for [`Model::rotated`].
    sources: Sources,
}

impl Model {
    /// Loads a model from its files.
    /// Fails if a file cannot be read, the architecture is not supported, or the weights or the tokenizer do not fit
    /// `config.json`.
    pub fn load(files: ModelFiles) -> Result<Self> {
        Self::load_as(files, None)
    }

    /// Loads a model with the head by which it was trained, if it has one, so that it predicts.
    /// Fails as [`Model::load`].
    pub fn load_with_prediction(files: ModelFiles) -> Result<Self> {
        Self::load_as(files, Some(HeadKind::Training))
    }

    /// Loads a model with the head that classifies sequences, or tokens.
    /// Fails as [`Model::load`], and if it has no such head.
    pub fn load_with_classifier(files: ModelFiles, of: Classified) -> Result<Self> {
        Self::load_as(files, Some(HeadKind::Classifier(of)))
    }

    fn load_as(files: ModelFiles, head: Option<HeadKind>) -> Result<Self> {
        Self::loaded(files, head).class(Class::Model)
    }

    fn loaded(files: ModelFiles, head: Option<HeadKind>) -> Result<Self> {
        let ModelFiles { id, revision, config, architecture, tokenizer, weights, adapter, pooling } = files;
        let tokenizer =
            ModelTokenizer::load(&tokenizer, &config, architecture.family.model_type, architecture.config.vocab_size)?;
        let sources = Sources { weights, adapter };
        let checkpoint = sources.checkpoint(&architecture)?;
        let mut objective = Objective::of(&architecture, |name| checkpoint.has(name));
        let refused_head = Objective::refused(|name| checkpoint.has(name)).filter(|_| objective.is_none());
        ensure_room(&id, &architecture)?;
        let mut parameters = Parameters::load(&checkpoint, &architecture)?;
        let left = checkpoint.left(&architecture)?;
        let constant_heads = parameters.constant_heads();
        let mut labels = None;
        match (head, objective) {
            (Some(HeadKind::Training), Some(objective)) => {
                parameters = parameters.with_prediction(&checkpoint, &architecture, objective)?;
                checkpoint.ensure_head_is_adapted(&architecture)?;
            }
            (Some(HeadKind::Classifier(of)), _) => {
                let loaded = Classifier::load(&checkpoint, &architecture, &config.text(LONGEST_CONFIG)?, of);
                let classifier = loaded.with_context(|| format!("`{id}` cannot classify"))?;
                parameters = parameters.with_classifier(classifier.head);
                labels = Some(classifier.labels);
                objective = Some(of.objective());
            }
            _ => {}
        }
        sources.ensure_unchanged()?;
        let encoder = Box::new(PackedEncoder::new(parameters));
        Ok(Self {
            id,
            revision,
            architecture,
            objective,
            labels,
            pooling,
            refused_head,
            adapter: sources.adapter.as_ref().map(|adapter| adapter.name.clone()),
            left,
            constant_heads,
            tokenizer,
            encoder,
            sources,
        })
    }

    /// How many layers and heads there are.
    pub fn grid(&self) -> HeadGrid {
        self.architecture.grid()
    }

    /// The heads that its checkpoint was saved without.
    pub fn absent(&self) -> &[HeadPlace] {
        &self.architecture.config.absent
    }

    /// Whether tokens see none after them.
    pub fn is_decoder(&self) -> bool {
        self.architecture.config.visibility.are_causal()
    }

    /// This architecture before training: fresh weights by the family's own initialisation.
    /// Fails if `initializer_range` of `config.json` is no standard deviation.
    pub fn untrained(&self, seed: u64) -> Result<Box<dyn Encoder>> {
        Ok(Box::new(PackedEncoder::new(self.fresh(seed)?)))
    }

    /// As [`Model::untrained`], but each layer attends as far from evenly as the trained one over a sample.
    /// Fails as [`Model::untrained`], and if the sample does not fit the model.
    pub fn untrained_and_sharp(&self, seed: u64, sample: &SharpnessSample<'_>) -> Result<Box<dyn Encoder>> {
        let sharp = sharpened(self.fresh(seed)?, &*self.encoder, sample)?;
        Ok(Box::new(PackedEncoder::new(sharp)))
    }

    /// These weights, with the output of each head turned at random.
    /// Fails if the files of the weights were changed.
    pub fn rotated(&self, seed: u64) -> Result<Box<dyn Encoder>> {
        let checkpoint = self.sources.checkpoint(&self.architecture)?;
        let mut parameters = Parameters::load(&checkpoint, &self.architecture)?;
        self.sources.ensure_unchanged()?;
        turn_outputs(&mut parameters, seed);
        Ok(Box::new(PackedEncoder::new(parameters)))
    }

    fn fresh(&self, seed: u64) -> Result<Parameters> {
        let Architecture { config, names, .. } = &self.architecture;
        let matrices = names.fresh.clone();
        let initial =
            Initial::new(config.initializer_range, seed, matrices, names.norms_add_one).class(Class::Model)?;
        Parameters::load(&initial, &self.architecture)
    }
}

/// Makes sure that there is memory for the weights of a model, before they are read.
/// Fails if there is not.
fn ensure_room(id: &str, architecture: &Architecture) -> Result<()> {
    let stored = architecture.names.layers.iter().collect::<BTreeSet<_>>().len();
    let needed = architecture.config.weight_bytes(stored);
    memory::ensure(needed, || format!("`{id}`, of the sizes that its config.json says,"))
        .map_err(|error| error.hint(format!("`--memory {}` lets it have as much", memory::limit_for(needed))))
}

/// The head of a checkpoint that is loaded.
#[derive(Clone, Copy)]
enum HeadKind {
    /// The one by which it was trained, if it has that.
    Training,
    /// The one that classifies sequences, or tokens.
    Classifier(Classified),
}

/// The files of a model's weights.
struct Sources {
    weights: Vec<ModelFile>,
    /// The adapter that is merged into them.
    adapter: Option<AdapterFiles>,
}

impl Sources {
    /// The weights as the architecture names them, with the adapter merged.
    fn checkpoint(&self, architecture: &Architecture) -> Result<Checkpoint> {
        let merged = self.adapter.as_ref().map(|files| Adapter::read(files, architecture)).transpose()?;
        let merged = merged.map(|adapter| Box::new(adapter) as Box<dyn Overlay>);
        let checkpoint = Checkpoint::open(self.weights.clone(), architecture.family)?.unwrapped(architecture);
        Ok(checkpoint.with_adapter(merged))
    }

    /// Fails if a file was changed since it was opened.
    fn ensure_unchanged(&self) -> Result<()> {
        let adapter = self.adapter.as_ref().map(|adapter| &adapter.weights);
        self.weights.iter().chain(adapter).try_for_each(ModelFile::ensure_unchanged)
    }
}

/// SHA-256 of a model's files, lower-case hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hashes {
    /// The hash of `config.json`.
    pub config: String,
    /// The hash of the weights; several files are hashed as one, in the order of their names.
    pub weights: String,
    /// The hash of each file of the tokenizer, by its name.
    pub tokenizer: BTreeMap<String, String>,
}

impl Hashes {
    fn of(files: &ModelFiles) -> Result<Self> {
        let of_each = |(name, file): &(&str, ModelFile)| Ok(((*name).to_owned(), file.sha256()?));
        let tokenizer = files.tokenizer.iter().map(of_each).collect::<Result<_>>()?;
        // With an adapter it is another model: its files are hashed as parts of the weights.
        let adapter = files.adapter.iter().flat_map(|adapter| [&adapter.config, &adapter.weights]);
        let weights: Vec<ModelFile> = files.weights.iter().chain(adapter).cloned().collect();
        let weights = files::sha256(&weights)?;
        Ok(Self { config: files.config.sha256()?, weights, tokenizer })
    }
}

/// Hashes in progress: hundreds of megabytes of weights are hashed while the model already runs.
pub struct Fingerprint(Hashing);

enum Hashing {
    /// On a thread of its own.
    Running(JoinHandle<Result<Hashes>>),
    /// No thread could be started.
    ToDo(Box<ModelFiles>),
}

impl Fingerprint {
    /// Begins to hash a model's files: the open files that [`Model::load`] reads, so that the hashes name what runs.
    pub fn start(files: &ModelFiles) -> Self {
        let hashed = files.clone();
        let begun = thread::Builder::new().spawn(move || Hashes::of(&hashed));
        Self(begun.map_or_else(|_| Hashing::ToDo(Box::new(files.clone())), Hashing::Running))
    }

    /// Waits for the hashes.
    /// Fails if a file cannot be read, or was changed since it was opened.
    pub fn finish(self) -> Result<Hashes> {
        let hashes = match self.0 {
            Hashing::Running(thread) => thread.join().map_err(|_| anyhow!("hashing the model failed"))?,
            Hashing::ToDo(files) => Hashes::of(&files),
        };
        hashes.class(Class::Model)
    }
}
