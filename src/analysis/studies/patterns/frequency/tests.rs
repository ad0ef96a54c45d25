use std::num::NonZeroUsize;
use std::sync::Arc;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::evaluation::results::Results;
use crate::model::forward::attention::AttentionView;
use crate::model::grid::HeadGrid;
use crate::passes::observer::set::ObserverSet;
use crate::passes::setup::PassSetup;
use crate::sequences::counts::TokenCounter;
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::sequences::test_support::sentence;
use crate::studies::registry::{default_policy, find_study};
use crate::study::AnyStudy;
use crate::study::ObservedPass;
use crate::study::Subject;
use crate::study::labels::Verdict;

/// A head: how much the query at a place wants each place of a sentence. The rest of its attention is on the first
/// special token.
type Head = fn(&Sequence, usize, usize) -> f32;

/// So many tokens are common: more than those that are never rare.
const COMMON: u32 = 600;

/// The id of the first rare token.
const RARE: u32 = 1000;

/// 300 sentences of common tokens with a rare one or two somewhere, each of which is there once.
fn corpus() -> Vec<Sequence> {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let sentence = |index: u64| {
        let length = rng.random_range(6..12);
        let mut sequence = sentence(index, length, "dep");
        for token in 1..=length {
            sequence.ids[token] = 1 + rng.random_range(0..COMMON);
        }
        for rare in 0..2 {
            let place = rng.random_range(1..=length);
            sequence.ids[place] = RARE + 2 * u32::try_from(index).unwrap() + rare;
        }
        sequence
    };
    (0..300).map(sentence).collect()
}

/// The findings on heads over a corpus.
fn results(corpus: &[Sequence], heads: &[Head]) -> Results {
    let mut counting = TokenCounter::default();
    corpus.iter().for_each(|sequence| counting.add(sequence));
    // Elsewhere each common token is there five times more.
    let mut elsewhere = sentence(300, 5 * COMMON as usize, "dep");
    (0_u32..).zip(&mut elsewhere.ids).for_each(|(place, id)| *id = 1 + place % COMMON);
    counting.add(&elsewhere);
    let grid = HeadGrid { layers: 1, heads: heads.len() };
    let subject = Subject::new(grid, FromToken::Mean, &|_| None);
    let mut panel = ObserverSet::new(vec![AnyStudy::passes(&Frequency)[0].make_observer(&subject)]);
    panel.begin_pass(&PassSetup { counts: Some(Arc::new(counting.finish())), ..PassSetup::default() });
    for sequence in corpus {
        let n = sequence.ids.len();
        panel.begin_pack([sequence].into_iter());
        for (head, wanted) in heads.iter().enumerate() {
            let mut weights = vec![0.0; n * n];
            for query in 0..n {
                let row = &mut weights[query * n..][..n];
                row.iter_mut().enumerate().for_each(|(key, weight)| *weight = wanted(sequence, query, key));
                row[0] += 1.0 - row.iter().sum::<f32>();
            }
            panel.observe_head(0, sequence, AttentionView::new(0, head, n, &weights).into());
        }
        panel.end_pack();
    }
    let observers = panel.into_observers();
    let context = EstimationContext::new(grid, NonZeroUsize::MIN);
    let seen = vec![ObservedPass { sums: &*observers[0], left_out_sentences: 0 }];
    Results::new(&[(find_study("frequency").unwrap(), seen)], &context, &default_policy())
}

fn labels(results: &Results) -> Vec<Vec<String>> {
    let names = |verdict: Verdict| verdict.labels.into_iter().map(|label| label.label).collect();
    results.verdicts(&default_policy()).into_iter().map(names).collect()
}

/// Whether a place has a token of text, rare or common.
fn is(sequence: &Sequence, place: usize, rare: bool) -> bool {
    !sequence.kinds[place].is_special() && (sequence.ids[place] >= RARE) == rare
}

/// `share` of the attention on the places of which `wanted` is true, none if there are none.
fn on(sequence: &Sequence, key: usize, share: f32, wanted: impl Fn(usize) -> bool) -> f32 {
    let count = (0..sequence.ids.len()).filter(|&place| wanted(place)).count();
    if wanted(key) { share / count as f32 } else { 0.0 }
}

