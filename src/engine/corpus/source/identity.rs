//! The identity of a corpus: its files by their bytes, and its sampling unit.

use std::collections::BTreeMap;
use std::ptr;

use anyhow::{Result, anyhow, ensure};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::corpus::family::{RepeatCounts, Unit};
use crate::corpus::formats::Format;
use crate::system::errors::{ErrorClass, ErrorExt};
use crate::system::files::digest::hex;

/// Identity of a corpus in a report: its files by name and SHA-256, and its sampling unit. It holds no path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorpusIdentity {
    /// Names of the input files and folders, joined by ` + `; `-` is standard input.
    pub name: String,
    pub files: Vec<FileIdentity>,
    pub repeats: RepeatCounts,
    pub unit: Unit,
    /// Number of documents taken under a sentence limit, and of all documents. `None` without a limit, or if documents are
    /// not the sampling unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documents: Option<TakenDocuments>,
}

impl CorpusIdentity {
    /// Fails if `again`, the identity of the corpus after another reading, differs: the corpus changed between the
    /// readings.
    pub fn ensure_same(&self, again: &Self) -> Result<()> {
        let changed = || anyhow!("corpus `{}` changed while it was analysed, which reads it several times", self.name);
        ensure!(self == again, changed().hint("run again when nothing writes to it").class(ErrorClass::Input));
        Ok(())
    }

    /// Pairs of non-empty files with equal bytes, whose sentences count twice as evidence: `[first, repeat]`.
    pub fn equal_files(&self) -> Vec<[&FileIdentity; 2]> {
        let empty = hex(&Sha256::digest([]));
        let mut first: BTreeMap<&str, &FileIdentity> = BTreeMap::new();
        let mut repeated = Vec::new();
        for file in self.files.iter().filter(|file| file.sha256 != empty) {
            let known = *first.entry(&file.sha256).or_insert(file);
            if !ptr::eq(known, file) {
                repeated.push([known, file]);
            }
        }
        repeated
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileIdentity {
    pub name: String,
    pub format: Format,
    /// SHA-256 of all stored bytes, compressed or not, lower-case hexadecimal.
    pub sha256: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generated: Option<String>,
}

/// Number of documents that a limit on sentences (`--limit`) took, and number of all documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TakenDocuments {
    /// Number of documents read, each to its end.
    pub taken: u64,
    /// Number of documents in the corpus.
    pub of: u64,
}
