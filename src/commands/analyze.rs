//! `headscope analyze`: a model over a corpus, to a report, or to the partial of one shard.

use std::path::Path;

use anyhow::{Result, bail};

use super::conclude::conclude;
use super::observe::Ready;
use super::options::{AnalyzeOptions, Outcome};
use super::{merge, outputs, resume};
use crate::export::summary;
use crate::passes::observation::Observation;
use crate::passes::partial;
use crate::sequences::shard::Shard;
use crate::studies::policy::Policy;
use crate::system::output::Output;
use crate::system::terminal::print;

/// Runs a model over a corpus and writes what each head does, or what one shard adds to that.
///
/// # Errors
///
/// If the model, the corpus or an output cannot be used; each error says which and what to do.
pub fn analyze(options: &AnalyzeOptions) -> Result<()> {
    match &options.outcome {
        Outcome::Report { wanted, parts } => {
            let outputs = outputs::open(&wanted.outputs)?;
            let policy = wanted.policy.policy()?;
            let mut ready = Ready::new(options)?;
            let observation = match parts {
                None => ready.observe(&policy)?,
                Some(folder) => resume::observe(&mut ready, folder, &policy)?,
            };
            conclude(observation, policy, outputs, wanted)
        }
        Outcome::Partial { shard, path, after, policy, summary } => {
            let mut output = Output::open(path)?;
            let observation = match after {
                None => Ready::new(options)?.first(*shard)?,
                Some(after) => follow(options, *shard, after, &policy.policy()?)?,
            };
            output.write(&partial::render(*shard, &observation)?)?;
            output.commit()?;
            if *summary {
                print(&summary::of_shard(*shard, &observation))?;
            }
            Ok(())
        }
    }
}

/// Observes a shard in the passes that follow those of a file.
fn follow(options: &AnalyzeOptions, shard: Shard, after: &Path, policy: &Policy) -> Result<Observation> {
    let first = merge::read_first(after)?;
    let mut ready = Ready::new(options)?;
    if let Some(difference) = first.identity.difference(&ready.identity()?) {
        bail!("--after `{}`: it is of another run: {difference} (now)", after.display());
    }
    ready.follow(shard, &first, first.digest()?, policy)
}
