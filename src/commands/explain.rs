//! `headscope explain`: explains labels, metrics, studies and other terms of a report; also writes docs/detectors.md.

use std::fmt::Write;

use anyhow::{Error, Result, anyhow};
use itertools::Itertools as _;

use super::keys;
use crate::model::grid::HeadPlace;
use crate::studies::registry::{self, STUDIES};
use crate::study::labels::entry::Entry;
use crate::study::labels::policy::Threshold;
use crate::study::labels::{BORDERLINE_MARK, CONSTANT_MARK, TIED_MARK};
use crate::study::metrics::explanation::Explanation;
use crate::study::show::terms::Term;
use crate::study::verdict_rule::VerdictRow;
use crate::study::{AnyStudy, Card, columns};
use crate::system::counts::format_count;
use crate::system::errors::ErrorExt;
use crate::system::printable::write_to_string;

/// Text of `headscope explain` without a name.
/// It has a line for each label, metric and study, then the names of the other terms and of the thresholds.
pub fn list_all_terms() -> String {
    let studies = STUDIES.iter().map(|study| (study.card().name, study.card().question));
    let line = |entry: Entry| (entry.name(), entry.explanation.measures);
    let groups: [(&str, Vec<(&str, &str)>); 3] = [
        ("Labels", registry::label_entries().map(line).collect()),
        ("Metrics", registry::metric_entries().map(line).collect()),
        ("Studies", studies.collect()),
    ];
    let width = groups.iter().flat_map(|(_, lines)| lines).map(|(name, _)| name.len()).max().unwrap_or(0);
    let terms = registry::glossary().map(|term| term.name).join(", ");
    let thresholds = registry::default_policy().thresholds().map(|threshold| threshold.name).join(", ");
    write_to_string(|text| {
        for (title, lines) in groups {
            writeln!(text, "{title}:\n")?;
            lines.iter().try_for_each(|(name, says)| writeln!(text, "{name:width$}  {says}"))?;
            writeln!(text)?;
        }
        writeln!(text, "The rules of all verdicts, as one table: {VERDICT_TABLE_NAME}")?;
        write!(text, "\nOther words: {terms}\n\nThresholds: {thresholds}\n")
    })
}

/// Text on when a study runs: by default, on decoders, where other studies run, or with `--with`.
fn run_condition_text(study: &dyn AnyStudy) -> String {
    let card = study.card();
    match (card.is_default, card.is_default_in_first_run(), card.is_default_with_builds_on) {
        (true, ..) => "by default".to_owned(),
        (_, true, _) => "where no corpus is named, on others with `--with`".to_owned(),
        _ if card.is_default_on_decoders && card.is_for_decoders_only => "on decoders".to_owned(),
        _ if card.is_default_on_decoders => "on decoders, on others with `--with`".to_owned(),
        (.., true) => format!("where `{}` run", card.builds_on.join("` and `")),
        _ => "with `--with`".to_owned(),
    }
}

/// The full explanation of one label, metric, study, threshold or other term.
/// Fails if nothing has that name.
pub fn explain(name: &str) -> Result<String> {
    match name {
        VERDICT_TABLE_NAME => return Ok(verdict_table()),
        STUDY_TABLE_NAME => return Ok(study_table()),
        _ => {}
    }
    if let Some(study) = registry::find_study(name) {
        let Card {
            name,
            question,
            needs,
            is_default: by_default,
            is_for_decoders_only: decoders_only,
            is_default_on_decoders: default_on_decoders,
            ..
        } = study.card();
        let metrics: Vec<&str> = columns(study).into_iter().map(|column| column.id).collect();
        let labels: Vec<&str> = study.card().labels.iter().map(|detector| detector.explanation.name).collect();
        let or_none = |names: Vec<&str>| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let runs_where_it_can = *by_default || (*decoders_only && *default_on_decoders);
        let switch = if runs_where_it_can { "--without" } else { "--with" };
        let condition = run_condition_text(study);
        return Ok(format!(
            "{name} (study)\n\n{question}\n\nMetrics: {}\nLabels: {}\nNeeds: {needs}\nRuns: {condition}; `analyze {switch} \
             {name}` changes that\n",
            or_none(metrics),
            or_none(labels),
        ));
    }
    let term = registry::find_term(name);
    let text_of_term = |Term { name, other_names: also, meaning, page }: &Term| {
        let also = if also.is_empty() { String::new() } else { format!("Also: {}\n", also.join(", ")) };
        format!("{name}\n\n{meaning}\n\n{also}More: docs/methodology/{page}\n")
    };
    let own_term = || term.filter(|term| term.name == name).map(text_of_term);
    let threshold = || {
        let Threshold { name, default, meaning: about, .. } = registry::find_threshold(name)?;
        Some(format!("{name} (threshold)\n\n{about}\n\nDefault: {default}\n"))
    };
    let family = || {
        let labels = registry::labels_in_category(name).iter().join("\n");
        (!labels.is_empty()).then_some(labels)
    };
    // An exact name or a code of the grid wins over another name of a term: `position` is both.
    let entry = || registry::find_entry(name).map(|entry| entry.to_string());
    let text = entry().or_else(own_term).or_else(threshold).or_else(|| explain_grid_cell(name));
    let text = text.or_else(|| term.map(text_of_term)).or_else(family);
    let text = text.or_else(|| keys::explain_path(name)).or_else(|| keys::explain_word(name));
    // A heading of a report is a key with spaces: `pooled shift` is `pooled_shift`.
    let as_key = name.replace(' ', "_");
    let text = text.or_else(|| (as_key != name).then(|| explain(&as_key).ok()).flatten());
    text.ok_or_else(|| {
        if name.parse::<HeadPlace>().is_ok() {
            let way_out = format!("`headscope show report.json {name}`");
            return anyhow!("what a head does is in a report").with_value(name).hint(way_out);
        }
        with_suggestion(anyhow!("there is nothing named `{}`", name.escape_debug()), name)
    })
}

