use std::num::NonZeroUsize;
use std::sync::Arc;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::corpus::{Annotation, TreeHead, Upos};
use crate::evaluation::results::Results;
use crate::model::forward::WordEmbeddings;
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

/// How much of its attention the query at a place gives each place of a sentence, but for a common factor.
type Head = fn(&Sequence, usize, usize) -> f32;

/// Sentences of 6 to 14 words with random tags, tokens and trees.
fn corpus() -> Vec<Sequence> {
    const TAGS: [Upos; 4] = [Upos::Noun, Upos::Verb, Upos::Det, Upos::Punct];
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let mut made = |index| {
        let words = rng.random_range(6..15_usize);
        let mut sequence = sentence(index, words, "dep");
        for token in 1..=words {
            sequence.ids[token] = rng.random_range(4..20);
        }
        let tag = |upos| Annotation { upos: Some(upos), ..Annotation::default() };
        sequence.annotations = (0..words).map(|_| tag(TAGS[rng.random_range(0..TAGS.len())])).collect();
        for (word, arc) in sequence.tree.iter_mut().flatten().enumerate() {
            arc.head = if word == 0 { TreeHead::Root } else { TreeHead::Word(rng.random_range(0..word)) };
        }
        sequence
    };
    (0..200).map(&mut made).collect()
}

fn embeddings() -> WordEmbeddings {
    let mut rng = ChaCha8Rng::seed_from_u64(6);
    WordEmbeddings::new(Arc::new((0..200).map(|_| rng.random_range(-1.0..1.0)).collect()), 10)
}

/// The explained shares of heads, over a corpus.
fn explained(corpus: &[Sequence], heads: &[Head]) -> (Estimates, Box<dyn Section>) {
    observed(corpus, heads, |passes, context| AnyStudy::measure(&ExplainedVariance, &ObservedPasses(&passes), context))
}

/// The labels of heads, over a corpus.
fn labels(corpus: &[Sequence], heads: &[Head]) -> Vec<Vec<(String, bool)>> {
    let policy = default_policy();
    let verdicts = observed(corpus, heads, |passes, context| {
        let study = find_study("explained-variance").unwrap();
        Results::new(&[(study, passes)], context, &policy).verdicts(&policy)
    });
    let labels = verdicts.into_iter().map(|verdict| verdict.labels.into_iter());
    labels.map(|labels| labels.map(|label| (label.label, label.borderline)).collect()).collect()
}

