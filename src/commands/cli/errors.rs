//! Messages for wrong usage.

use std::error::Error;

use anyhow::anyhow;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use itertools::Itertools as _;

use super::shared::UsageError;
use crate::system::errors::{self, ErrorClass, ErrorExt, ErrorFormat, ErrorReport};
use crate::system::printable::{is_unprintable, one_line};
use crate::system::terminal::print_to_stderr;

/// Format of error messages, found in the raw arguments, so that it also holds for arguments that clap rejects.
pub fn requested_error_format() -> ErrorFormat {
    const OPTION: &str = "--error-format";
    const JSON: &str = "json";
    let arguments: Vec<String> = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect();
    let options = arguments.iter().take_while(|argument| *argument != "--");
    let following = arguments.iter().skip(1);
    let mut pairs = options.zip(following.map(Some).chain([None]));
    let json = pairs.any(|(option, next)| match option.strip_prefix(OPTION) {
        Some("") => next.is_some_and(|value| value == JSON),
        Some(rest) => rest.strip_prefix('=') == Some(JSON),
        None => false,
    });
    if json { ErrorFormat::Json } else { ErrorFormat::Text }
}

/// Hint that names the `--help` of the command in the arguments, or of the program if there is no command.
fn help_hint(all: &clap::Command) -> String {
    let mut arguments = std::env::args_os().skip(1).take_while(|argument| argument != "--");
    match arguments.find_map(|argument| Some(all.find_subcommand(argument)?.get_name().to_owned())) {
        Some(command) => format!("run `headscope {command} --help`"),
        None => "run `headscope --help`".to_owned(),
    }
}

/// Sentence with clap's first suggestion for a misspelt subcommand, argument or value; `None` if clap has no suggestion.
fn first_suggestion(error: &clap::Error) -> Option<String> {
    /// Kinds of suggestions in a clap error, each with the noun for what it suggests.
    const SUGGESTION_KINDS: [(ContextKind, &str); 3] = [
        (ContextKind::SuggestedSubcommand, "subcommand"),
        (ContextKind::SuggestedArg, "argument"),
        (ContextKind::SuggestedValue, "value"),
    ];
    let quoted = |names: &[String]| names.iter().map(|name| format!("'{name}'")).join(", ");
    let similar = SUGGESTION_KINDS.into_iter().find_map(|(kind, what)| match error.get(kind)? {
        ContextValue::String(name) => Some(format!("a similar {what} exists: '{name}'")),
        ContextValue::Strings(names) if names.len() > 1 => {
            Some(format!("some similar {what}s exist: {}", quoted(names)))
        }
        ContextValue::Strings(names) => Some(format!("a similar {what} exists: {}", quoted(names))),
        _ => None,
    });
    similar.or_else(|| match error.get(ContextKind::Suggested)? {
        ContextValue::StyledStrs(tips) => Some(tips.first()?.to_string()),
        _ => None,
    })
}

/// Value that clap rejects: an option's value, or an unknown argument or subcommand.
pub(super) fn refused_value(error: &clap::Error) -> Option<&str> {
    let unknown = match error.kind() {
        ErrorKind::UnknownArgument => ContextKind::InvalidArg,
        _ => ContextKind::InvalidSubcommand,
    };
    match error.get(ContextKind::InvalidValue).or_else(|| error.get(unknown))? {
        // clap reports a missing value as an empty one.
        ContextValue::String(value) => Some(value.as_str()).filter(|value| !value.is_empty()),
        _ => None,
    }
}

/// Prints clap's message, or one line of JSON, and exits; `all` has all commands.
/// If an argument has unprintable characters, the message has no colours, and each argument is on one line.
pub(super) fn exit_with_clap_error(error: &clap::Error, all: &clap::Command) -> ! {
    if error.use_stderr() && requested_error_format() == ErrorFormat::Json {
        let message = error.render().to_string();
        let message = message.strip_prefix("error: ").unwrap_or(&message);
        let message = message.split("\n\n").next().unwrap_or_default().trim_end();
        let of_value = error.source().and_then(errors::hint);
        let hint = of_value.or_else(|| first_suggestion(error)).unwrap_or_else(|| help_hint(all));
        let value = refused_value(error).map(str::to_owned);
        ErrorReport {
            value,
            hint: Some(hint),
            ..ErrorReport::new(&anyhow!(message.to_owned()).class(ErrorClass::Usage))
        }
        .print();
        std::process::exit(error.exit_code());
    }
    let arguments = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned());
    let hostile: Vec<String> = arguments.filter(|argument| argument.contains(is_unprintable)).collect();
    if error.use_stderr() && !hostile.is_empty() {
        let message = error.render().to_string();
        print_to_stderr(
            hostile.iter().fold(message, |text, argument| text.replace(argument, &one_line(argument))).trim_end(),
        );
        std::process::exit(error.exit_code());
    }
    error.exit()
}

/// Prints a usage error that clap does not find, as text or as one line of JSON, and exits.
/// `name` is the name of the command in `all`.
/// An argument that names an unusable file is no usage error, and exits with the status of its class.
pub(super) fn exit_with_usage_error(usage: UsageError, name: &str, mut all: clap::Command) -> ! {
    let class = ErrorClass::from_error(&usage);
    if ![ErrorClass::Other, ErrorClass::Usage].contains(&class) {
        requested_error_format().print_error(&usage);
        std::process::exit(class.status().into());
    }
    if requested_error_format() == ErrorFormat::Json {
        let described = ErrorReport::new(&usage.class(ErrorClass::Usage));
        ErrorReport { hint: described.hint.or_else(|| Some(help_hint(&all))), ..described }.print();
        std::process::exit(ErrorClass::Usage.status().into());
    }
    all.build();
    let command = all.find_subcommand_mut(name).expect("a command by its own name");
    let error = command.error(ErrorKind::ValueValidation, format!("{usage:#}"));
    exit_with_clap_error(&error, &all)
}
