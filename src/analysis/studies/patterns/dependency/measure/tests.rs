use std::num::NonZeroUsize;

use super::*;
use crate::corpus::{Annotation, Upos};
use crate::model::grid::HeadGrid;
use crate::stats::blocks::BLOCKS;
use crate::stats::interval::Interval;
use crate::studies::patterns::dependency::tags::{Cue, TagRule};
use crate::study::labels::evidence::ByDirection;

const GRID: HeadGrid = HeadGrid { layers: 1, heads: 2 };

fn relation(count: u64, hits: [[u64; 2]; 2], offsets: &[(i32, u64)]) -> RelationSums {
    let mut sums = RelationSums { count, hits: hits.to_vec(), ..RelationSums::default() };
    for (offset, hits) in offsets {
        sums.places[slot(*offset)] = *hits;
    }
    sums
}

fn slot(offset: i32) -> usize {
    baseline_offsets().position(|known| known == offset).unwrap()
}

fn obj() -> RelationKey {
    RelationKey { name: "obj".to_owned(), side: None }
}

fn measure(blocks: &[Option<&RelationSums>], agreement: &AgreementCounts) -> RelationMetrics {
    measure_with_duplicates(blocks, agreement, &DuplicateArcs::default())
}

fn measure_with_duplicates(
    blocks: &[Option<&RelationSums>],
    agreement: &AgreementCounts,
    duplicates: &DuplicateArcs,
) -> RelationMetrics {
    let blocks: Vec<_> = blocks.iter().copied().pad_using(BLOCKS, |_| None).collect();
    let context = EstimationContext { keeps_replicates: true, ..EstimationContext::new(GRID, NonZeroUsize::MIN) };
    RelationMetrics::new(&obj(), &blocks, (agreement, duplicates), &context)
}

#[test]
fn the_test_leaves_out_what_is_not_the_first_of_its_family() {
    // Of 20 words the head has 12 and the offset +1 has 10, 7 of them the same; of the 8 words that come later 5, 4 and 3.
    let sums = relation(20, [[12, 0], [0, 0]], &[(1, 10)]);
    let mut agreement = no_agreement();
    agreement.places[0][0][slot(1)] = 7;
    let mut later = DuplicateArcs { right: vec![[[0; OFFSET_CLASS_COUNT]; 2]; 2], ..DuplicateArcs::default() };
    (later.words[slot(1)], later.words[slot(-2)]) = (4, 4);
    (later.right[0][0][slot(1)], later.right[0][0][slot(-2)]) = (3, 2);
    let measured = measure_with_duplicates(&[Some(&sums)], &agreement, &later);
    let Comparison { difference, head_only, offset_only, mcnemar_p: p, .. } = measured.versus_offset;
    // Alone the head is right on 12 - 7 = 5 words and the offset on 3; of these 5 - 3 = 2 and 4 - 3 = 1 come later.
    assert_eq!((head_only, offset_only, p), (Some(3), Some(2), Some(mcnemar_p(3, 2))));
    // Everything else is of all words.
    assert_eq!((difference, measured.count), (0.1, 20));
    assert_eq!(*measured.by_head[0].where_offset_wrong.get(Direction::DependentToHead), Some(0.5));
}

fn no_agreement() -> AgreementCounts {
    let mut agreement = AgreementCounts::default();
    agreement.resize_for_heads(GRID.head_count());
    agreement
}

