//! Which heads have the labels of each study, so that every study that was asked has an answer.

use crate::report::{HeadReport, Report};
use crate::study::labels::{BORDERLINE, Detector};
use crate::study::metrics::metric::Keys;
use crate::study::section::View;
use crate::study::show::wording::{decimal, plus_minus};
use crate::study::{AnyStudy, columns};

/// So many heads of a label are named.
const NAMED: usize = 6;

/// A line for each study that gives labels: how many heads have each, their first or not, and which. A study that has neither
/// labels nor anything else to say has the head with the most of its first metric.
pub(super) fn of_studies(report: &Report, views: &[(&'static dyn AnyStudy, View<'_>)]) -> String {
    let policy = &report.settings.policy;
    let line = |(study, view): &(&'static dyn AnyStudy, View<'_>)| {
        let labels = study.card().labels;
        let says = if labels.iter().any(|detector| detector.is_on(policy)) {
            Some(labelled(report, labels))
        } else if study.card().all_labels().next().is_none() && view.summary.is_empty() {
            most(report, *study)
        } else {
            None
        };
        says.map(|says| format!("  {}: {says}\n", study.card().name))
    };
    let lines: String = views.iter().filter(|(_, view)| !view.lacks_subject).filter_map(line).collect();
    if lines.is_empty() { lines } else { format!("Heads by study and label (first label or not):\n{lines}") }
}

/// The heads with any of these labels.
fn labelled(report: &Report, labels: &[Detector]) -> String {
    let with = |detector: &Detector| {
        let has = |head: &&HeadReport| head.labels.iter().any(|label| detector.gives(&label.label));
        let heads: Vec<&HeadReport> = report.heads.iter().filter(has).collect();
        let name = detector.explanation.name;
        let is_firm = |head: &HeadReport| head.labels.iter().any(|one| detector.gives(&one.label) && !one.borderline);
        let named = heads.iter().take(NAMED).map(|head| {
            let mark = if is_firm(head) { "" } else { BORDERLINE };
            format!("{}{mark}", head.place)
        });
        let named: Vec<String> = named.collect();
        let more = heads.len().saturating_sub(NAMED);
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        (!heads.is_empty()).then(|| format!("{name} {}{more}", named.join(" ")))
    };
    let found: Vec<String> = labels.iter().filter_map(with).collect();
    match &found[..] {
        [] => "no head has one of its labels".to_owned(),
        found => found.join(", "),
    }
}

/// The head that has most of the first metric of a study.
fn most(report: &Report, study: &dyn AnyStudy) -> Option<String> {
    let column = columns(study).into_iter().find(|column| matches!(column.keys, Keys::Single))?;
    let value = |head: &HeadReport| head.metrics.get(column.id, None).copied().flatten();
    let most = report.heads.iter().filter(|head| value(head).is_some());
    let most = most.max_by(|a, b| value(a).unwrap_or(0.0).total_cmp(&value(b).unwrap_or(0.0)))?;
    let ci95 = most.ci95.get(column.id, None).copied().flatten();
    let spread = plus_minus(ci95, 3);
    let chance = report.chance.get(column.id, None).copied().flatten();
    let chance = chance.map_or_else(String::new, |chance| format!(" (chance {})", decimal(chance, 3)));
    Some(format!("{} has the largest `{}`, {}{spread}{chance}", most.place, column.id, decimal(value(most)?, 3)))
}
