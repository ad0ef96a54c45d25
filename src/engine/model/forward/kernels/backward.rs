//! Backward passes of the encoder's element-wise operations. Each turns derivatives with respect to the outputs, in
//! place, into derivatives with respect to the inputs.

#![expect(clippy::inline_always, reason = "what is not inlined is not compiled for the instruction set of its caller")]

use multiversion::multiversion;

use super::{GELU_TANH_FACTOR, QUICK_GELU_FACTOR, exp, logistic, normal_tail, reduce};
use crate::linalg::lanes::{LANES, centred_dot, dot, reduce_lanes};
use crate::model::config::{Activation, NormKind};

/// Backward pass of [`activate`](super::activate) at `states + bias`, row by row. If gated, rows are `[2 * width]`. On entry,
/// only the first half of a row holds derivatives; on return, both halves do.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
pub fn activate(activation: Activation, is_gated: bool, states: &[f32], bias: &[f32], derivatives: &mut [f32]) {
    match activation {
        Activation::Gelu => apply_chain_rule(is_gated, states, bias, derivatives, gelu),
        Activation::GeluTanh => apply_chain_rule(is_gated, states, bias, derivatives, gelu_tanh),
        Activation::Relu => apply_chain_rule(is_gated, states, bias, derivatives, |x| [x.max(0.0), f32::from(x > 0.0)]),
        Activation::Silu => apply_chain_rule(is_gated, states, bias, derivatives, silu),
        Activation::QuickGelu => apply_chain_rule(is_gated, states, bias, derivatives, quick_gelu),
        Activation::Tanh => apply_chain_rule(is_gated, states, bias, derivatives, tanh),
    }
}

/// Backward pass of layer norm or RMS norm of each row; rows have as many values as `weight`.
///
/// With `y = (x - mean x) / s`, `s` the standard deviation, and `g` the derivatives with respect to `y`, the
/// derivatives with respect to `x` are `(g - mean g - y mean(g y)) / s`. RMS norm leaves out the means of `x` and `g`.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
pub fn norm(kind: NormKind, rows: &[f32], weight: &[f32], epsilon: f32, derivatives: &mut [f32]) {
    let (width, is_centred) = (weight.len() as f32, kind == NormKind::Layer);
    for (row, out) in rows.chunks_exact(weight.len()).zip(derivatives.chunks_exact_mut(weight.len())) {
        out.iter_mut().zip(weight).for_each(|(derivative, weight)| *derivative *= weight);
        let mean_of = |values: &[f32]| if is_centred { reduce(values, 0.0, |x| x, |a, b| a + b) / width } else { 0.0 };
        let (mean, mean_derivative) = (mean_of(row), mean_of(out));
        let variance = reduce(row, 0.0, |x| (x - mean) * (x - mean), |a, b| a + b) / width;
        let scale = 1.0 / (variance + epsilon).sqrt();
        let along = centred_dot(row, mean, out) / width * scale;
        for (derivative, x) in out.iter_mut().zip(row) {
            *derivative = (*derivative - mean_derivative - (x - mean) * scale * along) * scale;
        }
    }
}

/// Backward pass of the softmax of each row: `factor * a (d - <a, d>)`, for derivatives `d` with respect to the
/// attention weights `a`. Rows begin `stride` values apart and have `keys` weights. Puts `<a, d>` of each row into
/// `products`, `[rows]`.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
pub fn softmax(
    weights: &[f32],
    keys: usize,
    stride: usize,
    factor: f32,
    derivatives: &mut [f32],
    products: &mut [f32],
) {
    for ((row, out), product) in weights.chunks(stride).zip(derivatives.chunks_mut(stride)).zip(products) {
        let (row, out) = (&row[..keys], &mut out[..keys]);
        *product = dot(row, out);
        for (derivative, weight) in out.iter_mut().zip(row) {
            *derivative = factor * weight * (*derivative - *product);
        }
    }
}

/// Backward pass of the soft bound `y = c tanh(x / c)`: multiplies derivatives by `1 - (y / c)^2`. `bounded` holds `y`; minus
/// infinity marks a hidden key, whose derivative is 0.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
pub fn soft_cap(bounded: &[f32], c: f32, derivatives: &mut [f32]) {
    for (derivative, y) in derivatives.iter_mut().zip(bounded) {
        let share = y / c;
        *derivative *= if share < -1.0 { 0.0 } else { 1.0 - share * share };
    }
}

