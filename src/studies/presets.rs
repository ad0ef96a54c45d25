//! Presets: published analyses, as lists of studies that are switched on and of thresholds that are set.

use super::all;
use super::label::Label;
use super::metric::Values;
use super::policy::{Policy, Value};

/// A published analysis.
#[derive(Debug)]
pub struct Preset {
    /// Its name on the command line.
    pub name: &'static str,
    /// A line of help.
    pub about: &'static str,
    /// The studies that it switches on.
    pub studies: &'static [&'static str],
    /// The thresholds that it sets.
    pub policy: &'static [(&'static str, Value)],
    /// Its line of the summary, of every head's labels and metrics.
    pub summary: Option<fn(&[Labelled<'_>]) -> String>,
}

/// The labels and metrics of one head.
pub type Labelled<'a> = (&'a [Label], &'a Values);

/// Every preset.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "clark2019",
        about: "Clark et al. 2019: pairs of segments, its own metrics and labels, in a section of its own",
        studies: &["clark2019"],
        policy: &[],
        summary: None,
    },
    // Sections 5.1 to 5.3: heads are positional by where the largest weight is, and syntactic without a test. The paper
    // names no fewest words of a relation, and no threshold for rare words, so those are as by default.
    Preset {
        name: "voita2019",
        about: "Voita et al. 2019: label positional, syntactic and rare-word heads by its definitions, and no others",
        studies: &[],
        policy: &[
            ("offset_mass", Value::Off),
            ("self_mass", Value::Off),
            ("window_mass", Value::Off),
            ("separator_mass", Value::Off),
            ("first_special_mass", Value::Off),
            ("punctuation_mass", Value::Off),
            ("entropy_ratio", Value::Off),
            ("content_mass", Value::Off),
            ("similarity_gain", Value::Off),
            ("repeat_score", Value::Off),
            ("coreference_margin", Value::Off),
            ("sink_no_op_output", Value::Off),
            ("sink_no_op_part", Value::Off),
            ("sink_parked_part", Value::Off),
            ("sink_same", Value::Off),
            ("syntactic_q", Value::Off),
        ],
        summary: Some(voita2019),
    },
];

/// The preset of this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

impl Preset {
    /// Whether it says anything of labels, so that a saved report can be labelled by it.
    #[must_use]
    pub fn is_policy(&self) -> bool {
        !self.policy.is_empty()
    }
}

/// The default policy with the thresholds of some presets, the later ones having the last word.
#[must_use]
pub fn policy(presets: &[&Preset]) -> Policy {
    presets.iter().fold(all::default_policy(), |policy, preset| policy.with(preset.policy.iter().copied()))
}

/// The lines that presets add to a summary.
#[must_use]
pub fn summary(presets: &[&Preset], heads: &[Labelled<'_>]) -> String {
    presets.iter().filter_map(|preset| preset.summary).map(|summary| summary(heads)).collect()
}

/// The families of labels that Voita et al. 2019 call positional.
const POSITIONAL: [&str; 3] = ["previous-token", "next-token", "offset:k"];

/// The family that they call syntactic.
const SYNTACTIC: [&str; 1] = ["syntactic:<relation>"];

/// How many heads have the two roles of Voita et al. 2019, and how confident they are beside the others.
fn voita2019(heads: &[Labelled<'_>]) -> String {
    let has = |(labels, _): &Labelled<'_>, families: &[&str]| {
        labels.iter().filter_map(|label| all::find(&label.label)).any(|family| families.contains(&family.name()))
    };
    let count = |families: &[&str]| heads.iter().filter(|head| has(head, families)).count();
    let (with_role, others): (Vec<&Labelled<'_>>, Vec<&Labelled<'_>>) =
        heads.iter().partition(|head| has(head, &POSITIONAL) || has(head, &SYNTACTIC));
    format!(
        "Preset voita2019: positional heads {}, syntactic heads {}; mean confidence of them {}, of the others {}\n",
        count(&POSITIONAL),
        count(&SYNTACTIC),
        mean_confidence(&with_role),
        mean_confidence(&others),
    )
}

fn mean_confidence(heads: &[&Labelled<'_>]) -> String {
    let known: Vec<f64> = heads.iter().filter_map(|(_, metrics)| *metrics.get("confidence", None)?).collect();
    if known.is_empty() {
        return "-".to_owned();
    }
    format!("{:.3}", known.iter().sum::<f64>() / known.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::studies::metric::Keys;

    #[test]
    fn presets_name_what_there_is() {
        for preset in PRESETS {
            preset.studies.iter().for_each(|study| assert!(all::named(study).is_some(), "{study}"));
            // Panics at a threshold that is not there.
            let _ = policy(&[preset]);
        }
    }

    #[test]
    fn voita2019_has_three_rules() {
        let policy = serde_json::to_value(policy(&[named("voita2019").unwrap()])).unwrap();
        let thresholds = policy.as_object().unwrap().iter();
        let on: Vec<(&str, f64)> =
            thresholds.filter_map(|(name, threshold)| Some((name.as_str(), threshold.as_f64()?))).collect();
        // Those of the paper, and numbers that are never off.
        let expected = [
            ("label_q", 0.05),
            ("min_queries", 100.0),
            ("min_sentences", 30.0),
            ("offset_argmax", 0.9),
            ("rare_argmax", 0.1),
            ("syntactic_beyond_margin", 0.02),
            ("syntactic_margin", 0.1),
            ("syntactic_min_count", 100.0),
        ];
        assert_eq!(on, expected);
    }

    fn label(label: &str) -> Label {
        Label {
            label: label.to_owned(),
            score: 1.0,
            ci95: None,
            baseline: None,
            threshold: 0.9,
            margin: 1.0,
            rule: String::new(),
            borderline: true,
            tied: false,
            rests_on: None,
            direction: None,
            test: None,
            versus_offset: None,
            beyond: None,
            versus_tags: None,
        }
    }

    #[test]
    fn the_line_of_voita2019_counts_heads_and_averages_their_confidence() {
        let head = |labels: &[&str], confidence: Option<f64>| {
            let labels: Vec<Label> = labels.iter().map(|name| label(name)).collect();
            (labels, Values::new(&[("confidence", Keys::Single)], [confidence]))
        };
        let heads = [
            head(&["previous-token", "offset:-2"], Some(0.75)),
            head(&["syntactic:obj", "syntactic:nsubj", "next-token"], Some(0.5)),
            head(&["syntactic:all"], Some(1.0)),
            head(&[], Some(0.25)),
            // A policy file may have switched the rule on.
            head(&["separator"], Some(0.5)),
            head(&[], None),
        ];
        let heads: Vec<Labelled<'_>> = heads.iter().map(|(labels, metrics)| (&labels[..], metrics)).collect();
        assert_eq!(
            voita2019(&heads),
            "Preset voita2019: positional heads 2, syntactic heads 2; mean confidence of them 0.750, of the others 0.375\n"
        );
        let none =
            "Preset voita2019: positional heads 0, syntactic heads 0; mean confidence of them -, of the others 0.250\n";
        assert_eq!(voita2019(&heads[3..4]), none);
    }
}
