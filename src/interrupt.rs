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
    let handler = move || {
        // Holding the lock keeps anything from being made or renamed between the removal and the exit.
        let temporary = lock();
        for path in temporary.0.iter() {
            let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        }
        std::process::exit(status);
    };
    match ctrlc::try_set_handler(handler) {
        // Whoever started the program has the signals already, as `nohup` does: that is respected.
        Ok(()) | Err(ctrlc::Error::MultipleHandlers) => Ok(()),
        Err(error) => Err(error).context("cannot watch for Ctrl-C"),
    }
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
