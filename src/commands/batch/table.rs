//! The table of `headscope batch`: its runs are the product of models, corpora and sets of options.
//!
//! A key is an option of `headscope analyze`: each run is assembled as a command line and parsed.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Error, Result, anyhow};
use itertools::{Itertools as _, iproduct};
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use crate::commands::analyze::options::{AnalysisOutput, AnalyzeOptions};
use crate::corpus::Input;
use crate::system::errors::{self, ErrorClass, ErrorExt, similar};
use crate::system::files::input;
use crate::system::printable::shorten;

/// Options of `headscope analyze` and their parser, supplied by `cli/`.
pub struct OptionSyntax {
    pub options: Vec<(String, OptionArity)>,
    /// Parses the words of a command line; errors come without advice about the command line.
    pub parse: fn(Vec<String>) -> Result<AnalyzeOptions>,
}

/// Number of values that an option takes in a command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionArity {
    NoValue,
    OneValue,
    SeveralValues,
}

/// Table of a batch, with the runs that it describes.
pub struct BatchTable {
    table_path: PathBuf,
    /// Text of the table, in which byte positions are looked up.
    text: String,
    pub runs: Vec<TableRun>,
}

#[derive(Clone)]
pub struct TableRun {
    /// Name of the run: `MODEL.CORPUS`, or with sets of options `MODEL.CORPUS.OPTIONS`.
    pub name: String,
    /// Options with which the run is analysed.
    pub options: AnalyzeOptions,
    /// Command-line options that the report depends on, sorted by name.
    pub report_options: Vec<String>,
    /// Files that options name, by option. The report depends on the content of these files.
    pub files: BTreeMap<&'static str, PathBuf>,
    /// Model and corpus files as the table names them, with their positions in the table.
    named_inputs: Vec<Spanned<String>>,
    /// Byte position in the table of each option of the run, by option.
    option_positions: BTreeMap<String, usize>,
}

/// Size limit of a table in bytes: 1 MiB, about ten thousand entries.
const MAX_TABLE_BYTES: u64 = 1 << 20;

/// Maximum number of runs in a table. Each writes at least one report.
const MAX_RUNS: usize = 10_000;

/// Sections of a table. Options in a later section override those in an earlier one.
const SECTIONS: [&str; 4] = ["defaults", "models", "corpora", "options"];

/// Options of `headscope analyze` that a table cannot set, each with the reason.
const REFUSED_KEYS: [(&str, &str); 14] = [
    ("model", "models are named in [models]"),
    ("corpus", "corpora are named in [corpora]"),
    ("output", "reports are written to the folder of `headscope batch -o`"),
    ("compact", "reports are indented here: `headscope batch --as json.gz` packs them"),
    ("quiet", "no summary is printed here"),
    ("shard", "a shard makes no report: use `headscope analyze` and `headscope merge`"),
    ("after", "a shard makes no report: use `headscope analyze` and `headscope merge`"),
    ("index", "a run reads all of its corpus"),
    ("resume", "what is done is kept by run"),
    ("partial", "give `--as headscope` to `headscope batch`"),
    ("offline", "give it to `headscope batch`"),
    ("memory", "give it to `headscope batch`"),
    ("error-format", "give it to `headscope batch`"),
    ("help", "run `headscope analyze --help`"),
];

/// Options that change nothing in a report except its record of time and threads.
const RUN_ONLY_OPTIONS: [&str; 2] = ["threads", "keep"];
/// Key of the model in an entry of `[models]` that also sets options.
const MODEL_KEY: &str = "model";
/// Key of the corpus files in an entry of `[corpora]` that also sets options.
const CORPUS_KEY: &str = "corpus";

/// Options by name, each with its command-line values and its byte range in the table. `None`: a switch that is off.
type OptionValues = BTreeMap<String, (Option<Vec<Spanned<String>>>, Range<usize>)>;

struct TableError {
    /// Byte position in the table at which the error lies.
    byte_position: usize,
    why: Error,
}

