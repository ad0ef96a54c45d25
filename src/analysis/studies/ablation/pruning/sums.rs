//! The loss of masked tokens when heads go in some orders, by block.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::model::grid::HeadGrid;
use crate::passes::observer::requests::{HeadSet, heads_at};
use crate::studies::ablation::losses::{Items, Losses};
use crate::studies::ablation::removal::{RemovalSums, Removals};
use crate::study::upstream::Ranking;

pub type PruningSums = RemovalSums<Orders, Losses>;

pub type TaskPruningSums = RemovalSums<Orders, Items>;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Orders {
    pub rankings: Vec<Ranking>,
    /// The places of the heads that are called negligible, which also go one by one, and together.
    pub negligible: Vec<usize>,
    /// The first layer with the weights of each; empty where each has its own. Heads that share their weights go together.
    pub first_layers: Vec<usize>,
}

impl Orders {
    /// These orders, in which heads of layers that share their weights come one after the other: in the order of their mean ranks.
    pub fn new(rankings: Vec<Ranking>, negligible: Vec<usize>, first_layers: Vec<usize>, grid: HeadGrid) -> Self {
        let mut orders = Self { rankings: Vec::new(), negligible, first_layers };
        let together = |Ranking { by, places }: Ranking| {
            let mut groups: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
            for (rank, &place) in places.iter().enumerate() {
                groups.entry(orders.first_of(place, grid)).or_default().push((rank, place));
            }
            let mut groups: Vec<Vec<(usize, usize)>> = groups.into_values().collect();
            let mean =
                |group: &[(usize, usize)]| group.iter().map(|(rank, _)| *rank as f64).sum::<f64>() / group.len() as f64;
            groups.sort_by(|a, b| mean(a).total_cmp(&mean(b)));
            Ranking { by, places: groups.into_iter().flatten().map(|(_, place)| place).collect() }
        };
        orders.rankings = rankings.into_iter().map(together).collect();
        orders
    }

    /// The first of the heads that share the weights of the one at this place.
    fn first_of(&self, place: usize, grid: HeadGrid) -> usize {
        let (layer, head) = grid.at(place);
        grid.index(self.first_layers.get(layer).copied().unwrap_or(layer), head)
    }

    /// The heads that are gone when so many of an order are to go: with them those that share their weights.
    pub fn gone<'a>(&self, order: &'a Ranking, count: usize, grid: HeadGrid) -> &'a [usize] {
        let last = self.first_of(order.places[count - 1], grid);
        let more = order.places[count..].iter().take_while(|&&place| self.first_of(place, grid) == last);
        &order.places[..count + more.count()]
    }
}

impl Removals for Orders {
    /// The beginnings of each order, the negligible heads one by one, and together.
    fn variants(&self, grid: HeadGrid) -> Vec<HeadSet> {
        let Self { rankings, negligible, .. } = self;
        let prefixes = |order: &Ranking| -> Vec<HeadSet> {
            (1..=order.places.len()).map(|count| heads_at(grid, self.gone(order, count, grid))).collect()
        };
        let mut sets: BTreeSet<HeadSet> = rankings.iter().flat_map(prefixes).collect();
        sets.extend(negligible.iter().map(|&place| heads_at(grid, &[place])));
        sets.extend((!negligible.is_empty()).then(|| heads_at(grid, negligible)));
        sets.into_iter().collect()
    }

    fn fit(&self, grid: HeadGrid) -> bool {
        let are_first = self.first_layers.iter().enumerate().all(|(layer, first)| *first <= layer);
        are_first
            && [0, grid.layers].contains(&self.first_layers.len())
            && self.rankings.iter().all(|order| is_an_order(&order.places, grid.count()))
            && self.negligible.iter().all(|&place| place < grid.count())
    }
}

fn is_an_order(places: &[usize], heads: usize) -> bool {
    places.len() == heads && places.iter().collect::<BTreeSet<_>>().into_iter().copied().eq(0..heads)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three layers that share their weights.
    #[test]
    fn heads_that_share_their_weights_go_together() {
        let grid = HeadGrid { layers: 3, heads: 2 };
        let order = Ranking { by: "effect".to_owned(), places: vec![2, 4, 1, 3, 0, 5] };
        let shared = Orders::new(vec![order.clone()], Vec::new(), vec![0, 0, 0], grid);
        // 2, 4 and 0 have ranks 0, 1 and 4, the others 2, 3 and 5.
        assert_eq!(shared.rankings[0].places, [2, 4, 0, 1, 3, 5]);
        assert_eq!([1, 3, 4].map(|count| shared.gone(&shared.rankings[0], count, grid).len()), [3, 3, 6]);
        assert_eq!(shared.variants(grid).len(), 2);
        assert!(shared.fit(grid));
        let alone = Orders::new(vec![order.clone()], Vec::new(), Vec::new(), grid);
        assert_eq!((&alone.rankings[0], alone.variants(grid).len()), (&order, 6));
    }
}
