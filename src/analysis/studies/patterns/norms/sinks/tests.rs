use super::*;
use crate::stats::block_test::Scale;
use crate::studies::patterns::norms::Norms;
use crate::studies::registry::default_policy;
use crate::study::labels::policy::Value;
use crate::study::labels::{ThresholdBound, assess, correct_for_multiple_tests};
use crate::study::metrics::metric::Metrics;
use crate::study::section::NoSection;
use crate::study::{Study, columns};

/// The labels of a head that has the label `given`, or none, and these metrics, all with this standard error.
fn types(given: Option<&str>, metrics: &[(&str, f64)], standard_error: f64, policy: &Policy) -> Vec<Assessment> {
    let columns = columns(&Norms);
    let names: Vec<String> = Metrics::new(&columns, std::iter::repeat(())).cells().map(|(name, ())| name).collect();
    metrics.iter().for_each(|(name, _)| assert!(names.iter().any(|known| known == name), "{name}"));
    let measured = |name: &String| {
        let score = metrics.iter().find(|(known, _)| known == name).map(|(_, score)| *score);
        let ci95 = score.map(|score| Interval(score - 2.0 * standard_error, score + 2.0 * standard_error));
        let (blocks, effective_blocks, scale) = (64, 64.0, Scale::Real);
        let estimate = score.map(|value| Estimate { value, standard_error, blocks, effective_blocks, scale });
        MeasuredScore { score, ci95, baseline: None, estimate }
    };
    let metrics = Metrics::new(&columns, names.iter().map(measured));
    let (value, standard_error, scale) = (0.8, 0.025, Scale::Real);
    let estimate = Estimate { value, standard_error, blocks: 64, effective_blocks: 64.0, scale };
    let rests =
        MeasuredScore { score: Some(0.8), ci95: Some(Interval(0.75, 0.85)), baseline: None, estimate: Some(estimate) };
    let given: Vec<Assessment> =
        given.into_iter().filter_map(|label| assess(label, "mass", rests, ThresholdBound::Above, Some(0.6))).collect();
    let evidence = Evidence { place: 0, metrics: &metrics, section: &NoSection, earlier_assessments: &given };
    let mut found: Vec<Assessment> =
        Norms::CARD.labels.iter().flat_map(|detector| (detector.assess)(&evidence, policy)).collect();
    found.iter_mut().for_each(|assessment| correct_for_multiple_tests([assessment], policy));
    found.retain(|assessment| assessment.meets_rule);
    found
}

fn labels(given: Option<&str>, metrics: &[(&str, f64)]) -> Vec<String> {
    let found = types(given, metrics, 1e-3, &default_policy());
    found.into_iter().map(|assessment| assessment.label.label).collect()
}

/// `sink_part`, `output_share`, `sink_constant_share` and `sink_sentence_share` of a head that rests on `[CLS]`.
fn on_first_special([part, output, constant, sentence]: [f64; 4]) -> Vec<String> {
    labels(
        Some("first-special"),
        &[
            ("sink_part.first-special", part),
            ("output_share", output),
            ("sink_constant_share.first-special", constant),
            ("sink_sentence_share.first-special", sentence),
            // Another sink, on which the head does not rest.
            ("sink_part.separator", 0.9),
        ],
    )
}

#[test]
fn every_type_fires_beyond_its_thresholds_and_not_before() {
    let output = MAX_NO_OP_OUTPUT.default.to_string().parse::<f64>().unwrap();
    let cases = [
        ("sink:no-op", [0.19, output - 0.01, 0.9, 0.1], [0.19, output + 0.01, 0.9, 0.1]),
        ("sink:no-op", [0.19, output - 0.01, 0.9, 0.1], [0.21, output - 0.01, 0.9, 0.1]),
        ("sink:parked", [0.49, 1.0, 0.9, 0.1], [0.51, 1.0, 0.9, 0.1]),
        // The output is against the sink's part: a fifth of it is little, a half of it is not parked.
        ("sink:no-op", [-0.19, output - 0.01, 0.9, 0.1], [-0.21, output - 0.01, 0.9, 0.1]),
        ("sink:parked", [-0.1, 1.0, 0.9, 0.1], [-0.1, 0.1, 0.9, 0.1]),
        ("sink:parked", [-0.49, 1.0, 0.9, 0.1], [-0.51, 1.0, 0.9, 0.1]),
        ("sink:opposed", [-0.51, 0.1, 0.9, 0.9], [-0.49, 0.1, 0.9, 0.9]),
        ("sink:constant", [0.51, 0.1, 0.51, 0.4], [0.51, 0.1, 0.49, 0.4]),
        ("sink:broadcast", [0.51, 1.0, 0.4, 0.51], [0.51, 1.0, 0.4, 0.49]),
        ("sink:used", [0.51, 1.0, 0.49, 0.49], [0.49, 1.0, 0.49, 0.49]),
        ("sink:used", [1.5, 1.0, 0.1, 0.1], [1.5, 1.0, 0.1, 0.6]),
    ];
    for (name, fires, does_not) in cases {
        assert_eq!(on_first_special(fires), [name]);
        assert!(!on_first_special(does_not).contains(&name.to_owned()), "{name} just short");
    }
    for detector in Norms::CARD.labels {
        assert!(
            cases.iter().any(|(name, ..)| detector.gives_label(name)),
            "{} has no case here",
            detector.explanation.name
        );
    }
}

