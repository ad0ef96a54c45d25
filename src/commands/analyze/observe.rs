//! Runs a model over a shard of a corpus and returns the observation (the sums).

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use anyhow::{Result, anyhow};

use super::loaded::{CorpusTokenCounts, LoadedModel, corpus_token_counts, current_times, reading_and_tokenizer};
use super::options::{AnalysisOutput, AnalyzeOptions, MappedSentence};
use super::parts::PartsFolder;
use crate::commands::merge;
use crate::commands::reporting::PolicyOptions;
use crate::commands::sentences::{NamedSentence, SentenceChoice, attention_maps, read_sentences};
use crate::corpus::{Corpus, CorpusIdentity, CorpusScope, Index};
use crate::evaluation::askable::ModelTraits;
use crate::evaluation::plan::{self, Plan};
use crate::evaluation::results::Results;
use crate::model::Model;
use crate::model::files::Pooling;
use crate::model::forward::gates::Gates;
use crate::model::grid::HeadPlace;
use crate::model::parameters::Objective;
use crate::model::tokenizer::ModelTokenizer;
use crate::passes::kept::{self, KeptActivations};
use crate::passes::observation::identity::{Identity, Protocol, RunInfo, Tool};
use crate::passes::observation::{Observation, Stage};
use crate::passes::pass::Pass;
use crate::passes::run::means::MeanContexts;
use crate::passes::run::{self, Runner, check_heads, token_limit};
use crate::report::roles::firm_heads_by_margin;
use crate::report::{AttentionMaps, HeadReport, MAX_MAP_TOKENS, Report};
use crate::sequences::counts::TokenCounts;
use crate::sequences::derived::task::encode::TaskReader;
use crate::sequences::derived::task::file::TaskFile;
use crate::sequences::derived::task::{ItemSkip, RUN_WITH_CORRUPTED_TEXT, Task, describe_labels, describe_skips};
use crate::sequences::shard::Shard;
use crate::sequences::tally::Tally;
use crate::sequences::tokenize::SentenceTokenizer;
use crate::stats::blocks::BLOCKS;
use crate::study::Subject;
use crate::study::labels::policy::Policy;
use crate::study::metrics::estimates::EstimationContext;
use crate::study::upstream::{NO_UPSTREAM_RESULTS, UpstreamResults};
use crate::system::counts::format_count;
use crate::system::errors::{ErrorClass, ErrorExt};
use crate::system::progress::run::RunProgress;
use crate::system::terminal::print_to_stderr;

/// Sums of a complete first stage over the whole corpus, on which the passes of the second stage depend.
pub struct FirstStage {
    observation: Observation,
    /// Digest of the sums, recorded in partials of the second stage.
    sums_digest: String,
    policy: Policy,
}

impl FirstStage {
    /// Reads first-stage sums from a file (`--after`).
    /// Fails if the sums belong to another run, or the policy cannot be used.
    pub fn read(path: &Path, ready: &PreparedRun<'_>, policy: &PolicyOptions) -> Result<Self> {
        let observation = merge::read_first_stage(path).class(ErrorClass::Input)?;
        if let Some(difference) = observation.identity.first_difference(&ready.identity()?) {
            let shown = path.display();
            let error = anyhow!("--after `{shown}`: it is of another run: {difference} (now)");
            return Err(error.with_file(shown).class(ErrorClass::Input));
        }
        Ok(Self { sums_digest: observation.digest()?, policy: policy.load_policy()?, observation })
    }

    /// Identity of the second stage: the digests of the first-stage sums and of the labelling policy.
    fn second_stage(&self) -> Stage {
        Stage::After { sums: self.sums_digest.clone(), policy: self.policy.digest() }
    }
}

/// A planned run: the loaded model, the corpus, and everything else that all its shards share.
pub struct PreparedRun<'a> {
    pub(super) options: &'a AnalyzeOptions,
    /// Start of the current stage or shard: wall-clock time, and a monotonic instant for durations.
    start_times: (SystemTime, Instant),
    /// The open corpus; `None` once the first stage has read it.
    open_corpus: Option<Corpus>,
    pub(super) scope: CorpusScope,
    corpus_index: Option<Arc<Index>>,
    loaded: &'a LoadedModel,
    pub(super) model: &'a Model,
    /// The model's tokenizer, with the run's beginning-of-text setting.
    pub(super) tokenizer: Cow<'a, ModelTokenizer>,
    pub(super) protocol: Protocol,
    plan: Plan,
    /// Whether the run measures the corpus and not only a task. If not, `strict` ignores skipped sentences.
    is_about_corpus: bool,
    task: Option<Task>,
    token_counts: Option<Arc<TokenCounts>>,
    /// Identity of the corpus whose tokens this run counted; `None` if it counted none.
    counted_corpus: Option<CorpusIdentity>,
    /// Index of the first layer with the same weights, for each layer; empty if no layers share weights.
    first_layers: Vec<usize>,
    mean_contexts: MeanContexts,
    /// Activations that passes of the first stage keep in memory for passes of the second stage.
    kept_activations: KeptActivations,
    progress: RunProgress,
}

