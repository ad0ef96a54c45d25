//! The controls in the summary: what their labels mean, and what heads keep.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use crate::passes::control::ControlKind;
use crate::report::{ControlReport, HeadReport, Report};
use crate::studies::registry;
use crate::study::labels::Detector;
use crate::study::show::summary::Summary;
use crate::system::counted::counted;
use crate::system::printable::one_line;

/// So many heads are listed with what they keep; the report has all.
const SHOWN: usize = 12;

/// A paragraph for each kind of control.
pub(super) fn write(out: &mut Summary, report: &Report) -> fmt::Result {
    for (kind, runs) in report.controls_by_kind() {
        write!(out, "\nControl {kind}, mean of {}: ", counted(runs.len(), "seed"))?;
        match kind {
            ControlKind::RandomInit => {
                writeln!(out, "nothing was learned, so its labels are the false positives.")?;
                let found = families(report, &runs, |run| &run.label_counts);
                writeln!(out, "  found: {}", found.join(", "))?;
            }
            ControlKind::RandomSharp => {
                writeln!(
                    out,
                    "nothing was learned but how sharply each layer attends, so its labels are the false positives."
                )?;
                let found = families(report, &runs, |run| &run.label_counts);
                writeln!(out, "  found: {}", found.join(", "))?;
            }
            ControlKind::Rotated => {
                writeln!(out, "the labels that their heads keep do not rest on what earlier heads write.")?;
                let kept = families(report, &runs, |run| &run.kept_counts);
                writeln!(out, "  kept: {}", kept.join(", "))?;
                kept_by_heads(out, report, &runs)?;
            }
            // How many it has says nothing: shuffling takes the fixed offsets away that syntactic labels are held against.
            ControlKind::ShuffledWords => {
                writeln!(out, "the labels that their heads keep do not rest on the order of words.")?;
                let kept = families(report, &runs, |run| &run.kept_counts);
                writeln!(out, "  kept: {}", kept.join(", "))?;
                kept_by_heads(out, report, &runs)?;
            }
        }
    }
    Ok(())
}

/// Each family that there is any of, with its mean over the seeds beside the number in the analysis itself; of studies that a
/// control does not run there is nothing to say.
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
