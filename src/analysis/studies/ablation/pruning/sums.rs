//! The loss of masked tokens when heads go in some orders, by block.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::model::grid::HeadGrid;
use crate::passes::observer::requests::{HeadSet, heads_at};
use crate::studies::ablation::losses::Losses;
use crate::studies::ablation::removal::{RemovalSums, Removals};
use crate::study::upstream::Ranking;

/// The losses when heads go.
pub type PruningSums = RemovalSums<Orders, Losses>;

/// The orders in which heads go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Orders {
    /// All heads, each time.
    pub rankings: Vec<Ranking>,
    /// The places of the heads that are called negligible, which also go one by one, and together.
    pub negligible: Vec<usize>,
}

impl Removals for Orders {
    /// The beginnings of each order, the negligible heads one by one, and together.
    fn variants(&self, grid: HeadGrid) -> Vec<HeadSet> {
        let Self { rankings, negligible } = self;
        let prefixes = |order: &Ranking| -> Vec<HeadSet> {
            (1..=order.places.len()).map(|count| heads_at(grid, &order.places[..count])).collect()
        };
        let mut sets: BTreeSet<HeadSet> = rankings.iter().flat_map(prefixes).collect();
        sets.extend(negligible.iter().map(|&place| heads_at(grid, &[place])));
        sets.extend((!negligible.is_empty()).then(|| heads_at(grid, negligible)));
        sets.into_iter().collect()
    }

    fn fit(&self, grid: HeadGrid) -> bool {
        self.rankings.iter().all(|order| is_an_order(&order.places, grid.count()))
            && self.negligible.iter().all(|&place| place < grid.count())
    }
}

/// Whether these are all places once.
fn is_an_order(places: &[usize], heads: usize) -> bool {
    places.len() == heads && places.iter().collect::<BTreeSet<_>>().into_iter().copied().eq(0..heads)
}
