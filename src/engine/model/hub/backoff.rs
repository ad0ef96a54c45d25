//! Failed requests to the Hub, and their retries: how many, and the pauses between them.

use std::thread;
use std::time::Duration;

use anyhow::Error;

use crate::system::errors::ErrorExt;
use crate::system::progress::DownloadProgress;

/// Why a request to the Hub failed, and whether a retry may succeed.
#[derive(Debug)]
pub(super) enum Failure {
    /// A temporary failure: no response, or one that asks for a retry. The cache may be used instead.
    Unavailable {
        error: Error,
        /// Wait before a retry that the Hub asks for, if any.
        wait: Option<Duration>,
    },
    /// A permanent failure, which a retry would not change.
    Refused(Error),
}

/// `?` turns an error into a permanent failure, such as an error with a file of the cache. Temporary failures come from
/// [`temporary_failure`].
impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

/// Makes a temporary failure for which the Hub requested no wait.
pub(super) fn temporary_failure(error: Error) -> Failure {
    Failure::Unavailable { error, wait: None }
}

/// Bounded exponential backoff: a limited number of tries, with pauses of 1, 2, 4 and then always 8 times the first pause.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Backoff {
    /// Maximum number of tries.
    pub(super) tries: u32,
    /// Pause before the second try.
    pub(super) first_pause: Duration,
}

/// Longest pause between tries, in multiples of the first pause.
const MAX_PAUSE_FACTOR: u32 = 8;
/// Longest wait that the Hub may demand before a retry. If the Hub demands more, there is no retry: a cached model is used, or
/// the run fails and tells the user to try again later.
const MAX_REQUESTED_WAIT: Duration = Duration::from_secs(60);

impl Backoff {
    /// Five tries with pauses of 15 seconds in total, as `http_backoff` of `huggingface_hub` 2.4 has them.
    pub(super) const DEFAULT: Self = Self { tries: 5, first_pause: Duration::from_secs(1) };

    /// One try, without retries.
    pub(super) const NONE: Self = Self { tries: 1, first_pause: Duration::ZERO };

    pub(super) fn start_attempts(self) -> RetryState {
        RetryState { backoff: self, failures: 0 }
    }
}

pub(super) struct RetryState {
    backoff: Backoff,
    /// Number of failures in a row; the caller resets it when data arrives.
    pub(super) failures: u32,
}

impl RetryState {
    /// Waits after a temporary failure, so that the caller can try again. Returns the failure as an error if it is permanent,
    /// no tries are left, or the Hub asks for too long a wait. If no tries are left, the message has the number of tries.
    pub(super) fn wait_after(&mut self, failure: Failure, progress: &dyn DownloadProgress) -> Result<(), Failure> {
        let Failure::Unavailable { error, wait } = failure else { return Err(failure) };
        self.failures += 1;
        let tries = self.backoff.tries;
        let Some(pause) = self.pause(wait) else {
            let error = match wait {
                Some(wait) if wait > MAX_REQUESTED_WAIT => {
                    let with_wait = |problem| format!("{problem}, and asks to be left alone for {} s", wait.as_secs());
                    error.map_message(with_wait).hint("try again then")
                }
                _ if self.failures > 1 => {
                    error.map_message(|problem| format!("{problem} (tried {} times)", self.failures))
                }
                _ => error,
            };
            return Err(Failure::Unavailable { error, wait });
        };
        let next = self.failures + 1;
        progress.note(&format!("{error:#}; try {next} of {tries} in {} s", pause.as_secs_f64()));
        thread::sleep(pause);
        Ok(())
    }

    /// Returns the pause before the next try, at least as long as the server asks. `None` if no tries are left, or the server
    /// asks for too long a pause.
    fn pause(&self, requested: Option<Duration>) -> Option<Duration> {
        let requested = requested.unwrap_or_default();
        let factor = 2_u32.saturating_pow(self.failures.saturating_sub(1)).min(MAX_PAUSE_FACTOR);
        let may_retry = self.failures < self.backoff.tries && requested <= MAX_REQUESTED_WAIT;
        may_retry.then(|| requested.max(self.backoff.first_pause * factor))
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    fn pauses(asked: Option<Duration>) -> Vec<Option<u64>> {
        let attempts =
            |failures| RetryState { backoff: Backoff { tries: 7, first_pause: Duration::from_secs(1) }, failures };
        (1..=7).map(|failures| attempts(failures).pause(asked).map(|pause| pause.as_secs())).collect()
    }

    #[test]
    fn pauses_double_up_to_a_limit_and_end() {
        assert_eq!(pauses(None), [Some(1), Some(2), Some(4), Some(8), Some(8), Some(8), None]);
    }

    #[test]
    fn a_server_may_ask_for_a_longer_pause_but_not_for_any() {
        let asked = |seconds| pauses(Some(Duration::from_secs(seconds)));
        assert_eq!(asked(5), [Some(5), Some(5), Some(5), Some(8), Some(8), Some(8), None]);
        assert_eq!(asked(60)[..2], [Some(60), Some(60)]);
        assert_eq!(asked(61)[0], None);
    }

    #[test]
    fn the_last_failure_says_how_often_was_tried() {
        let failure = |wait| Failure::Unavailable { error: anyhow!("answered 503"), wait };
        let text = |failure| match failure {
            Err(Failure::Unavailable { error, .. }) => error.to_string(),
            other => panic!("{other:?}"),
        };
        let mut attempts = Backoff { tries: 3, first_pause: Duration::ZERO }.start_attempts();
        attempts.wait_after(failure(None), &()).unwrap();
        attempts.wait_after(failure(None), &()).unwrap();
        assert_eq!(text(attempts.wait_after(failure(None), &())), "answered 503 (tried 3 times)");
        assert_eq!(text(Backoff::NONE.start_attempts().wait_after(failure(None), &())), "answered 503");
        let hour = Some(Duration::from_secs(3600));
        assert_eq!(
            text(Backoff::DEFAULT.start_attempts().wait_after(failure(hour), &())),
            "answered 503, and asks to be left alone for 3600 s: try again then"
        );
    }

    #[test]
    fn what_will_not_pass_is_not_tried_again() {
        let refused = Backoff::DEFAULT.start_attempts().wait_after(Failure::Refused(anyhow!("no")), &());
        assert!(matches!(refused, Err(Failure::Refused(_))));
    }
}
