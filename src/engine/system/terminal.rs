//! Standard output and standard error.

use std::io::{self, Write};

use anyhow::{Context, Error, Result};

use super::errors::{Class, ErrorFormat, ErrorReport, Facts};
use super::printable::{ellipsis, printable, without_passwords};

/// Writes `bytes` to standard output. Ends without an error if its reader has left, as `head` does. Fails at any other error.
pub fn to_stdout(bytes: &[u8]) -> Result<()> {
    finish(io::stdout().lock(), bytes)
}

/// Prints `text` to standard output, in colour if it is a terminal and `NO_COLOR` is unset; else as [`to_stdout`]. Fails if it
/// cannot be written.
pub fn print(text: &str) -> Result<()> {
    finish(anstream::stdout().lock(), text.as_bytes())
}

/// Columns of standard output: the terminal's width, else `COLUMNS`; `None` for a file or a pipe, whose reader wraps the lines.
pub fn stdout_width() -> Option<usize> {
    let from_environment = || std::env::var("COLUMNS").ok()?.parse().ok().filter(|&columns| columns > 0);
    let terminal = terminal_size::terminal_size_of(io::stdout());
    terminal.map(|(terminal_size::Width(columns), _)| usize::from(columns)).or_else(from_environment)
}

/// Prints a line to standard error, [`printable`] and without the passwords of addresses. A closed or full standard error is ignored.
pub fn print_to_stderr(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{}", printable(&without_passwords(text)));
}

/// Prints an error. Later lines are indented, so that a name with line ends cannot pass for another error. A very long message
/// loses its middle: the reason stands before the value that makes it long, the hint after it.
pub fn print_error(error: &Error) {
    /// Number of characters kept at either end: no message with values of ordinary length is longer.
    const END: usize = 3000;
    print_to_stderr(&format!("error: {}", indented(&ellipsis(&format!("{error:#}"), END, END))));
}

fn indented(text: &str) -> String {
    let mut lines = text.split('\n');
    let first = lines.next().unwrap_or_default().to_owned();
    lines.fold(first, |mut shown, line| {
        shown.push_str(if line.is_empty() || line.starts_with("  ") { "\n" } else { "\n  " });
        shown.push_str(line);
        shown
    })
}

fn finish(mut stdout: impl Write, bytes: &[u8]) -> Result<()> {
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output").class(Class::Output)
        }
        _ => Ok(()),
    }
}

impl ErrorFormat {
    pub fn say(self, error: &Error) {
        match self {
            Self::Text => print_error(error),
            Self::Json => ErrorReport::new(error).say(),
        }
    }

    /// Prints the error of a run that a signal ended with this exit status.
    pub(super) fn say_interrupted(self, error: &Error, status: u8) {
        match self {
            Self::Text => print_error(error),
            Self::Json => ErrorReport { code: "interrupted", status, ..ErrorReport::new(error) }.say(),
        }
    }
}

impl ErrorReport {
    pub fn say(&self) {
        print_to_stderr(&self.json());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_further_line_begins_at_the_margin() {
        assert_eq!(indented("run:\n  import torch\nerror: b\n\n c"), "run:\n  import torch\n  error: b\n\n   c");
    }
}
