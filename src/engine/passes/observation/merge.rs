//! Merges partials into one observation: checks that they fit together, and finds the missing shards.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, ensure};
use itertools::Itertools;

use super::identity::Identity;
use super::partial::{self, EXTENSION, RestoreSums};
use super::{Observation, Stage};
use crate::sequences::shard::Shard;
use crate::system::counts::{format_count, plural};
use crate::system::errors::{ErrorClass, ErrorExt};

/// Maximum number of missing shards that a message names.
const MAX_NAMED_SHARDS: usize = 10;

/// The partials of one stage of a run that exist so far.
struct StageShards<'a> {
    /// Number of shards of the run, existing and missing ones.
    count: u32,
    stage: Stage,
    /// The file of each existing shard, by shard number.
    files: BTreeMap<u32, &'a Path>,
}

impl<'a> StageShards<'a> {
    fn new(path: &'a Path, shard: Shard, stage: Stage) -> Self {
        Self { count: shard.shard_count(), stage, files: BTreeMap::from([(shard.number(), path)]) }
    }

    fn add(&mut self, path: &'a Path, shard: Shard, stage: &Stage) -> Result<()> {
        let (count, others) = (self.count, shard.shard_count());
        let (here, there) = (path.display(), self.first_file().display());
        let cannot = |why: &str| anyhow!("cannot merge `{there}` and `{here}`: {why}").with_file(&there);
        ensure!(
            count == others,
            cannot(&format!("one is of {} and the other of {others}", format_count(count, "shard")))
        );
        ensure!(
            self.stage == *stage,
            cannot("they were run after other sums, or by another policy")
                .hint("run one of them again with the --after of the other")
        );
        if let Some(other) = self.files.insert(shard.number(), path) {
            let both = anyhow!("`{}` and `{here}` are both shard {shard}", other.display());
            return Err(both.with_file(other.display()).with_value(shard).hint("give each shard once"));
        }
        Ok(())
    }

    /// The file of the existing shard with the lowest number.
    fn first_file(&self) -> &'a Path {
        self.files.values().next().expect("there is one")
    }

    /// Numbers of the missing shards, ascending.
    fn missing_numbers(&self) -> Vec<u32> {
        (1..=self.count).filter(|number| !self.files.contains_key(number)).collect()
    }

    /// Fails if a shard is missing.
    fn ensure_all_shards(&self) -> Result<()> {
        let (count, missing) = (self.count, self.missing_numbers());
        if missing.is_empty() {
            return Ok(());
        }
        let more = missing.len().checked_sub(MAX_NAMED_SHARDS).filter(|&more| more > 0);
        let named = missing.iter().take(MAX_NAMED_SHARDS).map(|shard| format!("{shard}/{count}"));
        let named = named.chain(more.map(|more| format!("and {more} more"))).join(", ");
        let suffix = if self.stage.is_second_stage() { " that were run with --after" } else { "" };
        let (shards, are) = (format_count(count, "shard"), plural(&missing.len(), "is", "are"));
        let message = format!("{} of {shards}{suffix} {are} missing: {named}", missing.len());
        Err(anyhow!(message)).class(ErrorClass::Incomplete)
    }
}

/// Fails unless `identity`, of the partial at `path`, equals the identity of the `first` partial; without a `first`, it
/// becomes the first.
fn ensure_same_run<'a>(first: &mut Option<(&'a Path, Identity)>, path: &'a Path, identity: &Identity) -> Result<()> {
    let (first_path, first_identity) = first.get_or_insert_with(|| (path, identity.clone()));
    let Some(difference) = first_identity.first_difference(identity) else { return Ok(()) };
    let first_path = first_path.display();
    Err(anyhow!("cannot merge `{first_path}` and `{}`: {difference}", path.display()).with_file(&first_path))
}

/// The shards of a run that have no usable partial.
pub struct MissingShards {
    /// Numbers of the missing shards, ascending.
    pub numbers: Vec<u32>,
    /// Whether the partials are from the first of two stages. The second stage is then missing too.
    pub is_first_stage: bool,
    /// Descriptions of damaged partials, whose shards count as missing.
    pub damaged: Vec<String>,
}

