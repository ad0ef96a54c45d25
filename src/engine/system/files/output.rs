//! Output files: opened before the work begins, written in the folder of their path, and renamed when complete. An incomplete
//! file has a temporary name ([`is_temporary`]), and is locked while its process lives. The leftover of a killed process is
//! removed by the next process that writes to the folder.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use sha2::{Digest, Sha256};
use tempfile::TempPath;

use super::digest::hex;
use super::input;
use super::registry::{self, ReplacedFile};
use crate::system::errors::{ErrorClass, ErrorExt, io_error};
use crate::system::interrupt;

/// An output file that is being written. It appears at its path when it is complete, with [`Output::commit`].
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    file: BufWriter<File>,
    /// Temporary file and final path. `None` for a device or a pipe, which is written directly.
    rename: Option<(TempPath, PathBuf)>,
    /// Guard that keeps this process from reading the file that the output will replace, until the guard is dropped. `None`
    /// if there is no such file.
    _replaced: Option<ReplacedFile>,
}

impl Output {
    /// Prepares to write `path`. An existing file stays unchanged until [`Output::commit`]. Fails if `path` is a folder, or
    /// if its folder is missing or not writable. Also fails if the existing file cannot be replaced, or if this process has
    /// read it.
    pub fn open(path: &Path) -> Result<Self> {
        Self::try_open(path).cannot("write", path.display()).class(ErrorClass::Output)
    }

    /// As [`Output::open`], but errors do not name the file.
    fn try_open(path: &Path) -> Result<Self> {
        let target = resolve_target(path);
        let (file, rename, replaced) = match fs::metadata(&target) {
            Ok(metadata) if metadata.is_dir() => bail!("it is a folder"),
            Ok(metadata) if !metadata.is_file() => (OpenOptions::new().write(true).open(&target)?, None, None),
            Ok(metadata) if metadata.permissions().readonly() => bail!("it is read-only"),
            existing => {
                let mut replaced = None;
                if let Ok(metadata) = &existing {
                    replaced = Some(registry::register_output(metadata)?);
                    // A file that may not be written may not be replaced, for example an immutable one.
                    OpenOptions::new().write(true).open(&target)?;
                }
                let (file, temporary) = create_temporary_beside(&target)?;
                if let Ok(metadata) = existing {
                    file.set_permissions(metadata.permissions())?;
                }
                (file, Some((temporary, target)), replaced)
            }
        };
        Ok(Self { path: path.to_owned(), file: BufWriter::new(file), rename, _replaced: replaced })
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).cannot("write", self.path.display()).class(ErrorClass::Output)
    }

    /// Writes `bytes` as the end of the file, and commits it. Fails as [`Output::write`] and [`Output::commit`].
    pub fn finish(mut self, bytes: &[u8]) -> Result<()> {
        self.write(bytes)?;
        self.commit()
    }

    /// Moves the complete file to its path. Fails if it cannot be stored or renamed, or if this process has read the
    /// existing file meanwhile. On failure, the existing file stays.
    pub fn commit(self) -> Result<()> {
        let path = self.path.clone();
        self.try_commit().cannot("write", path.display()).class(ErrorClass::Output)
    }

    /// As [`Output::commit`], but errors do not name the file.
    fn try_commit(mut self) -> io::Result<()> {
        self.file.flush()?;
        let Some((temporary, target)) = self.rename.take() else { return Ok(()) };
        self.file.get_ref().sync_all()?;
        if let Ok(metadata) = fs::metadata(&target) {
            registry::ensure_unread(&metadata)?;
        }
        let mut outputs = interrupt::lock_outputs();
        outputs.remove(&temporary);
        // The lock is held until the file has its name: an interrupt finds it there or in the list.
        temporary.persist(&target)?;
        outputs.mark_committed();
        Ok(())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some((temporary, _)) = &self.rename {
            interrupt::lock_outputs().remove(temporary);
        }
    }
}

