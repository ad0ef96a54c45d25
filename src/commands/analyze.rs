//! `headscope analyze`: a model over a corpus, to a report, or to the partial of one shard.

use anyhow::Result;

use super::conclude::conclude;
use super::observe::{Loaded, Ready};
use super::options::{AnalyzeOptions, Outcome};
use super::{outputs, resume};
use crate::export::summary;
use crate::passes::partial;
use crate::sequences::shard::Shard;
use crate::studies::all;
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
                None => ready.observe(Shard::WHOLE, &policy)?,
                Some(folder) => resume::observe(&mut ready, folder, &policy)?,
            };
            conclude(observation, policy, outputs, wanted).map(drop)
        }
        Outcome::Partial { shard, path, summary } => {
            let mut output = Output::open(path)?;
            let (loaded, corpus) = Loaded::with_corpus(options)?;
            let observation = Ready::new(options, &loaded, corpus)?.observe(*shard, &all::default_policy())?;
            output.write(&partial::render(*shard, &observation)?)?;
            output.commit()?;
            if *summary {
                print(&summary::of_shard(*shard, &observation))?;
            }
            Ok(())
        }
    }
}
