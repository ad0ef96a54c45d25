//! `headscope cite`: cites the program and the papers behind a report's labels and metrics, in text or as BibTeX.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use anyhow::Result;

use crate::export::json;
use crate::report::Report;
use crate::studies::registry;
use crate::study::metrics::explanation::Explanation;
use crate::system::printable::write_to_string;
use crate::system::terminal::print;

const CITATION_CFF: &str = include_str!("../../../CITATION.cff");

/// Prints how to cite the program, and the papers behind a report if there is one, in words or as BibTeX.
pub fn cite(report: Option<&Path>, bibtex: bool) -> Result<()> {
    let Some(path) = report else {
        return print(&if bibtex { bibtex_entries(&[], env!("CARGO_PKG_VERSION")) } else { CITATION_CFF.to_owned() });
    };
    let name = path.display().to_string();
    let report = json::parse_lenient(&name, &json::escape_texts(&json::read_text(path)?))?;
    print(&if bibtex {
        bibtex_entries(&cited_explanations(&report).concat(), &report.tool.version)
    } else {
        citations_in_words(&report)
    })
}

/// BibTeX entries of this version of the program, and of the papers that `sources` cite.
fn bibtex_entries(sources: &[&'static Explanation], version: &str) -> String {
    let papers: BTreeSet<Paper> = sources.iter().flat_map(|entry| papers_cited_in(entry.source)).collect();
    let of_papers: Vec<String> = papers.iter().map(|paper| format!("\n{}\n", bibtex_entry(paper))).collect();
    let released = citation_field("date-released");
    let year = released.split('-').next().unwrap_or_default();
    let url =
        ["repository-code", "url"].map(citation_field).into_iter().find(|url| !url.is_empty()).unwrap_or_default();
    program_bibtex_entry(&citation_field("title"), &citation_field("license"), version, [year, &url])
        + &of_papers.concat()
}

fn citation_field(name: &str) -> String {
    let line = CITATION_CFF.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
    line.unwrap_or_default().trim_matches('"').to_owned()
}

fn papers_cited_in(source: &str) -> BTreeSet<Paper> {
    papers().filter(|paper| paper.is_cited_in(source)).collect()
}

/// Explanations of the labels and metrics in a report, `[labels, metrics]`.
/// A label counts if some head has it, a metric if it has a value for some head.
fn cited_explanations(report: &Report) -> [Vec<&'static Explanation>; 2] {
    let labels: BTreeSet<&str> =
        report.heads.iter().flat_map(|head| &head.labels).map(|label| label.label.as_str()).collect();
    let families: Vec<&'static Explanation> = registry::detectors()
        .filter(|detector| labels.iter().any(|label| detector.gives_label(label)))
        .map(|detector| &detector.explanation)
        .collect();
    let values = report.heads.iter().flat_map(|head| head.metrics.cells());
    let measured: BTreeSet<String> = values.filter(|(_, value)| value.is_some()).map(|(name, _)| name).collect();
    let metrics: Vec<&'static Explanation> = registry::metric_entries()
        .map(|entry| entry.explanation)
        .filter(|metric| {
            measured.iter().any(|name| name == metric.name || name.starts_with(&format!("{}.", metric.name)))
        })
        .collect();
    [families, metrics]
}

fn citations_in_words(report: &Report) -> String {
    let [labels, metrics] = cited_explanations(report);
    write_to_string(|out| {
        let (title, version, license) = (citation_field("title"), &report.tool.version, citation_field("license"));
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
                papers.extend(papers_cited_in(entry.source));
            }
        }
        if !papers.is_empty() {
            writeln!(out, "\nThe papers:\n")?;
            papers.iter().try_for_each(|paper| writeln!(out, "  {}", paper.reference()))?;
        }
        Ok(())
    })
}

/// List of references. [`papers`] reads the part before the first `## `: the papers that explanations cite.
const REFERENCE_LIST: &str = include_str!("../../../docs/methodology/references.md");

/// Paper in the list of references: its key, such as `Clark et al. 2019`, and its title.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Paper {
    pub key: &'static str,
    pub title: &'static str,
}

impl Paper {
    pub fn reference(&self) -> String {
        format!("{}. {}", self.key, self.title)
    }

    /// Authors as a citation names them: `Searle, Casella & McCulloch`, `Clark et al.`.
    pub fn authors(&self) -> &'static str {
        self.key.rsplit_once(' ').map_or(self.key, |(authors, _)| authors)
    }

    pub fn year(&self) -> &'static str {
        self.key.rsplit_once(' ').map_or("", |(_, year)| year)
    }

    pub fn arxiv_number(&self) -> Option<&'static str> {
        let (_, number) = self.title.split_once("arXiv:")?;
        Some(number.trim_end_matches([')', '.']))
    }

    /// Whether `source`, the source text of an explanation, cites the paper by authors and year or by arXiv number.
    pub fn is_cited_in(&self, source: &str) -> bool {
        source.contains(self.key)
            || self.arxiv_number().is_some_and(|number| source.contains(&format!("arXiv:{number}")))
    }
}