impl<'a> PreparedRun<'a> {
    /// Plans the passes of a model over an open corpus.
    /// Fails if the model lacks something that the options need, or required token counts cannot be computed.
    pub fn new(options: &'a AnalyzeOptions, loaded: &'a LoadedModel, mut corpus: Corpus) -> Result<Self> {
        let (model, index) = (&loaded.model, corpus.index().cloned());
        let (unit, scope) = (corpus.sampling_unit(), corpus.scope().clone());
        let (reading, tokenizer) = reading_and_tokenizer(options, model, unit).class(ErrorClass::Usage)?;
        let context = reading.as_ref().map(|reading| reading.context).unwrap_or_default();
        let max_tokens =
            token_limit(&model.architecture.config, options.max_tokens, context).class(ErrorClass::Usage)?;
        let selection =
            options.selection.for_model(&model.id, ModelTraits::from_model(model)).class(ErrorClass::Usage)?;
        let CorpusTokenCounts { counts, sha256, counted_corpus: counted } =
            corpus_token_counts(options, &selection, (model, &tokenizer, context), max_tokens, &scope)
                .class(ErrorClass::Input)?;
        counted.as_ref().map_or(Ok(()), |counted| corpus.ensure_index_matches(counted))?;
        let task = options.task.as_deref().map(|file| read_task(options, (model, &tokenizer), max_tokens, file));
        let task = task.transpose()?;
        let protocol = Protocol {
            max_tokens,
            truncate: options.truncate,
            limit: options.sentence_limit,
            words: options.spacing,
            unit: options.sampling_unit,
            from_token: options.from_token,
            tokens_as_words: options.tokenizer.tokens_as_words,
            residues: options.tokenizer.residues,
            reading,
            blocks: BLOCKS,
            controls: options.controls.clone(),
            removed: check_heads(model.grid(), &options.removed_heads).class(ErrorClass::Usage)?,
            ablation: options.ablation,
            task: task.as_ref().map(|task| task.info.clone()),
            counts: sha256,
            probes: options.probed_columns.clone(),
            links_from: options.links.conllu_column.clone(),
            links: options.links.sources(),
            classes: options.class_column.clone(),
            left_out: selection.left_out_studies().map(str::to_owned).collect(),
            studies: plan::study_names(selection.studies()),
        };
        let plan = Plan::new(&protocol)?;
        let is_about_corpus = selection.measures_corpus();
        // The process of a shard runs one stage only, so it keeps no activations.
        let bound = if let AnalysisOutput::Report { .. } = options.output {
            kept::memory_bound(options.activation_memory)
        } else {
            0
        };
        let kept = KeptActivations::new(plan.kept_activations(), &model.architecture.config, bound);
        Ok(Self {
            options,
            start_times: loaded.load_started.take().unwrap_or_else(current_times),
            open_corpus: Some(corpus),
            scope,
            corpus_index: index,
            loaded,
            model,
            tokenizer,
            protocol,
            plan,
            is_about_corpus,
            task,
            token_counts: counts,
            counted_corpus: counted,
            first_layers: first_layers(&model.architecture.names.layers),
            mean_contexts: MeanContexts::default(),
            kept_activations: kept,
            progress: RunProgress::new_visible(),
        })
    }

    /// Runs all stages over the corpus. The second stage depends on the labels that `policy` gives after the first.
    /// With `folder`, saves each part of the run there, and reuses parts that were saved earlier.
    /// Fails if the corpus cannot be read, a forward pass fails, or the folder has a part of another run.
    pub fn observe(&mut self, folder: Option<&Path>, policy: &Policy) -> Result<Observation> {
        let mut parts = folder.map(|folder| PartsFolder::open(folder, || self.identity())).transpose()?;
        let mut observation = self.run_stage(parts.as_mut(), None)?;
        if observation.stage == Stage::First && observation.tally.sentences > 0 {
            // Only sums that are written to a file need a digest.
            let are_kept =
                parts.is_some() || matches!(&self.options.output, AnalysisOutput::Report { partial_file: Some(_), .. });
            let sums = if are_kept { observation.digest()? } else { String::new() };
            let first = FirstStage { observation, sums_digest: sums, policy: policy.clone() };
            let second_stage = self.run_stage(parts.as_mut(), Some(&first))?;
            observation = first.observation;
            observation.add_second_stage(second_stage);
        }
        parts.iter().for_each(PartsFolder::print_reused_count);
        Ok(observation)
    }

