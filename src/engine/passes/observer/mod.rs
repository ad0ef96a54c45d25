//! Observers: exact sums over the attention and the activations of each head in a pass.
//!
//! A study's sums implement [`Sums`]; a pass holds them as [`Observer`]s of any type.
//! All sums are exact (integers, or [`crate::stats::exact::ExactSum`]), so the result does not depend on the order of
//! addition, and the sums of workers and shards add up to those of one run.

pub mod countable;

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::beforehand::Beforehand;
use super::run::patches::{PatchedRun, RequestedRun};
use super::run::variants::HeadSet;
use crate::model::forward::Encoder;
use crate::model::forward::attention::AttentionView;
use crate::model::forward::gradient::GateGradient;
use crate::model::forward::rows::Rows;
use crate::model::forward::visitor::{HeadView, Needs};
use crate::model::grid::HeadGrid;
use crate::sequences::fold::text::TextAttention;
use crate::sequences::fold::words::{FromToken, WordAttention};
use crate::sequences::sequence::Sequence;
use countable::ensure_countable;

/// Exact sums over every head in the sequences of a pass.
pub trait Sums: Clone + Send + Sync + Serialize + DeserializeOwned + 'static {
    /// The facts of a sequence that the sums need, computed once for all its heads.
    type SequenceState: Send + Sync;

    /// The activations that the sums read; those that no observer needs are not computed.
    fn needs(&self) -> Needs {
        Needs::ATTENTION
    }

    /// Receives the facts that are known before the pass begins.
    fn begin_pass(&mut self, _known: &Beforehand) {}

    /// Reads the weights of the encoder before the pass begins.
    fn inspect_weights(&mut self, _encoder: &dyn Encoder) {}

    /// Counts a sequence and everything in it that does not depend on a head.
    fn begin(&mut self, sequence: &Sequence) -> Self::SequenceState;

    /// Whether the sums can gain from a sequence; a pack without such a sequence does not run.
    fn is_relevant(_state: &Self::SequenceState) -> bool {
        true
    }

    /// The ablation variants that run after the baseline: forward passes without these heads.
    fn variants(&self) -> Vec<HeadSet> {
        Vec::new()
    }

    /// Begins a variant, by its place in [`Sums::variants`]: everything after this call belongs to it.
    fn begin_variant(&mut self, _state: &mut Self::SequenceState, _number: usize) {}

    /// Whether the sums may request patched runs.
    fn requests_patched_runs(&self) -> bool {
        false
    }

    /// The patched runs of a sequence, requested after its baseline run.
    fn patched_runs(&mut self, _state: &mut Self::SequenceState) -> Vec<PatchedRun> {
        Vec::new()
    }

    /// Adds the logits of a patched run, `[classes]`, at one of its predicted positions; `number` is its place in
    /// [`Sums::patched_runs`].
    fn patched_logits(&mut self, _state: &mut Self::SequenceState, _number: usize, _position: usize, _logits: &[f32]) {}

    /// Adds one head of a sequence.
    fn head(&mut self, state: &mut Self::SequenceState, input: &mut HeadInput<'_>);

    /// Adds the hidden states of a sequence, `[n, hidden]`, that enter a layer, if they are needed.
    fn hidden_states(&mut self, _state: &mut Self::SequenceState, _layer: usize, _states: Rows<'_>) {}

    /// Adds the logits at a predicted position, `[classes]`, if they are needed.
    fn logits(&mut self, _state: &mut Self::SequenceState, _position: usize, _logits: &[f32]) {}

    /// Adds the derivatives of a sequence's loss, summed over its predicted positions, by the gates of all heads; only
    /// gradient passes have them.
    fn gradient(&mut self, _state: &mut Self::SequenceState, _gradient: &GateGradient) {}

    /// Ends a sequence.
    fn end(&mut self, _state: Self::SequenceState) {}

    /// Ends a pack: the sequences that ended since the last call ran in one batch.
    fn end_pack(&mut self) {}

    /// Adds the sums of another worker or shard, as if these sums had seen its sequences.
    /// Panics if the two are not of one analysis.
    fn merge(&mut self, other: &Self);

    /// The same sums in a canonical order, so that equal sums are equal bytes.
    fn in_order(&self) -> Self {
        self.clone()
    }

    /// The same sums with all blocks of sentences in one, where no result depends on blocks.
    fn pooled(&self) -> Self {
        self.clone()
    }

    /// Whether the sums belong to a model of this grid and all lists have the right lengths. Sums that were read from a
    /// file may be invalid.
    fn fits(&self, grid: HeadGrid, from: FromToken) -> bool;
}

/// One head over one sequence, as every observer of a pass receives it.
pub struct HeadInput<'a> {
    /// The attention of the head and the other activations that are needed.
    pub view: HeadView<'a>,
    sequence: &'a Sequence,
    folded: &'a mut Folder,
}

