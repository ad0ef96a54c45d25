//! Interventions in a forward pass, compared with PyTorch and with hand computations: gates, patched rows, starts at a
//! middle layer, views on demand, and logits.

use crate::golden;
use crate::golden::{EVERYTHING, Forward, largest_difference, record, try_record};
use crate::random::{RandomEncoder, classes, predicted, sentences};
use crate::support::{architecture, fixture, opened, weight_files};
use crate::tensor::TensorEncoder;
use candle_core::{DType, Device};
use headscope::model::config::NormKind;
use headscope::model::forward::batch::{Batch, BatchInput, ContextExchange, TokenClass};
use headscope::model::forward::gates::{Gate, Gates, ReplacementVectors};
use headscope::model::forward::packed::PackedEncoder;
use headscope::model::forward::rows::Rows;
use headscope::model::forward::visitor::{FinalNorm, HeadView, Needs, ResidualPart, Visitor};
use headscope::model::forward::{Encoder, PassStart, Scratch};
use headscope::model::parameters::{Objective, Parameters};
use headscope::model::weights::Checkpoint;
use headscope::sequences::pack::Pack;
use proptest::prelude::*;

/// Hidden states, attention inputs and logits, and nothing else.
const AT_THE_END: Needs = Needs {
    attention: false,
    values: false,
    value_norms: false,
    contexts: false,
    outputs: false,
    direct: false,
    hidden_states: true,
    layer_inputs: false,
    predicted_states: false,
    attention_inputs: true,
    mixing: false,
    logits: true,
    writes: false,
};

/// A model of `fixtures/models` with its prediction head.
fn with_head(name: &str) -> Parameters {
    let folder = fixture("models").join(name);
    let architecture = architecture(&folder);
    let checkpoint = Checkpoint::open(opened(&weight_files(&folder)), architecture.family).unwrap();
    let objective = Objective::detect(&architecture, |name| checkpoint.has_prefix(name)).unwrap();
    let parameters = Parameters::load(&checkpoint, &architecture).unwrap();
    parameters.with_prediction(&checkpoint, &architecture, objective).unwrap()
}

/// A row of `tokens` attention weights, with all weight on one token.
fn to_one(tokens: usize, key: usize) -> Vec<f32> {
    (0..tokens).map(|token| if token == key { 1.0 } else { 0.0 }).collect()
}

