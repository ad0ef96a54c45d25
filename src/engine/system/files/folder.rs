//! Output folders: written under a temporary name beside their path and renamed when complete, so that nobody finds half of one.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use tempfile::TempDir;

use super::output::{PREFIX, SUFFIX, parent_folder, temporary_builder, unwritable_error};
use crate::system::errors::{ErrorClass, ErrorExt};
use crate::system::interrupt;

/// An output folder that is being written. It appears at its path when it is complete, with [`OutputFolder::commit`].
pub struct OutputFolder {
    path: PathBuf,
    temporary: TempDir,
}

impl OutputFolder {
    /// Prepares an output folder for `path`. Fails if something other than an empty folder is there, or if no folder can be
    /// created beside it.
    pub fn open(path: &Path) -> Result<Self> {
        Self::try_open(path).cannot("write", path.display()).class(ErrorClass::Output)
    }

    /// As [`OutputFolder::open`], but errors do not name the folder.
    fn try_open(path: &Path) -> Result<Self> {
        let is_full = match path.read_dir() {
            Ok(mut entries) => entries.next().is_some(),
            Err(_) if path.symlink_metadata().is_ok() => bail!(anyhow!("it is no folder").hint("name a new folder")),
            Err(_) => false,
        };
        if is_full {
            bail!(anyhow!("the folder has files already").hint("name a new folder, or empty it first"));
        }
        // The name of an empty folder may be `.` or end in `..`.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let parent = parent_folder(&path).to_owned();
        if !parent.is_dir() {
            bail!(anyhow!("there is no folder `{}`", parent.display()).hint("create it first"));
        }
        let mut builder = temporary_builder(0o777);
        builder.prefix(PREFIX).suffix(SUFFIX);
        let mut list = interrupt::lock_outputs();
        let temporary = builder.tempdir_in(&parent).map_err(|error| unwritable_error(&parent, &error))?;
        list.add(temporary.path());
        Ok(Self { path, temporary })
    }

    /// Writes a file in the folder, at the relative path `name`. Fails if it cannot be written, or if `write` fails.
    pub fn write_file(&self, name: &Path, write: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
        let (path, shown) = (self.temporary.path().join(name), self.path.join(name));
        let created = fs::create_dir_all(parent_folder(&path)).and_then(|()| File::create(&path));
        let mut file = BufWriter::new(created.cannot("write", shown.display()).class(ErrorClass::Output)?);
        write(&mut file)?;
        let flushed = file.flush().and_then(|()| file.get_ref().sync_all());
        flushed.cannot("write", shown.display()).class(ErrorClass::Output)
    }

    /// Copies a file into the folder, to the relative path `name`. Fails if it cannot be read or written.
    pub fn copy(&self, from: &Path, name: &Path) -> Result<()> {
        self.write_file(name, |file| {
            let copied = File::open(from).and_then(|mut source| std::io::copy(&mut source, file));
            copied.map(drop).cannot("copy", from.display()).class(ErrorClass::Output)
        })
    }

    /// Moves the complete folder to its path. Fails if a folder with files has appeared there.
    pub fn commit(self) -> Result<()> {
        let Self { path, temporary } = self;
        let mut outputs = interrupt::lock_outputs();
        outputs.remove(temporary.path());
        let replace = || {
            // Removes an empty folder; fails if it was filled meanwhile.
            if path.is_dir() {
                fs::remove_dir(&path)?;
            }
            fs::rename(temporary.path(), &path)
        };
        replace().cannot("write", path.display()).class(ErrorClass::Output)?;
        // The temporary path no longer exists, so nothing is left to remove.
        let _ = temporary.keep();
        outputs.mark_committed();
        Ok(())
    }
}

/// Lists all files in a folder and its subfolders by their relative paths, sorted. Hidden entries are skipped. Fails if a
/// folder cannot be read.
pub fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    add_files(folder, Path::new(""), &mut found).cannot("read", folder.display())?;
    found.sort();
    Ok(found)
}

fn add_files(root: &Path, within: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in root.join(within).read_dir()? {
        let name = entry?.file_name();
        let path = within.join(&name);
        let at = root.join(&path);
        if name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        if at.is_dir() {
            add_files(root, &path, found)?;
        } else if at.is_file() {
            found.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<PathBuf> {
        files_below(folder).unwrap()
    }

    #[test]
    fn a_folder_is_there_when_it_is_whole() {
        let bench = tempfile::tempdir().unwrap();
        let (source, target) = (bench.path().join("source"), bench.path().join("target"));
        fs::create_dir_all(source.join("1_Pooling")).unwrap();
        fs::write(source.join("1_Pooling/config.json"), "{}").unwrap();
        fs::write(source.join(".hidden"), "").unwrap();
        let folder = OutputFolder::open(&target).unwrap();
        for name in names(&source) {
            folder.copy(&source.join(&name), &name).unwrap();
        }
        folder.write_file(Path::new("a"), |file| Ok(file.write_all(b"b")?)).unwrap();
        assert!(!target.exists());
        folder.commit().unwrap();
        assert_eq!(names(&target), ["1_Pooling/config.json", "a"].map(PathBuf::from));
        assert_eq!(fs::read(target.join("a")).unwrap(), b"b");
        // One that is dropped leaves nothing.
        drop(OutputFolder::open(&bench.path().join("other")).unwrap());
        assert_eq!(fs::read_dir(bench.path()).unwrap().count(), 2);
    }

    #[test]
    fn an_empty_folder_is_filled_and_a_full_one_refused() {
        let bench = tempfile::tempdir().unwrap();
        let empty = bench.path().join("empty");
        fs::create_dir(&empty).unwrap();
        OutputFolder::open(&empty).unwrap().commit().unwrap();
        fs::write(empty.join("a"), "").unwrap();
        let paths = [empty.clone(), empty.join("a"), bench.path().join("no/folder")];
        let errors = paths.map(|path| format!("{:#}", OutputFolder::open(&path).err().expect("a refusal")));
        insta::assert_snapshot!(errors.join("\n").replace(bench.path().to_str().unwrap(), "DIR"), @"
        cannot write `DIR/empty`: the folder has files already: name a new folder, or empty it first
        cannot write `DIR/empty/a`: it is no folder: name a new folder
        cannot write `DIR/no/folder`: there is no folder `DIR/no`: create it first
        ");
    }
}
