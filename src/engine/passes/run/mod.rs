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

use super::ablation::{Ablation, Conditions, Replacement};
use super::gate_fits::STARTS;
use super::kept::KeptPasses;
use super::observation::PassSums;
use super::observation::identity::Protocol;
use super::observer::Observer;
use super::observer::set::ObserverSet;
use super::pass::{Pass, Phases, Portion, Sequences, Shown, Weights};
use super::setup::PassSetup;
use crate::corpus::{Corpus, CorpusIdentity, Index, Input, LinkOptions, SEGMENT_SENTENCES, Scope};
use crate::model::Model;
use crate::model::controls::sharp::SharpnessSample;
use crate::model::forward::Encoder;
use crate::model::forward::batch::TokenClass;
use crate::model::parameters::Objective;
use crate::model::tokenizer::ModelTokenizer;
use crate::sequences::counts::TokenCounts;
use crate::sequences::derived::corrupted::{Corrupted, Corruption, Noise, PERIOD};
use crate::sequences::derived::pairs::PairPacker;
use crate::sequences::derived::repeats::Repeats;
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
use crate::system::progress::run::{Measure, PassWork, RunProgress};
pub use checks::{heads_of, token_limit};
use derivatives::differentiate;
use derivatives::fits::{GatedHeads, fit};
use means::MeanContexts;
use variants::Variants;
use workers::{CorpusPart, TokenizedSentences, sum_up};

/// The inputs that all passes over one shard of a corpus share.
pub struct Runner<'a> {
    pub corpus: &'a [Input],
    /// The options for links between words, such as a file of links beside the corpus.
    pub links: &'a LinkOptions,
    /// The sentences to read; the first pass over the corpus decides which.
    pub scope: &'a Scope,
    /// The index of the corpus, by which a shard reads only its own part.
    pub index: Option<&'a Arc<Index>>,
    pub shard: Shard,
    pub model: &'a Model,
    /// The tokenizer of the model, with the beginning-of-text token if the run asks for it.
    pub tokenizer: &'a ModelTokenizer,
    pub protocol: &'a Protocol,
    /// Whether a sentence that cannot be analysed is an error.
    pub strict: bool,
    pub threads: NonZeroUsize,
    /// The task, if some study needs it.
    pub task: Option<&'a Task>,
    /// The count of each token in the whole corpus, if some study needs it.
    pub counts: Option<Arc<TokenCounts>>,
    /// Known mean contexts, which replace removed heads.
    pub mean_contexts: &'a MeanContexts,
    /// Activations that passes keep for later passes.
    pub kept: &'a KeptPasses,
    /// Whether the passes are of the second stage, to which kept activations are replayed.
    pub follows: bool,
    pub progress: &'a RunProgress,
    /// The passes of the second stage if it follows in this process; the progress bar includes them.
    pub later: Vec<Pass>,
}

pub type PassToRun = (Pass, Vec<Box<dyn Observer>>);

pub struct RunOutcome {
    pub tally: Tally,
    pub corpus: CorpusIdentity,
    pub passes: Vec<PassSums>,
}

