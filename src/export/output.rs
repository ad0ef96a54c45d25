//! Output files: opened before the work begins, written beside their place and renamed when they are whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail};
use tempfile::TempPath;

/// Temporary files that are still to be renamed: what an interrupted run removes.
static PENDING: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn pending() -> MutexGuard<'static, Vec<PathBuf>> {
    PENDING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// On Ctrl-C or a request to terminate: removes what is half-written and ends the process with `status`.
///
/// # Errors
///
/// If the handler cannot be installed.
pub fn clean_up_when_interrupted(status: i32) -> Result<()> {
    ctrlc::set_handler(move || {
        // Holding the lock keeps a rename from happening between the removal and the exit.
        let files = pending();
        for file in files.iter() {
            let _ = fs::remove_file(file);
        }
        std::process::exit(status);
    })
    .context("cannot watch for Ctrl-C")
}

/// A file to be written.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    place: Place,
}

#[derive(Debug)]
enum Place {
    /// Written elsewhere in the same folder, then renamed to `target`.
    Beside { temporary: TempPath, target: PathBuf },
    /// A device or a pipe: there is nothing to rename.
    Direct,
}

impl Output {
    /// Makes sure that `path` can be written. An existing file stays as it is until [`Output::commit`].
    ///
    /// # Errors
    ///
    /// If its folder is missing or cannot be written to, or `path` is a folder.
    pub fn open(path: &Path) -> Result<Self> {
        let shown = path.display();
        // A link stays a link: what it points to is written.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let place = match fs::metadata(&target) {
            Ok(metadata) if metadata.is_dir() => bail!("cannot write `{shown}`: it is a folder"),
            Ok(metadata) if !metadata.is_file() => {
                OpenOptions::new().write(true).open(&target).with_context(|| format!("cannot write `{shown}`"))?;
                Place::Direct
            }
            _ => Place::Beside { temporary: beside(&target, path)?, target },
        };
        Ok(Self { path: path.to_owned(), place })
    }

    /// Where to write until the output is committed.
    #[must_use]
    pub fn working_path(&self) -> &Path {
        match &self.place {
            Place::Beside { temporary, .. } => temporary,
            Place::Direct => &self.path,
        }
    }

    /// The path that was asked for.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes all of `bytes` and commits.
    ///
    /// # Errors
    ///
    /// If they cannot be written; the file that was there before is then untouched.
    pub fn write(self, bytes: &[u8]) -> Result<()> {
        let written = OpenOptions::new()
            .write(true)
            .truncate(matches!(self.place, Place::Beside { .. }))
            .open(self.working_path())
            .and_then(|mut file| file.write_all(bytes));
        written.with_context(|| format!("cannot write `{}`", self.path.display()))?;
        self.commit()
    }

    /// Makes what was written to [`Output::working_path`] the file.
    ///
    /// # Errors
    ///
    /// If it does not reach the disk or cannot be renamed.
    pub fn commit(self) -> Result<()> {
        let Place::Beside { temporary, target } = self.place else { return Ok(()) };
        let mut files = pending();
        let name = temporary.to_path_buf();
        let renamed = File::open(&temporary)
            .and_then(|file| file.sync_all())
            .and_then(|()| temporary.persist(&target).map_err(io::Error::from));
        files.retain(|file| *file != name);
        renamed.with_context(|| format!("cannot write `{}`", self.path.display()))
    }
}

/// A new empty file in the folder of `target`, with the permissions that any new file would have.
fn beside(target: &Path, path: &Path) -> Result<TempPath> {
    let shown = path.display();
    let folder = match target.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    if !folder.is_dir() {
        bail!("cannot write `{shown}`: there is no folder `{}`: create it first", folder.display());
    }
    let mut builder = tempfile::Builder::new();
    builder.prefix(".headscope-").suffix(".partial");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // Reduced by the umask, as for any new file; tempfile's own default is private to the user.
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    let mut files = pending();
    let temporary = builder.tempfile_in(folder).with_context(|| format!("cannot write `{shown}`"))?.into_temp_path();
    files.push(temporary.to_path_buf());
    Ok(temporary)
}

/// Creates a file that is removed if the run is interrupted before [`settle`] is called; for files that are no output.
///
/// # Errors
///
/// If it cannot be created.
pub fn create_pending(path: &Path) -> io::Result<File> {
    let mut files = pending();
    let file = File::create(path)?;
    files.push(path.to_owned());
    Ok(file)
}

/// Forgets a file of [`create_pending`], once it is renamed or removed.
pub fn settle(path: &Path) {
    pending().retain(|file| file != path);
}

/// Writes `bytes` to standard output.
///
/// # Errors
///
/// If they cannot be written.
pub fn to_stdout(bytes: &[u8]) -> Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes).and_then(|()| stdout.flush()).context("cannot write to standard output")
}
