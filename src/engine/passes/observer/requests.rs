//! Further runs that observers request. An ablation variant is given by its removed heads. In a patched run, a sequence runs
//! again with some attention rows of one head replaced.

use std::collections::BTreeSet;

use crate::model::forward::gates::PatchedRows;
use crate::model::grid::{HeadGrid, HeadPlace};

/// The heads that an ablation variant removes, at least one. Heads that the whole pass removes are not among them.
pub type HeadSet = BTreeSet<HeadPlace>;

pub fn single_head_set(place: HeadPlace) -> HeadSet {
    HeadSet::from([place])
}

/// One set for each head, with this head alone, layer by layer.
pub fn single_head_sets(grid: HeadGrid) -> impl Iterator<Item = HeadSet> {
    grid.head_places().map(single_head_set)
}

/// The heads with the indices `places`, counted layer by layer.
pub fn head_set_at(grid: HeadGrid, places: &[usize]) -> HeadSet {
    places.iter().map(|&place| grid.head_place(place)).collect()
}

pub fn all_heads(grid: HeadGrid) -> HeadSet {
    grid.head_places().collect()
}

/// The sets of one head each, in order, and then the set of all heads. For a model with one head, that is a single set.
pub fn single_head_sets_and_all(grid: HeadGrid) -> Vec<HeadSet> {
    single_head_sets(grid).chain((grid.head_count() > 1).then(|| all_heads(grid))).collect()
}

/// A forward pass over one sequence in which some attention rows of one head are replaced. It begins at the layer of that
/// head.
#[derive(Clone, Debug, PartialEq)]
pub struct PatchedRun {
    pub place: HeadPlace,
    /// The attention rows that replace the head's own, keyed by query.
    pub rows: PatchedRows,
    /// Positions whose logits are computed.
    pub predicted: Vec<usize>,
}

/// A patched run, with the observer and the sequence that it belongs to.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestedRun {
    /// Index of the observer in its observer set.
    pub observer: usize,
    /// Index of the sequence in its pack.
    pub sequence: usize,
    /// Index of the run among the observer's requests for this sequence.
    pub run_index: usize,
    pub run: PatchedRun,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_one_head_is_that_head() {
        let grid = HeadGrid { layers: 1, heads: 1 };
        assert_eq!(
            (single_head_sets_and_all(grid).len(), single_head_sets_and_all(HeadGrid { layers: 2, heads: 1 }).len()),
            (1, 3)
        );
    }
}
