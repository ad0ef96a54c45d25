//! A file as a report names it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A file by its name and its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NamedDigest {
    /// Name without folders.
    pub name: String,
    /// SHA-256 of its bytes as they are stored.
    #[schemars(extend("pattern" = "^[0-9a-f]{64}$"))]
    pub sha256: String,
}
