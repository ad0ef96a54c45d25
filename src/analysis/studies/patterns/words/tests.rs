use std::num::NonZeroUsize;
use std::sync::Arc;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::corpus::{Annotation, Upos};
use crate::evaluation::results::Results;
use crate::model::forward::WordEmbeddings;
use crate::model::forward::attention::AttentionView;
use crate::model::grid::HeadGrid;
use crate::passes::observer::set::ObserverSet;
use crate::passes::setup::PassSetup;
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::{Sequence, TokenKind};
use crate::sequences::test_support::sentence;
use crate::studies::registry::{default_policy, find_study};
use crate::study::AnyStudy;
use crate::study::ObservedPass;
use crate::study::Subject;

/// A head: how much the query at a place wants each place of a sentence. The rest of its attention is on the first
/// special token.
pub(super) type Head = fn(&Sequence, usize, usize) -> f32;

/// The UPOS of a token of text in a sentence of words of one token.
fn tag(sequence: &Sequence, token: usize) -> Option<Upos> {
    sequence.annotations.get(token.checked_sub(1)?)?.upos
}

/// Embeddings point in one of four directions, each a little aside: likeness has nothing to do with a token's number.
const DIRECTIONS: u32 = 4;

fn embeddings() -> WordEmbeddings {
    let row = |id: u32| {
        let mut row = [0.0_f32; 5];
        row[(id % DIRECTIONS) as usize] = 1.0;
        row[4] = 0.1 * (id / DIRECTIONS) as f32;
        row
    };
    WordEmbeddings::new(Arc::new((0..40).flat_map(row).collect()), 5)
}

/// A sentence whose words have these tags and ids.
pub(super) fn tagged(index: u64, tags: &[Option<Upos>], ids: &[u32]) -> Sequence {
    let mut sequence = sentence(index, tags.len(), "dep");
    sequence.annotations = tags.iter().map(|&upos| Annotation { upos, ..Annotation::default() }).collect();
    sequence.ids[1..=ids.len()].copy_from_slice(ids);
    sequence
}

/// Words with tags and tokens that have nothing to do with each other, or with their places.
pub(super) fn random() -> Vec<Sequence> {
    const TAGS: [Upos; 5] = [Upos::Noun, Upos::Verb, Upos::Det, Upos::Adj, Upos::Punct];
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let sentence = |index| {
        let length = rng.random_range(8..16);
        let tags: Vec<_> = (0..length).map(|_| Some(TAGS[rng.random_range(0..TAGS.len())])).collect();
        let ids: Vec<u32> = (0..length).map(|_| rng.random_range(4..24)).collect();
        tagged(index, &tags, &ids)
    };
    (0..300).map(sentence).collect()
}

/// The labels of heads over a corpus.
fn labels(corpus: &[Sequence], heads: &[Head]) -> Vec<Vec<String>> {
    let policy = default_policy();
    let names = |verdict: crate::study::labels::Verdict| verdict.labels.into_iter().map(|label| label.label).collect();
    results(find_study("words").unwrap(), corpus, heads).verdicts(&policy).into_iter().map(names).collect()
}

/// The results of a study of words, of heads over a corpus.
pub(super) fn results(study: &'static dyn AnyStudy, corpus: &[Sequence], heads: &[Head]) -> Results {
    let grid = HeadGrid { layers: 1, heads: heads.len() };
    let subject = Subject::new(grid, FromToken::Mean, &|_| None);
    let mut panel = ObserverSet::new(vec![study.passes()[0].make_observer(&subject)]);
    panel.begin_pass(&PassSetup { embeddings: Some(embeddings()), ..PassSetup::default() });
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
    Results::new(&[(study, seen)], &context, &default_policy())
}

/// `share` of the attention of a query on the other tokens of text of which `wanted` is true, none if there are none.
pub(super) fn on(sequence: &Sequence, query: usize, key: usize, share: f32, wanted: impl Fn(usize) -> bool) -> f32 {
    let text = 1..sequence.ids.len() - 1;
    let is_wanted = |place: &usize| *place != query && wanted(*place);
    if !text.contains(&key) || !is_wanted(&key) {
        return 0.0;
    }
    share / text.filter(is_wanted).count() as f32
}

/// The share of all other tokens of text that a head without any preference leaves them.
pub(super) fn evenly(sequence: &Sequence, query: usize, key: usize, share: f32) -> f32 {
    on(sequence, query, key, share, |_| true)
}

