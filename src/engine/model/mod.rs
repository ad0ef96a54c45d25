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
pub mod initial_weights;
pub mod parameters;
pub mod source;
pub mod tokenizer;
pub mod weights;

use std::collections::{BTreeMap, BTreeSet};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, anyhow};

use adapter::Adapter;
use controls::matched_sharpness::{SharpnessSample, match_sharpness};
use controls::rotated_outputs::rotate_outputs;
use families::architecture::Architecture;
use files::names::MAX_CONFIG_BYTES;
use files::{AdapterFiles, ModelFile, ModelFiles, Pooling};
use forward::Encoder;
use forward::packed::PackedEncoder;
use grid::{HeadGrid, HeadPlace};
use initial_weights::InitialWeights;
use parameters::{ClassLabels, ClassifiedUnit, Classifier, Objective, Parameters};
use tokenizer::ModelTokenizer;
use weights::left::LeftTensors;
use weights::{Checkpoint, Overlay};

use crate::system::errors::{ErrorClass, ErrorExt};
use crate::system::machine::memory;

/// A loaded model: its encoder, its tokenizer, and facts about its files.
pub struct Model {
    /// Name of the model: its Hub id, `box:...` for a built-in model, or its folder's name.
    pub id: String,
    /// Commit of the model on the Hub; `None` for a folder or a built-in model.
    pub revision: Option<String>,
    pub architecture: Architecture,
    /// Training task of the checkpoint's prediction head; `None` without a supported one.
    pub objective: Option<Objective>,
    /// Classes of the classification head; `None` without one.
    pub labels: Option<ClassLabels>,
    /// How the model pools the last hidden states of a text, or the message why that is unknown.
    pub pooling: Result<Pooling, String>,
    /// Reason why the checkpoint's prediction head cannot be used; `None` if it can be used, or if there is no such head.
    pub unsupported_head_reason: Option<&'static str>,
    /// Name of the merged LoRA adapter; `None` without one.
    pub adapter: Option<String>,
    /// Tensors of the checkpoint that lie outside the encoder and were not read, counted by the first part of their names.
    pub unread_tensors: Vec<LeftTensors>,
    /// Attention heads that write a constant whatever they attend to, layer by layer.
    pub constant_heads: Vec<HeadPlace>,
    /// The tokenizer, with its own padding and truncation switched off.
    pub tokenizer: ModelTokenizer,
    pub encoder: Box<dyn Encoder>,
    /// Files from which the weights can be read again.
    sources: WeightSources,
}

impl Model {
    /// Loads a model without a prediction head.
    /// Fails if a file cannot be read, the architecture is not supported, or weights or tokenizer do not fit `config.json`.
    pub fn load(files: ModelFiles) -> Result<Self> {
        Self::load_with_head(files, None).class(ErrorClass::Model)
    }

    /// Loads a model with the prediction head of its training task, if it has one. Fails as [`Model::load`].
    pub fn load_with_prediction(files: ModelFiles) -> Result<Self> {
        Self::load_with_head(files, Some(PredictionHeadKind::Training)).class(ErrorClass::Model)
    }

    /// Loads a model with its classification head. Fails as [`Model::load`], and if the model has no such head.
    pub fn load_with_classifier(files: ModelFiles, classified: ClassifiedUnit) -> Result<Self> {
        Self::load_with_head(files, Some(PredictionHeadKind::Classifier(classified))).class(ErrorClass::Model)
    }

    /// Loads a model with the prediction head `head`, or without one if `None`.
    fn load_with_head(files: ModelFiles, head: Option<PredictionHeadKind>) -> Result<Self> {
        let ModelFiles { id, revision, config, architecture, tokenizer, weights, adapter, pooling } = files;
        let tokenizer =
            ModelTokenizer::load(&tokenizer, &config, architecture.family.model_type, architecture.config.vocab_size)?;
        let sources = WeightSources { weights, adapter };
        let checkpoint = sources.checkpoint(&architecture)?;
        let mut objective = Objective::detect(&architecture, |name| checkpoint.has_prefix(name));
        let head_refusal =
            Objective::unsupported_head_reason(|name| checkpoint.has_prefix(name)).filter(|_| objective.is_none());
        ensure_room(&id, &architecture)?;
        let mut parameters = Parameters::load(&checkpoint, &architecture)?;
        let unread_tensors = checkpoint.unread_tensors(&architecture)?;
        let constant_heads = parameters.constant_heads();
        let mut labels = None;
        match (head, objective) {
            (Some(PredictionHeadKind::Training), Some(objective)) => {
                parameters = parameters.with_prediction(&checkpoint, &architecture, objective)?;
                checkpoint.ensure_head_is_adapted(&architecture)?;
            }
            (Some(PredictionHeadKind::Classifier(of)), _) => {
                let loaded = Classifier::load(&checkpoint, &architecture, &config.text(MAX_CONFIG_BYTES)?, of);
                let classifier = loaded.with_context(|| format!("`{id}` cannot classify"))?;
                parameters.prediction = Some(classifier.head);
                labels = Some(classifier.labels);
                objective = Some(of.training_objective());
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
            unsupported_head_reason: head_refusal,
            adapter: sources.adapter.as_ref().map(|adapter| adapter.name.clone()),
            unread_tensors,
            constant_heads,
            tokenizer,
            encoder,
            sources,
        })
    }

    pub fn grid(&self) -> HeadGrid {
        self.architecture.grid()
    }

    pub fn pruned_heads(&self) -> &[HeadPlace] {
        &self.architecture.config.absent
    }

    /// Whether the model is a decoder: no token sees a later one.
    pub fn is_decoder(&self) -> bool {
        self.architecture.config.visibility.are_causal()
    }

