//! The derivative of a loss with respect to every gate, against finite differences.

use crate::golden::record;
use crate::random::{Bias, Numbers, RandomEncoder, VOCABULARY, classes, predicted, sentences};
use crate::tensor::TensorEncoder;
use candle_core::{DType, Device, Tensor};
use headscope::model::config::{BlockPlan, NormKind};
use headscope::model::forward::PassStart;
use headscope::model::forward::batch::Batch;
use headscope::model::forward::gates::{Gate, Gates, ReplacementVectors};
use headscope::model::forward::gradient::{Differentiable, GateGradient, GradientScratch, surprisal};
use headscope::model::forward::packed::PackedEncoder;
use headscope::model::forward::visitor::Needs;
use headscope::model::parameters::PredictionHead;
use headscope::sequences::pack::Pack;
use headscope::sequences::sequence::Sequence;
use proptest::prelude::*;

/// Central differences of a loss over every gate. The step is exact in float32.
fn differences(random: &RandomEncoder, gates: &Gates, loss: impl Fn(&Gates) -> GateGradient) -> Vec<f64> {
    const STEP: f32 = 1.0 / 1024.0;
    let moved = |layer: usize, head: usize, step: f32| {
        let mut gates = gates.clone();
        let gate = gates.get(layer, head).cloned().unwrap_or_else(|| Gate::from_factor(1.0));
        gates.set_gate(layer, head, Gate { keep: gate.keep + step, ..gate });
        loss(&gates).loss
    };
    let grid = (0..random.order.len()).flat_map(|layer| (0..random.heads).map(move |head| (layer, head)));
    grid.map(|(layer, head)| (moved(layer, head, STEP) - moved(layer, head, -STEP)) / f64::from(2.0 * STEP)).collect()
}

