use super::*;
use crate::studies::patterns::dependency::{HeadAccuracy, OffsetBaseline, RelationIntervals};
use crate::study::labels::Verdict;
use crate::study::labels::evidence::{ByDirection, Comparison, Direction};
use crate::study::labels::policy::Value;

#[test]
fn q_values_go_to_the_tests_they_are_of() {
    let relation = |name: &str, count: u64, p: [f64; 2]| {
        let comparison = |p| Comparison {
            difference: 0.0,
            ci95: None,
            standard_error: None,
            head_only: 0,
            offset_only: 0,
            p,
            q: Some(0.5),
        };
        let [dependent_to_head, head_to_dependent] = p;
        let versus_offset = ByDirection {
            dependent_to_head: comparison(dependent_to_head),
            head_to_dependent: comparison(head_to_dependent),
        };
        RelationMetrics {
            relation: name.to_owned(),
            count,
            sentences: Some(count),
            blocks: 0,
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
            by_head: vec![HeadAccuracy {
                place: HeadPlace { layer: 0, head: 0 },
                accuracy: ByDirection::default(),
                ci95: ByDirection::default(),
                where_offset_wrong: ByDirection::default(),
                versus_offset,
                versus_tags: ByDirection::default(),
                left_out: ByDirection::default(),
            }],
        }
    };
    let relations = vec![
        relation("few", 9, [0.5, 0.0]),
        relation("many", 10, [0.5, 0.01]),
        relation("rare", 1, [0.0, 0.0]),
        relation("some", 11, [0.25, 0.125]),
    ];
    let mut found = Relations { relations, tests: Tests::default() };
    let policy = |min_count: u64, most: Value| {
        let values = [(MIN_COUNT.name, Value::Count(min_count)), (Q.name, most)];
        Policy::of([&MIN_COUNT, &Q]).with(values)
    };
    found.complete(&Completion::Policy(&policy(10, Value::Share(0.4))));
    let q: Vec<Option<f64>> =
        found.relations.iter().flat_map(RelationMetrics::comparisons).map(|comparison| comparison.q).collect();
    // Four tests: 0.01 x 4, 0.125 x 2, 0.25 x 4/3, 0.5.
    let expected = [None, None, Some(0.5), Some(0.04), None, None, Some(1.0 / 3.0), Some(0.25)];
    assert_eq!(q, expected);
    // The best head of `many` is the second direction's.
    assert_eq!(found.relations[1].versus_offset.q, Some(0.04));
    assert_eq!(found.relations[0].versus_offset.q, None);
    assert_eq!(found.tests, Tests { count: 4, significant: Some(3) });
    found.complete(&Completion::Policy(&policy(10, Value::Off)));
    assert_eq!(found.tests, Tests { count: 4, significant: None });
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
    assert_eq!(caveats(&found, &verdicts), ["words-of-a-sentence", "significance-not-asked", "selection"]);
    assert_eq!(caveats(&found, &[]), ["words-of-a-sentence", "selection"]);
    let without_trees = Relations { relations: Vec::new(), tests: Tests::default() };
    assert_eq!(caveats(&without_trees, &[]), ["no-trees"]);
    found.complete(&Completion::Policy(&policy(12, Value::Share(1.0))));
    assert_eq!(found.tests, Tests { count: 0, significant: Some(0) });
}
