//! `headscope explain`: what labels, metrics and studies are; and the page docs/detectors.md.

use std::fmt::Write;

use crate::studies::all::{self, STUDIES};
use crate::studies::explanation::Entry;
use crate::studies::study::{Card, columns};

/// A line for each study, label and metric.
#[must_use]
pub fn list() -> String {
    let studies = STUDIES.iter().map(|study| (study.card().name, study.card().question));
    let entries = |entries: Vec<Entry>| entries.into_iter().map(|entry| (entry.name(), entry.explanation.measures));
    let groups: [(&str, Vec<(&str, &str)>); 3] = [
        ("Labels", entries(all::labels().collect()).collect()),
        ("Metrics", entries(all::metrics().collect()).collect()),
        ("Studies", studies.collect()),
    ];
    let width = groups.iter().flat_map(|(_, lines)| lines).map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (title, lines) in groups {
        let gap = if text.is_empty() { "" } else { "\n" };
        writeln!(text, "{gap}{title}:\n").expect("writing to a string does not fail");
        for (name, says) in lines {
            writeln!(text, "{name:width$}  {says}").expect("as above");
        }
    }
    text
}

/// The whole text on one label, metric or study.
///
/// # Errors
///
/// In words, if there is none of that name.
pub fn one(name: &str) -> Result<String, String> {
    if let Some(study) = all::named(name) {
        let Card { name, question, needs, by_default, .. } = study.card();
        let metrics: Vec<&str> = columns(study).into_iter().map(|(id, _)| id).collect();
        let labels: Vec<&str> = study.detectors().iter().map(|detector| detector.explanation.name).collect();
        let or_none = |names: Vec<&str>| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let switch = if *by_default { "--without" } else { "--with" };
        let runs = if *by_default { "by default" } else { "on request" };
        return Ok(format!(
            "{name} (study)\n\n{question}\n\nMetrics: {}\nLabels: {}\nNeeds: {needs}\nRuns: {runs}; `analyze {switch} \
             {name}` changes that\n",
            or_none(metrics),
            or_none(labels),
        ));
    }
    all::find(name).map(|entry| entry.to_string()).ok_or_else(|| {
        let hint = all::closest(name).map(|known| format!("; did you mean `{known}`?"));
        let name = name.escape_debug();
        format!(
            "there is no label, metric or study `{name}`{}",
            hint.unwrap_or_else(|| ": `headscope explain` lists all".to_owned())
        )
    })
}

/// docs/detectors.md.
#[must_use]
pub fn markdown() -> String {
    let mut page = String::from(
        "# Labels and metrics\n\n\
         This page is made from the program's own tables: `headscope explain --markdown > docs/detectors.md`.\n\
         A metric is evidence; a label is a policy over evidence.\n\
         A study asks one question of every head: it has the metrics and the labels.\n\
         The symbols of the formulas are those of [METHODOLOGY.md](METHODOLOGY.md).\n",
    );
    for (title, entries) in
        [("Labels", all::labels().collect::<Vec<_>>()), ("Metrics", all::metrics().collect::<Vec<_>>())]
    {
        write!(page, "\n## {title}\n").expect("writing to a string does not fail");
        entries.iter().for_each(|entry| page.push_str(&entry.markdown()));
    }
    page.push_str("\n## Studies\n");
    for study in STUDIES {
        let Card { name, question, needs, by_default, .. } = study.card();
        let runs = if *by_default { "by default" } else { "with `--with`" };
        write!(page, "\n### `{name}`\n\n{question}\n\n- Needs: {needs}\n- Runs: {runs}\n").expect("as above");
    }
    page
}