    /// Runs one stage over the whole corpus: the second stage if `first` holds first-stage sums, else the first stage.
    fn run_stage(&mut self, parts: Option<&mut PartsFolder<'_>>, first: Option<&FirstStage>) -> Result<Observation> {
        match parts {
            None => self.observe_shard(Shard::WHOLE, first),
            Some(parts) => parts.observe_all_parts(&self.stage_after(first), |shard| self.observe_shard(shard, first)),
        }
    }

    /// Returns the second stage if `first` holds first-stage sums, else the first (or only) stage.
    pub fn stage_after(&self, first: Option<&FirstStage>) -> Stage {
        first.map_or_else(|| self.plan.first_stage(), FirstStage::second_stage)
    }

    /// Runs one stage over a shard of the corpus: the second stage if `first` holds first-stage sums, else the first stage.
    /// Fails if the corpus cannot be read or differs from the corpus of `first`, or a forward pass fails.
    pub fn observe_shard(&mut self, shard: Shard, first: Option<&FirstStage>) -> Result<Observation> {
        if let Some(first) = first { self.run_second_stage(shard, first) } else { self.run_first_stage(shard) }
    }

    /// Runs the passes of the first (or only) stage over a shard, and returns their sums.
    fn run_first_stage(&mut self, shard: Shard) -> Result<Observation> {
        let loaded = Instant::now();
        let open_corpus = self.open_corpus.take().map_or_else(|| self.reopen_corpus(), Ok)?;
        let token_id = |token: &str| self.model.tokenizer.id(token);
        let observers = self.plan.first_stage_observers(&self.subject(&token_id, &NO_UPSTREAM_RESULTS));
        let run::RunOutcome { tally, corpus, passes } = self.runner(shard, false).run(open_corpus, observers)?;
        self.counted_corpus.as_ref().map_or(Ok(()), |counted| counted.ensure_same(&corpus))?;
        let (stage, identity) = (self.plan.first_stage(), self.identity_with_corpus(corpus)?);
        Ok(Observation { identity, tally, stage, passes, run_info: self.run_info(loaded) })
    }

    /// Runs the passes of the second stage over a shard, and returns their sums.
    fn run_second_stage(&mut self, shard: Shard, after: &FirstStage) -> Result<Observation> {
        let loaded = Instant::now();
        let FirstStage { observation: first, policy, .. } = after;
        let (model, stage) = (&self.model, after.second_stage());
        let token_id = |token: &str| model.tokenizer.id(token);
        let context = EstimationContext {
            grid: model.grid(),
            threads: self.options.threads,
            keeps_replicates: false,
            absent_heads: model.pruned_heads().to_vec(),
            removed_heads: self.protocol.removed.clone(),
            query_heads_per_group: first.identity.model.query_heads_per_group(),
        };
        let observed = self.plan.sums_of_finished_studies(&first.passes, None);
        let upstream = Results::new(&observed, &context, policy).upstream_results(&observed, policy);
        let observers = self.plan.second_stage_observers(&first.passes, &self.subject(&token_id, &upstream));
        let passes = self.runner(shard, true).run_more_passes(&first.identity.corpus, observers)?;
        let identity = first.identity.clone();
        Ok(Observation { identity, tally: Tally::default(), stage, passes, run_info: self.run_info(loaded) })
    }

