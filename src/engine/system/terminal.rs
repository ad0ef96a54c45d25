//! Text for a terminal: control characters are shown and not obeyed.

use std::io::{self, Write};

use anyhow::{Context, Error, Result};

use super::errors::{Class, Described, ErrorFormat, Facts};

/// Writes `bytes` to standard output; if its reader has left, as `head` does, that is where the output ends.
/// Fails if they cannot be written.
pub fn to_stdout(bytes: &[u8]) -> Result<()> {
    finish(io::stdout().lock(), bytes)
}

/// Prints `text` to standard output, in colour if it is a terminal and `NO_COLOR` is unset; else as [`to_stdout`].
/// Fails if it cannot be written.
pub fn print(text: &str) -> Result<()> {
    finish(anstream::stdout().lock(), text.as_bytes())
}

/// The columns that standard output has: of a terminal its own, otherwise what `COLUMNS` says; `None` of a file or a pipe,
/// whose reader sees to its lines.
pub fn width() -> Option<usize> {
    let requested = || std::env::var("COLUMNS").ok()?.parse().ok().filter(|&columns| columns > 0);
    let own = terminal_size::terminal_size_of(io::stdout());
    own.map(|(terminal_size::Width(columns), _)| usize::from(columns)).or_else(requested)
}

/// Prints a line to standard error, [`printable`]. A closed or full standard error is ignored.
pub fn say(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{}", printable(text));
}

/// Prints an error. No line after the first begins at the margin, so that a name with line ends in it cannot pass for
/// another error.
///
/// The middle of a message as long as a file is left out, where a value of that file stands: the reason comes before
/// it, the way out after it.
pub fn say_error(error: &Error) {
    /// Longer than any message with values of ordinary length.
    const END: usize = 3000;
    say(&format!("error: {}", indented(&ellipsis(&format!("{error:#}"), END, END))));
}

/// The text with all lines after the first indented.
fn indented(text: &str) -> String {
    let mut lines = text.split('\n');
    let first = lines.next().unwrap_or_default().to_owned();
    lines.fold(first, |mut shown, line| {
        shown.push_str(if line.is_empty() || line.starts_with("  ") { "\n" } else { "\n  " });
        shown.push_str(line);
        shown
    })
}

/// Text from files and arguments for a terminal: what a terminal would obey is shown instead, but for line ends.
pub fn printable(text: &str) -> String {
    escaped(text, |c| is_unprintable(c) && c != '\n')
}

/// The same for text on one line, such as a name that somebody else gave.
pub fn one_line(text: &str) -> String {
    escaped(text, is_unprintable)
}

fn escaped(text: &str, is_shown: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_shown(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Whether a terminal or an editor does something at this character rather than show it: control characters, with
/// which escape sequences begin; separators of lines and paragraphs; those that turn the direction of the text around
/// them (Unicode Standard Annex 9, section 2); and those that make two texts look alike, being nothing to see: the space
/// without width, the word joiner and the byte order mark. The joiners U+200C and U+200D, which spelling needs, are not
/// among them.
pub fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'
                | '\u{2066}'..='\u{2069}' | '\u{feff}'
        )
}

/// A value from a file or an argument for a message: of a long one its beginning.
pub fn shortened(text: &str) -> String {
    /// Names of models, relations and tensors are shorter.
    const LONGEST: usize = 100;
    ellipsis(text, LONGEST, 0)
}

/// The first characters of a text and the last ones, if it has more than both.
fn ellipsis(text: &str, first: usize, last: usize) -> String {
    let mut starts = text.char_indices().map(|(start, _)| start);
    let Some(cut) = starts.clone().nth(first).filter(|_| text.chars().count() > first + last) else {
        return text.to_owned();
    };
    let rest = starts.nth_back(last.saturating_sub(1)).filter(|_| last > 0).unwrap_or(text.len());
    format!("{}...{}", &text[..cut], &text[rest..])
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
    /// Prints an error to standard error.
    pub fn say(self, error: &Error) {
        match self {
            Self::Text => say_error(error),
            Self::Json => Described::of(error).say(),
        }
    }
}

impl Described {
    /// Prints the line of JSON to standard error.
    pub fn say(&self) {
        say(&self.json());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_on_one_line_and_shows_what_it_hides() {
        let name = "a\nerror: b\u{200b}\u{200e}\u{200f}\u{61c}\u{2028}\u{2029}\u{feff}";
        assert_eq!(one_line(name), "a\\nerror: b\\u{200b}\\u{200e}\\u{200f}\\u{61c}\\u{2028}\\u{2029}\\u{feff}");
        assert_eq!(printable("a\nb\r"), "a\nb\\r");
        // Persian and emoji are spelt with joiners.
        assert_eq!(one_line("می\u{200c}خواهم 👩\u{200d}🔬"), "می\u{200c}خواهم 👩\u{200d}🔬");
    }

    #[test]
    fn of_a_long_text_the_middle_is_left_out() {
        assert_eq!(ellipsis("äöüß", 2, 1), "äö...ß");
        assert_eq!(ellipsis("äöüß", 2, 2), "äöüß");
        assert_eq!(ellipsis("äöüß", 3, 0), "äöü...");
        assert_eq!(shortened("short"), "short");
        assert_eq!(shortened(&"é".repeat(1000)), format!("{}...", "é".repeat(100)));
    }

    #[test]
    fn no_further_line_begins_at_the_margin() {
        assert_eq!(indented("run:\n  import torch\nerror: b\n\n c"), "run:\n  import torch\n  error: b\n\n   c");
    }
}
