//! Tests of the sums of dependency relations.

use super::*;
use crate::corpus::SentenceGroup;
use crate::model::forward::attention::AttentionView;
use crate::passes::observer::FoldBuffers;
use crate::sequences::test_support::sentence;
use crate::studies::patterns::dependency::arcs::baseline_offsets;

fn add(sums: &mut DependencySums, sentence: &Sequence, weights: &[f32]) {
    let (mut state, mut folder) = (sums.begin(sentence).unwrap(), FoldBuffers::default());
    let view = AttentionView::new(0, 0, sentence.ids.len(), weights);
    sums.observe(&mut state, &mut Event::Head(folder.head_input(sentence, view.into())));
}

/// Attention between a first token, four words and a last token. Each word but the first attends most to the word
/// before it, its syntactic head.
fn attention_to_heads() -> [f32; 36] {
    let mut weights = [0.125; 36];
    (2..5).for_each(|token| weights[token * 6 + token - 1] = 0.5);
    weights
}

fn key(name: &str) -> RelationKey {
    RelationKey { name: name.to_owned(), side: None }
}

fn empty() -> DependencySums {
    DependencySums::new(HeadGrid { layers: 1, heads: 1 }, LayerClasses::default(), FromToken::Mean)
}

#[test]
fn agreements_are_right_predictions_by_the_offset_that_is_right_too() {
    let mut sums = empty();
    add(&mut sums, &sentence(0, 4, "nsubj"), &attention_to_heads());
    let place = sums.relations[&key("nsubj")];
    let minus_one = baseline_offsets().position(|offset| offset == -1).unwrap();
    let agreement = &sums.agreements[place];
    assert_eq!(agreement.places[0][0][minus_one], 3);
    let RelationSums { hits, sentences, .. } = &sums.blocks[0][place];
    for (places, hits) in agreement.places.iter().zip(hits) {
        assert_eq!(places.map(|by_place| by_place.iter().sum::<u64>()), *hits);
    }
    assert_eq!(*sentences, 1);
}

#[test]
fn a_family_is_in_one_block_and_counts_once_as_a_sentence() {
    let mut sums = empty();
    let weights = attention_to_heads();
    let first = sentence(3, 4, "nsubj");
    let again = Sequence { index: 70, family: SentenceGroup { number: 3, is_first: false }, ..first.clone() };
    let mut both = empty();
    add(&mut sums, &first, &weights);
    add(&mut both, &again, &weights);
    both.merge(&sums);
    let (place, minus_one) =
        (both.relations[&key("nsubj")], baseline_offsets().position(|offset| offset == -1).unwrap());
    let RelationSums { count, sentences, .. } = both.blocks[3][place];
    assert_eq!((count, sentences), (6, 1));
    let later = &both.later[place];
    assert_eq!((later.words[minus_one], later.hit_counts((0, 0), minus_one)), (3, [3, 3]));
    assert_eq!(both.agreements[place].places[0][0][minus_one], 6);
    assert_eq!(sums.later[sums.relations[&key("nsubj")]], DuplicateArcs::default());
    assert!(both.fits(both.grid, both.from, &both.classes) && both.sorted_by_name().later == both.later);
}

#[test]
fn what_comes_later_is_among_all_arcs_or_does_not_fit() {
    let mut whole = empty();
    let family = SentenceGroup { number: 3, is_first: false };
    add(&mut whole, &Sequence { family, ..sentence(0, 4, "nsubj") }, &attention_to_heads());
    let place = whole.later[0].words.iter().position(|&words| words == 3).unwrap();
    let fits = |change: &dyn Fn(&mut DuplicateArcs)| {
        let mut sums = whole.clone();
        change(&mut sums.later[0]);
        sums.fits(sums.grid, sums.from, &sums.classes)
    };
    assert!(fits(&|_| {}) && fits(&|later| *later = DuplicateArcs::default()));
    // More arcs than there are, more right ones than are later, more wrong ones than there are, arcs of no head.
    assert!(!fits(&|later| later.words[place] = 4));
    assert!(!fits(&|later| later.right[0][0][place] = 4));
    assert!(!fits(&|later| later.right[0][0][place] = 2));
    assert!(!fits(&|later| later.right = Vec::new()));
}