/// Adds to an error about an unknown name a similar name, or a hint where to look.
fn with_suggestion(error: Error, name: &str) -> Error {
    let error = error.with_value(name);
    let told_of = || {
        let names = entries_mentioning(name);
        (!names.is_empty()).then(|| format!("these tell of it: {}", names.join(", ")))
    };
    match registry::closest_name(name) {
        Some(known) => error.did_you_mean(Some(known)),
        None => error.hint(told_of().unwrap_or_else(|| "`headscope explain` lists all".to_owned())),
    }
}

/// Names of the labels, metrics and terms whose explanation contains `word`, at most `MAX_ENTRIES` of them.
fn entries_mentioning(word: &str) -> Vec<&'static str> {
    const MAX_ENTRIES: usize = 5;
    let is_it = |part: &str| part.eq_ignore_ascii_case(word);
    let has = |text: &str| text.split(|c: char| !c.is_alphanumeric()).any(is_it);
    let is_told = |entry: &Entry| {
        let Explanation { measures, formula, chance, source, caveats, .. } = entry.explanation;
        [measures, formula, chance, source, caveats].iter().any(|text| has(text))
    };
    let entries = registry::label_entries().chain(registry::metric_entries()).filter(is_told).map(|entry| entry.name());
    let terms = registry::glossary().filter(|term| has(term.meaning)).map(|term| term.name);
    entries.chain(terms).take(MAX_ENTRIES).collect()
}