#[test]
fn planted_heads_have_their_labels_and_no_others() {
    let heads: [Head; 8] = [
        |sequence, query, key| on(sequence, query, key, 0.6, |place| tag(sequence, place) == Some(Upos::Noun)),
        |sequence, query, key| on(sequence, query, key, 0.6, |place| tag(sequence, place) == tag(sequence, query)),
        |sequence, query, key| {
            let (ids, id) = (&sequence.ids, sequence.ids[query]);
            on(sequence, query, key, 0.6, |place| ids[place] % DIRECTIONS == id % DIRECTIONS && ids[place] != id)
        },
        |sequence, query, key| on(sequence, query, key, 0.6, |place| sequence.ids[place] == sequence.ids[query]),
        // Near misses: no preference at all; the word before; punctuation, which has another label; and nouns, but hardly.
        |sequence, query, key| evenly(sequence, query, key, 0.9),
        |sequence, query, key| on(sequence, query, key, 0.9, |place| place + 1 == query),
        |sequence, query, key| on(sequence, query, key, 0.6, |place| tag(sequence, place) == Some(Upos::Punct)),
        |sequence, query, key| {
            let nouns = on(sequence, query, key, 0.08, |place| tag(sequence, place) == Some(Upos::Noun));
            nouns + evenly(sequence, query, key, 0.8)
        },
    ];
    let found = labels(&random(), &heads);
    let expected: [&[&str]; 8] =
        [&["tag:NOUN"], &["same-tag"], &["similar-words"], &["same-token"], &[], &[], &[], &[]];
    assert_eq!(found, expected);
}

#[test]
fn what_a_fixed_offset_finds_is_no_preference_for_words() {
    // DET NOUN VERB DET NOUN VERB ..., from any of the three on: three words on there is the same tag, and the token.
    const TAGS: [Upos; 3] = [Upos::Det, Upos::Noun, Upos::Verb];
    let sentence = |index: u64| {
        let words = (index..index + 9 + index % 5).map(|word| usize::try_from(word % 3).unwrap());
        let (tags, ids): (Vec<_>, Vec<_>) = words.map(|word| (Some(TAGS[word]), [8, 11, 14][word])).unzip();
        tagged(index, &tags, &ids)
    };
    let corpus: Vec<Sequence> = (0..300).map(sentence).collect();
    let heads: [Head; 3] = [
        |sequence, query, key| on(sequence, query, key, 0.9, |place| place == query + 3),
        |sequence, query, key| on(sequence, query, key, 0.9, |place| tag(sequence, place) == tag(sequence, query)),
        |sequence, query, key| on(sequence, query, key, 0.9, |place| tag(sequence, place) == Some(Upos::Noun)),
    ];
    let found = labels(&corpus, &heads);
    // Attention to the same tag at any distance equals a preference for 3, 6, 9, ... where tags have a period.
    assert_eq!(found[0], [""; 0]);
    assert_eq!(found[1], [""; 0]);
    // Nouns are at any offset of some query.
    assert_eq!(found[2], ["tag:NOUN"]);
}

#[test]
fn a_corpus_without_tags_has_no_metrics_of_them() {
    let untagged: Vec<Sequence> =
        random().into_iter().map(|sequence| Sequence { annotations: Vec::new(), ..sequence }).collect();
    let heads: [Head; 1] =
        [|sequence, query, key| on(sequence, query, key, 0.6, |place| sequence.ids[place] == sequence.ids[query])];
    assert_eq!(labels(&untagged, &heads), [["same-token"]]);
    let grid = HeadGrid { layers: 1, heads: 1 };
    let subject = Subject::new(grid, FromToken::Mean, &|_| None);
    let (observer, context) =
        (AnyStudy::passes(&Words)[0].make_observer(&subject), EstimationContext::new(grid, NonZeroUsize::MIN));
    let (estimates, section) = AnyStudy::measure(
        &Words,
        &ObservedPasses(&[ObservedPass { sums: &*observer, left_out_sentences: 0 }]),
        &context,
    );
    assert!(estimates.heads[0].cells().all(|(_, value)| value.is_none()));
    insta::assert_snapshot!(section.view(ViewContext::new(&default_policy())).summary.to_string(), @"No word has a part of speech (UPOS): no label of word classes was tested.");
}

