//! Patched runs: a sequence runs again with other rows of attention in place of one head's own.

use crate::model::forward::gates::AttentionRows;
use crate::model::grid::HeadPlace;

/// A forward pass over one sequence that starts at a head's layer, with other attention of that head from some tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct PatchedRun {
    /// The head.
    pub place: HeadPlace,
    /// The rows that stand in place of its own.
    pub rows: AttentionRows,
    /// The positions whose logits are computed.
    pub predicted: Vec<usize>,
}

/// A patched run that an observer requested.
#[derive(Clone, Debug, PartialEq)]
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
