//! The command line: clap's structs, turned into commands with validated options. The only folder that knows clap.

pub mod analyze;
mod batch;
mod corpora;
mod errors;
mod explain;
mod saved;
mod sentences;
mod shared;

use std::ffi::{OsStr, OsString};
use std::path::Path;

use anstream::ColorChoice;
use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::system::embedded;
use crate::system::errors::{ErrorClass, ErrorFormat};
use crate::system::machine::memory;
use crate::system::terminal::{print, print_to_stderr};
pub use errors::requested_error_format;
use errors::{exit_with_clap_error, exit_with_usage_error};
pub use shared::Command;
use shared::numbers::parse_bytes;
use shared::{NamedValue, SUCCESS_STATUS, UsageError, exit_status_help, named_value_parser};

/// Say what each attention head of a pretrained transformer does, with the evidence.
#[derive(Parser)]
#[command(version, arg_required_else_help = true, after_help = format!("{UNLISTED_COMMANDS}\n{}", exit_status_help(SUCCESS_STATUS, &ErrorClass::ALL)))]
struct Arguments {
    #[command(subcommand)]
    action: Action,
    /// When to use colours
    #[arg(long, value_parser = named_value_parser(COLOURS), global = true, default_value = "auto", hide_possible_values = true, hide_short_help = true, value_name = "auto|always|never")]
    color: ColorChoice,
    /// How errors are printed
    #[arg(long, global = true, value_name = "FORMAT", value_parser = named_value_parser(ERROR_FORMATS), default_value = "text", hide_short_help = true)]
    error_format: ErrorFormat,
    /// Memory that may be taken, as in 8GB: what needs more is refused beforehand [default: what is free]
    #[arg(long, global = true, value_name = "SIZE", value_parser = parse_bytes, hide_short_help = true)]
    memory: Option<u64>,
    /// With --version: also features, the instruction set in use, and the versions of file formats
    #[arg(long)]
    verbose: bool,
}

const COLOURS: &[NamedValue<ColorChoice>] = &[
    (ColorChoice::Auto, "auto", "On a terminal, unless `NO_COLOR` is set"),
    (ColorChoice::Always, "always", "Always"),
    (ColorChoice::Never, "never", "Never"),
];

const ERROR_FORMATS: &[NamedValue<ErrorFormat>] = &[
    (ErrorFormat::Text, "text", "Sentences"),
    (ErrorFormat::Json, "json", "One line of JSON: code, status, message, file, line, value, hint"),
];

/// Last part of the help: the commands that the list of commands omits, grouped by purpose.
const UNLISTED_COMMANDS: &str = "\
`headscope MODEL` analyses a model. More commands: match (heads of two models), merge, index, counts (corpora in parts), \
completions, man; each has --help.
";

#[derive(Subcommand)]
enum Action {
    Analyze(Box<analyze::AnalyzeArguments>),
    #[command(hide = true)]
    Merge(corpora::MergeArguments),
    #[command(hide = true)]
    Relabel(saved::show::RelabelArguments),
    Show(saved::show::ShowArguments),
    Export(saved::show::ExportArguments),
    Compare(saved::compare::CompareArguments),
    Confirm(saved::compare::ConfirmArguments),
    Gate(saved::compare::GateArguments),
    Prune(saved::show::PruneArguments),
    View(sentences::view::ViewArguments),
    #[command(hide = true)]
    Maps(sentences::view::ViewArguments),
    #[command(hide = true)]
    Match(sentences::matching::MatchArguments),
    #[command(hide = true)]
    Counts(corpora::CountsArguments),
    #[command(hide = true)]
    Index(corpora::IndexArguments),
    Batch(batch::BatchArguments),
    Explain(explain::ExplainArguments),
    #[command(hide = true)]
    Schema(explain::SchemaArguments),
    Cite(saved::show::CiteArguments),
    #[command(hide = true)]
    Completions(explain::CompletionsArguments),
    #[command(hide = true)]
    Man(explain::ManArguments),
}