/// Compares the logits and last hidden states of both encoders with the goldens of `fixtures/make_interventions.py`.
fn check_against_pytorch(name: &str, tolerance: f32) {
    let path = fixture("goldens/interventions").join(format!("{name}.safetensors"));
    let golden = candle_core::safetensors::load(&path, &Device::Cpu)
        .unwrap_or_else(|_| panic!("{} is missing: fixtures/README.md says how it is made", path.display()));
    let whole = |name: &str| -> Vec<u32> { golden[name].to_dtype(DType::U32).unwrap().to_vec1().unwrap() };
    let floats = |name: &str| -> Vec<f32> { golden[name].flatten_all().unwrap().to_vec1().unwrap() };
    let both = |name: &str| [0, 1].map(|index| whole(&format!("{name}.{index}")));
    let (ids, segments) = (both("ids"), both("segments"));
    let classes: Vec<TokenClass> =
        both("classes").concat().iter().map(|&class| TokenClass::ALL[class as usize]).collect();
    let predicted = both("predicted").map(|positions| positions.iter().map(|&position| position as usize).collect());
    let input = |index: usize| BatchInput { ids: &ids[index], segments: &segments[index], ..BatchInput::default() };
    let batch = Batch { inputs: vec![input(0), input(1)] }.with_classes(&classes).with_predicted(&predicted);

    let mut replacement = golden["replacement"].to_vec2::<f32>().unwrap();
    // The goldens of encoders have no class of first tokens.
    replacement.resize(TokenClass::COUNT, vec![0.0; replacement[0].len()]);
    let replacement: ReplacementVectors = replacement.try_into().unwrap();
    let mut zero = Gates::default();
    zero.set_gate(0, 1, Gate::from_factor(0.0));
    let mut gates = Gates::default();
    gates.set_gate(0, 0, Gate::from_replacement(replacement.clone()));
    gates.set_gate(1, 2, Gate { keep: 0.25, replacement: Some(replacement.into()) });
    gates.set_gate(1, 0, Gate::from_factor(2.0));
    let mut rows = Gates::default();
    let parameters = with_head(name);
    for (sequence, ids) in ids.iter().enumerate() {
        // Number of tokens that the second token sees.
        let seen = if parameters.config.visibility.are_causal() { 2 } else { ids.len() };
        let sum = (seen * (seen + 1) / 2) as f32;
        let weight = |token: usize| if token <= seen { token as f32 / sum } else { 0.0 };
        let rising: Vec<f32> = (1..=ids.len()).map(weight).collect();
        rows.patch_rows(0, 1, sequence, [(1, rising.clone()), (2, rising)].into());
        rows.patch_rows(1, 0, sequence, [(3, to_one(ids.len(), 0))].into());
    }

    let slow = TensorEncoder::new(&parameters, &Device::Cpu).unwrap();
    let fast = PackedEncoder::new(parameters);
    for (label, gates) in [("plain", Gates::default()), ("zero", zero), ("gates", gates), ("rows", rows)] {
        let mut worst = [0.0_f32; 2];
        for encoder in [&slow as &dyn Encoder, &fast] {
            let actual = record(encoder, PassStart::Embeddings, &batch, &gates, AT_THE_END);
            for (index, actual) in actual.iter().enumerate() {
                let states = floats(&format!("{label}.hidden_states.{index}"));
                let last = &actual.hidden_states[actual.hidden_states.len() - states.len()..];
                let logits = floats(&format!("{label}.logits.{index}"));
                // The difference as a share of the largest value, if that value is above 1.
                let share = |actual: &[f32], expected: &[f32]| {
                    let largest = expected.iter().fold(1.0_f32, |largest, value| largest.max(value.abs()));
                    largest_difference(actual, expected) / largest
                };
                worst = [worst[0].max(share(last, &states)), worst[1].max(share(&actual.logits, &logits))];
            }
        }
        println!("{name}, {label}: hidden states differ by {:.1e}, logits by {:.1e}", worst[0], worst[1]);
        assert!(worst.iter().all(|&difference| difference <= tolerance), "{name}, {label}: {worst:?}");
    }
}

#[test]
fn prediction_heads_and_interventions_match_pytorch() {
    for name in [
        "tiny-bert-pickle",
        "tiny-roberta",
        "tiny-xlm-roberta-masked-lm",
        "tiny-camembert",
        "tiny-distilbert",
        "tiny-electra-generator",
        "tiny-electra-discriminator",
        "tiny-albert",
        "tiny-mpnet-masked-lm",
        "tiny-bert-untied",
        "tiny-roberta-untied",
        "tiny-bert-decoder-alone",
        "tiny-big-bird",
        "tiny-ernie",
        "tiny-layoutlm",
        "tiny-rembert",
        "tiny-data2vec-text",
        "tiny-roberta-prelayernorm",
        "tiny-megatron-bert",
        "tiny-xlm-roberta-xl",
        "tiny-modernbert",
        "tiny-nomic-bert",
        "tiny-nomic-bert-native",
        "tiny-gte",
        "tiny-gte-native",
        "tiny-new",
        "tiny-jina-embeddings-v3",
        "tiny-eurobert",
        "tiny-esm",
        "tiny-deberta-v3",
        "tiny-deberta",
    ] {
        check_against_pytorch(name, golden::TOLERANCE);
    }
}

#[test]
fn decoder_predictions_and_gates_match_pytorch() {
    for name in [
        "tiny-gpt2",
        "tiny-gpt-neo",
        "tiny-gpt-neox",
        "tiny-opt",
        "tiny-llama",
        "tiny-qwen2",
        "tiny-qwen3",
        "tiny-smollm3",
        "tiny-gemma2",
        "tiny-gemma3-decoder",
        "tiny-modernbert-decoder",
        "causal",
    ] {
        check_against_pytorch(name, golden::TOLERANCE);
    }
}