fn fail_at<T>(at: usize, why: Error) -> Result<T, TableError> {
    Err(TableError { byte_position: at, why })
}

/// Reads a table of runs. Fails if it cannot be read or a run is invalid; the error names file and line.
pub fn read_table(path: &Path, syntax: &OptionSyntax, offline: bool) -> Result<BatchTable> {
    let shown = path.display();
    let text =
        input::read_to_string(path, MAX_TABLE_BYTES).cannot("read the table", &shown).class(ErrorClass::Input)?;
    let runs = parse_runs(&text, syntax, offline)
        .map_err(|TableError { byte_position: at, why }| why.at_line(&shown, line_of_byte(&text, at)));
    Ok(BatchTable { runs: runs.class(ErrorClass::Usage)?, table_path: path.to_owned(), text })
}

impl BatchTable {
    /// Adds to an error the table's file, and the line that names the model, file or option that caused the error.
    /// An error that already has a line, or whose cause the table does not name, stays unchanged.
    pub fn with_location(&self, run: &TableRun, error: Error) -> Error {
        let (file, line_of_file) = errors::location(error.as_ref());
        let culprit = file.or(errors::value(error.as_ref())).filter(|_| line_of_file.is_none());
        // A model on the Hub is named with its revision.
        let names = |name: &str, culprit| name == culprit || name.split('@').any(|part| part == culprit);
        let input = culprit.and_then(|culprit| run.named_inputs.iter().find(|input| names(input.get_ref(), culprit)));
        let Some(input) = input else {
            let option = errors::command_option(error.as_ref()).filter(|_| file.is_none());
            let line_number = option
                .and_then(|option| run.option_positions.get(option))
                .map(|&line_number| line_of_byte(&self.text, line_number));
            return if let Some(line) = line_number { error.at_line(self.table_path.display(), line) } else { error };
        };
        let (name, line_number) = (input.get_ref(), line_of_byte(&self.text, input.span().start));
        let is_path = file.is_some();
        let error = error.with_value(name).at_line(self.table_path.display(), line_number);
        if is_path { with_path_hint(error, Path::new(name), &self.table_path) } else { error }
    }
}

/// Adds a hint to an error about a path that does not exist.
fn with_path_hint(error: Error, path: &Path, table: &Path) -> Error {
    if path.exists() {
        return error;
    }
    let beside = table.with_file_name(path);
    if path.is_relative() && beside.exists() {
        return error.did_you_mean(Some(beside.display()));
    }
    let current_folder = std::env::current_dir().ok().filter(|_| path.is_relative());
    let taken_from = current_folder.map(|folder| format!(", which is taken from `{}`", folder.display()));
    error.hint_after("; ", format!("check the path{}", taken_from.unwrap_or_default()))
}

/// Line number, counted from 1, of the byte position `at`.
fn line_of_byte(text: &str, at: usize) -> u64 {
    text[..at].matches('\n').count() as u64 + 1
}

