//! Files that are not whole yet, which an interrupted run removes.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};

/// Temporary files. The lock is held while one is made or becomes permanent.
static TEMPORARY: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Removes temporary files on Ctrl-C, a hang-up, a request to quit or one to terminate, and ends the process with the
/// exit status that a shell reports for that signal: 128 and its number.
///
/// A signal that the parent process ignores, as `nohup` does with a hang-up and a script with Ctrl-C for its background
/// jobs, stays ignored. A file that grows beyond the limit of its size (`ulimit -f`) becomes an error of the write and
/// no longer ends the process.
/// Fails if the handlers cannot be installed.
pub fn clean_up_when_interrupted() -> Result<()> {
    watch().context("cannot watch for Ctrl-C")
}

/// Removes temporary files and ends the process.
pub(super) fn clean_up(status: i32) -> ! {
    // Holding the lock keeps anything from being made or renamed between the removal and the exit.
    let temporary = lock();
    for path in temporary.0.iter() {
        let _ = fs::remove_file(path);
    }
    std::process::exit(status);
}

#[cfg(unix)]
fn watch() -> Result<()> {
    use std::sync::{Arc, mpsc};
    use std::thread;

    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXFSZ};
    use signal_hook::iterator::Signals;

    let ignored = ignored_signals();
    // A handler of any kind: the write then fails with EFBIG (POSIX.1-2024, write).
    signal_hook::flag::register(SIGXFSZ, Arc::default())?;
    let watched: Vec<i32> =
        [SIGINT, SIGHUP, SIGQUIT, SIGTERM].into_iter().filter(|signal| ignored & (1 << (signal - 1)) == 0).collect();
    let (tell, told) = mpsc::channel();
    let watch = move || match Signals::new(watched) {
        Ok(mut signals) => {
            // The send fails only if the process is ending.
            let _ = tell.send(Ok(()));
            if let Some(signal) = signals.forever().next() {
                clean_up(128 + signal);
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

/// The set of signals that this process ignores, signal `n` as bit `n - 1`; a hang-up where the set is unknown, because
/// `nohup` must work. The next run then cleans up.
#[cfg(unix)]
fn ignored_signals() -> u64 {
    const HANG_UP: u64 = 1 << (signal_hook::consts::SIGHUP - 1);
    // proc_pid_status(5), in hexadecimal.
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(HANG_UP)
}

#[cfg(not(unix))]
fn watch() -> Result<()> {
    /// 128 and the number of SIGINT, as on Unix.
    const INTERRUPTED: i32 = 130;
    Ok(ctrlc::set_handler(|| clean_up(INTERRUPTED))?)
}

/// The list of temporary files, locked: an interrupt waits as long as this is held.
pub struct TemporaryFiles(MutexGuard<'static, Vec<PathBuf>>);

/// Locks the list.
pub fn lock() -> TemporaryFiles {
    TemporaryFiles(TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner))
}

impl TemporaryFiles {
    /// An interrupt removes `path` from now on.
    pub fn add(&mut self, path: &Path) {
        self.0.push(path.to_owned());
    }

    /// An interrupt leaves `path` alone from now on.
    pub fn forget(&mut self, path: &Path) {
        self.0.retain(|other| other != path);
    }
}
