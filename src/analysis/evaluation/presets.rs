//! Presets: published analyses, as lists of studies to switch on and thresholds to set.

use itertools::Itertools;

use crate::passes::ablation::Replacement;
use crate::sequences::reading::Spacing;
use crate::studies::registry;
use crate::study::AnyStudy;
use crate::study::labels::Label;
use crate::study::labels::policy::{Policy, Value};
use crate::study::metrics::metric::Values;

#[derive(Debug)]
pub struct Preset {
    /// Name of the preset on the command line.
    pub name: &'static str,
    pub description: &'static str,
    /// Names of the studies that the preset switches on.
    pub studies: &'static [&'static str],
    /// How the published analysis gave words to the tokenizer.
    pub spacing: Spacing,
    /// Whether the preset switches off all label rules that it does not set. Two presets that do so cannot be
    /// combined.
    pub is_exclusive: bool,
    /// Replacement of the outputs of removed attention heads in the published analysis; `None` if it removed no
    /// heads.
    pub removal: Option<Replacement>,
    /// Thresholds of the label policy that the preset sets, as `(name of the threshold, value)`.
    pub policy: &'static [(&'static str, Value)],
    /// Writes the preset's line of the summary, from the labels and metrics of every head; `None` if the preset has
    /// no such line.
    pub summary: Option<fn(&[LabelledHead<'_>]) -> String>,
}

/// The labels and the metric values of one attention head.
pub type LabelledHead<'a> = (&'a [Label], &'a Values);

/// An empty preset: presets take from it the fields that they do not set.
const EMPTY_PRESET: Preset = Preset {
    name: "",
    description: "",
    studies: &[],
    spacing: Spacing::Written,
    is_exclusive: false,
    removal: None,
    policy: &[],
    summary: None,
};

pub const PRESETS: &[Preset] = &[
    Preset {
        name: "clark2019",
        description: "Clark et al. 2019: pairs of segments, with separate metrics and labels in a separate section",
        studies: &["clark2019"],
        // The paper's corpora are words, joined by spaces.
        spacing: Spacing::Spaced,
        ..EMPTY_PRESET
    },
    // Sections 5.1 to 5.3: heads are positional by the place of the largest weight, and syntactic without a test. The paper names
    // no fewest words of a relation, and no threshold for rare words: these keep their defaults.
    Preset {
        name: "voita2019",
        description: "Voita et al. 2019: label positional, syntactic and rare-word heads by its definitions, and no others",
        is_exclusive: true,
        policy: &[("offset_argmax", Value::Share(0.9)), ("rare_argmax", Value::Share(0.1)), PRESET_LABEL_Q],
        summary: Some(voita2019_summary),
        ..EMPTY_PRESET
    },
    // Section 4.1 has the classes without numbers. Here one pattern explains half of the variance, or each of two a quarter.
    Preset {
        name: "kovaleva2019",
        description: "Kovaleva et al. 2019: pairs of sentences, and its five classes of patterns by rules, and no other labels",
        studies: &["segments"],
        is_exclusive: true,
        policy: &[
            ("class_column_r2", Value::Share(0.5)),
            ("class_offset_r2", Value::Share(0.5)),
            ("class_both_r2", Value::Share(0.25)),
            ("class_segment_r2", Value::Share(0.25)),
            PRESET_LABEL_Q,
            // This threshold cannot be off, but no head beats a baseline by 1.
            ("syntactic_margin", Value::Share(1.0)),
        ],
        summary: Some(kovaleva2019_summary),
        ..EMPTY_PRESET
    },
    // Section 3 removes heads by zeros, section 4 prunes them in the order of their derivatives.
    Preset {
        name: "michel2019",
        description: "Michel et al. 2019: heads of a task (`--task`) by derivative and by removal, by zeros, and how many can go",
        studies: &["task", "gradient", "pruning"],
        removal: Some(Replacement::Zero),
        ..EMPTY_PRESET
    },
    Preset {
        name: "blimp",
        description: "Warstadt et al. 2020: minimal pairs (`--task` with a file of BLiMP) and the heads that each phenomenon needs",
        studies: &["task"],
        ..EMPTY_PRESET
    },
];

/// Bound on q-values (`label_q`) for exclusive presets ([`Preset::is_exclusive`]). They switch off every rule that they
/// do not set, so they set this bound. It also applies to label rules that a policy file switches on again.
const PRESET_LABEL_Q: (&str, Value) = ("label_q", Value::Share(0.05));

pub fn find_preset(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

impl Preset {
    /// Whether the preset sets thresholds of labels, so that a saved report can be labelled by it.
    pub fn is_policy(&self) -> bool {
        !self.policy.is_empty()
    }
}

/// The default label policy with the thresholds of `presets`; later presets override earlier ones.
pub fn policy(presets: &[&Preset]) -> Policy {
    let policy = registry::default_policy();
    let alone = presets.iter().any(|preset| preset.is_exclusive);
    let off: Vec<&str> = policy.rule_names().filter(|_| alone).collect();
    let set = presets.iter().flat_map(|preset| preset.policy).copied();
    policy.with_values(off.into_iter().map(|rule| (rule, Value::Off)).chain(set))
}

/// The first study that a preset needs and `studies` lacks, as `(preset, study)`; `None` if no study is missing.
pub fn missing_study(
    presets: &[&'static Preset],
    studies: &[&'static dyn AnyStudy],
) -> Option<(&'static str, &'static str)> {
    let ran = |name: &str| studies.iter().any(|study| study.card().name == name);
    let needs = presets.iter().flat_map(|preset| preset.studies.iter().map(|study| (preset.name, *study)));
    needs.into_iter().find(|(_, study)| !ran(study))
}

/// Returns `Spaced` if one of `presets`, or a preset whose studies are all in `studies`, repeats an analysis with
/// spaced words. Otherwise `Written`.
pub fn spacing(presets: &[&Preset], studies: &[String]) -> Spacing {
    let is_asked_for = |preset: &&Preset| {
        let named = |study: &&str| studies.iter().any(|name| name == study);
        presets.iter().any(|followed| followed.name == preset.name)
            || (!preset.studies.is_empty() && preset.studies.iter().all(named))
    };
    let spaced = PRESETS.iter().filter(is_asked_for).find(|preset| preset.spacing == Spacing::Spaced);
    spaced.map_or(Spacing::Written, |preset| preset.spacing)
}

/// How the first preset that removes heads replaces their outputs, unless an option says otherwise. `None` if no
/// preset removes heads.
pub fn removal(presets: &[&Preset]) -> Option<Replacement> {
    presets.iter().find_map(|preset| preset.removal)
}

pub fn summary(presets: &[&Preset], heads: &[LabelledHead<'_>]) -> String {
    presets.iter().filter_map(|preset| preset.summary).map(|summary| summary(heads)).collect()
}

const POSITIONAL_LABELS: [&str; 3] = ["previous-token", "next-token", "offset:k"];
const SYNTACTIC_LABELS: [&str; 1] = ["syntactic:<relation>"];

/// The summary line of `voita2019`: the numbers of positional and of syntactic heads, with two mean confidences.
/// One mean is over heads with such a role, the other over all other heads.
fn voita2019_summary(heads: &[LabelledHead<'_>]) -> String {
    let has = |(labels, _): &LabelledHead<'_>, families: &[&str]| {
        labels
            .iter()
            .filter_map(|label| registry::find_entry(&label.label))
            .any(|family| families.contains(&family.name()))
    };
    let count = |families: &[&str]| heads.iter().filter(|head| has(head, families)).count();
    let (with_role, others): (Vec<&LabelledHead<'_>>, Vec<&LabelledHead<'_>>) =
        heads.iter().partition(|head| has(head, &POSITIONAL_LABELS) || has(head, &SYNTACTIC_LABELS));
    format!(
        "Preset voita2019: positional heads {}, syntactic heads {}; mean confidence of them {}, of the others {}\n",
        count(&POSITIONAL_LABELS),
        count(&SYNTACTIC_LABELS),
        mean_confidence(&with_role),
        mean_confidence(&others),
    )
}

fn kovaleva2019_summary(heads: &[LabelledHead<'_>]) -> String {
    let labels = heads.iter().flat_map(|(labels, _)| *labels);
    let counts = labels.filter_map(|label| label.label.strip_prefix("class:")).counts();
    let classes = ["vertical", "diagonal", "vertical+diagonal", "block", "heterogeneous"];
    let counted = classes.map(|class| format!("{class} {}", counts.get(class).unwrap_or(&0)));
    let without = heads.len() - counts.values().sum::<usize>();
    let without = if without > 0 { format!("; no class {without}") } else { String::new() };
    format!("Preset kovaleva2019: {}{without}\n", counted.join(", "))
}

fn mean_confidence(heads: &[&LabelledHead<'_>]) -> String {
    let known: Vec<f64> = heads.iter().filter_map(|(_, metrics)| *metrics.get("confidence", None)?).collect();
    if known.is_empty() {
        return "-".to_owned();
    }
    format!("{:.3}", known.iter().sum::<f64>() / known.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::block_test::Scale;
    use crate::study::labels::evidence::MarginTest;
    use crate::study::metrics::metric::Column;
    use crate::study::metrics::metric::MetricKeys;

    #[test]
    fn presets_name_what_there_is() {
        for preset in PRESETS {
            preset.studies.iter().for_each(|study| assert!(registry::find_study(study).is_some(), "{study}"));
            // Panics at a threshold that is not there.
            let _ = policy(&[preset]);
        }
    }

    /// The thresholds of labels under a preset, without the health of the input, which no preset changes.
    fn of_labels(preset: &str) -> serde_json::Map<String, serde_json::Value> {
        let policy = serde_json::to_value(policy(&[find_preset(preset).unwrap()])).unwrap();
        let thresholds = policy.as_object().unwrap().clone().into_iter();
        thresholds.filter(|(name, _)| !name.starts_with("health_")).collect()
    }

    #[test]
    fn voita2019_has_three_rules() {
        let policy = of_labels("voita2019");
        let thresholds = policy.iter();
        let on: Vec<(&str, f64)> =
            thresholds.filter_map(|(name, threshold)| Some((name.as_str(), threshold.as_f64()?))).collect();
        // The thresholds of the paper, and numbers that are never off.
        let expected = [
            ("label_q", 0.05),
            ("link_beyond_margin", 0.02),
            ("min_queries", 100.0),
            ("min_sentences", 30.0),
            ("offset_argmax", 0.9),
            ("rare_argmax", 0.1),
            ("syntactic_beyond_margin", 0.02),
            ("syntactic_margin", 0.1),
            ("syntactic_min_count", 100.0),
            ("syntactic_specific_margin", 0.05),
        ];
        assert_eq!(on, expected);
    }

    #[test]
    fn kovaleva2019_has_its_classes_alone() {
        let policy = of_labels("kovaleva2019");
        let shares = policy.iter().filter(|(_, value)| value.is_f64());
        let on: Vec<&str> = shares.map(|(name, _)| name.as_str()).collect();
        let classes = ["class_both_r2", "class_column_r2", "class_offset_r2", "class_segment_r2"];
        assert_eq!(on[..4], classes);
        let others = [
            "label_q",
            "link_beyond_margin",
            "syntactic_beyond_margin",
            "syntactic_margin",
            "syntactic_specific_margin",
        ];
        assert_eq!(on[4..], others);
        // By default there are none.
        let default = serde_json::to_value(super::policy(&[])).unwrap();
        assert!(classes.iter().all(|class| default[*class].is_null()));
    }

    #[test]
    fn a_preset_that_measures_alone_leaves_another_its_rules() {
        let voita2019 = find_preset("voita2019").unwrap();
        assert_eq!(policy(&[find_preset("clark2019").unwrap(), voita2019]), policy(&[voita2019]));
    }

    #[test]
    fn the_line_of_kovaleva2019_counts_classes() {
        let head = |class: &str| (vec![label(class)], Values::default());
        let heads = ["class:vertical", "class:block", "class:vertical"].map(head);
        let heads: Vec<LabelledHead<'_>> = heads.iter().map(|(labels, metrics)| (&labels[..], metrics)).collect();
        let line = "Preset kovaleva2019: vertical 2, diagonal 0, vertical+diagonal 0, block 1, heterogeneous 0\n";
        assert_eq!(kovaleva2019_summary(&heads), line);
        let none: [LabelledHead<'_>; 2] = [heads[1], (&[], heads[0].1)];
        insta::assert_snapshot!(kovaleva2019_summary(&none), @"Preset kovaleva2019: vertical 0, diagonal 0, vertical+diagonal 0, block 1, heterogeneous 0; no class 1");
    }

    #[test]
    fn a_preset_may_need_a_study() {
        let kovaleva = [find_preset("kovaleva2019").unwrap()];
        let segments = registry::find_study("segments").unwrap();
        assert_eq!(missing_study(&kovaleva, &[]), Some(("kovaleva2019", "segments")));
        assert_eq!(missing_study(&kovaleva, &[segments]), None);
        assert_eq!(missing_study(&[find_preset("voita2019").unwrap()], &[]), None);
    }

    const CONFIDENCE: Column =
        Column { id: "confidence", keys: MetricKeys::Single, scale: Scale::Share, bounds: [0.0, 1.0] };

    fn label(label: &str) -> Label {
        Label {
            label: label.to_owned(),
            number: String::new(),
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
            test: MarginTest::default(),
            versus_offset: None,
            beyond: None,
            specific: None,
            versus_tags: None,
            knockout: None,
        }
    }

    #[test]
    fn the_line_of_voita2019_counts_heads_and_averages_their_confidence() {
        let head = |labels: &[&str], confidence: Option<f64>| {
            let labels: Vec<Label> = labels.iter().map(|name| label(name)).collect();
            (labels, Values::new(&[CONFIDENCE], [confidence]))
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
        let heads: Vec<LabelledHead<'_>> = heads.iter().map(|(labels, metrics)| (&labels[..], metrics)).collect();
        assert_eq!(
            voita2019_summary(&heads),
            "Preset voita2019: positional heads 2, syntactic heads 2; mean confidence of them 0.750, of the others 0.375\n"
        );
        let none =
            "Preset voita2019: positional heads 0, syntactic heads 0; mean confidence of them -, of the others 0.250\n";
        assert_eq!(voita2019_summary(&heads[3..4]), none);
    }
}
