//! Errors for people, and for programs that read them.

use anyhow::Error;
use serde::Serialize;

use super::failure::Class;
use crate::system::terminal::{say, say_error};

/// How errors are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ErrorFormat {
    /// For people.
    #[default]
    Text,
    /// Each as one line of JSON.
    Json,
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

/// An error as `--error-format json` prints it, on one line.
#[derive(Debug, Serialize, PartialEq, Eq)]
pub struct Described {
    /// The class: `usage`, `input`, `model`, `output`, `incomplete`, `temporary`, or `failed` for anything else.
    pub code: &'static str,
    /// The exit status that goes with it.
    pub status: u8,
    /// The whole message, as it is printed without the option.
    pub message: String,
    /// The file that it is about, if it names one.
    pub file: Option<String>,
    /// The line of that file, counted from 1.
    pub line: Option<u64>,
    /// The way out, as far as the message has one.
    pub hint: Option<String>,
}

impl Described {
    /// Reads off a message what the house rules of messages put there: a place is `file:line: ` at the beginning of a part,
    /// a file stands in backticks or before all else, and the way out comes last and is an order or a question.
    pub fn new(class: Class, message: String) -> Self {
        let somewhere = || {
            let file = quoted_file(&message).or_else(|| leading_file(&message))?;
            Some((file, named_line(&message)))
        };
        let place = place(&message).map(|(file, line)| (file, Some(line))).or_else(somewhere);
        let (file, line) = place.map_or((None, None), |(file, line)| (Some(file.to_owned()), line));
        let hint = hint(&message).map(str::to_owned);
        Self { code: class.code(), status: class.status(), message, file, line, hint }
    }

    /// Prints it as a line of JSON to standard error.
    pub fn say(&self) {
        say(&serde_json::to_string(self).expect("texts and numbers are JSON"));
    }

    /// An error.
    pub fn of(error: &Error) -> Self {
        Self::new(Class::of(error), format!("{error:#}"))
    }
}

/// The parts of a message, each with all that follows it.
fn parts(message: &str) -> impl Iterator<Item = &str> {
    let ends = message.match_indices([':', ';', '.']).filter(|(at, _)| message[at + 1..].starts_with([' ', '\n']));
    [0].into_iter().chain(ends.map(|(at, _)| at + 2)).map(|start| message[start..].trim_start())
}

/// The first `file:line: ` that begins a part.
fn place(message: &str) -> Option<(&str, u64)> {
    parts(message).find_map(|part| {
        let (place, _) = part.split_once(": ")?;
        let (file, line) = place.rsplit_once(':')?;
        let line = line.parse().ok().filter(|line| *line > 0)?;
        (!file.is_empty() && !file.contains('`')).then_some((file, line))
    })
}

/// The file before the first colon of a message, of those without a space.
fn leading_file(message: &str) -> Option<&str> {
    let (file, _) = message.split_once(": ")?;
    (file.contains(['/', '.']) && !file.contains([' ', '`']) && !file.starts_with("--") && !file.contains("://"))
        .then_some(file)
}

/// The number after the first `line ` of a message.
fn named_line(message: &str) -> Option<u64> {
    let numbers = message.split("line ").skip(1);
    let mut numbers = numbers.map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default());
    numbers.find_map(|number| number.parse().ok()).filter(|line| *line > 0)
}

/// The first text in backticks that is a file: the words before it say so, or it has a dot or a slash and no space. Addresses
/// and commands are none, and of what is said of the Hub neither ids of models nor the cache.
fn quoted_file(message: &str) -> Option<&str> {
    let about_hub = message.contains("the Hub");
    let mut before = "";
    for (place, text) in message.split('`').enumerate() {
        if place % 2 == 0 {
            before = text.trim_end_matches([' ', ':']);
            continue;
        }
        let named = FILES
            .iter()
            .any(|noun| before.strip_suffix(noun).is_some_and(|rest| !rest.ends_with(char::is_alphanumeric)));
        let looks = text.contains(['/', '.']) && !text.contains(' ') && !text.contains("://");
        let is_id = || before.ends_with("Hub cache") || !text.starts_with(['/', '.']) && text.matches('/').count() < 2;
        let is_file = named && !text.starts_with("headscope ") || looks && !(about_hub && is_id());
        if is_file && !text.contains('\n') {
            return Some(text);
        }
    }
    None
}

