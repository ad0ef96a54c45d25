use std::num::NonZeroUsize;

use itertools::Itertools;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

use super::report::Comparisons;
use super::*;
use crate::corpus::SentenceGroup;
use crate::model::forward::attention::AttentionView;
use crate::model::forward::rows::Rows;
use crate::model::forward::visitor::{HeadOutput, HeadValues, HeadView};
use crate::model::grid::visibility::LayerClasses;
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::passes::observer::{Event, FoldBuffers, Sums, new_observer};
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::sequences::test_support::sentence;
use crate::stats::blocks::Merge;
use crate::stats::interval::Interval;
use crate::studies::registry::default_policy;
use crate::study::section::Section;
use crate::study::section::{LateFact, ViewContext};
use crate::study::{AnyStudy, saved};

/// One head over one sentence: its weights, `[n, n]`, and its contexts, `[n, width]`.
struct TestHead {
    weights: Vec<f32>,
    contexts: Vec<f32>,
}

/// A head that gives `first` to the first token and the rest to the last.
fn looking(n: usize, first: f32, contexts: Vec<f32>) -> TestHead {
    let weight = |cell: usize| match cell % n {
        0 => first,
        last if last + 1 == n => 1.0 - first,
        _ => 0.0,
    };
    TestHead { weights: (0..n * n).map(weight).collect(), contexts }
}

/// Shows sentences that run side by side; `heads` are of each sentence, layer by layer.
fn show(sums: &mut SimilaritySums, pack: &[(Sequence, Vec<TestHead>)], grid: HeadGrid) {
    let mut states: Vec<_> = pack.iter().map(|(sentence, _)| sums.begin(sentence)).collect();
    for place in 0..grid.head_count() {
        let (layer, head) = grid.layer_and_head(place);
        for (state, (sentence, heads)) in states.iter_mut().zip(pack) {
            let Some(state) = state else { continue };
            let TestHead { weights, contexts } = &heads[place];
            let (n, width) = (sentence.ids.len(), contexts.len() / sentence.ids.len());
            let (contexts, bias) = (Rows::new(contexts, width), vec![0.0; width]);
            let norms = vec![1.0; n];
            // A projection that leaves contexts as they are.
            let output = HeadOutput { contexts, products: contexts, gram: &[], input_norms: &norms };
            let view = HeadView {
                values: Some(HeadValues { rows: contexts, bias: &bias }),
                output: Some(output),
                ..AttentionView::new(layer, head, n, weights).into()
            };
            sums.observe(state, &mut Event::Head(FoldBuffers::default().head_input(sentence, view)));
        }
    }
    states.iter_mut().flatten().for_each(|state| sums.observe(state, &mut Event::PackEnd));
}

fn context(grid: HeadGrid) -> EstimationContext {
    EstimationContext::new(grid, NonZeroUsize::MIN)
}

fn normal(random: &mut ChaCha8Rng, count: usize) -> Vec<f32> {
    StandardNormal.sample_iter(random).take(count).collect()
}

fn place(layer: usize, head: usize) -> HeadPlace {
    HeadPlace { layer, head }
}

const GRID: HeadGrid = HeadGrid { layers: 2, heads: 2 };

#[test]
fn distances_by_hand() {
    let grid = HeadGrid { layers: 1, heads: 2 };
    let mut sums = SimilaritySums::new(grid, &LayerClasses::default());
    let heads = |a: f32, b: f32| [a, b].map(|first| looking(3, first, vec![1.0; 3])).into_iter().collect::<Vec<_>>();
    show(&mut sums, &[(sentence(1, 1, "dep"), heads(0.36, 0.64)), (sentence(2, 1, "dep"), heads(1.0, 0.0))], grid);
    let found = Similarity::new(&sums, &context(grid));
    // 1 - (0.6 · 0.8 + 0.8 · 0.6) = 0.04, and 1.
    assert!((found.distance[1][0] - 0.52_f64.sqrt()).abs() < 1e-7, "{:?}", found.distance);
    assert_eq!((found.tokens, found.sentences, found.batches, found.cka[1][0]), (2, 2, 0, None));
    // From even attention over three tokens: 1 - (.6 + .8) / √3 and 1 - 1 / √3, which is farther than from each other.
    let from_even = (1.0 - 2.4 / 2.0 / 3.0_f64.sqrt()).sqrt();
    assert!(found.from_even.iter().all(|distance| (distance - from_even).abs() < 1e-7), "{:?}", found.from_even);
    // The cosine of equal vectors is 1.
    assert!((found.disagreement[0].output + 1.0).abs() < 1e-6);
}

