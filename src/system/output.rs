//! Output files: opened before the work begins, written beside their place and renamed when they are whole.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tempfile::TempPath;

use super::interrupt;

/// A file to be written. What is given to [`Output::write`] becomes the file's content with [`Output::commit`].
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    file: BufWriter<File>,
    /// Where the bytes go until then, and where they belong; `None` for a device or a pipe, which is written as it is.
    rename: Option<(TempPath, PathBuf)>,
}

impl Output {
    /// Makes sure that `path` can be written. An existing file stays as it is until [`Output::commit`].
    ///
    /// # Errors
    ///
    /// If its folder is missing or cannot be written to, or `path` is a folder.
    pub fn open(path: &Path) -> Result<Self> {
        let failed = || format!("cannot write `{}`", path.display());
        let target = destination(path);
        let (file, rename) = match fs::metadata(&target) {
            Ok(metadata) if metadata.is_dir() => bail!("{}: it is a folder", failed()),
            Ok(metadata) if !metadata.is_file() => {
                (OpenOptions::new().write(true).open(&target).with_context(failed)?, None)
            }
            Ok(metadata) if metadata.permissions().readonly() => bail!("{}: it is read-only", failed()),
            existing => {
                let (file, temporary) = beside(&target, path)?;
                if let Ok(metadata) = existing {
                    file.set_permissions(metadata.permissions()).with_context(failed)?;
                }
                (file, Some((temporary, target)))
            }
        };
        Ok(Self { path: path.to_owned(), file: BufWriter::new(file), rename })
    }

    /// Writes all of `bytes`.
    ///
    /// # Errors
    ///
    /// If they cannot be written.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).with_context(|| format!("cannot write `{}`", self.path.display()))
    }

    /// Makes what was written the file.
    ///
    /// # Errors
    ///
    /// If it does not reach the disk or cannot be renamed; the file that was there before is then untouched.
    pub fn commit(mut self) -> Result<()> {
        let failed = || format!("cannot write `{}`", self.path.display());
        self.file.flush().with_context(failed)?;
        let Some((temporary, target)) = self.rename.take() else { return Ok(()) };
        self.file.get_ref().sync_all().with_context(failed)?;
        let mut list = interrupt::lock();
        list.forget(&temporary);
        // The lock is held until the file has its name: an interrupt finds it there or in the list.
        temporary.persist(&target).map_err(io::Error::from).with_context(failed)
    }
}

/// How the names of files begin and end that are not whole yet.
const TEMPORARY: [&str; 2] = [".headscope-", ".partial"];

/// Whether a file of this name is an output that is not whole yet.
#[must_use]
pub fn is_temporary(name: &OsStr) -> bool {
    let ([prefix, suffix], name) = (TEMPORARY, name.as_encoded_bytes());
    name.starts_with(prefix.as_bytes()) && name.ends_with(suffix.as_bytes())
}

/// The file that is written if `path` is: one path for all its spellings.
///
/// What a link points to is written, and the link stays.
#[must_use]
pub fn destination(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| {
        let target = link_target(path);
        let place = target.file_name().zip(folder_of(&target).canonicalize().ok());
        place.map_or(target.clone(), |(name, folder)| folder.join(name))
    })
}

/// The folder that a file is in.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."))
}

/// Where a link points to that leads to no file yet; the path itself if it is no link.
fn link_target(path: &Path) -> PathBuf {
    match (fs::read_link(path), path.parent()) {
        (Ok(link), Some(folder)) => folder.join(link),
        _ => path.to_owned(),
    }
}

/// A new empty file in the folder of `target`, with the permissions that any new file would have.
fn beside(target: &Path, path: &Path) -> Result<(File, TempPath)> {
    let shown = path.display();
    let folder = folder_of(target);
    if !folder.is_dir() {
        bail!("cannot write `{shown}`: there is no folder `{}`: create it first", folder.display());
    }
    let mut builder = tempfile::Builder::new();
    let [prefix, suffix] = TEMPORARY;
    builder.prefix(prefix).suffix(suffix);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // Reduced by the umask, as for any new file; tempfile's own default is private to the user.
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    let mut list = interrupt::lock();
    let created = builder.tempfile_in(folder).with_context(|| format!("cannot write `{shown}`"))?;
    list.add(created.path());
    Ok(created.into_parts())
}
