//! A model over a shard of a corpus, from files to an observation.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::path::Path;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use anyhow::{Context, Result, anyhow, ensure};

use super::options::{AnalyzeOptions, GIVE_COUNTS, ONLY_ONCE, Outcome, PartialOptions};
use super::parts::Parts;
use super::reading::reading;
use crate::commands::merge;
use crate::commands::reporting::policy::PolicyOptions;
use crate::corpus::{Corpus, CorpusIdentity, Index, Input};
use crate::evaluation::plan;
use crate::evaluation::plan::Plan;
use crate::evaluation::presets::PRESETS;
use crate::evaluation::results::Results;
use crate::model::files::ModelFiles;
use crate::model::parameters::Objective;
use crate::model::tokenizer::ModelTokenizer;
use crate::model::{Fingerprint, Hashes, Model};
use crate::passes::ablation::means::MeanContexts;
use crate::passes::observation::identity::{Identity, ModelInfo, Protocol, RunInfo, Tool};
use crate::passes::observation::{Observation, Stage};
use crate::passes::pass::Pass;
use crate::passes::run::counting::count;
use crate::passes::run::{self, Runner, heads_of, token_limit};
use crate::sequences::counts::{Counting, TokenCounts};
use crate::sequences::reading::Context as Reads;
use crate::sequences::shard::Shard;
use crate::sequences::tally::Tally;
use crate::stats::blocks::BLOCKS;
use crate::studies::registry::STUDIES;
use crate::study::labels::policy::Policy;
use crate::study::metrics::estimates::EstimationContext;
use crate::study::upstream::{NOTHING, UpstreamResults};
use crate::study::{AnyStudy, Counts, Subject};
use crate::system::errors::{Class, Facts};
use crate::system::progress::{self, Downloads};
use crate::system::terminal::say;

/// A model in memory, for any number of corpora.
pub struct Loaded {
    model: Model,
    /// The hashes of its files, in progress until they are needed.
    fingerprint: Cell<Option<Fingerprint>>,
    info: OnceCell<ModelInfo>,
    /// When it began to be loaded; the time that took is the first run's.
    began: Cell<Option<(SystemTime, Instant)>>,
}

impl Loaded {
    /// Opens the corpus of a run, so that one that is missing is missed at once, and loads its model.
    /// Fails if the model or the corpus cannot be used.
    pub fn with_corpus(options: &AnalyzeOptions) -> Result<(Self, Corpus)> {
        let began = Cell::new(Some(now()));
        let corpus = open(options)?;
        let files = options.model.resolve(&Downloads::default())?;
        let fingerprint = Fingerprint::start(&files);
        let model = load(files, options)?;
        let loaded = Self { model, fingerprint: Cell::new(Some(fingerprint)), info: OnceCell::new(), began };
        Ok((loaded, corpus))
    }

    /// Loads a model whose hashes are known, with the parts that a run needs.
    /// Fails if it cannot be used.
    pub fn new(files: ModelFiles, hashes: Hashes, options: &AnalyzeOptions) -> Result<Self> {
        let began = Cell::new(Some(now()));
        let model = load(files, options)?;
        let info = OnceCell::from(ModelInfo::new(&model, hashes));
        Ok(Self { model, fingerprint: Cell::default(), info, began })
    }

    fn info(&self) -> Result<&ModelInfo> {
        if let Some(fingerprint) = self.fingerprint.take() {
            let info = ModelInfo::new(&self.model, fingerprint.finish()?);
            self.info.set(info).expect("it is found once");
        }
        self.info.get().context("the model's files could not be hashed")
    }
}

fn now() -> (SystemTime, Instant) {
    (SystemTime::now(), Instant::now())
}

/// Opens the corpus of a run.
/// Fails if there is nothing to run, or it cannot be opened.
pub fn open(options: &AnalyzeOptions) -> Result<Corpus> {
    if options.studies.is_empty() {
        return Err(anyhow!("every study is switched off: there is nothing to analyse")).class(Class::Usage);
    }
    let index = options.index.as_deref().map(Index::open).transpose().class(Class::Input)?;
    Corpus::open_with(&options.corpus, options.limit, &options.probes, index.map(Arc::new).as_ref())
}

/// The sums of the first of two stages over the whole corpus; passes of the second stage follow them.
pub struct FirstStage {
    observation: Observation,
    /// The digest of the sums, as a partial of the second stage names it.
    sums: String,
    /// The policy of the labels that the second stage follows.
    policy: Policy,
}

