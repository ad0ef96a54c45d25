//! Text for a terminal: what it would obey is shown and not obeyed.

use std::io::{self, Write};

use anyhow::{Context, Result};

/// Writes `bytes` to standard output; if its reader has left, as `head` does, that is where the output ends.
///
/// # Errors
///
/// If they cannot be written.
pub fn to_stdout(bytes: &[u8]) -> Result<()> {
    finish(io::stdout().lock(), bytes)
}

/// Prints `text` to standard output, in colour if it is a terminal and `NO_COLOR` is unset; else as [`to_stdout`].
///
/// # Errors
///
/// If it cannot be written.
pub fn print(text: &str) -> Result<()> {
    finish(anstream::stdout().lock(), text.as_bytes())
}

/// Text from files and arguments for a terminal: what a terminal would obey is shown instead, but for line ends.
#[must_use]
pub fn printable(text: &str) -> String {
    let shown = |c: char| if is_obeyed(c) && c != '\n' { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(shown).collect()
}

/// Whether a terminal does something at this character rather than show it: control characters, with which escape
/// sequences begin, and those that turn the direction of the text around them (Unicode Standard Annex 9, section 2).
#[must_use]
pub fn is_obeyed(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn finish(mut stdout: impl Write, bytes: &[u8]) -> Result<()> {
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(()),
    }
}