/// Families for which transformers has no class, compared at every token.
#[test]
fn prediction_heads_of_remote_code_match_pytorch() {
    for name in ["tiny-neobert", "tiny-jina-v2", "tiny-mosaic-bert"] {
        let golden = fixture("goldens").join(format!("{name}.safetensors"));
        let golden = candle_core::safetensors::load(&golden, &Device::Cpu).unwrap();
        let numbers = |name: &str| -> Vec<u32> { golden[name].to_dtype(DType::U32).unwrap().to_vec1().unwrap() };
        let parameters = with_head(name);
        let slow = TensorEncoder::new(&parameters, &Device::Cpu).unwrap();
        let fast = PackedEncoder::new(parameters);
        for index in [0, 1, 2] {
            let (ids, segments) = (numbers(&format!("ids.{index}")), numbers(&format!("segments.{index}")));
            let expected: Vec<f32> = golden[&format!("logits.{index}")].flatten_all().unwrap().to_vec1().unwrap();
            let predicted = [(0..ids.len()).collect()];
            let input = BatchInput { ids: &ids, segments: &segments, ..BatchInput::default() };
            let batch = Batch { inputs: vec![input] }.with_predicted(&predicted);
            for encoder in [&slow as &dyn Encoder, &fast] {
                let actual = record(encoder, PassStart::Embeddings, &batch, &Gates::default(), AT_THE_END);
                let difference = largest_difference(&actual[0].logits, &expected);
                println!("{name}: logits differ by {difference:.1e}");
                assert!(difference <= golden::TOLERANCE, "{name} {difference:e}");
            }
        }
    }
}

#[test]
fn trained_model_predictions_match_pytorch() {
    // Logits reach 39 here and 4 in the random models, so their error is larger in proportion.
    check_against_pytorch("small", 10.0 * golden::TOLERANCE);
}

/// Direct effects in the second of two sequences, at one position: the parts of the residual stream along the vectors
/// of the compared tokens. Also the logits of these tokens.
#[derive(Default)]
struct DirectEffects {
    compared: Vec<u32>,
    position: usize,
    /// The contexts of each head, layer by layer.
    contexts: Vec<Vec<f32>>,
    /// The effects of each part, before the scale of the final norm.
    parts: Vec<(ResidualPart, Vec<f64>)>,
    /// For each compared token: the sum of all parts over that scale, plus a constant.
    sums: Vec<f64>,
    logits: Vec<f32>,
}

impl Visitor for DirectEffects {
    fn needs(&self) -> Needs {
        Needs { contexts: true, direct: true, logits: true, ..Needs::default() }
    }

    fn head(&mut self, sequence: usize, view: &HeadView<'_>) {
        if sequence == 1 {
            self.contexts.push(view.context.expect("it is needed").row(self.position).to_vec());
        }
    }

    fn direct_effects(&mut self, sequence: usize, part: ResidualPart, effects: Rows<'_>) {
        if sequence == 1 {
            self.parts.push((part, effects.row(self.position).iter().map(|&effect| f64::from(effect)).collect()));
        }
    }

    fn final_norm(&mut self, sequence: usize, FinalNorm { scales, constants }: FinalNorm<'_>) {
        if sequence == 1 {
            let sum = |(at, constant): (usize, &f32)| {
                let parts: f64 = self.parts.iter().map(|(_, effects)| effects[at]).sum();
                parts / f64::from(scales[self.position]) + f64::from(*constant)
            };
            self.sums = constants.iter().enumerate().map(sum).collect();
        }
    }

    fn logits(&mut self, sequence: usize, _: usize, logits: &[f32]) {
        if sequence == 1 {
            self.logits = self.compared.iter().map(|&token| logits[token as usize]).collect();
        }
    }
}

impl DirectEffects {
    fn of(parameters: &Parameters) -> Self {
        let encoder = PackedEncoder::new(parameters.clone());
        let (ids, segments, compared) = ([1, 7, 3, 9, 3], [0; 5], vec![2, 11, 3]);
        let input = BatchInput {
            ids: &ids,
            segments: &segments,
            compared_tokens: &compared,
            predicted_positions: &[3],
            ..BatchInput::default()
        };
        let mut actual = Self { compared: compared.clone(), position: 3, ..Self::default() };
        // The first sequence compares other tokens, which do not count for the second sequence.
        let batch = Batch {
            inputs: vec![
                BatchInput { compared_tokens: &compared[1..], ids: &ids[..4], segments: &segments[..4], ..input },
                input,
            ],
        };
        encoder.forward(&batch, &mut Scratch::default(), &mut actual).unwrap();
        actual
    }

