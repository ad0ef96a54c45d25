//! Prepares a run: loads the model, chooses a decoder's text unit (sentences or documents), and counts the corpus's tokens.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use anyhow::{Context as _, Result, anyhow, ensure};

use super::options::{AnalysisOutput, AnalyzeOptions, PartialOptions};
use super::selection::{CANNOT_COUNT_REASON, COUNTS_HINT, StudySelection};
use crate::commands::sentences::tokenizer_with_options;
use crate::corpus::{Corpus, CorpusIdentity, CorpusScope, Index, Input, Unit};
use crate::model::files::ModelFiles;
use crate::model::parameters::{ClassifiedUnit, Objective};
use crate::model::tokenizer::ModelTokenizer;
use crate::model::{Hashes, Model, PendingHashes};
use crate::passes::observation::identity::ModelInfo;
use crate::passes::run::counting::count_tokens;
use crate::sequences::counts::{TokenCounter, TokenCounts};
use crate::sequences::reading::{Bos, Context as Reads, Reading};
use crate::studies::registry;
use crate::study::{AnyStudy, Card, PassSpec, TokenCountUse};
use crate::system::errors::{ErrorClass, ErrorExt};
use crate::system::printable::escape_controls;
use crate::system::progress::{self, Downloads};
use crate::system::terminal::print_to_stderr;

/// Model of a run in memory, with its description for the report.
pub struct LoadedModel {
    pub(super) model: Model,
    /// Background computation of the hashes of the model's files; `None` once the hashes are known.
    pending_hashes: Cell<Option<PendingHashes>>,
    /// Description of the model for the report; empty until the hashes of the model's files are known.
    info: OnceCell<ModelInfo>,
    /// Start of loading: wall-clock time, and a monotonic instant for durations.
    /// The first run takes the value, so that its duration includes loading; then the cell has `None`.
    pub(super) load_started: Cell<Option<(SystemTime, Instant)>>,
}

impl LoadedModel {
    /// Opens the corpus of a run and then loads its model, so that a missing corpus fails at once.
    pub fn load_with_corpus(options: &AnalyzeOptions) -> Result<(Self, Corpus)> {
        let began = Cell::new(Some(current_times()));
        let corpus = open_corpus(options)?;
        let files = options.model.resolve(&Downloads::default())?;
        let fingerprint = Cell::new(Some(PendingHashes::spawn(&files)));
        Ok((
            Self {
                model: load_model(files, options)?,
                pending_hashes: fingerprint,
                info: OnceCell::new(),
                load_started: began,
            },
            corpus,
        ))
    }

    /// Loads a model whose file hashes are known, with the output layer that a run needs ([`RequiredParts`]).
    pub fn new(files: ModelFiles, hashes: Hashes, options: &AnalyzeOptions) -> Result<Self> {
        let began = Cell::new(Some(current_times()));
        let model = load_model(files, options)?;
        Ok(Self {
            info: ModelInfo::new(&model, hashes).into(),
            model,
            pending_hashes: Cell::default(),
            load_started: began,
        })
    }

    /// Returns the model's description for the report.
    /// Fails if the model's files could not be hashed.
    pub(super) fn info(&self) -> Result<&ModelInfo> {
        if let Some(fingerprint) = self.pending_hashes.take() {
            let info = ModelInfo::new(&self.model, fingerprint.finish()?);
            self.info.set(info).expect("it is found once");
        }
        self.info.get().context("the model's files could not be hashed")
    }
}

/// Returns the wall-clock time, for the record, and a monotonic instant, for durations.
pub(super) fn current_times() -> (SystemTime, Instant) {
    (SystemTime::now(), Instant::now())
}

