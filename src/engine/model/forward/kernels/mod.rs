//! The element-wise operations of the packed encoder, written so that the compiler vectorises them. `multiversion` compiles each
//! for several instruction sets and chooses one at run time. Fused multiply-add is written out, so that results are equal on all
//! instruction sets. A machine without fused multiply-add (x86-64 before 2013) computes it in software, slowly.

#![expect(clippy::inline_always, reason = "what is not inlined is not compiled for the instruction set of its caller")]
#![expect(clippy::excessive_precision, reason = "constants as they were computed; the compiler rounds them")]

use std::ops::Range;

use multiversion::multiversion;

use crate::linalg::lanes::{LANES, dot, reduce_lanes, shifted_dot};
use crate::model::config::{Activation, NormKind};

pub mod backward;
#[cfg(test)]
mod tests;

/// Factor of `x` with which the logistic function approximates the normal distribution function (Hendrycks & Gimpel 2016, 2).
pub const QUICK_GELU_FACTOR: f32 = 1.702;

/// Replaces the first `keys` values of each row of `scores`, `[rows, stride]`, by their softmax, and all further values by 0.
/// Puts the entropy of each row, in nats, into `entropies`, `[rows]`. `stride` is a multiple of [`LANES`].
///
/// With `x` the scores minus their maximum and `Z` the sum of `e^x`, the entropy is `ln Z - (sum e^x x) / Z`, free of
/// cancellation.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
pub fn softmax(scores: &mut [f32], keys: usize, stride: usize, entropies: &mut [f32]) {
    assert!(stride.is_multiple_of(LANES), "rows of whole vectors");
    for (row, entropy) in scores.chunks_exact_mut(stride).zip(entropies) {
        row[keys..].fill(f32::NEG_INFINITY);
        *entropy = softmax_row(row);
    }
}

/// Sets the scores of hidden keys to minus infinity, among the first `keys` values of each row of `scores`, `[rows, stride]`.
/// `visible_keys` returns the range of visible keys of a query.
pub fn mask_hidden_keys(scores: &mut [f32], keys: usize, stride: usize, visible_keys: impl Fn(usize) -> Range<usize>) {
    for (query, row) in scores.chunks_exact_mut(stride).enumerate() {
        let Range { start, end } = visible_keys(query);
        row[..start].fill(f32::NEG_INFINITY);
        row[end..keys].fill(f32::NEG_INFINITY);
    }
}

/// Replaces each row `x` of `states` by the activation of `x + bias`. If gated, rows are `[2 * width]`, and the activation of the
/// first half times the second half replaces the first half.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
pub fn activate(activation: Activation, is_gated: bool, states: &mut [f32], bias: &[f32]) {
    match activation {
        Activation::Gelu => bias_then(is_gated, states, bias, gelu),
        Activation::GeluTanh => bias_then(is_gated, states, bias, gelu_tanh),
        Activation::Relu => bias_then(is_gated, states, bias, |x| x.max(0.0)),
        Activation::Silu => bias_then(is_gated, states, bias, silu),
        Activation::QuickGelu => bias_then(is_gated, states, bias, quick_gelu),
        Activation::Tanh => bias_then(is_gated, states, bias, f32::tanh),
    }
}

/// Replaces each score `x` by `c tanh(x / c)`: a soft bound at `c`.
pub fn soft_cap(scores: &mut [f32], c: f32) {
    scores.iter_mut().for_each(|score| *score = c * (*score / c).tanh());
}

/// Rotates each attention head's vector in a row, `[heads, head_dim]`, by the cosines and sines in `angles`, `[2, pairs]`.
/// Dimension `i` pairs with dimension `i + pairs`; dimensions from `2 * pairs` on do not change.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
pub fn rotate(row: &mut [f32], head_dim: usize, angles: &[f32]) {
    let pairs = angles.len() / 2;
    let (cosines, sines) = angles.split_at(pairs);
    for head in row.chunks_exact_mut(head_dim) {
        let (first, second) = head.split_at_mut(pairs);
        let turned = first.iter_mut().zip(second).zip(cosines).zip(sines);
        for (((x, y), cosine), sine) in turned {
            (*x, *y) = (*x * cosine - *y * sine, *y * cosine + *x * sine);
        }
    }
}

/// Writes `(x + bias) * scale` for each row `x` of `from` into `into`. Rows begin `stride` values apart in `from`, and are
/// adjacent in `into`.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
pub fn bias_scale(from: &[f32], stride: usize, bias: &[f32], scale: f32, into: &mut [f32]) {
    for (row, out) in from.chunks(stride).zip(into.chunks_exact_mut(bias.len())) {
        for ((out, x), bias) in out.iter_mut().zip(row).zip(bias) {
            *out = (x + bias) * scale;
        }
    }
}

