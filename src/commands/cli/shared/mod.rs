//! The arguments that several commands share.

pub mod inputs;
pub mod numbers;
pub mod presets;
pub mod report;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use crate::corpus::Input;
use crate::model::grid::HeadPlace;
use crate::system::errors::{ErrorClass, ErrorExt};
use crate::system::files::output;

pub type UsageError = anyhow::Error;

/// Command with validated options, ready to run.
pub struct Command {
    /// Runs the command and returns the exit status, 0 for nearly all commands.
    pub run: Box<dyn FnOnce() -> Result<u8>>,
    /// Error class of failures that have no class yet.
    pub default_class: ErrorClass,
}

impl Command {
    /// Returns a command that ends with status 0 unless it fails.
    pub fn new(run: impl FnOnce() -> Result<()> + 'static) -> Self {
        Self { run: Box::new(|| run().map(|()| 0)), default_class: ErrorClass::Other }
    }

    /// Returns a command whose exit status is 0 if `run` returns true, and 1 if it returns false.
    /// The status is 2 if `run` fails with an error that has no class.
    pub fn from_check(run: impl FnOnce() -> Result<bool> + 'static) -> Self {
        Self { run: Box::new(|| run().map(|holds| u8::from(!holds))), default_class: ErrorClass::Usage }
    }
}

/// Value of an argument, its name on the command line, and its line in the help.
pub type NamedValue<T> = (T, &'static str, &'static str);

pub fn named_value_parser<T: Copy + Send + Sync>(values: &'static [NamedValue<T>]) -> impl TypedValueParser<Value = T> {
    let names = values.iter().map(|(_, name, help)| PossibleValue::new(*name).help(*help));
    PossibleValuesParser::new(names).map(|given| {
        let (value, ..) = values.iter().find(|(_, name, _)| *name == given).expect("the parser knows these names only");
        *value
    })
}

/// Error classes of commands that only print or write.
pub const WRITE_ERRORS: &[ErrorClass] = &[ErrorClass::Other, ErrorClass::Usage, ErrorClass::Output];

/// Error classes of commands that also read files.
pub const READ_ERRORS: &[ErrorClass] = &[ErrorClass::Other, ErrorClass::Usage, ErrorClass::Input, ErrorClass::Output];

/// Error classes of commands that add up shards.
pub const MERGE_ERRORS: &[ErrorClass] =
    &[ErrorClass::Other, ErrorClass::Usage, ErrorClass::Input, ErrorClass::Output, ErrorClass::Incomplete];

/// Error classes of commands that run a model.
pub const RUN_ERRORS: &[ErrorClass] = &[
    ErrorClass::Other,
    ErrorClass::Usage,
    ErrorClass::Input,
    ErrorClass::Model,
    ErrorClass::Output,
    ErrorClass::Temporary,
];

/// Meaning of exit status 0, unless a command has its own.
pub const SUCCESS_STATUS: &str = "0 done";

/// Exit statuses after a signal: 128 plus the number of the signal.
const SIGNAL_STATUSES: &str = "129 hung up, 130 interrupted, 143 terminated";

/// Exit statuses for the end of a help text: `first`, then a status for each error class, then statuses of signals.
pub fn exit_status_help(first: &str, classes: &[ErrorClass]) -> String {
    let mut text = format!("Exit status: {first}");
    for class in classes {
        write!(text, ", {} {}", class.status(), class.description()).expect("writing to a string does not fail");
    }
    format!("{text}; {SIGNAL_STATUSES}.\n")
}

/// A help text that ends with the exit statuses: [`SUCCESS_STATUS`], then these classes.
pub fn help_with_statuses(text: &str, classes: &[ErrorClass]) -> String {
    format!("{text}\n{}", exit_status_help(SUCCESS_STATUS, classes))
}

// The headings under which the help lists options.
pub const INPUT_HEADING: &str = "Input";
pub const STUDIES_HEADING: &str = "Studies";
/// Heading of the options of control runs, against which labels are checked.
pub const CONTROLS_HEADING: &str = "Controls";
pub const SHARDS_HEADING: &str = "Shards";
/// Heading of the options for reports, the summary and labelling.
pub const OUTPUT_HEADING: &str = "Output";

/// Refuses outputs that would overwrite one another or a corpus, even if the paths are spelt differently.
pub fn refuse_overlap(outputs: &[PathBuf], corpora: &[Input]) -> Result<(), UsageError> {
    let mut destinations = BTreeSet::new();
    for output in outputs {
        let destination = output::resolve_target(output);
        if corpora.iter().filter_map(Input::path).any(|corpus| output::resolve_target(corpus) == destination) {
            let error = anyhow!("output `{}` is also a corpus: it would be overwritten", output.display());
            return Err(error.with_file(output.display()));
        }
        if !destinations.insert(destination) {
            return Err(anyhow!("the same output is given twice: `{}`", output.display()).with_file(output.display()));
        }
    }
    Ok(())
}

/// Fails if no corpus can have plain text, since only plain text can be cut (`--truncate`).
pub fn ensure_truncatable(corpora: &[Input]) -> Result<(), UsageError> {
    if corpora.iter().any(Input::may_have_text) {
        return Ok(());
    }
    Err(anyhow!("--truncate is for plain text: a sentence without its end has another tree").with_option("truncate"))
}

/// Fails if an output does not have this file extension.
/// In the error, `what` is the failed action, such as `write a table as`, and `way_out` is the hint.
pub fn ensure_extension(outputs: &[PathBuf], extension: &str, what: &str, way_out: &str) -> Result<(), UsageError> {
    let other = outputs.iter().find(|path| lower_extension(path) != extension);
    other.map_or(Ok(()), |other| Err(unsuitable_output(what, other, way_out)))
}

/// Error for an output with an unsuitable file extension: `cannot {what}` the output, with the hint `way_out`.
pub fn unsuitable_output(what: &str, output: &Path, way_out: &str) -> UsageError {
    let shown = output.display();
    anyhow!("cannot {what} `{shown}`").with_file(shown).with_value(extension(output)).hint(way_out)
}

/// Sorts attention heads and removes duplicates.
pub fn sorted_heads(named: Vec<HeadPlace>) -> Vec<HeadPlace> {
    BTreeSet::from_iter(named).into_iter().collect()
}

/// File extension in lower case, without its dot; empty if there is none.
pub fn lower_extension(path: &Path) -> String {
    extension(path).to_lowercase()
}

/// Whether a file name has an extension, ignoring case. The extension may have two parts: `json.gz`.
pub fn has_extension(path: &Path, extension: &str) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    name.strip_suffix(extension).and_then(|stem| stem.strip_suffix('.')).is_some_and(|stem| !stem.is_empty())
}

/// File extension without its dot; empty if there is none.
pub fn extension(path: &Path) -> String {
    path.extension().unwrap_or_default().to_string_lossy().into_owned()
}