/// Replaces a row `x` by its softmax, and returns the logarithm of the sum of `e^x`.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
pub fn softmax_with_log_sum(row: &mut [f32]) -> f64 {
    let largest = reduce(row, f32::NEG_INFINITY, |x| x, f32::max);
    let mut partial = [0.0_f64; LANES];
    let (chunks, rest) = row.as_chunks_mut::<LANES>();
    for chunk in chunks {
        for lane in 0..LANES {
            chunk[lane] = exp(chunk[lane] - largest);
            partial[lane] += f64::from(chunk[lane]);
        }
    }
    for (partial, x) in partial.iter_mut().zip(rest) {
        *x = exp(*x - largest);
        *partial += f64::from(*x);
    }
    let total = reduce_lanes(partial, |a, b| a + b);
    #[expect(clippy::cast_possible_truncation, reason = "shares are f32")]
    let inverse = (1.0 / total) as f32;
    row.iter_mut().for_each(|x| *x *= inverse);
    f64::from(largest) + total.ln()
}

/// Applies the chain rule to an activation; `evaluate` returns `[value, derivative]` of the activation.
#[inline(always)]
fn apply_chain_rule(
    is_gated: bool,
    states: &[f32],
    bias: &[f32],
    derivatives: &mut [f32],
    evaluate: impl Fn(f32) -> [f32; 2],
) {
    let width = bias.len() / 2;
    let (gate_biases, other_biases) = bias.split_at(width);
    for (row, out) in states.chunks_exact(bias.len()).zip(derivatives.chunks_exact_mut(bias.len())) {
        if !is_gated {
            for ((derivative, x), bias) in out.iter_mut().zip(row).zip(bias) {
                *derivative *= evaluate(x + bias)[1];
            }
            continue;
        }
        let ((gates, others), (gate_derivatives, other_derivatives)) = (row.split_at(width), out.split_at_mut(width));
        let biases = gate_biases.iter().zip(other_biases);
        let places = gates.iter().zip(others).zip(biases).zip(gate_derivatives.iter_mut().zip(other_derivatives));
        for (((x, other), (bias, other_bias)), (derivative, other_derivative)) in places {
            let [value, slope] = evaluate(x + bias);
            (*derivative, *other_derivative) = (*derivative * (other + other_bias) * slope, *derivative * value);
        }
    }
}

/// Returns `[value, derivative]` of GELU.
#[inline(always)]
fn gelu(x: f32) -> [f32; 2] {
    /// `1 / sqrt(2 pi)`: the standard normal density at 0.
    const NORMAL_DENSITY_AT_0: f32 = 0.398_942_3;
    let [series, t, power] = normal_tail(x);
    let tail = 0.5 * series * t * power;
    let below = if x < 0.0 { tail } else { 1.0 - tail };
    [x * below, below + x * NORMAL_DENSITY_AT_0 * power]
}

/// Returns `[value, derivative]` of the tanh approximation of GELU.
#[inline(always)]
fn gelu_tanh(x: f32) -> [f32; 2] {
    let share = logistic(GELU_TANH_FACTOR * (x + 0.044_715 * x * x * x));
    [x * share, share + x * share * (1.0 - share) * GELU_TANH_FACTOR * (1.0 + 3.0 * 0.044_715 * x * x)]
}

/// Returns `[value, derivative]` of `SiLU`.
#[inline(always)]
fn silu(x: f32) -> [f32; 2] {
    let share = logistic(x);
    [x * share, share + x * share * (1.0 - share)]
}

/// Returns `[value, derivative]` of the logistic approximation of GELU.
#[inline(always)]
fn quick_gelu(x: f32) -> [f32; 2] {
    let [value, slope] = silu(QUICK_GELU_FACTOR * x);
    [value / QUICK_GELU_FACTOR, slope]
}

