//! Heads of which it is known how they choose, run through the packed encoder; and fits on numbers that a person can check.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::Arc;

use itertools::Itertools;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::ChoiceStudy;
use super::section::Choice;
use crate::corpus::SentenceGroup;
use crate::evaluation::results::Results;
use crate::model::config::{BlockPlan, Config, NormKind};
use crate::model::forward::Encoder;
use crate::model::forward::packed::PackedEncoder;
use crate::model::grid::visibility::LayerClasses;
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::model::parameters::{Embeddings, Layer, Linear, Norm, Parameters};
use crate::passes::observer::Observer;
use crate::passes::observer::set::ObserverSet;
use crate::passes::run::show::{WorkerBuffers, run_pack};
use crate::passes::run::variants::Variants;
use crate::passes::setup::PassSetup;
use crate::sequences::fold::words::FromToken;
use crate::sequences::pack::Pack;
use crate::sequences::sequence::{Sequence, TokenKind};
use crate::studies::registry::default_policy;
use crate::study::metrics::estimates::EstimationContext;
use crate::study::section::{ViewContext, downcast_section};
use crate::study::{AnyStudy, ObservedPass, ObservedPasses, Subject};

const GRID: HeadGrid = HeadGrid { layers: 2, heads: 3 };

/// A hidden state is three unit vectors side by side: of the position, of the token, and of a token that a head writes.
const LENGTH: usize = 10;
const TOKENS: usize = 24;
const HIDDEN: usize = LENGTH + 2 * TOKENS;
const HEAD: usize = TOKENS;

/// Scores beyond others by this much leave these next to nothing.
const STRENGTH: f32 = 14.0;

/// The weights of a head: `[HEAD, HIDDEN]` of queries, keys and values, and `[HIDDEN, HEAD]` of its output.
#[derive(Clone)]
struct HeadWeights {
    parts: [Vec<f32>; 3],
    output: Vec<f32>,
}

const SILENT: [fn(usize) -> Option<usize>; 3] = [|_| None; 3];

impl HeadWeights {
    /// A head whose query, key and value have a 1 at the place that the functions give for a place of the hidden state; `writes`
    /// is the first of the places to which its value is written.
    fn new(parts: [fn(usize) -> Option<usize>; 3], writes: Option<usize>) -> Self {
        let matrix = |to: fn(usize) -> Option<usize>| {
            let mut weights = vec![0.0; HEAD * HIDDEN];
            for from in 0..HIDDEN {
                if let Some(place) = to(from) {
                    weights[place * HIDDEN + from] = 1.0;
                }
            }
            weights
        };
        let mut output = vec![0.0; HIDDEN * HEAD];
        if let Some(first) = writes {
            // What was normalised on its way in is written as 1.
            let one = (2.0 / HIDDEN as f32).sqrt();
            (0..HEAD).for_each(|place| output[(first + place) * HEAD + place] = one);
        }
        Self { parts: parts.map(matrix), output }
    }
}

fn token(place: usize) -> Option<usize> {
    (LENGTH..LENGTH + TOKENS).contains(&place).then(|| place - LENGTH)
}

fn written(place: usize) -> Option<usize> {
    place.checked_sub(LENGTH + TOKENS)
}

/// The key of a token at position `p` is `p + 1`: that of the query after it.
fn next_position(place: usize) -> Option<usize> {
    (place < LENGTH).then_some(place + 1)
}

fn position(place: usize) -> Option<usize> {
    (place < LENGTH).then_some(place)
}

/// A layer with these heads, which adds what they write and nothing else.
fn layer(heads: &[HeadWeights; GRID.heads]) -> Layer {
    let mut weight = Vec::new();
    (0..3).for_each(|part| heads.iter().for_each(|head| weight.extend(&head.parts[part])));
    let row = |row: usize| heads.iter().flat_map(move |head| &head.output[row * HEAD..][..HEAD]);
    let linear = |weight: Vec<f32>, outputs: usize| Linear { weight, bias: vec![0.0; outputs] };
    let norm = || Norm { weight: vec![1.0; HIDDEN], bias: vec![0.0; HIDDEN] };
    Layer {
        query_key_value: linear(weight, 3 * GRID.heads * HEAD),
        query_key_norms: None,
        rotary: None,
        distances: None,
        disentangled: None,
        position_bias: None,
        attention_output: linear((0..HIDDEN).flat_map(row).copied().collect(), HIDDEN),
        attention_norm: Some(norm()),
        intermediate: linear(vec![0.0; HIDDEN], 1),
        output: linear(vec![0.0; HIDDEN], HIDDEN),
        output_norm: norm(),
        block_output_norms: None,
    }
}

