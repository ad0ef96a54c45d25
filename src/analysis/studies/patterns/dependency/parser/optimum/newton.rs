//! The minimum of a smooth, strictly convex function of few variables, by Newton's method (Nocedal & Wright 2006, section 3.3).

use super::minimise::{Minimum, descend, norm};
use crate::linalg::cholesky::Cholesky;

/// Most steps; a fit takes ten to twenty.
pub const MOST_STEPS: u64 = 200;

/// A step that shortens the gradient to this share of it was good enough for the second derivatives to serve once more: they cost as
/// much as ten evaluations (Shamanskii 1967).
pub const GOOD_STEP: f64 = 0.5;

/// The minimum of a function that writes its gradient and returns its value, searched from 0 until the gradient is not longer than
/// `tolerance`; `curvature` has its second derivatives, `[size, size]` and positive definite, which need
/// not be exact.
pub fn newton(
    size: usize,
    tolerance: f64,
    mut function: impl FnMut(&[f64], &mut [f64]) -> f64,
    mut curvature: impl FnMut(&[f64]) -> Vec<f64>,
) -> Minimum {
    let (mut at, mut gradient) = (vec![0.0; size], vec![0.0; size]);
    let mut value = function(&at, &mut gradient);
    let (mut steps, mut factors) = (0, None);
    while norm(&gradient) > tolerance && steps < MOST_STEPS {
        let Some(used) = factors.take().or_else(|| Cholesky::new(curvature(&at), size)) else { break };
        let mut direction = gradient.clone();
        used.solve_lower(&mut direction, 1);
        used.solve_upper(&mut direction, 1);
        let before = norm(&gradient);
        let Some(reached) = descend((&mut at, &mut gradient, value), &direction, 1.0, &mut function) else { break };
        value = reached;
        steps += 1;
        factors = Some(used).filter(|_| norm(&gradient) < GOOD_STEP * before);
    }
    Minimum { gradient: norm(&gradient), at, value, steps }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bowl_takes_one_step_and_a_logistic_loss_few() {
        // (x - 3)² + 100 (y + 1)², whose minimum is at (3, -1).
        let found = newton(
            2,
            1e-9,
            |at, gradient| {
                let (x, y) = (at[0] - 3.0, at[1] + 1.0);
                gradient.copy_from_slice(&[2.0 * x, 200.0 * y]);
                x * x + 100.0 * y * y
            },
            |_| vec![2.0, 0.0, 0.0, 200.0],
        );
        let near = |at: f64, expected: f64| (at - expected).abs() < 1e-12;
        assert!(near(found.at[0], 3.0) && near(found.at[1], -1.0) && found.steps == 1, "{found:?}");
        // One of a thousand coins shows heads: the logit is -ln 999, far from 0.
        let logistic = |at: &[f64]| 1.0 / (1.0 + (-at[0]).exp());
        let found = newton(
            1,
            1e-9,
            |at, gradient| {
                let p = logistic(at);
                gradient[0] = p - 0.001;
                -0.001 * p.ln() - 0.999 * (1.0 - p).ln()
            },
            |at| vec![logistic(at) * (1.0 - logistic(at))],
        );
        assert!((found.at[0] + 999.0_f64.ln()).abs() < 2e-6 && found.steps < 30, "{found:?}");
    }

    #[test]
    fn second_derivatives_need_not_be_exact() {
        // Twice the true ones: each step goes half of the way.
        let found = newton(
            1,
            1e-9,
            |at, gradient| {
                gradient[0] = at[0] - 1.0;
                (at[0] - 1.0).powi(2) / 2.0
            },
            |_| vec![2.0],
        );
        assert!((found.at[0] - 1.0).abs() <= 1e-9 && found.steps == 30, "{found:?}");
    }
}
