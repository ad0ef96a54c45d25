//! Facts about an error besides its message: class, file, line, option, value and hint. Code that makes an error
//! attaches facts to it; they survive added context.

use std::error::Error as StdError;
use std::fmt::{self, Display};
use std::{io, iter};

use anyhow::Error;

use super::class::ErrorClass;
use crate::system::printable::shorten;

/// Facts that one call attached to an error, such as its file and line; all other fields are `None`.
#[derive(Debug, Default)]
struct ErrorFact {
    class: Option<ErrorClass>,
    /// File that the error is about; if `line` is set, it is a line of this file.
    file: Option<String>,
    line: Option<u64>,
    /// Hint for the user, as `(separator between message and hint, hint)`.
    hint: Option<(&'static str, String)>,
    /// Command-line option that the error is about.
    option: Option<String>,
    /// Unusable value that the error is about.
    value: Option<String>,
    /// New message of the error and its causes together, as `map_message` and `hint_after` set it; `None` if the
    /// original messages stay.
    words: Option<String>,
}

/// An error with facts attached. Its message is `fact.words`, or the original message if that is `None`.
#[derive(Debug)]
struct AnnotatedError {
    error: Error,
    fact: ErrorFact,
}

impl Display for AnnotatedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.fact.words {
            Some(words) => f.write_str(words),
            None => write!(f, "{}", self.error),
        }
    }
}

impl StdError for AnnotatedError {
    fn source(&self) -> Option<&Cause> {
        if self.fact.words.is_some() { None } else { self.error.source() }
    }
}

impl ErrorClass {
    /// Class of an error: the innermost of the attached classes, or `Other` without one.
    pub fn from_error(error: &Error) -> Self {
        facts(error.as_ref()).filter_map(|fact| fact.class).last().unwrap_or(Self::Other)
    }
}

/// An error in a chain of causes.
type Cause = dyn StdError + 'static;

/// Iterates over an error and its causes, beginning with the error itself.
pub fn causes(error: &Cause) -> impl Iterator<Item = &Cause> {
    let mut next = Some(error);
    iter::from_fn(move || {
        let cause = next?;
        // The source of an `io::Error` skips the error that it wraps.
        let within = || Some(cause.downcast_ref::<io::Error>()?.get_ref()? as &Cause);
        next = match cause.downcast_ref::<AnnotatedError>() {
            Some(annotated) => Some(annotated.error.as_ref()),
            None => within().or_else(|| cause.source()),
        };
        Some(cause)
    })
}

/// Iterates over the facts attached to an error and its causes, beginning with those attached last.
fn facts(error: &Cause) -> impl Iterator<Item = &ErrorFact> {
    causes(error).filter_map(|cause| Some(&cause.downcast_ref::<AnnotatedError>()?.fact))
}

/// `(file, line)` that an error is about: the pair that was last attached in one call. Without such a pair, it is the
/// last attached file with the last attached line, or else with the line of a JSON error.
pub fn location(error: &Cause) -> (Option<&str>, Option<u64>) {
    let in_json = || causes(error).find_map(|cause| Some(cause.downcast_ref::<serde_json::Error>()?.line() as u64));
    let line_of_file = facts(error).find_map(|fact| fact.file.as_deref().zip(fact.line));
    let (file, line) = if let Some((file, line)) = line_of_file {
        (Some(file), Some(line))
    } else {
        let file = facts(error).find_map(|fact| fact.file.as_deref());
        (file, file.and(facts(error).find_map(|fact| fact.line).or_else(in_json)))
    };
    (file, line.filter(|line| *line > 0))
}

/// Command-line option that an error is about: the one attached last.
pub fn command_option(error: &Cause) -> Option<&str> {
    facts(error).find_map(|fact| fact.option.as_deref())
}

/// Value that an error is about: the one attached last.
pub fn value(error: &Cause) -> Option<&str> {
    facts(error).find_map(|fact| fact.value.as_deref())
}

