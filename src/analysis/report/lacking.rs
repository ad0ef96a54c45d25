//! Studies that give no label since they saw too little, and heads without one.

use super::{HeadReport, Report};
use crate::study::labels::{ABSENT_SHOWN, Near, REMOVED_SHOWN, UNDECIDED_SHOWN, UNLABELLED_SHOWN};
use crate::study::show::in_brief::Shortage;
use crate::study::{AnyStudy, columns};
use crate::system::counted::plural;

/// A line for each reason, with all studies that have it.
pub fn lines(report: &Report) -> Vec<String> {
    let line = |Shortage { of, count, things: [one, many], asked, threshold, .. }: Shortage| {
        let things = plural(&count, one, many);
        let threshold = threshold.map_or_else(String::new, |name| format!(" (`{name}`)"));
        format!("Too little for {of}: {count} {things}, where a label asks for {asked}{threshold}.")
    };
    shortages(report).into_iter().map(line).collect()
}

/// Evidence that labels of whole studies lack; studies that lack the same are one.
pub(super) fn shortages(report: &Report) -> Vec<Shortage> {
    let mut found: Vec<Shortage> = Vec::new();
    for (study, _) in &report.sections.0 {
        let Some(shortage) = of_study(report, *study) else { continue };
        let same = |known: &&mut Shortage| (known.count, &known.things) == (shortage.count, &shortage.things);
        match found.iter_mut().find(same) {
            Some(known) => known.of = format!("{}, {}", known.of, study.card().name),
            None => found.push(shortage),
        }
    }
    found
}

/// The data that all metrics of a study lack for any of its labels, by the metric that has most.
fn of_study(report: &Report, study: &dyn AnyStudy) -> Option<Shortage> {
    let policy = &report.settings.policy;
    let card = study.card();
    if !card.all_labels().any(|detector| detector.is_on(policy)) {
        return None;
    }
    let ids: Vec<&str> = columns(study).into_iter().map(|column| column.id).collect();
    let is_own = |name: &str| ids.contains(&name.split_once('.').map_or(name, |(id, _)| id));
    let rest_on = report.denominators.cells().filter(|(name, _)| is_own(name)).map(|(_, rests_on)| *rests_on);
    let most = rest_on.max_by_key(|rests_on| (rests_on.sentences, rests_on.count))?;
    // Not every corpus has what a study is about that runs unasked: such a one says itself that there was nothing.
    let is_said = most.count == 0 && card.runs_first();
    Shortage::of_labels(format!("a label of {}", card.name), &most, policy).filter(|_| !is_said)
}

impl HeadReport {
    /// Whether it has no label and more text might give it one: the interval of a label that it is nearest to reaches the
    /// threshold or is not known, or no rule could be tested.
    pub fn is_undecided(&self) -> bool {
        let reaches = |near: &Near| near.ci95.is_none_or(|ci95| ci95.high() >= near.threshold);
        self.labels.is_empty() && !self.is_absent() && (self.nearest.is_empty() || self.nearest.iter().any(reaches))
    }

    /// The sign that a grid has for a head without a label, and its meaning; `None` of others.
    pub fn without_label(&self) -> Option<[&'static str; 2]> {
        let sign = match (self.is_absent(), self.is_undecided()) {
            (true, _) if self.is_removed() => REMOVED_SHOWN,
            (true, _) => ABSENT_SHOWN,
            (_, true) => UNDECIDED_SHOWN,
            _ => UNLABELLED_SHOWN,
        };
        self.labels.is_empty().then_some(sign)
    }
}