#[test]
fn what_is_chosen_on_one_fold_is_scored_on_the_other() {
    // On even sentences head 0 dep->head is best (8 of 10), on odd ones head 1 head->dep (6 of 10).
    let even = relation(10, [[8, 0], [1, 2]], &[(-1, 5), (1, 4)]);
    let odd = relation(10, [[3, 0], [1, 6]], &[(-1, 1), (1, 6)]);
    let measured = measure(&[Some(&even), Some(&odd)], &no_agreement());
    // On all: head 0 has 11 of 20, head 1 8 of 20.
    assert_eq!((measured.place.head, measured.direction), (0, Direction::DependentToHead));
    assert_eq!(measured.accuracy, 11.0 / 20.0);
    // Held out: head 0 scores 3 on odd, head 1 scores 2 on even.
    assert_eq!(measured.heldout_accuracy, Some(5.0 / 20.0));
    // Offsets on all: +1 has 10, -1 has 6; held out: -1 scores 1 on odd, +1 scores 4 on even.
    let expected = OffsetBaseline { offset: 1, accuracy: 0.5, heldout_accuracy: Some(0.25) };
    assert_eq!(measured.baseline, expected);
    assert_eq!(*measured.by_head[1].accuracy.get(Direction::HeadToDependent), Some(8.0 / 20.0));
    // Two blocks are too few for an interval, and ten of each kind are not: they are around the same numbers.
    assert_eq!((measured.ci95.accuracy, measured.versus_offset.ci95), (None, None));
    let measured = measure(&[Some(&even), Some(&odd)].repeat(10), &no_agreement());
    let around = |interval: Option<Interval>, score: f64, half: f64| {
        let Interval(low, high) = interval.unwrap();
        assert!(low < score && score < high && (high - low - 2.0 * half).abs() < 0.004, "{low} {high}");
    };
    // Blocks alternate by .25 around .55: SE = .25 / sqrt(19), and 2.093 of them to either side, on the scale of logits.
    around(measured.ci95.accuracy, 0.55, 0.25 / 19.0_f64.sqrt() * 2.093 * 0.98);
    around(measured.ci95.heldout_accuracy, 0.25, 0.05 / 19.0_f64.sqrt() * 2.093);
    around(measured.ci95.baseline.accuracy, 0.5, 0.1 / 19.0_f64.sqrt() * 2.093);
    around(measured.ci95.baseline.heldout_accuracy, 0.25, 0.15 / 19.0_f64.sqrt() * 2.093);
    // Head 0 less offset +1: 8 - 4 on even, 3 - 6 on odd.
    around(measured.versus_offset.ci95, 0.05, 0.35 / 19.0_f64.sqrt() * 2.093);
}

#[test]
fn one_fold_alone_cannot_be_held_out() {
    let even = relation(1, [[1, 0], [0, 0]], &[(1, 1)]);
    let measured = measure(&[Some(&even)], &no_agreement());
    assert_eq!((measured.heldout_accuracy, measured.baseline.heldout_accuracy), (None, None));
    // Nor does one block have an interval.
    assert_eq!(measured.ci95, RelationIntervals::default());
    assert_eq!(measured.versus_offset.ci95, None);
}

#[test]
fn the_words_on_which_one_alone_is_right() {
    let words = relation(20, [[12, 0], [3, 4]], &[(-2, 7), (2, 2)]);
    let mut agreement = no_agreement();
    // Head 0 shares five words with offset -2 and one with +2.
    agreement.places[0][0][slot(-2)] = 5;
    agreement.places[0][0][slot(2)] = 1;
    let Comparison { difference, head_only, offset_only, mcnemar_p: p, q, .. } =
        measure(&[Some(&words)], &agreement).versus_offset;
    assert_eq!((difference, head_only, offset_only, q), (0.25, Some(7), Some(2), None));
    // At least seven of nine: (36 + 9 + 1) / 512.
    assert!((p.unwrap() - 46.0 / 512.0).abs() < 1e-15);
}

#[test]
fn ties_between_heads_and_between_offsets() {
    let sums = relation(4, [[1, 2], [2, 2]], &[(-2, 3), (-1, 3), (1, 3)]);
    assert_eq!(best_head(&sums, None, |_| true), (0, 1));
    assert_eq!(best_head(&sums, None, |place| place == 1), (1, 0));
    assert_eq!(offset_at(best_offset_index(&sums)), 1);
    assert_eq!(offset_at(best_offset_index(&relation(4, [[0; 2]; 2], &[(-2, 3), (3, 3)]))), -2);
}

