//! Papers as BibTeX, made of the list of references: of authors it has the surnames that a citation names.

use super::references::Paper;

/// Where books and reports appear; everything else that is no conference is a journal.
const PUBLISHERS: [&str; 4] = ["Chapman & Hall", "Oliver & Boyd", "Oxford University Press", "Wiley"];
const INSTITUTIONS: [&str; 1] = ["OpenAI"];

/// What is online alone.
const ONLINE: [&str; 2] = ["Transformer Circuits Thread", "transformer-circuits.pub"];

/// The parts of a reference.
#[derive(Debug, PartialEq, Eq)]
struct ReferenceParts<'a> {
    /// None where the reference has the venue alone.
    title: Option<&'a str>,
    /// The conference, journal or publisher; empty of a preprint.
    venue: &'a str,
    /// Its number on arXiv.
    arxiv: Option<&'a str>,
}

/// The entry of the program.
pub fn of_program(title: &str, license: &str, version: &str) -> String {
    format!(
        "@software{{headscope,\n  author = {{{{The headscope developers}}}},\n  title = {{{{{}}}}},\n  version = {{{version}}},\n  \
         note = {{{license}}}\n}}\n",
        latex(title)
    )
}

/// The entry of a paper.
pub fn entry(paper: &Paper) -> String {
    let (authors, year) = paper.key.rsplit_once(' ').unwrap_or((paper.key, ""));
    let ReferenceParts { title, venue, arxiv } = parts(paper.title);
    let (kind, field) = kind(venue);
    let mut fields = vec![("author", names(authors))];
    // Braces keep the capitals of a title.
    fields.extend(title.map(|title| ("title", format!("{{{}}}", latex(title)))));
    fields.extend((!venue.is_empty()).then(|| (field, latex(venue))));
    fields.push(("year", year.to_owned()));
    if let Some(arxiv) = arxiv {
        fields.extend([("eprint", arxiv.to_owned()), ("archiveprefix", "arXiv".to_owned())]);
    }
    let fields: Vec<String> = fields.iter().map(|(name, value)| format!("  {name} = {{{value}}}")).collect();
    format!("@{kind}{{{},\n{}\n}}\n", key(authors, year), fields.join(",\n"))
}

/// `clark2019` of Clark et al. 2019.
fn key(authors: &str, year: &str) -> String {
    let first = authors.split([' ', ',']).next().unwrap_or_default();
    // BibTeX itself takes keys of ASCII alone.
    let plain = first.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
    format!("{plain}{year}")
}

/// The surnames that a citation names: `Searle, Casella & McCulloch`, `Clark et al.`.
fn names(authors: &str) -> String {
    match authors.strip_suffix(" et al.") {
        Some(first) => format!("{first} and others"),
        None => authors.replace(" & ", " and ").replace(", ", " and "),
    }
}

/// The title of a reference is up to the end of its last sentence but one: the last one is the venue.
fn parts(reference: &str) -> ReferenceParts<'_> {
    let reference = reference.trim_end_matches('.');
    let (rest, arxiv) = match reference.split_once("arXiv:") {
        Some((rest, number)) => (rest.trim_end_matches([' ', ',', '(']), Some(number.trim_end_matches(')'))),
        None => (reference, None),
    };
    let end = |mark: &str| rest.rfind(mark).map(|at| (at, at + mark.len()));
    let split = [end(". "), end("? ").map(|(at, next)| (at + 1, next))].into_iter().flatten().max();
    match split {
        Some((title, venue)) => ReferenceParts { title: Some(&rest[..title]), venue: &rest[venue..], arxiv },
        // A preprint has a title alone; a venue is one word.
        None if rest.contains(' ') => ReferenceParts { title: Some(rest.trim_end_matches('.')), venue: "", arxiv },
        None => ReferenceParts { title: None, venue: rest.trim_end_matches('.'), arxiv },
    }
}

/// The kind of an entry, and the field of its venue.
fn kind(venue: &str) -> (&'static str, &'static str) {
    // Conferences have names of capitals: ACL, NeurIPS, BlackboxNLP.
    let is_acronym = !venue.contains(' ') && venue.chars().filter(|c| c.is_uppercase()).count() > 1;
    match venue {
        "" => ("misc", "howpublished"),
        _ if PUBLISHERS.contains(&venue) => ("book", "publisher"),
        _ if INSTITUTIONS.contains(&venue) => ("techreport", "institution"),
        _ if ONLINE.contains(&venue) => ("misc", "howpublished"),
        _ if is_acronym => ("inproceedings", "booktitle"),
        _ => ("article", "journal"),
    }
}

fn latex(text: &str) -> String {
    text.replace('&', "\\&").replace('%', "\\%").replace('_', "\\_").replace('#', "\\#")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::commands::saved::references::PAPERS;

    fn paper(key: &'static str) -> &'static Paper {
        PAPERS.iter().find(|paper| paper.key == key).unwrap()
    }

    #[test]
    fn entries_by_hand() {
        let expected = "@inproceedings{clark2019,\n  author = {Clark and others},\n  title = {{What Does BERT Look At? An Analysis of \
            BERT's Attention}},\n  booktitle = {BlackboxNLP},\n  year = {2019}\n}\n";
        assert_eq!(entry(paper("Clark et al. 2019")), expected);
        let michel = parts(paper("Michel et al. 2019").title);
        assert_eq!(michel.title, Some("Are Sixteen Heads Really Better than One?"));
        assert_eq!((michel.venue, michel.arxiv), ("NeurIPS", Some("1905.10650")));
        let preprint = entry(paper("Cordonnier et al. 2020"));
        assert!(
            preprint.starts_with("@misc{cordonnier2020,") && preprint.contains("eprint = {2006.16362}"),
            "{preprint}"
        );
        let abnar = entry(paper("Abnar & Zuidema 2020"));
        assert!(abnar.contains("author = {Abnar and Zuidema}") && abnar.contains("booktitle = {ACL}"), "{abnar}");
        let searle = entry(paper("Searle, Casella & McCulloch 1992"));
        assert!(searle.starts_with("@book{searle1992,\n  author = {Searle and Casella and McCulloch},"), "{searle}");
        assert!(entry(paper("Torgerson 1952")).contains("title = {{Multidimensional Scaling: I. Theory and Method}}"));
    }

    #[test]
    fn every_paper_has_an_entry_whose_braces_close() {
        let entries: Vec<String> = PAPERS.iter().map(entry).collect();
        let keys: BTreeSet<&str> = entries.iter().map(|entry| entry.split([',', '{']).nth(1).unwrap()).collect();
        for entry in &entries {
            assert_eq!(entry.matches('{').count(), entry.matches('}').count(), "{entry}");
            assert!(!entry.contains("{}") && !entry.contains("arXiv:"), "{entry}");
        }
        // Two papers of one year by one first author would be one entry.
        assert_eq!(keys.len(), PAPERS.len());
    }
}
