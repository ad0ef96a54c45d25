//! Turns: the forward passes that each pack goes through, one after the other, and where each of them begins.
//!
//! What goes into a layer does not depend on the heads of that layer, so a pack is run whole once, and without a head only
//! from the head's layer on.

use crate::model::forward::gates::{Gate, Gates};
use crate::model::grid::{HeadGrid, HeadPlace};

/// The heads that are missing from a forward pass, beside those that all turns of its pass go without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// None: the first turn.
    Nothing,
    /// One head.
    Head(HeadPlace),
    /// Every head of the model.
    All,
}

/// The turns of a pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Turns {
    /// The interventions of the first turn, which runs from the embeddings.
    pub first: Gates,
    /// The turns after it.
    pub others: Vec<Turn>,
}

/// A forward pass that starts from what went into a layer in the first turn.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// The heads that it goes without.
    pub missing: Missing,
    /// The first layer that runs.
    pub layer: usize,
    /// All its interventions.
    pub gates: Gates,
}

impl Turns {
    /// One turn.
    #[must_use]
    pub fn once(first: Gates) -> Self {
        Self { first, others: Vec::new() }
    }

    /// One turn, in which each head is on its way to its gate of `gates`, `[layers * heads]`: whole, with the gate's
    /// replacement. The interventions of `first` stay.
    #[must_use]
    pub fn towards(mut first: Gates, grid: HeadGrid, gates: &[Gate]) -> Self {
        for (place, gate) in gates.iter().enumerate() {
            let (layer, head) = grid.at(place);
            if first.of(layer, head).is_none() {
                first.set(layer, head, Gate { keep: 1.0, ..gate.clone() });
            }
        }
        Self::once(first)
    }

    /// A turn with all heads, one without each of them, and one without any, each missing head being replaced by its gate of
    /// `gates`, `[layers * heads]`. The interventions of the first turn are those of all.
    #[must_use]
    pub fn each_head(first: Gates, grid: HeadGrid, gates: &[Gate]) -> Self {
        let places: Vec<HeadPlace> = (0..grid.count())
            .map(|place| {
                let (layer, head) = grid.at(place);
                HeadPlace { layer, head }
            })
            .collect();
        // Zeros for good are zeros whatever else is removed.
        let mut without = first.clone();
        let one = |(&place, gate): (&HeadPlace, &Gate)| {
            let HeadPlace { layer, head } = place;
            let mut gates = first.clone();
            if gates.of(layer, head).is_none() {
                gates.set(layer, head, gate.clone());
                without.set(layer, head, gate.clone());
            }
            Turn { missing: Missing::Head(place), layer, gates }
        };
        let mut others: Vec<Turn> = places.iter().zip(gates).map(one).collect();
        others.push(Turn { missing: Missing::All, layer: 0, gates: without });
        Self { first, others }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_head_is_missing_once_and_then_all_are() {
        let (grid, gates) = (HeadGrid { layers: 2, heads: 1 }, [Gate::scale(0.5), Gate::scale(0.25)]);
        let turns = Turns::each_head(Gates::default(), grid, &gates);
        let missing: Vec<_> = turns.others.iter().map(|turn| (turn.missing, turn.layer)).collect();
        let head = |layer| Missing::Head(HeadPlace { layer, head: 0 });
        assert_eq!(missing, [(head(0), 0), (head(1), 1), (Missing::All, 0)]);
        let of = |turn: usize| [0, 1].map(|layer| turns.others[turn].gates.of(layer, 0).cloned());
        let [first, second] = gates.map(Some);
        assert_eq!(of(0), [first.clone(), None]);
        assert_eq!(of(1), [None, second.clone()]);
        assert_eq!(of(2), [first, second]);
    }

    #[test]
    fn heads_on_their_way_are_whole() {
        let (grid, by) = (HeadGrid { layers: 1, heads: 2 }, std::array::from_fn(|class| vec![class as f32]));
        let mut first = Gates::default();
        first.set(0, 1, Gate::scale(0.0));
        let turns = Turns::towards(first, grid, &[Gate::replace(by.clone()), Gate::replace(by.clone())]);
        assert_eq!(turns.first.of(0, 0), Some(&Gate { keep: 1.0, replacement: Some(by) }));
        assert_eq!((turns.first.of(0, 1), turns.others.len()), (Some(&Gate::scale(0.0)), 0));
    }

    #[test]
    fn a_head_that_is_gone_for_good_stays_as_it_is() {
        let mut first = Gates::default();
        first.set(0, 0, Gate::scale(0.0));
        let turns = Turns::each_head(first.clone(), HeadGrid { layers: 1, heads: 1 }, &[Gate::scale(0.5)]);
        assert!(turns.others.iter().all(|turn| turn.gates == first));
    }
}
