//! Activations kept from a pass and replayed to a later pass over its sequences, in place of a forward pass. They are kept
//! unchanged, so that the later pass gets equal numbers to the last digit. Which packs fitted into memory affects only the time
//! of the later pass (docs/decisions/02-stream-the-corpus.md).

mod pack;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::observer::FurtherRuns;
use super::observer::set::ObserverSet;
use super::pass::{CorpusPortion, Pass};
use crate::model::config::Config;
use crate::model::forward::visitor::Needs;
use crate::sequences::pack::Pack;
use crate::sequences::shard::Shard;
use crate::system::machine::memory;
pub use pack::{KeepRequest, KeptPack};

/// Divisor of the free memory that gives the default memory for kept activations: a quarter. [Half](super::run) of the
/// remainder goes to the packs that are running.
const FREE_MEMORY_DIVISOR: u64 = 4;

/// Maximum number of bytes of kept activations. A `requested` number is reduced to half of the free memory if it is higher.
/// Without a request, the bound is a quarter of the free memory, or 0 if that is unknown.
pub fn memory_bound(requested: Option<u64>) -> u64 {
    let free = memory::available();
    match requested {
        Some(requested) => requested.min(free.map_or(u64::MAX, |free| free / 2)),
        None => free.map_or(0, |free| free / FREE_MEMORY_DIVISOR),
    }
}

/// Activations of first-stage passes, kept in memory for second-stage passes over the same sequences.
pub struct KeptActivations {
    /// The first-stage passes, each with the activations to keep for later passes.
    requests: Vec<(Pass, Vec<KeepRequest>)>,
    config: Config,
    /// Number of bytes of activations that may still be kept.
    bytes_left: AtomicU64,
    packs: Mutex<Vec<(PackKey, KeptPack)>>,
}

/// Key of a pack: the index of its pass in `requests`, the shard, and the number of the pack in the shard.
type PackKey = (usize, Shard, usize);

impl KeptActivations {
    /// Makes an empty store of at most `bound` bytes for the passes in `requests`, each with the activations to keep.
    pub fn new(requests: Vec<(Pass, Vec<KeepRequest>)>, config: &Config, bound: u64) -> Self {
        Self { requests, config: config.clone(), bytes_left: AtomicU64::new(bound), packs: Mutex::default() }
    }

    /// The store's part for a pass over a shard; `None` if no activations of the pass are kept. If `follows` is set, the
    /// pass is replayed from the store; otherwise it is recorded.
    pub fn pass_store(&self, pass: &Pass, shard: Shard, follows: bool) -> Option<KeptPassStore<'_>> {
        let is_kept = |requested: &Pass| requested == pass && pass.portion == CorpusPortion::All;
        let request = self.requests.iter().position(|(requested, _)| is_kept(requested))?;
        Some(KeptPassStore { store: self, request, shard, follows })
    }
}

/// The part of the store for one pass over one shard.
#[derive(Clone, Copy)]
pub struct KeptPassStore<'a> {
    store: &'a KeptActivations,
    /// Index of the pass in [`KeptActivations::requests`].
    request: usize,
    shard: Shard,
    follows: bool,
}

impl KeptPassStore<'_> {
    /// Number of bytes to leave free for activations that this pass may keep; 0 for a replayed pass.
    pub fn reserved_bytes(&self) -> u64 {
        if self.follows { 0 } else { self.store.bytes_left.load(Ordering::Relaxed) }
    }

    /// Whether the pass can run with these observers. A recorded pass can have any observers. A replayed pass serves
    /// observers that read only kept activations and request no patched runs.
    pub fn can_serve(&self, observers: &ObserverSet) -> bool {
        let kept_needs = self.keep_requests().iter().fold(Needs::default(), |needs, keep| needs | keep.needs);
        !self.follows || (kept_needs.covers(observers.needs()) && !observers.requests(&FurtherRuns::PatchedRuns))
    }

    /// Removes and returns the kept activations of pack number `number`; `None` if they were not kept.
    pub fn take_pack(&self, number: usize) -> Option<KeptPack> {
        let mut packs = self.store.packs.lock().unwrap_or_else(PoisonError::into_inner);
        let index = packs.iter().position(|(key, _)| *key == (self.request, self.shard, number))?;
        Some(packs.swap_remove(index).1)
    }

    /// Reserves memory for the activations of a pack; `None` if none are requested, or if they would exceed the bound.
    pub fn reserve_pack(&self, pack: &Pack) -> Option<KeptPack> {
        let empty = KeptPack::new(pack, self.keep_requests(), &self.store.config);
        let bytes = empty.bytes();
        let reserve = |left: u64| left.checked_sub(bytes);
        let is_wanted = !self.follows && bytes > 0;
        (is_wanted && self.store.bytes_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, reserve).is_ok())
            .then_some(empty)
    }

    /// Stores the recorded activations of pack number `number`.
    pub fn store_pack(&self, number: usize, pack: KeptPack) {
        let mut packs = self.store.packs.lock().unwrap_or_else(PoisonError::into_inner);
        packs.push(((self.request, self.shard, number), pack));
    }

    /// The activations of this pass that are kept.
    fn keep_requests(&self) -> &[KeepRequest] {
        &self.store.requests[self.request].1
    }
}
