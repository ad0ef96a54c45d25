//! The attention goldens of `fixtures/make_goldens.py` and `fixtures/make_families.py`, and comparisons of encoders
//! with them.

#![allow(dead_code, reason = "each test crate uses a part")]

use std::path::Path;

use headscope::corpus::{Content, Sentence, TreeHead, Word};
use headscope::model::Model;
use headscope::model::forward::batch::{Batch, BatchInput};
use headscope::model::forward::gates::Gates;
use headscope::model::forward::rows::Rows;
use headscope::model::forward::visitor::{HeadView, MixingRatios, Needs, Visitor};
use headscope::model::forward::{Encoder, PassStart, Scratch};
use headscope::model::source::ModelRef;
use headscope::sequences::pack::Pack;
use headscope::sequences::reading::Spacing;
use headscope::sequences::sequence::{Sequence, TokenKind};
use headscope::sequences::tokenize::SentenceTokenizer;
use safetensors::SafeTensors;

/// Tolerance for the difference from PyTorch's attention and hidden states: both are float32, summed in different
/// orders. PyTorch itself differs from float64 by 2e-6 to 4e-6.
pub const TOLERANCE: f32 = 1e-5;

/// All activations that an encoder shows of one sentence, flattened.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Forward {
    pub ids: Vec<u32>,
    pub segments: Vec<u32>,
    /// `[layers, heads, n, n]`
    pub attentions: Vec<f32>,
    /// `[layers, heads, n, head_dim]`, with bias.
    pub values: Vec<f32>,
    /// `[layers, heads, n]`
    pub value_norms: Vec<f32>,
    /// `[layers, heads, n, head_dim]`: values without bias, times the Gram matrix.
    pub value_products: Vec<f32>,
    /// `[layers, heads, head_dim]`
    pub bias_products: Vec<f32>,
    /// `[layers, heads, head_dim, head_dim]`
    pub output_grams: Vec<f32>,
    /// `[layers, heads, n, head_dim]`
    pub contexts: Vec<f32>,
    /// `[layers, heads, n, head_dim]`
    pub outputs: Vec<f32>,
    /// `[layers, heads, n, head_dim]`: outputs times the Gram matrix.
    pub output_products: Vec<f32>,
    /// `[layers, heads, n]`
    pub input_norms: Vec<f32>,
    /// `[layers + 1, n, hidden]`
    pub hidden_states: Vec<f32>,
    /// `[layers, n, hidden]`
    pub attention_inputs: Vec<f32>,
    /// Per layer: the mixing ratios of the attention, `[n]`, then of even attention, `[n]`.
    pub mixing: Vec<f32>,
    /// `[positions, vocab]`
    pub logits: Vec<f32>,
    /// The positions whose logits are in `logits`.
    pub predicted: Vec<usize>,
    /// Number of calls of `head` and of `end`.
    pub calls: (usize, usize),
}

pub struct Golden {
    /// The words; empty in a golden of chosen token ids.
    pub sentences: Vec<Vec<String>>,
    pub expected: Vec<Forward>,
}

impl Golden {
    /// Reads a golden. If that fails, the panic message says where to read how goldens are made.
    pub fn read(path: &Path) -> Self {
        let remake = format!("{} is missing or stale: fixtures/README.md says how it is made", path.display());
        let bytes = std::fs::read(path).expect(&remake);
        let (_, header) = SafeTensors::read_metadata(&bytes).expect(&remake);
        let metadata = header.metadata().as_ref().expect(&remake);
        let sentences = metadata.get("sentences").map(|words| serde_json::from_str(words).expect(&remake));
        let tensors = SafeTensors::deserialize(&bytes).expect(&remake);
        let floats = |name: String| -> Vec<f32> {
            let data = tensors.tensor(&name).expect(&remake).data();
            data.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().expect("four bytes"))).collect()
        };
        let ids = |name: String| -> Vec<u32> {
            let data = tensors.tensor(&name).map_or(&[][..], |view| view.data());
            let id = |b: &[u8]| u32::try_from(i64::from_le_bytes(b.try_into().expect("eight bytes"))).expect("an id");
            data.chunks_exact(8).map(id).collect()
        };
        let forward = |i: usize| Forward {
            ids: ids(format!("ids.{i}")),
            segments: ids(format!("segments.{i}")),
            attentions: floats(format!("attentions.{i}")),
            hidden_states: floats(format!("hidden_states.{i}")),
            logits: tensors.tensor(&format!("logits.{i}")).map_or(vec![], |_| floats(format!("logits.{i}"))),
            ..Forward::default()
        };
        let count = tensors.names().iter().filter(|name| name.starts_with("ids.")).count();
        Self { expected: (0..count).map(forward).collect(), sentences: sentences.unwrap_or_default() }
    }
}

