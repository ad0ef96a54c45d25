//! Interrupted runs: they remove incomplete outputs and report what they leave.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, mpsc};
use std::time::Duration;
use std::{fs, thread};

use anyhow::{Context, Error, Result, anyhow};

use super::errors::{ErrorExt, ErrorFormat};
use super::parallel::lock_mutex;
use super::terminal::print_to_stderr;

/// Time limit for printing the final message, since standard error may be a pipe that nobody reads.
const MESSAGE_TIMEOUT: Duration = Duration::from_millis(500);

/// Message of an interrupted run as `(what it leaves, hint)`; `None` for the default, [`REMOVED_OUTPUTS_MESSAGE`].
static INTERRUPT_MESSAGE: Mutex<Option<(String, String)>> = Mutex::new(None);

/// Default message of an interrupted run.
pub const REMOVED_OUTPUTS_MESSAGE: &str = "outputs that were not whole are removed";

/// Sets the message of an interrupted run: what the run leaves, and the hint `way_out`.
pub fn set_interrupt_message(what: impl Into<String>, way_out: impl Into<String>) {
    *lock_mutex(&INTERRUPT_MESSAGE) = Some((what.into(), way_out.into()));
}

/// The temporary files of outputs that are not complete yet.
pub struct TemporaryFiles {
    paths: Vec<PathBuf>,
    /// Whether any output has been moved to its final path.
    has_committed: bool,
}

/// The temporary files of all outputs. The lock is held while an output is created or moved to its final path.
static OUTPUTS: Mutex<TemporaryFiles> = Mutex::new(TemporaryFiles { paths: Vec::new(), has_committed: false });

/// Handles Ctrl-C and every other catchable signal that ends a program by default. The handler removes temporary files,
/// reports what is left, and exits with the status that shells use: 128 plus the number of the signal. A signal that the
/// parent process ignores stays ignored, as under `nohup` or in background jobs of a script. Exceeding the limit of file
/// sizes (`ulimit -f`) becomes a write error. Fails if the handlers cannot be installed.
pub fn clean_up_when_interrupted(format: ErrorFormat) -> Result<()> {
    install_handlers(format).context("cannot watch for Ctrl-C")
}

/// Removes temporary files, calls `last_word` and exits with `status`. The argument of `last_word` says whether all outputs
/// were complete.
pub(super) fn clean_up_and_exit(status: u8, last_word: impl FnOnce(bool)) -> ! {
    // Holding the lock keeps anything from being made or renamed between the removal and the exit.
    let outputs = lock_outputs();
    for path in &outputs.paths {
        // An output may be a folder.
        let _ = fs::remove_file(path).or_else(|_| fs::remove_dir_all(path));
    }
    last_word(outputs.paths.is_empty() && outputs.has_committed);
    std::process::exit(status.into());
}

/// Ends the process after signal number `signal`: cleans up, reports the signal by its `name`, and exits.
fn exit_by_signal(signal: u8, name: &str, format: ErrorFormat) -> ! {
    // Shells report a signal by this status.
    let status = 128 + signal;
    clean_up_and_exit(status, |are_whole| {
        let error = interrupted_error(name, are_whole);
        let (sender, receiver) = mpsc::channel();
        let last_word = move || {
            // A progress bar may stand in the line.
            if io::stderr().is_terminal() {
                print_to_stderr("");
            }
            format.print_interrupted(&error, status);
            // The send fails only if the process is ending.
            let _ = sender.send(());
        };
        if thread::Builder::new().spawn(last_word).is_ok() {
            let _ = receiver.recv_timeout(MESSAGE_TIMEOUT);
        }
    })
}

/// Makes the error about a run that `what` ended; `are_whole` says whether its outputs were complete.
fn interrupted_error(what: &str, are_whole: bool) -> Error {
    let left = lock_mutex(&INTERRUPT_MESSAGE).take();
    if are_whole && left.is_none() {
        return anyhow!("ended by {what}: all files that it writes are whole");
    }
    let (left, way_out) =
        left.unwrap_or_else(|| (REMOVED_OUTPUTS_MESSAGE.to_owned(), "give the command again".to_owned()));
    anyhow!("ended by {what}: {left}").hint(way_out)
}

