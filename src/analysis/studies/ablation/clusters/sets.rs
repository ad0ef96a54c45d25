//! The sets of heads that are removed.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::model::grid::HeadGrid;
use crate::passes::run::variants::{HeadSet, all_heads, heads_at};
use crate::studies::ablation::drifts::DriftTotals;
use crate::studies::ablation::losses::Losses;
use crate::studies::ablation::removal::{RemovalSums, Removals};

/// The losses without clusters.
pub type ClusterLosses = RemovalSums<Clusters, Losses>;

/// The drifts without clusters.
pub type ClusterDrifts = RemovalSums<Clusters, DriftTotals>;

/// Clusters of heads, by the places of these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Clusters(pub Vec<Vec<usize>>);

/// All of a cluster but the head at this place of it.
pub fn all_but(cluster: &[usize], kept: usize) -> Vec<usize> {
    cluster.iter().enumerate().filter(|(at, _)| *at != kept).map(|(_, &place)| place).collect()
}

impl Removals for Clusters {
    /// Each cluster, each of its heads, and all but one of them; and all heads of the model. Nothing where there are no
    /// clusters.
    fn variants(&self, grid: HeadGrid) -> Vec<HeadSet> {
        let of_cluster = |cluster: &Vec<usize>| {
            let singles = cluster.iter().map(|&place| vec![place]);
            let rests = (0..cluster.len()).map(|kept| all_but(cluster, kept));
            let sets: Vec<Vec<usize>> = [cluster.clone()].into_iter().chain(singles).chain(rests).collect();
            sets
        };
        let sets = self.0.iter().flat_map(of_cluster).map(|places| heads_at(grid, &places));
        let sets: BTreeSet<HeadSet> = sets.chain((!self.0.is_empty()).then(|| all_heads(grid))).collect();
        sets.into_iter().collect()
    }

    /// Whether each has several heads, ascending, and no head is in two.
    fn fit(&self, grid: HeadGrid) -> bool {
        let mut seen = BTreeSet::new();
        let is_one = |cluster: &Vec<usize>| cluster.len() > 1 && cluster.windows(2).all(|pair| pair[0] < pair[1]);
        self.0.iter().all(is_one) && self.0.iter().flatten().all(|&place| place < grid.count() && seen.insert(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_is_there_once() {
        let grid = HeadGrid { layers: 2, heads: 2 };
        // All but one of two heads are one head.
        assert_eq!(Clusters(vec![vec![0, 3]]).variants(grid).len(), 4);
        assert_eq!(Clusters(vec![vec![0, 1, 3]]).variants(grid).len(), 8);
        assert!(Clusters(Vec::new()).variants(grid).is_empty());
        assert_eq!(all_but(&[0, 1, 3], 1), [0, 3]);
        assert!(Clusters(vec![vec![0, 3], vec![1, 2]]).fit(grid) && Clusters(Vec::new()).fit(grid));
        for wrong in [vec![vec![0]], vec![vec![3, 0]], vec![vec![0, 1], vec![1, 2]], vec![vec![0, 4]]] {
            assert!(!Clusters(wrong).fit(grid));
        }
    }
}
