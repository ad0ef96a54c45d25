//! What an interrupted run removes: files that are not whole yet, and folders that are there for the run alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};

/// What is there for a time only. Whoever makes something or makes it permanent holds the lock meanwhile.
static TEMPORARY: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// On Ctrl-C or a request to terminate: removes what is temporary and ends the process with `status`.
///
/// # Errors
///
/// If the handler cannot be installed.
pub fn clean_up_when_interrupted(status: i32) -> Result<()> {
    match ctrlc::try_set_handler(move || clean_up(status)) {
        Ok(()) => Ok(()),
        // Whoever started the program takes care of Ctrl-C, as `nohup` and `program &` in a script do: that is
        // respected. A request to terminate is another matter.
        Err(ctrlc::Error::MultipleHandlers) => clean_up_when_terminated(status),
        Err(error) => Err(error).context("cannot watch for Ctrl-C"),
    }
}

fn clean_up(status: i32) -> ! {
    // Holding the lock keeps anything from being made or renamed between the removal and the exit.
    let temporary = lock();
    for path in temporary.0.iter() {
        let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    }
    std::process::exit(status);
}

#[cfg(unix)]
fn clean_up_when_terminated(status: i32) -> Result<()> {
    use signal_hook::consts::SIGTERM;
    use signal_hook::iterator::Signals;

    let mut signals = Signals::new([SIGTERM]).context("cannot watch for a request to terminate")?;
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            clean_up(status);
        }
    });
    Ok(())
}

#[cfg(not(unix))]
fn clean_up_when_terminated(_status: i32) -> Result<()> {
    Ok(())
}

/// The list of what is temporary, locked: as long as this is held, an interrupt waits.
pub struct Temporary(MutexGuard<'static, Vec<PathBuf>>);

/// Locks the list.
#[must_use]
pub fn lock() -> Temporary {
    Temporary(TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Temporary {
    /// An interrupt removes `path` from now on.
    pub fn add(&mut self, path: &Path) {
        self.0.push(path.to_owned());
    }

    /// An interrupt leaves `path` alone from now on.
    pub fn forget(&mut self, path: &Path) {
        self.0.retain(|other| other != path);
    }
}