/// Four heads: the second turns what the first writes, the third writes what has nothing to do with it, the fourth is the
/// first.
#[test]
fn what_is_turned_is_alike_and_what_is_independent_is_not() {
    let mut sums = SimilaritySums::new(GRID, &LayerClasses::default());
    let mut random = ChaCha8Rng::seed_from_u64(3);
    for pack in 0..64 {
        let sentences = (0..20).map(|number| {
            let sentence = sentence(20 * pack + number, 12, "dep");
            let n = sentence.ids.len();
            let (own, other) = (normal(&mut random, 2 * n), normal(&mut random, 2 * n));
            // Rotated by an angle whose cosine is 0.6, and three times as long.
            let turned: Vec<f32> =
                own.chunks_exact(2).flat_map(|v| [1.8 * v[0] - 2.4 * v[1], 2.4 * v[0] + 1.8 * v[1]]).collect();
            let shown = [own.clone(), turned, other, own].map(|contexts| looking(n, 0.25, contexts));
            (sentence, shown.into_iter().collect())
        });
        show(&mut sums, &sentences.collect::<Vec<_>>(), GRID);
    }
    let found = Similarity::new(&sums, &context(GRID));
    let near = |a: usize, b: usize, expected: f64, most: f64| {
        let cka = found.cka[a][b].unwrap();
        assert!((cka - expected).abs() < most, "{a} {b}: {cka}");
    };
    near(1, 0, 1.0, 1e-6);
    near(3, 0, 1.0, 1e-6);
    near(2, 0, 0.0, 0.01);
    // 13 batches of 18 or 19 tokens in each pack: none is left out.
    assert_eq!((found.batches, found.batched_tokens, found.tokens), (64 * 13, 64 * 240, 64 * 240));
    // All look the same.
    assert_eq!(found.distance.concat(), [0.0; 6]);
}

/// Heads whose outputs are the same all over a sentence and have nothing to do with each other are not alike: two tokens of a
/// sentence never meet.
#[test]
fn outputs_of_whole_sentences_are_not_alike_by_that() {
    let grid = HeadGrid { layers: 1, heads: 2 };
    let mut sums = SimilaritySums::new(grid, &LayerClasses::default());
    let mut random = ChaCha8Rng::seed_from_u64(5);
    for pack in 0..64 {
        let sentences = (0..20).map(|number| {
            let sentence = sentence(20 * pack + number, 5 + usize::try_from(number).unwrap(), "dep");
            let n = sentence.ids.len();
            let mut constant = || {
                let vector = normal(&mut random, 8);
                looking(n, 0.5, (0..n).flat_map(|_| vector.clone()).collect())
            };
            (sentence, vec![constant(), constant()])
        });
        show(&mut sums, &sentences.collect::<Vec<_>>(), grid);
    }
    let cka = Similarity::new(&sums, &context(grid)).cka[1][0].unwrap();
    assert!(cka.abs() < 0.03, "{cka}");
}

/// Six heads in three layers: the first two are the same in each sentence, the others look elsewhere.
fn planted() -> Similarity {
    let grid = HeadGrid { layers: 3, heads: 2 };
    let mut sums = SimilaritySums::new(grid, &LayerClasses::default());
    for index in 0..128 {
        let sentence = sentence(index, 3, "dep");
        let n = sentence.ids.len();
        let more = 0.05 * (index % 3) as f32;
        let looks = [0.1 + more, 0.1 + more, 0.5, 0.9 - more, 0.45, 0.7].map(|first| looking(n, first, vec![1.0; n]));
        show(&mut sums, &[(sentence, looks.into_iter().collect())], grid);
    }
    Similarity::new(&sums, &context(grid))
}

