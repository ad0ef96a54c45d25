use super::*;
use crate::studies::patterns::dependency::{HeadAccuracy, OffsetBaseline, RelationIntervals};
use crate::study::labels::Verdict;
use crate::study::labels::evidence::{ByDirection, Comparison, Direction};
use crate::study::labels::policy::Value;
use crate::study::metrics::metric::Denominator;

#[test]
fn q_values_go_to_the_tests_they_are_of() {
    let relation = |name: &str, count: u64, differences: [f64; 2]| {
        let comparison = |difference| Comparison {
            standard_error: Some(0.05),
            q: Some(0.5),
            ..Comparison::from_difference(difference, None)
        };
        let [dependent_to_head, head_to_dependent] = differences;
        let versus_offset = ByDirection {
            dependent_to_head: Some(comparison(dependent_to_head)),
            head_to_dependent: Some(comparison(head_to_dependent)),
        };
        RelationMetrics {
            relation: name.to_owned(),
            side: None,
            share: None,
            count,
            sentences: Some(count),
            blocks: 64,
            effective_blocks: 64.0,
            with_others: Denominator { count, sentences: count, blocks: 64, effective_blocks: 64.0 },
            place: HeadPlace { layer: 0, head: 0 },
            direction: Direction::HeadToDependent,
            accuracy: 0.0,
            heldout_accuracy: None,
            baseline: OffsetBaseline { offset: 1, accuracy: 0.0, heldout_accuracy: None },
            tag_baseline: None,
            ci95: RelationIntervals::default(),
            versus_offset: comparison(head_to_dependent),
            versus_tags: None,
            by_distance: Vec::new(),
            by_head: vec![HeadAccuracy { versus_offset, ..HeadAccuracy::default() }],
        }
    };
    let relations = vec![
        relation("few", 9, [0.2, 0.9]),
        relation("many", 10, [0.05, 0.25]),
        relation("rare", 1, [0.9, 0.9]),
        relation("some", 11, [0.15, 0.2]),
    ];
    let mut found = Relations { relations, tests: Tests::default() };
    let policy = |min_count: u64, most: Value| {
        let values = [(MIN_COUNT.name, Value::Count(min_count)), (LABEL_Q.name, most)];
        Policy::with_defaults([&MIN_COUNT, &LABEL_Q]).with_values(values)
    };
    found.add_late_fact(&LateFact::Policy(&policy(10, Value::Share(0.4))));
    let q: Vec<Option<f64>> =
        found.relations.iter().flat_map(RelationMetrics::offset_comparisons).map(|comparison| comparison.q).collect();
    // Three of four are above the margin of 0.1: by 3, 1 and 2 standard errors. Their chances with 63 degrees of freedom,
    // by scipy 1.17 (t.sf), are .001932, .160568 and .024908; twice the smallest times 3, and so on.
    let expected = [(3, 0.001_932 * 6.0), (6, 0.160_568 * 2.0), (7, 0.024_908 * 3.0)];
    for (place, q) in q.iter().enumerate() {
        let by_hand = expected.iter().find(|(known, _)| *known == place).map(|(_, q)| *q);
        assert_eq!(q.is_some(), by_hand.is_some(), "{place}");
        assert!(q.zip(by_hand).is_none_or(|(q, by_hand)| (q - by_hand).abs() < 1e-5), "{q:?}, not {by_hand:?}");
    }
    // The best head of `many` is the second direction's.
    assert_eq!(found.relations[1].versus_offset.q, q[3]);
    assert_eq!(found.relations[0].versus_offset.q, None);
    assert_eq!(found.tests, Tests { count: 4, above: 3, significant: Some(3), out_of_sight: None, with_first: None });
    found.add_late_fact(&LateFact::Policy(&policy(10, Value::Off)));
    assert_eq!(found.tests, Tests { count: 4, above: 3, significant: None, out_of_sight: None, with_first: None });
    let label = serde_json::json!({
        "label": "syntactic:many", "score": 0.5, "ci95": null, "baseline": null, "threshold": 0.4, "margin": 0.1,
        "rule": "", "borderline": false, "direction": null, "versus_offset": null, "beyond": null,
    });
    let labels = vec![serde_json::from_value(label).unwrap()];
    let verdicts = [Verdict { primary: String::new(), labels, nearest: Vec::new() }];
    let caveats = |found: &Relations, verdicts: &[Verdict]| -> Vec<&str> {
        let policy = policy(10, Value::Off);
        let labelling = Labelling { verdicts, policy: &policy, section: found };
        CAVEATS.iter().filter(|caveat| (caveat.applies)(&labelling)).map(|caveat| caveat.id).collect()
    };
    assert_eq!(caveats(&found, &verdicts), ["significance-not-asked", "selection"]);
    assert_eq!(caveats(&found, &[]), ["selection"]);
    let without_trees = Relations { relations: Vec::new(), tests: Tests::default() };
    assert_eq!(caveats(&without_trees, &[]), ["no-trees"]);
    found.add_late_fact(&LateFact::Policy(&policy(12, Value::Share(1.0))));
    assert_eq!(found.tests, Tests { count: 0, above: 0, significant: Some(0), out_of_sight: None, with_first: None });
}
