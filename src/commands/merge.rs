//! `headscope merge`: the partials of all shards, to the report of one run over everything.

use anyhow::Result;

use super::conclude::conclude;
use super::options::MergeOptions;
use super::outputs;
use crate::passes::merge;
use crate::studies::plan::Plan;
use crate::system::failure::{Class, Classify};

/// Adds up the partials of all shards and writes what one run over everything would have written.
///
/// # Errors
///
/// If a partial cannot be used, they are not all of one whole, or an output cannot be written.
pub fn merge(options: &MergeOptions) -> Result<()> {
    let outputs = outputs::open(&options.report.outputs)?;
    let policy = options.report.policy.policy()?;
    let mut observation = merge::all(&options.parts, &Plan::restore).class(Class::Input)?;
    options.report.policy.ensure_measured(&observation.identity.protocol.studies)?;
    observation.run = observation.run.filter(|_| options.run_info);
    conclude(observation, policy, outputs, &options.report).map(drop)
}
