//! Minimisers of convex functions. L-BFGS for many variables (Liu & Nocedal 1989; Nocedal & Wright 2006, section 7.2), and
//! Newton's method for few (section 3.3). With an L1 penalty, a proximal Newton method: coordinate descent minimises the
//! penalised quadratic model of each step (Friedman, Hastie & Tibshirani 2010; Lee, Sun & Saunders 2014).

use std::iter::zip;

use lbfgs::Lbfgs;

use crate::linalg::cholesky::Cholesky;
use crate::linalg::matmul::{Matrix, MatrixMut, multiply};

/// Number of past steps from which L-BFGS estimates curvature. 30 steps need fewer evaluations than 10, at little extra
/// cost for each (Liu & Nocedal 1989, table 2).
const LBFGS_MEMORY_STEPS: usize = 30;

/// Maximum number of L-BFGS steps. A small encoder's 72 heads need some hundred; a fit that needs more than the maximum
/// does not converge.
const MAX_LBFGS_STEPS: u64 = 5000;

/// Minimum decrease of the function by a step, as a share of the decrease predicted by the slope (Armijo; Nocedal & Wright
/// 2006, section 3.1).
const MIN_DECREASE_SHARE: f64 = 1e-4;

/// Maximum relative difference of function values that may be due to rounding. Sums of a million terms have smaller errors.
const RELATIVE_ROUNDING_ERROR: f64 = 1e-10;

/// Maximum number of halvings of a step. Shorter steps change nothing in double precision.
const MAX_STEP_HALVINGS: u32 = 60;

/// Result of a minimisation: the last point, with its value and gradient norm, and the number of steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Minimum {
    /// Values of the variables at the end.
    pub point: Vec<f64>,
    /// Value of the function at `point`.
    pub value: f64,
    /// Norm of the gradient at `point`. With an L1 penalty, norm of the shortest subgradient.
    pub gradient_norm: f64,
    pub steps: u64,
}

impl Minimum {
    /// Describes the minimisation as a fit to `count` words, sources or pairs with the mean loss `loss`, in nats.
    pub fn to_fit_record(&self, count: u64, loss: f64) -> FitRecord {
        FitRecord { count, loss, steps: self.steps, gradient_norm: self.gradient_norm }
    }
}

/// A fit in the report: the number of fitted items, the final loss, and how its minimisation ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FitRecord {
    /// Number of fitted words, sources or pairs.
    pub count: u64,
    /// Mean of `-ln p` over the fitted words, sources or pairs, in nats, without the penalty.
    pub loss: f64,
    pub steps: u64,
    /// Norm of the gradient at the end. With an L1 penalty, norm of the shortest subgradient.
    pub gradient_norm: f64,
}

/// Minimises a smooth convex function by L-BFGS, from 0 until the gradient norm is at most `tolerance`. `function` writes
/// its gradient and returns its value. [`MIN_DECREASE_SHARE`] alone suffices for step lengths, since the
/// curvature of a convex function is never negative.
pub fn minimise(size: usize, tolerance: f64, mut function: impl FnMut(&[f64], &mut [f64]) -> f64) -> Minimum {
    let (mut at, mut gradient) = (vec![0.0; size], vec![0.0; size]);
    let mut value = function(&at, &mut gradient);
    // Near the minimum steps are short, but their curvature is still valid: accept all.
    let mut memory = Lbfgs::<f64>::new(size, LBFGS_MEMORY_STEPS).with_sy_epsilon(0.0);
    memory.update_hessian(&gradient, &at);
    let mut steps = 0;
    while norm(&gradient) > tolerance && steps < MAX_LBFGS_STEPS {
        let mut direction = gradient.clone();
        memory.apply_hessian(&mut direction);
        // The first step has no curvature estimate, so its length is at most 1.
        let step = if steps == 0 { 1.0_f64.min(1.0 / norm(&gradient)) } else { 1.0 };
        let Some(reached) = line_search((&mut at, &mut gradient, value), &direction, step, &mut function) else {
            break;
        };
        value = reached;
        memory.update_hessian(&gradient, &at);
        steps += 1;
    }
    Minimum { gradient_norm: norm(&gradient), point: at, value, steps }
}