/// Words that stand before the name of a file.
const FILES: &[&str] =
    &["corpus", "counts", "file", "folder", "index", "open", "partial", "policy", "read", "report", "write"];

/// Words with which a way out begins.
const WAYS_OUT: &[&str] = &[
    "a similar",
    "accept",
    "add",
    "analyse",
    "build",
    "call",
    "check",
    "choose",
    "convert",
    "create",
    "did you mean",
    "download",
    "free",
    "get",
    "give",
    "headscope",
    "`headscope",
    "if so",
    "if the file is whole",
    "is it",
    "is this",
    "leave",
    "make",
    "merge",
    "name",
    "or is",
    "or run",
    "pull",
    "put",
    "read",
    "remove",
    "run",
    "save",
    "say",
    "set",
    "split",
    "take",
    "to convert",
    "to make",
    "try",
    "unset",
    "use",
    "wait",
    "was the",
    "write",
];

/// All that follows from the first part on that begins as a way out does.
fn hint(message: &str) -> Option<&str> {
    let begins = |part: &&str| {
        WAYS_OUT.iter().any(|word| {
            let rest =
                part.get(..word.len()).filter(|start| start.eq_ignore_ascii_case(word)).map(|_| &part[word.len()..]);
            rest.is_some_and(|rest| rest.starts_with([' ', ',', ':']) || rest.is_empty())
        })
    };
    parts(message).skip(1).find(begins)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_ways_out_are_read_off_the_message() {
        let of = |message: &str| {
            let Described { file, line, hint, .. } = Described::new(Class::Input, message.to_owned());
            (file, line, hint)
        };
        let text = |text: &str| Some(text.to_owned());
        for (message, expected) in [
            ("data/a.conllu:12: a word has no head", (text("data/a.conllu"), Some(12), None)),
            ("this is no report: b.json:1: expected value", (text("b.json"), Some(1), None)),
            ("cannot open corpus `a/b.txt`: denied", (text("a/b.txt"), None, None)),
            (
                "cannot write `out/x.json`: there is no folder `out`: create it first",
                (text("out/x.json"), None, text("create it first")),
            ),
            (
                "p.toml:3: there is no threshold `a`; did you mean `b`?",
                (text("p.toml"), Some(3), text("did you mean `b`?")),
            ),
            ("cannot open corpus `my corpus`: denied", (text("my corpus"), None, None)),
            ("no such corpus file or folder: `my corpus`", (text("my corpus"), None, None)),
            (
                "t.toml:6: in run `m.c`: invalid value '0' for '--limit <N>': a whole number of 1 or more is expected",
                (text("t.toml"), Some(6), None),
            ),
            (
                "`org/none` (revision `main`) is not in the Hub cache `/home/hub`, and --offline forbids to ask the Hub: leave out \
                 --offline or download the model first",
                (None, None, text("leave out --offline or download the model first")),
            ),
            ("cannot write `/home/hub/a.lock` in the cache of the Hub: full", (text("/home/hub/a.lock"), None, None)),
            ("run `headscope index` again, or `git lfs pull`", (None, None, None)),
            (
                "the file has 8 bytes where its header says 9: download it again",
                (None, None, text("download it again")),
            ),
            ("the report has no metric `a`: is it `b`?", (None, None, text("is it `b`?"))),
            (
                "what a head does is in a report: `headscope show report.json L2H8`",
                (None, None, text("`headscope show report.json L2H8`")),
            ),
            ("the report has no table `labls`: it has labels", (None, None, None)),
            ("v9.json: its schema_version is 9: analyse again", (text("v9.json"), None, text("analyse again"))),
            (
                "no such model folder: `a b/c`; name a model on the Hub as `org/name`",
                (text("a b/c"), None, text("name a model on the Hub as `org/name`")),
            ),
            (
                "cannot read `m/config.json`: expected a comma at line 21 column 26",
                (text("m/config.json"), Some(21), None),
            ),
            ("--strict: a.b: c", (None, None, None)),
            (
                "`a.bin` is old. If the file is whole, make another:\n  import torch",
                (text("a.bin"), None, text("If the file is whole, make another:\n  import torch")),
            ),
            ("nothing to say", (None, None, None)),
        ] {
            assert_eq!(of(message), expected, "{message}");
        }
    }
}