/// Writes the Euclidean norm of each row of `rows`, `[rows, width]`, into `norms`, `[rows]`.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
pub fn row_norms(rows: &[f32], width: usize, norms: &mut [f32]) {
    rows.chunks_exact(width).zip(norms).for_each(|(row, norm)| *norm = dot(row, row).sqrt());
}

/// Writes the norm of each row `x` plus the bias `b` under a Gram matrix `G`, `sqrt((x + b) G (x + b)ᵀ)`, into `norms`, `[rows]`.
/// Rows begin `stride` values apart. `products` holds `x G`, and `bias_product` holds `b G`.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
pub fn biased_norms(
    rows: &[f32],
    stride: usize,
    bias: &[f32],
    products: &[f32],
    bias_product: &[f32],
    norms: &mut [f32],
) {
    let width = bias.len();
    for ((row, product), norm) in rows.chunks(stride).zip(products.chunks_exact(width)).zip(norms) {
        // Rounding can make a tiny square negative.
        *norm = shifted_dot(&row[..width], bias, product, bias_product).max(0.0).sqrt();
    }
}

/// Number of rows that [`multiply_square`] multiplies at a time. Their partial results occupy half of the AVX-512 registers.
const ROWS_AT_ONCE: usize = 4;

/// Multiplies rows that begin `stride` values apart by a square matrix, `[width, width]`, into adjacent rows. It serves the
/// small products of one head over one sentence, for which setting up gemm would take longer.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
pub fn multiply_square(rows: &[f32], stride: usize, square: &[f32], width: usize, into: &mut [f32]) {
    let count = into.len() / width;
    let whole = count - count % ROWS_AT_ONCE;
    for first in (0..whole).step_by(ROWS_AT_ONCE) {
        let rows = std::array::from_fn(|row| &rows[(first + row) * stride..][..width]);
        rows_times_square::<ROWS_AT_ONCE>(rows, square, &mut into[first * width..][..ROWS_AT_ONCE * width]);
    }
    for row in whole..count {
        rows_times_square([&rows[row * stride..][..width]], square, &mut into[row * width..][..width]);
    }
}

/// Multiplies `R` rows by a square matrix, into adjacent rows.
#[inline(always)]
fn rows_times_square<const R: usize>(rows: [&[f32]; R], square: &[f32], into: &mut [f32]) {
    let width = rows[0].len();
    let pairs = width - width % (2 * LANES);
    for column in (0..pairs).step_by(2 * LANES) {
        let mut sums = [[0.0; 2 * LANES]; R];
        for (inner, entries) in square.chunks_exact(width).enumerate() {
            let entries = entries[column..].first_chunk::<{ 2 * LANES }>().expect("a pair of vectors");
            for row in 0..R {
                let x = rows[row][inner];
                for lane in 0..2 * LANES {
                    sums[row][lane] = x.mul_add(entries[lane], sums[row][lane]);
                }
            }
        }
        for row in 0..R {
            into[row * width + column..][..2 * LANES].copy_from_slice(&sums[row]);
        }
    }
    for column in (pairs..width).step_by(LANES) {
        let columns = LANES.min(width - column);
        let mut sums = [[0.0; LANES]; R];
        for (inner, entries) in square.chunks_exact(width).enumerate() {
            for (lane, entry) in entries[column..][..columns].iter().enumerate() {
                for row in 0..R {
                    sums[row][lane] = rows[row][inner].mul_add(*entry, sums[row][lane]);
                }
            }
        }
        for row in 0..R {
            into[row * width + column..][..columns].copy_from_slice(&sums[row][..columns]);
        }
    }
}

/// Adds `more` to `sums`, value by value.
pub fn add_to(sums: &mut [f32], more: &[f32]) {
    sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
}

/// Adds `x + bias` to `residual`, row by row.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
pub fn add_biased(x: &[f32], bias: &[f32], residual: &mut [f32]) {
    let width = bias.len();
    for (row, out) in x.chunks_exact(width).zip(residual.chunks_exact_mut(width)) {
        for ((out, x), bias) in out.iter_mut().zip(row).zip(bias) {
            *out += x + bias;
        }
    }
}

/// Replaces each row of `residual` by the layer norm of `x + bias + residual`.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
pub fn add_norm(x: &[f32], bias: &[f32], residual: &mut [f32], weight: &[f32], shift: &[f32], epsilon: f32) {
    let width = bias.len();
    for (row, out) in x.chunks_exact(width).zip(residual.chunks_exact_mut(width)) {
        for ((out, x), bias) in out.iter_mut().zip(row).zip(bias) {
            *out += x + bias;
        }
        norm_row(out, weight, shift, epsilon);
    }
}

