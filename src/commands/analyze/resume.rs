//! `headscope analyze --resume`: a run in parts, each kept when it is done, so that one that is cut off goes on where it was.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, ensure};

use super::observe::Ready;
use super::parts::{self, Wanted};
use crate::evaluation::plan::Plan;
use crate::passes::observation::identity::Identity;
use crate::passes::observation::partial;
use crate::passes::observation::{Observation, Stage};
use crate::sequences::shard::Shard;
use crate::study::labels::policy::Policy;
use crate::system::counted::{counted, plural};
use crate::system::errors::{Class, Facts};
use crate::system::files::output::Output;
use crate::system::terminal::say;

/// The number of parts of a run: an interruption loses at most a sixteenth of the work. Each part reads the corpus, and
/// computes the replacement of removed heads, once more.
const PARTS: u32 = 16;

/// Observes a corpus part by part, but for the parts that are in `folder` already, and leaves each of the others there.
/// Fails if the folder cannot be used, has a part of another run, or the corpus or the model cannot be used.
pub fn observe(ready: &mut Ready<'_>, folder: &Path, policy: &Policy) -> Result<Observation> {
    parts::make_folder(folder)?;
    let (identity, stage) = (ready.identity()?, ready.first_stage());
    let mut parts = Parts { folder, identity, taken: 0, made: 0 };
    let mut whole = parts.all(&stage, |shard| ready.first(shard))?;
    if whole.stage == Stage::First && whole.tally.sentences > 0 {
        let sums = whole.digest()?;
        let stage = Stage::After { sums: sums.clone(), policy: policy.digest() };
        let after = parts.all(&stage, |shard| ready.follow(shard, &whole, sums.clone(), policy))?;
        whole.followed_by(after);
    }
    let Parts { taken, made, .. } = parts;
    if taken > 0 {
        let (parts, were) = (counted(taken + made, "part"), plural(&taken, "was", "were"));
        say(&format!("{taken} of {parts} {were} in `{}` already", folder.display()));
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

/// The place of a part.
struct Place {
    shard: Shard,
    path: PathBuf,
    /// Whether the part is there, as this run makes it.
    is_there: bool,
}

impl Parts<'_> {
    /// The sum of all parts of a stage: each is read, or else observed and kept.
    fn all(&mut self, stage: &Stage, mut observe: impl FnMut(Shard) -> Result<Observation>) -> Result<Observation> {
        let mut whole: Option<Observation> = None;
        for Place { shard, path, is_there } in self.places(stage)? {
            let part = if is_there {
                self.taken += 1;
                self.read(&path, stage).class(Class::Input)?
            } else {
                self.made += 1;
                let mut output = Output::open(&path)?;
                let part = observe(shard)?;
                self.identity.corpus.ensure_same(&part.identity.corpus)?;
                output.write(&partial::render(shard, &part)?)?;
                output.commit()?;
                part
            };
            match &mut whole {
                Some(whole) => whole.merge(&part),
                None => whole = Some(part),
            }
        }
        whole.context("a run has parts")
    }

    /// The places of all parts of a stage, in which there are parts of this run or none.
    fn places(&self, stage: &Stage) -> Result<Vec<Place>> {
        let (mut places, mut unfit) = (Vec::new(), Vec::new());
        for number in 1..=PARTS {
            let shard = Shard::try_from((number, PARTS)).map_err(anyhow::Error::msg)?;
            let name = partial::file_name(shard, stage.is_after());
            let path = self.folder.join(&name);
            let earlier = parts::earlier(&path, shard).class(Class::Input)?;
            let wanted = Wanted { shard, stage, identity: &self.identity };
            unfit
                .extend(earlier.as_ref().and_then(|part| wanted.difference(part)).map(|difference| (name, difference)));
            places.push(Place { shard, path, is_there: earlier.is_some() });
        }
        let Some((name, difference)) = unfit.first() else { return Ok(places) };
        let shown = self.folder.join(name);
        let names = unfit.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
        let count =
            if unfit.len() > 1 { format!("{} parts are not of this run: ", unfit.len()) } else { String::new() };
        let error = anyhow!("{count}`{}` {difference}", shown.display()).about(shown.display());
        let error = error.hint(format!("remove {names}, or give --resume another folder or the options of then"));
        Err(error.class(Class::Input))
    }

    /// Reads a part that was of this run when it was looked at.
    fn read(&self, path: &Path, stage: &Stage) -> Result<Observation> {
        let (_, part) = partial::read(path, &Plan::restore)?;
        let is_same = part.stage == *stage && part.identity == self.identity;
        ensure!(
            is_same,
            anyhow!("`{}` changed while the run went on", path.display())
                .about(path.display())
                .hint("run again when no other writes to the folder")
        );
        Ok(part)
    }
}