    /// Facts on the model and the run from which observers are made; `found` holds the results of the first stage.
    fn subject<'b>(&'b self, token_id: &'b dyn Fn(&str) -> Option<u32>, found: &'b UpstreamResults) -> Subject<'b> {
        Subject {
            classes: &self.model.architecture.config.visibility,
            first_layers: &self.first_layers,
            probes: &self.protocol.probes,
            class_column: self.protocol.classes.as_deref(),
            upstream: found,
            threads: self.options.threads,
            ..Subject::new(self.model.grid(), self.protocol.from_token, token_id)
        }
    }

    /// Runner of one stage over a shard.
    fn runner(&self, shard: Shard, is_second_stage: bool) -> Runner<'_> {
        let is_whole = shard == Shard::WHOLE && matches!(self.options.output, AnalysisOutput::Report { .. });
        Runner {
            corpus: &self.options.corpus,
            links: &self.options.links,
            scope: &self.scope,
            index: self.corpus_index.as_ref(),
            shard,
            model: self.model,
            tokenizer: &self.tokenizer,
            protocol: &self.protocol,
            strict: self.options.strict && self.is_about_corpus,
            threads: self.options.threads,
            task: self.task.as_ref(),
            counts: self.token_counts.clone(),
            mean_contexts: &self.mean_contexts,
            kept: &self.kept_activations,
            is_second_stage,
            progress: &self.progress,
            later_passes: if is_whole && !is_second_stage { self.plan.second_stage_passes() } else { Vec::new() },
        }
    }

    /// Returns start and duration of the work since the last call, and restarts the clock.
    /// Returns `None` if the report does not record them. `loaded` is the instant at which this stage began, after loading.
    fn run_info(&mut self, loaded: Instant) -> Option<RunInfo> {
        let (started_at, started) = std::mem::replace(&mut self.start_times, current_times());
        self.options
            .run_info
            .then(|| RunInfo::new(started_at, started.elapsed(), loaded.elapsed(), self.options.threads))
    }

    /// Opens the corpus of the run once more.
    fn reopen_corpus(&self) -> Result<Corpus> {
        Corpus::open_with(
            &self.options.corpus,
            &self.scope,
            self.options.annotation_options(),
            self.corpus_index.as_ref(),
        )
    }

    /// Returns what all shards of a run share: model, corpus and protocol.
    /// Reads the corpus to its end, unless there is an index.
    /// Fails if the corpus or the model's files cannot be read.
    pub fn identity(&self) -> Result<Identity> {
        let mut corpus = self.reopen_corpus()?.with_selected_segments(|_| false);
        corpus.by_ref().try_for_each(|sentence| sentence.map(drop))?;
        self.identity_with_corpus(corpus.into_identity()?)
    }

    /// Model, corpus and protocol of the run, for a corpus that was read to its end.
    fn identity_with_corpus(&self, corpus: CorpusIdentity) -> Result<Identity> {
        let model = self.loaded.info()?.clone();
        Ok(Identity { tool: Tool::default(), model, corpus, protocol: self.protocol.clone() })
    }
}

/// First layer with the same weights (equal tensor name), for each layer; empty if no two layers share weights.
fn first_layers(names: &[String]) -> Vec<usize> {
    let first = |name: &String| names.iter().position(|other| other == name);
    let layers: Vec<usize> = names.iter().filter_map(first).collect();
    if layers.iter().copied().eq(0..names.len()) { Vec::new() } else { layers }
}

/// Reads and encodes the items of a task. Prints a note on how many cannot be scored.
fn read_task(
    options: &AnalyzeOptions,
    (model, tokenizer): (&Model, &ModelTokenizer),
    max_tokens: usize,
    file: &TaskFile,
) -> Result<Task> {
    let mask = tokenizer.mask.filter(|_| model.objective == Some(Objective::MaskedTokens));
    let (labels, segments) = (model.labels.as_ref(), model.architecture.config.type_vocab_size);
    let (pooling, strict, exchanged) = (&model.pooling, options.strict, options.exchanged_positions);
    let task =
        TaskReader { tokenizer, max_tokens, mask, labels, pooling, segments, strict, exchanged_positions: exchanged }
            .read(file)?;
    if let Some(pooling) = task.info.pooling.filter(|pooling| *pooling == Pooling::Text) {
        print_to_stderr(&format!("note: --task: the vector of a text is {}", pooling.description()));
    }
    let items = format_count(task.info.items, "item");
    for (what, skipped) in [("scored", &task.texts.skipped), (RUN_WITH_CORRUPTED_TEXT, &task.interchanged.skipped)] {
        if skipped.is_empty() {
            continue;
        }
        let lacks_label = skipped.iter().any(|item| item.reason == ItemSkip::UnknownLabel);
        let label_names =
            labels.filter(|_| lacks_label).map_or_else(String::new, |labels| format!("; {}", describe_labels(labels)));
        print_to_stderr(&format!(
            "note: --task: of {items} {} cannot be {what}: {}{label_names}",
            skipped.len(),
            describe_skips(skipped)
        ));
    }
    Ok(task)
}

/// Maximum number of attention heads whose typical sentences are candidates for `--show-example`.
/// The longest candidate is shown. Typical sentences have at most 16 words, so most are within the token limit.
const MAX_EXAMPLE_HEADS: usize = 8;

