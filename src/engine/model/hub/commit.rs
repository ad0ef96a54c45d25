//! A commit of a model, as the Hub describes it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use anyhow::{Context, Result, anyhow};
use serde::Deserialize;

use super::backoff::{Failure, temporary_failure};
use super::cache::{is_file_name, is_relative_path};
use super::digest::{Digest, ExpectedFile};
use super::environment::ENDPOINT_HINT;
use crate::system::errors::ErrorExt;

#[derive(Debug)]
pub(super) struct Commit {
    /// Id of the commit.
    pub(super) sha: String,
    /// Names of the commit's files.
    pub(super) file_names: BTreeSet<String>,
    /// Size and digest of each file for which the Hub's description states them, by file name.
    expected: BTreeMap<String, ExpectedFile>,
}

impl Commit {
    /// Parses the description of the model `id` that the Hub at `endpoint` sent. Fails if the body is no such description, or
    /// its commit is no valid name.
    pub(super) fn read(body: impl Read, endpoint: &str, id: &str) -> Result<Self, Failure> {
        // The description of a model with ten thousand files has about three megabytes.
        let ModelInfo { sha, siblings } = serde_json::from_reader(body.take(1 << 24))
            .context("it answered with something other than the description of a model")
            .map_err(temporary_failure)?;
        if !is_file_name(&sha) {
            return Err(Failure::Refused(
                anyhow!("{endpoint} calls `{sha}` a commit of `{id}`, which is the name of none").hint(ENDPOINT_HINT),
            ));
        }
        let files = || siblings.iter().filter(|sibling| is_relative_path(&sibling.rfilename));
        let expected = |sibling: &Sibling| Some((sibling.rfilename.clone(), sibling.expected_file()?));
        Ok(Self {
            sha,
            file_names: files().map(|sibling| sibling.rfilename.clone()).collect(),
            expected: files().filter_map(expected).collect(),
        })
    }

    /// Returns the stated size and digest of a file; `None` if the description lacks either.
    pub(super) fn expected_file(&self, file: &str) -> Option<&ExpectedFile> {
        self.expected.get(file)
    }

    /// Returns the stated digest of a file; `None` if the description has none.
    pub(super) fn digest(&self, file: &str) -> Option<&Digest> {
        self.expected_file(file).map(|expected| &expected.digest)
    }
}

/// Keys of the Hub's description of a model that this program reads (<https://huggingface.co/docs/hub/api>, with `blobs=true`).
#[derive(Deserialize)]
struct ModelInfo {
    sha: String,
    siblings: Vec<Sibling>,
}

/// A file of the model, as the Hub describes it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sibling {
    rfilename: String,
    size: Option<u64>,
    blob_id: Option<String>,
    lfs: Option<LargeFile>,
}

/// Size and digest of a file in large file storage (git-lfs).
#[derive(Deserialize)]
struct LargeFile {
    sha256: String,
    size: u64,
}

impl Sibling {
    /// Returns the stated size and digest of a file. For a large file they come from `lfs`, because its `blobId` is the hash of
    /// a pointer file.
    fn expected_file(&self) -> Option<ExpectedFile> {
        let (name, bytes) = match &self.lfs {
            Some(LargeFile { sha256, size }) => (sha256, *size),
            None => (self.blob_id.as_ref()?, self.size?),
        };
        Some(ExpectedFile { bytes, digest: Digest::parse(name)? })
    }
}