/// Returns `[value, derivative]` of tanh.
#[inline(always)]
fn tanh(x: f32) -> [f32; 2] {
    let value = x.tanh();
    [value, 1.0 - value * value]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::forward::kernels;

    /// Central differences of a function of a row, along every value: the derivatives of its sum with weights 1, -2, 3, and so on.
    fn differences(row: &[f32], apply: impl Fn(&mut Vec<f32>)) -> Vec<f64> {
        const STEP: f32 = 1.0 / 256.0;
        let score = |place: usize, by: f32| {
            let mut moved = row.to_vec();
            moved[place] += by;
            apply(&mut moved);
            moved.iter().zip(weights()).map(|(x, weight)| f64::from(*x * weight)).sum::<f64>()
        };
        (0..row.len()).map(|place| (score(place, STEP) - score(place, -STEP)) / f64::from(2.0 * STEP)).collect()
    }

    fn weights() -> impl Iterator<Item = f32> {
        (1..).map(|place: u8| if place.is_multiple_of(2) { -f32::from(place) } else { f32::from(place) })
    }

    fn near(found: &[f32], expected: &[f64], what: &str) {
        for (found, expected) in found.iter().zip(expected) {
            assert!(
                (f64::from(*found) - expected).abs() < 2e-3 * expected.abs().max(1.0),
                "{what}: {found}, not {expected}"
            );
        }
    }

    const ROW: [f32; 6] = [-2.5, -0.75, -0.125, 0.25, 1.5, 3.0];
    const BIAS: [f32; 6] = [0.5, -0.25, 0.5, -0.125, 0.25, 0.5];

    #[test]
    fn activations_and_gates_are_differences() {
        for &(name, activation) in Activation::ALL {
            let mut found: Vec<f32> = weights().take(6).collect();
            activate(activation, false, &ROW, &BIAS, &mut found);
            near(&found, &differences(&ROW, |row| kernels::activate(activation, false, row, &BIAS)), name);
            // What the second half of a row becomes is nobody's.
            let mut found: Vec<f32> = weights().take(3).chain([f32::NAN; 3]).collect();
            activate(activation, true, &ROW, &BIAS, &mut found);
            let expected = differences(&ROW, |row| {
                kernels::activate(activation, true, row, &BIAS);
                row.truncate(3);
            });
            near(&found, &expected, name);
        }
    }

    #[test]
    fn norms_are_differences() {
        let (weight, shift) = ([1.0, 0.5, 2.0, -1.0, 0.0, 1.5], [0.25; 6]);
        let mut found: Vec<f32> = weights().take(6).collect();
        norm(NormKind::Layer, &ROW, &weight, 1e-3, &mut found);
        near(&found, &differences(&ROW, |row| kernels::norm(NormKind::Layer, row, &weight, &shift, 1e-3)), "layer");
        let mut found: Vec<f32> = weights().take(6).collect();
        norm(NormKind::RootMeanSquare, &ROW, &weight, 1e-3, &mut found);
        let expected = differences(&ROW, |row| kernels::norm(NormKind::RootMeanSquare, row, &weight, &shift, 1e-3));
        near(&found, &expected, "mean square");
    }

    #[test]
    fn a_softmax_and_its_bound_by_hand() {
        // Weights 1/4 and 3/4, derivatives 4 and 8: their product is 7, so 1/4 (4 - 7) and 3/4 (8 - 7), by half of a head.
        let (mut derivatives, mut products) = ([4.0, 8.0, 9.0], [0.0]);
        softmax(&[0.25, 0.75, 0.0], 2, 3, 0.5, &mut derivatives, &mut products);
        assert_eq!((derivatives, products), ([-0.375, 0.375, 9.0], [7.0]));
        // At half of the bound three quarters of the derivative pass, at the bound nothing, and nothing of what is hidden.
        let mut derivatives = [4.0, 4.0, 4.0, 4.0];
        soft_cap(&[1.0, -2.0, 0.0, f32::NEG_INFINITY], 2.0, &mut derivatives);
        assert_eq!(derivatives, [3.0, 0.0, 4.0, 0.0]);
        let mut row = [0.0, 3.0_f32.ln()];
        assert!((softmax_with_log_sum(&mut row) - 4.0_f64.ln()).abs() < 1e-6);
        near(&row, &[0.25, 0.75], "shares");
    }
}