/// All hints attached to an error, joined; `None` if it has none.
pub fn hint(error: &Cause) -> Option<String> {
    let hints = facts(error).filter_map(|fact| fact.hint.clone());
    hints.reduce(|(joint, rest), (after, hint)| (after, hint + joint + &rest)).map(|(_, hint)| hint)
}

/// Methods that attach facts to an error, or to the error of a result. An `Ok` stays as it is.
pub trait ErrorExt: Sized {
    /// The error or result with the facts attached.
    type Annotated;

    /// Replaces the error by `make(error)`. The other methods of the trait call this method to attach their facts.
    fn annotate(self, make: impl FnOnce(Error) -> Error) -> Self::Annotated;

    /// Attaches a class, unless the error already has one.
    fn class(self, class: ErrorClass) -> Self::Annotated {
        self.annotate(|error| annotate_error(error, |fact| fact.class = Some(class)))
    }

    /// Attaches the file that the error is about, which the message already names.
    fn with_file(self, file: impl Display) -> Self::Annotated {
        self.annotate(|error| annotate_error(error, |fact| fact.file = Some(file.to_string())))
    }

    /// Attaches the line that the error is about, which the message already names.
    fn with_line(self, line: u64) -> Self::Annotated {
        self.annotate(|error| annotate_error(error, |fact| fact.line = Some(line)))
    }

    /// Attaches the command-line option that the error is about, which the message already names.
    fn with_option(self, name: impl Display) -> Self::Annotated {
        self.annotate(|error| annotate_error(error, |fact| fact.option = Some(name.to_string())))
    }

    /// Attaches the value that the error is about, which the message already names. A long value is shortened.
    fn with_value(self, value: impl Display) -> Self::Annotated {
        self.annotate(|error| annotate_error(error, |fact| fact.value = Some(shorten(&value.to_string()))))
    }

    /// Attaches file and line, and puts `file:line` before the message.
    fn at_line(self, file: impl Display, line: u64) -> Self::Annotated {
        self.annotate(|error| {
            let error = error.context(format!("{file}:{line}"));
            annotate_error(error, |fact| (fact.file, fact.line) = (Some(file.to_string()), Some(line)))
        })
    }

    /// Attaches the file, and puts `cannot`, the action `what` and the file before the message.
    fn cannot(self, what: &str, file: impl Display) -> Self::Annotated {
        self.annotate(|error| error.context(format!("cannot {what} `{file}`")).with_file(file))
    }

    /// Replaces the complete message, causes included, by the result of `words` on it. Attached facts stay.
    fn map_message(self, words: impl FnOnce(String) -> String) -> Self::Annotated {
        self.annotate(|error| {
            let words = words(format!("{error:#}"));
            annotate_error(error, |fact| fact.words = Some(words))
        })
    }

    /// Attaches a hint, and appends it to the message after a colon.
    fn hint(self, hint: impl Display) -> Self::Annotated {
        self.hint_after(": ", hint)
    }

    /// Appends the question whether `name` was meant; `None` appends nothing.
    fn did_you_mean(self, name: Option<impl Display>) -> Self::Annotated {
        self.annotate(|error| match name {
            Some(name) => error.hint_after("; ", format!("did you mean `{name}`?")),
            None => error,
        })
    }

    /// Attaches a hint, and appends it to the message after the separator `after`.
    fn hint_after(self, after: &'static str, hint: impl Display) -> Self::Annotated {
        self.annotate(|error| {
            let words = format!("{error:#}{after}{hint}");
            annotate_error(error, |fact| (fact.words, fact.hint) = (Some(words), Some((after, hint.to_string()))))
        })
    }

    /// Attaches a hint for [`hint`] and for errors printed as JSON. The message stays unchanged, since it already
    /// contains the hint.
    fn with_included_hint(self, hint: impl Display) -> Self::Annotated {
        self.annotate(|error| annotate_error(error, |fact| fact.hint = Some(("; ", hint.to_string()))))
    }
}

impl ErrorExt for Error {
    type Annotated = Self;

    fn annotate(self, make: impl FnOnce(Error) -> Error) -> Self {
        make(self)
    }
}