#[test]
fn planted_heads_are_a_cluster_at_distance_0() {
    let mut found = planted();
    assert_eq!(found.distance[1][0], 0.0);
    assert_eq!(found.closest[0].heads, [place(0, 0), place(0, 1)]);
    assert_eq!(found.closest[0].distance_ci95, Some(Interval(0.0, 0.0)));
    let cluster = found.clusters.iter().find(|cluster| cluster.heads.contains(&place(0, 0))).unwrap();
    assert_eq!(
        (&cluster.heads[..], cluster.together, cluster.kept),
        (&[place(0, 0), place(0, 1)][..], Some(1.0), true)
    );
    let grid = HeadGrid { layers: 3, heads: 2 };
    assert!(found.kept_clusters(grid).contains(&vec![0, 1]));
    assert_eq!(found.defect(grid), None);
    assert!(found.defect(HeadGrid { layers: 2, heads: 2 }).is_some());
    let labels = ["broad", "broad", "unlabelled", "unlabelled", "local", "local"].map(str::to_owned);
    found.add_late_fact(&LateFact::Labels(&labels));
    let cluster = found.clusters.iter().find(|cluster| cluster.heads.contains(&place(0, 0))).unwrap();
    assert_eq!(cluster.labels, ["broad", "broad"]);
    // Heads without a label have none in common, and pairs are of one layer.
    assert_eq!(found.same_label.distance.unwrap().pairs, 2);
    let summary = found.view(ViewContext::new(&default_policy())).summary.to_string();
    let is_on_layers = |line: &&str| line.starts_with("L0H0 L0H1") || line.contains(" of one layer");
    insta::assert_snapshot!(summary.lines().filter(is_on_layers).join("\n"), @"
    Pairs of heads of one layer, against pairs across two neighbouring layers: distance 0.139, others 0.411 (p 0.3369).
    Pairs of heads of one layer with the same first label, against the other pairs of the layer: distance 0.090, others 0.278 (p 1.0000).
    ");
    let text = serde_json::to_string(&serde_json::json!({ "similarity": found })).unwrap();
    let again = saved::read_sections(&[&HeadSimilarity], &text).unwrap().remove(0);
    assert_eq!(crate::study::section::downcast_section::<Similarity>(&*again), &found);
}

/// Two heads of each of three layers, the first two of which look alike.
#[test]
fn heads_that_share_keys_are_held_against_the_others_of_their_layer() {
    let mut section = planted();
    assert_eq!(section.same_key_value_group, None);
    // All heads of a layer share them: there are no others.
    assert_eq!(section.compare_key_value_groups(2), Some(Comparisons::default()));
    // The same heads as one layer of two groups of three: L0H0 is like L0H1 and unlike L1H0.
    let all = std::mem::take(&mut section.disagreement);
    section.disagreement = all[..1].to_vec();
    section.same_key_value_group = section.compare_key_value_groups(3);
    let found = section.same_key_value_group.as_ref().unwrap().distance.unwrap();
    let pair = |a: usize, b: usize| section.distance[a][b];
    let same = [pair(1, 0), pair(2, 0), pair(2, 1), pair(4, 3), pair(5, 3), pair(5, 4)];
    assert_eq!(found.pairs, 6);
    assert!((found.same - same.iter().sum::<f64>() / 6.0).abs() < 1e-12);
    let others: f64 = (3..6).flat_map(|a| (0..3).map(move |b| pair(a, b))).sum();
    assert!((found.others - others / 9.0).abs() < 1e-12);
    let summary = section.view(ViewContext::new(&default_policy())).summary.to_string();
    let is_on_keys = |line: &&str| line.contains("share keys and values");
    insta::assert_snapshot!(summary.lines().filter(is_on_keys).join("\n"), @"Pairs of heads of one layer that share keys and values, against the other pairs of the layer: distance 0.198, others 0.319 (p 0.2063).");
}

#[test]
fn sums_of_parts_are_those_of_the_whole() {
    let (mut whole, mut left, mut right) = (
        SimilaritySums::new(GRID, &LayerClasses::default()),
        SimilaritySums::new(GRID, &LayerClasses::default()),
        SimilaritySums::new(GRID, &LayerClasses::default()),
    );
    let mut random = ChaCha8Rng::seed_from_u64(7);
    for pack in 0..6_u64 {
        let sentences = (0..5).map(|number| {
            let sentence = sentence(5 * pack + number, 4, "dep");
            let n = sentence.ids.len();
            let looks = [0.2, 0.4, 0.6, 0.8].map(|first| looking(n, first, normal(&mut random, 3 * n)));
            (sentence, looks.into_iter().collect::<Vec<_>>())
        });
        let sentences: Vec<_> = sentences.collect();
        show(&mut whole, &sentences, GRID);
        show(if pack % 2 == 0 { &mut left } else { &mut right }, &sentences, GRID);
    }
    right.merge(&left);
    assert_eq!(right.blocks, whole.blocks);
    assert!(whole.blocks.total().batches > 0);
    assert!(
        whole.fits(GRID, FromToken::Mean, &LayerClasses::default())
            && !whole.fits(HeadGrid { layers: 4, heads: 1 }, FromToken::Mean, &LayerClasses::default())
    );
    let restored = AnyStudy::passes(&HeadSimilarity)[0].restore(&new_observer(whole).to_bytes().unwrap()).unwrap();
    assert_eq!(crate::passes::observer::expect_sums::<SimilaritySums>(&*restored).blocks, right.blocks);
}

/// A sentence that is there again is no other one: what is written there is in no batch.
#[test]
fn a_repeated_sentence_is_in_no_batch() {
    let mut sums = SimilaritySums::new(GRID, &LayerClasses::default());
    let mut random = ChaCha8Rng::seed_from_u64(9);
    let sentences = (0..8).map(|index| {
        let mut sentence = sentence(index, 2, "dep");
        if index >= 4 {
            sentence.family = SentenceGroup { number: 0, is_first: false };
        }
        let n = sentence.ids.len();
        let looks = [0.2, 0.4, 0.6, 0.8].map(|first| looking(n, first, normal(&mut random, n)));
        (sentence, looks.into_iter().collect())
    });
    show(&mut sums, &sentences.collect::<Vec<_>>(), GRID);
    let found = Similarity::new(&sums, &context(GRID));
    // Four sentences of two tokens make three batches, of 3, 3 and 2 tokens: none is large enough.
    assert_eq!((found.tokens, found.sentences, found.batches), (16, 4, 0));
}

#[test]
fn without_sentences_there_is_nothing_to_say() {
    let section = Similarity::new(&SimilaritySums::new(GRID, &LayerClasses::default()), &context(GRID));
    insta::assert_snapshot!(section.view(ViewContext::new(&default_policy())).summary.to_string(), @"No sentence had a token of text, or the model has one head: no heads were compared.");
    assert_eq!(section.defect(GRID), None);
}
