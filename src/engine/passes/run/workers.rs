//! The worker threads: sentences through the tokenizer and the encoder into sums.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};

use super::room::{PackCost, PackMemory};
use super::show::{WorkerBuffers, run_pack};
use super::variants::Variants;
use crate::corpus::Corpus;
use crate::model::forward::Encoder;
use crate::passes::kept::KeptPassStore;
use crate::passes::observer::set::ObserverSet;
use crate::sequences::derived::windows::Windows;
use crate::sequences::pack::{Pack, Packs};
use crate::sequences::reading::WindowTally;
use crate::sequences::sample::Sample;
use crate::sequences::sequence::Sequence;
use crate::sequences::shard::Shard;
use crate::sequences::tokenize::SentenceTokenizer;
use crate::stats::blocks::block_of;
use crate::system::parallel::on_threads;
use crate::system::progress::run::RunProgress;

/// The part of a corpus that a pass covers: the sentences in a shard, in a sample and in blocks of one parity. A window is
/// in the part if its first sentence is.
#[derive(Clone, Copy)]
pub struct CorpusPart {
    pub shard: Shard,
    pub sample: Sample,
    /// Parity of the jackknife blocks, 0 or 1; `None` for all blocks.
    pub parity: Option<usize>,
}

impl CorpusPart {
    /// All sentences of a shard.
    pub fn whole_shard(shard: Shard) -> Self {
        Self { shard, sample: Sample::ALL, parity: None }
    }

    /// Whether this part of the corpus includes sentence number `sentence`. `family` is the number of the sentence's sampling
    /// unit, which determines its jackknife block.
    pub fn contains(self, sentence: u64, family: u64) -> bool {
        let has_parity = |parity: usize| block_of(family) % 2 == parity;
        self.shard.contains(sentence) && self.sample.contains(sentence) && self.parity.is_none_or(has_parity)
    }

    /// Makes windows of at most `max_tokens` tokens from the sentences, and keeps those whose first sentence is in this
    /// part of the corpus. A window is drawn whole, since sentences drawn one by one would leave gaps. Both ways draw about
    /// equally much text. `tally` counts all windows of the shard.
    pub fn draw_windows(
        self,
        sentences: impl Iterator<Item = Result<Sequence>> + Send,
        max_tokens: usize,
        tally: &mut WindowTally,
    ) -> impl Iterator<Item = Result<Sequence>> + Send {
        Windows::new(sentences, max_tokens).filter(move |window| {
            window.as_ref().map_or(true, |window| {
                tally.add(window);
                self.contains(window.index, window.family.number)
            })
        })
    }
}

/// Iterator of the sequences of a shard, which the tokenizer makes of its sentences in order.
pub struct TokenizedSentences<'a> {
    pub corpus: Corpus,
    /// Tokenises the sentences and counts them in its tally.
    pub encoder: SentenceTokenizer<'a>,
    /// The sentences to tokenise; others are skipped.
    pub part: CorpusPart,
    /// Whether reading a sentence failed. The iterator then ends, since the next line may be the middle of a broken
    /// sentence.
    pub has_failed: bool,
}

