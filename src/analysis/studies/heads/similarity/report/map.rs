//! A map of heads: points of the plane as far apart as the heads are, as far as that goes.

use nalgebra::{DMatrix, SymmetricEigen};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::studies::heads::similarity::pairs::HeadPairs;

/// Heads as points of the plane, by classical scaling (Torgerson 1952).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Map {
    /// The point of each head, layer by layer.
    pub points: Vec<[f64; 2]>,
    /// The share of the two axes in the sum of the eigenvalues that are positive: how much of the distances the map shows.
    pub shown: [f64; 2],
}

impl Map {
    /// The map of these distances, in the order of `HeadPairs`; `None` of fewer than three heads, or where none differ.
    pub fn new(distances: &[f64], heads: usize) -> Option<Self> {
        if heads < 3 {
            return None;
        }
        let square = |a: usize, b: usize| if a == b { 0.0 } else { distances[HeadPairs::index(a, b)].powi(2) };
        let squares = DMatrix::from_fn(heads, heads, square);
        let (means, mean) = (squares.row_mean(), squares.mean());
        let centred = DMatrix::from_fn(heads, heads, |a, b| (means[a] + means[b] - mean - squares[(a, b)]) / 2.0);
        let SymmetricEigen { eigenvectors, eigenvalues } = centred.symmetric_eigen();
        let mut order: Vec<usize> = (0..heads).collect();
        order.sort_by(|&a, &b| eigenvalues[b].total_cmp(&eigenvalues[a]));
        let positive: f64 = eigenvalues.iter().filter(|value| **value > 0.0).sum();
        if positive <= 0.0 {
            return None;
        }
        let axis = |rank: usize| {
            let value = eigenvalues[order[rank]].max(0.0);
            let vector = eigenvectors.column(order[rank]);
            // The sign of an axis is arbitrary: the point farthest from the middle is on the positive side.
            let farthest = vector.iter().fold(0.0_f64, |far, &at| if at.abs() > far.abs() { at } else { far });
            let scale = value.sqrt() * farthest.signum();
            (vector.iter().map(|at| at * scale).collect::<Vec<_>>(), value / positive)
        };
        let ((first, first_shown), (second, second_shown)) = (axis(0), axis(1));
        let points = first.into_iter().zip(second).map(|(x, y)| [x, y]).collect();
        Some(Self { points, shown: [first_shown, second_shown] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_of_a_plane_are_found_again() {
        let at = [[0.0, 0.0], [4.0, 0.0], [0.0, 1.0], [4.0, 1.0], [9.0, 0.5_f64]];
        let apart =
            |points: &[[f64; 2]], [a, b]: [usize; 2]| (points[a][0] - points[b][0]).hypot(points[a][1] - points[b][1]);
        let distances: Vec<f64> = HeadPairs(5).all().map(|pair| apart(&at, pair)).collect();
        let map = Map::new(&distances, 5).unwrap();
        for (pair, distance) in HeadPairs(5).all().zip(distances) {
            assert!((apart(&map.points, pair) - distance).abs() < 1e-9);
        }
        assert!(map.points[4][0] > 5.0 && (map.shown[0] + map.shown[1] - 1.0).abs() < 1e-9);
        assert_eq!((Map::new(&[0.0; 3], 3), Map::new(&[1.0], 2)), (None, None));
    }
}
