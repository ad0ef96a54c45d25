//! Variants: the forward passes that each pack goes through, one after the other, and where each of them begins.
//!
//! What goes into a layer does not depend on the heads of that layer, so a pack is run whole once, and without some heads
//! only from the first of their layers on.

use std::collections::BTreeSet;

use crate::model::forward::gates::{Gate, Gates};
use crate::model::grid::{HeadGrid, HeadPlace};

/// The heads that are missing from a forward pass, beside those that all turns of its pass go without; at least one.
pub type HeadSet = BTreeSet<HeadPlace>;

/// One head.
pub fn head(place: HeadPlace) -> HeadSet {
    HeadSet::from([place])
}

/// Every head, alone, in order.
pub fn each_head(grid: HeadGrid) -> impl Iterator<Item = HeadSet> {
    grid.places().map(head)
}

/// The heads at these places of the list of all.
pub fn heads_at(grid: HeadGrid, places: &[usize]) -> HeadSet {
    places.iter().map(|&place| grid.place(place)).collect()
}

/// All heads of a model.
pub fn all_heads(grid: HeadGrid) -> HeadSet {
    grid.places().collect()
}

/// Every head, alone, in order, and in the last turn all of them; of a model with one head these are one turn.
pub fn each_head_and_all(grid: HeadGrid) -> Vec<HeadSet> {
    each_head(grid).chain((grid.count() > 1).then(|| all_heads(grid))).collect()
}

/// The turns of a pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Variants {
    /// The interventions of the first turn, which runs from the embeddings.
    pub first: Gates,
    /// The turns after it.
    pub others: Vec<Turn>,
}

/// A forward pass that starts from what went into a layer in the first turn.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// The heads that it goes without.
    pub missing: HeadSet,
    /// The first layer that runs.
    pub layer: usize,
    /// All its interventions.
    pub gates: Gates,
}

impl Variants {
    /// One turn.
    pub fn once(first: Gates) -> Self {
        Self { first, others: Vec::new() }
    }

    /// The same first turn, in which each head is on its way to its gate of `gates`, `[layers * heads]`: whole, with the
    /// gate's replacement. Heads with a gate of their own stay where they are.
    pub fn towards(mut self, grid: HeadGrid, gates: &[Gate]) -> Self {
        for (HeadPlace { layer, head }, gate) in grid.places().zip(gates) {
            if self.first.of(layer, head).is_none() {
                self.first.set(layer, head, Gate { keep: 1.0, ..gate.clone() });
            }
        }
        self
    }

    /// A turn with all heads, and one without each of these sets of heads, every missing head being replaced by its gate of
    /// `gates`, `[layers * heads]`. The interventions of the first turn are those of all.
    pub fn without(self, missing: impl IntoIterator<Item = HeadSet>, grid: HeadGrid, gates: &[Gate]) -> Self {
        let turn = |missing: HeadSet| {
            let mut interventions = self.first.clone();
            for &HeadPlace { layer, head } in &missing {
                // Zeros for good are zeros whatever else is removed.
                if self.first.of(layer, head).is_none() {
                    interventions.set(layer, head, gates[grid.index(layer, head)].clone());
                }
            }
            let layer = missing.first().map_or(0, |place| place.layer);
            Turn { missing, layer, gates: interventions }
        };
        let others = missing.into_iter().map(turn).collect();
        Self { others, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRID: HeadGrid = HeadGrid { layers: 2, heads: 1 };

    #[test]
    fn each_head_is_missing_once_and_then_all_are() {
        let gates = [Gate::scale(0.5), Gate::scale(0.25)];
        let turns = Variants::default().without(each_head_and_all(GRID), GRID, &gates);
        let missing: Vec<_> = turns.others.iter().map(|turn| (turn.missing.clone(), turn.layer)).collect();
        let place = |layer| HeadPlace { layer, head: 0 };
        assert_eq!(missing, [(head(place(0)), 0), (head(place(1)), 1), ([0, 1].map(place).into(), 0)]);
        let of = |turn: usize| [0, 1].map(|layer| turns.others[turn].gates.of(layer, 0).cloned());
        let [first, second] = gates.map(Some);
        assert_eq!(of(0), [first.clone(), None]);
        assert_eq!(of(1), [None, second.clone()]);
        assert_eq!(of(2), [first, second]);
    }

    #[test]
    fn heads_on_their_way_are_whole() {
        let by = std::array::from_fn(|class| vec![class as f32]);
        let mut first = Gates::default();
        first.set(1, 0, Gate::scale(0.0));
        let turns = Variants::once(first).towards(GRID, &[Gate::replace(by.clone()), Gate::replace(by.clone())]);
        assert_eq!(turns.first.of(0, 0), Some(&Gate { keep: 1.0, replacement: Some(by.into()) }));
        assert_eq!((turns.first.of(1, 0), turns.others.len()), (Some(&Gate::scale(0.0)), 0));
    }

    #[test]
    fn all_of_one_head_is_that_head() {
        let grid = HeadGrid { layers: 1, heads: 1 };
        assert_eq!((each_head_and_all(grid).len(), each_head_and_all(GRID).len()), (1, 3));
    }

    #[test]
    fn a_head_that_is_gone_for_good_stays_as_it_is() {
        let mut first = Gates::default();
        first.set(0, 0, Gate::scale(0.0));
        let turns =
            Variants::once(first.clone()).without([head(HeadPlace { layer: 0, head: 0 })], GRID, &[Gate::scale(0.5)]);
        assert!(turns.others.iter().all(|turn| turn.gates == first));
    }
}