/// `[CLS] a b a , [SEP]`, tags NOUN VERB NOUN and none.
#[test]
fn masses_by_hand() {
    let (noun, verb) = (Some(Upos::Noun), Some(Upos::Verb));
    let mut sequence = tagged(0, &[noun, verb, noun, None], &[5, 6, 5, 7]);
    sequence.kinds[4] = TokenKind::Punctuation;
    #[rustfmt::skip]
    let weights = [
        0.5, 0.1, 0.1, 0.1, 0.1, 0.1,
        0.1, 0.2, 0.1, 0.3, 0.2, 0.1,
        0.1, 0.3, 0.2, 0.1, 0.2, 0.1,
        0.0, 0.4, 0.2, 0.1, 0.2, 0.1,
        0.1, 0.1, 0.2, 0.3, 0.2, 0.1,
        0.5, 0.1, 0.1, 0.1, 0.1, 0.1,
    ];
    let grid = HeadGrid { layers: 1, heads: 1 };
    let subject = Subject::new(grid, FromToken::Mean, &|_| None);
    let mut panel = ObserverSet::new(vec![AnyStudy::passes(&Words)[0].make_observer(&subject)]);
    // The cosines of a: 0 with b, 1 with the comma; of b: 0 and 0.
    let rows = [[0.0_f32; 2], [0.0; 2], [0.0; 2], [0.0; 2], [0.0; 2], [1.0, 0.0], [0.0, 1.0], [2.0, 0.0]];
    let embeddings = Some(WordEmbeddings::new(Arc::new(rows.concat()), 2));
    panel.begin_pass(&PassSetup { embeddings, ..PassSetup::default() });
    panel.begin_pack([&sequence].into_iter());
    panel.observe_head(0, &sequence, AttentionView::new(0, 0, 6, &weights).into());
    panel.end_pack();
    let observers = panel.into_observers();
    let context = EstimationContext::new(grid, NonZeroUsize::MIN);
    let (estimates, _) = AnyStudy::measure(
        &Words,
        &ObservedPasses(&[ObservedPass { sums: &*observers[0], left_out_sentences: 0 }]),
        &context,
    );
    let close = |metrics: &crate::study::metrics::metric::Values, name: &str, key: Option<&str>, by_hand: f64| {
        let value = metrics.get(name, key).unwrap().unwrap();
        assert!((value - by_hand).abs() < 1e-6, "{name} {key:?}: {value}, not {by_hand}");
    };
    let (head, chance) = (&estimates.heads[0], &estimates.chance);
    // To nouns: 0.3, 0.3 + 0.1, 0.4, 0.1 + 0.3 of four words; to the verb 0.1, 0.2 and 0.2.
    close(head, "tag_mass", Some("NOUN"), 1.5 / 4.0);
    close(head, "tag_mass", Some("VERB"), 0.5 / 4.0);
    assert_eq!(head.get("tag_mass", Some("ADJ")), Some(&None));
    // Two nouns get 1/6 from each of three others.
    close(chance, "tag_mass", Some("NOUN"), 6.0 / 6.0 / 4.0);
    close(head, "same_tag_mass", None, 0.7 / 2.0);
    close(chance, "same_tag_mass", None, 1.0 / 6.0);
    close(head, "same_token_mass", None, 0.7 / 2.0);
    close(head, "same_word_token_mass", None, 0.7 / 2.0);
    // a has two keys with another id and b's three all have cosine 0: only the comma has three that differ, a, b and a
    // with 1, 0 and 1, standardised 1/sqrt(2), -sqrt(2) and 1/sqrt(2).
    let z = [0.5_f64.sqrt(), -(2.0_f64.sqrt()), 0.5_f64.sqrt()];
    close(head, "similarity_gain", None, (0.1 * z[0] + 0.2 * z[1] + 0.3 * z[2]) / 0.6);
    close(chance, "similarity_gain", None, 0.0);
    // The comma has one key in each of the bins -3, -2 and -1.
    close(head, "similarity_gain_expected", None, (0.1 * z[0] + 0.2 * z[1] + 0.3 * z[2]) / 0.6);
    let (rest, at_least) = (&estimates.denominators, |name| estimates.denominators.get(name, None).unwrap().count);
    assert_eq!((at_least("same_tag_mass"), at_least("same_token_mass"), at_least("similarity_gain")), (2, 2, 1));
    assert_eq!(rest.get("tag_mass", Some("NOUN")).unwrap().count, 4);
}