/// Registers standard output as an output of this process, so that the file behind it (`>> corpus.txt`) cannot be an input.
pub fn register_stdout() {
    #[cfg(unix)]
    {
        use std::os::fd::AsFd;
        if let Ok(metadata) = io::stdout().as_fd().try_clone_to_owned().and_then(|stdout| File::from(stdout).metadata())
        {
            registry::register_output_until_exit(&metadata);
        }
    }
}

/// Reads the text of an existing output that will be overwritten; `None` if there is none. The file does not count as an
/// input. Fails if it cannot be read, is longer than `most` bytes or is not UTF-8.
pub fn read_previous_output(path: &Path, most: u64) -> io::Result<Option<String>> {
    read_previous_bytes(path, most)?.map(input::decode_utf8).transpose()
}

/// Reads the bytes of an existing output that will be overwritten; `None` if there is none. Fails if it cannot be read or
/// is longer than `most` bytes.
pub fn read_previous_bytes(path: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
    match open_previous(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => input::read_all(opened?, most).map(Some),
    }
}

/// Opens an existing output. Fails if it is no regular file, since opening a pipe waits for a writer.
fn open_previous(path: &Path) -> io::Result<File> {
    if !fs::metadata(path)?.is_file() {
        let error = anyhow!("it is no file").hint("remove it, or name another place");
        return Err(io_error(io::ErrorKind::Other, error));
    }
    File::open(path)
}

/// SHA-256 of an existing output in lower-case hexadecimal; `None` if there is none, or if it cannot be read.
pub fn previous_sha256(path: &Path) -> Option<String> {
    let (mut file, mut hash, mut chunk) = (open_previous(path).ok()?, Sha256::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut chunk) {
            Ok(0) => return Some(hex(&hash.finalize())),
            Ok(read) => hash.update(&chunk[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
}

/// Resolves `path` to the path of the file that is written, so that all spellings of a path agree. A symbolic link is
/// resolved to its target.
pub fn resolve_target(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| {
        let target = match (fs::read_link(path), path.parent()) {
            (Ok(link), Some(folder)) => folder.join(link),
            _ => path.to_owned(),
        };
        let place = target.file_name().zip(parent_folder(&target).canonicalize().ok());
        place.map_or(target.clone(), |(name, folder)| folder.join(name))
    })
}

/// Folder that contains `path`; `.` for a file name alone.
pub(super) fn parent_folder(path: &Path) -> &Path {
    path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."))
}

/// Prefix of the file names of incomplete outputs.
pub(super) const PREFIX: &str = ".headscope-";
/// Suffix of the file names of incomplete outputs.
pub(super) const SUFFIX: &str = ".partial";

/// Whether a file name is that of an incomplete output, of this process or another one.
pub fn is_temporary(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.starts_with(PREFIX.as_bytes()) && name.ends_with(SUFFIX.as_bytes())
}

/// Builder of temporary files or folders with the permissions `mode`, less those that the umask removes. The default of
/// `tempfile` is private to the user.
pub fn temporary_builder(mode: u32) -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(mode));
    #[cfg(not(unix))]
    let _ = mode;
    builder
}

/// Creates an empty temporary file in the folder of `target`, with the permissions of an ordinary new file. Fails if the
/// folder is missing or not writable.
fn create_temporary_beside(target: &Path) -> Result<(File, TempPath)> {
    let folder = parent_folder(target);
    if !folder.is_dir() {
        bail!(anyhow!("there is no folder `{}`", folder.display()).hint("create it first"));
    }
    remove_leftovers(folder);
    let mut builder = temporary_builder(0o666);
    builder.prefix(PREFIX).suffix(SUFFIX);
    let mut list = interrupt::lock_outputs();
    loop {
        let created = builder.tempfile_in(folder).map_err(|error| unwritable_error(folder, &error))?;
        // Another process may take the file for a leftover, lock it and remove it between its creation and its lock. A file
        // system without locks has no such removal.
        let locked_by_another = matches!(created.as_file().try_lock(), Err(TryLockError::WouldBlock));
        if !locked_by_another && created.path().exists() {
            list.add(created.path());
            return Ok(created.into_parts());
        }
    }
}