/// Reads the runs of a table from its text: the product of models, corpora and sets of options.
fn parse_runs(text: &str, syntax: &OptionSyntax, offline: bool) -> Result<Vec<TableRun>, TableError> {
    let table = DeTable::parse(text).map_err(|error| TableError {
        byte_position: error.span().map_or(0, |span| span.start),
        why: anyhow!(error.message().to_owned()),
    })?;
    let mut parts: BTreeMap<&str, SectionEntries<'_>> = BTreeMap::new();
    for (key, value) in entries_in_file_order(table.get_ref()) {
        let name = key.get_ref().as_ref();
        let Some(known) = SECTIONS.into_iter().find(|known| *known == name) else {
            return fail_at(
                key.span().start,
                anyhow!("there is no part {}: {}", quoted(name), SECTIONS.map(|part| format!("[{part}]")).join(", "))
                    .with_value(name),
            );
        };
        let Some(table) = value.get_ref().as_table() else {
            return fail_at(
                value.span().start,
                anyhow!("{} is a part of the table", quoted(name)).with_value(name).hint(format!("write [{known}]")),
            );
        };
        parts.insert(known, (key.span().start, table));
    }
    let known = &syntax.options;
    let mut defaults = OptionValues::new();
    if let Some((_, table)) = parts.get(SECTIONS[0]) {
        add_options(&mut defaults, table, known, &[])?;
    }
    let models = read_entries(parts.get(SECTIONS[1]), MODEL_KEY, SECTIONS[1], known)?;
    let corpora = read_entries(parts.get(SECTIONS[2]), CORPUS_KEY, SECTIONS[2], known)?;
    let sets = match parts.get(SECTIONS[3]) {
        Some(part) => read_option_sets(part, known)?,
        None => vec![(String::new(), OptionValues::new())],
    };
    let count = models.len() * corpora.len() * sets.len();
    if count > MAX_RUNS {
        return fail_at(0, anyhow!("the table has {count} runs, more than {MAX_RUNS}").hint("split it"));
    }
    let mut runs = Vec::with_capacity(count);
    for ((model, of_model), (corpus, of_corpus), (set, of_set)) in iproduct!(&models, &corpora, &sets) {
        let mut settings = defaults.clone();
        for more in [of_model, of_corpus, of_set] {
            settings.extend(more.iter().map(|(name, value)| (name.clone(), value.clone())));
        }
        // Without sets of options, the name of the set is empty.
        let name = [model, corpus, set].map(String::as_str).join(".");
        runs.push(build_run(name.trim_end_matches('.').to_owned(), &settings, syntax, offline)?);
    }
    Ok(runs)
}

/// A section of the table: its byte position and its entries.
type SectionEntries<'a> = (usize, &'a DeTable<'a>);

/// Entries of a TOML table in the order in which the file has them.
fn entries_in_file_order<'a, 'b>(table: &'a DeTable<'b>) -> Vec<(&'a Spanned<DeString<'b>>, &'a Spanned<DeValue<'b>>)> {
    table.iter().sorted_by_key(|(key, _)| key.span().start).collect()
}

/// Name in backticks, shortened and without characters that a terminal obeys.
fn quoted(name: &str) -> String {
    format!("`{}`", shorten(name).escape_debug())
}

/// Options that a table may set, each with its number of values.
type KnownOptions = [(String, OptionArity)];

/// Reads the entries of `[models]` or `[corpora]`, as (name, options).
/// The value of an entry is a model or corpora, or a TOML table that names them and has options.
fn read_entries(
    part: Option<&SectionEntries<'_>>,
    key: &'static str,
    title: &str,
    known: &KnownOptions,
) -> Result<Vec<(String, OptionValues)>, TableError> {
    let Some((_, table)) = part.filter(|(_, table)| !table.is_empty()) else {
        let at = part.map_or(0, |(at, _)| *at);
        return fail_at(at, anyhow!("there is nothing in [{title}]").hint("name at least one, as in `name = \"...\"`"));
    };
    let mut all = Vec::new();
    for (name, value) in entries_in_file_order(table) {
        let mut settings = OptionValues::new();
        match value.get_ref().as_table() {
            Some(table) => {
                add_options(&mut settings, table, known, &[key])?;
                if !settings.contains_key(key) {
                    return fail_at(name.span().start, anyhow!("{} has no `{key}`", quoted(name.get_ref())));
                }
            }
            None => {
                settings
                    .insert(key.to_owned(), (Some(command_line_values(key, value, key == CORPUS_KEY)?), value.span()));
            }
        }
        all.push((checked_name(name, &all)?, settings));
    }
    Ok(all)
}

/// Reads the named sets of options in `[options]`, as (name, options).
fn read_option_sets(
    (start, table): &SectionEntries<'_>,
    known: &KnownOptions,
) -> Result<Vec<(String, OptionValues)>, TableError> {
    let mut all = Vec::new();
    for (name, value) in entries_in_file_order(table) {
        let Some(table) = value.get_ref().as_table() else {
            let why = anyhow!("{} is a set of options", quoted(name.get_ref()))
                .with_value(name.get_ref())
                .hint(format!("write {} = {{ ... }}", name.get_ref()));
            return fail_at(value.span().start, why);
        };
        let mut settings = OptionValues::new();
        add_options(&mut settings, table, known, &[])?;
        all.push((checked_name(name, &all)?, settings));
    }
    if all.is_empty() {
        return fail_at(
            *start,
            anyhow!("there is nothing in [options]").hint("leave it out, or name at least one set"),
        );
    }
    Ok(all)
}

