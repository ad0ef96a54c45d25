//! Models on the Hub: which files one has, and how those that the cache lacks get there.
//!
//! [`settings`] reads the environment, [`client`] asks the Hub, [`cache`] is shared with Python's `huggingface_hub`.
//!
//! The only folder of this crate that reaches the network.

mod cache;
mod client;
mod settings;

use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use sha2::{Digest, Sha256};

use super::source::{DownloadProgress, ModelFiles, Place, model_files, wanted};
use crate::digest::hex;
use crate::export::output;
use cache::{Cache, cannot_write, create_parent};
use client::{Client, Failure, Remote};
use settings::Settings;

/// The files of a Hub model, as the process's environment says where to look.
pub(super) fn resolve(id: &str, revision: &str, progress: &dyn DownloadProgress) -> Result<ModelFiles> {
    resolve_in(&Settings::from_process()?, id, revision, progress)
}

fn resolve_in(settings: &Settings, id: &str, revision: &str, progress: &dyn DownloadProgress) -> Result<ModelFiles> {
    let cache = Cache::new(settings, id);
    if settings.offline {
        return cache.files(id, revision).map_err(|lack| {
            anyhow!(
                "{lack}, and HF_HUB_OFFLINE forbids to ask the Hub: \
                 unset HF_HUB_OFFLINE or download the model first"
            )
        });
    }
    let client = Client::new(settings, id, revision)?;
    let info = match client.info() {
        Ok(info) => info,
        Err(Failure::Refused(error)) => return Err(error),
        Err(Failure::Unavailable(error)) => {
            return cache.files(id, revision).map_err(|lack| {
                error.context(format!(
                    "cannot reach the Hub at {}, and {lack}: check the network and HF_ENDPOINT, \
                     or give a model folder",
                    settings.endpoint
                ))
            });
        }
    };
    let names = info.siblings.into_iter().map(|sibling| sibling.rfilename).collect();
    let files = wanted(&Place::Hub { id, revision }, &names)?;
    let snapshot = cache.snapshot(&info.sha);
    for file in &files {
        if !snapshot.join(file).is_file() {
            download(&client, &cache, &info.sha, file, progress)?;
        }
    }
    // Last of all: what a ref leads to is then always whole.
    cache.write_ref(revision, &info.sha)?;
    Ok(model_files(id.to_owned(), Some(info.sha), &snapshot, &files))
}

/// Fetches one file of a commit into the cache.
fn download(client: &Client, cache: &Cache, commit: &str, file: &str, progress: &dyn DownloadProgress) -> Result<()> {
    let mut remote = client.open(commit, file).map_err(|failure| match failure {
        Failure::Refused(error) => error,
        Failure::Unavailable(error) => {
            error.context(format!("cannot download {file} of `{}` from {}", client.id, client.endpoint))
        }
    })?;
    let blob = cache.blob(&remote.etag);
    // The same bytes may be there already, from another commit.
    let there = blob.metadata().is_ok_and(|blob| remote.bytes == Some(blob.len()));
    if !there {
        create_parent(&blob)?;
        // A name of its own keeps two processes apart, and the blob is never seen half done.
        let partial = cache.blob(&format!("{}.{}.incomplete", remote.etag, std::process::id()));
        progress.start(file, remote.bytes.unwrap_or(0));
        let received = receive(&mut remote, file, &partial, progress)
            .and_then(|()| fs::rename(&partial, &blob).with_context(|| cannot_write(&blob)));
        progress.finish();
        if received.is_err() {
            // It may not exist; the error at hand says more than a second one would.
            let _ = fs::remove_file(&partial);
        }
        output::settle(&partial);
        received.with_context(|| format!("cannot download {file} of `{}`", client.id))?;
    }
    cache.link(commit, file, &remote.etag)
}

/// Writes what comes as `file` to `path` and holds its size and its digest against what was promised.
fn receive(remote: &mut Remote, file: &str, path: &Path, progress: &dyn DownloadProgress) -> Result<()> {
    let mut partial = output::create_pending(path).with_context(|| cannot_write(path))?;
    let promised = remote.bytes.map_or_else(|| "an unknown number of".to_owned(), |bytes| bytes.to_string());
    let mut chunk = vec![0; 1 << 16];
    let mut got = 0;
    let mut hash = Sha256::new();
    loop {
        let read = match remote.body.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                return Err(error)
                    .with_context(|| format!("the connection broke off after {got} of {promised} bytes: try again"));
            }
        };
        partial.write_all(&chunk[..read]).with_context(|| cannot_write(path))?;
        hash.update(&chunk[..read]);
        got += read as u64;
        progress.advance(read as u64);
    }
    if remote.bytes.is_some_and(|bytes| bytes != got) {
        bail!("{got} bytes came where the Hub promised {promised}, and were thrown away: try again");
    }
    let digest = hex(&hash.finalize());
    if let Some(promised) = remote.sha256()
        && !promised.eq_ignore_ascii_case(&digest)
    {
        bail!("{file} came with SHA-256 {digest} where the Hub promised {promised}, and was thrown away: try again");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

    /// Settings that forbid to ask the Hub, with the cache in `folder`.
    fn offline(folder: &Path) -> Settings {
        Settings::of(&[("HF_HUB_CACHE", folder.to_str().unwrap()), ("HF_HUB_OFFLINE", "1")])
    }

    #[test]
    fn offline_a_model_that_is_not_there_says_where_it_was_looked_for() {
        let folder = tempfile::tempdir().unwrap();
        let error = resolve_in(&offline(folder.path()), "acme/tiny-bert", "v2", &()).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "`acme/tiny-bert` (revision `v2`) is not in the Hub cache `{}`, and HF_HUB_OFFLINE forbids to \
                 ask the Hub: unset HF_HUB_OFFLINE or download the model first",
                folder.path().display()
            )
        );
    }

    #[test]
    fn offline_half_a_model_says_which_half() {
        let folder = tempfile::tempdir().unwrap();
        let model = folder.path().join("models--acme--tiny-bert");
        let snapshot = model.join("snapshots").join(COMMIT);
        fs::create_dir_all(&snapshot).unwrap();
        fs::write(snapshot.join("config.json"), "").unwrap();
        fs::create_dir(model.join("refs")).unwrap();
        fs::write(model.join("refs/main"), COMMIT).unwrap();
        let error = resolve_in(&offline(folder.path()), "acme/tiny-bert", "main", &()).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "`acme/tiny-bert` (revision `main`) is not complete in the Hub cache `{}`: it holds config.json \
                 of it, and HF_HUB_OFFLINE forbids to ask the Hub: unset HF_HUB_OFFLINE or download the model \
                 first",
                folder.path().display()
            )
        );
    }
}