/// Parses the arguments of this process; on wrong usage prints the reason and exits with status 2.
pub fn parse() -> Command {
    let mut all = Arguments::command();
    let asks_for_more = || std::env::args_os().any(|argument| argument == "--verbose");
    let (arguments, is_diff) = process_arguments(&Arguments::command());
    let parsed = all.try_get_matches_from_mut(arguments);
    let parsed = parsed.and_then(|matches| Ok((Arguments::from_arg_matches(&matches)?, matches)));
    let (arguments, matches) = match parsed {
        Err(error) if error.kind() == ErrorKind::DisplayVersion && asks_for_more() => {
            return Command::new(|| print(&explain::version_text()));
        }
        parsed => parsed.unwrap_or_else(|error| {
            exit_with_clap_error(&saved::compare::with_gate_tip(error.format(&mut all)), &Arguments::command())
        }),
    };
    if arguments.verbose {
        exit_with_clap_error(
            &all.error(ErrorKind::MissingRequiredArgument, "--verbose is for --version"),
            &Arguments::command(),
        );
    }
    arguments.color.write_global();
    arguments.memory.into_iter().for_each(memory::set_limit);
    let command = match arguments.action {
        Action::Analyze(arguments) => arguments.command(),
        Action::Merge(arguments) => arguments.command(),
        Action::Relabel(arguments) => {
            with_rename_notice("relabel", "show --policy` and `export --policy", arguments.command())
        }
        Action::Show(arguments) => arguments.command(),
        Action::Export(arguments) => arguments.command(),
        Action::Compare(arguments) if is_diff => with_rename_notice("diff", "compare --numbers", arguments.command()),
        Action::Compare(arguments) => arguments.command(),
        Action::Confirm(arguments) => arguments.command(),
        Action::Gate(arguments) => arguments.command(),
        Action::Prune(arguments) => arguments.command(),
        Action::View(arguments) => arguments.command(),
        Action::Maps(arguments) => with_rename_notice("maps", "view", arguments.command()),
        Action::Match(arguments) => arguments.command(),
        Action::Counts(arguments) => arguments.command(),
        Action::Index(arguments) => arguments.command(),
        Action::Batch(arguments) => Ok(arguments.command()),
        Action::Explain(arguments) => arguments.command(),
        Action::Schema(arguments) => with_rename_notice("schema", "explain --schema", Ok(arguments.command())),
        Action::Cite(arguments) => Ok(arguments.command()),
        Action::Completions(arguments) => Ok(arguments.command(Arguments::command())),
        Action::Man(arguments) => arguments.command(Arguments::command()),
    };
    let name = matches.subcommand_name().expect("a command was given");
    command.unwrap_or_else(|usage| exit_with_usage_error(usage, name, Arguments::command()))
}

/// Makes a command that was called by its old name also print its new name to standard error, after success.
fn with_rename_notice(
    old: &'static str,
    new: &'static str,
    command: Result<Command, UsageError>,
) -> Result<Command, UsageError> {
    let Command { run, default_class: other } = command?;
    let run = Box::new(move || {
        let status = run()?;
        print_to_stderr(&format!(
            "`headscope {old}` is `headscope {new}` now; the old name goes with the next version"
        ));
        Ok(status)
    });
    Ok(Command { run, default_class: other })
}

/// Returns the arguments of this process, with `analyze` inserted if the first word is a model.
/// The flag says whether the first word is `diff`, the old name of `compare --numbers`, which then replaces it.
fn process_arguments(all: &clap::Command) -> (Vec<OsString>, bool) {
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    let Some(place) = first_positional(&arguments, all) else { return (arguments, false) };
    let is_diff = arguments[place] == "diff";
    if is_diff {
        arguments.splice(place..=place, ["compare", "--numbers"].map(OsString::from));
    } else if all.find_subcommand(&arguments[place]).is_none() && is_model_name(&arguments[place]) {
        arguments.insert(place, "analyze".into());
    }
    (arguments, is_diff)
}

/// Index of the first argument that is neither an option nor the value of an option; `None` if there is none.
fn first_positional(arguments: &[OsString], all: &clap::Command) -> Option<usize> {
    let takes_value = |option: &str| {
        let mut options_with_value = all.get_arguments().filter(|argument| argument.get_action().takes_values());
        options_with_value
            .any(|argument| argument.get_long().is_some_and(|long| option.strip_prefix("--") == Some(long)))
    };
    let mut index = 1;
    loop {
        let text = arguments.get(index)?.to_string_lossy();
        if !text.starts_with('-') {
            return Some(index);
        }
        index += 1 + usize::from(takes_value(&text));
    }
}

/// Whether a word that is no command names a model: a built-in one (`box:`), a folder, or a Hub id with an owner.
fn is_model_name(word: &OsStr) -> bool {
    let text = word.to_string_lossy();
    !text.starts_with('-')
        && (text.starts_with(embedded::EMBEDDED_PREFIX) || text.contains('/') || Path::new(word).is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::studies::registry::{self, STUDIES};

    /// The help of a command, as words.
    fn help(command: &str) -> Vec<String> {
        let mut all = Arguments::command();
        all.build();
        let help = all.find_subcommand_mut(command).expect("a command").render_long_help().to_string();
        let ends = |c: char| !c.is_ascii_alphanumeric() && !"-_:".contains(c);
        help.split(ends).map(|word| word.trim_end_matches(':').to_owned()).collect()
    }

    #[test]
    fn helps_name_every_study_figure_and_table() {
        let [analyze, merge, export] = ["analyze", "merge", "export"].map(help);
        let has = |help: &[String], name: &str| assert!(help.iter().any(|word| word == name), "{name}");
        for card in STUDIES.iter().map(|study| study.card()) {
            has(&analyze, card.name);
            card.figures.iter().chain(card.tables).for_each(|name| has(&export, name));
        }
        registry::two_stage_study_names().for_each(|name| has(&merge, name));
    }
}
