//! The attention goldens that `fixtures/make_goldens.py` and `fixtures/make_families.py` make, and encoders held
//! against them.

#![allow(dead_code, reason = "each test crate uses a part")]

use std::path::Path;

use headscope::corpus::{Content, Sentence, TreeHead, Word};
use headscope::model::Model;
use headscope::model::forward::attention::AttentionView;
use headscope::model::forward::{Encoder, Scratch, Visitor};
use headscope::model::source::ModelRef;
use headscope::sequences::pack::Pack;
use headscope::sequences::sequence::{Sequence, TokenKind};
use headscope::sequences::tokenize::SentenceTokenizer;
use safetensors::SafeTensors;

/// What attention and hidden states may differ by from PyTorch's: both are float32, summed in different orders.
/// PyTorch itself is 2e-6 to 4e-6 away from float64.
pub const TOLERANCE: f32 = 1e-5;

/// Attention of one sentence, `[layers, heads, n, n]`, and hidden states, `[layers + 1, n, hidden]`, flat.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Forward {
    pub ids: Vec<u32>,
    pub segments: Vec<u32>,
    pub attentions: Vec<f32>,
    pub hidden_states: Vec<f32>,
}

pub struct Golden {
    /// The words; none in a golden of chosen token ids.
    pub sentences: Vec<Vec<String>>,
    pub expected: Vec<Forward>,
}

impl Golden {
    /// Reads a golden; one that cannot be read says how it is made.
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
        };
        let count = tensors.names().iter().filter(|name| name.starts_with("ids.")).count();
        Self { expected: (0..count).map(forward).collect(), sentences: sentences.unwrap_or_default() }
    }
}

/// Loads a model folder.
pub fn load(folder: &Path) -> Model {
    Model::load(ModelRef::Folder(folder.to_owned()).resolve(&()).expect("a model folder")).expect("a model")
}

/// Encodes pre-split words, as a corpus of that one sentence would be.
pub fn encode(model: &Model, words: &[String]) -> Sequence {
    let word = |form: &String| Word::new(form, TreeHead::Unknown, "dep");
    let sentence = Sentence::single("golden", Content::Words(words.iter().map(word).collect()));
    SentenceTokenizer::new(&model.tokenizer, 512, false)
        .encode(sentence)
        .expect("encodes")
        .sequence()
        .expect("is not skipped")
}

/// Runs sentences in one pack.
pub fn forward(encoder: &dyn Encoder, sentences: Vec<Sequence>) -> Vec<Forward> {
    record(encoder, sentences, true)
}

/// The same without asking for hidden states.
pub fn attention_alone(encoder: &dyn Encoder, sentences: Vec<Sequence>) -> Vec<Forward> {
    record(encoder, sentences, false)
}

fn record(encoder: &dyn Encoder, sentences: Vec<Sequence>, hidden_states: bool) -> Vec<Forward> {
    struct Recorder {
        sentences: Vec<Forward>,
        hidden_states: bool,
    }
    impl Visitor for Recorder {
        fn attention(&mut self, sentence: usize, view: AttentionView<'_>) {
            self.sentences[sentence].attentions.extend(view.rows().flatten());
        }
        fn wants_hidden_states(&self) -> bool {
            self.hidden_states
        }
        fn hidden_states(&mut self, _layer: usize, mut states: &[f32]) {
            let tokens: usize = self.sentences.iter().map(|sentence| sentence.ids.len()).sum();
            let width = states.len() / tokens;
            for sentence in &mut self.sentences {
                let (own, rest) = states.split_at(sentence.ids.len() * width);
                sentence.hidden_states.extend_from_slice(own);
                states = rest;
            }
        }
    }
    let start = |sentence: &Sequence| {
        let (ids, segments) = (sentence.ids.clone(), sentence.segments.clone());
        Forward { ids, segments, ..Forward::default() }
    };
    let mut recorder = Recorder { sentences: sentences.iter().map(start).collect(), hidden_states };
    encoder.forward(&Pack { sentences }, &mut Scratch::default(), &mut recorder).expect("a forward pass");
    recorder.sentences
}

/// The largest difference between two lists of the same length.
pub fn largest_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len(), "shapes differ");
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// Holds a model's forward pass over a golden's sentences against the golden.
pub fn check_parity(model: &Model, golden: &Golden) {
    let sentences: Vec<Sequence> = golden.sentences.iter().map(|words| encode(model, words)).collect();
    check_forward(model.encoder.as_ref(), model.grid().layers, sentences, &golden.expected);
}

/// A sentence of chosen token ids.
pub fn of_ids(index: u64, ids: &[u32], segments: &[u32]) -> Sequence {
    Sequence {
        index,
        ids: ids.to_vec(),
        segments: segments.to_vec(),
        kinds: vec![TokenKind::Text; ids.len()],
        ..Sequence::default()
    }
}

/// Holds a forward pass against what is expected, sentence by sentence and layer by layer, and prints the largest
/// differences.
pub fn check_forward(encoder: &dyn Encoder, layers: usize, sentences: Vec<Sequence>, expected: &[Forward]) {
    assert_eq!(sentences.len(), expected.len());
    let (mut attention, mut hidden) = (vec![0_f32; layers], vec![0_f32; layers + 1]);
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
    assert!(hidden.iter().all(|&difference| difference <= TOLERANCE), "hidden states differ: {hidden:?}");
}
