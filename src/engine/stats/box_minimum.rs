//! Minima of a smooth function over the unit box, by spectral projected gradients (Birgin, Martínez & Raydan 2000, "Nonmonotone
//! spectral projected gradient methods on convex sets", Algorithm 2.2).
//!
//! A step moves each coordinate by at most a quarter of the box, so that, of several minima, the search tends to one near its
//! start.

/// Number of latest function values whose maximum bounds the value after a step (Birgin et al. 2000, section 3).
const LINE_SEARCH_MEMORY: usize = 10;

/// Share of the decrease predicted by the gradient that a step must reach (Birgin et al. 2000, section 3).
const SUFFICIENT_DECREASE: f64 = 1e-4;

/// Minimum and maximum of the factor by which a rejected step is shortened (Birgin et al. 2000, section 3).
const STEP_SHRINK_RANGE: [f64; 2] = [0.1, 0.9];

/// Minimum and maximum length of a step, as a multiple of the gradient (Birgin et al. 2000, section 3).
const STEP_LENGTH_RANGE: [f64; 2] = [1e-10, 1e10];

/// Maximum distance that a coordinate moves in one step. From most starting points, a first step without this limit would
/// end in one and the same corner.
const MAX_MOVE: f64 = 0.25;

/// Value of a function, and its derivatives by all coordinates.
pub type ValueAndGradient = (f64, Vec<f64>);

/// Result of a minimisation over the unit box.
#[derive(Clone, Debug, PartialEq)]
pub struct BoxMinimum {
    /// Point with the lowest value among all points evaluated.
    pub point: Vec<f64>,
    /// Value of the function at `point`.
    pub value: f64,
    /// Number of evaluations of the function.
    pub evaluations: usize,
    /// Whether every coordinate of the projected gradient is within the tolerance. If not, the evaluations were used up.
    pub converged: bool,
}

/// Minimises `function` over the unit box, beginning at `start`. Stops once the projected gradient `P(x - g) - x`, at a
/// point `x` with gradient `g`, is within `tolerance` in every coordinate. Also stops after `most` evaluations. Fails if
/// `function` fails.
pub fn minimise_in_box<E>(
    start: &[f64],
    (tolerance, most): (f64, usize),
    mut function: impl FnMut(&[f64]) -> Result<ValueAndGradient, E>,
) -> Result<BoxMinimum, E> {
    let mut point = moved_point(start, start, 0.0);
    let (mut value, mut gradient) = function(&point)?;
    let mut best = BoxMinimum { point: point.clone(), value, evaluations: 1, converged: false };
    let mut recent_values = vec![value];
    let mut length = 1.0 / max_abs(&projected_step(&point, &gradient, 1.0)).max(STEP_LENGTH_RANGE[0]);
    loop {
        best.converged = max_abs(&projected_step(&point, &gradient, 1.0)) <= tolerance;
        if best.converged || best.evaluations >= most {
            return Ok(best);
        }
        let mut direction = projected_step(&point, &gradient, length);
        let shrinkage = (MAX_MOVE / max_abs(&direction)).min(1.0);
        direction.iter_mut().for_each(|along| *along *= shrinkage);
        let slope = dot(&gradient, &direction);
        let bound = recent_values.iter().rev().take(LINE_SEARCH_MEMORY).copied().fold(f64::NEG_INFINITY, f64::max);
        let mut share = 1.0;
        let (next, next_value, next_gradient) = loop {
            let next = moved_point(&point, &direction, share);
            let (next_value, next_gradient) = function(&next)?;
            best.evaluations += 1;
            if next_value < best.value {
                best.point.clone_from(&next);
                best.value = next_value;
            }
            if next_value <= bound + SUFFICIENT_DECREASE * share * slope || best.evaluations >= most {
                break (next, next_value, next_gradient);
            }
            // The minimum of the parabola through both values and the slope.
            let least = -share * share * slope / (2.0 * (next_value - value - share * slope));
            let [low, high] = STEP_SHRINK_RANGE.map(|part| part * share);
            share = if (low..=high).contains(&least) { least } else { share / 2.0 };
        };
        let minus = |to: &[f64], from: &[f64]| to.iter().zip(from).map(|(to, from)| to - from).collect::<Vec<f64>>();
        let (step, gradient_change) = (minus(&next, &point), minus(&next_gradient, &gradient));
        let curvature = dot(&step, &gradient_change);
        let [least, greatest] = STEP_LENGTH_RANGE;
        let spectral_length = if curvature > 0.0 { dot(&step, &step) / curvature } else { greatest };
        length = spectral_length.clamp(least, greatest);
        (point, value, gradient) = (next, next_value, next_gradient);
        recent_values.push(value);
    }
}