/// Moves from `at` against `direction`, halving `step` until [`is_low_enough`] holds. Returns the new value. `None` if no step
/// is low enough.
fn line_search(
    (at, gradient, value): (&mut [f64], &mut [f64], f64),
    direction: &[f64],
    mut step: f64,
    function: &mut impl FnMut(&[f64], &mut [f64]) -> f64,
) -> Option<f64> {
    let slope = -dot(gradient, direction);
    let (mut next, mut next_gradient) = (at.to_vec(), gradient.to_vec());
    for _ in 0..=MAX_STEP_HALVINGS {
        next.iter_mut().zip(&*at).zip(direction).for_each(|((next, at), way)| *next = at - step * way);
        let reached = function(&next, &mut next_gradient);
        if is_low_enough((value, reached), step * slope, || norm(&next_gradient) < norm(gradient)) {
            at.copy_from_slice(&next);
            gradient.copy_from_slice(&next_gradient);
            return Some(reached);
        }
        step /= 2.0;
    }
    None
}

/// Whether a step decreases the function enough: by [`MIN_DECREASE_SHARE`] times the predicted change. If both
/// values differ only by rounding, a shorter gradient suffices (approximate Wolfe conditions, Hager & Zhang 2005).
fn is_low_enough((from, to): (f64, f64), predicted: f64, shortens: impl FnOnce() -> bool) -> bool {
    to <= from + MIN_DECREASE_SHARE * predicted || (to <= from + from.abs() * RELATIVE_ROUNDING_ERROR && shortens())
}

pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn norm(vector: &[f64]) -> f64 {
    dot(vector, vector).sqrt()
}

/// Maximum number of Newton steps; fits take 10 to 20.
const MAX_NEWTON_STEPS: u64 = 200;

/// Ratio of gradient norms, after and before a step, below which the next step reuses the second derivatives (Shamanskii
/// 1967). Computing second derivatives costs as much as ten evaluations.
const CURVATURE_REUSE_RATIO: f64 = 0.5;

/// Minimises a strictly convex function of few variables by Newton's method; otherwise as [`minimise`]. `curvature` returns
/// the second derivatives, `[size, size]`, which must be positive definite but may be inexact.
pub fn minimise_by_newton(
    size: usize,
    tolerance: f64,
    mut function: impl FnMut(&[f64], &mut [f64]) -> f64,
    mut curvature: impl FnMut(&[f64]) -> Vec<f64>,
) -> Minimum {
    let (mut at, mut gradient) = (vec![0.0; size], vec![0.0; size]);
    let mut value = function(&at, &mut gradient);
    let (mut steps, mut factors) = (0, None);
    while norm(&gradient) > tolerance && steps < MAX_NEWTON_STEPS {
        let Some(used) = factors.take().or_else(|| Cholesky::new(curvature(&at), size)) else { break };
        let mut direction = gradient.clone();
        used.solve_lower(&mut direction, 1);
        used.solve_upper(&mut direction, 1);
        let before = norm(&gradient);
        let Some(reached) = line_search((&mut at, &mut gradient, value), &direction, 1.0, &mut function) else { break };
        value = reached;
        steps += 1;
        factors = Some(used).filter(|_| norm(&gradient) < CURVATURE_REUSE_RATIO * before);
    }
    Minimum { gradient_norm: norm(&gradient), point: at, value, steps }
}

/// Subgradient norm at which coordinate descent on a quadratic model ends, as a share of the function's subgradient
/// norm. A smaller one is no use, since the next step has another quadratic model.
const DESCENT_TOLERANCE_SHARE: f64 = 0.1;

/// Maximum number of rounds of coordinate descent per quadratic model. Nearly collinear variables need some hundred.
const MAX_DESCENT_ROUNDS: usize = 10_000;

/// Minimises a function plus an L1 penalty: the absolute values of its first `penalised` variables. Runs from `start` until
/// the norm of the shortest subgradient is at most `tolerance`. `function` writes its gradient and returns its value.
/// `curvature` returns the second derivatives, `[size, size]`, which may be indefinite and inexact.
pub fn minimise_with_l1(
    (start, penalised): (Vec<f64>, usize),
    tolerance: f64,
    mut function: impl FnMut(&[f64], &mut [f64]) -> f64,
    mut curvature: impl FnMut(&[f64]) -> Vec<f64>,
) -> Minimum {
    let size = start.len();
    let absolute = |at: &[f64]| at[..penalised].iter().map(|at| at.abs()).sum::<f64>();
    let (mut at, mut gradient, mut next_gradient) = (start, vec![0.0; size], vec![0.0; size]);
    let mut value = function(&at, &mut gradient) + absolute(&at);
    let mut violation = norm(&subgradient(&at, &gradient, penalised));
    let (mut steps, mut reusable) = (0, None);
    while violation > tolerance && steps < MAX_NEWTON_STEPS {
        let curvature_matrix = reusable.take().unwrap_or_else(|| curvature(&at));
        let step = minimise_quadratic(
            (&at, &gradient, penalised),
            &curvature_matrix,
            (DESCENT_TOLERANCE_SHARE * violation).max(DESCENT_TOLERANCE_SHARE * tolerance),
        );
        let end: Vec<f64> = at.iter().zip(&step).map(|(at, step)| at + step).collect();
        let predicted =
            gradient.iter().zip(&step).map(|(slope, step)| slope * step).sum::<f64>() + absolute(&end) - absolute(&at);
        let mut share = 2.0;
        let reached = (0..=MAX_STEP_HALVINGS).find_map(|_| {
            share /= 2.0;
            let next: Vec<f64> = at.iter().zip(&step).map(|(at, step)| at + share * step).collect();
            let next_value = function(&next, &mut next_gradient) + absolute(&next);
            let next_violation = norm(&subgradient(&next, &next_gradient, penalised));
            is_low_enough((value, next_value), share * predicted, || next_violation < violation).then_some((
                next,
                next_value,
                next_violation,
            ))
        });
        let Some((next, next_value, next_violation)) = reached else { break };
        (at, value) = (next, next_value);
        gradient.copy_from_slice(&next_gradient);
        steps += 1;
        let before = std::mem::replace(&mut violation, next_violation);
        reusable = Some(curvature_matrix).filter(|_| violation < CURVATURE_REUSE_RATIO * before);
    }
    Minimum { point: at, value, gradient_norm: violation, steps }
}

