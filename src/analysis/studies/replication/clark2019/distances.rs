//! Distances between heads as in the released `head_distances.py`: Jensen-Shannon divergences, summed over all rows.

use std::f32::consts::{FRAC_1_SQRT_2, LN_2};

use multiversion::multiversion;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::linalg::lanes::{LANES, reduce_lanes};
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::LayerClasses;
use crate::passes::observer::{Demands, Event, Sums};
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::merge_fields;
use crate::stats::exact::ExactSum;

/// Share of uniform attention that is mixed into each head's attention before heads are compared.
const SMOOTHING_SHARE: f32 = 0.001;

/// Jensen-Shannon divergences of all pairs of attention heads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Distances {
    /// Number of rows of attention: the tokens of all sequences.
    pub rows: u64,
    /// Divergence of each attention head, layer by layer, from each earlier head, in nats: a sum over all rows, as in the
    /// released code. Empty without rows.
    pub summed: Vec<Vec<f64>>,
    /// `summed` divided by the number of rows: from 0, for equal rows, to ln 2.
    pub per_row: Vec<Vec<f64>>,
}

/// Summed divergences of all pairs of heads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeadDistances {
    grid: HeadGrid,
    /// Number of attention rows.
    rows: u64,
    /// Jensen-Shannon divergence of each pair of heads, summed over rows, in nats. Pairs are ordered by the later
    /// head, then by the earlier.
    pairs: Vec<ExactSum>,
}

impl HeadDistances {
    pub fn new(grid: HeadGrid) -> Self {
        let heads = grid.head_count();
        Self { grid, rows: 0, pairs: vec![ExactSum::default(); heads * heads.saturating_sub(1) / 2] }
    }

    /// Adds the divergences of all pairs of heads over one sequence. `weights` has the smoothed weights of each head,
    /// `[heads, size]`.
    fn add(&mut self, size: usize, weights: &[f32]) {
        let heads: Vec<(&[f32], f64)> = weights.chunks_exact(size).map(|a| (a, sum_p_log_p(a, a))).collect();
        let pairs = heads.iter().enumerate().flat_map(|(later, a)| heads[..later].iter().map(move |b| (a, b)));
        for (sum, ((a, of_a), (b, of_b))) in self.pairs.iter_mut().zip(pairs) {
            // Jensen-Shannon divergence, with m the mean of a and b: sum (a ln a/m + b ln b/m) / 2.
            *sum += f64::midpoint(*of_a, *of_b) - sum_p_log_p(a, b);
        }
    }

    pub fn distances(&self) -> Distances {
        let heads = if self.rows > 0 { self.grid.head_count() } else { 0 };
        let mut sums = self.pairs.iter().map(|sum| sum.value());
        let summed: Vec<Vec<f64>> = (0..heads).map(|later| sums.by_ref().take(later).collect()).collect();
        let per_row = summed.iter().map(|sums| sums.iter().map(|sum| sum / self.rows as f64).collect()).collect();
        Distances { rows: self.rows, summed, per_row }
    }
}

/// Attention of all heads over one sequence, mixed with uniform attention.
#[derive(Debug, Default)]
pub struct SmoothedAttention {
    /// Number of weights of one head, rounded up to whole SIMD vectors.
    size: usize,
    /// Smoothed weights of each head, `[heads, size]`, padded with 1, which adds nothing (`ln 1 = 0`).
    weights: Vec<f32>,
}

merge_fields!(HeadDistances[grid] { rows, pairs });

impl Sums for HeadDistances {
    type SequenceState = SmoothedAttention;

    fn demands(&self) -> Demands {
        Demands { keeps_attention: true, ..Demands::ATTENTION }
    }

    fn begin(&mut self, sequence: &Sequence) -> Option<SmoothedAttention> {
        let n = sequence.ids.len();
        self.rows += n as u64;
        Some(SmoothedAttention { size: (n * n).next_multiple_of(LANES), weights: Vec::new() })
    }

    fn observe(&mut self, SmoothedAttention { size, weights }: &mut SmoothedAttention, event: &mut Event<'_>) {
        let input = match event {
            Event::Head(input) => input,
            Event::PackEnd if !weights.is_empty() => return self.add(*size, weights),
            _ => return,
        };
        let view = input.attention();
        weights.resize(self.grid.head_count() * *size, 1.0);
        let own = &mut weights[self.grid.index(view.layer, view.head) * *size..][..*size];
        let n = view.tokens();
        for (query, smoothed) in own.chunks_exact_mut(n).take(n).enumerate() {
            let uniform = SMOOTHING_SHARE / n as f32;
            let pairs = smoothed.iter_mut().zip(view.row(query));
            pairs.for_each(|(to, weight)| *to = (1.0 - SMOOTHING_SHARE) * weight + uniform);
        }
    }

