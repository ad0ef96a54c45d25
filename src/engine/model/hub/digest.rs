//! The size and digest of a file, which the Hub states before the download.

use std::fmt;

use anyhow::{Result, anyhow, ensure};
use sha1::Sha1;
use sha2::digest::DynDigest;
use sha2::{Digest as _, Sha256};

use crate::model::files::ModelFile;
use crate::system::errors::ErrorExt;
use crate::system::files::digest::hex;

/// A digest of a file's content, in lower-case hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Digest {
    pub(super) value: String,
}

impl Digest {
    /// Parses an `ETag` or the name of a blob in the cache; `None` if it is no digest.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let value = name.to_ascii_lowercase();
        let is_hexadecimal = value.bytes().all(|byte| byte.is_ascii_hexdigit());
        (is_hexadecimal && [40, 64].contains(&value.len())).then_some(Self { value })
    }

    /// Whether the digest is the SHA-1 of a git blob, for files that the Hub stores in git (gitformat-loose(5)). Otherwise it
    /// is SHA-256, for large files (<https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md>).
    fn is_git_sha1(&self) -> bool {
        self.value.len() == 40
    }

    /// Starts a hasher of the digest's algorithm, for content of `bytes` bytes.
    pub(super) fn hasher(&self, bytes: u64) -> Hasher {
        if self.is_git_sha1() {
            Box::new(Sha1::new_with_prefix(format!("blob {bytes}\0")))
        } else {
            Box::new(Sha256::new())
        }
    }

    /// Returns the digest of all bytes that `hasher` has read.
    pub(super) fn from_hasher(hasher: Hasher) -> Self {
        Self { value: hex(&hasher.finalize()) }
    }

    /// Fails if a file has another digest than this one, or cannot be read.
    pub(super) fn ensure_matches(&self, file: &ModelFile) -> Result<()> {
        let found = if self.is_git_sha1() {
            let mut hasher = self.hasher(file.size());
            file.for_each_chunk(|chunk| hasher.update(chunk))?;
            Self::from_hasher(hasher)
        } else {
            // The file caches its SHA-256, which the report states for the weights.
            Self { value: file.sha256()? }
        };
        let shown = file.path().display();
        ensure!(
            found == *self,
            anyhow!("`{shown}` has {found}, and not {self} by which it is called")
                .with_file(&shown)
                .hint("delete it, and it is downloaded again")
        );
        Ok(())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", if self.is_git_sha1() { "git SHA-1" } else { "SHA-256" }, self.value)
    }
}

/// Hasher of either algorithm, SHA-1 or SHA-256.
pub(super) type Hasher = Box<dyn DynDigest>;

/// The size and digest that a file must have after its download.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ExpectedFile {
    /// Size of the file, in bytes.
    pub(super) bytes: u64,
    pub(super) digest: Digest,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_told_by_its_length() {
        // `printf abc | git hash-object --stdin`, and FIPS 180-2, appendix B.1.
        let git = "f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f";
        let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let file = ModelFile::from_bundled("abc", b"abc");
        for name in [git, sha256, &sha256.to_uppercase()] {
            Digest::parse(name).unwrap().ensure_matches(&file).unwrap();
        }
        for name in ["", "main", &git[1..], &sha256.replace('b', "x")] {
            assert_eq!(Digest::parse(name), None);
        }
        let other = Digest::parse(&git.replace('f', "e")).unwrap();
        insta::assert_snapshot!(other.ensure_matches(&file).unwrap_err(), @"`abc` has git SHA-1 f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f, and not git SHA-1 e2ba8e84ab5c1bce84a7b441cb1959cec7093b7e by which it is called: delete it, and it is downloaded again");
    }
}
