//! Classes of failures, which decide the exit status that scripts branch on.

/// Class of a failure, which decides the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorClass {
    /// Any failure that belongs to no other class.
    Other,
    /// A wrong command line, or a wrong table of runs (`batch`).
    Usage,
    /// An unusable input: a corpus, a report or another file.
    Input,
    /// An unusable model.
    Model,
    /// An output cannot be written.
    Output,
    /// Missing shards of a corpus: the command works once they have been run.
    Incomplete,
    /// A network that does not answer: the command may work later.
    Temporary,
}

impl ErrorClass {
    pub const ALL: [Self; 7] =
        [Self::Other, Self::Usage, Self::Input, Self::Model, Self::Output, Self::Incomplete, Self::Temporary];

    /// Exit status, machine-readable name, and short description of the class. `Temporary` has the status `EX_TEMPFAIL` of
    /// sysexits.h, which mailers and schedulers know.
    const fn facts(self) -> (u8, &'static str, &'static str) {
        match self {
            Self::Other => (1, "failed", "failed"),
            Self::Usage => (2, "usage", "wrong usage"),
            Self::Input => (3, "input", "input"),
            Self::Model => (4, "model", "model"),
            Self::Output => (5, "output", "output"),
            Self::Incomplete => (6, "incomplete", "shards are missing"),
            Self::Temporary => (75, "temporary", "network: try again"),
        }
    }

    /// Exit status of the class.
    pub fn status(self) -> u8 {
        self.facts().0
    }

    /// Machine-readable name of the class.
    pub fn code(self) -> &'static str {
        self.facts().1
    }

    /// Description of the class in a few words.
    pub fn description(self) -> &'static str {
        self.facts().2
    }
}

#[cfg(test)]
mod tests {
    use itertools::Itertools;

    use super::*;

    #[test]
    fn statuses_and_codes_differ() {
        assert!(ErrorClass::ALL.map(ErrorClass::status).iter().all_unique());
        assert!(ErrorClass::ALL.map(ErrorClass::code).iter().all_unique());
    }
}
