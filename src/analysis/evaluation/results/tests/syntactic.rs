//! Syntactic labels: their baselines, tests and reach.

use std::collections::BTreeMap;

use super::{
    ARGMAX_PREVIOUS, HeadMetrics, MASS_PREVIOUS, Policy, Value, by_voita2019, default_policy, presets, verdict,
    verdict_by,
};
use crate::model::grid::HeadPlace;
use crate::stats::interval::Interval;
use crate::stats::significance::mcnemar_p;
use crate::studies::patterns::dependency::tags::{Side, TagRule};
use crate::studies::patterns::dependency::{
    HeadAccuracy, OffsetBaseline, RelationIntervals, RelationMetrics, SingleRule, TagBaseline,
};
use crate::study::labels::evidence::{ByDirection, Comparison, Direction, Reach, Specificity, TagComparison};
use crate::study::metrics::metric::Denominator;

/// A relation of `count` words whose best offset has `baseline` hits and whose one head has `hits`, `both` of them
/// where the offset is right too; the interval of the difference is half a tenth to either side.
fn relation(count: u64, baseline: u64, hits: [u64; 2], both: [u64; 2]) -> RelationMetrics {
    let share = |hits: u64| hits as f64 / count as f64;
    let comparison = |direction: usize| {
        let difference = share(hits[direction]) - share(baseline);
        let (head_only, offset_only) = (hits[direction] - both[direction], baseline - both[direction]);
        let ci95 = Some(Interval(difference - 0.05, difference + 0.05));
        let mcnemar_p = Some(mcnemar_p(head_only, offset_only));
        let [head_only, offset_only] = [head_only, offset_only].map(Some);
        Comparison { head_only, offset_only, mcnemar_p, ..Comparison::from_difference(difference, ci95) }
    };
    let accuracy = ByDirection::new(|direction| Some(share(hits[direction])));
    let versus_offset = ByDirection::new(|direction| Some(comparison(direction)));
    RelationMetrics {
        relation: "obj".to_owned(),
        side: None,
        share: None,
        count,
        sentences: Some(count),
        blocks: 64,
        effective_blocks: 64.0,
        with_others: Denominator { count, sentences: count, blocks: 64, effective_blocks: 64.0 },
        place: HeadPlace { layer: 0, head: 0 },
        direction: Direction::DependentToHead,
        accuracy: share(hits[0]),
        heldout_accuracy: None,
        baseline: OffsetBaseline { offset: 1, accuracy: share(baseline), heldout_accuracy: None },
        tag_baseline: None,
        ci95: RelationIntervals::default(),
        versus_offset: comparison(0),
        versus_tags: None,
        by_distance: Vec::new(),
        by_head: vec![HeadAccuracy {
            place: HeadPlace { layer: 0, head: 0 },
            accuracy,
            ci95: ByDirection::default(),
            where_offset_wrong: ByDirection::default(),
            to_special: ByDirection::default(),
            versus_offset,
            versus_tags: ByDirection::default(),
            specific: ByDirection::default(),
            left_out: ByDirection::default(),
        }],
    }
}

/// Sets the standard error of the head's lead over the offset, the dependent being the query.
fn set_error(relation: &mut RelationMetrics, standard_error: Option<f64>) {
    let versus = relation.by_head[0].versus_offset.dependent_to_head.as_mut();
    versus.expect("both directions are seen").standard_error = standard_error;
}

/// The labels of a head whose hits overlap the baseline's hits as much as they can.
fn syntactic(count: u64, baseline: u64, hits: [u64; 2]) -> Vec<String> {
    let relation = relation(count, baseline, hits, hits.map(|hits| hits.min(baseline)));
    verdict(&[], vec![relation]).labels.into_iter().map(|label| label.label).collect()
}

#[test]
fn a_syntactic_label_is_ten_points_above_the_offset_with_enough_words() {
    assert_eq!(syntactic(100, 30, [40, 0]), ["syntactic:obj"]);
    assert_eq!(syntactic(100, 30, [0, 40]), ["syntactic:obj"]);
    assert_eq!(syntactic(100, 30, [39, 39]), [""; 0]);
    assert_eq!(syntactic(99, 0, [99, 0]), [""; 0]);
    // 76/210 is 55/210 + 0.1 exactly, though not in f64.
    assert_eq!(syntactic(210, 55, [76, 0]), ["syntactic:obj"]);
}

