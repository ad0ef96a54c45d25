//! Classes of failures: the exit status that a script branches on.

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
}

#[cfg(test)]
mod tests {
    use super::*;

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
