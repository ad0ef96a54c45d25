//! Time limits for libraries that process untrusted files. A library with callbacks is aborted in a callback
//! ([`abort_if_over`]). For any other library, the process ends `GRACE_PERIOD` after the limit with an error, and leaves no
//! incomplete output.

use std::cell::OnceCell;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use anyhow::{Error, anyhow};

use super::errors::ErrorClass;
use super::panics::abort_with;
use super::parallel::lock_mutex;
use super::{interrupt, terminal};

/// Interval at which the watching thread wakes. It then adds the processor time that the process has used since, at most
/// one interval. So no time counts while the process is stopped, the machine sleeps or the processor runs other programs.
const WATCH_INTERVAL: Duration = Duration::from_millis(100);

/// Time after the limit in which the work may still abort by itself, before the process ends.
const GRACE_PERIOD: Duration = Duration::from_millis(500);

/// Constant part of each time limit. Reading a tokenizer or tokenising a sentence takes about a thousandth of it.
const MIN_LIMIT: Duration = Duration::from_secs(4);

/// Number of input bytes for each further second of the time limit. The slowest tokenizers take a hundredth of that time.
const BYTES_PER_SECOND: u64 = 1 << 16;

/// Function that prints an error and returns the exit status.
static ERROR_REPORTER: OnceLock<fn(&Error) -> u8> = OnceLock::new();

/// Sets the function that reports the error when a time limit ends the process. Without it, the error is printed as text.
pub fn set_error_report(report: fn(&Error) -> u8) {
    let _ = ERROR_REPORTER.set(report);
}

/// Work that runs under a time limit.
struct Work {
    /// Processor time that has counted against the limit so far.
    spent: Duration,
    limit: Duration,
    /// Makes the error about the exceeded limit.
    error: Box<dyn Fn() -> Error + Send>,
}

/// The time-limited work of one thread, shared with the watching thread.
#[derive(Default)]
struct WorkSlot {
    work: Mutex<Option<Work>>,
    /// Whether the work has exceeded its limit.
    is_over: AtomicBool,
}

/// One slot for each running thread that has had time-limited work. The first use starts the watching thread.
static SLOTS: LazyLock<Mutex<Vec<Arc<WorkSlot>>>> = LazyLock::new(|| {
    // If no thread can be started, there is no time limit.
    let _ = thread::Builder::new().name("time limit".to_owned()).spawn(watch_limits);
    Mutex::default()
});

thread_local! {
    /// Slot for the time-limited work of this thread, which is also in [`SLOTS`].
    static SLOT: OnceCell<Arc<WorkSlot>> = const { OnceCell::new() };
}

/// Returns the slot for this thread's time-limited work ([`SLOT`]). The first call of each thread adds its slot to [`SLOTS`].
fn thread_slot() -> Arc<WorkSlot> {
    SLOT.with(|slot| {
        Arc::clone(slot.get_or_init(|| {
            let slot = Arc::<WorkSlot>::default();
            let mut slots = lock_mutex(&SLOTS);
            // Slots of finished threads have no other holder.
            slots.retain(|slot| Arc::strong_count(slot) > 1);
            slots.push(Arc::clone(&slot));
            slot
        }))
    })
}

/// Runs `work` on `bytes` bytes of input under a time limit of four seconds, and one more per 64 KiB. `place` adds the
/// location to the error. Within other limited work, only the outer limit counts. The work must call [`abort_if_over`]
/// wherever it can; if it does not return in time, the process ends.
pub fn within_time_limit<T>(
    bytes: u64,
    place: impl Fn(Error) -> Error + Send + 'static,
    work: impl FnOnce() -> T,
) -> T {
    let limit = MIN_LIMIT + Duration::from_secs(bytes / BYTES_PER_SECOND);
    within_limit(limit, place, work)
}

