//! The cache shared with Python's `huggingface_hub`, in its layout:
//!
//! ```text
//! models--ORG--NAME/refs/REVISION              the commit a branch or tag stood for when last asked
//! models--ORG--NAME/snapshots/COMMIT/FILE      a link to
//! models--ORG--NAME/blobs/ETAG                 the bytes
//! ```

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result};
use itertools::Itertools;

use super::digest::Digest;
use super::environment::Environment;
use crate::model::files::{
    FileStore, MissingFile, ModelFile, ModelFiles, ModelLocation, gather_files, list_first_modules,
    list_subfolder_files, readable_files,
};
use crate::system::errors::{ErrorExt, causes};
use crate::system::files::{input, output, shared_folder};
use crate::system::progress::DownloadProgress;

#[cfg(test)]
mod tests;

/// One model's part of the Hub cache.
pub(super) struct Cache {
    /// Folder of the whole Hub cache, for messages and for the ids of other cached models.
    hub_folder: PathBuf,
    /// Name of the model's folder in the cache: `models--ORG--NAME`.
    folder_name: String,
    /// Folder of the model in the cache.
    folder: PathBuf,
    /// Opened files by path. Each was checked against its digest, if known, when it was opened, so that large files are hashed
    /// once.
    checked_files: RefCell<HashMap<PathBuf, ModelFile>>,
}

/// Why the cache cannot supply a model.
pub(super) enum CacheFailure {
    /// The model or one of its files is missing; the text is a clause that names it.
    Missing(String),
    /// A file exists but cannot be used; the error says why.
    Defective(Error),
}

/// Beginning of the name of a model's folder in the cache.
const MODEL_FOLDER_PREFIX: &str = "models--";

impl Cache {
    pub(super) fn new(environment: &Environment, id: &str) -> Self {
        let name = format!("{MODEL_FOLDER_PREFIX}{}", id.replace('/', "--"));
        Self {
            hub_folder: environment.cache.clone(),
            folder: environment.cache.join(&name),
            folder_name: name,
            checked_files: RefCell::default(),
        }
    }

    pub(super) fn snapshot_folder(&self, commit: &str) -> PathBuf {
        self.folder.join("snapshots").join(commit)
    }

    /// Opens the files of a model from the cache, without requests to the Hub.
    pub(super) fn files(&self, id: &str, revision: &str) -> Result<ModelFiles, CacheFailure> {
        let shown = self.hub_folder.display();
        let absent =
            || CacheFailure::Missing(format!("`{id}` (revision `{revision}`) is not in the Hub cache `{shown}`"));
        let commit = self.commit(revision).ok_or_else(absent)?;
        let folder = self.snapshot_folder(&commit);
        if !folder.is_dir() {
            return Err(absent());
        }
        let mut names: BTreeSet<String> = readable_files(&folder).collect();
        names.extend(list_first_modules(&folder).into_iter().flat_map(|module| list_subfolder_files(&folder, module)));
        let snapshot = FileStore { names, fetch: Box::new(|name, _| self.open(&folder.join(name), None)) };
        gather_files(id.to_owned(), Some(commit), &ModelLocation::Hub { id, revision }, &snapshot).map_err(|error| {
            if !causes(error.as_ref()).any(<dyn std::error::Error>::is::<MissingFile>) {
                return CacheFailure::Defective(error);
            }
            let names = snapshot.names;
            CacheFailure::Missing(format!(
                "`{id}` (revision `{revision}`) is not complete in the Hub cache `{shown}`: it holds {} of it",
                if names.is_empty() { "nothing".to_owned() } else { names.iter().join(", ") }
            ))
        })
    }

    /// Opens a file of a snapshot. Checks it against the digest in the name of its blob, and against `promised`, the digest
    /// that the Hub states. Without either digest, the file is accepted. Fails if the file cannot be opened, or has another
    /// digest.
    pub(super) fn open(&self, path: &Path, promised: Option<&Digest>) -> Result<ModelFile> {
        // A file opened before its digest was known is checked now. If it differs, the path may hold another file, so it is
        // reopened.
        let known = self.checked_files.borrow().get(path).cloned();
        if let Some(file) = known.filter(|file| promised.is_none_or(|digest| digest.ensure_matches(file).is_ok())) {
            return Ok(file);
        }
        let file = ModelFile::open(path)?;
        let blob = fs::read_link(path).ok();
        let named = blob.as_deref().and_then(Path::file_name).and_then(|name| Digest::parse(name.to_str()?));
        for digest in named.iter().chain(promised.filter(|promised| named.as_ref() != Some(promised))) {
            digest.ensure_matches(&file).context("a file in the Hub cache is damaged")?;
        }
        self.checked_files.borrow_mut().insert(path.to_owned(), file.clone());
        Ok(file)
    }

    /// Returns the id of the cached model whose name is most similar to `id`; `None` if no name is similar enough.
    pub(super) fn closest_id(&self, id: &str) -> Option<String> {
        // Below this similarity two ids have little in common: `acme/tiny-bert` and `acme/small-gpt` have 0.71.
        const MIN_SIMILARITY: f64 = 0.85;
        // `bert-base-uncased` for `google-bert/bert-base-uncased` is a common slip.
        let name = |id: &str| id.rsplit('/').next().unwrap_or_default().to_lowercase();
        let similarity = |other: &str| {
            let whole = strsim::jaro_winkler(&id.to_lowercase(), &other.to_lowercase());
            if name(id) == name(other) { whole.max(MIN_SIMILARITY) } else { whole }
        };
        let entries = self.hub_folder.read_dir().ok()?.filter_map(Result::ok);
        let others = entries.filter_map(|entry| {
            let id = entry.file_name().to_str()?.strip_prefix(MODEL_FOLDER_PREFIX)?.replacen("--", "/", 1);
            entry.path().join("snapshots").is_dir().then_some(id)
        });
        let similar = others.filter(|other| other != id).map(|other| (similarity(&other), other));
        let most_similar = similar
            .filter(|(similarity, _)| *similarity >= MIN_SIMILARITY)
            .max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
        most_similar.map(|(_, other)| other)
    }

