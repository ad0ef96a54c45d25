//! What the summary says of controls, and of each study that was asked.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use crate::passes::control::ControlKind;
use crate::report::{ControlReport, HeadReport, Report};
use crate::studies::registry;
use crate::study::labels::{BORDERLINE, Detector};
use crate::study::metrics::metric::Keys;
use crate::study::section::View;
use crate::study::show::summary::Summary;
use crate::study::show::wording::{decimal, plus_minus};
use crate::study::{AnyStudy, columns};
use crate::system::counted::counted;
use crate::system::printable::one_line;

/// So many heads are listed with what they keep; the report has all.
const SHOWN: usize = 12;

/// A paragraph for each kind of control.
pub(super) fn write(out: &mut Summary, report: &Report) -> fmt::Result {
    for (kind, runs) in report.controls_by_kind() {
        write!(out, "\nControl {kind}, mean of {}: ", counted(runs.len(), "seed"))?;
        let (meaning, is_trained) = match kind {
            ControlKind::RandomInit => ("nothing was learned, so its labels are the false positives.", false),
            ControlKind::RandomSharp => (
                "nothing was learned but how sharply each layer attends, so its labels are the false positives.",
                false,
            ),
            ControlKind::Rotated => ("the labels that their heads keep do not rest on what earlier heads write.", true),
            // How many it has says nothing: shuffling takes the fixed offsets away that syntactic labels are held against.
            ControlKind::ShuffledWords => ("the labels that their heads keep do not rest on the order of words.", true),
        };
        writeln!(out, "{meaning}")?;
        if is_trained {
            writeln!(out, "  kept: {}", families(report, &runs, |run| &run.kept_counts).join(", "))?;
            kept_by_heads(out, report, &runs)?;
        } else {
            writeln!(out, "  found: {}", families(report, &runs, |run| &run.label_counts).join(", "))?;
        }
    }
    Ok(())
}

/// Each family that there is any of, with its mean over the seeds beside the number in the analysis itself.
fn families(
    report: &Report,
    runs: &[&ControlReport],
    counts: fn(&ControlReport) -> &BTreeMap<String, u64>,
) -> Vec<String> {
    let shown = report.label_counts.iter().filter_map(|(family, here)| {
        let there: Vec<u64> = runs.iter().map(|run| counts(run).get(family).copied()).collect::<Option<_>>()?;
        let total: u64 = there.iter().sum();
        let mean = total as f64 / runs.len() as f64;
        (total > 0 || *here > 0 || is_watched(family)).then(|| format!("{family} {mean:.1} (model {here})"))
    });
    shown.collect()
}

/// Whether controls are run for labels of this family.
fn is_watched(family: &str) -> bool {
    let named = |detector: &Detector| detector.explanation.name == family && detector.shown.in_controls;
    registry::detectors().any(named)
}

/// The heads that keep a label for which controls are run with every seed.
fn kept_by_heads(out: &mut Summary, report: &Report, runs: &[&ControlReport]) -> fmt::Result {
    let kept = |head: &HeadReport| {
        let labels = head.labels_kept(runs).filter_map(|label| {
            let detector = registry::detector_of(label)?;
            detector.shown.in_controls.then(|| one_line(&detector.code(label)))
        });
        let labels: Vec<String> = labels.collect();
        (!labels.is_empty()).then(|| format!("{} {}", head.place, labels.join(", ")))
    };
    let heads: Vec<String> = report.heads.iter().filter_map(kept).collect();
    if heads.is_empty() {
        return Ok(());
    }
    write!(out, "  with every seed: {}", heads[..heads.len().min(SHOWN)].join("; "))?;
    match heads.len().saturating_sub(SHOWN) {
        0 => writeln!(out),
        more => writeln!(out, "; and {}", counted(more, "more head")),
    }
}

const NAMED: usize = 6;

/// A line for each study: which heads have its labels, or without labels and text the head with most of its first metric.
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