/// Catchable signals that end a program by default (POSIX.1-2024, signal.h), except signals of program faults. `SIGPIPE` is
/// left out too, since it becomes a write error. Job schedulers send `SIGUSR1` before a time limit, and the system sends
/// `SIGXCPU` at a limit of processor time.
#[cfg(unix)]
const ENDING_SIGNALS: [i32; 10] = {
    use signal_hook::consts::{
        SIGALRM, SIGHUP, SIGINT, SIGPROF, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM, SIGXCPU,
    };
    [SIGINT, SIGHUP, SIGQUIT, SIGTERM, SIGALRM, SIGUSR1, SIGUSR2, SIGXCPU, SIGVTALRM, SIGPROF]
};

/// Installs handlers for [`ENDING_SIGNALS`], except signals that this process ignores.
#[cfg(unix)]
fn install_handlers(format: ErrorFormat) -> Result<()> {
    use std::sync::Arc;

    use signal_hook::consts::SIGXFSZ;
    use signal_hook::iterator::Signals;

    let ignored = ignored_signals();
    // A handler of any kind: the write then fails with EFBIG (POSIX.1-2024, write).
    signal_hook::flag::register(SIGXFSZ, Arc::default())?;
    let watched: Vec<i32> = ENDING_SIGNALS.into_iter().filter(|signal| ignored & (1 << (signal - 1)) == 0).collect();
    let (tell, told) = mpsc::channel();
    let watch = move || match Signals::new(watched) {
        Ok(mut signals) => {
            // The send fails only if the process is ending.
            let _ = tell.send(Ok(()));
            if let Some(signal) = signals.forever().next() {
                let name = signal_hook::low_level::signal_name(signal).unwrap_or("a signal");
                exit_by_signal(u8::try_from(signal).unwrap_or_default(), name, format);
            }
        }
        Err(error) => drop(tell.send(Err(error))),
    };
    // If no thread can be started, signals end the process as usual, and the next run cleans up.
    if thread::Builder::new().spawn(watch).is_ok() {
        told.recv().context("the thread that watches is gone")??;
    }
    Ok(())
}

/// The signals that this process ignores: bit `n - 1` is set for signal `n`. If the signals are unknown, `SIGHUP` alone
/// counts as ignored, so that `nohup` works; a process ended by `SIGHUP` then leaves its temporary files to the next
/// run.
#[cfg(unix)]
fn ignored_signals() -> u64 {
    const HANG_UP: u64 = 1 << (signal_hook::consts::SIGHUP - 1);
    // proc_pid_status(5), in hexadecimal.
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(HANG_UP)
}

/// Installs a handler for Ctrl-C.
#[cfg(not(unix))]
fn install_handlers(format: ErrorFormat) -> Result<()> {
    /// Number of `SIGINT` on Unix.
    const INTERRUPT: u8 = 2;
    Ok(ctrlc::set_handler(move || exit_by_signal(INTERRUPT, "Ctrl-C", format))?)
}

/// Locks the list of temporary files. An interrupt waits until the lock is released.
pub fn lock_outputs() -> MutexGuard<'static, TemporaryFiles> {
    lock_mutex(&OUTPUTS)
}

impl TemporaryFiles {
    /// Adds `path` to the files that are removed on an interrupt.
    pub fn add(&mut self, path: &Path) {
        self.paths.push(path.to_owned());
    }

    /// Takes `path` off the files that are removed on an interrupt.
    pub fn remove(&mut self, path: &Path) {
        self.paths.retain(|other| other != path);
    }

    /// Notes that an output was moved to its final path.
    pub fn mark_committed(&mut self) {
        self.has_committed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_asked_for_again_that_is_whole() {
        let said = |are_whole| interrupted_error("SIGINT", are_whole).to_string();
        assert_eq!(said(true), "ended by SIGINT: all files that it writes are whole");
        assert_eq!(said(false), format!("ended by SIGINT: {REMOVED_OUTPUTS_MESSAGE}: give the command again"));
    }
}