    /// Asserts that all parts add up to the logits.
    fn check_sum(&self, parameters: &Parameters, name: &str, tolerance: f64) {
        let (_, head) = parameters.direct_prediction_head().unwrap();
        for (sum, logit) in self.sums.iter().zip(&self.logits) {
            let bounded = head.cap.map_or(*sum, |cap| f64::from(cap) * (sum / f64::from(cap)).tanh());
            assert!((bounded - f64::from(*logit)).abs() < tolerance, "{name}: {bounded} {logit}");
        }
        assert_eq!([self.sums.len(), self.logits.len()], [self.compared.len(); 2], "{name}");
    }
}

/// Eight families, seven of decoders, and the boxed decoder. They cover both norms, parallel blocks, norms of block
/// outputs and a bound of the logits.
const DIRECT: [&str; 9] = [
    "tiny-gpt2",
    "tiny-gpt-neox",
    "tiny-opt",
    "tiny-llama",
    "tiny-qwen3",
    "tiny-gemma2",
    "tiny-gemma3-decoder",
    "tiny-neobert",
    "causal",
];

#[test]
fn residual_stream_parts_add_up_to_the_logits() {
    for name in DIRECT {
        let parameters = with_head(name);
        assert!(PackedEncoder::new(parameters.clone()).has_direct_effects(), "{name}");
        // Logits of the trained model reach 20.
        DirectEffects::of(&parameters).check_sum(&parameters, name, 2e-5);
    }
    // These models have a layer before the token vectors, or no norm after all layers.
    for name in ["small", "tiny-modernbert-decoder", "tiny-megatron-bert"] {
        assert!(!PackedEncoder::new(with_head(name)).has_direct_effects(), "{name}");
    }
}

/// The direct effect of a head is its output along the vector of a token, in models with LayerNorm and without.
#[test]
fn direct_effects_are_outputs_along_the_vectors_of_tokens() {
    for name in ["tiny-gpt2", "tiny-gpt-neox", "tiny-opt", "tiny-llama", "tiny-qwen3", "causal"] {
        let parameters = with_head(name);
        let actual = DirectEffects::of(&parameters);
        let (config, (norm, head)) = (&parameters.config, parameters.direct_prediction_head().unwrap());
        let (hidden, heads, dim) = (config.hidden_size, config.num_attention_heads, config.head_dim());
        let words = head.decoder.as_ref().unwrap_or(&parameters.embeddings.words);
        let vector = |token: u32| -> Vec<f64> {
            let row = words[token as usize * hidden..][..hidden].iter().zip(&norm.weight);
            let row: Vec<f64> = row.map(|(u, g)| f64::from(*u) * f64::from(*g)).collect();
            let mean = if config.norm == NormKind::Layer { row.iter().sum::<f64>() / hidden as f64 } else { 0.0 };
            row.into_iter().map(|value| value - mean).collect()
        };
        for (part, effects) in &actual.parts {
            let ResidualPart::Head { layer, head } = *part else { continue };
            let z = &actual.contexts[layer * heads + head];
            let rows = parameters.layers[layer].attention_output.weight.chunks_exact(heads * dim);
            let written: Vec<f64> =
                rows.map(|row| row[head * dim..][..dim].iter().zip(z).map(|(w, z)| f64::from(w * z)).sum()).collect();
            for (token, effect) in actual.compared.iter().zip(effects) {
                let expected: f64 = vector(*token).iter().zip(&written).map(|(v, o)| v * o).sum();
                assert!((effect - expected).abs() < 1e-5, "{name} {layer} {head}: {effect} {expected}");
            }
        }
        assert_eq!(actual.contexts.len(), parameters.layer_indices.len() * heads);
    }
}

