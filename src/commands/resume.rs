//! `headscope analyze --resume`: a run in parts, each kept when it is done, so that one that is cut off goes on where it was.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use super::observe::Ready;
use crate::passes::identity::Identity;
use crate::passes::observation::{Observation, Stage};
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
    let mut parts = Parts { folder, identity, taken: 0, made: 0 };
    let mut whole = parts.all(false, |shard| ready.first(shard))?;
    if whole.stage == Stage::First && whole.tally.sentences > 0 {
        let digest = whole.digest()?;
        let after = parts.all(true, |shard| ready.follow(shard, &whole, digest.clone(), policy))?;
        ensure!(
            matches!(&after.stage, Stage::After { sums, .. } if *sums == digest),
            "the parts in `{}` that of the second stage were run after other sums: remove them",
            folder.display()
        );
        whole.followed_by(after);
    }
    let Parts { taken, made, .. } = parts;
    if taken > 0 {
        say(&format!("{taken} of {} parts were in `{}` already", taken + made, folder.display()));
    }
    Ok(whole)
}

/// The parts of a run in their folder.
struct Parts<'a> {
    folder: &'a Path,
    identity: Identity,
    taken: u32,
    made: u32,
}

impl Parts<'_> {
    /// The sum of all parts of a stage: each is read, or else observed and kept.
    fn all(&mut self, is_after: bool, mut observe: impl FnMut(Shard) -> Result<Observation>) -> Result<Observation> {
        let mut whole: Option<Observation> = None;
        for number in 1..=PARTS {
            let shard = Shard::try_from((number, PARTS)).map_err(anyhow::Error::msg)?;
            let path = self.folder.join(partial::file_name(shard, is_after));
            let part = if path.exists() {
                self.taken += 1;
                read(&path, shard, &self.identity).class(Class::Input)?
            } else {
                self.made += 1;
                let mut output = Output::open(&path)?;
                let part = observe(shard)?;
                output.write(&partial::render(shard, &part)?)?;
                output.commit()?;
                part
            };
            match &mut whole {
                Some(whole) if whole.stage != part.stage => {
                    bail!(
                        "`{}` was run after other sums, or by another policy, than those before it: remove it",
                        path.display()
                    )
                }
                Some(whole) => whole.merge(&part),
                None => whole = Some(part),
            }
        }
        whole.context("a run has parts")
    }
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
