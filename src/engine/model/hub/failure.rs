//! The reasons why a request to the Hub fails.

use std::time::Duration;

use anyhow::Error;

/// The reason why a request to the Hub failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// No answer, or one that says "not now": to ask again may help, and the cache may stand in.
    Unavailable {
        error: Error,
        /// How long the Hub asks to wait, if it does.
        wait: Option<Duration>,
    },
    /// An answer that will not change by asking again.
    Refused(Error),
}

/// A failure that may pass, without a word from the Hub on when.
pub(super) fn unavailable(error: Error) -> Failure {
    Failure::Unavailable { error, wait: None }
}
