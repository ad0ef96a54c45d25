//! Clusters of heads that attend alike, and how often blocks drawn anew have them, too.

use std::num::NonZeroUsize;

use kodama::{Method, Step, linkage};

use super::pairs::HeadPairs;
use crate::stats::blocks::PerBlock;
use crate::stats::draws::block_counts;
use crate::study::show::figure::TreeJoin;
use crate::system::parallel::in_parallel;

pub const CUT: f64 = 0.5;

/// The resamples that clusters are drawn by: a share of 80 % of them is known to 3 points.
pub const DRAWS: usize = 200;

#[derive(Clone, Debug, PartialEq)]
pub struct HeadCluster {
    /// Their places, ascending.
    pub places: Vec<usize>,
    /// The share of the draws with a sentence in which all of them are in one cluster; `None` where nothing was drawn.
    pub together: Option<f64>,
}

pub fn median(distances: &[f64]) -> Option<f64> {
    let mut sorted = distances.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    let upper = sorted.get(half)?;
    Some(if sorted.len() % 2 == 1 { *upper } else { f64::midpoint(sorted[half - 1], *upper) })
}

/// All heads joined by average linkage, the closest first.
pub fn joins(distances: &[f64], heads: usize) -> Vec<TreeJoin> {
    // The crate has the pairs row by row.
    let rows = (0..heads).flat_map(|row| (row + 1..heads).map(move |column| HeadPairs::index(row, column)));
    let mut condensed: Vec<f64> = rows.map(|place| distances[place]).collect();
    let joined = linkage(&mut condensed, heads, Method::Average);
    let join = |step: &Step<f64>| TreeJoin { of: [step.cluster1, step.cluster2], height: step.dissimilarity };
    joined.steps().iter().map(join).collect()
}

/// The cluster of each head: average linkage, as far as what is joined is at most half of the median apart.
pub fn assignment(distances: &[f64], heads: usize) -> Vec<usize> {
    let Some(median) = median(distances) else { return (0..heads).collect() };
    // A join gets the next number after the heads.
    let mut clusters: Vec<Vec<usize>> = (0..heads).map(|head| vec![head]).collect();
    let mut of_head: Vec<usize> = (0..heads).collect();
    for TreeJoin { of: [first, second], height } in joins(distances, heads) {
        let mut both = std::mem::take(&mut clusters[first]);
        both.append(&mut clusters[second]);
        if height <= CUT * median {
            let first = *both.iter().min().expect("a cluster has heads");
            both.iter().for_each(|&head| of_head[head] = first);
        }
        clusters.push(both);
    }
    of_head
}

/// The clusters of several heads, by their first heads.
pub fn groups(distances: &[f64], heads: usize) -> Vec<Vec<usize>> {
    let of_head = assignment(distances, heads);
    let members = |first: usize| -> Vec<usize> { (0..heads).filter(|&head| of_head[head] == first).collect() };
    (0..heads).map(members).filter(|members| members.len() > 1).collect()
}

/// The clusters with how often they are drawn; `squares` are summed squared distances by pair and block, over `rows`.
pub fn resampled(
    (squares, rows): (&[PerBlock], &PerBlock),
    distances: &[f64],
    heads: usize,
    threads: NonZeroUsize,
) -> Vec<HeadCluster> {
    let groups = groups(distances, heads);
    let draws = if groups.is_empty() { 0 } else { DRAWS };
    let found = in_parallel(threads, block_counts(draws), |counts| {
        let total = |of: &PerBlock| of.iter().zip(&counts).map(|(value, count)| value * count).sum::<f64>();
        let all = total(rows);
        // A draw of empty blocks alone, which a few sentences leave many of, has no distances.
        (all > 0.0).then(|| {
            let distances: Vec<f64> = squares.iter().map(|squares| distance(total(squares), all)).collect();
            let of_head = assignment(&distances, heads);
            let together = |places: &Vec<usize>| places.iter().all(|&place| of_head[place] == of_head[places[0]]);
            groups.iter().map(together).collect::<Vec<_>>()
        })
    });
    let found: Vec<Vec<bool>> = found.into_iter().flatten().collect();
    let group = |(number, places): (usize, Vec<usize>)| {
        let together = found.iter().filter(|together| together[number]).count();
        HeadCluster { places, together: (!found.is_empty()).then(|| together as f64 / found.len() as f64) }
    };
    groups.into_iter().enumerate().map(group).collect()
}

pub fn distance(square: f64, rows: f64) -> f64 {
    (square / rows).clamp(0.0, 1.0).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_by_hand() {
        // Heads on a line at 0, 1, 10, 12, 30: of ten distances the median is 11.5, so what is joined is at most 5.75 apart.
        let at = [0.0, 1.0, 10.0, 12.0, 30.0_f64];
        let distances: Vec<f64> = HeadPairs(5).all().map(|[a, b]| (at[a] - at[b]).abs()).collect();
        assert_eq!(median(&distances), Some(11.5));
        assert_eq!(assignment(&distances, 5), [0, 0, 2, 2, 4]);
        assert_eq!(groups(&distances, 5), [vec![0, 1], vec![2, 3]]);
        assert_eq!((median(&[]), assignment(&[], 1)), (None, vec![0]));
    }

    #[test]
    fn all_alike_are_one_cluster() {
        assert_eq!(groups(&[0.0; 3], 3), [vec![0, 1, 2]]);
        assert_eq!(groups(&[0.5; 3], 3), [[0; 0]; 0]);
    }
}
