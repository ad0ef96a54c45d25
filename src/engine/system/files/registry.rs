//! The files that this process reads and writes: no file may be both. Files are compared by identity, not by name, so that a link
//! counts as its target.

use std::collections::HashSet;
use std::fs::Metadata;
use std::io;
use std::sync::{LazyLock, Mutex};
use std::time::SystemTime;

use anyhow::anyhow;

use crate::system::errors::{ErrorExt, io_error};
use crate::system::parallel::lock_mutex;

/// Identity of a regular file, equal for all of its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FileId {
    device: u64,
    inode: u64,
    /// Time of the file's creation, which tells it from a deleted file with the same inode; `None` if the file system does
    /// not record it.
    born: Option<SystemTime>,
}

impl FileId {
    /// Identity of a regular file. `None` on systems without inodes, and for pipes and devices, which have no content that
    /// could be lost.
    fn from_metadata(metadata: &Metadata) -> Option<Self> {
        #[cfg(unix)]
        if metadata.is_file() {
            use std::os::unix::fs::MetadataExt;
            return Some(Self { device: metadata.dev(), inode: metadata.ino(), born: metadata.created().ok() });
        }
        let _ = metadata;
        None
    }
}

/// The files that this process reads or writes.
#[derive(Default)]
struct AccessedFiles {
    /// Files that this process has read.
    read: HashSet<FileId>,
    /// Existing files that open outputs will replace; a file is taken off when its output is finished.
    written: Vec<FileId>,
}

static ACCESSED_FILES: LazyLock<Mutex<AccessedFiles>> = LazyLock::new(Mutex::default);

/// Registers a file that this process reads. Fails if the file is an output of this process.
pub(super) fn register_input(metadata: &Metadata) -> io::Result<()> {
    let Some(id) = FileId::from_metadata(metadata) else { return Ok(()) };
    let mut files = lock_mutex(&ACCESSED_FILES);
    if files.written.contains(&id) {
        return Err(same_run_error("it is an output of the same run"));
    }
    files.read.insert(id);
    Ok(())
}

/// Registration of an existing file that an open output will replace; dropping it ends the registration.
#[derive(Debug)]
pub(super) struct ReplacedFile(Option<FileId>);

/// Registers an existing file that an output will replace. Fails if this process has read the file.
pub(super) fn register_output(metadata: &Metadata) -> io::Result<ReplacedFile> {
    let id = FileId::from_metadata(metadata);
    ensure_unread(metadata)?;
    lock_mutex(&ACCESSED_FILES).written.extend(id);
    Ok(ReplacedFile(id))
}

/// Marks a file as an output of this process. The mark stays until the process ends.
pub(super) fn register_output_until_exit(metadata: &Metadata) {
    lock_mutex(&ACCESSED_FILES).written.extend(FileId::from_metadata(metadata));
}

/// Fails if this process has read the file.
pub(super) fn ensure_unread(metadata: &Metadata) -> io::Result<()> {
    let is_read = FileId::from_metadata(metadata).is_some_and(|id| lock_mutex(&ACCESSED_FILES).read.contains(&id));
    if is_read { Err(same_run_error("the same run reads it")) } else { Ok(()) }
}

/// Makes the error about a file that one run both reads and writes.
fn same_run_error(what: &'static str) -> io::Error {
    io_error(io::ErrorKind::Other, anyhow!(what).hint("give the output another name"))
}

impl Drop for ReplacedFile {
    fn drop(&mut self) {
        let written = &mut lock_mutex(&ACCESSED_FILES).written;
        if let Some(place) = written.iter().position(|id| Some(*id) == self.0) {
            written.swap_remove(place);
        }
    }
}