/// Finds the shards without a partial among the `of` shards of a run; the sums are not read. Damaged partials count as
/// missing, and are listed. Fails if a file was never a partial, or if a partial belongs to a run of more or fewer
/// shards. Also fails if two partials are of different runs or stages, or of one shard.
pub fn find_missing_shards(paths: &[PathBuf], of: u32) -> Result<MissingShards> {
    let (mut shards, mut first, mut damaged): (Option<StageShards<'_>>, _, _) = (None, None, Vec::new());
    for path in paths {
        let header = match partial::read_header(path) {
            Err(error) if partial::DamagedPartial::is_cause_of(&error) => {
                damaged.push(format!("{error:#}"));
                continue;
            }
            read => read?,
        };
        let (shown, others) = (path.display(), header.shard.shard_count());
        if let Some(shards) =
            shards.as_ref().filter(|shards| shards.stage.is_second_stage() != header.stage.is_second_stage())
        {
            let (first, second) = if shards.stage.is_second_stage() {
                (path.as_path(), shards.first_file())
            } else {
                (shards.first_file(), path.as_path())
            };
            let error = anyhow!(
                "`{}` is of the first of two stages and `{}` of the second, and what is missing is told of one",
                first.display(),
                second.display()
            );
            return Err(error.with_file(first.display()).hint(format!(
                "name the parts of one stage, as in `*-of-{of}.{EXTENSION}` or `*-of-{of}-after.{EXTENSION}`, or keep each \
                 stage in a folder of its own"
            )));
        }
        if others != of {
            let error = anyhow!("`{shown}` is shard {} and not of {of}", header.shard)
                .with_file(shown)
                .with_value(header.shard);
            return Err(error.hint(format!("was the corpus run in {others}?")));
        }
        ensure_same_run(&mut first, path, &header.identity)?;
        match &mut shards {
            Some(shards) => shards.add(path, header.shard, &header.stage)?,
            none => *none = Some(StageShards::new(path, header.shard, header.stage)),
        }
    }
    let is_of_first = shards.as_ref().is_some_and(|shards| shards.stage == Stage::First);
    let numbers = shards.map_or_else(|| (1..=of).collect(), |shards| shards.missing_numbers());
    Ok(MissingShards { numbers, is_first_stage: is_of_first, damaged })
}

/// Adds up the partials of all shards, in any order. For a run of two stages, they are the partials of the first stage, or
/// of both. Fails if a partial is unusable, a shard is missing, two partials are of one shard, or partials are from
/// different runs.
pub fn merge_all(paths: &[PathBuf], restore: RestoreSums<'_>) -> Result<Observation> {
    let mut stages: [Option<(StageShards<'_>, Observation)>; 2] = [None, None];
    let mut first: Option<(&Path, Identity)> = None;
    for path in paths {
        let (shard, part) = partial::read(path, restore)?;
        ensure_same_run(&mut first, path, &part.identity)?;
        match &mut stages[usize::from(part.stage.is_second_stage())] {
            Some((shards, sum)) => {
                shards.add(path, shard, &part.stage)?;
                sum.merge(&part);
            }
            none => *none = Some((StageShards::new(path, shard, part.stage.clone()), part)),
        }
    }
    let complete = |(shards, sum): (StageShards<'_>, Observation)| shards.ensure_all_shards().map(|()| sum);
    let [first, after] = stages.map(|stage| stage.map(complete).transpose());
    match (first?, after?) {
        (None, None) => {
            Err(anyhow!("no shard is there yet").hint("run them, or name their partials")).class(ErrorClass::Incomplete)
        }
        (None, Some(_)) => Err(anyhow!("the sums that these were run after are missing")
            .hint("name the file that --after was given as well")),
        (Some(first), None) => Ok(first),
        (Some(mut first), Some(after)) => {
            let digest = first.digest()?;
            ensure!(
                matches!(&after.stage, Stage::After { sums, .. } if *sums == digest),
                anyhow!("the partials of the second stage were run after other sums")
                    .hint("name the file that --after was given")
            );
            first.add_second_stage(after);
            Ok(first)
        }
    }
}
