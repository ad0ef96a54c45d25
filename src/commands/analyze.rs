//! `headscope analyze`: a model over a corpus, to a report, or to the partial of one shard.

use std::path::Path;

use anyhow::{Result, anyhow};

use super::conclude::conclude;
use super::observe::{Loaded, Ready};
use super::options::{AnalyzeOptions, Outcome};
use super::{merge, outputs, resume};
use crate::export::summary;
use crate::passes::observation::Observation;
use crate::passes::partial;
use crate::sequences::shard::Shard;
use crate::studies::policy::Policy;
use crate::system::failure::{Class, Classify};
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
            let (loaded, corpus) = Loaded::with_corpus(options)?;
            let mut ready = Ready::new(options, &loaded, corpus)?;
            let observation = match parts {
                None => ready.observe(&policy)?,
                Some(folder) => resume::observe(&mut ready, folder, &policy)?,
            };
            conclude(observation, policy, outputs, wanted).map(drop)
        }
        Outcome::Partial { shard, path, after, policy, summary } => {
            let mut output = Output::open(path)?;
            let (loaded, corpus) = Loaded::with_corpus(options)?;
            let mut ready = Ready::new(options, &loaded, corpus)?;
            let observation = match after {
                None => ready.first(*shard)?,
                Some(after) => follow(&mut ready, *shard, after, &policy.policy()?)?,
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
fn follow(ready: &mut Ready<'_>, shard: Shard, after: &Path, policy: &Policy) -> Result<Observation> {
    let first = merge::read_first(after).class(Class::Input)?;
    if let Some(difference) = first.identity.difference(&ready.identity()?) {
        let shown = after.display();
        return Err(anyhow!("--after `{shown}`: it is of another run: {difference} (now)")).class(Class::Input);
    }
    ready.follow(shard, &first, first.digest()?, policy)
}
