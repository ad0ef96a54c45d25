//! Saves the sums of a part of a run to a file, as soon as the part is finished. A part is one shard of the corpus.
//! The user asks for one shard (`--shard`), or for a folder in which all 16 shards are saved in turn (`--resume`).

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, ensure};
use itertools::Itertools as _;

use super::options::PartialOptions;
use crate::commands::reporting::make_folder;
use crate::evaluation::plan::Plan;
use crate::passes::observation::identity::Identity;
use crate::passes::observation::partial::{self, DamagedPartial, Header};
use crate::passes::observation::{Observation, Stage};
use crate::sequences::shard::Shard;
use crate::system::counts::{format_count, plural};
use crate::system::errors::{ErrorClass, ErrorExt};
use crate::system::files::output::Output;
use crate::system::interrupt;
use crate::system::terminal::print_to_stderr;

/// Reads the header of the part saved at `path`; `None` if there is no part, or the part is damaged.
/// Prints a note that a damaged part is run again.
fn read_earlier_header(path: &Path, shard: Shard) -> Result<Option<Header>> {
    match partial::previous_header(path) {
        Err(error) if DamagedPartial::is_cause_of(&error) => {
            print_to_stderr(&format!("`{}` is damaged or cut short: shard {shard} is run again", path.display()));
            Ok(None)
        }
        read => read,
    }
}

/// Text on how a saved part first differs from the wanted shard, stage and analysis, as `is shard 2/4 and not 3/4`.
/// Returns `None` if there is no difference.
fn first_difference(part: &Header, shard: Shard, stage: &Stage, identity: &Identity) -> Option<String> {
    if part.shard != shard {
        return Some(format!("is shard {} and not {shard}", part.shard));
    }
    if let Some(difference) = part.identity.first_difference(identity) {
        return Some(format!("is of another analysis: {difference} (now)"));
    }
    match (&part.stage, stage) {
        (stage_of_part, wanted) if stage_of_part == wanted => None,
        (Stage::After { sums, .. }, Stage::After { sums: wanted, .. }) if sums == wanted => {
            Some("was run with labels by another policy (--policy, --preset, --min-count)".to_owned())
        }
        (Stage::After { .. }, Stage::After { .. }) => Some("was run after other sums".to_owned()),
        _ => Some("is of the other of two stages".to_owned()),
    }
}

/// File to which a shard is written, with the header of the part that an earlier run left there.
pub struct ShardFile<'a> {
    /// Wanted shard, and the path of its file.
    wanted_shard: &'a PartialOptions,
    /// Header of the part that an earlier run left in the file; `None` without a readable part.
    earlier_header: Option<Header>,
    pub output: Output,
}

impl<'a> ShardFile<'a> {
    /// Opens the output file of a shard, and keeps the header of a part that an earlier run left in the file.
    /// Creates a missing folder of parts.
    /// Fails if the file cannot be written. In a folder of parts, fails also if an existing file is no part.
    pub fn open(wanted: &'a PartialOptions) -> Result<Self> {
        let PartialOptions { shard, path, is_in_folder: in_folder, .. } = wanted;
        if let Some(folder) = path.parent().filter(|_| *in_folder) {
            make_folder(folder)?;
        }
        let earlier = match read_earlier_header(path, *shard) {
            // Any other existing file is replaced, if the user named it.
            Err(_) if !in_folder => None,
            read => read.class(ErrorClass::Output)?,
        };
        Ok(Self { wanted_shard: wanted, earlier_header: earlier, output: Output::open(path)? })
    }

    /// Whether this shard of this stage and run is saved already.
    /// Fails if, in a folder of parts, the saved file is a part of another run.
    pub fn is_saved(&self, stage: &Stage, identity: impl FnOnce() -> Result<Identity>) -> Result<bool> {
        let Some(earlier) = &self.earlier_header else { return Ok(false) };
        let PartialOptions { shard, path, is_in_folder: in_folder, .. } = self.wanted_shard;
        let difference = first_difference(earlier, *shard, stage, &identity()?);
        match &difference {
            Some(difference) if *in_folder => {
                let shown = path.display();
                Err(anyhow!("`{shown}` {difference}").with_file(shown))
                    .hint("remove it, or name another folder")
                    .class(ErrorClass::Output)
            }
            _ => Ok(difference.is_none()),
        }
    }
}

/// Number of parts into which each stage of a run is divided: an interruption loses at most a sixteenth of the work.
/// Each part reads the corpus again and recomputes the replacements of removed heads.
const PARTS_PER_STAGE: u32 = 16;

/// Folder with the parts of a run, for one run at a time (`--resume`).
pub struct PartsFolder<'a> {
    folder: &'a Path,
    /// Identity of the run to which the parts must belong.
    identity: Identity,
    /// Number of parts that were read from their files.
    reused_count: u32,
    /// Number of parts that this process computed.
    computed_count: u32,
}

