//! A file of a model, opened once for reading and hashing.

use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use anyhow::{Result, anyhow, ensure};
use sha2::{Digest, Sha256};

use crate::system::errors::ErrorExt;
use crate::system::files::digest::hex;
use crate::system::files::input::{self, LFS_POINTER};

/// A file of a model, opened once. Reading and hashing use the opened file, even if another file later takes its path.
#[derive(Clone, Debug)]
pub struct ModelFile {
    path: PathBuf,
    content: FileContent,
    /// Digest of the file, once it has been computed.
    sha256: Arc<OnceLock<String>>,
}

/// The content of a file: an opened file on disk, or bytes in the binary of this program.
#[derive(Clone, Debug)]
enum FileContent {
    OnDisk { file: Arc<File>, opened: Metadata },
    Bundled(&'static [u8]),
}

/// Number of bytes that are read at a time for hashing.
const CHUNK_BYTES: usize = 1 << 20;

impl ModelFile {
    /// Opens a regular file. Fails if the file cannot be opened, is no regular file, is an output of this run, or is a git-LFS
    /// pointer to a file that was not fetched.
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_unless_pointer(path).cannot("read", path.display())
    }

    /// As [`ModelFile::open`], but errors do not name the file.
    fn open_unless_pointer(path: &Path) -> Result<Self> {
        let file = input::open_regular_file(path)?;
        let opened = file.metadata()?;
        let content = FileContent::OnDisk { file: Arc::new(file), opened };
        let file = Self { path: path.to_owned(), content, sha256: Arc::default() };
        let mut beginning = [0; LFS_POINTER.len()];
        if file.size() >= beginning.len() as u64 && file.read_at(&mut beginning, 0).is_ok() {
            input::ensure_no_lfs_pointer(&beginning)?;
        }
        Ok(file)
    }

    /// Makes a file of `bytes` embedded in the binary; messages call it `name`.
    pub fn from_bundled(name: &str, bytes: &'static [u8]) -> Self {
        Self { path: name.into(), content: FileContent::Bundled(bytes), sha256: Arc::default() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the file's size in bytes when it was opened.
    pub fn size(&self) -> u64 {
        match &self.content {
            FileContent::OnDisk { opened, .. } => opened.len(),
            FileContent::Bundled(bytes) => bytes.len() as u64,
        }
    }

    /// Fills `buffer` with the file's bytes from `offset` on. Threads may call it in parallel.
    /// Fails if the file ends before the buffer is full, or cannot be read.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        match &self.content {
            FileContent::OnDisk { file, .. } => read_exact_at(file, buffer, offset),
            FileContent::Bundled(bytes) => {
                let rest = usize::try_from(offset).ok().and_then(|start| bytes.get(start..)).unwrap_or_default();
                let found = rest.get(..buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
                buffer.copy_from_slice(found);
                Ok(())
            }
        }
    }

    /// Reads the entire file. Fails if it has more than `most` bytes, or cannot be read.
    pub fn bytes(&self, most: u64) -> Result<Vec<u8>> {
        let read = || {
            if self.size() > most {
                return Err(input::too_long_error(most));
            }
            let mut bytes = vec![0; usize::try_from(self.size()).map_err(io::Error::other)?];
            self.read_at(&mut bytes, 0)?;
            Ok(bytes)
        };
        read().cannot("read", self.path.display())
    }

    /// Reads the entire file as text, without a byte order mark. Fails as [`bytes`](Self::bytes), or if the file is not UTF-8.
    pub fn text(&self, most: u64) -> Result<String> {
        let text = input::decode_utf8(self.bytes(most)?).cannot("read", self.path.display())?;
        Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
    }

    /// Passes the entire file to `show`, chunk by chunk.
    /// Fails if the file cannot be read, or has changed since it was opened.
    pub(in crate::model) fn for_each_chunk(&self, mut show: impl FnMut(&[u8])) -> Result<()> {
        let size = self.size();
        let mut chunk = vec![0; usize::try_from(size).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES)];
        let mut done = 0;
        while done < size {
            let piece = usize::try_from(size - done).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
            self.read_at(&mut chunk[..piece], done).cannot("read", self.path.display())?;
            show(&chunk[..piece]);
            done += piece as u64;
        }
        self.ensure_unchanged()
    }

