//! The cache shared with Python's `huggingface_hub`, in the form that it has there:
//!
//! ```text
//! models--ORG--NAME/refs/REVISION              the commit a branch or tag stood for when last asked
//! models--ORG--NAME/snapshots/COMMIT/FILE      a link to
//! models--ORG--NAME/blobs/ETAG                 the bytes
//! ```

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::settings::Settings;
use crate::model::source::{ModelFiles, Place, model_files, wanted};

/// One model's part of the cache.
pub(super) struct Cache {
    /// The whole cache, for messages.
    all: PathBuf,
    folder: PathBuf,
}

impl Cache {
    pub(super) fn new(settings: &Settings, id: &str) -> Self {
        Self { all: settings.cache.clone(), folder: settings.cache.join(format!("models--{}", id.replace('/', "--"))) }
    }

    pub(super) fn snapshot(&self, commit: &str) -> PathBuf {
        self.folder.join("snapshots").join(commit)
    }

    /// The model as far as the cache goes, or a clause that says what it lacks.
    pub(super) fn files(&self, id: &str, revision: &str) -> Result<ModelFiles, String> {
        let shown = self.all.display();
        let absent = || format!("`{id}` (revision `{revision}`) is not in the Hub cache `{shown}`");
        let commit = self.commit(revision).ok_or_else(absent)?;
        let snapshot = self.snapshot(&commit);
        let names = snapshot
            .read_dir()
            .map_err(|_| absent())?
            .filter_map(Result::ok)
            .filter(|entry| entry.path().is_file())
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect::<BTreeSet<_>>();
        match wanted(&Place::Hub { id, revision }, &names) {
            Ok(files) => Ok(model_files(id.to_owned(), Some(commit), &snapshot, &files)),
            Err(_) => Err(format!(
                "`{id}` (revision `{revision}`) is not complete in the Hub cache `{shown}`: it holds {} of it",
                if names.is_empty() { "nothing".to_owned() } else { names.into_iter().collect::<Vec<_>>().join(", ") }
            )),
        }
    }

    /// The commit that a branch or tag stood for when last asked, or the revision itself if it is one.
    fn commit(&self, revision: &str) -> Option<String> {
        match fs::read_to_string(self.folder.join("refs").join(revision)) {
            Ok(text) => Some(text.trim().to_owned()).filter(|commit| is_file_name(commit)),
            Err(_) => {
                is_file_name(revision).then(|| revision.to_owned()).filter(|commit| self.snapshot(commit).is_dir())
            }
        }
    }

    pub(super) fn write_ref(&self, revision: &str, commit: &str) -> Result<()> {
        if revision == commit {
            return Ok(());
        }
        let path = self.folder.join("refs").join(revision);
        create_parent(&path)?;
        fs::write(&path, commit).with_context(|| cannot_write(&path))
    }

    pub(super) fn blob(&self, etag: &str) -> PathBuf {
        self.folder.join("blobs").join(etag)
    }

    /// Makes `file` of the snapshot stand for the blob.
    pub(super) fn link(&self, commit: &str, file: &str, etag: &str) -> Result<()> {
        let path = self.snapshot(commit).join(file);
        create_parent(&path)?;
        // A link that leads nowhere, left by a cache that was tidied up by hand.
        if path.symlink_metadata().is_ok() && !path.is_file() {
            fs::remove_file(&path).with_context(|| cannot_write(&path))?;
        }
        #[cfg(unix)]
        let linked = std::os::unix::fs::symlink(Path::new("../../blobs").join(etag), &path);
        // Elsewhere links may be forbidden; then the file itself moves, as in the Python client.
        #[cfg(not(unix))]
        let linked = fs::rename(self.blob(etag), &path);
        match linked {
            // Another process was as fast.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_file() => Ok(()),
            outcome => outcome.with_context(|| cannot_write(&path)),
        }
    }
}

pub(super) fn create_parent(path: &Path) -> Result<()> {
    match path.parent() {
        Some(parent) => fs::create_dir_all(parent).with_context(|| cannot_write(parent)),
        None => Ok(()),
    }
}

pub(super) fn cannot_write(path: &Path) -> String {
    format!("cannot write `{}` in the Hub cache; HF_HOME can name another place", path.display())
}

/// Whether a name sent by a server, an `ETag` or a commit, can be used as a file's name as it is.
pub(super) fn is_file_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.chars().all(|char| char.is_ascii_alphanumeric() || "_.-".contains(char))
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

    /// The part of `acme/tiny-bert` of a cache in `folder`.
    fn cache(folder: &Path) -> Cache {
        Cache::new(&Settings::of(&[("HF_HUB_CACHE", folder.to_str().unwrap())]), "acme/tiny-bert")
    }

    fn write(path: &Path, text: &str) {
        create_parent(path).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn a_model_is_found_by_branch_and_by_commit() {
        let folder = tempfile::tempdir().unwrap();
        let model = folder.path().join("models--acme--tiny-bert");
        let snapshot = model.join("snapshots").join(COMMIT);
        for name in ["config.json", "tokenizer.json", "model.safetensors"] {
            write(&snapshot.join(name), "");
        }
        write(&model.join("refs/main"), COMMIT);
        write(&model.join("refs/refs/pr/5"), COMMIT);
        for revision in ["main", "refs/pr/5", COMMIT] {
            let files = cache(folder.path()).files("acme/tiny-bert", revision).unwrap();
            assert_eq!(files.id, "acme/tiny-bert");
            assert_eq!(files.revision.as_deref(), Some(COMMIT));
            assert_eq!(files.weights, snapshot.join("model.safetensors"));
            assert_eq!(files.tokenizer_config, None);
        }
    }

    #[test]
    fn a_ref_that_leads_out_of_the_cache_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let model = folder.path().join("models--acme--tiny-bert");
        write(&model.join("refs/main"), "../../..");
        assert!(cache(folder.path()).files("acme/tiny-bert", "main").is_err());
    }
}
