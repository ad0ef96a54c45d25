//! Ablated heads: each variant equals a whole pass without the head. Heads that write nothing, or a constant, are not
//! missed.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use crate::golden::record;
use crate::random::{RandomEncoder, sentences};
use headscope::model::forward::gates::{Gate, Gates, PatchedRows};
use headscope::model::forward::packed::PackedEncoder;
use headscope::model::forward::visitor::Needs;
use headscope::model::forward::{Encoder, PassStart};
use headscope::model::grid::visibility::LayerClasses;
use headscope::model::grid::{HeadGrid, HeadPlace};
use headscope::model::parameters::Parameters;
use headscope::passes::ablation::{PassConditions, Replacement};
use headscope::passes::observer::requests::{PatchedRun, single_head_sets_and_all};
use headscope::passes::observer::set::ObserverSet;
use headscope::passes::observer::{Demands, Event, FurtherRuns, Sums, expect_sums, new_observer};
use headscope::passes::pass::EventKind;
use headscope::passes::run::derivatives::differentiate;
use headscope::passes::run::means::ContextSums;
use headscope::passes::run::variants::Variants;
use headscope::passes::run::workers::sum_activations;
use headscope::passes::setup::PassSetup;
use headscope::sequences::derived::corrupted::{CorruptedSentences, CorruptionSettings, Noise};
use headscope::sequences::fold::words::FromToken;
use headscope::sequences::pack::{Pack, Packs};
use headscope::sequences::sequence::Sequence;
use headscope::sequences::span::WordSpan;
use headscope::stats::blocks::Merge;
use headscope::studies::ablation::edges::EdgesStudy;
use headscope::studies::ablation::effect::Effect;
use headscope::studies::ablation::gradient::Gradient;
use headscope::studies::ablation::output_shift::OutputShift;
use headscope::study::metrics::estimates::{Estimates, EstimationContext};
use headscope::study::section::Section;
use headscope::study::{AnyStudy, ObservedPass, ObservedPasses, Subject};
use headscope::system::progress::run::RunProgress;
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The logits of every variant, sentence and position, and the model's grid of heads.
#[derive(Clone, Serialize, Deserialize)]
struct InputToken {
    grid: HeadGrid,
    logits: BTreeMap<(Option<usize>, u64, usize), Vec<f32>>,
}

impl Merge for InputToken {
    fn merge(&mut self, other: &Self) {
        self.logits.extend(other.logits.clone());
    }
}

impl Sums for InputToken {
    type SequenceState = (Option<usize>, u64);

    fn demands(&self) -> Demands {
        Demands {
            needs: Needs { logits: true, ..Needs::default() },
            further_runs: FurtherRuns::Ablations(single_head_sets_and_all(self.grid)),
            ..Demands::default()
        }
    }

    fn begin(&mut self, sequence: &Sequence) -> Option<Self::SequenceState> {
        Some((None, sequence.index))
    }

    fn observe(&mut self, state: &mut Self::SequenceState, event: &mut Event<'_>) {
        match event {
            Event::AblationVariant(variant) => state.0 = Some(*variant),
            Event::Logits { position, logits } => self.logits(state, *position, logits),
            _ => {}
        }
    }

    fn fits(&self, _: HeadGrid, _: FromToken, _: &LayerClasses) -> bool {
        true
    }
}

impl InputToken {
    fn logits(&mut self, &mut (variant, index): &mut (Option<usize>, u64), position: usize, logits: &[f32]) {
        let known = self.logits.insert((variant, index, position), logits.to_vec());
        assert!(known.is_none(), "each once");
    }
}

/// Sentences of these lengths, in tokens. Each token is a word, and every seventh word is masked.
fn masked(lengths: &[usize]) -> Vec<Sequence> {
    let with_words = |(index, sentence): (usize, Sequence)| Sequence {
        index: index as u64,
        family: headscope::corpus::SentenceGroup::new(index as u64),
        words: WordSpan::whole_words((0..sentence.ids.len()).map(|token| token..token + 1)),
        ..sentence
    };
    let corruption = CorruptionSettings { phases: 1, noise: Noise::Mask(7), unknown: None };
    let sentences = sentences(lengths).into_iter().enumerate().map(with_words).map(Ok);
    CorruptedSentences::new(sentences, corruption).map(Result::unwrap).collect()
}

