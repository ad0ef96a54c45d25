use std::sync::Arc;

use super::*;
use crate::corpus::{Annotation, LinkSet, LinkSources, LinkType, WordClass};
use crate::model::forward::attention::AttentionView;
use crate::model::forward::batch::Batch;
use crate::model::forward::gates::Gates;
use crate::model::forward::rows::Rows;
use crate::model::forward::visitor::{HeadOutput, HeadValues, HeadView, MixingRatios, ValueNorms, Visitor};
use crate::model::forward::{Encoder, PassStart, Scratch, WordEmbeddings};
use crate::model::grid::visibility::LayerClasses;
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::passes::control::ControlKind;
use crate::passes::observation::partial::FORMAT_VERSION;
use crate::passes::observer::Event;
use crate::passes::observer::set::ObserverSet;
use crate::passes::pass::{CorpusPortion, CorruptedVariants, EventKind, ModelWeights, Sequences};
use crate::passes::setup::PassSetup;
use crate::sequences::derived::repeats::RepeatVariant;
use crate::sequences::fold::words::FromToken;
use crate::sequences::reading::Spacing;
use crate::sequences::sequence::Sequence;
use crate::sequences::test_support::sentence;
use crate::stats::blocks::BLOCKS;
use crate::study::AnyStudy;
use crate::system::files::digest::hex;
use proptest::prelude::*;
use sha2::{Digest, Sha256};

const GRID: HeadGrid = HeadGrid { layers: 1, heads: 2 };

fn protocol(studies: &[&'static dyn AnyStudy], controls: Vec<Control>) -> Protocol {
    Protocol {
        max_tokens: 8,
        truncate: false,
        limit: None,
        words: Spacing::Written,
        unit: None,
        from_token: FromToken::Mean,
        tokens_as_words: false,
        residues: None,
        reading: None,
        blocks: BLOCKS,
        controls,
        removed: Vec::new(),
        ablation: None,
        task: None,
        counts: None,
        probes: Vec::new(),
        links_from: None,
        links: LinkSources::default(),
        classes: None,
        left_out: Vec::new(),
        studies: study_names(studies),
    }
}

fn subject() -> Subject<'static> {
    Subject::new(GRID, FromToken::Mean, &|_| None)
}

fn identity() -> Identity {
    let model = serde_json::json!({
        "id": "model", "revision": null, "family": "bert", "layers": 1, "heads": 2, "head_dim": 1, "hidden_size": 2,
        "vocab_size": 3, "masked_lm_head": false, "config_sha256": "", "weights_sha256": "", "tokenizer_sha256": {},
    });
    let identity = serde_json::json!({
        "tool": { "name": "headscope", "version": "0" },
        "model": model,
        "corpus": {
            "name": "corpus", "files": [],
            "repeats": { "read": 0, "different": 0, "repeated": 0, "families": 0, "not_remembered": 0 },
            "unit": "sentences",
        },
        "protocol": protocol(STUDIES, Vec::new()),
    });
    serde_json::from_value(identity).unwrap()
}

/// An encoder that is asked for nothing.
struct Silent;

impl Encoder for Silent {
    fn forward_from(
        &self,
        _: PassStart<'_>,
        _: &Batch<'_>,
        _: &Gates,
        _: &mut Scratch,
        _: &mut dyn Visitor,
    ) -> Result<()> {
        Ok(())
    }
}

