//! `headscope show` prints a saved report; `headscope relabel` applies another policy to it.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail, ensure};
use itertools::Itertools as _;

use crate::commands::reporting::{self, PolicyOptions, relabel_if_given};
use crate::evaluation::presets::Preset;
use crate::export::summary::{self, Detail};
use crate::export::{OutputTarget, card, json, tables};
use crate::model::grid::HeadPlace;
use crate::report::{HeadReport, Report};
use crate::studies::registry::{self, STUDIES};
use crate::study::labels::Label;
use crate::study::tracked::RelationScores;
use crate::system::counts::{format_count, plural};
use crate::system::errors::{ErrorClass, ErrorExt, similar};
use crate::system::printable::shorten;
use crate::system::printable::write_to_string;
use crate::system::terminal::{self, print};

/// Part of a saved report to show.
pub enum ShownPart {
    Summary(Detail),
    PolicyChanges,
    Head(HeadPlace, Detail),
    HeadTable,
    Relation { name: String, top: usize },
    Label(String),
}

/// Shows a saved report (`-`: standard input) or a part of it, labelled by `policy` if there is one.
/// Fails if the report cannot be read, or has no such part.
pub fn show(path: &Path, policy: Option<&PolicyOptions>, part: &ShownPart, json: bool) -> Result<()> {
    let (name, saved) = (path.display().to_string(), json::read_text(path)?);
    let report = if json { json::parse(&name, &saved)? } else { json::parse_for_display(&name, &saved)? };
    let report = relabel_if_given(report, policy, &name)?;
    let width = terminal::stdout_width();
    let text = match part {
        ShownPart::PolicyChanges => {
            policy.map(|policy| policy_changes(&name, &saved, policy)).transpose()?.unwrap_or_default()
        }
        ShownPart::Summary(_) if json => json::to_indented_json(&report)?,
        ShownPart::Summary(detail) => summary::render(&report, &NO_PRESETS, *detail, width),
        ShownPart::Head(place, detail) => {
            let head = find_head(&report, *place)?;
            match detail {
                _ if json => json::to_indented_json(&card::head_data(&report, head)?)?,
                Detail::Full => card::full_head_card(&report, head).fit(width),
                Detail::Brief => {
                    let more = format!("\nEverything on {place}: headscope show {name} {place} --all\n");
                    card::head_card(&report, head).fit(width) + &more
                }
            }
        }
        ShownPart::HeadTable if json => json::to_indented_json(&tables::head_objects(&report))?,
        ShownPart::HeadTable => tables::terminal_head_table(&report).fit(width),
        ShownPart::Relation { name, top } => {
            let mut parts = find_relation(&report, name)?;
            parts.iter_mut().for_each(|tracked| tracked.heads.truncate(*top));
            match &parts[..] {
                parts if !json => parts.iter().map(|tracked| card::relation_card(tracked, *top).fit(width)).join("\n"),
                [whole] => json::to_indented_json(whole)?,
                parts => json::to_indented_json(&parts)?,
            }
        }
        ShownPart::Label(label) => {
            let found = heads_with_label(&report, label)?;
            if json { json::to_indented_json(&card::label_data(&found)?)? } else { card::label_card(&found).fit(width) }
        }
    };
    print(&text)
}

/// Empty list of presets: a report does not record the presets of its labels.
const NO_PRESETS: [&Preset; 0] = [];

fn find_head(report: &Report, place: HeadPlace) -> Result<&HeadReport> {
    let grid = report.model.grid();
    let head = report.heads.iter().find(|head| head.place == place);
    head.with_context(|| format!("there is no head {place}: the model has {grid}, both counted from 0"))
        .with_value(place)
        .class(ErrorClass::Usage)
}

/// Heads that follow the relation with this name.
/// An encoder has one entry; a decoder has one per side of the syntactic head. Fails if the report has no such relation.
fn find_relation(report: &Report, name: &str) -> Result<Vec<RelationScores>> {
    let tracked: Vec<RelationScores> = report.section_views().flat_map(|(_, view)| view.relation_scores).collect();
    ensure!(
        !tracked.is_empty(),
        anyhow!("the report has no relations")
            .hint("analyse a corpus with dependency trees, with the study `dependency`")
    );
    let (named, mut others): (Vec<RelationScores>, Vec<RelationScores>) =
        tracked.into_iter().partition(|tracked| tracked.relation == name);
    if !named.is_empty() {
        return Ok(named);
    }
    others.sort_by_key(|tracked| std::cmp::Reverse(tracked.words));
    let others: Vec<&str> = others.iter().map(|tracked| &*tracked.relation).unique().collect();
    let shown = shorten(&name.escape_debug().to_string());
    let unknown = anyhow!("the report has no relation `{shown}`: it has {}", shortened_list(&others.join(", ")));
    let closest = similar::closest_name(name, others);
    Err(unknown.with_value(name).did_you_mean(closest).class(ErrorClass::Usage))
}