fn run(encoder: &dyn Encoder, variants: &Variants, observers: ObserverSet, sequences: &[Sequence]) -> ObserverSet {
    let progress = RunProgress::default();
    let sequences = sequences.iter().cloned().map(Ok);
    sum_activations(observers, ("random", encoder), variants, sequences, NonZeroUsize::new(2).unwrap(), &progress, None)
        .unwrap()
}

/// The gates that replace each head's contexts by their mean.
fn means(encoder: &dyn Encoder, grid: HeadGrid, head_dim: usize, sequences: &[Sequence]) -> Vec<Gate> {
    let observers = ObserverSet::new(vec![new_observer(ContextSums::new(grid, head_dim))]);
    let seen = run(encoder, &Variants::baseline_only(Gates::default()), observers, sequences).into_observers();
    expect_sums::<ContextSums>(&*seen[0]).means().into_iter().map(Gate::from_replacement).collect()
}

fn grid(parameters: &Parameters) -> (HeadGrid, usize) {
    let config = &parameters.config;
    let grid = HeadGrid { layers: config.num_hidden_layers, heads: config.num_attention_heads };
    (grid, config.head_dim())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn variants_equal_whole_passes_without_the_head(random in RandomEncoder::any()) {
        let (parameters, sequences) = (random.parameters(), masked(&[13, 1, 30, 9]));
        let (grid, head_dim) = grid(&parameters);
        let encoder = PackedEncoder::new(parameters);
        let gates = means(&encoder, grid, head_dim, &sequences);
        let variants = Variants::default().with_removals(single_head_sets_and_all(grid), grid, &gates);
        let observers = ObserverSet::new(vec![new_observer(InputToken { grid, logits: BTreeMap::new() })]);
        let results = run(&encoder, &variants, observers, &sequences).into_observers();
        let shown = &expect_sums::<InputToken>(&*results[0]).logits;

        let pack = Packs::new(sequences.iter().cloned().map(Ok::<_, ()>)).next().unwrap().unwrap();
        prop_assert_eq!(&pack, &Pack { sequences });
        let (classes, predicted) = (pack.token_classes(), pack.predicted_positions());
        let batch = pack.batch().with_classes(&classes).with_predicted(&predicted);
        let mut everything = Gates::default();
        let mut expected = vec![(None, Gates::default())];
        for (place, gate) in gates.iter().enumerate() {
            let (layer, head) = grid.layer_and_head(place);
            let mut one = Gates::default();
            one.set_gate(layer, head, gate.clone());
            everything.set_gate(layer, head, gate.clone());
            expected.push((Some(place), one));
        }
        if grid.head_count() > 1 {
            expected.push((Some(grid.head_count()), everything));
        }
        let mut count = 0;
        for (variant, gates) in expected {
            let needs = Needs { logits: true, ..Needs::default() };
            let whole = record(&encoder, PassStart::Embeddings, &batch, &gates, needs);
            for (sequence, whole) in pack.sequences.iter().zip(whole) {
                let vocabulary = whole.logits.len() / whole.predicted.len().max(1);
                for (position, logits) in whole.predicted.iter().zip(whole.logits.chunks_exact(vocabulary)) {
                    prop_assert_eq!(&shown[&(variant, sequence.index, *position)][..], logits);
                    count += 1;
                }
            }
        }
        prop_assert_eq!(count, shown.len());
    }
}

/// The logits of patched runs. In every sequence, the first token of one head attends to the second token alone.
#[derive(Clone, Serialize, Deserialize)]
struct Tried {
    place: HeadPlace,
    logits: BTreeMap<(u64, usize), Vec<f32>>,
}