#[test]
fn model_without_a_masked_lm_head_has_no_logits() {
    let folder = fixture("models/tiny-electra");
    let architecture = architecture(&folder);
    let checkpoint = Checkpoint::open(opened(&weight_files(&folder)), architecture.family).unwrap();
    let parameters = Parameters::load(&checkpoint, &architecture).unwrap();
    assert_eq!(parameters.prediction, None);
    let error = format!(
        "{:#}",
        parameters.clone().with_prediction(&checkpoint, &architecture, Objective::MaskedTokens).unwrap_err()
    );
    assert!(error.starts_with("cannot load the masked-LM head: `"), "{error}");
    assert!(error.contains("have no tensor for generator_predictions.dense.weight"), "{error}");

    let pack = Pack { sequences: sentences(&[3]) };
    let slow = TensorEncoder::new(&parameters, &Device::Cpu).unwrap();
    for encoder in [&slow as &dyn Encoder, &PackedEncoder::new(parameters)] {
        let gates = Gates::default();
        let error = try_record(encoder, PassStart::Embeddings, &pack.batch(), &gates, AT_THE_END).unwrap_err();
        assert_eq!(error.to_string(), "logits are needed, but the head that predicts was not loaded with the encoder");
    }
}

/// The values from part `part` on, of `parts` equal parts.
fn from_part(values: &[f32], part: usize, parts: usize) -> &[f32] {
    &values[part * values.len() / parts..]
}

