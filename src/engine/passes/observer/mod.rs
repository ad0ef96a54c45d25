//! Observers: exact sums of what is seen of each head in a pass.
//!
//! A study's sums implement [`Sums`]; a pass knows them as [`Observer`]s, of whatever type they are.
//! All sums are exact (integers, or [`crate::stats::exact::ExactSum`]), so the result does not depend on who added what
//! when, and sums of workers and shards add up to those of one run.

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

/// Sums of what every head does in the sequences of a pass.
pub trait Sums: Clone + Send + Sync + Serialize + DeserializeOwned + 'static {
    /// All that the sums must know of a sequence, worked out once for all its heads.
    type SequenceState: Send + Sync;

    /// The parts of the forward pass that are to be shown; what nobody needs is not computed.
    fn needs(&self) -> Needs {
        Needs::ATTENTION
    }

    /// Is told what is known before the pass begins.
    fn begin_pass(&mut self, _known: &Beforehand) {}

    /// Is shown the encoder before the pass begins, for what its weights tell by themselves.
    fn inspect_weights(&mut self, _encoder: &dyn Encoder) {}

    /// Counts a sequence, and all that does not depend on a head.
    fn begin(&mut self, sequence: &Sequence) -> Self::SequenceState;

    /// Whether there is anything to see in a sequence that was begun: what nobody looks at does not run.
    fn looks(_begun: &Self::SequenceState) -> bool {
        true
    }

    /// The turns that it wants to see after the first, in which no head is missing: forward passes without these heads.
    fn turns(&self) -> Vec<HeadSet> {
        Vec::new()
    }

    /// Is told that what is shown of a sequence from here on is of one of its turns, by the place in [`Sums::turns`].
    fn turn(&mut self, _begun: &mut Self::SequenceState, _number: usize) {}

    /// Whether it may ask for trials.
    fn tries(&self) -> bool {
        false
    }

    /// The trials that it wants to see of a sequence, asked for when the first turn is over.
    fn trials(&mut self, _begun: &mut Self::SequenceState) -> Vec<PatchedRun> {
        Vec::new()
    }

    /// Sees the logits of a trial, `[classes]`, at one of the positions that it predicts; `number` is its place in
    /// [`Sums::trials`].
    fn tried(&mut self, _begun: &mut Self::SequenceState, _number: usize, _position: usize, _logits: &[f32]) {}

    /// Adds what one head does in a sequence that was begun.
    fn head(&mut self, begun: &mut Self::SequenceState, lent: &mut HeadInput<'_>);

    /// Sees the hidden states of a sequence, `[n, hidden]`, that go into a layer, if they are needed.
    fn hidden_states(&mut self, _begun: &mut Self::SequenceState, _layer: usize, _states: Rows<'_>) {}

    /// Sees the logits at a predicted position, `[classes]`, if they are needed.
    fn logits(&mut self, _begun: &mut Self::SequenceState, _position: usize, _logits: &[f32]) {}

    /// Sees the derivatives of the loss of a sequence, the sum over its predicted positions, by the gates of all heads,
    /// in a pass that has them.
    fn gradient(&mut self, _begun: &mut Self::SequenceState, _gradient: &GateGradient) {}

    /// Is told that everything was seen of a sequence.
    fn end(&mut self, _begun: Self::SequenceState) {}

    /// Is told that the pack is over: the sequences that ended since the last time ran side by side, whoever ran them.
    fn end_pack(&mut self) {}

    /// Adds another worker's or shard's sums: afterwards it is as if all its sequences had been seen here.
    /// Panics if the two are not of one analysis.
    fn merge(&mut self, other: &Self);

    /// The same sums in an order that does not depend on who met what first: equal sums are then equal bytes.
    fn in_order(&self) -> Self {
        self.clone()
    }

    /// The same sums with all blocks of sentences in one, where nothing depends on blocks.
    fn pooled(&self) -> Self {
        self.clone()
    }

    /// Whether these are sums of such heads, and all lists have the lengths that this implies: what was read from a
    /// file may be anything.
    fn fits(&self, grid: HeadGrid, from: FromToken) -> bool;
}

/// One head over one sequence, as a pass lends it to every observer in turn.
pub struct HeadInput<'a> {
    /// The head at work: its attention, and what else is needed.
    pub view: HeadView<'a>,
    sequence: &'a Sequence,
    folded: &'a mut Folder,
}