fn config() -> Config {
    Config {
        vocab_size: TOKENS,
        hidden_size: HIDDEN,
        num_hidden_layers: GRID.layers,
        num_attention_heads: GRID.heads,
        intermediate_size: 1,
        max_position_embeddings: LENGTH,
        head_size: Some(HEAD),
        blocks: BlockPlan::Pre,
        norm: NormKind::RootMeanSquare,
        layer_norm_eps: 1e-12,
        initializer_range: 0.02,
        tie_word_embeddings: true,
        // The root of the mean square of a state of two or three ones is the same for all tokens of a layer, but for what it is: of
        // the first layer, sqrt(2 / HIDDEN).
        score_scale: Some(f64::from(STRENGTH) * 2.0 / HIDDEN as f64),
        ..Config::default()
    }
}

/// Layer 0: a head that goes to the token before and writes which it is, one that goes to the same token, and one that attends
/// evenly. Layer 1: one that goes where the token before is its own token, as induction does; and the first two again.
fn planted() -> Parameters {
    let mut words = vec![0.0; TOKENS * HIDDEN];
    (0..TOKENS).for_each(|token| words[token * HIDDEN + LENGTH + token] = 1.0);
    let mut positions = vec![0.0; LENGTH * HIDDEN];
    (0..LENGTH).for_each(|position| positions[position * HIDDEN + position] = 1.0);
    let previous = HeadWeights::new([position, next_position, token], Some(LENGTH + TOKENS));
    let same = HeadWeights::new([token, token, |_| None], None);
    let even = HeadWeights::new(SILENT, None);
    let induction = HeadWeights::new([token, written, |_| None], None);
    let quiet = HeadWeights { output: vec![0.0; HIDDEN * HEAD], ..previous.clone() };
    Parameters {
        config: config(),
        embeddings: Embeddings {
            words: Arc::new(words),
            positions: Some(positions),
            segments: None,
            norm: None,
            projection: None,
        },
        layers: vec![layer(&[previous, same.clone(), even]), layer(&[induction, quiet, same])],
        layer_indices: vec![0, 1],
        final_norm: Some(Norm { weight: vec![1.0; HIDDEN], bias: vec![0.0; HIDDEN] }),
        prediction: None,
    }
}

/// An equal shape with weights at random, of the standard deviation from which such models are trained.
fn untrained(seed: u64) -> Parameters {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    // The sum of three uniform numbers has a standard deviation of its width by two.
    let mut value = move || 0.04 * (0..3).map(|_| rng.random_range(-0.5..0.5_f32)).sum::<f32>();
    let mut parameters = planted();
    let config = Config { score_scale: None, ..config() };
    let Parameters { embeddings, layers, .. } = &mut parameters;
    embeddings.words = Arc::new((0..TOKENS * HIDDEN).map(|_| value()).collect());
    embeddings.positions.iter_mut().flatten().for_each(|weight| *weight = value());
    for layer in layers {
        layer.query_key_value.weight.iter_mut().for_each(|weight| *weight = value());
        layer.attention_output.weight.iter_mut().for_each(|weight| *weight = value());
    }
    Parameters { config, ..parameters }
}

/// Sentences of tokens at random, each in a block of its own.
fn sentences(count: u64) -> Vec<Sequence> {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let sentence = |index: u64| Sequence {
        index,
        family: SentenceGroup { number: index, is_first: true },
        ids: (0..LENGTH).map(|_| rng.random_range(0..u32::try_from(TOKENS).unwrap())).collect(),
        segments: vec![0; LENGTH],
        kinds: vec![TokenKind::Text; LENGTH],
        ..Sequence::default()
    };
    (0..count).map(sentence).collect()
}

