//! Standard output and standard error.

use std::io::{self, Write};

use anyhow::{Context, Error, Result};

use super::errors::{ErrorClass, ErrorExt, ErrorFormat, ErrorReport};
use super::printable::{elide_middle, escape_controls, without_passwords};

/// Writes `bytes` to standard output. A reader that has closed the pipe, such as `head`, is no error. Fails on any other
/// error.
pub fn write_stdout(bytes: &[u8]) -> Result<()> {
    write_and_flush(io::stdout().lock(), bytes)
}

/// Prints `text` to standard output, in colour if it is a terminal and `NO_COLOR` is unset. Fails as [`write_stdout`].
pub fn print(text: &str) -> Result<()> {
    write_and_flush(anstream::stdout().lock(), text.as_bytes())
}

/// Width of standard output in columns: that of the terminal, else `COLUMNS`. `None` for a file or a pipe, whose reader
/// wraps lines.
pub fn stdout_width() -> Option<usize> {
    let from_environment = || std::env::var("COLUMNS").ok()?.parse().ok().filter(|&columns| columns > 0);
    let terminal = terminal_size::terminal_size_of(io::stdout());
    terminal.map(|(terminal_size::Width(columns), _)| usize::from(columns)).or_else(from_environment)
}

/// Prints a line to standard error, with control characters escaped and passwords in URLs hidden. Write errors are ignored.
pub fn print_to_stderr(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{}", escape_controls(&without_passwords(text)));
}

/// Prints an error. Lines after the first are indented, so that a value with line ends cannot pass for another error. A
/// very long message is cut in the middle: the cause is at its beginning, and the hint at its end.
pub fn print_error(error: &Error) {
    /// Number of characters kept at the beginning and at the end. Only messages with extremely long values exceed both
    /// together.
    const KEPT_CHARS: usize = 3000;
    print_to_stderr(&format!("error: {}", indented(&elide_middle(&format!("{error:#}"), KEPT_CHARS, KEPT_CHARS))));
}

/// Indents all lines but the first.
fn indented(text: &str) -> String {
    let mut lines = text.split('\n');
    let first = lines.next().unwrap_or_default().to_owned();
    lines.fold(first, |mut shown, line| {
        shown.push_str(if line.is_empty() || line.starts_with("  ") { "\n" } else { "\n  " });
        shown.push_str(line);
        shown
    })
}

/// Writes and flushes `bytes`. A reader that has closed the pipe is no error.
fn write_and_flush(mut stdout: impl Write, bytes: &[u8]) -> Result<()> {
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output").class(ErrorClass::Output)
        }
        _ => Ok(()),
    }
}

impl ErrorFormat {
    /// Prints an error to standard error in this format.
    pub fn print_error(self, error: &Error) {
        match self {
            Self::Text => print_error(error),
            Self::Json => ErrorReport::new(error).print(),
        }
    }

    /// Prints the error of a run that a signal ended with exit status `status`.
    pub(super) fn print_interrupted(self, error: &Error, status: u8) {
        match self {
            Self::Text => print_error(error),
            Self::Json => ErrorReport { code: "interrupted", status, ..ErrorReport::new(error) }.print(),
        }
    }
}

impl ErrorReport {
    /// Prints the error to standard error as one line of JSON.
    pub fn print(&self) {
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