impl FirstStage {
    /// Reads the sums that shards are run after.
    /// Fails if they are not of this run, or the policy cannot be used.
    pub fn read(path: &Path, ready: &PreparedRun<'_>, policy: &PolicyOptions) -> Result<Self> {
        let observation = merge::read_first(path).class(Class::Input)?;
        if let Some(difference) = observation.identity.difference(&ready.identity()?) {
            let shown = path.display();
            let other = anyhow!("--after `{shown}`: it is of another run: {difference} (now)");
            return Err(other.about(shown).class(Class::Input));
        }
        Ok(Self { sums: observation.digest()?, policy: policy.policy()?, observation })
    }

    /// The stage of what follows.
    fn followed(&self) -> Stage {
        Stage::After { sums: self.sums.clone(), policy: self.policy.digest() }
    }
}

/// A model that is loaded and a corpus that is there: all that the observations of its shards have in common.
pub struct PreparedRun<'a> {
    options: &'a AnalyzeOptions,
    started: (SystemTime, Instant),
    /// The corpus, until it is read for the first time.
    opened: Option<Corpus>,
    /// Its index, if it has one.
    index: Option<Arc<Index>>,
    loaded: &'a Loaded,
    model: &'a Model,
    /// The model's tokenizer, with what the run puts before a text.
    tokenizer: Cow<'a, ModelTokenizer>,
    protocol: Protocol,
    plan: Plan,
    counts: Option<Arc<TokenCounts>>,
    /// The corpus that the counts are from.
    counted: Option<CorpusIdentity>,
    /// The mean contexts that replace removed heads, as far as they are known.
    mean_contexts: MeanContexts,
}

impl<'a> PreparedRun<'a> {
    /// Plans the passes of a model over an open corpus.
    /// Fails if the model lacks something that the options need, or the corpus cannot be counted although it must be.
    pub fn new(options: &'a AnalyzeOptions, loaded: &'a Loaded, mut corpus: Corpus) -> Result<Self> {
        let (model, index) = (&loaded.model, corpus.index().cloned());
        let (reading, tokenizer) = reading(options, model, corpus.unit()).class(Class::Usage)?;
        let context = reading.as_ref().map(|reading| reading.context).unwrap_or_default();
        let max_tokens = token_limit(model, options.max_tokens, context).class(Class::Usage)?;
        let studies = asked(options, model).class(Class::Usage)?;
        let KnownCounts { counts, sha256, counted } =
            known(options, &studies, (model, context), max_tokens).class(Class::Input)?;
        let unasked = on_decoders(options, model).into_iter().filter(|study| beyond(model, *study).is_some());
        let left_out = options.left_out.iter().copied().chain(unasked);
        let protocol = Protocol {
            max_tokens,
            truncate: options.truncate,
            limit: options.limit,
            from_token: options.from_token,
            reading,
            blocks: BLOCKS,
            controls: options.controls.clone(),
            removed: heads_of(model, &options.removed).class(Class::Usage)?,
            ablation: options.ablation,
            counts: sha256,
            probes: options.probes.clone(),
            left_out: left_out.map(|study| study.card().name.to_owned()).collect(),
            studies: plan::names(&studies),
        };
        let plan = Plan::new(&protocol)?;
        Ok(Self {
            options,
            started: loaded.began.take().unwrap_or_else(now),
            opened: Some(corpus),
            index,
            loaded,
            model,
            tokenizer,
            protocol,
            plan,
            counts,
            counted,
            mean_contexts: MeanContexts::default(),
        })
    }

    /// Observes the whole corpus; what follows from labels, from those by `policy`. With a folder, part by part: parts that are
    /// there are read, and the others are left there.
    /// Fails if the corpus cannot be read, a forward pass fails, or the folder has a part of another run.
    pub fn observe(&mut self, folder: Option<&Path>, policy: &Policy) -> Result<Observation> {
        let mut parts = folder.map(|folder| Parts::open(folder, || self.identity())).transpose()?;
        let mut whole = self.all(parts.as_mut(), None)?;
        if whole.stage == Stage::First && whole.tally.sentences > 0 {
            // Sums that are kept nowhere need no digest.
            let are_kept = parts.is_some() || matches!(&self.options.outcome, Outcome::Report { partial: Some(_), .. });
            let sums = if are_kept { whole.digest()? } else { String::new() };
            let first = FirstStage { observation: whole, sums, policy: policy.clone() };
            let after = self.all(parts.as_mut(), Some(&first))?;
            whole = first.observation;
            whole.followed_by(after);
        }
        parts.iter().for_each(Parts::report_taken);
        Ok(whole)
    }