impl<T, E: Into<Error>> ErrorExt for Result<T, E> {
    type Annotated = anyhow::Result<T>;

    fn annotate(self, make: impl FnOnce(Error) -> Error) -> anyhow::Result<T> {
        self.map_err(|error| make(error.into()))
    }
}

/// Converts an error with its facts into an `io::Error`.
pub fn io_error(kind: io::ErrorKind, error: Error) -> io::Error {
    io::Error::new(kind, error.reallocate_into_boxed_dyn_error_without_backtrace())
}

/// Attaches the facts that `tell` sets.
fn annotate_error(error: Error, tell: impl FnOnce(&mut ErrorFact)) -> Error {
    let mut fact = ErrorFact::default();
    tell(&mut fact);
    AnnotatedError { error, fact }.into()
}

#[cfg(test)]
mod tests {
    use anyhow::{Context, anyhow};

    use super::*;

    #[test]
    fn an_error_keeps_its_words_and_its_first_class() {
        let inner: Result<(), Error> = Err(anyhow!("no such file")).cannot("open", "a.txt");
        let outer =
            inner.class(ErrorClass::Input).context("run a").class(ErrorClass::Model).context("batch").unwrap_err();
        assert_eq!(format!("{outer:#}"), "batch: run a: cannot open `a.txt`: no such file");
        assert_eq!(ErrorClass::from_error(&outer), ErrorClass::Input);
        assert_eq!(ErrorClass::from_error(&anyhow!("else")), ErrorClass::Other);
    }

    #[test]
    fn the_way_out_comes_last() {
        let denied = || anyhow!("denied").context("cannot open it");
        let error = denied().hint("ask").class(ErrorClass::Input).context("run a").hint_after("; or ", "leave it");
        assert_eq!(format!("{error:#}"), "run a: cannot open it: denied: ask; or leave it");
        assert_eq!(hint(error.as_ref()).as_deref(), Some("ask; or leave it"));
        assert_eq!((hint(denied().as_ref()), ErrorClass::from_error(&error)), (None, ErrorClass::Input));
    }

    #[test]
    fn the_value_is_the_outermost() {
        let error = anyhow!("no label `a b`").with_value("a b").context("run a").hint("see all");
        assert_eq!((value(error.as_ref()), value(anyhow!("bad").as_ref())), (Some("a b"), None));
        let error = error.map_message(|words| format!("({words})")).with_value("c");
        assert_eq!(
            (value(error.as_ref()), format!("{error:#}")),
            (Some("c"), "(run a: no label `a b`: see all)".into())
        );
    }

    #[test]
    fn the_place_is_the_outermost_line_of_a_file_else_the_outermost_file() {
        let of = |error: Error| {
            let (file, line) = location(error.as_ref());
            (file.map(str::to_owned), line, format!("{error:#}"))
        };
        let bad = || anyhow!("bad");
        let a = || Some("a".to_owned());
        assert_eq!(of(bad()), (None, None, "bad".to_owned()));
        assert_eq!(of(bad().with_line(3)), (None, None, "bad".to_owned()));
        assert_eq!(of(bad().at_line("a", 3).cannot("use", "b")), (a(), Some(3), "cannot use `b`: a:3: bad".to_owned()));
        assert_eq!(of(bad().with_file("b").cannot("use", "a")), (a(), None, "cannot use `a`: bad".to_owned()));
        assert_eq!(of(bad().with_line(3).with_file("a")), (a(), Some(3), "bad".to_owned()));
        let json = serde_json::from_str::<u8>("\n\n?").unwrap_err();
        assert_eq!(location(Error::new(json).cannot("read", "a").as_ref()), (Some("a"), Some(3)));
        let error = Error::new(io_error(io::ErrorKind::Other, bad().with_line(4).hint("mend it"))).cannot("read", "a");
        assert_eq!(hint(error.as_ref()).as_deref(), Some("mend it"));
        assert_eq!(of(error), (a(), Some(4), "cannot read `a`: bad: mend it".to_owned()));
    }
}
