//! Head sets that the cluster studies remove: clusters, single heads, all but one head, and random sets for comparison.

use itertools::Itertools;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::model::grid::HeadGrid;
use crate::passes::observer::requests::{HeadSet, all_heads, head_set_at};
use crate::studies::ablation::losses::{Items, Losses};
use crate::studies::ablation::output_shifts::OutputShiftTotals;
use crate::studies::ablation::removal::{RemovalSums, Removals};

pub type ClusterLosses = RemovalSums<Clusters, Losses>;

pub type ClusterTaskSums = RemovalSums<Clusters, Items>;

pub type ClusterShifts = RemovalSums<Clusters, OutputShiftTotals>;

/// Number of random sets per cluster. At a false-positive rate of 1/20, one of them is expected to pass the test of
/// `one_will_do`: whichever head of the set is kept, it suffices.
const RANDOM_SETS: usize = 20;

/// Clusters of similar heads, with random head sets for comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Clusters {
    /// Indices of the heads of each cluster, `[clusters][heads]`.
    pub clusters: Vec<Vec<usize>>,
    /// Random head sets for comparison with each cluster, `[clusters][sets]`, as indices of heads.
    pub random_sets: Vec<Vec<Vec<usize>>>,
}

impl Clusters {
    pub fn without_random_sets(clusters: &[Vec<usize>]) -> Self {
        Self { clusters: clusters.to_vec(), random_sets: vec![Vec::new(); clusters.len()] }
    }

    /// Adds random sets to each cluster; a set has as many heads in each layer as the cluster. A cluster with all
    /// heads of its layers gets no set.
    pub fn with_random_sets(clusters: &[Vec<usize>], grid: HeadGrid) -> Self {
        let sets = |(number, cluster): (usize, &Vec<usize>)| {
            let others = (0..).map(|seed| random_set(cluster, number, seed, grid)).filter(|set| set != cluster);
            let of_layer =
                |layer: usize| cluster.iter().filter(|&&place| grid.layer_and_head(place).0 == layer).count();
            let has_others = (0..grid.layers).any(|layer| (1..grid.heads).contains(&of_layer(layer)));
            others.take(if has_others { RANDOM_SETS } else { 0 }).collect()
        };
        Self { clusters: clusters.to_vec(), random_sets: clusters.iter().enumerate().map(sets).collect() }
    }
}

/// Draws a random set for the cluster with this `number`, ascending, with as many heads in each layer as the cluster.
/// `seed` tells the sets of one cluster apart. The drawn heads have the lowest SHA-256
/// (docs/methodology/similarity.md).
fn random_set(cluster: &[usize], number: usize, seed: usize, grid: HeadGrid) -> Vec<usize> {
    let hash = |place: &usize| Sha256::digest(format!("headscope/clusters/{seed}/{number}/{place}"));
    let of_layer = |layer: usize| {
        let own = layer * grid.heads..(layer + 1) * grid.heads;
        let count = cluster.iter().filter(|place| own.contains(place)).count();
        own.sorted_by_cached_key(hash).take(count).sorted()
    };
    (0..grid.layers).flat_map(of_layer).collect()
}

/// The heads of a cluster without the head at index `kept` of the cluster.
pub fn all_but_one(cluster: &[usize], kept: usize) -> Vec<usize> {
    cluster.iter().enumerate().filter(|(at, _)| *at != kept).map(|(_, &place)| place).collect()
}

impl Removals for Clusters {
    /// Head sets to remove: all heads, each cluster, and each head of a cluster alone. Also each cluster and each random set
    /// less one of its heads. Empty without clusters.
    fn variants(&self, grid: HeadGrid) -> Vec<HeadSet> {
        let rests = |set: &Vec<usize>| (0..set.len()).map(|kept| all_but_one(set, kept)).collect::<Vec<_>>();
        let of_cluster = |cluster: &Vec<usize>| {
            let singles = cluster.iter().map(|&place| vec![place]);
            [cluster.clone()].into_iter().chain(singles).chain(rests(cluster)).collect::<Vec<_>>()
        };
        let sets = self.clusters.iter().flat_map(of_cluster).chain(self.random_sets.iter().flatten().flat_map(rests));
        let sets = sets.map(|places| head_set_at(grid, &places));
        sets.chain((!self.clusters.is_empty()).then(|| all_heads(grid))).sorted().dedup().collect()
    }

    fn fits_grid(&self, grid: HeadGrid) -> bool {
        let is_one = |set: &Vec<usize>| {
            set.len() > 1 && set.is_sorted_by(|a, b| a < b) && set.iter().all(|&place| place < grid.head_count())
        };
        self.clusters.iter().chain(self.random_sets.iter().flatten()).all(is_one)
            && self.clusters.iter().flatten().all_unique()
            && self.random_sets.len() == self.clusters.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_is_there_once() {
        let grid = HeadGrid { layers: 2, heads: 2 };
        let variants = |clusters: &[Vec<usize>]| Clusters::without_random_sets(clusters).variants(grid).len();
        // All but one of two heads are one head.
        assert_eq!([variants(&[vec![0, 3]]), variants(&[vec![0, 1, 3]]), variants(&[])], [4, 8, 0]);
        assert_eq!(all_but_one(&[0, 1, 3], 1), [0, 3]);
        // Other pairs of one head of each layer are made of all four heads.
        let with_pairs = Clusters::with_random_sets(&[vec![0, 3]], grid);
        assert_eq!((with_pairs.random_sets[0].len(), with_pairs.variants(grid).len()), (RANDOM_SETS, 4 + 2));
        assert!(
            Clusters::without_random_sets(&[vec![0, 3], vec![1, 2]]).fits_grid(grid)
                && Clusters::without_random_sets(&[]).fits_grid(grid)
        );
        for wrong in [vec![vec![0]], vec![vec![3, 0]], vec![vec![0, 1], vec![1, 2]], vec![vec![0, 4]]] {
            assert!(!Clusters::without_random_sets(&wrong).fits_grid(grid));
        }
    }

    #[test]
    fn random_sets_are_of_the_same_layers_and_never_the_cluster() {
        let grid = HeadGrid { layers: 3, heads: 4 };
        // All of the last layer has nothing to be held against.
        let found = Clusters::with_random_sets(&[vec![0, 2, 5], vec![8, 9, 10, 11]], grid);
        assert!(found.fits_grid(grid) && found.random_sets[1].is_empty());
        let layers = |set: &Vec<usize>| set.iter().map(|place| place / 4).collect::<Vec<_>>();
        assert!(found.random_sets[0].iter().all(|set| layers(set) == [0, 0, 1] && *set != [0, 2, 5]));
        // By Python's hashlib the SHA-256 of headscope/clusters/0/0/PLACE is lowest of 0 and 2 in the first layer, and of 7 in
        // the second.
        assert_eq!(found.random_sets[0][0], [0, 2, 7]);
    }
}
