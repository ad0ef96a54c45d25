//! Heads without any preference, in layers whose queries see different keys: every metric is at the chance level of the layer's
//! class, and `broad` is their one label.

use std::num::NonZeroUsize;
use std::sync::Arc;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::corpus::{Annotation, TreeHead, Upos};
use crate::evaluation::results::Results;
use crate::model::forward::WordEmbeddings;
use crate::model::forward::attention::AttentionView;
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::{LayerClasses, Visibility};
use crate::passes::observer::Observer;
use crate::passes::observer::set::ObserverSet;
use crate::passes::setup::PassSetup;
use crate::sequences::counts::TokenCounter;
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::sequences::test_support::sentence;
use crate::studies::registry::{default_policy, find_study};
use crate::study::metrics::estimates::EstimationContext;
use crate::study::{AnyStudy, ObservedPass, Subject};

/// The keys that the queries of each layer see: two classes, each of two layers, and the keys up to the query in the last.
const LAYERS: [Visibility; 5] = {
    let window = Visibility { before: Some(4), after: Some(4) };
    let causal = Visibility { before: None, after: Some(0) };
    [Visibility::ALL, window, window, Visibility::ALL, causal]
};

const GRID: HeadGrid = HeadGrid { layers: LAYERS.len(), heads: 1 };

/// The mean difference between weights of one row, as a share of them, so that no key is always the most attended.
const UNEVEN: f32 = 1e-4;

/// Sentences of 10 to 39 words with random tags, tokens and trees; one word in five has two tokens.
fn corpus() -> Vec<Sequence> {
    const TAGS: [Upos; 4] = [Upos::Noun, Upos::Verb, Upos::Det, Upos::Punct];
    let mut rng = ChaCha8Rng::seed_from_u64(29);
    let mut made = |index| {
        let tokens = rng.random_range(10..40_usize);
        let mut sequence = sentence(index, tokens, "dep");
        // Squares and a little more: some tokens are far commoner than others.
        sequence.ids[1..=tokens].fill_with(|| 4 + rng.random_range(0..30_u32).pow(2) + rng.random_range(0..9));
        sequence.words.clear();
        let mut place = 1;
        while place <= tokens {
            let end = (place + 1 + usize::from(rng.random_bool(0.2))).min(tokens + 1);
            sequence.words.push((place..end).into());
            place = end;
        }
        let words = sequence.words.len();
        let tag = |upos| Annotation { upos: Some(upos), ..Annotation::default() };
        sequence.annotations = (0..words).map(|_| tag(TAGS[rng.random_range(0..TAGS.len())])).collect();
        let tree = sequence.tree.as_mut().expect("a tree");
        tree.truncate(words);
        for (word, arc) in tree.iter_mut().enumerate() {
            arc.head = if word == 0 { TreeHead::Root } else { TreeHead::Word(rng.random_range(0..word)) };
        }
        sequence
    };
    (0..400).map(&mut made).collect()
}

/// Rows that are even over what their queries see, but for noise.
fn rows(visibility: Visibility, tokens: usize, rng: &mut ChaCha8Rng) -> Vec<f32> {
    let mut weights = vec![0.0; tokens * tokens];
    for (query, row) in weights.chunks_exact_mut(tokens).enumerate() {
        let seen = &mut row[visibility.visible_keys(query, tokens)];
        seen.fill_with(|| 1.0 + rng.random_range(-UNEVEN..UNEVEN));
        let sum: f32 = seen.iter().sum();
        seen.iter_mut().for_each(|weight| *weight /= sum);
    }
    weights
}

/// The sums of studies over a corpus.
fn observed(studies: &[&'static dyn AnyStudy], corpus: &[Sequence], classes: &LayerClasses) -> Vec<Box<dyn Observer>> {
    let mut counting = TokenCounter::default();
    corpus.iter().for_each(|sequence| counting.add(sequence));
    let subject = Subject { classes, ..Subject::new(GRID, FromToken::Mean, &|_| None) };
    let mut observers =
        ObserverSet::new(studies.iter().map(|study| study.passes()[0].make_observer(&subject)).collect());
    let mut rng = ChaCha8Rng::seed_from_u64(30);
    let values: Vec<f32> = (0..910 * 8).map(|_| rng.random_range(-1.0..1.0)).collect();
    let embeddings = Some(WordEmbeddings::new(Arc::new(values), 8));
    let counts = Some(Arc::new(counting.finish()));
    observers.begin_pass(&PassSetup { embeddings, counts, ..PassSetup::default() });
    for sequence in corpus {
        observers.begin_pack([sequence].into_iter());
        for (layer, visibility) in LAYERS.into_iter().enumerate() {
            let tokens = sequence.ids.len();
            let weights = rows(visibility, tokens, &mut rng);
            observers.observe_head(0, sequence, AttentionView::new(layer, 0, tokens, &weights).into());
        }
        observers.end_pack();
    }
    observers.into_observers()
}

#[test]
fn every_metric_is_at_the_chance_of_its_layer() {
    let studies =
        ["attention", "words", "frequency", "explained-variance"].map(|name| find_study(name).expect("a study"));
    let classes = LayerClasses::new(&LAYERS);
    let sums = observed(&studies, &corpus(), &classes);
    let passes: Vec<Vec<ObservedPass<'_>>> =
        sums.iter().map(|sums| vec![ObservedPass { sums: &**sums, left_out_sentences: 0 }]).collect();
    let observed: Vec<_> = studies.into_iter().zip(passes).collect();
    let context = EstimationContext::new(GRID, NonZeroUsize::MIN);
    let results = Results::new(&observed, &context, &default_policy());
    let estimates = &results.estimates;
    let mut scored = 0;
    for (place, values) in estimates.heads.iter().enumerate() {
        let [common, own, errors] =
            [&estimates.chance, &estimates.own_chance[place], &estimates.standard_errors[place]]
                .map(|all| all.by_name());
        for (name, value) in values.cells() {
            // Noise explains nothing, by coefficients of other blocks a little less than that.
            if name.starts_with("explained") {
                continue;
            }
            let of =
                |all: &std::collections::BTreeMap<String, &Option<f64>>| all.get(&name).copied().copied().flatten();
            let chance = of(&own).or(of(&common));
            assert_eq!(value.is_some(), chance.is_some(), "layer {place} {name}: {value:?} {chance:?}");
            let Some((value, chance)) = value.zip(chance) else { continue };
            let room = 1e-3 + 5.0 * of(&errors).unwrap_or(0.0);
            assert!((value - chance).abs() < room, "layer {place} {name}: {value} {chance} {room}");
            scored += 1;
        }
    }
    assert!(scored > 300, "{scored}");

    // A window of 4 hides the keys farther away, and the causal layer all to the right.
    let offset = |place: usize, k: &str| *estimates.heads[place].get("offset_mass", Some(k)).expect("an offset");
    assert!(["-5", "5"].iter().all(|k| offset(1, k).is_none() && offset(0, k).is_some()));
    assert!(offset(4, "1").is_none() && offset(4, "-5").is_some() && offset(1, "4").is_some());
    // The first special token is seen by the first four words of each sentence alone.
    let queries =
        |place: usize| estimates.denominators_of(place).get("first_special_mass", None).expect("a metric").count;
    assert_eq!((queries(1), queries(0) > 2 * queries(1)), (4 * 400, true));
    let labels = |verdict: &crate::study::labels::Verdict| -> Vec<String> {
        verdict.labels.iter().map(|label| label.label.clone()).collect()
    };
    for verdict in results.verdicts(&default_policy()) {
        assert_eq!(labels(&verdict), ["broad"]);
    }
}