impl Runner<'_> {
    /// Runs each pass once, with all its observers. `opened` is the corpus for the first pass. Fails if the corpus cannot be read
    /// or changes between passes, or a forward pass fails. Panics if there is no pass.
    pub fn run(&self, opened: Corpus, passes: Vec<PassToRun>) -> Result<RunOutcome> {
        self.progress.plan(self.works(&passes).chain(self.later.iter().map(|pass| self.expected(pass))));
        let mut passes = passes.into_iter();
        let (pass, observers) = passes.next().expect("at least one pass");
        let variants = Variants::once(pass.gates());
        self.progress.next_pass();
        self.progress.take_planned();
        let run = PassRun { pass: &pass, observers, variants: &variants };
        let (first, tally, corpus) = self.over_corpus(opened, self.whole_shard(), run)?;
        let mut sums = vec![first];
        sums.extend(self.run_each(&corpus, passes)?);
        Ok(RunOutcome { tally, corpus, passes: sums })
    }

    fn works(&self, passes: &[PassToRun]) -> impl Iterator<Item = PassWork> {
        // Heads are removed only in sampled passes.
        let removed = |pass: &Pass, observers: &[Box<dyn Observer>]| match pass.portion {
            Portion::All => BTreeSet::new(),
            _ => ObserverSet::variants_of(observers),
        };
        passes.iter().map(move |(pass, observers)| self.work(pass, &removed(pass, observers)))
    }

    /// Runs further passes over the corpus, whose identity the first pass found.
    /// Fails as [`Runner::run`].
    pub fn run_again(&self, corpus: &CorpusIdentity, passes: Vec<PassToRun>) -> Result<Vec<PassSums>> {
        self.progress.plan(self.works(&passes));
        self.run_each(corpus, passes)
    }

    fn run_each(&self, corpus: &CorpusIdentity, passes: impl IntoIterator<Item = PassToRun>) -> Result<Vec<PassSums>> {
        let run = |(pass, observers): PassToRun| {
            self.progress.next_pass();
            if pass.portion != Portion::All {
                let removed = ObserverSet::variants_of(&observers);
                let as_run = self.as_run(&pass, &removed);
                let variants = self.variants(corpus, &as_run, removed)?;
                // Gates are fitted to the sequences of all shards.
                let shard = if pass.shown == Shown::Fits { Shard::WHOLE } else { self.shard };
                self.progress.take_planned();
                let run = PassRun { pass: &as_run, observers, variants: &variants };
                let sums = self.run_pass_again(corpus, self.sampled(corpus, shard, &as_run), run)?;
                return Ok(PassSums { pass, ..sums });
            }
            self.progress.take_planned();
            let variants = Variants::once(pass.gates());
            self.run_pass_again(corpus, self.whole_shard(), PassRun { pass: &pass, observers, variants: &variants })
        };
        passes.into_iter().map(run).collect()
    }

    /// Runs one more pass, over a part of the corpus or over sequences that are not made from it.
    fn run_pass_again(&self, corpus: &CorpusIdentity, part: CountedPart, run: PassRun<'_>) -> Result<PassSums> {
        match run.pass.sequences {
            Sequences::Repeats(repeats) => return self.over_repeats(repeats, part.0.shard, run),
            Sequences::Task | Sequences::Interchange => return self.over_task(part.0.shard, run),
            _ => {}
        }
        let opened = Corpus::open_with(self.corpus, self.scope, self.protocol.columns(self.links), self.index)?;
        let (sums, _, again) = self.over_corpus(opened, part, run)?;
        corpus.ensure_same(&again)?;
        Ok(sums)
    }

    /// All sentences of the shard.
    fn whole_shard(&self) -> CountedPart {
        (CorpusPart::of(self.shard), self.scope.sentence_count())
    }

    /// The sentences of a shard that are in the sample.
    fn sampled(&self, corpus: &CorpusIdentity, shard: Shard, pass: &Pass) -> CountedPart {
        let sample = Sample::new(self.ablation().sample, corpus.repeats.read);
        let parity = pass.portion.parity();
        let part = CorpusPart { shard, sample, parity };
        if self.protocol.context() == Reads::Document {
            return (part, None);
        }
        // An estimate for the progress bar: about half of the blocks have each parity.
        let has_parity = |index: u64| parity.is_none_or(|parity| index % 2 == parity as u64);
        let is_in_sample = |&index: &u64| shard.takes(index) && sample.takes(index) && has_parity(index);
        let sentences = (0..corpus.repeats.read).filter(is_in_sample).count();
        let variants = if let Sequences::Corrupted(phases) = pass.sequences { self.phases(phases) } else { 1 };
        (part, Some(sentences as u64 * u64::from(variants)))
    }

    fn ablation(&self) -> Ablation {
        self.protocol.ablation.unwrap_or_default()
    }

    /// The number of variants of each sentence, each with other words masked or replaced.
    fn phases(&self, phases: Phases) -> u8 {
        match phases {
            // Every token of a decoder is predicted at once.
            _ if self.model.objective == Some(Objective::NextTokens) => 1,
            Phases::Asked => self.ablation().phases,
            Phases::All => PERIOD,
        }
    }

    /// Runs a pass over sequences made from the sentences of the corpus.
    fn over_corpus(
        &self,
        corpus: Corpus,
        (part, sequences): CountedPart,
        run: PassRun<'_>,
    ) -> Result<(PassSums, Tally, CorpusIdentity)> {
        let (protocol, pass) = (self.protocol, run.pass);
        let CorpusPart { shard, sample, .. } = part;
        let corpus =
            corpus.with_segments(|mut sentences| sentences.any(|index| shard.takes(index) && sample.takes(index)));
        let measure = match (sequences, corpus.bytes()) {
            (Some(sentences), _) => Measure::Sentences(sentences),
            (None, Some(bytes)) => Measure::Bytes(bytes, corpus.bytes_read()),
            (None, None) => Measure::Unknown,
        };
        self.begin(&run, measure);
        let tokenizer =
            SentenceTokenizer::new(self.tokenizer, protocol.max_tokens, protocol.truncate).strict(self.strict);
        let segments = self.model.architecture.config.type_vocab_size;
        let tokenizer = tokenizer.within(protocol.context()).spacing(protocol.words).segments(segments);
        let is_in_windows = protocol.context() == Reads::Document;
        let mut windows = WindowTally::default();
        // Windows are made from all sentences before some are selected.
        let read = if is_in_windows { CorpusPart::of(shard) } else { part };
        let mut sentences = TokenizedSentences { corpus, encoder: tokenizer, part: read, failed: false };
        let (sums, left_out) = {
            // A sample counts every drawn sentence: the first sentence of a family may not be drawn.
            let is_drawn = pass.portion != Portion::All;
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
                Box::new(part.windows(sentences, protocol.max_tokens, &mut windows))
            } else {
                Box::new(sentences)
            };
            self.over_texts(texts, run)?
        };
        let TokenizedSentences { corpus, encoder, .. } = sentences;
        let tally = Tally { passed_over: corpus.passed_over(), windows, ..encoder.into_tally() };
        Ok((PassSums { pass: pass.clone(), left_out, sums }, tally, corpus.into_identity()?))
    }

    /// Runs a pass over sequences made from texts. Returns also the number of texts that are in no sequence.
    fn over_texts(&self, mut texts: Box<DynSequences<'_>>, run: PassRun<'_>) -> Result<(Vec<Box<dyn Observer>>, u64)> {
        let (Self { model, protocol, .. }, pass) = (self, run.pass);
        let sum = |sequences: &mut DynSequences<'_>| self.sum(run, sequences);
        Ok(match pass.sequences {
            Sequences::Sentences | Sequences::Shuffled { .. } => (sum(&mut *texts)?, 0),
            // The texts of a decoder may already be windows.
            Sequences::Windows if protocol.context() == Reads::Document => (sum(&mut *texts)?, 0),
            Sequences::Windows => (sum(&mut Windows::new(texts, protocol.max_tokens))?, 0),
            Sequences::Pairs { max_tokens } => {
                let max_tokens = max_tokens.min(model.architecture.config.positions());
                let mut pairs = PairPacker::new(texts, max_tokens);
                (sum(&mut pairs)?, pairs.left_out)
            }
            Sequences::SentencePairs => {
                let segments = model.architecture.config.type_vocab_size;
                let frame = Frame::of_pair(self.tokenizer)?.map(|frame| frame.with_segments(segments));
                let mut pairs = SentencePairs::new(texts, frame, protocol.max_tokens);
                (sum(&mut pairs)?, pairs.left_out)
            }
            Sequences::Corrupted(phases) => {
                let mut corrupted = Corrupted::new(texts, self.corruption(phases)?);
                (sum(&mut corrupted)?, corrupted.left_out)
            }
            Sequences::Repeats(_) | Sequences::Task | Sequences::Interchange => {
                unreachable!("they are not made of the corpus")
            }
        })
    }

    /// Runs a pass over repeated random tokens, which need no corpus; each shard takes its part.
    fn over_repeats(&self, repeats: Repeats, shard: Shard, run: PassRun<'_>) -> Result<PassSums> {
        let positions = self.model.architecture.config.positions();
        // No decoder was trained to read masks, even if its tokenizer has a mask token.
        let is_asked = repeats != Repeats::Masked || !self.model.is_decoder();
        let sequences = if is_asked { repeats.sequences(self.tokenizer, positions)? } else { Vec::new() };
        let mut in_shard = sequences.into_iter().filter(|sequence| shard.takes(sequence.index)).map(Ok);
        self.begin(&run, Measure::Unknown);
        Ok(PassSums { pass: run.pass.clone(), left_out: 0, sums: self.sum(run, &mut in_shard)? })
    }

    /// Runs a pass over a sample of the task's items, or of its items with a corrupted text; each shard takes its part.
    fn over_task(&self, shard: Shard, run: PassRun<'_>) -> Result<PassSums> {
        let pass = run.pass;
        let task = self.task.context("a study needs a task, and the run has none")?;
        let texts = if pass.sequences == Sequences::Interchange { &task.interchanged } else { &task.texts };
        let sample = Sample::new(self.ablation().sample, texts.count());
        let part = CorpusPart { shard, sample, parity: pass.portion.parity() };
        let is_in_part = |sequence: &Sequence| part.takes(sequence.index, sequence.family.number);
        self.begin(&run, Measure::Sentences(texts.sequence_count(is_in_part)));
        let sums = self.sum(run, &mut texts.sequences(is_in_part).map(Ok))?;
        // Items that cannot be scored have no number, so one shard counts them all.
        let left_out = if shard.takes(0) { texts.skipped.len() as u64 } else { 0 };
        Ok(PassSums { pass: pass.clone(), left_out, sums })
    }

    fn begin(&self, run: &PassRun<'_>, measure: Measure) {
        let removed = run.variants.others.iter().map(|variant| variant.removed.clone()).collect();
        self.progress.begin(self.work(run.pass, &removed), measure);
    }

    /// How sentences are corrupted for the model's prediction task. Fails if the model predicts no token, or a mask token or
    /// token counts are lacking.
    fn corruption(&self, phases: Phases) -> Result<Corruption> {
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
        Ok(Corruption { phases: self.phases(phases), noise, unknown: tokenizer.unknown })
    }

    /// The encoder with the weights of a control; `None` for the trained weights.
    fn other_encoder(&self, weights: Weights) -> Result<Option<Box<dyn Encoder>>> {
        let model = self.model;
        Ok(match weights {
            Weights::Trained => None,
            Weights::Fresh { seed } => Some(model.untrained(seed)?),
            Weights::Rotated { seed } => Some(model.rotated(seed)?),
            Weights::Sharp { seed } => {
                let pack = Pack { sentences: self.first_sentences()? };
                // The first token of a decoder is no text.
                let is_text = |one: &Sequence, at: &usize| TokenClass::from(one.kinds[*at]) == TokenClass::Text;
                let rows_of_text = |one: &Sequence| (0..one.kinds.len()).filter(|at| is_text(one, at)).collect();
                let rows: Vec<Vec<usize>> = pack.sentences.iter().map(rows_of_text).collect();
                Some(model.untrained_and_sharp(seed, &SharpnessSample { batch: pack.batch(), rows: &rows })?)
            }
        })
    }

    /// The first 50 sentences of the corpus, each by itself, whatever the shard. On them, a sharpened untrained model attends as
    /// sharply as the trained one.
    fn first_sentences(&self) -> Result<Vec<Sequence>> {
        let Protocol { max_tokens, truncate, .. } = *self.protocol;
        let corpus = Corpus::open_with(self.corpus, self.scope, self.protocol.columns(self.links), None)?;
        let segments = self.model.architecture.config.type_vocab_size;
        let encoder = SentenceTokenizer::new(self.tokenizer, max_tokens, truncate).segments(segments);
        let part = CorpusPart::of(Shard::WHOLE);
        let sentences = TokenizedSentences { corpus, encoder, part, failed: false }.take(50);
        sentences.map(first_token_marker(self.model.is_decoder())).collect()
    }

    /// Shows the sequences to the observers in all variants, with the weights of the pass.
    fn sum(&self, run: PassRun<'_>, sequences: &mut DynSequences<'_>) -> Result<Vec<Box<dyn Observer>>> {
        let PassRun { pass, observers, variants } = run;
        let control_encoder = self.other_encoder(pass.weights)?;
        let encoder: &dyn Encoder = control_encoder.as_deref().unwrap_or(&*self.model.encoder);
        let sequences = sequences.map(first_token_marker(self.model.is_decoder()));
        let mut observers = ObserverSet::new(observers).without(self.model.absent());
        let conditions = Conditions {
            removal: (pass.portion != Portion::All && pass.sequences != Sequences::Interchange)
                .then(|| self.ablation().removal),
            objective: self.model.objective.filter(|_| pass.predicts()),
            task: self.task.filter(|_| pass.sequences.are_items()).map(|task| task.info.kind),
        };
        let (embeddings, counts) = (encoder.word_embeddings(), self.counts.clone());
        let grid = self.model.grid();
        let single_heads = variants.others.iter().filter(|variant| variant.removed.len() == 1);
        let places = single_heads.flat_map(|variant| &variant.removed).map(|place| grid.index(place.layer, place.head));
        let chosen = (self.chooses(pass) || !self.model.absent().is_empty()).then(|| places.collect());
        let constants = (conditions.removal == Some(Replacement::Constant)).then(|| variants.constants());
        let setup = PassSetup { encoder: Some(encoder), embeddings, counts, conditions, chosen, constants, fits: None };
        let (model, threads, progress) = (self.model.id.as_str(), self.threads, self.progress);
        let differentiable = || encoder.differentiable().context("derivatives are needed of an encoder that has none");
        let removed: Vec<usize> = pass.removed.iter().map(|place| grid.index(place.layer, place.head)).collect();
        observers.begin_pass(&setup);
        let observers = match pass.shown {
            Shown::Activations => {
                let store = self.kept.of(pass, self.shard, self.follows);
                sum_up(observers, (model, encoder), variants, sequences, threads, progress, store)?
            }
            Shown::Derivatives => {
                let path = (&variants.first, &removed[..], self.ablation().gradient_steps);
                differentiate(observers, (model, differentiable()?), path, sequences, threads, progress)?
            }
            Shown::Fits => {
                let gated = GatedHeads::new(&self.model.architecture, &variants.first, &removed);
                let starts = (0..STARTS).filter(|start| self.shard.takes(start * SEGMENT_SENTENCES)).collect();
                let run = (pass.portion.parity().unwrap_or_default(), starts);
                let fits = fit((model, differentiable()?), &gated, run, sequences, threads, progress)?;
                observers.begin_pass(&PassSetup { fits: Some(fits), ..setup });
                observers
            }
        };
        Ok(observers.into_observers())
    }
}

/// Returns the function that marks the first token of each sequence of a decoder.
fn first_token_marker(is_decoder: bool) -> impl Fn(Result<Sequence>) -> Result<Sequence> {
    move |sequence| sequence.map(|read| if is_decoder { read.with_decoder_first_token() } else { read })
}

/// The sequences of a pass, which its workers read one by one.
type DynSequences<'a> = dyn Iterator<Item = Result<Sequence>> + Send + 'a;

/// A part of a corpus, and the number of its sequences; `None` if that is unknown.
type CountedPart = (CorpusPart, Option<u64>);

struct PassRun<'a> {
    pass: &'a Pass,
    observers: Vec<Box<dyn Observer>>,
    variants: &'a Variants,
}
