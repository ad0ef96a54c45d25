//! `headscope analyze`: a model over a corpus, to a report, or to the partial of one shard.

pub mod observe;
pub mod options;
mod parts;
mod resume;

use std::path::Path;

use anyhow::{Result, anyhow};

use super::merge;
use super::reporting::outputs;
use super::reporting::write_report::write_report;
use crate::export::summary;
use crate::passes::observation::partial;
use crate::passes::observation::partial::Header;
use crate::passes::observation::{Observation, Stage};
use crate::sequences::shard::Shard;
use crate::system::errors::{Class, Facts};
use crate::system::files::output::Output;
use crate::system::terminal::{print, say};
use observe::{Loaded, Ready};
use options::{AnalyzeOptions, Outcome};
use parts::Wanted;

/// Runs a model over a corpus and writes what each head does, or what one shard adds to that.
/// Fails if the model, the corpus or an output cannot be used; each error says which and what to do.
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
            write_report(observation, policy, outputs, wanted).map(drop)
        }
        Outcome::Partial { shard, path, in_folder, after, policy, summary } => {
            let earlier = earlier(*shard, path, *in_folder).class(Class::Output)?;
            let mut output = Output::open(path)?;
            let (loaded, corpus) = Loaded::with_corpus(options)?;
            let mut ready = Ready::new(options, &loaded, corpus)?;
            let first = after.as_ref().map(|after| read_first(&ready, after)).transpose()?;
            let first =
                first.map(|first| Ok::<_, anyhow::Error>((first.digest()?, policy.policy()?, first))).transpose()?;
            if let Some(earlier) = earlier {
                let stage = match &first {
                    None => ready.first_stage(),
                    Some((sums, policy, _)) => Stage::After { sums: sums.clone(), policy: policy.digest() },
                };
                let wanted = Wanted { shard: *shard, stage: &stage, identity: &ready.identity()? };
                match wanted.difference(&earlier) {
                    None => {
                        say(&format!("shard {shard} of this analysis is in `{}` already", path.display()));
                        return Ok(());
                    }
                    Some(difference) if *in_folder => {
                        let shown = path.display();
                        return Err(anyhow!("`{shown}` {difference}").about(shown))
                            .hint("remove it, or name another folder")
                            .class(Class::Output);
                    }
                    Some(_) => {}
                }
            }
            let observation = match first {
                None => ready.first(*shard)?,
                Some((sums, policy, first)) => ready.follow(*shard, &first, sums, &policy)?,
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

/// The header of the partial that is at `path` already, if that is whole; of a folder of parts that is made if it is not there.
fn earlier(shard: Shard, path: &Path, in_folder: bool) -> Result<Option<Header>> {
    if let Some(folder) = path.parent().filter(|_| in_folder) {
        parts::make_folder(folder)?;
    }
    match parts::earlier(path, shard) {
        // Any other existing file is replaced, if the user named it.
        Err(_) if !in_folder => Ok(None),
        read => read,
    }
}

/// Reads the sums that shards are run after, which are of this run.
fn read_first(ready: &Ready<'_>, after: &Path) -> Result<Observation> {
    let first = merge::read_first(after).class(Class::Input)?;
    if let Some(difference) = first.identity.difference(&ready.identity()?) {
        let shown = after.display();
        let other = anyhow!("--after `{shown}`: it is of another run: {difference} (now)");
        return Err(other.about(shown).class(Class::Input));
    }
    Ok(first)
}