impl Iterator for TokenizedSentences<'_> {
    type Item = Result<Sequence>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.has_failed {
            let sentence = self.corpus.next()?;
            if sentence.as_ref().is_ok_and(|sentence| !self.part.contains(sentence.index, sentence.family.number)) {
                continue;
            }
            match sentence.and_then(|sentence| self.encoder.encode(sentence)) {
                Ok(Ok(sequence)) => return Some(Ok(sequence)),
                // The tally of the encoder counts it.
                Ok(Err(_)) => {}
                Err(error) => {
                    self.has_failed = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

/// Shows all sequences, in the baseline and all ablation variants, to fresh observers. Packs that an earlier pass kept are
/// replayed; from other packs, the activations for later passes are kept. Fails if the corpus cannot be read on, or if a
/// forward pass fails.
pub fn sum_activations(
    observers: ObserverSet,
    (model, encoder): (&str, &dyn Encoder),
    variants: &Variants,
    sequences: impl Iterator<Item = Result<Sequence>> + Send,
    threads: NonZeroUsize,
    progress: &RunProgress,
    store: Option<KeptPassStore<'_>>,
) -> Result<ObserverSet> {
    let store = store.filter(|store| store.can_serve(&observers));
    let show = |observers: &mut ObserverSet, (number, pack): (usize, &Pack), buffers: &mut WorkerBuffers| {
        if let Some(store) = store.and_then(|store| store.take_pack(number)) {
            store.replay(observers, pack, encoder);
            return Ok(());
        }
        let mut kept_pack = store.and_then(|store| store.reserve_pack(pack));
        run_pack(observers, pack, variants, encoder, buffers, kept_pack.as_mut())?;
        store.zip(kept_pack).into_iter().for_each(|(store, pack)| store.store_pack(number, pack));
        Ok(())
    };
    let cost = |lengths: &[usize]| encoder.cost(lengths);
    let reserved = store.map_or(0, |store| store.reserved_bytes());
    run_packs(observers, (model, &cost, reserved), sequences, (threads, progress), show)
}

/// Runs `show` on every pack, with the number of the pack and the buffers of the worker thread. Each worker reads and
/// tokenises its next pack itself, while others run forward passes. A pack that does not fit beside others waits until they
/// are done. A pack whose events no observer needs is only read and counted. `reserved` bytes stay free for kept
/// activations. Fails if the corpus cannot be read on, if a pack does not fit into memory, or if `show` fails.
pub(super) fn run_packs<B: Default>(
    observers: ObserverSet,
    (model, cost, reserved): (&str, &PackCost<'_>, u64),
    sequences: impl Iterator<Item = Result<Sequence>> + Send,
    (threads, progress): (NonZeroUsize, &RunProgress),
    show: impl Fn(&mut ObserverSet, (usize, &Pack), &mut B) -> Result<()> + Sync,
) -> Result<ObserverSet> {
    let keepers = observers.demands().filter(|one| one.keeps_attention).count();
    let room = PackMemory::new(cost, (keepers, reserved), threads.get());
    let packs = Mutex::new(Packs::new(sequences).enumerate());
    let large_queue = Mutex::new(Vec::new());
    let large_packs = || large_queue.lock().unwrap_or_else(PoisonError::into_inner);
    let next_small = || -> Result<Option<(usize, Pack)>> {
        loop {
            let next = packs.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((number, pack)) = next else { return Ok(None) };
            let pack = pack?;
            if room.fits_beside_others(&pack) {
                return Ok(Some((number, pack)));
            }
            room.ensure_fits(&pack)?;
            large_packs().push((number, pack));
        }
    };
    let (is_noted, failed) = (AtomicBool::new(false), AtomicBool::new(false));
    let work = |next_pack: &(dyn Fn() -> Result<Option<(usize, Pack)>> + Sync)| -> Result<ObserverSet> {
        let stop_others = StopOnDrop(&failed);
        let mut observers = observers.duplicate();
        let mut buffers = B::default();
        while !failed.load(Ordering::Relaxed) {
            let Some((number, pack)) = next_pack()? else { break };
            if let Some(note) = room.long_wait_note(&pack).filter(|_| !is_noted.swap(true, Ordering::Relaxed)) {
                progress.note(&note);
            }
            observers.begin_pack(pack.sequences.iter());
            if observers.needs_events() {
                show(&mut observers, (number, &pack), &mut buffers)
                    .with_context(|| format!("cannot run `{model}` over the corpus, sentences counted from 0"))?;
            }
            observers.end_pack();
            let sentences = pack.sequences.iter().map(Sequence::sentence_count).sum();
            progress.advance(sentences, pack.token_count());
        }
        std::mem::forget(stop_others);
        Ok(observers)
    };
    let mut parts: Vec<Result<ObserverSet>> = on_threads(threads, || work(&next_small));
    let concurrent = NonZeroUsize::new(room.concurrent_workers(&large_packs())).unwrap_or(NonZeroUsize::MIN);
    if parts.iter().all(Result::is_ok) && !large_packs().is_empty() {
        parts.extend(on_threads(concurrent, || work(&|| Ok(large_packs().pop()))));
    }
    progress.finish_pass();
    let mut total = observers;
    parts.into_iter().try_for_each(|part| part.map(|part| total.merge(&part)))?;
    Ok(total)
}

/// Guard that tells the other workers to stop if its worker ends early, by an error or a panic.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
