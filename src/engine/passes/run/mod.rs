//! Passes over a shard of a corpus: sentences in, the sums of all observers out.

mod checks;
pub mod choice;
pub mod counting;
pub mod derivatives;
pub mod means;
mod removal;
mod room;
pub mod show;
pub mod variants;
mod work;
pub mod workers;

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::Arc;

use anyhow::{Context, Result, bail};

use super::ablation::{Ablation, PassConditions, Replacement};
use super::gate_fits::STARTING_POINTS;
use super::kept::KeptActivations;
use super::observation::PassSums;
use super::observation::identity::Protocol;
use super::observer::Observer;
use super::observer::set::ObserverSet;
use super::pass::{CorpusPortion, CorruptedVariants, EventKind, ModelWeights, Pass, Sequences};
use super::setup::PassSetup;
use crate::corpus::{Corpus, CorpusIdentity, CorpusScope, Index, Input, LinkOptions, SEGMENT_SENTENCES};
use crate::model::Model;
use crate::model::controls::matched_sharpness::SharpnessSample;
use crate::model::forward::Encoder;
use crate::model::forward::batch::TokenClass;
use crate::model::parameters::Objective;
use crate::model::tokenizer::ModelTokenizer;
use crate::sequences::counts::TokenCounts;
use crate::sequences::derived::corrupted::{CORRUPTION_PERIOD, CorruptedSentences, CorruptionSettings, Noise};
use crate::sequences::derived::pairs::PairPacker;
use crate::sequences::derived::repeats::RepeatVariant;
use crate::sequences::derived::sentence_pairs::SentencePairs;
use crate::sequences::derived::shuffle::shuffled;
use crate::sequences::derived::task::Task;
use crate::sequences::derived::windows::Windows;
use crate::sequences::frame::Frame;
use crate::sequences::pack::Pack;
use crate::sequences::reading::{Context as Reads, WindowTally};
use crate::sequences::sample::Sample;
use crate::sequences::sequence::Sequence;
use crate::sequences::shard::Shard;
use crate::sequences::tally::Tally;
use crate::sequences::tokenize::SentenceTokenizer;
use crate::system::progress::run::{PassWork, ProgressMeasure, RunProgress};
pub use checks::{check_heads, token_limit};
use derivatives::differentiate;
use derivatives::fits::{GatedHeads, fit_gates};
use means::MeanContexts;
use variants::Variants;
use workers::{CorpusPart, TokenizedSentences, sum_activations};

/// The inputs that all passes over one shard of a corpus share.
pub struct Runner<'a> {
    pub corpus: &'a [Input],
    /// Options for links between words, such as a file of links besides the corpus.
    pub links: &'a LinkOptions,
    /// Which sentences to read; decided by the first pass over the corpus.
    pub scope: &'a CorpusScope,
    /// Index of the corpus, by which a shard reads only its own part; `None` without an index.
    pub index: Option<&'a Arc<Index>>,
    pub shard: Shard,
    pub model: &'a Model,
    /// Tokenizer of the model, with the beginning-of-text token if the run asks for one.
    pub tokenizer: &'a ModelTokenizer,
    pub protocol: &'a Protocol,
    /// Whether a sentence that cannot be analysed is an error instead of being skipped.
    pub strict: bool,
    pub threads: NonZeroUsize,
    /// The user's task; `None` unless some study needs it.
    pub task: Option<&'a Task>,
    /// The count of each token in the whole corpus; `None` unless some study needs it.
    pub counts: Option<Arc<TokenCounts>>,
    /// Mean contexts that passes have computed, with which removed heads are replaced.
    pub mean_contexts: &'a MeanContexts,
    /// Activations that first-stage passes keep for second-stage passes.
    pub kept: &'a KeptActivations,
    /// Whether the passes are of the second stage, which replays kept activations.
    pub is_second_stage: bool,
    pub progress: &'a RunProgress,
    /// The second-stage passes, if they follow in this process; the progress bar includes them.
    pub later_passes: Vec<Pass>,
}