/// The hidden states with index `number`, of all sentences in order.
fn states_of(pass: &[Forward], number: usize, layers: usize) -> Vec<f32> {
    let states = |sentence: &Forward| {
        let size = sentence.hidden_states.len() / (layers + 1);
        sentence.hidden_states[number * size..][..size].to_vec()
    };
    pass.iter().flat_map(states).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// The parts add up to the logits for every random model.
    #[test]
    fn parts_add_up_to_the_logits_in_every_model(random in RandomEncoder::any()) {
        let parameters = random.parameters();
        if parameters.direct_prediction_head().is_some() {
            DirectEffects::of(&parameters).check_sum(&parameters, "random", 1e-3);
        }
    }

    /// A pass that starts at any layer, with or without interventions, equals the rest of a whole pass bit by bit.
    #[test]
    fn resumed_pass_equals_the_rest_of_a_whole_pass(
        random in RandomEncoder::any(),
        lengths in prop::collection::vec(1..70_usize, 1..6),
        intervene: bool,
    ) {
        let pack = Pack { sequences: sentences(&lengths) };
        let (classes, predicted) = (classes(&pack.sequences), predicted(&pack.sequences));
        let batch = pack.batch().with_classes(&classes).with_predicted(&predicted);
        let gates = if intervene { random.interventions(&pack.sequences) } else { Gates::default() };
        let encoder = PackedEncoder::new(random.parameters());
        let whole = record(&encoder, PassStart::Embeddings, &batch, &gates, EVERYTHING);
        let layers = random.order.len();
        for layer in 0..=layers {
            let states = states_of(&whole, layer, layers);
            let rest = record(&encoder, PassStart::Layer { layer, states: &states }, &batch, &gates, EVERYTHING);
            for (whole, rest) in whole.iter().zip(&rest) {
                prop_assert_eq!(from_part(&whole.attentions, layer, layers), &rest.attentions);
                prop_assert_eq!(from_part(&whole.values, layer, layers), &rest.values);
                prop_assert_eq!(from_part(&whole.value_norms, layer, layers), &rest.value_norms);
                prop_assert_eq!(from_part(&whole.contexts, layer, layers), &rest.contexts);
                prop_assert_eq!(from_part(&whole.outputs, layer, layers), &rest.outputs);
                prop_assert_eq!(from_part(&whole.input_norms, layer, layers), &rest.input_norms);
                prop_assert_eq!(from_part(&whole.mixing, layer, layers), &rest.mixing);
                prop_assert_eq!(from_part(&whole.hidden_states, layer, layers + 1), &rest.hidden_states);
                prop_assert_eq!(&whole.logits, &rest.logits);
            }
        }
    }

    /// An encoder shows only what a visitor needs, and omissions change nothing else.
    #[test]
    fn encoders_show_only_what_is_needed(random in RandomEncoder::any(), choice in any::<[bool; 9]>()) {
        let [attention, values, value_norms, contexts, outputs, hidden_states, attention_inputs, mixing, logits] = choice;
        let needs = Needs {
            attention,
            values,
            value_norms,
            contexts,
            outputs,
            direct: false,
            hidden_states,
            layer_inputs: false,
            predicted_states: false,
            attention_inputs,
            mixing,
            logits,
            writes: false,
        };
        let pack = Pack { sequences: sentences(&[4, 21]) };
        let predicted = predicted(&pack.sequences);
        let (batch, gates) = (pack.batch().with_predicted(&predicted), Gates::default());
        let parameters = random.parameters();
        let slow = TensorEncoder::new(&parameters, &Device::Cpu).unwrap();
        for encoder in [&slow as &dyn Encoder, &PackedEncoder::new(parameters)] {
            let all = record(encoder, PassStart::Embeddings, &batch, &gates, EVERYTHING);
            let some = record(encoder, PassStart::Embeddings, &batch, &gates, needs);
            for (all, some) in all.into_iter().zip(some) {
                let if_needed = |needed: bool, all: Vec<f32>| if needed { all } else { Vec::new() };
                let heads = if attention || values || value_norms || contexts || outputs { all.calls.0 } else { 0 };
                let expected = Forward {
                    attentions: if_needed(attention, all.attentions),
                    values: if_needed(values, all.values),
                    value_norms: if_needed(value_norms, all.value_norms),
                    value_products: if_needed(value_norms, all.value_products),
                    bias_products: if_needed(value_norms, all.bias_products),
                    output_grams: if_needed(value_norms, all.output_grams),
                    contexts: if_needed(contexts, all.contexts),
                    outputs: if_needed(outputs, all.outputs),
                    output_products: if_needed(outputs, all.output_products),
                    input_norms: if_needed(outputs, all.input_norms),
                    hidden_states: if_needed(hidden_states, all.hidden_states),
                    attention_inputs: if_needed(attention_inputs, all.attention_inputs),
                    mixing: if_needed(mixing, all.mixing),
                    logits: if_needed(logits, all.logits),
                    predicted: if logits { all.predicted } else { Vec::new() },
                    calls: (heads, 1),
                    ..all
                };
                prop_assert_eq!(some, expected);
            }
        }
    }

    /// Both encoders exchange contexts alike. A text that exchanges contexts with its copy changes no bit.
    #[test]
    fn encoders_exchange_contexts_alike(random in RandomEncoder::any(), tokens in 1..30_usize, at in prop::option::of(0..30_usize)) {
        let exchange = at.map_or(ContextExchange::Everywhere, |at| ContextExchange::At(at.min(tokens - 1)));
        let pack = Pack { sequences: sentences(&[3, tokens, tokens]) };
        let predicted = predicted(&pack.sequences);
        let mut batch = pack.batch().with_predicted(&predicted);
        batch.inputs[1].exchange = Some(exchange);
        let mut gates = Gates::default();
        gates.exchange_head(0, random.heads - 1);
        let parameters = random.parameters();
        let slow = TensorEncoder::new(&parameters, &Device::Cpu).unwrap();
        let fast = PackedEncoder::new(parameters);
        let run = |encoder: &dyn Encoder, batch: &Batch<'_>, gates: &Gates| {
            record(encoder, PassStart::Embeddings, batch, gates, AT_THE_END)
        };
        let none = Gates::default();
        let plain = run(&fast, &batch, &none);
        let exchanged = run(&fast, &batch, &gates);
        prop_assert_eq!(&plain[0].hidden_states, &exchanged[0].hidden_states);
        for (fast, slow) in exchanged.iter().zip(run(&slow, &batch, &gates)) {
            let largest = slow.hidden_states.iter().fold(1.0_f32, |largest, value| largest.max(value.abs()));
            prop_assert!(largest_difference(&fast.hidden_states, &slow.hidden_states) <= golden::TOLERANCE * largest);
        }
        batch.inputs[2] = BatchInput { exchange: None, ..batch.inputs[1] };
        let itself = run(&fast, &batch, &gates);
        prop_assert_eq!(&plain[1].hidden_states, &itself[1].hidden_states);
        prop_assert_eq!(&plain[1].hidden_states, &itself[2].hidden_states);
        // No exchange is possible with a sequence of another length, or without another sequence.
        for wrong in [0, 2] {
            let mut batch = pack.batch();
            batch.inputs[wrong].exchange = Some(exchange);
            if wrong == 2 || tokens != 3 {
                prop_assert!(try_record(&fast, PassStart::Embeddings, &batch, &gates, AT_THE_END).is_err());
            }
        }
    }

    #[test]
    fn gate_with_share_one_changes_no_bit(random in RandomEncoder::any()) {
        let pack = Pack { sequences: sentences(&[13, 1, 30]) };
        let (classes, predicted) = (classes(&pack.sequences), predicted(&pack.sequences));
        let batch = pack.batch().with_classes(&classes).with_predicted(&predicted);
        let mut gates = Gates::default();
        for layer in 0..random.order.len() {
            for head in 0..random.heads {
                let vectors = std::array::from_fn(|class| vec![class as f32; random.head_dim]);
                gates.set_gate(layer, head, Gate { keep: 1.0, replacement: (head % 2 == 1).then(|| vectors.into()) });
            }
        }
        let encoder = PackedEncoder::new(random.parameters());
        let with = record(&encoder, PassStart::Embeddings, &batch, &gates, EVERYTHING);
        let without = record(&encoder, PassStart::Embeddings, &batch, &Gates::default(), EVERYTHING);
        prop_assert_eq!(with, without);
    }
}

