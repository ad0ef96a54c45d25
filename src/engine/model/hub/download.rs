//! Downloads a file into the Hub cache. The file enters the cache with the expected size and digest, or not at all.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};

use super::backoff::{Backoff, Failure, temporary_failure};
use super::cache::{Cache, create_parent, write_error};
use super::client::{Client, RemoteFile};
use super::commit::Commit;
use super::digest::{Digest, ExpectedFile, Hasher};
use crate::model::files::ModelFile;
use crate::system::errors::{ErrorClass, ErrorExt};
use crate::system::files::shared_folder;
use crate::system::progress::DownloadProgress;

/// A file of a commit that is being downloaded into the cache.
pub(super) struct Download<'a> {
    pub(super) client: &'a Client<'a>,
    pub(super) cache: &'a Cache,
    pub(super) commit: &'a Commit,
    /// Path of the file, relative to the model's folder.
    pub(super) file: &'a str,
    /// Maximum accepted size of the file, in bytes.
    pub(super) max_bytes: u64,
    pub(super) progress: &'a dyn DownloadProgress,
}

impl Download<'_> {
    /// Downloads the file. If the connection breaks, the received bytes are kept, and the next try continues after them, in
    /// this run or a later one. The file becomes a blob of the cache only if its size and digest are right.
    pub(super) fn run(&self, backoff: Backoff) -> Result<()> {
        let mut attempts = backoff.start_attempts();
        // The most bytes present so far; as long as this grows, connections may break off any number of times.
        let mut most_bytes = 0;
        loop {
            let bytes_before = most_bytes;
            let Err(failure) = self.attempt(&mut most_bytes) else { return Ok(()) };
            if most_bytes > bytes_before {
                attempts.failures = 0;
            }
            attempts
                .wait_after(failure, self.progress)
                .map_err(|failure| match failure {
                    Failure::Refused(error) => error,
                    Failure::Unavailable { error, .. } => error.class(ErrorClass::Temporary),
                })
                .with_context(|| format!("cannot download {} of `{}`", self.file, self.client.id))?;
        }
    }

    /// Tries the download once. Raises `most`, the largest number of bytes on disk so far, unless the last bytes came
    /// too slowly.
    fn attempt(&self, most: &mut u64) -> Result<(), Failure> {
        let mut remote = self.client.locate(self.commit, self.file, self.max_bytes)?;
        let lock = self.cache.lock(&remote.etag, self.progress)?;
        let blob = self.cache.blob_path(&remote.etag);
        // Another commit or process may have fetched these bytes already.
        let is_present = ModelFile::open(&blob).is_ok_and(|file| {
            file.size() == remote.expected.bytes && remote.expected.digest.ensure_matches(&file).is_ok()
        });
        if !is_present {
            let path = self.cache.partial_path(&remote.etag, lock.as_ref());
            create_parent(&path)?;
            let mut partial = PartialFile::open(&path, &remote.expected).map_err(|error| write_error(&path, error))?;
            let mut rate = DownloadRate::new(self.client.environment.read_timeout);
            let received = self.receive(&mut remote, &mut partial, &mut rate);
            if !rate.was_slow {
                *most = partial.bytes.max(*most);
            }
            if received.is_err() && partial.bytes == 0 {
                // An error here is dropped, because `received` says more.
                let _ = fs::remove_file(&path);
            }
            received?;
            let moved = partial.file.sync_all().and_then(|()| fs::rename(&path, &blob));
            moved.map_err(|error| write_error(&blob, error))?;
        }
        Ok(self.cache.link_blob(&self.commit.sha, self.file, &remote.etag)?)
    }

    /// Receives the missing bytes of the file into `partial`, and checks its size and digest.
    fn receive(
        &self,
        remote: &mut RemoteFile,
        partial: &mut PartialFile,
        rate: &mut DownloadRate,
    ) -> Result<(), Failure> {
        let mut resumed = partial.bytes > 0;
        let expected = remote.expected.bytes;
        if partial.bytes != expected {
            let (start, mut body) = self.client.open_body(remote, self.file, partial.bytes)?;
            if start == 0 && resumed {
                partial.clear()?;
                resumed = false;
            }
            self.progress.start(self.file, expected);
            self.progress.advance(partial.bytes);
            let copied = self.copy_body(&mut body, expected, partial, rate);
            self.progress.finish();
            copied?;
        }
        self.check_content(&remote.expected, partial).map_err(|problem| {
            // An error here is dropped, because the next write repeats it.
            let _ = partial.clear();
            // A download in one piece would fail again; a resumed one may contain damage from an earlier run.
            if resumed { temporary_failure(problem) } else { Failure::Refused(problem.hint("try again")) }
        })
    }

    /// Copies the body of a response into `partial`, until it ends or exceeds the expected size.
    fn copy_body(
        &self,
        body: &mut dyn Read,
        expected: u64,
        partial: &mut PartialFile,
        rate: &mut DownloadRate,
    ) -> Result<(), Failure> {
        let broke_off = |bytes: u64| format!("the connection broke off after {bytes} of {expected} bytes");
        let mut chunk = vec![0; 1 << 16];
        while partial.bytes <= expected {
            match body.read(&mut chunk) {
                Ok(0) => break,
                Ok(read) => {
                    partial.append(&chunk[..read])?;
                    self.progress.advance(read as u64);
                    rate.ensure_fast_enough(read).map_err(temporary_failure)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(temporary_failure(anyhow!(error).context(broke_off(partial.bytes)))),
            }
        }
        if partial.bytes < expected { Err(temporary_failure(anyhow!(broke_off(partial.bytes)))) } else { Ok(()) }
    }

    /// Fails if the downloaded file has another size or digest than expected.
    fn check_content(&self, ExpectedFile { bytes, digest }: &ExpectedFile, partial: &PartialFile) -> Result<()> {
        let is_complete = *bytes == partial.bytes;
        ensure!(is_complete, "more than the {bytes} bytes came that the Hub promised, and were thrown away");
        let (found, promised, file) = (Digest::from_hasher(partial.hash.clone()), &digest.value, self.file);
        ensure!(found == *digest, "{file} came with {found} where the Hub promised {promised}, and was thrown away");
        Ok(())
    }
}

