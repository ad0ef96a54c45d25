//! Observers: exact sums over the attention and the activations of each head in a pass. A study's sums implement [`Sums`]; a pass
//! holds them as [`Observer`]s of any type and shows them [`Event`]s. All sums are exact (integers, or
//! [`crate::stats::exact::ExactSum`]), so the result does not depend on the order of addition. The sums of workers and shards add
//! up to the sums of one run.

pub mod by_class;
pub mod event;
pub mod requests;
pub mod set;

use std::any::Any;
use std::collections::BTreeMap;
use std::io::{self, Write};

use anyhow::{Context, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Serializer;
use serde_json::ser::Formatter;

use super::setup::PassSetup;
use crate::model::forward::visitor::Needs;
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::LayerClasses;
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::Merge;
pub use event::{Event, FoldBuffers, HeadInput};
use requests::HeadSet;

/// Exact sums over every head in the sequences of a pass. Merging the sums of two workers or shards gives the sums over the
/// sequences of both.
pub trait Sums: Merge + Clone + Send + Sync + Serialize + DeserializeOwned + 'static {
    /// The facts about a sequence that the sums need, computed once for all heads.
    type SequenceState: Send + Sync;

    /// The activations and the further runs that the sums need.
    fn demands(&self) -> Demands {
        Demands::ATTENTION
    }

    /// Receives the facts that are known before the pass begins.
    fn begin_pass(&mut self, _known: &PassSetup<'_>) {}

    /// Adds the facts about a sequence that depend on no head to the sums. Returns `None` if the sums need no [`Event`]
    /// of the sequence. A pack whose sequences all give `None` does not run.
    fn begin(&mut self, sequence: &Sequence) -> Option<Self::SequenceState>;

    /// Adds an event of a sequence to the sums; `state` is the result of [`Sums::begin`] for the sequence.
    fn observe(&mut self, state: &mut Self::SequenceState, event: &mut Event<'_>);

    /// Whether the sums have the sizes that a model of this grid and these classes of layers requires. Sums from a file may
    /// have any size.
    fn fits(&self, grid: HeadGrid, from: FromToken, classes: &LayerClasses) -> bool;
}

/// The activations and the forward passes that sums need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demands {
    /// The activations that the sums read. Activations that no observer needs are not computed.
    pub needs: Needs,
    /// The forward passes over each sequence that the sums need besides the baseline run.
    pub further_runs: FurtherRuns,
    /// Whether the sums hold the attention of all heads over a sequence until the end of its pack. Memory is then reserved
    /// for it.
    pub keeps_attention: bool,
}

impl Demands {
    /// Demands for attention weights alone.
    pub const ATTENTION: Self =
        Self { needs: Needs::ATTENTION, further_runs: FurtherRuns::None, keeps_attention: false };

    /// Demands the activations `needs` in the baseline run, and no further runs.
    pub fn from_needs(needs: Needs) -> Self {
        Self { needs, ..Self::default() }
    }
}

/// The forward passes over a sequence besides the baseline run, which removes no head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FurtherRuns {
    #[default]
    None,
    /// An ablation variant for each of these sets of heads; the variant removes the heads of its set.
    Ablations(Vec<HeadSet>),
    /// As `Ablations`, but each variant is followed by a direct run. A direct run holds the outputs of all blocks as in the
    /// baseline, except the removed heads. So the removal reaches later layers only through the residual stream.
    AblationsWithDirectRuns(Vec<HeadSet>),
    /// The patched runs that the sums request at [`Event::BaselineEnd`].
    PatchedRuns,
    /// The derivatives along the path from no head to all heads, in a pass with derivatives. The number of steps is set in
    /// the [`Ablation`](super::ablation::Ablation).
    PathGradients,
}

impl FurtherRuns {
    pub fn has_direct_runs(&self) -> bool {
        matches!(self, Self::AblationsWithDirectRuns(_))
    }

