//! Partials to one observation: what belongs together, and what is missing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};

use super::identity::Identity;
use super::observation::{Observation, Stage};
use super::partial::{self, Restore};
use crate::sequences::shard::Shard;

/// How many missing shards a message names.
const NAMED: usize = 10;

/// The partials of one stage.
struct Gathered<'a> {
    /// How many shards there are.
    of: u32,
    /// The file of each, by its number.
    given: BTreeMap<u32, &'a Path>,
    sum: Observation,
}

impl<'a> Gathered<'a> {
    fn new(path: &'a Path, shard: Shard, part: Observation) -> Self {
        Self { of: shard.of(), given: BTreeMap::from([(shard.number(), path)]), sum: part }
    }

    /// Some file of it.
    fn path(&self) -> std::path::Display<'_> {
        self.given.values().next().expect("there is one").display()
    }

    fn add(&mut self, path: &'a Path, shard: Shard, part: &Observation) -> Result<()> {
        let (of, others) = (self.of, shard.of());
        let (here, there) = (path.display(), self.path());
        ensure!(of == others, "cannot merge `{there}` and `{here}`: one is of {of} shards and the other of {others}");
        ensure!(
            self.sum.stage == part.stage,
            "cannot merge `{there}` and `{here}`: they were run after other sums, or by another policy: run one of them again \
             with the --after of the other"
        );
        if let Some(other) = self.given.insert(shard.number(), path) {
            bail!("`{}` and `{here}` are both shard {shard}: give each shard once", other.display());
        }
        self.sum.merge(part);
        Ok(())
    }

    /// The sum, if every shard was given.
    fn whole(self) -> Result<Observation> {
        let Self { of, given, sum } = self;
        let missing: Vec<u32> = (1..=of).filter(|number| !given.contains_key(number)).collect();
        if missing.is_empty() {
            return Ok(sum);
        }
        let mut named: Vec<String> = missing.iter().take(NAMED).map(|number| format!("{number}/{of}")).collect();
        named.extend((missing.len() > NAMED).then(|| format!("and {} more", missing.len() - NAMED)));
        let after = if matches!(sum.stage, Stage::After { .. }) { " that were run with --after" } else { "" };
        bail!("{} of {of} shards{after} are missing: {}", missing.len(), named.join(", "))
    }
}

/// Adds up partials, given in any order, that are together all shards of one corpus: of a run of two stages those of the
/// first, or of both.
///
/// # Errors
///
/// If a partial cannot be used, two are not of one run or are the same shard, or a shard is missing.
pub fn all(paths: &[PathBuf], restore: Restore<'_>) -> Result<Observation> {
    let mut stages: [Option<Gathered<'_>>; 2] = [None, None];
    let mut first: Option<(&Path, Identity)> = None;
    for path in paths {
        let (shard, part) = partial::read(path, restore)?;
        let (there, identity) = first.get_or_insert_with(|| (path, part.identity.clone()));
        if let Some(difference) = identity.difference(&part.identity) {
            bail!("cannot merge `{}` and `{}`: {difference}", there.display(), path.display());
        }
        match &mut stages[usize::from(matches!(part.stage, Stage::After { .. }))] {
            Some(gathered) => gathered.add(path, shard, &part)?,
            none => *none = Some(Gathered::new(path, shard, part)),
        }
    }
    let [first, after] = stages.map(|stage| stage.map(Gathered::whole).transpose());
    match (first?, after?) {
        (None, None) => bail!("there is nothing to merge: name the partials"),
        (None, Some(_)) => {
            bail!("the sums that these were run after are missing: name the file that --after was given as well")
        }
        (Some(first), None) => Ok(first),
        (Some(mut first), Some(after)) => {
            let digest = first.digest()?;
            ensure!(
                matches!(&after.stage, Stage::After { sums, .. } if *sums == digest),
                "the partials of the second stage were run after other sums: name the file that --after was given"
            );
            first.followed_by(after);
            Ok(first)
        }
    }
}