/// Buffers for attention folded to words and to text, reused from head to head.
#[derive(Clone, Debug, Default)]
pub struct Folder {
    words: [Folded<WordAttention>; 2],
    text: Folded<TextAttention>,
}

impl Folder {
    /// One head over `sequence`, with these buffers.
    pub fn head_input<'a>(&'a mut self, sequence: &'a Sequence, view: HeadView<'a>) -> HeadInput<'a> {
        self.words.iter_mut().for_each(|folded| folded.done = false);
        self.text.done = false;
        HeadInput { view, sequence, folded: self }
    }
}

/// Attention in one folded form, computed on first use.
#[derive(Clone, Debug, Default)]
struct Folded<T> {
    attention: T,
    done: bool,
}

impl<'a> HeadInput<'a> {
    /// The head's attention.
    pub fn attention(&self) -> AttentionView<'a> {
        self.view.attention
    }

    /// The attention between words, `[words, words]`, folded by `from`; computed once.
    pub fn words(&mut self, from: FromToken) -> &WordAttention {
        let folded = &mut self.folded.words[usize::from(from == FromToken::First)];
        if !folded.done {
            folded.attention.fold(self.view.attention, &self.sequence.words, from);
            folded.done = true;
        }
        &folded.attention
    }

    /// The attention between tokens of text; computed once.
    pub fn text(&mut self) -> &TextAttention {
        let folded = &mut self.folded.text;
        if !folded.done {
            folded.attention.fold(self.view.attention, &self.sequence.kinds);
            folded.done = true;
        }
        &folded.attention
    }
}

/// The [`Sums`] of a study, whose type only the study knows.
pub trait Observer: Send + Sync {
    /// [`Sums::needs`]
    fn needs(&self) -> Needs;

    /// [`Sums::begin_pass`]
    fn begin_pass(&mut self, known: &Beforehand);

    /// [`Sums::inspect_weights`]
    fn inspect_weights(&mut self, encoder: &dyn Encoder);

    /// Begins the next sequence of a pack.
    fn begin(&mut self, sequence: &Sequence);

    /// [`Sums::is_relevant`], for any sequence of the pack.
    fn is_relevant(&self) -> bool;

    /// [`Sums::variants`]
    fn variants(&self) -> Vec<HeadSet>;

    /// Begins a variant; the sums skip one that they did not request.
    fn begin_variant(&mut self, removed: &HeadSet);

    /// [`Sums::requests_patched_runs`]
    fn requests_patched_runs(&self) -> bool;

    /// [`Sums::patched_runs`], for each sequence of the pack.
    fn patched_runs(&mut self) -> Vec<Vec<PatchedRun>>;

    /// [`Sums::patched_logits`], for this sequence of the pack.
    fn patched_logits(&mut self, sequence: usize, number: usize, position: usize, logits: &[f32]);

