//! Further runs that observers request. An ablation variant is given by its removed heads. In a patched run, a sequence runs
//! again with some attention rows of one head replaced.

use std::collections::BTreeSet;

use crate::model::forward::gates::AttentionRows;
use crate::model::grid::{HeadGrid, HeadPlace};

/// The heads that a variant removes (at least one), in addition to the heads that all variants of its pass remove.
pub type HeadSet = BTreeSet<HeadPlace>;

pub fn single_head_set(place: HeadPlace) -> HeadSet {
    HeadSet::from([place])
}

pub fn single_head_sets(grid: HeadGrid) -> impl Iterator<Item = HeadSet> {
    grid.places().map(single_head_set)
}

pub fn head_set_at(grid: HeadGrid, places: &[usize]) -> HeadSet {
    places.iter().map(|&place| grid.place(place)).collect()
}

pub fn all_heads(grid: HeadGrid) -> HeadSet {
    grid.places().collect()
}

/// The sets of one head each, in order, then the set of all heads. A model with one head has a single set.
pub fn single_head_sets_and_all(grid: HeadGrid) -> Vec<HeadSet> {
    single_head_sets(grid).chain((grid.count() > 1).then(|| all_heads(grid))).collect()
}

/// A forward pass over one sequence from a head's layer on, in which some attention rows of that head are replaced.
#[derive(Clone, Debug, PartialEq)]
pub struct PatchedRun {
    pub place: HeadPlace,
    pub rows: AttentionRows,
    /// The positions whose logits are computed.
    pub predicted: Vec<usize>,
}

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
