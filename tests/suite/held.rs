//! Runs in which all block outputs are held except the gated heads' outputs. Both encoders agree, whatever their layers are
//! made of.

use crate::golden::{largest_difference, record, try_record};
use crate::random::{RandomEncoder, classes, sentences};
use crate::tensor::TensorEncoder;
use candle_core::Device;
use headscope::model::forward::batch::Batch;
use headscope::model::forward::gates::{Gate, Gates};
use headscope::model::forward::held::HeldOutputs;
use headscope::model::forward::packed::PackedEncoder;
use headscope::model::forward::visitor::Needs;
use headscope::model::forward::{Encoder, PassStart, Scratch};
use headscope::sequences::pack::Pack;
use proptest::prelude::*;

/// Two encoders in float32 that sum in different orders.
const TOLERANCE: f32 = 1e-4;

/// The hidden states that enter each layer in an unchanged run, and everything that the layers wrote.
fn states_and_writes(encoder: &dyn Encoder, batch: &Batch<'_>, layers: usize) -> (Vec<Vec<f32>>, HeldOutputs) {
    let needs = Needs { hidden_states: true, ..Needs::default() };
    let whole = record(encoder, PassStart::Embeddings, batch, &Gates::default(), needs);
    let layer_states = |layer: usize| {
        let own_states =
            |states: &[f32]| states[layer * states.len() / (layers + 1)..][..states.len() / (layers + 1)].to_vec();
        whole.iter().flat_map(|sentence| own_states(&sentence.hidden_states)).collect()
    };
    let mut writes = HeldOutputs::default();
    let gates = Gates::default();
    encoder.forward_from(PassStart::Embeddings, batch, &gates, &mut Scratch::default(), &mut writes).unwrap();
    ((0..layers).map(layer_states).collect(), writes)
}

/// The attention of all layers after `layer` in each sentence, with everything held but the gated heads.
fn held_attention(
    encoder: &dyn Encoder,
    batch: &Batch<'_>,
    layers: usize,
    layer: usize,
    gates: &Gates,
) -> Vec<Vec<f32>> {
    let (states, writes) = states_and_writes(encoder, batch, layers);
    let start = PassStart::Held { layer, states: &states[layer], writes: &writes };
    record(encoder, start, batch, gates, Needs::ATTENTION).into_iter().map(|sentence| sentence.attentions).collect()
}

/// Gates that replace what one head writes: head 0 by zeros, another head by ones for text and zeros elsewhere.
fn replace_head(random: &RandomEncoder, layer: usize, head: usize) -> Gates {
    let mut gates = Gates::default();
    let ones = std::array::from_fn(|class| vec![f32::from(u8::from(class == 3)); random.head_dim]);
    gates.set_gate(layer, head, if head == 0 { Gate::from_factor(0.0) } else { Gate::from_replacement(ones) });
    gates
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    /// If one head's output is replaced, both encoders give equal attention in later layers. The encoder in tensors
    /// computes the heads of that layer again. With all heads whole, attention is unchanged to the bit.
    #[test]
    fn held_runs_of_both_encoders_agree(
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
        let whole = record(&fast, PassStart::Embeddings, &batch, &Gates::default(), Needs::ATTENTION);
        for layer in 0..layers {
            let unchanged = held_attention(&fast, &batch, layers, layer, &Gates::default());
            for (whole, unchanged) in whole.iter().zip(&unchanged) {
                prop_assert_eq!(&whole.attentions[(layer + 1) * whole.attentions.len() / layers..], &unchanged[..]);
            }
            for head in 0..random.heads {
                let gates = replace_head(&random, layer, head);
                let (actual, expected) =
                    (held_attention(&fast, &batch, layers, layer, &gates), held_attention(&slow, &batch, layers, layer, &gates));
                for (actual, expected) in actual.iter().zip(&expected) {
                    let off = largest_difference(actual, expected);
                    prop_assert!(off < TOLERANCE, "L{}H{} is off by {}", layer, head, off);
                }
            }
        }
    }
}

/// Only the feed-forward block of the head's own layer lies between the head and the next layer. If that block passes
/// nothing on (output weights of 0), the direct path is the only one.
#[test]
fn effects_on_the_next_layer_are_direct_without_feed_forward() {
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
    let gates = replace_head(&random, 0, 1);
    let total = record(&encoder, PassStart::Embeddings, &batch, &gates, Needs::ATTENTION);
    let direct = held_attention(&encoder, &batch, layers, 0, &gates);
    for (total, direct) in total.iter().zip(&direct) {
        let size = total.attentions.len() / layers;
        // Layer 1 has equal input either way. Layer 2 also reads what the heads of layer 1 made of it.
        assert_eq!(total.attentions[size..2 * size], direct[..size]);
        assert_ne!(total.attentions[2 * size..3 * size], direct[size..2 * size]);
    }
}

#[test]
fn writes_that_were_not_kept_cannot_be_held() {
    let random = RandomEncoder::plain(1);
    let parameters = random.parameters();
    let slow = TensorEncoder::new(&parameters, &Device::Cpu).unwrap();
    let fast = PackedEncoder::new(parameters);
    let pack = Pack { sequences: sentences(&[3]) };
    let batch = pack.batch();
    let error = |writes: &HeldOutputs, needs: Needs| {
        let states = states_and_writes(&fast, &batch, random.order.len()).0;
        let start = PassStart::Held { layer: 0, states: &states[0], writes };
        let error_of = |encoder: &dyn Encoder| {
            format!("{:#}", try_record(encoder, start, &batch, &Gates::default(), needs).unwrap_err())
        };
        assert_eq!(error_of(&slow), error_of(&fast));
        error_of(&fast)
    };
    assert_eq!(
        error(&HeldOutputs::default(), Needs::ATTENTION),
        "layer 0 cannot be held: what it wrote over these 3 tokens was not kept"
    );
    let (_, writes) = states_and_writes(&fast, &batch, random.order.len());
    assert_eq!(
        error(&writes, Needs { logits: true, ..Needs::ATTENTION }),
        "a run in which everything is held but the residual stream shows attention and nothing else"
    );
}
