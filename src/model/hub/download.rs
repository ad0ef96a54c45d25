//! Bringing a file into the cache: whole and as promised, or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use anyhow::{Result, anyhow};
use sha2::{Digest, Sha256};

use super::cache::{Cache, cannot_write, create_parent};
use super::client::{Client, Failure, Remote, unavailable};
use super::patience::Patience;
use crate::system::digest::hex;
use crate::system::progress::DownloadProgress;

/// A file of a commit on its way into the cache.
pub(super) struct Download<'a> {
    pub(super) client: &'a Client<'a>,
    pub(super) cache: &'a Cache,
    pub(super) commit: &'a str,
    pub(super) file: &'a str,
    pub(super) progress: &'a dyn DownloadProgress,
}

impl Download<'_> {
    /// Fetches the file.
    ///
    /// What has come of a file whose digest is known stays when the download breaks off, in this run or for good, and
    /// the next try asks for the rest. Such a file becomes a blob only if its digest is right.
    pub(super) fn run(&self, patience: Patience) -> Result<()> {
        let mut attempts = patience.begin();
        // The most that was there so far: connections may break off again and again as long as this grows.
        let mut most = 0;
        loop {
            let before = most;
            let Err(failure) = self.attempt(&mut most) else { return Ok(()) };
            if most > before {
                attempts.succeeded();
            }
            attempts.failed(failure, self.progress).map_err(|failure| match failure {
                Failure::Refused(error) | Failure::Unavailable { error, .. } => {
                    error.context(format!("cannot download {} of `{}`", self.file, self.client.id))
                }
            })?;
        }
    }

    /// One try; `most` grows to the number of bytes that are there.
    fn attempt(&self, most: &mut u64) -> Result<(), Failure> {
        let mut remote = self.client.locate(self.commit, self.file)?;
        let lock = self.cache.lock(&remote.etag, self.progress).map_err(Failure::Refused)?;
        let blob = self.cache.blob(&remote.etag);
        // The same bytes may be there already, from another commit or another process.
        let there = blob.metadata().is_ok_and(|blob| remote.bytes.is_none_or(|bytes| bytes == blob.len()));
        if !there {
            let path = self.cache.partial(&remote.etag, lock.as_ref());
            create_parent(&path).map_err(Failure::Refused)?;
            let resumable = remote.sha256().is_some();
            let mut partial = Partial::open(&path, resumable).map_err(|error| cannot_keep(&path, error))?;
            let received = self.receive(&mut remote, &mut partial, &path);
            *most = partial.bytes.max(*most);
            if received.is_err() && (!resumable || partial.bytes == 0) {
                // The error at hand says more than a second one would.
                let _ = fs::remove_file(&path);
            }
            received?;
            let moved = partial.file.sync_all().and_then(|()| fs::rename(&path, &blob));
            moved.map_err(|error| cannot_keep(&blob, error))?;
        }
        self.cache.link(self.commit, self.file, &remote.etag).map_err(Failure::Refused)
    }

    /// Writes what comes to `partial` until it is whole, and holds its size and its digest against what was promised.
    fn receive(&self, remote: &mut Remote, partial: &mut Partial, path: &Path) -> Result<(), Failure> {
        let mut resumed = partial.bytes > 0;
        let whole = remote.bytes.is_some_and(|bytes| bytes == partial.bytes);
        if !whole {
            let mut incoming = self.client.open(remote, self.file, partial.bytes)?;
            if incoming.start == 0 && resumed {
                partial.clear().map_err(|error| cannot_keep(path, error))?;
                resumed = false;
            }
            self.progress.start(self.file, remote.bytes.unwrap_or(0));
            self.progress.advance(partial.bytes);
            let copied = self.copy(&mut incoming.body, remote.bytes, partial, path);
            self.progress.finish();
            copied?;
        }
        self.check(remote, partial).map_err(|problem| {
            // An error here would show again as soon as anything is written.
            let _ = partial.clear();
            // What came in one piece would come so again; what was put together may hold an old mistake.
            if resumed { unavailable(anyhow!(problem)) } else { Failure::Refused(anyhow!("{problem}: try again")) }
        })
    }

    /// Copies all that comes until there is more than was promised.
    fn copy(
        &self,
        body: &mut dyn Read,
        promised: Option<u64>,
        partial: &mut Partial,
        path: &Path,
    ) -> Result<(), Failure> {
        let broke_off = |bytes: u64| match promised {
            Some(promised) => format!("the connection broke off after {bytes} of {promised} bytes"),
            None => format!("the connection broke off after {bytes} bytes"),
        };
        let mut chunk = vec![0; 1 << 16];
        while promised.is_none_or(|promised| partial.bytes <= promised) {
            match body.read(&mut chunk) {
                Ok(0) => break,
                Ok(read) => {
                    partial.append(&chunk[..read]).map_err(|error| cannot_keep(path, error))?;
                    self.progress.advance(read as u64);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(unavailable(anyhow!(error).context(broke_off(partial.bytes)))),
            }
        }
        if promised.is_some_and(|promised| partial.bytes < promised) {
            return Err(unavailable(anyhow!(broke_off(partial.bytes))));
        }
        Ok(())
    }

    /// Says what is wrong if what came is not what was promised.
    fn check(&self, remote: &Remote, partial: &Partial) -> Result<(), String> {
        if let Some(promised) = remote.bytes.filter(|&promised| promised != partial.bytes) {
            return Err(format!("more than the {promised} bytes came that the Hub promised, and were thrown away"));
        }
        let digest = hex(&partial.hash.clone().finalize());
        match remote.sha256().filter(|promised| !promised.eq_ignore_ascii_case(&digest)) {
            Some(promised) => Err(format!(
                "{} came with SHA-256 {digest} where the Hub promised {promised}, and was thrown away",
                self.file
            )),
            None => Ok(()),
        }
    }
}

/// An error with a file of the cache is not the Hub's, so that no further try helps.
fn cannot_keep(path: &Path, error: io::Error) -> Failure {
    Failure::Refused(anyhow!(error).context(cannot_write(path)))
}

/// What there is of a file so far.
struct Partial {
    file: File,
    bytes: u64,
    hash: Sha256,
}

impl Partial {
    /// Opens a file that is not whole, to go on with it if `resume`, else to begin anew.
    fn open(path: &Path, resume: bool) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(!resume).open(path)?;
        let mut partial = Self { file, bytes: 0, hash: Sha256::new() };
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
        (self.bytes, self.hash) = (0, Sha256::new());
        Ok(())
    }
}