/// Room to fold attention to words and to text, reused from head to head.
#[derive(Clone, Debug, Default)]
pub struct Folder {
    words: [Folded<WordAttention>; 2],
    text: Folded<TextAttention>,
}

impl Folder {
    /// One head over `sequence`, with room to fold it.
    pub fn lend<'a>(&'a mut self, sequence: &'a Sequence, view: HeadView<'a>) -> HeadInput<'a> {
        self.words.iter_mut().for_each(|folded| folded.done = false);
        self.text.done = false;
        HeadInput { view, sequence, folded: self }
    }
}

/// Attention by one way of folding: worked out when it is first asked for.
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

    /// The attention between words, `[words, words]`, folded by `from`; whoever asks again gets the same one.
    pub fn words(&mut self, from: FromToken) -> &WordAttention {
        let folded = &mut self.folded.words[usize::from(from == FromToken::First)];
        if !folded.done {
            folded.attention.fold(self.view.attention, &self.sequence.words, from);
            folded.done = true;
        }
        &folded.attention
    }

    /// The attention between tokens of text; whoever asks again gets the same.
    pub fn text(&mut self) -> &TextAttention {
        let folded = &mut self.folded.text;
        if !folded.done {
            folded.attention.fold(self.view.attention, &self.sequence.kinds);
            folded.done = true;
        }
        &folded.attention
    }
}

/// Sums of some study: [`Sums`] of a type that only the study knows.
pub trait Observer: Send + Sync {
    /// [`Sums::needs`]
    fn needs(&self) -> Needs;

    /// [`Sums::begin_pass`]
    fn begin_pass(&mut self, known: &Beforehand);

    /// [`Sums::inspect_weights`]
    fn inspect_weights(&mut self, encoder: &dyn Encoder);

    /// Begins the next sequence of a pack.
    fn begin(&mut self, sequence: &Sequence);

    /// [`Sums::looks`], at some sequence of those begun.
    fn looks(&self) -> bool;

    /// [`Sums::turns`]
    fn turns(&self) -> Vec<HeadSet>;

    /// Begins a turn; one that the sums did not ask for is not shown to them.
    fn turn(&mut self, missing: &HeadSet);

    /// [`Sums::tries`]
    fn tries(&self) -> bool;

    /// [`Sums::trials`], of each sequence that was begun.
    fn trials(&mut self) -> Vec<Vec<PatchedRun>>;

    /// [`Sums::tried`], of the `sequence`-th of those begun.
    fn tried(&mut self, sequence: usize, number: usize, position: usize, logits: &[f32]);

    /// Adds what one head does in the `sequence`-th of those begun.
    fn head(&mut self, sequence: usize, lent: &mut HeadInput<'_>);

    /// [`Sums::hidden_states`], of the `sequence`-th of those begun.
    fn hidden_states(&mut self, sequence: usize, layer: usize, states: Rows<'_>);

    /// [`Sums::logits`], of the `sequence`-th of those begun.
    fn logits(&mut self, sequence: usize, position: usize, logits: &[f32]);

    /// [`Sums::gradient`], of the `sequence`-th of those begun.
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
    /// Of the sequences of the pack.
    begun: Vec<S::SequenceState>,
    /// Where each turn that the sums ask for is in their list.
    turns: BTreeMap<HeadSet, usize>,
    /// Whether the turn is one of others.
    is_away: bool,
}

/// An observer with these sums.
pub fn observer_of<S: Sums>(sums: S) -> Box<dyn Observer> {
    let turns = sums.turns().into_iter().enumerate().map(|(number, missing)| (missing, number)).collect();
    Box::new(ObserverAdapter { sums, begun: Vec::new(), turns, is_away: false })
}

/// An observer with the sums that [`Observer::to_bytes`] wrote.
/// Fails if the bytes are no such sums, or have larger ones than can be added up.
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
        if self.is_away { Needs::default() } else { self.sums.needs() }
    }