/// The sums of all observers of a pass over these sentences.
fn summed(observers: Vec<Box<dyn Observer>>, sentences: &[Sequence], weights: &[f32]) -> ObserverSet {
    let mut panel = ObserverSet::new(observers);
    let embeddings = WordEmbeddings::new(Arc::new(vec![0.5, -1.0]), 2);
    panel.begin_pass(&PassSetup { embeddings: Some(embeddings), ..PassSetup::default() });
    for sentence in sentences {
        let tokens = sentence.ids.len();
        panel.begin_pack([sentence].into_iter());
        let states: Vec<f32> = weights[..2 * tokens].iter().map(|weight| weight - 0.5).collect();
        let states = Rows::new(&states, 2);
        panel.observe(0, Event::HiddenStates { layer: 0, states });
        panel.observe(0, Event::AttentionInputs { layer: 0, inputs: states, encoder: &Silent });
        panel.observe(
            0,
            Event::Mixing {
                layer: 0,
                mixing: MixingRatios { ratios: &weights[..tokens], uniform_ratios: &weights[1..=tokens] },
            },
        );
        // Head 1 sees the transpose: another matrix of the same size.
        let transposed: Vec<f32> = (0..tokens * tokens).map(|i| weights[i % tokens * tokens + i / tokens]).collect();
        for (head, weights) in [&weights[..tokens * tokens], &transposed].into_iter().enumerate() {
            let attention = AttentionView::new(0, head, tokens, weights);
            // Values of one number each, and a projection that leaves them as they are.
            let values: Vec<f32> = (0..tokens).map(|token| token as f32 - 1.5).collect();
            let norms: Vec<f32> = values.iter().map(|value| value.abs()).collect();
            let contexts: Vec<f32> = attention
                .rows()
                .map(|row| row.iter().zip(&values).map(|(weight, value)| weight * value).sum())
                .collect();
            let (gram, rows) = (&[1.0], |values| Rows::new(values, 1));
            let view = HeadView {
                values: Some(HeadValues { rows: rows(&values), bias: &[0.0] }),
                context: Some(rows(&contexts)),
                value_norms: Some(ValueNorms { norms: &norms, products: rows(&values), bias_product: &[0.0], gram }),
                output: Some(HeadOutput {
                    contexts: rows(&contexts),
                    products: rows(&contexts),
                    gram,
                    input_norms: &norms,
                }),
                ..attention.into()
            };
            panel.observe_head(0, sentence, view);
        }
        panel.end_pack();
    }
    panel
}

/// A sequence with links from each word to the one before it, and contacts of both; each word has a class.
fn linked(mut sequence: Sequence) -> Sequence {
    let links = |name: &str, is_undirected| {
        let kind = Arc::new(LinkType { name: name.into(), is_undirected, min_distance: 1 });
        let other = |word: usize| if is_undirected { word ^ 1 } else { word.saturating_sub(1) };
        let words = (0..sequence.words.len()).filter(|&word| other(word) != word && other(word) < sequence.words.len());
        LinkSet {
            link_type: kind,
            targets: words.map(|word| (word, [other(word)].into())).collect(),
            candidates: None,
            dropped_links: 0,
        }
    };
    sequence.links = vec![links("before", false), links("contact", true)];
    sequence.annotations.resize(sequence.words.len(), Annotation::default());
    for (word, annotation) in sequence.annotations.iter_mut().enumerate() {
        annotation.class = Some(Arc::new(WordClass { key: "parity".into(), name: (word % 2).to_string().into() }));
    }
    sequence
}

fn bytes(panel: ObserverSet) -> Vec<Vec<u8>> {
    panel.into_observers().iter().map(|sums| sums.to_bytes().unwrap()).collect()
}

/// All sums of all studies, whatever their passes.
fn everybody() -> Vec<Box<dyn Observer>> {
    let plan = Plan::new(&protocol(STUDIES, Vec::new())).unwrap();
    plan.first_stage_observers(&subject()).into_iter().flat_map(|(_, observers)| observers).collect()
}

proptest! {
    /// merge(left, right) == whole for every study, whatever the order, and however each side numbers what it meets.
    #[test]
    fn merged_parts_equal_the_whole(
        lengths in prop::collection::vec((1..6_usize, 0..3_usize), 1..12),
        weights in prop::collection::vec(0.0..1.0_f32, 64),
        cut in 0..12_usize,
    ) {
        let relations = ["nsubj", "obl:tmod", "punct"];
        let sentences = lengths.iter().zip(60..);
        let sentences: Vec<Sequence> =
            sentences.map(|(&(words, relation), index)| linked(sentence(index, words, relations[relation]))).collect();
        let whole = bytes(summed(everybody(), &sentences, &weights));
        let (left, right) = sentences.split_at(cut.min(sentences.len()));
        for (first, second) in [(left, right), (right, left)] {
            let mut merged = summed(everybody(), first, &weights);
            merged.merge(&summed(everybody(), second, &weights));
            prop_assert_eq!(bytes(merged), whole.clone());
        }
    }

    /// A file made to harm has the right checksum: whatever its sums say, they are read or refused.
    #[test]
    fn sums_of_any_bytes_are_restored_or_refused(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let sentences = [sentence(3, 2, "nsubj"), sentence(64, 3, "obl:tmod")];
        for study in STUDIES {
            for spec in study.passes() {
                let mut bytes = bytes(summed(vec![spec.make_observer(&subject())], &sentences, &[0.25; 25])).remove(0);
                for (place, value) in &changes {
                    let place = place.index(bytes.len());
                    bytes[place] = *value;
                }
                let length = bytes.len();
                for bytes in [&bytes[..], &bytes[..cut.index(length)]] {
                    let restored = spec.restore(bytes).ok();
                    if let Some(sums) = restored.filter(|sums| sums.fits(GRID, FromToken::Mean, &LayerClasses::default())) {
                        let _ = sums.to_bytes();
                    }
                }
            }
        }
    }
}