#[test]
fn a_head_that_goes_to_rare_words_is_found() {
    let heads: [Head; 5] = [
        |sequence, _, key| on(sequence, key, 0.6, |place| is(sequence, place, true)),
        // Near misses: to common words, to the word before, and to rare words in hardly more sentences than by chance.
        |sequence, _, key| on(sequence, key, 0.6, |place| is(sequence, place, false)),
        |sequence, query, key| on(sequence, key, 0.6, |place| place + 1 == query),
        |sequence, query, key| {
            let chosen = sequence.index % 25 == 0;
            on(sequence, key, 0.6, |place| if chosen { is(sequence, place, true) } else { place + 1 == query })
        },
        // Rare words attend to common ones, the others to themselves.
        |sequence, query, key| {
            let rare = is(sequence, query, true);
            on(sequence, key, 0.6, |place| if rare { is(sequence, place, false) } else { place == query })
        },
    ];
    let found = results(&corpus(), &heads);
    let expected: [&[&str]; 5] = [&["rare-words"], &[], &[], &[], &[]];
    assert_eq!(labels(&found), expected);
    let value = |head: usize, name: &str| found.estimates.heads[head].get(name, None).unwrap().unwrap();
    assert!((value(0, "rare_argmax") - 1.0).abs() < 1e-9 && (value(0, "rare_mass") - 0.6).abs() < 1e-6);
    assert!(value(0, "frequency_shift") < -0.2 && value(1, "frequency_shift") > 0.0);
    assert!(value(4, "frequency_shift_rare") > 0.02);
    let chance = |name: &str| found.estimates.chance.get(name, None).unwrap().unwrap();
    assert_eq!([chance("frequency_shift"), chance("frequency_shift_rare")], [0.0; 2]);
    assert!((chance("rare_argmax_expected") - chance("rare_argmax")).abs() < 1e-12);
}

#[test]
fn a_corpus_of_few_words_has_no_rare_ones() {
    let few: Vec<Sequence> = corpus()
        .into_iter()
        .map(|mut sequence| {
            sequence.ids.iter_mut().for_each(|id| *id %= 50);
            sequence
        })
        .collect();
    let heads: [Head; 1] = [|sequence, _, key| on(sequence, key, 0.6, |place| place == 1)];
    let found = results(&few, &heads);
    let value = |name: &str| *found.estimates.heads[0].get(name, None).unwrap();
    assert_eq!([value("rare_argmax"), value("rare_mass"), value("frequency_shift_rare")], [None; 3]);
    assert!(value("frequency_shift").is_some());
    let (_, section) = &found.sections[0];
    insta::assert_snapshot!(section.view(ViewContext::new(&default_policy())).summary.to_string(), @"No sentence has a token that is rarer than 500 others of the corpus, so no label of rare words was tested: it takes more text, or --counts FILE.");
}

/// `[CLS] the cat the [SEP]` in a corpus of 600 more kinds of words that are there twice.
#[test]
fn shares_by_hand() {
    let mut sequence = sentence(0, 3, "dep");
    sequence.ids[1..4].copy_from_slice(&[5, 6, 5]);
    #[rustfmt::skip]
    let weights = [
        1.0, 0.0, 0.0, 0.0, 0.0,
        0.2, 0.3, 0.2, 0.2, 0.1,
        0.1, 0.2, 0.3, 0.2, 0.2,
        0.4, 0.1, 0.4, 0.1, 0.0,
        1.0, 0.0, 0.0, 0.0, 0.0,
    ];
    let mut counting = TokenCounter::default();
    counting.add(&sequence);
    let mut others = sentence(1, 1200, "dep");
    (0_u32..).zip(&mut others.ids).for_each(|(place, id)| *id = 10 + place % 600);
    counting.add(&others);
    // 1200 places in a row have each of the 600 kinds twice: 1203 tokens with the three.
    let grid = HeadGrid { layers: 1, heads: 1 };
    let subject = Subject::new(grid, FromToken::Mean, &|_| None);
    let mut panel = ObserverSet::new(vec![AnyStudy::passes(&Frequency)[0].make_observer(&subject)]);
    panel.begin_pass(&PassSetup { counts: Some(Arc::new(counting.finish())), ..PassSetup::default() });
    panel.begin_pack([&sequence].into_iter());
    panel.observe_head(0, &sequence, AttentionView::new(0, 0, 5, &weights).into());
    panel.end_pack();
    let observers = panel.into_observers();
    let context = EstimationContext::new(grid, NonZeroUsize::MIN);
    let (estimates, _) = AnyStudy::measure(
        &Frequency,
        &ObservedPasses(&[ObservedPass { sums: &*observers[0], left_out_sentences: 0 }]),
        &context,
    );
    let close = |of: &crate::study::metrics::metric::Values, name: &str, by_hand: f64| {
        let value = of.get(name, None).unwrap().unwrap();
        assert!((value - by_hand).abs() < 1e-6, "{name}: {value}, not {by_hand}");
    };
    let (head, chance) = (&estimates.heads[0], &estimates.chance);
    // The cat is the rarest; of the two others the last attends most to it.
    close(head, "rare_argmax", 0.5);
    close(chance, "rare_argmax", 1.0 / 3.0);
    close(head, "rare_mass", 0.6 / 2.0);
    close(chance, "rare_mass", 1.0 / 5.0);
    // Once 0.5/1203; the others, the too, are twice: (1 + 1202/2)/1203.
    let (cat, the) = (0.5 / 1203.0, 602.0 / 1203.0);
    let from_the =
        |to_cat: f64, to_the: f64| (to_cat * cat + to_the * the) / (to_cat + to_the) - f64::midpoint(cat, the);
    close(head, "frequency_shift", (from_the(0.2, 0.2) + from_the(0.4, 0.1)) / 3.0);
    close(head, "frequency_shift_rare", 0.0);
}
