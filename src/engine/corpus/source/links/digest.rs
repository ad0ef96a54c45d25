//! A file as a report names it.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::system::files::digest::hex;

/// A file by its name and its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NamedDigest {
    /// Name without folders.
    pub name: String,
    /// SHA-256 of its bytes as they are stored.
    #[schemars(extend("pattern" = "^[0-9a-f]{64}$"))]
    pub sha256: String,
}

impl NamedDigest {
    pub fn new(path: &Path, sha256: String) -> Self {
        let name = path.file_name().unwrap_or(path.as_os_str());
        Self { name: name.to_string_lossy().into_owned(), sha256 }
    }

    pub fn of_text(path: &Path, text: &str) -> Self {
        Self::new(path, hex(&Sha256::digest(text)))
    }
}