/// Shows sentences to an observer, in packs of eight.
fn shown(observer: Box<dyn Observer>, encoder: &PackedEncoder, sentences: &[Sequence]) -> Box<dyn Observer> {
    let mut panel = ObserverSet::new(vec![observer]);
    let embeddings = encoder.word_embeddings();
    panel.begin_pass(&PassSetup { encoder: Some(encoder), embeddings, ..PassSetup::default() });
    let mut buffers = WorkerBuffers::default();
    for sentences in sentences.chunks(8) {
        panel.begin_pack(sentences.iter());
        if panel.needs_events() {
            let pack = Pack { sequences: sentences.to_vec() };
            run_pack(&mut panel, &pack, &Variants::default(), encoder, &mut buffers, None).unwrap();
        }
        panel.end_pack();
    }
    panel.into_observers().remove(0)
}

fn subject() -> Subject<'static> {
    Subject::new(GRID, FromToken::Mean, &|_| None)
}

/// The sums of both stages.
fn run(encoder: &PackedEncoder, sentences: &[Sequence]) -> [Box<dyn Observer>; 2] {
    let passes = AnyStudy::passes(&ChoiceStudy);
    let moments = shown(passes[0].make_observer(&subject()), encoder, sentences);
    let own = [ObservedPass { sums: &*moments, left_out_sentences: 0 }];
    let rebuilt = shown(
        passes[1].make_observer(&Subject { first_stage_sums: ObservedPasses(&own), ..subject() }),
        encoder,
        sentences,
    );
    [moments, rebuilt]
}

fn results(both: &[Box<dyn Observer>; 2]) -> Results {
    let observed = both.each_ref().map(|sums| ObservedPass { sums: &**sums, left_out_sentences: 0 });
    let context = EstimationContext::new(GRID, NonZeroUsize::MIN);
    let study: &'static dyn AnyStudy = &ChoiceStudy;
    Results::new(&[(study, observed.to_vec())], &context, &default_policy())
}

#[test]
fn planted_heads_choose_as_they_are_made() {
    let mut sentences = sentences(256);
    // Packs of one fold alone.
    sentences.sort_by_key(|sentence| sentence.index % 2);
    let found = results(&run(&PackedEncoder::new(planted()), &sentences));
    let labels: Vec<Option<(String, bool)>> = found
        .choice_labels(&default_policy())
        .into_iter()
        .map(|label| label.map(|one| (one.label, one.borderline)))
        .collect();
    let firm = |name: &str| Some((format!("chooses:{name}"), false));
    // Layer 0 reads nothing but tokens and positions; of the induction head, which goes by context, its numbers speak.
    assert_eq!(labels, [None, None, None, None, firm("position"), firm("token")]);
    let card = |layer: usize, head: usize| {
        found.sections[0].1.head_card(HeadPlace { layer, head }, ViewContext::new(&default_policy()))
    };
    let line = card(0, 0).lines.concat();
    insta::assert_snapshot!(line.rsplit_once(" (").unwrap().1, @"layer 0 reads nothing else)");
    assert!(card(0, 0).clauses.is_empty() && card(1, 1).clauses.is_empty());
    insta::assert_snapshot!(card(1, 0).clauses.concat(), @"has 1.01 of its distance from even attention left to context");
    let metric = |head: usize, key: &str| found.estimates.heads[head].get("rebuilt", Some(key)).copied().flatten();
    let position = metric(0, "position").unwrap();
    assert!((position - 1.0).abs() < 1e-6, "{position}");
    assert!(metric(0, "token").unwrap() < 0.1 && metric(1, "position").unwrap() < 0.1);
    assert!(metric(1, "token").unwrap() > 0.99);
    // What the first head has written is in keys alone: whole keys bring it back, and whole queries do not.
    assert!(metric(3, "queries").unwrap() > 0.95 && metric(3, "keys").unwrap() < 0.3, "{:?}", metric(3, "keys"));
    assert_eq!((metric(2, "position"), metric(2, "keys")), (None, None));
    let from_even = found.estimates.heads[2].get("distance_from_even", None).copied().flatten();
    assert!(from_even.unwrap() < 1e-12, "{from_even:?}");
    // No label of where heads attend comes of it.
    assert!(found.verdicts(&default_policy()).iter().all(|verdict| verdict.labels.is_empty()));
    // There are no special tokens, so that all that a part brings back is its own.
    let lead = found.estimates.heads[4].get("rebuilt_over_special", Some("position")).copied().flatten();
    let difference = metric(4, "position").unwrap() - metric(4, "special").unwrap();
    assert!((lead.unwrap() - difference).abs() < 1e-12, "{lead:?} {difference}");
    let section = downcast_section::<Choice>(&*found.sections[0].1);
    assert_eq!((section.fitted_on, section.needed), ([1280, 1280], 10 * HIDDEN as u64));
    // The first layer's input is position and token, up to the ridge; a third of the second one's is what was written.
    let shares: Vec<f64> = section.layers.iter().map(|layer| layer.own_share.unwrap()).collect();
    assert!(shares[0] < 1e-4 && (0.25..0.45).contains(&shares[1]), "{shares:?}");
    assert_eq!(section.layers[0].ridge, [0.001; 2]);
    assert_eq!(found.sections[0].1.defect(GRID), None);
}

