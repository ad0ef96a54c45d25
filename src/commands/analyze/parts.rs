//! Parts of a run in a folder: what is there, and whether it is of this run.

use std::fs;
use std::path::Path;

use anyhow::Result;

use crate::passes::observation::Stage;
use crate::passes::observation::identity::Identity;
use crate::passes::observation::partial;
use crate::passes::observation::partial::{Damaged, Header};
use crate::sequences::shard::Shard;
use crate::system::errors::{Class, Facts};
use crate::system::terminal::say;

/// Makes the folder of the parts, if it is not there.
/// Fails if it cannot be made.
pub fn make_folder(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).cannot("make the folder", folder.display()).class(Class::Output)
}

/// The header of the part that is at `path`, if there is a whole one; of one that is not whole it is said that its shard is run
/// again.
/// Fails if what is there cannot be read or is no part.
pub fn earlier(path: &Path, shard: Shard) -> Result<Option<Header>> {
    match partial::earlier_header(path) {
        Err(error) if Damaged::is(&error) => {
            say(&format!("`{}` is damaged or cut short: shard {shard} is run again", path.display()));
            Ok(None)
        }
        read => read,
    }
}

/// The identity of a part.
pub struct Wanted<'a> {
    /// The number of the part.
    pub shard: Shard,
    /// The stage of its passes.
    pub stage: &'a Stage,
    /// The identity of the analysis: its corpus, its model, its program and its settings.
    pub identity: &'a Identity,
}

impl Wanted<'_> {
    /// The first thing that a part has otherwise, to follow its name.
    pub fn difference(&self, part: &Header) -> Option<String> {
        if part.shard != self.shard {
            return Some(format!("is shard {} and not {}", part.shard, self.shard));
        }
        if let Some(difference) = part.identity.difference(self.identity) {
            return Some(format!("is of another analysis: {difference} (now)"));
        }
        match (&part.stage, self.stage) {
            (found, wanted) if found == wanted => None,
            (Stage::After { sums, .. }, Stage::After { sums: wanted, .. }) if sums == wanted => {
                Some("was run with labels by another policy (--policy, --preset, --min-count)".to_owned())
            }
            (Stage::After { .. }, Stage::After { .. }) => Some("was run after other sums".to_owned()),
            _ => Some("is of the other of two stages".to_owned()),
        }
    }
}
