//! Partials to one observation: what belongs together, and what is missing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use super::observation::Observation;
use super::partial::{self, Restore};

/// How many missing shards a message names.
const NAMED: usize = 10;

/// Adds up partials, given in any order, that are together all shards of one corpus.
///
/// # Errors
///
/// If a partial cannot be used, two are not of one run or are the same shard, or a shard is missing.
pub fn all(paths: &[PathBuf], restore: Restore<'_>) -> Result<Observation> {
    let (first_path, others) = paths.split_first().context("there is nothing to merge: name the partials")?;
    let (first, mut whole) = partial::read(first_path, restore)?;
    let mut given: BTreeMap<u32, &Path> = BTreeMap::from([(first.number(), first_path.as_path())]);
    for path in others {
        let (shard, part) = partial::read(path, restore)?;
        let (here, there) = (path.display(), first_path.display());
        if let Some(difference) = whole.identity.difference(&part.identity) {
            bail!("cannot merge `{there}` and `{here}`: {difference}");
        }
        let (of, others) = (first.of(), shard.of());
        ensure!(of == others, "cannot merge `{there}` and `{here}`: one is of {of} shards and the other of {others}");
        if let Some(other) = given.insert(shard.number(), path) {
            bail!("`{}` and `{here}` are both shard {shard}: give each shard once", other.display());
        }
        whole.merge(&part);
    }
    let missing: Vec<u32> = (1..=first.of()).filter(|number| !given.contains_key(number)).collect();
    if !missing.is_empty() {
        let mut named: Vec<String> =
            missing.iter().take(NAMED).map(|number| format!("{number}/{}", first.of())).collect();
        named.extend((missing.len() > NAMED).then(|| format!("and {} more", missing.len() - NAMED)));
        bail!("{} of {} shards are missing: {}", missing.len(), first.of(), named.join(", "));
    }
    Ok(whole)
}