/// Compares a gradient with central differences, in float64.
///
/// With a step `h` of 2^-10, these have an error of `h² f''' / 6`, 1.6e-7 times the third derivative. That derivative
/// is of the order of the loss. The largest difference seen is 6e-6. candle also has the constants of GELU's derivative
/// to six digits only.
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
fn gate_gradients_equal_finite_differences() {
    let families = [
        RandomEncoder::plain(5),
        RandomEncoder { order: vec![0, 0], embedding_size: Some(12), tied: false, ..RandomEncoder::plain(6) },
        RandomEncoder { position_bias: Bias::Buckets, ..RandomEncoder::plain(7) },
        RandomEncoder { disentangled: Some([true, true]), ..RandomEncoder::plain(10) },
        RandomEncoder { rotary: 6, query_key_norms: Some(true), gated: true, ..RandomEncoder::plain(8) },
        RandomEncoder {
            norm: NormKind::RootMeanSquare,
            hidden: Some(12),
            blocks: BlockPlan::Parallel,
            ..RandomEncoder::plain(9)
        },
    ];
    for random in families {
        let pack = Pack { sequences: sentences(&[6, 9]) };
        let (classes, predicted) = (classes(&pack.sequences), predicted(&pack.sequences));
        let batch = pack.batch().with_classes(&classes).with_predicted(&predicted);
        let targets: Vec<u32> = (0..6).map(|place| place * 7 % u32::try_from(VOCABULARY).unwrap()).collect();
        let encoder = TensorEncoder::with_precision(&random.parameters(), &Device::Cpu, DType::F64).unwrap();
        // Whole gates with zero as replacement; then gates halfway to another replacement, with patched attention rows.
        let mut partly = Gates::default();
        for head in 0..random.heads {
            let vectors: ReplacementVectors =
                std::array::from_fn(|class| vec![class as f32 / 3.0 - 0.5; random.head_dim]);
            partly.set_gate(1, head, Gate { keep: 0.5, replacement: Some(vectors.into()) });
        }
        partly.patch_rows(0, 0, 1, [2, 3].map(|query| (query, vec![1.0 / 9.0; 9])).into());
        for gates in [Gates::default(), partly] {
            check_gradient(&random, &gates, |gates| encoder.prediction_gradient(&batch, gates, &targets).unwrap());
            // Any differentiable loss works, here a weighted sum of the last hidden states.
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

/// The class to predict at a position, in every sequence.
fn target(position: usize) -> u32 {
    u32::try_from(position * 7 % VOCABULARY).unwrap()
}

/// `-ln p` of the class to predict.
fn score(_: usize, position: usize, logits: &mut [f32]) -> f64 {
    surprisal(logits, target(position))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Derivatives over a pack, in float32 by the program's own products, equal candle's in float64 for any model. Each
    /// sequence has the derivatives that it has alone.
    #[test]
    fn derivatives_over_packs_equal_candle(
        random in RandomEncoder::any(),
        lengths in prop::collection::vec(1..70_usize, 1..5),
        intervene: bool,
    ) {
        let pack = Pack { sequences: sentences(&lengths) };
        let gates = if intervene { random.interventions(&pack.sequences) } else { Gates::default() };
        let (classes, predicted) = (classes(&pack.sequences), predicted(&pack.sequences));
        let batch = pack.batch().with_classes(&classes).with_predicted(&predicted);
        let targets: Vec<u32> = predicted.iter().flatten().map(|&position| target(position)).collect();
        let parameters = random.parameters();
        let slow = TensorEncoder::with_precision(&parameters, &Device::Cpu, DType::F64).unwrap();
        let expected = slow.prediction_gradient(&batch, &gates, &targets).unwrap();
        let fast = PackedEncoder::new(parameters);
        let mut scratch = GradientScratch::default();
        let found = fast.gradients(&batch, &gates, &mut score, &mut scratch).unwrap();
        let size = expected.gates.iter().fold(0.01_f64, |size, value| size.max(value.abs()));
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-4 * size;
        let loss: f64 = found.iter().map(|sequence| sequence.loss).sum();
        prop_assert!((loss - expected.loss).abs() <= 1e-4 * expected.loss, "{loss}, not {}", expected.loss);
        for (place, &expected) in expected.gates.iter().enumerate() {
            let sum: f64 = found.iter().map(|sequence| sequence.gates[place]).sum();
            prop_assert!(near(sum, expected), "gate {place}: {sum}, not {expected}, of up to {size}");
        }
        if !intervene {
            // Parts of one sequence each, with scores that differ between sequences.
            let mut weighted = |sequence: usize, position: usize, logits: &mut [f32]| {
                let loss = score(sequence, position, logits);
                logits.iter_mut().for_each(|value| *value *= (sequence + 1) as f32);
                loss * (sequence + 1) as f64
            };
            let mut parted = GradientScratch::default();
            parted.max_kept_bytes = Some(0);
            let parted = fast.gradients(&batch, &gates, &mut weighted, &mut parted).unwrap();
            for (sequence, (parted, found)) in parted.iter().zip(&found).enumerate() {
                let weight = (sequence + 1) as f64;
                for (&parted, &found) in parted.gates.iter().zip(&found.gates) {
                    prop_assert!(near(parted / weight, found), "sequence {sequence}: {parted} in parts, and {found}");
                }
            }
            for (sequence, (input, found)) in batch.inputs.iter().zip(&found).enumerate() {
                let alone = Batch { inputs: vec![*input] };
                let alone = fast.gradients(&alone, &gates, &mut score, &mut scratch).unwrap().remove(0);
                for (&alone, &found) in alone.gates.iter().zip(&found.gates) {
                    prop_assert!(near(alone, found), "sequence {sequence}: {alone} alone, and {found}");
                }
            }
        }
    }
}

/// A prediction head with three classes.
pub fn head(hidden: usize) -> PredictionHead {
    PredictionHead { transform: None, decoder: Some(Numbers(3).values(3 * hidden, 1.0)), bias: vec![0.0; 3], cap: None }
}

/// Compares the derivatives of an encoder with candle's, for classes predicted at the first and the last token.
pub fn check(packed: &PackedEncoder, readable: &TensorEncoder, sentences: Vec<Sequence>) {
    let pack = Pack { sequences: sentences };
    let predicted: Vec<Vec<usize>> = pack.sequences.iter().map(|sentence| vec![0, sentence.ids.len() - 1]).collect();
    let batch = pack.batch().with_predicted(&predicted);
    let class = |position: usize| u32::try_from(position % 3).unwrap();
    let targets: Vec<u32> = predicted.iter().flatten().map(|&position| class(position)).collect();
    let expected = readable.prediction_gradient(&batch, &Gates::default(), &targets).unwrap();
    let mut score = |_: usize, position: usize, logits: &mut [f32]| surprisal(logits, class(position));
    let actual = packed.gradients(&batch, &Gates::default(), &mut score, &mut GradientScratch::default()).unwrap();
    let size = expected.gates.iter().fold(0.0_f64, |size, value| size.max(value.abs()));
    assert!(size > 0.0, "nothing depends on any head");
    for (place, expected) in expected.gates.iter().enumerate() {
        let sum: f64 = actual.iter().map(|sequence| sequence.gates[place]).sum();
        assert!((sum - expected).abs() < 1e-4 * size, "gate {place}: {sum}, not {expected}, of up to {size}");
    }
}

/// The sum of `-ln p` over the targets.
fn prediction_loss(logits: &[f32], targets: &[u32]) -> f64 {
    let minus_ln_p = |(row, &target): (&[f32], &u32)| {
        let total: f64 = row.iter().map(|&logit| f64::from(logit).exp()).sum();
        total.ln() - f64::from(row[target as usize])
    };
    logits.chunks_exact(VOCABULARY).zip(targets).map(minus_ln_p).sum()
}

/// Gates that keep every head whole, each with its own replacement.
fn whole_heads(random: &RandomEncoder) -> Gates {
    let mut gates = Gates::default();
    for (place, (layer, head)) in
        (0..random.order.len()).flat_map(|layer| (0..random.heads).map(move |head| (layer, head))).enumerate()
    {
        let vectors: ReplacementVectors =
            std::array::from_fn(|class| vec![(class + place) as f32 / 9.0 - 0.4; random.head_dim]);
        gates.set_gate(layer, head, Gate { keep: 1.0, replacement: Some(vectors.into()) });
    }
    gates
}

/// The two encoders share only the parameters.
///
/// With a step `h` of 2^-6, the differences have two errors. One is `h² f''' / 6`, 4e-5 times the third derivative. The
/// other is the rounding of two float32 losses, about 1e-6 of them, over `2h`.
#[test]
fn gradients_equal_differences_of_the_packed_encoder() {
    const STEP: f32 = 1.0 / 64.0;
    for random in [RandomEncoder::plain(15), RandomEncoder { blocks: BlockPlan::Pre, ..RandomEncoder::plain(16) }] {
        let pack = Pack { sequences: sentences(&[11]) };
        let (classes, predicted, targets) = (classes(&pack.sequences), [vec![2, 7]], [3, 40]);
        let batch = pack.batch().with_classes(&classes).with_predicted(&predicted);
        let gates = whole_heads(&random);
        let parameters = random.parameters();
        let encoder = TensorEncoder::new(&parameters, &Device::Cpu).unwrap();
        let found = encoder.prediction_gradient(&batch, &gates, &targets).unwrap();
        let packed = PackedEncoder::new(parameters);
        let needs = Needs { logits: true, ..Needs::default() };
        let loss = |layer: usize, head: usize, keep: f32| {
            let mut moved = gates.clone();
            moved.set_gate(layer, head, Gate { keep, ..gates.get(layer, head).unwrap().clone() });
            prediction_loss(&record(&packed, PassStart::Embeddings, &batch, &moved, needs).remove(0).logits, &targets)
        };
        for (place, found) in found.gates.iter().enumerate() {
            let (layer, head) = (place / random.heads, place % random.heads);
            let more = loss(layer, head, 1.0 + STEP) - loss(layer, head, 1.0 - STEP);
            let expected = more / f64::from(2.0 * STEP);
            assert!((found - expected).abs() < 1e-3 * expected.abs().max(1.0), "{found} is not {expected}");
        }
    }
}

#[test]
fn gate_derivatives_of_a_layer_add_up_to_that_of_a_shared_gate() {
    const STEP: f32 = 1.0 / 1024.0;
    let random = RandomEncoder { heads: 4, ..RandomEncoder::plain(17) };
    let pack = Pack { sequences: sentences(&[9]) };
    let (classes, predicted, targets) = (classes(&pack.sequences), [vec![1, 5]], [8, 21]);
    let batch = pack.batch().with_classes(&classes).with_predicted(&predicted);
    let encoder = TensorEncoder::with_precision(&random.parameters(), &Device::Cpu, DType::F64).unwrap();
    let whole = whole_heads(&random);
    let derivatives = encoder.prediction_gradient(&batch, &whole, &targets).unwrap().gates;
    for (layer, heads) in derivatives.chunks_exact(random.heads).enumerate() {
        // All heads of the layer move together towards their replacements.
        let loss = |keep: f32| {
            let mut moved = whole.clone();
            for head in 0..random.heads {
                moved.set_gate(layer, head, Gate { keep, ..whole.get(layer, head).unwrap().clone() });
            }
            encoder.prediction_gradient(&batch, &moved, &targets).unwrap().loss
        };
        let expected = (loss(1.0 + STEP) - loss(1.0 - STEP)) / f64::from(2.0 * STEP);
        let sum: f64 = heads.iter().sum();
        assert!(heads.iter().all(|derivative| derivative.abs() > 1e-4), "{heads:?}");
        assert!((sum - expected).abs() < 2e-5 * expected.abs().max(1.0), "{sum} is not {expected}");
    }
}

/// candle differentiates by recursion over operations. The stack of this thread is as large as a worker's, and the
/// model has twice as many layers as the largest BERT.
#[test]
fn deep_models_fit_the_stack() {
    let random = RandomEncoder { order: vec![0; 48], ..RandomEncoder::plain(18) };
    let pack = Pack { sequences: sentences(&[5]) };
    let predicted = [vec![2]];
    let batch = pack.batch().with_predicted(&predicted);
    let encoder = TensorEncoder::new(&random.parameters(), &Device::Cpu).unwrap();
    let gradient = encoder.prediction_gradient(&batch, &Gates::default(), &[3]).unwrap();
    assert_eq!(gradient.gates.len(), 48 * random.heads);
    assert!(gradient.gates.iter().any(|derivative| *derivative != 0.0));
}

#[test]
fn the_loss_equals_that_of_the_logits() {
    let random = RandomEncoder::plain(9);
    let pack = Pack { sequences: sentences(&[6]) };
    let predicted = [vec![1, 4]];
    let batch = pack.batch().with_predicted(&predicted);
    let encoder = TensorEncoder::new(&random.parameters(), &Device::Cpu).unwrap();
    let found = encoder.prediction_gradient(&batch, &Gates::default(), &[3, 40]).unwrap().loss;
    let logits =
        record(&encoder, PassStart::Embeddings, &batch, &Gates::default(), Needs { logits: true, ..Needs::default() })
            .remove(0)
            .logits;
    let expected = prediction_loss(&logits, &[3, 40]);
    assert!((found - expected).abs() < 1e-4, "{found} is not {expected}");

    let error =
        |targets: &[u32]| encoder.prediction_gradient(&batch, &Gates::default(), targets).unwrap_err().to_string();
    assert_eq!(error(&[3]), "2 positions are predicted, and 1 classes given");
    assert_eq!(error(&[3, 50]), "class 50 cannot be predicted: the model has 50");
    let constant = encoder.gate_gradient(&batch, &Gates::default(), |_| Ok(Tensor::new(1.0_f32, &Device::Cpu)?));
    assert_eq!(constant.unwrap_err().to_string(), "the loss does not depend on the heads");
}
