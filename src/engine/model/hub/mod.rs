//! Models on the Hub: lists their files, and downloads the files that are missing in the cache. [`environment`] has the
//! settings, [`client`] the protocol, [`backoff`] the retries, and [`digest`] the checks of files. [`download`] brings a file
//! into the [`cache`]. Only this folder of the crate reaches the network.

mod backoff;
mod cache;
mod client;
mod commit;
mod digest;
mod download;
mod environment;
mod response;

use anyhow::{Result, anyhow};

use super::files::{FileStore, ModelFiles, ModelLocation, gather_files};
use crate::system::errors::{ErrorClass, ErrorExt};
use crate::system::progress::DownloadProgress;
use backoff::{Backoff, Failure};
use cache::{Cache, CacheFailure};
use client::Client;
use commit::Commit;
use download::Download;
use environment::{Environment, OfflineSetting};

/// Finds the files of a Hub model, and downloads missing ones. Settings come from environment variables; `offline` forbids
/// requests to the Hub. If the Hub does not answer, requests are retried, unless `patient` is false because the name may be
/// misspelt.
pub(super) fn resolve(
    id: &str,
    revision: &str,
    offline: bool,
    patient: bool,
    progress: &dyn DownloadProgress,
) -> Result<ModelFiles> {
    let mut environment = Environment::read(&|name| std::env::var_os(name), std::env::home_dir())?;
    if offline {
        environment.offline = Some(OfflineSetting { setting: "--offline", hint: "leave out --offline" });
    }
    resolve_with(&environment, id, revision, patient, progress)
}

/// As [`resolve`], with settings from `environment`.
fn resolve_with(
    environment: &Environment,
    id: &str,
    revision: &str,
    patient: bool,
    progress: &dyn DownloadProgress,
) -> Result<ModelFiles> {
    let cache = Cache::new(environment, id);
    let cached = cache.files(id, revision).map_err(|unusable| match (unusable, cache.closest_id(id)) {
        (CacheFailure::Missing(lack), Some(known)) => CacheFailure::Missing(format!("{lack} (`{known}` is)")),
        (unusable, _) => unusable,
    });
    if let Some(OfflineSetting { setting: by, hint: way_out }) = environment.offline {
        return cached.map_err(|unusable| match unusable {
            CacheFailure::Missing(lack) => anyhow!("{lack}, and {by} forbids asking the Hub")
                .with_value(id)
                .hint(format!("{way_out} or download the model first")),
            CacheFailure::Defective(error) => error,
        });
    }
    let client = Client::new(environment, &cache, id, revision)?;
    // Waiting is worthwhile only if the model is not cached and its name is not likely to be misspelt.
    let backoff = if cached.is_ok() || !patient { Backoff::NONE } else { environment.backoff };
    let commit = match request_commit(&client, backoff, progress) {
        Ok(commit) => commit,
        Err(Failure::Refused(error)) => return Err(error),
        Err(Failure::Unavailable { error, .. }) => {
            let endpoint = &environment.endpoint;
            let proxy = environment.proxy.map_or_else(String::new, |name| format!(", the proxy in {name}"));
            let files = cached.map_err(|unusable| match unusable {
                CacheFailure::Missing(lack) => {
                    let reached = |problem| format!("cannot reach the Hub at {endpoint} ({problem}), and {lack}");
                    let way_out = format!("check the network{proxy} and HF_ENDPOINT, or give a model folder");
                    error.map_message(reached).hint(way_out).class(ErrorClass::Temporary)
                }
                CacheFailure::Defective(wrong) => wrong.context(format!("cannot reach the Hub at {endpoint}")),
            })?;
            let commit = files.revision.as_deref().unwrap_or_default();
            let used = format!("using commit {commit} of `{id}` from the cache");
            progress.note(&format!("cannot reach the Hub at {endpoint}: {used}"));
            return Ok(files);
        }
    };
    // A cached file with another digest is fetched again.
    let fetch = |name: &str, most: u64| {
        let path = cache.snapshot_folder(&commit.sha).join(name);
        let open = || cache.open(&path, commit.digest(name));
        if path.is_file()
            && let Ok(file) = open()
        {
            return Ok(file);
        }
        let download =
            Download { client: &client, cache: &cache, commit: &commit, file: name, max_bytes: most, progress };
        download.run(environment.backoff)?;
        open()
    };
    let store = FileStore { names: commit.file_names.clone(), fetch: Box::new(fetch) };
    let files = gather_files(id.to_owned(), Some(commit.sha.clone()), &ModelLocation::Hub { id, revision }, &store)?;
    // Written last, so that a ref always leads to a complete model. A read-only cache works without it.
    if let Err(error) = cache.write_ref(revision, &commit.sha) {
        progress.note(&format!("{error:#}"));
    }
    Ok(files)
}

/// Requests the commit of the client's revision, with retries.
fn request_commit(client: &Client, backoff: Backoff, progress: &dyn DownloadProgress) -> Result<Commit, Failure> {
    let mut attempts = backoff.start_attempts();
    loop {
        match client.fetch_commit() {
            Ok(commit) => return Ok(commit),
            Err(failure) => attempts.wait_after(failure, progress)?,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::model::families::bert::SMALL_CONFIG_JSON;

    const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

    /// Error for a model that cannot be resolved offline from the cache in `folder`, with `CACHE` for its path.
    fn offline_error(folder: &Path, revision: &str) -> String {
        let shown = folder.to_str().unwrap();
        let environment = Environment::of(&[("HF_HUB_CACHE", shown), ("HF_HUB_OFFLINE", "1")]);
        let error = resolve_with(&environment, "acme/tiny-bert", revision, true, &()).unwrap_err();
        error.to_string().replace(shown, "CACHE")
    }

    #[test]
    fn offline_a_model_that_is_not_there_says_where_it_was_looked_for() {
        let folder = tempfile::tempdir().unwrap();
        insta::assert_snapshot!(offline_error(folder.path(), "v2"), @"`acme/tiny-bert` (revision `v2`) is not in the Hub cache `CACHE`, and HF_HUB_OFFLINE forbids asking the Hub: unset HF_HUB_OFFLINE or download the model first");
    }

    #[test]
    fn offline_half_a_model_says_which_half() {
        let folder = tempfile::tempdir().unwrap();
        let model = folder.path().join("models--acme--tiny-bert");
        let snapshot = model.join("snapshots").join(COMMIT);
        fs::create_dir_all(&snapshot).unwrap();
        fs::write(snapshot.join("config.json"), SMALL_CONFIG_JSON).unwrap();
        fs::create_dir(model.join("refs")).unwrap();
        fs::write(model.join("refs/main"), COMMIT).unwrap();
        insta::assert_snapshot!(offline_error(folder.path(), "main"), @"`acme/tiny-bert` (revision `main`) is not complete in the Hub cache `CACHE`: it holds config.json of it, and HF_HUB_OFFLINE forbids asking the Hub: unset HF_HUB_OFFLINE or download the model first");
    }
}