/// A row in which the first of `tokens` tokens attends to the second token alone.
fn to_the_second(tokens: usize) -> PatchedRows {
    [(0, (0..tokens).map(|token| if token == 1 { 1.0 } else { 0.0 }).collect())].into()
}

impl Merge for Tried {
    fn merge(&mut self, other: &Self) {
        self.logits.extend(other.logits.clone());
    }
}

impl Sums for Tried {
    type SequenceState = (u64, usize, Vec<usize>);

    fn demands(&self) -> Demands {
        Demands { further_runs: FurtherRuns::PatchedRuns, ..Demands::default() }
    }

    fn begin(&mut self, sequence: &Sequence) -> Option<Self::SequenceState> {
        Some((sequence.index, sequence.ids.len(), sequence.predicted_positions().collect()))
    }

    fn observe(&mut self, state: &mut Self::SequenceState, event: &mut Event<'_>) {
        match event {
            Event::BaselineEnd(runs) => *runs = self.patched_runs(state),
            Event::PatchedLogits { run, position, logits } => self.patched_logits(state, *run, *position, logits),
            _ => {}
        }
    }

    fn fits(&self, _: HeadGrid, _: FromToken, _: &LayerClasses) -> bool {
        true
    }
}

impl Tried {
    fn patched_runs(&mut self, (index, tokens, predicted): &mut (u64, usize, Vec<usize>)) -> Vec<PatchedRun> {
        let run = PatchedRun { place: self.place, rows: to_the_second(*tokens), predicted: predicted.clone() };
        // Every second sequence is patched twice, so that the runs exceed one pack.
        vec![run; 1 + (*index % 2) as usize]
    }