/// Download rate, measured over consecutive time windows. A server that sends one byte a second is treated like one
/// that has stopped.
struct DownloadRate {
    window: Duration,
    /// Time at which the current window began.
    began: Instant,
    /// Number of bytes received in the current time window.
    bytes: usize,
    /// Whether the last complete window was too slow.
    was_slow: bool,
}

/// The slowest accepted rate, in bytes a second.
const MIN_BYTES_PER_SECOND: f64 = 1024.0;

impl DownloadRate {
    fn new(piece_timeout: Duration) -> Self {
        // The rate is measured over three times the timeout of one piece.
        Self { window: piece_timeout * 3, began: Instant::now(), bytes: 0, was_slow: false }
    }

    /// Counts `read` received bytes. Fails if a time window has ended with fewer than [`MIN_BYTES_PER_SECOND`] bytes a second.
    fn ensure_fast_enough(&mut self, read: usize) -> Result<()> {
        self.bytes += read;
        if self.began.elapsed() < self.window {
            return Ok(());
        }
        let bytes = std::mem::take(&mut self.bytes);
        let seconds = std::mem::replace(&mut self.began, Instant::now()).elapsed().as_secs_f64();
        self.was_slow = (bytes as f64) < MIN_BYTES_PER_SECOND * seconds;
        ensure!(!self.was_slow, "only {bytes} bytes came in {seconds:.1} s");
        Ok(())
    }
}

/// An incomplete download: its file, and the hash of the bytes in it.
struct PartialFile<'a> {
    path: &'a Path,
    file: File,
    /// Number of bytes in the file so far.
    bytes: u64,
    /// Hash of the bytes in the file.
    hash: Hasher,
    /// Hasher that has read no bytes, for starting again.
    empty_hash: Hasher,
}

impl<'a> PartialFile<'a> {
    /// Opens an incomplete download to resume it, and hashes the bytes that are there.
    fn open(path: &'a Path, expected: &ExpectedFile) -> io::Result<Self> {
        let file = shared_folder::open(path)?;
        let empty = expected.digest.hasher(expected.bytes);
        let mut partial = Self { path, file, bytes: 0, hash: empty.clone(), empty_hash: empty };
        let mut chunk = vec![0; 1 << 16];
        loop {
            match partial.file.read(&mut chunk)? {
                0 => return Ok(partial),
                read => partial.count_bytes(&chunk[..read]),
            }
        }
    }

    /// Adds received bytes to the hash and the count.
    fn count_bytes(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
    }

    /// Writes received bytes to the end of the file.
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|error| write_error(self.path, error))?;
        self.count_bytes(bytes);
        Ok(())
    }

    /// Empties the file, so that the download starts again.
    fn clear(&mut self) -> Result<()> {
        let cleared = self.file.set_len(0).and_then(|()| self.file.seek(SeekFrom::Start(0)));
        cleared.map_err(|error| write_error(self.path, error))?;
        (self.bytes, self.hash) = (0, self.empty_hash.clone());
        Ok(())
    }
}