/// Returns the name if it is valid in file names on every system, and differs from `others` in more than case. A valid name has
/// at most 100 letters, digits, `_` and `-`, does not begin with `-`, and names no device.
fn checked_name(name: &Spanned<DeString<'_>>, others: &[(String, OptionValues)]) -> Result<String, TableError> {
    let text = name.get_ref().as_ref();
    if let Some((other, _)) = others.iter().find(|(other, _)| other.eq_ignore_ascii_case(text)) {
        let why = anyhow!("{} and {} are one file's name on systems that know no case", quoted(other), quoted(text));
        return fail_at(name.span().start, why.with_value(text).hint("use another name"));
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    // Windows opens a device by such a name, whatever extension stands after it (Win32, "Naming Files, Paths, and Namespaces").
    let is_numbered = |device: &str| {
        let number = text.get(device.len()..).filter(|_| text[..device.len()].eq_ignore_ascii_case(device));
        number.is_some_and(|number| number.len() == 1 && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let is_device = ["con", "prn", "aux", "nul"].iter().any(|device| text.eq_ignore_ascii_case(device))
        || text.len() == 4 && ["com", "lpt"].into_iter().any(is_numbered);
    if is_device {
        let why = anyhow!("{} becomes part of a file's name, and is that of a device on some systems", quoted(text));
        return fail_at(name.span().start, why.with_value(text).hint("use another name"));
    }
    if text.len() <= 100 && text.starts_with(|c: char| allowed(c) && c != '-') && text.chars().all(allowed) {
        return Ok(text.to_owned());
    }
    let why = anyhow!("{} becomes part of a file's name", quoted(text))
        .with_value(text)
        .hint("use letters, digits, `_` and `-`, and `-` not first");
    fail_at(name.span().start, why)
}

/// Adds the options of a TOML table to `settings`. `also` lists keys that are allowed although they are no options.
fn add_options(
    settings: &mut OptionValues,
    table: &DeTable<'_>,
    known: &KnownOptions,
    also: &[&str],
) -> Result<(), TableError> {
    for (key, value) in entries_in_file_order(table) {
        let (name, at) = (key.get_ref().as_ref(), key.span().start);
        if also.contains(&name) {
            settings.insert(name.to_owned(), (Some(command_line_values(name, value, name == CORPUS_KEY)?), key.span()));
            continue;
        }
        if let Some((_, why)) = REFUSED_KEYS.iter().find(|(refused, _)| *refused == name) {
            return fail_at(at, anyhow!("`{name}` has no place here").with_value(name).hint(why));
        }
        let Some((_, takes)) = known.iter().find(|(known, _)| known == name) else {
            let names = known.iter().map(|(known, _)| known.as_str());
            let close = similar::closest_name(name, names).filter(|_| name != CORPUS_KEY);
            let unknown = anyhow!("there is no option {} of `headscope analyze`", quoted(name)).with_value(name);
            let unknown = match close {
                Some(_) => unknown.did_you_mean(close),
                None => unknown.hint("`headscope analyze --help` lists them"),
            };
            return fail_at(at, unknown);
        };
        let values = match takes {
            OptionArity::NoValue => match value.get_ref().as_bool() {
                Some(on) => on.then(Vec::new),
                None => {
                    return fail_at(value.span().start, anyhow!("`{name}` is a switch").hint("write true or false"));
                }
            },
            OptionArity::OneValue | OptionArity::SeveralValues => {
                Some(command_line_values(name, value, *takes == OptionArity::SeveralValues)?)
            }
        };
        settings.insert(name.to_owned(), (values, key.span()));
    }
    Ok(())
}

/// Command-line values of a TOML key: one value, or with `several` also a list.
fn command_line_values(
    name: &str,
    value: &Spanned<DeValue<'_>>,
    several: bool,
) -> Result<Vec<Spanned<String>>, TableError> {
    let text_of = |value: &Spanned<DeValue<'_>>| {
        let text = match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) if number.radix() == 10 => number.as_str().to_owned(),
            DeValue::Float(number) => number.as_str().to_owned(),
            _ => {
                let or_several = if several { ", or a list of such" } else { "" };
                return fail_at(value.span().start, anyhow!("`{name}` is a text or a number{or_several}"));
            }
        };
        Ok(Spanned::new(value.span(), text))
    };
    match value.get_ref().as_array() {
        Some(values) if several => {
            if values.is_empty() {
                let way_out = if name == CORPUS_KEY { "name at least one file" } else { "leave it out" };
                return fail_at(value.span().start, anyhow!("`{name}` is an empty list").hint(way_out));
            }
            values.iter().map(text_of).collect()
        }
        _ => Ok(vec![text_of(value)?]),
    }
}

