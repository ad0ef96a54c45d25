//! Serialises heads as their names alone, as on the command line.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serializer};

use super::HeadPlace;

/// Writes the names. Fails if the writer does.
pub fn serialize<S: Serializer>(heads: &[HeadPlace], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(heads.iter().map(ToString::to_string))
}

/// Reads the names. Fails unless the value is a list of head names.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<HeadPlace>, D::Error> {
    let names = Vec::<String>::deserialize(deserializer)?;
    names.iter().map(|name| name.parse().map_err(D::Error::custom)).collect()
}
