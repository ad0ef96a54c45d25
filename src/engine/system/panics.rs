//! Contains panics of libraries that read untrusted files: a panic becomes an error, and nothing is printed.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use anyhow::{Error, anyhow};

use super::printable::{elide_middle, one_line};

thread_local! {
    /// Whether this thread is inside [`catch_panic`], so that a panic prints nothing.
    static IS_CATCHING_PANICS: Cell<bool> = const { Cell::new(false) };
}

/// Maximum number of characters of a panic message that an error shows; the message may quote a file.
const MAX_REASON_CHARS: usize = 200;

/// Runs `work` and returns its result. Fails if `work` panics. Values that `work` was changing must not be used afterwards.
pub fn catch_panic<T>(work: impl FnOnce() -> T) -> Result<T, Error> {
    static SET_PANIC_HOOK: Once = Once::new();
    SET_PANIC_HOOK.call_once(|| {
        let default_hook = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !IS_CATCHING_PANICS.get() {
                default_hook(panic);
            }
        }));
    });
    let was_catching = IS_CATCHING_PANICS.replace(true);
    let outcome = panic::catch_unwind(AssertUnwindSafe(work));
    IS_CATCHING_PANICS.set(was_catching);
    outcome.map_err(|panic| match panic.downcast::<Error>() {
        Ok(error) => *error,
        Err(panic) => {
            let text =
                panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
            let reason = elide_middle(&one_line(text.unwrap_or("without a reason")), MAX_REASON_CHARS, 0);
            anyhow!("the library that reads it gives up: {reason}")
        }
    })
}

/// Aborts a library from within one of its callbacks that cannot fail. The enclosing [`catch_panic`] returns the error.
pub fn abort_with(error: Error) -> ! {
    panic::resume_unwind(Box::new(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_on_one_line() {
        assert_eq!(catch_panic(|| 5).unwrap(), 5);
        let error = catch_panic(|| panic!("a\u{1b}[31m\nerror: {}", "x".repeat(300))).unwrap_err();
        insta::assert_snapshot!(error, @r"the library that reads it gives up: a\u{1b}[31m\nerror: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...");
        assert!(!IS_CATCHING_PANICS.get());
    }

    #[test]
    fn work_is_broken_off_with_an_error() {
        let error = catch_panic::<()>(|| abort_with(anyhow!("too much"))).unwrap_err();
        assert_eq!(error.to_string(), "too much");
    }
}
