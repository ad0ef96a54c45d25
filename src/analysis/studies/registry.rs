//! Table of all studies, and look-ups in it: labels, metrics, thresholds, terms and verdicts.

use std::collections::BTreeMap;

use super::{ablation, circuits, heads, patterns, replication};
use crate::study::AnyStudy;
use crate::study::health::HealthId;
use crate::study::labels::entry::Entry;
use crate::study::labels::evidence::{LABEL_Q, MIN_QUERIES, MIN_SENTENCES};
use crate::study::labels::policy::{Policy, Threshold};
use crate::study::labels::{
    ABSENT, ABSENT_EXPLANATION, ABSENT_LEGEND_ENTRY, Detector, REMOVED, REMOVED_EXPLANATION, REMOVED_LEGEND_ENTRY,
    UNLABELLED, UNLABELLED_EXPLANATION, UNLABELLED_LEGEND_ENTRY,
};
use crate::study::show::comparison_terms::COMPARISON_TERMS;
use crate::study::show::terms::{TERMS, Term};
use crate::study::verdict_rule::VerdictRow;
use crate::system::errors::similar;

/// All studies, in the order of reports. Metrics, labels with equal margins, sections and the summary have this
/// order.
pub const STUDIES: &[&dyn AnyStudy] = &[
    &patterns::attention::Attention,
    &patterns::norms::Norms,
    &patterns::trees::Trees,
    &patterns::dependency::Dependency,
    &patterns::links::Links,
    &patterns::words::Words,
    &patterns::words::classes::WordClasses,
    &patterns::frequency::Frequency,
    &patterns::explained_variance::ExplainedVariance,
    &patterns::repeats::RepeatedTokens,
    &ablation::in_context::InContext,
    &patterns::coreference::CoreferenceStudy,
    &patterns::segments::Segments,
    &patterns::choice::ChoiceStudy,
    &ablation::effect::Effect,
    &ablation::in_context::InContextEffect,
    &ablation::task::UserTask,
    &circuits::interchange::Interchange,
    &circuits::direct::DirectEffect,
    &ablation::gradient::Gradient,
    &ablation::knockout::ArcKnockout,
    &ablation::pruning::Pruning,
    &circuits::gates::FittedGates,
    &ablation::output_shift::OutputShift,
    &ablation::edges::EdgesStudy,
    &heads::similarity::HeadSimilarity,
    &ablation::clusters::ClusterEffect,
    &ablation::clusters::ClusterShift,
    &heads::probes::LinearProbes,
    &patterns::dependency::parser::AttentionParser,
    &heads::examples::ExampleSentences,
    &replication::clark2019::Clark2019,
];

/// Finds the study with this name, or with this name in the previous version.
pub fn find_study(name: &str) -> Option<&'static dyn AnyStudy> {
    STUDIES.iter().copied().find(|study| study.card().name == name || study.card().former_name == Some(name))
}

pub fn default_studies() -> impl Iterator<Item = &'static dyn AnyStudy> {
    STUDIES.iter().copied().filter(|study| study.card().is_default)
}

/// Names of the studies with a second pass over the corpus, which builds on the results of their first pass.
pub fn two_stage_study_names() -> impl Iterator<Item = &'static str> {
    STUDIES.iter().filter(|study| study.passes().iter().any(|spec| spec.is_second_stage)).map(|study| study.card().name)
}

/// Name of the study to which a command-line option belongs. Panics if no study has the option.
pub fn study_name_of_option(option: &str) -> &'static str {
    let study = STUDIES.iter().find(|study| study.card().options.contains(&option));
    study.expect("an option of a study is on its card").card().name
}

/// Finds the first study that removes heads and needs no predictions.
pub fn first_ablation_without_predictions() -> &'static dyn AnyStudy {
    let predicts = |study: &dyn AnyStudy| study.passes().iter().any(|spec| spec.pass.predicts());
    let study = STUDIES.iter().copied().find(|study| study.card().removes_heads && !predicts(*study));
    study.expect("one of the studies looks at hidden states")
}

pub fn study_of_label(label: &str) -> Option<&'static dyn AnyStudy> {
    STUDIES.iter().copied().find(|study| study.card().all_labels().any(|detector| detector.gives_label(label)))
}

/// Whether a label says how an attention head chooses its keys (`chooses:*`).
pub fn is_key_choice_label(label: &str) -> bool {
    STUDIES.iter().any(|study| study.card().choices.iter().any(|detector| detector.gives_label(label)))
}

/// Whether a label rests on random tokens alone, without corpus sentences.
pub fn is_random_token_label(label: &str) -> bool {
    study_of_label(label).is_some_and(|study| !reads_corpus(study, false))
}

