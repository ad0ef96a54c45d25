//! `headscope merge`: the partials of all shards, to the report of one run over everything, or to the partial that such a run
//! would write.

use anyhow::{Result, ensure};

use super::conclude::conclude;
use super::options::{MergeOptions, Merged};
use super::outputs;
use crate::passes::observation::{Observation, Stage};
use crate::passes::{merge, partial};
use crate::sequences::shard::Shard;
use crate::studies::plan::Plan;
use crate::system::failure::{Class, Classify};
use crate::system::output::Output;

/// Adds up the partials of all shards and writes what one run over everything would have written.
///
/// # Errors
///
/// If a partial cannot be used, they are not all of one whole, or an output cannot be written.
pub fn merge(options: &MergeOptions) -> Result<()> {
    match &options.outcome {
        Merged::Report(wanted) => {
            let outputs = outputs::open(&wanted.outputs)?;
            let policy = wanted.policy.policy()?;
            let observation = whole(options)?;
            ensure!(
                observation.stage.is_whole(),
                "these are partials of the first of two stages: merge them into one, `-o merged.{}`, and run each shard again with \
                 `--after` it",
                partial::EXTENSION
            );
            wanted.policy.ensure_measured(&observation.identity.protocol.studies)?;
            conclude(observation, policy, outputs, wanted).map(drop)
        }
        Merged::Partial(path) => {
            let mut output = Output::open(path)?;
            output.write(&partial::render(Shard::WHOLE, &whole(options)?)?)?;
            output.commit()
        }
    }
}

fn whole(options: &MergeOptions) -> Result<Observation> {
    let mut observation = merge::all(&options.parts, &Plan::restore).class(Class::Input)?;
    observation.run = observation.run.filter(|_| options.run_info);
    Ok(observation)
}

/// Reads the sums that shards are run after.
///
/// # Errors
///
/// If it is no partial of a whole first stage.
pub fn read_first(path: &std::path::Path) -> Result<Observation> {
    let shown = path.display();
    let (shard, first) = partial::read(path, &Plan::restore)?;
    ensure!(
        first.stage == Stage::First,
        "--after `{shown}`: no shard is run after it, it is no partial of the first of two stages"
    );
    ensure!(
        shard == Shard::WHOLE,
        "--after `{shown}`: it is shard {shard}: merge all shards first, `headscope merge PART... -o merged.{}`",
        partial::EXTENSION
    );
    Ok(first)
}