    fn begin_pass(&mut self, known: &Beforehand) {
        self.sums.begin_pass(known);
    }

    fn inspect_weights(&mut self, encoder: &dyn Encoder) {
        self.sums.inspect_weights(encoder);
    }

    fn begin(&mut self, sequence: &Sequence) {
        let begun = self.sums.begin(sequence);
        self.begun.push(begun);
    }

    fn looks(&self) -> bool {
        self.begun.iter().any(S::looks)
    }

    fn turns(&self) -> Vec<HeadSet> {
        self.sums.turns()
    }

    fn turn(&mut self, missing: &HeadSet) {
        let number = self.turns.get(missing);
        self.is_away = number.is_none();
        if let Some(&number) = number {
            self.begun.iter_mut().for_each(|begun| self.sums.turn(begun, number));
        }
    }

    fn tries(&self) -> bool {
        self.sums.tries()
    }

    fn trials(&mut self) -> Vec<Vec<PatchedRun>> {
        self.begun.iter_mut().map(|begun| self.sums.trials(begun)).collect()
    }

    fn tried(&mut self, sequence: usize, number: usize, position: usize, logits: &[f32]) {
        self.sums.tried(&mut self.begun[sequence], number, position, logits);
    }

    fn head(&mut self, sequence: usize, lent: &mut HeadInput<'_>) {
        if !self.is_away {
            self.sums.head(&mut self.begun[sequence], lent);
        }
    }

    fn hidden_states(&mut self, sequence: usize, layer: usize, states: Rows<'_>) {
        self.sums.hidden_states(&mut self.begun[sequence], layer, states);
    }

    fn logits(&mut self, sequence: usize, position: usize, logits: &[f32]) {
        self.sums.logits(&mut self.begun[sequence], position, logits);
    }

    fn gradient(&mut self, sequence: usize, gradient: &GateGradient) {
        self.sums.gradient(&mut self.begun[sequence], gradient);
    }