/// A cue by the UPOS of the dependent and the rule: its head is the nearest word of that UPOS on that side.
fn cue(class: Upos, tag: Upos, side: Side) -> Cue {
    let words = [class, tag].map(|upos| Annotation { upos: Some(upos), ..Annotation::default() });
    let (dependent, head) = match side {
        Side::Right => (0, 1),
        Side::Left => (1, 0),
    };
    let words = if side == Side::Left { [words[1].clone(), words[0].clone()] } else { words };
    Cue::from_arc(&words, dependent, head).unwrap()
}

#[test]
fn tags_are_chosen_by_the_word_class_of_the_dependent_and_held_out_as_offsets_are() {
    let noun_verb = cue(Upos::Noun, Upos::Verb, Side::Left);
    let noun_noun = cue(Upos::Noun, Upos::Noun, Side::Right);
    let pron_verb = cue(Upos::Pron, Upos::Verb, Side::Right);
    let tagged = |hits: u64, cues: [u64; 3]| RelationSums {
        tagged: 10,
        cues: [noun_verb, noun_noun, pron_verb].into_iter().zip(cues).filter(|(_, count)| *count > 0).collect(),
        ..relation(10, [[hits, 0], [0, 0]], &[(1, 1)])
    };
    let (even, odd) = (tagged(8, [4, 1, 2]), tagged(6, [1, 3, 0]));
    let mut agreement = no_agreement();
    // Head 0 is right where a noun's verb is on its left three times of five, where a pronoun's is once of two.
    for (cue, both) in [(noun_verb, 3), (pron_verb, 1)] {
        agreement.resize_for_cue(cue, GRID.head_count());
        agreement.cues[cue.index()][0][0] = both;
    }
    let measured = measure(&[Some(&even), Some(&odd)], &agreement);
    let tags = measured.tag_baseline.unwrap();
    // Nouns: VERB left has 5, NOUN right 4; pronouns 2: 7 of 20.
    assert_eq!(tags.accuracy, 7.0 / 20.0);
    let rule = |tag: &str, side| TagRule { tag: tag.to_owned(), side };
    let expected = [("NOUN", rule("VERB", Side::Left)), ("PRON", rule("VERB", Side::Right))];
    assert_eq!(tags.rules, expected.map(|(class, rule)| (class.to_owned(), rule)).into());
    assert_eq!(tags.single, SingleRule { rule: rule("VERB", Side::Left), accuracy: 5.0 / 20.0 });
    // Even sentences choose VERB left and VERB right, which have 1 + 0 on odd ones; odd ones choose NOUN right for nouns,
    // and know nothing of pronouns: 1 on even ones.
    assert_eq!(tags.heldout_accuracy, Some(2.0 / 20.0));
    assert_eq!(measured.ci95.tag_baseline, Some(BaselineIntervals::default()));
    // Head 0 has 14 words, 4 of them with the tags, which have 7.
    let versus = measured.versus_tags.unwrap();
    assert_eq!((versus.difference, versus.head_only, versus.tags_only), (7.0 / 20.0, 10, 3));
    // Two blocks are too few for a test.
    assert_eq!((versus.ci95, versus.standard_error, versus.p, versus.q), (None, None, None, None));
}

#[test]
fn without_tags_there_is_no_tag_baseline() {
    let measured = measure(&[Some(&relation(4, [[1, 0], [0, 0]], &[]))], &no_agreement());
    assert_eq!((&measured.tag_baseline, &measured.versus_tags), (&None, &None));
    assert!(measured.by_head.iter().all(|head| head.versus_tags == ByDirection::default()));
    assert!(measured.better_baseline_tests(0.0).is_empty());
    // A tagged word that no rule predicts is predicted wrongly.
    let tagged = RelationSums { tagged: 4, ..relation(4, [[1, 0], [0, 0]], &[]) };
    let baseline = measure(&[Some(&tagged)], &no_agreement()).tag_baseline.unwrap();
    assert_eq!((baseline.accuracy, baseline.rules.len()), (0.0, 0));
}

