//! Untrusted text for a terminal: control characters are escaped, passwords hidden, long values cut.

use std::borrow::Cow;
use std::fmt;

/// Runs `write` on an empty text, and returns the text.
pub fn write_to_string(write: impl FnOnce(&mut String) -> fmt::Result) -> String {
    let mut text = String::new();
    write(&mut text).expect("writing to a string does not fail");
    text
}

/// Escapes the characters that control a terminal, except line ends.
pub fn escape_controls(text: &str) -> String {
    escape_where(text, |c| is_unprintable(c) && c != '\n')
}

/// Escapes the characters that control a terminal, line ends included, for text that must stay on one line.
pub fn one_line(text: &str) -> String {
    escape_where(text, is_unprintable)
}

/// Escapes the characters for which `is_escaped` is true.
fn escape_where(text: &str, is_escaped: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_escaped(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Replaces user and password in every URL by `***`, as in `https://ada:secret@host/` (RFC 3986, section 3.2.1).
pub fn without_passwords(text: &str) -> Cow<'_, str> {
    const SCHEME_END: &str = "://";
    let mut shown = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(SCHEME_END) {
        let (before, after) = rest.split_at(at + SCHEME_END.len());
        let is_end = |c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#' | '`' | '"' | '\\' | '<' | '>');
        let authority = &after[..after.find(is_end).unwrap_or(after.len())];
        shown.push_str(before);
        rest = match authority.rfind('@') {
            Some(end) => {
                shown.push_str("***");
                &after[end..]
            }
            None => after,
        };
    }
    if shown.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(shown + rest) }
}

/// Whether a terminal or editor obeys or hides this character instead of showing it.
///
/// They obey bidirectional controls (Unicode Standard Annex 9, section 2), line and paragraph separators, and control
/// characters, which begin escape sequences. Terminals and editors hide zero-width space, word joiner and byte order mark, so
/// that different texts look alike. U+200C and U+200D are allowed, since spelling needs them.
pub fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'
                | '\u{2066}'..='\u{2069}' | '\u{feff}'
        )
}

/// Cuts a long value after its first 100 characters, for a message.
pub fn shorten(text: &str) -> String {
    /// Maximum number of characters kept. Names of models, relations and tensors are shorter.
    const MAX_CHARS: usize = 100;
    elide_middle(text, MAX_CHARS, 0)
}

/// Replaces the middle of a text by `...` if the text has more than `first + last` characters.
pub fn elide_middle(text: &str, first: usize, last: usize) -> String {
    let mut starts = text.char_indices().map(|(start, _)| start);
    let Some(cut) = starts.clone().nth(first).filter(|_| text.chars().count() > first + last) else {
        return text.to_owned();
    };
    let rest = starts.nth_back(last.saturating_sub(1)).filter(|_| last > 0).unwrap_or(text.len());
    format!("{}...{}", &text[..cut], &text[rest..])
}

/// Beginning of a value for an error message, with control characters escaped.
pub fn excerpt(text: &str) -> String {
    /// Maximum number of characters shown.
    const MAX_SHOWN_CHARS: usize = 60;
    let mut shown = String::new();
    for c in elide_middle(text, MAX_SHOWN_CHARS, 0).chars() {
        // Quotes are harmless, and JSON is full of them.
        if c == '"' { shown.push(c) } else { shown.extend(c.escape_debug()) }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_on_one_line_and_shows_what_it_hides() {
        let name = "a\nerror: b\u{200b}\u{200e}\u{200f}\u{61c}\u{2028}\u{2029}\u{feff}";
        assert_eq!(one_line(name), "a\\nerror: b\\u{200b}\\u{200e}\\u{200f}\\u{61c}\\u{2028}\\u{2029}\\u{feff}");
        assert_eq!(escape_controls("a\nb\r"), "a\nb\\r");
        // Persian and emoji are spelt with joiners.
        assert_eq!(one_line("می\u{200c}خواهم 👩\u{200d}🔬"), "می\u{200c}خواهم 👩\u{200d}🔬");
    }

    #[test]
    fn addresses_keep_their_passwords() {
        for (text, expected) in [
            ("`https://ada:p@ss@host:80/a@b` and http://x@y", "`https://***@host:80/a@b` and http://***@y"),
            ("{\"value\":\"https://ada:secret@host\"}", "{\"value\":\"https://***@host\"}"),
            ("https://host/ada@home, mail ada@home", "https://host/ada@home, mail ada@home"),
            ("nothing", "nothing"),
        ] {
            assert_eq!(without_passwords(text), expected);
        }
    }

    #[test]
    fn of_a_long_text_the_middle_is_left_out() {
        assert_eq!(elide_middle("äöüß", 2, 1), "äö...ß");
        assert_eq!(elide_middle("äöüß", 2, 2), "äöüß");
        assert_eq!(elide_middle("äöüß", 3, 0), "äöü...");
        assert_eq!(shorten("short"), "short");
        assert_eq!(shorten(&"é".repeat(1000)), format!("{}...", "é".repeat(100)));
    }
}