    fn fits(&self, grid: HeadGrid, _: FromToken, _: &LayerClasses) -> bool {
        self.grid == grid && self.pairs.len() == Self::new(grid).pairs.len()
    }
}

/// Number of weights that are summed in f32 before the sum is added to an f64.
const F32_SUM_WEIGHTS: usize = 64 * LANES;

/// Sum of `m ln m`, where `m` is the mean of two heads' weights. The weights must be above 0 and fill whole SIMD
/// vectors.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
fn sum_p_log_p(a: &[f32], b: &[f32]) -> f64 {
    let mut sum = 0.0;
    // Loops: closures of iterators would not be compiled for the instruction set.
    for (a, b) in a.chunks(F32_SUM_WEIGHTS).zip(b.chunks(F32_SUM_WEIGHTS)) {
        let mut partial = [0.0_f32; LANES];
        for (a, b) in a.as_chunks::<LANES>().0.iter().zip(b.as_chunks::<LANES>().0) {
            for lane in 0..LANES {
                let mean = 0.5 * (a[lane] + b[lane]);
                partial[lane] += mean * approximate_ln(mean);
            }
        }
        sum += reduce_lanes(partial.map(f64::from), |a, b| a + b);
    }
    sum
}

/// Natural logarithm of a positive, normal number, with an error of at most 2e-7 `max(1, |ln|)`.
///
/// For `2^e m`, `m` from `sqrt(1/2)` to `sqrt(2)`, it is `e ln 2 + 2 artanh((m - 1) / (m + 1))`. The series of
/// artanh ends where the next term is below 1e-9. The function is inlined, so that it is compiled for the
/// instruction set of its caller.
#[inline(always)]
fn approximate_ln(value: f32) -> f32 {
    const FRACTION_BITS: u32 = f32::MANTISSA_DIGITS - 1;
    let bits = value.to_bits();
    let exponent = bits.wrapping_sub(FRAC_1_SQRT_2.to_bits()).cast_signed() >> FRACTION_BITS;
    let m = f32::from_bits(bits.wrapping_sub((exponent << FRACTION_BITS).cast_unsigned()));
    let s = (m - 1.0) / (m + 1.0);
    let q = s * s;
    let series = 1.0 + q * (1.0 / 3.0 + q * (1.0 / 5.0 + q * (1.0 / 7.0 + q / 9.0)));
    exponent as f32 * LN_2 + 2.0 * s * series
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::forward::attention::AttentionView;
    use crate::passes::observer::FoldBuffers;

    #[test]
    fn logarithms() {
        for value in [1.0e-6_f32, 7.8e-6, 0.001, 0.25, 0.5, 0.70, 0.71, 0.9, 0.999_999, 1.0, 1.3, 1.5, 2.0] {
            let (found, expected) = (f64::from(approximate_ln(value)), f64::from(value).ln());
            assert!((found - expected).abs() <= 2e-7 * expected.abs().max(1.0), "{value}: {found}, not {expected}");
        }
        assert_eq!(approximate_ln(1.0), 0.0);
    }

    #[test]
    fn divergence_by_hand() {
        let grid = HeadGrid { layers: 1, heads: 3 };
        let mut sums = HeadDistances::new(grid);
        let sequence = Sequence { ids: vec![1, 2], ..Sequence::default() };
        let (mut state, mut folder) = (sums.begin(&sequence).unwrap(), FoldBuffers::default());
        let heads = [[1.0, 0.0, 0.5, 0.5], [1.0, 0.0, 0.5, 0.5], [0.0, 1.0, 0.5, 0.5]];
        for (head, weights) in heads.iter().enumerate() {
            let view = AttentionView::new(0, head, 2, weights);
            sums.observe(&mut state, &mut Event::Head(folder.head_input(&sequence, view.into())));
        }
        sums.observe(&mut state, &mut Event::PackEnd);
        let Distances { rows, summed, per_row } = sums.distances();
        assert_eq!((rows, &summed[1][..]), (2, &[0.0][..]));
        // Rows of 0.9995 and 0.0005 against the reverse, the mean a half of each; the second rows are equal.
        let expected = 0.9995 * (0.9995_f64 / 0.5).ln() + 0.0005 * (0.0005_f64 / 0.5).ln();
        assert!((summed[2][0] - expected).abs() < 1e-6 && summed[2][0] == summed[2][1], "{summed:?}");
        assert_eq!(per_row[2][0], summed[2][0] / 2.0);
    }

    #[test]
    fn without_rows_there_is_nothing() {
        let none = HeadDistances::new(HeadGrid { layers: 1, heads: 2 }).distances();
        assert_eq!(none, Distances { rows: 0, summed: vec![], per_row: vec![] });
    }
}
