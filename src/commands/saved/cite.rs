//! `headscope cite`: the program, and the papers behind a report, which the explanations of labels and metrics name.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use anyhow::Result;

use super::bibtex::{self, Paper, papers};
use crate::export::json;
use crate::report::Report;
use crate::studies::registry;
use crate::study::metrics::explanation::Explanation;
use crate::system::terminal::print;

const CITATION: &str = include_str!("../../../CITATION.cff");

/// Prints how to cite the program, and the papers behind a report if there is one, in words or as BibTeX.
pub fn cite(report: Option<&Path>, bibtex: bool) -> Result<()> {
    let Some(path) = report else {
        return print(&if bibtex { bibtex_of(&[], env!("CARGO_PKG_VERSION")) } else { CITATION.to_owned() });
    };
    let name = path.display().to_string();
    let report = json::parse_as_far_as_it_goes(&name, &json::on_one_line(&json::read_text(path)?))?;
    print(&if bibtex { bibtex_of(&sources(&report).concat(), &report.tool.version) } else { of(&report) })
}

/// The BibTeX of this version of the program, and of the papers that these sources name.
fn bibtex_of(sources: &[&'static Explanation], version: &str) -> String {
    let papers: BTreeSet<Paper> = sources.iter().flat_map(|entry| named_in(entry.source)).collect();
    let of_papers: Vec<String> = papers.iter().map(|paper| format!("\n{}\n", bibtex::entry(paper))).collect();
    let released = field("date-released");
    let year = released.split('-').next().unwrap_or_default();
    let url = ["repository-code", "url"].map(field).into_iter().find(|url| !url.is_empty()).unwrap_or_default();
    bibtex::of_program(&field("title"), &field("license"), version, [year, &url]) + &of_papers.concat()
}

fn field(name: &str) -> String {
    let line = CITATION.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
    line.unwrap_or_default().trim_matches('"').to_owned()
}

fn named_in(source: &str) -> BTreeSet<Paper> {
    papers().filter(|paper| paper.is_named_in(source)).collect()
}

/// The documentation of the labels of a report, and of those of its metrics that some head has a value of.
fn sources(report: &Report) -> [Vec<&'static Explanation>; 2] {
    let labels: BTreeSet<&str> =
        report.heads.iter().flat_map(|head| &head.labels).map(|label| label.label.as_str()).collect();
    let families: Vec<&'static Explanation> = registry::detectors()
        .filter(|detector| labels.iter().any(|label| detector.gives(label)))
        .map(|detector| &detector.explanation)
        .collect();
    let values = report.heads.iter().flat_map(|head| head.metrics.cells());
    let measured: BTreeSet<String> = values.filter(|(_, value)| value.is_some()).map(|(name, _)| name).collect();
    let metrics: Vec<&'static Explanation> = registry::metrics()
        .map(|entry| entry.explanation)
        .filter(|metric| {
            measured.iter().any(|name| name == metric.name || name.starts_with(&format!("{}.", metric.name)))
        })
        .collect();
    [families, metrics]
}

fn of(report: &Report) -> String {
    let [families, metrics] = sources(report);
    let mut text = String::new();
    let written = write_all(&mut text, report, &families, &metrics);
    written.expect("writing to a string does not fail");
    text
}

fn write_all(
    out: &mut String,
    report: &Report,
    labels: &[&'static Explanation],
    metrics: &[&'static Explanation],
) -> std::fmt::Result {
    let (title, version, license) = (field("title"), &report.tool.version, field("license"));
    writeln!(out, "The program:\n\n  {title}. Version {version}. Software, {license}.")?;
    let mut papers = BTreeSet::new();
    for (title, entries) in [("Labels", labels), ("Metrics", metrics)] {
        if entries.is_empty() {
            continue;
        }
        writeln!(out, "\n{title} of this report, and where they come from:\n")?;
        let width = entries.iter().map(|entry| entry.name.len()).max().unwrap_or_default();
        for entry in entries {
            writeln!(out, "  {:width$}  {}", entry.name, entry.source)?;
            papers.extend(named_in(entry.source));
        }
    }
    if !papers.is_empty() {
        writeln!(out, "\nThe papers:\n")?;
        papers.iter().try_for_each(|paper| writeln!(out, "  {}", paper.reference()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn papers_are_found_by_name_and_by_number() {
        let keys = |source: &str| named_in(source).iter().map(|paper| paper.key).collect::<Vec<_>>();
        assert_eq!(
            keys("As Clark et al. 2019, section 3, and Vig & Belinkov 2019."),
            ["Clark et al. 2019", "Vig & Belinkov 2019"]
        );
        assert_eq!(keys("Wang et al. 2022 (arXiv:2211.00593), section 3"), ["Wang et al. 2022"]);
        assert_eq!(keys("Rollout: arXiv:2005.00928"), ["Abnar & Zuidema 2020"]);
        assert_eq!(keys("Defined here."), [""; 0]);
    }

    /// A source that names a year names a paper of the list.
    #[test]
    fn every_paper_that_a_source_names_is_a_reference() {
        for entry in registry::labels().chain(registry::metrics()) {
            let source = entry.explanation.source;
            let years = source.split(|c: char| !c.is_ascii_alphanumeric() && !":-".contains(c)).filter(|word| {
                word.len() == 4 && (word.starts_with("19") || word.starts_with("20")) && word.parse::<u16>().is_ok()
            });
            let (years, found) = (years.collect::<BTreeSet<_>>(), named_in(source));
            let known = |year: &str| found.iter().any(|paper| paper.key.ends_with(year) || source.contains("arXiv:"));
            let unknown: Vec<&str> = years.into_iter().filter(|year| !known(year)).collect();
            assert!(unknown.is_empty(), "{}: {source}: {unknown:?}", entry.name());
        }
    }

    #[test]
    fn the_citation_is_of_this_version() {
        assert!(CITATION.contains(&format!("\nversion: {}\n", env!("CARGO_PKG_VERSION"))), "{CITATION}");
    }
}