/// Explains a cell of the label grid, such as `case~+7`: its marks, and the labels that have its code.
/// Returns `None` if no label has the code.
fn explain_grid_cell(cell: &str) -> Option<String> {
    let counted_more = |(rest, more): (&'_ str, &str)| (!rest.is_empty()).then(|| more.parse::<u16>().ok()).flatten();
    let more = cell.rsplit_once('+').and_then(counted_more);
    let rest = if more.is_some() { cell.rsplit_once('+')?.0 } else { cell };
    let mark = |code, mark, meaning| str::strip_suffix(code, mark).map_or((code, ""), |code| (code, meaning));
    let (code, constant) = mark(rest, CONSTANT_MARK, ", of a head that writes a constant");
    let (code, tied) = mark(code, TIED_MARK, ", tied with another one");
    let (code, borderline) = mark(code, BORDERLINE_MARK, ", borderline");
    let labels = registry::labels_with_code(code);
    let entries: Vec<Entry> = labels.iter().filter_map(|label| registry::find_entry(label)).collect();
    if entries.is_empty() {
        return None;
    }
    // `+2` is the code of an offset, and also the mark for two further labels.
    let number = cell.strip_prefix('+').filter(|number| number.parse::<u16>().is_ok());
    let after = number.map_or_else(String::new, |number| {
        format!("After a label, as in `case{cell}`: the head has {number} more.\nAlone:\n\n")
    });
    let more = more.map_or_else(String::new, |more| format!("; the head has {}", format_count(more, "more label")));
    Some(format!(
        "{cell} (in the grid of a summary)\n\n{after}The label {}{borderline}{tied}{constant}{more}.\n\n{}",
        labels.iter().map(|label| format!("`{label}`")).join(" or "),
        entries.iter().join("\n")
    ))
}

/// Name under which [`explain`] explains the rules of all verdicts.
pub const VERDICT_TABLE_NAME: &str = "verdicts";

/// Markdown table of the rules of all verdicts, labels included. The table in docs/detectors.md leaves out the labels.
pub fn verdict_table() -> String {
    let [headings, lines] = [VerdictRow::HEADINGS, ["---"; 6]].map(|cells| format!("| {} |\n", cells.join(" | ")));
    let rows: String = registry::verdict_rules().map(|row| row.to_string()).collect();
    headings + &lines + &rows
}

/// Name under which [`explain`] explains all studies.
pub const STUDY_TABLE_NAME: &str = "studies";

/// All studies, as a Markdown table; docs/STUDIES.md has it.
pub fn study_table() -> String {
    let row = |study: &&dyn AnyStudy| {
        let Card { name, question, needs, .. } = study.card();
        [format!("`{name}`"), (*question).to_owned(), run_condition_text(*study), (*needs).to_owned()]
    };
    markdown_table(["study", "question", "runs", "needs"], STUDIES.iter().map(row))
}

/// A Markdown table; `|` in cells is escaped.
fn markdown_table<const N: usize>(headings: [&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.iter().map(|cell| cell.replace('|', "\\|")).join(" | "));
    let rows: String = rows.map(|cells| line(&cells)).collect();
    line(&headings.map(str::to_owned)) + "|" + &"---|".repeat(N) + "\n" + &rows
}

/// Name suffixes of metrics that relate another metric to its chance level.
/// docs/methodology/attention.md and words.md define these metrics.
const CHANCE_SUFFIXES: [&str; 3] = ["_expected", "_over_chance", "_over_position"];

/// Text of docs/detectors.md.
pub fn detectors_page() -> String {
    let code = |words: &[&str]| words.iter().map(|word| format!("`{word}`")).join(", ");
    let label = |entry: Entry| [code(&[entry.name()]), code(&[&entry.fill_thresholds(entry.explanation.formula)])];
    let metrics = |study: &&dyn AnyStudy| {
        let names = (study.card().metrics)();
        let names = names.iter().map(|(explanation, _)| explanation.name);
        let base_metrics: Vec<&str> =
            names.filter(|name| CHANCE_SUFFIXES.iter().all(|end| !name.ends_with(end))).collect();
        (!base_metrics.is_empty()).then(|| [code(&[study.card().name]), code(&base_metrics)])
    };
    let policy = registry::default_policy();
    let thresholds = policy.thresholds().map(|one| format!("`{}` {}", one.name, one.default)).join(", ");
    let verdicts = registry::non_label_verdict_rules().map(VerdictRow::main_cells);
    format!(
        "# Labels, metrics and verdicts\n\n\
         A metric is evidence, a label a policy over evidence: the tables have the rules under the default policy.\n\
         `headscope explain NAME` prints the meaning, formula, chance level, source and caveats of each name here.\n\
         [Methodology](methodology/README.md) defines the metrics of each study, and \
         [units](methodology/units.md) the symbols.\n\
         `fixtures/regenerate` makes this page.\n\n\
         ## Labels\n\n{}\n## Thresholds\n\nA policy file sets them by name ([labels](methodology/labels.md)); \
         `headscope explain offset_mass` says where a default comes from.\n\n{}.\n\n\
         ## Metrics\n\nThree endings hold a metric against chance ([words](methodology/words.md)): `_over_chance` is the metric less \
         that of uniform attention.\n`_expected` is what the head's preference for offsets alone lets expect, and \
         `_over_position` the metric less that.\n\n{}\n## Verdicts\n\n\
         Labels are corrected over all heads and labels of one rule.\n`headscope explain verdicts` has a row for each label \
         as well, with the least evidence and what is printed beside a verdict.\n\n{}",
        markdown_table(["label", "rule"], registry::label_entries().map(label)),
        thresholds,
        markdown_table(["study", "metrics"], STUDIES.iter().filter_map(metrics)),
        markdown_table(["verdict", "statistic", "null or margin", "family of the correction"], verdicts),
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::{fs, io};

    use super::*;

    #[test]
    fn the_page_of_studies_lists_every_study() {
        let (page, table) = (include_str!("../../docs/STUDIES.md"), study_table());
        assert!(page.contains(&format!("{table}\n")), "`fixtures/regenerate` makes the table in STUDIES.md:\n{table}");
    }

    #[test]
    fn the_index_of_the_methodology_names_every_study_and_pages_that_there_are() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/methodology");
        let index = fs::read_to_string(folder.join("README.md")).unwrap();
        for study in STUDIES {
            let name = study.card().name;
            assert!(index.contains(&format!("`{name}`")), "the index names no page of the study {name}");
        }
        for (page, _) in index.lines().filter_map(|line| line.strip_prefix("| [")?.split_once(']')) {
            assert!(folder.join(page).is_file(), "there is no page {page}");
        }
    }

    #[test]
    fn the_methodology_names_every_label_and_metric() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/methodology");
        let page = |entry: io::Result<fs::DirEntry>| fs::read_to_string(entry.unwrap().path()).unwrap();
        let pages: String = fs::read_dir(folder).unwrap().map(page).collect();
        for name in registry::label_entries().chain(registry::metric_entries()).map(|entry| entry.name()) {
            // What a metric is beside chance is defined once for all.
            let beside = ["_expected", "_over_chance", "_over_position"];
            let stem = beside.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name);
            assert!(pages.contains(&format!("`{stem}")), "no page of docs/methodology defines {stem}");
        }
    }

    #[test]
    fn rules_of_verdicts_name_thresholds_that_there_are() {
        let table = verdict_table();
        assert!(!table.contains('{'), "a threshold that there is not\n{table}");
    }
}