#[test]
fn sums_fit_the_heads_that_they_are_of_and_no_others() {
    let sentences = [sentence(3, 2, "nsubj"), sentence(64, 3, "obl:tmod")];
    for sums in summed(everybody(), &sentences, &[0.25; 25]).into_observers() {
        assert!(sums.fits(GRID, FromToken::Mean, &LayerClasses::default()));
        for (layers, heads) in [(2, 1), (1, 1), (1, 3), (2, 2)] {
            assert!(
                !sums.fits(HeadGrid { layers, heads }, FromToken::Mean, &LayerClasses::default()),
                "{layers} x {heads}"
            );
        }
    }
}

#[test]
fn a_header_describes_a_model_that_there_can_be() {
    let mut identity = identity();
    for (layers, heads) in [(0, 2), (1, MAX_ATTENTION_HEADS + 1), (usize::MAX, 2)] {
        (identity.model.layers, identity.model.heads) = (layers, heads);
        let refusal = Plan::restore(&identity, &Stage::Whole, Vec::new()).err().unwrap().to_string();
        assert_eq!(refusal, format!("its header has a model of {layers} x {heads} heads"));
    }
}

#[test]
fn a_header_lists_absent_heads_as_a_checkpoint_does() {
    let place = |layer, head| HeadPlace { layer, head };
    for (absent, expected) in [
        (vec![place(0, 2)], "its header is broken: `model.absent` has L0H2, which the model has not"),
        (
            vec![place(0, 1), place(0, 0)],
            "its header is broken: `model.absent` does not list heads once each, layer by layer",
        ),
    ] {
        let mut identity = identity();
        identity.model.absent = absent;
        let refusal = Plan::restore(&identity, &Stage::Whole, Vec::new()).err().unwrap().to_string();
        assert_eq!(refusal, expected);
    }
}

/// If this fails, the format has changed: raise [`FORMAT_VERSION`] if a release has written it, and write the new
/// digest here.
#[test]
fn a_changed_layout_of_sums_has_a_new_version() {
    let sums = bytes(summed(everybody(), &[linked(sentence(3, 2, "nsubj"))], &[0.25; 16]));
    let layout = Sha256::digest(sums.concat());
    assert_eq!((FORMAT_VERSION, &hex(&layout)[..16]), (11, "c64e6fa2db592507"));
}