/// Applies layer norm or RMS norm (Zhang & Sennrich 2019) to each row, in place; RMS norm ignores `shift`.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
pub fn norm(kind: NormKind, states: &mut [f32], weight: &[f32], shift: &[f32], epsilon: f32) {
    for row in states.chunks_exact_mut(weight.len()) {
        if kind == NormKind::Layer {
            norm_row(row, weight, shift, epsilon);
            continue;
        }
        let mean = reduce(row, 0.0, |x| x * x, |a, b| a + b) / weight.len() as f32;
        let scale = 1.0 / (mean + epsilon).sqrt();
        row.iter_mut().zip(weight).for_each(|(x, weight)| *x *= scale * weight);
    }
}

/// Logistic function: `1 / (1 + e^-x)`.
#[inline(always)]
fn logistic(x: f32) -> f32 {
    let small = exp(-x.abs());
    (if x < 0.0 { small } else { 1.0 }) / (1.0 + small)
}

/// `x / (1 + e^-x)`, transformers' `silu`.
#[inline(always)]
fn silu(x: f32) -> f32 {
    let small = exp(-x.abs());
    x * if x < 0.0 { small } else { 1.0 } / (1.0 + small)
}

/// `x / (1 + e^(-1.702 x))`, transformers' `quick_gelu`.
#[inline(always)]
fn quick_gelu(x: f32) -> f32 {
    silu(QUICK_GELU_FACTOR * x) / QUICK_GELU_FACTOR
}

/// Replaces each row `x` by `activation(x + bias)`. If gated, `x + bias` has two halves: the activated first half times the
/// second half replaces the first half of the row.
#[inline(always)]
fn bias_then(is_gated: bool, states: &mut [f32], bias: &[f32], activation: impl Fn(f32) -> f32) {
    let width = bias.len() / 2;
    let (gate_biases, other_biases) = bias.split_at(width);
    for row in states.chunks_exact_mut(bias.len()) {
        if !is_gated {
            for (x, bias) in row.iter_mut().zip(bias) {
                *x = activation(*x + bias);
            }
            continue;
        }
        let (gates, others) = row.split_at_mut(width);
        for (((x, other), gate_bias), other_bias) in gates.iter_mut().zip(others).zip(gate_biases).zip(other_biases) {
            *x = activation(*x + gate_bias) * (*other + other_bias);
        }
    }
}

/// Replaces a row by its softmax; minus infinity becomes 0. The row's length is a multiple of [`LANES`]. Returns the entropy of
/// the softmax in nats.
#[inline(always)]
fn softmax_row(row: &mut [f32]) -> f32 {
    let largest = reduce(row, f32::NEG_INFINITY, |x| x, f32::max);
    let (mut weights, mut weighted) = ([0.0; LANES], [0.0; LANES]);
    for chunk in row.chunks_exact_mut(LANES) {
        for lane in 0..LANES {
            let x = chunk[lane] - largest;
            let weight = exp(x);
            chunk[lane] = weight;
            weights[lane] += weight;
            // 0 times minus infinity is NaN, 0 times [`MIN_EXPONENT`] is 0.
            weighted[lane] = weight.mul_add(clamp_exponent(x), weighted[lane]);
        }
    }
    let total = reduce_lanes(weights, |a, b| a + b);
    let inverse = 1.0 / total;
    row.iter_mut().for_each(|weight| *weight *= inverse);
    total.ln() - reduce_lanes(weighted, |a, b| a + b) * inverse
}

/// Applies layer norm to one row, in place.
#[inline(always)]
fn norm_row(row: &mut [f32], weight: &[f32], shift: &[f32], epsilon: f32) {
    let width = row.len() as f32;
    let mean = reduce(row, 0.0, |x| x, |a, b| a + b) / width;
    let variance = reduce(row, 0.0, |x| (x - mean) * (x - mean), |a, b| a + b) / width;
    let scale = 1.0 / (variance + epsilon).sqrt();
    for ((x, weight), shift) in row.iter_mut().zip(weight).zip(shift) {
        *x = ((*x - mean) * scale).mul_add(*weight, *shift);
    }
}

/// Applies `map` to all values and reduces the results with `combine`, in [`LANES`] partial results.
#[inline(always)]
fn reduce(values: &[f32], start: f32, map: impl Fn(f32) -> f32, combine: impl Fn(f32, f32) -> f32) -> f32 {
    let mut partial = [start; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for lane in 0..LANES {
            partial[lane] = combine(partial[lane], map(chunk[lane]));
        }
    }
    for (partial, &value) in partial.iter_mut().zip(rest) {
        *partial = combine(*partial, map(value));
    }
    reduce_lanes(partial, combine)
}

