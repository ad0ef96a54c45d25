//! The packed encoder against PyTorch, candle's BERT and the readable encoder.

use crate::golden;
use crate::golden::{EVERYTHING, Golden, check_parity, encode, forward, largest_difference, load, record, try_record};
use crate::random::{RandomEncoder, classes, predicted, sentences};
use crate::support;
use crate::support::{fixture, opened, tiny_bert};
use crate::tensor::TensorEncoder;
use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::bert;
use headscope::model::families::table::FAMILIES;
use headscope::model::forward::attention::AttentionView;
use headscope::model::forward::gates::Gates;
use headscope::model::forward::packed::PackedEncoder;
use headscope::model::forward::visitor::{HeadView, Needs, Visitor};
use headscope::model::forward::{Encoder, PassStart, Scratch};
use headscope::model::parameters::Parameters;
use headscope::model::weights::Checkpoint;
use headscope::sequences::pack::Pack;
use headscope::sequences::sequence::Sequence;
use proptest::prelude::*;

fn tiny_golden() -> Golden {
    Golden::read(&fixture("goldens/tiny-bert.safetensors"))
}

#[test]
fn attention_and_hidden_states_equal_pytorch() {
    check_parity(&load(&tiny_bert()), &tiny_golden());
}

/// The readable encoder with the parameters of the tiny model.
fn tensor_encoder() -> TensorEncoder {
    let architecture = support::architecture(&tiny_bert());
    let checkpoint = Checkpoint::open(opened(&[tiny_bert().join("model.safetensors")]), FAMILIES[0]).unwrap();
    TensorEncoder::new(&Parameters::load(&checkpoint, &architecture).unwrap(), &Device::Cpu).unwrap()
}

#[test]
fn the_readable_encoder_equals_pytorch() {
    let mut model = load(&tiny_bert());
    model.encoder = Box::new(tensor_encoder());
    check_parity(&model, &tiny_golden());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Two implementations of one definition agree on random shapes, with and without interventions.
    #[test]
    fn both_encoders_agree(
        random in RandomEncoder::any(),
        lengths in prop::collection::vec(1..70_usize, 1..6),
        intervene: bool,
    ) {
        let parameters = random.parameters();
        let pack = Pack { sequences: sentences(&lengths) };
        let gates = if intervene { random.interventions(&pack.sequences) } else { Gates::default() };
        let (classes, predicted) = (classes(&pack.sequences), predicted(&pack.sequences));
        let batch = pack.batch().with_classes(&classes).with_predicted(&predicted);
        let all = |encoder: &dyn Encoder, start: PassStart<'_>| record(encoder, start, &batch, &gates, EVERYTHING);
        let slow = TensorEncoder::with_precision(&parameters, &Device::Cpu, DType::F64).unwrap();
        let (slow, fast) = (all(&slow, PassStart::Embeddings), all(&PackedEncoder::new(parameters), PassStart::Embeddings));
        for (slow, fast) in slow.iter().zip(&fast) {
            let attention = largest_difference(&slow.attentions, &fast.attentions);
            prop_assert!(attention <= golden::TOLERANCE, "attention differs by {attention:e}");
            // Unlike attention, these values are not bounded by 1.
            let others = [
                ("values", &slow.values, &fast.values),
                ("value norms", &slow.value_norms, &fast.value_norms),
                ("values after the Gram matrix", &slow.value_products, &fast.value_products),
                ("biases after it", &slow.bias_products, &fast.bias_products),
                ("Gram matrices", &slow.output_grams, &fast.output_grams),
                ("contexts", &slow.contexts, &fast.contexts),
                ("outputs", &slow.outputs, &fast.outputs),
                ("outputs after the Gram matrix", &slow.output_products, &fast.output_products),
                ("norms of what goes in", &slow.input_norms, &fast.input_norms),
                ("hidden states", &slow.hidden_states, &fast.hidden_states),
                ("rows that queries and keys are made of", &slow.attention_inputs, &fast.attention_inputs),
                ("mixing ratios", &slow.mixing, &fast.mixing),
                ("logits", &slow.logits, &fast.logits),
            ];
            for (part, slow, fast) in others {
                let difference = largest_difference(slow, fast);
                // The tolerance is relative, as float32 errors are: hidden states of pre-norm layers grow.
                let size = slow.iter().fold(1.0_f32, |size, value| size.max(value.abs()));
                let room = 5.0 * golden::TOLERANCE * size;
                prop_assert!(difference <= room, "{part} of up to {size} differ by {difference:e}");
            }
            prop_assert_eq!((&slow.predicted, slow.calls), (&fast.predicted, fast.calls));
        }
    }
}