/// The view shows the pass with its interventions: patched rows and replaced contexts.
#[test]
fn views_show_patched_rows_and_gates() {
    let random = RandomEncoder::plain(3);
    let pack = Pack { sequences: sentences(&[5, 4]) };
    let classes = classes(&pack.sequences);
    let batch = pack.batch().with_classes(&classes);
    let mut gates = Gates::default();
    let even = vec![0.25; 4];
    gates.patch_rows(0, 1, 1, [(2, to_one(4, 2)), (3, even.clone())].into());
    let replacement: ReplacementVectors = std::array::from_fn(|class| vec![class as f32; random.head_dim]);
    gates.set_gate(0, 0, Gate::from_replacement(replacement.clone()));
    let parameters = random.parameters();
    let slow = TensorEncoder::new(&parameters, &Device::Cpu).unwrap();
    for encoder in [&slow as &dyn Encoder, &PackedEncoder::new(parameters)] {
        let needs = Needs { contexts: true, ..Needs::ATTENTION };
        let entropies = &mut Entropies::default();
        encoder.forward_from(PassStart::Embeddings, &batch, &gates, &mut Scratch::default(), entropies).unwrap();
        let [to_one, even_entropy] = entropies.0[..] else { panic!("{:?}", entropies.0) };
        assert!(to_one == 0.0 && (even_entropy - 4.0_f64.ln()).abs() < 1e-6, "{to_one} {even_entropy}");
        let plain = record(encoder, PassStart::Embeddings, &batch, &Gates::default(), needs);
        let patched = record(encoder, PassStart::Embeddings, &batch, &gates, needs);
        // The first sentence has no patched rows. Head 1 follows head 0 in layer 0.
        assert_eq!(patched[0].attentions[..50], plain[0].attentions[..50]);
        let (before, after) = (&plain[1].attentions[16..32], &patched[1].attentions[16..32]);
        assert_eq!(after[..8], before[..8]);
        assert_eq!(after[8..12], [0.0, 0.0, 1.0, 0.0]);
        assert_eq!(after[12..], even);
        // Tokens 5 to 8 of the batch have the classes 0 to 3.
        let rows = [0, 1, 2, 3].map(|class| replacement[class].clone()).concat();
        assert_eq!(patched[1].contexts[..rows.len()], rows);
    }
}

/// The entropies of the last two rows of head L0H1 over the second sentence.
#[derive(Default)]
struct Entropies(Vec<f64>);