#[test]
fn words_of_a_relation_have_a_threshold_of_their_own_and_sentences_count() {
    let syntactic = |sentences| {
        let relation = RelationMetrics { sentences, ..relation(100, 30, [60, 0], [30, 0]) };
        verdict(&[], vec![relation]).labels.len()
    };
    assert_eq!([Some(30), Some(29), None].map(syntactic), [1, 0, 1]);
}

#[test]
fn a_syntactic_label_is_significant() {
    let labels = |both| verdict(&[], vec![relation(100, 30, [40, 0], [both, 0])]).labels;
    // Words that one side alone finds are described, and decide nothing: ten against none is 2^-10.
    let label = labels(30).remove(0);
    assert_eq!(label.rule, "accuracy(obj, dep->head) >= 0.4");
    let Comparison { head_only, offset_only, mcnemar_p, p, q, .. } = label.versus_offset.unwrap();
    assert_eq!((head_only, offset_only, p, q), (Some(10), Some(0), None, None));
    assert!((mcnemar_p.unwrap() * 1024.0 - 1.0).abs() < 1e-12);
    assert!(label.borderline && labels(0)[0].borderline);
    // 0.2 is two standard errors above the margin of 0.1: p = .024908 with 63 degrees of freedom, twice that is the only
    // test of an estimate above it.
    let mut tested = relation(100, 30, [50, 0], [30, 0]);
    set_error(&mut tested, Some(0.05));
    let label = verdict(&[], vec![tested]).labels.remove(0);
    let [p, q] = [label.test.p, label.test.q].map(Option::unwrap);
    assert!((p - 0.024_908).abs() < 1e-6 && (q - 2.0 * p).abs() < 1e-12 && !label.borderline, "{p} {q}");
    assert_eq!((label.versus_offset.as_ref().unwrap().p, label.versus_offset.unwrap().q), (Some(p), Some(q)));
}

#[test]
fn without_a_bound_on_q_a_syntactic_label_is_ten_points() {
    // No block tells how much it varies: no test, as above.
    let label = by_voita2019(&[], vec![relation(100, 30, [40, 0], [0, 0])]).labels.remove(0);
    assert_eq!((label.label.as_str(), label.rule.as_str()), ("syntactic:obj", "accuracy(obj, dep->head) >= 0.4"));
    assert!(label.borderline);
    // One and a half standard errors above 0.1 are too few for 2.5 %, and two are not: the interval is above it.
    for (error, borderline) in [(0.1 / 1.5, true), (0.049, false)] {
        let mut tested = relation(100, 30, [50, 0], [30, 0]);
        set_error(&mut tested, Some(error));
        assert_eq!(by_voita2019(&[], vec![tested]).labels[0].borderline, borderline);
    }
    let short = by_voita2019(&[], vec![relation(100, 30, [39, 0], [30, 0])]);
    assert_eq!((short.labels, short.nearest[0].label.as_str()), (Vec::new(), "syntactic:obj"));
    assert_eq!(short.nearest[0].rule, "accuracy(obj, dep->head) >= 0.4");
}

#[test]
fn a_rule_that_no_score_can_meet_is_not_near() {
    let near = |policy: &Policy, metrics: HeadMetrics<'_>, baseline: u64| {
        let verdict = verdict_by(policy, metrics, &[], vec![relation(100, baseline, [40, 0], [30, 0])]);
        assert_eq!(verdict.labels, []);
        verdict.nearest.into_iter().map(|near| near.rule).collect::<Vec<_>>()
    };
    // 0.95 and 0.1 come to more than any accuracy; 0.9 and 0.1 do not.
    assert_eq!(near(&default_policy(), &[], 95), [""; 0]);
    assert_eq!(near(&default_policy(), &[], 90), ["accuracy(obj, dep->head) >= 1"]);
    let kovaleva2019 = presets::policy(&[presets::find_preset("kovaleva2019").unwrap()]);
    assert_eq!(near(&kovaleva2019, &[], 30), [""; 0]);
    // No mass is above 1, so of the two rules of the label the one that is farther off is the nearest.
    let policy =
        default_policy().with_values([("offset_mass", Value::Share(1.0)), ("syntactic_margin", Value::Share(1.0))]);
    let metrics = [(ARGMAX_PREVIOUS, 0.1), (MASS_PREVIOUS, 0.99)];
    assert_eq!(near(&policy, &metrics, 30), ["offset_argmax[-1] >= 0.9"]);
}