    /// Observes all of a stage, in the passes that follow `first` or else in those that follow nothing.
    fn all(&mut self, parts: Option<&mut Parts<'_>>, first: Option<&FirstStage>) -> Result<Observation> {
        match parts {
            None => self.shard(Shard::WHOLE, first),
            Some(parts) => parts.all(&self.stage(first), |shard| self.shard(shard, first)),
        }
    }

    /// The stage of the passes that follow `first`; without it, the stage of the passes that follow nothing.
    pub fn stage(&self, first: Option<&FirstStage>) -> Stage {
        first.map_or_else(|| self.plan.first_stage(), FirstStage::followed)
    }

    /// Observes a shard in the passes that follow `first`, or else in those that follow nothing.
    /// Fails if the corpus cannot be read, is not that of `first`, or a forward pass fails.
    pub fn shard(&mut self, shard: Shard, first: Option<&FirstStage>) -> Result<Observation> {
        match first {
            None => self.first(shard),
            Some(first) => self.follow(shard, first),
        }
    }

    /// Observes the sentences of a shard in the passes that follow nothing.
    fn first(&mut self, shard: Shard) -> Result<Observation> {
        let loaded = Instant::now();
        let opened = self.opened.take().map_or_else(|| self.open(), Ok)?;
        let token_id = |token: &str| self.model.tokenizer.id(token);
        let observers = self.plan.observers(&self.subject(&token_id, &NOTHING));
        let run::RunOutcome { tally, corpus, passes } = self.runner(shard).run(opened, observers)?;
        self.counted.as_ref().map_or(Ok(()), |counted| counted.ensure_same(&corpus))?;
        let (stage, identity) = (self.plan.first_stage(), self.identity_with(corpus)?);
        let passes = self.plan.pooled(&stage, passes);
        let run = self.run_info(loaded);
        Ok(Observation { identity, tally, stage, passes, run })
    }

    /// Observes the sentences of a shard in the passes that follow the others.
    fn follow(&mut self, shard: Shard, after: &FirstStage) -> Result<Observation> {
        let loaded = Instant::now();
        let FirstStage { observation: first, policy, .. } = after;
        let (model, stage) = (&self.model, after.followed());
        let token_id = |token: &str| model.tokenizer.id(token);
        let context = EstimationContext { grid: model.grid(), threads: self.options.threads, leaves_out: false };
        let observed = self.plan.observed(&first.passes, None);
        let found = Results::new(&observed, &context, policy).upstream(&observed, policy);
        let observers = self.plan.followers(&first.passes, &self.subject(&token_id, &found));
        let passes = self.runner(shard).run_again(&first.identity.corpus, observers)?;
        let passes = self.plan.pooled(&stage, passes);
        let identity = first.identity.clone();
        Ok(Observation { identity, tally: Tally::default(), stage, passes, run: self.run_info(loaded) })
    }

    fn subject<'b>(&'b self, token_id: &'b dyn Fn(&str) -> Option<u32>, found: &'b UpstreamResults) -> Subject<'b> {
        let (probes, threads) = (&self.protocol.probes[..], self.options.threads);
        let classes = &self.model.architecture.config.visibility;
        Subject {
            classes,
            probes,
            found,
            threads,
            ..Subject::new(self.model.grid(), self.protocol.from_token, token_id)
        }
    }

    fn runner(&self, shard: Shard) -> Runner<'_> {
        let Self { options, model, tokenizer, protocol, mean_contexts, .. } = self;
        let (corpus, strict, threads) = (&options.corpus[..], options.strict, options.threads);
        let index = self.index.as_ref();
        let counts = self.counts.clone();
        Runner { corpus, index, shard, model, tokenizer, protocol, strict, threads, counts, mean_contexts }
    }

    /// Facts about the run up to now, if they are wanted: what comes after begins now.
    fn run_info(&mut self, loaded: Instant) -> Option<RunInfo> {
        let (started_at, started) = std::mem::replace(&mut self.started, now());
        let wanted = self.options.run_info;
        wanted.then(|| RunInfo::new(started_at, started.elapsed(), loaded.elapsed(), self.options.threads))
    }

    /// Opens the corpus once more.
    fn open(&self) -> Result<Corpus> {
        Corpus::open_with(&self.options.corpus, self.options.limit, &self.options.probes, self.index.as_ref())
    }

    /// The identity that an observation of any shard will have: reads the corpus to its end, unless there is an index.
    /// Fails if the corpus or the model's files cannot be read.
    pub fn identity(&self) -> Result<Identity> {
        let mut corpus = self.open()?.only(|_| false);
        let limit = self.options.limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        corpus.by_ref().take(limit).try_for_each(|sentence| sentence.map(drop))?;
        let corpus = corpus.into_identity()?;
        self.identity_with(corpus)
    }

    fn identity_with(&self, corpus: CorpusIdentity) -> Result<Identity> {
        let model = self.loaded.info()?.clone();
        Ok(Identity { tool: Tool::default(), model, corpus, protocol: self.protocol.clone() })
    }
}