    /// Locks a blob against simultaneous downloads by other processes, including Python's. Dropping the returned file releases
    /// the lock. `None` if the file system has no locks.
    pub(super) fn lock(&self, etag: &str, progress: &dyn DownloadProgress) -> Result<Option<File>> {
        let path = self.hub_folder.join(".locks").join(&self.folder_name).join(format!("{etag}.lock"));
        create_parent(&path)?;
        let failed = |error| write_error(&path, error);
        let file = shared_folder::open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::WouldBlock) => progress.note("waiting for another process that fetches the same file"),
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        file.lock().map_err(failed)?;
        Ok(Some(file))
    }

    /// Returns the commit that a branch or tag had at the last request. If `revision` is itself a cached commit, returns it.
    /// `None` for an unknown revision.
    fn commit(&self, revision: &str) -> Option<String> {
        match self.read_ref(revision) {
            Ok(text) => Some(text.trim().to_owned()).filter(|commit| is_file_name(commit)),
            Err(_) => {
                Some(revision.to_owned()).filter(|name| is_file_name(name) && self.snapshot_folder(name).is_dir())
            }
        }
    }

    fn read_ref(&self, revision: &str) -> io::Result<String> {
        // A commit has forty bytes.
        input::read_regular_file(&self.folder.join("refs").join(revision), 1 << 10).and_then(input::decode_utf8)
    }

    /// Records the commit of a branch or tag, unless it is already recorded.
    pub(super) fn write_ref(&self, revision: &str, commit: &str) -> Result<()> {
        if revision == commit || self.read_ref(revision).is_ok_and(|known| known.trim() == commit) {
            return Ok(());
        }
        let path = self.folder.join("refs").join(revision);
        create_parent(&path)?;
        // Replaced in one step, because another process may be reading the file.
        let write = || {
            let mut file = output::temporary_builder(0o666).tempfile_in(path.parent().unwrap_or(&self.folder))?;
            io::Write::write_all(&mut file, commit.as_bytes())?;
            file.persist(&path)?;
            Ok::<_, io::Error>(())
        };
        write().map_err(|error| write_error(&path, error))
    }

    /// Returns the path of the blob with this `ETag`.
    pub(super) fn blob_path(&self, etag: &str) -> PathBuf {
        self.folder.join("blobs").join(etag)
    }

    /// Returns the path of an incomplete download. Without a lock, it belongs to this process alone.
    pub(super) fn partial_path(&self, etag: &str, lock: Option<&File>) -> PathBuf {
        // Without a lock, the process id in the name keeps two processes apart.
        let owner = if lock.is_some() { String::new() } else { format!(".{}", std::process::id()) };
        self.blob_path(&format!("{etag}{owner}.incomplete"))
    }

    /// Makes `file` in the snapshot of `commit` a link to the blob `etag`. If links are not supported, moves the blob instead.
    pub(super) fn link_blob(&self, commit: &str, file: &str, etag: &str) -> Result<()> {
        let path = self.snapshot_folder(commit).join(file);
        create_parent(&path)?;
        let target = Path::new(&"../".repeat(2 + file.matches('/').count())).join("blobs").join(etag);
        // Removes a link that leads nowhere or to another blob, or a damaged file.
        if path.symlink_metadata().is_ok() && fs::read_link(&path).ok().as_deref() != Some(&target) {
            fs::remove_file(&path).map_err(|error| write_error(&path, error))?;
        }
        #[cfg(unix)]
        let linked = std::os::unix::fs::symlink(&target, &path);
        #[cfg(not(unix))]
        let linked = Err::<(), _>(io::Error::from(io::ErrorKind::Unsupported));
        // Another process may have made the link first.
        if linked.is_ok() || path.is_file() {
            return Ok(());
        }
        // Without support for links, the file itself moves, as in the Python client.
        fs::rename(self.blob_path(etag), &path).map_err(|error| write_error(&path, error))
    }
}

pub(super) fn create_parent(path: &Path) -> Result<()> {
    path.parent().map_or(Ok(()), |parent| fs::create_dir_all(parent).map_err(|error| write_error(parent, error)))
}

/// Returns the error that a path in the Hub cache cannot be written.
pub(super) fn write_error(path: &Path, error: io::Error) -> Error {
    const WAY_OUT: &str = "HF_HOME can name another place";
    let shown = path.display();
    let error = Error::new(error).context(format!("cannot write `{shown}` in the Hub cache; {WAY_OUT}"));
    error.with_file(shown).with_included_hint(WAY_OUT)
}

/// Whether a name that a server sent, such as an `ETag` or a commit, is a valid file name.
pub(super) fn is_file_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.chars().all(|char| char.is_ascii_alphanumeric() || "_.-".contains(char))
}

/// Whether a name that a server sent is a relative path that stays within its folder.
pub(super) fn is_relative_path(name: &str) -> bool {
    name.split('/').all(|part| !["", ".", ".."].contains(&part) && !part.contains(['\\', ':', '\0']))
}
