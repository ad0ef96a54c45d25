//! Serialises a list of attention heads as a list of names such as `L7H9`, as they are written on the command line.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serializer};

use super::HeadPlace;

/// Writes the names of `heads` as a list. Fails if the serializer fails.
pub fn serialize<S: Serializer>(heads: &[HeadPlace], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(heads.iter().map(ToString::to_string))
}

/// Reads a list of head names. Fails unless the value is such a list.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<HeadPlace>, D::Error> {
    let names = Vec::<String>::deserialize(deserializer)?;
    names.iter().map(|name| name.parse().map_err(D::Error::custom)).collect()
}