/// Why a study cannot be asked of a model, as a sentence without its subject, the model.
fn beyond(model: &Model, study: &dyn AnyStudy) -> Option<String> {
    let card = study.card();
    if model.tokenizer.is_of_residues() && card.of_language {
        return Some("knows no words: its tokens are residues of proteins".to_owned());
    }
    let is_decoder = model.is_decoder();
    if card.of_decoders && !is_decoder {
        return Some("is no decoder: it does not predict the next token from those before it".to_owned());
    }
    if card.of_decoders && model.objective.is_none() {
        return Some("has no head that predicts the next token".to_owned());
    }
    card.beyond_decoders.filter(|_| is_decoder).map(|why| format!("is a decoder, which {why}"))
}

/// The studies that were chosen, and of a decoder those that run on one.
fn on_decoders(options: &AnalyzeOptions, model: &Model) -> Vec<&'static dyn AnyStudy> {
    let is_decoder = model.is_decoder();
    let has = |names: &[String], study: &dyn AnyStudy| names.iter().any(|name| name == study.card().name);
    let is_chosen = |study: &dyn AnyStudy| options.studies.iter().any(|chosen| chosen.card().name == study.card().name);
    let joins = |study: &dyn AnyStudy| is_decoder && study.card().on_decoders && !has(&options.without, study);
    STUDIES.iter().copied().filter(|study| is_chosen(*study) || joins(*study)).collect()
}

/// The studies that can be asked of a model.
/// Fails if another one was requested, or there is none.
fn asked(options: &AnalyzeOptions, model: &Model) -> Result<Vec<&'static dyn AnyStudy>> {
    let id = &model.id;
    let (mut asked, mut none) = (Vec::new(), None);
    for study in on_decoders(options, model) {
        let Some(why) = beyond(model, study) else {
            asked.push(study);
            continue;
        };
        let name = study.card().name;
        let is_named = options.with.iter().any(|with| with == name);
        // What does not run by itself, not even on a decoder, and is not named is of a preset.
        let runs_by_itself = study.card().runs_first() || (study.card().on_decoders && study.card().of_decoders);
        if is_named || !runs_by_itself {
            let preset = PRESETS.iter().find(|preset| preset.studies.contains(&name)).map(|preset| preset.name);
            let (option, value) = preset.filter(|_| !is_named).map_or(("with", name), |preset| ("preset", preset));
            let error = anyhow!("--{option} {value}: `{id}` {why}");
            return Err(error.of_option(option).of_value(value).hint("leave it out"));
        }
        none.get_or_insert(why);
    }
    match none {
        Some(why) if asked.is_empty() => Err(anyhow!("no study can be asked of `{id}`: it {why}")),
        _ => Ok(asked),
    }
}

/// The first study that needs predictions, if any does: a requested one, or else one that those need.
fn predicting(options: &AnalyzeOptions) -> Option<&'static str> {
    let requested = options.studies.iter().filter(|study| options.with.iter().any(|name| name == study.card().name));
    let mut all = requested.chain(&options.studies);
    all.find(|study| study.passes().iter().any(|spec| spec.pass.predicts())).map(|study| study.card().name)
}

/// Loads the model, with the head by which it was trained if a study needs that.
fn load(files: ModelFiles, options: &AnalyzeOptions) -> Result<Model> {
    let loading = progress::step("loading the model");
    let model = load_for(files, options).class(Class::Model)?;
    loading.finish_and_clear();
    Ok(model)
}

/// The parts of a model that a run needs; a model with the last of them serves all runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequiredParts {
    /// The encoder.
    Attention,
    /// The head that predicts as well, if it is a decoder's.
    PredictionsOfDecoder,
    /// The head that predicts as well.
    Predictions,
    /// Derivatives as well.
    Derivatives,
}

impl RequiredParts {
    /// The parts that a run needs.
    pub fn of(options: &AnalyzeOptions) -> Self {
        let any = |wanted: fn(&Pass) -> bool| {
            options.studies.iter().any(|study| study.passes().iter().any(|spec| wanted(&spec.pass)))
        };
        let joins = |study: &&dyn AnyStudy| {
            study.card().on_decoders && options.without.iter().all(|name| name != study.card().name)
        };
        let joined = STUDIES.iter().copied().filter(joins);
        let joined_predicts = joined.flat_map(AnyStudy::passes).any(|spec| spec.pass.predicts());
        let chooses = options.ablation.is_some_and(|ablation| ablation.effect_of.is_some());
        match (any(Pass::predicts), chooses || any(|pass| pass.derivatives)) {
            (false, _) if joined_predicts => Self::PredictionsOfDecoder,
            (false, _) => Self::Attention,
            (true, false) => Self::Predictions,
            (true, true) => Self::Derivatives,
        }
    }
}