/// Opens the corpus of a run, and checks the links between words where they come from a file or from rules.
pub fn open_corpus(options: &AnalyzeOptions) -> Result<Corpus> {
    let index = options.index_file.as_deref().map(Index::open).transpose().class(ErrorClass::Input)?;
    let scope = CorpusScope::new(options.sentence_limit, options.sampling_unit).with_half(options.unit_half);
    let can_be_read_again = options.corpus.iter().all(Input::can_be_read_again);
    if let Some(limit) = options.sentence_limit.filter(|_| !can_be_read_again) {
        print_to_stderr(&format!(
            "--limit {limit}: the first sentences are read, because an input can be read only once"
        ));
    }
    let (index, with) = (index.map(Arc::new), options.annotation_options());
    // With an index, a shard should read only its own part, so only the first shard checks the links against the whole corpus.
    let is_first =
        if let AnalysisOutput::Partial(partial) = &options.output { partial.shard.number() == 1 } else { true };
    if options.links.has_external_links() && can_be_read_again && (index.is_none() || is_first) {
        check_links(options)?;
    }
    Corpus::open_with(&options.corpus, &scope, with, index.as_ref())
}

/// Checks the links between words against all of the corpus, also beyond `--limit`. Fails if a link names a missing sentence.
/// Prints a note on each rule that makes no link, and each link type whose links are all shorter than `--min-distance`.
fn check_links(options: &AnalyzeOptions) -> Result<()> {
    let mut corpus =
        Corpus::open_with(&options.corpus, &CorpusScope::all_sentences(), options.annotation_options(), None)?;
    let mut types_without_far_link: BTreeMap<&str, usize> =
        options.links.types.min_distance.iter().map(|(name, min_distance)| (name.as_str(), *min_distance)).collect();
    for sentence in &mut corpus {
        for set in sentence?.links.iter().filter(|set| set.has_scored_link()) {
            types_without_far_link.remove(&*set.link_type.name);
        }
    }
    for kind in corpus.unused_rules() {
        print_to_stderr(&format!("note: --link-rules: rule `{}` makes no link of this corpus", escape_controls(kind)));
    }
    for (kind, min_distance) in types_without_far_link {
        let kind = escape_controls(kind);
        print_to_stderr(&format!(
            "note: --min-distance {kind}={min_distance}: no link of `{kind}` is between words so far apart"
        ));
    }
    Ok(())
}

/// Loads the model, with the output layer (prediction or classification) that the studies need.
fn load_model(files: ModelFiles, options: &AnalyzeOptions) -> Result<Model> {
    let loading = progress::show_spinner("loading the model");
    let model = load_with_output_layer(files, options).class(ErrorClass::Model)?;
    loading.finish_and_clear();
    Ok(model)
}

/// Output layer that a run needs. Among the first three variants, a model loaded for a later one also serves runs that need an
/// earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequiredParts {
    /// No output layer: the run measures attention alone.
    Attention,
    /// The output layer that predicts tokens, if the model is a decoder; no output layer otherwise.
    DecoderPredictions,
    /// The output layer that predicts tokens.
    Predictions,
    /// The classification layer in place of the output layer that predicts tokens.
    Classifier(ClassifiedUnit),
}

impl RequiredParts {
    /// Finds the output layer that the task, the selected studies and the default studies of decoders need.
    pub fn new(options: &AnalyzeOptions) -> Self {
        if let Some(of) = options.classified_unit() {
            return Self::Classifier(of);
        }
        let joining = options.selection.decoder_defaults();
        let joined_predicts = joining.flat_map(AnyStudy::passes).any(|spec| spec.pass.predicts());
        match options.has_pass(|pass| options.needs_predictions(pass)) {
            true => Self::Predictions,
            false if joined_predicts => Self::DecoderPredictions,
            false => Self::Attention,
        }
    }
}

