//! Patched runs: a sequence runs again with one head's attention from some tokens to others cut (attention knockout).

use std::ops::Range;

use crate::model::grid::HeadPlace;

/// A forward pass over one sequence that starts at a head's layer and cuts some of that head's attention.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchedRun {
    /// The head.
    pub place: HeadPlace,
    /// The tokens whose attention is cut.
    pub queries: Range<usize>,
    /// The tokens that they no longer attend to; the rest of their attention is scaled to sum to 1.
    pub keys: Range<usize>,
    /// The positions whose logits are computed.
    pub predicted: Vec<usize>,
}

/// A patched run that an observer requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedRun {
    /// The place of the observer in its set.
    pub observer: usize,
    /// The sequence of the pack.
    pub sequence: usize,
    /// The place of the run among the observer's requests for this sequence.
    pub number: usize,
    /// The run.
    pub run: PatchedRun,
}
