//! `headscope relabel`: another policy over a saved report, without the model; `show` and `export` take one as well.

use std::collections::BTreeSet;
use std::fmt::{self, Write};
use std::path::PathBuf;

use anyhow::Result;

use crate::commands::reporting::outputs;
use crate::commands::reporting::policy::PolicyOptions;
use crate::export::{Target, json, summary};
use crate::report::{HeadReport, Report};
use crate::system::counted::{counted, plural};
use crate::system::terminal::print;

/// A saved report and another policy.
#[derive(Clone)]
pub struct RelabelOptions {
    /// The saved report; `-` is standard input.
    pub report: PathBuf,
    /// The policy by which labels are given.
    pub policy: PolicyOptions,
    /// The destination of the new report.
    pub outputs: Vec<Target>,
}

/// Labels the heads of a saved report by another policy, says what changes, and writes the new report.
/// Fails if the report or the policy cannot be used, or an output cannot be written.
pub fn relabel(options: &RelabelOptions) -> Result<()> {
    let outputs = outputs::open(&options.outputs)?;
    let (name, text) = (options.report.display().to_string(), json::read_text(&options.report)?);
    let report = json::parse(&name, &text)?;
    outputs::write(&options.policy.applied(report, &name)?, outputs)?;
    if options.outputs.iter().any(|target| matches!(target, Target::Stdout(_))) {
        return Ok(());
    }
    print(&changed(&name, &text, &options.policy)?)
}

/// The thresholds and the labels that another policy changes in a saved report of this name and text.
/// Fails if the report or the policy cannot be used.
pub fn changed(name: &str, text: &str, policy: &PolicyOptions) -> Result<String> {
    // A terminal shows the report as it is parsed for that, on either side.
    let relabelled = policy.applied(json::parse_to_show(name, text)?, name)?;
    let preset = summary::of_presets(&policy.presets, &relabelled.heads);
    Ok(format!("{}{preset}", changes(&json::parse_to_show(name, text)?, &relabelled)))
}

/// The thresholds and the labels in which two reports over the same evidence differ.
fn changes(before: &Report, after: &Report) -> String {
    let mut text = String::new();
    write_changes(&mut text, before, after).expect("writing to a string does not fail");
    text
}

fn write_changes(out: &mut String, before: &Report, after: &Report) -> fmt::Result {
    for (name, old, new) in before.settings.policy.differences(&after.settings.policy) {
        writeln!(out, "{name}: {old} -> {new}")?;
    }
    if before.controls.len() > after.controls.len() {
        writeln!(out, "The counts of the controls are left out: a report has no evidence to label them anew.")?;
    }
    let heads = before.heads.iter().zip(&after.heads);
    let changed: Vec<String> = heads.filter_map(|(before, after)| change(before, after)).collect();
    if changed.is_empty() {
        return writeln!(out, "No label changes.");
    }
    let (heads, change) =
        (counted(before.present_heads().count(), "head"), plural(&changed.len(), "changes", "change"));
    writeln!(out, "{} of {heads} {change}:", changed.len())?;
    changed.iter().try_for_each(|line| writeln!(out, "{line}"))
}

/// How the labels of one head change, if they do.
fn change(before: &HeadReport, after: &HeadReport) -> Option<String> {
    let labels =
        |head: &HeadReport| -> BTreeSet<String> { head.labels.iter().map(|label| label.label.clone()).collect() };
    let (old, new) = (labels(before), labels(after));
    let lost = old.difference(&new).map(|label| format!("-{label}"));
    let gained = new.difference(&old).map(|label| format!("+{label}"));
    let labels: Vec<String> = lost.chain(gained).collect();
    let moved = before.primary != after.primary;
    let primary = moved.then(|| format!("primary {} -> {}", before.primary, after.primary));
    let changes: Vec<String> = primary.into_iter().chain((!labels.is_empty()).then(|| labels.join(" "))).collect();
    (!changes.is_empty()).then(|| format!("  {:7} {}", after.place.to_string(), changes.join("  ")))
}
