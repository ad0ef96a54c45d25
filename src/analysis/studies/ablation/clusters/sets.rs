//! The sets of heads that are removed.

use std::collections::BTreeSet;

use crate::model::grid::HeadGrid;
use crate::passes::run::variants::{HeadSet, all_heads, heads_at};

/// All of a cluster but the head at this place of it.
pub fn all_but(cluster: &[usize], kept: usize) -> Vec<usize> {
    cluster.iter().enumerate().filter(|(at, _)| *at != kept).map(|(_, &place)| place).collect()
}

/// Each cluster, each of its heads, and all but one of them; and all heads of the model. Nothing where there are no clusters.
pub fn sets(grid: HeadGrid, clusters: &[Vec<usize>]) -> BTreeSet<HeadSet> {
    let of_cluster = |cluster: &Vec<usize>| {
        let singles = cluster.iter().map(|&place| vec![place]);
        let rests = (0..cluster.len()).map(|kept| all_but(cluster, kept));
        let sets: Vec<Vec<usize>> = [cluster.clone()].into_iter().chain(singles).chain(rests).collect();
        sets
    };
    let sets = clusters.iter().flat_map(of_cluster).map(|places| heads_at(grid, &places));
    sets.chain((!clusters.is_empty()).then(|| all_heads(grid))).collect()
}

/// Whether these are clusters of such heads: several heads each, ascending, none of them in two.
pub fn are_clusters(clusters: &[Vec<usize>], grid: HeadGrid) -> bool {
    let mut seen = BTreeSet::new();
    let is_one = |cluster: &Vec<usize>| cluster.len() > 1 && cluster.windows(2).all(|pair| pair[0] < pair[1]);
    clusters.iter().all(is_one) && clusters.iter().flatten().all(|&place| place < grid.count() && seen.insert(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_is_there_once() {
        let grid = HeadGrid { layers: 2, heads: 2 };
        // All but one of two heads are one head.
        assert_eq!(sets(grid, &[vec![0, 3]]).len(), 4);
        assert_eq!(sets(grid, &[vec![0, 1, 3]]).len(), 8);
        assert!(sets(grid, &[]).is_empty());
        assert_eq!(all_but(&[0, 1, 3], 1), [0, 3]);
        assert!(are_clusters(&[vec![0, 3], vec![1, 2]], grid) && are_clusters(&[], grid));
        for wrong in [vec![vec![0]], vec![vec![3, 0]], vec![vec![0, 1], vec![1, 2]], vec![vec![0, 4]]] {
            assert!(!are_clusters(&wrong, grid));
        }
    }
}
