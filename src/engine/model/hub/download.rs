//! Bringing a file into the cache: whole and as expected, or not at all.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};

use super::backoff::Backoff;
use super::cache::{Cache, cannot_write, create_parent};
use super::client::{Client, Remote};
use super::commit::Commit;
use super::digest::{ExpectedFile, Hasher};
use super::failure::{Failure, unavailable};
use crate::model::files::ModelFile;
use crate::system::errors::Class;
use crate::system::errors::Facts;
use crate::system::files::shared;
use crate::system::progress::DownloadProgress;

/// A file of a commit that is being downloaded into the cache.
pub(super) struct Download<'a> {
    pub(super) client: &'a Client<'a>,
    pub(super) cache: &'a Cache,
    pub(super) commit: &'a Commit,
    pub(super) file: &'a str,
    /// The most bytes that it may have.
    pub(super) most: u64,
    pub(super) progress: &'a dyn DownloadProgress,
}

impl Download<'_> {
    /// Fetches the file.
    ///
    /// The bytes so far stay when the download breaks off, in this run or for good, and the next try requests the rest.
    /// The file becomes a blob only if its size and its digest are right.
    pub(super) fn run(&self, backoff: Backoff) -> Result<()> {
        let mut attempts = backoff.begin();
        // The most that was there so far: connections may break off again and again as long as this grows.
        let mut most = 0;
        loop {
            let before = most;
            let Err(failure) = self.attempt(&mut most) else { return Ok(()) };
            if most > before {
                attempts.succeeded();
            }
            attempts
                .failed(failure, self.progress)
                .map_err(|failure| match failure {
                    Failure::Refused(error) => error,
                    Failure::Unavailable { error, .. } => error.class(Class::Temporary),
                })
                .with_context(|| format!("cannot download {} of `{}`", self.file, self.client.id))?;
        }
    }

    /// One try; `most` grows to the number of bytes that are there, unless they came too slowly.
    fn attempt(&self, most: &mut u64) -> Result<(), Failure> {
        let mut remote = self.client.locate(self.commit, self.file, self.most)?;
        let lock = self.cache.lock(&remote.etag, self.progress).map_err(Failure::Refused)?;
        let blob = self.cache.blob(&remote.etag);
        // The same bytes may be there already, from another commit or another process.
        let there = ModelFile::open(&blob)
            .is_ok_and(|file| file.size() == remote.expected.bytes && remote.expected.digest.ensure_of(&file).is_ok());
        if !there {
            let path = self.cache.partial(&remote.etag, lock.as_ref());
            create_parent(&path).map_err(Failure::Refused)?;
            let mut partial = Partial::open(&path, &remote.expected).map_err(|error| cannot_keep(&path, error))?;
            let mut rate = Rate::new(self.client.piece_timeout());
            let received = self.receive(&mut remote, &mut partial, &path, &mut rate);
            if !rate.was_slow {
                *most = partial.bytes.max(*most);
            }
            if received.is_err() && partial.bytes == 0 {
                // The error at hand says more than a second one would.
                let _ = fs::remove_file(&path);
            }
            received?;
            let moved = partial.file.sync_all().and_then(|()| fs::rename(&path, &blob));
            moved.map_err(|error| cannot_keep(&blob, error))?;
        }
        self.cache.link(&self.commit.sha, self.file, &remote.etag).map_err(Failure::Refused)
    }

    /// Writes the bytes to `partial` until it is whole, and checks its size and its digest.
    fn receive(&self, remote: &mut Remote, partial: &mut Partial, path: &Path, rate: &mut Rate) -> Result<(), Failure> {
        let mut resumed = partial.bytes > 0;
        let expected = remote.expected.bytes;
        if partial.bytes != expected {
            let mut incoming = self.client.open(remote, self.file, partial.bytes)?;
            if incoming.start == 0 && resumed {
                partial.clear().map_err(|error| cannot_keep(path, error))?;
                resumed = false;
            }
            self.progress.start(self.file, expected);
            self.progress.advance(partial.bytes);
            let copied = self.copy(&mut incoming.body, expected, partial, path, rate);
            self.progress.finish();
            copied?;
        }
        self.check(&remote.expected, partial).map_err(|problem| {
            // An error here would show again as soon as anything is written.
            let _ = partial.clear();
            // A download in one piece would fail the same way again; one in several pieces may hold an old mistake.
            if resumed { unavailable(anyhow!(problem)) } else { Failure::Refused(anyhow!(problem).hint("try again")) }
        })
    }

    /// Copies all that comes until there is more than was expected.
    fn copy(
        &self,
        body: &mut dyn Read,
        expected: u64,
        partial: &mut Partial,
        path: &Path,
        rate: &mut Rate,
    ) -> Result<(), Failure> {
        let broke_off = |bytes: u64| format!("the connection broke off after {bytes} of {expected} bytes");
        let mut chunk = vec![0; 1 << 16];
        while partial.bytes <= expected {
            match body.read(&mut chunk) {
                Ok(0) => break,
                Ok(read) => {
                    partial.append(&chunk[..read]).map_err(|error| cannot_keep(path, error))?;
                    self.progress.advance(read as u64);
                    rate.ensure(read).map_err(unavailable)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(unavailable(anyhow!(error).context(broke_off(partial.bytes)))),
            }
        }
        if partial.bytes < expected {
            return Err(unavailable(anyhow!(broke_off(partial.bytes))));
        }
        Ok(())
    }

    /// The fault of a download that differs from the expected file.
    fn check(&self, expected: &ExpectedFile, partial: &Partial) -> Result<(), String> {
        let ExpectedFile { bytes, digest } = expected;
        if *bytes != partial.bytes {
            return Err(format!("more than the {bytes} bytes came that the Hub promised, and were thrown away"));
        }
        let found = partial.hash.clone().finish();
        if found == *digest {
            return Ok(());
        }
        Err(format!("{} came with {found} where the Hub promised {}, and was thrown away", self.file, digest.value()))
    }
}

