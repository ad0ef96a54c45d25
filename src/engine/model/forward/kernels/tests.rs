use super::*;
use proptest::prelude::*;

#[test]
fn exp_is_that_of_f64() {
    for step in 0..870_000 {
        let x = -(step as f32) * 1e-4;
        let expected = f64::from(x).exp();
        let error = (f64::from(exp(x)) - expected).abs() / expected;
        assert!(error < 3e-7, "exp({x}) is off by {error:e}");
    }
    assert_eq!([exp(0.0), exp(-200.0), exp(f32::NEG_INFINITY)], [1.0, 0.0, 0.0]);
}

#[test]
fn activations_are_those_of_f64() {
    let inputs: Vec<f32> = (-90_000..90_000).map(|step| step as f32 * 1e-4).collect();
    let mut values = inputs.clone();
    activate(Activation::GeluTanh, false, &mut values, &[0.0]);
    for (x, value) in inputs.iter().zip(values) {
        let x = f64::from(*x);
        let y = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3));
        let error = (f64::from(value) - x / 2.0 * (1.0 + y.tanh())).abs();
        assert!(error < 1e-6, "gelu_tanh({x}) is off by {error:e}");
    }
    let mut values = inputs.clone();
    activate(Activation::Gelu, false, &mut values, &[0.0]);
    for (x, value) in inputs.iter().zip(values) {
        // candle's own GELU in f64 is the reference: the standard library has no error function.
        let x = candle_core::Tensor::new(&[f64::from(*x)], &candle_core::Device::Cpu).unwrap();
        let expected = x.gelu_erf().unwrap().to_vec1::<f64>().unwrap()[0];
        assert!((f64::from(value) - expected).abs() < 5e-7, "gelu({x}) is {value}, not {expected}");
    }
    let mut values = inputs.clone();
    activate(Activation::Silu, false, &mut values, &[0.0]);
    for (x, value) in inputs.iter().zip(values) {
        let x = f64::from(*x);
        let error = (f64::from(value) - x / (1.0 + (-x).exp())).abs();
        assert!(error < 1e-6, "silu({x}) is off by {error:e}");
    }
    let mut values = [-1.0, 2.0];
    activate(Activation::Relu, false, &mut values, &[-0.5, 0.5]);
    assert_eq!(values, [0.0, 2.5]);
}

proptest! {
    #[test]
    fn softmax_is_that_of_f64(scores in prop::collection::vec(-30.0..30.0_f32, 1..70)) {
        let mut weights = scores.clone();
        let mut entropy = [0.0];
        // The old values of the rest of the row do not matter.
        weights.resize(scores.len().next_multiple_of(LANES), 40.0);
        let stride = weights.len();
        softmax(&mut weights, scores.len(), stride, &mut entropy);
        prop_assert!(weights[scores.len()..].iter().all(|&weight| weight == 0.0));
        let total: f64 = scores.iter().map(|&score| f64::from(score).exp()).sum();
        let expected: Vec<f64> = scores.iter().map(|&score| f64::from(score).exp() / total).collect();
        for (weight, expected) in weights.iter().zip(&expected) {
            prop_assert!((f64::from(*weight) - expected).abs() < 1e-6);
        }
        let expected: f64 = -expected.iter().filter(|&&p| p > 0.0).map(|p| p * p.ln()).sum::<f64>();
        prop_assert!((f64::from(entropy[0]) - expected).abs() < 1e-5);
    }

    /// Whole numbers, so that sums are exact whatever the order of addition.
    #[test]
    fn norms_are_roots_of_sums_of_squares(width in 1..70_usize, rows in 1..4_usize) {
        let values: Vec<f32> = (0..rows * width).map(|place| ((place * 31) % 17) as f32 - 8.0).collect();
        let mut norms = vec![0.0; rows];
        row_norms(&values, width, &mut norms);
        for (row, norm) in norms.into_iter().enumerate() {
            let squares = values[row * width..][..width].iter().map(|value| value * value);
            prop_assert_eq!(norm, squares.sum::<f32>().sqrt());
        }
    }

    #[test]
    fn a_normalised_row_has_mean_0_and_variance_1(values in prop::collection::vec(-10.0..10.0_f32, 2..70)) {
        prop_assume!(values.iter().any(|value| (value - values[0]).abs() > 0.1));
        let (ones, zeros) = (vec![1.0; values.len()], vec![0.0; values.len()]);
        let mut row = values.clone();
        norm(NormKind::Layer, &mut row, &ones, &zeros, 1e-12);
        let mut added = vec![0.0; values.len()];
        add_norm(&values, &zeros, &mut added, &ones, &zeros, 1e-12);
        prop_assert_eq!(&row, &added);
        let mean = row.iter().map(|&x| f64::from(x)).sum::<f64>() / row.len() as f64;
        let variance = row.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / row.len() as f64;
        prop_assert!(mean.abs() < 1e-5 && (variance - 1.0).abs() < 1e-4, "mean {mean}, variance {variance}");
    }
}

#[test]
fn rows_times_a_square_matrix() {
    // Whole pairs of vectors, less than one vector, and all at once; rows by fours and by themselves, with room between.
    for (width, count, room) in [(1, 3, 0), (LANES, 4, 2), (2 * LANES, 9, 0), (5 * LANES + 3, 6, 5)] {
        let stride = width + room;
        let rows: Vec<f32> = (0..count * stride).map(|place| (place % 7) as f32 - 3.0).collect();
        let square: Vec<f32> = (0..width * width).map(|place| (place % 5) as f32 - 2.0).collect();
        let mut found = vec![9.0; count * width];
        multiply_square(&rows, stride, &square, width, &mut found);
        for (place, found) in found.iter().enumerate() {
            let (row, column) = (place / width, place % width);
            let terms = (0..width).map(|k| rows[row * stride + k] * square[k * width + column]);
            assert_eq!(*found, terms.sum::<f32>());
        }
    }
}

#[test]
fn norms_of_rows_with_a_bias() {
    // (3, 4) is (1, 2) and (2, 2); G doubles every norm. What is left of a row of its own bias with the other sign is 0.
    let (rows, bias) = ([1.0, 2.0, 9.0, -2.0, -2.0], [2.0, 2.0]);
    let products: Vec<f32> = [1.0, 2.0, -2.0, -2.0].map(|x| 4.0 * x).to_vec();
    let mut norms = [9.0; 2];
    biased_norms(&rows, 3, &bias, &products, &[8.0, 8.0], &mut norms);
    assert_eq!(norms, [10.0, 0.0]);
}
