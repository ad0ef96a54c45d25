//! A warm worker keeps no new memory: its buffers have grown to the largest pack.

mod support;

use std::sync::Arc;

use headscope::corpus::{Annotation, Content, Sentence, TreeHead, Upos, Word};
use headscope::model::Model;
use headscope::model::forward::gates::{Gate, Gates};
use headscope::model::forward::visitor::{HeadView, Needs, Visitor};
use headscope::model::forward::{PassStart, Scratch};
use headscope::model::source::ModelRef;
use headscope::passes::observer::set::ObserverSet;
use headscope::passes::setup::PassSetup;
use headscope::sequences::counts::TokenCounter;
use headscope::sequences::fold::words::FromToken;
use headscope::sequences::pack::Pack;
use headscope::sequences::sequence::Sequence;
use headscope::sequences::tokenize::SentenceTokenizer;
use headscope::studies::registry;
use headscope::study::Subject;
use support::tiny_bert;

/// A sentence of `words` words; each word depends on the word before it.
fn sentence(model: &Model, words: usize) -> Sequence {
    let word = |place: usize| {
        let head = if place == 0 { TreeHead::Root } else { TreeHead::Word(place - 1) };
        let upos = [Upos::Det, Upos::Noun, Upos::Verb][place % 3];
        let annotation = Annotation { upos: Some(upos), ..Annotation::default() };
        Word { annotation, ..Word::new(["the", "cat", "sat"][place % 3], head, "dep") }
    };
    let sentence = Sentence::standalone("made up", Content::Words((0..words).map(word).collect()));
    SentenceTokenizer::new(&model.tokenizer, 512, false).encode(sentence).unwrap().unwrap()
}

/// Counts the allocations of the statistics.
struct Observer<'a> {
    panel: &'a mut ObserverSet,
    pack: &'a Pack,
    allocations: u64,
}

impl Visitor for Observer<'_> {
    fn needs(&self) -> Needs {
        self.panel.needs()
    }

    fn head(&mut self, sequence: usize, view: &HeadView<'_>) {
        let sentence = &self.pack.sequences[sequence];
        let count = allocation_counter::measure(|| self.panel.observe_head(sequence, sentence, *view));
        self.allocations += count.count_total;
    }
}

#[test]
fn warm_forward_pass_and_statistics_keep_no_new_memory() {
    let model = Model::load(ModelRef::Folder(tiny_bert()).resolve(&()).unwrap()).unwrap();
    let grid = model.grid();
    let subject = Subject::new(grid, FromToken::Mean, &|_| None);
    let observers = registry::default_studies()
        .flat_map(|study| study.passes().iter().map(|spec| spec.make_observer(&subject)).collect::<Vec<_>>());
    let (mut panel, mut scratch) = (ObserverSet::new(observers.collect()), Scratch::default());
    let mut counting = TokenCounter::default();
    counting.add(&sentence(&model, 30));
    let counts = Some(Arc::new(counting.finish()));
    panel.begin_pass(&PassSetup { embeddings: model.encoder.word_embeddings(), counts, ..PassSetup::default() });
    let mut run = |lengths: &[usize]| {
        let pack = Pack { sequences: lengths.iter().map(|&words| sentence(&model, words)).collect() };
        let batch = pack.batch();
        panel.begin_pack(pack.sequences.iter());
        let mut observer = Observer { panel: &mut panel, pack: &pack, allocations: 0 };
        let count = allocation_counter::measure(|| model.encoder.forward(&batch, &mut scratch, &mut observer).unwrap());
        let allocations = observer.allocations;
        panel.end_pack();
        (count, allocations)
    };
    let (forward, statistics) = run(&[20, 5, 30]);
    assert!(forward.count_current > 0 && statistics > 0, "the first pack fills buffers, or this test counts nothing");
    for lengths in [[20, 5, 30], [1, 29, 7]] {
        let (forward, statistics) = run(&lengths);
        assert_eq!(statistics, 0);
        // The gemm crate allocates working memory for each product, in two pieces, and frees it.
        assert_eq!(forward.count_current, 0);
        let written = grid.layers - 1;
        // Scores and contexts: two products per head and sequence.
        let head_products = grid.heads * lengths.len() * grid.layers * 2;
        let products = grid.layers + 3 * written + head_products;
        assert!(forward.count_total <= 2 * products as u64, "{} for {products} products", forward.count_total);
    }
}

/// Requests nearly every activation that needs no masked-LM head.
struct Greedy;

impl Visitor for Greedy {
    fn needs(&self) -> Needs {
        Needs {
            values: true,
            value_norms: true,
            contexts: true,
            outputs: true,
            hidden_states: true,
            attention_inputs: true,
            mixing: true,
            ..Needs::ATTENTION
        }
    }
}

#[test]
fn warm_encoder_with_gates_keeps_no_new_memory() {
    let model = Model::load(ModelRef::Folder(tiny_bert()).resolve(&()).unwrap()).unwrap();
    let mut gates = Gates::default();
    gates.set_gate(1, 0, Gate::from_factor(0.5));
    let pack = Pack { sequences: [20, 5, 30].iter().map(|&words| sentence(&model, words)).collect() };
    let tokens = pack.sequences[0].ids.len();
    gates.patch_rows(0, 1, 0, [(1, vec![1.0 / tokens as f32; tokens])].into());
    let (batch, mut scratch) = (pack.batch(), Scratch::default());
    let mut run = || {
        let mut forward =
            || model.encoder.forward_from(PassStart::Embeddings, &batch, &gates, &mut scratch, &mut Greedy);
        allocation_counter::measure(|| forward().unwrap()).count_current
    };
    assert!(run() > 0, "the first batch fills buffers");
    assert_eq!(run(), 0);
}