/// Makes the error about a folder in which no file can be created. It does not show the temporary name, which `error`
/// contains.
pub(super) fn unwritable_error(folder: &Path, error: &io::Error) -> anyhow::Error {
    // `tempfile` ends its message with the path, and does not give the error without it.
    let words = error.to_string();
    let cause = words.split_once(" at path \"").map_or(&*words, |(cause, _)| cause);
    anyhow!("no file can be made in the folder `{}`: {cause}", folder.display())
}

/// Removes the incomplete outputs of ended processes from a folder. Files that cannot be removed are ignored.
fn remove_leftovers(folder: &Path) {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let regular = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_file());
    for entry in entries.filter(|entry| is_temporary(&entry.file_name()) && regular(entry)) {
        if let Ok(file) = File::open(entry.path())
            && file.try_lock().is_ok()
        {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn message(result: Result<impl Sized>) -> String {
        format!("{:#}", result.err().expect("an error"))
    }

    /// No file can be made in this folder, whoever asks.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_folder_that_cannot_be_written_to_is_named() {
        let message = message(Output::open(Path::new("/proc/report.json")));
        let expected = "cannot write `/proc/report.json`: no file can be made in the folder `/proc`: ";
        assert!(message.starts_with(expected) && !message.contains(PREFIX), "{message}");
    }

    #[test]
    fn what_was_read_is_not_written_whatever_it_is_called() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("model"), "weights").unwrap();
        fs::hard_link(at("model"), at("other-name")).unwrap();
        input::open(&at("model")).unwrap();
        for name in ["model", "other-name"] {
            let expected =
                format!("cannot write `{}`: the same run reads it: give the output another name", at(name).display());
            assert_eq!(message(Output::open(&at(name))), expected);
        }
        assert_eq!(names(folder.path()), ["model", "other-name"]);
    }

    #[test]
    fn what_is_written_is_not_read_until_it_is_done() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report");
        fs::write(&path, "old").unwrap();
        let mut output = Output::open(&path).unwrap();
        let refused = input::open(&path).unwrap_err().to_string();
        assert_eq!(refused, "it is an output of the same run: give the output another name");
        output.write(b"new").unwrap();
        output.commit().unwrap();
        assert_eq!(input::read(&path, 3).unwrap(), b"new");
    }

    #[test]
    fn what_is_read_after_the_output_was_opened_is_seen_before_it_gets_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model");
        let mut output = Output::open(&path).unwrap();
        output.write(b"maps").unwrap();
        fs::write(&path, "weights").unwrap();
        input::open(&path).unwrap();
        let error = message(output.commit()).replace(folder.path().to_str().unwrap(), "DIR");
        insta::assert_snapshot!(error, @"cannot write `DIR/model`: the same run reads it: give the output another name");
        assert_eq!(fs::read(&path).unwrap(), b"weights");
        assert_eq!(names(folder.path()), ["model"]);
    }

    #[test]
    fn leftovers_go_and_what_is_on_its_way_stays() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in [".headscope-dead.partial", ".headscope-notes", "report.partial"] {
            fs::write(at(name), "").unwrap();
        }
        fs::create_dir(at(".headscope-folder.partial")).unwrap();
        let first = Output::open(&at("a")).unwrap();
        let second = Output::open(&at("b")).unwrap();
        // Two incomplete outputs, and a file that no process here has made.
        assert_eq!(names(folder.path()).len(), 2 + 3);
        second.commit().unwrap();
        first.commit().unwrap();
        assert_eq!(names(folder.path()), [".headscope-folder.partial", ".headscope-notes", "a", "b", "report.partial"]);
    }
}
