//! Classes of failures: the exit status that a script branches on.

use std::error::Error as StdError;
use std::fmt;

use anyhow::{Error, Result};

/// The class of a failure. Each has an exit status of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Something else: what was computed is not there.
    Other,
    /// The command line, or a table in its place, is wrong.
    Usage,
    /// A corpus, a report or another file that is read cannot be used.
    Input,
    /// A model cannot be used.
    Model,
    /// An output cannot be written.
    Output,
    /// Shards of a corpus are missing: run them, and give the same command again.
    Incomplete,
    /// The network does not answer: the same command may do later.
    Temporary,
}

impl Class {
    /// All classes.
    pub const ALL: [Self; 7] =
        [Self::Other, Self::Usage, Self::Input, Self::Model, Self::Output, Self::Incomplete, Self::Temporary];

    /// The exit status. Temporary trouble has `EX_TEMPFAIL` of sysexits.h, which mailers and schedulers understand.
    pub fn status(self) -> u8 {
        match self {
            Self::Other => 1,
            Self::Usage => 2,
            Self::Input => 3,
            Self::Model => 4,
            Self::Output => 5,
            Self::Incomplete => 6,
            Self::Temporary => 75,
        }
    }

    /// Its name for programs.
    pub fn code(self) -> &'static str {
        match self {
            Self::Other => "failed",
            Self::Usage => "usage",
            Self::Input => "input",
            Self::Model => "model",
            Self::Output => "output",
            Self::Incomplete => "incomplete",
            Self::Temporary => "temporary",
        }
    }

    /// The trouble in a word or two.
    pub fn about(self) -> &'static str {
        match self {
            Self::Other => "failed",
            Self::Usage => "wrong usage",
            Self::Input => "input",
            Self::Model => "model",
            Self::Output => "output",
            Self::Incomplete => "shards are missing",
            Self::Temporary => "network: try again",
        }
    }

    /// The class of an error: the innermost that it was given.
    pub fn of(error: &Error) -> Self {
        let classes = error.chain().filter_map(|cause| cause.downcast_ref::<Classed>());
        classes.last().map_or(Self::Other, |classed| classed.class)
    }
}

/// An error with its class; it reads as the error does.
#[derive(Debug)]
struct Classed {
    class: Class,
    error: Error,
}

impl fmt::Display for Classed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.error)
    }
}

impl StdError for Classed {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.error.source()
    }
}

/// Errors of a class.
pub trait Classify<T> {
    /// The same result; an error that has no class yet has this one.
    /// Fails as before.
    fn class(self, class: Class) -> Result<T>;
}

impl<T, E: Into<Error>> Classify<T> for Result<T, E> {
    fn class(self, class: Class) -> Result<T> {
        self.map_err(|error| classed(error.into(), class))
    }
}

/// The same error with a class, if it has none yet.
pub fn classed(error: Error, class: Class) -> Error {
    if Class::of(&error) == Class::Other { Classed { class, error }.into() } else { error }
}

#[cfg(test)]
mod tests {
    use anyhow::{Context, anyhow};

    use super::*;

    #[test]
    fn an_error_keeps_its_words_and_its_first_class() {
        let inner: Result<()> = Err(anyhow!("no such file").context("cannot open `a.txt`"));
        let outer = inner.class(Class::Input).context("run a").class(Class::Model).context("batch").unwrap_err();
        assert_eq!(format!("{outer:#}"), "batch: run a: cannot open `a.txt`: no such file");
        assert_eq!(Class::of(&outer), Class::Input);
        assert_eq!(Class::of(&anyhow!("else")), Class::Other);
    }

    #[test]
    fn statuses_and_codes_differ() {
        let mut statuses = Class::ALL.map(Class::status).to_vec();
        let mut codes = Class::ALL.map(Class::code).to_vec();
        for count in [Class::ALL.len(), Class::ALL.len()] {
            statuses.sort_unstable();
            statuses.dedup();
            codes.sort_unstable();
            codes.dedup();
            assert_eq!((statuses.len(), codes.len()), (count, count));
        }
    }
}