#[test]
fn untrained_heads_have_nothing_to_rebuild() {
    let mut last_lines = BTreeSet::new();
    for seed in 0..10 {
        let found = results(&run(&PackedEncoder::new(untrained(seed)), &sentences(160)));
        assert!(found.choice_labels(&default_policy()).iter().all(Option::is_none));
        for head in &found.estimates.heads {
            let values: Vec<_> = head.cells().collect();
            let null =
                |name: &str| values.iter().filter(|(cell, _)| cell.starts_with(name)).all(|(_, value)| value.is_none());
            assert!(null("rebuilt") && null("context"), "{values:?}");
            assert!(head.get("distance_from_even", None).unwrap().is_some_and(|distance| distance < 0.01));
        }
        let summary = found.sections[0].1.view(ViewContext::new(&default_policy())).summary.to_string();
        last_lines.extend(summary.lines().last().map(str::to_owned));
    }
    insta::assert_snapshot!(last_lines.iter().join("\n"), @"6 of 6 heads: attention is even, so that there is nothing to rebuild.");
}

#[test]
fn too_few_tokens_are_not_fitted() {
    // 570 tokens a half, where 58 dimensions need 580.
    let found = results(&run(&PackedEncoder::new(planted()), &sentences(114)));
    assert!(found.estimates.heads[0].cells().all(|(_, value)| value.is_none()));
    assert!(found.sections[0].1.view(ViewContext::new(&default_policy())).figures.is_empty());
    let summary = found.sections[0].1.view(ViewContext::new(&default_policy())).summary.to_string();
    insta::assert_snapshot!(summary, @"How heads choose: the halves of the corpus have 570 and 570 tokens of text, fewer than the 580 that it takes.");
}

#[test]
fn sums_of_parts_are_those_of_the_whole() {
    let (encoder, sentences) = (PackedEncoder::new(planted()), sentences(128));
    let whole = run(&encoder, &sentences);
    let own = [ObservedPass { sums: &*whole[0], left_out_sentences: 0 }];
    let subject = Subject { first_stage_sums: ObservedPasses(&own), ..subject() };
    for (place, whole) in whole.iter().enumerate() {
        let spec = &AnyStudy::passes(&ChoiceStudy)[place];
        let mut parts = shown(spec.make_observer(&subject), &encoder, &sentences[64..]);
        parts.merge(&*shown(spec.make_observer(&subject), &encoder, &sentences[..64]));
        assert!(parts.to_bytes().unwrap() == whole.to_bytes().unwrap(), "{place}");
        let restored = spec.restore(&whole.to_bytes().unwrap()).unwrap();
        assert!(
            restored.fits(GRID, FromToken::Mean, &LayerClasses::default())
                && restored.to_bytes().unwrap() == whole.to_bytes().unwrap()
        );
        assert!(!restored.fits(HeadGrid { layers: 3, heads: 3 }, FromToken::Mean, &LayerClasses::default()));
    }
}