/// Papers in the list of references, which has one line for each: `- Kish 1965. Survey Sampling. Wiley.`
fn papers() -> impl Iterator<Item = Paper> {
    let of_sources = REFERENCE_LIST.lines().take_while(|line| !line.starts_with("## "));
    of_sources.filter_map(|line| {
        let line = line.strip_prefix("- ")?;
        // The key ends with the year.
        let mut ends = line.match_indices(". ").map(|(end, _)| end);
        let end = ends.find(|end| line[..*end].ends_with(|c: char| c.is_ascii_digit()))?;
        Some(Paper { key: &line[..end], title: &line[end + 2..] })
    })
}

/// BibTeX entries of all papers in docs/methodology/references.md, in the order of that page, separated by empty lines.
const BIBTEX_ENTRIES: &str = include_str!("references.bib");

fn program_bibtex_entry(title: &str, license: &str, version: &str, [year, url]: [&str; 2]) -> String {
    let fields = [
        ("author", "{The headscope developers}".to_owned()),
        ("title", format!("{{{}}}", escape_latex(title))),
        ("year", year.to_owned()),
        ("version", version.to_owned()),
        ("url", url.to_owned()),
        ("note", license.to_owned()),
    ];
    let filled = fields.iter().filter(|(_, value)| !value.is_empty());
    let filled: Vec<String> = filled.map(|(name, value)| format!("  {name} = {{{value}}}")).collect();
    format!("@software{{headscope,\n{}\n}}\n", filled.join(",\n"))
}

/// BibTeX entry of a paper.
/// Panics if the paper is not in the list of references.
fn bibtex_entry(paper: &Paper) -> &'static str {
    let key = bibtex_key(paper);
    all_bibtex_entries().find(|entry| entry_key(entry) == key).expect("every paper of the list has an entry")
}

fn all_bibtex_entries() -> impl Iterator<Item = &'static str> {
    BIBTEX_ENTRIES.trim_end().split("\n\n")
}

/// Key of a BibTeX entry: `clark2019` for an entry that starts with `@inproceedings{clark2019,`.
fn entry_key(entry: &str) -> &str {
    entry.split(['{', ',']).nth(1).unwrap_or_default()
}

/// BibTeX key of a paper: `clark2019` for Clark et al. 2019.
fn bibtex_key(paper: &Paper) -> String {
    let (authors, year) = (paper.authors(), paper.year());
    let first = authors.split([' ', ',']).next().unwrap_or_default();
    // BibTeX accepts only ASCII keys.
    let plain = first.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
    format!("{plain}{year}")
}