#[test]
fn a_baseline_near_one_leaves_no_room_for_a_label() {
    assert_eq!(syntactic(100, 95, [100, 0]), [""; 0]);
    assert_eq!(syntactic(100, 90, [100, 0]), ["syntactic:obj"]);
}

/// The relation with tags that are right on `tags` of its words, and the best head's lead over them in this interval.
fn tagged(tags: u64, ci95: Interval, standard_error: f64) -> RelationMetrics {
    let mut relation = relation(100, 30, [60, 0], [30, 0]);
    let accuracy = tags as f64 / 100.0;
    let single = SingleRule { rule: TagRule { tag: "VERB".to_owned(), side: Side::Left }, accuracy };
    relation.tag_baseline = Some(TagBaseline { accuracy, heldout_accuracy: None, rules: BTreeMap::new(), single });
    let comparison = |hits: f64| TagComparison {
        difference: hits - accuracy,
        ci95: Some(ci95),
        standard_error: Some(standard_error),
        head_only: 0,
        tags_only: 0,
        lead: 0.0,
        lead_ci95: None,
        p: None,
        q: None,
    };
    let specific = Specificity { difference: 0.4, ci95: None, standard_error: Some(0.05), p: None, q: None };
    relation.by_head[0].specific = ByDirection::new(|_| Some(specific.clone()));
    relation.by_head[0].versus_tags =
        ByDirection { dependent_to_head: Some(comparison(0.6)), head_to_dependent: Some(comparison(0.0)) };
    relation
}

#[test]
fn a_syntactic_label_reaches_beyond_tags_if_the_head_is_surely_above_both_baselines() {
    let reach = |relation: RelationMetrics| {
        let label = verdict(&[], vec![relation]).labels.remove(0);
        (label.beyond.unwrap(), label.versus_tags.unwrap())
    };
    // 0.6 against 0.4, and two points less: 0.18 at 0.05 is t = 3.6 with 63 degrees of freedom, p = 0.000315. The other
    // direction is not above.
    let (found, versus) = reach(tagged(40, Interval(0.1, 0.3), 0.05));
    assert_eq!(found, Reach::Tags);
    assert!((versus.p.unwrap() - 0.000_315).abs() < 2e-6, "{:?}", versus.p);
    assert!((versus.q.unwrap() / versus.p.unwrap() - 2.0).abs() < 1e-9);
    // The test does not show it.
    assert_eq!(reach(tagged(40, Interval(0.1, 0.3), 0.1)).0, Reach::Relation);
    // The lead over the offset decides if that is the better baseline: its interval is 0.25 to 0.35.
    let mut worse = tagged(20, Interval(0.0, 0.3), 9.0);
    set_error(&mut worse, Some(0.01));
    assert_eq!(reach(worse.clone()).0, Reach::Tags);
    set_error(&mut worse, None);
    assert_eq!(reach(worse).0, Reach::Relation);
    // Too few blocks for a test, or no tags and no other arcs at all.
    assert_eq!(verdict(&[], vec![relation(100, 30, [60, 0], [30, 0])]).labels[0].beyond, Some(Reach::Offset));
}

#[test]
fn a_syntactic_label_reaches_its_relation_if_the_head_is_surely_better_there_than_on_other_arcs() {
    let reach = |difference: f64, standard_error: f64| {
        let mut relation = tagged(40, Interval(0.1, 0.3), 0.05);
        let specific = relation.by_head[0].specific.dependent_to_head.as_mut().unwrap();
        (specific.difference, specific.standard_error) = (difference, Some(standard_error));
        let label = verdict(&[], vec![relation]).labels.remove(0);
        (label.beyond.unwrap(), label.specific.unwrap().q)
    };
    // 0.2 at 0.05 is three standard errors above five points; without that no lead over word classes is of this relation.
    let (found, q) = reach(0.2, 0.05);
    assert!(found == Reach::Tags && q.unwrap() < 0.01, "{q:?}");
    assert_eq!(reach(0.2, 0.2).0, Reach::Offset);
    assert_eq!(reach(0.04, 0.001), (Reach::Offset, None));
}