/// A pass with its observers.
pub type PassToRun = (Pass, Vec<Box<dyn Observer>>);

/// Results of the passes over one shard.
pub struct RunOutcome {
    pub tally: Tally,
    pub corpus: CorpusIdentity,
    pub passes: Vec<PassSums>,
}

impl Runner<'_> {
    /// Runs each pass once, with all its observers. `opened` is the corpus for the first pass. Fails if the corpus cannot
    /// be read or changes between passes, or if a forward pass fails. Panics without a pass.
    pub fn run(&self, opened: Corpus, passes: Vec<PassToRun>) -> Result<RunOutcome> {
        self.progress
            .plan(self.planned_work(&passes).chain(self.later_passes.iter().map(|pass| self.expected_work(pass))));
        let mut passes = passes.into_iter();
        let (pass, observers) = passes.next().expect("at least one pass");
        let variants = Variants::baseline_only(pass.removal_gates());
        self.progress.next_pass();
        self.progress.start_planned_pass();
        let run = PassRun { pass: &pass, observers, variants: &variants };
        let (first, tally, corpus) = self.run_over_corpus(opened, self.whole_shard(), run)?;
        let mut sums = vec![first];
        sums.extend(self.run_each(&corpus, passes)?);
        Ok(RunOutcome { tally, corpus, passes: sums })
    }

    /// The expected work of each pass, for the progress bar.
    fn planned_work(&self, passes: &[PassToRun]) -> impl Iterator<Item = PassWork> {
        // Heads are removed only in sampled passes.
        let removed = |pass: &Pass, observers: &[Box<dyn Observer>]| match pass.portion {
            CorpusPortion::All => BTreeSet::new(),
            _ => ObserverSet::requested_variants(observers),
        };
        passes.iter().map(move |(pass, observers)| self.pass_work(pass, &removed(pass, observers)))
    }

    /// Runs more passes over the corpus whose identity the first pass found. Fails as [`Runner::run`].
    pub fn run_more_passes(&self, corpus: &CorpusIdentity, passes: Vec<PassToRun>) -> Result<Vec<PassSums>> {
        self.progress.plan(self.planned_work(&passes));
        self.run_each(corpus, passes)
    }

    /// Runs each pass over its portion of the corpus. A pass over a sample runs its baseline and, if it has any, its ablation
    /// variants.
    fn run_each(&self, corpus: &CorpusIdentity, passes: impl IntoIterator<Item = PassToRun>) -> Result<Vec<PassSums>> {
        let run = |(pass, observers): PassToRun| {
            self.progress.next_pass();
            if pass.portion != CorpusPortion::All {
                let removed = ObserverSet::requested_variants(&observers);
                let as_run = self.limit_to_test_blocks(&pass, &removed);
                let variants = self.pass_variants(corpus, &as_run, removed)?;
                // Gates are fitted to the sequences of all shards.
                let shard = if pass.shown == EventKind::Fits { Shard::WHOLE } else { self.shard };
                self.progress.start_planned_pass();
                let run = PassRun { pass: &as_run, observers, variants: &variants };
                let sums = self.run_pass_again(corpus, self.sampled_part(corpus, shard, &as_run), run)?;
                return Ok(PassSums { pass, ..sums });
            }
            self.progress.start_planned_pass();
            let variants = Variants::baseline_only(pass.removal_gates());
            self.run_pass_again(corpus, self.whole_shard(), PassRun { pass: &pass, observers, variants: &variants })
        };
        passes.into_iter().map(run).collect()
    }

    /// Runs a pass after the first: opens the corpus again, or takes sequences that are not made of the corpus. Fails
    /// if the corpus is no longer `corpus`.
    fn run_pass_again(&self, corpus: &CorpusIdentity, part: CountedPart, run: PassRun<'_>) -> Result<PassSums> {
        match run.pass.sequences {
            Sequences::Repeats(repeats) => return self.run_over_repeats(repeats, part.0.shard, run),
            Sequences::Task | Sequences::Interchange => return self.run_over_task(part.0.shard, run),
            _ => {}
        }
        let opened =
            Corpus::open_with(self.corpus, self.scope, self.protocol.annotation_options(self.links), self.index)?;
        let (sums, _, again) = self.run_over_corpus(opened, part, run)?;
        corpus.ensure_same(&again)?;
        Ok(sums)
    }

    /// All sentences of the shard.
    fn whole_shard(&self) -> CountedPart {
        (CorpusPart::whole_shard(self.shard), self.scope.sentence_count())
    }

    /// The sampled sentences of a shard, in the jackknife blocks of the pass.
    fn sampled_part(&self, corpus: &CorpusIdentity, shard: Shard, pass: &Pass) -> CountedPart {
        let sample = Sample::new(self.ablation_options().sample, corpus.repeats.read);
        let parity = pass.portion.block_parity();
        let part = CorpusPart { shard, sample, parity };
        if self.protocol.context() == Reads::Document {
            return (part, None);
        }
        // An estimate for the progress bar: about half of the blocks have each parity.
        let has_parity = |index: u64| parity.is_none_or(|parity| index % 2 == parity as u64);
        let is_in_sample = |&index: &u64| shard.contains(index) && sample.contains(index) && has_parity(index);
        let sentences = (0..corpus.repeats.read).filter(is_in_sample).count();
        let variants = if let Sequences::Corrupted(phases) = pass.sequences { self.variant_count(phases) } else { 1 };
        (part, Some(sentences as u64 * u64::from(variants)))
    }

    /// The options of ablation, or their defaults if no study asked for any.
    fn ablation_options(&self) -> Ablation {
        self.protocol.ablation.unwrap_or_default()
    }

    /// Number of variants of each sentence; each variant has other words masked or replaced.
    fn variant_count(&self, phases: CorruptedVariants) -> u8 {
        match phases {
            // Every token of a decoder is predicted at once.
            _ if self.model.objective == Some(Objective::NextTokens) => 1,
            CorruptedVariants::Requested => self.ablation_options().phases,
            CorruptedVariants::All => CORRUPTION_PERIOD,
        }
    }

    /// Runs a pass over sequences made of the sentences of the corpus.
    fn run_over_corpus(
        &self,
        corpus: Corpus,
        (part, sequences): CountedPart,
        run: PassRun<'_>,
    ) -> Result<(PassSums, Tally, CorpusIdentity)> {
        let (protocol, pass) = (self.protocol, run.pass);
        let CorpusPart { shard, sample, .. } = part;
        let corpus = corpus.with_selected_segments(|mut sentences| {
            sentences.any(|index| shard.contains(index) && sample.contains(index))
        });
        let measure = match (sequences, corpus.bytes()) {
            (Some(sentences), _) => ProgressMeasure::Sentences(sentences),
            (None, Some(bytes)) => ProgressMeasure::Bytes(bytes, corpus.bytes_read()),
            (None, None) => ProgressMeasure::Unknown,
        };
        self.begin_progress(&run, measure);
        let tokenizer =
            SentenceTokenizer::new(self.tokenizer, protocol.max_tokens, protocol.truncate).with_strict(self.strict);
        let segments = self.model.architecture.config.type_vocab_size;
        let tokenizer = tokenizer.with_context(protocol.context()).with_spacing(protocol.words).with_segments(segments);
        let is_in_windows = protocol.context() == Reads::Document;
        let mut windows = WindowTally::default();
        // Windows are made from all sentences before some are selected.
        let read = if is_in_windows { CorpusPart::whole_shard(shard) } else { part };
        let mut sentences = TokenizedSentences { corpus, encoder: tokenizer, part: read, has_failed: false };
        let (sums, left_out) = {
            // A sample counts every drawn sentence: the first sentence of a family may not be drawn.
            let is_drawn = pass.portion != CorpusPortion::All;
            let prepare = |sentence: Result<Sequence>| {
                let mut sentence = match pass.sequences {
                    Sequences::Shuffled { seed } => shuffled(&sentence?, seed),
                    _ => sentence?,
                };
                sentence.family.is_first |= is_drawn;
                Ok(sentence)
            };
            let sentences = sentences.by_ref().map(prepare);
            let texts: Box<DynSequences<'_>> = if is_in_windows {
                Box::new(part.draw_windows(sentences, protocol.max_tokens, &mut windows))
            } else {
                Box::new(sentences)
            };
            self.run_over_texts(texts, run)?
        };
        let TokenizedSentences { corpus, encoder, .. } = sentences;
        let tally = Tally { passed_over: corpus.ignored_entries(), windows, ..encoder.into_tally() };
        Ok((PassSums { pass: pass.clone(), left_out_sentences: left_out, sums }, tally, corpus.into_identity()?))
    }

    /// Runs a pass over sequences made of `texts`, which are sentences or windows. Also returns the number of texts that
    /// are in no sequence.
    fn run_over_texts(
        &self,
        mut texts: Box<DynSequences<'_>>,
        run: PassRun<'_>,
    ) -> Result<(Vec<Box<dyn Observer>>, u64)> {
        let (Self { model, protocol, .. }, pass) = (self, run.pass);
        let sum = |sequences: &mut DynSequences<'_>| self.sum_sequences(run, sequences);
        Ok(match pass.sequences {
            Sequences::Sentences | Sequences::Shuffled { .. } => (sum(&mut *texts)?, 0),
            // The texts of a decoder may already be windows.
            Sequences::Windows if protocol.context() == Reads::Document => (sum(&mut *texts)?, 0),
            Sequences::Windows => (sum(&mut Windows::new(texts, protocol.max_tokens))?, 0),
            Sequences::Pairs { max_tokens } => {
                let max_tokens = max_tokens.min(model.architecture.config.max_positioned_tokens());
                let mut pairs = PairPacker::new(texts, max_tokens);
                (sum(&mut pairs)?, pairs.left_out)
            }
            Sequences::SentencePairs => {
                let segments = model.architecture.config.type_vocab_size;
                let frame = Frame::for_pair(self.tokenizer)?.map(|frame| frame.with_segments(segments));
                let mut pairs = SentencePairs::new(texts, frame, protocol.max_tokens);
                (sum(&mut pairs)?, pairs.left_out)
            }
            Sequences::Corrupted(phases) => {
                let mut corrupted = CorruptedSentences::new(texts, self.corruption_settings(phases)?);
                (sum(&mut corrupted)?, corrupted.left_out)
            }
            Sequences::Repeats(_) | Sequences::Task | Sequences::Interchange => {
                unreachable!("they are not made of the corpus")
            }
        })
    }

    /// Runs a pass over repeated random tokens, which need no corpus. Each shard takes its part of the sequences.
    fn run_over_repeats(&self, repeats: RepeatVariant, shard: Shard, run: PassRun<'_>) -> Result<PassSums> {
        let positions = self.model.architecture.config.max_positioned_tokens();
        // No decoder was trained to read masks, even if its tokenizer has a mask token.
        let is_asked = repeats != RepeatVariant::Masked || !self.model.is_decoder();
        let sequences = if is_asked { repeats.sequences(self.tokenizer, positions)? } else { Vec::new() };
        let mut in_shard = sequences.into_iter().filter(|sequence| shard.contains(sequence.index)).map(Ok);
        self.begin_progress(&run, ProgressMeasure::Unknown);
        Ok(PassSums { pass: run.pass.clone(), left_out_sentences: 0, sums: self.sum_sequences(run, &mut in_shard)? })
    }

    /// Runs a pass over a sample of the task's items, with their corrupted texts if contexts are exchanged. Each shard
    /// takes its part of the items.
    fn run_over_task(&self, shard: Shard, run: PassRun<'_>) -> Result<PassSums> {
        let pass = run.pass;
        let task = self.task.context("a study needs a task, and the run has none")?;
        let texts = if pass.sequences == Sequences::Interchange { &task.interchanged } else { &task.texts };
        let sample = Sample::new(self.ablation_options().sample, texts.count());
        let part = CorpusPart { shard, sample, parity: pass.portion.block_parity() };
        let is_in_part = |sequence: &Sequence| part.contains(sequence.index, sequence.family.number);
        self.begin_progress(&run, ProgressMeasure::Sentences(texts.sequence_count(is_in_part)));
        let sums = self.sum_sequences(run, &mut texts.sequences(is_in_part).map(Ok))?;
        // Items that cannot be scored have no number, so one shard counts them all.
        let left_out = if shard.contains(0) { texts.skipped.len() as u64 } else { 0 };
        Ok(PassSums { pass: pass.clone(), left_out_sentences: left_out, sums })
    }

    /// Tells the progress bar that a pass begins.
    fn begin_progress(&self, run: &PassRun<'_>, measure: ProgressMeasure) {
        let removed = run.variants.ablation_variants.iter().map(|variant| variant.removed.clone()).collect();
        self.progress.begin(self.pass_work(run.pass, &removed), measure);
    }

    /// How sentences are corrupted for the model's prediction task. Fails if the model predicts no token, or if the mask
    /// token or token counts are missing.
    fn corruption_settings(&self, phases: CorruptedVariants) -> Result<CorruptionSettings> {
        let (tokenizer, Model { id, objective, .. }) = (self.tokenizer, self.model);
        let noise = match objective.with_context(|| format!("`{id}` has no head that predicts"))? {
            Objective::MaskedTokens => {
                Noise::Mask(tokenizer.mask.with_context(|| format!("the tokenizer of `{id}` has no mask token"))?)
            }
            Objective::ReplacedTokens => {
                let unigrams = self.counts.as_ref().and_then(|counts| counts.unigrams());
                Noise::Replace(Arc::new(unigrams.context("words are to be replaced, and no token was counted")?))
            }
            Objective::NextTokens => Noise::Nothing,
            Objective::SequenceClasses | Objective::TokenClasses => {
                bail!("`{id}` was loaded with the head that classifies, which predicts no token")
            }
        };
        Ok(CorruptionSettings { phases: self.variant_count(phases), noise, unknown: tokenizer.unknown })
    }

    /// The encoder with the weights of a control; `None` for a pass with the trained weights.
    fn control_weights_encoder(&self, weights: ModelWeights) -> Result<Option<Box<dyn Encoder>>> {
        let model = self.model;
        Ok(match weights {
            ModelWeights::Trained => None,
            ModelWeights::Untrained { seed } => Some(model.untrained_encoder(seed)?),
            ModelWeights::RotatedOutputs { seed } => Some(model.rotated_encoder(seed)?),
            ModelWeights::UntrainedSharp { seed } => {
                let pack = Pack { sequences: self.first_sentences()? };
                // The first token of a decoder is no text.
                let is_text = |one: &Sequence, at: &usize| TokenClass::from(one.kinds[*at]) == TokenClass::Text;
                let rows_of_text = |one: &Sequence| (0..one.kinds.len()).filter(|at| is_text(one, at)).collect();
                let rows: Vec<Vec<usize>> = pack.sequences.iter().map(rows_of_text).collect();
                Some(model.sharp_untrained_encoder(seed, &SharpnessSample { batch: pack.batch(), rows: &rows })?)
            }
        })
    }

    /// The first 50 sentences of the corpus, each by itself, whatever the shard. A sharpened untrained model is made to
    /// attend over them as sharply as the trained model.
    fn first_sentences(&self) -> Result<Vec<Sequence>> {
        let Protocol { max_tokens, truncate, .. } = *self.protocol;
        let corpus = Corpus::open_with(self.corpus, self.scope, self.protocol.annotation_options(self.links), None)?;
        let segments = self.model.architecture.config.type_vocab_size;
        let encoder = SentenceTokenizer::new(self.tokenizer, max_tokens, truncate).with_segments(segments);
        let part = CorpusPart::whole_shard(Shard::WHOLE);
        let sentences = TokenizedSentences { corpus, encoder, part, has_failed: false }.take(50);
        sentences.map(first_token_marker(self.model.is_decoder())).collect()
    }

    /// Shows the sequences, in the baseline and in all ablation variants, to the observers of the pass.
    fn sum_sequences(&self, run: PassRun<'_>, sequences: &mut DynSequences<'_>) -> Result<Vec<Box<dyn Observer>>> {
        let PassRun { pass, observers, variants } = run;
        let control_encoder = self.control_weights_encoder(pass.weights)?;
        let encoder: &dyn Encoder = control_encoder.as_deref().unwrap_or(&*self.model.encoder);
        let sequences = sequences.map(first_token_marker(self.model.is_decoder()));
        let mut observers = ObserverSet::new(observers).with_absent_heads(self.model.pruned_heads());
        let conditions = PassConditions {
            removal: (pass.portion != CorpusPortion::All && pass.sequences != Sequences::Interchange)
                .then(|| self.ablation_options().removal),
            objective: self.model.objective.filter(|_| pass.predicts()),
            task: self.task.filter(|_| pass.sequences.are_task_items()).map(|task| task.info.kind),
        };
        let grid = self.model.grid();
        let single_heads = variants.ablation_variants.iter().filter(|variant| variant.removed.len() == 1);
        let places = single_heads.flat_map(|variant| &variant.removed).map(|place| grid.index(place.layer, place.head));
        let chosen =
            (self.ablates_chosen_heads(pass) || !self.model.pruned_heads().is_empty()).then(|| places.collect());
        let constants = (conditions.removal == Some(Replacement::Constant)).then(|| variants.head_constants());
        let setup = PassSetup {
            encoder: Some(encoder),
            embeddings: encoder.word_embeddings(),
            counts: self.counts.clone(),
            conditions,
            chosen_heads: chosen,
            head_constants: constants,
            gate_fits: None,
        };
        let (model, threads, progress) = (self.model.id.as_str(), self.threads, self.progress);
        let differentiable = || encoder.differentiable().context("derivatives are needed of an encoder that has none");
        let removed: Vec<usize> = pass.removed.iter().map(|place| grid.index(place.layer, place.head)).collect();
        observers.begin_pass(&setup);
        let observers = match pass.shown {
            EventKind::Activations => {
                let store = self.kept.pass_store(pass, self.shard, self.is_second_stage);
                sum_activations(observers, (model, encoder), variants, sequences, threads, progress, store)?
            }
            EventKind::Derivatives => {
                let path = (&variants.baseline, &removed[..], self.ablation_options().gradient_steps);
                differentiate(observers, (model, differentiable()?), path, sequences, threads, progress)?
            }
            EventKind::Fits => {
                let gated = GatedHeads::new(&self.model.architecture, &variants.baseline, &removed);
                let starts =
                    (0..STARTING_POINTS).filter(|start| self.shard.contains(start * SEGMENT_SENTENCES)).collect();
                let run = (pass.portion.block_parity().unwrap_or_default(), starts);
                let fits = fit_gates((model, differentiable()?), &gated, run, sequences, threads, progress)?;
                observers.begin_pass(&PassSetup { gate_fits: Some(fits), ..setup });
                observers
            }
        };
        Ok(observers.into_observers())
    }
}

/// Returns a function that marks the first token of a sequence, if the model is a decoder.
fn first_token_marker(is_decoder: bool) -> impl Fn(Result<Sequence>) -> Result<Sequence> {
    move |sequence| sequence.map(|read| if is_decoder { read.with_decoder_first_token() } else { read })
}

/// The sequences of a pass, which its worker threads read one by one.
type DynSequences<'a> = dyn Iterator<Item = Result<Sequence>> + Send + 'a;

/// A part of a corpus, and the number of its sequences for the progress bar (`None` if unknown).
type CountedPart = (CorpusPart, Option<u64>);

/// A pass with its observers and its variants, ready to run.
struct PassRun<'a> {
    pass: &'a Pass,
    observers: Vec<Box<dyn Observer>>,
    variants: &'a Variants,
}