/// Loads the model with the output layer or the classification layer that the run needs, or with neither.
fn load_with_output_layer(files: ModelFiles, options: &AnalyzeOptions) -> Result<Model> {
    let is_decoder = files.architecture.config.visibility.are_causal();
    let model = match RequiredParts::new(options) {
        RequiredParts::Classifier(of) => {
            Model::load_with_classifier(files, of).map_err(|error| error.with_option("task"))
        }
        RequiredParts::Predictions => Model::load_with_prediction(files),
        RequiredParts::DecoderPredictions if is_decoder => Model::load_with_prediction(files),
        RequiredParts::Attention | RequiredParts::DecoderPredictions => Model::load(files),
    }?;
    // Studies that merely join on a decoder are left out if it has no prediction head, so they are not checked.
    let Some(study) = options.first_predicting_study() else { return Ok(model) };
    let id = &model.id;
    let of_task = registry::study_name_of_option("task");
    if options.classified_unit().is_some() {
        let is_of_tokens = |spec: &PassSpec| spec.pass.predicts() && !spec.pass.sequences.are_task_items();
        let is_other = |study: &&&dyn AnyStudy| options.passes_of_study(**study).iter().any(is_of_tokens);
        return match options.selection.studies().iter().find(is_other).map(|study| study.card().name) {
            None => Ok(model),
            Some(other) => {
                let error =
                    anyhow!("--with {other}: its loss is of tokens, and the task takes the head that classifies");
                Err(error.with_option("with").with_value(other).hint("run it without --task"))
            }
        };
    }
    let asking = if study == of_task { "--task".to_owned() } else { format!("--with {study}") };
    if let Some(why) = model.unsupported_head_reason {
        let error = anyhow!("{asking}: the head of `{id}` {why}: its attention can be measured, and no losses");
        return Err(error.with_option("with").with_value(study).hint("leave it out"));
    }
    let head = if model.is_decoder() {
        "head that predicts the next token"
    } else {
        "masked-LM head, nor that of a discriminator"
    };
    ensure!(
        model.objective.is_some(),
        anyhow!("{asking}: `{id}` has no {head}, so it has no loss").hint(if study == of_task {
            "give items for a classifier (`label` or `labels`) or triples of texts (`anchor`), or name a checkpoint with the head by which \
             it was trained"
                .to_owned()
        } else {
            let shift = registry::first_ablation_without_predictions().card().name;
            format!(
                "leave {study} out: `--with {shift}` removes heads without a loss, `--task FILE` asks a classifier about items, or any \
                 model about triples of texts; or name a checkpoint with the head by which it was trained"
            )
        })
    );
    ensure!(
        !options.has_pass(|pass| pass.sequences.are_task_items()) || model.objective != Some(Objective::ReplacedTokens),
        anyhow!("--task: `{id}` is a discriminator, which predicts no token: its items cannot be scored")
            .with_option("task")
            .hint("name a model with a masked-LM head or one that predicts the next token")
    );
    let direct = options.selection.studies().iter().map(|study| study.card()).find(|card| card.needs_direct_effects);
    if let Some(Card { name, .. }) = direct.filter(|_| !model.encoder.has_direct_effects()) {
        let family = model.architecture.family;
        let error = anyhow!(
            "--with {name}: the logits of `{id}` ({family}) are not linear in the output of a final norm, so nothing adds to them directly"
        );
        return Err(error
            .with_option("with")
            .with_value(name)
            .hint("leave it out: --with interchange takes any model that predicts"));
    }
    let phases = options.ablation.map_or(1, |ablation| ablation.phases);
    if phases > 1 && model.objective == Some(Objective::NextTokens) {
        let error =
            anyhow!("--phases {phases}: `{id}` is a decoder, which predicts every token at once: nothing is masked");
        return Err(error.with_option("phases").with_value(phases).hint("leave it out"));
    }
    ensure!(
        model.objective != Some(Objective::MaskedTokens) || model.tokenizer.mask.is_some(),
        anyhow!("{asking}: the tokenizer of `{id}` has no mask token")
            .hint("name it as `mask_token` in tokenizer_config.json")
    );
    Ok(model)
}

/// Token counts of the whole corpus, if a study needs them.
#[derive(Default)]
pub struct CorpusTokenCounts {
    /// Number of occurrences of each token. `None` if no study needs them, or the corpus can be read only once.
    pub counts: Option<Arc<TokenCounts>>,
    /// SHA-256 of the counts file (`--counts`); `None` without one.
    pub sha256: Option<String>,
    /// Identity of the corpus whose tokens this run counted; `None` if it counted none.
    pub counted_corpus: Option<CorpusIdentity>,
}