#[test]
fn a_cue_that_there_is_not_does_not_fit() {
    let mut sums = empty();
    add(&mut sums, &sentence(0, 4, "nsubj"), &[0.1; 36]);
    let mut with_cue = |place: usize| {
        let cue = serde_json::from_value(place.into()).unwrap();
        (sums.blocks[0][0].tagged, sums.blocks[0][0].cues) = (1, [(cue, 1)].into());
        sums.fits(sums.grid, sums.from, &sums.classes)
    };
    assert!(with_cue(CUE_COUNT - 1));
    assert!(!with_cue(CUE_COUNT));
}

#[test]
fn a_part_that_is_more_than_its_whole_does_not_fit() {
    let mut whole = empty();
    // Three arcs; the head predicts some of them.
    add(&mut whole, &sentence(0, 4, "nsubj"), &[0.1; 36]);
    let fits = |change: &dyn Fn(&mut RelationSums, &mut AgreementCounts)| {
        let mut sums = whole.clone();
        change(&mut sums.blocks[0][0], &mut sums.agreements[0]);
        sums.fits(sums.grid, sums.from, &sums.classes)
    };
    assert!(fits(&|_, _| {}));
    assert!(fits(&|sums, _| (sums.sentences, sums.tagged, sums.hits[0]) = (3, 3, [3, 3])));
    assert!(!fits(&|sums, _| sums.sentences = 4));
    assert!(!fits(&|sums, _| sums.tagged = 4));
    assert!(!fits(&|sums, _| sums.places[0] += 1));
    assert!(!fits(&|sums, _| sums.hits[0][1] = 4));
    let cue = serde_json::from_value(0.into()).unwrap();
    assert!(!fits(&|sums, _| sums.cues = [(cue, 1)].into()));
    // Both are right on arcs on which each of them is.
    let place = whole.blocks[0][0].places.iter().position(|&count| count == 3).unwrap();
    let shared = |right: [u64; 2], both: u64| {
        fits(&move |sums, agreement| {
            sums.hits[0] = right;
            agreement.places[0] = Default::default();
            agreement.places[0][1][place] = both;
        })
    };
    assert!(shared([0, 2], 2) && !shared([3, 2], 3) && !shared([3, 3], 4));
    let of_cue = |right: u64, met: u64, both: u64| {
        fits(&move |sums, agreement| {
            (sums.hits[0], sums.tagged, sums.cues) = ([right; 2], 3, [(cue, met)].into());
            (agreement.places[0], agreement.cues) = (Default::default(), vec![vec![[both, 0]]]);
        })
    };
    assert!(of_cue(2, 3, 2) && !of_cue(1, 3, 2) && !of_cue(3, 1, 2));
}

#[test]
fn a_sentence_goes_to_the_block_of_its_number() {
    let mut sums = empty();
    add(&mut sums, &sentence(64 + 3, 4, "nsubj"), &[0.1; 36]);
    // Four words, three with a head.
    assert_eq!(sums.blocks[3][0].count, 3);
    assert!((0..BLOCKS).filter(|&block| block != 3).all(|block| sums.blocks[block].is_empty()));
}

#[test]
fn a_relation_is_a_key_of_partials() {
    for (side, text) in [(None, "\"=obl:of\""), (Some(Side::Left), "\"<obl:of\""), (Some(Side::Right), "\">obl:of\"")] {
        let key = RelationKey { name: "obl:of".to_owned(), side };
        assert_eq!(serde_json::to_string(&key).unwrap(), text);
        assert_eq!(serde_json::from_str::<RelationKey>(text).unwrap(), key);
    }
    assert!(serde_json::from_str::<RelationKey>("\"obl\"").is_err());
}