#[test]
fn entropies_from_the_softmax_equal_those_of_the_weights() {
    struct Check(usize);
    impl Visitor for Check {
        fn needs(&self) -> Needs {
            Needs::ATTENTION
        }
        fn head(&mut self, _sequence: usize, &HeadView { attention: view, .. }: &HeadView<'_>) {
            let weights: Vec<f32> = view.rows().flatten().copied().collect();
            let bare = AttentionView::new(view.layer, view.head, view.tokens(), &weights);
            for query in 0..view.tokens() {
                assert!((view.entropy(query) - bare.entropy(query)).abs() < 1e-5);
                self.0 += 1;
            }
        }
    }
    let model = load(&tiny_bert());
    let sentence = encode(&model, &tiny_golden().sentences[1]);
    let rows = sentence.ids.len() * model.grid().head_count();
    let mut check = Check(0);
    model.encoder.forward(&Pack { sequences: vec![sentence] }.batch(), &mut Scratch::default(), &mut check).unwrap();
    assert_eq!(check.0, rows);
}

#[test]
fn ids_without_embeddings_are_refused() {
    let model = load(&tiny_bert());
    let sentence = encode(&model, &["the".to_owned()]);
    let error = |sentence: Sequence| {
        let pack = Pack { sequences: vec![sentence] };
        let forward = |encoder: &dyn Encoder| {
            let (batch, gates) = (pack.batch(), Gates::default());
            try_record(encoder, PassStart::Embeddings, &batch, &gates, Needs::default()).unwrap_err().to_string()
        };
        assert_eq!(forward(&tensor_encoder()), forward(model.encoder.as_ref()));
        forward(model.encoder.as_ref())
    };
    let ids = Sequence { ids: vec![2, 196, 3], ..sentence.clone() };
    assert_eq!(error(ids), "sentence 0 has token id 196, the model 196 token embeddings");
    let segments = Sequence { segments: vec![0, 2, 0], ..sentence };
    assert_eq!(error(segments), "sentence 0 has segment 2, the model 2 segment embeddings");
}

#[test]
fn packing_changes_no_sentence() {
    let model = load(&tiny_bert());
    let sentences: Vec<_> = tiny_golden().sentences.iter().map(|words| encode(&model, words)).collect();
    let together = forward(model.encoder.as_ref(), sentences.clone());
    for (sentence, packed) in sentences.into_iter().zip(together) {
        let alone = forward(model.encoder.as_ref(), vec![sentence]).remove(0);
        // Not bit for bit: a matrix product may sum in another order if the number of rows differs.
        assert!(largest_difference(&alone.attentions, &packed.attentions) < 1e-6);
        assert!(largest_difference(&alone.hidden_states, &packed.hidden_states) < golden::TOLERANCE);
    }
}

#[test]
fn attention_rows_sum_to_one() {
    let model = load(&tiny_bert());
    for words in tiny_golden().sentences {
        let sentence = encode(&model, &words);
        let tokens = sentence.ids.len();
        for row in forward(model.encoder.as_ref(), vec![sentence])[0].attentions.chunks_exact(tokens) {
            let sum: f64 = row.iter().map(|&weight| f64::from(weight)).sum();
            assert!((sum - 1.0).abs() < 1e-6, "a row sums to {sum}");
        }
    }
}

#[test]
fn hidden_states_equal_candle_transformers() {
    let folder = tiny_bert();
    let model = load(&folder);
    let config = std::fs::read_to_string(folder.join("config.json")).unwrap();
    let config: bert::Config = serde_json::from_str(&config).unwrap();
    let weights = std::fs::read(folder.join("model.safetensors")).unwrap();
    let weights = VarBuilder::from_buffered_safetensors(weights, DType::F32, &Device::Cpu).unwrap();
    let oracle = bert::BertModel::load(weights, &config).unwrap();
    for words in tiny_golden().sentences {
        let sentence = encode(&model, &words);
        let ids = Tensor::new(sentence.ids.as_slice(), &Device::Cpu).unwrap().unsqueeze(0).unwrap();
        let expected = oracle.forward(&ids, &ids.zeros_like().unwrap(), None).unwrap();
        let expected = expected.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        let all = forward(model.encoder.as_ref(), vec![sentence]).remove(0).hidden_states;
        let difference = largest_difference(&all[all.len() - expected.len()..], &expected);
        assert!(difference <= golden::TOLERANCE, "differs by {difference}");
    }
}
