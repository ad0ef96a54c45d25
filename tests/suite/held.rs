//! Runs in which everything is held but the residual stream: both encoders, whatever layers are made of.

use crate::golden::{largest_difference, record, try_record};
use crate::random::{RandomEncoder, classes, sentences};
use crate::tensor::TensorEncoder;
use candle_core::Device;
use headscope::model::forward::batch::Batch;
use headscope::model::forward::gates::{Gate, Gates};
use headscope::model::forward::held::HeldOutputs;
use headscope::model::forward::packed::PackedEncoder;
use headscope::model::forward::visitor::Needs;
use headscope::model::forward::{Encoder, Scratch, Start};
use headscope::sequences::pack::Pack;
use proptest::prelude::*;

/// Two encoders in float32, which sum up in different orders.
const TOLERANCE: f32 = 1e-4;

/// The hidden states that enter each layer, of a whole run; and what all layers wrote in it.
fn kept(encoder: &dyn Encoder, batch: &Batch<'_>, layers: usize) -> (Vec<Vec<f32>>, HeldOutputs) {
    let needs = Needs { hidden_states: true, ..Needs::default() };
    let whole = record(encoder, Start::Embeddings, batch, &Gates::default(), needs);
    let of_layer = |layer: usize| {
        let own =
            |states: &[f32]| states[layer * states.len() / (layers + 1)..][..states.len() / (layers + 1)].to_vec();
        whole.iter().flat_map(|sentence| own(&sentence.hidden_states)).collect()
    };
    let mut writes = HeldOutputs::default();
    let gates = Gates::default();
    encoder.forward_from(Start::Embeddings, batch, &gates, &mut Scratch::default(), &mut writes).unwrap();
    ((0..layers).map(of_layer).collect(), writes)
}

/// The attention of all layers after `layer`, of each sentence, with everything held but the heads with gates.
fn held(encoder: &dyn Encoder, batch: &Batch<'_>, layers: usize, layer: usize, gates: &Gates) -> Vec<Vec<f32>> {
    let (states, writes) = kept(encoder, batch, layers);
    let start = Start::Held { layer, states: &states[layer], writes: &writes };
    record(encoder, start, batch, gates, Needs::ATTENTION).into_iter().map(|sentence| sentence.attentions).collect()
}

/// A head of the layer without what it writes, which becomes 0, or 1 for text.
fn without(random: &RandomEncoder, layer: usize, head: usize) -> Gates {
    let mut gates = Gates::default();
    let ones = std::array::from_fn(|class| vec![f32::from(u8::from(class == 3)); random.head_dim]);
    gates.set(layer, head, if head == 0 { Gate::scale(0.0) } else { Gate::replace(ones) });
    gates
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    /// Without what one head writes, the attention of later layers is that of the encoder in tensors, which works the heads of its
    /// layer out anew; and with all heads there it is what it was, to the bit.
    #[test]
    fn held_runs_are_those_of_the_other_encoder(
        random in RandomEncoder::any(),
        lengths in prop::collection::vec(1..40_usize, 1..4),
    ) {
        let pack = Pack { sequences: sentences(&lengths) };
        let classes = classes(&pack.sequences);
        let batch = pack.batch().with_classes(&classes);
        let parameters = random.parameters();
        let layers = random.order.len();
        let slow = TensorEncoder::new(&parameters, &Device::Cpu).unwrap();
        let fast = PackedEncoder::new(parameters);
        let whole = record(&fast, Start::Embeddings, &batch, &Gates::default(), Needs::ATTENTION);
        for layer in 0..layers {
            let same = held(&fast, &batch, layers, layer, &Gates::default());
            for (whole, same) in whole.iter().zip(&same) {
                prop_assert_eq!(&whole.attentions[(layer + 1) * whole.attentions.len() / layers..], &same[..]);
            }
            for head in 0..random.heads {
                let gates = without(&random, layer, head);
                let (found, expected) =
                    (held(&fast, &batch, layers, layer, &gates), held(&slow, &batch, layers, layer, &gates));
                for (found, expected) in found.iter().zip(&expected) {
                    let off = largest_difference(found, expected);
                    prop_assert!(off < TOLERANCE, "L{}H{} is off by {}", layer, head, off);
                }
            }
        }
    }
}

/// The first layer after the head has no block between but the feed-forward block of its own layer: where that reads nothing
/// (weights of 0), the direct way is the only one.
#[test]
fn what_nobody_passes_on_is_direct() {
    let random = RandomEncoder::plain(5);
    let mut parameters = random.parameters();
    for layer in &mut parameters.layers {
        layer.output.weight.fill(0.0);
    }
    let encoder = PackedEncoder::new(parameters);
    let pack = Pack { sequences: sentences(&[9, 4]) };
    let classes = classes(&pack.sequences);
    let batch = pack.batch().with_classes(&classes);
    let layers = random.order.len();
    let gates = without(&random, 0, 1);
    let total = record(&encoder, Start::Embeddings, &batch, &gates, Needs::ATTENTION);
    let direct = held(&encoder, &batch, layers, 0, &gates);
    for (total, direct) in total.iter().zip(&direct) {
        let size = total.attentions.len() / layers;
        // Layer 1 sees the same either way; layer 2 also what the heads of layer 1 made of it.
        assert_eq!(total.attentions[size..2 * size], direct[..size]);
        assert_ne!(total.attentions[2 * size..3 * size], direct[size..2 * size]);
    }
}

#[test]
fn what_was_not_kept_cannot_be_held() {
    let random = RandomEncoder::plain(1);
    let parameters = random.parameters();
    let slow = TensorEncoder::new(&parameters, &Device::Cpu).unwrap();
    let fast = PackedEncoder::new(parameters);
    let pack = Pack { sequences: sentences(&[3]) };
    let batch = pack.batch();
    let error = |writes: &HeldOutputs, needs: Needs| {
        let states = kept(&fast, &batch, random.order.len()).0;
        let start = Start::Held { layer: 0, states: &states[0], writes };
        let of = |encoder: &dyn Encoder| {
            format!("{:#}", try_record(encoder, start, &batch, &Gates::default(), needs).unwrap_err())
        };
        assert_eq!(of(&slow), of(&fast));
        of(&fast)
    };
    assert_eq!(
        error(&HeldOutputs::default(), Needs::ATTENTION),
        "layer 0 cannot be held: what it wrote over these 3 tokens was not kept"
    );
    let (_, writes) = kept(&fast, &batch, random.order.len());
    assert_eq!(
        error(&writes, Needs { logits: true, ..Needs::ATTENTION }),
        "a run in which everything is held but the residual stream shows attention and nothing else"
    );
}