/// Whether a study reads corpus sentences in a run with or without a task.
pub fn reads_corpus(study: &dyn AnyStudy, has_task: bool) -> bool {
    study.passes_for(has_task).iter().any(|spec| spec.pass.sequences.are_from_corpus())
}

/// Lists every detector of labels, in the order in which ties between labels are broken.
pub fn detectors() -> impl Iterator<Item = &'static Detector> {
    STUDIES.iter().flat_map(|study| study.card().all_labels())
}

pub fn detector_of_label(label: &str) -> Option<&'static Detector> {
    detectors().find(|detector| detector.gives_label(label))
}

/// Lists the labels that have this short form in the grid of a summary.
pub fn labels_with_code(code: &str) -> Vec<String> {
    for (label, shown) in
        [(UNLABELLED, UNLABELLED_LEGEND_ENTRY), (ABSENT, ABSENT_LEGEND_ENTRY), (REMOVED, REMOVED_LEGEND_ENTRY)]
    {
        if shown.contains(&code) {
            return vec![label.to_owned()];
        }
    }
    detectors().filter_map(|detector| detector.label_from_code(code)).collect()
}

/// Policy with the default value of every threshold.
pub fn default_policy() -> Policy {
    let thresholds = |detector: &'static Detector| -> &'static [&'static Threshold] { detector.thresholds };
    let common: [&Threshold; 3] = [&LABEL_Q, &MIN_QUERIES, &MIN_SENTENCES];
    let text_health = HealthId::ALL.map(HealthId::threshold);
    Policy::with_defaults(detectors().flat_map(thresholds).copied().chain(common).chain(text_health))
}

/// Counts labels by the name of the detector that gave them, among the detectors of these studies; detectors
/// without a label count 0. Panics if a label comes from another detector.
pub fn count_labels<'a>(
    studies: &[&'static dyn AnyStudy],
    labels: impl Iterator<Item = &'a str>,
) -> BTreeMap<String, u64> {
    let families = studies.iter().flat_map(|study| study.card().all_labels());
    let mut counts: BTreeMap<String, u64> =
        families.map(|detector| (detector.explanation.name.to_owned(), 0)).collect();
    for label in labels {
        let family = detector_of_label(label).expect("labels come from detectors").explanation.name;
        *counts.get_mut(family).expect("a detector of these studies") += 1;
    }
    counts
}

/// Lists all labels with their documentation.
pub fn label_entries() -> impl Iterator<Item = Entry> {
    let detector_entries =
        detectors().map(|detector| Entry { explanation: &detector.explanation, thresholds: Some(detector.thresholds) });
    let other_entries = [&UNLABELLED_EXPLANATION, &ABSENT_EXPLANATION, &REMOVED_EXPLANATION]
        .map(|explanation| Entry { explanation, thresholds: Some(&[]) });
    detector_entries.chain(other_entries)
}

/// Lists all metrics with their documentation.
pub fn metric_entries() -> impl Iterator<Item = Entry> {
    let metrics = STUDIES.iter().flat_map(|study| (study.card().metrics)());
    metrics.map(|(explanation, _)| Entry { explanation, thresholds: None })
}

/// Finds the documentation of a label or metric. `offset:-3` and `offset_mass.-1` find the entry that covers all
/// offsets.
pub fn find_entry(name: &str) -> Option<Entry> {
    let family = detector_of_label(name)
        .map_or_else(|| name.split_once('.').map_or(name, |(metric, _)| metric), |detector| detector.explanation.name);
    label_entries().chain(metric_entries()).find(|entry| [name, family].contains(&entry.name()))
}

/// Lists the glossary: terms other than labels, metrics and studies, in the order in which a summary uses them.
pub fn glossary() -> impl Iterator<Item = &'static Term> {
    let study_terms = STUDIES.iter().flat_map(|study| study.card().terms);
    TERMS.iter().chain(COMPARISON_TERMS).chain(study_terms)
}

/// Finds the glossary term with this name or synonym.
pub fn find_term(name: &str) -> Option<&'static Term> {
    glossary().find(|term| term.name == name || term.other_names.contains(&name))
}

pub fn find_threshold(name: &str) -> Option<&'static Threshold> {
    default_policy().thresholds().find(|threshold| threshold.name == name)
}

/// Lists the rules of all verdicts under the default policy: the rules of labels first, then the rules of other
/// verdicts.
pub fn verdict_rules() -> impl Iterator<Item = VerdictRow> {
    let policy = default_policy();
    detectors().map(move |detector| VerdictRow::from_detector(detector, &policy)).chain(non_label_verdict_rules())
}

