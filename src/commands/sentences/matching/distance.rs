//! Distances between the heads of two models, and the partners with the least sum of them.

use crate::model::grid::HeadGrid;
use crate::sequences::sequence::Sequence;
use crate::stats::assignment::least_cost;

/// Sums of squared Hellinger distances between the heads of two models, within layers.
pub struct DistanceSums {
    grid: HeadGrid,
    pub sentences: u64,
    rows: usize,
    /// `[layers, heads of a, heads of b]`
    sums: Vec<f64>,
}

impl DistanceSums {
    pub fn new(grid: HeadGrid) -> Self {
        Self { grid, sentences: 0, rows: 0, sums: vec![0.0; grid.count() * grid.heads] }
    }

    /// Adds the rows of the text tokens of a sentence; `a` and `b` are the attention of both models, `[layers * heads, tokens, tokens]`.
    pub fn add(&mut self, sequence: &Sequence, mut a: Vec<f32>, mut b: Vec<f32>) {
        let (tokens, rows) = (sequence.ids.len(), sequence.text_places().collect::<Vec<_>>());
        [&mut a, &mut b].into_iter().flatten().for_each(|weight| *weight = weight.sqrt());
        let heads = self.grid.heads;
        for (pair, sum) in self.sums.iter_mut().enumerate() {
            let (own, other) = (pair / heads, pair / heads / heads * heads + pair % heads);
            for row in &rows {
                let at = |head: usize| (head * tokens + row) * tokens;
                let both = a[at(own)..][..tokens].iter().zip(&b[at(other)..][..tokens]);
                *sum += 1.0 - both.map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>();
            }
        }
        self.rows += rows.len();
        self.sentences += 1;
    }

    pub fn and(&self, other: &Self) -> Self {
        let sums = self.sums.iter().zip(&other.sums).map(|(a, b)| a + b).collect();
        let sentences = self.sentences + other.sentences;
        Self { grid: self.grid, sentences, rows: self.rows + other.rows, sums }
    }

    /// The place of each head's partner, `[layers * heads]`.
    pub fn partners_in_grid(&self) -> Vec<usize> {
        let of_head = |(head, partner): (usize, usize)| head / self.grid.heads * self.grid.heads + partner;
        self.partners().into_iter().enumerate().map(of_head).collect()
    }

    /// The number of each head's partner in its layer: those whose root mean squares add up to the least.
    pub fn partners(&self) -> Vec<usize> {
        let heads = self.grid.heads;
        (0..self.grid.layers)
            .flat_map(|layer| {
                let costs: Vec<f64> =
                    (0..heads * heads).map(|pair| self.distance(layer * heads * heads + pair)).collect();
                least_cost(&costs, heads)
            })
            .collect()
    }

    /// The root mean square of a pair; 0 without a row.
    pub fn distance(&self, pair: usize) -> f64 {
        (self.sums[pair] / self.rows.max(1) as f64).max(0.0).sqrt()
    }
}