impl<'a> PartsFolder<'a> {
    /// Opens a folder of parts for a run with this identity; creates the folder if missing.
    /// Fails if the folder cannot be created, or the identity cannot be computed.
    pub fn open(folder: &'a Path, identity: impl FnOnce() -> Result<Identity>) -> Result<Self> {
        make_folder(folder)?;
        Ok(Self { folder, identity: identity()?, reused_count: 0, computed_count: 0 })
    }

    /// Prints how many parts of this run were saved by an earlier process; prints nothing if there are none.
    pub fn print_reused_count(&self) {
        let Self { folder, reused_count: reused, computed_count: computed, .. } = self;
        if *reused > 0 {
            let (parts, were) = (format_count(reused + computed, "part"), plural(reused, "was", "were"));
            print_to_stderr(&format!("{reused} of {parts} {were} in `{}` already", folder.display()));
        }
    }

    /// Returns the sums of a stage, added up over its parts.
    /// Reads saved parts; calls `observe` for missing parts and saves them.
    /// Fails if a part cannot be used or is of another run, or an observation fails.
    pub fn observe_all_parts(
        &mut self,
        stage: &Stage,
        mut observe: impl FnMut(Shard) -> Result<Observation>,
    ) -> Result<Observation> {
        let mut sum: Option<Observation> = None;
        let places = self.list_parts(stage)?;
        let mut saved_count = places.iter().filter(|(.., is_saved)| *is_saved).count();
        for (shard, path, is_saved) in places {
            self.set_interrupt_message(saved_count, stage);
            let part = if is_saved {
                self.reused_count += 1;
                self.read_part(&path, stage).class(ErrorClass::Input)?
            } else {
                self.computed_count += 1;
                let output = Output::open(&path)?;
                let part = observe(shard)?;
                self.identity.corpus.ensure_same(&part.identity.corpus)?;
                output.finish(&partial::serialize(shard, &part)?)?;
                saved_count += 1;
                part
            };
            match &mut sum {
                Some(sum) => sum.merge(&part),
                None => sum = Some(part),
            }
        }
        self.set_interrupt_message(saved_count, stage);
        sum.context("a run has parts")
    }

    /// Sets the message for an interruption of the run, which says how many parts of the stage are saved.
    fn set_interrupt_message(&self, saved_count: usize, stage: &Stage) {
        let stage_in_words = match stage {
            Stage::Whole | Stage::Followed { .. } => "",
            Stage::First => " of the first stage",
            Stage::After { .. } => " of the second stage",
        };
        let (folder, are) = (self.folder.display(), plural(&saved_count, "is", "are"));
        interrupt::set_interrupt_message(
            format!("{saved_count} of {PARTS_PER_STAGE} parts{stage_in_words} {are} in `{folder}`"),
            "the same command goes on with the others",
        );
    }

    /// Lists every part of a stage: its shard, its path, and whether it is saved.
    /// Fails if the folder has a part of another run.
    fn list_parts(&self, stage: &Stage) -> Result<Vec<(Shard, PathBuf, bool)>> {
        let (mut places, mut unfit) = (Vec::new(), Vec::new());
        for number in 1..=PARTS_PER_STAGE {
            let shard = Shard::try_from((number, PARTS_PER_STAGE)).map_err(anyhow::Error::msg)?;
            let name = partial::file_name(shard, stage.is_second_stage());
            let path = self.folder.join(&name);
            let earlier = read_earlier_header(&path, shard).class(ErrorClass::Input)?;
            let difference = earlier.as_ref().and_then(|part| first_difference(part, shard, stage, &self.identity));
            unfit.extend(difference.map(|difference| (name, difference)));
            places.push((shard, path, earlier.is_some()));
        }
        let Some((name, difference)) = unfit.first() else { return Ok(places) };
        let shown = self.folder.join(name);
        let names = unfit.iter().map(|(name, _)| name.as_str()).join(", ");
        let count =
            if unfit.len() > 1 { format!("{} parts are not of this run: ", unfit.len()) } else { String::new() };
        let error = anyhow!("{count}`{}` {difference}", shown.display()).with_file(shown.display());
        let error = error.hint(format!("remove {names}, or give --resume another folder or the options of then"));
        Err(error.class(ErrorClass::Input))
    }

    /// Reads a saved part. Fails if the part changed after its header was checked.
    fn read_part(&self, path: &Path, stage: &Stage) -> Result<Observation> {
        let (_, part) = partial::read(path, &Plan::restore)?;
        ensure!(
            part.stage == *stage && part.identity == self.identity,
            anyhow!("`{}` changed while the run went on", path.display())
                .with_file(path.display())
                .hint("run again when no other writes to the folder")
        );
        Ok(part)
    }
}