    fn patched_logits(
        &mut self,
        (index, ..): &mut (u64, usize, Vec<usize>),
        number: usize,
        position: usize,
        logits: &[f32],
    ) {
        let known = self.logits.insert((*index * 10 + number as u64, position), logits.to_vec());
        assert!(known.is_none(), "each once");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn patched_runs_equal_whole_passes_with_the_patched_row(random in RandomEncoder::any()) {
        let (parameters, sequences) = (random.parameters(), masked(&[30; 18]));
        let (grid, _) = grid(&parameters);
        let place = HeadPlace { layer: grid.layers - 1, head: grid.heads - 1 };
        let encoder = PackedEncoder::new(parameters);
        let observers = ObserverSet::new(vec![new_observer(Tried { place, logits: BTreeMap::new() })]);
        let results = run(&encoder, &Variants::default(), observers, &sequences).into_observers();
        let patched_logits = &expect_sums::<Tried>(&*results[0]).logits;
        let mut count = 0;
        for sequence in &sequences {
            let pack = Pack { sequences: vec![sequence.clone()] };
            let (classes, predicted) = (pack.token_classes(), pack.predicted_positions());
            let batch = pack.batch().with_classes(&classes).with_predicted(&predicted);
            let mut gates = Gates::default();
            gates.patch_rows(place.layer, place.head, 0, to_the_second(sequence.ids.len()));
            let needs = Needs { logits: true, ..Needs::default() };
            let whole = &record(&encoder, PassStart::Embeddings, &batch, &gates, needs)[0];
            let vocabulary = whole.logits.len() / whole.predicted.len().max(1);
            for number in 0..=sequence.index % 2 {
                for (position, logits) in whole.predicted.iter().zip(whole.logits.chunks_exact(vocabulary)) {
                    let largest = logits.iter().fold(1.0_f32, |most, logit| most.max(logit.abs()));
                    let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5 * largest;
                    prop_assert!(patched_logits[&(sequence.index * 10 + number, *position)].iter().zip(logits).all(near));
                    count += 1;
                }
            }
        }
        prop_assert_eq!(count, patched_logits.len());
    }
}

/// The results of a study on these sequences, from the variants that the study needs or from derivatives.
fn results(
    study: &dyn AnyStudy,
    parameters: &Parameters,
    sequences: &[Sequence],
    removal: Replacement,
) -> (Estimates, Box<dyn Section>) {
    let (grid, head_dim) = grid(parameters);
    let encoder = PackedEncoder::new(parameters.clone());
    let gates = match removal {
        Replacement::Mean => means(&encoder, grid, head_dim, sequences),
        Replacement::Constant => unreachable!("no test here asks for it"),
        Replacement::Zero => vec![Gate::from_factor(0.0); grid.head_count()],
    };
    let subject = Subject::new(grid, FromToken::Mean, &|_| None);
    let mut observers = ObserverSet::new(vec![study.passes()[0].make_observer(&subject)]);
    observers.begin_pass(&PassSetup {
        conditions: PassConditions { removal: Some(removal), objective: None, task: None },
        ..PassSetup::default()
    });
    let seen = if study.passes()[0].pass.shown == EventKind::Derivatives {
        let (variants, threads) = (Variants::default().with_open_gates(grid, &gates), NonZeroUsize::new(2).unwrap());
        let (sequences, progress) = (sequences.iter().cloned().map(Ok), RunProgress::default());
        differentiate(observers, ("random", &encoder), (&variants.baseline, &[], None), sequences, threads, &progress)
            .unwrap()
    } else {
        run(
            &encoder,
            &Variants::default().with_removals(single_head_sets_and_all(grid), grid, &gates),
            observers,
            sequences,
        )
    };
    let context = EstimationContext::new(grid, NonZeroUsize::MIN);
    let sums = seen.into_observers().remove(0);
    // A study that compares with an untrained model gets the observed model twice.
    let passes: Vec<_> = study.passes().iter().map(|_| ObservedPass { sums: &*sums, left_out_sentences: 0 }).collect();
    study.measure(&ObservedPasses(&passes), &context)
}

/// A metric of every head.
fn head_metrics(estimates: &Estimates, metric: &str) -> Vec<f64> {
    estimates.heads.iter().map(|head| head.get(metric, None).unwrap().unwrap()).collect()
}

/// A metric of every head, by a study that masks words.
fn measured(parameters: &Parameters, removal: Replacement, study: &dyn AnyStudy, metric: &str) -> Vec<f64> {
    head_metrics(&results(study, parameters, &masked(&[13, 8, 30, 9, 21]), removal).0, metric)
}

/// Sentences of different lengths.
fn plain() -> Vec<Sequence> {
    sentences(&[13, 8, 30, 9, 21])
}

/// The section `edges` of the report.
fn edges(parameters: &Parameters, removal: Replacement) -> Value {
    let (_, section) = results(&EdgesStudy, parameters, &plain(), removal);
    let (key, edges) = AnyStudy::entries(&EdgesStudy, &*section).remove(0);
    assert_eq!(key, "edges");
    serde_json::to_value(edges).unwrap()
}

/// Three layers of two heads. L1H0 writes nothing, and L1H1 writes a constant.
fn planted() -> Parameters {
    let random = RandomEncoder::plain(5);
    let (hidden, dim) = (random.heads * random.head_dim, random.head_dim);
    let mut parameters = random.parameters();
    // The columns of L1H0 in the output projection, `[hidden, hidden]`, are 0.
    for row in parameters.layers[1].attention_output.weight.chunks_exact_mut(hidden) {
        row[..dim].fill(0.0);
    }
    // The values of L1H1, the last rows of the projections, equal their bias, whatever the token.
    let values = &mut parameters.layers[1].query_key_value;
    values.weight[(2 * hidden + dim) * hidden..].fill(0.0);
    values.bias[2 * hidden + dim..].fill(0.75);
    parameters
}

/// The indices of L1H0 and L1H1 in lists of all heads.
const SILENT: usize = 2;
const CONSTANT: usize = 3;

#[test]
fn silent_head_has_no_effect_and_constant_head_has_one_only_under_zero() {
    let effects = |removal| measured(&planted(), removal, &Effect, "loss_effect");
    let (mean, zero) = (effects(Replacement::Mean), effects(Replacement::Zero));
    assert_eq!((mean[SILENT], zero[SILENT]), (0.0, 0.0));
    assert_eq!(mean[CONSTANT], 0.0);
    assert!(zero[CONSTANT].abs() > 1e-3, "{}", zero[CONSTANT]);
    assert!(mean[0].abs() > 1e-3 && zero[0].abs() > 1e-3, "heads that write are missed: {mean:?} {zero:?}");
}

#[test]
fn silent_head_has_no_gradient_and_constant_head_has_one_only_under_zero() {
    for metric in ["gradient_importance", "first_order_effect"] {
        let derivatives = |removal| measured(&planted(), removal, &Gradient, metric);
        let (mean, zero) = (derivatives(Replacement::Mean), derivatives(Replacement::Zero));
        assert_eq!((mean[SILENT], zero[SILENT]), (0.0, 0.0));
        // Attention sums to 1 only up to rounding, so the head does not write its mean exactly.
        assert!(mean[CONSTANT].abs() < 1e-6, "{}", mean[CONSTANT]);
        assert!(zero[CONSTANT].abs() > 1e-3, "{}", zero[CONSTANT]);
        assert!(mean[0].abs() > 1e-3 && zero[0].abs() > 1e-3, "{mean:?} {zero:?}");
    }
}

#[test]
fn silent_head_has_no_shift_and_constant_head_has_one_only_under_zero() {
    let heads = 2;
    for removal in [Replacement::Mean, Replacement::Zero] {
        let has_no_shift = |head: usize| head == 0 || removal == Replacement::Mean;
        let (shifts, _) = results(&OutputShift, &planted(), &plain(), removal);
        let edges = edges(&planted(), removal);
        // From layer 1 to layer 2.
        let pair = &edges["layers"][2];
        for head in 0..heads {
            let place = SILENT + head;
            let shift = head_metrics(&shifts, "output_shift")[place] + head_metrics(&shifts, "pooled_shift")[place];
            assert_eq!(shift == 0.0, has_no_shift(head), "{removal:?} {head} {shift}");
            let shifts: Vec<f64> = serde_json::from_value(pair["shift"][head].clone()).unwrap();
            assert!(shifts.iter().all(|&shift| (shift == 0.0) == has_no_shift(head)), "{removal:?} {head} {shifts:?}");
            assert_eq!(pair["excess"][head][0].is_null(), has_no_shift(head));
        }
        assert_eq!(edges["without_shift"], if removal == Replacement::Mean { 4 } else { 2 });
    }
}

/// In a model of two layers, L0H0 alone writes to the last dimensions of the hidden states, and L1H1 alone reads them.
#[test]
fn strongest_edge_leads_to_the_head_that_reads() {
    let random = RandomEncoder { heads: 3, order: vec![0, 1], ..RandomEncoder::plain(5) };
    let (hidden, dim) = (random.heads * random.head_dim, random.head_dim);
    let mut parameters = random.parameters();
    let own = hidden - dim;
    for (output, row) in parameters.layers[0].attention_output.weight.chunks_exact_mut(hidden).enumerate() {
        let (first, others) = row.split_at_mut(dim);
        if output < own { first.fill(0.0) } else { others.fill(0.0) }
    }
    parameters.layers[0].output.weight.fill(0.0);
    let queries_and_keys = &mut parameters.layers[1].query_key_value.weight[..2 * hidden * hidden];
    for (output, row) in queries_and_keys.chunks_exact_mut(hidden).enumerate() {
        let (others, last) = row.split_at_mut(own);
        if output % hidden / dim == 1 { others.fill(0.0) } else { last.fill(0.0) }
    }
    for removal in [Replacement::Mean, Replacement::Zero] {
        let edges = edges(&parameters, removal);
        let strongest = &edges["strongest"][0];
        assert_eq!(
            (&strongest["source"]["name"], &strongest["target"]["name"]),
            (&json!("L0H0"), &json!("L1H1")),
            "{strongest}"
        );
        assert!(strongest["excess"].as_f64().unwrap() > 1.0, "{strongest}");
        assert_eq!(edges["heads"][4]["upstream"], *strongest);
        assert_eq!(edges["heads"][0]["downstream"], *strongest);
    }
}
