//! The minimum of a smooth convex function, by L-BFGS (Liu & Nocedal 1989; Nocedal & Wright 2006, section 7.2).

use lbfgs::Lbfgs;

/// Steps that the approximation of the Hessian remembers: with 30 as with 10 they take little time beside one evaluation, and
/// fewer evaluations are needed (Liu & Nocedal 1989, table 2).
const MEMORY: usize = 30;

/// Most steps. A fit of the 72 heads of a small encoder takes some hundred; what has not ended by then does not end.
const MOST_STEPS: u64 = 5000;

/// The decrease that a step must have, as a share of what the slope promises (Nocedal & Wright 2006, section 3.1).
const ARMIJO: f64 = 1e-4;

/// The share of a value below which differences may be rounding: sums of a million terms err by less.
const ROUNDING: f64 = 1e-10;

/// How often a step is halved: afterwards it changes nothing in double precision.
pub const MOST_HALVINGS: u32 = 60;

/// Where a function is smallest, as far as the search came.
#[derive(Clone, Debug, PartialEq)]
pub struct Minimum {
    /// The place.
    pub at: Vec<f64>,
    /// The value there.
    pub value: f64,
    /// The length of the gradient there.
    pub gradient: f64,
    pub steps: u64,
}

/// The minimum of a function that writes its gradient and returns its value, searched from 0 until the gradient is not longer
/// than `tolerance`.
///
/// The function is convex, so a step that decreases it by [`ARMIJO`] will do: the curvature along it is never negative.
pub fn minimise(size: usize, tolerance: f64, mut function: impl FnMut(&[f64], &mut [f64]) -> f64) -> Minimum {
    let (mut at, mut gradient) = (vec![0.0; size], vec![0.0; size]);
    let mut value = function(&at, &mut gradient);
    // Steps near the minimum are short, and no less true for that.
    let mut memory = Lbfgs::<f64>::new(size, MEMORY).with_sy_epsilon(0.0);
    memory.update_hessian(&gradient, &at);
    let mut steps = 0;
    while norm(&gradient) > tolerance && steps < MOST_STEPS {
        let mut direction = gradient.clone();
        memory.apply_hessian(&mut direction);
        // Before there is any curvature to go by, a step of length 1 at most.
        let step = if steps == 0 { 1.0_f64.min(1.0 / norm(&gradient)) } else { 1.0 };
        let Some(reached) = descend((&mut at, &mut gradient, value), &direction, step, &mut function) else { break };
        value = reached;
        memory.update_hessian(&gradient, &at);
        steps += 1;
    }
    Minimum { gradient: norm(&gradient), at, value, steps }
}

/// Goes against a direction by the first of `step` and its halves that decreases a function by [`ARMIJO`] at least: to the place,
/// gradient and value there. `None` if none does.
pub fn descend(
    (at, gradient, value): (&mut [f64], &mut [f64], f64),
    direction: &[f64],
    mut step: f64,
    function: &mut impl FnMut(&[f64], &mut [f64]) -> f64,
) -> Option<f64> {
    let slope = -dot(gradient, direction);
    let (mut next, mut next_gradient) = (at.to_vec(), gradient.to_vec());
    for _ in 0..=MOST_HALVINGS {
        next.iter_mut().zip(&*at).zip(direction).for_each(|((next, at), way)| *next = at - step * way);
        let reached = function(&next, &mut next_gradient);
        if is_lower((value, reached), step * slope, || norm(&next_gradient) < norm(gradient)) {
            at.copy_from_slice(&next);
            gradient.copy_from_slice(&next_gradient);
            return Some(reached);
        }
        step /= 2.0;
    }
    None
}

/// Whether a step from one value to another decreases the function: by [`ARMIJO`] of the change that the slope promises, or, where the
/// values differ by rounding only, because it shortens the gradient (as the approximate Wolfe conditions of Hager & Zhang 2005).
pub fn is_lower((from, to): (f64, f64), promised: f64, shortens: impl FnOnce() -> bool) -> bool {
    to <= from + ARMIJO * promised || (to <= from + from.abs() * ROUNDING && shortens())
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The length of a vector.
pub fn norm(vector: &[f64]) -> f64 {
    dot(vector, vector).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_bowl_and_a_logistic_loss() {
        // (x - 3)² + 100 (y + 1)², whose minimum is at (3, -1).
        let found = minimise(2, 1e-9, |at, gradient| {
            let (x, y) = (at[0] - 3.0, at[1] + 1.0);
            gradient.copy_from_slice(&[2.0 * x, 200.0 * y]);
            x * x + 100.0 * y * y
        });
        assert!((found.at[0] - 3.0).abs() < 1e-9 && (found.at[1] + 1.0).abs() < 1e-9, "{found:?}");
        assert!(found.gradient <= 1e-9 && found.steps < 30);
        // Two of three coins show heads: -2/3 ln p - 1/3 ln (1 - p) is smallest at p = 2/3, whose logit is ln 2.
        let found = minimise(1, 1e-9, |at, gradient| {
            let p = 1.0 / (1.0 + (-at[0]).exp());
            gradient[0] = p - 2.0 / 3.0;
            -2.0 / 3.0 * p.ln() - (1.0 - p).ln() / 3.0
        });
        assert!((found.at[0] - 2.0_f64.ln()).abs() < 1e-8, "{found:?}");
    }

    #[test]
    fn nothing_to_do_takes_no_step() {
        let found = minimise(1, 1e-6, |_, gradient| {
            gradient[0] = 0.0;
            1.0
        });
        assert_eq!(found, Minimum { at: vec![0.0], value: 1.0, gradient: 0.0, steps: 0 });
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
            prop_assert!(found.gradient <= 1e-8, "{} after {}", found.gradient, found.steps);
        }
    }
}
