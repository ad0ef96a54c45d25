//! The derivative of a loss with respect to every gate, against finite differences.

#[path = "support/golden.rs"]
mod golden;
#[path = "support/random.rs"]
mod random;

use candle_core::{DType, Device, Tensor};
use golden::record;
use headscope::model::forward::Start;
use headscope::model::forward::gates::{Gate, Gates, Replacement};
use headscope::model::forward::gradient::GateGradient;
use headscope::model::forward::tensor::TensorEncoder;
use headscope::model::forward::visitor::Needs;
use headscope::sequences::pack::Pack;
use random::{RandomEncoder, VOCABULARY, classes, predicted, sentences};

/// Central differences of a loss over every gate, with a step that float32 holds exactly.
fn differences(random: &RandomEncoder, gates: &Gates, loss: impl Fn(&Gates) -> GateGradient) -> Vec<f64> {
    const STEP: f32 = 1.0 / 1024.0;
    let moved = |layer: usize, head: usize, by: f32| {
        let mut gates = gates.clone();
        let gate = gates.of(layer, head).cloned().unwrap_or_else(|| Gate::scale(1.0));
        gates.set(layer, head, Gate { keep: gate.keep + by, ..gate });
        loss(&gates).loss
    };
    let grid = (0..random.order.len()).flat_map(|layer| (0..random.heads).map(move |head| (layer, head)));
    grid.map(|(layer, head)| (moved(layer, head, STEP) - moved(layer, head, -STEP)) / f64::from(2.0 * STEP)).collect()
}

/// Holds a gradient against central differences, in float64.
///
/// With a step `h` of 2^-10 these are off by `h² f''' / 6`, 1.6e-7 times the third derivative, which is of the order of
/// the loss (the largest difference seen is 6e-6); and candle has the constants of GELU's derivative to six digits.
fn check_gradient(random: &RandomEncoder, gates: &Gates, gradient: impl Fn(&Gates) -> GateGradient) {
    const TOLERANCE: f64 = 2e-5;
    let found = gradient(gates);
    let expected = differences(random, gates, gradient);
    assert_eq!(found.gates.len(), expected.len());
    for (found, expected) in found.gates.iter().zip(&expected) {
        assert!(found.is_finite() && found.abs() > 1e-3, "{found} is lost or vanishes");
        assert!((found - expected).abs() < TOLERANCE * expected.abs().max(1.0), "{found} is not {expected}");
    }
    let off = found.gates.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    println!("loss {}, gradient {:?}, off by {off:.1e}", found.loss, found.gates);
}

#[test]
fn the_gradient_of_every_gate_is_that_of_finite_differences() {
    let families = [
        RandomEncoder::plain(5),
        RandomEncoder { order: vec![0, 0], embedding_size: Some(12), tied: false, ..RandomEncoder::plain(6) },
        RandomEncoder { position_bias: true, ..RandomEncoder::plain(7) },
    ];
    for random in families {
        let pack = Pack { sentences: sentences(&[6, 9]) };
        let (classes, predicted) = (classes(&pack.sentences), predicted(&pack.sentences));
        let batch = pack.batch().with_classes(&classes).with_predicted(&predicted);
        let targets: Vec<u32> = (0..6).map(|place| place * 7 % u32::try_from(VOCABULARY).unwrap()).collect();
        let encoder = TensorEncoder::with_precision(&random.parameters(), &Device::Cpu, DType::F64).unwrap();
        // Towards zero and whole; and on the way to a replacement, with a cut.
        let mut partly = Gates::default();
        for head in 0..random.heads {
            let vectors: Replacement = std::array::from_fn(|class| vec![class as f32 / 3.0 - 0.5; random.head_dim]);
            partly.set(1, head, Gate { keep: 0.5, replacement: Some(vectors.into()) });
        }
        partly.cut(0, 0, 1, 2..4, 0..3);
        for gates in [Gates::default(), partly] {
            check_gradient(&random, &gates, |gates| encoder.masked_lm_gradient(&batch, gates, &targets).unwrap());
            // Any loss will do: a weighted sum of the last states.
            check_gradient(&random, &gates, |gates| {
                let loss = |states: &Tensor| {
                    let (tokens, hidden) = states.dims2()?;
                    let weights = Tensor::arange(0.0, (tokens * hidden) as f64, &Device::Cpu)?.sin()?;
                    Ok((states * weights.reshape((tokens, hidden))?)?.sum_all()?)
                };
                encoder.gate_gradient(&batch, gates, loss).unwrap()
            });
        }
    }
}

#[test]
fn the_loss_is_that_of_the_logits() {
    let random = RandomEncoder::plain(9);
    let pack = Pack { sentences: sentences(&[6]) };
    let predicted = [vec![1, 4]];
    let batch = pack.batch().with_predicted(&predicted);
    let encoder = TensorEncoder::new(&random.parameters(), &Device::Cpu).unwrap();
    let found = encoder.masked_lm_gradient(&batch, &Gates::default(), &[3, 40]).unwrap().loss;
    let logits =
        record(&encoder, Start::Embeddings, &batch, &Gates::default(), Needs { logits: true, ..Needs::default() })
            .remove(0)
            .logits;
    let minus_ln_p = |(row, target): (&[f32], usize)| {
        let total: f64 = row.iter().map(|&logit| f64::from(logit).exp()).sum();
        total.ln() - f64::from(row[target])
    };
    let expected: f64 = logits.chunks_exact(VOCABULARY).zip([3, 40]).map(minus_ln_p).sum();
    assert!((found - expected).abs() < 1e-4, "{found} is not {expected}");

    let error =
        |targets: &[u32]| encoder.masked_lm_gradient(&batch, &Gates::default(), targets).unwrap_err().to_string();
    assert_eq!(error(&[3]), "2 positions are predicted, and 1 tokens given");
    assert_eq!(error(&[3, 50]), "token id 50 cannot be predicted: the model has 50 tokens");
    let constant = encoder.gate_gradient(&batch, &Gates::default(), |_| Ok(Tensor::new(1.0_f32, &Device::Cpu)?));
    assert_eq!(constant.unwrap_err().to_string(), "the loss does not depend on the heads");
}
