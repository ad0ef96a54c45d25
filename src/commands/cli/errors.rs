//! Messages for wrong usage.

use crate::system::errors::described::{Described, ErrorFormat};
use crate::system::errors::failure::Class;
use crate::system::terminal::{is_obeyed, one_line, say};

/// How errors are printed, as far as the arguments say: also where they cannot be read otherwise.
pub fn error_format() -> ErrorFormat {
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

/// Where an error lists all arguments that could have been given, of `all` commands.
fn where_to_look(all: &clap::Command) -> String {
    let mut given = std::env::args_os().skip(1).take_while(|argument| argument != "--");
    match given.find_map(|argument| Some(all.find_subcommand(argument)?.get_name().to_owned())) {
        Some(command) => format!("run `headscope {command} --help`"),
        None => "run `headscope --help`".to_owned(),
    }
}

/// Ends with clap's own message, or one line of JSON, `all` being the commands that there are; one that repeats what a terminal would obey is printed without colours, and each
/// argument on one line.
pub(super) fn refuse(error: &clap::Error, all: &clap::Command) -> ! {
    if error.use_stderr() && error_format() == ErrorFormat::Json {
        let text = error.render().to_string();
        let text = text.strip_prefix("error: ").unwrap_or(&text);
        let (message, rest) = text.split_once("\n\n").unwrap_or((text, ""));
        let tip = rest.split("\n\n").find_map(|part| part.trim().strip_prefix("tip: ").map(str::to_owned));
        let mut described = Described::new(Class::Usage, message.trim_end().to_owned());
        described.hint = described.hint.or(tip).or_else(|| Some(where_to_look(all)));
        described.say();
        std::process::exit(error.exit_code());
    }
    let arguments = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned());
    let hostile: Vec<String> = arguments.filter(|argument| argument.contains(is_obeyed)).collect();
    if error.use_stderr() && !hostile.is_empty() {
        let message = error.render().to_string();
        say(hostile.iter().fold(message, |text, argument| text.replace(argument, &one_line(argument))).trim_end());
        std::process::exit(error.exit_code());
    }
    error.exit()
}