/// How fast a file comes: a server that sends a byte a second is no better than one that has stopped.
struct Rate {
    window: Duration,
    began: Instant,
    bytes: usize,
    was_slow: bool,
}

/// The slowest that is waited for, in bytes a second; a modem of the year 1990 was as fast.
const SLOWEST: f64 = 1024.0;

/// Over how many of the times that one piece may take the pace is measured.
const PIECES: u32 = 3;

impl Rate {
    fn new(piece_timeout: Duration) -> Self {
        Self { window: piece_timeout * PIECES, began: Instant::now(), bytes: 0, was_slow: false }
    }

    /// Counts what has come.
    /// Fails if that was too little over a window that has passed.
    fn ensure(&mut self, read: usize) -> Result<()> {
        self.bytes += read;
        if self.began.elapsed() < self.window {
            return Ok(());
        }
        let bytes = std::mem::take(&mut self.bytes);
        let seconds = std::mem::replace(&mut self.began, Instant::now()).elapsed().as_secs_f64();
        self.was_slow = (bytes as f64) < SLOWEST * seconds;
        ensure!(!self.was_slow, "only {bytes} bytes came in {seconds:.1} s");
        Ok(())
    }
}

/// An error with a file of the cache is not the Hub's, so that no further try helps.
fn cannot_keep(path: &Path, error: io::Error) -> Failure {
    Failure::Refused(cannot_write(path, error))
}

/// The part of a file that has come so far.
struct Partial {
    file: File,
    bytes: u64,
    hash: Hasher,
    /// The hash of nothing.
    empty: Hasher,
}

impl Partial {
    /// Opens a file that is not whole, to go on with it.
    fn open(path: &Path, expected: &ExpectedFile) -> io::Result<Self> {
        let file = shared::open(path)?;
        let empty = expected.digest.begin(expected.bytes);
        let mut partial = Self { file, bytes: 0, hash: empty.clone(), empty };
        let mut chunk = vec![0; 1 << 16];
        loop {
            match partial.file.read(&mut chunk)? {
                0 => return Ok(partial),
                read => partial.count(&chunk[..read]),
            }
        }
    }

    fn count(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.count(bytes);
        Ok(())
    }

    fn clear(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.seek(SeekFrom::Start(0))?;
        (self.bytes, self.hash) = (0, self.empty.clone());
        Ok(())
    }
}