impl PreparedRun<'_> {
    /// Computes the attention maps of the `--show` sentence; `None` without one.
    /// Fails if the model cannot read the sentence, or the sentence is too long.
    pub fn requested_attention_maps(&self) -> Result<Option<AttentionMaps>> {
        let Some(MappedSentence::Text(text)) = &self.options.mapped_sentence else { return Ok(None) };
        let sentences = self.encode_sentences(&SentenceChoice::Texts(vec![text.clone()]));
        let sentences = sentences.map_err(|error| error.context("--show").with_option("show").with_value(text))?;
        let [NamedSentence { sequence, .. }] = &sentences[..] else { return Ok(None) };
        let (model, tokens) = (self.model, sequence.ids.len());
        if tokens > MAX_MAP_TOKENS {
            let id = &model.id;
            let long =
                anyhow!("--show: the sentence has {tokens} tokens of `{id}`, and at most {MAX_MAP_TOKENS} are shown");
            return Err(long.with_option("show").with_value(text).hint("give a shorter one")).class(ErrorClass::Usage);
        }
        attention_maps(model, sequence, &self.removal_gates()).map(Some)
    }

    /// Adds attention maps to a report: `shown`, or with `--show-example` the maps of an example sentence.
    /// Prints a note if there is no example.
    pub fn with_attention_maps(&self, report: Report, shown: Option<AttentionMaps>) -> Report {
        if self.options.mapped_sentence != Some(MappedSentence::Example) {
            return Report { attention_maps: shown, ..report };
        }
        let why = match self.example_maps(&report) {
            Ok(Some(maps)) => return Report { attention_maps: Some(maps), ..report },
            Ok(None) => "no head with a firm role has a typical example that is short enough".to_owned(),
            Err(error) => format!("{error:#}"),
        };
        print_to_stderr(&format!("--show-example: the report has no attention over an example: {why}"));
        Report { attention_maps: None, ..report }
    }

    /// Computes the attention maps of a sentence that is typical of a head with a firm label. `None` without candidates, or if
    /// each is too long. Candidates are typical sentences of the first [`MAX_EXAMPLE_HEADS`] heads with one, by falling margin
    /// above their thresholds. The longest that is short enough is taken.
    fn example_maps(&self, report: &Report) -> Result<Option<AttentionMaps>> {
        let typical: Vec<(HeadPlace, u64)> =
            report.section_views().flat_map(|(_, view)| view.typical_sentences).collect();
        let example_of_head = |head: &HeadReport| typical.iter().find(|(place, _)| *place == head.place).copied();
        let examples: Vec<(HeadPlace, u64)> =
            firm_heads_by_margin(report).into_iter().filter_map(example_of_head).take(MAX_EXAMPLE_HEADS).collect();
        if examples.is_empty() {
            return Ok(None);
        }
        let indices: BTreeSet<u64> = examples.iter().map(|(_, sentence)| *sentence).collect();
        let sentences = self.encode_sentences(&SentenceChoice::Corpus {
            inputs: self.options.corpus.clone(),
            indices: indices.into_iter().collect(),
            required_word: None,
            limit: None,
            scope: self.scope.clone(),
            shard: Shard::WHOLE,
        })?;
        let short =
            sentences.iter().map(|named| &named.sequence).filter(|sequence| sequence.ids.len() <= MAX_MAP_TOKENS);
        // Ties go to the first sentence.
        let Some(sequence) = short.rev().max_by_key(|sequence| sequence.ids.len()) else { return Ok(None) };
        let example_of = examples.iter().find(|(_, sentence)| *sentence == sequence.index).map(|(head, _)| *head);
        let maps = attention_maps(self.model, sequence, &self.removal_gates())?;
        Ok(Some(AttentionMaps { example_of, sentence: Some(sequence.index), ..maps }))
    }

    /// Gates that remove the heads named by `--remove`.
    fn removal_gates(&self) -> Gates {
        Pass::PLAIN.with_removed(&self.protocol.removed).removal_gates()
    }

    /// Reads and encodes the chosen sentences with the run's tokenizer and token limit.
    fn encode_sentences(&self, choice: &SentenceChoice) -> Result<Vec<NamedSentence>> {
        let encoder = SentenceTokenizer::new(&self.tokenizer, self.protocol.max_tokens, self.options.truncate);
        let segments = self.model.architecture.config.type_vocab_size;
        let mut encoder = encoder.with_spacing(self.protocol.words).with_segments(segments);
        read_sentences(choice, &mut encoder, |_| true)
    }
}
