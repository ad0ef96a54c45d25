//! The observers of one forward pass.

use std::collections::BTreeSet;

use super::event::{Event, FoldBuffers};
use super::requests::{HeadSet, RequestedRun};
use super::{Demands, FurtherRuns, Observer};
use crate::model::forward::attention::AttentionView;
use crate::model::forward::visitor::{HeadView, Needs};
use crate::model::grid::HeadPlace;
use crate::passes::setup::PassSetup;
use crate::sequences::sequence::Sequence;

/// The observers of one forward pass, with the buffers that they share.
#[derive(Default)]
pub struct ObserverSet {
    observers: Vec<Box<dyn Observer>>,
    fold_buffers: FoldBuffers,
    /// The heads that the model lacks, such as pruned ones; observers do not see them.
    absent: Vec<HeadPlace>,
}

impl ObserverSet {
    pub fn new(observers: Vec<Box<dyn Observer>>) -> Self {
        Self { observers, ..Self::default() }
    }

    /// Sets the heads that the model lacks.
    pub fn with_absent_heads(self, absent: &[HeadPlace]) -> Self {
        Self { absent: absent.to_vec(), ..self }
    }

    pub fn needs(&self) -> Needs {
        self.observers.iter().fold(Needs::default(), |needs, observer| needs | observer.needs())
    }

    /// Whether any observer needs events of any sequence of the pack.
    pub fn needs_events(&self) -> bool {
        self.observers.iter().any(|observer| observer.needs_events())
    }

    /// The ablation variants that these observers request, without duplicates.
    pub fn requested_variants(observers: &[Box<dyn Observer>]) -> BTreeSet<HeadSet> {
        observers.iter().flat_map(|observer| observer.demands().further_runs.ablated_sets().iter().cloned()).collect()
    }

    pub fn demands(&self) -> impl Iterator<Item = &Demands> {
        self.observers.iter().map(|observer| observer.demands())
    }

    /// Whether any observer requests these further runs.
    pub fn requests(&self, runs: &FurtherRuns) -> bool {
        self.demands().any(|one| one.further_runs == *runs)
    }

    pub fn begin_pass(&mut self, known: &PassSetup<'_>) {
        self.observers.iter_mut().for_each(|observer| observer.begin_pass(known));
    }

    pub fn begin_pack<'a>(&mut self, sequences: impl Iterator<Item = &'a Sequence>) {
        for sequence in sequences {
            self.observers.iter_mut().for_each(|observer| observer.begin(sequence));
        }
    }

    /// Begins the ablation variant that removes these heads, or its [direct run](FurtherRuns::AblationsWithDirectRuns).
    /// Returns whether any observer requested it.
    pub fn begin_variant(&mut self, removed: &HeadSet, is_direct: bool) -> bool {
        let mut is_requested = false;
        // Every observer is asked: one that did not request the variant skips it.
        for observer in &mut self.observers {
            is_requested |= observer.begin_variant(removed, is_direct);
        }
        is_requested
    }

    /// Shows an event of sequence number `number` of the pack to the observers that read it.
    pub fn observe(&mut self, number: usize, mut event: Event<'_>) {
        self.observers.iter_mut().for_each(|observer| observer.observe(number, &mut event));
    }

    /// Passes one head over `sequence`, which is number `number` of the pack, to the observers that read heads. Skips
    /// heads that the model lacks.
    pub fn observe_head(&mut self, number: usize, sequence: &Sequence, view: HeadView<'_>) {
        let AttentionView { layer, head, .. } = view.attention;
        if self.absent.contains(&HeadPlace { layer, head }) {
            return;
        }
        let mut event = Event::Head(self.fold_buffers.head_input(sequence, view));
        self.observers.iter_mut().for_each(|observer| observer.observe(number, &mut event));
    }

    /// The patched runs that observers request after the baseline run, over all `sequences` sequences of the pack.
    pub fn requested_patched_runs(&mut self, sequences: usize) -> Vec<RequestedRun> {
        let mut requested = Vec::new();
        for (observer, sums) in self.observers.iter_mut().enumerate() {
            if sums.demands().further_runs != FurtherRuns::PatchedRuns {
                continue;
            }
            for sequence in 0..sequences {
                let mut event = Event::BaselineEnd(Vec::new());
                sums.observe(sequence, &mut event);
                let Event::BaselineEnd(runs) = event else { unreachable!("no observer makes it another event") };
                let request = |(number, run)| RequestedRun { observer, sequence, run_index: number, run };
                requested.extend(runs.into_iter().enumerate().map(request));
            }
        }
        requested
    }

    /// Shows the logits at a position of a patched run to the observer that requested the run.
    pub fn observe_patched_logits(&mut self, requested: &RequestedRun, position: usize, logits: &[f32]) {
        let &RequestedRun { observer, sequence, run_index: number, .. } = requested;
        self.observers[observer].observe(sequence, &mut Event::PatchedLogits { run: number, position, logits });
    }

    pub fn end_pack(&mut self) {
        self.observers.iter_mut().for_each(|observer| observer.end_pack());
    }

    pub fn merge(&mut self, other: &Self) {
        self.observers.iter_mut().zip(&other.observers).for_each(|(sums, other)| sums.merge(&**other));
    }

    pub fn duplicate(&self) -> Self {
        Self::new(self.observers.iter().map(|observer| observer.duplicate()).collect()).with_absent_heads(&self.absent)
    }

    pub fn into_observers(self) -> Vec<Box<dyn Observer>> {
        self.observers
    }
}
