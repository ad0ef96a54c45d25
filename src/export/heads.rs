//! Heads and labels as figures and pages show them.

use std::collections::BTreeMap;

use super::palette::Hue;
use crate::report::{HeadReport, Report};
use crate::studies::registry;
use crate::study::labels::{ABSENT, ABSENT_SHOWN, Detector, REMOVED, REMOVED_SHOWN, UNLABELLED, UNLABELLED_SHOWN};

/// A head in a grid.
pub struct HeadCell {
    /// Its first label, shortened.
    pub code: String,
    /// The marks of the label ([`Report::marks`]).
    pub marks: String,
    /// The colour of the label.
    pub hue: Hue,
    /// All of it in words.
    pub words: String,
}

/// A label as a grid shows it, with its colour and its family.
pub struct GridLabel {
    /// Shortened.
    pub code: String,
    /// Its colour.
    pub hue: Hue,
    /// Its family: `offset:k` for `offset:-2`.
    pub family: String,
}

/// How a grid shows a label; one that this version does not know, as itself.
pub fn shown(label: &str) -> GridLabel {
    let of = |detector: &Detector| GridLabel {
        code: detector.code(label).into_owned(),
        hue: Hue::of(detector.shown.colour),
        family: detector.explanation.name.to_owned(),
    };
    let unknown = || {
        let signs = [(UNLABELLED, UNLABELLED_SHOWN), (ABSENT, ABSENT_SHOWN), (REMOVED, REMOVED_SHOWN)];
        let code = signs.iter().find(|(name, _)| *name == label).map_or(label, |(_, [sign, _])| sign);
        GridLabel { code: code.to_owned(), hue: Hue::Grey, family: label.to_owned() }
    };
    registry::detector_of(label).map_or_else(unknown, of)
}

impl HeadCell {
    /// A head of a report.
    pub fn of(report: &Report, head: &HeadReport) -> Self {
        let GridLabel { mut code, hue, .. } = shown(&head.primary);
        if let Some([sign, _]) = head.without_label() {
            sign.clone_into(&mut code);
        }
        let borderline = head.labels.first().is_some_and(|label| label.borderline);
        let tied = head.labels.iter().any(|label| label.tied);
        let mut words = format!("{}: {}", head.place, head.primary);
        if borderline {
            words.push_str(", borderline");
        }
        if head.is_undecided() {
            words.push_str(", too little to say");
        }
        if tied {
            words.push_str(", tied");
        }
        if report.is_constant(head) {
            words.push_str(", writes a constant");
        }
        if head.labels.len() > 1 {
            let others: Vec<&str> = head.labels.iter().skip(1).map(|label| label.label.as_str()).collect();
            words = format!("{words}; also {}", others.join(", "));
        }
        Self { code, marks: report.marks(head), hue, words }
    }
}

/// A family of labels that some head has, and where.
pub struct LabelFamily {
    /// Its name: that of its detector.
    pub name: String,
    /// A label of it, as a grid shows it, if all labels of the family are shown alike.
    pub code: Option<String>,
    /// Its colour.
    pub hue: Hue,
    pub meaning: &'static str,
    /// So many heads have it as their first label.
    pub first: usize,
    /// So many heads of each layer have a label of it, as their first or not.
    pub by_layer: Vec<usize>,
}

/// The families that some head has a label of, in the order of the table of detectors; those that are no more known after
/// them, and heads without a label last.
pub fn families(report: &Report) -> Vec<LabelFamily> {
    let order: BTreeMap<&str, usize> =
        registry::detectors().enumerate().map(|(place, detector)| (detector.explanation.name, place)).collect();
    let mut found: BTreeMap<(usize, String), LabelFamily> = BTreeMap::new();
    for head in &report.heads {
        let labels = head.labels.iter().map(|label| label.label.as_str());
        let none = head.labels.is_empty().then_some(&*head.primary);
        let mut seen = Vec::new();
        for label in labels.chain(none) {
            let GridLabel { code, hue, family } = shown(label);
            let place = order.get(family.as_str()).copied();
            let without = [UNLABELLED, ABSENT, REMOVED].iter().position(|none| *none == label);
            let place = place.unwrap_or(order.len() + without.map_or(0, |place| place + 1));
            let entry = found.entry((place, family.clone())).or_insert_with(|| LabelFamily {
                code: None,
                hue,
                meaning: registry::find(label).map_or("", |entry| entry.explanation.measures),
                first: 0,
                by_layer: vec![0; report.model.layers],
                name: family.clone(),
            });
            let has_parameter = family.contains('<') || family.ends_with(":k");
            entry.code = (!has_parameter && code != family).then_some(code);
            entry.first += usize::from(label == head.primary);
            if !seen.contains(&family) {
                entry.by_layer[head.place.layer] += 1;
                seen.push(family);
            }
        }
    }
    found.into_values().collect()
}