    /// Returns the SHA-256 of the file in lower-case hexadecimal, computed once.
    /// Fails if the file cannot be read, or has changed since it was opened.
    pub fn sha256(&self) -> Result<String> {
        if let Some(known) = self.sha256.get() {
            return Ok(known.clone());
        }
        let found = hash_concatenated(std::slice::from_ref(self))?;
        Ok(self.sha256.get_or_init(|| found).clone())
    }

    /// Fails if the file has been written to since it was opened.
    pub(in crate::model) fn ensure_unchanged(&self) -> Result<()> {
        let FileContent::OnDisk { file, opened } = &self.content else { return Ok(()) };
        let now = file.metadata().cannot("read", self.path.display())?;
        let is_unchanged = now.len() == opened.len() && now.modified().ok() == opened.modified().ok();
        let shown = self.path.display();
        let changed = || anyhow!("`{shown}` was changed while it was read").with_file(&shown);
        ensure!(is_unchanged, changed().hint("run again when it is whole"));
        Ok(())
    }
}

/// Returns the SHA-256 of several files concatenated in order. Fails as [`ModelFile::sha256`].
pub(in crate::model) fn sha256(files: &[ModelFile]) -> Result<String> {
    if let [file] = files { file.sha256() } else { hash_concatenated(files) }
}

/// Hashes the files one after the other, as if they were concatenated.
fn hash_concatenated(files: &[ModelFile]) -> Result<String> {
    let mut hash = Sha256::new();
    files.iter().try_for_each(|file| file.for_each_chunk(|chunk| hash.update(chunk)))?;
    Ok(hex(&hash.finalize()))
}

fn read_exact_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    #[cfg(unix)]
    return std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset);
    #[cfg(windows)]
    {
        use std::os::windows::fs::FileExt;
        let mut done = 0;
        while done < buffer.len() {
            match file.seek_read(&mut buffer[done..], offset + done as u64) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn what_is_renamed_into_its_place_is_another_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "abc").unwrap();
        let file = ModelFile::open(&path).unwrap();
        fs::write(folder.path().join("new"), "xyz").unwrap();
        fs::rename(folder.path().join("new"), &path).unwrap();
        // FIPS 180-2, appendix B.1.
        assert_eq!(file.sha256().unwrap(), ABC);
        assert_eq!(file.bytes(3).unwrap(), b"abc");
    }

    #[test]
    fn what_is_written_to_it_meanwhile_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "abc").unwrap();
        let file = ModelFile::open(&path).unwrap();
        fs::write(&path, "abcd").unwrap();
        let error = file.sha256().unwrap_err().to_string();
        insta::assert_snapshot!(error.replace(folder.path().to_str().unwrap(), "DIR"), @"`DIR/file` was changed while it was read: run again when it is whole");
    }

    #[test]
    fn a_file_of_the_binary_is_read_like_any_other() {
        let file = ModelFile::from_bundled("box:x/y", b"abc");
        let mut buffer = [0; 2];
        file.read_at(&mut buffer, 1).unwrap();
        assert_eq!((&buffer, file.size(), file.sha256().unwrap().as_str()), (b"bc", 3, ABC));
        for offset in [2, 4, u64::MAX] {
            assert_eq!(file.read_at(&mut buffer, offset).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
    }

    #[test]
    fn what_git_has_not_fetched_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        fs::write(&path, "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 438\n").unwrap();
        let error = format!("{:#}", ModelFile::open(&path).unwrap_err());
        insta::assert_snapshot!(error.replace(folder.path().to_str().unwrap(), "DIR"), @"cannot read `DIR/model.safetensors`: it is a pointer of git LFS and not the file itself: run `git lfs pull` in its folder");
    }

    #[test]
    fn text_loses_its_byte_order_mark_and_has_a_bound() {
        let file = ModelFile::from_bundled("f", "\u{feff}{}".as_bytes());
        assert_eq!(file.text(5).unwrap(), "{}");
        assert_eq!(
            format!("{:#}", file.text(4).unwrap_err()),
            "cannot read `f`: it has more than 4 bytes, the most that is read of it"
        );
    }
}