/// Runs `work` under the time limit `limit`, unless the thread is already inside limited work.
fn within_limit<T>(limit: Duration, place: impl Fn(Error) -> Error + Send + 'static, work: impl FnOnce() -> T) -> T {
    /// Guard that ends the time limit when the work returns or panics.
    struct LimitGuard(Arc<WorkSlot>);
    impl Drop for LimitGuard {
        fn drop(&mut self) {
            *lock_mutex(&self.0.work) = None;
        }
    }
    let slot = thread_slot();
    let mut running = lock_mutex(&slot.work);
    if running.is_some() {
        drop(running);
        return work();
    }
    slot.is_over.store(false, Ordering::Relaxed);
    *running = Some(Work { spent: Duration::ZERO, limit, error: Box::new(move || place(timeout_error(limit))) });
    drop(running);
    let _guard = LimitGuard(slot);
    work()
}

fn timeout_error(limit: Duration) -> Error {
    anyhow!("it takes more than {} s of processor time", limit.as_secs_f64())
}

/// Aborts the work of this thread if it has exceeded its time limit. The enclosing
/// [`catch_panic`](super::panics::catch_panic) returns the error.
pub fn abort_if_over() {
    let slot = thread_slot();
    if slot.is_over.load(Ordering::Relaxed) {
        let limit = lock_mutex(&slot.work).as_ref().map_or(MIN_LIMIT, |work| work.limit);
        abort_with(timeout_error(limit));
    }
}

/// Loop of the watching thread: counts the processor time that the process uses against the limit of each piece of
/// work.
fn watch_limits() {
    let mut before = processor_time();
    loop {
        thread::sleep(WATCH_INTERVAL);
        let now = processor_time();
        let passed =
            before.zip(now).map_or(WATCH_INTERVAL, |(before, now)| now.saturating_sub(before).min(WATCH_INTERVAL));
        before = now;
        let slots = lock_mutex(&SLOTS).clone();
        slots.iter().for_each(|slot| add_time(slot, passed));
    }
}

/// Counts processor time against the limit of the slot's work. Marks work beyond its limit as over, and ends the
/// process if such work still runs after the grace period.
fn add_time(slot: &WorkSlot, passed: Duration) {
    let mut work = lock_mutex(&slot.work);
    let Some(running) = &mut *work else { return };
    running.spent += passed;
    if running.spent >= running.limit {
        slot.is_over.store(true, Ordering::Relaxed);
    }
    if running.spent >= running.limit + GRACE_PERIOD {
        let error = (running.error)();
        let report = ERROR_REPORTER.get().copied().unwrap_or(|error| {
            terminal::print_error(error);
            ErrorClass::from_error(error).status()
        });
        interrupt::clean_up_and_exit(report(&error), |_| ())
    }
}

/// Processor time that all threads of this process have used; `None` if the system does not report it.
fn processor_time() -> Option<Duration> {
    /// Clock ticks per second in `/proc`, equal on every architecture that Rust runs on (`USER_HZ`, proc(5)).
    const TICKS_A_SECOND: u64 = 100;
    let line = fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program, in parentheses, may have spaces; `utime` and `stime` are the twelfth and thirteenth fields behind it.
    let fields = line.rsplit_once(')')?.1.split_whitespace();
    let ticks: Vec<u64> = fields.skip(11).take(2).map(str::parse).collect::<Result<_, _>>().ok()?;
    let milliseconds = ticks.iter().sum::<u64>() * 1000 / TICKS_A_SECOND;
    (ticks.len() == 2).then(|| Duration::from_millis(milliseconds))
}

#[cfg(test)]
mod tests {
    use super::super::errors::ErrorExt;
    use super::super::panics::catch_panic;
    use super::*;

    #[test]
    fn work_that_calls_back_breaks_off() {
        let place = |error: Error| error.with_file("a.txt");
        let endless = || {
            loop {
                abort_if_over();
            }
        };
        let limit = Duration::from_millis(200);
        let broken = catch_panic(|| within_limit::<()>(limit, place, endless));
        assert_eq!(broken.unwrap_err().to_string(), "it takes more than 0.2 s of processor time");
        // The next work has its own time.
        assert_eq!(
            catch_panic(|| within_time_limit(0, place, || {
                abort_if_over();
                7
            }))
            .unwrap(),
            7
        );
        abort_if_over();
    }
}
