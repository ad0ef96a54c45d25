mod syntactic;

use super::*;
use crate::evaluation::presets;
use crate::stats::interval::Interval;
use crate::studies::patterns::dependency::RelationMetrics;
use crate::studies::patterns::dependency::section::{Relations, Tests};
use crate::studies::registry::{default_policy, find_entry, find_study};
use crate::study::columns;
use crate::study::labels::policy::Value;
use crate::study::labels::{ABSENT, UNLABELLED};
use crate::study::metrics::metric::{Denominator, Intervals, Metrics, Values};
use crate::study::section::NoSection;

const ARGMAX_PREVIOUS: &str = "offset_argmax.-1";
const MASS_PREVIOUS: &str = "offset_mass.-1";
const ARGMAX_NEXT: &str = "offset_argmax.1";
const MASS_NEXT: &str = "offset_mass.1";

/// Just enough evidence, in 30 blocks of equal size.
const BASIS: Denominator = Denominator { count: 100, sentences: 30, blocks: 30, effective_blocks: 30.0 };

/// The metrics of one head that a case is about, by the names of their cells.
type HeadMetrics<'a> = &'a [(&'a str, f64)];

/// The study of attention as if it had measured these metrics of one head, with the standard errors that half of these
/// intervals comes to: the 97.5th percentile of Student's distribution with 29 degrees of freedom is 2.045. All others are
/// null.
fn estimates(metrics: HeadMetrics<'_>, intervals: &[(&str, Interval)]) -> Estimates {
    let columns = columns(find_study("attention").unwrap());
    let names: Vec<String> = Values::new(&columns, std::iter::repeat(None)).cells().map(|(name, _)| name).collect();
    metrics.iter().for_each(|(name, _)| assert!(names.iter().any(|known| known == name), "{name}"));
    let value = |name: &String| metrics.iter().find(|(known, _)| known == name).map(|(_, value)| *value);
    let interval = |name: &String| intervals.iter().find(|(known, _)| known == name).map(|(_, value)| *value);
    let error = |name: &String| interval(name).map(|interval| interval.half_width() / 2.045);
    let none = || Metrics::new(&columns, std::iter::repeat(None));
    Estimates {
        heads: vec![Values::new(&columns, names.iter().map(value))],
        ci95: vec![Intervals::new(&columns, names.iter().map(interval))],
        standard_errors: vec![Metrics::new(&columns, names.iter().map(error))],
        own_chance: vec![Values::default()],
        own_denominators: vec![Metrics::default()],
        chance: none(),
        chance_ci95: Metrics::new(&columns, std::iter::repeat(None)),
        denominators: Metrics::new(&columns, std::iter::repeat(BASIS)),
        ..Estimates::default()
    }
}

fn attention_results(estimates: Estimates) -> Results {
    Results {
        estimates,
        sections: vec![(find_study("attention").unwrap(), Box::new(NoSection))],
        could_read_text: true,
        absent_heads: Vec::new(),
        removed_heads: Vec::new(),
    }
}

fn verdict(metrics: HeadMetrics<'_>, relations: Vec<RelationMetrics>) -> Verdict {
    verdict_within(metrics, &[], relations)
}

fn verdict_within(metrics: HeadMetrics<'_>, ci95: &[(&str, Interval)], relations: Vec<RelationMetrics>) -> Verdict {
    verdict_by(&default_policy(), metrics, ci95, relations)
}

fn verdict_by(
    policy: &Policy,
    metrics: HeadMetrics<'_>,
    ci95: &[(&str, Interval)],
    relations: Vec<RelationMetrics>,
) -> Verdict {
    let relations = Relations { relations, tests: Tests::default() };
    let mut results = attention_results(estimates(metrics, ci95));
    results.sections.push((find_study("dependency").unwrap(), Box::new(relations)));
    results.apply_policy(policy);
    results.verdicts(policy).remove(0)
}

/// The verdict by the definitions of Voita et al. 2019.
fn by_voita2019(metrics: HeadMetrics<'_>, relations: Vec<RelationMetrics>) -> Verdict {
    verdict_by(&presets::policy(&[presets::find_preset("voita2019").unwrap()]), metrics, &[], relations)
}

fn labels(metrics: HeadMetrics<'_>) -> Vec<String> {
    verdict(metrics, Vec::new()).labels.into_iter().map(|label| label.label).collect()
}

/// Metrics on which each detector of these studies fires, and metrics just short of that; labels that are tested by
/// blocks have their planted heads in the folders of their studies.
#[test]
fn every_detector_fires_at_its_threshold_and_not_below() {
    let cases: [(&str, HeadMetrics<'_>, HeadMetrics<'_>); 12] = [
        ("previous-token", &[(ARGMAX_PREVIOUS, 0.9)], &[(ARGMAX_PREVIOUS, 0.89), (MASS_PREVIOUS, 0.5)]),
        ("previous-token", &[(MASS_PREVIOUS, 0.51)], &[(MASS_PREVIOUS, 0.5)]),
        ("next-token", &[(ARGMAX_NEXT, 0.9)], &[(ARGMAX_NEXT, 0.89), (MASS_NEXT, 0.5)]),
        ("offset:-3", &[("offset_argmax.-3", 0.9)], &[("offset_argmax.-3", 0.89), ("offset_mass.-3", 0.5)]),
        ("offset:8", &[("offset_mass.8", 0.6)], &[("offset_mass.8", 0.4)]),
        ("self", &[("offset_mass.0", 0.51)], &[("offset_argmax.0", 1.0), ("offset_mass.0", 0.5)]),
        ("local", &[("window_mass", 0.51)], &[("window_mass", 0.5)]),
        ("separator", &[("separator_mass", 0.61)], &[("separator_mass", 0.6)]),
        ("first-special", &[("first_special_mass", 0.61)], &[("first_special_mass", 0.6)]),
        ("first-token", &[("first_token_mass", 0.61)], &[("first_token_mass", 0.6)]),
        ("punctuation", &[("punctuation_mass", 0.61)], &[("punctuation_mass", 0.6)]),
        ("broad", &[("entropy_ratio", 0.81)], &[("entropy_ratio", 0.8)]),
    ];
    let mut covered: Vec<&str> = cases.iter().map(|(name, ..)| *name).collect();
    for (name, fires, does_not) in cases {
        assert_eq!(labels(fires), [name]);
        assert_eq!(labels(does_not), [""; 0], "{name} just below");
    }
    covered.push("syntactic:obj");
    for detector in ["attention", "dependency"].into_iter().flat_map(|study| find_study(study).unwrap().card().labels) {
        let name = detector.explanation.name;
        assert!(covered.iter().any(|case| detector.gives_label(case)), "{name} has no case here");
        assert_eq!(find_entry(name).unwrap().name(), name);
    }
}

#[test]
fn a_rule_that_is_off_gives_neither_a_label_nor_a_near_one() {
    let off = ["offset_argmax.0", "offset_mass.0", "window_mass", "separator_mass", "first_special_mass"];
    for share in [0.95, 0.4] {
        let metrics: Vec<(&str, f64)> =
            off.into_iter().chain(["punctuation_mass", "entropy_ratio"]).map(|name| (name, share)).collect();
        let found = by_voita2019(&metrics, Vec::new());
        assert_eq!((found.primary.as_str(), found.labels, found.nearest), (UNLABELLED, Vec::new(), Vec::new()));
    }
    // The rule of the argmax alone is left of the two.
    let rule = |verdict: Verdict| verdict.labels[0].rule.clone();
    assert_eq!(rule(by_voita2019(&[(ARGMAX_PREVIOUS, 0.9)], Vec::new())), "offset_argmax[-1] >= 0.9");
    let near = by_voita2019(&[(ARGMAX_PREVIOUS, 0.89), (MASS_PREVIOUS, 0.99)], Vec::new()).nearest;
    assert_eq!(near.iter().map(|near| near.rule.as_str()).collect::<Vec<_>>(), ["offset_argmax[-1] >= 0.9"]);
    // The other rule alone gives the opposite.
    let policy = default_policy().with_values([("offset_argmax", Value::Off)]);
    let by_mass = |mass| verdict_by(&policy, &[(ARGMAX_NEXT, 1.0), (MASS_NEXT, mass)], &[], Vec::new());
    assert_eq!(by_mass(0.5).primary, UNLABELLED);
    assert_eq!(rule(by_mass(0.51)), "offset_mass[1] > 0.5");
}

#[test]
fn a_label_is_firm_if_its_test_is_significant() {
    let separator = |half: f64| {
        let ci95 = [("separator_mass", Interval(0.7 - half, 0.7 + half))];
        verdict_within(&[("separator_mass", 0.7)], &ci95, Vec::new()).labels.remove(0)
    };
    // The logits of .7 and .6 are .441833 apart; .06 / 2.045 is a standard error of .139711 of the logit: t = 3.162418, and
    // p = .001826 with 29 degrees of freedom, by scipy 1.17.
    let firm = separator(0.06);
    assert!((firm.test.p.unwrap() - 0.001_826).abs() < 1e-6, "{:?}", firm.test);
    assert!(!firm.borderline && (firm.test.q.unwrap() - 2.0 * firm.test.p.unwrap()).abs() < 1e-12);
    // At twice the error p is .062 and q .124.
    assert!(separator(0.12).borderline);
    // Nothing is certain without a standard error.
    assert!(verdict(&[(ARGMAX_PREVIOUS, 0.95)], Vec::new()).labels[0].borderline);
}

#[test]
fn a_label_with_two_rules_is_as_sure_as_the_surer_one() {
    let previous = |argmax: f64, mass: f64| {
        let around = |score: f64, half: f64| Interval(score - half, score + half);
        let ci95 = [(ARGMAX_PREVIOUS, around(0.95, argmax)), (MASS_PREVIOUS, around(0.6, mass))];
        verdict_within(&[(ARGMAX_PREVIOUS, 0.95), (MASS_PREVIOUS, 0.6)], &ci95, Vec::new()).labels.remove(0)
    };
    // The margins are 0.05 / 0.1 and 0.1 / 0.5, but the second rule is surer, and so it is the one that is reported.
    let sure_by_the_other = previous(0.1, 0.05);
    assert_eq!((sure_by_the_other.rule.as_str(), sure_by_the_other.borderline), ("offset_mass[-1] > 0.5", false));
    // Twice the p-value, since there are two rules.
    let alone = {
        let ci95 = [(MASS_PREVIOUS, Interval(0.55, 0.65))];
        verdict_within(&[(MASS_PREVIOUS, 0.6)], &ci95, Vec::new()).labels.remove(0)
    };
    assert!((sure_by_the_other.test.p.unwrap() - 2.0 * alone.test.p.unwrap()).abs() < 1e-12);
    assert!(previous(0.1, 0.3).borderline);
}

#[test]
fn local_is_borderline_where_a_label_at_one_offset_is_possible() {
    let local = |half: f64| {
        let metrics = [("window_mass", 0.9), (ARGMAX_NEXT, 0.85), (MASS_NEXT, 0.2)];
        let ci95 = [
            ("window_mass", Interval(0.85, 0.95)),
            (ARGMAX_NEXT, Interval(0.85 - half, 0.85 + half)),
            (MASS_NEXT, Interval(0.15, 0.25)),
        ];
        let label = verdict_within(&metrics, &ci95, Vec::new()).labels.remove(0);
        assert_eq!(label.label, "local");
        label.borderline
    };
    assert!(!local(0.03));
    assert!(local(0.1));
}

#[test]
fn local_gives_way_to_a_label_at_one_offset() {
    let metrics = [("window_mass", 0.9), (ARGMAX_PREVIOUS, 0.95), (MASS_PREVIOUS, 0.7)];
    assert_eq!(labels(&metrics), ["previous-token"]);
}

#[test]
fn the_primary_label_has_the_largest_margin_over_its_threshold() {
    // separator: (0.7 - 0.6) / 0.4 = 0.25; broad: (0.95 - 0.8) / 0.2 = 0.75
    let verdict = verdict(&[("separator_mass", 0.7), ("entropy_ratio", 0.95)], Vec::new());
    assert_eq!(verdict.primary, "broad");
    assert_eq!(verdict.labels.iter().map(|label| label.label.as_str()).collect::<Vec<_>>(), ["broad", "separator"]);
    assert!((verdict.labels[0].margin - 0.75).abs() < 1e-12);
    assert_eq!(verdict.nearest, []);
}

#[test]
fn a_head_that_the_model_lacks_is_absent_and_no_more() {
    let ci95 = [(MASS_PREVIOUS, Interval(0.89, 0.91))];
    let mut given = estimates(&[(MASS_PREVIOUS, 0.9)], &ci95);
    let results = Results { absent_heads: vec![0], ..attention_results(given.clone()) };
    assert!(results.assessments(&default_policy())[0].is_empty());
    let expected = Verdict { primary: ABSENT.to_owned(), labels: Vec::new(), nearest: Vec::new() };
    assert_eq!(results.verdicts(&default_policy()), [expected]);
    given.clear_absent_head(0);
    assert!(given.heads[0].cells().all(|(_, value)| value.is_none()));
    assert!(given.ci95[0].cells().all(|(_, value)| value.is_none()));
}

#[test]
fn an_unlabelled_head_is_told_what_it_is_near_to() {
    // separator: -0.1 / 0.4 = -0.25; broad: -0.3 / 0.2 = -1.5; punctuation: -0.5 / 0.4 = -1.25
    let metrics = [("separator_mass", 0.5), ("entropy_ratio", 0.5), ("punctuation_mass", 0.1)];
    let verdict = verdict(&metrics, Vec::new());
    assert_eq!(verdict.primary, UNLABELLED);
    let near: Vec<(&str, f64)> = verdict.nearest.iter().map(|near| (near.label.as_str(), near.shortfall)).collect();
    assert_eq!(near[0].0, "separator");
    assert!((near[0].1 - 0.1).abs() < 1e-12);
    assert_eq!(near[1].0, "punctuation");
    assert_eq!(near.len(), 2);
}

#[test]
fn a_label_rests_on_enough_queries_of_enough_sentences() {
    let labels = |count: u64, sentences: u64| {
        let mut given = estimates(&[("offset_mass.5", 0.9), ("separator_mass", 0.7), ("window_mass", 0.9)], &[]);
        let (names, all) = {
            let cells = || given.denominators.cells();
            (cells().map(|(name, _)| name).collect::<Vec<_>>(), cells().map(|(_, all)| *all).collect::<Vec<_>>())
        };
        let little = Denominator { count, sentences, ..BASIS };
        let of = |(name, all): (&String, &Denominator)| if name == "offset_mass.5" { little } else { *all };
        given.denominators = Metrics::new(&columns(find_study("attention").unwrap()), names.iter().zip(&all).map(of));
        let verdict = attention_results(given).verdicts(&default_policy()).remove(0);
        verdict.labels.into_iter().map(|label| label.label).collect::<Vec<_>>()
    };
    assert_eq!(labels(100, 30), ["offset:5", "separator"]);
    // The head is `local` without a label at one offset.
    for (count, sentences) in [(99, 30), (100, 29)] {
        assert_eq!(labels(count, sentences), ["local", "separator"]);
    }
}

#[test]
fn a_firm_label_comes_before_a_borderline_one() {
    // broad: 0.15 / 0.2, but it may fail; separator: 0.1 / 0.4; punctuation: 0.05 / 0.4.
    let metrics = [("entropy_ratio", 0.95), ("separator_mass", 0.7), ("punctuation_mass", 0.65)];
    let ci95 = [
        ("entropy_ratio", Interval(0.7, 1.0)),
        ("separator_mass", Interval(0.65, 0.75)),
        ("punctuation_mass", Interval(0.63, 0.67)),
    ];
    let verdict = verdict_within(&metrics, &ci95, Vec::new());
    let labels: Vec<&str> = verdict.labels.iter().map(|label| label.label.as_str()).collect();
    assert_eq!((verdict.primary.as_str(), labels), ("separator", vec!["separator", "punctuation", "broad"]));
}

#[test]
fn labels_that_might_as_well_stand_first_are_tied() {
    // On the scale of the margin: broad 0.5 to 0.9; separator 0.25 to 0.5 meets it, punctuation 0.15 to 0.45 does not.
    let metrics =
        [("entropy_ratio", 0.95), ("separator_mass", 0.75), ("punctuation_mass", 0.7), ("first_special_mass", 0.9)];
    let ci95 = [
        ("entropy_ratio", Interval(0.9, 0.98)),
        ("separator_mass", Interval(0.7, 0.8)),
        ("punctuation_mass", Interval(0.66, 0.78)),
        // Borderline, so it is behind them for another reason, however far it may reach.
        ("first_special_mass", Interval(0.1, 1.0)),
    ];
    let tied = |metrics: HeadMetrics<'_>| -> Vec<(String, bool)> {
        let labels = verdict_within(metrics, &ci95, Vec::new()).labels;
        labels.into_iter().map(|label| (label.label, label.tied)).collect()
    };
    let named = |all: &[(&str, bool)]| all.iter().map(|(name, tied)| ((*name).to_owned(), *tied)).collect::<Vec<_>>();
    let expected = [("broad", false), ("separator", true), ("punctuation", false), ("first-special", false)];
    assert_eq!(tied(&metrics), named(&expected));
    assert_eq!(tied(&metrics[..1]), named(&expected[..1]));
}
