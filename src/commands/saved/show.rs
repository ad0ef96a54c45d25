//! `headscope show`: a saved report for a person, without the model: the summary, a head, a relation, a label.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail, ensure};

use super::relabel;
use crate::commands::reporting::policy::{PolicyOptions, labelled};
use crate::evaluation::presets::Preset;
use crate::export::summary::Detail;
use crate::export::{card, head_table, json, summary};
use crate::model::grid::HeadPlace;
use crate::report::{HeadReport, Report};
use crate::studies::registry;
use crate::studies::registry::STUDIES;
use crate::study::labels::Label;
use crate::study::tracked::Tracked;
use crate::system::errors::similar;
use crate::system::errors::{Class, Facts};
use crate::system::printable::shortened;
use crate::system::terminal::{self, print};

/// A saved report, and what of it is shown.
#[derive(Clone, Debug)]
pub struct ShowOptions {
    /// The saved report; `-` is standard input.
    pub report: PathBuf,
    /// The policy by which its heads are labelled anew.
    pub policy: Option<PolicyOptions>,
    /// The part of it to show.
    pub shown: ShownPart,
    /// Whether as JSON.
    pub json: bool,
}

/// The part of a report that is shown.
#[derive(Clone, Debug)]
pub enum ShownPart {
    Summary(Detail),
    /// The labels that the policy changes.
    Changes,
    /// One head: its sentence and its labels, or all on it.
    Head(HeadPlace, Detail),
    /// The table of heads.
    Heads,
    /// The heads that follow a relation best.
    Relation {
        name: String,
        /// So many of them.
        top: usize,
    },
    /// The heads that have a label, or one of a family.
    Label(String),
}

/// Shows a saved report, or a part of it.
/// Fails if the report cannot be read, or has no such part.
pub fn show(options: &ShowOptions) -> Result<()> {
    let name = options.report.display().to_string();
    let saved = json::read_text(&options.report)?;
    let report = if options.json { json::parse(&name, &saved)? } else { json::parse_to_show(&name, &saved)? };
    let report = labelled(report, options.policy.as_ref(), &name)?;
    let width = terminal::width();
    let text = match &options.shown {
        ShownPart::Changes => match &options.policy {
            Some(policy) => relabel::changed(&name, &saved, policy)?,
            None => String::new(),
        },
        ShownPart::Summary(_) if options.json => json::indented(&report)?,
        ShownPart::Summary(detail) => summary::render(&report, &NO_PRESETS, *detail, width),
        ShownPart::Head(place, detail) => {
            let head = head(&report, *place)?;
            match detail {
                _ if options.json => json::indented(&card::head_data(&report, head)?)?,
                Detail::Full => card::of_head_in_full(&report, head).fit(width),
                Detail::Brief => {
                    let file = options.report.display();
                    let more = format!("\nEverything on {place}: headscope show {file} {place} --all\n");
                    card::of_head(&report, head).fit(width) + &more
                }
            }
        }
        ShownPart::Heads if options.json => json::indented(&head_table::heads_data(&report))?,
        ShownPart::Heads => head_table::of_heads(&report).fit(width),
        ShownPart::Relation { name, top } => {
            let mut parts = relation(&report, name)?;
            parts.iter_mut().for_each(|tracked| tracked.heads.truncate(*top));
            match &parts[..] {
                parts if !options.json => {
                    let cards: Vec<String> =
                        parts.iter().map(|tracked| card::of_relation(tracked, *top).fit(width)).collect();
                    cards.join("\n")
                }
                [whole] => json::indented(whole)?,
                parts => json::indented(&parts)?,
            }
        }
        ShownPart::Label(label) => {
            let found = having(&report, label)?;
            if options.json { json::indented(&card::label_data(&found)?)? } else { card::of_label(&found).fit(width) }
        }
    };
    print(&text)
}