#[test]
fn a_pass_runs_once_for_all_who_want_it() {
    let passes = |protocol: &Protocol| -> Vec<(Pass, usize)> {
        Plan::new(protocol).unwrap().passes.iter().map(|(pass, wants)| (pass.clone(), wants.len())).collect()
    };
    let pairs = Pass { sequences: Sequences::Pairs { max_tokens: 128 }, ..Pass::PLAIN };
    let repeats = |made, pass: &Pass| Pass { sequences: Sequences::Repeats(made), ..pass.clone() };
    let [plain, masked] = [RepeatVariant::Plain, RepeatVariant::Masked].map(|made| (repeats(made, &Pass::PLAIN), 1));
    let windows = |pass: &Pass| (Pass { sequences: Sequences::Windows, ..pass.clone() }, 1);
    let sentence_pairs = |pass: &Pass| (Pass { sequences: Sequences::SentencePairs, ..pass.clone() }, 1);
    // Twelve studies look at the sentences, and the preset's syntax is the thirteenth.
    let sampled = Pass {
        sequences: Sequences::Corrupted(CorruptedVariants::Requested),
        portion: CorpusPortion::Sample,
        ..Pass::PLAIN
    };
    let predicted = (repeats(RepeatVariant::Predicted, &Pass::PLAIN), 2);
    let copies = (Pass { portion: CorpusPortion::Sample, ..repeats(RepeatVariant::Predicted, &Pass::PLAIN) }, 1);
    // Passes that follow others come last, whichever study they belong to.
    let last = [
        (Pass::PLAIN, 3),
        (Pass { sequences: Sequences::Corrupted(CorruptedVariants::All), ..sampled.clone() }, 1),
        (Pass { portion: CorpusPortion::OddSample, ..sampled.clone() }, 1),
        (sampled.clone(), 2),
        (Pass { sequences: Sequences::Sentences, ..sampled.clone() }, 1),
    ];
    let all = [
        (Pass::PLAIN, 13),
        plain,
        masked,
        predicted,
        windows(&Pass::PLAIN),
        sentence_pairs(&Pass::PLAIN),
        (sampled.clone(), 1),
        copies,
        (Pass { sequences: Sequences::Task, ..sampled.clone() }, 2),
        (Pass { sequences: Sequences::Interchange, ..sampled.clone() }, 1),
        (Pass { shown: EventKind::Derivatives, ..sampled.clone() }, 1),
        (Pass { shown: EventKind::Fits, portion: CorpusPortion::EvenSample, ..sampled.clone() }, 1),
        (Pass { shown: EventKind::Fits, portion: CorpusPortion::OddSample, ..sampled.clone() }, 1),
        (Pass { sequences: Sequences::Sentences, ..sampled.clone() }, 5),
        (
            Pass {
                sequences: Sequences::Sentences,
                weights: ModelWeights::UntrainedSharp { seed: 0 },
                ..sampled.clone()
            },
            1,
        ),
        (Pass { sequences: Sequences::Sentences, weights: ModelWeights::Untrained { seed: 0 }, ..sampled }, 2),
        (pairs.clone(), 2),
    ];
    assert_eq!(passes(&protocol(STUDIES, Vec::new())), [&all[..], &last].concat());
    // A control is for the studies that have labels, or need it; without studies the sentences are read all the same.
    let control = Control { kind: ControlKind::RandomInit, seed: 1 };
    let fresh = Pass { weights: ModelWeights::Untrained { seed: 1 }, ..Pass::PLAIN };
    let controlled = [
        (fresh.clone(), 9),
        (repeats(RepeatVariant::Plain, &fresh), 1),
        (repeats(RepeatVariant::Masked, &fresh), 1),
        windows(&fresh),
        sentence_pairs(&fresh),
    ];
    assert_eq!(
        passes(&protocol(STUDIES, vec![control])),
        [&all[..], &controlled, &last, &[(fresh.clone(), 2)]].concat()
    );
    // `choice`, `probes` and `examples` keep activations of the sentences, the first two also under a control.
    let kept = Plan::new(&protocol(STUDIES, vec![control])).unwrap().kept_activations();
    let kept: Vec<_> = kept.into_iter().map(|(pass, keeps)| (pass, keeps.len())).collect();
    assert_eq!(kept, [(Pass::PLAIN, 3), (fresh, 2)]);
    assert_eq!(passes(&protocol(&STUDIES[STUDIES.len() - 1..], vec![control])), [(Pass::PLAIN, 1), (pairs, 2)]);
}

#[test]
fn studies_of_a_report_are_those_that_it_lists() {
    let found = |studies: &[String]| -> Vec<&str> {
        self::studies(studies).unwrap().iter().map(|study| study.card().name).collect()
    };
    assert_eq!(found(&study_names(&STUDIES[2..3])), ["trees"]);
    let refusal = self::studies(&["cats".to_owned()]).err().unwrap().to_string();
    assert_eq!(
        refusal,
        "there is no study `cats`: there are attention, norms, trees, dependency, links, words, classes, frequency, explained-variance, \
            repeats, in-context, coreference, segments, choice, effect, in-context-effect, task, interchange, direct, gradient, knockout, pruning, gates, output-shift, edges, \
            similarity, cluster-effect, cluster-shift, probes, parser, examples, clark2019"
    );
}