fn load_for(files: ModelFiles, options: &AnalyzeOptions) -> Result<Model> {
    let is_decoder = files.architecture.config.visibility.are_causal();
    let model = match RequiredParts::of(options) {
        RequiredParts::Derivatives => Model::load_with_derivatives(files),
        RequiredParts::Predictions => Model::load_with_prediction(files),
        RequiredParts::PredictionsOfDecoder if is_decoder => Model::load_with_prediction(files),
        RequiredParts::Attention | RequiredParts::PredictionsOfDecoder => Model::load(files),
    }?;
    // What joins a decoder asks for nothing that it has not.
    let Some(study) = predicting(options) else { return Ok(model) };
    let id = &model.id;
    if let Some(why) = model.refused_head {
        let error = anyhow!("--with {study}: the head of `{id}` {why}: its attention can be measured, and no losses");
        return Err(error.of_option("with").of_value(study).hint("leave it out"));
    }
    let head = if model.is_decoder() {
        "head that predicts the next token"
    } else {
        "masked-LM head, nor that of a discriminator"
    };
    ensure!(
        model.objective.is_some(),
        anyhow!("--with {study}: `{id}` has no {head}, so it has no loss").hint(
            "name a checkpoint with the head by which it was trained. Nothing stands in for that loss here in models \
             without one, such as sentence encoders"
        )
    );
    let phases = options.ablation.map_or(1, |ablation| ablation.phases);
    if phases > 1 && model.objective == Some(Objective::NextTokens) {
        let error =
            anyhow!("--phases {phases}: `{id}` is a decoder, which predicts every token at once: nothing is masked");
        return Err(error.of_option("phases").of_value(phases).hint("leave it out"));
    }
    ensure!(
        model.objective != Some(Objective::MaskedTokens) || model.tokenizer.mask().is_some(),
        anyhow!("--with {study}: the tokenizer of `{id}` has no mask token")
            .hint("name it as `mask_token` in tokenizer_config.json")
    );
    Ok(model)
}

/// How often each token is in the whole corpus, as far as some study must know.
#[derive(Default)]
struct KnownCounts {
    counts: Option<Arc<TokenCounts>>,
    /// The SHA-256 of the file that they are from.
    sha256: Option<String>,
    /// The corpus that they are from.
    counted: Option<CorpusIdentity>,
}

/// Counts the tokens of the corpus, or reads the file of counts.
fn known(
    options: &AnalyzeOptions,
    studies: &[&'static dyn AnyStudy],
    (model, context): (&Model, Reads),
    max_tokens: usize,
) -> Result<KnownCounts> {
    for study in &options.left_out {
        say(&format!("the study {} is left out: {ONLY_ONCE}: {GIVE_COUNTS}", study.card().name));
    }
    // Replacements of words are drawn by the frequency of each token.
    let replaces = model.objective == Some(Objective::ReplacedTokens) && predicting(options).is_some();
    if !replaces && studies.iter().all(|study| study.card().counts == Counts::Unused) {
        return Ok(KnownCounts::default());
    }
    if let Some(file) = &options.counts {
        let (counts, sha256) = Counting::read(file, &model.tokenizer)?;
        return Ok(KnownCounts { counts: Some(Arc::new(counts.finish())), sha256: Some(sha256), counted: None });
    }
    if !options.corpus.iter().all(Input::can_be_read_again) {
        for study in studies.iter().filter(|study| study.card().counts == Counts::Useful) {
            say(&format!(
                "the study {} does without how common tokens are: {ONLY_ONCE}: {GIVE_COUNTS}",
                study.card().name
            ));
        }
        return Ok(KnownCounts::default());
    }
    let is_part = matches!(&options.outcome, Outcome::Partial(PartialOptions { shard, .. }) if shard.of() > 1);
    if options.index.is_some() && is_part {
        say(
            "note: --index: this run reads all of the corpus, to count its tokens: give --counts FILE, which `headscope counts` writes",
        );
    }
    let counting = progress::step("counting tokens");
    let (counts, corpus) =
        count(&options.corpus, (&model.tokenizer, context), max_tokens, options.truncate, options.limit)?;
    counting.finish_and_clear();
    Ok(KnownCounts { counts: Some(Arc::new(counts.finish())), sha256: None, counted: Some(corpus) })
}