/// A report does not say by which presets its labels are.
const NO_PRESETS: [&Preset; 0] = [];

fn head(report: &Report, place: HeadPlace) -> Result<&HeadReport> {
    let grid = report.model.grid();
    let found = report.heads.iter().find(|head| head.place == place);
    found
        .with_context(|| format!("there is no head {place}: the model has {grid}, both counted from 0"))
        .of_value(place)
        .class(Class::Usage)
}

/// The relation of this name: one of an encoder, one for each side of the head of a decoder.
fn relation(report: &Report, name: &str) -> Result<Vec<Tracked>> {
    let tracked: Vec<Tracked> = report.views().flat_map(|(_, view)| view.tracked).collect();
    ensure!(
        !tracked.is_empty(),
        anyhow!("the report has no relations")
            .hint("analyse a corpus with dependency trees, with the study `dependency`")
    );
    let found: Vec<Tracked> = tracked.iter().filter(|tracked| tracked.relation == name).cloned().collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let mut known: Vec<&Tracked> = tracked.iter().collect();
    known.sort_by_key(|tracked| std::cmp::Reverse(tracked.words));
    let mut met = BTreeSet::new();
    known.retain(|tracked| met.insert(&tracked.relation));
    let mut names = String::new();
    for (place, tracked) in known.iter().enumerate() {
        let _ = write!(names, "{}{}", if place == 0 { "" } else { ", " }, tracked.relation);
    }
    let shown = shortened(&name.escape_debug().to_string());
    let unknown = anyhow!("the report has no relation `{shown}`: it has {}", shortened_list(&names));
    let closest = similar::closest(name, known.iter().map(|tracked| &*tracked.relation));
    Err(unknown.of_value(name).did_you_mean(closest).class(Class::Usage))
}

/// A list that is not longer than a few lines.
fn shortened_list(names: &str) -> String {
    /// Some three lines of a terminal.
    const LONGEST: usize = 240;
    match names.char_indices().nth(LONGEST) {
        Some((cut, _)) => format!("{} ...", names[..cut].rsplit_once(", ").map_or(&names[..cut], |(whole, _)| whole)),
        None => names.to_owned(),
    }
}

/// The heads that have a label of this name, of this family, or of this code in a grid, with it.
fn having<'a>(report: &'a Report, name: &str) -> Result<Vec<(&'a HeadReport, &'a Label)>> {
    let labels = |head: &'a HeadReport| head.labels.iter().chain(&head.chooses).map(move |label| (head, label));
    let all = || report.heads.iter().flat_map(labels);
    let is_meant = |label: &str| label == name || registry::detector_of(label).is_some_and(|of| of.calls(label, name));
    let found: Vec<_> = all().filter(|(_, label)| is_meant(&label.label)).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let labels_in_words = || {
        let known: BTreeSet<&str> = all().map(|(_, label)| label.label.as_str()).collect();
        if known.is_empty() {
            return "no head has a label".to_owned();
        }
        format!("heads of this report have {}", shortened_list(&known.into_iter().collect::<Vec<_>>().join(", ")))
    };
    let shown = shortened(&name.escape_debug().to_string());
    if let Some(study) = STUDIES.iter().find(|study| study.card().all_labels().any(|detector| detector.is_called(name)))
    {
        let none = anyhow!("no head has the label `{shown}` in this report").of_value(name);
        let asks = study.card().name;
        let was_run = report.sections.0.iter().any(|(known, _)| known.card().name == asks);
        bail!(if was_run {
            none.hint(labels_in_words())
        } else {
            none.hint(format!("the study `{asks}` gives it, and was not run: `--with {asks}`"))
        });
    }
    let meant = anyhow!("there is no label `{shown}`").of_value(name);
    let closest = registry::closest_label(name);
    Err(match closest {
        Some(_) => meant.did_you_mean(closest),
        None => meant.hint(labels_in_words()),
    })
    .class(Class::Usage)
}
