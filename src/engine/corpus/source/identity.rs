//! The identity of a corpus: its files by their bytes, and its sampling unit.

use std::collections::BTreeMap;
use std::ptr;

use anyhow::{Result, anyhow};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::corpus::family::Repeats;
use crate::corpus::family::unit::Unit;
use crate::corpus::formats::Format;
use crate::system::errors::{Class, Facts};
use crate::system::files::digest::hex;

/// The identity of a corpus in a report: nothing of it is a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorpusIdentity {
    /// The names of the inputs, joined by ` + `: of files, of folders, `-` for standard input.
    pub name: String,
    pub files: Vec<FileIdentity>,
    /// How often the sentences that were read occur again.
    pub repeats: Repeats,
    pub unit: Unit,
    /// The documents that a limit took of it; absent without such a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documents: Option<TakenDocuments>,
}

impl CorpusIdentity {
    /// Makes sure that it was the same when it was read again.
    pub fn ensure_same(&self, again: &Self) -> Result<()> {
        let changed = || {
            let name = &self.name;
            anyhow!("corpus `{name}` changed while it was analysed, which reads it several times")
                .hint("run again when nothing writes to it")
        };
        if self == again { Ok(()) } else { Err(changed()).class(Class::Input) }
    }

    /// Pairs of files that hold the same bytes under two names: whatever is in both counts twice as evidence. Each comes
    /// with the first of its kind. Empty files say nothing twice.
    pub fn repeated(&self) -> Vec<[&FileIdentity; 2]> {
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
    /// The file's name, or `-` for standard input.
    pub name: String,
    pub format: Format,
    /// SHA-256 of all its bytes as they are stored, compressed or not, lower-case hexadecimal.
    pub sha256: String,
    /// The generator of its sentences, if it names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generated: Option<String>,
}

/// The documents that a limit takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TakenDocuments {
    /// Documents that were read, each whole.
    pub taken: u64,
    /// Documents of the corpus.
    pub of: u64,
}