fn escape_latex(text: &str) -> String {
    text.replace('&', "\\&").replace('%', "\\%").replace('_', "\\_").replace('#', "\\#")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn papers_are_found_by_name_and_by_number() {
        let keys = |source: &str| papers_cited_in(source).iter().map(|paper| paper.key).collect::<Vec<_>>();
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
        for entry in registry::label_entries().chain(registry::metric_entries()) {
            let source = entry.explanation.source;
            let years = source.split(|c: char| !c.is_ascii_alphanumeric() && !":-".contains(c)).filter(|word| {
                word.len() == 4 && (word.starts_with("19") || word.starts_with("20")) && word.parse::<u16>().is_ok()
            });
            let (years, found) = (years.collect::<BTreeSet<_>>(), papers_cited_in(source));
            let known = |year: &str| found.iter().any(|paper| paper.key.ends_with(year) || source.contains("arXiv:"));
            let unknown: Vec<&str> = years.into_iter().filter(|year| !known(year)).collect();
            assert!(unknown.is_empty(), "{}: {source}: {unknown:?}", entry.name());
        }
    }

    #[test]
    fn the_citation_is_of_this_version() {
        assert!(CITATION_CFF.contains(&format!("\nversion: {}\n", env!("CARGO_PKG_VERSION"))), "{CITATION_CFF}");
    }

    /// The fields in the order of an entry.
    const FIELDS: [&str; 13] = [
        "author",
        "title",
        "booktitle",
        "journal",
        "publisher",
        "institution",
        "volume",
        "number",
        "pages",
        "year",
        "doi",
        "eprint",
        "archiveprefix",
    ];

    /// The fields of an entry, one a line: `  year = {2019},`.
    fn fields(entry: &str) -> Vec<(&str, &str)> {
        let (_, fields) = entry.split_once(",\n").unwrap();
        let fields = fields.strip_suffix("\n}").unwrap_or_else(|| panic!("{entry}"));
        fields
            .split(",\n")
            .map(|line| {
                let field = line.strip_prefix("  ").and_then(|line| line.strip_suffix('}')?.split_once(" = {"));
                field.unwrap_or_else(|| panic!("{line}"))
            })
            .collect()
    }

    fn field<'a>(entry: &'a str, name: &str) -> Option<&'a str> {
        fields(entry).into_iter().find_map(|(of, value)| (of == name).then_some(value))
    }

    #[test]
    fn the_program_has_its_year_and_its_address() {
        let expected = "@software{headscope,\n  author = {{The headscope developers}},\n  title = {{a \\& b}},\n  year = {2026},\n  \
            version = {1.0},\n  url = {https://example.org},\n  note = {MIT}\n}\n";
        assert_eq!(program_bibtex_entry("a & b", "MIT", "1.0", ["2026", "https://example.org"]), expected);
        let without = program_bibtex_entry("a", "MIT", "1.0", ["", ""]);
        assert!(!without.contains("year") && !without.contains("url"), "{without}");
    }

    #[test]
    fn an_entry_by_hand() {
        let clark = papers().find(|paper| paper.key == "Clark et al. 2019").unwrap();
        let expected = "@inproceedings{clark2019,
  author = {Clark, Kevin and Khandelwal, Urvashi and Levy, Omer and Manning, Christopher D.},
  title = {{What Does BERT Look At? An Analysis of BERT's Attention}},
  booktitle = {Proceedings of the 2019 ACL Workshop BlackboxNLP: Analyzing and Interpreting Neural Networks for NLP},
  pages = {276--286},
  year = {2019},
  doi = {10.18653/v1/W19-4828}
}";
        assert_eq!(bibtex_entry(&clark), expected);
    }

    #[test]
    fn every_paper_has_an_entry_of_its_own_in_the_order_of_the_list() {
        let keys: Vec<String> = papers().map(|paper| bibtex_key(&paper)).collect();
        assert_eq!(all_bibtex_entries().map(entry_key).collect::<Vec<_>>(), keys);
        // Two papers of one year by one first author would be one entry.
        assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), keys.len());
    }

    #[test]
    fn every_line_of_the_list_is_a_paper() {
        let listed = REFERENCE_LIST.lines().take_while(|line| !line.starts_with("## "));
        let listed: Vec<&str> = listed.filter_map(|line| line.strip_prefix("- ")).collect();
        assert_eq!(listed, papers().map(|paper| paper.reference()).collect::<Vec<_>>());
        assert!(listed.len() > 50, "{}", listed.len());
    }

    #[test]
    fn entries_are_well_formed() {
        for entry in all_bibtex_entries() {
            assert!(entry.starts_with('@'), "{entry}");
            let mut open = 0_u32;
            for c in entry.chars() {
                open = match c {
                    '{' => open + 1,
                    '}' => open.checked_sub(1).unwrap_or_else(|| panic!("{entry}")),
                    _ => open,
                };
            }
            assert_eq!(open, 0, "{entry}");
            assert!(!entry.replace("\\&", "").contains(['&', '%', '_', '#']), "{entry}");
            let places: Vec<usize> = fields(entry)
                .into_iter()
                .map(|(name, value)| {
                    assert!(!value.trim_matches(['{', '}', ' ']).is_empty(), "{entry}");
                    FIELDS.iter().position(|field| *field == name).unwrap_or_else(|| panic!("{name}: {entry}"))
                })
                .collect();
            assert!(places.is_sorted_by(|one, next| one < next), "{entry}");
        }
    }

    #[test]
    fn entries_say_what_the_references_say() {
        for paper in papers() {
            let entry = bibtex_entry(&paper);
            assert_eq!(field(entry, "year"), Some(paper.year()), "{entry}");
            assert_eq!(
                field(entry, "eprint").filter(|_| paper.arxiv_number().is_some()),
                paper.arxiv_number(),
                "{entry}"
            );
            assert_eq!(field(entry, "eprint").map(|_| "arXiv"), field(entry, "archiveprefix"), "{entry}");

            let title = field(entry, "title").and_then(|title| title.strip_prefix('{')?.strip_suffix('}')).unwrap();
            let reference = escape_latex(paper.title);
            let rest = reference.strip_prefix(title).unwrap_or_else(|| panic!("{reference}: {entry}"));
            assert!(rest.starts_with(". ") || title.ends_with('?'), "{reference}: {entry}");

            let families: Vec<&str> = field(entry, "author")
                .unwrap()
                .split(" and ")
                .map(|name| name.split_once(", ").unwrap_or_else(|| panic!("{name}: {entry}")).0)
                .collect();
            match paper.authors().strip_suffix(" et al.") {
                Some(first) => assert!(families[0] == first && families.len() > 2, "{entry}"),
                None => assert_eq!(families, paper.authors().split([',', '&']).map(str::trim).collect::<Vec<_>>()),
            }
        }
    }
}