/// Makes a run from its settings, which are parsed as a command line of `headscope analyze`.
fn build_run(
    name: String,
    settings: &OptionValues,
    syntax: &OptionSyntax,
    offline: bool,
) -> Result<TableRun, TableError> {
    let option = |name: &str, values: &[Spanned<String>]| -> Vec<String> {
        let valued = |value: &Spanned<String>| format!("--{name}={}", value.get_ref());
        if values.is_empty() { vec![format!("--{name}")] } else { values.iter().map(valued).collect() }
    };
    let command_line = |left_out: &[&str]| -> Vec<String> {
        let kept = settings.iter().filter(|(name, _)| *name != MODEL_KEY && !left_out.contains(&name.as_str()));
        kept.filter_map(|(name, (values, _))| Some(option(name, values.as_ref()?))).flatten().collect()
    };
    let values = |name: &str| settings[name].0.clone().unwrap_or_default();
    let model = values(MODEL_KEY);
    let mut line = command_line(&[]);
    line.extend(offline.then(|| "--offline".to_owned()));
    line.push("--".to_owned());
    line.extend(model.iter().map(|model| model.get_ref().clone()));
    let refused = |why: Error| {
        let named = errors::command_option(why.as_ref()).and_then(|name| settings.get(name));
        let (_, span) = named.unwrap_or(&settings[CORPUS_KEY]);
        TableError { byte_position: span.start, why: why.context(format!("in run `{name}`")) }
    };
    let options = (syntax.parse)(line).map_err(refused)?;
    if options.corpus.iter().any(|corpus| matches!(corpus, Input::Stdin(_))) {
        let once = anyhow!("--corpus -: standard input can be read once, and a table again and again");
        return Err(refused(once.with_value("-").hint("name a file")));
    }
    let AnalysisOutput::Report { options: wanted, .. } = &options.output else { unreachable!("a table has no shards") };
    let files = [
        ("policy", wanted.policy.policy_file.clone()),
        ("counts", options.counts_file.clone()),
        ("task", options.task.as_ref().map(|task| PathBuf::from(&*task.path))),
        ("links", options.links.file.as_ref().map(|file| PathBuf::from(&*file.path))),
        ("link-rules", options.links.rules.as_ref().map(|rules| PathBuf::from(&*rules.path))),
    ];
    let files = files.into_iter().filter_map(|(name, file)| Some((name, file?))).collect();
    let left_out: Vec<&str> =
        [&RUN_ONLY_OPTIONS[..], &[CORPUS_KEY, "policy", "counts", "task", "links", "link-rules"]].concat();
    let given = command_line(&left_out);
    let named = [model, values(CORPUS_KEY)].concat();
    let option_positions = settings.iter().map(|(name, (_, span))| (name.clone(), span.start)).collect();
    Ok(TableRun { name, options, report_options: given, files, named_inputs: named, option_positions })
}

#[cfg(test)]
mod tests;