/// Projected step from a point: the point minus `length` times the gradient, moved to the nearest point of the box, minus
/// the original point.
fn projected_step(point: &[f64], gradient: &[f64], length: f64) -> Vec<f64> {
    point.iter().zip(gradient).map(|(at, slope)| (at - length * slope).clamp(0.0, 1.0) - at).collect()
}

/// Moves a point by `share` times `direction`, and clamps it to the box against rounding errors.
fn moved_point(point: &[f64], direction: &[f64], share: f64) -> Vec<f64> {
    point.iter().zip(direction).map(|(at, along)| (at + share * along).clamp(0.0, 1.0)).collect()
}

/// Largest absolute value; 0 for no values.
fn max_abs(values: &[f64]) -> f64 {
    values.iter().map(|value| value.abs()).fold(0.0, f64::max)
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn minimum(start: &[f64], most: usize, function: impl Fn(&[f64]) -> ValueAndGradient) -> BoxMinimum {
        minimise_in_box(start, (1e-9, most), |point| Ok::<_, Infallible>(function(point))).unwrap()
    }

    fn are_near(found: &[f64], expected: &[f64]) -> bool {
        found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-8)
    }

    /// `(x - 2)² + 10 (y - 0.3)² + (z + 1)² + x y`: at x = 1 and z = 0 the least y is 0.3 - 1/20.
    #[test]
    fn coordinates_end_at_bounds_or_where_the_function_is_flat() {
        let function = |at: &[f64]| {
            let [x, y, z] = [at[0], at[1], at[2]];
            let value = (x - 2.0).powi(2) + 10.0 * (y - 0.3).powi(2) + (z + 1.0).powi(2) + x * y;
            (value, vec![2.0 * (x - 2.0) + y, 20.0 * (y - 0.3) + x, 2.0 * (z + 1.0)])
        };
        for start in [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.2, 0.9, 0.4]] {
            let found = minimum(&start, 100, function);
            assert!(found.converged && found.evaluations < 30, "{found:?}");
            assert!(are_near(&found.point, &[1.0, 0.25, 0.0]), "{found:?}");
            assert!((found.value - function(&[1.0, 0.25, 0.0]).0).abs() < 1e-12);
        }
        let cut = minimum(&[0.2, 0.9, 0.4], 2, function);
        assert_eq!((cut.converged, cut.evaluations), (false, 2));
    }

    /// Two heads that do the same: one of them is enough, the one that is nearer to being open.
    #[test]
    fn the_start_decides_between_two_minima() {
        let function = |at: &[f64]| {
            let [x, y] = [at[0], at[1]];
            (2.0 * (1.0 - x) * (1.0 - y) + 0.02 * (x + y), vec![0.02 - 2.0 * (1.0 - y), 0.02 - 2.0 * (1.0 - x)])
        };
        for [x, y] in [[0.3, 0.6], [0.1, 0.2], [0.9, 0.7]] {
            let found = minimum(&[x, y], 100, function);
            assert!(are_near(&found.point, &if x > y { [1.0, 0.0] } else { [0.0, 1.0] }), "{found:?}");
        }
    }

    /// `-(x - 0.4)²` has a minimum at either end: which one is found depends on the start.
    #[test]
    fn a_bowl_upside_down_has_two_minima() {
        let function = |at: &[f64]| (-(at[0] - 0.4).powi(2), vec![-2.0 * (at[0] - 0.4)]);
        for (start, end) in [(0.3, 0.0), (0.5, 1.0)] {
            assert!(are_near(&minimum(&[start], 50, function).point, &[end]), "from {start}");
        }
        // Nothing pulls either way there.
        assert_eq!(minimum(&[0.4], 50, function).evaluations, 1);
    }
}