impl Visitor for Entropies {
    fn needs(&self) -> Needs {
        Needs::ATTENTION
    }

    fn head(&mut self, sequence: usize, view: &HeadView<'_>) {
        if (sequence, view.layer, view.head) == (1, 0, 1) {
            self.0 = [2, 3].map(|row| view.attention.entropy(row)).to_vec();
        }
    }
}

#[test]
fn interventions_that_do_not_fit_are_refused() {
    let random = RandomEncoder::plain(1);
    let parameters = random.parameters();
    let slow = TensorEncoder::new(&parameters, &Device::Cpu).unwrap();
    let fast = PackedEncoder::new(parameters);
    let pack = Pack { sequences: sentences(&[3]) };
    let error = |start: PassStart<'_>, batch: &Batch<'_>, gates: &Gates| {
        let error_from =
            |encoder: &dyn Encoder| format!("{:#}", try_record(encoder, start, batch, gates, AT_THE_END).unwrap_err());
        assert_eq!(error_from(&slow), error_from(&fast));
        error_from(&fast)
    };
    let gated = |intervene: fn(&mut Gates)| {
        let mut gates = Gates::default();
        intervene(&mut gates);
        error(PassStart::Embeddings, &pack.batch(), &gates)
    };
    assert_eq!(
        gated(|gates| gates.set_gate(3, 0, Gate::from_factor(0.0))),
        "there is no head L3H0 to intervene in: the model has 3 layers of 2 heads"
    );
    assert_eq!(
        gated(|gates| gates.set_gate(0, 0, Gate::from_factor(f32::NAN))),
        "the gate of L0H0 keeps NaN: a number is expected"
    );
    assert_eq!(
        gated(|gates| gates.set_gate(0, 1, Gate::from_replacement(std::array::from_fn(|_| vec![0.0; 7])))),
        "the replacement of L0H1 has 7 values, not 8"
    );
    assert_eq!(
        gated(|gates| gates.set_gate(0, 1, Gate::from_replacement(std::array::from_fn(|_| vec![0.0; 8])))),
        "sentence 0 has 3 tokens and the classes of 0: a replacement needs all of them"
    );
    assert_eq!(
        gated(|gates| gates.patch_rows(0, 0, 1, [(0, to_one(3, 0))].into())),
        "there is no sequence 1 to patch: the batch has 1"
    );
    assert_eq!(
        gated(|gates| gates.patch_rows(0, 0, 0, [(3, to_one(3, 0))].into())),
        "a row of 3 weights for token 3 does not fit sentence 0, which has 3 tokens"
    );
    assert_eq!(
        gated(|gates| gates.patch_rows(0, 0, 0, [(2, to_one(4, 0))].into())),
        "a row of 4 weights for token 2 does not fit sentence 0, which has 3 tokens"
    );
    for (row, sum) in [([0.5, 0.0, 0.25], "0.75"), ([1.5, -0.5, 0.0], "1"), ([f32::NAN, 0.0, 1.0], "NaN")] {
        let mut gates = Gates::default();
        gates.patch_rows(2, 1, 0, [(1, row.to_vec())].into());
        let expected = format!(
            "the weights of token 1 of sentence 0 in L2H1 are no attention: they sum to {sum}, or some are below 0"
        );
        assert_eq!(error(PassStart::Embeddings, &pack.batch(), &gates), expected);
    }
    let from = |layer, states| error(PassStart::Layer { layer, states }, &pack.batch(), &Gates::default());
    assert_eq!(from(4, &[]), "a pass cannot start from layer 4: the model has 3 layers");
    assert_eq!(
        from(1, &[0.0; 16]),
        "a pass from layer 1 starts with 16 values, not one hidden state for each token, 48 values"
    );
    let nowhere = [Vec::new()];
    let batch = pack.batch().with_predicted(&nowhere);
    assert!(try_record(&fast, PassStart::Embeddings, &batch, &Gates::default(), AT_THE_END).is_ok());
    let positions = [vec![3]];
    assert_eq!(
        error(PassStart::Embeddings, &pack.batch().with_predicted(&positions), &Gates::default()),
        "logits are wanted at position 3 of sentence 0, which has 3 tokens"
    );
}