#[test]
fn the_test_is_against_the_better_of_both_baselines() {
    // 30 blocks of 10 words: the offset is right on 2, the tags on 4, head 0 on 6 or 8 by turns.
    let cue = cue(Upos::Noun, Upos::Verb, Side::Left);
    let blocks: Vec<RelationSums> = (0..30)
        .map(|block| RelationSums {
            tagged: 10,
            cues: [(cue, 4)].into(),
            ..relation(10, [[6 + 2 * (block % 2), 0], [0, 0]], &[(1, 2)])
        })
        .collect();
    let blocks: Vec<_> = blocks.iter().map(Some).collect();
    let mut measured = measure(&blocks, &no_agreement());
    let direction = Direction::DependentToHead;
    let of_best =
        |measured: &RelationMetrics| measured.versus_better_baseline(&measured.by_head[0], direction).unwrap().value;
    assert!((of_best(&measured) - 0.3).abs() < 1e-15);
    // 0.7 less 0.4; the standard error of the mean of 30 numbers 0.1 around it is 0.1 / sqrt(29).
    let error = measured.by_head[0].versus_tags.get(direction).as_ref().unwrap().standard_error.unwrap();
    assert!((error - 0.1 / 29.0_f64.sqrt()).abs() < 1e-12, "{error}");
    let tests = measured.better_baseline_tests(0.02);
    assert_eq!(tests.len(), 4);
    assert!(tests[0].p.unwrap() < 1e-12);
    // A head that is always exactly 0.4 below is not above.
    assert!(tests[1..].iter().all(|test| test.p == Some(1.0) && !test.is_above_margin));
    measured.baseline.accuracy = 0.5;
    assert!((of_best(&measured) - 0.5).abs() < 1e-15, "the difference from the offset");
}

#[test]
fn accuracy_by_distance_and_side() {
    let mut words = [0; OFFSET_CLASS_COUNT];
    let mut right = [0; OFFSET_CLASS_COUNT];
    for (place, count, hits) in
        [(slot(-1), 4, 1), (slot(3), 2, 1), (slot(5), 2, 2), (slot(-10), 3, 0), (OFFSET_CLASS_COUNT - 1, 5, 1)]
    {
        (words[place], right[place]) = (count, hits);
    }
    let found = accuracies_by_distance(&words, &right);
    let names: Vec<&str> = found.iter().step_by(2).map(|at| at.distance.as_str()).collect();
    assert_eq!(names, ["1", "2", "3-5", "6-10", "more"]);
    let of = |side| found.iter().filter(|at| at.side == side).map(|at| (at.count, at.accuracy)).collect::<Vec<_>>();
    assert_eq!(of(Side::Left), [(4, Some(0.25)), (0, None), (0, None), (3, Some(0.0)), (0, None)]);
    assert_eq!(of(Side::Right), [(0, None), (0, None), (4, Some(0.75)), (0, None), (5, Some(0.2))]);
}

#[test]
fn accuracy_where_the_offset_is_wrong() {
    let words = relation(20, [[12, 0], [3, 4]], &[(-2, 7)]);
    let mut agreement = no_agreement();
    agreement.places[0][0][slot(-2)] = 5;
    let measured = measure(&[Some(&words)], &agreement);
    // Head 0 has 7 of the 13 words that -2 gets wrong.
    assert_eq!(*measured.by_head[0].where_offset_wrong.get(Direction::DependentToHead), Some(7.0 / 13.0));
    let always = measure(&[Some(&relation(7, [[2, 0], [0, 0]], &[(-2, 7)]))], &no_agreement());
    assert_eq!(*always.by_head[0].where_offset_wrong.get(Direction::DependentToHead), None);
}