/// Returns the shortest subgradient of the function plus the L1 penalty.
fn subgradient(at: &[f64], gradient: &[f64], penalised: usize) -> Vec<f64> {
    (0..at.len()).map(|place| shortest_subgradient(at[place], gradient[place], place < penalised)).collect()
}

/// Returns the element of one variable's subdifferential that is nearest to 0. `at` is the variable, and `slope` the
/// derivative without penalty.
fn shortest_subgradient(at: f64, slope: f64, is_penalised: bool) -> f64 {
    match is_penalised {
        false => slope,
        true if at == 0.0 => slope.signum() * (slope.abs() - 1.0).max(0.0),
        true => slope + at.signum(),
    }
}

/// Returns the step to the minimum of the penalised quadratic model. Coordinate descent ends when the subgradient norm is
/// at most `tolerance`.
fn minimise_quadratic(
    (at, gradient, penalised): (&[f64], &[f64], usize),
    curvature: &[f64],
    tolerance: f64,
) -> Vec<f64> {
    let size = at.len();
    let (mut step, mut slopes) = (vec![0.0; size], gradient.to_vec());
    for _ in 0..MAX_DESCENT_ROUNDS {
        for place in 0..size {
            let curve = curvature[place * size + place];
            // A term that never varies keeps the weight 0.
            if curve <= 0.0 {
                continue;
            }
            let current = at[place] + step[place];
            let free = current - slopes[place] / curve;
            let is_penalised = place < penalised;
            let minimum = if is_penalised { free.signum() * (free.abs() - 1.0 / curve).max(0.0) } else { free };
            let change = minimum - current;
            if change != 0.0 {
                step[place] += change;
                let row = &curvature[place * size..][..size];
                slopes.iter_mut().zip(row).for_each(|(slope, curve)| *slope += curve * change);
            }
        }
        let varying = (0..size).filter(|&place| curvature[place * size + place] > 0.0);
        let squares = varying
            .map(|place| shortest_subgradient(at[place] + step[place], slopes[place], place < penalised).powi(2));
        if squares.sum::<f64>().sqrt() <= tolerance {
            break;
        }
    }
    step
}

/// Number of rows per matrix product, when outer products of rows are summed.
pub const BATCH_ROWS: usize = 4096;

/// Second derivatives of a loss: the sum of the outer products `x xᵀ` of rows `x` (candidates' features, see
/// [`centre_rows`]). Rows are multiplied in single precision in batches; the batches are added in double precision.
pub struct Curvature {
    /// Second derivatives, `[size, size]`.
    pub matrix: Vec<f64>,
    /// Sum of the outer products of the current batch of rows, `[size, size]`.
    batch_sum: Vec<f32>,
    /// Number of values per row.
    size: usize,
}

impl Curvature {
    /// Starts the sum of outer products at `diagonal` times the identity matrix, `[size, size]`.
    pub fn new(size: usize, diagonal: f64) -> Self {
        let cell = |place: usize| if place.is_multiple_of(size + 1) { diagonal } else { 0.0 };
        Self { matrix: (0..size * size).map(cell).collect(), batch_sum: vec![0.0; size * size], size }
    }