/// Measures heads over a corpus, packed three by three.
fn observed<T>(
    corpus: &[Sequence],
    heads: &[Head],
    measure: impl Fn(Vec<ObservedPass<'_>>, &EstimationContext) -> T,
) -> T {
    let mut counting = TokenCounter::default();
    corpus.iter().for_each(|sequence| counting.add(sequence));
    let grid = HeadGrid { layers: 1, heads: heads.len() };
    let subject = Subject::new(grid, FromToken::Mean, &|_| None);
    let mut panel = ObserverSet::new(vec![AnyStudy::passes(&ExplainedVariance)[0].make_observer(&subject)]);
    let counts = Some(Arc::new(counting.finish()));
    panel.begin_pass(&PassSetup { embeddings: Some(embeddings()), counts, ..PassSetup::default() });
    for pack in corpus.chunks(3) {
        panel.begin_pack(pack.iter());
        let shown = pack.iter().enumerate().flat_map(|(number, sequence)| {
            heads.iter().enumerate().map(move |(head, wanted)| (number, sequence, head, wanted))
        });
        for (number, sequence, head, wanted) in shown {
            let n = sequence.ids.len();
            let mut weights: Vec<f32> = (0..n * n).map(|cell| wanted(sequence, cell / n, cell % n)).collect();
            for row in weights.chunks_exact_mut(n) {
                let sum: f32 = row.iter().sum();
                row.iter_mut().for_each(|weight| *weight /= sum);
            }
            panel.observe_head(number, sequence, AttentionView::new(0, head, n, &weights).into());
        }
        panel.end_pack();
    }
    let observers = panel.into_observers();
    let context = EstimationContext::new(grid, NonZeroUsize::MIN);
    measure(vec![ObservedPass { sums: &*observers[0], left_out_sentences: 0 }], &context)
}

/// A row without any preference has nothing to explain, so each head here has a little noise.
fn noise(sequence: &Sequence, query: usize, key: usize) -> f32 {
    let mixed = (sequence.index * 7919 + (query * 31 + key) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    0.01 * mixed as f32 / (1_u64 << 24) as f32
}

fn is_text(sequence: &Sequence, key: usize) -> bool {
    !sequence.kinds[key].is_special()
}

#[test]
fn a_head_of_one_cue_is_explained_by_its_group() {
    let heads: [Head; 6] = [
        |sequence, query, key| {
            noise(sequence, query, key) + if is_text(sequence, key) && key + 1 == query { 1.0 } else { 0.1 }
        },
        |sequence, query, key| noise(sequence, query, key) + if key == 0 { 1.0 } else { 0.1 },
        |sequence, query, key| {
            let same = is_text(sequence, key) && key != query && sequence.ids[key] == sequence.ids[query];
            noise(sequence, query, key) + if same { 1.0 } else { 0.1 }
        },
        |sequence, query, key| {
            let noun = is_text(sequence, key) && sequence.annotations[key - 1].upos == Some(Upos::Noun);
            noise(sequence, query, key) + if noun { 1.0 } else { 0.1 }
        },
        |sequence, query, key| {
            let head = is_text(sequence, query)
                && is_text(sequence, key)
                && sequence.tree.as_ref().unwrap()[query - 1].head == TreeHead::Word(key - 1);
            noise(sequence, query, key) + if head { 1.0 } else { 0.1 }
        },
        |sequence, query, key| noise(sequence, query, key),
    ];
    let (estimates, _) = explained(&corpus(), &heads);
    let of = |head: usize, metric: &str, key: &str| estimates.heads[head].get(metric, Some(key)).unwrap().unwrap();
    for (head, group) in ["position", "sinks", "identity", "classes", "syntax"].into_iter().enumerate() {
        let most = |metric: &str| {
            let value = |group: &&super::cues::CueGroup| of(head, metric, group.name);
            CUE_GROUPS.iter().max_by(|a, b| value(a).total_cmp(&value(b))).unwrap().name
        };
        assert_eq!([most("explained_alone"), most("explained_unique")], [group; 2]);
        // Not all: the more words of a class there are, the less each of them has.
        let shares = ["explained_alone", "explained_unique"].map(|metric| of(head, metric, group));
        assert!(shares.iter().all(|share| *share > 0.5), "{group} {shares:?}");
        // Attention to the first special token is not in this form.
        assert!(group == "sinks" || of(head, "explained_text_alone", group) > 0.5, "{group}");
        let all = of(head, "explained_all", "all-keys");
        for other in CUE_GROUPS {
            let (alone, unique) = (of(head, "explained_alone", other.name), of(head, "explained_unique", other.name));
            // What a few cues fit by accident of some 20,000 cells is a thousandth or two.
            assert!(unique <= all + 5e-3 && alone <= all + 5e-3 && unique > -5e-3, "{group} {}", other.name);
        }
    }
    // Random attention is not explained: cues that fit some of it by chance do not fit the rest.
    for form in ["all-keys", "text"] {
        assert_eq!(*estimates.chance.get("explained_all", Some(form)).unwrap(), Some(0.0));
        let random = of(5, "explained_all", form);
        assert!((-0.02..0.01).contains(&random), "{form} {random}");
        assert!(estimates.ci95[0].get("explained_all", Some(form)).unwrap().unwrap().low() > 0.5);
        assert!(estimates.standard_errors[0].get("explained_all", Some(form)).unwrap().unwrap() < 0.02);
    }
}

#[test]
fn what_the_corpus_lacks_is_no_cue() {
    let plain: Vec<Sequence> = corpus()
        .into_iter()
        .map(|sequence| Sequence { tree: None, annotations: Vec::new(), words: Vec::new(), ..sequence })
        .collect();
    let heads: [Head; 1] = [|sequence, query, key| noise(sequence, query, key) + if key < query { 1.0 } else { 0.1 }];
    let (estimates, section) = explained(&plain, &heads);
    let of = |metric: &str, key: &str| *estimates.heads[0].get(metric, Some(key)).unwrap();
    for missing in ["classes", "syntax"] {
        assert_eq!([of("explained_alone", missing), of("explained_unique", missing)], [None; 2]);
        assert_eq!(of("explained_text_unique", missing), None);
    }
    assert!(of("explained_alone", "sinks").is_some() && of("explained_text_alone", "sinks").is_none());
    let shown = serde_json::to_value(AnyStudy::entries(&ExplainedVariance, &*section)[0].1).unwrap();
    let cues = shown["text"]["cues"].as_array().unwrap();
    assert!(cues.iter().all(|cue| !cue.as_str().unwrap().starts_with("upos")));
    assert!(cues.iter().any(|cue| cue == "commonness") && cues.iter().any(|cue| cue == "cosine"));
}

#[test]
fn a_head_without_attention_to_vary_has_no_share() {
    let heads: [Head; 1] = [|_, _, _| 1.0];
    let (estimates, _) = explained(&corpus(), &heads);
    assert!(estimates.heads[0].cells().all(|(_, share)| share.is_none()));
    assert!(estimates.chance.get("explained_all", Some("text")).unwrap().is_some());
}

/// Sentences of random tokens: 10 words long, or as many as `words` draws.
fn aligned(words: impl Fn(&mut ChaCha8Rng) -> usize) -> Vec<Sequence> {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let mut made = |index| {
        let mut sequence = sentence(index, words(&mut rng), "dep");
        sequence.ids.iter_mut().for_each(|id| *id = rng.random_range(4..20));
        sequence
    };
    (0..200).map(&mut made).collect()
}

#[test]
fn heads_that_look_at_fixed_places_have_a_label() {
    let heads: [Head; 5] = [
        // From each place to one place, whatever stands there.
        |sequence, query, key| {
            noise(sequence, query, key) + if is_text(sequence, key) && key == 7 * query % 10 + 1 { 1.0 } else { 0.1 }
        },
        // To the next token, which is a fixed place for every query, and an offset.
        |sequence, query, key| {
            noise(sequence, query, key) + if is_text(sequence, key) && key == query + 1 { 1.0 } else { 0.1 }
        },
        // To tokens of some kinds.
        |sequence, query, key| {
            let wanted = is_text(sequence, key) && sequence.ids[key] < 8;
            noise(sequence, query, key) + if wanted { 1.0 } else { 0.1 }
        },
        // To a place in every other sentence only.
        |sequence, query, key| {
            let wanted = is_text(sequence, key) && key == 7 * query % 10 + 1 && sequence.index % 3 == 0;
            noise(sequence, query, key) + if wanted { 1.0 } else { 0.1 }
        },
        |sequence, query, key| noise(sequence, query, key),
    ];
    let corpus = aligned(|_| 10);
    let expected = [vec![("place".to_owned(), false)], vec![], vec![], vec![], vec![]];
    assert_eq!(labels(&corpus, &heads), expected);
    let (estimates, _) = explained(&corpus, &heads);
    let of = |head: usize, metric: &str| estimates.heads[head].get(metric, None).unwrap().unwrap();
    let by_place = [0, 1, 2, 4].map(|head| of(head, "explained_by_place"));
    assert!(
        by_place[0] > 0.95 && by_place[1] > 0.95 && by_place[2..].iter().all(|share| share.abs() < 0.05),
        "{by_place:?}"
    );
    let over_offsets = [0, 1, 2].map(|head| of(head, "explained_by_place_over_offsets"));
    assert!(over_offsets[0] > 0.5 && over_offsets[1..].iter().all(|share| share.abs() < 0.05), "{over_offsets:?}");
    // Of sentences of unlike lengths places say nothing.
    let uneven = aligned(|rng| rng.random_range(6..30));
    assert_eq!(labels(&uneven, &heads), vec![vec![]; heads.len()]);
    assert_eq!(explained(&uneven, &heads).0.heads[0].get("explained_by_place", None), Some(&None));
}