    /// The sets of heads that ablation variants remove; empty without such variants.
    pub fn ablated_sets(&self) -> &[HeadSet] {
        match self {
            Self::Ablations(sets) | Self::AblationsWithDirectRuns(sets) => sets,
            Self::None | Self::PatchedRuns | Self::PathGradients => &[],
        }
    }
}

/// The [`Sums`] of a study with their type erased, and the state of each sequence of the pack that runs.
pub trait Observer: Any + Send + Sync {
    /// The activations that the sums read in the pack's current run.
    fn needs(&self) -> Needs;

    fn demands(&self) -> &Demands;

    fn begin_pass(&mut self, known: &PassSetup<'_>);

    /// Calls [`Sums::begin`] for the next sequence of the pack.
    fn begin(&mut self, sequence: &Sequence);

    /// Whether the sums need events of at least one sequence of the pack; otherwise the pack does not run for them.
    fn needs_events(&self) -> bool;

    /// Begins the ablation variant that removes the heads `removed`, or its
    /// [direct run](FurtherRuns::AblationsWithDirectRuns). Returns whether the sums requested it; if not, they skip it.
    fn begin_variant(&mut self, removed: &HeadSet, is_direct: bool) -> bool;

    /// Calls [`Sums::observe`] for sequence number `sequence` of the pack, if the sums read the event.
    fn observe(&mut self, sequence: usize, event: &mut Event<'_>);

    /// Ends the pack by showing [`Event::PackEnd`] to each sequence's sums.
    fn end_pack(&mut self);

    /// Adds the sums of another observer. Panics if `other` belongs to another study or another analysis.
    fn merge(&mut self, other: &dyn Observer);

    fn duplicate(&self) -> Box<dyn Observer>;

    fn fits(&self, grid: HeadGrid, from: FromToken, classes: &LayerClasses) -> bool;

    /// Serialises the sums by postcard; equal sums give equal bytes. Fails if they cannot be serialised.
    fn to_bytes(&self) -> Result<Vec<u8>>;
}

/// Makes an [`Observer`] of the [`Sums`] of a study.
struct ObserverAdapter<S: Sums> {
    sums: S,
    demands: Demands,
    /// The state of each sequence of the pack; `None` for a sequence whose events the sums do not need.
    states: Vec<Option<S::SequenceState>>,
    /// The index of each requested ablation variant, by the heads that it removes.
    variants: BTreeMap<HeadSet, usize>,
    /// Whether the current ablation variant was requested only by other observers.
    is_skipped: bool,
}

pub fn new_observer<S: Sums>(sums: S) -> Box<dyn Observer> {
    let demands = sums.demands();
    let variants = demands.further_runs.ablated_sets().iter().cloned().zip(0..).collect();
    Box::new(ObserverAdapter { sums, demands, states: Vec::new(), variants, is_skipped: false })
}

/// Restores an observer from the result of [`Observer::to_bytes`]. Fails if the bytes are no sums of this type, or if a sum
/// is too large to be added to others.
pub fn restore_observer<S: Sums>(bytes: &[u8]) -> Result<Box<dyn Observer>> {
    let sums = postcard::from_bytes::<S>(bytes).context("its sums cannot be read")?;
    ensure_bounded_counts(&sums)?;
    Ok(new_observer(sums))
}

/// The sums of an observer; `None` if they are of another type.
pub fn downcast_sums<S: Sums>(observer: &dyn Observer) -> Option<&S> {
    (observer as &dyn Any).downcast_ref::<ObserverAdapter<S>>().map(|adapter| &adapter.sums)
}

/// The sums of an observer.
/// Panics if they are of another type.
pub fn expect_sums<S: Sums>(observer: &dyn Observer) -> &S {
    downcast_sums(observer).expect("a study gets back the sums that it gave")
}

impl<S: Sums> ObserverAdapter<S> {
    /// Passes an event to the sums, once with the state of each sequence that the sums observe.
    fn observe_all(&mut self, event: &mut Event<'_>) {
        self.states.iter_mut().flatten().for_each(|state| self.sums.observe(state, event));
    }
}

impl<S: Sums> Observer for ObserverAdapter<S> {
    fn needs(&self) -> Needs {
        if self.is_skipped { Needs::default() } else { self.demands.needs }
    }

    fn demands(&self) -> &Demands {
        &self.demands
    }

    fn begin_pass(&mut self, known: &PassSetup<'_>) {
        self.sums.begin_pass(known);
        self.demands = self.sums.demands();
    }

    fn begin(&mut self, sequence: &Sequence) {
        self.states.push(self.sums.begin(sequence));
    }

    fn needs_events(&self) -> bool {
        self.states.iter().any(Option::is_some)
    }

    fn begin_variant(&mut self, removed: &HeadSet, is_direct: bool) -> bool {
        let is_requested = !is_direct || self.demands.further_runs.has_direct_runs();
        let index = self.variants.get(removed).copied().filter(|_| is_requested);
        self.is_skipped = index.is_none();
        if let Some(index) = index {
            self.observe_all(&mut if is_direct { Event::DirectRun(index) } else { Event::AblationVariant(index) });
        }
        index.is_some()
    }

    fn observe(&mut self, sequence: usize, event: &mut Event<'_>) {
        let is_needed = event.is_needed_by(self.needs());
        if let Some(state) = self.states[sequence].as_mut().filter(|_| is_needed) {
            self.sums.observe(state, event);
        }
    }

    fn end_pack(&mut self) {
        self.observe_all(&mut Event::PackEnd);
        self.states.clear();
        self.is_skipped = false;
    }

    fn merge(&mut self, other: &dyn Observer) {
        self.sums.merge(expect_sums(other));
    }

    fn duplicate(&self) -> Box<dyn Observer> {
        new_observer(self.sums.clone())
    }

    fn fits(&self, grid: HeadGrid, from: FromToken, classes: &LayerClasses) -> bool {
        self.sums.fits(grid, from, classes)
    }

    fn to_bytes(&self) -> Result<Vec<u8>> {
        Ok(postcard::to_stdvec(&self.sums)?)
    }
}

/// Maximum count that is accepted from a file: 2^46, about 7 · 10^13. A sum over 2^16 shards, the maximum number of shards,
/// then stays below 2^63. The largest corpora have some 2^44 tokens.
const MAX_COUNT: u64 = 1 << 46;

/// Fails if a count or sum that was read from a file is too large to be added to others. Fixed-point sums
/// ([`ExactSum`](crate::stats::exact::ExactSum)) are bounded in their whole part.
pub fn ensure_bounded_counts(read: &impl Serialize) -> Result<()> {
    // Visits all numbers, and writes nothing.
    read.serialize(&mut Serializer::with_formatter(io::sink(), BoundChecker)).context("it holds what no run counts")
}

/// Serialiser output that only checks the bounds of numbers.
struct BoundChecker;

fn ensure_within_bound(is_within: bool) -> io::Result<()> {
    if is_within { Ok(()) } else { Err(io::Error::other(format!("a count of more than {MAX_COUNT}"))) }
}

impl Formatter for BoundChecker {
    fn write_u64<W: ?Sized + Write>(&mut self, _: &mut W, value: u64) -> io::Result<()> {
        ensure_within_bound(value <= MAX_COUNT)
    }

    fn write_i128<W: ?Sized + Write>(&mut self, _: &mut W, value: i128) -> io::Result<()> {
        ensure_within_bound(value.unsigned_abs() >> 64 <= u128::from(MAX_COUNT))
    }

    fn write_f64<W: ?Sized + Write>(&mut self, _: &mut W, value: f64) -> io::Result<()> {
        ensure_within_bound(value.abs() <= MAX_COUNT as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::set::ObserverSet;
    use super::*;
    use crate::model::forward::rows::Rows;
    use crate::stats::exact::ExactSum;
    use serde::Deserialize;

    /// Keeps what it is shown, and needs it or not.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    struct Recorder {
        needy: bool,
        states: Vec<(u64, usize, usize)>,
        logits: Vec<(u64, usize, usize)>,
        ended: Vec<u64>,
    }

    impl Merge for Recorder {
        fn merge(&mut self, _: &Self) {}
    }

    impl Sums for Recorder {
        type SequenceState = u64;

        fn demands(&self) -> Demands {
            Demands::from_needs(Needs { hidden_states: self.needy, logits: self.needy, ..Needs::default() })
        }

        fn begin(&mut self, sequence: &Sequence) -> Option<u64> {
            Some(sequence.index)
        }

        fn observe(&mut self, &mut index: &mut u64, event: &mut Event<'_>) {
            match event {
                Event::HiddenStates { layer, states } => self.states.push((index, *layer, states.count())),
                Event::Logits { position, logits } => self.logits.push((index, *position, logits.len())),
                Event::PackEnd => self.ended.push(index),
                _ => {}
            }
        }

        fn fits(&self, _: HeadGrid, _: FromToken, _: &LayerClasses) -> bool {
            true
        }
    }

    #[test]
    fn sums_of_no_class_are_read_and_fit_nothing() {
        // No classes, which stands for one, and the sums of none.
        let observer = restore_observer::<by_class::ByLayerClass<Recorder>>(&[0, 0]).unwrap();
        assert_eq!(*observer.demands(), Demands::default());
        assert!(!observer.fits(HeadGrid { layers: 1, heads: 1 }, FromToken::Mean, &LayerClasses::default()));
    }

    #[test]
    fn hidden_states_and_logits_are_shown_to_those_who_need_them() {
        let shown = |needy| new_observer(Recorder { needy, ..Recorder::default() });
        let mut observers = ObserverSet::new(vec![shown(true), shown(false)]);
        assert_eq!(observers.needs(), Needs { hidden_states: true, logits: true, ..Needs::default() });
        let sequences = [7, 9].map(|index| Sequence { index, ..Sequence::default() });
        observers.begin_pack(sequences.iter());
        assert!(observers.needs_events());
        observers.observe(1, Event::HiddenStates { layer: 4, states: Rows::new(&[0.0; 6], 2) });
        observers.observe(0, Event::Logits { position: 3, logits: &[0.0; 5] });
        observers.end_pack();
        let observers = observers.into_observers();
        let (states, logits) = (vec![(9, 4, 3)], vec![(7, 3, 5)]);
        assert_eq!(
            *expect_sums::<Recorder>(&*observers[0]),
            Recorder { needy: true, states, logits, ended: vec![7, 9] }
        );
        assert_eq!(*expect_sums::<Recorder>(&*observers[1]), Recorder { ended: vec![7, 9], ..Recorder::default() });
    }

    fn sum(value: f64) -> ExactSum {
        let mut sum = ExactSum::default();
        sum += value;
        sum
    }

    #[test]
    fn what_can_be_added_up_is_countable() {
        let most = MAX_COUNT as f64;
        ensure_bounded_counts(&(MAX_COUNT, most, [("a", -most)], vec![sum(most), sum(-most)])).unwrap();
        ensure_bounded_counts(&vec![u64::from(u32::MAX); 3]).unwrap();
    }

    #[test]
    fn what_could_overflow_is_not() {
        let more = 2.0 * MAX_COUNT as f64;
        let refused = [
            ensure_bounded_counts(&[0, MAX_COUNT + 1]),
            ensure_bounded_counts(&Some(-more)),
            ensure_bounded_counts(&[sum(more)]),
            ensure_bounded_counts(&[sum(-more)]),
        ];
        insta::assert_snapshot!(refused.map(|result| format!("{:#}", result.unwrap_err())).join("\n"), @"
        it holds what no run counts: a count of more than 70368744177664
        it holds what no run counts: a count of more than 70368744177664
        it holds what no run counts: a count of more than 70368744177664
        it holds what no run counts: a count of more than 70368744177664
        ");
    }
}
