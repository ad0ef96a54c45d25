//! Attention from rows in place of a layer's input. The true rows give the layer's own attention.

use crate::golden::{TOLERANCE, largest_difference};
use headscope::model::config::Config;
use headscope::model::forward::packed::PackedEncoder;
use headscope::model::forward::rows::Rows;
use headscope::model::forward::visitor::{HeadView, Needs, Visitor};
use headscope::model::forward::{AttentionScratch, Encoder, Positions, QueriesAndKeys, Scratch};
use headscope::sequences::pack::Pack;
use headscope::sequences::sequence::Sequence;

/// The rows from which queries and keys are made, and the attention that results.
#[derive(Default)]
struct Recorder {
    /// `[layers][tokens, hidden]`
    inputs: Vec<Vec<f32>>,
    /// `[layers][sequences, heads, n, n]`
    attention: Vec<Vec<f32>>,
}

fn layer_values(all: &mut Vec<Vec<f32>>, layer: usize) -> &mut Vec<f32> {
    all.resize_with(all.len().max(layer + 1), Vec::new);
    &mut all[layer]
}

impl Visitor for Recorder {
    fn needs(&self) -> Needs {
        Needs { attention_inputs: true, ..Needs::ATTENTION }
    }

    fn attention_inputs(&mut self, _: usize, layer: usize, inputs: Rows<'_>) {
        layer_values(&mut self.inputs, layer).extend(inputs.iter().flatten());
    }

    fn head(&mut self, _: usize, view: &HeadView<'_>) {
        layer_values(&mut self.attention, view.layer).extend(view.attention.rows().flatten());
    }
}

/// The attention of all heads of a layer, sequence by sequence, `[sequences, heads, n, n]`.
fn attention(
    (encoder, heads): (&PackedEncoder, usize),
    (layer, positions): (usize, Positions),
    [queries, keys]: [&[f32]; 2],
    lengths: &[usize],
) -> Vec<f32> {
    let attention = encoder.layer_attention(layer, positions).expect("a packed encoder has it");
    let [mut from, mut to] = [QueriesAndKeys::default(), QueriesAndKeys::default()];
    attention.project(queries, lengths, &mut from);
    attention.project(keys, lengths, &mut to);
    let (mut scratch, mut start, mut all) = (AttentionScratch::default(), 0, Vec::new());
    for &n in lengths {
        for head in 0..heads {
            let view = attention.attention(head, &(start..start + n), [&from, &to], &mut scratch);
            all.extend(view.rows().flatten());
        }
        start += n;
    }
    all
}

/// The rows of each sequence in reverse order.
fn reversed(rows: &[f32], width: usize, lengths: &[usize]) -> Vec<f32> {
    let (mut all, mut start) = (Vec::new(), 0);
    for &n in lengths {
        rows[start * width..(start + n) * width].chunks_exact(width).rev().for_each(|row| all.extend(row));
        start += n;
    }
    all
}

/// Compares the attention from given rows with the attention of both encoders from their own rows. With unseen
/// positions, the order of tokens does not matter.
pub fn check(packed: &PackedEncoder, readable: &dyn Encoder, config: &Config, sentences: Vec<Sequence>) {
    let (heads, hidden) = (config.num_attention_heads, config.hidden_size);
    let lengths: Vec<usize> = sentences.iter().map(|sentence| sentence.ids.len()).collect();
    let pack = Pack { sequences: sentences };
    for (encoder, room) in [(packed as &dyn Encoder, 0.0), (readable, TOLERANCE)] {
        let mut seen = Recorder::default();
        encoder.forward(&pack.batch(), &mut Scratch::default(), &mut seen).unwrap();
        assert_eq!((seen.inputs.len(), seen.attention.len()), (config.num_hidden_layers, config.num_hidden_layers));
        for (layer, (inputs, own)) in seen.inputs.iter().zip(&seen.attention).enumerate() {
            let again = attention((packed, heads), (layer, Positions::Used), [inputs; 2], &lengths);
            let difference = largest_difference(&again, own);
            assert!(difference <= room, "layer {layer}: attention from the true rows differs by {difference:e}");
            if !lengths.iter().all(|&n| config.visibility.layer_visibility(layer).is_full(n)) {
                continue;
            }
            let unseen = |rows: &[f32]| attention((packed, heads), (layer, Positions::Ignored), [rows; 2], &lengths);
            let (there, back) = (unseen(inputs), unseen(&reversed(inputs, hidden, &lengths)));
            let mut start = 0;
            for &n in &lengths {
                for _ in 0..heads {
                    let (there, back) = (&there[start..start + n * n], &back[start..start + n * n]);
                    let turned: Vec<f32> = back.iter().rev().copied().collect();
                    let difference = largest_difference(there, &turned);
                    assert!(difference <= TOLERANCE, "layer {layer}: the order matters by {difference:e}");
                    start += n * n;
                }
            }
        }
    }
}

/// A row's attention depends on its own query and on all keys.
pub fn check_sides(packed: &PackedEncoder, config: &Config, sentence: Sequence) {
    let (heads, hidden, n) = (config.num_attention_heads, config.hidden_size, sentence.ids.len());
    let pack = Pack { sequences: vec![sentence] };
    let mut seen = Recorder::default();
    packed.forward(&pack.batch(), &mut Scratch::default(), &mut seen).unwrap();
    let (inputs, own) = (&seen.inputs[0], &seen.attention[0]);
    // The last token sees all keys, and all tokens see the first token, also in decoders.
    let negated = |token: usize| {
        let mut rows = inputs.clone();
        rows[token * hidden..][..hidden].iter_mut().for_each(|value| *value = -*value);
        rows
    };
    let from_other = attention((packed, heads), (0, Positions::Used), [&negated(n - 1), inputs], &[n]);
    let to_other = attention((packed, heads), (0, Positions::Used), [inputs, &negated(0)], &[n]);
    for head in 0..heads {
        let head_rows = |all: &[f32]| all[head * n * n..][..n * n].to_vec();
        let [own, from_other, to_other] = [&own[..], &from_other, &to_other].map(head_rows);
        let last = (n - 1) * n;
        assert_eq!(own[..last], from_other[..last], "head {head}: only the last query changed");
        assert_ne!(own[last..], from_other[last..], "head {head}: the last query changed");
        assert_ne!(own, to_other, "head {head}: the first key changed");
        // The other keys keep their proportions.
        for (own, other) in own.chunks_exact(n).zip(to_other.chunks_exact(n)) {
            let difference = (own[1] * other[2] - own[2] * other[1]).abs();
            assert!(difference <= TOLERANCE, "head {head}: proportions differ by {difference:e}");
        }
    }
}