#[test]
fn a_type_is_of_the_sink_that_the_head_rests_on() {
    let parts = [("sink_part.first-special", 0.9), ("sink_part.separator", 0.1), ("output_share", 1.0)];
    assert_eq!(labels(Some("separator"), &parts), ["sink:parked"]);
    assert_eq!(labels(None, &parts), [""; 0]);
    assert_eq!(labels(Some("broad"), &parts), [""; 0]);
    // Nothing is written: 0/0.
    assert_eq!(labels(Some("separator"), &[("output_share", 0.0)]), [""; 0]);
}

#[test]
fn a_type_is_sure_and_not_surer_than_its_sink() {
    let metrics = [("sink_part.punctuation", 0.4), ("output_share", 1.0)];
    let of = |error: f64, policy: &Policy| types(Some("punctuation"), &metrics, error, policy);
    let label = of(0.01, &default_policy()).remove(0).label;
    let rule = "punctuation and 1 - sink_part[punctuation] >= 0.5 and 1 + sink_part[punctuation] >= 0.5";
    assert_eq!(label.rule, rule);
    // 0.6 is a fifth of the room above 0.5, 0.8 half of that above 0.6.
    assert!((label.margin - 0.2).abs() < 1e-12 && (label.score - 0.6).abs() < 1e-12);
    let Interval(low, high) = label.ci95.unwrap();
    assert!(!label.borderline && (low - 0.58).abs() < 1e-12 && (high - 0.62).abs() < 1e-12);
    let test = label.test;
    // The sink is 0.2 above 0.6, eight standard errors.
    assert!(test.p.unwrap() < 1e-9 && test.q.unwrap() == 2.0 * test.p.unwrap());
    // 0.1 at 0.1: p = 0.16.
    let label = of(0.1, &default_policy()).remove(0).label;
    assert!(label.borderline && label.test.p.is_some_and(|p| (0.15..0.17).contains(&p)), "{label:?}");
    let unasked = default_policy().with_values([("label_q", Value::Off)]);
    assert!(of(0.1, &unasked).remove(0).label.borderline);
    let surer = types(Some("punctuation"), &[("sink_part.punctuation", -1.0)], 0.01, &default_policy()).remove(0).label;
    assert!((surer.margin - 0.5).abs() < 1e-12, "that of the sink: {}", surer.margin);
}

/// `|-0.4| <= 0.5` is as sure as its less sure end: that at -0.5, one standard error of 0.1 away.
#[test]
fn parked_is_tested_at_both_ends() {
    let metrics = [("sink_part.punctuation", -0.4), ("output_share", 1.0)];
    let label = types(Some("punctuation"), &metrics, 0.1, &default_policy()).remove(0).label;
    assert_eq!((label.label.as_str(), label.borderline), ("sink:parked", true));
    // Student's distribution with 63 degrees of freedom, by scipy 1.17: t.sf(1, 63).
    assert!((label.test.p.unwrap() - 0.160_568_015_791_312_83).abs() < 1e-9, "{:?}", label.test);
    assert!((label.score - 0.6).abs() < 1e-12);
    let metrics = [("sink_part.punctuation", -0.6), ("output_share", 1.0)];
    let label = types(Some("punctuation"), &metrics, 0.01, &default_policy()).remove(0).label;
    assert_eq!((label.label.as_str(), label.borderline), ("sink:opposed", false));
    assert_eq!(label.rule, "punctuation and -sink_part[punctuation] >= 0.5");
}
