use super::*;
use crate::evaluation::presets;
use crate::stats::block_test::Scale;
use crate::stats::interval::Interval;
use crate::study::labels::correct_for_multiple_tests;
use crate::study::metrics::metric::{Column, Denominator, MetricKeys, Metrics};
use crate::study::section::NoSection;

const BASIS: Denominator = Denominator { count: 100, sentences: 64, blocks: 64, effective_blocks: 64.0 };

/// The class of a head with these parts, each with an interval of 0.01 to either side; with a `?` if it is borderline.
fn class([column, offset, segment]: [f64; 3]) -> Vec<String> {
    let policy = presets::policy(&[presets::find_preset("kovaleva2019").unwrap()]);
    let measured = |score: f64| MeasuredScore {
        score: Some(score),
        ci95: Some(Interval(score - 0.01, score + 0.01)),
        baseline: Some(0.0),
        estimate: BASIS.estimate(score, 0.005, Scale::Real),
    };
    assessed(&[column, offset, segment].map(measured), &policy)
}

fn assessed(measured: &[MeasuredScore; 3], policy: &Policy) -> Vec<String> {
    let columns = ["column_r2", "offset_r2", "segment_r2"].map(|id| Column {
        id,
        keys: MetricKeys::Single,
        scale: Scale::Real,
        bounds: [f64::NEG_INFINITY, 1.0],
    });
    let metrics = Metrics::new(&columns, *measured);
    let mut assessed = assess_classes(
        &Evidence { place: 0, metrics: &metrics, section: &NoSection, earlier_assessments: &[] },
        policy,
    );
    correct_for_multiple_tests(&mut assessed, policy);
    let shown = |class: &Assessment| {
        format!(
            "{}{}",
            PATTERN_CLASS_DETECTOR.code_of_label(&class.label.label),
            if class.label.borderline { "?" } else { "" }
        )
    };
    assessed.iter().filter(|class| class.meets_rule).map(shown).collect()
}

#[test]
fn every_head_has_one_class() {
    assert_eq!(class([0.6, 0.2, 0.1]), ["vertical"]);
    assert_eq!(class([0.2, 0.6, 0.1]), ["diagonal"]);
    assert_eq!(class([0.3, 0.3, 0.1]), ["vertical+diagonal"]);
    assert_eq!(class([0.6, 0.3, 0.0]), ["vertical+diagonal"]);
    assert_eq!(class([0.2, 0.2, 0.3]), ["block"]);
    assert_eq!(class([0.6, 0.1, 0.3]), ["vertical"]);
    assert_eq!(class([0.4, 0.2, 0.1]), ["heterogeneous"]);
    // Nor does the other sentence make a block.
    assert_eq!(class([0.1, 0.1, -0.6]), ["heterogeneous"]);
    assert_eq!(class([0.0, 0.0, 0.0]), ["heterogeneous"]);
}

#[test]
fn a_class_at_a_threshold_is_the_upper_one() {
    assert_eq!(class([0.5, 0.0, 0.0]), ["vertical?"]);
    assert_eq!(class([0.495, 0.0, 0.0]), ["heterogeneous?"]);
    assert_eq!(class([0.25, 0.25, 0.0]), ["vertical+diagonal?"]);
    // A head that might be of another class is not firmly of its own.
    assert_eq!(class([0.7, 0.245, 0.0]), ["vertical?"]);
    assert_eq!(class([0.4, 0.3, 0.0]), ["vertical+diagonal"]);
}

#[test]
fn without_the_preset_or_without_a_number_there_is_no_class() {
    let score = MeasuredScore { score: Some(0.6), ..MeasuredScore::default() };
    assert_eq!(assessed(&[score; 3], &presets::policy(&[])), [""; 0]);
    let policy = presets::policy(&[presets::find_preset("kovaleva2019").unwrap()]);
    assert_eq!(assessed(&[MeasuredScore::default(); 3], &policy), [""; 0]);
}