    /// Makes an encoder of this architecture with random initial weights, as the family draws them before training. Fails if
    /// `initializer_range` is not positive.
    pub fn untrained_encoder(&self, seed: u64) -> Result<Box<dyn Encoder>> {
        Ok(Box::new(PackedEncoder::new(self.initial_parameters(seed)?)))
    }

    /// As [`Model::untrained_encoder`], but each layer's attention is as far from uniform over `sample` as in the trained model.
    pub fn sharp_untrained_encoder(&self, seed: u64, sample: &SharpnessSample<'_>) -> Result<Box<dyn Encoder>> {
        let sharp = match_sharpness(self.initial_parameters(seed)?, &*self.encoder, sample)?;
        Ok(Box::new(PackedEncoder::new(sharp)))
    }

    /// Makes the model's encoder with each head's output projection rotated at random. Fails if the weight files were changed.
    pub fn rotated_encoder(&self, seed: u64) -> Result<Box<dyn Encoder>> {
        let checkpoint = self.sources.checkpoint(&self.architecture)?;
        let mut parameters = Parameters::load(&checkpoint, &self.architecture)?;
        self.sources.ensure_unchanged()?;
        rotate_outputs(&mut parameters, seed);
        Ok(Box::new(PackedEncoder::new(parameters)))
    }

    /// Draws initial parameters of this architecture, which `seed` determines.
    fn initial_parameters(&self, seed: u64) -> Result<Parameters> {
        let Architecture { config, names, .. } = &self.architecture;
        let initial =
            InitialWeights::new(config.initializer_range, seed, names.initialisation.clone(), names.norms_add_one);
        Parameters::load(&initial.class(ErrorClass::Model)?, &self.architecture)
    }
}

/// Fails if the memory limit is too small for the weights of a model. Called before they are read.
fn ensure_room(id: &str, architecture: &Architecture) -> Result<()> {
    let stored = architecture.names.layers.iter().collect::<BTreeSet<_>>().len();
    let needed = architecture.config.weight_bytes(stored);
    memory::ensure_available(needed, || format!("`{id}`, of the sizes that its config.json says,"))
        .map_err(|error| error.hint(format!("`--memory {}` lets it have as much", memory::limit_option_for(needed))))
}

/// The kind of prediction head that is loaded with the encoder.
#[derive(Clone, Copy)]
enum PredictionHeadKind {
    /// Head of the training task, if the checkpoint has it.
    Training,
    /// Head that classifies sequences or tokens.
    Classifier(ClassifiedUnit),
}

/// The files of a model's weights, and the adapter that is merged into them.
struct WeightSources {
    weights: Vec<ModelFile>,
    adapter: Option<AdapterFiles>,
}

impl WeightSources {
    /// Opens the weight files, merges the adapter into them, and gives tensors the names that `architecture` expects.
    /// Fails if the files cannot be read or merged.
    fn checkpoint(&self, architecture: &Architecture) -> Result<Checkpoint> {
        let merged = self.adapter.as_ref().map(|files| Adapter::read(files, architecture)).transpose()?;
        let merged = merged.map(|adapter| Box::new(adapter) as Box<dyn Overlay>);
        let checkpoint =
            Checkpoint::open(self.weights.clone(), architecture.family)?.without_unknown_prefix(architecture);
        Ok(checkpoint.with_adapter(merged))
    }

    /// Fails if a weight file of the model or the adapter was changed since it was opened.
    fn ensure_unchanged(&self) -> Result<()> {
        let adapter = self.adapter.as_ref().map(|adapter| &adapter.weights);
        self.weights.iter().chain(adapter).try_for_each(ModelFile::ensure_unchanged)
    }
}

/// SHA-256 of a model's files, lower-case hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hashes {
    /// Digest of `config.json`.
    pub config: String,
    /// Digest of all weight files, hashed as one in the order of their names, and of the adapter's files after them.
    pub weights: String,
    /// Digests of the tokenizer's files, by file name.
    pub tokenizer: BTreeMap<String, String>,
}

impl Hashes {
    /// Computes the hashes of all files. Fails as [`PendingHashes::finish`].
    fn from_files(files: &ModelFiles) -> Result<Self> {
        let of_each = |(name, file): &(&str, ModelFile)| Ok(((*name).to_owned(), file.sha256()?));
        let tokenizer = files.tokenizer.iter().map(of_each).collect::<Result<_>>()?;
        // An adapter makes another model, so its files are hashed with the weights.
        let adapter = files.adapter.iter().flat_map(|adapter| [&adapter.config, &adapter.weights]);
        let weights: Vec<ModelFile> = files.weights.iter().chain(adapter).cloned().collect();
        let weights = files::sha256(&weights)?;
        Ok(Self { config: files.config.sha256()?, weights, tokenizer })
    }
}

/// Hashing of a model's files in progress: on a thread while the model runs, or in `finish` if no thread could be started.
pub struct PendingHashes(Result<JoinHandle<Result<Hashes>>, Box<ModelFiles>>);

impl PendingHashes {
    /// Begins to hash a model's files. It reads the files that [`Model::load`] has open, so that the hashes are of the files in
    /// use.
    pub fn spawn(files: &ModelFiles) -> Self {
        let hashed = files.clone();
        let begun = thread::Builder::new().spawn(move || Hashes::from_files(&hashed));
        Self(begun.map_err(|_| Box::new(files.clone())))
    }

    /// Waits for the hashes. Fails if a file cannot be read, or was changed since it was opened.
    pub fn finish(self) -> Result<Hashes> {
        let hashes = match self.0 {
            Ok(thread) => thread.join().map_err(|_| anyhow!("hashing the model failed"))?,
            Err(files) => Hashes::from_files(&files),
        };
        hashes.class(ErrorClass::Model)
    }
}