/// Lists the rules of verdicts other than labels of heads, such as `helpful` of the study `effect`, study by study.
pub fn non_label_verdict_rules() -> impl Iterator<Item = VerdictRow> {
    let policy = default_policy();
    STUDIES.iter().flat_map(|study| study.card().verdicts).map(move |rule| VerdictRow::from_rule(rule, &policy))
}

/// Finds the known name most similar to `name`, for the hint "did you mean".
pub fn closest_name(name: &str) -> Option<&'static str> {
    let policy = default_policy();
    let names = label_entries().chain(metric_entries()).map(|entry| entry.name());
    let names = names
        .chain(STUDIES.iter().map(|study| study.card().name))
        .chain(glossary().map(|term| term.name))
        .chain(policy.thresholds().map(|threshold| threshold.name));
    similar::closest_name(name, names)
}

/// Finds the label, or category of labels, whose name is most similar to `name`.
pub fn closest_label(name: &str) -> Option<&'static str> {
    similar::closest_name(name, detectors().flat_map(|detector| [detector.explanation.name, detector.shared_prefix()]))
}

/// Lists the labels of a category with their documentation: `sink` finds `sink:no-op` and others.
pub fn labels_in_category(name: &str) -> Vec<Entry> {
    let is_in_category = |entry: &Entry| entry.name().split_once(':').is_some_and(|(family, _)| family == name);
    label_entries().filter(is_in_category).collect()
}

#[cfg(test)]
mod tests {
    use itertools::Itertools;

    use super::*;

    #[test]
    fn names_differ_and_explanations_are_complete() {
        let entries = || label_entries().chain(metric_entries());
        let names = entries().map(|entry| entry.name()).chain(STUDIES.iter().map(|study| study.card().name));
        assert_eq!(names.duplicates().collect_vec(), [""; 0]);
        for entry in entries() {
            let text = entry.explanation;
            for part in [text.measures, text.formula, text.chance, text.source] {
                assert!(!part.is_empty(), "{} is not explained whole", entry.name());
            }
            assert!(!entry.to_string().contains('{'), "{} names a threshold that is not its own", entry.name());
        }
    }

    #[test]
    fn what_builds_on_a_study_of_language_is_of_language() {
        let is_of_language = |name: &&str| find_study(name).unwrap().card().needs_language;
        for study in STUDIES.iter().map(|study| study.card()) {
            assert!(study.needs_language || !study.builds_on.iter().any(is_of_language), "{}", study.name);
        }
    }

    #[test]
    fn families_are_found_by_their_members() {
        let found = |name: &str| find_entry(name).map(|entry| entry.name());
        assert_eq!(found("offset:-3"), Some("offset:k"));
        assert_eq!(found("syntactic:nsubj:pass"), Some("syntactic:<relation>"));
        assert_eq!(found("offset_mass.-1"), Some("offset_mass"));
        assert_eq!(found("unlabelled"), Some("unlabelled"));
        assert_eq!([found("offset:1"), found("offset:9"), found("syntactic:"), found("nothing")], [None; 4]);
    }

    #[test]
    fn a_label_is_shown_by_its_code_its_parameter_or_itself() {
        let code = |label: &'static str| detector_of_label(label).unwrap().code_of_label(label);
        let shown = ["previous-token", "offset:-3", "offset:2", "syntactic:nsubj:pass", "broad"].map(code);
        assert_eq!(shown, ["prev", "-3", "+2", "nsubj:pass", "broad"]);
    }

    #[test]
    fn a_code_leads_back_to_its_label() {
        for (code, labels) in [
            ("prev", &["previous-token"][..]),
            ("+2", &["offset:2"]),
            ("nsubj:pass", &["syntactic:nsubj:pass"]),
            ("punct", &["syntactic:punct"]),
            ("broad", &["broad"]),
            (".", &[UNLABELLED]),
            ("-", &[ABSENT]),
            ("x", &[REMOVED]),
            ("2", &[]),
            ("nothing", &[]),
        ] {
            assert_eq!(labels_with_code(code), labels, "{code}");
        }
        // Whatever a grid shows is explained.
        for detector in detectors().filter(|detector| detector.style.code.is_some()) {
            assert!(!labels_with_code(detector.style.code.unwrap()).is_empty(), "{}", detector.explanation.name);
        }
    }

    #[test]
    fn thresholds_of_one_name_are_one_threshold() {
        let mut known: Vec<&Threshold> = Vec::new();
        for threshold in detectors().flat_map(|detector| detector.thresholds) {
            match known.iter().find(|other| other.name == threshold.name) {
                Some(other) => assert_eq!(other, threshold),
                None => known.push(threshold),
            }
        }
    }
}