    fn end(&mut self) {
        for begun in self.begun.drain(..) {
            self.sums.end(begun);
        }
        self.sums.end_pack();
        self.is_away = false;
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

/// Several observers that look at one forward pass.
#[derive(Default)]
pub struct ObserverSet {
    observers: Vec<Box<dyn Observer>>,
    folder: Folder,
}

impl ObserverSet {
    /// A panel of these observers.
    pub fn new(observers: Vec<Box<dyn Observer>>) -> Self {
        Self { observers, folder: Folder::default() }
    }

    /// Whether somebody looks at some sequence of the pack that was begun.
    pub fn looks(&self) -> bool {
        self.observers.iter().any(|observer| observer.looks())
    }

    /// All that some observer needs.
    pub fn needs(&self) -> Needs {
        self.observers.iter().fold(Needs::default(), |needs, observer| needs | observer.needs())
    }

    /// Tells everybody what is known before the pass begins.
    pub fn begin_pass(&mut self, known: &Beforehand) {
        self.observers.iter_mut().for_each(|observer| observer.begin_pass(known));
    }

    /// Shows everybody the encoder before the pass begins.
    pub fn inspect_weights(&mut self, encoder: &dyn Encoder) {
        self.observers.iter_mut().for_each(|observer| observer.inspect_weights(encoder));
    }

    /// Begins the sequences of a pack.
    pub fn begin<'a>(&mut self, sequences: impl Iterator<Item = &'a Sequence>) {
        for sequence in sequences {
            self.observers.iter_mut().for_each(|observer| observer.begin(sequence));
        }
    }

    /// The turns that somebody asks for, each once.
    pub fn turns(&self) -> BTreeSet<HeadSet> {
        self.observers.iter().flat_map(|observer| observer.turns()).collect()
    }

    /// Begins a turn without these heads.
    pub fn turn(&mut self, missing: &HeadSet) {
        self.observers.iter_mut().for_each(|observer| observer.turn(missing));
    }

    /// Whether somebody may ask for trials.
    pub fn tries(&self) -> bool {
        self.observers.iter().any(|observer| observer.tries())
    }

    /// The trials that are asked for of the sequences of the pack.
    pub fn trials(&mut self) -> Vec<RequestedRun> {
        let mut asked = Vec::new();
        for (observer, observing) in self.observers.iter_mut().enumerate() {
            for (sequence, trials) in observing.trials().into_iter().enumerate() {
                let of = |(number, trial)| RequestedRun { observer, sequence, number, trial };
                asked.extend(trials.into_iter().enumerate().map(of));
            }
        }
        asked
    }

    /// Shows the logits of a trial to who asked for it.
    pub fn tried(
        &mut self,
        &RequestedRun { observer, sequence, number, .. }: &RequestedRun,
        position: usize,
        logits: &[f32],
    ) {
        self.observers[observer].tried(sequence, number, position, logits);
    }

    /// Shows one head over the `number`-th sequence of the pack, which is `sequence`.
    pub fn head(&mut self, number: usize, sequence: &Sequence, view: HeadView<'_>) {
        let mut lent = self.folder.lend(sequence, view);
        self.observers.iter_mut().for_each(|observer| observer.head(number, &mut lent));
    }

    /// Shows hidden states to those who need them.
    pub fn hidden_states(&mut self, number: usize, layer: usize, states: Rows<'_>) {
        let who = self.observers.iter_mut().filter(|observer| observer.needs().hidden_states);
        who.for_each(|observer| observer.hidden_states(number, layer, states));
    }

    /// Shows logits to those who need them.
    pub fn logits(&mut self, number: usize, position: usize, logits: &[f32]) {
        let who = self.observers.iter_mut().filter(|observer| observer.needs().logits);
        who.for_each(|observer| observer.logits(number, position, logits));
    }

    /// Shows derivatives to everybody.
    pub fn gradient(&mut self, number: usize, gradient: &GateGradient) {
        self.observers.iter_mut().for_each(|observer| observer.gradient(number, gradient));
    }

    /// Ends the pack.
    pub fn end(&mut self) {
        self.observers.iter_mut().for_each(|observer| observer.end());
    }

    /// Adds what another panel of the same observers saw.
    pub fn merge(&mut self, other: &Self) {
        self.observers.iter_mut().zip(&other.observers).for_each(|(sums, other)| sums.merge(&**other));
    }

    /// A panel of the same observers with the same sums.
    pub fn duplicate(&self) -> Self {
        Self::new(self.observers.iter().map(|observer| observer.duplicate()).collect())
    }

    /// The observers, when all was seen.
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

        fn hidden_states(&mut self, begun: &mut u64, layer: usize, states: Rows<'_>) {
            self.states.push((*begun, layer, states.count()));
        }

        fn logits(&mut self, begun: &mut u64, position: usize, logits: &[f32]) {
            self.logits.push((*begun, position, logits.len()));
        }

        fn end(&mut self, begun: u64) {
            self.ended.push(begun);
        }

        fn merge(&mut self, _: &Self) {}

        fn fits(&self, _: HeadGrid, _: FromToken) -> bool {
            true
        }
    }

    #[test]
    fn hidden_states_and_logits_are_shown_to_those_who_need_them() {
        let shown = |needy| observer_of(Shown { needy, ..Shown::default() });
        let mut panel = ObserverSet::new(vec![shown(true), shown(false)]);
        assert_eq!(panel.needs(), Needs { hidden_states: true, logits: true, ..Needs::default() });
        let sequences = [7, 9].map(|index| Sequence { index, ..Sequence::default() });
        panel.begin(sequences.iter());
        assert!(panel.looks());
        panel.hidden_states(1, 4, Rows::new(&[0.0; 6], 2));
        panel.logits(0, 3, &[0.0; 5]);
        panel.end();
        let observers = panel.into_observers();
        let (states, logits) = (vec![(9, 4, 3)], vec![(7, 3, 5)]);
        assert_eq!(*sums::<Shown>(&*observers[0]), Shown { needy: true, states, logits, ended: vec![7, 9] });
        assert_eq!(*sums::<Shown>(&*observers[1]), Shown { ended: vec![7, 9], ..Shown::default() });
    }
}
