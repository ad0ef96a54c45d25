//! `headscope analyze --resume`: a run in parts, each kept when it is done, so that one that is cut off goes on where it was.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::observe::Ready;
use crate::passes::identity::Identity;
use crate::passes::observation::Observation;
use crate::passes::partial;
use crate::sequences::shard::Shard;
use crate::studies::plan::Plan;
use crate::studies::policy::Policy;
use crate::system::failure::{Class, Classify};
use crate::system::output::Output;
use crate::system::terminal::say;

/// The parts of a run: when it is cut off, a sixteenth of the work is lost at most. Each reads the corpus, and works out what
/// stands for removed heads, once more.
const PARTS: u32 = 16;

/// Observes a corpus part by part, but for the parts that are in `folder` already, and leaves each of the others there.
///
/// # Errors
///
/// If the folder cannot be used, has a part of another run, or the corpus or the model cannot be used.
pub fn observe(ready: &mut Ready<'_>, folder: &Path, policy: &Policy) -> Result<Observation> {
    fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder `{}`", folder.display()))
        .class(Class::Output)?;
    let identity = ready.identity()?;
    let mut whole: Option<Observation> = None;
    let mut taken = 0;
    for number in 1..=PARTS {
        let shard = Shard::try_from((number, PARTS)).map_err(anyhow::Error::msg)?;
        let path = folder.join(format!("{number}-of-{PARTS}.{}", partial::EXTENSION));
        let part = if path.exists() {
            taken += 1;
            read(&path, shard, &identity).class(Class::Input)?
        } else {
            let mut output = Output::open(&path)?;
            let part = ready.observe(shard, policy)?;
            output.write(&partial::render(shard, &part)?)?;
            output.commit()?;
            part
        };
        match &mut whole {
            Some(whole) => whole.merge(&part),
            None => whole = Some(part),
        }
    }
    if taken > 0 {
        say(&format!("{taken} of {PARTS} parts were in `{}` already", folder.display()));
    }
    whole.context("a run has parts")
}

/// Reads a part of this run.
fn read(path: &Path, shard: Shard, identity: &Identity) -> Result<Observation> {
    let shown = path.display();
    let (found, part) = partial::read(path, &Plan::restore)?;
    if let Some(difference) = part.identity.difference(identity) {
        bail!(
            "`{shown}` is a part of another run: {difference} (now). Give --resume another folder, or remove this one"
        );
    }
    if found != shard {
        bail!("`{shown}` is shard {found}, not {shard}: remove it");
    }
    Ok(part)
}