/// List of names, cut after a few lines of a terminal.
fn shortened_list(names: &str) -> String {
    /// Maximum number of characters of a list, about three lines of a terminal.
    const MAX_CHARACTERS: usize = 240;
    match names.char_indices().nth(MAX_CHARACTERS) {
        Some((cut, _)) => {
            format!("{} ...", names[..cut].rsplit_once(", ").map_or(&names[..cut], |(complete, _)| complete))
        }
        None => names.to_owned(),
    }
}

/// Heads that have a label with this name, label family or grid code, each with the label. Fails if there is none.
fn heads_with_label<'a>(report: &'a Report, name: &str) -> Result<Vec<(&'a HeadReport, &'a Label)>> {
    let labels = |head: &'a HeadReport| head.labels.iter().chain(&head.chooses).map(move |label| (head, label));
    let all = || report.heads.iter().flat_map(labels);
    let is_meant = |label: &str| {
        label == name || registry::detector_of_label(label).is_some_and(|of| of.matches_name(label, name))
    };
    let matching: Vec<_> = all().filter(|(_, label)| is_meant(&label.label)).collect();
    if !matching.is_empty() {
        return Ok(matching);
    }
    let labels_in_words = || {
        let names = all().map(|(_, label)| label.label.as_str()).sorted_unstable().dedup().join(", ");
        match &*names {
            "" => "no head has a label".to_owned(),
            names => format!("heads of this report have {}", shortened_list(names)),
        }
    };
    let shown = shorten(&name.escape_debug().to_string());
    if let Some(study) =
        STUDIES.iter().find(|study| study.card().all_labels().any(|detector| detector.matches_any_label(name)))
    {
        let none = anyhow!("no head has the label `{shown}` in this report").with_value(name);
        let study_name = study.card().name;
        let was_run = report.sections.0.iter().any(|(study, _)| study.card().name == study_name);
        bail!(if was_run {
            none.hint(labels_in_words())
        } else {
            none.hint(format!("the study `{study_name}` gives it, and was not run: `--with {study_name}`"))
        });
    }
    let meant = anyhow!("there is no label `{shown}`").with_value(name);
    let closest = registry::closest_label(name);
    let error = if closest.is_some() { meant.did_you_mean(closest) } else { meant.hint(labels_in_words()) };
    Err(error.class(ErrorClass::Usage))
}

/// Labels the heads of a saved report (`-`: standard input) by another policy, says what changes, and writes the new report.
/// Fails if the report or the policy cannot be used, or an output cannot be written.
pub fn relabel(path: &Path, policy: &PolicyOptions, targets: &[OutputTarget]) -> Result<()> {
    let outputs = reporting::open_targets(targets)?;
    let (name, text) = (path.display().to_string(), json::read_text(path)?);
    reporting::write_report(&policy.relabel(json::parse(&name, &text)?, &name)?, outputs)?;
    if targets.iter().any(|target| matches!(target, OutputTarget::Stdout(_))) {
        return Ok(());
    }
    print(&policy_changes(&name, &text, policy)?)
}

/// Describes the thresholds and labels that another policy changes in a saved report with this name and text.
pub fn policy_changes(name: &str, text: &str, policy: &PolicyOptions) -> Result<String> {
    // Both reports are parsed for display, because the result goes to a terminal.
    let relabelled = policy.relabel(json::parse_for_display(name, text)?, name)?;
    let preset = summary::presets_text(&policy.presets, &relabelled.heads);
    Ok(format!("{}{preset}", report_differences(&json::parse_for_display(name, text)?, &relabelled)))
}

/// Describes the thresholds and labels that differ between two reports over equal evidence.
fn report_differences(before: &Report, after: &Report) -> String {
    write_to_string(|out| {
        for (name, old, new) in before.settings.policy.differences(&after.settings.policy) {
            writeln!(out, "{name}: {old} -> {new}")?;
        }
        if before.controls.len() > after.controls.len() {
            writeln!(out, "The counts of the controls are left out: a report has no evidence to label them anew.")?;
        }
        let heads = before.heads.iter().zip(&after.heads);
        let changed: Vec<String> = heads.filter_map(|(before, after)| head_difference(before, after)).collect();
        if changed.is_empty() {
            return writeln!(out, "No label changes.");
        }
        let (heads, change) =
            (format_count(before.present_heads().count(), "head"), plural(&changed.len(), "changes", "change"));
        writeln!(out, "{} of {heads} {change}:", changed.len())?;
        changed.iter().try_for_each(|line| writeln!(out, "{line}"))
    })
}

/// Describes the labels of a head that differ between two reports; `None` if none differs.
fn head_difference(before: &HeadReport, after: &HeadReport) -> Option<String> {
    let labels =
        |head: &HeadReport| -> BTreeSet<String> { head.labels.iter().map(|label| label.label.clone()).collect() };
    let (old, new) = (labels(before), labels(after));
    let lost = old.difference(&new).map(|label| format!("-{label}"));
    let gained = new.difference(&old).map(|label| format!("+{label}"));
    let labels = lost.chain(gained).join(" ");
    let primary = (before.primary != after.primary).then(|| format!("primary {} -> {}", before.primary, after.primary));
    let changes = primary.into_iter().chain((!labels.is_empty()).then_some(labels)).join("  ");
    (!changes.is_empty()).then(|| format!("  {:7} {changes}", after.place.to_string()))
}
