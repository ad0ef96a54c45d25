//! The minimum of a smooth convex function and an L1 penalty, by a proximal Newton method: the penalised quadratic model of a step is
//! minimised by coordinate descent (Friedman, Hastie & Tibshirani 2010; Lee, Sun & Saunders 2014).

use super::minimise::{MOST_HALVINGS, Minimum, is_lower, norm};
use super::newton::{GOOD_STEP, MOST_STEPS};

/// The share of the violation that may be left in the model of a step: less would be lost to the next model.
const INNER: f64 = 0.1;

/// Most rounds over the coordinates of one model; some hundred are needed where terms are alike.
const MOST_ROUNDS: usize = 10_000;

/// The minimum of a function of `start.len()` variables and the absolute values of the first `penalised` of them, from `start` until the
/// shortest subgradient is not longer than `tolerance`. The function writes its gradient and returns its value; `curvature` has its second
/// derivatives, `[size, size]`, which need not be exact.
pub fn proximal_newton(
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
    let (mut steps, mut known) = (0, None);
    while violation > tolerance && steps < MOST_STEPS {
        let used = known.take().unwrap_or_else(|| curvature(&at));
        let step = model_step((&at, &gradient, penalised), &used, (INNER * violation).max(INNER * tolerance));
        let end: Vec<f64> = at.iter().zip(&step).map(|(at, step)| at + step).collect();
        let promised =
            gradient.iter().zip(&step).map(|(slope, step)| slope * step).sum::<f64>() + absolute(&end) - absolute(&at);
        let mut share = 1.0;
        let mut reached = None;
        for _ in 0..=MOST_HALVINGS {
            let next: Vec<f64> = at.iter().zip(&step).map(|(at, step)| at + share * step).collect();
            let next_value = function(&next, &mut next_gradient) + absolute(&next);
            let next_violation = norm(&subgradient(&next, &next_gradient, penalised));
            if is_lower((value, next_value), share * promised, || next_violation < violation) {
                reached = Some((next, next_value, next_violation));
                break;
            }
            share /= 2.0;
        }
        let Some((next, next_value, next_violation)) = reached else { break };
        (at, value) = (next, next_value);
        gradient.copy_from_slice(&next_gradient);
        steps += 1;
        let before = std::mem::replace(&mut violation, next_violation);
        known = Some(used).filter(|_| violation < GOOD_STEP * before);
    }
    Minimum { at, value, gradient: violation, steps }
}

/// The shortest subgradient.
fn subgradient(at: &[f64], gradient: &[f64], penalised: usize) -> Vec<f64> {
    let of = |(place, (&at, &slope)): (usize, (&f64, &f64))| shortest(at, slope, place < penalised);
    at.iter().zip(gradient).enumerate().map(of).collect()
}

/// The derivative of a coordinate that is nearest to 0, with the penalty where it is penalised.
fn shortest(at: f64, slope: f64, is_penalised: bool) -> f64 {
    match is_penalised {
        false => slope,
        true if at == 0.0 => slope.signum() * (slope.abs() - 1.0).max(0.0),
        true => slope + at.signum(),
    }
}

/// The step to the minimum of the quadratic model at a place with the penalty, by coordinate descent, until the shortest subgradient of the
/// model is not longer than `tolerance`.
fn model_step((at, gradient, penalised): (&[f64], &[f64], usize), curvature: &[f64], tolerance: f64) -> Vec<f64> {
    let size = at.len();
    let (mut step, mut slopes) = (vec![0.0; size], gradient.to_vec());
    for _ in 0..MOST_ROUNDS {
        for place in 0..size {
            let curve = curvature[place * size + place];
            // A term that never varies has no weight.
            if curve <= 0.0 {
                continue;
            }
            let (now, is_penalised) = (at[place] + step[place], place < penalised);
            let free = now - slopes[place] / curve;
            let most = if is_penalised { free.signum() * (free.abs() - 1.0 / curve).max(0.0) } else { free };
            let change = most - now;
            if change != 0.0 {
                step[place] += change;
                let row = &curvature[place * size..][..size];
                slopes.iter_mut().zip(row).for_each(|(slope, curve)| *slope += curve * change);
            }
        }
        let left = (0..size).filter(|&place| curvature[place * size + place] > 0.0);
        let left = left.map(|place| shortest(at[place] + step[place], slopes[place], place < penalised).powi(2));
        if left.sum::<f64>().sqrt() <= tolerance {
            break;
        }
    }
    step
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
        proximal_newton((vec![0.0; size], penalised), 1e-10, function, |_| curvature.to_vec())
    }

    #[test]
    fn what_is_nearer_to_nothing_than_the_penalty_is_nothing() {
        // Each on its own: 3 less 1/2, .4 less than 1/2 is 0, -2 less 1 towards 0, and 5 without a penalty.
        let curvature = [2.0, 0.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0];
        let found = lasso(&curvature, &[3.0, 0.4, -2.0, 5.0], 3);
        let near = found.at.iter().zip([2.5, 0.0, -1.0, 5.0]).all(|(at, expected)| (at - expected).abs() < 1e-9);
        assert!(near && found.at[1] == 0.0, "{found:?}");
        // 2 (.5)² / 2 + 2 (.4)² / 2 + 1 / 2 and the penalties 2.5 + 1.
        assert!((found.value - (0.25 + 0.16 + 0.5 + 3.5)).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn a_term_that_never_varies_has_no_weight() {
        let found = lasso(&[0.0, 0.0, 0.0, 1.0], &[7.0, 3.0], 2);
        assert_eq!(found.at[0], 0.0);
        assert!((found.at[1] - 2.0).abs() < 1e-9);
    }

    /// Near the minimum the values of a step differ by rounding alone: of these minima some took all steps when the values decided.
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
            assert!(found.gradient <= 1e-10 && found.steps < 20, "case {case}: {found:?}");
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
            prop_assert!(found.gradient <= 1e-10, "{found:?}");
            let value = |at: &[f64]| {
                let off: Vec<f64> = at.iter().zip(&middle).map(|(at, middle)| at - middle).collect();
                let product: f64 = (0..16).map(|place| off[place / 4] * curvature[place] * off[place % 4]).sum();
                product / 2.0 + at[..3].iter().map(|at| at.abs()).sum::<f64>()
            };
            let moved: Vec<f64> = found.at.iter().zip(&moves).map(|(at, more)| at + more).collect();
            prop_assert!(value(&moved) >= value(&found.at) - 1e-9);
        }
    }
}