pub fn load(folder: &Path) -> Model {
    Model::load(ModelRef::Folder(folder.to_owned()).resolve(&()).expect("a model folder")).expect("a model")
}

/// Loads a model folder with its prediction head, if it has one.
pub fn load_with_prediction(folder: &Path) -> Model {
    let files = ModelRef::Folder(folder.to_owned()).resolve(&()).expect("a model folder");
    Model::load_with_prediction(files).expect("a model")
}

/// Encodes pre-split words one by one, as the goldens were made.
pub fn encode(model: &Model, words: &[String]) -> Sequence {
    let word = |form: &String| Word::new(form, TreeHead::Unknown, "dep");
    let sentence = Sentence::standalone("golden", Content::Words(words.iter().map(word).collect()));
    SentenceTokenizer::new(&model.tokenizer, 512, false)
        .with_spacing(Spacing::Spaced)
        .encode(sentence)
        .expect("encodes")
        .expect("is not skipped")
}

/// The activations that both encoders can show and that [`Forward`] records.
pub const EVERYTHING: Needs = Needs {
    attention: true,
    values: true,
    value_norms: true,
    contexts: true,
    outputs: true,
    // The tensor encoder computes no direct effects.
    direct: false,
    hidden_states: true,
    layer_inputs: false,
    predicted_states: false,
    attention_inputs: true,
    mixing: true,
    logits: true,
    writes: false,
};

/// Attention and hidden states of sentences that run in one pack.
pub fn forward(encoder: &dyn Encoder, sentences: Vec<Sequence>) -> Vec<Forward> {
    let needs = Needs { hidden_states: true, ..Needs::ATTENTION };
    let pack = Pack { sequences: sentences };
    record(encoder, PassStart::Embeddings, &pack.batch(), &Gates::default(), needs)
}

/// Runs a pass and records all activations that it shows.
pub fn record(
    encoder: &dyn Encoder,
    start: PassStart<'_>,
    batch: &Batch<'_>,
    gates: &Gates,
    needs: Needs,
) -> Vec<Forward> {
    try_record(encoder, start, batch, gates, needs).expect("a forward pass")
}

/// As [`record`], for a pass that may fail.
pub fn try_record(
    encoder: &dyn Encoder,
    start: PassStart<'_>,
    batch: &Batch<'_>,
    gates: &Gates,
    needs: Needs,
) -> anyhow::Result<Vec<Forward>> {
    let empty = |input: &BatchInput<'_>| Forward {
        ids: input.ids.to_vec(),
        segments: input.segments.to_vec(),
        ..Forward::default()
    };
    let mut recorder = Recorder { sequences: batch.inputs.iter().map(empty).collect(), needs };
    encoder.forward_from(start, batch, gates, &mut Scratch::default(), &mut recorder)?;
    Ok(recorder.sequences)
}

struct Recorder {
    sequences: Vec<Forward>,
    needs: Needs,
}

impl Visitor for Recorder {
    fn needs(&self) -> Needs {
        self.needs
    }

    fn head(&mut self, sequence: usize, view: &HeadView<'_>) {
        assert_eq!((view.attention.layer, view.attention.head), (view.layer, view.head));
        let to = &mut self.sequences[sequence];
        to.calls.0 += 1;
        // The view has attention whether or not it is needed.
        if self.needs.attention {
            to.attentions.extend(view.attention.rows().flatten());
        }
        if let Some(values) = view.values {
            let biased =
                |row: &[f32]| row.iter().zip(values.bias).map(|(value, bias)| value + bias).collect::<Vec<_>>();
            to.values.extend(values.rows.iter().flat_map(biased));
        }
        if let Some(norms) = view.value_norms {
            to.value_norms.extend(norms.norms);
            to.value_products.extend(norms.products.iter().flatten());
            to.bias_products.extend(norms.bias_product);
            to.output_grams.extend(norms.gram);
        }
        if let Some(context) = view.context {
            to.contexts.extend(context.iter().flatten());
        }
        if let Some(output) = view.output {
            to.outputs.extend(output.contexts.iter().flatten());
            to.output_products.extend(output.products.iter().flatten());
            to.input_norms.extend(output.input_norms);
            assert!(view.value_norms.is_none_or(|norms| norms.gram == output.gram));
        }
    }