/// Exponent `x` below which `e^x` is subnormal in float32; the kernels then return 0.
const MIN_EXPONENT: f32 = -87.0;

/// Returns the larger of `x` and [`MIN_EXPONENT`]. NaN stays NaN, so that damaged weights show.
#[inline(always)]
fn clamp_exponent(x: f32) -> f32 {
    if x < MIN_EXPONENT { MIN_EXPONENT } else { x }
}

/// Returns `e^x` for `x <= 0`, to about 2 units in the last place; 0 below [`MIN_EXPONENT`].
///
/// `x = n ln 2 + r` with `|r| <= ln 2 / 2`; `e^r` by its Taylor series to `r^7`, to 1e-8; `2^n` by its exponent bits.
#[inline(always)]
fn exp(x: f32) -> f32 {
    /// `1.5 * 2^23`: adding it to a number rounds the number to an integer, which the low bits of the sum then hold.
    const ROUNDING_SUMMAND: f32 = 12_582_912.0;
    /// High part of ln 2, with so few bits that its product with the integer `n` is exact (Cody & Waite 1980).
    const LN_2_HIGH: f32 = 0.693_359_375;
    /// Low part of ln 2: ln 2 minus the high part.
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let bounded = clamp_exponent(x);
    let shifted = bounded.mul_add(std::f32::consts::LOG2_E, ROUNDING_SUMMAND);
    let n = shifted - ROUNDING_SUMMAND;
    let r = n.mul_add(-LN_2_LOW, n.mul_add(-LN_2_HIGH, bounded));
    let series = r.mul_add(1.0 / 5040.0, 1.0 / 720.0);
    let series = series.mul_add(r, 1.0 / 120.0);
    let series = series.mul_add(r, 1.0 / 24.0);
    let series = series.mul_add(r, 1.0 / 6.0);
    let series = series.mul_add(r, 0.5);
    let series = series.mul_add(r, 1.0);
    let series = series.mul_add(r, 1.0);
    let power = f32::from_bits(shifted.to_bits().wrapping_add(127) << 23);
    if x < MIN_EXPONENT { 0.0 } else { series * power }
}

/// GELU: `x Phi(x)`, transformers' `gelu`, to 2.4e-7. `Phi` is the normal distribution function.
#[inline(always)]
fn gelu(x: f32) -> f32 {
    let [series, t, power] = normal_tail(x);
    let tail = 0.5 * x * series * t * power;
    if x < 0.0 { tail } else { x - tail }
}

/// Returns three factors whose product is `2 Phi(-|x|)`, with `Phi` the normal distribution function; the last one is
/// `e^(-x^2 / 2)`.
///
/// `Phi(-|x|) = erfc(u) / 2` with `u = |x| / sqrt 2`, and `erfc(u) = t P(t) e^(-u^2)` with `t = 1 / (1 + 0.3 u)` (Abramowitz &
/// Stegun 7.1.26). P was fitted at Chebyshev nodes of `0 <= u <= 7.2` to a relative error of 2.5e-8.
#[inline(always)]
fn normal_tail(x: f32) -> [f32; 3] {
    /// Coefficients of the polynomial `P`, ascending.
    const POLYNOMIAL: [f32; 9] = [
        0.169_281_63,
        0.169_389_41,
        0.156_358_91,
        0.187_848,
        -0.038_795_91,
        0.475_583_95,
        -0.455_260_31,
        0.460_318_75,
        -0.124_724_44,
    ];
    let u = x.abs() * std::f32::consts::FRAC_1_SQRT_2;
    let t = 1.0 / u.mul_add(0.3, 1.0);
    let mut series = POLYNOMIAL[8];
    for coefficient in POLYNOMIAL[..8].iter().rev() {
        series = series.mul_add(t, *coefficient);
    }
    [series, t, exp(-u * u)]
}

/// `2 sqrt(2 / pi)`: factor that turns tanh into the logistic function, as `(1 + tanh y) / 2` is `1 / (1 + e^(-2y))`.
const GELU_TANH_FACTOR: f32 = 1.595_769_1;

/// `x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))` (Hendrycks & Gimpel 2016), transformers' `gelu_new`.
#[inline(always)]
fn gelu_tanh(x: f32) -> f32 {
    x * logistic(GELU_TANH_FACTOR * (x + 0.044_715 * x * x * x))
}