    /// [`Sums::head`], for this sequence of the pack.
    fn head(&mut self, sequence: usize, input: &mut HeadInput<'_>);

    /// [`Sums::hidden_states`], for this sequence of the pack.
    fn hidden_states(&mut self, sequence: usize, layer: usize, states: Rows<'_>);

    /// [`Sums::logits`], for this sequence of the pack.
    fn logits(&mut self, sequence: usize, position: usize, logits: &[f32]);

    /// [`Sums::gradient`], for this sequence of the pack.
    fn gradient(&mut self, sequence: usize, gradient: &GateGradient);

    /// Ends the pack.
    fn end(&mut self);

    /// Adds sums of the same study.
    /// Panics if they are of another, or of another analysis.
    fn merge(&mut self, other: &dyn Observer);

    /// Another observer with the same sums.
    fn duplicate(&self) -> Box<dyn Observer>;

    /// [`Sums::pooled`]
    fn pooled(&self) -> Box<dyn Observer>;

    /// [`Sums::fits`]
    fn fits(&self, grid: HeadGrid, from: FromToken) -> bool;

    /// The sums as bytes, by postcard; equal sums are equal bytes.
    /// Fails if they cannot be expressed so.
    fn to_bytes(&self) -> Result<Vec<u8>>;

    /// For [`sums`].
    fn as_any(&self) -> &dyn Any;
}

struct ObserverAdapter<S: Sums> {
    sums: S,
    /// The states of the sequences of the pack.
    states: Vec<S::SequenceState>,
    /// The place of each variant in the list of the sums.
    variants: BTreeMap<HeadSet, usize>,
    /// Whether only other observers requested the variant.
    is_skipped: bool,
}

/// An observer with these sums.
pub fn observer_of<S: Sums>(sums: S) -> Box<dyn Observer> {
    let variants = sums.variants().into_iter().enumerate().map(|(number, removed)| (removed, number)).collect();
    Box::new(ObserverAdapter { sums, states: Vec::new(), variants, is_skipped: false })
}

/// An observer with the sums that [`Observer::to_bytes`] wrote.
/// Fails if the bytes are no such sums, or a number is too large to be added up.
pub fn restored<S: Sums>(bytes: &[u8]) -> Result<Box<dyn Observer>> {
    let sums = postcard::from_bytes::<S>(bytes).context("its sums cannot be read")?;
    ensure_countable(&sums)?;
    Ok(observer_of(sums))
}

/// The sums of an observer.
/// Panics if they are of another type.
pub fn sums<S: Sums>(observer: &dyn Observer) -> &S {
    &observer.as_any().downcast_ref::<ObserverAdapter<S>>().expect("a study gets back the sums that it gave").sums
}

impl<S: Sums> Observer for ObserverAdapter<S> {
    fn needs(&self) -> Needs {
        if self.is_skipped { Needs::default() } else { self.sums.needs() }
    }

    fn begin_pass(&mut self, known: &Beforehand) {
        self.sums.begin_pass(known);
    }

    fn inspect_weights(&mut self, encoder: &dyn Encoder) {
        self.sums.inspect_weights(encoder);
    }

    fn begin(&mut self, sequence: &Sequence) {
        let state = self.sums.begin(sequence);
        self.states.push(state);
    }

    fn is_relevant(&self) -> bool {
        self.states.iter().any(S::is_relevant)
    }

    fn variants(&self) -> Vec<HeadSet> {
        self.sums.variants()
    }

    fn begin_variant(&mut self, removed: &HeadSet) {
        let number = self.variants.get(removed);
        self.is_skipped = number.is_none();
        if let Some(&number) = number {
            self.states.iter_mut().for_each(|state| self.sums.begin_variant(state, number));
        }
    }

    fn requests_patched_runs(&self) -> bool {
        self.sums.requests_patched_runs()
    }

    fn patched_runs(&mut self) -> Vec<Vec<PatchedRun>> {
        self.states.iter_mut().map(|state| self.sums.patched_runs(state)).collect()
    }

    fn patched_logits(&mut self, sequence: usize, number: usize, position: usize, logits: &[f32]) {
        self.sums.patched_logits(&mut self.states[sequence], number, position, logits);
    }

    fn head(&mut self, sequence: usize, input: &mut HeadInput<'_>) {
        if !self.is_skipped {
            self.sums.head(&mut self.states[sequence], input);
        }
    }

    fn hidden_states(&mut self, sequence: usize, layer: usize, states: Rows<'_>) {
        self.sums.hidden_states(&mut self.states[sequence], layer, states);
    }

    fn logits(&mut self, sequence: usize, position: usize, logits: &[f32]) {
        self.sums.logits(&mut self.states[sequence], position, logits);
    }

    fn gradient(&mut self, sequence: usize, gradient: &GateGradient) {
        self.sums.gradient(&mut self.states[sequence], gradient);
    }

    fn end(&mut self) {
        for state in self.states.drain(..) {
            self.sums.end(state);
        }
        self.sums.end_pack();
        self.is_skipped = false;
    }

    fn merge(&mut self, other: &dyn Observer) {
        self.sums.merge(sums(other));
    }

    fn duplicate(&self) -> Box<dyn Observer> {
        observer_of(self.sums.clone())
    }

    fn pooled(&self) -> Box<dyn Observer> {
        observer_of(self.sums.pooled())
    }

    fn fits(&self, grid: HeadGrid, from: FromToken) -> bool {
        self.sums.fits(grid, from)
    }

    fn to_bytes(&self) -> Result<Vec<u8>> {
        Ok(postcard::to_stdvec(&self.sums.in_order())?)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The observers of one forward pass.
#[derive(Default)]
pub struct ObserverSet {
    observers: Vec<Box<dyn Observer>>,
    folder: Folder,
}

impl ObserverSet {
    /// A set of these observers.
    pub fn new(observers: Vec<Box<dyn Observer>>) -> Self {
        Self { observers, folder: Folder::default() }
    }

    /// Whether some sequence of the pack is relevant to some observer.
    pub fn is_relevant(&self) -> bool {
        self.observers.iter().any(|observer| observer.is_relevant())
    }

    /// The activations that some observer needs.
    pub fn needs(&self) -> Needs {
        self.observers.iter().fold(Needs::default(), |needs, observer| needs | observer.needs())
    }

    /// Gives every observer the facts that are known before the pass begins.
    pub fn begin_pass(&mut self, known: &Beforehand) {
        self.observers.iter_mut().for_each(|observer| observer.begin_pass(known));
    }

    /// Shows every observer the encoder before the pass begins.
    pub fn inspect_weights(&mut self, encoder: &dyn Encoder) {
        self.observers.iter_mut().for_each(|observer| observer.inspect_weights(encoder));
    }

    /// Begins the sequences of a pack.
    pub fn begin<'a>(&mut self, sequences: impl Iterator<Item = &'a Sequence>) {
        for sequence in sequences {
            self.observers.iter_mut().for_each(|observer| observer.begin(sequence));
        }
    }

    /// The variants of all observers, each once.
    pub fn variants(&self) -> BTreeSet<HeadSet> {
        self.observers.iter().flat_map(|observer| observer.variants()).collect()
    }

    /// Begins the variant without these heads.
    pub fn begin_variant(&mut self, removed: &HeadSet) {
        self.observers.iter_mut().for_each(|observer| observer.begin_variant(removed));
    }

    /// Whether some observer may request patched runs.
    pub fn requests_patched_runs(&self) -> bool {
        self.observers.iter().any(|observer| observer.requests_patched_runs())
    }

    /// The patched runs that the observers request for the sequences of the pack.
    pub fn patched_runs(&mut self) -> Vec<RequestedRun> {
        let mut requested = Vec::new();
        for (observer, sums) in self.observers.iter_mut().enumerate() {
            for (sequence, runs) in sums.patched_runs().into_iter().enumerate() {
                let request = |(number, run)| RequestedRun { observer, sequence, number, run };
                requested.extend(runs.into_iter().enumerate().map(request));
            }
        }
        requested
    }

    /// Shows the logits of a patched run to the observer that requested it.
    pub fn patched_logits(
        &mut self,
        &RequestedRun { observer, sequence, number, .. }: &RequestedRun,
        position: usize,
        logits: &[f32],
    ) {
        self.observers[observer].patched_logits(sequence, number, position, logits);
    }

    /// Shows one head over the `number`-th sequence of the pack, which is `sequence`.
    pub fn head(&mut self, number: usize, sequence: &Sequence, view: HeadView<'_>) {
        let mut input = self.folder.head_input(sequence, view);
        self.observers.iter_mut().for_each(|observer| observer.head(number, &mut input));
    }

    /// Shows hidden states to the observers that need them.
    pub fn hidden_states(&mut self, number: usize, layer: usize, states: Rows<'_>) {
        let who = self.observers.iter_mut().filter(|observer| observer.needs().hidden_states);
        who.for_each(|observer| observer.hidden_states(number, layer, states));
    }

    /// Shows logits to the observers that need them.
    pub fn logits(&mut self, number: usize, position: usize, logits: &[f32]) {
        let who = self.observers.iter_mut().filter(|observer| observer.needs().logits);
        who.for_each(|observer| observer.logits(number, position, logits));
    }

    /// Shows derivatives to every observer.
    pub fn gradient(&mut self, number: usize, gradient: &GateGradient) {
        self.observers.iter_mut().for_each(|observer| observer.gradient(number, gradient));
    }

    /// Ends the pack.
    pub fn end(&mut self) {
        self.observers.iter_mut().for_each(|observer| observer.end());
    }

    /// Adds the sums of another set of the same observers.
    pub fn merge(&mut self, other: &Self) {
        self.observers.iter_mut().zip(&other.observers).for_each(|(sums, other)| sums.merge(&**other));
    }

    /// A set of the same observers with the same sums.
    pub fn duplicate(&self) -> Self {
        Self::new(self.observers.iter().map(|observer| observer.duplicate()).collect())
    }

    /// The observers, after the pass.
    pub fn into_observers(self) -> Vec<Box<dyn Observer>> {
        self.observers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    /// Keeps what it is shown, and needs it or not.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    struct Shown {
        needy: bool,
        states: Vec<(u64, usize, usize)>,
        logits: Vec<(u64, usize, usize)>,
        ended: Vec<u64>,
    }

    impl Sums for Shown {
        type SequenceState = u64;

        fn needs(&self) -> Needs {
            Needs { hidden_states: self.needy, logits: self.needy, ..Needs::default() }
        }

        fn begin(&mut self, sequence: &Sequence) -> u64 {
            sequence.index
        }

        fn head(&mut self, _: &mut u64, _: &mut HeadInput<'_>) {}

        fn hidden_states(&mut self, state: &mut u64, layer: usize, states: Rows<'_>) {
            self.states.push((*state, layer, states.count()));
        }

        fn logits(&mut self, state: &mut u64, position: usize, logits: &[f32]) {
            self.logits.push((*state, position, logits.len()));
        }

        fn end(&mut self, state: u64) {
            self.ended.push(state);
        }

        fn merge(&mut self, _: &Self) {}

        fn fits(&self, _: HeadGrid, _: FromToken) -> bool {
            true
        }
    }

    #[test]
    fn hidden_states_and_logits_are_shown_to_those_who_need_them() {
        let shown = |needy| observer_of(Shown { needy, ..Shown::default() });
        let mut observers = ObserverSet::new(vec![shown(true), shown(false)]);
        assert_eq!(observers.needs(), Needs { hidden_states: true, logits: true, ..Needs::default() });
        let sequences = [7, 9].map(|index| Sequence { index, ..Sequence::default() });
        observers.begin(sequences.iter());
        assert!(observers.is_relevant());
        observers.hidden_states(1, 4, Rows::new(&[0.0; 6], 2));
        observers.logits(0, 3, &[0.0; 5]);
        observers.end();
        let observers = observers.into_observers();
        let (states, logits) = (vec![(9, 4, 3)], vec![(7, 3, 5)]);
        assert_eq!(*sums::<Shown>(&*observers[0]), Shown { needy: true, states, logits, ended: vec![7, 9] });
        assert_eq!(*sums::<Shown>(&*observers[1]), Shown { ended: vec![7, 9], ..Shown::default() });
    }
}