    fn hidden_states(&mut self, sequence: usize, _layer: usize, states: Rows<'_>) {
        self.sequences[sequence].hidden_states.extend(states.iter().flatten());
    }

    fn attention_inputs(&mut self, sequence: usize, _layer: usize, inputs: Rows<'_>) {
        self.sequences[sequence].attention_inputs.extend(inputs.iter().flatten());
    }

    fn mixing(&mut self, sequence: usize, _layer: usize, mixing: MixingRatios<'_>) {
        self.sequences[sequence].mixing.extend([mixing.ratios, mixing.uniform_ratios].concat());
    }

    fn logits(&mut self, sequence: usize, position: usize, logits: &[f32]) {
        self.sequences[sequence].predicted.push(position);
        self.sequences[sequence].logits.extend(logits);
    }

    fn end_sequence(&mut self, sequence: usize) {
        self.sequences[sequence].calls.1 += 1;
    }
}

/// The largest difference between two lists of equal length.
pub fn largest_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len(), "shapes differ");
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// Compares a model's forward pass over a golden's sentences with the golden.
pub fn check_parity(model: &Model, golden: &Golden) {
    let sentences: Vec<Sequence> = golden.sentences.iter().map(|words| encode(model, words)).collect();
    check_forward(model.encoder.as_ref(), model.grid().layers, sentences, &golden.expected);
}

/// A sequence of chosen token ids.
pub fn of_ids(index: u64, ids: &[u32], segments: &[u32]) -> Sequence {
    Sequence {
        index,
        ids: ids.to_vec(),
        segments: segments.to_vec(),
        kinds: vec![TokenKind::Text; ids.len()],
        ..Sequence::default()
    }
}

/// Compares a forward pass with the expected values, sentence by sentence and layer by layer. Prints the largest
/// differences.
pub fn check_forward(encoder: &dyn Encoder, layers: usize, sentences: Vec<Sequence>, expected: &[Forward]) {
    assert_eq!(sentences.len(), expected.len());
    let (mut attention, mut hidden) = (vec![0_f32; layers], vec![0_f32; layers + 1]);
    // Rounding errors grow with the values.
    let mut largest = vec![1_f32; layers + 1];
    for (actual, expected) in forward(encoder, sentences).iter().zip(expected) {
        assert_eq!(actual.ids, expected.ids, "token ids differ");
        let by_layer = |values: &[f32], layers: usize| values.len() / layers;
        let size = by_layer(&expected.attentions, layers);
        for (layer, worst) in attention.iter_mut().enumerate() {
            let range = layer * size..(layer + 1) * size;
            let difference = largest_difference(&actual.attentions[range.clone()], &expected.attentions[range]);
            *worst = worst.max(difference);
        }
        let size = by_layer(&expected.hidden_states, layers + 1);
        for (layer, worst) in hidden.iter_mut().enumerate() {
            let range = layer * size..(layer + 1) * size;
            largest[layer] = expected.hidden_states[range.clone()].iter().fold(largest[layer], |a, b| a.max(b.abs()));
            let difference = largest_difference(&actual.hidden_states[range.clone()], &expected.hidden_states[range]);
            *worst = worst.max(difference);
        }
    }
    let shown = |differences: &[f32]| {
        differences.iter().map(|difference| format!("{difference:.1e}")).collect::<Vec<_>>().join(" ")
    };
    println!("largest differences to PyTorch by layer: attention {}", shown(&attention));
    println!("hidden states, embeddings first: {}", shown(&hidden));
    assert!(attention.iter().all(|&difference| difference <= TOLERANCE), "attention differs: {attention:?}");
    let near = |(&difference, &largest): (&f32, &f32)| difference <= TOLERANCE * largest;
    assert!(hidden.iter().zip(&largest).all(near), "hidden states differ: {hidden:?}, of {largest:?} at most");
}
