//! Parses arguments of `headscope analyze` that are not from the command line, as in a table of `headscope batch`.

use anyhow::{Error, anyhow};
use clap::error::{ContextKind, ContextValue};
use clap::{ArgAction, Args, Command, FromArgMatches};
use itertools::Itertools as _;

use super::AnalyzeArguments;
use crate::commands::analyze::options::AnalyzeOptions;
use crate::commands::batch::table::{OptionArity, OptionSyntax};
use crate::commands::cli::errors::refused_value;
use crate::commands::cli::shared::UsageError;
use crate::system::errors::ErrorExt;

/// Parser of the options of `headscope analyze` alone.
fn clap_command() -> Command {
    AnalyzeArguments::augment_args(Command::new("headscope analyze"))
}

/// Long options of `headscope analyze`, each with the number of values that it takes, and the function that parses them.
pub fn option_syntax() -> OptionSyntax {
    let takes = |action: &ArgAction| match action {
        ArgAction::SetTrue => OptionArity::NoValue,
        ArgAction::Append => OptionArity::SeveralValues,
        _ => OptionArity::OneValue,
    };
    let command = clap_command();
    let long =
        command.get_arguments().filter_map(|option| Some((option.get_long()?.to_owned(), takes(option.get_action()))));
    OptionSyntax { options: long.collect(), parse: parse_options }
}

/// Parses the options of `headscope analyze` from words. Errors have no advice from clap on usage.
pub fn parse_options(words: Vec<String>) -> Result<AnalyzeOptions, UsageError> {
    let mut command = clap_command().no_binary_name(true);
    let matches = command.try_get_matches_from_mut(words);
    let arguments = matches.and_then(|mut matches| AnalyzeArguments::from_arg_matches_mut(&mut matches));
    let arguments = arguments.map_err(|error| {
        let error = error.format(&mut command);
        let usage = anyhow!(one_line_message(&error));
        let usage = option_long_name(&error, &command).into_iter().fold(usage, Error::with_option);
        refused_value(&error).into_iter().fold(usage, Error::with_value)
    });
    arguments?.validate()
}

fn option_long_name(error: &clap::Error, command: &Command) -> Option<String> {
    let argument = match error.get(ContextKind::InvalidArg)? {
        ContextValue::String(argument) => argument,
        ContextValue::Strings(all) => all.first()?,
        _ => return None,
    };
    command.get_arguments().find(|option| option.to_string() == *argument)?.get_long().map(str::to_owned)
}

/// Text of a clap error on one line, without clap's advice on usage.
fn one_line_message(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let end = ["\n\nUsage:", "\n\nFor more information"].iter().filter_map(|mark| text.find(mark)).min();
    text[..end.unwrap_or(text.len())].lines().map(str::trim).filter(|line| !line.is_empty()).join(" ")
}
