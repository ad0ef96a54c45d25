//! Activations of a pass that are kept for a later one over the same sequences, which is shown them in place of a
//! forward pass. They are kept as they were computed, so that the later pass finds the same numbers to the last digit;
//! which packs there was room for decides nothing but its time (docs/decisions/02-stream-the-corpus.md).

mod pack;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::observer::FurtherRuns;
use super::observer::set::ObserverSet;
use super::pass::{Pass, Portion};
use crate::model::config::Config;
use crate::model::forward::visitor::Needs;
use crate::sequences::pack::Pack;
use crate::sequences::shard::Shard;
use crate::system::machine::memory;
use pack::PackWidths;
pub use pack::{Keep, KeptPack};

/// The share of free memory that is taken where nobody says how much: the packs under way have [half](super::run) of what is left.
const SHARE: u64 = 4;

/// The bytes that may be kept: as many as were asked for, but no more than half of what is free; a quarter of that if none were.
/// Nothing where neither is known.
pub fn bound(asked: Option<u64>) -> u64 {
    let free = memory::available();
    match asked {
        Some(asked) => asked.min(free.map_or(u64::MAX, |free| free / 2)),
        None => free.map_or(0, |free| free / SHARE),
    }
}

/// Activations that passes of the first stage keep for passes of the second.
pub struct KeptPasses {
    wanted: Vec<(Pass, Vec<Keep>)>,
    widths: PackWidths,
    /// The bytes that may still be taken.
    left: AtomicU64,
    packs: Mutex<Vec<(PackPlace, KeptPack)>>,
}

/// The place of a pack: its pass, by its place among those that are wanted, the shard, and its number there.
type PackPlace = (usize, Shard, usize);

impl KeptPasses {
    /// Nothing yet, of these passes of a model, up to a bound in bytes.
    pub fn new(wanted: Vec<(Pass, Vec<Keep>)>, config: &Config, bound: u64) -> Self {
        let widths = PackWidths::of(config);
        Self { wanted, widths, left: AtomicU64::new(bound), packs: Mutex::default() }
    }

    /// Activations kept from a pass over a shard; `None` if no later pass needs any. A pass that `follows` is shown what was kept, and another
    /// one keeps it.
    pub fn of(&self, pass: &Pass, shard: Shard, follows: bool) -> Option<KeptPass<'_>> {
        let place = self.wanted.iter().position(|(wanted, _)| wanted == pass && pass.portion == Portion::All)?;
        Some(KeptPass { all: self, place, shard, follows })
    }
}

#[derive(Clone, Copy)]
pub struct KeptPass<'a> {
    all: &'a KeptPasses,
    place: usize,
    shard: Shard,
    follows: bool,
}

impl KeptPass<'_> {
    pub fn reserved(&self) -> u64 {
        if self.follows { 0 } else { self.all.left.load(Ordering::Relaxed) }
    }

    /// Whether the observers of a pass can do with it: a pass that keeps has any, and one that follows those that said what they need.
    pub fn suits(&self, observers: &ObserverSet) -> bool {
        let kept = self.keeps().iter().fold(Needs::default(), |needs, keep| needs | keep.needs);
        let patches = observers.demands().any(|one| one.further_runs == FurtherRuns::Patched);
        !self.follows || (kept.covers(observers.needs()) && !patches)
    }

    /// The pack of this number, which is forgotten.
    pub fn take(&self, number: usize) -> Option<KeptPack> {
        let mut packs = self.all.packs.lock().unwrap_or_else(PoisonError::into_inner);
        let at = packs.iter().position(|(place, _)| *place == (self.place, self.shard, number))?;
        Some(packs.swap_remove(at).1)
    }

    /// Room for what is needed of a pack; `None` if that is nothing, or more than may still be taken.
    pub fn begin(&self, pack: &Pack) -> Option<KeptPack> {
        let kept = KeptPack::of(pack, self.keeps(), self.all.widths);
        let bytes = kept.bytes();
        let take = |left: u64| left.checked_sub(bytes);
        let is_wanted = !self.follows && bytes > 0;
        (is_wanted && self.all.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()).then_some(kept)
    }

    pub fn keep(&self, number: usize, pack: KeptPack) {
        let mut packs = self.all.packs.lock().unwrap_or_else(PoisonError::into_inner);
        packs.push(((self.place, self.shard, number), pack));
    }

    fn keeps(&self) -> &[Keep] {
        &self.all.wanted[self.place].1
    }
}