/// Returns the token counts that the studies and the word replacements of a run need, read from `--counts` or counted here.
/// Prints notes on studies that must do without counts.
pub fn corpus_token_counts(
    options: &AnalyzeOptions,
    selection: &StudySelection,
    (model, tokenizer, context): (&Model, &ModelTokenizer, Reads),
    max_tokens: usize,
    scope: &CorpusScope,
) -> Result<CorpusTokenCounts> {
    let studies = selection.studies();
    for name in selection.studies_without_counts() {
        print_to_stderr(&format!("the study {name} is left out: {CANNOT_COUNT_REASON}: {COUNTS_HINT}"));
    }
    // Replaced-token discriminators: replacement words are drawn by token frequency.
    let replaces = model.objective == Some(Objective::ReplacedTokens) && options.first_predicting_study().is_some();
    if !replaces && studies.iter().all(|study| study.card().token_counts == TokenCountUse::Unused) {
        return Ok(CorpusTokenCounts::default());
    }
    if let Some(file) = &options.counts_file {
        let (counts, sha256) = TokenCounter::read(file, tokenizer)?;
        return Ok(CorpusTokenCounts {
            counts: Some(Arc::new(counts.finish())),
            sha256: Some(sha256),
            counted_corpus: None,
        });
    }
    if !options.corpus.iter().all(Input::can_be_read_again) {
        for study in studies.iter().filter(|study| study.card().token_counts == TokenCountUse::Useful) {
            print_to_stderr(&format!(
                "the study {} does without how common tokens are: {CANNOT_COUNT_REASON}: {COUNTS_HINT}",
                study.card().name
            ));
        }
        return Ok(CorpusTokenCounts::default());
    }
    let is_part =
        matches!(&options.output, AnalysisOutput::Partial(PartialOptions { shard, .. }) if shard.shard_count() > 1);
    if options.index_file.is_some() && is_part {
        print_to_stderr(
            "note: --index: this run reads all of the corpus, to count its tokens: give --counts FILE, which `headscope counts` writes",
        );
    }
    let counting = progress::show_spinner("counting tokens");
    let tokenizer = (tokenizer, context, options.spacing);
    let (counts, corpus) =
        count_tokens(&options.corpus, tokenizer, max_tokens, options.truncate, scope, options.threads)?;
    counting.finish_and_clear();
    Ok(CorpusTokenCounts { counts: Some(Arc::new(counts.finish())), sha256: None, counted_corpus: Some(corpus) })
}

/// Returns how a decoder reads text (`None` for an encoder), and the tokenizer with `--bos` applied.
/// By default a decoder reads whole documents where documents are the sampling unit, else single sentences.
/// Fails if an encoder is given decoder options, or no file names the beginning-of-text token.
pub(super) fn reading_and_tokenizer<'a>(
    options: &AnalyzeOptions,
    model: &'a Model,
    unit: Unit,
) -> Result<(Option<Reading>, Cow<'a, ModelTokenizer>)> {
    let tokenizer = tokenizer_with_options(model, options.tokenizer)?;
    if !model.is_decoder() {
        let decoder_options = [
            ("context", "document", options.context == Some(Reads::Document)),
            ("bos", "always", options.bos == Bos::Always),
            ("bos", "never", options.bos == Bos::Never),
        ];
        return match decoder_options.into_iter().find(|(.., is_given)| *is_given) {
            Some((option, value, _)) => Err(decoder_option_error(option, value, &model.id)),
            None => Ok((None, tokenizer)),
        };
    }
    let default_context = if unit == Unit::Documents { Reads::Document } else { Reads::Sentence };
    let context = options.context.unwrap_or(default_context);
    let tokenizer = match options.bos {
        Bos::Auto => tokenizer,
        Bos::Always => {
            let beginning = tokenizer.into_owned().with_beginning_token().context("--bos always");
            Cow::Owned(beginning.with_option("bos").with_value("always")?)
        }
        Bos::Never => Cow::Owned(tokenizer.into_owned().without_beginning_token()),
    };
    Ok((Some(Reading { context, bos: options.bos, begins_with: tokenizer.beginning_token()? }), tokenizer))
}

/// Error for an option of decoders that is given for the encoder `id`.
fn decoder_option_error(option: &str, value: &str, id: &str) -> anyhow::Error {
    let why = if option == "context" {
        "reads each sentence by itself here: windows of documents are for decoders"
    } else {
        "has the special tokens that it was trained with: the option is for decoders"
    };
    anyhow!("--{option} {value}: `{id}` is an encoder, which {why}")
        .with_option(option)
        .with_value(value)
        .hint("leave it out")
}
