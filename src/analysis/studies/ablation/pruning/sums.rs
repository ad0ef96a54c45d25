//! The loss of masked tokens when heads go in some orders, by block.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::model::forward::visitor::Needs;
use crate::model::grid::HeadGrid;
use crate::passes::beforehand::Beforehand;
use crate::passes::observer::{Event, FurtherRuns, Sums};
use crate::passes::run::variants::{HeadSet, heads_at};
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::studies::ablation::losses::{LossState, LossesWithout};
use crate::study::upstream::Ranking;

/// The sums of all blocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PruningSums {
    orders: Vec<Ranking>,
    /// Heads that are called negligible.
    negligible: Vec<usize>,
    losses: LossesWithout,
}

/// The sets of heads that go: the beginnings of each order, the negligible ones one by one, and together.
fn sets(grid: HeadGrid, orders: &[Ranking], negligible: &[usize]) -> BTreeSet<HeadSet> {
    let prefixes = |order: &Ranking| -> Vec<HeadSet> {
        (1..=order.places.len()).map(|count| heads_at(grid, &order.places[..count])).collect()
    };
    let mut sets: BTreeSet<HeadSet> = orders.iter().flat_map(prefixes).collect();
    sets.extend(negligible.iter().map(|&place| heads_at(grid, &[place])));
    sets.extend((!negligible.is_empty()).then(|| heads_at(grid, negligible)));
    sets
}

impl PruningSums {
    /// Empty sums for a model with `grid` heads that go in these orders; those at the places `negligible` also go one by one,
    /// and together.
    pub fn new(grid: HeadGrid, orders: Vec<Ranking>, negligible: Vec<usize>) -> Self {
        let losses = LossesWithout::new(grid, sets(grid, &orders, &negligible));
        Self { orders, negligible, losses }
    }

    /// The orders in which heads go.
    pub fn orders(&self) -> &[Ranking] {
        &self.orders
    }

    /// The places of the heads that are called negligible.
    pub fn negligible(&self) -> &[usize] {
        &self.negligible
    }

    /// The losses with all heads and without the sets.
    pub fn losses(&self) -> &LossesWithout {
        &self.losses
    }
}

impl Sums for PruningSums {
    type SequenceState = LossState;

    fn needs(&self) -> Needs {
        Needs { logits: true, ..Needs::default() }
    }

    fn begin_pass(&mut self, known: &Beforehand<'_>) {
        self.losses.begin_pass(known);
    }

    fn begin(&mut self, sequence: &Sequence) -> LossState {
        self.losses.begin(sequence)
    }

    fn is_relevant(state: &LossState) -> bool {
        state.is_relevant()
    }

    fn further_runs(&self) -> FurtherRuns {
        FurtherRuns::Without(self.losses.variants().to_vec())
    }

    fn observe(&mut self, state: &mut LossState, event: &mut Event<'_>) {
        match event {
            Event::Variant(variant) => state.begin_variant(*variant),
            Event::Logits { position, logits } => self.logits(state, *position, logits),
            _ => {}
        }
    }

    fn merge(&mut self, other: &Self) {
        self.losses.merge(&other.losses);
    }

    fn fits(&self, grid: HeadGrid, _: FromToken) -> bool {
        self.orders.iter().all(|order| is_an_order(&order.places, grid.count()))
            && self.negligible.iter().all(|&place| place < grid.count())
            && self.losses.fit(grid, &sets(grid, &self.orders, &self.negligible))
    }
}

impl PruningSums {
    fn logits(&mut self, state: &mut LossState, position: usize, logits: &[f32]) {
        self.losses.logits(state, position, logits);
    }
}

/// Whether these are all places once.
fn is_an_order(places: &[usize], heads: usize) -> bool {
    places.len() == heads && places.iter().collect::<BTreeSet<_>>().into_iter().copied().eq(0..heads)
}