    /// Adds the outer products of one batch of rows, divided by `count`.
    pub fn add_rows(&mut self, rows: &[f32], count: f64) {
        let row_matrix = Matrix::new(rows, rows.len() / self.size.max(1), self.size);
        multiply(MatrixMut::new(&mut self.batch_sum, self.size, self.size), row_matrix.transposed(), row_matrix);
        zip(&mut self.matrix, &self.batch_sum).for_each(|(sum, more)| *sum += f64::from(*more) / count);
    }
}

/// Replaces each row `x` by `sqrt p (x - m)`, where `m = sum p x` is the mean row. `shares` has the probability `p` of
/// each row. `mean` is a buffer for one row.
#[expect(clippy::cast_possible_truncation, reason = "second derivatives need not be exact")]
pub fn centre_rows(rows: &mut [f32], shares: &[f64], mean: &mut [f32]) {
    mean.fill(0.0);
    for (row, &share) in zip(rows.chunks_exact(mean.len()), shares) {
        zip(&mut *mean, row).for_each(|(mean, x)| *mean += share as f32 * x);
    }
    for (row, &share) in zip(rows.chunks_exact_mut(mean.len()), shares) {
        let root = share.sqrt() as f32;
        zip(row, &*mean).for_each(|(x, mean)| *x = root * (*x - mean));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The function `(x - 3)² + 100 (y + 1)²`, whose minimum is at (3, -1).
    fn bowl(at: &[f64], gradient: &mut [f64]) -> f64 {
        let (x, y) = (at[0] - 3.0, at[1] + 1.0);
        gradient.copy_from_slice(&[2.0 * x, 200.0 * y]);
        x * x + 100.0 * y * y
    }

    #[test]
    fn a_bowl_and_a_logistic_loss() {
        let found = minimise(2, 1e-9, bowl);
        assert!((found.point[0] - 3.0).abs() < 1e-9 && (found.point[1] + 1.0).abs() < 1e-9, "{found:?}");
        assert!(found.gradient_norm <= 1e-9 && found.steps < 30);
        // Two of three coins show heads: -2/3 ln p - 1/3 ln (1 - p) is smallest at p = 2/3, whose logit is ln 2.
        let found = minimise(1, 1e-9, |at, gradient| {
            let p = 1.0 / (1.0 + (-at[0]).exp());
            gradient[0] = p - 2.0 / 3.0;
            -2.0 / 3.0 * p.ln() - (1.0 - p).ln() / 3.0
        });
        assert!((found.point[0] - 2.0_f64.ln()).abs() < 1e-8, "{found:?}");
    }

    #[test]
    fn nothing_to_do_takes_no_step() {
        let found = minimise(1, 1e-6, |_, gradient| {
            gradient[0] = 0.0;
            1.0
        });
        assert_eq!(found, Minimum { point: vec![0.0], value: 1.0, gradient_norm: 0.0, steps: 0 });
    }

    proptest! {
        /// The minimum of `sum c_i (x_i - m_i)²` is at `m`, however different the curvatures are.
        #[test]
        fn quadratics_are_solved(curves in prop::collection::vec((1e-3..1e3_f64, -5.0..5.0_f64), 1..12)) {
            let found = minimise(curves.len(), 1e-8, |at, gradient| {
                let mut value = 0.0;
                for ((x, slope), (curvature, middle)) in at.iter().zip(gradient).zip(&curves) {
                    *slope = 2.0 * curvature * (x - middle);
                    value += curvature * (x - middle) * (x - middle);
                }
                value
            });
            prop_assert!(found.gradient_norm <= 1e-8, "{} after {}", found.gradient_norm, found.steps);
        }
    }

    #[test]
    fn a_bowl_takes_one_step_and_a_logistic_loss_few() {
        let found = minimise_by_newton(2, 1e-9, bowl, |_| vec![2.0, 0.0, 0.0, 200.0]);
        let near = |at: f64, expected: f64| (at - expected).abs() < 1e-12;
        assert!(near(found.point[0], 3.0) && near(found.point[1], -1.0) && found.steps == 1, "{found:?}");
        // One of a thousand coins shows heads: the logit is -ln 999, far from 0.
        let logistic = |at: &[f64]| 1.0 / (1.0 + (-at[0]).exp());
        let found = minimise_by_newton(
            1,
            1e-9,
            |at, gradient| {
                let p = logistic(at);
                gradient[0] = p - 0.001;
                -0.001 * p.ln() - 0.999 * (1.0 - p).ln()
            },
            |at| vec![logistic(at) * (1.0 - logistic(at))],
        );
        assert!((found.point[0] + 999.0_f64.ln()).abs() < 2e-6 && found.steps < 30, "{found:?}");
    }

    #[test]
    fn second_derivatives_need_not_be_exact() {
        // Twice the true ones: each step goes half of the way.
        let found = minimise_by_newton(
            1,
            1e-9,
            |at, gradient| {
                gradient[0] = at[0] - 1.0;
                (at[0] - 1.0).powi(2) / 2.0
            },
            |_| vec![2.0],
        );
        assert!((found.point[0] - 1.0).abs() <= 1e-9 && found.steps == 30, "{found:?}");
    }

    /// The minimum of `(x - m)ᵀ C (x - m) / 2` with the penalty.
    fn lasso(curvature: &[f64], middle: &[f64], penalised: usize) -> Minimum {
        let size = middle.len();
        let function = |at: &[f64], gradient: &mut [f64]| {
            let off: Vec<f64> = at.iter().zip(middle).map(|(at, middle)| at - middle).collect();
            for (slope, row) in gradient.iter_mut().zip(curvature.chunks_exact(size)) {
                *slope = row.iter().zip(&off).map(|(c, off)| c * off).sum();
            }
            gradient.iter().zip(&off).map(|(slope, off)| slope * off).sum::<f64>() / 2.0
        };
        minimise_with_l1((vec![0.0; size], penalised), 1e-10, function, |_| curvature.to_vec())
    }

    #[test]
    fn what_is_nearer_to_nothing_than_the_penalty_is_nothing() {
        // Each on its own: 3 less 1/2, .4 less than 1/2 is 0, -2 less 1 towards 0, and 5 without a penalty.
        let curvature = [2.0, 0.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0];
        let found = lasso(&curvature, &[3.0, 0.4, -2.0, 5.0], 3);
        let near = found.point.iter().zip([2.5, 0.0, -1.0, 5.0]).all(|(at, expected)| (at - expected).abs() < 1e-9);
        assert!(near && found.point[1] == 0.0, "{found:?}");
        // 2 (.5)² / 2 + 2 (.4)² / 2 + 1 / 2 and the penalties 2.5 + 1.
        assert!((found.value - (0.25 + 0.16 + 0.5 + 3.5)).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn a_term_that_never_varies_has_no_weight() {
        let found = lasso(&[0.0, 0.0, 0.0, 1.0], &[7.0, 3.0], 2);
        assert_eq!(found.point[0], 0.0);
        assert!((found.point[1] - 2.0).abs() < 1e-9);
    }

    /// Near the minimum the values of a step differ by rounding alone: of these minima some took all steps when the values
    /// decided.
    #[test]
    fn a_step_that_is_lost_in_rounding_is_taken() {
        for case in 0..2000_u32 {
            let mut number = f64::from(case);
            let mut drawn = || {
                number += 0.7;
                2.0 * (12.9 * number).sin()
            };
            let rows: Vec<[f64; 4]> = (0..6).map(|_| [drawn(), drawn(), drawn(), drawn()]).collect();
            let middle = [drawn(), drawn(), drawn(), drawn()];
            let found = lasso(&products(&rows), &middle, 3);
            assert!(found.gradient_norm <= 1e-10 && found.steps < 20, "case {case}: {found:?}");
        }
    }

    /// The sum of the products of each row with itself, `[4, 4]`, and a tenth of the identity.
    fn products(rows: &[impl AsRef<[f64]>]) -> Vec<f64> {
        let product =
            |place: usize| rows.iter().map(|row| row.as_ref()[place / 4] * row.as_ref()[place % 4]).sum::<f64>();
        (0..16).map(|place| product(place) + if place % 5 == 0 { 0.1 } else { 0.0 }).collect()
    }

    proptest! {
        /// Where the search ends no subgradient is left, and no place nearby is lower.
        #[test]
        fn the_end_is_the_minimum(
            rows in prop::collection::vec(prop::collection::vec(-2.0..2.0_f64, 4), 6),
            middle in prop::collection::vec(-3.0..3.0_f64, 4),
            moves in prop::collection::vec(-0.1..0.1_f64, 4),
        ) {
            let curvature = products(&rows);
            let found = lasso(&curvature, &middle, 3);
            prop_assert!(found.gradient_norm <= 1e-10, "{found:?}");
            let value = |at: &[f64]| {
                let off: Vec<f64> = at.iter().zip(&middle).map(|(at, middle)| at - middle).collect();
                let product: f64 = (0..16).map(|place| off[place / 4] * curvature[place] * off[place % 4]).sum();
                product / 2.0 + at[..3].iter().map(|at| at.abs()).sum::<f64>()
            };
            let moved: Vec<f64> = found.point.iter().zip(&moves).map(|(at, more)| at + more).collect();
            prop_assert!(value(&moved) >= value(&found.point) - 1e-9);
        }
    }
}
