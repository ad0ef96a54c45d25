//! Trials: a sequence once more with one head's weights from some tokens to others cut.

use std::ops::Range;

use crate::model::grid::HeadPlace;

/// A forward pass over one sequence that starts below a head's layer, with weights of that head cut in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchedRun {
    /// The head.
    pub place: HeadPlace,
    /// The tokens that attend.
    pub queries: Range<usize>,
    /// The tokens that they do not attend to; the rest of their attention is scaled to sum to 1.
    pub keys: Range<usize>,
    /// The positions whose logits are wanted.
    pub predicted: Vec<usize>,
}

/// A trial of an observer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedRun {
    /// The observer's place in the panel.
    pub observer: usize,
    /// The sequence of the pack.
    pub sequence: usize,
    /// The trial's place among those of the observer on this sequence.
    pub number: usize,
    /// The trial.
    pub trial: PatchedRun,
}
